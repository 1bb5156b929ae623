//! Answers a query from buckets: selects the buckets of a plan and compares their entries.
//!
//! The query determines the address of a bucket, so all buckets of a batch are prefetched together. Few
//! buckets continue in extents. An extent is prefetched when its bucket is compared, and read after the
//! batch.
//!
//! *Absent*: the common part of both kinds of tables (`probe`).

use arrayvec::ArrayVec;

use super::super::block::{Block, Filed, IMPLIED_BITS};
use super::super::buckets::{BucketRange, Buckets, SHARDS};
use super::super::layout::MAX_BLOCKS;
use super::super::memory::{Compare, Packed, Pattern, Pin, Work, cells, prefetch, with_form};
use super::super::plan::Plan;
use super::super::scan::Neighbour;
use super::super::shard::{SHARD_BITS, Shard};
use super::{Question, Touched, finds, next_with_as_many_ones};

/// The number of ranges that are prefetched together, while those of the previous batch are compared.
const BATCH: usize = 32;
/// The maximum number of lines of a range to prefetch. The processor prefetches the rest of a longer range.
const PREFETCHED_LINES: usize = 16;
/// The number of extents at which a bucket is hot. They have 63 lines.
const HOT: usize = 6;
/// The maximum number of buckets of a range whose extents are counted in its length.
const MAX_MEASURED_BUCKETS: usize = 64;

/// See [`super::probe`].
#[inline]
pub(super) fn probe<W: Filed>(
    tables: &[Buckets<W>],
    plan: &Plan,
    question: &Question<W>,
    stop_if_hot: bool,
    (found, touched): (&mut Vec<Neighbour<W>>, &mut Touched),
    pin: &Pin,
) -> bool {
    let found_before = found.len();
    let &Question { query, k, .. } = question;
    // Outside the reader, which is moved, and empty at first: most plans have few tables.
    let (bits, mut patterns) = ([0; MAX_BLOCKS], ArrayVec::new());
    let blocks = plan.kind.blocks();
    let patterns = &mut patterns;
    let reader = Reader { plan, blocks, bits, patterns, query, k, stop_if_hot, found, touched };
    let (found, is_complete) = with_form(question.form, Probing { reader, tables, pin });
    if !is_complete {
        found.truncate(found_before);
    }
    is_complete
}

/// See [`super::prefetch_query`].
#[inline]
pub(super) fn prefetch_query<W: Filed>(tables: &[Buckets<W>], plan: &Plan, query: W, pin: &Pin) {
    if plan.radii().iter().any(|&radius| radius > 0) {
        return;
    }
    for (number, table) in tables.iter().enumerate().filter(|(number, _)| plan.radii()[*number] == 0) {
        let bits = prefix_bits(plan, number);
        prefetch_range(&table.range(plan.kind.blocks()[number].first(query, bits), bits, pin), bits, 0);
    }
}

/// The number of lines of the buckets of the query's own value, and of all those one bit away together.
pub(super) fn lengths<W: Filed>(
    table: &Buckets<W>,
    plan: &Plan,
    number: usize,
    query: W,
    pin: &Pin,
) -> [f64; 2] {
    let bits = prefix_bits(plan, number);
    let own = plan.kind.blocks()[number].first(query, bits);
    let length = |prefix: u32| {
        let BucketRange { shard, first, count, .. } = table.range(prefix, bits, pin);
        let lines = shard.buckets(first, count);
        let width = lines.len() / count;
        let lasts = lines[width - 1..].iter().step_by(width);
        let extents = |last| shard.extents_after(last).map(<[_]>::len).sum::<usize>();
        let more: usize = if count > MAX_MEASURED_BUCKETS { 0 } else { lasts.map(extents).sum() };
        (lines.len() + more) as f64
    };
    [length(own), (0..bits).map(|bit| length(own ^ 1 << bit)).sum()]
}

/// The number of first bits of a block by which the plan probes.
#[inline(always)]
fn prefix_bits(plan: &Plan, number: usize) -> u32 {
    u32::from(plan.bits()[number]).max(SHARD_BITS)
}

/// Calls `each` with every value of `bits` bits that differs from `own` in `ones` of them, and with the
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

/// Prefetches a range and returns `true`, unless it is also the range of a value that differs in fewer bits.
/// A range is compared only once.
#[inline(always)]
fn prefetch_range<W: Filed>(range: &BucketRange<'_, W>, bits: u32, flips: u32) -> bool {
    let BucketRange { shard, first, count, .. } = range;
    let ignored_bits = bits.saturating_sub(shard.depth());
    if flips & ((1 << ignored_bits) - 1) != 0 {
        return false;
    }
    let lines = shard.buckets(*first, *count);
    prefetch(lines, lines.len().min(PREFETCHED_LINES));
    true
}

/// The shards of a table as the query first loaded them. The depth of a shard determines which buckets belong
/// to which value. So a query must not switch from a shard to its replacement: it would find a hash twice, or
/// not at all.
struct Seen<'a, W: Filed>([Option<&'a Shard<W>>; SHARDS]);

impl<'a, W: Filed> Seen<'a, W> {
    fn none() -> Seen<'a, W> {
        Seen([None; SHARDS])
    }

    #[inline(always)]
    fn range(&mut self, table: &'a Buckets<W>, prefix: u32, bits: u32, pin: &'a Pin) -> BucketRange<'a, W> {
        let number = Buckets::<W>::shard_number(prefix, bits);
        let shard = *self.0[number].get_or_insert_with(|| table.shard(number, pin));
        BucketRange::of(shard, prefix, bits)
    }
}

/// A range that is prefetched.
struct Probe<'a, W: Filed> {
    range: BucketRange<'a, W>,
    table: u8,
    /// The number of differences from the query in the bits that entries do not store.
    ones: u8,
}

/// Ranges that are prefetched together.
type Batch<'a, W> = ArrayVec<Probe<'a, W>, BATCH>;

/// A bucket that continues in extents: the index of its range in the batch, the index of its last line in the
/// range, and that line.
type Continued<'a, W> = (usize, usize, &'a <W as Filed>::Packed);

/// Compares the prefetched ranges with the query.
struct Reader<'a, W: Filed> {
    plan: &'a Plan,
    blocks: &'static [Block],
    /// The number of prefix bits of each block.
    bits: [u32; MAX_BLOCKS],
    /// The query in the form of each table up to the one that is read.
    patterns: &'a mut ArrayVec<Pattern, MAX_BLOCKS>,
    query: W,
    k: u32,
    stop_if_hot: bool,
    found: &'a mut Vec<Neighbour<W>>,
    touched: &'a mut Touched,
}

/// All probes of a plan.
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
        let (mut first_batch, mut second_batch) = (Batch::new(), Batch::new());
        let (mut filling, mut waiting) = (&mut first_batch, &mut second_batch);
        for (number, table) in tables.iter().enumerate() {
            let Ok(radius) = u32::try_from(reader.plan.radii()[number]) else {
                reader.patterns.push(Pattern::EMPTY);
                continue;
            };
            let (block, bits) = (reader.blocks[number], prefix_bits(reader.plan, number));
            reader.bits[number] = bits;
            reader.patterns.push(W::Packed::pattern(block.turned(reader.query)));
            let own = block.first(reader.query, bits);
            let repeated = bits.saturating_sub(IMPLIED_BITS);
            let mut seen = Seen::none();
            for ones in 0..=radius.min(bits).min(reader.k) {
                let mut goes_on = true;
                for_each_within(own, bits, ones, |prefix, flips| {
                    let range = seen.range(table, prefix, bits, pin);
                    if !prefetch_range(&range, bits, flips) {
                        return;
                    }
                    let ones = (flips >> repeated).count_ones() as u8;
                    filling.push(Probe { range, table: number as u8, ones });
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
        let is_complete = reader.compare(compare, waiting) && reader.compare(compare, filling);
        (reader.found, is_complete)
    }
}

impl<'a, W: Filed> Reader<'a, W> {
    /// Compares a batch. Returns `false` if a bucket is hot and `stop_if_hot` is set.
    #[inline(always)]
    fn compare<C: Compare>(&mut self, compare: C, batch: &Batch<'a, W>) -> bool {
        let mut continued: ArrayVec<Continued<'a, W>, BATCH> = ArrayVec::new();
        let mut lines_read = 0;
        for (place, probe) in batch.iter().enumerate() {
            let BucketRange { shard, first, count, .. } = probe.range;
            let rest = self.k - u32::from(probe.ones);
            let lines = shard.buckets(first, count);
            for (at, line) in lines.iter().enumerate() {
                lines_read += 1;
                let pattern = &self.patterns[usize::from(probe.table)];
                let (near, head) = Shard::<W>::near(compare, line, pattern, rest);
                if near != 0 {
                    self.verify(probe, at, line, near);
                }
                // Lines fill in order.
                if count == 1 && !Shard::<W>::is_full(head) {
                    break;
                }
                if Shard::<W>::has_extent(head) {
                    shard.prefetch_extent(head);
                    continued.push((place, at, line));
                    if continued.is_full() {
                        if !self.compare_extents(compare, batch, &continued) {
                            return false;
                        }
                        continued.clear();
                    }
                }
            }
        }
        self.touched.probes += batch.len() as u64;
        self.touched.candidates += (lines_read * W::Packed::ENTRIES) as u64;
        self.compare_extents(compare, batch, &continued)
    }

    /// Compares the extents of buckets. Returns `false` if a bucket is hot and `stop_if_hot` is set.
    #[inline(always)]
    fn compare_extents<C: Compare>(
        &mut self,
        compare: C,
        batch: &Batch<'a, W>,
        continued: &[Continued<'a, W>],
    ) -> bool {
        for &(place, at, last) in continued {
            let probe = &batch[place];
            let rest = self.k - u32::from(probe.ones);
            for (after, extent) in probe.range.shard.extents_after(last).enumerate() {
                if after + 1 == HOT && self.stop_if_hot {
                    return false;
                }
                self.touched.probes += 1;
                self.touched.candidates += (extent.len() * W::Packed::ENTRIES) as u64;
                for line in extent {
                    let pattern = &self.patterns[usize::from(probe.table)];
                    let (near, _) = Shard::<W>::near(compare, line, pattern, rest);
                    if near != 0 {
                        self.verify(probe, at, line, near);
                    }
                }
            }
        }
        true
    }

    /// Appends the near entries of a line that no other probe reports: a bucket also holds entries of other
    /// values. `at` identifies the bucket: it is the index of a line of the range, which is this line or the
    /// last one before its extents.
    #[inline(never)]
    fn verify(&mut self, probe: &Probe<'a, W>, at: usize, line: &W::Packed, near: u32) {
        let BucketRange { shard, number: share, first, .. } = probe.range;
        let number = usize::from(probe.table);
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

/// Compares every hash.
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
                if Shard::<W>::has_extent(last) {
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
