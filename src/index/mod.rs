//! The sharded, concurrent pigeonhole index: which stored hashes lie within Hamming distance k of this one.
//!
//! It holds distinct hashes and nothing else, answers exactly for every k from 0 to the width, and does so
//! while hashes come and go. `plan` decides where to look, `layout` how hashes are cut into blocks, `table`
//! and `segment` file few hashes by a block, `buckets` and `shard` many, `block` says in which form,
//! `sharded` puts tables together for readers and writers, `probe` and `batch` read them, `bulk` builds them
//! at once, `memory` is the machine under them, and `scan` is what all of it must equal. `bands` are the same
//! tables (`band_table`) for signatures, of which they find those that agree in a band, not all that are
//! near.
//!
//! *Absent*: documents, disks, ranking.
#![allow(
    clippy::inline_always,
    reason = "a run is compared in nanoseconds, and for each kind of machine anew"
)]

mod band_table;
mod bands;
mod batch;
mod block;
mod buckets;
mod bulk;
mod erased;
mod layout;
mod memory;
mod model;
mod plan;
mod probe;
mod progress;
mod scan;
mod segment;
mod shard;
mod sharded;
mod table;

pub use bands::Bands;
pub use batch::{GROUP, Pair};
pub use block::Filed;
pub use bulk::{BadRun, Runs};
pub use erased::{HashIndex, Subject, index_for, of_width};
pub use memory::{Stay, stay};
pub use plan::Plan;
pub use probe::Touched;
pub use progress::Progress;
pub use scan::{Neighbour, scan};
pub use sharded::{Index, Report};
