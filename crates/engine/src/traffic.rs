//! Counts of the queries on a collection, and of its documents that clients of this server wrote, since it
//! was loaded.
//!
//! Each thread has its own counts of queries, because counting each query in shared memory would cause
//! contention between the processors. Not here: metrics (`http/gauges`), and writes of other replicas.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thread_local::ThreadLocal;

use lookalike_hash::Width;

/// The distances that each thread counts for itself: the most frequent ones.
pub const NEAR: usize = 16;
/// The number of distances: hashes of 256 bits have the largest one, and signatures at most 255 cells.
const DISTANCES: usize = Width::Bits256.bits() as usize + 1;

/// The counts of a collection.
#[derive(Default)]
pub struct Traffic {
    asked: ThreadLocal<Mutex<Asked>>,
    /// The number of matches at the other distances. Most collections have none.
    far: OnceLock<Box<[AtomicU64]>>,
    written: AtomicU64,
}

#[derive(Default)]
struct Asked {
    queries: u64,
    near: [u64; NEAR],
}

impl Traffic {
    /// Counts queries, the number of their matches at each near distance, and the distances of the others.
    pub fn asked(&self, queries: u64, near: &[u64; NEAR], far: &[u32]) {
        {
            let mut asked = self.asked.get_or_default().lock();
            asked.queries += queries;
            asked.near.iter_mut().zip(near).for_each(|(own, more)| *own += more);
        }
        if !far.is_empty() {
            let counts = self.far.get_or_init(|| (0..DISTANCES).map(|_| AtomicU64::new(0)).collect());
            for count in far.iter().filter_map(|distance| counts.get(*distance as usize)) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts documents that were stored or deleted.
    pub fn wrote(&self, documents: u64) {
        self.written.fetch_add(documents, Ordering::Relaxed);
    }

    /// The number of queries.
    pub fn queries(&self) -> u64 {
        self.asked.iter().map(|asked| asked.lock().queries).sum()
    }

    /// The number of documents that were stored or deleted.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The number of matches at each distance.
    pub fn distances(&self) -> Vec<u64> {
        let mut counts = vec![0; DISTANCES];
        for asked in &self.asked {
            counts.iter_mut().zip(&asked.lock().near).for_each(|(sum, more)| *sum += more);
        }
        for (sum, more) in counts.iter_mut().zip(self.far.get().into_iter().flatten()) {
            *sum += more.load(Ordering::Relaxed);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_are_added() {
        let traffic = Traffic::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut near = [0; NEAR];
                    near[3] = 2;
                    traffic.asked(5, &near, &[16, 256, 257]);
                    traffic.wrote(7);
                });
            }
        });
        assert_eq!((traffic.queries(), traffic.written()), (20, 28));
        let counts = traffic.distances();
        assert_eq!((counts[3], counts[16], counts[256], counts.iter().sum::<u64>()), (8, 4, 4, 16));
    }
}
