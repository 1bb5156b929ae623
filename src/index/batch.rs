//! Batches: many queries at once, and all pairs of a collection.
//!
//! Costs: a lookup of a few runs waits for memory most of its time. A batch prefetches the runs of several
//! queries before it reads the first one, so that their cache misses overlap. All pairs need one lookup per
//! hash. Threads divide the hashes by their first bits.
//!
//! *Absent*: threads that outlive a call, and the pool (`engine`).

use std::sync::atomic::{AtomicU32, Ordering};

use super::block::Filed;
use super::memory::pin;
use super::probe::prefetch_query;
use super::scan::Neighbour;
use super::sharded::{Index, Report};

/// The number of queries whose runs are prefetched together: about as many as the processor fetches at a
/// time.
pub const GROUP: usize = 8;
/// The number of first bits of a hash that determine its share of the collection.
const SHARE_BITS: u32 = 12;

/// Two stored hashes that are near each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair<W> {
    /// The smaller hash.
    pub first: W,
    /// The larger hash.
    pub second: W,
    /// Their Hamming distance, in bits.
    pub distance: u32,
}

impl<W: Filed> Index<W> {
    /// Answers every query as [`Index::within`] does, in order. Calls `each` with the position of the query,
    /// its neighbours and the report.
    pub fn within_each(&self, queries: &[W], k: u32, mut each: impl FnMut(usize, &[Neighbour<W>], Report)) {
        let mut found = Vec::new();
        for (group, queries) in queries.chunks(GROUP).enumerate() {
            self.prefetch(queries.iter().copied(), k);
            for (at, query) in queries.iter().enumerate() {
                found.clear();
                let report = self.within(*query, k, &mut found);
                each(group * GROUP + at, &found, report);
            }
        }
    }

    /// Prefetches the memory that lookups of these queries within `k` read first, without waiting. It is
    /// useful for at most [`GROUP`] queries at a time, directly before their lookups.
    pub fn prefetch(&self, queries: impl IntoIterator<Item = W>, k: u32) {
        if let Some(plan) = self.plan(k) {
            let (pin, hashes) = (pin(), self.len());
            queries
                .into_iter()
                .for_each(|query| prefetch_query(self.layout(&pin), plan, query, hashes, &pin));
        }
    }

    /// Calls `each` with every pair of stored hashes within `k` bits of each other, once, in no particular
    /// order, from `threads` threads (at least one). Pairs of a hash that is inserted or removed meanwhile
    /// may or may not be among them.
    ///
    /// The answer can be as large as the square of the collection, so `each` should count or write the pairs
    /// and not collect them.
    pub fn pairs_within(&self, k: u32, threads: usize, each: impl Fn(Pair<W>) + Sync) {
        let next = AtomicU32::new(0);
        let work = || {
            let mut share = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= 1 << SHARE_BITS {
                    break;
                }
                share.clear();
                self.hashes_with(number, SHARE_BITS, &mut share);
                self.within_each(&share, k, |at, found, _| {
                    let first = share[at];
                    let larger = found.iter().filter(|near| near.hash > first);
                    larger.for_each(|near| each(Pair { first, second: near.hash, distance: near.distance }));
                });
            }
        };
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| _ = scope.spawn(work));
            work();
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn stored() -> Vec<u64> {
        let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ i;
        (0..3_000).map(|i| spread(i % 500) ^ (1 << (i / 500 * 9)) ^ (i / 1_000)).collect()
    }

    #[test]
    fn a_batch_gives_the_answers_of_single_queries() {
        let index = Index::<u64>::new();
        index.insert_all(stored());
        let queries: Vec<u64> = stored().iter().step_by(7).map(|hash| hash ^ 0x1001).collect();
        for k in [0, 3, 9, 30] {
            let mut answered = 0;
            index.within_each(&queries, k, |at, found, report| {
                assert_eq!(at, answered);
                answered += 1;
                let mut single = Vec::new();
                assert_eq!(index.within(queries[at], k, &mut single), report);
                assert_eq!(single, found);
            });
            assert_eq!(answered, queries.len());
        }
    }

    #[test]
    fn all_pairs_equal_the_pairs_of_two_nested_loops() {
        let index = Index::<u64>::new();
        index.insert_all(stored());
        let mut all = stored();
        all.sort_unstable();
        all.dedup();
        for (k, threads) in [(0, 1), (2, 3), (7, 2)] {
            let mut expected = Vec::new();
            for (at, &first) in all.iter().enumerate() {
                for &second in &all[at + 1..] {
                    let distance = (first ^ second).count_ones();
                    if distance <= k {
                        expected.push(Pair { first, second, distance });
                    }
                }
            }
            let found = Mutex::new(Vec::new());
            index.pairs_within(k, threads, |pair| found.lock().expect("no thread panics").push(pair));
            let mut found = found.into_inner().expect("no thread panics");
            found.sort_unstable();
            assert_eq!(found, expected, "k = {k}");
        }
    }
}
