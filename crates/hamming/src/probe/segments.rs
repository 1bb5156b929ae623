//! Answers a query from segments: selects the runs of a plan and compares their entries.
//!
//! *Absent*: the common part of both kinds of tables (`probe`).

use arrayvec::ArrayVec;

use super::super::block::{Block, Filed, LEAD_BITS};
use super::super::layout::MAX_BLOCKS;
use super::super::memory::{Compare, Form, Line, Pin, Work, cells, prefetch, with_form};
use super::super::plan::Plan;
use super::super::scan::Neighbour;
use super::super::segment::Segment;
use super::super::table::{Run, Table, View};
use super::{Question, Touched, finds, next_with_as_many_ones};

/// The number of runs that are prefetched together, while those of the previous batch are compared.
const BATCH: usize = 12;
/// The number of lines with near fronts whose backs are prefetched before the first of them is read.
const NEAR_LINES: usize = 16;
/// The maximum number of lines of a run to prefetch. The processor prefetches the rest of a longer run.
const PREFETCHED_LINES: usize = 32;
/// A run is hot if it is longer than [`HOT_LINES`] plus this many times its expected length.
const HOT: usize = 6;
const HOT_LINES: usize = 48;

/// See [`super::probe`].
#[inline]
pub(super) fn probe<W: Filed>(
    tables: &[Table<W>],
    plan: &Plan,
    question: &Question<W>,
    stop_if_hot: bool,
    (found, touched): (&mut Vec<Neighbour<W>>, &mut Touched),
    pin: &Pin,
) -> bool {
    let &Question { query, k, hashes, form } = question;
    let blocks = plan.kind.blocks();
    let found_before = found.len();
    let (bits, parts) = ([0; MAX_BLOCKS], [(0, W::Back::default()); MAX_BLOCKS]);
    let near_lines = ArrayVec::new();
    let mut reader = Reader { near_lines, bits, parts, blocks, plan, query, k, form, found, touched };
    let (mut first_batch, mut second_batch) = (Batch::new(), Batch::new());
    let mut filling = &mut first_batch;
    let mut waiting = &mut second_batch;
    for (number, table) in tables.iter().enumerate() {
        let Ok(radius) = u32::try_from(plan.radii()[number]) else {
            continue;
        };
        let (block, view) = (blocks[number], table.view(pin));
        let bits = u32::from(plan.bits()[number]).max(view.depth());
        reader.bits[number] = bits;
        reader.parts[number] = block.store(query);
        let runs = view.runs(bits);
        let own = block.first(query, bits);
        let expected = plan.expected_lines::<W>(number, hashes) + 1;
        let hot = if stop_if_hot { HOT_LINES + HOT * expected } else { usize::MAX };
        for ones in 0..=radius.min(bits).min(k) {
            let with_backs = k - ones >= W::BOTH_FROM;
            let mut flips = (1u64 << ones) - 1;
            while flips < 1 << bits {
                let prefix = own ^ flips as u32;
                let Run { segment, from, homes } = runs.of(prefix);
                prefetch_run(segment.fronts(), from, homes, expected);
                if with_backs {
                    let [from, homes, expected] = [from, homes, expected].map(|lines| lines * W::BACKS);
                    prefetch_run(segment.backs(), from, homes, expected);
                }
                if homes > hot {
                    reader.found.truncate(found_before);
                    return false;
                }
                let lines = homes.max(expected) as u32;
                let (from, number, ones) = (from as u32, number as u8, ones as u8);
                filling.push(Probe { segment, from, lines, prefix, number, ones });
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
    reader.verify();
    true
}

/// See [`super::prefetch_query`].
#[inline]
pub(super) fn prefetch_query<W: Filed>(tables: &[Table<W>], plan: &Plan, query: W, hashes: usize, pin: &Pin) {
    if plan.radii().iter().any(|&radius| radius > 0) {
        return;
    }
    for (number, table) in tables.iter().enumerate().filter(|(number, _)| plan.radii()[*number] == 0) {
        let view = table.view(pin);
        let bits = u32::from(plan.bits()[number]).max(view.depth());
        let run = view.run(plan.kind.blocks()[number].first(query, bits), bits);
        let expected = plan.expected_lines::<W>(number, hashes) + 1;
        prefetch_run(run.segment.fronts(), run.from, run.homes, expected);
    }
}

/// Prefetches the expected number of lines of a run, and the last of its home lines.
#[inline(always)]
fn prefetch_run<L: Line>(lines: &[L], from: usize, homes: usize, expected: usize) {
    prefetch(&lines[from..], expected.min(PREFETCHED_LINES));
    prefetch(&lines[from + homes - 1..], 1);
}

/// The number of lines in the run of the query's own value, and in all runs one bit away together.
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

/// A run that is prefetched.
struct Probe<'a, W: Filed> {
    segment: &'a Segment<W>,
    from: u32,
    /// The number of lines to compare before checking whether the run continues: its homes, and at least the
    /// expected number. A mispredicted end of a loop costs more than one or two lines.
    lines: u32,
    prefix: u32,
    number: u8,
    /// The number of bits in which the prefix differs from that of the query.
    ones: u8,
}

/// Runs that are prefetched together.
type Batch<'a, W> = ArrayVec<Probe<'a, W>, BATCH>;

/// A line with near fronts.
#[derive(Clone, Copy)]
struct NearLine<'a, W: Filed> {
    segment: &'a Segment<W>,
    line: usize,
    near: u32,
    prefix: u32,
    lead: u32,
    number: u8,
}

/// Compares the prefetched runs with the query.
struct Reader<'a, W: Filed> {
    near_lines: ArrayVec<NearLine<'a, W>, NEAR_LINES>,
    /// The number of prefix bits of each block.
    bits: [u32; MAX_BLOCKS],
    /// The front and back of the query in each table.
    parts: [(u64, W::Back); MAX_BLOCKS],
    blocks: &'static [Block],
    plan: &'a Plan,
    query: W,
    k: u32,
    form: Form,
    found: &'a mut Vec<Neighbour<W>>,
    touched: &'a mut Touched,
}

/// The comparison of one batch.
struct Comparing<'r, 'a, W: Filed> {
    reader: &'r mut Reader<'a, W>,
    batch: &'r [Probe<'a, W>],
}

impl<W: Filed> Work for Comparing<'_, '_, W> {
    type Output = usize;

    /// Returns the number of compared entries. The first loop only finds the few runs that have near fronts
    /// or continue, so that it stays short; the second loop processes those.
    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> usize {
        let Comparing { reader, batch } = self;
        let mut lines = 0;
        let (mut near, mut continued) = (0u32, 0u32);
        for (at, probe) in batch.iter().enumerate() {
            let front = reader.parts[usize::from(probe.number)].0;
            let rest = probe.rest(reader.k);
            let fronts = probe.segment.fronts();
            let (from, end) = probe.span();
            if rest >= W::BOTH_FROM {
                near |= 1 << at;
            } else {
                let any = fronts[from..end].iter().fold(0, |any, line| any | line.near(compare, front, rest));
                near |= u32::from(any != 0) << at;
            }
            if probe.segment.continues_after(end - 1) {
                prefetch(&fronts[end..], 1);
                continued |= 1 << at;
            }
            lines += end - from;
        }
        for at in cells(near | continued) {
            let probe = &batch[at];
            let (from, mut end) = probe.span();
            if near >> at & 1 == 1 {
                reader.compare_lines(compare, probe, from, end);
            }
            while probe.segment.continues_after(end - 1) {
                reader.compare_lines(compare, probe, end, end + 1);
                (end, lines) = (end + 1, lines + 1);
            }
        }
        lines * Segment::<W>::PER_LINE
    }
}

impl<W: Filed> Probe<'_, W> {
    /// The range of lines to compare at once: its first line, and the line after its last one.
    #[inline(always)]
    fn span(&self) -> (usize, usize) {
        let from = self.from as usize;
        (from, (from + self.lines as usize).min(self.segment.fronts().len()))
    }

    /// The maximum distance of fronts. The bits in which the prefix differs are not part of fronts.
    #[inline(always)]
    fn rest(&self, k: u32) -> u32 {
        k - u32::from(self.ones)
    }
}

impl<'a, W: Filed> Reader<'a, W> {
    #[inline]
    fn compare(&mut self, batch: &[Probe<'a, W>]) {
        if !batch.is_empty() {
            self.touched.probes += batch.len() as u64;
            self.touched.candidates += with_form(self.form, Comparing { reader: self, batch }) as u64;
        }
    }

    /// Keeps the near entries of the lines from `from` to before `end`.
    #[inline(always)]
    fn compare_lines<C: Compare>(&mut self, compare: C, probe: &Probe<'a, W>, from: usize, end: usize) {
        let parts = self.parts[usize::from(probe.number)];
        let rest = probe.rest(self.k);
        let backs = &probe.segment.backs()[from * W::BACKS..end * W::BACKS];
        let fronts = &probe.segment.fronts()[from..end];
        for (at, (line, backs)) in (from..).zip(fronts.iter().zip(backs.chunks_exact(W::BACKS))) {
            let near = if rest >= W::BOTH_FROM {
                W::near_whole(compare, line, backs, parts, self.k)
            } else {
                line.near(compare, parts.0, rest)
            };
            if near != 0 {
                self.keep_near(probe, at, near);
            }
        }
    }

    /// Prefetches the backs of a line with near fronts, and keeps the line.
    #[inline(never)]
    fn keep_near(&mut self, probe: &Probe<'a, W>, line: usize, near: u32) {
        prefetch(probe.segment.backs_of(line), W::BACKS);
        let &Probe { segment, prefix, number, .. } = probe;
        let lead = prefix >> (self.bits[usize::from(number)] - LEAD_BITS);
        self.near_lines.push(NearLine { segment, line, near, prefix, lead, number });
        if self.near_lines.is_full() {
            self.verify();
        }
    }

    /// Verifies the near entries of the kept lines. Free entries and hashes of other runs may be among them.
    #[inline(never)]
    fn verify(&mut self) {
        for at in 0..self.near_lines.len() {
            let NearLine { segment, line, near, prefix, lead, number } = self.near_lines[at];
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
        self.near_lines.clear();
    }
}

/// Compares every hash.
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
        let parts = self.block.store(query);
        for number in 0..view.segments() {
            let (segment, lead) = (view.segment(number), view.lead(number));
            let backs = segment.backs().chunks_exact(W::BACKS);
            for (at, (front, backs)) in segment.fronts().iter().zip(backs).enumerate() {
                let near = if k >= W::BOTH_FROM {
                    W::near_whole(compare, front, backs, parts, k)
                } else {
                    front.near(compare, parts.0, k)
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
