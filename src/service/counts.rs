//! Counts of queries and of their matches, for the metrics. Each thread has its own counts, because counting
//! each query in shared memory would cause contention between the processors.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::Counter;

use super::Service;
use crate::engine::Answer;
use crate::ids::Width;

/// The largest distance: that of hashes of 256 bits. Signatures have at most 255 cells.
const LARGEST: u32 = Width::Bits256.bits();

/// Counts answered matches by their distance.
pub(super) struct Distances(Vec<AtomicU64>);

impl Default for Distances {
    fn default() -> Distances {
        Distances((0..=LARGEST).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Distances {
    fn count(&self, distance: usize, more: u64) {
        if let Some(count) = self.0.get(distance) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Metrics of the cost of queries. The handles are cached, because a lookup by name costs more than
/// counting.
pub(super) struct Counters {
    by_index: Counter,
    by_scan: Counter,
    probes: Counter,
    candidates: Counter,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            by_index: metrics::counter!("lookalike_queries_total", "method" => "index"),
            by_scan: metrics::counter!("lookalike_queries_total", "method" => "scan"),
            probes: metrics::counter!("lookalike_query_probes_total"),
            candidates: metrics::counter!("lookalike_query_candidates_total"),
        }
    }
}

/// Counts of several queries. Counting each query in shared memory would cause contention between the
/// processors.
#[derive(Default)]
pub(super) struct Tally {
    by_index: u64,
    by_scan: u64,
    probes: u64,
    candidates: u64,
    /// The number of matches at each small distance, which are the most frequent.
    near: [u64; 16],
    /// The distances of the other matches.
    far: Vec<u32>,
}

impl Tally {
    pub(super) fn add(&mut self, answer: &Answer) {
        let work = &answer.work;
        *if work.scanned { &mut self.by_scan } else { &mut self.by_index } += 1;
        self.probes += work.probes;
        self.candidates += work.candidates;
        for found in &answer.matches {
            match self.near.get_mut(found.distance as usize) {
                Some(count) => *count += 1,
                None => self.far.push(found.distance),
            }
        }
    }

    /// Adds the counts of another tally, except `far`.
    fn join(&mut self, other: &Tally) {
        self.by_index += other.by_index;
        self.by_scan += other.by_scan;
        self.probes += other.probes;
        self.candidates += other.candidates;
        self.near.iter_mut().zip(&other.near).for_each(|(own, more)| *own += more);
    }
}

impl Counters {
    fn count(&self, tally: &Tally) {
        let &Tally { by_index, by_scan, probes, candidates, .. } = tally;
        for (counter, more) in [(&self.by_index, by_index), (&self.by_scan, by_scan)] {
            if more > 0 {
                counter.increment(more);
            }
        }
        self.probes.increment(probes);
        self.candidates.increment(candidates);
    }
}

impl Service {
    /// Adds to the counts of this thread. [`Service::flush_counts`] flushes them.
    pub(super) fn count(&self, tally: &Tally) {
        tally.far.iter().for_each(|&distance| self.distances.count(distance as usize, 1));
        self.tallies.get_or_default().lock().join(tally);
    }

    /// Flushes the counts of all threads. Call it before the metrics are read.
    pub fn flush_counts(&self) {
        for tally in &self.tallies {
            let tally = std::mem::take(&mut *tally.lock());
            self.counters.count(&tally);
            for (distance, &more) in tally.near.iter().enumerate().filter(|(_, more)| **more > 0) {
                self.distances.count(distance, more);
            }
        }
    }
}
