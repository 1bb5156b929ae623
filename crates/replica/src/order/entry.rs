//! An entry of the shared log: a command, and which server appended it when.
//!
//! ```text
//! u8 layout   u64 XXH3 of the rest   (u32 length, LZ4 block of the body in postcard)
//! ```
//!
//! The body has the origin (the start of a server that appended the entry), the number that the origin gave
//! to it, the time of the origin, and the command.
//!
//! *Absent*: what a command says (`lookalike-engine`).

use bytes::Bytes;
use lz4_flex::block::{compress_prepend_size, decompress, uncompressed_size};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use lookalike_engine::Payload;

/// The layout that is written. Readers refuse a later one.
const LAYOUT: u8 = 1;
/// Maximum bytes of a body without compression. A damaged length must not take all memory.
const MAX_BODY: usize = 1 << 30;

/// An entry.
#[derive(Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The start of a server that appended it, as the bytes of a number.
    pub(super) origin: [u8; 16],
    /// Its number among the entries of the origin.
    pub(super) number: u64,
    /// The time of the origin, in milliseconds since 1970-01-01 UTC.
    pub(crate) time_ms: u64,
    pub(crate) payload: Payload,
}

/// Why bytes are not an entry.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// A later version of lookalike wrote it.
    #[error(
        "it has layout {0}, and this version reads layout {LAYOUT}: use the version of the other servers"
    )]
    Newer(u8),
    /// It does not have the form of an entry.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

impl Entry {
    /// What identifies it among all entries.
    pub(super) fn id(&self) -> ([u8; 16], u64) {
        (self.origin, self.number)
    }

    /// Its bytes.
    pub(super) fn to_bytes(&self) -> Bytes {
        let body = postcard::to_stdvec(self).expect("every part of an entry has a form in postcard");
        let packed = compress_prepend_size(&body);
        let checksum = xxh3_64(&packed).to_le_bytes();
        [&[LAYOUT][..], &checksum, &packed].concat().into()
    }

    /// Reads the bytes of [`Entry::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Entry, EntryError> {
        let (layout, rest) = bytes.split_first().ok_or(EntryError::Damaged("it is empty"))?;
        if *layout != LAYOUT {
            return Err(EntryError::Newer(*layout));
        }
        let (checksum, packed) = rest.split_first_chunk().ok_or(EntryError::Damaged("it is short"))?;
        if u64::from_le_bytes(*checksum) != xxh3_64(packed) {
            return Err(EntryError::Damaged("its checksum differs"));
        }
        let unpacked = uncompressed_size(packed).ok().filter(|(length, _)| *length <= MAX_BODY);
        let (length, packed) = unpacked.ok_or(EntryError::Damaged("its length"))?;
        let body = decompress(packed, length).map_err(|_| EntryError::Damaged("its compression"))?;
        postcard::from_bytes(&body).map_err(|_| EntryError::Damaged("its body"))
    }
}
