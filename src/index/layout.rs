//! Layouts: how hashes are cut into blocks, by how many of them there are.
//!
//! Few blocks mean few bytes a hash, many blocks mean few probes. At a million hashes of 64 bits four blocks
//! of 16 bits answer k = 3 from four runs of a few lines. At a hundred million those runs would be 1,500
//! hashes long; three blocks of 21 and 22 bits answer from 24 short ones and take a quarter less memory.
//! Hashes of 128 bits stand in six tables: five would take a sixth less memory, and 2.2 times as long at k = 23
//! among a million.

use super::block::{Block, Filed};
use super::memory::{Followed, Pin};
use super::segment::Fill;
use super::table::{Filing, Table};
use crate::ids::Width;

/// The most blocks a layout has.
pub(super) const MAX_BLOCKS: usize = 6;

/// From this many hashes of 64 bits on there are three tables in place of four.
pub(super) const THREE_FROM: usize = 16 << 20;

/// A way to cut hashes into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// 64 bits, four blocks of 16.
    Four,
    /// 64 bits, blocks of 21, 21 and 22.
    Three,
    /// 128 bits, blocks of 21 and 22.
    Six,
}

/// How many kinds there are.
pub(super) const KINDS: usize = 3;

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
    pub(super) fn suited(width: Width, hashes: usize, three_from: usize) -> Kind {
        match width {
            Width::Bits64 if hashes < three_from => Kind::Four,
            Width::Bits64 => Kind::Three,
            Width::Bits128 => Kind::Six,
        }
    }

    /// The blocks, the least significant first. Together they are the whole hash.
    pub(super) fn blocks(self) -> &'static [Block] {
        match self {
            Kind::Four => &FOUR,
            Kind::Three => &THREE,
            Kind::Six => &SIX,
        }
    }

    /// How full the segments of a table of this many hashes are kept. Where keys have several lines each,
    /// little is lost by filling them; where several keys share a line, room keeps hashes near their home.
    pub(super) fn fill(self, hashes: usize) -> Fill {
        match self {
            Kind::Four => Fill { built: 0.72, full: 0.93 },
            Kind::Three if hashes < 50_000_000 => Fill { built: 0.6, full: 0.85 },
            Kind::Three => Fill { built: 0.77, full: 0.93 },
            Kind::Six => Fill { built: 0.75, full: 0.93 },
        }
    }
}

/// The tables of an index.
pub(super) struct Layout<W: Filed> {
    pub(super) kind: Kind,
    /// One for each block.
    pub(super) tables: Box<[Table<W>]>,
}

impl<W: Filed> Layout<W> {
    /// Empty tables of a kind for as many hashes as are expected.
    pub(super) fn new(kind: Kind, expected: usize) -> Layout<W> {
        let tables = kind.blocks().iter().map(|block| Table::new(*block, expected)).collect();
        Layout { kind, tables }
    }

    pub(super) fn contains(&self, hash: W, pin: &Pin) -> bool {
        self.tables[0].view(pin).contains(hash)
    }

    /// Takes a hash out of every table: whether it was there.
    pub(super) fn remove(&self, hash: W, len: usize, pin: &Pin) -> bool {
        let fill = self.kind.fill(len);
        let mut there = false;
        for table in &self.tables {
            there = table.remove(hash, fill, pin);
            if !there {
                break;
            }
        }
        there
    }

    /// The table whose key is the first bits of the hash.
    pub(super) fn top(&self) -> &Table<W> {
        let last = self.tables.len() - 1;
        debug_assert!(self.kind.blocks()[last].is_top(W::WIDTH.bits()));
        &self.tables[last]
    }
}

/// Files the hashes that are new in every table, and leaves only them in the list; `len` is how many hashes
/// there were. Table by table, each place asked for before it is needed; the pin is renewed on the way, so that what
/// growth replaces is freed. For the writer, one at a time.
pub(super) fn insert_new<W: Filed>(
    layout: &Followed<Layout<W>>,
    hashes: &mut Vec<W>,
    len: usize,
    pin: &mut Pin,
) {
    let Layout { kind, tables } = layout.get(pin);
    let (fill, tables) = (kind.fill(len), tables.len());
    if let [hash] = hashes[..] {
        let layout = layout.get(pin);
        if layout.contains(hash, pin) {
            hashes.clear();
        } else {
            layout.tables.iter().for_each(|table| table.insert(hash, len, fill, pin));
        }
        return;
    }
    for number in 0..tables {
        let mut filing = Filing::of(hashes, number == 0);
        while !layout.get(pin).tables[number].file(&mut filing, len, fill, pin) {
            pin.renew();
        }
    }
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
