//! Backups: a collection as a tar, written as it streams and read back whole or not at all.
//!
//! ```text
//! manifest.json                  what it is a backup of, and of which moment
//! documents/00000001.ndjson.gz   documents by id, some megabytes a part
//! …
//! end.json                       every part with its size, count and checksum, and the manifest's checksum
//! ```
//!
//! What is in it can be read with `tar`, `gunzip` and `jq`, without this program. It promises that a backup that
//! was cut, changed in any byte that counts, or made by something else is told from a good one, and that the
//! error names the entry and the byte. Drawn in `docs/formats.md`.
//!
//! *Absent*: where the documents come from and where they go, and any clock.

mod error;
mod format;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use error::BackupError;
pub use format::{LINE_BYTES, Manifest, Shape, Summary};
pub use reader::read;
pub use writer::Writer;
