//! An index on disk. [`save`] and [`open`] are for one index in a file of its own. The rest is for programs
//! that record each change of their indexes: snapshots of several indexes, written while these are in use,
//! verified, loaded at start-up, and deleted when newer ones replace them.
//!
//! *Invariants*
//! - A snapshot plus the history after it is the index. A snapshot is written while writers are active, so
//!   it holds each hash in a state that the hash had at some time between the change `from`, when the
//!   snapshot was begun, and `through`, when it was complete. Changes are idempotent and state what a hash
//!   became. So a replay of the history after `from` brings every hash to its last state, whichever of its
//!   states the snapshot has.
//! - A file with the name of a snapshot is whole: it is written under another name, synced, read back and
//!   renamed. Every chunk has a checksum, and so has the file.
//! - Hashes are packed to 0.03 to 0.1 bits above their information (`gaps`). A reader trusts no byte: any
//!   input yields either an error with a place, or exactly the hashes that were written.
//! - A loss of every snapshot loses no data, only start-up time.
//!
//! *Absent*: documents, the history, and the decision when to take a snapshot.

mod error;
mod files;
mod format;
mod gaps;
mod load;
#[cfg(test)]
mod tests;

pub use error::SnapshotError;
pub use files::{Content, SnapshotFile, list, retain, save, set_aside, write};
pub use format::{Header, Section};
pub use load::{Ascending, Loaded, load, open};
