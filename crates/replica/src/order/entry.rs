//! An entry of the shared log: a command, and which server appended it when.
//!
//! ```text
//! u8 layout   u64 XXH3 of the rest   u32 length of the body, zstd of the body in postcard
//! ```
//!
//! The body has the origin (the start of a server that appended the entry), the number that the origin gave
//! to it, the time of the origin, and the command.
//!
//! *Absent*: what a command says (`lookalike-engine`).

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;
use zstd::bulk::{compress, decompress};

use lookalike_engine::Payload;

/// The layout that is written. Readers refuse a later one.
const LAYOUT: u8 = 1;
/// Of zstd: half again as fast as 3, for a tenth more bytes.
const LEVEL: i32 = 1;
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
        let length = u32::try_from(body.len()).expect("a command is far shorter").to_le_bytes();
        let packed = compress(&body, LEVEL).expect("memory can be compressed into memory");
        let packed = [&length[..], &packed].concat();
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
        let (length, packed) = packed.split_first_chunk().ok_or(EntryError::Damaged("its length"))?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_BODY {
            return Err(EntryError::Damaged("its length"));
        }
        let body = decompress(packed, length).map_err(|_| EntryError::Damaged("its compression"))?;
        postcard::from_bytes(&body).map_err(|_| EntryError::Damaged("its body"))
    }
}
