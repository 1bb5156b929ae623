//! Compares a whole line in a few instructions, on processors with AVX2.
//!
//! AVX2 does not count bits: a table of sixteen numbers is looked up for both halves of each byte. Compiled
//! from loops over arrays, the comparison of a line takes 4.4 to 14 ns in place of 2.4 to 3.6, since the
//! compiler neither adds the counts of bytes nor collects the results as these functions do.
//!
//! *Absent*: the choice of the comparison ([`super::with_form`]).

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_srli_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_castsi256_ps,
    _mm256_cmpeq_epi16, _mm256_cmpgt_epi16, _mm256_cmpgt_epi32, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_movemask_epi8, _mm256_movemask_ps, _mm256_packs_epi16, _mm256_set_m128i, _mm256_set1_epi8,
    _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi16, _mm256_xor_si256, _pext_u32,
};

use super::{Compare, Line32, LinePattern, MAX_PLANES, OnceLock, Packed48, Plane, Work};

/// Whether the processor has the instructions.
#[inline]
pub(super) fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
    })
}

/// The comparison for a processor that has the instructions. Only [`run`] creates this token.
#[derive(Clone, Copy)]
struct Avx2(());

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn run<T: Work>(work: T) -> T::Output {
    work.run(Avx2(()))
}

super::compare_by_functions!(Avx2);

/// Loads the cells from byte `AT` of a line on, each as a relaxed load would.
#[inline]
#[target_feature(enable = "avx2")]
fn load<const AT: usize, L>(line: &L) -> __m256i {
    const { assert!(align_of::<L>() >= 32 && AT + 32 <= size_of::<L>()) };
    let cells: __m256i;
    // SAFETY: as for `avx512::load`. The bytes are in one cache line, and no cell is cut, so the processor
    // reads each cell without tearing.
    unsafe {
        asm!(
            "vmovdqu {cells}, ymmword ptr [{line} + {at}]",
            cells = lateout(ymm_reg) cells,
            line = in(reg) line,
            at = const AT,
            options(nostack, preserves_flags, readonly),
        );
    }
    cells
}

/// As [`load`], of sixteen bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn load_half<const AT: usize, L>(line: &L) -> __m128i {
    const { assert!(size_of::<L>() == 64 && align_of::<L>() == 64 && AT + 16 <= 64) };
    let cells: __m128i;
    // SAFETY: as for `load`.
    unsafe {
        asm!(
            "vmovdqu {cells}, xmmword ptr [{line} + {at}]",
            cells = lateout(xmm_reg) cells,
            line = in(reg) line,
            at = const AT,
            options(nostack, preserves_flags, readonly),
        );
    }
    cells
}

/// The number of ones in each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn ones(value: __m256i) -> __m256i {
    let of_half = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let half = _mm256_set1_epi8(15);
    let low = _mm256_shuffle_epi8(of_half, _mm256_and_si256(value, half));
    let high = _mm256_shuffle_epi8(of_half, _mm256_and_si256(_mm256_srli_epi16::<4>(value), half));
    _mm256_add_epi8(low, high)
}

/// The sums of pairs of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs(bytes: __m256i) -> __m256i {
    _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1))
}

/// Bit i is set if the ones of the bytes of cell i of 32 bits are at most `k`.
#[inline]
#[target_feature(enable = "avx2")]
fn few32(bytes: __m256i, k: u32) -> u16 {
    let sums = _mm256_madd_epi16(pairs(bytes), _mm256_set1_epi16(1));
    let few = _mm256_cmpgt_epi32(_mm256_set1_epi32(k.cast_signed() + 1), sums);
    _mm256_movemask_ps(_mm256_castsi256_ps(few)) as u16
}

/// The ones of each byte in which half a line, from byte `AT` on, differs from a value.
#[inline]
#[target_feature(enable = "avx2")]
fn differing<const AT: usize, L>(line: &L, query: __m256i) -> __m256i {
    ones(_mm256_xor_si256(load::<AT, L>(line), query))
}

#[inline]
#[target_feature(enable = "avx2")]
fn near32(line: &Line32, query: u32, k: u32) -> u16 {
    let query = _mm256_set1_epi32(query.cast_signed());
    few32(differing::<0, _>(line, query), k) | few32(differing::<32, _>(line, query), k) << 8
}

/// The words of a query.
type Pattern = [__m256i; MAX_PLANES];
/// The ones of each byte of the planes so far.
type Sums = __m256i;

#[inline]
#[target_feature(enable = "avx2")]
fn pattern(words: &[u16; MAX_PLANES]) -> Pattern {
    words.map(|word| _mm256_set1_epi16(word.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx2")]
fn none() -> Sums {
    _mm256_setzero_si256()
}

/// The bits in which the plane at byte `AT` differs from a word, as of relaxed loads.
#[inline]
#[target_feature(enable = "avx2")]
fn plane<const AT: usize, const N: usize>(planes: &[Plane; N], word: __m256i) -> __m256i {
    const { assert!(align_of::<Plane>() == 32 && AT + 32 <= size_of::<[Plane; N]>()) };
    let differing: __m256i;
    // SAFETY: as for `load`.
    unsafe {
        asm!(
            "vpxor {differing}, {word}, ymmword ptr [{planes} + {at}]",
            differing = lateout(ymm_reg) differing,
            word = in(ymm_reg) word,
            planes = in(reg) planes,
            at = const AT,
            options(nostack, preserves_flags, readonly),
        );
    }
    ones(differing)
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_four(planes: &[Plane; 4], pattern: &Pattern, from: usize, sums: Sums) -> Sums {
    let one =
        _mm256_add_epi8(plane::<0, 4>(planes, pattern[from]), plane::<32, 4>(planes, pattern[from + 1]));
    let other =
        _mm256_add_epi8(plane::<64, 4>(planes, pattern[from + 2]), plane::<96, 4>(planes, pattern[from + 3]));
    _mm256_add_epi8(sums, _mm256_add_epi8(one, other))
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_three(planes: &[Plane; 3], pattern: &Pattern, from: usize, sums: Sums) -> Sums {
    let one =
        _mm256_add_epi8(plane::<0, 3>(planes, pattern[from]), plane::<32, 3>(planes, pattern[from + 1]));
    _mm256_add_epi8(_mm256_add_epi8(sums, plane::<64, 3>(planes, pattern[from + 2])), one)
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_two(planes: &[Plane; 2], pattern: &Pattern, from: usize, sums: Sums) -> Sums {
    let one =
        _mm256_add_epi8(plane::<0, 2>(planes, pattern[from]), plane::<32, 2>(planes, pattern[from + 1]));
    _mm256_add_epi8(sums, one)
}

#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn few(sums: Sums, k: u32) -> u32 {
    let few = _mm256_cmpgt_epi16(_mm256_set1_epi16(k as i16 + 1), pairs(sums));
    // Each lane has two bits in the mask.
    _pext_u32(_mm256_movemask_epi8(few).cast_unsigned(), 0x5555_5555)
}

/// Three words per entry, ten entries: the second and the third words are loaded below the first.
#[inline]
#[target_feature(enable = "avx2")]
fn near48(line: &Packed48, pattern: &LinePattern, k: u32) -> u32 {
    let words = |line| (load::<0, _>(line), load::<20, _>(line));
    let (first, second) = words(line);
    let (first_of_query, second_of_query) = (load::<0, _>(pattern), load::<20, _>(pattern));
    // The third words end eight bytes before the line does.
    let third = _mm256_set_m128i(_mm_srli_si128::<8>(load_half::<48, _>(line)), load_half::<40, _>(line));
    let third_of_query = _mm256_set_m128i(load_half::<40, _>(pattern), load_half::<40, _>(pattern));
    let sums = _mm256_add_epi8(
        _mm256_add_epi8(
            ones(_mm256_xor_si256(first, first_of_query)),
            ones(_mm256_xor_si256(second, second_of_query)),
        ),
        ones(_mm256_xor_si256(third, third_of_query)),
    );
    let few = _mm256_cmpgt_epi16(_mm256_set1_epi16(k as i16 + 1), pairs(sums));
    let few = _mm256_movemask_epi8(_mm256_packs_epi16(few, _mm256_setzero_si256())).cast_unsigned();
    few & 0xff | few >> 8 & 0x300
}

#[inline]
#[target_feature(enable = "avx2")]
fn words(line: &Packed48, word: u16) -> u32 {
    let word = _mm256_set1_epi16(word.cast_signed());
    let equal = _mm256_packs_epi16(
        _mm256_cmpeq_epi16(load::<0, _>(line), word),
        _mm256_cmpeq_epi16(load::<32, _>(line), word),
    );
    // The instruction packs each half of both lines: the second and the third quarter are exchanged.
    let bits = _mm256_movemask_epi8(equal).cast_unsigned();
    bits & 0xff00_00ff | bits >> 8 & 0xff00 | bits << 8 & 0x00ff_0000
}
