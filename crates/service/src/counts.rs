//! Counts of queries for the metrics. Each thread has its own counts, because counting each query in shared
//! memory would cause contention between the processors.

use metrics::Counter;

use super::Service;
use super::documents::Added;
use super::error::ServiceError;
use lookalike_engine::{Answer, Collection, NEAR, Outcome};
use lookalike_text::fingerprint::Status;

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

/// Counts the outcomes of documents. A document whose text is short is counted twice: as short, and by what
/// was done with it.
pub(super) fn count_outcomes(added: &[Result<Added, ServiceError>]) {
    let count = |outcome: &'static str, is_counted: &dyn Fn(&Added) -> bool| {
        let documents = added.iter().flatten().filter(|one| is_counted(one)).count();
        if documents > 0 {
            metrics::counter!("lookalike_document_outcomes_total", "outcome" => outcome)
                .increment(documents as u64);
        }
    };
    count("created", &|one| matches!(one.outcome, Outcome::Created(_)));
    count("updated", &|one| matches!(one.outcome, Outcome::Updated(_)));
    count("replaced", &|one| matches!(one.outcome, Outcome::Replaced(..)));
    count("duplicate", &|one| matches!(one.outcome, Outcome::Duplicate(_)) && !one.outcome.is_contained());
    count("contained_in", &|one| one.outcome.is_contained());
    count("short", &|one| one.status == Some(Status::Short));
}

/// Counts of several queries of one collection. Counting each query in shared memory would cause contention
/// between the processors.
#[derive(Default)]
pub(super) struct Tally {
    costs: Costs,
    /// The number of matches at each small distance, which are the most frequent.
    near: [u64; NEAR],
    /// The distances of the other matches.
    far: Vec<u32>,
}

/// The work of queries.
#[derive(Clone, Copy, Default)]
pub(super) struct Costs {
    by_index: u64,
    by_scan: u64,
    probes: u64,
    candidates: u64,
}

impl Tally {
    pub(super) fn add(&mut self, answer: &Answer) {
        let (work, costs) = (&answer.work, &mut self.costs);
        *if work.scanned { &mut costs.by_scan } else { &mut costs.by_index } += 1;
        costs.probes += work.probes;
        costs.candidates += work.candidates;
        for found in &answer.matches {
            match self.near.get_mut(found.distance as usize) {
                Some(count) => *count += 1,
                None => self.far.push(found.distance),
            }
        }
    }
}

impl Costs {
    fn add(&mut self, more: Costs) {
        self.by_index += more.by_index;
        self.by_scan += more.by_scan;
        self.probes += more.probes;
        self.candidates += more.candidates;
    }
}

impl Counters {
    fn count(&self, costs: Costs) {
        let Costs { by_index, by_scan, probes, candidates } = costs;
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
    /// Adds to the counts of this thread and of the collection. [`Service::flush_counts`] flushes the former.
    pub(super) fn count(&self, collection: &Collection, tally: &Tally) {
        let Tally { costs, near, far } = tally;
        self.costs.get_or_default().lock().add(*costs);
        collection.traffic.asked(costs.by_index + costs.by_scan, near, far);
    }

    /// Flushes the counts of all threads. Call it before the metrics are read.
    pub fn flush_counts(&self) {
        for costs in &self.costs {
            self.counters.count(std::mem::take(&mut *costs.lock()));
        }
    }
}
