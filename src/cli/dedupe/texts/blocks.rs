//! Entries by their numbers in a file, compressed in blocks.

mod shard;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use zstd::bulk::{Compressor, Decompressor};

use super::super::super::Failure;
use crate::cli::at;

/// The approximate bytes of entries that are compressed together.
const BLOCK: usize = 8 << 10;
/// The level of zstd that takes least time.
const LEVEL: i32 = 1;

/// Entries, some of which are missing.
pub(super) struct Blocks {
    path: PathBuf,
    file: File,
    /// The number of the first entry behind each block, and where the block ends in the file.
    places: Vec<(u32, u64)>,
    written: u64,
    /// The entries that are not written yet.
    next: Block,
    /// The block that was read last, and its place among all.
    last: Option<(usize, Block)>,
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    /// The entries of shards, which follow all others, each with the number after its last one.
    shards: Vec<(u32, Blocks)>,
}

/// Entries one after the other.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// Where each entry ends; nothing if there is none.
    ends: Vec<Option<u32>>,
}

impl Block {
    fn get(&self, at: usize) -> Option<&[u8]> {
        let end = (*self.ends.get(at)?)? as usize;
        let from = self.ends[..at].iter().rev().find_map(|end| *end).unwrap_or(0) as usize;
        Some(&self.bytes[from..end])
    }

    /// The ends, and the texts.
    fn packed(&self) -> Vec<u8> {
        let mut packed = (self.ends.len() as u32).to_be_bytes().to_vec();
        packed.extend(self.ends.iter().flat_map(|end| end.unwrap_or(u32::MAX).to_be_bytes()));
        packed.extend_from_slice(&self.bytes);
        packed
    }

    fn unpacked(packed: &[u8]) -> Option<Block> {
        let (words, _) = packed.as_chunks::<4>();
        let count = u32::from_be_bytes(*words.first()?) as usize;
        let ends = words.get(1..=count)?.iter().map(|end| Some(u32::from_be_bytes(*end)));
        let ends = ends.map(|end| end.filter(|end| *end < u32::MAX)).collect();
        Some(Block { bytes: packed[4 * (count + 1)..].to_vec(), ends })
    }
}

/// The approximate bytes that a text takes which was made of many.
pub(in super::super) fn stored_bytes(texts: &str) -> u64 {
    let stored = |block: &[u8]| zstd::bulk::compress(block, LEVEL).map_or(block.len(), |packed| packed.len());
    texts.as_bytes().chunks(BLOCK).map(stored).sum::<usize>() as u64
}

impl Blocks {
    pub(super) fn create(path: &Path) -> Result<Blocks, Failure> {
        Blocks::over(path, File::options().read(true).write(true).create(true).truncate(true).open(path))
    }

    fn over(path: &Path, file: io::Result<File>) -> Result<Blocks, Failure> {
        let parts = file.and_then(|file| Ok((file, Compressor::new(LEVEL)?, Decompressor::new()?)));
        let (file, compressor, decompressor) = parts.map_err(|error| at(path, &error))?;
        Ok(Blocks {
            path: path.to_owned(),
            file,
            places: Vec::new(),
            written: 0,
            next: Block::default(),
            last: None,
            compressor,
            decompressor,
            shards: Vec::new(),
        })
    }

    /// Appends the parts of the next entry.
    pub(super) fn push(&mut self, entry: Option<&[&[u8]]>) -> Result<(), Failure> {
        entry.unwrap_or_default().iter().for_each(|part| self.next.bytes.extend_from_slice(part));
        let end = self.next.bytes.len() as u32;
        self.next.ends.push(entry.map(|_| end));
        if end as usize >= BLOCK { self.flush() } else { Ok(()) }
    }

    /// The number of the first entry that is not written.
    fn first(&self) -> u32 {
        self.places.last().map_or(0, |(end, _)| *end)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let packed = self.compressor.compress(&self.next.packed());
        let packed =
            packed.and_then(|bytes| self.file.write_all_at(&bytes, self.written).map(|()| bytes.len()));
        self.written += packed.map_err(|error| at(&self.path, &error))? as u64;
        self.places.push((self.first() + self.next.ends.len() as u32, self.written));
        self.next = Block::default();
        Ok(())
    }

    /// An entry, unless it is missing.
    pub(super) fn get(&mut self, number: u32) -> Result<Option<&[u8]>, Failure> {
        // A block is known by the first number after it, and by where it ends.
        let at_block = self.places.partition_point(|(end, _)| *end <= number);
        let (first, from) = at_block.checked_sub(1).map_or((0, 0), |before| self.places[before]);
        let place = (number - first) as usize;
        let Some((_, to)) = self.places.get(at_block).copied() else {
            let is_own = place < self.next.ends.len();
            return if is_own { Ok(self.next.get(place)) } else { self.of_shard(number) };
        };
        if self.last.as_ref().is_none_or(|(held, _)| *held != at_block) {
            let mut bytes = vec![0; (to - from) as usize];
            let read = self.file.read_exact_at(&mut bytes, from);
            let size = zstd::bulk::Decompressor::upper_bound(&bytes).unwrap_or_default();
            let unpacked = read.and_then(|()| self.decompressor.decompress(&bytes, size));
            let block = unpacked.map_err(|error| at(&self.path, &error))?;
            let damaged = || Failure::new(format!("{} changed during the run", self.path.display()));
            self.last = Some((at_block, Block::unpacked(&block).ok_or_else(damaged)?));
        }
        Ok(self.last.as_ref().and_then(|(_, block)| block.get(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_back_in_any_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut blocks = Blocks::create(&directory.path().join("texts")).unwrap();
        let mut random = fastrand::Rng::with_seed(45);
        let entry = |number: u32| match number % 7 {
            0 => None,
            1 => Some(String::new()),
            _ => Some(format!("第{number}篇 ").repeat(number as usize % 500)),
        };
        for number in 0..2_000 {
            let own = entry(number);
            blocks
                .push(own.as_ref().map(|own| [&b"\0"[..], own.as_bytes()]).as_ref().map(|own| &own[..]))
                .unwrap();
            let earlier = random.u32(..=number);
            let expected = entry(earlier).map(|own| format!("\0{own}"));
            assert_eq!(
                blocks.get(earlier).unwrap(),
                expected.as_deref().map(str::as_bytes),
                "{earlier} of {number}"
            );
        }
        assert!(blocks.places.len() > 20 && blocks.get(2_000).unwrap().is_none());
        blocks.file.set_len(100).unwrap();
        blocks.last = None;
        assert!(blocks.get(2).is_err());
    }
}
