//! The index on disk: written beside a running index, verified, loaded at start-up, retired.
//!
//! *Invariants*
//! - 5: a snapshot plus the log after it is the index. Snapshots are taken while writers are at work, so
//!   one holds each hash as it was at some moment between the change `from`, at which it was begun, and
//!   `through`, at which it was done. Changes are idempotent and say what a hash became, so replaying the
//!   log after `from` brings every hash to its last state, whichever of its states the snapshot caught.
//! - A file under a snapshot's name is whole: it is written under another name, synced, read back and
//!   renamed. Every chunk carries a checksum, and so does the file.
//! - Hashes are packed to some hundredths of a bit above the information in them (`gaps`), and what is read is
//!   trusted in nothing: any bytes give an error with a place, or the very hashes that were written.
//! - Losing every snapshot loses no data, only start-up time.
//!
//! *Absent*: documents, the log, and the decision when to take a snapshot.

mod error;
mod files;
mod format;
mod gaps;
mod load;
#[cfg(test)]
mod tests;

pub use error::SnapshotError;
pub use files::{Content, SnapshotFile, list, retain, set_aside, write};
pub use format::{Header, Section};
pub use load::{Ascending, Loaded, load};
