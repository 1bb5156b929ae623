//! Layouts: how hashes are cut into blocks, depending on the number of hashes.
//!
//! Few blocks need few bytes per hash; many blocks need few probes. At a million hashes of 64 bits, four
//! blocks of 16 bits answer k = 3 with four reads of three lines. At a hundred million, each of those reads
//! would be 1,500 hashes long; three blocks of 21 and 22 bits answer with 24 short reads and take a quarter
//! less memory. Hashes of 128 bits have six tables: five would take a sixth less memory, but 2.2 times as
//! long at k = 23 among a million. Hashes of 256 bits have eleven: the radii for k = 31, the limit that PDQ
//! recommends, are then 2 and less (ADR 37).
//!
//! Few hashes are stored in segments: an empty segment takes almost no memory, but a probe must search. Many
//! hashes are stored in buckets: an empty table takes megabytes, but a probe needs no search.

use super::block::{Block, Filed};
use super::buckets::Buckets;
use super::memory::{Pin, Replaceable};
use super::segment::Fill;
use super::table::{InsertBatch, Table};
use lookalike_hash::Width;

/// The maximum number of blocks of a layout.
pub(super) const MAX_BLOCKS: usize = 11;

/// The numbers of hashes from which on an index uses another layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// Hashes of 64, 128 and 256 bits use buckets from these numbers on.
    pub(super) buckets: [usize; 3],
    /// Hashes of 64 bits use three tables instead of four from this number on.
    pub(super) three: usize,
}

impl Thresholds {
    /// The measured numbers at which the faster layout is worth its memory.
    pub(super) const MEASURED: Thresholds =
        Thresholds { buckets: [300_000, 4 << 20, 300_000], three: 3 << 20 };
}

/// A way to cut hashes into blocks and to store them. A growing index uses the kinds in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// 64 bits, four blocks of 16, in segments.
    Four,
    /// 64 bits, four blocks of 16, in buckets.
    FourInBuckets,
    /// 64 bits, blocks of 21, 21 and 22, in buckets.
    Three,
    /// 128 bits, blocks of 21 and 22, in segments.
    Six,
    /// 128 bits, blocks of 21 and 22, in buckets.
    SixInBuckets,
    /// 256 bits, blocks of 23 and 24, in segments.
    Eleven,
    /// 256 bits, blocks of 23 and 24, in buckets.
    ElevenInBuckets,
}

/// The number of kinds.
pub(super) const KINDS: usize = 7;

const FOUR: [Block; 4] = [Block::new(0, 16), Block::new(16, 16), Block::new(32, 16), Block::new(48, 16)];
const THREE: [Block; 3] = [Block::new(0, 21), Block::new(21, 21), Block::new(42, 22)];
const SIX: [Block; 6] = [
    Block::new(0, 21),
    Block::new(21, 21),
    Block::new(42, 22),
    Block::new(64, 21),
    Block::new(85, 21),
    Block::new(106, 22),
];
const ELEVEN: [Block; 11] = [
    Block::new(0, 23),
    Block::new(23, 23),
    Block::new(46, 23),
    Block::new(69, 23),
    Block::new(92, 23),
    Block::new(115, 23),
    Block::new(138, 23),
    Block::new(161, 23),
    Block::new(184, 24),
    Block::new(208, 24),
    Block::new(232, 24),
];

impl Kind {
    /// The kind for this many hashes of this width.
    pub(super) fn suited(width: Width, hashes: usize, from: Thresholds) -> Kind {
        match width {
            Width::Bits64 if hashes >= from.three => Kind::Three,
            Width::Bits64 if hashes >= from.buckets[0] => Kind::FourInBuckets,
            Width::Bits64 => Kind::Four,
            Width::Bits128 if hashes >= from.buckets[1] => Kind::SixInBuckets,
            Width::Bits128 => Kind::Six,
            Width::Bits256 if hashes >= from.buckets[2] => Kind::ElevenInBuckets,
            Width::Bits256 => Kind::Eleven,
        }
    }

    /// The blocks, the least significant first. Together they cover the whole hash.
    pub(super) fn blocks(self) -> &'static [Block] {
        match self {
            Kind::Four | Kind::FourInBuckets => &FOUR,
            Kind::Three => &THREE,
            Kind::Six | Kind::SixInBuckets => &SIX,
            Kind::Eleven | Kind::ElevenInBuckets => &ELEVEN,
        }
    }

    /// Whether hashes are stored in buckets.
    pub(super) fn is_in_buckets(self) -> bool {
        matches!(self, Kind::FourInBuckets | Kind::Three | Kind::SixInBuckets | Kind::ElevenInBuckets)
    }

    /// The fill of segments.
    pub(super) fn fill(self) -> Fill {
        match self {
            Kind::Six | Kind::Eleven => Fill { built: 0.75, full: 0.93 },
            _ => Fill { built: 0.72, full: 0.93 },
        }
    }
}

/// The tables of an index.
pub(super) struct Layout<W: Filed> {
    pub(super) kind: Kind,
    pub(super) tables: Tables<W>,
}

/// One table for each block.
pub(super) enum Tables<W: Filed> {
    Segments(Box<[Table<W>]>),
    Buckets(Box<[Buckets<W>]>),
}

impl<W: Filed> Layout<W> {
    /// Empty tables of a kind for `expected` hashes.
    pub(super) fn new(kind: Kind, expected: usize) -> Layout<W> {
        let blocks = kind.blocks().iter();
        let tables = if kind.is_in_buckets() {
            Tables::Buckets(blocks.map(|block| Buckets::new(*block, expected)).collect())
        } else {
            Tables::Segments(blocks.map(|block| Table::new(*block, expected)).collect())
        };
        Layout { kind, tables }
    }

    pub(super) fn contains(&self, hash: W, pin: &Pin) -> bool {
        match &self.tables {
            Tables::Segments(tables) => tables[0].view(pin).contains(hash),
            Tables::Buckets(tables) => is_in(tables, hash, pin),
        }
    }

    /// Removes a hash from every table, in ascending order.
    pub(super) fn remove(&self, hash: W, pin: &Pin) {
        match &self.tables {
            Tables::Segments(tables) => {
                tables.iter().for_each(|table| _ = table.remove(hash, self.kind.fill(), pin));
            }
            Tables::Buckets(tables) => tables.iter().for_each(|table| _ = table.remove(hash, pin)),
        }
    }

    /// Calls `each` with the hashes whose block `number` begins with the `bits` bits of `first`.
    pub(super) fn hashes_with(
        &self,
        number: usize,
        (first, bits): (u32, u32),
        pin: &Pin,
        each: impl FnMut(W),
    ) {
        match &self.tables {
            Tables::Segments(tables) => tables[number].view(pin).hashes_with(first, bits, each),
            Tables::Buckets(tables) => tables[number].hashes_with(first, bits, pin, each),
        }
    }

    /// Calls `each` with the hashes that begin with these bits: a value and their number.
    pub(super) fn hashes_beginning(&self, first: (u32, u32), pin: &Pin, each: impl FnMut(W)) {
        let last = self.kind.blocks().len() - 1;
        debug_assert!(self.kind.blocks()[last].is_top(W::WIDTH.bits()));
        self.hashes_with(last, first, pin, each);
    }

    /// The bytes that it occupies, including free entries.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        match &self.tables {
            Tables::Segments(tables) => tables.iter().map(|table| table.view(pin).bytes()).sum(),
            Tables::Buckets(tables) => tables.iter().map(|table| table.bytes(pin)).sum(),
        }
    }
}

/// Whether a hash is in the tables. All hold the same hashes, so a table is read in which the bucket of this
/// hash is small.
fn is_in<W: Filed>(tables: &[Buckets<W>], hash: W, pin: &Pin) -> bool {
    let quick = tables.iter().find(|table| !table.overflows(hash, pin));
    quick.unwrap_or(&tables[0]).contains(hash, pin)
}

/// How many hashes ahead of the inserted one their buckets are prefetched.
const AHEAD: usize = 12;

/// Inserts the new hashes into every table, and leaves only them in the list; `len` is the number of hashes
/// in the index before. Memory is prefetched ahead of its use. The pin is renewed repeatedly, so that the
/// memory that growth replaces is freed. Only one writer may call this at a time.
pub(super) fn insert_new<W: Filed>(
    layout: &Replaceable<Layout<W>>,
    hashes: &mut Vec<W>,
    len: usize,
    pin: &mut Pin,
) {
    let Layout { kind, tables } = layout.get(pin);
    let (fill, count) = (kind.fill(), kind.blocks().len());
    let Tables::Segments(tables) = tables else {
        return insert_in_buckets(layout, hashes, pin);
    };
    if let [hash] = hashes[..] {
        if tables[0].view(pin).contains(hash) {
            hashes.clear();
        } else {
            tables.iter().for_each(|table| table.insert(hash, len, fill, pin));
        }
        return;
    }
    for number in 0..count {
        let mut batch = InsertBatch::of(hashes, number == 0);
        while let Tables::Segments(tables) = &layout.get(pin).tables
            && !tables[number].insert_batch(&mut batch, len, fill, pin)
        {
            pin.renew();
        }
    }
}

/// Inserts hashes into buckets, each into all tables before the next one.
fn insert_in_buckets<W: Filed>(layout: &Replaceable<Layout<W>>, hashes: &mut Vec<W>, pin: &mut Pin) {
    let (mut at, mut kept) = (0, 0);
    while at < hashes.len()
        && let Tables::Buckets(tables) = &layout.get(pin).tables
    {
        let prefetch = |hash: &W| tables.iter().for_each(|table| table.prefetch(*hash, pin));
        hashes.iter().skip(at).take(AHEAD).for_each(prefetch);
        let mut replaced = false;
        while at < hashes.len() && !replaced {
            hashes.get(at + AHEAD).into_iter().for_each(prefetch);
            let hash = hashes[at];
            if !is_in(tables, hash, pin) {
                for table in tables {
                    replaced |= table.insert(hash, pin);
                }
                hashes[kept] = hash;
                kept += 1;
            }
            at += 1;
        }
        pin.renew();
    }
    hashes.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike_hash::U256;

    #[test]
    fn blocks_partition_the_hash() {
        for (kind, width) in [(Kind::Four, 64), (Kind::Three, 64), (Kind::Six, 128), (Kind::Eleven, 256)] {
            let bits: u32 = kind.blocks().iter().map(|block| block.bits()).sum();
            assert_eq!(bits, width);
            for bit in 0..width {
                let owns = |block: &&Block| match width {
                    64 => block.first(1u64 << bit, block.bits()) != 0,
                    128 => block.first(1u128 << bit, block.bits()) != 0,
                    _ => block.first(U256::from(1) << bit, block.bits()) != 0,
                };
                assert_eq!(kind.blocks().iter().filter(owns).count(), 1, "bit {bit}");
            }
            assert!(kind.blocks().last().is_some_and(|top| top.is_top(width)));
        }
    }
}
