//! Builds an index from ascending hashes on several threads.
//!
//! Costs: the runs are read once to count, and once per table. One copy of the hashes is in memory until the
//! last table is built, which needs none, besides their rows.
//!
//! The hashes are given in runs that can be read repeatedly, such as the chunks of a snapshot. The table of
//! the first bits uses them in their order. For each other table they are partitioned by rack
//! (counted, then copied to their position). Each rack is built in its final size from its part,
//! which fits into the cache. Nothing is inserted, grown or copied again.
//!
//! *Absent*: the source of the runs (`snapshot`), insertion (`sharded`).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::bins::{Bins, RACK_BITS, RACKS, Rack};
use super::block::{Block, Filed};
use super::memory::pin;
use super::progress::Progress;
use super::rows::{Rows, TOO_MANY};
use super::sharded::Index;
use super::tables::Tables;

/// Ascending hashes in runs: each run ascends, and its first hash is larger than the last hash of the
/// previous run.
pub trait Runs<W>: Sync {
    /// The number of runs.
    fn runs(&self) -> usize;

    /// The number of hashes of a run, at least one.
    fn hashes(&self, run: usize) -> usize;

    /// Replaces the contents of `hashes` by the hashes of a run. Returns `false` if the run cannot be read.
    /// Every call for a run must give the same hashes.
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

/// The number of a run that cannot be read, does not have the declared number of hashes, or does not ascend
/// from the previous run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRun(pub usize);

impl<W: Filed> Index<W> {
    /// The index of these hashes, built with `threads` threads, at least one.
    ///
    /// # Errors
    /// [`BadRun`] if a run does not fulfil [`Runs`].
    pub fn built(runs: &dyn Runs<W>, threads: usize, progress: &Progress) -> Result<Index<W>, BadRun> {
        Index::built_with(W::LIMIT, runs, threads, progress)
    }

    fn built_with(
        limit: usize,
        runs: &dyn Runs<W>,
        threads: usize,
        progress: &Progress,
    ) -> Result<Index<W>, BadRun> {
        let count: usize = (0..runs.runs()).map(|run| runs.hashes(run)).sum();
        assert!(!W::NUMBERED || u32::try_from(count).is_ok(), "{TOO_MANY}");
        let firsts = (0..runs.runs()).scan(0, |sum, run| {
            *sum += runs.hashes(run);
            Some(*sum - runs.hashes(run))
        });
        let firsts = firsts.collect();
        let builder = Builder { runs, firsts, count, limit, threads: threads.max(1), progress };
        Ok(Index::of_tables(builder.tables()?, count))
    }
}

struct Builder<'a, W> {
    runs: &'a dyn Runs<W>,
    /// The number of hashes before each run.
    firsts: Vec<usize>,
    count: usize,
    limit: usize,
    threads: usize,
    progress: &'a Progress,
}

/// The counts of one thread's share of the runs.
struct Counted<W> {
    /// The number of hashes of each part of each table.
    sizes: Vec<Vec<usize>>,
    /// The first and the last hash of each run.
    edges: Vec<(W, W)>,
}

/// The entries of one thread's runs, each with its block in front of it, partitioned by the parts of a table:
/// part i is from `starts[i]` to before `starts[i + 1]`.
struct Partitioned<W> {
    filed: Vec<W>,
    starts: Vec<usize>,
}

impl<W: Filed> Builder<'_, W> {
    fn tables(&self) -> Result<Tables<W>, BadRun> {
        if self.count == 0 {
            return Ok(Tables::new(self.limit));
        }
        let rows = Rows::with_room(if W::NUMBERED { self.count } else { 0 });
        let counted = self.counted(&rows)?;
        let edges: Vec<(W, W)> = counted.iter().flat_map(|counted| counted.edges.iter().copied()).collect();
        if let Some(before) = edges.windows(2).position(|pair| pair[0].1 >= pair[1].0) {
            return Err(BadRun(before + 1));
        }
        let join = |block, racks: Vec<Rack<W>>| Bins::of_racks(block, self.limit, racks.into_iter());
        let (top, others) = (W::BLOCKS[W::BLOCKS.len() - 1], &W::BLOCKS[..W::BLOCKS.len() - 1]);
        let mut buffers: Vec<Vec<W>> = counted.iter().map(|_| Vec::new()).collect();
        let mut tables = Vec::with_capacity(W::BLOCKS.len());
        for (number, block) in others.iter().enumerate() {
            let partitioned = self.partitioned(*block, &counted, number, buffers)?;
            let read = |part: usize, into: &mut Vec<W>| {
                for Partitioned { filed, starts } in &partitioned {
                    into.extend_from_slice(&filed[starts[part]..starts[part + 1]]);
                }
            };
            tables.push(join(*block, self.parts(read)));
            buffers = partitioned.into_iter().map(|partitioned| partitioned.filed).collect();
        }
        drop(buffers);
        let read = |part: usize, into: &mut Vec<W>| self.read_part(top, part, &edges, into);
        tables.push(join(top, self.parts(read)));
        Ok(Tables { all: tables.into(), rows })
    }

    /// The share of the runs of a thread.
    fn share(&self, thread: usize) -> std::ops::Range<usize> {
        let at = |thread| self.runs.runs() * thread / self.threads;
        at(thread)..at(thread + 1)
    }

    /// The number of the first hash of a run.
    fn first_of(&self, run: usize) -> u32 {
        self.firsts[run] as u32
    }

    /// Reads every run once, checks it, counts its hashes, and writes their rows if they have some.
    fn counted(&self, rows: &Rows) -> Result<Vec<Counted<W>>, BadRun> {
        let writer = parking_lot::Mutex::new(());
        self.in_threads(|thread| {
            let mut sizes = vec![vec![0; RACKS]; W::BLOCKS.len() - 1];
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
                for (sizes, block) in sizes.iter_mut().zip(W::BLOCKS) {
                    hashes.iter().for_each(|hash| sizes[block.first(*hash, RACK_BITS) as usize] += 1);
                }
                if W::NUMBERED {
                    // Rows that several threads write may share a word of memory.
                    let _one = writer.lock();
                    let (pin, numbers) = (pin(), self.first_of(run)..);
                    numbers.zip(&hashes).for_each(|(number, hash)| rows.set(number, *hash, &pin));
                }
            }
            Ok(Counted { sizes, edges })
        })
        .into_iter()
        .collect()
    }

    /// Groups the entries of each part of a table. It reuses the buffers of the previous table.
    fn partitioned(
        &self,
        block: Block,
        counted: &[Counted<W>],
        table: usize,
        buffers: Vec<Vec<W>>,
    ) -> Result<Vec<Partitioned<W>>, BadRun> {
        let buffers: Vec<_> = buffers.into_iter().map(parking_lot::Mutex::new).collect();
        self.in_threads(|thread| {
            let mut starts = vec![0];
            starts.extend(counted[thread].sizes[table].iter().scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            }));
            let mut partitioned = std::mem::take(&mut *buffers[thread].lock());
            let mut next = starts.clone();
            let mut hashes = Vec::new();
            for run in self.share(thread) {
                if !self.runs.read(run, &mut hashes) {
                    return Err(BadRun(run));
                }
                partitioned.resize(starts[starts.len() - 1], hashes[0]);
                for (number, hash) in (self.first_of(run)..).zip(&hashes) {
                    let next = &mut next[block.first(*hash, RACK_BITS) as usize];
                    partitioned[*next] = block.filed(*hash, number);
                    *next += 1;
                }
            }
            Ok(Partitioned { filed: partitioned, starts })
        })
        .into_iter()
        .collect()
    }

    /// The entries of a part of the table of the first bits.
    fn read_part(&self, top: Block, part: usize, edges: &[(W, W)], into: &mut Vec<W>) {
        let number = |hash: &W| top.first(*hash, RACK_BITS) as usize;
        let from = edges.partition_point(|(_, last)| number(last) < part);
        let mut hashes = Vec::new();
        for run in (from..edges.len()).take_while(|run| number(&edges[*run].0) <= part) {
            // The run was read before, and every read gives the same hashes.
            if self.runs.read(run, &mut hashes) {
                let of_part = (self.first_of(run)..).zip(&hashes).filter(|(_, hash)| number(hash) == part);
                into.extend(of_part.map(|(number, hash)| top.filed(*hash, number)));
            }
        }
    }

    /// The racks of a table. `read` appends the entries of a rack.
    fn parts(&self, read: impl Fn(usize, &mut Vec<W>) + Sync) -> Vec<Rack<W>> {
        let next = AtomicUsize::new(0);
        let built = self.in_threads(|_| {
            let (mut built, mut filed) = (Vec::new(), Vec::new());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= RACKS {
                    return built;
                }
                filed.clear();
                read(number, &mut filed);
                built.push((number, Bins::rack_of(self.limit, &filed)));
                self.progress.add_filed(filed.len() as u64, W::BLOCKS.len());
            }
        });
        let mut racks: Vec<(usize, Rack<W>)> = built.into_iter().flatten().collect();
        racks.sort_unstable_by_key(|(number, _)| *number);
        racks.into_iter().map(|(_, rack)| rack).collect()
    }

    /// Runs `work` in each thread. Returns the results in the order of the threads.
    fn in_threads<T: Send>(&self, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let work = &work;
            let others: Vec<_> = (1..self.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            let mut results = vec![work(0)];
            let finished = others.into_iter().map(std::thread::ScopedJoinHandle::join);
            results.extend(
                finished.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
            );
            results
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Neighbour;
    use lookalike_hash::U256;

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

    /// Compares a built index with one that was filled by insertion: the hashes, the answers, and later
    /// insertions and removals.
    fn check<W: Filed>(hashes: Vec<W>, other: impl Fn(W) -> W) {
        let runs = in_runs(hashes);
        for (limit, threads) in [(W::LIMIT, 1), (W::LIMIT, 5), (1, 2), (4, 1), (usize::MAX >> 20, 5)] {
            let progress = Progress::default();
            let built = Index::built_with(limit, &runs, threads, &progress);
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
    fn a_bulk_build_equals_insertion() {
        let count = if cfg!(miri) { 60 } else { 20_000 };
        check::<u64>(vec![], |hash| hash);
        check(vec![7u64], |hash| hash ^ 1);
        check((0..count).map(spread).collect::<Vec<u64>>(), |hash| hash ^ 0x11);
        check((0..count).chain([u64::MAX]).collect::<Vec<u64>>(), |hash| hash ^ 1 << 40);
        let wide = |i: u64| u128::from(spread(i)) << 64 | u128::from(spread(i + 9));
        check((0..count).map(wide).chain([0, u128::MAX]).collect::<Vec<u128>>(), |hash| hash ^ 1 << 77);
        let wider = |i: u64| U256::from(wide(i)) << 100 | U256::from(spread(i + 3));
        let wider = (0..count).map(wider).chain([U256::default(), U256::MAX]);
        check(wider.collect::<Vec<U256>>(), |hash| hash ^ U256::from(1) << 177);
    }

    #[test]
    fn the_first_bad_run_is_reported() {
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
