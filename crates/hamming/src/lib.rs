//! The sharded, concurrent pigeonhole index: which stored hashes lie within Hamming distance k of a query.
//!
//! It holds distinct hashes and nothing else. It answers exactly for every k from 0 to the width, also while
//! hashes are inserted and removed.
//!
//! | module | contents |
//! |---|---|
//! | `plan` | which blocks to probe, and how far |
//! | `layout` | how hashes are cut into blocks |
//! | `table`, `segment` | the table of a block, for few hashes |
//! | `buckets`, `shard` | the table of a block, for many hashes |
//! | `block` | the stored form of a hash |
//! | `sharded` | the index: all tables, for readers and writers |
//! | `probe` | reading the tables |
//! | `pairs` | all near pairs of a list: a join instead of lookups |
//! | `bulk` | building all tables at once |
//! | `memory` | cache lines, prefetching, epochs and vector instructions |
//! | `scan` | the linear scan, which every answer must equal |
//! | `bands`, `band_table` | the same tables for signatures |
//!
//! `bands` finds the signatures that agree with a query in a band. It does not find all near signatures.
//!
//! *Absent*: documents, disks, ranking.

#![deny(unreachable_pub)]
#![allow(
    clippy::inline_always,
    reason = "a run is compared in nanoseconds, and the comparison is compiled once per instruction set"
)]

pub mod snapshot;

mod band_table;
mod bands;
mod block;
mod buckets;
mod bulk;
mod erased;
mod layout;
mod memory;
mod model;
mod pairs;
mod plan;
mod probe;
mod progress;
mod scan;
mod segment;
mod shard;
mod sharded;
mod table;

pub use lookalike_hash::{Hash, SignatureShape, U256, Width};

pub use bands::Bands;
pub use block::Filed;
pub use bulk::{BadRun, Runs};
pub use erased::{HashIndex, Subject, index_for, of_width};
pub use memory::{Form, Stay, stay};
pub use pairs::{NearPair, NearPairs, near_pairs};
pub use plan::Plan;
pub use probe::Touched;
pub use progress::Progress;
pub use scan::{Neighbour, scan};
pub use sharded::{GROUP, Index, Report};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
