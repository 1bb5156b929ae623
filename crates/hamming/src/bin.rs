//! A bin: the hashes of two neighbouring values of the first bits of a block, in one array that fills from
//! both ends.
//!
//! The hashes whose value is even are at the front, those whose value is odd at the back, each in the order
//! of their insertion. So the free entries are in the middle and serve both, and a query reads each of the
//! two as one run of memory. A bin that is full is copied to a longer one.
//!
//! Sixteen entries are a *tile*. A tile has a [`Plane`] for each 16 bits of a hash after the first 16 of its
//! block, so that a few instructions compare sixteen hashes. The first planes of all tiles are in front of
//! the others, because most hashes are known to be far by the first planes alone. The position of a bin
//! implies the first bits of the block. If it implies fewer than 16, the others are with the marks.
//!
//! The *marks* of a tile are cells of 16 bits: one has the bits of removed entries, the others have 4, 8 or
//! 16 more bits of each entry.
//!
//! # Readers and the writer
//! There is one writer at a time, and readers take no lock. An entry is written before the number that
//! reports it, does not move, and is not reused. A reader reads that number once.
//!
//! *Absent*: which bits select a bin (`bins`), plans and answers (`probe`).

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::block::{Filed, IMPLIED_BITS, words};
use super::memory::{Compare, LANES, Plane, cells, empty_lines, prefetch_from, step};

/// The bits of the front in the number of entries.
const FRONT_BITS: u32 = 32;

/// The end of a bin at which a hash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

impl End {
    /// The end of the hashes whose value has this last bit.
    #[inline(always)]
    pub(super) fn of(bit: u32) -> End {
        if bit & 1 == 0 { End::Front } else { End::Back }
    }

    /// The last bit of the values at this end.
    #[inline(always)]
    pub(super) fn bit(self) -> u32 {
        self as u32
    }
}

/// The numbers of entries at both ends.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    front: u32,
    back: u32,
}

impl Ends {
    pub(super) fn len(self) -> usize {
        (self.front + self.back) as usize
    }

    /// The number of entries at one end.
    pub(super) fn at(self, end: End) -> usize {
        match end {
            End::Front => self.front as usize,
            End::Back => self.back as usize,
        }
    }
}

/// The tiles to read of a bin, from `from` to before `to`.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) ends: Ends,
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

/// See the module.
pub(super) struct Bin<W> {
    /// The numbers of entries at the front and, in the upper half, at the back.
    held: AtomicU64,
    /// The number of removed entries. Only the writer uses it.
    dead: AtomicU32,
    tiles: u32,
    /// The bits of an entry in the marks: 0, 4, 8 or 16.
    extra: u32,
    /// The first planes of all tiles, then their other planes, then the marks.
    planes: Box<[Plane]>,
    width: PhantomData<W>,
}

impl<W: Filed> Bin<W> {
    /// The planes of a tile after the first ones.
    const REST: usize = W::PLANES - W::FIRST;

    /// An empty bin of this many tiles, whose position implies `depth` bits of the block.
    pub(super) fn new(tiles: usize, depth: u32) -> Bin<W> {
        let extra = match IMPLIED_BITS.saturating_sub(depth) {
            0 => 0,
            1..=4 => 4,
            5..=8 => 8,
            _ => 16,
        };
        let marks = (tiles * (1 + extra)).div_ceil(LANES);
        Bin {
            held: AtomicU64::new(0),
            dead: AtomicU32::new(0),
            tiles: tiles as u32,
            extra: extra as u32,
            planes: empty_lines(tiles * W::PLANES + marks),
            width: PhantomData,
        }
    }

    /// The numbers of entries. What they report is complete.
    #[inline(always)]
    pub(super) fn ends(&self) -> Ends {
        step();
        let held = self.held.load(Ordering::Acquire);
        Ends { front: held as u32, back: (held >> FRONT_BITS) as u32 }
    }

    /// The number of tiles.
    #[inline(always)]
    pub(super) fn tiles(&self) -> usize {
        self.tiles as usize
    }

    /// The number of removed entries.
    pub(super) fn dead(&self) -> usize {
        self.dead.load(Ordering::Relaxed) as usize
    }

    /// The bytes that it occupies.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.planes)
    }

    /// The tiles to read of one end, or of both, and then also the free ones between them, which are few.
    #[inline(always)]
    pub(super) fn span(&self, end: End, both: bool) -> Span {
        let ends = self.ends();
        let tiles = |entries: u32| entries.div_ceil(LANES as u32);
        let from = if both || end == End::Front { 0 } else { self.tiles - tiles(ends.back) };
        let to = if both || end == End::Back { self.tiles } else { tiles(ends.front) };
        Span { ends, from, to }
    }

    #[inline(always)]
    fn room(&self) -> usize {
        self.tiles() * LANES
    }

    /// Prefetches the beginning of the span. The processor prefetches the rest. The number of lines is
    /// constant, since a branch that is not foreseen costs more than a line.
    #[inline(always)]
    pub(super) fn prefetch(&self, span: Span, whole: bool) {
        let from = span.from as usize;
        prefetch_lines(&self.planes[from * W::FIRST..], 6);
        if whole && Self::REST > 0 {
            prefetch_lines(&self.planes[self.tiles() * W::FIRST + from * Self::REST..], 4);
        }
    }

    /// Prefetches the place of the next entry at an end.
    #[inline(always)]
    pub(super) fn prefetch_next(&self, end: End) {
        let next = self.ends().at(end);
        let tile = match end {
            End::Front => next / LANES,
            End::Back => self.room().saturating_sub(next + 1) / LANES,
        };
        if tile < self.tiles() {
            prefetch_lines(&self.planes[tile * W::FIRST..], W::FIRST.div_ceil(2));
            prefetch_lines(
                &self.planes[self.tiles() * W::FIRST + tile * Self::REST..],
                Self::REST.div_ceil(2),
            );
        }
    }

    /// Calls `each` with every tile of a span that has entries within `k` bits of the pattern in its planes,
    /// and with the bits of these entries. The bits of places that are not reported have no meaning. Unless
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
            let (fours, three) = planes.as_chunks::<4>();
            let sums = fours
                .iter()
                .enumerate()
                .fold(sums, |sums, (at, four)| compare.add_four(four, pattern, from + 4 * at, sums));
            match three.as_array::<3>() {
                Some(three) => compare.add_three(three, pattern, from + 4 * fours.len(), sums),
                None => sums,
            }
        };
        let (first, rest) = self.planes[..self.tiles() * W::PLANES].split_at(self.tiles() * W::FIRST);
        let from = span.from as usize;
        let first = &first[from * W::FIRST..span.to as usize * W::FIRST];
        let rest = &rest[from * Self::REST..span.to as usize * Self::REST];
        let of_first = first.chunks_exact(W::FIRST);
        if Self::REST == 0 {
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

    /// The end of the entry at a place, if the numbers report it and it is not removed.
    #[inline(always)]
    pub(super) fn end_of(&self, place: usize, ends: Ends) -> Option<End> {
        let end = match place {
            place if place < ends.at(End::Front) => End::Front,
            place if place >= self.room() - ends.at(End::Back) => End::Back,
            _ => return None,
        };
        let dead = self.mark(place / LANES, 0);
        (dead >> (place % LANES) & 1 == 0).then_some(end)
    }

    /// The entry at a place: the hash without the first bits of its block, and its bits in the marks.
    #[inline(always)]
    pub(super) fn entry(&self, place: usize) -> (W, u32) {
        let (tile, lane) = (place / LANES, place % LANES);
        let word = |plane: usize| self.plane(tile, plane).read(lane);
        let hash = (0..W::PLANES).fold(W::default(), |hash, plane| hash.with_word(word(plane)));
        let (cell, shift) = self.place_in_marks(lane);
        let extra = if self.extra == 0 { 0 } else { self.mark(tile, cell) >> shift & self.extra_mask() };
        (hash, extra.into())
    }

    #[inline(always)]
    fn plane(&self, tile: usize, plane: usize) -> &Plane {
        if plane < W::FIRST {
            &self.planes[tile * W::FIRST + plane]
        } else {
            &self.planes[self.tiles() * W::FIRST + tile * Self::REST + plane - W::FIRST]
        }
    }

    /// The plane and the cell of a mark of a tile.
    #[inline(always)]
    fn mark_at(&self, tile: usize, cell: usize) -> (&Plane, usize) {
        let at = tile * (1 + self.extra as usize) + cell;
        (&self.planes[self.tiles() * W::PLANES + at / LANES], at % LANES)
    }

    #[inline(always)]
    fn mark(&self, tile: usize, cell: usize) -> u16 {
        let (plane, at) = self.mark_at(tile, cell);
        plane.read(at)
    }

    #[inline(always)]
    fn set_mark(&self, tile: usize, cell: usize, value: u16) {
        let (plane, at) = self.mark_at(tile, cell);
        plane.write(at, value);
    }

    /// The bits of an entry in the marks, as a number of ones.
    #[inline(always)]
    fn extra_mask(&self) -> u16 {
        ((1u32 << self.extra) - 1) as u16
    }

    /// The cell of the marks that has the bits of an entry, and where in it they begin.
    #[inline(always)]
    fn place_in_marks(&self, lane: usize) -> (usize, usize) {
        let bit = lane * self.extra as usize;
        (1 + bit / LANES, bit % LANES)
    }

    /// Inserts a hash, turned so that it begins with its block. Returns `false` if the bin is full. Only the
    /// writer may call this.
    #[inline]
    pub(super) fn insert(&self, turned: W, end: End) -> bool {
        let ends = self.ends();
        if ends.len() == self.room() {
            return false;
        }
        let (place, more) = match end {
            End::Front => (ends.at(end), 1),
            End::Back => (self.room() - ends.at(end) - 1, 1 << FRONT_BITS),
        };
        let (tile, lane) = (place / LANES, place % LANES);
        for plane in 0..W::PLANES {
            self.plane(tile, plane).write(lane, turned.word(W::PLANES - 1 - plane));
        }
        if self.extra > 0 {
            let (cell, shift) = self.place_in_marks(lane);
            let mask = self.extra_mask() << shift;
            let extra = turned.word(W::PLANES) << shift & mask;
            self.set_mark(tile, cell, self.mark(tile, cell) & !mask | extra);
        }
        step();
        self.held.store(self.held.load(Ordering::Relaxed) + more, Ordering::Release);
        true
    }

    /// Removes the entry at a place. Only the writer may call this.
    pub(super) fn remove(&self, place: usize) {
        let (tile, lane) = (place / LANES, place % LANES);
        self.set_mark(tile, 0, self.mark(tile, 0) | 1 << lane);
        self.dead.store(self.dead.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A bin with the entries of this one that are not removed, and room for more; `depth` is that of this
    /// one.
    pub(super) fn grown(&self, depth: u32) -> Bin<W> {
        let ends = self.ends();
        if self.dead() > 0 {
            let left = ends.len() - self.dead();
            let grown = Bin::new(with_room(left), depth);
            self.for_each(|entry, extra, end| {
                grown.insert(entry.with_first(extra), end);
            });
            return grown;
        }
        let grown = Bin::new(with_room(ends.len()), depth);
        let shift = grown.tiles() - self.tiles();
        for tile in 0..ends.at(End::Front).div_ceil(LANES) {
            grown.copy_tile(tile, self, tile);
        }
        for tile in (self.room() - ends.at(End::Back)) / LANES..self.tiles() {
            grown.copy_tile(tile + shift, self, tile);
        }
        grown.held.store(self.held.load(Ordering::Relaxed), Ordering::Release);
        grown
    }

    fn copy_tile(&self, to: usize, other: &Bin<W>, from: usize) {
        (0..W::PLANES).for_each(|plane| self.plane(to, plane).copy(other.plane(from, plane)));
        (0..=self.extra as usize).for_each(|cell| self.set_mark(to, cell, other.mark(from, cell)));
    }

    /// Calls `each` with every entry, its bits in the marks, and its end.
    #[inline(always)]
    pub(super) fn for_each(&self, mut each: impl FnMut(W, u32, End)) {
        let ends = self.ends();
        let back = self.room() - ends.at(End::Back);
        for place in (0..ends.at(End::Front)).chain(back..self.room()) {
            if let Some(end) = self.end_of(place, ends) {
                let (entry, extra) = self.entry(place);
                each(entry, extra, end);
            }
        }
    }

    /// The place of a hash, turned so that it begins with its block.
    #[inline(always)]
    pub(super) fn find<C: Compare>(&self, compare: C, turned: W, end: End) -> Option<usize> {
        let pattern = compare.pattern(&words(turned));
        let span = self.span(end, false);
        let extra = u32::from(turned.word(W::PLANES) & self.extra_mask());
        let mut found = None;
        self.for_each_near(compare, span, &pattern, (0, false), |tile, near| {
            let is_it =
                |place: &usize| self.end_of(*place, span.ends) == Some(end) && self.entry(*place).1 == extra;
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
