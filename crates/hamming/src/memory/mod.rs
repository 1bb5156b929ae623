//! Memory access of the index: cache lines whose cells change while they are read, values that are replaced
//! while they are read, prefetching, and the comparison of a whole line in a few instructions.
//!
//! This is the only module of the library with unsafe code. Each use states its proof. The functions of this
//! module are safe for every argument.
//!
//! # Instruction sets
//! [`with_form`] runs work with a form of the comparison ([`Form`]). By default it is the best one of the
//! processor: a line is compared at once with AVX-512 or AVX2, otherwise cell by cell. All forms give the
//! same results; tests compare them on lines of every kind.
//!
//! *Absent*: the meaning of the cells.

#![allow(unsafe_code, reason = "the only module with unsafe code; every use states its proof")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_epoch::{Atomic, Guard, Owned};

/// Implements [`Compare`] for a token by the functions of the module, which are compiled with the
/// instructions of an instruction set. The token must exist only if the processor has them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! compare_by_functions {
    ($token:ident) => {
        compare_by_functions! { $token:
            pattern(words: &[u16; MAX_PLANES]) -> Pattern;
            none() -> Sums;
            add_four(planes: &[Plane; 4], pattern: &Pattern, from: usize, sums: Sums) -> Sums;
            add_three(planes: &[Plane; 3], pattern: &Pattern, from: usize, sums: Sums) -> Sums;
            add_two(planes: &[Plane; 2], pattern: &Pattern, from: usize, sums: Sums) -> Sums;
            few(sums: Sums, k: u32) -> u32;
            near32(line: &Line32, query: u32, k: u32) -> u16;
            near48(line: &Packed48, pattern: &LinePattern, k: u32) -> u32;
            words(line: &Packed48, word: u16) -> u32;
        }
    };
    ($token:ident: $($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Compare for $token {
            type Pattern = Pattern;
            type Sums = Sums;

            $(
                #[inline(always)]
                fn $name(self, $($argument: $type),*) -> $result {
                    // SAFETY: the token exists only if the processor has the instructions.
                    unsafe { $name($($argument),*) }
                }
            )*
        }
    };
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
use compare_by_functions;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512;
mod form;
mod packed;
mod plane;
mod slots;

pub use form::Form;
pub(super) use form::{Work, with_best, with_form};

pub(crate) use packed::{LinePattern, Packed48};
pub(crate) use plane::{LANES, MAX_PLANES, Plane};
pub(crate) use slots::{Array, Slots, Tiles};

/// A cache line of sixteen cells of 32 bits, each of which is read and written atomically.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Line32([AtomicU32; 16]);

impl Line32 {
    /// The number of cells.
    pub(crate) const CELLS: usize = 16;

    /// Reads a cell (acquire): what its writer wrote before it is visible.
    #[inline(always)]
    pub(crate) fn read(&self, at: usize) -> u32 {
        step();
        self.0[at].load(Ordering::Acquire)
    }

    /// Reads a cell (relaxed) that was published by another cell, which was read before.
    #[inline(always)]
    pub(crate) fn read_beside(&self, at: usize) -> u32 {
        step();
        self.0[at].load(Ordering::Relaxed)
    }

    /// Writes a cell (release): a reader of the cell sees everything that was written before.
    #[inline(always)]
    pub(crate) fn publish(&self, at: usize, value: u32) {
        step();
        self.0[at].store(value, Ordering::Release);
    }

    /// Writes a cell (relaxed) that another cell will publish.
    #[inline(always)]
    pub(crate) fn write(&self, at: usize, value: u32) {
        step();
        self.0[at].store(value, Ordering::Relaxed);
    }

    /// Bit i is set if cell i is within `k` bits of the query.
    #[inline(always)]
    pub(crate) fn near<C: Compare>(&self, compare: C, query: u32, k: u32) -> u32 {
        compare.near32(self, query, k).into()
    }
}

/// A type of atomic integers only.
///
/// # Safety
/// Every bit pattern must be a valid value, including all zeros.
pub(crate) unsafe trait Cells {}

// SAFETY: an array of atomic integers.
unsafe impl Cells for Line32 {}
// SAFETY: an array of atomic integers and one more at the end.
unsafe impl Cells for Packed48 {}

/// Lines whose cells are all 0. Memory that the system has cleared is not written to again.
pub(super) fn empty_lines<L: Cells>(count: usize) -> Box<[L]> {
    let lines = Box::<[L]>::new_zeroed_slice(count);
    // SAFETY: all zeros are a valid value by the contract of `Cells`.
    unsafe { lines.assume_init() }
}

/// The bytes of a cache line.
pub(super) const CACHE_LINE: usize = 64;

/// Prefetches the first `count` lines. It costs an instruction per line and does not wait. If there are fewer
/// lines, it prefetches the memory after them, which is harmless.
#[inline(always)]
pub(super) fn prefetch<L>(lines: &[L], count: usize) {
    (0..count).for_each(|at| prefetch_from(lines.as_ptr().wrapping_add(at)));
}

/// Prefetches the cache line in which a value begins.
#[inline(always)]
pub(super) fn prefetch_from<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch has no effect that the program can observe, and cannot fail for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// The cells whose bits are set in the result of a comparison.
#[inline(always)]
pub(super) fn cells(mut near: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let cell = near.trailing_zeros() as usize;
        let is_set = near != 0;
        near &= near.wrapping_sub(1);
        is_set.then_some(cell)
    })
}

/// The comparison of planes and of lines with a query.
pub(crate) trait Compare: Copy {
    /// The words of a query, each in all lanes.
    type Pattern: Copy;
    /// The distances of sixteen entries in the planes so far.
    type Sums: Copy;

    /// The pattern of these words, one for each plane.
    fn pattern(self, words: &[u16; MAX_PLANES]) -> Self::Pattern;

    /// Distances of 0.
    fn none(self) -> Self::Sums;

    /// Adds the number of bits in which each cell of the planes differs from the word of its plane; `from` is
    /// the number of the first plane, a multiple of four.
    fn add_four(
        self,
        planes: &[Plane; 4],
        pattern: &Self::Pattern,
        from: usize,
        sums: Self::Sums,
    ) -> Self::Sums;

    /// As [`Compare::add_four`], of the last three planes.
    fn add_three(
        self,
        planes: &[Plane; 3],
        pattern: &Self::Pattern,
        from: usize,
        sums: Self::Sums,
    ) -> Self::Sums;

    /// As [`Compare::add_four`], of the last two planes.
    fn add_two(
        self,
        planes: &[Plane; 2],
        pattern: &Self::Pattern,
        from: usize,
        sums: Self::Sums,
    ) -> Self::Sums;

    /// Bit i is set if distance i is at most `k`.
    fn few(self, sums: Self::Sums, k: u32) -> u32;

    /// Bit i is set if cell i of the line is within `k` bits of the query.
    fn near32(self, line: &Line32, query: u32, k: u32) -> u16;

    /// Bit i is set if entry i of the line is within `k` bits of the pattern.
    fn near48(self, line: &Packed48, pattern: &LinePattern, k: u32) -> u32;

    /// Bit i is set if word i of the line equals `word`. Bits of words outside the entries have no meaning.
    fn words(self, line: &Packed48, word: u16) -> u32;
}

/// The comparison for every processor. The compiler counts the bits of sixteen bytes at once where the
/// processor can.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Compare for Portable {
    type Pattern = [u16; MAX_PLANES];
    /// The differing bits of each byte.
    type Sums = [u8; 2 * LANES];

    #[inline(always)]
    fn pattern(self, words: &[u16; MAX_PLANES]) -> Self::Pattern {
        *words
    }

    #[inline(always)]
    fn none(self) -> Self::Sums {
        [0; 2 * LANES]
    }

    #[inline(always)]
    fn add_four(
        self,
        planes: &[Plane; 4],
        pattern: &Self::Pattern,
        from: usize,
        sums: Self::Sums,
    ) -> Self::Sums {
        Plane::add_all(planes, &pattern[from..], sums)
    }

    #[inline(always)]
    fn add_three(
        self,
        planes: &[Plane; 3],
        pattern: &Self::Pattern,
        from: usize,
        sums: Self::Sums,
    ) -> Self::Sums {
        Plane::add_all(planes, &pattern[from..], sums)
    }

    #[inline(always)]
    fn add_two(
        self,
        planes: &[Plane; 2],
        pattern: &Self::Pattern,
        from: usize,
        sums: Self::Sums,
    ) -> Self::Sums {
        Plane::add_all(planes, &pattern[from..], sums)
    }

    #[inline(always)]
    fn few(self, sums: Self::Sums, k: u32) -> u32 {
        let near = |[low, high]: &[u8; 2]| u32::from(*low) + u32::from(*high) <= k;
        let sums = sums.as_chunks::<2>().0.iter();
        sums.enumerate().fold(0, |all, (at, sum)| all | u32::from(near(sum)) << at)
    }

    #[inline(always)]
    fn near32(self, line: &Line32, query: u32, k: u32) -> u16 {
        let near = |cell: &AtomicU32| (loaded(cell.load(Ordering::Relaxed)) ^ query).count_ones() <= k;
        line.0.iter().enumerate().fold(0, |all, (at, cell)| all | u16::from(near(cell)) << at)
    }

    #[inline(always)]
    fn near48(self, line: &Packed48, pattern: &LinePattern, k: u32) -> u32 {
        line.near_by_words(pattern, k)
    }

    #[inline(always)]
    fn words(self, line: &Packed48, word: u16) -> u32 {
        line.equal(word)
    }
}

/// Returns a value that was just loaded. In a model, another thread may run after the load.
#[inline(always)]
fn loaded<T>(value: T) -> T {
    step();
    value
}

/// Lets another thread run, in a model of thread interleavings. It does nothing otherwise.
#[inline(always)]
pub(super) fn step() {
    #[cfg(test)]
    super::model::step();
}

/// While it exists, values read from a [`Replaceable`] are not freed.
pub(super) struct Pin(Guard);

impl Pin {
    /// Releases the values that were replaced until now, and protects the current ones. For operations that
    /// take long.
    #[inline]
    pub(super) fn renew(&mut self) {
        self.0.repin();
    }

    /// Calls `work` after every pin of this moment is dropped, in any thread.
    pub(super) fn after_readers(&self, work: impl FnOnce() + Send + 'static) {
        self.0.defer(work);
    }

    /// Lets the work of [`Pin::after_readers`] of this thread be called soon.
    #[cfg(test)]
    pub(super) fn flush(&self) {
        self.0.flush();
    }
}

/// Until the pin is dropped, values read from a [`Replaceable`] are not freed. It takes some nanoseconds and
/// does not wait. Memory that is replaced meanwhile is freed only after the pin is dropped, so do not hold it
/// for long.
#[inline]
pub(super) fn pin() -> Pin {
    Pin(crossbeam_epoch::pin())
}

/// Keeps this thread pinned across several lookups, which saves a fence each. Memory that is replaced
/// meanwhile is freed only after it is dropped, so do not hold it longer than the lookups take.
pub struct Stay(#[allow(dead_code, reason = "dropping it unpins the thread")] Pin);

/// Pins this thread: see [`Stay`].
#[must_use]
pub fn stay() -> Stay {
    Stay(pin())
}

/// A value that one thread replaces while others read it.
pub(super) struct Replaceable<T>(Atomic<T>);

impl<T: Send + Sync + 'static> Replaceable<T> {
    pub(super) fn new(value: T) -> Replaceable<T> {
        Replaceable(Atomic::new(value))
    }

    /// The current value. It is not freed while the pin exists, even if it is replaced.
    #[inline]
    pub(super) fn get<'p>(&self, pin: &'p Pin) -> &'p T {
        step();
        let value = self.0.load(Ordering::Acquire, &pin.0);
        // SAFETY: the pointer is never null and always came from `Owned`. Its value is freed only in two
        // ways. `replace` frees it after every pin that existed at that time is dropped. `drop` has exclusive
        // access to the `Replaceable`: a reader that holds a pin borrows `self`, or borrows a value that it
        // reached through a pin and that is therefore not dropped before the pin. All pins belong to the one
        // global collector.
        unsafe { value.deref() }
    }

    /// Replaces the value. The old value is freed after its last reader.
    pub(super) fn replace(&self, value: T, pin: &Pin) {
        step();
        let old = self.0.swap(Owned::new(value), Ordering::AcqRel, &pin.0);
        // SAFETY: the swap removed the only pointer to `old`, so no later pin can reach it, and it is retired
        // once. `T` is `Send` and `'static`, so any thread may drop it at any time.
        unsafe { pin.0.defer_destroy(old) };
        pin.0.flush();
    }
}

impl<T> Drop for Replaceable<T> {
    fn drop(&mut self) {
        let value = std::mem::replace(&mut self.0, Atomic::null());
        // SAFETY: the pointer is not null. It was never retired, because `replace` retires only values that
        // it has removed. No other thread uses it: see `get`.
        drop(unsafe { value.into_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does work in every form that this processor has.
    fn every_form<T: Work<Output: PartialEq + std::fmt::Debug>>(
        work: impl Fn() -> T,
        expected: &T::Output,
        k: u32,
    ) {
        for form in Form::ALL.into_iter().filter(|form| form.is_supported()) {
            assert_eq!(&with_form(form, work()), expected, "{form:?} and k = {k}");
        }
    }

    /// Adds planes as a query of hashes of 64, 256 and 128 bits does, and compares the sums with `k`.
    struct Planes<'a>(&'a [Plane; 7], [u16; MAX_PLANES], u32);

    impl Work for Planes<'_> {
        type Output = [u32; 3];

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> [u32; 3] {
            let Planes(planes, words, k) = self;
            let pattern = compare.pattern(&words);
            [3, 6, 7].map(|count| {
                let (fours, rest) = planes[..count].as_chunks::<4>();
                let fours = fours.iter().enumerate();
                let sums = fours
                    .fold(compare.none(), |sums, (at, four)| compare.add_four(four, &pattern, 4 * at, sums));
                let sums = match (rest.as_array::<3>(), rest.as_array::<2>()) {
                    (Some(three), _) => compare.add_three(three, &pattern, count - 3, sums),
                    (_, two) => compare.add_two(two.expect("the last two planes"), &pattern, count - 2, sums),
                };
                compare.few(sums, k)
            })
        }
    }

    fn check_planes(mut cell: impl FnMut(u16) -> u16, words: [u16; MAX_PLANES], k: u32) {
        let planes: [Plane; 7] = Default::default();
        for lane in 0..LANES {
            for (plane, word) in planes.iter().zip(words) {
                plane.write(lane, cell(word));
            }
        }
        let ones = |count: usize, lane: usize| -> u32 {
            let differing = planes[..count].iter().zip(words).map(|(plane, word)| plane.read(lane) ^ word);
            differing.map(u16::count_ones).sum()
        };
        let expected = [3, 6, 7]
            .map(|count| (0..LANES).fold(0, |all, lane| all | u32::from(ones(count, lane) <= k) << lane));
        every_form(|| Planes(&planes, words, k), &expected, k);
    }

    /// Compares a line.
    struct Each<'a>(&'a Line32, u32, u32);

    impl Work for Each<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> u32 {
            self.0.near(compare, self.1, self.2)
        }
    }

    /// Checks the forms that this processor has against the contract of [`Compare`].
    fn check(mut cell: impl FnMut(u32) -> u32, query: u32, k: u32) {
        let line = Line32::default();
        (0..Line32::CELLS).for_each(|at| line.publish(at, cell(query)));
        let near = |at: usize| (line.read(at) ^ query).count_ones() <= k;
        let expected = (0..Line32::CELLS).fold(0, |all, at| all | u32::from(near(at)) << at);
        every_form(|| Each(&line, query, k), &expected, k);
    }

    #[test]
    fn all_forms_of_the_comparison_agree() {
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
            for k in [0, 1, 3, 7, 8, 16, 31, 32, 63, 64, 100, 128, 200] {
                check(|query| cell(query.into()) as u32, queries[0] as u32, k);
                check_packed(|| cell(queries[0]), queries[0], k);
                let words = std::array::from_fn(|at| (queries[at % 2] >> (at % 4 * 16)) as u16);
                check_planes(|word| cell(word.into()) as u16, words, k);
            }
        }
    }

    /// Compares a line of packed entries.
    struct Entries<'a>(&'a Packed48, LinePattern, u32);

    impl Work for Entries<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> u32 {
            self.0.near(compare, &self.1, self.2)
        }
    }

    fn check_packed(mut entry: impl FnMut() -> u64, query: u64, k: u32) {
        const STORED: u64 = u64::MAX >> 16;
        let line = Packed48::default();
        let mut expected = 0;
        // No head may be taken for an entry.
        line.set_head(u32::MAX);
        for at in 0..Packed48::ENTRIES {
            let whole = entry();
            line.write(at, whole);
            assert_eq!(line.read(at), whole & STORED);
            expected |= u32::from(((whole ^ query) & STORED).count_ones() <= k) << at;
        }
        assert_eq!(line.head(), u32::MAX);
        every_form(|| Entries(&line, Packed48::pattern(query), k), &expected, k);
        // The first word of the first entry. Other entries may have the same word.
        let first = |at: usize| (line.read(at) >> 32) as u16;
        let same = |at: usize| u32::from(first(at) == first(0)) << at;
        let expected = (0..Packed48::ENTRIES).fold(0, |all, at| all | same(at));
        every_form(|| Beginning(&line, first(0)), &expected, 0);
    }

    /// Compares the first words of packed entries.
    struct Beginning<'a>(&'a Packed48, u16);

    impl Work for Beginning<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> u32 {
            self.0.beginning(compare, self.1)
        }
    }

    #[test]
    fn replaced_values_are_freed_once_and_never_while_they_are_read() {
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
        let replaceable = Replaceable::new(Counted(0, Arc::clone(&dropped)));
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let mut last = 0;
                    while last < made {
                        let pin = pin();
                        let value = replaceable.get(&pin);
                        assert!(value.0 >= last);
                        last = value.0;
                        std::hint::spin_loop();
                        assert_eq!(value.0, last);
                    }
                });
            }
            for number in 1..=made {
                replaceable.replace(Counted(number, Arc::clone(&dropped)), &pin());
            }
        });
        drop(replaceable);
        // Other tests of this process may hold pins for a while.
        let begun = std::time::Instant::now();
        while dropped.load(Ordering::SeqCst) < made as usize + 1 && begun.elapsed().as_secs() < 60 {
            pin().0.flush();
            std::thread::yield_now();
        }
        assert_eq!(dropped.load(Ordering::SeqCst), made as usize + 1);
    }
}
