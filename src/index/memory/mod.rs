//! What the index asks of the machine: cache lines of cells that change under their readers, pointers that
//! are followed while they are replaced, prefetching, and comparing a whole line in a few instructions.
//!
//! This is the one module of the library with unsafe code. Each use states what it relies on; everything that
//! it hands out is safe to use in any way.
//!
//! # Which instructions
//! [`with_best`] runs a piece of work with the best comparison the machine has, found out at run time: on
//! processors with `AVX512_VPOPCNTDQ` and `AVX512_BITALG` a line is counted at once, elsewhere cell after
//! cell. Both are the same function; tests hold one against the other on lines of every kind.
//!
//! *Absent*: what the cells mean.

#![allow(unsafe_code, reason = "the one module that talks to the machine; every use states its proof")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_epoch::{Atomic, Guard, Owned};

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512;
mod packed;

pub use packed::{Packed, Packed48, Packed112, Pattern, Words};

/// A cache line of cells that are read and written each on its own. Of no use, and not to be had, outside
/// this crate.
pub trait Line: Cells + Default + Send + Sync + 'static {
    /// How many cells it has.
    const CELLS: usize;
    /// How many bits a cell has.
    const BITS: u32;

    /// A cell, with all that its writer wrote before it.
    fn read(&self, at: usize) -> u64;

    /// A cell that was published by another one, which was read before.
    fn read_beside(&self, at: usize) -> u64;

    /// Publishes a cell: who reads it sees all that was written before.
    fn publish(&self, at: usize, value: u64);

    /// Writes a cell that is published by another one.
    fn write(&self, at: usize, value: u64);

    /// Bit i is set if cell i lies within `k` bits of the query.
    fn near<C: Compare>(&self, compare: C, query: u64, k: u32) -> u32;

    /// Bit i is set if cell i of this line and cell i of the other together lie within `k` bits of the two of
    /// the query.
    fn near_both<C: Compare>(&self, compare: C, other: &Self, query: (u64, u64), k: u32) -> u32;
}

macro_rules! line {
    ($(#[$about:meta])* $line:ident, $atomic:ty, $cell:ty, $cells:expr, $near:ident, $both:ident) => {
        $(#[$about])*
        #[repr(C, align(64))]
        #[derive(Default)]
        pub struct $line([$atomic; $cells]);

        impl Line for $line {
            const CELLS: usize = $cells;
            const BITS: u32 = <$cell>::BITS;

            #[inline(always)]
            fn read(&self, at: usize) -> u64 {
                step();
                self.0[at].load(Ordering::Acquire).into()
            }

            #[inline(always)]
            fn read_beside(&self, at: usize) -> u64 {
                step();
                self.0[at].load(Ordering::Relaxed).into()
            }

            #[inline(always)]
            fn publish(&self, at: usize, value: u64) {
                step();
                self.0[at].store(value as $cell, Ordering::Release);
            }

            #[inline(always)]
            fn write(&self, at: usize, value: u64) {
                step();
                self.0[at].store(value as $cell, Ordering::Relaxed);
            }

            #[inline(always)]
            fn near<C: Compare>(&self, compare: C, query: u64, k: u32) -> u32 {
                compare.$near(self, query as $cell, k).into()
            }

            #[inline(always)]
            fn near_both<C: Compare>(&self, compare: C, other: &Self, query: (u64, u64), k: u32) -> u32 {
                compare.$both([self, other], [query.0 as $cell, query.1 as $cell], k).into()
            }
        }
    };
}

line!(
    /// A line of sixteen cells of 32 bits.
    Line32, AtomicU32, u32, 16, near32, both32
);
line!(
    /// A line of eight cells of 64 bits.
    Line64, AtomicU64, u64, 8, near64, both64
);

/// What is made of atomic integers alone.
///
/// # Safety
/// Every pattern of bits must be a value, that of zeros too.
pub unsafe trait Cells {}

// SAFETY: arrays of atomic integers.
unsafe impl Cells for Line32 {}
// SAFETY: the same.
unsafe impl Cells for Line64 {}
// SAFETY: the same, and one more at the end.
unsafe impl Cells for Packed48 {}
// SAFETY: the same.
unsafe impl Cells for Packed112 {}

/// Lines whose cells are all 0. What the system gives is cleared already and not written to twice.
pub(super) fn empty_lines<L: Cells>(count: usize) -> Box<[L]> {
    let lines = Box::<[L]>::new_zeroed_slice(count);
    // SAFETY: that is what `Cells` says.
    unsafe { lines.assume_init() }
}

/// Bytes that come from memory at a time.
pub(super) const CACHE_LINE: usize = 64;

/// Asks for the first `count` of some lines before they are read. Asking costs an instruction a line and
/// waits for nothing; where there are fewer lines, the memory after them is asked for, which does nothing.
#[inline(always)]
pub(super) fn prefetch<L>(lines: &[L], count: usize) {
    (0..count).for_each(|at| prefetch_from(lines.as_ptr().wrapping_add(at)));
}

/// Asks for the line of memory in which something begins.
#[inline(always)]
pub(super) fn prefetch_from<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees and cannot fail, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// The cells whose bits are set in what a comparison answered.
#[inline(always)]
pub(super) fn cells(mut near: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let cell = near.trailing_zeros() as usize;
        let is_set = near != 0;
        near &= near.wrapping_sub(1);
        is_set.then_some(cell)
    })
}

/// How lines are compared with a query.
pub trait Compare: Copy {
    /// Bit i is set if cell i of the line lies within `k` bits of the query.
    fn near32(self, line: &Line32, query: u32, k: u32) -> u16;

    /// Bit i is set if cell i of the line lies within `k` bits of the query.
    fn near64(self, line: &Line64, query: u64, k: u32) -> u8;

    /// Bit i is set if the cells i of the two lines together lie within `k` bits of the query.
    fn both32(self, lines: [&Line32; 2], query: [u32; 2], k: u32) -> u16;

    /// Bit i is set if the cells i of the two lines together lie within `k` bits of the query.
    fn both64(self, lines: [&Line64; 2], query: [u64; 2], k: u32) -> u8;

    /// Bit i is set if entry i of the line lies within `k` bits of the pattern's.
    fn near48(self, line: &Packed48, pattern: &Pattern, k: u32) -> u32;

    /// Bit i is set if entry i of the line lies within `k` bits of the pattern's.
    fn near112(self, line: &Packed112, pattern: &Pattern, k: u32) -> u32;

    /// See [`Words::equal`].
    fn words<L: Words>(self, line: &L, word: u16) -> u32;
}

/// The comparison that every machine has.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Compare for Portable {
    #[inline(always)]
    fn near32(self, line: &Line32, query: u32, k: u32) -> u16 {
        let near = |cell: &AtomicU32| (seen(cell.load(Ordering::Relaxed)) ^ query).count_ones() <= k;
        line.0.iter().enumerate().fold(0, |all, (at, cell)| all | u16::from(near(cell)) << at)
    }

    #[inline(always)]
    fn near64(self, line: &Line64, query: u64, k: u32) -> u8 {
        let near = |cell: &AtomicU64| (seen(cell.load(Ordering::Relaxed)) ^ query).count_ones() <= k;
        line.0.iter().enumerate().fold(0, |all, (at, cell)| all | u8::from(near(cell)) << at)
    }

    #[inline(always)]
    fn both32(self, lines: [&Line32; 2], query: [u32; 2], k: u32) -> u16 {
        let ones = |half: usize, at: usize| {
            (seen(lines[half].0[at].load(Ordering::Relaxed)) ^ query[half]).count_ones()
        };
        (0..16).fold(0, |all, at| all | u16::from(ones(0, at) + ones(1, at) <= k) << at)
    }

    #[inline(always)]
    fn both64(self, lines: [&Line64; 2], query: [u64; 2], k: u32) -> u8 {
        let ones = |half: usize, at: usize| {
            (seen(lines[half].0[at].load(Ordering::Relaxed)) ^ query[half]).count_ones()
        };
        (0..8).fold(0, |all, at| all | u8::from(ones(0, at) + ones(1, at) <= k) << at)
    }

    #[inline(always)]
    fn near48(self, line: &Packed48, pattern: &Pattern, k: u32) -> u32 {
        line.near_by_words(pattern, k)
    }

    #[inline(always)]
    fn near112(self, line: &Packed112, pattern: &Pattern, k: u32) -> u32 {
        line.near_by_words(pattern, k)
    }

    #[inline(always)]
    fn words<L: Words>(self, line: &L, word: u16) -> u32 {
        line.equal(word)
    }
}

/// What was loaded; another thread may come after it.
#[inline(always)]
fn seen<T>(value: T) -> T {
    step();
    value
}

/// Lets another thread come in between, in a model of all their orders; nothing elsewhere.
#[inline(always)]
pub(super) fn step() {
    #[cfg(test)]
    super::model::step();
}

/// Work that compares lines.
pub(super) trait Work {
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, so that it is compiled once for each kind of
    /// comparison with that comparison's instructions.
    fn run<C: Compare>(self, compare: C) -> Self::Output;
}

/// Does the work with the best comparison of this machine.
#[inline]
pub(super) fn with_best<T: Work>(work: T) -> T::Output {
    // A model steps from cell to cell.
    #[cfg(test)]
    if super::model::is_running() {
        return work.run(Portable);
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_here() {
        // SAFETY: the machine has the instructions that the function is compiled with.
        return unsafe { avx512::run(work) };
    }
    work.run(Portable)
}

/// Names the comparison that [`with_best`] uses.
#[cfg(test)]
fn best() -> &'static str {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_here() {
        return "avx512";
    }
    "portable"
}

/// Holds what is followed through a [`Followed`] in place until it is dropped.
pub(super) struct Pin(Guard);

impl Pin {
    /// Lets go of what was replaced up to now and holds in place what is there from now on: for who goes on
    /// for long.
    #[inline]
    pub(super) fn renew(&mut self) {
        self.0.repin();
    }
}

/// From now until the pin is dropped, what a [`Followed`] hands out stays. Takes some nanoseconds, waits for
/// nobody; what is replaced meanwhile keeps its memory until the pin is dropped, so do not hold it for long.
#[inline]
pub(super) fn pin() -> Pin {
    Pin(crossbeam_epoch::pin())
}

/// While this lives, what this thread looks up announces itself no more: for a few queries right after each
/// other, each of which would be a fence. What is replaced meanwhile keeps its memory, so it is for as long
/// as they take.
pub struct Stay(#[allow(dead_code, reason = "it is there to be dropped")] Pin);

/// See [`Stay`].
#[must_use]
pub fn stay() -> Stay {
    Stay(pin())
}

/// A value that one thread replaces while others read it.
pub(super) struct Followed<T>(Atomic<T>);

impl<T: Send + Sync + 'static> Followed<T> {
    pub(super) fn new(value: T) -> Followed<T> {
        Followed(Atomic::new(value))
    }

    /// The value as it is now. It stays as long as the pin, even if it is replaced.
    #[inline]
    pub(super) fn get<'p>(&self, pin: &'p Pin) -> &'p T {
        step();
        let value = self.0.load(Ordering::Acquire, &pin.0);
        // SAFETY: the pointer is never null and always came from `Owned`. Its value is freed only by
        // `replace`, after every pin that existed then is gone, or by `drop`, which has the `Followed` to
        // itself: a pin that reads `self` borrows it, or borrows a value that was reached through a pin and
        // is therefore itself not dropped before the pin is. All pins are of the one global collector.
        unsafe { value.deref() }
    }

    /// The value, which nobody else has.
    pub(super) fn into_inner(mut self) -> T {
        let value = std::mem::replace(&mut self.0, Atomic::null());
        // Nothing is left to be dropped, and dropping takes it for granted that something is.
        std::mem::forget(self);
        // SAFETY: as for `drop`.
        *unsafe { value.into_owned() }.into_box()
    }

    /// Puts another value in its place. The old one is freed when nobody reads it any more.
    pub(super) fn replace(&self, value: T, pin: &Pin) {
        step();
        let old = self.0.swap(Owned::new(value), Ordering::AcqRel, &pin.0);
        // SAFETY: `old` was just taken out of its only place, so no later pin can reach it, and it is
        // retired once. `T` is `Send` and has no borrow, so it may be dropped by any thread at any time.
        unsafe { pin.0.defer_destroy(old) };
        pin.0.flush();
    }
}

impl<T> Drop for Followed<T> {
    fn drop(&mut self) {
        let value = std::mem::replace(&mut self.0, Atomic::null());
        // SAFETY: the pointer is not null, was never retired (only `replace` retires, and what it retires is
        // out of its place), and nobody else has it: see `get`.
        drop(unsafe { value.into_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a line alone and with another one.
    struct Each<'a, L>([&'a L; 2], [u64; 2], u32);

    impl<L: Line> Work for Each<'_, L> {
        type Output = [u32; 2];

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> [u32; 2] {
            let Each([line, other], query, k) = self;
            [line.near(compare, query[0], k), line.near_both(compare, other, (query[0], query[1]), k)]
        }
    }

    /// Holds the best comparison of this machine and the portable one against what [`Compare`] promises.
    fn check<L: Line>(mut cell: impl FnMut(u64) -> u64, query: [u64; 2], k: u32) {
        let lines = [L::default(), L::default()];
        for at in 0..2 * L::CELLS {
            lines[at % 2].publish(at / 2, cell(query[at % 2]));
        }
        let ones = |half: usize, at: usize| {
            ((lines[half].read(at) ^ query[half]) & (u64::MAX >> (64 - L::BITS))).count_ones()
        };
        let expected = (0..L::CELLS).fold([0; 2], |[alone, both], at| {
            let near = [ones(0, at) <= k, ones(0, at) + ones(1, at) <= k];
            [alone | u32::from(near[0]) << at, both | u32::from(near[1]) << at]
        });
        let each = || Each(lines.each_ref(), query, k);
        assert_eq!(with_best(each()), expected, "{} and k = {k}", best());
        assert_eq!(each().run(Portable), expected, "k = {k}");
    }

    #[test]
    fn every_comparison_is_the_same() {
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ (state >> 29)
        };
        for round in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let queries = [next(), next()];
            let mut cell = |query: u64| match round % 4 {
                0 => next(),
                1 => query ^ (next() & next() & next()),
                2 => query ^ (1 << (next() % 64)),
                _ => [0, u64::MAX, query, !query][(next() % 4) as usize],
            };
            for k in [0, 1, 3, 7, 8, 16, 31, 32, 63, 64, 100, 128] {
                check::<Line32>(&mut cell, queries, k);
                check::<Line64>(&mut cell, queries, k);
                check_packed::<Packed48>(|| cell(queries[0]), queries[0], k);
                let wide = |high, low| u128::from(high) << 64 | u128::from(low);
                let query = wide(queries[0], queries[1]);
                check_packed::<Packed112>(|| wide(cell(queries[0]), cell(queries[1])), query, k);
            }
        }
    }

    /// Compares a line of packed entries.
    struct Entries<'a, P>(&'a P, Pattern, u32);

    impl<P: Packed> Work for Entries<'_, P> {
        type Output = u32;

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> u32 {
            self.0.near(compare, &self.1, self.2)
        }
    }

    fn check_packed<P: Packed<Whole: Into<u128>>>(
        mut entry: impl FnMut() -> P::Whole,
        query: P::Whole,
        k: u32,
    ) {
        let (line, mask) = (P::default(), u128::MAX >> (128 - P::BITS));
        let mut expected = 0;
        // A head is no entry, whatever it is.
        line.set_head(u32::MAX);
        for at in 0..P::ENTRIES {
            let whole = entry();
            line.write(at, whole);
            assert_eq!(line.read(at).into(), whole.into() & mask);
            let ones = ((whole.into() ^ query.into()) & mask).count_ones();
            expected |= u32::from(ones <= k) << at;
        }
        assert_eq!(line.head(), u32::MAX);
        let entries = || Entries(&line, P::pattern(query), k);
        assert_eq!(with_best(entries()), expected, "{} and k = {k}", best());
        assert_eq!(entries().run(Portable), expected, "k = {k}");
        // The first word of the first entry, which others may have, too.
        let first = |at: usize| (line.read(at).into() >> (P::BITS - 16)) as u16;
        let expected = (0..P::ENTRIES).fold(0, |all, at| all | u32::from(first(at) == first(0)) << at);
        let beginning = || Beginning(&line, first(0));
        assert_eq!(with_best(beginning()), expected, "{}", best());
        assert_eq!(beginning().run(Portable), expected);
    }

    /// Compares the first words of packed entries.
    struct Beginning<'a, P>(&'a P, u16);

    impl<P: Packed> Work for Beginning<'_, P> {
        type Output = u32;

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> u32 {
            self.0.beginning(compare, self.1)
        }
    }

    #[test]
    fn what_is_replaced_is_freed_once_and_only_when_nobody_reads_it() {
        use std::sync::Arc;
        use std::sync::atomic::AtomicUsize;

        struct Counted(u64, Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicUsize::new(0));
        let made = if cfg!(miri) { 100 } else { 20_000 };
        let followed = Followed::new(Counted(0, Arc::clone(&dropped)));
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let mut last = 0;
                    while last < made {
                        let pin = pin();
                        let value = followed.get(&pin);
                        assert!(value.0 >= last);
                        last = value.0;
                        std::hint::spin_loop();
                        assert_eq!(value.0, last);
                    }
                });
            }
            for number in 1..=made {
                followed.replace(Counted(number, Arc::clone(&dropped)), &pin());
            }
        });
        drop(followed);
        // Other tests of this process may hold pins for a while.
        let begun = std::time::Instant::now();
        while dropped.load(Ordering::SeqCst) < made as usize + 1 && begun.elapsed().as_secs() < 60 {
            pin().0.flush();
            std::thread::yield_now();
        }
        assert_eq!(dropped.load(Ordering::SeqCst), made as usize + 1);
    }
}
