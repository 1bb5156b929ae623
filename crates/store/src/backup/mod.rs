//! Backups: a collection as a tar file, written as a stream, and read back whole or not at all.
//!
//! ```text
//! manifest.json                  what the backup contains, and the change up to which it does
//! documents/00000001.ndjson.gz   documents sorted by id, some megabytes in each part
//! …
//! marks/00000001.ndjson.gz       marks in their order, only if there are any
//! …
//! end.json                       every part with its size, count and checksum, and the manifest's checksum
//! ```
//!
//! `tar`, `gunzip` and `jq` can read a backup without this program. This module guarantees that a backup
//! that was truncated, changed in any significant byte, or made by another program is refused, and that the
//! error names the member and the byte. `docs/formats.md` documents the format.
//!
//! *Absent*: the source and the destination of the documents, and any clock.

mod error;
mod format;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use error::BackupError;
pub use format::{Item, LINE_BYTES, Manifest, Summary};
pub use reader::read;
pub use writer::Writer;
