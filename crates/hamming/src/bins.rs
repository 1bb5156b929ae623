//! The table of one block: an entry for every hash of the index, in a bin chosen by the first bits of the
//! block.
//!
//! A table has [`RACKS`] racks, chosen by the first [`RACK_BITS`] bits of the block. A rack has a bin for
//! each pair of values of the next bits. When its bins have become long, it is replaced by one that
//! distinguishes another bit (`deeper`), and by one of fewer bits when they have become short.
//!
//! *Absent*: the set of tables (`tables`), the lock of writers (`sharded`).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::bin::{Bin, marks, with_room};
use super::block::{BLOCK_BITS, Block, Filed, first_of, row_of};
use super::deeper::Next;
use super::ends::{End, Ends};
use super::memory::{Array, Compare, Pin, Replaceable, Slots, Work, pin, with_best};
use super::rows::Rows;

/// The number of first bits of a block that select a rack.
pub(super) const RACK_BITS: u32 = 4;
/// The number of racks of a table.
pub(super) const RACKS: usize = 1 << RACK_BITS;
/// The least number of bits of a block that position implies: those of the rack and of an end.
pub(super) const LEAST_DEPTH: u32 = RACK_BITS + 1;
/// A rack whose bins have this many times fewer hashes than they might gets bins of twice as many values.
const SPARSE: usize = 8;
/// A bin with so many removed entries is copied without them if they are half of all.
const FEW_DEAD: usize = 32;
const HAS_ROOM: &str = "a bin that has grown has room";

/// The hashes whose blocks share their first [`RACK_BITS`] bits.
pub(super) struct Rack<W> {
    /// The number of first bits of the block that position implies.
    depth: u32,
    /// A bin in each.
    slots: Slots<W>,
    /// The number of hashes. Only the writer changes it.
    held: AtomicUsize,
}

/// Where the hashes of a value are: the number of the bin in its rack, and the end of the bin.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) bin: usize,
    pub(super) end: End,
}

impl<W: Filed> Rack<W> {
    /// The rack of these entries, each with its block in front of it.
    fn built(depth: u32, filed: &[W]) -> Rack<W> {
        let mut sizes = vec![0u32; 1 << (depth - RACK_BITS - 1)];
        let place = |filed: W| Rack::<W>::place_of(depth, filed);
        filed.iter().for_each(|filed| sizes[place(*filed).bin] += 1);
        let pin = pin();
        let mut bins: Vec<(Array<W>, Ends)> =
            sizes.iter().map(|size| (empty(*size as usize, depth), Ends::default())).collect();
        for filed in filed {
            let Place { bin, end } = place(*filed);
            add(&mut bins[bin], *filed, end, &pin);
        }
        Rack::of(depth, bins, filed.len())
    }

    /// The rack of these bins, which have so many hashes.
    pub(super) fn of(depth: u32, bins: Vec<(Array<W>, Ends)>, held: usize) -> Rack<W> {
        let slots = bins.into_iter().map(|(array, ends)| (ends.number(), array));
        Rack { depth, slots: Slots::new(marks(depth), slots), held: AtomicUsize::new(held) }
    }

    /// The number of first bits of the block that position implies.
    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// The number of bits of a value that select a bin of the rack.
    #[inline(always)]
    pub(super) fn bin_bits(&self) -> u32 {
        self.depth - RACK_BITS - 1
    }

    /// The number of bins.
    #[inline(always)]
    pub(super) fn bins(&self) -> usize {
        self.slots.len()
    }

    /// Prefetches what [`Rack::bin`] reads.
    #[inline(always)]
    pub(super) fn prefetch(&self, number: usize) {
        self.slots.prefetch(number);
    }

    /// A bin by its number.
    #[inline(always)]
    pub(super) fn bin<'p>(&self, number: usize, pin: &'p Pin) -> Bin<'p, W> {
        Bin::of(&self.slots, number, pin)
    }

    /// The numbers of entries of a bin.
    #[inline(always)]
    fn ends(&self, number: usize) -> Ends {
        Ends::of(self.slots.number(number))
    }

    /// Replaces a bin by a longer one, or by one without removed entries.
    fn grow(&self, number: usize, pin: &Pin) {
        let (array, ends) = self.bin(number, pin).grown(pin);
        // A reader that sees the new numbers sees the new tiles.
        self.slots.replace(number, array, pin);
        self.slots.set_number(number, ends.number());
    }

    #[inline(always)]
    pub(super) fn place_at(depth: u32, place: u32) -> Place {
        let value = place << RACK_BITS >> (RACK_BITS + u32::BITS - depth);
        Place { bin: (value >> 1) as usize, end: End::of(value) }
    }

    /// Where an entry is in a rack of this depth; its block is in front of it.
    #[inline(always)]
    pub(super) fn place_of(depth: u32, filed: W) -> Place {
        Rack::<W>::place_at(depth, u32::from(filed.word(W::PLANES)) << (u32::BITS - BLOCK_BITS))
    }

    /// Where the hashes are whose block begins with the 32 bits of `place`.
    #[inline(always)]
    pub(super) fn place(&self, place: u32) -> Place {
        Rack::<W>::place_at(self.depth, place)
    }

    /// An entry of a bin of rack `number`, with its block in front of it.
    #[inline(always)]
    pub(super) fn filed(&self, (number, bin, end): (usize, usize, End), (entry, extra): (W, u32)) -> W {
        let value = ((number << self.bin_bits() | bin) << 1) as u32 | end.bit();
        let missing = BLOCK_BITS - self.depth;
        entry.with_first(value << missing | extra & ((1 << missing) - 1))
    }

    /// The hash at a place of a bin of rack `number`.
    #[inline(always)]
    pub(super) fn hash(
        &self,
        (block, rows): (Block, &Rows),
        at: (usize, usize, End),
        (bin, place): (&Bin<'_, W>, usize),
        pin: &Pin,
    ) -> W {
        if W::NUMBERED {
            rows.hash(bin.number(place), pin)
        } else {
            block.hash(self.filed(at, bin.entry(place)))
        }
    }

    /// The number of hashes.
    pub(super) fn len(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Calls `each` with the entries of some bins, each with its block in front of it.
    fn for_each_in(&self, number: usize, bins: std::ops::Range<usize>, pin: &Pin, each: &mut impl FnMut(W)) {
        for bin in bins {
            self.bin(bin, pin).for_each(|entry, extra, end| {
                each(self.filed((number, bin, end), (entry, extra)));
            });
        }
    }

    fn bytes(&self, pin: &Pin) -> usize {
        size_of::<Self>() + self.slots.bytes(pin)
    }
}

/// An empty array for so many entries of a bin, and some more.
pub(super) fn empty<W: Filed>(entries: usize, depth: u32) -> Array<W> {
    Array::new(if entries == 0 { 0 } else { with_room(entries) }, marks(depth))
}

/// Inserts an entry, with its block in front of it, into an array that is in no slot.
pub(super) fn add<W: Filed>((array, ends): &mut (Array<W>, Ends), filed: W, end: End, pin: &Pin) {
    let mut more = Bin::of_array(array, *ends, pin).insert(filed, end);
    if more.is_none() {
        (*array, *ends) = Bin::of_array(array, *ends, pin).grown(pin);
        more = Bin::of_array(array, *ends, pin).insert(filed, end);
    }
    *ends = more.expect(HAS_ROOM);
}

/// Looks for an entry in bins: by the number of its hash, or by the hash, whose number is not known.
pub(super) struct Find<'a, W> {
    pub(super) filed: W,
    hash: Option<(W, &'a Rows)>,
    pub(super) pin: &'a Pin,
}

impl<W: Filed> Find<'_, W> {
    /// Its place at an end of a bin.
    pub(super) fn place(&self, bin: Bin<'_, W>, end: End) -> Option<usize> {
        with_best(FindIn { find: self, bin, end })
    }
}

struct FindIn<'a, W> {
    find: &'a Find<'a, W>,
    bin: Bin<'a, W>,
    end: End,
}

impl<W: Filed> Work for FindIn<'_, W> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> Option<usize> {
        let Find { filed, hash, pin } = *self.find;
        let is_it = |entry| {
            !W::NUMBERED
                || match hash {
                    Some((hash, rows)) => rows.hash::<W>(row_of(entry), pin) == hash,
                    None => row_of(entry) == row_of(filed),
                }
        };
        self.bin.find(compare, (filed, self.end), is_it)
    }
}

/// The table of one block.
pub(super) struct Bins<W> {
    block: Block,
    racks: Box<[Replaceable<Rack<W>>]>,
    /// The mean number of hashes of a value from which on a rack distinguishes another bit.
    limit: usize,
    next: Next<W>,
}

impl<W: Filed> Bins<W> {
    /// The table of a block whose racks are those of these hashes: one list for each value of the first
    /// [`RACK_BITS`] bits.
    pub(super) fn of_racks(block: Block, limit: usize, racks: impl Iterator<Item = Rack<W>>) -> Bins<W> {
        let racks: Box<[_]> = racks.map(Replaceable::new).collect();
        debug_assert_eq!(racks.len(), RACKS);
        Bins { block, racks, limit, next: Next::new() }
    }

    /// An empty table.
    pub(super) fn new(block: Block, limit: usize) -> Bins<W> {
        Bins::of_racks(block, limit, (0..RACKS).map(|_| Rack::built(LEAST_DEPTH, &[])))
    }

    /// A rack of a table with this limit, of these entries with their blocks in front of them.
    pub(super) fn rack_of(limit: usize, filed: &[W]) -> Rack<W> {
        Rack::built(depth_of(limit, filed.len() << RACK_BITS), filed)
    }

    /// A rack by its number.
    #[inline(always)]
    pub(super) fn rack<'p>(&self, number: usize, pin: &'p Pin) -> &'p Rack<W> {
        self.racks[number].get(pin)
    }

    /// The rack of a hash, its number, and where in it the hash is.
    #[inline(always)]
    fn locate<'p>(&self, hash: W, pin: &'p Pin) -> (&'p Rack<W>, usize, Place) {
        let place = self.block.place(hash);
        let number = (place >> (u32::BITS - RACK_BITS)) as usize;
        let rack = self.rack(number, pin);
        (rack, number, rack.place(place))
    }

    /// The number of entries that a search for this hash compares.
    pub(super) fn compared(&self, hash: W, pin: &Pin) -> usize {
        self.length(self.block.place(hash), pin)
    }

    /// The number of entries of the value with which these 32 bits begin.
    pub(super) fn length(&self, place: u32, pin: &Pin) -> usize {
        let rack = self.rack((place >> (u32::BITS - RACK_BITS)) as usize, pin);
        let Place { bin, end } = rack.place(place);
        rack.ends(bin).at(end)
    }

    /// The number of the row of a hash, which means nothing if entries are not numbered; `None` if the hash
    /// is not in the table.
    pub(super) fn find(&self, hash: W, rows: &Rows, pin: &Pin) -> Option<u32> {
        let (rack, _, Place { bin, end }) = self.locate(hash, pin);
        let bin = rack.bin(bin, pin);
        let find = Find { filed: self.block.filed(hash, 0), hash: Some((hash, rows)), pin };
        find.place(bin, end).map(|place| bin.number(place))
    }

    /// Prefetches the slot of a hash, for [`Bins::prefetch`].
    #[inline(always)]
    pub(super) fn prefetch_bin(&self, hash: W, pin: &Pin) {
        let (rack, _, place) = self.locate(hash, pin);
        rack.prefetch(place.bin);
    }

    /// Prefetches the entry that a hash will get.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: W, pin: &Pin) {
        let (rack, _, Place { bin, end }) = self.locate(hash, pin);
        rack.bin(bin, pin).prefetch_next(end);
    }

    /// Prefetches the entries that a search for this hash compares.
    #[inline(always)]
    pub(super) fn prefetch_search(&self, hash: W, pin: &Pin) {
        let (rack, _, Place { bin, end }) = self.locate(hash, pin);
        let bin = rack.bin(bin, pin);
        bin.prefetch(bin.span(end, false), false);
    }

    /// Inserts a hash, which must not be in the table. Only one writer may call this at a time.
    pub(super) fn insert(&self, hash: W, of_row: u32, pin: &Pin) {
        let (rack, number, Place { bin, end }) = self.locate(hash, pin);
        let filed = self.block.filed(hash, of_row);
        let ends = rack.bin(bin, pin).insert(filed, end).or_else(|| {
            rack.grow(bin, pin);
            rack.bin(bin, pin).insert(filed, end)
        });
        let ends = ends.expect(HAS_ROOM);
        rack.slots.set_number(bin, ends.number());
        rack.held.store(rack.len() + 1, Ordering::Relaxed);
        match self.next.number() {
            None if rack.len() <= self.limit << (rack.depth - RACK_BITS) => return,
            None if rack.depth >= BLOCK_BITS => return,
            None => self.next.begin(number, rack),
            Some(next) if next == number => self.next.insert(filed, pin),
            Some(_) => {}
        }
        self.deepen(pin);
    }

    /// Removes a hash with the number of its row, if it is there. Only one writer may call this at a time.
    pub(super) fn remove(&self, hash: W, of_row: u32, pin: &Pin) {
        let (rack, number, Place { bin, end }) = self.locate(hash, pin);
        let (found, find) =
            (rack.bin(bin, pin), Find { filed: self.block.filed(hash, of_row), hash: None, pin });
        let Some(place) = find.place(found, end) else { return };
        found.remove(place, end);
        let is_deepened = self.next.number() == Some(number);
        if is_deepened {
            self.next.remove(&find);
        }
        rack.held.store(rack.len() - 1, Ordering::Relaxed);
        let dead = found.dead();
        if dead >= FEW_DEAD && dead * 2 > found.ends().len() {
            rack.grow(bin, pin);
        }
        if rack.depth > LEAST_DEPTH && rack.len() * SPARSE < self.limit << (rack.depth - RACK_BITS) {
            if is_deepened {
                self.next.end();
            }
            self.flatten(number, pin);
        }
    }

    /// Goes on with the rack that distinguishes another bit. When it is complete, it replaces the one in use.
    fn deepen(&self, pin: &Pin) {
        let Some(number) = self.next.number() else { return };
        if let Some(rack) = self.next.step(self.rack(number, pin), pin) {
            self.replace(number, rack, pin);
        }
    }

    /// Replaces a rack by one that distinguishes a bit less.
    fn flatten(&self, number: usize, pin: &Pin) {
        let rack = self.rack(number, pin);
        let mut all = Vec::with_capacity(rack.len());
        rack.for_each_in(number, 0..rack.bins(), pin, &mut |filed| all.push(filed));
        self.replace(number, Rack::built(rack.depth - 1, &all), pin);
    }

    fn replace(&self, number: usize, rack: Rack<W>, pin: &Pin) {
        self.racks[number].replace(rack, pin);
        #[cfg(test)]
        super::model::replaced();
    }

    /// Calls `each` with all hashes whose block begins with the `bits` bits of `prefix`.
    pub(super) fn hashes_with(&self, beginning: (u32, u32), rows: &Rows, pin: &Pin, mut each: impl FnMut(W)) {
        self.entries_with(beginning, pin, |filed| {
            each(if W::NUMBERED { rows.hash(row_of(filed), pin) } else { self.block.hash(filed) });
        });
    }

    /// As [`Bins::hashes_with`], with the entries, each with its block in front of it.
    pub(super) fn entries_with(&self, (prefix, bits): (u32, u32), pin: &Pin, mut each: impl FnMut(W)) {
        let place = if bits == 0 { 0 } else { prefix << (u32::BITS - bits) };
        let first = (place >> (u32::BITS - RACK_BITS)) as usize;
        for number in first..first + (1 << RACK_BITS.saturating_sub(bits)) {
            let rack = self.rack(number, pin);
            let below = bits.saturating_sub(RACK_BITS);
            let bins = if below == 0 {
                0..rack.bins()
            } else {
                let first = rack.place(place).bin;
                first..first + (1 << rack.bin_bits().saturating_sub(below))
            };
            let exact = below > rack.bin_bits();
            rack.for_each_in(number, bins, pin, &mut |filed| {
                if !exact || first_of(filed, bits) == prefix {
                    each(filed);
                }
            });
        }
    }

    /// The bytes that the table occupies, including free entries, without the bookkeeping of the allocator.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        let racks = (0..RACKS).map(|number| self.rack(number, pin).bytes(pin));
        size_of::<Self>() + size_of_val(&*self.racks) + racks.sum::<usize>() + self.next.bytes(pin)
    }
}

/// The number of bits that position implies in a table that holds this many hashes.
pub(super) fn depth_of(limit: usize, hashes: usize) -> u32 {
    (LEAST_DEPTH..BLOCK_BITS).find(|depth| hashes <= limit << depth).unwrap_or(BLOCK_BITS)
}

#[cfg(test)]
mod tests {
    use super::super::memory::pin;
    use super::*;
    use lookalike_hash::U256;

    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ number
    }

    /// A table of an index, with its rows.
    struct One<W> {
        table: Bins<W>,
        rows: Rows,
    }

    impl<W: Filed> One<W> {
        fn insert(&self, hash: W) {
            let number = if W::NUMBERED { self.rows.insert(hash, &pin()) } else { 0 };
            self.table.insert(hash, number, &pin());
        }

        fn remove(&self, hash: W) -> bool {
            let Some(number) = self.table.find(hash, &self.rows, &pin()) else { return false };
            self.table.remove(hash, number, &pin());
            if W::NUMBERED {
                self.rows.remove(number, &pin());
            }
            true
        }

        fn contains(&self, hash: W) -> bool {
            self.table.find(hash, &self.rows, &pin()).is_some()
        }

        fn sorted(&self, beginning: (u32, u32)) -> Vec<W> {
            let mut hashes = Vec::new();
            self.table.hashes_with(beginning, &self.rows, &pin(), |hash| hashes.push(hash));
            hashes.sort_unstable();
            hashes
        }
    }

    /// Inserts the hashes one by one, then removes them, and looks at what is there.
    fn model<W: Filed>(limit: usize, hashes: &[W]) {
        for block in [W::BLOCKS[0], W::BLOCKS[W::BLOCKS.len() - 1]] {
            let table = One { table: Bins::<W>::new(block, limit), rows: Rows::default() };
            // Also while a deeper rack is built.
            let mut gone = Vec::new();
            for (at, hash) in hashes.iter().enumerate() {
                assert!(!table.contains(*hash) && !table.remove(*hash));
                table.insert(*hash);
                assert!(table.contains(*hash));
                if at % 3 == 2 {
                    gone.push(hashes[at / 2]);
                    assert!(table.remove(hashes[at / 2]));
                }
            }
            let mut expected = hashes.to_vec();
            expected.sort_unstable();
            let left: Vec<W> = expected.iter().filter(|hash| !gone.contains(hash)).copied().collect();
            assert!(table.sorted((0, 0)) == left);
            gone.iter().for_each(|hash| table.insert(*hash));
            assert!(table.sorted((0, 0)) == expected);
            for bits in [3, 4, 7, 13, BLOCK_BITS] {
                let prefix = block.first(hashes[0], bits);
                let mut own = expected.clone();
                own.retain(|hash| block.first(*hash, bits) == prefix);
                assert!(table.sorted((prefix, bits)) == own, "{bits} bits");
            }
            let full = table.table.bytes(&pin());
            for (removed, hash) in hashes.iter().enumerate() {
                assert!(table.remove(*hash) && !table.contains(*hash));
                if removed % 97 == 0 {
                    table.insert(*hash);
                    assert!(table.contains(*hash) && table.remove(*hash));
                }
            }
            assert!(table.sorted((0, 0)).is_empty());
            let left = table.table.bytes(&pin());
            assert!(cfg!(miri) || left < full / 2, "{left} of {full} bytes are left");
        }
    }

    #[test]
    fn hashes_of_all_widths_are_inserted_and_removed() {
        let count = if cfg!(miri) { 100 } else { 8_000 };
        let even: Vec<u64> = (0..count).map(spread).collect();
        let one_value: Vec<u64> = (0..count).map(|number| 0xabcd << 48 | number << 16 | 0x1234).collect();
        for narrow in [even, one_value] {
            let wide = |hash: &u64| u128::from(*hash) << 64 | u128::from(hash.rotate_left(16));
            let wide: Vec<u128> = narrow.iter().map(wide).collect();
            let wider: Vec<U256> =
                wide.iter().map(|hash| U256::from(*hash) << 128 | U256::from(*hash)).collect();
            for limit in [1, 5, 64] {
                model(limit, &narrow);
                model(limit, &wide);
                model(limit, &wider);
            }
        }
    }
}
