//! Cursors: the position at which the next page of an answer begins. They are opaque to clients and bound to
//! their query.
//!
//! A cursor has four hexadecimal digits of distance, eight digits of a checksum over hash and k, and the
//! bytes of the id in hexadecimal. The checksum detects a cursor that is sent with another query; it does
//! not prevent forgery.

use xxhash_rust::xxh3::xxh3_64;

use super::error::ServiceError;
use lookalike_engine::Position;
use lookalike_hash::{DocumentId, Hash};

/// The cursor of a position in the answer to a query.
pub(super) fn write(position: &Position, hash: Hash, k: u32) -> String {
    format!("{:04x}{:08x}{}", position.distance, binding(hash, k), write_id(&position.id))
}

/// Decodes the position of a cursor.
pub(super) fn read(cursor: &str, hash: Hash, k: u32) -> Result<Position, ServiceError> {
    parse(cursor, hash, k).ok_or(ServiceError::Cursor)
}

fn parse(cursor: &str, hash: Hash, k: u32) -> Option<Position> {
    if !cursor.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let distance = u32::from_str_radix(cursor.get(..4)?, 16).ok()?;
    let bound = u32::from_str_radix(cursor.get(4..12)?, 16).ok()?;
    let id = read_id(cursor.get(12..)?)?;
    (bound == binding(hash, k)).then_some(Position { distance, id })
}

/// The bytes of an id in hexadecimal.
pub(super) fn write_id(id: &DocumentId) -> String {
    id.as_str().bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The id of these digits.
pub(super) fn read_id(digits: &str) -> Option<DocumentId> {
    let is_written = digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits.len().is_multiple_of(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    DocumentId::new(&String::from_utf8(bytes.filter(|_| is_written)?).ok()?).ok()
}

fn binding(hash: Hash, k: u32) -> u32 {
    let mut bytes = Vec::with_capacity(36);
    hash.write_bytes(&mut bytes);
    bytes.extend(k.to_be_bytes());
    (xxh3_64(&bytes) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_only_for_its_own_query() {
        let position = Position { distance: 256, id: DocumentId::new("新闻/1").unwrap() };
        let hash = Hash::from_u64(42);
        let cursor = write(&position, hash, 9);
        assert_eq!(read(&cursor, hash, 9).unwrap(), position);
        assert!(read(&cursor, hash, 8).is_err());
        assert!(read(&cursor, Hash::from_u64(43), 9).is_err());
        for bad in ["", "zz", "07", "000700000000", &cursor[..cursor.len() - 1], "＋1"] {
            assert!(read(bad, hash, 9).is_err(), "{bad:?}");
        }
    }
}
