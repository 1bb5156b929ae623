//! Many questions at once: batches of queries, and all pairs of a collection.
//!
//! Costs: a lookup of a few runs waits for memory most of its time. In a batch the runs of the next queries
//! are asked for before the first of them is read, so that they wait together. All pairs are found by one
//! lookup a hash, shared among threads by the first bits of the hashes.
//!
//! *Absent*: threads of its own that outlive a call; the pool (`engine`).

use std::sync::atomic::{AtomicU32, Ordering};

use super::block::Filed;
use super::memory::pin;
use super::probe::approach;
use super::scan::Neighbour;
use super::sharded::{Index, Report};

/// Queries whose runs are asked for together: as many as the machine fetches at a time, about.
pub const GROUP: usize = 8;
/// The shares of a collection, by this many first bits of its hashes.
const SHARE_BITS: u32 = 12;

/// Two stored hashes that lie near each other, and how near.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair<W> {
    /// The smaller hash.
    pub first: W,
    /// The larger one.
    pub second: W,
    /// Their Hamming distance, in bits.
    pub distance: u32,
}

impl<W: Filed> Index<W> {
    /// Answers every query as [`Index::within`] does, in order: `each` is called with the query's place, what
    /// was found, and how.
    pub fn within_each(&self, queries: &[W], k: u32, mut each: impl FnMut(usize, &[Neighbour<W>], Report)) {
        let mut found = Vec::new();
        for (group, queries) in queries.chunks(GROUP).enumerate() {
            self.approach(queries.iter().copied(), k);
            for (at, query) in queries.iter().enumerate() {
                found.clear();
                let report = self.within(*query, k, &mut found);
                each(group * GROUP + at, &found, report);
            }
        }
    }

    /// Asks for the memory that lookups of these queries within `k` will read first, and waits for nothing.
    /// It pays for some queries that are asked right after, [`GROUP`] at a time.
    pub fn approach(&self, queries: impl IntoIterator<Item = W>, k: u32) {
        if let Some(plan) = self.plan(k) {
            let (pin, hashes) = (pin(), self.len());
            queries.into_iter().for_each(|query| approach(self.layout(&pin), plan, query, hashes, &pin));
        }
    }

    /// Calls `each` with every pair of stored hashes that lie within `k` bits of each other, once, in no
    /// order, from `threads` threads (at least one). Pairs of which a hash comes or goes meanwhile may or may
    /// not be among them.
    ///
    /// The answer can be as large as the square of the collection: `each` had better count or write.
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
    fn a_batch_answers_as_single_queries_do() {
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
    fn all_pairs_are_those_of_two_loops() {
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
            index.pairs_within(k, threads, |pair| found.lock().expect("nobody panics").push(pair));
            let mut found = found.into_inner().expect("nobody panics");
            found.sort_unstable();
            assert_eq!(found, expected, "k = {k}");
        }
    }
}
