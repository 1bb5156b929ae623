//! Records of one size, sorted on the disk within a bounded memory: sorted runs that are merged.
//!
//! The files have no name from their creation on, so nothing is left of them, whatever ends the process.
//! Runs of a file are merged at most so many at a time that the beginnings of all fit in the memory; what has
//! more runs is merged in several levels. The order is that of the bytes, and the result the same for any
//! memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

/// The bytes that are read of a run at a time.
const AT_ONCE: usize = 64 << 10;
/// The runs that are merged at a time, whatever the memory.
const LEAST_RUNS: usize = 4;

/// Collects records of `W` bytes.
pub(crate) struct Sorter<const W: usize> {
    folder: PathBuf,
    held: Vec<[u8; W]>,
    /// The most records that are held.
    most: usize,
    /// The sorted runs, if not all is held.
    file: Option<RunFile>,
    count: u64,
}

/// Sorted runs in a file.
struct RunFile {
    file: File,
    /// Where each run ends.
    ends: Vec<u64>,
}

impl RunFile {
    fn create(folder: &Path) -> io::Result<RunFile> {
        let path = folder.join("sorted");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        fs::remove_file(path)?;
        Ok(RunFile { file, ends: Vec::new() })
    }

    fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or_default()
    }

    fn push_run<const W: usize>(&mut self, records: &[[u8; W]]) -> io::Result<()> {
        let from = self.end();
        self.file.write_all_at(records.as_flattened(), from)?;
        self.ends.push(from + (W * records.len()) as u64);
        Ok(())
    }

    fn runs<const W: usize>(&self, runs: std::ops::Range<usize>) -> Vec<Run<W>> {
        let start = |run: usize| run.checked_sub(1).map_or(0, |before| self.ends[before]);
        runs.map(|run| Run { at: start(run), end: self.ends[run], held: Vec::new().into_iter() }).collect()
    }
}

impl<const W: usize> Sorter<W> {
    /// A sorter that holds some `memory` bytes, and else writes into this folder.
    pub(crate) fn new(folder: &Path, memory: usize) -> Sorter<W> {
        let most = (memory / W).max(1);
        Sorter { folder: folder.to_owned(), held: Vec::new(), most, file: None, count: 0 }
    }

    pub(crate) fn push(&mut self, record: [u8; W]) -> io::Result<()> {
        if self.held.len() == self.most {
            self.spill()?;
        }
        if self.held.len() == self.held.capacity() {
            // Doubled, but never beyond what is allowed.
            self.held.reserve_exact(self.held.len().max(1 << 10).min(self.most - self.held.len()));
        }
        self.held.push(record);
        self.count += 1;
        Ok(())
    }

    /// The number of records.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    fn spill(&mut self) -> io::Result<()> {
        self.held.sort_unstable();
        let file = match self.file.take() {
            Some(file) => file,
            None => RunFile::create(&self.folder)?,
        };
        self.file.insert(file).push_run(&self.held)?;
        self.held.clear();
        Ok(())
    }

    /// The records in their order.
    pub(crate) fn sorted(mut self) -> io::Result<Sorted<W>> {
        if self.file.is_none() {
            self.held.sort_unstable();
            return Sorted::of(None, vec![Run { at: 0, end: 0, held: self.held.into_iter() }]);
        }
        self.spill()?;
        let memory = self.most * W;
        self.held = Vec::new();
        let mut file = self.file.take().expect("it was written");
        let most_runs = (memory / AT_ONCE).max(LEAST_RUNS);
        while file.ends.len() > most_runs {
            file = merged::<W>(&self.folder, &file, most_runs, self.most)?;
        }
        let runs = file.runs(0..file.ends.len());
        Sorted::of(Some(file.file), runs)
    }
}

/// The runs of a file, each merged of several.
fn merged<const W: usize>(
    folder: &Path,
    file: &RunFile,
    most_runs: usize,
    most: usize,
) -> io::Result<RunFile> {
    let mut to = RunFile::create(folder)?;
    for first in (0..file.ends.len()).step_by(most_runs) {
        let runs = file.runs::<W>(first..(first + most_runs).min(file.ends.len()));
        let mut sorted = Sorted::of(Some(file.file.try_clone()?), runs)?;
        let (mut part, mut end) = (Vec::new(), to.end());
        while let Some(record) = sorted.next()? {
            part.push(record);
            if part.len() == most.min(AT_ONCE) {
                to.file.write_all_at(part.as_flattened(), end)?;
                end += (W * part.len()) as u64;
                part.clear();
            }
        }
        to.file.write_all_at(part.as_flattened(), end)?;
        end += (W * part.len()) as u64;
        to.ends.push(end);
    }
    Ok(to)
}

/// A run that is read.
struct Run<const W: usize> {
    at: u64,
    end: u64,
    held: IntoIter<[u8; W]>,
}

impl<const W: usize> Run<W> {
    fn next(&mut self, file: Option<&File>) -> io::Result<Option<[u8; W]>> {
        if let Some(record) = self.held.next() {
            return Ok(Some(record));
        }
        let left = ((self.end - self.at) / W as u64) as usize;
        let Some(file) = file.filter(|_| left > 0) else { return Ok(None) };
        let mut held = vec![[0; W]; left.min(AT_ONCE / W)];
        file.read_exact_at(held.as_flattened_mut(), self.at)?;
        self.at += (W * held.len()) as u64;
        self.held = held.into_iter();
        Ok(self.held.next())
    }
}

/// Records in their order.
pub(crate) struct Sorted<const W: usize> {
    file: Option<File>,
    runs: Vec<Run<W>>,
    /// The next record of each run.
    next: BinaryHeap<Reverse<([u8; W], usize)>>,
}

impl<const W: usize> Sorted<W> {
    fn of(file: Option<File>, runs: Vec<Run<W>>) -> io::Result<Sorted<W>> {
        let mut sorted = Sorted { file, runs, next: BinaryHeap::new() };
        (0..sorted.runs.len()).try_for_each(|run| sorted.fill(run))?;
        Ok(sorted)
    }

    fn fill(&mut self, run: usize) -> io::Result<()> {
        let next = self.runs[run].next(self.file.as_ref())?;
        self.next.extend(next.map(|record| Reverse((record, run))));
        Ok(())
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<[u8; W]>> {
        let Some(Reverse((record, run))) = self.next.pop() else { return Ok(None) };
        self.fill(run)?;
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sorted_whatever_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(68);
        for count in [0, 1, 7, 40_000] {
            let all: Vec<[u8; 8]> = (0..count).map(|_| random.u64(..5_000).to_be_bytes()).collect();
            let mut expected = all.clone();
            expected.sort_unstable();
            for memory in [8, 1_000, 100_000, 1 << 20] {
                let mut sorter = Sorter::new(folder.path(), memory);
                // A run of one record each would take long.
                let all = if memory < 1_000 { &all[..all.len().min(100)] } else { &all[..] };
                all.iter().for_each(|record| sorter.push(*record).unwrap());
                assert_eq!(sorter.len(), all.len() as u64);
                let mut sorted = sorter.sorted().unwrap();
                let found: Vec<[u8; 8]> = std::iter::from_fn(|| sorted.next().unwrap()).collect();
                let mut own = all.to_vec();
                own.sort_unstable();
                assert_eq!(found, own, "{count} {memory}");
                assert!(all.len() < expected.len() || own == expected);
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");
        }
    }
}
