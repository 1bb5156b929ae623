//! Slots: arrays of tiles that one thread replaces while others read them, each beside a number.
//!
//! A pointer and its number are neighbours, and the pointer has the number of tiles in its low bits. So a
//! reader waits for memory once before it can read any tile.
//!
//! Costs: 16 bytes for each slot, and 32 for each array that is not empty.
//!
//! *Absent*: what the numbers and the planes mean (`bin`).

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_epoch::{Atomic, Owned, Shared};

use super::{LANES, Pin, Plane, prefetch_from, step};
use crate::block::Filed;

type Planes = [MaybeUninit<Plane>];

/// The number of tiles in a pointer that means: the first plane has the number.
const MANY: usize = align_of::<Plane>() - 1;
/// The cells in which a plane has a number of tiles, the lower half first.
const NUMBER: [usize; 2] = [0, 1];

/// The number of planes of the marks of so many tiles.
#[inline(always)]
fn planes_of_marks(tiles: usize, marks: usize) -> usize {
    (tiles * marks).div_ceil(LANES)
}

/// The tiles of an array: first their planes, then their marks.
#[derive(Clone, Copy)]
pub(crate) struct Tiles<'p, W> {
    /// Points to so many initialized planes of `W` for each tile, and to those of the marks after them.
    start: NonNull<Plane>,
    count: u32,
    /// The cells of marks of a tile.
    marks: u32,
    lifetime: PhantomData<(&'p Plane, W)>,
}

impl<'p, W: Filed> Tiles<'p, W> {
    /// The number of tiles.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.count as usize
    }

    /// The cells of marks of a tile.
    #[inline(always)]
    pub(crate) fn marks(self) -> usize {
        self.marks as usize
    }

    /// The planes: `W::PLANES` for each tile.
    #[inline(always)]
    pub(crate) fn planes(self) -> &'p [Plane] {
        // SAFETY: see `start`. Planes are changed as atomic integers only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len() * W::PLANES) }
    }

    /// The plane and its cell that have mark `at` of a tile.
    #[inline(always)]
    pub(crate) fn mark(self, tile: usize, at: usize) -> (&'p Plane, usize) {
        let cell = tile * self.marks() + at;
        (&self.all()[self.len() * W::PLANES + cell / LANES], cell % LANES)
    }

    /// The bytes of the array.
    fn bytes(self) -> usize {
        if self.count == 0 { 0 } else { (1 + self.all().len()) * size_of::<Plane>() }
    }

    #[inline(always)]
    fn all(self) -> &'p [Plane] {
        let planes = self.len() * W::PLANES + planes_of_marks(self.len(), self.marks());
        // SAFETY: see `start`. Planes are changed as atomic integers only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), planes) }
    }
}

/// An array that is in no slot yet.
pub(crate) struct Array<W> {
    /// The pointer to it; null if it has no tile.
    pointer: Atomic<Planes>,
    marks: u32,
    width: PhantomData<W>,
}

impl<W: Filed> Array<W> {
    /// Tiles whose cells are all 0, with so many cells of marks each.
    pub(crate) fn new(tiles: usize, marks: usize) -> Array<W> {
        let pointer = if tiles == 0 { Atomic::null() } else { allocated::<W>(tiles, marks) };
        Array { pointer, marks: marks as u32, width: PhantomData }
    }

    /// Its tiles.
    pub(crate) fn tiles(&self, pin: &Pin) -> Tiles<'_, W> {
        // SAFETY: `allocated` made the array for this type and this number of marks, and it lives as long as
        // `self`.
        unsafe { tiles(self.pointer.load(Ordering::Relaxed, &pin.0), self.marks) }
    }

    /// The bytes that it occupies.
    pub(crate) fn bytes(&self, pin: &Pin) -> usize {
        self.tiles(pin).bytes()
    }
}

impl<W> Drop for Array<W> {
    fn drop(&mut self) {
        let pointer = std::mem::replace(&mut self.pointer, Atomic::null());
        // SAFETY: no other thread uses an array that is in no slot, and the pointer is not used again.
        drop(unsafe { pointer.try_into_owned() });
    }
}

/// An array of tiles, and its tagged pointer.
fn allocated<W: Filed>(tiles: usize, marks: usize) -> Atomic<Planes> {
    let is_large = tiles >= MANY;
    let planes = usize::from(is_large) + planes_of_marks(tiles, marks) + tiles * W::PLANES;
    let mut array = Owned::<Planes>::init(planes);
    array.iter_mut().for_each(|plane| _ = plane.write(Plane::default()));
    if is_large {
        let first = Plane::default();
        let halves = [tiles as u16, (tiles >> u16::BITS) as u16];
        NUMBER.into_iter().zip(halves).for_each(|(cell, half)| first.write(cell, half));
        array[0].write(first);
    }
    Atomic::from(array.with_tag(tiles.min(MANY)))
}

/// The tiles at a pointer.
///
/// # Safety
/// The pointer is null, or [`allocated`] made its array for `W` and this number of marks, and the array lives
/// for `'p`.
#[inline(always)]
unsafe fn tiles<'p, W: Filed>(pointer: Shared<'_, Planes>, marks: u32) -> Tiles<'p, W> {
    let of = |start, tiles: usize| Tiles { start, count: tiles as u32, marks, lifetime: PhantomData };
    if pointer.is_null() {
        return of(NonNull::dangling(), 0);
    }
    // SAFETY: the array lives, by the contract. The length of the slice that this makes is before the first
    // plane; the compiler does not load it, since it is not used.
    let start: NonNull<Plane> = NonNull::from(unsafe { pointer.deref() }).cast();
    if pointer.tag() < MANY {
        return of(start, pointer.tag());
    }
    // SAFETY: an array of so many tiles has a first plane, and all planes are initialized.
    let [low, high] = NUMBER.map(|cell| usize::from(unsafe { start.as_ref() }.read(cell)));
    // SAFETY: the other planes are after the first one.
    of(unsafe { start.add(1) }, high << u16::BITS | low)
}

/// One cache line has four of them.
#[repr(align(16))]
struct Slot {
    number: AtomicU64,
    array: Atomic<Planes>,
}

/// See the module.
pub(crate) struct Slots<W> {
    all: Box<[Slot]>,
    marks: u32,
    width: PhantomData<W>,
}

impl<W: Filed> Slots<W> {
    /// Slots with these numbers and arrays, whose tiles have so many cells of marks each.
    pub(crate) fn new(marks: usize, slots: impl Iterator<Item = (u64, Array<W>)>) -> Slots<W> {
        let slot = |(number, mut array): (u64, Array<W>)| Slot {
            number: AtomicU64::new(number),
            array: taken(&mut array, marks),
        };
        Slots { all: slots.map(slot).collect(), marks: marks as u32, width: PhantomData }
    }

    /// The number of slots.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The cells of marks of a tile.
    #[inline(always)]
    pub(crate) fn marks(&self) -> usize {
        self.marks as usize
    }

    /// Prefetches a slot.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        prefetch_from(&raw const self.all[at]);
    }

    /// The number of a slot. What its writer wrote before is visible.
    #[inline(always)]
    pub(crate) fn number(&self, at: usize) -> u64 {
        step();
        self.all[at].number.load(Ordering::Acquire)
    }

    /// The number of a slot, and then its tiles: those of the time of the number, or later ones. They are not
    /// freed while the pin exists.
    #[inline(always)]
    pub(crate) fn get<'p>(&self, at: usize, pin: &'p Pin) -> (u64, Tiles<'p, W>) {
        let number = self.number(at);
        step();
        let pointer = self.all[at].array.load(Ordering::Acquire, &pin.0);
        // SAFETY: only `taken` gives slots arrays, which `allocated` made for this type, and it checks the
        // number of marks. An array is freed only in two ways. `replace` frees it after every pin that
        // existed at that time is dropped. `drop` has exclusive access to the slots, which the reader
        // borrows, or reached through a pin, as `Replaceable::get` explains.
        (number, unsafe { tiles(pointer, self.marks) })
    }

    /// Writes the number of a slot: whoever reads it sees everything that was written before.
    pub(crate) fn set_number(&self, at: usize, number: u64) {
        step();
        self.all[at].number.store(number, Ordering::Release);
    }

    /// Replaces the tiles of a slot. The old ones are freed after their last reader, together with others.
    pub(crate) fn replace(&self, at: usize, mut array: Array<W>, pin: &Pin) {
        let array = taken(&mut array, self.marks());
        step();
        let new = array.load(Ordering::Relaxed, &pin.0);
        let old = self.all[at].array.swap(new, Ordering::AcqRel, &pin.0);
        if !old.is_null() {
            // SAFETY: the swap removed the only pointer to `old`, so no later pin can reach it, and it is
            // retired once. Any thread may free it at any time: it has integers only.
            unsafe { pin.0.defer_destroy(old) };
        }
    }

    /// The bytes that the slots and their arrays occupy.
    pub(crate) fn bytes(&self, pin: &Pin) -> usize {
        let arrays: usize = (0..self.len()).map(|at| self.get(at, pin).1.bytes()).sum();
        size_of_val(&*self.all) + arrays
    }
}

impl<W> Drop for Slots<W> {
    fn drop(&mut self) {
        for slot in &mut self.all {
            let pointer = std::mem::replace(&mut slot.array, Atomic::null());
            // SAFETY: `replace` retires only arrays that it has removed, so this one was never retired. No
            // other thread uses it: see `get`.
            drop(unsafe { pointer.try_into_owned() });
        }
    }
}

/// The pointer of an array, for slots whose tiles have so many cells of marks.
fn taken<W>(array: &mut Array<W>, marks: usize) -> Atomic<Planes> {
    assert_eq!(array.marks as usize, marks, "an array for other slots");
    std::mem::replace(&mut array.pointer, Atomic::null())
}

#[cfg(test)]
mod tests {
    use super::super::pin;
    use super::*;

    /// Arrays of all lengths up to beyond what a pointer can tell.
    #[test]
    fn tiles_do_not_overlap() {
        let pin = pin();
        for (count, marks) in (0..2 * MANY).flat_map(|count| [(count, 2), (count, 18)]) {
            let array = Array::<u64>::new(count, marks);
            let tiles = array.tiles(&pin);
            assert_eq!((tiles.len(), tiles.planes().len()), (count, count * u64::PLANES));
            for (at, plane) in tiles.planes().iter().enumerate() {
                (0..LANES).for_each(|lane| plane.write(lane, at as u16 + 1));
            }
            for (tile, mark) in (0..count).flat_map(|tile| (0..marks).map(move |mark| (tile, mark))) {
                let (plane, cell) = tiles.mark(tile, mark);
                assert_eq!(plane.read(cell), 0);
                plane.write(cell, 7);
            }
            for (at, plane) in tiles.planes().iter().enumerate() {
                assert!((0..LANES).all(|lane| plane.read(lane) == at as u16 + 1));
            }
            let slots = Slots::new(marks, std::iter::once((9, array)));
            let (number, tiles) = slots.get(0, &pin);
            assert_eq!((number, tiles.len(), tiles.marks()), (9, count, marks));
        }
    }

    /// Readers check each array that they get while another thread replaces it; see also the model.
    #[test]
    fn replaced_tiles_stay_whole_while_they_are_read() {
        let replaced = if cfg!(miri) { 60 } else { 20_000u64 };
        let made = |number: u64| {
            let array = Array::<u64>::new(1 + number as usize % (MANY + 3), 2);
            array.tiles(&pin()).planes().iter().for_each(|plane| plane.write(3, number as u16));
            array
        };
        let slots = Slots::new(2, std::iter::once((0, made(0))));
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let mut number = 0;
                    while number < replaced {
                        let pin = pin();
                        let tiles;
                        (number, tiles) = slots.get(0, &pin);
                        let first = tiles.planes()[0].read(3);
                        assert!(u64::from(first) >= number);
                        assert!(tiles.planes().iter().all(|plane| plane.read(3) == first));
                        assert_eq!(tiles.len(), 1 + usize::from(first) % (MANY + 3));
                    }
                });
            }
            for number in 1..=replaced {
                slots.replace(0, made(number), &pin());
                slots.set_number(0, number);
            }
        });
    }
}
