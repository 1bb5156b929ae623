//! The sharded, concurrent pigeonhole index: which stored hashes lie within Hamming distance k of this one.
//!
//! It holds distinct hashes and nothing else, answers exactly for every k from 0 to the width, and does
//! so while hashes come and go. `plan` decides what to probe, `table` files hashes under their blocks,
//! `sharded` puts the tables behind locks, `probe` reads them, and `scan` is what all of it must equal.
//!
//! *Absent*: documents, disks, ranking, approximation.

mod erased;
mod plan;
mod probe;
mod scan;
mod sharded;
mod table;

pub use erased::{HashIndex, of_width};
pub use plan::Plan;
pub use probe::Touched;
pub use scan::{Neighbour, scan};
pub use sharded::{Index, Report};
