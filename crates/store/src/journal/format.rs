//! The bytes of a journal file, format 1. `docs/formats.md` documents them.
//!
//! ```text
//! header   "lkljrnl\n"  u32 format  u32 0  u64 store  u64 first record  u64 checksum of these
//! record   u32 length  u64 number  u64 seqno  u64 checksum of the payload  u64 checksum of these
//!          the payload
//! ```
//! Numbers are little-endian, checksums are XXH3 of 64 bits. The checksums of headers are seeded with the
//! id of the store, so a file of another store, or a text that looks like a record, is not mistaken for
//! a record. The bytes after the last record are zero, or the remains of a record that was never
//! acknowledged.
//!
//! *Absent*: files, and the order of records across files (the journal itself).

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of a file's header.
pub(super) const HEAD: usize = 40;
/// Bytes of a record's header.
pub(super) const RECORD: usize = 36;
const MAGIC: &[u8; 8] = b"lkljrnl\n";
const FORMAT: u32 = 1;

/// A record with correct checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) number: u64,
    pub(super) seqno: u64,
    pub(super) payload: &'a [u8],
    /// The offset of the next record.
    pub(super) end: usize,
}

/// The header of the file that begins with the record `first`.
pub(super) fn head(store: u64, first: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(store.to_le_bytes());
    bytes.extend(first.to_le_bytes());
    let checksum = xxh3_64_with_seed(&bytes, store);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// The number of the first record of a file, or what is wrong with the header.
pub(super) fn read_head(bytes: &[u8], store: u64) -> Result<u64, &'static str> {
    let Some(head) = bytes.get(..HEAD) else {
        return Err("it ends within its header");
    };
    if &head[..8] != MAGIC {
        return Err("it does not begin like a journal");
    }
    if u32_at(head, 8) != FORMAT {
        return Err("its format is unknown");
    }
    if u64_at(head, 16) != store {
        return Err("it belongs to another store");
    }
    if xxh3_64_with_seed(&head[..32], store) != u64_at(head, 32) {
        return Err("the checksum of its header differs");
    }
    Ok(u64_at(head, 24))
}

/// Appends a record to `out`.
pub(super) fn frame(out: &mut Vec<u8>, store: u64, number: u64, seqno: u64, payload: &[u8]) {
    let start = out.len();
    let length = u32::try_from(payload.len()).expect("a batch is bounded by the write queue");
    out.extend(length.to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend(seqno.to_le_bytes());
    out.extend(xxh3_64(payload).to_le_bytes());
    let checksum = xxh3_64_with_seed(&out[start..], store);
    out.extend(checksum.to_le_bytes());
    out.extend(payload);
}

/// The record at `at`; `None` if its checksums are wrong.
pub(super) fn record(bytes: &[u8], at: usize, store: u64) -> Option<Record<'_>> {
    let (number, length) = record_header(bytes, at, store)?;
    let payload = bytes.get(at + RECORD..at + RECORD + length)?;
    let whole = xxh3_64(payload) == u64_at(bytes, at + 20);
    whole.then(|| Record { number, seqno: u64_at(bytes, at + 12), payload, end: at + RECORD + length })
}

/// The offset, `from` or later, of a record header with a number of at least `least`. If there is one, the
/// bytes before it are not the end of the journal.
pub(super) fn later(bytes: &[u8], from: usize, store: u64, least: u64) -> Option<usize> {
    let last = bytes.len().checked_sub(RECORD)?;
    (from..=last).find(|at| {
        // The number alone rules out most offsets, without a checksum.
        let number = u64_at(bytes, at + 4);
        let near = number >= least && number - least < 1 << 32;
        near && record_header(bytes, *at, store).is_some()
    })
}

/// The number and the payload length of the record header at `at`, if its checksum is correct.
fn record_header(bytes: &[u8], at: usize, store: u64) -> Option<(u64, usize)> {
    let record_header = bytes.get(at..at + RECORD)?;
    let sound = xxh3_64_with_seed(&record_header[..28], store) == u64_at(record_header, 28);
    sound.then(|| (u64_at(record_header, 4), u32_at(record_header, 0) as usize))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut bytes = head(7, 5);
        frame(&mut bytes, 7, 5, 50, b"one");
        frame(&mut bytes, 7, 6, 51, b"another");
        bytes
    }

    #[test]
    fn records_read_back() {
        let bytes = sample();
        assert_eq!(read_head(&bytes, 7), Ok(5));
        let first = record(&bytes, HEAD, 7).unwrap();
        assert_eq!((first.number, first.seqno, first.payload), (5, 50, &b"one"[..]));
        let second = record(&bytes, first.end, 7).unwrap();
        assert_eq!((second.number, second.seqno, second.payload), (6, 51, &b"another"[..]));
        assert_eq!(second.end, bytes.len());
        assert_eq!(record(&bytes, second.end, 7), None);
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let good = sample();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            let whole = read_head(&bad, 7) == Ok(5)
                && record(&bad, HEAD, 7).is_some_and(|first| record(&bad, first.end, 7).is_some());
            // The checksum also covers the word that is always zero.
            assert!(!whole, "byte {at}");
        }
        assert!(read_head(&good, 8).is_err());
        assert_eq!(record(&good, HEAD, 8), None);
    }

    #[test]
    fn a_record_after_a_damaged_one_is_found() {
        let mut bytes = sample();
        let second = record(&bytes, HEAD, 7).unwrap().end;
        bytes[HEAD + 2] ^= 1;
        assert_eq!(later(&bytes, HEAD, 7, 5), Some(second));
        assert_eq!(later(&bytes, HEAD, 7, 7), None);
    }
}
