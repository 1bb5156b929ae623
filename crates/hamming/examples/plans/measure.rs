//! Builds a plan, checks it, and takes its time next to the scan and the index.
//!
//! The three take turns in rounds. A time is the median of the rounds, a ratio the median of the rounds'
//! ratios, because other work on the machine affects all three of a round. One plan is in memory at a time.

use std::time::{Duration, Instant};

use super::bits::Bits;
use super::design::{Built, Design, first_difference};

/// The number of rounds.
const ROUNDS: usize = 5;
/// The time that each plan answers queries in a round, at least.
const SLICE: Duration = Duration::from_millis(50);
/// The number of queries for which a plan is compared with the scan, and from which its work is counted.
const CHECKED: usize = 100;

/// What every plan is measured with.
pub(super) struct Bench<'a, W> {
    pub(super) hashes: &'a [W],
    pub(super) k: u32,
    queries: &'a [W],
    scan: Box<dyn Built<W>>,
    index: Box<dyn Built<W>>,
}

/// The figures of a plan.
pub(super) struct Figures {
    pub(super) build_seconds: f64,
    /// Nanoseconds for a lookup.
    pub(super) lookup: f64,
    /// Its time divided by that of the scan, and by that of the index.
    pub(super) to_scan: f64,
    pub(super) to_index: f64,
    /// The mean numbers for a lookup.
    pub(super) probes: f64,
    pub(super) candidates: f64,
    pub(super) found: f64,
    pub(super) bytes_per_hash: f64,
}

impl<'a, W: Bits> Bench<'a, W> {
    /// Builds the scan and the index, with which every plan is compared.
    pub(super) fn new(hashes: &'a [W], queries: &'a [W], k: u32) -> Bench<'a, W> {
        let [scan, index] = [Design::Scan, Design::Index].map(|design| design.build(hashes, k));
        Bench { hashes, k, queries, scan, index }
    }

    /// The number of queries for which each plan is compared with the scan.
    pub(super) fn checked(&self) -> usize {
        self.queries.len().min(CHECKED)
    }

    /// # Errors
    /// The query for which the plan does not find what the scan finds.
    pub(super) fn measure(&self, design: Design) -> Result<Figures, String> {
        let start = Instant::now();
        let plan = design.build(self.hashes, self.k);
        let build_seconds = start.elapsed().as_secs_f64();
        let queries = &self.queries[..self.checked()];
        if let Some(query) = first_difference(&*plan, &*self.scan, queries) {
            let (name, query) = (design.name(), query.to_hash());
            return Err(format!("the plan {name} does not find what the scan finds for {query}"));
        }
        let (mut probes, mut candidates, mut found) = (0, 0, Vec::new());
        for query in queries {
            let touched = plan.within(*query, &mut found);
            probes += touched.probes;
            candidates += touched.candidates;
        }
        let rounds: Vec<[f64; 3]> = (0..ROUNDS)
            .map(|round| [&plan, &self.scan, &self.index].map(|plan| self.time(&**plan, round)))
            .collect();
        let mean = |sum: u64| sum as f64 / queries.len() as f64;
        Ok(Figures {
            build_seconds,
            lookup: median(rounds.iter().map(|[own, ..]| *own)),
            to_scan: median(rounds.iter().map(|[own, scan, _]| own / scan)),
            to_index: median(rounds.iter().map(|[own, _, index]| own / index)),
            probes: mean(probes),
            candidates: mean(candidates),
            found: mean(found.len() as u64),
            bytes_per_hash: plan.bytes() as f64 / self.hashes.len() as f64,
        })
    }

    /// Nanoseconds for a lookup. Each round begins at another query. The clock is read after 1, 2, 4 …
    /// lookups, so that reading it takes no part of the time.
    fn time(&self, plan: &dyn Built<W>, round: usize) -> f64 {
        let mut queries = self.queries.iter().cycle().skip(round * self.queries.len() / ROUNDS);
        let mut found = Vec::new();
        let (mut batch, mut asked) = (1, 0);
        let start = Instant::now();
        loop {
            for query in queries.by_ref().take(batch) {
                found.clear();
                plan.within(*query, &mut found);
            }
            asked += batch;
            let passed = start.elapsed();
            if passed >= SLICE {
                return passed.as_nanos() as f64 / asked as f64;
            }
            batch *= 2;
        }
    }
}

/// The median of a non-empty sequence.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
