//! Compares a whole line at once, on processors with `AVX512_VPOPCNTDQ` and `AVX512_BITALG`.
//!
//! *Absent*: the choice of the comparison ([`super::with_form`]).

use std::arch::asm;
use std::arch::x86_64::{
    __m512i, _mm_add_epi16, _mm_cmple_epu16_mask, _mm_set1_epi16, _mm_srli_si128, _mm256_add_epi16,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm512_add_epi16, _mm512_add_epi32, _mm512_add_epi64,
    _mm512_castsi512_si256, _mm512_cmpeq_epi16_mask, _mm512_cmple_epu16_mask, _mm512_cmple_epu32_mask,
    _mm512_cmple_epu64_mask, _mm512_extracti64x4_epi64, _mm512_load_si512, _mm512_maskz_popcnt_epi16,
    _mm512_permutexvar_epi16, _mm512_popcnt_epi16, _mm512_popcnt_epi32, _mm512_popcnt_epi64,
    _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_xor_si512,
};

use super::packed::{Packed48, Packed112, Packed240, Pattern, Words};
use super::{Compare, Line32, Line64, OnceLock, Work};

/// Whether the processor has the instructions.
#[inline]
pub(super) fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq")
            && is_x86_feature_detected!("avx512bitalg")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
    })
}

/// The comparison for a processor that has the instructions. Only [`run`] creates this token.
#[derive(Clone, Copy)]
struct Avx512(());

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,avx512bitalg,bmi1,bmi2,popcnt")]
pub(super) fn run<T: Work>(work: T) -> T::Output {
    work.run(Avx512(()))
}

super::compare_by_functions!(Avx512);

/// Loads all cells of a line, each as a relaxed load would.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<L>(line: &L) -> __m512i {
    const { assert!(size_of::<L>() == 64 && align_of::<L>() == 64) };
    let cells: __m512i;
    // SAFETY: the instruction reads the 64 bytes of a live, aligned line and does nothing else. The cells are
    // aligned, so the processor reads each of them without tearing. A plain vector load would be a data race
    // if a writer stored a cell at the same time, which is undefined behaviour. The assembly instruction is
    // outside the memory model of the language and is equivalent to that number of relaxed loads.
    unsafe {
        asm!(
            "vmovdqu64 {cells}, zmmword ptr [{line}]",
            cells = lateout(zmm_reg) cells,
            line = in(reg) line,
            options(nostack, preserves_flags, readonly),
        );
    }
    cells
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn near32(line: &Line32, query: u32, k: u32) -> u16 {
    let differing = _mm512_xor_si512(load(line), _mm512_set1_epi32(query.cast_signed()));
    _mm512_cmple_epu32_mask(_mm512_popcnt_epi32(differing), _mm512_set1_epi32(k.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn near64(line: &Line64, query: u64, k: u32) -> u8 {
    let differing = _mm512_xor_si512(load(line), _mm512_set1_epi64(query.cast_signed()));
    _mm512_cmple_epu64_mask(_mm512_popcnt_epi64(differing), _mm512_set1_epi64(i64::from(k)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn both32(lines: [&Line32; 2], query: [u32; 2], k: u32) -> u16 {
    let ones = |half: usize| {
        let query = _mm512_set1_epi32(query[half].cast_signed());
        _mm512_popcnt_epi32(_mm512_xor_si512(load(lines[half]), query))
    };
    _mm512_cmple_epu32_mask(_mm512_add_epi32(ones(0), ones(1)), _mm512_set1_epi32(k.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn both64(lines: [&Line64; 2], query: [u64; 2], k: u32) -> u8 {
    let ones = |half: usize| {
        let query = _mm512_set1_epi64(query[half].cast_signed());
        _mm512_popcnt_epi64(_mm512_xor_si512(load(lines[half]), query))
    };
    _mm512_cmple_epu64_mask(_mm512_add_epi64(ones(0), ones(1)), _mm512_set1_epi64(i64::from(k)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn all64(lines: [&Line64; 4], query: [u64; 4], k: u32) -> u8 {
    let ones = |part: usize| {
        let query = _mm512_set1_epi64(query[part].cast_signed());
        _mm512_popcnt_epi64(_mm512_xor_si512(load(lines[part]), query))
    };
    let sums = _mm512_add_epi64(_mm512_add_epi64(ones(0), ones(1)), _mm512_add_epi64(ones(2), ones(3)));
    _mm512_cmple_epu64_mask(sums, _mm512_set1_epi64(i64::from(k)))
}

/// A permutation that replaces each word by the word `by` positions further.
const fn shifted(by: u16) -> Pattern {
    let mut words = [0; 32];
    let mut at = 0;
    while at < words.len() {
        words[at] = (at as u16 + by) % words.len() as u16;
        at += 1;
    }
    Pattern(words)
}

/// The words of a pattern.
#[inline]
#[target_feature(enable = "avx512f")]
fn words(pattern: &Pattern) -> __m512i {
    const { assert!(size_of::<Pattern>() == 64 && align_of::<Pattern>() == 64) };
    // SAFETY: a pattern has 64 bytes, is aligned to 64 bytes, and is not written to while it is borrowed.
    unsafe { _mm512_load_si512(std::ptr::from_ref(pattern).cast()) }
}

/// Three words per entry, ten entries: adds to each word the words ten and twenty positions further.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bitalg")]
fn near48(line: &Packed48, pattern: &Pattern, k: u32) -> u32 {
    static SECOND: Pattern = shifted(10);
    static THIRD: Pattern = shifted(20);
    let ones = _mm512_popcnt_epi16(_mm512_xor_si512(load(line), words(pattern)));
    let second = _mm512_permutexvar_epi16(words(&SECOND), ones);
    let third = _mm512_permutexvar_epi16(words(&THIRD), ones);
    let sums = _mm512_add_epi16(ones, _mm512_add_epi16(second, third));
    _mm512_cmple_epu16_mask(sums, _mm512_set1_epi16(k as i16)) & 0x3ff
}

/// Seven words per entry, four entries: adds the first seven of the eight groups of four words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bitalg")]
fn near112(line: &Packed112, pattern: &Pattern, k: u32) -> u32 {
    let ones = _mm512_maskz_popcnt_epi16(0x0fff_ffff, _mm512_xor_si512(load(line), words(pattern)));
    let halves = _mm256_add_epi16(_mm512_castsi512_si256(ones), _mm512_extracti64x4_epi64::<1>(ones));
    let quarters = _mm_add_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    let sums = _mm_add_epi16(quarters, _mm_srli_si128::<8>(quarters));
    u32::from(_mm_cmple_epu16_mask(sums, _mm_set1_epi16(k as i16))) & 0xf
}

/// Fifteen words per entry, two entries: adds the first fifteen of the sixteen groups of two words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bitalg")]
fn near240(line: &Packed240, pattern: &Pattern, k: u32) -> u32 {
    let ones = _mm512_maskz_popcnt_epi16(0x3fff_ffff, _mm512_xor_si512(load(line), words(pattern)));
    let halves = _mm256_add_epi16(_mm512_castsi512_si256(ones), _mm512_extracti64x4_epi64::<1>(ones));
    let quarters = _mm_add_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    let eighths = _mm_add_epi16(quarters, _mm_srli_si128::<8>(quarters));
    let sums = _mm_add_epi16(eighths, _mm_srli_si128::<4>(eighths));
    u32::from(_mm_cmple_epu16_mask(sums, _mm_set1_epi16(k as i16))) & 0b11
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words_equal<L: Words>(line: &L, word: u16) -> u32 {
    _mm512_cmpeq_epi16_mask(load(line), _mm512_set1_epi16(word.cast_signed()))
}
