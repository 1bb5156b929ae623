//! The texts of all documents, compressed, in a file of the run: the exact check reads those that are near
//! the limit, and the evidence those of pairs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zstd::bulk::{Compressor, Decompressor};

use super::super::Failure;
use crate::cli::at;

/// The approximate bytes of texts that are compressed together.
const BLOCK: usize = 8 << 10;
/// The level of zstd that takes least time.
const LEVEL: i32 = 1;

/// Texts by the numbers of documents, some of which have none.
pub(super) struct Texts {
    inner: Mutex<Inner>,
}

struct Inner {
    path: PathBuf,
    file: File,
    /// The number of the first text of each block, and where it begins in the file.
    blocks: Vec<(u32, u64)>,
    written: u64,
    /// The texts that are not written yet.
    next: Block,
    /// The block that was read last, and its place among all.
    last: Option<(usize, Block)>,
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    /// Why a text could not be read.
    failure: Option<Failure>,
}

/// Texts one after the other.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// Where each text ends; nothing if there is none.
    ends: Vec<Option<u32>>,
}

impl Block {
    fn get(&self, at: usize) -> Option<String> {
        let end = (*self.ends.get(at)?)? as usize;
        let from = self.ends[..at].iter().rev().find_map(|end| *end).unwrap_or(0) as usize;
        Some(String::from_utf8_lossy(&self.bytes[from..end]).into_owned())
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
pub(super) fn stored_bytes(texts: &str) -> u64 {
    let stored = |block: &[u8]| zstd::bulk::compress(block, LEVEL).map_or(block.len(), |packed| packed.len());
    texts.as_bytes().chunks(BLOCK).map(stored).sum::<usize>() as u64
}

impl Texts {
    pub(super) fn create(path: &Path) -> Result<Texts, Failure> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
        let parts = file.and_then(|file| Ok((file, Compressor::new(LEVEL)?, Decompressor::new()?)));
        let (file, compressor, decompressor) = parts.map_err(|error| at(path, &error))?;
        let inner = Inner {
            path: path.to_owned(),
            file,
            blocks: Vec::new(),
            written: 0,
            next: Block::default(),
            last: None,
            compressor,
            decompressor,
            failure: None,
        };
        Ok(Texts { inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the text of the next document.
    pub(super) fn push(&self, text: Option<&str>) -> Result<(), Failure> {
        let mut inner = self.inner();
        inner.next.bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
        let end = inner.next.bytes.len() as u32;
        inner.next.ends.push(text.map(|_| end));
        if end as usize >= BLOCK { inner.flush() } else { Ok(()) }
    }

    /// The text of a document, if it has one.
    pub(super) fn get(&self, number: u32) -> Option<String> {
        let mut inner = self.inner();
        inner.get(number).unwrap_or_else(|failure| {
            inner.failure.get_or_insert(failure);
            None
        })
    }

    /// Checks that every text was read.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.inner().failure.take().map_or(Ok(()), Err)
    }
}

impl Inner {
    /// The number of the first text that is not written.
    fn first(&self) -> u32 {
        self.blocks.last().map_or(0, |(end, _)| *end)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let packed = self.compressor.compress(&self.next.packed());
        let packed =
            packed.and_then(|bytes| self.file.write_all_at(&bytes, self.written).map(|()| bytes.len()));
        self.written += packed.map_err(|error| at(&self.path, &error))? as u64;
        self.blocks.push((self.first() + self.next.ends.len() as u32, self.written));
        self.next = Block::default();
        Ok(())
    }

    fn get(&mut self, number: u32) -> Result<Option<String>, Failure> {
        // A block is known by the first number after it, and by where it ends.
        let at_block = self.blocks.partition_point(|(end, _)| *end <= number);
        let (first, from) = at_block.checked_sub(1).map_or((0, 0), |before| self.blocks[before]);
        let place = (number - first) as usize;
        let Some((_, to)) = self.blocks.get(at_block).copied() else { return Ok(self.next.get(place)) };
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
    fn texts_are_read_back_in_any_order() {
        let directory = tempfile::tempdir().unwrap();
        let texts = Texts::create(&directory.path().join("texts")).unwrap();
        let mut random = fastrand::Rng::with_seed(45);
        let text = |number: u32| match number % 7 {
            0 => None,
            1 => Some(String::new()),
            _ => Some(format!("第{number}篇 ").repeat(number as usize % 500)),
        };
        for number in 0..2_000 {
            texts.push(text(number).as_deref()).unwrap();
            let earlier = random.u32(..=number);
            assert_eq!(texts.get(earlier), text(earlier), "{earlier} of {number}");
        }
        assert!(texts.inner().blocks.len() > 20 && texts.get(2_000).is_none() && texts.check().is_ok());
        texts.inner().file.set_len(100).unwrap();
        texts.inner().last = None;
        assert!(texts.get(2).is_none() && texts.check().is_err());
    }
}
