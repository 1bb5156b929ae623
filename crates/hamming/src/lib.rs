//! An exact, live index of hashes: everything within Hamming distance k of a query, for every k from 0 to the
//! width, also while other threads insert and remove.
//!
//! - [`Index`] holds distinct hashes whose width the compiler knows: `Index<u64>`, `Index<u128>` and
//!   `Index<U256>`. [`HashIndex`] is the same for a width that is known at run time; [`of_width`] makes one.
//! - [`snapshot::save`] and [`snapshot::open`] keep an index in a file.
//! - [`near_pairs`] finds all near pairs of a list, faster than a lookup for each.
//! - [`Bands`] finds MinHash signatures that agree with a query in a band, which is not exact.
//!
//! ```
//! use lookalike_hamming::Index;
//!
//! let index = Index::<u64>::new();
//! index.insert_all([0b1011, 0b0000, u64::MAX]);
//! let mut found = Vec::new();
//! index.within(0b1000, 2, &mut found);
//! found.sort();
//! let found: Vec<_> = found.iter().map(|near| (near.distance, near.hash)).collect();
//! assert_eq!(found, [(1, 0b0000), (2, 0b1011)]);
//! ```
//!
//! # How it works
//! A hash is cut into blocks (`block`), each with a table (`bins`). Hashes within k of a query are within
//! k/blocks of it in some block (the pigeonhole principle), so a query reads a few runs of each table
//! (`bin`): sixteen hashes are compared at once. Tables of 256 bits have a part of each hash, and its number
//! in `rows`. `plan` chooses what to read by costs that are measured (`costs`), `probe` reads; if a scan of
//! all hashes costs less, it scans. `bulk` builds all tables at once. Readers take no lock; `sharded` proves
//! why every hash is found, and once. Every answer equals that of [`scan()`].
//!
//! *Absent*: documents, ranking, an approximate mode for hashes.

#![deny(unreachable_pub)]
#![allow(
    clippy::inline_always,
    reason = "a run is compared in nanoseconds, and the comparison is compiled once per instruction set"
)]

pub mod snapshot;

mod bands;
mod bin;
mod bins;
mod block;
mod bulk;
mod costs;
mod deeper;
mod ends;
mod erased;
mod many;
mod memory;
mod model;
mod pairs;
mod plan;
mod probe;
mod progress;
mod rows;
mod scan;
mod sharded;
mod tables;

pub use lookalike_hash::{Hash, SignatureShape, U256, Width};

pub use bands::{Bands, band_hash};
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
