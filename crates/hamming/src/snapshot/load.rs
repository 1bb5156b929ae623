//! Loading: from a file to indexes that answer queries.
//!
//! The whole file is read first, and all its checksums are compared, before any index is built. Meanwhile
//! the packed chunks stay in memory, about five bytes for each hash of 64 bits. All processors unpack them,
//! run by run, once for each table of the index.
//!
//! *Absent*: the choice of the snapshot, and the history after it.

use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use super::error::SnapshotError;
use super::files::{flawed, read};
use super::format::{Chunk, Flaw, OUT_OF_ORDER, Section, pack};
use super::gaps::{CHUNK, Number};
use crate::{BadRun, HashIndex, Index, Progress, Runs};
use lookalike_hash::{Hash, Sequence, U256, Width};

/// A snapshot whose indexes are in memory.
pub struct Loaded {
    /// The change after which the history must be replayed.
    pub from: Sequence,
    /// The last change that the snapshot may contain. A history that ends before it is not the history of
    /// this snapshot.
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

/// Ascending hashes from another source, packed as in a snapshot until an index is built from them.
pub struct Ascending {
    width: Width,
    pending: Vec<Hash>,
    chunks: Chunks,
}

impl Ascending {
    /// Creates an empty list of hashes of this width.
    pub fn new(width: Width) -> Ascending {
        Ascending { width, pending: Vec::with_capacity(CHUNK), chunks: Chunks(Vec::new()) }
    }

    /// Appends a hash.
    ///
    /// # Panics
    /// If the hash has another width or is not larger than the one before. The panic may come with a later
    /// call.
    pub fn push(&mut self, hash: Hash) {
        self.pending.push(hash);
        if self.pending.len() == CHUNK {
            self.pack();
        }
    }

    /// Builds the index from the hashes, with all processors.
    ///
    /// # Panics
    /// If the hashes do not ascend.
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

/// The index that [`save`](super::save) wrote.
///
/// # Errors
/// [`SnapshotError`] as for [`load`]; a snapshot of several collections is not one index.
pub fn open(path: &Path) -> Result<Arc<dyn HashIndex>, SnapshotError> {
    let mut sections = load(path, &Progress::default())?.sections;
    match sections.pop() {
        Some((_, index)) if sections.is_empty() => Ok(index),
        _ => Err(SnapshotError::Damaged { path: path.to_owned(), offset: 0, what: "it holds not one index" }),
    }
}

/// Loads a snapshot with all processors.
///
/// # Errors
/// [`SnapshotError`] with the place of the damage, if any byte differs from those that were written.
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
        Width::Bits256 => Index::<U256>::built(chunks, threads, progress).map(|index| Arc::new(index) as _),
    };
    index.map_err(|BadRun(run)| Flaw::Damage { offset: chunks.0[run].offset, what: OUT_OF_ORDER })
}
