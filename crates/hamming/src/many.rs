//! Answers a group of queries within one distance together.
//!
//! The bins that the queries read of a table are listed first, so that their slots and entries are prefetched
//! across queries. If the list has many of the bins, it is sorted: a bin that several queries read then comes
//! from memory once. A list of few bins of each query's many gains nothing, since a single query prefetches
//! them as well ([`gains`]).
//!
//! The group reads a rack of a table once, and each query a bin once, as a single query does: it sees one
//! state of each.
//!
//! *Absent*: the choice of the plan and the size of a group (`sharded`); queries that read a hot bin, which
//! are answered alone.

use super::bin::{Bin, Span};
use super::bins::{Bins, RACKS, Rack};
use super::block::{Filed, words};
use super::ends::End;
use super::memory::{Compare, Form, LANES, Pin, Work, cells, pin, with_form};
use super::plan::{Plan, ball};
use super::probe::{SCANNED, Spot, for_each_bin, hot, probe_all, verified};
use super::scan::Neighbour;
use super::tables::Tables;

/// How many bins ahead of the compared one entries are prefetched, and slots.
const AHEAD: usize = 16;
const SLOTS_AHEAD: usize = 2 * AHEAD;
/// The most bins of a table that a group reads.
const VISITS: usize = if cfg!(test) { 1 << 7 } else { 1 << 18 };
/// The most queries of a group.
const QUERIES: usize = 1 << 14;
/// Fewer queries gain nothing.
const FEWEST: usize = if cfg!(test) { 1 } else { 4 };
/// The mean number of queries by which a bin must be read, if they read several bins of a table each.
const DENSE: f64 = 2.0;
/// The least bytes of a table of which several bins are read, and of one: what caches hold is read as quickly
/// by single queries.
const BYTES: [usize; 2] = if cfg!(test) { [0; 2] } else { [1 << 24, 1 << 18] };
/// With more hashes for each query, the answers of a group take too much memory.
const MOST: usize = if cfg!(test) { 1 << 5 } else { 1 << 8 };

/// The queries of a group.
pub(super) struct Group<'a, W> {
    pub(super) tables: &'a Tables<W>,
    pub(super) queries: &'a [W],
    pub(super) k: u32,
    /// The number of hashes in the index.
    pub(super) hashes: usize,
    pub(super) form: Form,
}

/// What a group finds. A query is named by its number in the group.
pub(super) struct Answers<W> {
    /// In ascending order.
    pub(super) near: Vec<(u32, Neighbour<W>)>,
    /// The queries that must be answered alone, ascending. They have no hash in `near`.
    pub(super) alone: Vec<u32>,
}

/// The most queries that a group should have.
pub(super) fn most(plan: Option<&Plan>) -> usize {
    let of_plan = |plan| {
        let visits = visits(plan).fold(1.0, f64::max);
        ((VISITS as f64 / visits) as usize).clamp(1, QUERIES)
    };
    plan.map_or(SCANNED, of_plan)
}

/// Whether so many queries are answered faster together than one by one, among so many hashes.
fn gains<W: Filed>(plan: &Plan, queries: usize, hashes: usize) -> bool {
    let is_single = plan.radii().iter().all(|radius| *radius <= 0);
    let bins = f64::from(1u32 << (plan.bits() - 1));
    let is_dense = |visits: f64| visits < 2.0 || visits * queries as f64 >= bins * DENSE;
    let is_large = hashes * W::PLANES * size_of::<u16>() >= BYTES[usize::from(is_single)];
    queries >= FEWEST && is_large && (cfg!(test) || is_single || visits(plan).all(is_dense))
}

/// The number of bins that a query reads of each table; 1 of a table that it does not read.
fn visits(plan: &Plan) -> impl Iterator<Item = f64> {
    plan.radii().iter().map(|radius| ball(plan.bits() - 1, u32::try_from(*radius).unwrap_or(0)))
}

/// Reads the tables as a plan says.
struct Probing<'a, W> {
    group: &'a Group<'a, W>,
    plan: &'a Plan,
}

/// A bin that a query reads: its rack (4 bits) and number (20), the query (32), and three parts of [`Spot`].
#[derive(Clone, Copy)]
struct Visit(u64);

impl Visit {
    #[inline(always)]
    fn new(query: usize, spot: Spot) -> Visit {
        let bin = u64::from(spot.rack) << 20 | u64::from(spot.number);
        let ends = spot.end.bit() << 1 | u32::from(spot.both);
        Visit(bin << 40 | (query as u64) << 8 | u64::from(spot.elsewhere) << 2 | u64::from(ends))
    }

    #[inline(always)]
    fn query(self) -> usize {
        (self.0 >> 8) as u32 as usize
    }

    #[inline(always)]
    fn spot(self) -> Spot {
        Spot {
            rack: (self.0 >> 60) as u8,
            number: (self.0 >> 40) as u32 & 0xf_ffff,
            elsewhere: self.0 as u8 >> 2,
            end: End::of((self.0 >> 1) as u32),
            both: self.0 & 1 == 1,
        }
    }

    /// Whether both read the same entries.
    #[inline(always)]
    fn reads_as(self, other: Visit) -> bool {
        const ENTRIES: u64 = !0 << 40 | 3;
        (self.0 ^ other.0) & ENTRIES == 0
    }
}

impl<W: Filed> Group<'_, W> {
    /// The answers by a plan, or by a scan. All queries are left alone if they would have too many answers,
    /// or if nothing is gained.
    pub(super) fn answers(&self, plan: Option<&Plan>) -> Answers<W> {
        let found = match plan {
            Some(plan) if gains::<W>(plan, self.queries.len(), self.hashes) => {
                with_form(self.form, Probing { group: self, plan })
            }
            Some(_) => None,
            None => self.scanned(),
        };
        let Some(Answers { mut near, mut alone }) = found else {
            return Answers { near: Vec::new(), alone: (0..self.queries.len() as u32).collect() };
        };
        alone.sort_unstable();
        alone.dedup();
        if !alone.is_empty() {
            near.retain(|(query, _)| alone.binary_search(query).is_err());
        }
        near.sort_unstable();
        Answers { near, alone }
    }

    /// The most hashes that the answers may have together.
    fn most_near(&self) -> usize {
        self.queries.len() * MOST
    }

    fn scanned(&self) -> Option<Answers<W>> {
        let (mut near, most) = (Vec::new(), self.most_near());
        probe_all(self.tables, (self.queries, self.k, self.form), false, &pin(), |query, found| {
            near.push((query as u32, found));
            near.len() <= most
        });
        (near.len() <= most).then_some(Answers { near, alone: Vec::new() })
    }
}

impl<W: Filed> Work for Probing<'_, W> {
    type Output = Option<Answers<W>>;

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> Option<Answers<W>> {
        let mut answers = Answers { near: Vec::new(), alone: Vec::new() };
        let mut visits = [Vec::new(), Vec::new()];
        for (number, table) in self.group.tables.all.iter().enumerate() {
            let Ok(radius) = u32::try_from(self.plan.radii()[number]) else { continue };
            let radius = radius.min(self.group.k);
            if !self.read(compare, (number, table, radius), &mut visits, &mut answers) {
                return None;
            }
        }
        Some(answers)
    }
}

impl<W: Filed> Probing<'_, W> {
    /// Reads a table. Returns `false` if the answers are too many. The thread is pinned for one table only.
    #[inline(always)]
    fn read<C: Compare>(
        &self,
        compare: C,
        (number, table, radius): (usize, &Bins<W>, u32),
        [visits, other]: &mut [Vec<Visit>; 2],
        answers: &mut Answers<W>,
    ) -> bool {
        let (pin, block, hot) = (pin(), W::BLOCKS[number], hot(self.plan, self.group.hashes));
        let racks: [&Rack<W>; RACKS] = std::array::from_fn(|at| table.rack(at, &pin));
        visits.clear();
        for (query, hash) in self.group.queries.iter().enumerate() {
            for_each_bin(
                block.place(*hash),
                radius,
                |at| racks[at],
                |_, spot| {
                    visits.push(Visit::new(query, spot));
                },
            );
        }
        let bins = racks.iter().map(|rack| rack.bins()).sum();
        let is_sorted = visits.len() >= bins;
        if is_sorted {
            sort(&racks, bins, visits, other);
            std::mem::swap(visits, other);
        }
        let whole = |spot: Spot| self.group.k - u32::from(spot.elsewhere) >= W::WHOLE_FROM;
        let rack = |spot: Spot| racks[usize::from(spot.rack)];
        let mut opened: [Option<(Bin<'_, W>, Span)>; AHEAD] = [None; AHEAD];
        let mut last = None;
        for at in 0..visits.len() + AHEAD {
            if let Some((bin, span)) = opened[at % AHEAD].take() {
                let visit = visits[at - AHEAD];
                let (query, spot) = (visit.query(), visit.spot());
                let pattern = compare.pattern(&words(block.filed(self.group.queries[query], 0)));
                let limits = (self.group.k - u32::from(spot.elsewhere), whole(spot));
                bin.for_each_near(compare, span, &pattern, limits, |tile, near| {
                    self.verify((number, rack(spot), spot), (query, &bin), (tile, near), &pin, answers);
                });
                if answers.near.len() > self.group.most_near() {
                    return false;
                }
            }
            if is_sorted && let Some(visit) = visits.get(at + SLOTS_AHEAD) {
                rack(visit.spot()).prefetch(visit.spot().number as usize);
            }
            let Some(visit) = visits.get(at) else { continue };
            let spot = visit.spot();
            let bin = rack(spot).bin(spot.number as usize, &pin);
            let span = bin.span(spot.end, spot.both);
            if span.tiles() > hot {
                answers.alone.push(visit.query() as u32);
                continue;
            }
            if last.is_none_or(|last: Visit| !last.reads_as(*visit)) {
                bin.prefetch(span, whole(spot));
            }
            last = Some(*visit);
            opened[at % AHEAD] = Some((bin, span));
        }
        true
    }

    /// Adds the near entries of a tile that no other table reports.
    #[inline(never)]
    fn verify(
        &self,
        table: (usize, &Rack<W>, Spot),
        (query, bin): (usize, &Bin<'_, W>),
        (tile, near): (usize, u32),
        pin: &Pin,
        answers: &mut Answers<W>,
    ) {
        let asked = (self.group.queries[query], self.group.k);
        let places = cells(near).map(|lane| tile * LANES + lane);
        let memory = (&self.group.tables.rows, pin);
        let near = places.filter_map(|place| verified(self.plan, asked, table, (bin, place), memory));
        answers.near.extend(near.map(|near| (query as u32, near)));
    }
}

/// Sorts visits by their bins, of which there are `bins`.
fn sort<W: Filed>(racks: &[&Rack<W>; RACKS], bins: usize, visits: &[Visit], sorted: &mut Vec<Visit>) {
    let mut first = [0; RACKS];
    for at in 1..RACKS {
        first[at] = first[at - 1] + racks[at - 1].bins();
    }
    let bin = |visit: &Visit| first[usize::from(visit.spot().rack)] + visit.spot().number as usize;
    let mut starts = vec![0u32; bins + 1];
    visits.iter().for_each(|visit| starts[bin(visit) + 1] += 1);
    for at in 1..bins {
        starts[at] += starts[at - 1];
    }
    sorted.resize(visits.len(), Visit(0));
    for visit in visits {
        let start = &mut starts[bin(visit)];
        sorted[*start as usize] = *visit;
        *start += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::sharded::Index;
    use super::*;
    use lookalike_hash::U256;

    fn mixed(number: u64) -> u64 {
        let mixed = (number ^ 0x4d).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
    }

    /// Even hashes, some around few centres, and some that are equal in a block, whose bin is hot.
    fn hashes<W: Filed>(count: u64, made: impl Fn([u64; 4]) -> W) -> Vec<W> {
        let words = |seed: u64| std::array::from_fn(|at| mixed(seed << 3 | at as u64));
        let hash = |number: u64| match number % 4 {
            0 => {
                let mut words: [u64; 4] = words(number % 28);
                words[0] ^= 1 << (mixed(number) % 64) | 1 << (mixed(!number) % 64);
                words
            }
            1 => words(number).map(|word| word << 16 | 0xbeef),
            _ => words(number),
        };
        (0..count).map(hash).map(made).collect()
    }

    /// Asks for hashes and others, and compares each answer with that of a single query by a scan.
    fn check<W: Filed>(limit: usize, made: impl Fn([u64; 4]) -> W, distances: &[u32]) {
        let all = hashes(2_000, made);
        let (stored, queries) = (&all[..1_960], &all[1_920..]);
        for form in Form::ALL.into_iter().filter(|form| form.is_supported()) {
            let index = Index::with_limit(limit).in_form(form);
            index.insert_all(stored.iter().copied());
            stored.iter().step_by(5).for_each(|hash| _ = index.remove(*hash));
            for &k in distances {
                let mut numbers = 0..queries.len();
                index.within_many(queries, k, |number, found| {
                    let mut expected = Vec::new();
                    index.scan(queries[number], k, &mut expected);
                    expected.sort_unstable();
                    assert_eq!(numbers.next(), Some(number));
                    assert_eq!(*found, expected, "{form:?}, query {number}, k = {k}");
                });
                assert!(numbers.is_empty());
            }
        }
    }

    #[test]
    fn each_of_many_is_answered_as_by_a_scan() {
        for limit in [u64::LIMIT, 3] {
            check(limit, |words| words[0], &[0, 3, 5, 7, 30, 64, 70]);
            check(limit, |words| u128::from(words[1]) << 64 | u128::from(words[0]), &[3, 9, 16, 128]);
            check(limit, U256::from_words, &[3, 12, 19]);
        }
    }

    /// The reasons for which queries are answered alone.
    #[test]
    fn hot_bins_and_too_many_answers_are_noticed() {
        let stored = hashes(8_000, |words| words[0]);
        let index = Index::<u64>::new();
        index.insert_all(stored.iter().copied());
        let plan = Plan::chosen::<u64>(3, &[0, 0, 0, 0], index.len());
        let together = |queries: &[u64], k| index.together(queries, k, plan.as_ref());
        assert_eq!(together(&[stored[2], stored[1], stored[3]], 3).alone, [1]);
        assert_eq!(index.together(&[1, 2, 3], 40, None).alone, [0, 1, 2]);
        assert!(together(&[], 3).near.is_empty());
    }
}
