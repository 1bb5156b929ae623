//! Compares a whole line in a few instructions, on processors with AVX2.
//!
//! AVX2 does not count bits: a table of sixteen numbers is looked up for both halves of each byte. Compiled
//! from loops over arrays, the comparison of a line takes 4.4 to 14 ns in place of 2.4 to 3.6, since the
//! compiler neither adds the counts of bytes nor collects the results as these functions do.
//!
//! *Absent*: the choice of the comparison ([`super::with_form`]).

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi16, _mm_cmpgt_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
    _mm_setzero_si128, _mm_srli_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_castsi256_pd,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpeq_epi16, _mm256_cmpgt_epi16, _mm256_cmpgt_epi32,
    _mm256_cmpgt_epi64, _mm256_extracti128_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_movemask_epi8, _mm256_movemask_pd, _mm256_movemask_ps, _mm256_packs_epi16, _mm256_sad_epu8,
    _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_setr_epi8, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    _mm256_xor_si256,
};

use super::packed::{Packed48, Packed112, Packed240, Pattern, Words};
use super::{Compare, Line32, Line64, OnceLock, Work};

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
    const { assert!(size_of::<L>() == 64 && align_of::<L>() == 64 && AT + 32 <= 64) };
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

/// Bit i is set if the sum of the bytes of cell i of 64 bits is at most `k`.
#[inline]
#[target_feature(enable = "avx2")]
fn few64(sums: __m256i, k: u32) -> u8 {
    let few = _mm256_cmpgt_epi64(_mm256_set1_epi64x(i64::from(k) + 1), sums);
    _mm256_movemask_pd(_mm256_castsi256_pd(few)) as u8
}

/// Bit i is set if word i is at most `k`.
#[inline]
#[target_feature(enable = "avx2")]
fn few16(sums: __m128i, k: u32) -> u32 {
    let few = _mm_cmpgt_epi16(_mm_set1_epi16(k as i16 + 1), sums);
    _mm_movemask_epi8(_mm_packs_epi16(few, _mm_setzero_si128())).cast_unsigned()
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

#[inline]
#[target_feature(enable = "avx2")]
fn both32(lines: [&Line32; 2], query: [u32; 2], k: u32) -> u16 {
    let [one, other] = query.map(|query| _mm256_set1_epi32(query.cast_signed()));
    let low = _mm256_add_epi8(differing::<0, _>(lines[0], one), differing::<0, _>(lines[1], other));
    let high = _mm256_add_epi8(differing::<32, _>(lines[0], one), differing::<32, _>(lines[1], other));
    few32(low, k) | few32(high, k) << 8
}

#[inline]
#[target_feature(enable = "avx2")]
fn near64(line: &Line64, query: u64, k: u32) -> u8 {
    all([line], [query], k)
}

#[inline]
#[target_feature(enable = "avx2")]
fn both64(lines: [&Line64; 2], query: [u64; 2], k: u32) -> u8 {
    all(lines, query, k)
}

#[inline]
#[target_feature(enable = "avx2")]
fn all64(lines: [&Line64; 4], query: [u64; 4], k: u32) -> u8 {
    all(lines, query, k)
}

/// Bit i is set if the distances of cell i of all lines add up to at most `k` bits.
#[inline]
#[target_feature(enable = "avx2")]
fn all<const LINES: usize>(lines: [&Line64; LINES], query: [u64; LINES], k: u32) -> u8 {
    let mut bytes = [_mm256_setzero_si256(); 2];
    for (line, query) in lines.into_iter().zip(query) {
        let query = _mm256_set1_epi64x(query.cast_signed());
        bytes[0] = _mm256_add_epi8(bytes[0], differing::<0, _>(line, query));
        bytes[1] = _mm256_add_epi8(bytes[1], differing::<32, _>(line, query));
    }
    let sums = bytes.map(|bytes| _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
    few64(sums[0], k) | few64(sums[1], k) << 4
}

/// Three words per entry, ten entries: the second and the third words are loaded below the first.
#[inline]
#[target_feature(enable = "avx2")]
fn near48(line: &Packed48, pattern: &Pattern, k: u32) -> u32 {
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

/// Adds the words of entries of which each half a line has eight and more: the counts of their bytes, without
/// those of the head.
#[inline]
#[target_feature(enable = "avx2")]
fn sums<L>(line: &L, pattern: &Pattern, without_head: __m256i) -> __m128i {
    let low = differing::<0, _>(line, load::<0, _>(pattern));
    let high = _mm256_xor_si256(load::<32, _>(line), load::<32, _>(pattern));
    let words = pairs(_mm256_add_epi8(low, ones(_mm256_and_si256(high, without_head))));
    let halves = _mm_add_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
    _mm_add_epi16(halves, _mm_srli_si128::<8>(halves))
}

/// Seven words per entry, four entries: adds the first seven of the eight groups of four words.
#[inline]
#[target_feature(enable = "avx2")]
fn near112(line: &Packed112, pattern: &Pattern, k: u32) -> u32 {
    few16(sums(line, pattern, _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0)), k) & 0xf
}

/// Fifteen words per entry, two entries: adds the first fifteen of the sixteen groups of two words.
#[inline]
#[target_feature(enable = "avx2")]
fn near240(line: &Packed240, pattern: &Pattern, k: u32) -> u32 {
    let quarters = sums(line, pattern, _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, -1, 0));
    few16(_mm_add_epi16(quarters, _mm_srli_si128::<4>(quarters)), k) & 0b11
}

#[inline]
#[target_feature(enable = "avx2")]
fn words_equal<L: Words>(line: &L, word: u16) -> u32 {
    let word = _mm256_set1_epi16(word.cast_signed());
    let equal = _mm256_packs_epi16(
        _mm256_cmpeq_epi16(load::<0, _>(line), word),
        _mm256_cmpeq_epi16(load::<32, _>(line), word),
    );
    // The instruction packs each half of both lines: the second and the third quarter are exchanged.
    let bits = _mm256_movemask_epi8(equal).cast_unsigned();
    bits & 0xff00_00ff | bits >> 8 & 0xff00 | bits << 8 & 0x00ff_0000
}
