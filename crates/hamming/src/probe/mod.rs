//! Answers a query from the tables: prefetches, reads and compares what a plan selects.
//!
//! Costs: lines are prefetched in batches while the previous batch is compared, so that the cache misses of a
//! batch overlap. No lock is taken and nothing waits.
//!
//! *Absent*: the choice of the plan, except for a query that reads many more hashes than expected.

mod buckets;
mod segments;

use super::block::Filed;
use super::layout::{Layout, MAX_BLOCKS, Tables};
use super::memory::{Form, Pin, with_form};
use super::plan::Plan;
use super::scan::Neighbour;

/// The memory that a query read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The number of runs of lines. Each run begins at a new position in memory.
    pub probes: u64,
    /// The number of compared entries in them, including free ones. Of a scan: the number of hashes.
    pub candidates: u64,
}

/// A query and its distance.
pub(super) struct Question<W> {
    pub(super) query: W,
    pub(super) k: u32,
    /// The number of hashes in the index.
    pub(super) hashes: usize,
    pub(super) form: Form,
}

/// Appends every hash within `k` of the query to the answer, each once, in no particular order. The plan must
/// cover `k`; otherwise the answer is incomplete.
///
/// Returns `false` and appends nothing if `stop_if_hot` is set and the query reads many more hashes than
/// expected.
#[inline]
pub(super) fn probe<W: Filed>(
    layout: &Layout<W>,
    plan: &Plan,
    question: &Question<W>,
    stop_if_hot: bool,
    answer: (&mut Vec<Neighbour<W>>, &mut Touched),
    pin: &Pin,
) -> bool {
    match &layout.tables {
        Tables::Segments(tables) => segments::probe(tables, plan, question, stop_if_hot, answer, pin),
        Tables::Buckets(tables) => buckets::probe(tables, plan, question, stop_if_hot, answer, pin),
    }
}

/// Prefetches the lines of the query's own values, if the plan has radii of 0 only. Otherwise these lines are
/// a small part of the probes.
#[inline]
pub(super) fn prefetch_query<W: Filed>(layout: &Layout<W>, plan: &Plan, query: W, hashes: usize, pin: &Pin) {
    match &layout.tables {
        Tables::Segments(tables) => segments::prefetch_query(tables, plan, query, hashes, pin),
        Tables::Buckets(tables) => buckets::prefetch_query(tables, plan, query, pin),
    }
}

/// As [`probe`], by comparing every hash.
pub(super) fn probe_all<W: Filed>(
    layout: &Layout<W>,
    question: &Question<W>,
    answer: (&mut Vec<Neighbour<W>>, &mut Touched),
    pin: &Pin,
) {
    let block = layout.kind.blocks()[layout.kind.blocks().len() - 1];
    match &layout.tables {
        Tables::Segments(tables) => {
            let table = &tables[tables.len() - 1];
            with_form(question.form, segments::Scan { table, block, question, answer, pin });
        }
        Tables::Buckets(tables) => {
            with_form(
                question.form,
                buckets::Scan { table: &tables[tables.len() - 1], block, question, answer, pin },
            );
        }
    }
}

/// A plan for this query from the true lengths of the runs around it; `None` if comparing every hash is
/// cheaper.
#[cold]
pub(super) fn adapted<W: Filed>(
    layout: &Layout<W>,
    plan: &Plan,
    question: &Question<W>,
    pin: &Pin,
) -> Option<Plan> {
    let lengths = |number: usize| match &layout.tables {
        Tables::Segments(tables) => segments::lengths(&tables[number], plan, number, question.query, pin),
        Tables::Buckets(tables) => buckets::lengths(&tables[number], plan, number, question.query, pin),
    };
    let lengths: Vec<[f64; 2]> = (0..layout.kind.blocks().len()).map(lengths).collect();
    plan.for_lengths::<W>(question.k, question.hashes, &lengths)
}

/// Whether the probes of table `number` reach a hash with this difference from the query; `bits` has the
/// numbers of prefix bits. Only the first such table reports a hash. So each hash is reported once, for any
/// order in which tables are read, and without a set of reported hashes.
#[inline(always)]
fn finds<W: Filed>(plan: &Plan, bits: &[u32; MAX_BLOCKS], number: usize, difference: W) -> bool {
    let radius = plan.radii()[number];
    radius >= 0
        && plan.kind.blocks()[number].first(difference, bits[number]).count_ones()
            <= radius.unsigned_abs().into()
}

/// The next larger number with the same number of one bits (R. W. Gosper, HAKMEM item 175, 1972).
#[inline(always)]
pub(super) fn next_with_as_many_ones(number: u64) -> u64 {
    let lowest = number & number.wrapping_neg();
    let carried = number + lowest;
    carried | ((number ^ carried) >> 2 >> lowest.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::next_with_as_many_ones;

    #[test]
    fn each_number_with_that_many_ones_occurs_once() {
        for ones in 1..6u32 {
            let mut number = (1u64 << ones) - 1;
            let mut seen = Vec::new();
            while number < 1 << 12 {
                seen.push(number);
                number = next_with_as_many_ones(number);
            }
            let expected: Vec<u64> = (0..1 << 12).filter(|n: &u64| n.count_ones() == ones).collect();
            assert_eq!(seen, expected);
        }
    }
}
