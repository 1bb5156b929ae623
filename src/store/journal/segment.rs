//! The bytes of a journal segment, format 1. Drawn in `docs/formats.md`.
//!
//! ```text
//! head     "lkljrnl\n"  u32 format  u32 0  u64 store  u64 first record  u64 checksum of these
//! record   u32 length  u64 number  u64 seqno  u64 checksum of the payload  u64 checksum of these
//!          the payload
//! ```
//! Numbers are little-endian, checksums XXH3 of 64 bits. Those of heads and records are seeded with the number of the
//! store, so that neither a segment of another store nor a text that looks like a record is taken for one.
//! What follows the last record is zero, or what a crash left of one that nobody was told is stored.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of a segment's head.
pub(super) const HEAD: usize = 40;
/// Bytes before the payload of a record.
pub(super) const RECORD: usize = 36;
const MAGIC: &[u8; 8] = b"lkljrnl\n";
const FORMAT: u32 = 1;

/// A record that reads back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) number: u64,
    pub(super) seqno: u64,
    pub(super) payload: &'a [u8],
    /// Where the next one begins.
    pub(super) end: usize,
}

/// The head of the segment that begins with the record `first`.
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

/// The number of the first record of a segment, or what is wrong with its head.
pub(super) fn read_head(bytes: &[u8], store: u64) -> Result<u64, &'static str> {
    let Some(head) = bytes.get(..HEAD) else {
        return Err("it ends within its head");
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
        return Err("the checksum of its head differs");
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

/// The record at `at`; `None` if none reads back there.
pub(super) fn record(bytes: &[u8], at: usize, store: u64) -> Option<Record<'_>> {
    let (number, length) = heading(bytes, at, store)?;
    let payload = bytes.get(at + RECORD..at + RECORD + length)?;
    let whole = xxh3_64(payload) == u64_at(bytes, at + 20);
    whole.then(|| Record { number, seqno: u64_at(bytes, at + 12), payload, end: at + RECORD + length })
}

/// Where, from `from` on, the heading of a record with the number `least` or a later one stands. Then what is before it
/// was no end.
pub(super) fn later(bytes: &[u8], from: usize, store: u64, least: u64) -> Option<usize> {
    let last = bytes.len().checked_sub(RECORD)?;
    (from..=last).find(|at| {
        // Most places are ruled out by the number alone.
        let number = u64_at(bytes, at + 4);
        let near = number >= least && number - least < 1 << 32;
        near && heading(bytes, *at, store).is_some()
    })
}

/// Number and length of payload, if a heading stands at `at`.
fn heading(bytes: &[u8], at: usize, store: u64) -> Option<(u64, usize)> {
    let heading = bytes.get(at..at + RECORD)?;
    let sound = xxh3_64_with_seed(&heading[..28], store) == u64_at(heading, 28);
    sound.then(|| (u64_at(heading, 4), u32_at(heading, 0) as usize))
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
    fn what_was_written_reads_back() {
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
    fn any_other_byte_is_noticed() {
        let good = sample();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            let whole = read_head(&bad, 7) == Ok(5)
                && record(&bad, HEAD, 7).is_some_and(|first| record(&bad, first.end, 7).is_some());
            // The word that is always zero is covered by the checksum as well.
            assert!(!whole, "byte {at}");
        }
        assert!(read_head(&good, 8).is_err());
        assert_eq!(record(&good, HEAD, 8), None);
    }

    #[test]
    fn a_record_behind_a_damaged_one_is_found() {
        let mut bytes = sample();
        let second = record(&bytes, HEAD, 7).unwrap().end;
        bytes[HEAD + 2] ^= 1;
        assert_eq!(later(&bytes, HEAD, 7, 5), Some(second));
        assert_eq!(later(&bytes, HEAD, 7, 7), None);
    }
}
