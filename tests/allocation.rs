//! What fingerprints, explanations, comparisons and pages allocate at most, held against what is reserved for them.
//!
//! `--nocapture` prints those that take the most. One test, since what is allocated is counted for the whole process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics, in its helpers too")]

#[path = "pathological/inputs.rs"]
mod inputs;

use inputs::Inputs;
use lookalike::fingerprint::{FeatureComparison, Profile};
use lookalike::text::{main_text, memory_for_page};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Long enough that what a thread may take anyway does not count.
const TEXT: Inputs = Inputs { bytes: 256 << 10 };
/// One profile for each way through the code, the one that takes the most of its kind.
const KINDS: [&str; 9] = [
    "copies-64@1",
    "copies-64@3",
    "copies-128@2",
    "copies-128@4",
    "cppjieba@1",
    "keywords-zh@1",
    "shingle-md5-128@1",
    "minhash-copies@3",
    "longest-sentences@1",
];
/// Those with the most features.
const EXPLAINED: [&str; 2] = ["minhash-copies@2", "copies-128@1"];

/// The most bytes that were allocated at once by some work, beyond what was before.
fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = work();
    (ALLOCATOR.peak_usage().saturating_sub(before), result)
}

/// What took how much of what was reserved.
#[derive(Default)]
struct Measured(Vec<(f64, String)>);

impl Measured {
    fn add(&mut self, what: String, taken: usize, reserved: usize) {
        self.0.push((taken as f64 / reserved as f64, what));
    }

    /// Prints those that took the most and fails if one took more than was reserved.
    fn judge(mut self) {
        self.0.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.0
            .iter()
            .take(12)
            .for_each(|(share, what)| println!("{:>4.0} % of the reserved: {what}", share * 100.0));
        assert!(self.0[0].0 <= 1.0, "{:?}", self.0[0]);
    }
}

#[test]
fn no_more_is_allocated_than_is_reserved() {
    for profile in Profile::all() {
        // Dictionaries and tables are loaded once.
        profile.sign("臺灣的 word ภาษา あ 東京へ行く");
    }
    let of = |ids: &'static [&str]| ids.iter().map(|id| Profile::named(id).unwrap());
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
        for profile in of(&EXPLAINED) {
            let (taken, _) = peak(|| profile.explain(&text));
            explanations.add(
                format!("{name}, {}", profile.id()),
                taken,
                Profile::EXPLAINED_PER_BYTE * text.len(),
            );
        }
    }
    fingerprints.judge();
    explanations.judge();

    let mut comparisons = Measured::default();
    let different = |name: char| TEXT.numbered("", |n| format!("{name}{n:07x} "));
    let texts = ['u', 'v'].map(different);
    for profile in of(&["minhash-copies@2", "copies-128@1", "shingle-md5-128@1"]) {
        let compare = || {
            let [a, b] = [&texts[0], &texts[1]].map(|text| profile.explain(text));
            FeatureComparison::of(&a, &b)
        };
        let bytes = texts[0].len() + texts[1].len();
        comparisons.add(profile.id().to_string(), peak(compare).0, Profile::EXPLAINED_PER_BYTE * bytes);
    }
    comparisons.judge();

    let mut pages = Measured::default();
    for bytes in [64 << 10, 256 << 10, 1 << 20] {
        for (name, page) in (Inputs { bytes }).pages() {
            let (taken, _) = peak(|| main_text(&page));
            pages.add(format!("{name}, {bytes}"), taken, memory_for_page(page.len()));
        }
    }
    pages.judge();
}
