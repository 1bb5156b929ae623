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
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_epoch::{Atomic, Guard, Owned};

/// Implements [`Compare`] for a token by the functions of the module, which are compiled with the
/// instructions of an instruction set. The token must exist only if the processor has them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! compare_by_functions {
    ($token:ident) => {
        compare_by_functions! { $token:
            near32(line: &Line32, query: u32, k: u32) -> u16;
            near64(line: &Line64, query: u64, k: u32) -> u8;
            both32(lines: [&Line32; 2], query: [u32; 2], k: u32) -> u16;
            both64(lines: [&Line64; 2], query: [u64; 2], k: u32) -> u8;
            all64(lines: [&Line64; 4], query: [u64; 4], k: u32) -> u8;
            near48(line: &Packed48, pattern: &Pattern, k: u32) -> u32;
            near112(line: &Packed112, pattern: &Pattern, k: u32) -> u32;
            near240(line: &Packed240, pattern: &Pattern, k: u32) -> u32;
        }
    };
    (
        $token:ident:
        $($name:ident($line:ident: $lines:ty, $query:ident: $queries:ty, k: u32) -> $near:ty;)*
    ) => {
        impl Compare for $token {
            $(
                #[inline(always)]
                fn $name(self, $line: $lines, $query: $queries, k: u32) -> $near {
                    // SAFETY: the token exists only if the processor has the instructions.
                    unsafe { $name($line, $query, k) }
                }
            )*

            #[inline(always)]
            fn words<L: Words>(self, line: &L, word: u16) -> u32 {
                // SAFETY: the token exists only if the processor has the instructions.
                unsafe { words_equal(line, word) }
            }
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

pub use form::Form;
pub(super) use form::{Work, with_best, with_form};

pub(crate) use packed::{Packed, Packed48, Packed112, Packed240, Pattern, Words};

/// A cache line of cells, each of which is read and written atomically. It cannot be used outside this crate.
pub trait Line: Cells + Default + Send + Sync + 'static {
    /// The number of cells.
    const CELLS: usize;
    /// The number of bits of a cell.
    const BITS: u32;

    /// Reads a cell (acquire): what its writer wrote before it is visible.
    fn read(&self, at: usize) -> u64;

    /// Reads a cell (relaxed) that was published by another cell, which was read before.
    fn read_beside(&self, at: usize) -> u64;

    /// Writes a cell (release): a reader of the cell sees everything that was written before.
    fn publish(&self, at: usize, value: u64);

    /// Writes a cell (relaxed) that another cell will publish.
    fn write(&self, at: usize, value: u64);

    /// Bit i is set if cell i is within `k` bits of the query.
    fn near<C: Compare>(&self, compare: C, query: u64, k: u32) -> u32;

    /// Bit i is set if the distances of cell i of both lines from the two parts of the query add up to at
    /// most `k` bits.
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

/// A type of atomic integers only.
///
/// # Safety
/// Every bit pattern must be a valid value, including all zeros.
pub unsafe trait Cells {}

// SAFETY: an array of atomic integers.
unsafe impl Cells for Line32 {}
// SAFETY: an array of atomic integers.
unsafe impl Cells for Line64 {}
// SAFETY: an array of atomic integers and one more at the end.
unsafe impl Cells for Packed48 {}
// SAFETY: an array of atomic integers and one more at the end.
unsafe impl Cells for Packed112 {}
// SAFETY: an array of atomic integers and one more at the end.
unsafe impl Cells for Packed240 {}

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

/// The comparison of lines with a query.
pub trait Compare: Copy {
    /// Bit i is set if cell i of the line is within `k` bits of the query.
    fn near32(self, line: &Line32, query: u32, k: u32) -> u16;

    /// Bit i is set if cell i of the line is within `k` bits of the query.
    fn near64(self, line: &Line64, query: u64, k: u32) -> u8;

    /// Bit i is set if the distances of cell i of both lines add up to at most `k` bits.
    fn both32(self, lines: [&Line32; 2], query: [u32; 2], k: u32) -> u16;

    /// Bit i is set if the distances of cell i of both lines add up to at most `k` bits.
    fn both64(self, lines: [&Line64; 2], query: [u64; 2], k: u32) -> u8;

    /// Bit i is set if the distances of cell i of all lines add up to at most `k` bits.
    fn all64(self, lines: [&Line64; 4], query: [u64; 4], k: u32) -> u8;

    /// Bit i is set if entry i of the line is within `k` bits of the pattern.
    fn near48(self, line: &Packed48, pattern: &Pattern, k: u32) -> u32;

    /// Bit i is set if entry i of the line is within `k` bits of the pattern.
    fn near112(self, line: &Packed112, pattern: &Pattern, k: u32) -> u32;

    /// Bit i is set if entry i of the line is within `k` bits of the pattern.
    fn near240(self, line: &Packed240, pattern: &Pattern, k: u32) -> u32;

    /// See [`Words::equal`].
    fn words<L: Words>(self, line: &L, word: u16) -> u32;
}

/// The comparison for every processor.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Compare for Portable {
    #[inline(always)]
    fn near32(self, line: &Line32, query: u32, k: u32) -> u16 {
        let near = |cell: &AtomicU32| (loaded(cell.load(Ordering::Relaxed)) ^ query).count_ones() <= k;
        line.0.iter().enumerate().fold(0, |all, (at, cell)| all | u16::from(near(cell)) << at)
    }

    #[inline(always)]
    fn near64(self, line: &Line64, query: u64, k: u32) -> u8 {
        let near = |cell: &AtomicU64| (loaded(cell.load(Ordering::Relaxed)) ^ query).count_ones() <= k;
        line.0.iter().enumerate().fold(0, |all, (at, cell)| all | u8::from(near(cell)) << at)
    }

    #[inline(always)]
    fn both32(self, lines: [&Line32; 2], query: [u32; 2], k: u32) -> u16 {
        let ones = |half: usize, at: usize| {
            (loaded(lines[half].0[at].load(Ordering::Relaxed)) ^ query[half]).count_ones()
        };
        (0..16).fold(0, |all, at| all | u16::from(ones(0, at) + ones(1, at) <= k) << at)
    }

    #[inline(always)]
    fn both64(self, lines: [&Line64; 2], query: [u64; 2], k: u32) -> u8 {
        let ones = |half: usize, at: usize| {
            (loaded(lines[half].0[at].load(Ordering::Relaxed)) ^ query[half]).count_ones()
        };
        (0..8).fold(0, |all, at| all | u8::from(ones(0, at) + ones(1, at) <= k) << at)
    }

    #[inline(always)]
    fn all64(self, lines: [&Line64; 4], query: [u64; 4], k: u32) -> u8 {
        let ones = |part: usize, at: usize| {
            (loaded(lines[part].0[at].load(Ordering::Relaxed)) ^ query[part]).count_ones()
        };
        let sum = |at: usize| (0..4).map(|part| ones(part, at)).sum::<u32>();
        (0..8).fold(0, |all, at| all | u8::from(sum(at) <= k) << at)
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
    fn near240(self, line: &Packed240, pattern: &Pattern, k: u32) -> u32 {
        line.near_by_words(pattern, k)
    }

    #[inline(always)]
    fn words<L: Words>(self, line: &L, word: u16) -> u32 {
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

    /// The value.
    pub(super) fn into_inner(mut self) -> T {
        let value = std::mem::replace(&mut self.0, Atomic::null());
        // `drop` requires a value, and none is left.
        std::mem::forget(self);
        // SAFETY: as in `drop`.
        *unsafe { value.into_owned() }.into_box()
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
    use lookalike_hash::U256;

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

    /// Compares a line alone, and together with another one.
    struct Each<'a, L>([&'a L; 2], [u64; 2], u32);

    impl<L: Line> Work for Each<'_, L> {
        type Output = [u32; 2];

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> [u32; 2] {
            let Each([line, other], query, k) = self;
            [line.near(compare, query[0], k), line.near_both(compare, other, (query[0], query[1]), k)]
        }
    }

    /// Compares four lines together.
    struct All<'a>([&'a Line64; 4], [u64; 4], u32);

    impl Work for All<'_> {
        type Output = u8;

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> u8 {
            compare.all64(self.0, self.1, self.2)
        }
    }

    fn check_all(mut cell: impl FnMut(u64) -> u64, [one, other]: [u64; 2], k: u32) {
        let (lines, query): ([Line64; 4], _) = (Default::default(), [one, other, !one, one ^ other]);
        let lines = &lines;
        for at in 0..32 {
            lines[at % 4].publish(at / 4, cell(query[at % 4]));
        }
        let ones = |at: usize| (0..4).map(move |part| (lines[part].read(at) ^ query[part]).count_ones());
        let expected = (0..8).fold(0, |all, at| all | u8::from(ones(at).sum::<u32>() <= k) << at);
        let all = || All(lines.each_ref(), query, k);
        every_form(all, &expected, k);
    }

    /// Checks the forms that this processor has against the contract of [`Compare`].
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
        every_form(each, &expected, k);
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
                check::<Line32>(&mut cell, queries, k);
                check::<Line64>(&mut cell, queries, k);
                check_packed::<Packed48>(|| cell(queries[0]), queries[0], k);
                let wide = |high, low| u128::from(high) << 64 | u128::from(low);
                let query = wide(queries[0], queries[1]);
                check_packed::<Packed112>(|| wide(cell(queries[0]), cell(queries[1])), query, k);
                let wider = |cell: &mut dyn FnMut(u64) -> u64| {
                    U256::from_words([queries[0], queries[1], queries[0], queries[1]].map(cell))
                };
                let query = wider(&mut |word| word);
                check_packed::<Packed240>(|| wider(&mut cell), query, k);
                check_all(&mut cell, queries, k);
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

    fn check_packed<P: Packed<Whole: Into<U256>>>(
        mut entry: impl FnMut() -> P::Whole,
        query: P::Whole,
        k: u32,
    ) {
        let (line, unused) = (P::default(), U256::BITS - P::BITS);
        let stored = |whole: U256| whole << unused >> unused;
        let mut expected = 0;
        // No head may be taken for an entry.
        line.set_head(u32::MAX);
        for at in 0..P::ENTRIES {
            let whole = entry();
            line.write(at, whole);
            assert_eq!(line.read(at).into(), stored(whole.into()));
            let ones = stored(whole.into() ^ query.into()).count_ones();
            expected |= u32::from(ones <= k) << at;
        }
        assert_eq!(line.head(), u32::MAX);
        let entries = || Entries(&line, P::pattern(query), k);
        every_form(entries, &expected, k);
        // The first word of the first entry. Other entries may have the same word.
        let first = |at: usize| (line.read(at).into() >> (P::BITS - 16)).low() as u16;
        let expected = (0..P::ENTRIES).fold(0, |all, at| all | u32::from(first(at) == first(0)) << at);
        let beginning = || Beginning(&line, first(0));
        every_form(beginning, &expected, 0);
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
