//! The peak memory of fingerprints, explanations, comparisons and pages, compared with the memory that the
//! server reserves for them.
//!
//! `--nocapture` prints the largest. There is only one test, because allocations are counted for the whole
//! process.
//!
//! Not here: the processor time of the same inputs (`tests/service/pathological.rs`).
#![allow(clippy::unwrap_used, reason = "a test panics if it cannot continue; so do its helpers")]

#[path = "pathological/inputs.rs"]
mod inputs;

use inputs::Inputs;
use lookalike_text::fingerprint::{Containment, FeatureComparison, Profile};
use lookalike_text::{main_text, memory_for_page, word_diff};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Long enough that the fixed memory of a thread is negligible.
const TEXT: Inputs = Inputs { bytes: 256 << 10 };
/// One profile for each code path: the one of its kind that takes the most memory.
const KINDS: [&str; 11] = [
    "copies-64",
    "every-letter-64",
    "copies-128",
    "every-letter-128",
    "short-128",
    "cppjieba",
    "fnv-zh",
    "keywords-zh",
    "shingle-md5-128",
    "minhash-copies",
    "longest-sentences",
];
/// The profiles with the most features.
const EXPLAINED: [&str; 2] = ["every-letter-sets", "every-letter-128"];

/// The peak memory of `work` in bytes, beyond the memory in use before, and its result.
fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = work();
    (ALLOCATOR.peak_usage().saturating_sub(before), result)
}

/// The share of its reservation that each case takes, and the name of the case.
#[derive(Default)]
struct Measured(Vec<(f64, String)>);

impl Measured {
    fn add(&mut self, name: String, taken: usize, reserved: usize) {
        self.0.push((taken as f64 / reserved as f64, name));
    }

    /// Prints the cases with the largest shares. Fails if a case takes more than its reservation.
    fn check(mut self) {
        self.0.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.0
            .iter()
            .take(12)
            .for_each(|(share, name)| println!("{:>4.0} % of the reservation: {name}", share * 100.0));
        assert!(self.0[0].0 <= 1.0, "{:?}", self.0[0]);
    }
}

#[test]
fn peak_memory_stays_within_the_reservation() {
    let profiles = inputs::profiles();
    for profile in profiles.iter() {
        // Loads the dictionaries and tables, which are not part of the measurements. A sentence with kana is
        // Japanese as a whole.
        profile.sign("臺灣的。word ภาษา。東京へ行く");
    }
    let of = |names: &'static [&str]| names.iter().map(move |name| profiles.named(name).unwrap());
    let compared = profiles.named("pairs-64").unwrap();
    let mut fingerprints = Measured::default();
    let mut explanations = Measured::default();
    for (name, text) in TEXT.texts() {
        for profile in of(&KINDS) {
            let (taken, _) = peak(|| profile.sign(&text));
            fingerprints.add(
                format!("{name}, {}", profile.id()),
                taken,
                profile.memory_per_byte() * text.len(),
            );
        }
        for profile in of(&["copies-64", "copies-128", "every-letter-128"]) {
            let (taken, _) =
                peak(|| profile.sign_with_set(compared, &text, || Ok::<_, ()>(())).map(|made| made.1.len()));
            let per_byte = profile.memory_per_byte().max(compared.memory_per_byte());
            fingerprints.add(format!("{name}, {} and a set", profile.id()), taken, per_byte * text.len());
        }
        for profile in of(&EXPLAINED) {
            let (taken, _) = peak(|| profile.explain(&text));
            explanations.add(
                format!("{name}, {}", profile.id()),
                taken,
                Profile::EXPLAINED_PER_BYTE * text.len(),
            );
        }
    }
    fingerprints.check();
    explanations.check();

    let mut comparisons = Measured::default();
    let different = |name: char| TEXT.numbered("", |n| format!("{name}{n:07x} "));
    let of_letters = |by: usize| -> String {
        (0..TEXT.bytes).map(|n| if (n.wrapping_mul(n) / by).is_multiple_of(3) { ' ' } else { 'a' }).collect()
    };
    let cases = [['u', 'v'].map(different), [61, 97].map(of_letters)];
    let of_cases = of(&["every-letter-sets", "every-letter-128", "shingle-md5-128"])
        .flat_map(|profile| cases.iter().map(move |texts| (profile, texts)));
    for (profile, texts) in of_cases {
        let compare = || {
            let [a, b] = [&texts[0], &texts[1]].map(|text| profile.explain(text));
            drop(FeatureComparison::of(&a, &b));
            let diff = word_diff(&texts[0], &texts[1]);
            let contained = Containment::of(&texts[0], &texts[1], || Ok::<_, ()>(()));
            (a, b, diff, contained)
        };
        let bytes = texts[0].len() + texts[1].len();
        comparisons.add(profile.id().to_string(), peak(compare).0, Profile::EXPLAINED_PER_BYTE * bytes);
    }
    comparisons.check();

    let mut pages = Measured::default();
    for bytes in [64 << 10, 256 << 10, 1 << 20, 4 << 20] {
        for (name, page) in (Inputs { bytes }).pages() {
            let (taken, _) = peak(|| main_text(&page));
            pages.add(format!("{name}, {bytes}"), taken, memory_for_page(page.len()));
        }
    }
    pages.check();
}
