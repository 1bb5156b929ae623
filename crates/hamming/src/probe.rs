//! Answers a query from the tables: prefetches, reads and compares what a plan selects.
//!
//! Costs: bins are read in batches. While the entries of one batch are compared, those of the next one are
//! prefetched, and the slots of the one after it, so that cache misses overlap. No lock is taken and
//! nothing waits.
//!
//! A query reads a rack of a table once, and a bin of it once. So it sees one state of each, whatever is
//! replaced meanwhile.
//!
//! *Absent*: the choice of the plan, except for a query that reads many more hashes than expected.

use arrayvec::ArrayVec;

use super::bin::{Bin, Span};
use super::bins::{Bins, RACK_BITS, RACKS, Rack};
use super::block::{BLOCK_BITS, Block, Filed, words};
use super::ends::End;
use super::memory::{Compare, Form, LANES, Pin, Work, cells, with_form};
use super::plan::{MAX_BLOCKS, Plan};
use super::rows::Rows;
use super::scan::Neighbour;
use super::tables::Tables;

/// The number of bins whose memory is prefetched together.
const BATCH: usize = 16;
/// The most queries with which a scan compares a hash that it has read.
pub(super) const SCANNED: usize = 8;
/// The largest distance for which a scan compares the parts of hashes that entries have. Above it so many
/// parts are near by chance that it compares whole hashes.
pub(super) const MOST_BY_PARTS: u32 = 36;
/// A bin is hot if it has more tiles than [`HOT_TILES`] and this many times the expected number.
const HOT: usize = 8;
const HOT_TILES: usize = 64;

/// The memory that a query read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The number of runs of memory. Each run begins at a new position.
    pub probes: u64,
    /// The number of compared entries in them, including free ones. Of a scan: the number of hashes.
    pub candidates: u64,
}

/// A query and its distance.
#[derive(Clone, Copy)]
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
    tables: &Tables<W>,
    plan: &Plan,
    question: &Question<W>,
    stop_if_hot: bool,
    (found, touched): (&mut Vec<Neighbour<W>>, &mut Touched),
    pin: &Pin,
) -> bool {
    let found_before = found.len();
    let hot = if stop_if_hot { hot(plan, question.hashes) } else { usize::MAX };
    let reader = Reader { plan, question: *question, hot, found, touched, rows: &tables.rows, pin };
    let (found, is_complete) = with_form(question.form, Probing { reader, tables: &tables.all });
    if !is_complete {
        found.truncate(found_before);
    }
    is_complete
}

/// The number of tiles above which a bin is hot.
pub(super) fn hot(plan: &Plan, hashes: usize) -> usize {
    HOT_TILES + HOT * (hashes >> (plan.bits() - 1)) / LANES
}

/// Prefetches the entries of the query's own values, if the plan has radii of 0 only. Otherwise these are a
/// small part of what is read.
#[inline]
pub(super) fn prefetch_query<W: Filed>(tables: &Tables<W>, plan: &Plan, query: W, pin: &Pin) {
    if plan.radii().iter().any(|&radius| radius > 0) {
        return;
    }
    for (table, _) in tables.all.iter().zip(plan.radii()).filter(|(_, radius)| **radius == 0) {
        table.prefetch_search(query, pin);
    }
}

/// Calls `found` with every hash within `k` of a query, and with the number of the query, by comparing every
/// hash with each of at most [`SCANNED`] queries. Ends soon after `found` returns `false`. If many hashes are
/// alike (`is_hot`), it compares whole ones.
pub(super) fn probe_all<W: Filed>(
    tables: &Tables<W>,
    (queries, k, form): (&[W], u32, Form),
    is_hot: bool,
    pin: &Pin,
    found: impl FnMut(usize, Neighbour<W>) -> bool,
) {
    let by_rows = W::NUMBERED && (is_hot || k > MOST_BY_PARTS);
    with_form(form, Scan { tables, queries, k, by_rows, found, pin });
}

/// A plan for this query from the true numbers of hashes around it; `None` if comparing every hash is
/// cheaper.
#[cold]
pub(super) fn adapted<W: Filed>(tables: &Tables<W>, question: &Question<W>, pin: &Pin) -> Option<Plan> {
    let lengths = |(table, block): (&Bins<W>, &Block)| {
        let place = block.place(question.query);
        let depth = table.rack((place >> (u32::BITS - RACK_BITS)) as usize, pin).depth();
        let length = |place| table.length(place, pin) as f64;
        let around = (0..depth).map(|bit| length(place ^ 1 << (u32::BITS - 1 - bit)));
        [length(place), around.sum()]
    };
    let lengths: Vec<[f64; 2]> = tables.all.iter().zip(W::BLOCKS).map(lengths).collect();
    Plan::for_lengths::<W>(question.k, question.hashes, &lengths)
}

/// Whether the plan reads, in table `number`, a hash with this difference from the query. Only the first such
/// table reports a hash. So each hash is reported once, for any order in which tables are read, and without a
/// set of reported hashes.
#[inline(always)]
fn finds<W: Filed>(plan: &Plan, number: usize, difference: W) -> bool {
    let radius = plan.radii()[number];
    let block = W::BLOCKS[number];
    radius >= 0 && block.first(difference, BLOCK_BITS).count_ones() <= radius.unsigned_abs().into()
}

/// Calls `each` with every value of `bits` bits that has `ones` of them set.
#[inline(always)]
fn for_each_with(bits: u32, ones: u32, mut each: impl FnMut(u32)) {
    let mut flips = (1u64 << ones) - 1;
    while flips < 1 << bits {
        each(flips as u32);
        if flips == 0 {
            break;
        }
        flips = next_with_as_many_ones(flips);
    }
}

/// The next larger number with the same number of one bits (R. W. Gosper, HAKMEM item 175, 1972).
#[inline(always)]
pub(super) fn next_with_as_many_ones(number: u64) -> u64 {
    let lowest = number & number.wrapping_neg();
    let carried = number + lowest;
    carried | ((number ^ carried) >> 2 >> lowest.trailing_zeros())
}

/// Which bin of a table a query reads.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) rack: u8,
    pub(super) number: u32,
    /// The number of differences from the query in the bits of the bin.
    pub(super) elsewhere: u8,
    pub(super) end: End,
    /// Whether both ends are read.
    pub(super) both: bool,
}

/// A bin to read.
#[derive(Clone, Copy)]
struct Visit<'a, W> {
    rack: &'a Rack<W>,
    /// The bin and its part to read, known once its slot is read.
    opened: Option<(Bin<'a, W>, Span)>,
    table: u8,
    spot: Spot,
}

type Batch<'a, W> = ArrayVec<Visit<'a, W>, BATCH>;

/// What a query does with the entries that it reads.
struct Reader<'a, W> {
    plan: &'a Plan,
    question: Question<W>,
    /// The number of tiles above which a bin is hot.
    hot: usize,
    found: &'a mut Vec<Neighbour<W>>,
    touched: &'a mut Touched,
    rows: &'a Rows,
    pin: &'a Pin,
}

/// All bins of a plan.
struct Probing<'a, W> {
    reader: Reader<'a, W>,
    tables: &'a [Bins<W>],
}

/// Calls `each` with every bin of a table within a radius, and its rack, which `rack` gives by its number.
/// `place` has the 32 bits of the query from the block on.
#[inline(always)]
pub(super) fn for_each_bin<'a, W: Filed>(
    place: u32,
    radius: u32,
    rack: impl Fn(usize) -> &'a Rack<W>,
    mut each: impl FnMut(&'a Rack<W>, Spot),
) {
    let own_rack = place >> (u32::BITS - RACK_BITS);
    for of_rack in 0..=radius.min(RACK_BITS) {
        for_each_with(RACK_BITS, of_rack, |flips| {
            let rack_number = own_rack ^ flips;
            let rack = rack(rack_number as usize);
            let own = rack.place(place);
            for of_bin in 0..=(radius - of_rack).min(rack.bin_bits()) {
                let both = of_rack + of_bin < radius;
                for_each_with(rack.bin_bits(), of_bin, |flips| {
                    let elsewhere = (of_rack + of_bin) as u8;
                    let number = own.bin as u32 ^ flips;
                    rack.prefetch(number as usize);
                    each(rack, Spot { rack: rack_number as u8, number, elsewhere, end: own.end, both });
                });
            }
        });
    }
}

/// The near hash at a place of a bin of table `number`, unless there is none, or an earlier table of the plan
/// reports it.
#[inline(always)]
pub(super) fn verified<W: Filed>(
    plan: &Plan,
    (query, k): (W, u32),
    (number, rack, spot): (usize, &Rack<W>, Spot),
    (bin, place): (&Bin<'_, W>, usize),
    (rows, pin): (&Rows, &Pin),
) -> Option<Neighbour<W>> {
    let end = bin.end_of(place)?;
    let at = (usize::from(spot.rack), spot.number as usize, end);
    let hash = rack.hash((W::BLOCKS[number], rows), at, (bin, place), pin);
    let difference = hash ^ query;
    let distance = difference.ones();
    let is_reported = distance <= k
        && finds(plan, number, difference)
        && !(0..number).any(|before| finds(plan, before, difference));
    is_reported.then_some(Neighbour { distance, hash })
}

impl<'a, W: Filed> Work for Probing<'a, W> {
    type Output = (&'a mut Vec<Neighbour<W>>, bool);

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> (&'a mut Vec<Neighbour<W>>, bool) {
        let Probing { mut reader, tables } = self;
        let pin = reader.pin;
        let Question { query, k, .. } = reader.question;
        let mut patterns: ArrayVec<C::Pattern, MAX_BLOCKS> = ArrayVec::new();
        let mut batches = [Batch::new(), Batch::new(), Batch::new()];
        // The batch that is being filled, the one before, whose slots are prefetched, and the one before
        // that, whose entries are.
        let [mut filling, mut filled, mut opened] = batches.each_mut();
        let mut goes_on = true;
        for (number, table) in tables.iter().enumerate() {
            let block = W::BLOCKS[number];
            patterns.push(compare.pattern(&words(block.filed(query, 0))));
            let Ok(radius) = u32::try_from(reader.plan.radii()[number]) else {
                continue;
            };
            let rack = |at| table.rack(at, pin);
            for_each_bin(block.place(query), radius.min(k), rack, |rack, spot| {
                filling.push(Visit { rack, opened: None, table: number as u8, spot });
                if filling.is_full() {
                    reader.compare(compare, &patterns, opened);
                    goes_on = goes_on && reader.open(filled);
                    opened.clear();
                    std::mem::swap(&mut opened, &mut filled);
                    std::mem::swap(&mut filled, &mut filling);
                }
            });
            if !goes_on {
                return (reader.found, false);
            }
        }
        reader.compare(compare, &patterns, opened);
        for batch in [filled, filling] {
            if !reader.open(batch) {
                return (reader.found, false);
            }
            reader.compare(compare, &patterns, batch);
        }
        (reader.found, true)
    }
}

impl<'a, W: Filed> Reader<'a, W> {
    /// Reads the slots of bins, and prefetches their entries. Returns `false` if a bin is hot.
    #[inline(always)]
    fn open(&mut self, batch: &mut Batch<'a, W>) -> bool {
        for visit in &mut *batch {
            let Spot { number, elsewhere, end, both, .. } = visit.spot;
            let bin = visit.rack.bin(number as usize, self.pin);
            let span = bin.span(end, both);
            let whole = self.question.k - u32::from(elsewhere) >= W::WHOLE_FROM;
            bin.prefetch(span, whole);
            visit.opened = Some((bin, span));
            let tiles = span.tiles();
            if tiles > self.hot {
                return false;
            }
            self.touched.candidates += (tiles * LANES) as u64;
        }
        self.touched.probes += batch.len() as u64;
        true
    }

    /// Compares the entries of bins whose slots were read.
    #[inline(always)]
    fn compare<C: Compare>(&mut self, compare: C, patterns: &[C::Pattern], batch: &Batch<'a, W>) {
        for visit in batch {
            let Some((bin, span)) = visit.opened else { continue };
            let rest = self.question.k - u32::from(visit.spot.elsewhere);
            let whole = rest >= W::WHOLE_FROM;
            let pattern = &patterns[usize::from(visit.table)];
            bin.for_each_near(compare, span, pattern, (rest, whole), |tile, near| {
                self.verify(visit, &bin, tile, near);
            });
        }
    }

    /// Appends the near entries of a tile that no other table reports.
    #[inline(never)]
    fn verify(&mut self, visit: &Visit<'a, W>, bin: &Bin<'a, W>, tile: usize, near: u32) {
        let Question { query, k, .. } = self.question;
        let table = (usize::from(visit.table), visit.rack, visit.spot);
        let places = cells(near).map(|lane| tile * LANES + lane);
        let (plan, memory) = (self.plan, (self.rows, self.pin));
        self.found.extend(places.filter_map(|at| verified(plan, (query, k), table, (bin, at), memory)));
    }
}

/// Compares every hash with each query.
struct Scan<'a, W, F> {
    tables: &'a Tables<W>,
    queries: &'a [W],
    k: u32,
    by_rows: bool,
    found: F,
    pin: &'a Pin,
}

impl<W: Filed, F: FnMut(usize, Neighbour<W>) -> bool> Work for Scan<'_, W, F> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) {
        const AHEAD: usize = 2;
        let Scan { tables, queries, k, by_rows, mut found, pin } = self;
        if by_rows {
            return tables.rows.scan(compare, (queries, k), pin, found);
        }
        let (table, block) = (&tables.all[W::BLOCKS.len() - 1], W::BLOCKS[W::BLOCKS.len() - 1]);
        let pattern = |query: &W| compare.pattern(&words(block.filed(*query, 0)));
        let patterns: ArrayVec<C::Pattern, SCANNED> = queries.iter().map(pattern).collect();
        let mut goes_on = true;
        for rack_number in 0..RACKS {
            let rack = table.rack(rack_number, pin);
            for number in 0..rack.bins() {
                // The processor prefetches the slots.
                if number + AHEAD < rack.bins() {
                    let next = rack.bin(number + AHEAD, pin);
                    next.prefetch(next.span(End::Front, true), true);
                }
                let value = (rack_number << rack.bin_bits() | number) as u32;
                let bin = rack.bin(number, pin);
                let span = bin.span(End::Front, true);
                for (at, (query, pattern)) in queries.iter().zip(&patterns).enumerate() {
                    let differing = value ^ block.place(*query) >> (u32::BITS + 1 - rack.depth());
                    let Some(rest) = k.checked_sub(differing.count_ones()) else { continue };
                    let limits = (rest, rest >= W::WHOLE_FROM);
                    bin.for_each_near(compare, span, pattern, limits, |tile, near| {
                        for lane in cells(near) {
                            let place = tile * LANES + lane;
                            let Some(end) = bin.end_of(place) else { continue };
                            let at_bin = (rack_number, number, end);
                            let hash = rack.hash((block, &tables.rows), at_bin, (&bin, place), pin);
                            let distance = (hash ^ *query).ones();
                            if distance <= k {
                                goes_on &= found(at, Neighbour { distance, hash });
                            }
                        }
                    });
                }
                if !goes_on {
                    return;
                }
            }
        }
    }
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
