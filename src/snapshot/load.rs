//! Loading: from a file to indexes that answer.
//!
//! The file is read to its end first, and all its checksums are compared, before any index is built. What is kept of
//! it meanwhile are the packed chunks, five bytes a hash; they are unpacked by all processors when the index
//! reads them, run by run, once a table.
//!
//! *Absent*: which snapshot is loaded, and the log after it (`engine`).

use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use super::error::SnapshotError;
use super::files::{flawed, read};
use super::format::{Chunk, Flaw, OUT_OF_ORDER, Section, pack};
use super::gaps::{CHUNK, Number};
use crate::ids::{Hash, Sequence, Width};
use crate::index::{BadRun, HashIndex, Index, Progress, Runs};

/// A snapshot in memory.
pub struct Loaded {
    /// The change after which the log is to be replayed.
    pub from: Sequence,
    /// The last change it may hold: a log that ends before is not the log it was made beside.
    pub through: Sequence,
    /// Its collections.
    pub sections: Vec<(Section, Arc<dyn HashIndex>)>,
}

/// The chunks of a section.
struct Chunks(Vec<Chunk>);

impl<W: Number> Runs<W> for Chunks {
    fn runs(&self) -> usize {
        self.0.len()
    }

    fn hashes(&self, run: usize) -> usize {
        self.0[run].packed.count as usize
    }

    fn read(&self, run: usize, hashes: &mut Vec<W>) -> bool {
        self.0[run].packed.unpack(hashes)
    }
}

/// Ascending hashes from elsewhere, packed as in a snapshot until an index is built of them.
pub struct Ascending {
    width: Width,
    pending: Vec<Hash>,
    chunks: Chunks,
}

impl Ascending {
    /// No hashes yet, of this width.
    pub fn new(width: Width) -> Ascending {
        Ascending { width, pending: Vec::with_capacity(CHUNK), chunks: Chunks(Vec::new()) }
    }

    /// The next hash.
    ///
    /// # Panics
    /// Now or later, if it has another width or is not larger than the one before.
    pub fn push(&mut self, hash: Hash) {
        self.pending.push(hash);
        if self.pending.len() == CHUNK {
            self.pack();
        }
    }

    /// The index of them, built with all processors.
    ///
    /// # Panics
    /// If they did not ascend.
    pub fn into_index(mut self) -> Arc<dyn HashIndex> {
        if !self.pending.is_empty() {
            self.pack();
        }
        built(self.width, &self.chunks, &Progress::default()).expect("the caller's hashes ascend")
    }

    fn pack(&mut self) {
        let packed = pack(self.width, &self.pending).expect("the caller's hashes ascend");
        self.pending.clear();
        self.chunks.0.push(Chunk { offset: 0, packed });
    }
}

/// Loads a snapshot with all processors.
///
/// # Errors
/// [`SnapshotError`] with the place of the damage if any byte is not as it was written.
pub fn load(path: &Path, progress: &Progress) -> Result<Loaded, SnapshotError> {
    let mut sections: Vec<(Section, Chunks)> = Vec::new();
    let frame = read(path, |section, chunk| {
        match (chunk, sections.last_mut()) {
            (Some(chunk), Some((_, chunks))) => chunks.0.push(chunk),
            _ => sections.push((section.clone(), Chunks(Vec::new()))),
        }
        Ok(())
    })?;
    let hashes = |chunks: &Chunks| chunks.0.iter().map(|chunk| u64::from(chunk.packed.count)).sum::<u64>();
    progress.expect(sections.iter().map(|(_, chunks)| hashes(chunks)).sum());
    let index = |(section, chunks): (Section, Chunks)| {
        let index = built(section.width, &chunks, progress).map_err(|flaw| flawed(path, flaw))?;
        Ok((section, index))
    };
    let sections = sections.into_iter().map(index).collect::<Result<_, _>>()?;
    Ok(Loaded { from: frame.header.from, through: frame.through, sections })
}

fn built(width: Width, chunks: &Chunks, progress: &Progress) -> Result<Arc<dyn HashIndex>, Flaw> {
    let threads = available_parallelism().map_or(1, usize::from);
    let index: Result<Arc<dyn HashIndex>, BadRun> = match width {
        Width::Bits64 => Index::<u64>::built(chunks, threads, progress).map(|index| Arc::new(index) as _),
        Width::Bits128 => Index::<u128>::built(chunks, threads, progress).map(|index| Arc::new(index) as _),
    };
    index.map_err(|BadRun(run)| Flaw::Damage { offset: chunks.0[run].offset, what: OUT_OF_ORDER })
}
