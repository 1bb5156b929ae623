//! Answering a query from segments: the runs a plan names, and the comparison of what is in them.
//!
//! *Absent*: what both kinds of tables have in common (`probe`).

use arrayvec::ArrayVec;

use super::super::block::{Block, Filed, LEAD_BITS};
use super::super::layout::MAX_BLOCKS;
use super::super::memory::{Compare, Line, Pin, Work, cells, prefetch, with_best};
use super::super::plan::Plan;
use super::super::scan::Neighbour;
use super::super::segment::Segment;
use super::super::table::{Run, Table, View};
use super::{Question, Touched, finds, next_with_as_many_ones};

/// Runs that are asked for together, while those of the batch before are compared.
const BATCH: usize = 12;
/// Lines with near fronts whose backs are asked for before the first of them is read.
const NOTED: usize = 16;
/// Lines of a run that are asked for; the machine follows a longer run by itself.
const ASKED: usize = 32;
/// A run is hot if it is this many times as long as expected, and longer than [`HOT_LINES`].
const HOT: usize = 6;
const HOT_LINES: usize = 48;

/// See [`super::probe`].
#[inline]
pub(super) fn probe<W: Filed>(
    tables: &[Table<W>],
    plan: &Plan,
    question: &Question<W>,
    heeds_hot: bool,
    (found, touched): (&mut Vec<Neighbour<W>>, &mut Touched),
    pin: &Pin,
) -> bool {
    let &Question { query, k, hashes } = question;
    let blocks = plan.kind.blocks();
    let already = found.len();
    let (bits, halves, noted) = ([0; MAX_BLOCKS], [(0, 0); MAX_BLOCKS], ArrayVec::new());
    let mut reader = Reader { noted, bits, halves, blocks, plan, query, k, found, touched };
    let (mut asked, mut before) = (Batch::new(), Batch::new());
    let mut filling = &mut asked;
    let mut waiting = &mut before;
    for (number, table) in tables.iter().enumerate() {
        let Ok(radius) = u32::try_from(plan.radii()[number]) else {
            continue;
        };
        let (block, view) = (blocks[number], table.view(pin));
        let bits = u32::from(plan.bits()[number]).max(view.depth());
        reader.bits[number] = bits;
        reader.halves[number] = block.store(query);
        let runs = view.runs(bits);
        let own = block.first(query, bits);
        let expected = plan.expected_lines::<W>(number, hashes) + 1;
        let hot = if heeds_hot { HOT_LINES + HOT * expected } else { usize::MAX };
        for ones in 0..=radius.min(bits).min(k) {
            let with_backs = k - ones >= W::BOTH_FROM;
            let mut flips = (1u64 << ones) - 1;
            while flips < 1 << bits {
                let prefix = own ^ flips as u32;
                let Run { segment, from, homes } = runs.of(prefix);
                ask(segment.fronts(), from, homes, expected);
                if with_backs {
                    ask(segment.backs(), from, homes, expected);
                }
                if homes > hot {
                    reader.found.truncate(already);
                    return false;
                }
                let lines = homes.max(expected) as u32;
                let (from, number, ones) = (from as u32, number as u8, ones as u8);
                filling.push(Asked { segment, from, lines, prefix, number, ones });
                if filling.is_full() {
                    reader.compare(waiting);
                    waiting.clear();
                    std::mem::swap(&mut filling, &mut waiting);
                }
                if flips == 0 {
                    break;
                }
                flips = next_with_as_many_ones(flips);
            }
        }
    }
    reader.compare(waiting);
    reader.compare(filling);
    reader.take();
    true
}

/// See [`super::approach`].
#[inline]
pub(super) fn approach<W: Filed>(tables: &[Table<W>], plan: &Plan, query: W, hashes: usize, pin: &Pin) {
    if plan.radii().iter().any(|&radius| radius > 0) {
        return;
    }
    for (number, table) in tables.iter().enumerate().filter(|(number, _)| plan.radii()[*number] == 0) {
        let view = table.view(pin);
        let bits = u32::from(plan.bits()[number]).max(view.depth());
        let run = view.run(plan.kind.blocks()[number].first(query, bits), bits);
        let expected = plan.expected_lines::<W>(number, hashes) + 1;
        ask(run.segment.fronts(), run.from, run.homes, expected);
    }
}

/// Asks for the lines of a run: the first and the last of its homes, and as many as are expected.
#[inline(always)]
fn ask<L: Line>(lines: &[L], from: usize, homes: usize, expected: usize) {
    prefetch(&lines[from..], expected.min(ASKED));
    prefetch(&lines[from + homes - 1..], 1);
}

/// The lines in the run of the query's own value, and in all runs one bit away together.
pub(super) fn lengths<W: Filed>(
    table: &Table<W>,
    plan: &Plan,
    number: usize,
    query: W,
    pin: &Pin,
) -> [f64; 2] {
    let view = table.view(pin);
    let bits = u32::from(plan.bits()[number]).max(view.depth());
    let own = plan.kind.blocks()[number].first(query, bits);
    let around = (0..bits).map(|bit| view.run(own ^ 1 << bit, bits).homes);
    [view.run(own, bits).homes as f64, around.sum::<usize>() as f64]
}

/// A run that was asked for.
struct Asked<'a, W: Filed> {
    segment: &'a Segment<W>,
    from: u32,
    /// Lines that are compared before asking whether the run goes on: its homes, and not fewer than are
    /// expected. A loop that ends where it cannot be foretold costs more than a line or two.
    lines: u32,
    prefix: u32,
    number: u8,
    /// In how many bits the prefix differs from the query's.
    ones: u8,
}

/// Runs of one batch, asked for together.
type Batch<'a, W> = ArrayVec<Asked<'a, W>, BATCH>;

/// A line in which some fronts are near.
#[derive(Clone, Copy)]
struct Noted<'a, W: Filed> {
    segment: &'a Segment<W>,
    line: usize,
    near: u32,
    prefix: u32,
    lead: u32,
    number: u8,
}

/// Compares what was asked for.
struct Reader<'a, W: Filed> {
    noted: ArrayVec<Noted<'a, W>, NOTED>,
    /// How many first bits of each block tell runs apart.
    bits: [u32; MAX_BLOCKS],
    /// The query's front and back in each table.
    halves: [(u64, u64); MAX_BLOCKS],
    blocks: &'static [Block],
    plan: &'a Plan,
    query: W,
    k: u32,
    found: &'a mut Vec<Neighbour<W>>,
    touched: &'a mut Touched,
}

/// A reader at a batch.
struct Comparing<'r, 'a, W: Filed> {
    reader: &'r mut Reader<'a, W>,
    batch: &'r [Asked<'a, W>],
}

impl<W: Filed> Work for Comparing<'_, '_, W> {
    type Output = usize;

    /// How many entries were compared. At first it is only found out which runs need a second look, which few
    /// do: a loop in which nothing else happens.
    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> usize {
        let Comparing { reader, batch } = self;
        let mut lines = 0;
        let (mut near, mut open) = (0u32, 0u32);
        for (at, asked) in batch.iter().enumerate() {
            let front = reader.halves[usize::from(asked.number)].0;
            let rest = asked.rest(reader.k);
            let fronts = asked.segment.fronts();
            let (from, end) = asked.span();
            if rest >= W::BOTH_FROM {
                near |= 1 << at;
            } else {
                let any = fronts[from..end].iter().fold(0, |any, line| any | line.near(compare, front, rest));
                near |= u32::from(any != 0) << at;
            }
            if asked.segment.goes_on_after(end - 1) {
                prefetch(&fronts[end..], 1);
                open |= 1 << at;
            }
            lines += end - from;
        }
        for at in cells(near | open) {
            let asked = &batch[at];
            let (from, mut end) = asked.span();
            if near >> at & 1 == 1 {
                reader.look(compare, asked, from, end);
            }
            while asked.segment.goes_on_after(end - 1) {
                reader.look(compare, asked, end, end + 1);
                (end, lines) = (end + 1, lines + 1);
            }
        }
        lines * Segment::<W>::PER_LINE
    }
}

impl<W: Filed> Asked<'_, W> {
    /// The lines to compare at once: the first, and the one after the last.
    #[inline(always)]
    fn span(&self) -> (usize, usize) {
        let from = self.from as usize;
        (from, (from + self.lines as usize).min(self.segment.fronts().len()))
    }

    /// By how much fronts may differ: what differs in the prefix is not in them.
    #[inline(always)]
    fn rest(&self, k: u32) -> u32 {
        k - u32::from(self.ones)
    }
}

impl<'a, W: Filed> Reader<'a, W> {
    #[inline]
    fn compare(&mut self, batch: &[Asked<'a, W>]) {
        if !batch.is_empty() {
            self.touched.probes += batch.len() as u64;
            self.touched.candidates += with_best(Comparing { reader: self, batch }) as u64;
        }
    }

    /// Notes what is near in the lines from `from` to before `end`.
    #[inline(always)]
    fn look<C: Compare>(&mut self, compare: C, asked: &Asked<'a, W>, from: usize, end: usize) {
        let (front, back) = self.halves[usize::from(asked.number)];
        let rest = asked.rest(self.k);
        let (fronts, backs) = (&asked.segment.fronts()[from..end], &asked.segment.backs()[from..end]);
        for (at, (line, beside)) in (from..).zip(fronts.iter().zip(backs)) {
            let near = if rest >= W::BOTH_FROM {
                line.near_both(compare, beside, (front, back), self.k)
            } else {
                line.near(compare, front, rest)
            };
            if near != 0 {
                self.note(asked, at, near);
            }
        }
    }

    /// Asks for the backs of entries whose fronts are near.
    #[inline(never)]
    fn note(&mut self, asked: &Asked<'a, W>, line: usize, near: u32) {
        prefetch(&asked.segment.backs()[line..], 1);
        let &Asked { segment, prefix, number, .. } = asked;
        let lead = prefix >> (self.bits[usize::from(number)] - LEAD_BITS);
        self.noted.push(Noted { segment, line, near, prefix, lead, number });
        if self.noted.is_full() {
            self.take();
        }
    }

    /// Reads the hashes that were noted. Free entries and hashes of other runs may look near as well.
    #[inline(never)]
    fn take(&mut self) {
        for at in 0..self.noted.len() {
            let Noted { segment, line, near, prefix, lead, number } = self.noted[at];
            let number = usize::from(number);
            for entry in cells(near) {
                let Some(hash) = segment.hash(line, entry, lead) else {
                    continue;
                };
                let difference = hash ^ self.query;
                let distance = difference.ones();
                if distance <= self.k
                    && self.blocks[number].first(hash, self.bits[number]) == prefix
                    && !(0..number).any(|before| finds(self.plan, &self.bits, before, difference))
                {
                    self.found.push(Neighbour { distance, hash });
                }
            }
        }
        self.noted.clear();
    }
}

/// Compares everything.
pub(super) struct Scan<'a, 'q, W: Filed> {
    pub(super) table: &'a Table<W>,
    pub(super) block: Block,
    pub(super) question: &'q Question<W>,
    pub(super) answer: (&'q mut Vec<Neighbour<W>>, &'q mut Touched),
    pub(super) pin: &'a Pin,
}

impl<W: Filed> Work for Scan<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) {
        let &Question { query, k, .. } = self.question;
        let (found, touched) = self.answer;
        let view: View<'_, W> = self.table.view(self.pin);
        let halves = self.block.store(query);
        for number in 0..view.segments() {
            let (segment, lead) = (view.segment(number), view.lead(number));
            for (at, (front, back)) in segment.fronts().iter().zip(segment.backs()).enumerate() {
                let near = if k >= W::BOTH_FROM {
                    front.near_both(compare, back, halves, k)
                } else {
                    front.near(compare, halves.0, k)
                };
                for entry in cells(near) {
                    let Some(hash) = segment.hash(at, entry, lead) else {
                        continue;
                    };
                    let distance = (hash ^ query).ones();
                    if distance <= k {
                        found.push(Neighbour { distance, hash });
                    }
                }
            }
            touched.probes += 1;
            touched.candidates += (segment.fronts().len() * Segment::<W>::PER_LINE) as u64;
        }
    }
}
