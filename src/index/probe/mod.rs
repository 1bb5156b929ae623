//! Answering a query from the tables: what a plan names is asked for, read and compared.
//!
//! Costs: places are asked for (prefetched) in batches while the batch before is compared, so that the cache
//! misses of that many are under way at once. Nothing is locked and nothing waits.
//!
//! *Absent*: the choice of the plan, except where a query meets far more hashes than expected.

mod buckets;
mod segments;

use super::block::Filed;
use super::layout::{Layout, MAX_BLOCKS, Tables};
use super::memory::{Pin, with_best};
use super::plan::Plan;
use super::scan::Neighbour;

/// What a query touched on its way to the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Runs of lines read, each of which begins where nothing was read before.
    pub probes: u64,
    /// Entries compared in them, free ones included.
    pub candidates: u64,
}

/// What is asked.
pub(super) struct Question<W> {
    pub(super) query: W,
    pub(super) k: u32,
    /// How many hashes the index holds.
    pub(super) hashes: usize,
}

/// Appends every hash within `k` of the query to what was found, each once, in no order. The plan must cover
/// `k`: that is what makes the answer complete.
///
/// `false` if the query meets far more hashes than expected and that was to be heeded: then nothing was
/// appended.
#[inline]
pub(super) fn probe<W: Filed>(
    layout: &Layout<W>,
    plan: &Plan,
    question: &Question<W>,
    heeds_hot: bool,
    answer: (&mut Vec<Neighbour<W>>, &mut Touched),
    pin: &Pin,
) -> bool {
    match &layout.tables {
        Tables::Segments(tables) => segments::probe(tables, plan, question, heeds_hot, answer, pin),
        Tables::Buckets(tables) => buckets::probe(tables, plan, question, heeds_hot, answer, pin),
    }
}

/// Asks for the places of the query's own values, if the plan has so few probes that they are most of it.
#[inline]
pub(super) fn approach<W: Filed>(layout: &Layout<W>, plan: &Plan, query: W, hashes: usize, pin: &Pin) {
    match &layout.tables {
        Tables::Segments(tables) => segments::approach(tables, plan, query, hashes, pin),
        Tables::Buckets(tables) => buckets::approach(tables, plan, query, pin),
    }
}

/// The same by comparing everything.
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
            with_best(segments::Scan { table, block, question, answer, pin });
        }
        Tables::Buckets(tables) => {
            with_best(buckets::Scan { table: &tables[tables.len() - 1], block, question, answer, pin });
        }
    }
}

/// A plan for this query from the true lengths of what stands around it; `None` if comparing everything is
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

/// Whether table `number` is to find a hash with this difference from the query, where so many first bits of
/// each block are told apart. A hash is reported by the first table that is, so that no answer comes twice,
/// in whatever order tables are read and without remembering what was seen.
#[inline(always)]
fn finds<W: Filed>(plan: &Plan, bits: &[u32; MAX_BLOCKS], number: usize, difference: W) -> bool {
    let radius = plan.radii()[number];
    radius >= 0
        && plan.kind.blocks()[number].first(difference, bits[number]).count_ones()
            <= radius.unsigned_abs().into()
}

/// The next larger number with as many one bits (R. W. Gosper, HAKMEM item 175, 1972).
#[inline(always)]
fn next_with_as_many_ones(number: u64) -> u64 {
    let lowest = number & number.wrapping_neg();
    let carried = number + lowest;
    carried | ((number ^ carried) >> 2 >> lowest.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::next_with_as_many_ones;

    #[test]
    fn every_number_of_so_many_ones_comes_once() {
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
