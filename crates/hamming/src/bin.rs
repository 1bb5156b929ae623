//! A bin: the hashes of two neighbouring values of the first bits of a block, in one array that fills from
//! both ends.
//!
//! The hashes whose value is even are at the front, those whose value is odd at the back, each in the order
//! of their insertion. So the free entries are in the middle and serve both, and a query reads each of the
//! two as one run of memory. A bin that is full is copied to a longer one.
//!
//! Sixteen entries are a *tile*. A tile has a [`Plane`] for each 16 bits of a hash after its block, so that a
//! few instructions compare sixteen hashes. The first planes of all tiles are in front of the others, because
//! most hashes are known to be far by the first planes alone; of numbered entries the others have the number.
//! The position of a bin implies the first bits of the block. If it implies fewer than 16, the others are
//! with the marks.
//!
//! The *marks* of a tile are cells of 16 bits: two have a bit for each entry at the front, and at the back,
//! that is not removed; the others have 4, 8 or 16 more bits of each entry.
//!
//! # Readers and the writer
//! There is one writer at a time, and readers take no lock. The number of a slot says how many entries were
//! inserted at both ends. A reader reads it before it reads the pointer to the tiles, so that the tiles may
//! be newer: they have grown, or removed entries are gone. In all of them the entries at an end have the same
//! order. So an entry that is there all the time is among as many first ones as the number says. Which of
//! these places have an entry, and at which end, the marks tell: an entry is written before its mark, does
//! not move within an array, and its place is not used again.
//!
//! *Absent*: which bits select a bin (`bins`), plans and answers (`probe`).

use std::ops::Range;

use super::block::{BLOCK_BITS, Filed, words};
use super::ends::{End, Ends};
use super::memory::{Array, Compare, LANES, Pin, Plane, Slots, Tiles, cells, prefetch_from};

/// The most cache lines of a full bin that are prefetched.
const MOST_PREFETCHED: usize = 128;

/// The tiles to read of a bin, from `from` to before `to`.
#[derive(Clone, Copy)]
pub(super) struct Span {
    from: u32,
    to: u32,
}

impl Span {
    /// The number of tiles.
    #[inline(always)]
    pub(super) fn tiles(self) -> usize {
        (self.to - self.from) as usize
    }
}

/// The cells of marks of a tile of a bin whose position implies `depth` bits of the block.
pub(super) fn marks(depth: u32) -> usize {
    let extra = match BLOCK_BITS.saturating_sub(depth) {
        0 => 0,
        1..=4 => 4,
        5..=8 => 8,
        _ => 16,
    };
    LIVE + extra
}

/// The marks that say which entries are not removed, one for each end.
const LIVE: usize = 2;

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct Bin<'p, W> {
    ends: Ends,
    tiles: Tiles<'p, W>,
}

impl<'p, W: Filed> Bin<'p, W> {
    /// The planes of a tile after the first ones.
    const REST: usize = W::PLANES - W::FIRST;

    /// The bin of a slot.
    #[inline(always)]
    pub(super) fn of(slots: &Slots<W>, at: usize, pin: &'p Pin) -> Bin<'p, W> {
        let (number, tiles) = slots.get(at, pin);
        Bin { ends: Ends::of(number), tiles }
    }

    /// The bin of an array that is in no slot yet.
    pub(super) fn of_array(array: &'p Array<W>, ends: Ends, pin: &'p Pin) -> Bin<'p, W> {
        Bin { ends, tiles: array.tiles(pin) }
    }

    /// The numbers of entries that were inserted.
    #[inline(always)]
    pub(super) fn ends(&self) -> Ends {
        self.ends
    }

    /// The number of removed entries whose places are not free yet.
    pub(super) fn dead(&self) -> usize {
        let live = |tile| [End::Front, End::Back].map(|end| self.live(tile, end).count_ones() as usize);
        self.ends.len() - (0..self.tiles.len()).flat_map(live).sum::<usize>()
    }

    /// The tiles to read of one end, or of both, and then also the free ones between them, which are few.
    #[inline(always)]
    pub(super) fn span(&self, end: End, both: bool) -> Span {
        let all = self.tiles.len() as u32;
        // Of a number that is older than the tiles there may be more.
        let tiles = |end| (self.ends.at(end) as u32).div_ceil(LANES as u32).min(all);
        let from = if both || end == End::Front { 0 } else { all - tiles(End::Back) };
        let to = if both || end == End::Back { all } else { tiles(End::Front) };
        Span { from, to }
    }

    #[inline(always)]
    fn room(&self) -> usize {
        self.tiles.len() * LANES
    }

    /// Prefetches the beginning of the span. The processor prefetches the rest. The number of lines is
    /// constant, since a branch that is not foreseen costs more than a line.
    #[inline(always)]
    pub(super) fn prefetch(&self, span: Span, whole: bool) {
        let (from, planes) = (span.from as usize, self.tiles.planes());
        prefetch_lines(&planes[from * W::FIRST..], 6);
        if whole && Self::REST > 0 {
            prefetch_lines(&planes[self.tiles.len() * W::FIRST + from * Self::REST..], 4);
        }
    }

    /// Prefetches the place of the next entry at an end, or the whole bin if it is full and will be copied.
    #[inline(always)]
    pub(super) fn prefetch_next(&self, end: End) {
        if self.ends.len() >= self.room() {
            let planes = self.tiles.planes();
            prefetch_lines(planes, (planes.len() / 2).min(MOST_PREFETCHED));
            return;
        }
        let tile = self.next_place(self.ends, end) / LANES;
        let planes = self.tiles.planes();
        prefetch_lines(&planes[tile * W::FIRST..], W::FIRST / 2);
        // They may begin in the middle of a line.
        prefetch_from(&raw const planes[tile * W::FIRST + W::FIRST - 1]);
        prefetch_lines(&planes[self.tiles.len() * W::FIRST + tile * Self::REST..], Self::REST.div_ceil(2));
        prefetch_from(self.tiles.mark(tile, 0).0);
    }

    /// Calls `each` with every tile of a span that has entries within `k` bits of the pattern in its planes,
    /// and with the bits of these entries. The bits of places without an entry have no meaning. Unless
    /// `whole` is set, the first planes are compared first.
    #[inline(always)]
    pub(super) fn for_each_near<C: Compare>(
        &self,
        compare: C,
        span: Span,
        pattern: &C::Pattern,
        (k, whole): (u32, bool),
        mut each: impl FnMut(usize, u32),
    ) {
        let add = |planes: &[Plane], from: usize, sums: C::Sums| {
            let (fours, rest) = planes.as_chunks::<4>();
            let sums = fours
                .iter()
                .enumerate()
                .fold(sums, |sums, (at, four)| compare.add_four(four, pattern, from + 4 * at, sums));
            let from = from + 4 * fours.len();
            match (rest.as_array::<3>(), rest.as_array::<2>()) {
                (Some(three), _) => compare.add_three(three, pattern, from, sums),
                (_, Some(two)) => compare.add_two(two, pattern, from, sums),
                _ => sums,
            }
        };
        let (first, rest) = self.tiles.planes().split_at(self.tiles.len() * W::FIRST);
        let from = span.from as usize;
        let first = &first[from * W::FIRST..span.to as usize * W::FIRST];
        let rest = &rest[from * Self::REST..span.to as usize * Self::REST];
        let of_first = first.chunks_exact(W::FIRST);
        if W::COMPARED == W::FIRST {
            for (at, first) in of_first.enumerate() {
                let near = compare.few(add(first, 0, compare.none()), k);
                if near != 0 {
                    each(from + at, near);
                }
            }
        } else if whole {
            for (at, (first, rest)) in of_first.zip(rest.chunks_exact(Self::REST)).enumerate() {
                let sums = add(rest, W::FIRST, add(first, 0, compare.none()));
                let near = compare.few(sums, k);
                if near != 0 {
                    each(from + at, near);
                }
            }
        } else {
            for (at, first) in of_first.enumerate() {
                let sums = add(first, 0, compare.none());
                if compare.few(sums, k) != 0 {
                    let rest = &rest[at * Self::REST..(at + 1) * Self::REST];
                    let near = compare.few(add(rest, W::FIRST, sums), k);
                    if near != 0 {
                        each(from + at, near);
                    }
                }
            }
        }
    }

    /// The end of the entry at a place; `None` if there is none.
    #[inline(always)]
    pub(super) fn end_of(&self, place: usize) -> Option<End> {
        let (tile, lane) = (place / LANES, place % LANES);
        [End::Front, End::Back].into_iter().find(|end| self.live(tile, *end) >> lane & 1 == 1)
    }

    /// The entries of a tile that were inserted at an end and are not removed. They can be read.
    #[inline(always)]
    fn live(&self, tile: usize, end: End) -> u16 {
        let (plane, cell) = self.tiles.mark(tile, end.bit() as usize);
        plane.read_published(cell)
    }

    /// The entry at a place: the hash without the first bits of its block, and its bits in the marks.
    #[inline(always)]
    pub(super) fn entry(&self, place: usize) -> (W, u32) {
        let (tile, lane) = (place / LANES, place % LANES);
        let word = |plane: usize| self.plane(tile, plane).read(lane);
        let hash = (0..W::PLANES).fold(W::default(), |hash, plane| hash.with_word(word(plane)));
        (hash, self.extra_of(place).into())
    }

    /// The bits of the entry at a place in the marks.
    #[inline(always)]
    fn extra_of(&self, place: usize) -> u16 {
        let (mark, shift) = self.place_in_marks(place % LANES);
        if self.extra() == 0 { 0 } else { self.mark(place / LANES, mark) >> shift & self.extra_mask() }
    }

    #[inline(always)]
    fn set_extra(&self, place: usize, extra: u16) {
        if self.extra() > 0 {
            let (tile, (mark, shift)) = (place / LANES, self.place_in_marks(place % LANES));
            let mask = self.extra_mask() << shift;
            self.set_mark(tile, mark, self.mark(tile, mark) & !mask | extra << shift & mask);
        }
    }

    /// The number of the entry at a place, if entries are numbered.
    #[inline(always)]
    pub(super) fn number(&self, place: usize) -> u32 {
        let (tile, lane) = (place / LANES, place % LANES);
        let [upper, lower] = [2, 1].map(|from_end| self.plane(tile, W::PLANES - from_end).read(lane));
        u32::from(upper) << u16::BITS | u32::from(lower)
    }

    #[inline(always)]
    fn plane(&self, tile: usize, plane: usize) -> &'p Plane {
        let planes = self.tiles.planes();
        if plane < W::FIRST {
            &planes[tile * W::FIRST + plane]
        } else {
            &planes[self.tiles.len() * W::FIRST + tile * Self::REST + plane - W::FIRST]
        }
    }

    /// The first planes of tiles, or the others.
    fn planes_of(&self, tiles: Range<usize>, rest: bool) -> &'p [Plane] {
        let (first, others) = self.tiles.planes().split_at(self.tiles.len() * W::FIRST);
        let (planes, each) = if rest { (others, Self::REST) } else { (first, W::FIRST) };
        &planes[tiles.start * each..tiles.end * each]
    }

    #[inline(always)]
    fn mark(&self, tile: usize, at: usize) -> u16 {
        let (plane, cell) = self.tiles.mark(tile, at);
        plane.read(cell)
    }

    #[inline(always)]
    fn set_mark(&self, tile: usize, at: usize, value: u16) {
        // The word of memory may have marks of the tile that readers wait for.
        let (plane, cell) = self.tiles.mark(tile, at);
        plane.publish(cell, value);
    }

    /// The bits of an entry in the marks: 0, 4, 8 or 16.
    #[inline(always)]
    fn extra(&self) -> usize {
        self.tiles.marks() - LIVE
    }

    /// These bits as a number of ones.
    #[inline(always)]
    fn extra_mask(&self) -> u16 {
        ((1u32 << self.extra()) - 1) as u16
    }

    /// The mark that has the bits of an entry, and where in it they begin.
    #[inline(always)]
    fn place_in_marks(&self, lane: usize) -> (usize, usize) {
        let bit = lane * self.extra();
        (LIVE + bit / LANES, bit % LANES)
    }

    /// Inserts an entry, with its block in front of it. Returns the new numbers of entries, which the slot
    /// must get; `None` if the bin is full. Only the writer may call this.
    #[inline]
    pub(super) fn insert(&self, filed: W, end: End) -> Option<Ends> {
        if self.ends.len() >= self.room() {
            return None;
        }
        let place = self.next_place(self.ends, end);
        let (tile, lane) = (place / LANES, place % LANES);
        for plane in 0..W::PLANES {
            self.plane(tile, plane).write(lane, filed.word(W::PLANES - 1 - plane));
        }
        self.set_extra(place, filed.word(W::PLANES));
        self.set_live(tile, end, |live| live | 1 << lane);
        Some(self.ends.with_one_more(end))
    }

    fn set_live(&self, tile: usize, end: End, changed: impl FnOnce(u16) -> u16) {
        let (plane, cell) = self.tiles.mark(tile, end.bit() as usize);
        plane.publish(cell, changed(plane.read(cell)));
    }

    /// Removes the entry at a place. Only the writer may call this.
    pub(super) fn remove(&self, place: usize, end: End) {
        self.set_live(place / LANES, end, |live| live & !(1 << (place % LANES)));
    }

    /// An array with the entries of this bin that are not removed, and room for more.
    pub(super) fn grown(&self, pin: &Pin) -> (Array<W>, Ends) {
        let dead = self.dead();
        let array = Array::new(with_room(self.ends.len() - dead), self.tiles.marks());
        let grown = Bin::of_array(&array, self.ends, pin);
        if dead > 0 {
            let ends = grown.copy_live(self);
            return (array, ends);
        }
        let shift = grown.tiles.len() - self.tiles.len();
        let back = (self.room() - self.ends.at(End::Back)) / LANES;
        grown.copy_tiles(0, self, 0..self.ends.at(End::Front).div_ceil(LANES), End::Front);
        grown.copy_tiles(shift, self, back..self.tiles.len(), End::Back);
        (array, self.ends)
    }

    /// Copies the entries of another bin that are not removed. Returns their numbers.
    fn copy_live(&self, other: &Bin<'_, W>) -> Ends {
        // Of free places it copies any entry.
        let (mut sources, mut ends) = (vec![0; self.room()], Ends::default());
        for end in [End::Front, End::Back] {
            other.for_each_place(end, |from| {
                let to = self.next_place(ends, end);
                sources[to] = from;
                ends = ends.with_one_more(end);
                self.set_extra(to, other.extra_of(from));
                self.set_live(to / LANES, end, |live| live | 1 << (to % LANES));
            });
        }
        for (tile, sources) in sources.as_chunks::<LANES>().0.iter().enumerate() {
            for plane in 0..W::PLANES {
                let from =
                    |lane: usize| other.plane(sources[lane] / LANES, plane).read(sources[lane] % LANES);
                self.plane(tile, plane).write_all(from);
            }
        }
        ends
    }

    /// The place of the next entry at an end of a bin that has so many.
    #[inline(always)]
    fn next_place(&self, ends: Ends, end: End) -> usize {
        match end {
            End::Front => ends.at(end),
            End::Back => self.room() - ends.at(end) - 1,
        }
    }

    /// Copies tiles of another bin for their entries at an end, `shift` tiles further on. A tile that has
    /// entries at both ends is copied for each to another place.
    fn copy_tiles(&self, shift: usize, other: &Bin<'_, W>, tiles: Range<usize>, end: End) {
        for rest in [false, true] {
            let to = self.planes_of(tiles.start + shift..tiles.end + shift, rest);
            Plane::copy_all(to, other.planes_of(tiles.clone(), rest));
        }
        for tile in tiles {
            (LIVE..self.tiles.marks())
                .for_each(|mark| self.set_mark(tile + shift, mark, other.mark(tile, mark)));
            self.set_live(tile + shift, end, |_| other.live(tile, end));
        }
    }

    /// Calls `each` with every entry, its bits in the marks, and its end, at each end in the order of their
    /// insertion.
    #[inline(always)]
    pub(super) fn for_each(&self, mut each: impl FnMut(W, u32, End)) {
        for end in [End::Front, End::Back] {
            self.for_each_place(end, |place| {
                let (entry, extra) = self.entry(place);
                each(entry, extra, end);
            });
        }
    }

    /// Calls `each` with the places of the entries at an end, in the order of their insertion.
    #[inline(always)]
    fn for_each_place(&self, end: End, mut each: impl FnMut(usize)) {
        let tiles = self.tiles.len();
        for tile in 0..tiles {
            if end == End::Front {
                cells(self.live(tile, end).into()).for_each(|lane| each(tile * LANES + lane));
            } else {
                // The first entry at the back is in the last lane of the last tile.
                let (last, live) = (tiles - tile, self.live(tiles - tile - 1, end).reverse_bits());
                cells(live.into()).for_each(|lane| each(last * LANES - 1 - lane));
            }
        }
    }

    /// The place of an entry with these words that are compared, and the block in front of them, of which
    /// `is_it` holds.
    #[inline(always)]
    pub(super) fn find<C: Compare>(
        &self,
        compare: C,
        (filed, end): (W, End),
        is_it: impl Fn(W) -> bool,
    ) -> Option<usize> {
        let pattern = compare.pattern(&words(filed));
        let span = self.span(end, false);
        let extra = u32::from(filed.word(W::PLANES) & self.extra_mask());
        let mut found = None;
        self.for_each_near(compare, span, &pattern, (0, false), |tile, near| {
            let is_it = |place: &usize| {
                self.end_of(*place) == Some(end) && {
                    let (entry, extra_of_entry) = self.entry(*place);
                    extra_of_entry == extra && is_it(entry)
                }
            };
            found = found.or_else(|| cells(near).map(|lane| tile * LANES + lane).find(is_it));
        });
        found
    }
}

/// The number of tiles for this many entries and some more.
pub(super) fn with_room(entries: usize) -> usize {
    (entries + entries / 32 + 1).div_ceil(LANES)
}

#[inline(always)]
fn prefetch_lines(planes: &[Plane], lines: usize) {
    (0..lines).for_each(|line| prefetch_from(planes.as_ptr().wrapping_add(2 * line)));
}
