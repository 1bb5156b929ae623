//! Answering a query from buckets: those a plan names, and the comparison of what is in them.
//!
//! Where a bucket stands follows from the query, so all are asked for at once. Few go on in extents; those
//! are asked for when their bucket is seen, and read when the batch has been.
//!
//! *Absent*: what both kinds of tables have in common (`probe`).

use arrayvec::ArrayVec;

use super::super::block::{Block, Filed, IMPLIED_BITS};
use super::super::buckets::{Buckets, SHARDS, Stretch};
use super::super::layout::MAX_BLOCKS;
use super::super::memory::{Compare, Packed, Pattern, Pin, Work, cells, prefetch, with_best};
use super::super::plan::Plan;
use super::super::scan::Neighbour;
use super::super::shard::{SHARD_BITS, Shard};
use super::{Question, Touched, finds, next_with_as_many_ones};

/// Stretches that are asked for together, while those of the batch before are compared.
const BATCH: usize = 32;
/// Lines of a stretch that are asked for; the machine follows a longer one by itself.
const ASKED: usize = 16;
/// A bucket with so many extents is hot: they have sixty-three lines.
const HOT: usize = 6;
/// A stretch of more buckets is taken to be as long as it is without their extents.
const LOOKED_AT: usize = 64;

/// See [`super::probe`].
#[inline]
pub(super) fn probe<W: Filed>(
    tables: &[Buckets<W>],
    plan: &Plan,
    question: &Question<W>,
    heeds_hot: bool,
    (found, touched): (&mut Vec<Neighbour<W>>, &mut Touched),
    pin: &Pin,
) -> bool {
    let already = found.len();
    let &Question { query, k, .. } = question;
    let (bits, patterns) = ([0; MAX_BLOCKS], [Pattern::EMPTY; MAX_BLOCKS]);
    let blocks = plan.kind.blocks();
    let reader = Reader { plan, blocks, bits, patterns, query, k, heeds_hot, found, touched };
    let (found, whole) = with_best(Probing { reader, tables, pin });
    if !whole {
        found.truncate(already);
    }
    whole
}

/// See [`super::approach`].
#[inline]
pub(super) fn approach<W: Filed>(tables: &[Buckets<W>], plan: &Plan, query: W, pin: &Pin) {
    if plan.radii().iter().any(|&radius| radius > 0) {
        return;
    }
    for (number, table) in tables.iter().enumerate().filter(|(number, _)| plan.radii()[*number] == 0) {
        let bits = told_apart(plan, number);
        ask(&table.stretch(plan.kind.blocks()[number].first(query, bits), bits, pin), bits, 0);
    }
}

/// The lines of the buckets of the query's own value, and of all one bit away together.
pub(super) fn lengths<W: Filed>(
    table: &Buckets<W>,
    plan: &Plan,
    number: usize,
    query: W,
    pin: &Pin,
) -> [f64; 2] {
    let bits = told_apart(plan, number);
    let own = plan.kind.blocks()[number].first(query, bits);
    let length = |prefix: u32| {
        let Stretch { shard, first, count, .. } = table.stretch(prefix, bits, pin);
        let lines = shard.buckets(first, count);
        let width = lines.len() / count;
        let lasts = lines[width - 1..].iter().step_by(width);
        let extents = |last| shard.extents_after(last).map(<[_]>::len).sum::<usize>();
        let more: usize = if count > LOOKED_AT { 0 } else { lasts.map(extents).sum() };
        (lines.len() + more) as f64
    };
    [length(own), (0..bits).map(|bit| length(own ^ 1 << bit)).sum()]
}

/// How many first bits of a block the plan tells apart.
#[inline(always)]
fn told_apart(plan: &Plan, number: usize) -> u32 {
    u32::from(plan.bits()[number]).max(SHARD_BITS)
}

/// Calls `each` with every value of so many bits that differs in `ones` of them from this one, and with the
/// difference.
#[inline(always)]
fn for_each_within(own: u32, bits: u32, ones: u32, mut each: impl FnMut(u32, u32)) {
    let mut flips = (1u64 << ones) - 1;
    while flips < 1 << bits {
        each(own ^ flips as u32, flips as u32);
        if flips == 0 {
            break;
        }
        flips = next_with_as_many_ones(flips);
    }
}

/// Asks for a stretch, unless it is also that of a value in which fewer bits differ: whether it is one to
/// compare.
#[inline(always)]
fn ask<W: Filed>(stretch: &Stretch<'_, W>, bits: u32, flips: u32) -> bool {
    let Stretch { shard, first, count, .. } = stretch;
    let untold = bits.saturating_sub(shard.depth());
    if flips & ((1 << untold) - 1) != 0 {
        return false;
    }
    let lines = shard.buckets(*first, *count);
    prefetch(lines, lines.len().min(ASKED));
    true
}

/// The shards of a table as a query met each of them first. Which buckets belong to which value follows from
/// how many bits a shard tells apart, so that a query must not go from a shard to what replaced it: it would
/// meet a hash twice, or never.
struct Seen<'a, W: Filed>([Option<&'a Shard<W>>; SHARDS]);

impl<'a, W: Filed> Seen<'a, W> {
    fn none() -> Seen<'a, W> {
        Seen([None; SHARDS])
    }

    #[inline(always)]
    fn stretch(&mut self, table: &'a Buckets<W>, prefix: u32, bits: u32, pin: &'a Pin) -> Stretch<'a, W> {
        let number = Buckets::<W>::number_of(prefix, bits);
        let shard = *self.0[number].get_or_insert_with(|| table.shard(number, pin));
        Stretch::of(shard, prefix, bits)
    }
}

/// A stretch that was asked for.
struct Asked<'a, W: Filed> {
    stretch: Stretch<'a, W>,
    table: u8,
    /// In how many of the bits that entries do not repeat it differs from the query.
    ones: u8,
}

/// Stretches of one batch, asked for together.
type Batch<'a, W> = ArrayVec<Asked<'a, W>, BATCH>;

/// A bucket that goes on: the stretch in its batch, the line in that, and the line itself.
type Open<'a, W> = (usize, usize, &'a <W as Filed>::Packed);

/// Compares what was asked for.
struct Reader<'a, W: Filed> {
    plan: &'a Plan,
    blocks: &'static [Block],
    /// How many first bits of each block tell stretches apart.
    bits: [u32; MAX_BLOCKS],
    /// The query in the form of each table.
    patterns: [Pattern; MAX_BLOCKS],
    query: W,
    k: u32,
    heeds_hot: bool,
    found: &'a mut Vec<Neighbour<W>>,
    touched: &'a mut Touched,
}

/// A reader at all that a plan names.
struct Probing<'a, W: Filed> {
    reader: Reader<'a, W>,
    tables: &'a [Buckets<W>],
    pin: &'a Pin,
}

impl<'a, W: Filed> Work for Probing<'a, W> {
    type Output = (&'a mut Vec<Neighbour<W>>, bool);

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> (&'a mut Vec<Neighbour<W>>, bool) {
        let Probing { mut reader, tables, pin } = self;
        let (mut asked, mut before) = (Batch::new(), Batch::new());
        let (mut filling, mut waiting) = (&mut asked, &mut before);
        for (number, table) in tables.iter().enumerate() {
            let Ok(radius) = u32::try_from(reader.plan.radii()[number]) else {
                continue;
            };
            let (block, bits) = (reader.blocks[number], told_apart(reader.plan, number));
            reader.bits[number] = bits;
            reader.patterns[number] = W::Packed::pattern(block.turned(reader.query));
            let own = block.first(reader.query, bits);
            let repeated = bits.saturating_sub(IMPLIED_BITS);
            let mut seen = Seen::none();
            for ones in 0..=radius.min(bits).min(reader.k) {
                let mut goes_on = true;
                for_each_within(own, bits, ones, |prefix, flips| {
                    let stretch = seen.stretch(table, prefix, bits, pin);
                    if !ask(&stretch, bits, flips) {
                        return;
                    }
                    let ones = (flips >> repeated).count_ones() as u8;
                    filling.push(Asked { stretch, table: number as u8, ones });
                    if filling.is_full() {
                        goes_on &= reader.compare(compare, waiting);
                        waiting.clear();
                        std::mem::swap(&mut filling, &mut waiting);
                    }
                });
                if !goes_on {
                    return (reader.found, false);
                }
            }
        }
        let whole = reader.compare(compare, waiting) && reader.compare(compare, filling);
        (reader.found, whole)
    }
}

impl<'a, W: Filed> Reader<'a, W> {
    /// Compares a batch; `false` if a bucket is hot and that is to be heeded.
    #[inline(always)]
    fn compare<C: Compare>(&mut self, compare: C, batch: &Batch<'a, W>) -> bool {
        let mut open: ArrayVec<Open<'a, W>, BATCH> = ArrayVec::new();
        let mut lines_read = 0;
        for (place, asked) in batch.iter().enumerate() {
            let Stretch { shard, first, count, .. } = asked.stretch;
            let rest = self.k - u32::from(asked.ones);
            let lines = shard.buckets(first, count);
            for (at, line) in lines.iter().enumerate() {
                lines_read += 1;
                let pattern = &self.patterns[usize::from(asked.table)];
                let (near, head) = Shard::<W>::near(compare, line, pattern, rest);
                if near != 0 {
                    self.take(asked, at, line, near);
                }
                // Lines fill in order.
                if count == 1 && !Shard::<W>::is_full(head) {
                    break;
                }
                if Shard::<W>::goes_on(head) {
                    shard.approach_extent(head);
                    open.push((place, at, line));
                    if open.is_full() {
                        if !self.follow(compare, batch, &open) {
                            return false;
                        }
                        open.clear();
                    }
                }
            }
        }
        self.touched.probes += batch.len() as u64;
        self.touched.candidates += (lines_read * W::Packed::ENTRIES) as u64;
        self.follow(compare, batch, &open)
    }

    /// Compares the extents of buckets that go on; `false` if one is hot and that is to be heeded.
    #[inline(always)]
    fn follow<C: Compare>(&mut self, compare: C, batch: &Batch<'a, W>, open: &[Open<'a, W>]) -> bool {
        for &(place, at, last) in open {
            let asked = &batch[place];
            let rest = self.k - u32::from(asked.ones);
            for (after, extent) in asked.stretch.shard.extents_after(last).enumerate() {
                if after + 1 == HOT && self.heeds_hot {
                    return false;
                }
                self.touched.probes += 1;
                self.touched.candidates += (extent.len() * W::Packed::ENTRIES) as u64;
                for line in extent {
                    let pattern = &self.patterns[usize::from(asked.table)];
                    let (near, _) = Shard::<W>::near(compare, line, pattern, rest);
                    if near != 0 {
                        self.take(asked, at, line, near);
                    }
                }
            }
        }
        true
    }

    /// Keeps those entries of a line that are near and that no other place reports: a bucket holds entries of
    /// other values as well. `at` tells the bucket: the line of the stretch that is this one, or after which
    /// it comes.
    #[inline(never)]
    fn take(&mut self, asked: &Asked<'a, W>, at: usize, line: &W::Packed, near: u32) {
        let Stretch { shard, number: share, first, .. } = asked.stretch;
        let number = usize::from(asked.table);
        let implied = shard.implied(share, shard.bucket_of(first, at));
        for entry in cells(near) {
            let hash = self.blocks[number].joined(implied, line.read(entry));
            let difference = hash ^ self.query;
            let distance = difference.ones();
            if distance <= self.k
                && finds(self.plan, &self.bits, number, difference)
                && !(0..number).any(|before| finds(self.plan, &self.bits, before, difference))
            {
                self.found.push(Neighbour { distance, hash });
            }
        }
    }
}

/// Compares everything.
pub(super) struct Scan<'a, 'q, W: Filed> {
    pub(super) table: &'a Buckets<W>,
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
        let pattern = W::Packed::pattern(self.block.turned(query));
        let own = self.block.first(query, IMPLIED_BITS);
        for number in 0..self.table.shards() {
            let shard = self.table.shard(number, self.pin);
            let mut lines_read = 0;
            for (bucket, lines) in shard.each_bucket().enumerate() {
                let implied = shard.implied(number, bucket);
                let differing = (implied ^ own).count_ones();
                if differing > k {
                    continue;
                }
                let mut take = |line: &W::Packed| {
                    let (near, head) = Shard::<W>::near(compare, line, &pattern, k - differing);
                    for entry in cells(near) {
                        let hash = self.block.joined(implied, line.read(entry));
                        found.push(Neighbour { distance: (hash ^ query).ones(), hash });
                    }
                    head
                };
                let last = lines.iter().fold(0, |_, line| take(line));
                lines_read += lines.len();
                if Shard::<W>::goes_on(last) {
                    for extent in shard.extents_after(&lines[lines.len() - 1]) {
                        extent.iter().for_each(|line| _ = take(line));
                        lines_read += extent.len();
                    }
                }
            }
            touched.probes += 1;
            touched.candidates += (lines_read * W::Packed::ENTRIES) as u64;
        }
    }
}
