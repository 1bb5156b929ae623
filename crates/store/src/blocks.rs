//! Reads blocks and blobs from the files of the trees, without the trees. The layout is that of `lsm-tree`
//! 3.1.10, which is pinned.
//!
//! `verify` locates damage in a file with it, and `salvage` reads the undamaged rest. This module writes
//! nothing. Every length is checked, so damaged bytes yield `None` and never a panic. The tests read files
//! that the trees wrote: they fail if the layout changes.
//!
//! ```text
//! table    data blocks, index blocks, filter blocks, a few bytes of no block, a meta block, a list of parts
//! block    "LSM\x03"  u8 kind  u128 checksum of the data  u32 length  u32 length without compression
//!          u32 checksum of these  data, plain or compressed with LZ4
//! data     entries  255  search indexes  u8 restart interval  26 bytes  u32 count of entries
//! entry    u8 type  seqno  (length of the prefix shared with the last full entry)  length, rest of the key
//!          (length, value); each `restart interval`-th is full; numbers are LEB128
//! blob     "BLOB"  u128 checksum of key and value  u64 seqno  u16 length of the key  u32 length  u32 stored
//!          key  value
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

const BLOCK: &[u8; 4] = b"LSM\x03";
const BLOCK_HEADER: usize = 33;
/// Bytes of a header that its own checksum covers.
const COVERED: usize = 29;
const BLOB: &[u8; 4] = b"BLOB";
const BLOB_HEADER: usize = 38;
/// Bytes of the trailer after the search indexes, from the restart interval on.
const TRAILER: usize = 31;
/// The byte after the last entry, in place of a type.
const END: u8 = 255;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Meta,
    Other,
}

/// The header of a block, with a correct checksum.
struct Header {
    kind: Kind,
    checksum: u128,
    stored: usize,
    plain: usize,
}

/// A block with correct checksums.
pub(super) struct Block<'a> {
    pub(super) kind: Kind,
    /// Its bytes in the file, including the header.
    pub(super) length: usize,
    data: &'a [u8],
    plain: usize,
}

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    /// The sequence number of the batch that wrote it.
    pub(super) seqno: u64,
    pub(super) value: Value,
}

/// The value that a batch wrote to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Bytes(Vec<u8>),
    Blob(BlobPlace),
    Deleted,
}

/// The place of a value in a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlobPlace {
    file: u64,
    offset: u64,
    stored: usize,
    plain: usize,
}

fn header(bytes: &[u8]) -> Option<Header> {
    let bytes = bytes.get(..BLOCK_HEADER)?;
    let mut rest = bytes.strip_prefix(BLOCK)?;
    let kind = match number::<1>(&mut rest)? {
        0 => Kind::Data,
        3 => Kind::Meta,
        _ => Kind::Other,
    };
    let (checksum, mut rest) = rest.split_first_chunk::<16>()?;
    let stored = usize::try_from(number::<4>(&mut rest)?).ok()?;
    let plain = usize::try_from(number::<4>(&mut rest)?).ok()?;
    let sound = u64::from(xxh3_128(&bytes[..COVERED]) as u32) == number::<4>(&mut rest)?;
    sound.then_some(Header { kind, checksum: u128::from_le_bytes(*checksum), stored, plain })
}

/// The block at the beginning of `bytes`.
pub(super) fn block(bytes: &[u8]) -> Option<Block<'_>> {
    let Header { kind, checksum, stored, plain } = header(bytes)?;
    let length = BLOCK_HEADER.checked_add(stored)?;
    let data = bytes.get(BLOCK_HEADER..length)?;
    (xxh3_128(data) == checksum).then_some(Block { kind, length, data, plain })
}

/// Kind and length of the damaged block at the beginning of `bytes`, if at least its header is correct.
pub(super) fn damaged_block(bytes: &[u8]) -> Option<(Kind, usize)> {
    let header = header(bytes)?;
    Some((header.kind, BLOCK_HEADER.checked_add(header.stored)?))
}

/// The offset of the first block at `from` or later that has correct checksums.
pub(super) fn next_block(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    memchr::memmem::find_iter(rest, BLOCK).map(|at| from + at).find(|at| block(&bytes[*at..]).is_some())
}

/// The length of the blob at the beginning of `bytes`, if its checksum is correct.
pub(super) fn blob(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..BLOB_HEADER)?.strip_prefix(BLOB)?;
    let (checksum, mut header) = header.split_first_chunk::<16>()?;
    number::<8>(&mut header)?;
    let key = number::<2>(&mut header)?;
    number::<4>(&mut header)?;
    let value = number::<4>(&mut header)?;
    let length = BLOB_HEADER.checked_add(usize::try_from(key + value).ok()?)?;
    let data = bytes.get(BLOB_HEADER..length)?;
    (xxh3_128(data) == u128::from_le_bytes(*checksum)).then_some(length)
}

impl Block<'_> {
    /// The entries of a data block or a meta block.
    pub(super) fn entries(&self) -> Option<Vec<Entry>> {
        if self.data.len() == self.plain
            && let Some(entries) = entries(self.data)
        {
            return Some(entries);
        }
        entries(&decompressed(self.data, self.plain)?)
    }
}

/// Only for bytes with a correct checksum: the LZ4 decoder is not hardened against other input.
fn decompressed(bytes: &[u8], plain: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; plain];
    let length = lz4_flex::block::decompress_into(bytes, &mut out).ok()?;
    (length == plain).then_some(out)
}

fn entries(data: &[u8]) -> Option<Vec<Entry>> {
    let (mut rest, trailer) = data.split_at_checked(data.len().checked_sub(TRAILER)?)?;
    let interval = usize::from(*trailer.first()?);
    let count = number::<4>(&mut &trailer[TRAILER - 4..])?;
    let mut found: Vec<Entry> = Vec::new();
    // The key of the last entry that is stored in full.
    let mut full = Vec::new();
    for place in 0..usize::try_from(count).ok()? {
        let kind = number::<1>(&mut rest)?;
        let seqno = varint(&mut rest)?;
        let is_full = place.checked_rem(interval)? == 0;
        let shared = if is_full { 0 } else { length(&mut rest)? };
        let mut key: Vec<u8> = full.get(..shared)?.to_vec();
        let own = length(&mut rest)?;
        key.extend(take(&mut rest, own)?);
        if is_full {
            full.clone_from(&key);
        }
        let value = match kind {
            0 | 4 => {
                let bytes = length(&mut rest)?;
                let bytes = take(&mut rest, bytes)?;
                if kind == 0 { Value::Bytes(bytes.to_vec()) } else { Value::Blob(place_of(bytes)?) }
            }
            1 | 2 => Value::Deleted,
            _ => return None,
        };
        found.push(Entry { key, seqno, value });
    }
    (rest.first() == Some(&END)).then_some(found)
}

fn place_of(mut bytes: &[u8]) -> Option<BlobPlace> {
    let bytes = &mut bytes;
    let (offset, file) = (varint(bytes)?, varint(bytes)?);
    Some(BlobPlace { file, offset, stored: length(bytes)?, plain: length(bytes)? })
}

impl BlobPlace {
    /// The value of `key` at this place in a file of `folder`; `None` if other bytes are stored there.
    pub(super) fn read(&self, folder: &Path, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(folder.join(self.file.to_string())) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // The checksum of a blob does not cover the lengths in its header. A block checksum covers these
        // lengths.
        let length = BLOB_HEADER + key.len() + self.stored;
        if self
            .offset
            .checked_add(length as u64)
            .is_none_or(|end| file.metadata().is_ok_and(|of| of.len() < end))
        {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, self.offset)?;
        let (header, data) = bytes.split_at(BLOB_HEADER);
        let sound = header[BLOB.len()..].starts_with(&xxh3_128(data).to_le_bytes());
        let Some(value) = data.strip_prefix(key).filter(|_| sound) else { return Ok(None) };
        Ok(decompressed(value, self.plain))
    }
}

pub(super) fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// A little-endian number of `N` bytes.
pub(super) fn number<const N: usize>(bytes: &mut &[u8]) -> Option<u64> {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(take(bytes, N)?);
    Some(u64::from_le_bytes(wide))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = number::<1>(bytes)?;
        value |= (byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn length(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use lsm_tree::AbstractTree;

    use super::*;
    use crate::trees::{NAMES, Tree, Trees, Writes};

    type Written = BTreeMap<(Vec<u8>, u64), Option<Vec<u8>>>;

    fn key(number: u64) -> Vec<u8> {
        format!("{:03}/{}", number % 7, "k".repeat((number % 41) as usize)).into_bytes()
    }

    /// Short and long values, some that do not compress, and some that are stored in blob files.
    fn value(number: u64) -> Vec<u8> {
        let length = if number.is_multiple_of(49) { 20_000 } else { number * 31 % 300 };
        (0..length)
            .map(|at| if number.is_multiple_of(3) { xxh3_128(&at.to_le_bytes()) as u8 } else { 7 })
            .collect()
    }

    /// Writes several versions of each key into a tree, and flushes them to tables.
    fn filled(trees: &Trees, tree: Tree) -> Written {
        let mut written = Written::new();
        for number in 0..900 {
            let seqno = trees.next_seqno();
            let mut writes = Writes::default();
            let value = (number % 5 != 0).then(|| value(number));
            match &value {
                Some(value) => writes.insert(tree, key(number), value),
                None => writes.remove(tree, key(number)),
            }
            trees.apply(seqno, writes.payload()).unwrap();
            written.insert((key(number), seqno), value);
            if number % 300 == 299 {
                trees.rotate(true);
                let tree = trees.tree(tree);
                // A horizon of 0 keeps every version.
                tree.flush(&tree.get_flush_lock(), 0).unwrap();
            }
        }
        written
    }

    /// Every entry of every table, read with this module.
    fn read(dir: &Path) -> (Written, usize) {
        let (mut found, mut compressed) = (Written::new(), 0);
        for table in fs::read_dir(dir.join("tables")).unwrap() {
            let bytes = fs::read(table.unwrap().path()).unwrap();
            let (mut at, mut meta) = (0, None);
            while let Some(start) = next_block(&bytes, at) {
                let block = block(&bytes[start..]).unwrap();
                at = start + block.length;
                match block.kind {
                    Kind::Data => {
                        compressed += usize::from(block.data.len() != block.plain);
                        for Entry { key, seqno, value } in block.entries().unwrap() {
                            let value = match value {
                                Value::Bytes(value) => Some(value),
                                Value::Deleted => None,
                                Value::Blob(place) => {
                                    Some(place.read(&dir.join("blobs"), &key).unwrap().unwrap())
                                }
                            };
                            found.insert((key, seqno), value);
                        }
                    }
                    Kind::Meta => meta = block.entries(),
                    Kind::Other => {}
                }
            }
            assert!(meta.unwrap().iter().any(|entry| entry.key == b"item_count"));
        }
        (found, compressed)
    }

    #[test]
    fn files_of_the_trees_are_read_without_the_trees() {
        for tree in [Tree::Rows, Tree::PostingLists] {
            let dir = tempfile::tempdir().unwrap();
            let trees = Trees::open(dir.path(), 1 << 20).unwrap();
            let written = filled(&trees, tree);
            let place = dir.path().join(NAMES[tree as usize]);
            assert!(read(&place).0 == written, "flushed tables");
            trees.tree(tree).major_compact(64 << 20, 0).unwrap();
            let (found, compressed) = read(&place);
            assert!(found == written, "compacted tables");
            assert_eq!(compressed > 0, tree == Tree::Rows, "{compressed} blocks with LZ4");
            if tree == Tree::Rows {
                assert!(fs::read_dir(place.join("blobs")).unwrap().count() > 0);
            }
        }
    }

    #[test]
    fn every_changed_byte_is_noticed_and_none_panics() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        filled(&trees, Tree::PostingLists);
        let table = fs::read_dir(dir.path().join("postings/tables")).unwrap().next().unwrap().unwrap().path();
        let good = fs::read(table).unwrap();
        let length = block(&good).unwrap().length;
        for at in 0..length {
            let mut bad = good[..length].to_vec();
            bad[at] ^= 1 << (at % 8);
            assert!(block(&bad).is_none(), "byte {at}");
            // Even if a checksum is correct by chance.
            let _ = entries(&bad[BLOCK_HEADER..]);
            let _ = entries(&bad[BLOCK_HEADER..at.max(BLOCK_HEADER)]);
        }
        for bytes in [&b""[..], b"LSM\x03", &[255; 64], &[0; 200]] {
            assert!(block(bytes).is_none() && blob(bytes).is_none() && next_block(bytes, 0).is_none());
            assert!(entries(bytes).is_none_or(|entries| entries.is_empty()));
        }
    }
}
