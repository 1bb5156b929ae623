//! Layouts: how hashes are cut into blocks, by how many of them there are.
//!
//! Few blocks mean few bytes a hash, many blocks mean few probes. At a million hashes of 64 bits four blocks
//! of 16 bits answer k = 3 from four reads of three lines. At a hundred million those would be 1,500 hashes
//! long; three blocks of 21 and 22 bits answer from 24 short ones and take a quarter less memory. Hashes of
//! 128 bits stand in six tables: five would take a sixth less memory, and 2.2 times as long at k = 23 among a
//! million.
//!
//! Few hashes stand in segments, which cost next to nothing to begin with, and many in buckets, which are
//! found without a search.

use super::block::{Block, Filed};
use super::buckets::Buckets;
use super::memory::{Followed, Pin};
use super::segment::Fill;
use super::table::{Filing, Table};
use crate::ids::Width;

/// The most blocks a layout has.
pub(super) const MAX_BLOCKS: usize = 6;

/// From how many hashes on they are laid out otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// Hashes of 64 bits stand in buckets, and those of 128.
    pub(super) buckets: [usize; 2],
    /// Those of 64 bits stand in three tables in place of four.
    pub(super) three: usize,
}

impl Thresholds {
    /// From where on the quicker way is worth what it takes.
    pub(super) const MEASURED: Thresholds = Thresholds { buckets: [300_000, 4 << 20], three: 3 << 20 };
}

/// A way to cut hashes into blocks and to file them, in the order in which an index grows through them.
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
}

/// How many kinds there are.
pub(super) const KINDS: usize = 5;

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

impl Kind {
    /// The kind for this many hashes of this width.
    pub(super) fn suited(width: Width, hashes: usize, from: Thresholds) -> Kind {
        match width {
            Width::Bits64 if hashes >= from.three => Kind::Three,
            Width::Bits64 if hashes >= from.buckets[0] => Kind::FourInBuckets,
            Width::Bits64 => Kind::Four,
            Width::Bits128 if hashes >= from.buckets[1] => Kind::SixInBuckets,
            Width::Bits128 => Kind::Six,
        }
    }

    /// The blocks, the least significant first. Together they are the whole hash.
    pub(super) fn blocks(self) -> &'static [Block] {
        match self {
            Kind::Four | Kind::FourInBuckets => &FOUR,
            Kind::Three => &THREE,
            Kind::Six | Kind::SixInBuckets => &SIX,
        }
    }

    /// Whether hashes stand in buckets.
    pub(super) fn is_in_buckets(self) -> bool {
        matches!(self, Kind::FourInBuckets | Kind::Three | Kind::SixInBuckets)
    }

    /// How full segments are kept.
    pub(super) fn fill(self) -> Fill {
        match self {
            Kind::Six => Fill { built: 0.75, full: 0.93 },
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
    /// Empty tables of a kind for as many hashes as are expected.
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

    /// Takes a hash out of every table, the first one first.
    pub(super) fn remove(&self, hash: W, pin: &Pin) {
        match &self.tables {
            Tables::Segments(tables) => {
                tables.iter().for_each(|table| _ = table.remove(hash, self.kind.fill(), pin));
            }
            Tables::Buckets(tables) => tables.iter().for_each(|table| _ = table.remove(hash, pin)),
        }
    }

    /// Calls `each` with the hashes whose block of this number begins with these bits.
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

    /// Calls `each` with the hashes that begin with these bits.
    pub(super) fn hashes_beginning(&self, first: (u32, u32), pin: &Pin, each: impl FnMut(W)) {
        let last = self.kind.blocks().len() - 1;
        debug_assert!(self.kind.blocks()[last].is_top(W::WIDTH.bits()));
        self.hashes_with(last, first, pin, each);
    }

    /// The bytes it occupies, room to grow included.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        match &self.tables {
            Tables::Segments(tables) => tables.iter().map(|table| table.view(pin).bytes()).sum(),
            Tables::Buckets(tables) => tables.iter().map(|table| table.bytes(pin)).sum(),
        }
    }
}

/// Whether a hash is in the tables. All hold the same, so that one is asked in which it has few neighbours.
fn is_in<W: Filed>(tables: &[Buckets<W>], hash: W, pin: &Pin) -> bool {
    let quick = tables.iter().find(|table| !table.overflows(hash, pin));
    quick.unwrap_or(&tables[0]).contains(hash, pin)
}

/// Hashes whose buckets are asked for before the first of them is filed.
const AHEAD: usize = 12;

/// Files the hashes that are new in every table, and leaves only them in the list; `len` is how many hashes
/// there were. Each place is asked for before it is needed; the pin is renewed on the way, so that what
/// growth replaces is freed. For the writer, one at a time.
pub(super) fn insert_new<W: Filed>(
    layout: &Followed<Layout<W>>,
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
        let mut filing = Filing::of(hashes, number == 0);
        while let Tables::Segments(tables) = &layout.get(pin).tables
            && !tables[number].file(&mut filing, len, fill, pin)
        {
            pin.renew();
        }
    }
}

/// The same in buckets: hash by hash, each in all tables.
fn insert_in_buckets<W: Filed>(layout: &Followed<Layout<W>>, hashes: &mut Vec<W>, pin: &mut Pin) {
    let (mut at, mut kept) = (0, 0);
    while at < hashes.len()
        && let Tables::Buckets(tables) = &layout.get(pin).tables
    {
        let approach = |hash: &W| tables.iter().for_each(|table| table.approach(*hash, pin));
        hashes.iter().skip(at).take(AHEAD).for_each(approach);
        let mut replaced = false;
        while at < hashes.len() && !replaced {
            hashes.get(at + AHEAD).into_iter().for_each(approach);
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

    #[test]
    fn the_blocks_of_a_layout_are_the_hash() {
        for (kind, width) in [(Kind::Four, 64), (Kind::Three, 64), (Kind::Six, 128)] {
            let bits: u32 = kind.blocks().iter().map(|block| block.bits()).sum();
            assert_eq!(bits, width);
            for bit in 0..width {
                let owns = |block: &&Block| match width {
                    64 => block.first(1u64 << bit, block.bits()) != 0,
                    _ => block.first(1u128 << bit, block.bits()) != 0,
                };
                assert_eq!(kind.blocks().iter().filter(owns).count(), 1, "bit {bit}");
            }
            assert!(kind.blocks().last().is_some_and(|top| top.is_top(width)));
        }
    }
}
