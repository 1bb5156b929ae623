//! Building an index at once from hashes in ascending order, on several threads.
//!
//! The hashes come in runs that can be read again and again, such as the chunks of a snapshot. The table of
//! the first bits takes them as they come. For each other table they are parted by segment or shard first
//! (counted, then put in place), and each of those is built from its part in the cache, at once as large as
//! it is to be. Nothing is inserted, grown or copied again.
//!
//! Costs: the runs are read once to count and once a table. Beside the tables there is one copy of the
//! hashes, until the last table is built, which does without.
//!
//! *Absent*: where runs come from (`snapshot`), insertion (`sharded`).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::block::{Block, Filed, KEY_BITS};
use super::buckets::Buckets;
use super::layout::{Kind, Layout, Tables, Thresholds};
use super::progress::Progress;
use super::segment::Segment;
use super::shard::{SHARD_BITS, Shape, Shard};
use super::sharded::Index;
use super::table::{Table, depth_for, staggered};

/// Ascending hashes in runs: each run ascends, and its first hash is larger than the last one of the run
/// before.
pub trait Runs<W>: Sync {
    /// How many runs there are.
    fn runs(&self) -> usize;

    /// How many hashes a run has, at least one.
    fn hashes(&self, run: usize) -> usize;

    /// Puts the hashes of a run in place of what is in `hashes`; `false` if it cannot be read. The same every
    /// time.
    fn read(&self, run: usize, hashes: &mut Vec<W>) -> bool;
}

impl<W: Filed> Runs<W> for Vec<Vec<W>> {
    fn runs(&self) -> usize {
        self.len()
    }

    fn hashes(&self, run: usize) -> usize {
        self[run].len()
    }

    fn read(&self, run: usize, hashes: &mut Vec<W>) -> bool {
        hashes.clear();
        hashes.extend_from_slice(&self[run]);
        true
    }
}

/// A run that cannot be read, does not hold as many hashes as it says, or does not ascend from the one
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRun(pub usize);

impl<W: Filed> Index<W> {
    /// The index of these hashes, built with so many threads, at least one.
    ///
    /// # Errors
    /// [`BadRun`] if the runs are not what they must be.
    pub fn built(runs: &dyn Runs<W>, threads: usize, progress: &Progress) -> Result<Index<W>, BadRun> {
        Index::built_from(Thresholds::MEASURED, runs, threads, progress)
    }

    fn built_from(
        thresholds: Thresholds,
        runs: &dyn Runs<W>,
        threads: usize,
        progress: &Progress,
    ) -> Result<Index<W>, BadRun> {
        let count: usize = (0..runs.runs()).map(|run| runs.hashes(run)).sum();
        let kind = Kind::suited(W::WIDTH, count, thresholds);
        let depth = if kind.is_in_buckets() { SHARD_BITS } else { depth_for(count) };
        let builder = Builder { kind, runs, count, depth, threads: threads.max(1), progress };
        Ok(Index::of_layout(builder.layout()?, count))
    }
}

struct Builder<'a, W> {
    kind: Kind,
    runs: &'a dyn Runs<W>,
    count: usize,
    depth: u32,
    threads: usize,
    progress: &'a Progress,
}

/// What one thread counted in its share of the runs.
struct Counted<W> {
    /// How many hashes go to each part of each table.
    sizes: Vec<Vec<usize>>,
    /// The first and the last hash of each run.
    edges: Vec<(W, W)>,
}

/// The hashes of one thread's runs, by the parts of a table: those of part i stand from `starts[i]` to
/// `starts[i + 1]`.
struct Parted<W> {
    hashes: Vec<W>,
    starts: Vec<usize>,
}

impl<W: Filed> Builder<'_, W> {
    fn layout(&self) -> Result<Layout<W>, BadRun> {
        if self.count == 0 {
            return Ok(Layout::new(self.kind, 0));
        }
        let (kind, fill) = (self.kind, self.kind.fill());
        let tables = if kind.is_in_buckets() {
            let build = |block, hashes: &[W], _| {
                let shape = Shape::suited::<W>(block, hashes.len());
                Shard::built(block, shape, hashes)
            };
            Tables::Buckets(
                self.tables(build, |block, shards| Buckets::of_shards(block, shards.into_iter()))?,
            )
        } else {
            let build = |block, hashes: &[W], number| {
                Segment::built(block, KEY_BITS - self.depth, hashes, staggered(fill, number))
            };
            let join = |block, segments: Vec<_>| Table::of_segments(block, self.depth, segments.into_iter());
            Tables::Segments(self.tables(build, join)?)
        };
        Ok(Layout { kind, tables })
    }

    /// The tables, each joined of the parts that `build` makes.
    fn tables<P: Send, T>(
        &self,
        build: impl Fn(Block, &[W], usize) -> P + Sync,
        join: impl Fn(Block, Vec<P>) -> T,
    ) -> Result<Box<[T]>, BadRun> {
        let counted = self.counted()?;
        let edges: Vec<(W, W)> = counted.iter().flat_map(|counted| counted.edges.iter().copied()).collect();
        if let Some(before) = edges.windows(2).position(|pair| pair[0].1 >= pair[1].0) {
            return Err(BadRun(before + 1));
        }
        let blocks = self.kind.blocks();
        let (top, others) = (blocks[blocks.len() - 1], &blocks[..blocks.len() - 1]);
        let mut room: Vec<Vec<W>> = counted.iter().map(|_| Vec::new()).collect();
        let mut tables = Vec::with_capacity(blocks.len());
        for (number, block) in others.iter().enumerate() {
            let parted = self.parted(*block, &counted, number, room)?;
            let read = |part: usize, hashes: &mut Vec<W>| {
                for Parted { hashes: parted, starts } in &parted {
                    hashes.extend_from_slice(&parted[starts[part]..starts[part + 1]]);
                }
            };
            tables.push(join(*block, self.parts(read, |hashes, part| build(*block, hashes, part))));
            room = parted.into_iter().map(|parted| parted.hashes).collect();
        }
        drop(room);
        let read = |part: usize, hashes: &mut Vec<W>| self.read_part(top, part, &edges, hashes);
        tables.push(join(top, self.parts(read, |hashes, part| build(top, hashes, part))));
        Ok(tables.into())
    }

    /// The share of the runs that is a thread's.
    fn share(&self, thread: usize) -> std::ops::Range<usize> {
        let at = |thread| self.runs.runs() * thread / self.threads;
        at(thread)..at(thread + 1)
    }

    /// Reads every run once and counts.
    fn counted(&self) -> Result<Vec<Counted<W>>, BadRun> {
        let blocks = self.kind.blocks();
        self.in_threads(|thread| {
            let mut sizes = vec![vec![0; 1 << self.depth]; blocks.len() - 1];
            let (mut edges, mut hashes) = (Vec::new(), Vec::new());
            for run in self.share(thread) {
                let whole = self.runs.read(run, &mut hashes) && hashes.len() == self.runs.hashes(run);
                let (Some(first), Some(last)) = (hashes.first(), hashes.last()) else {
                    return Err(BadRun(run));
                };
                if !whole || !hashes.is_sorted_by(|one, next| one < next) {
                    return Err(BadRun(run));
                }
                edges.push((*first, *last));
                for (sizes, block) in sizes.iter_mut().zip(blocks) {
                    hashes.iter().for_each(|hash| sizes[block.first(*hash, self.depth) as usize] += 1);
                }
            }
            Ok(Counted { sizes, edges })
        })
        .into_iter()
        .collect()
    }

    /// Puts the hashes of each part of a table next to each other, in room that is used again.
    fn parted(
        &self,
        block: Block,
        counted: &[Counted<W>],
        table: usize,
        room: Vec<Vec<W>>,
    ) -> Result<Vec<Parted<W>>, BadRun> {
        let room: Vec<_> = room.into_iter().map(parking_lot::Mutex::new).collect();
        self.in_threads(|thread| {
            let mut starts = vec![0];
            starts.extend(counted[thread].sizes[table].iter().scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            }));
            let mut parted = std::mem::take(&mut *room[thread].lock());
            let mut next = starts.clone();
            let mut hashes = Vec::new();
            for run in self.share(thread) {
                if !self.runs.read(run, &mut hashes) {
                    return Err(BadRun(run));
                }
                parted.resize(starts[starts.len() - 1], hashes[0]);
                for hash in &hashes {
                    let next = &mut next[block.first(*hash, self.depth) as usize];
                    parted[*next] = *hash;
                    *next += 1;
                }
            }
            Ok(Parted { hashes: parted, starts })
        })
        .into_iter()
        .collect()
    }

    /// The hashes of a part of the table of the first bits.
    fn read_part(&self, top: Block, part: usize, edges: &[(W, W)], into: &mut Vec<W>) {
        let number = |hash: &W| top.first(*hash, self.depth) as usize;
        let from = edges.partition_point(|(_, last)| number(last) < part);
        let mut hashes = Vec::new();
        for run in (from..edges.len()).take_while(|run| number(&edges[*run].0) <= part) {
            // It was read before, and is the same every time.
            if self.runs.read(run, &mut hashes) {
                into.extend(hashes.iter().filter(|hash| number(hash) == part));
            }
        }
    }

    /// The parts of a table, built of the hashes that `read` appends.
    fn parts<P: Send>(
        &self,
        read: impl Fn(usize, &mut Vec<W>) + Sync,
        build: impl Fn(&[W], usize) -> P + Sync,
    ) -> Vec<P> {
        let next = AtomicUsize::new(0);
        let built = self.in_threads(|_| {
            let (mut built, mut hashes) = (Vec::new(), Vec::new());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= 1 << self.depth {
                    return built;
                }
                hashes.clear();
                read(number, &mut hashes);
                built.push((number, build(&hashes, number)));
                self.progress.add_filed(hashes.len() as u64, self.kind.blocks().len());
            }
        });
        let mut parts: Vec<(usize, P)> = built.into_iter().flatten().collect();
        parts.sort_unstable_by_key(|(number, _)| *number);
        parts.into_iter().map(|(_, part)| part).collect()
    }

    /// What each thread makes, in order.
    fn in_threads<T: Send>(&self, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let work = &work;
            let others: Vec<_> = (1..self.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            let mut made = vec![work(0)];
            let finished = others.into_iter().map(std::thread::ScopedJoinHandle::join);
            made.extend(finished.map(|made| made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Neighbour;

    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ number
    }

    /// Hashes in runs of uneven lengths.
    fn in_runs<W: Filed>(mut hashes: Vec<W>) -> Vec<Vec<W>> {
        hashes.sort_unstable();
        hashes.dedup();
        let mut runs = Vec::new();
        while !hashes.is_empty() {
            let rest = hashes.split_off((1 + runs.len() * 7 % 50).min(hashes.len()));
            runs.push(std::mem::replace(&mut hashes, rest));
        }
        runs
    }

    /// Held against an index that was filled by insertion: the same hashes, answers, and life afterwards.
    fn check<W: Filed>(hashes: Vec<W>, other: impl Fn(W) -> W) {
        let runs = in_runs(hashes);
        let thresholds = |buckets, three| Thresholds { buckets: [buckets; 2], three };
        let never = usize::MAX;
        let ways = [(never, never, 1), (never, never, 5), (1, never, 2), (1, 1, 1), (1, 1, 5)];
        for (buckets, three, threads) in ways {
            let progress = Progress::default();
            let built = Index::built_from(thresholds(buckets, three), &runs, threads, &progress);
            let built = built.expect("the runs ascend");
            let inserted = Index::<W>::new();
            inserted.insert_all(runs.iter().flatten().copied());
            assert_eq!(built.len(), inserted.len());
            assert_eq!(progress.hashes().0, built.len() as u64);
            let mut sorted = Vec::new();
            built.for_each_sorted_run(|run| sorted.extend_from_slice(run));
            assert_eq!(sorted, runs.concat());
            for &hash in runs.iter().flatten().step_by(97) {
                for query in [hash, other(hash)] {
                    for k in [0, 3, 12] {
                        assert_eq!(answers(&built, query, k), answers(&inserted, query, k));
                    }
                }
            }
            for &hash in runs.iter().flatten() {
                assert!(built.contains(hash) && !built.insert(hash));
                assert_eq!(built.insert(other(hash)), inserted.insert(other(hash)));
                assert_eq!(built.remove(hash), inserted.remove(hash));
            }
            assert_eq!(built.len(), inserted.len());
        }
    }

    fn answers<W: Filed>(index: &Index<W>, query: W, k: u32) -> Vec<Neighbour<W>> {
        let mut found = Vec::new();
        index.within(query, k, &mut found);
        found.sort_unstable();
        found
    }

    #[test]
    fn what_is_built_at_once_is_what_is_built_by_insertion() {
        let count = if cfg!(miri) { 60 } else { 20_000 };
        check::<u64>(vec![], |hash| hash);
        check(vec![7u64], |hash| hash ^ 1);
        check((0..count).map(spread).collect::<Vec<u64>>(), |hash| hash ^ 0x11);
        check((0..count).chain([u64::MAX]).collect::<Vec<u64>>(), |hash| hash ^ 1 << 40);
        let wide = |i: u64| u128::from(spread(i)) << 64 | u128::from(spread(i + 9));
        check((0..count).map(wide).chain([0, u128::MAX]).collect::<Vec<u128>>(), |hash| hash ^ 1 << 77);
    }

    #[test]
    fn runs_that_do_not_ascend_are_named() {
        let bad = |runs: &[Vec<u64>]| {
            [1, 3].map(|threads| Index::built(&runs.to_vec(), threads, &Progress::default()).err())
        };
        assert_eq!(bad(&[vec![1, 2], vec![5, 4]]), [Some(BadRun(1)); 2]);
        assert_eq!(bad(&[vec![1, 2], vec![3], vec![3, 4]]), [Some(BadRun(2)); 2]);
        assert_eq!(bad(&[vec![1, 1]]), [Some(BadRun(0)); 2]);
        assert_eq!(bad(&[vec![1], vec![], vec![3]]), [Some(BadRun(1)); 2]);
        assert_eq!(bad(&[vec![1], vec![2]]), [None; 2]);
    }
}
