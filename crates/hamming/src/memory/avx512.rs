//! Compares a whole line at once, on processors with `AVX512_VPOPCNTDQ` and `AVX512_BITALG`.
//!
//! *Absent*: the choice of the comparison ([`super::with_form`]).

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, __m512i, _mm256_add_epi16, _mm256_cmple_epu16_mask, _mm256_popcnt_epi16, _mm256_set1_epi16,
    _mm512_add_epi16, _mm512_castsi256_si512, _mm512_castsi512_si256, _mm512_cmpeq_epi16_mask,
    _mm512_cmple_epu16_mask, _mm512_cmple_epu32_mask, _mm512_extracti64x4_epi64, _mm512_inserti64x4,
    _mm512_load_si512, _mm512_permutexvar_epi16, _mm512_popcnt_epi16, _mm512_popcnt_epi32, _mm512_set1_epi16,
    _mm512_set1_epi32, _mm512_setzero_si512, _mm512_xor_si512, _mm512_zextsi256_si512,
};

use super::{Compare, Line32, LinePattern, MAX_PLANES, OnceLock, Packed48, Plane, Work};

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

/// The words of a query: register i has those of planes 2 i and 2 i + 1.
type Pattern = [__m512i; MAX_PLANES / 2];
/// The distances in the even planes so far, and in the odd ones.
type Sums = __m512i;

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pattern(words: &[u16; MAX_PLANES]) -> Pattern {
    std::array::from_fn(|at| {
        let [even, odd] =
            [words[2 * at], words[2 * at + 1]].map(|word| _mm256_set1_epi16(word.cast_signed()));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(even), odd)
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn none() -> Sums {
    _mm512_setzero_si512()
}

/// The distances of the cells of the two planes at byte `AT` from two words, as of relaxed loads.
#[inline]
#[target_feature(enable = "avx512f,avx512bitalg")]
fn planes<const AT: usize, const N: usize>(planes: &[Plane; N], words: __m512i) -> __m512i {
    const { assert!(align_of::<Plane>() == 32 && AT + 64 <= size_of::<[Plane; N]>()) };
    let differing: __m512i;
    // SAFETY: as for `load`. A plane may end a cache line, but no cell is cut by the end of one.
    unsafe {
        asm!(
            "vpxorq {differing}, {words}, zmmword ptr [{planes} + {at}]",
            differing = lateout(zmm_reg) differing,
            words = in(zmm_reg) words,
            planes = in(reg) planes,
            at = const AT,
            options(nostack, preserves_flags, readonly),
        );
    }
    _mm512_popcnt_epi16(differing)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bitalg")]
fn add_four(four: &[Plane; 4], pattern: &Pattern, from: usize, sums: Sums) -> Sums {
    let words = &pattern[from / 2..];
    _mm512_add_epi16(sums, _mm512_add_epi16(planes::<0, 4>(four, words[0]), planes::<64, 4>(four, words[1])))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bitalg")]
fn add_three(three: &[Plane; 3], pattern: &Pattern, from: usize, sums: Sums) -> Sums {
    let words = &pattern[from / 2..];
    let last: __m256i;
    // SAFETY: as for `planes`.
    unsafe {
        asm!(
            "vpxor {last}, {word}, ymmword ptr [{planes} + 64]",
            last = lateout(ymm_reg) last,
            word = in(ymm_reg) _mm512_castsi512_si256(words[1]),
            planes = in(reg) three,
            options(nostack, preserves_flags, readonly),
        );
    }
    let last = _mm512_zextsi256_si512(_mm256_popcnt_epi16(last));
    _mm512_add_epi16(sums, _mm512_add_epi16(planes::<0, 3>(three, words[0]), last))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bitalg")]
fn add_two(two: &[Plane; 2], pattern: &Pattern, from: usize, sums: Sums) -> Sums {
    _mm512_add_epi16(sums, planes::<0, 2>(two, pattern[from / 2]))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw")]
fn few(sums: Sums, k: u32) -> u32 {
    let sums = _mm256_add_epi16(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
    _mm256_cmple_epu16_mask(sums, _mm256_set1_epi16(k as i16)).into()
}

/// A permutation that replaces each word by the word `by` positions further.
const fn shifted(by: u16) -> LinePattern {
    let mut words = [0; 32];
    let mut at = 0;
    while at < words.len() {
        words[at] = (at as u16 + by) % words.len() as u16;
        at += 1;
    }
    LinePattern(words)
}

/// The words of a pattern.
#[inline]
#[target_feature(enable = "avx512f")]
fn words_of(pattern: &LinePattern) -> __m512i {
    const { assert!(size_of::<LinePattern>() == 64 && align_of::<LinePattern>() == 64) };
    // SAFETY: a pattern has 64 bytes, is aligned to 64 bytes, and is not written to while it is borrowed.
    unsafe { _mm512_load_si512(std::ptr::from_ref(pattern).cast()) }
}

/// Three words per entry, ten entries: adds to each word the words ten and twenty positions further.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bitalg")]
fn near48(line: &Packed48, pattern: &LinePattern, k: u32) -> u32 {
    static SECOND: LinePattern = shifted(10);
    static THIRD: LinePattern = shifted(20);
    let ones = _mm512_popcnt_epi16(_mm512_xor_si512(load(line), words_of(pattern)));
    let second = _mm512_permutexvar_epi16(words_of(&SECOND), ones);
    let third = _mm512_permutexvar_epi16(words_of(&THIRD), ones);
    let sums = _mm512_add_epi16(ones, _mm512_add_epi16(second, third));
    _mm512_cmple_epu16_mask(sums, _mm512_set1_epi16(k as i16)) & 0x3ff
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words(line: &Packed48, word: u16) -> u32 {
    _mm512_cmpeq_epi16_mask(load(line), _mm512_set1_epi16(word.cast_signed()))
}
