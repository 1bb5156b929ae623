//! Whether calibrations keep their promise: a labelled set is split into halves, a profile and k are chosen
//! on the texts of one half with edited copies and without its labels, and measured on the other half with
//! its labels.
//!
//! Texts that the labels connect are in one half, so that the halves are independent. Not here: the choice
//! (`lookalike_eval`).

use std::fmt::Write;
use std::time::Duration;

use lookalike_eval::random::Random;
use lookalike_eval::{
    Assumed, CERTAIN, Candidate, Choice, Curve, Labels, PROMISED, Pair, Readings, Set, best, families,
    measure, measure_signed, set_aside_copies, with_edits,
};
use lookalike_text::fingerprint::Profile;

use super::unchecked;

/// The parameters of the check.
#[derive(Clone, Debug)]
pub struct Split {
    /// The profiles among which each calibration chooses.
    pub profiles: Vec<&'static Profile>,
    /// The profile whose features show which unmarked pairs are copies.
    pub alike_by: &'static Profile,
    /// The number of documents; `None` for that of the other half.
    pub documents: Option<u64>,
    /// The share of documents that are assumed to have a copy.
    pub duplicate_share: f64,
    /// How often each set is split.
    pub splits: u64,
    /// The seed of the splits and edits.
    pub seed: u64,
}

/// The result of a half.
#[derive(Debug)]
pub struct HalfResult {
    /// The name of the set.
    set: String,
    /// The number of labelled texts, and the share of them that has a copy.
    texts: (usize, f64),
    choice: Option<Choice>,
    /// The measured precision by both readings of the labels, and recall.
    pub found: Option<[f64; 3]>,
}

/// Splits a set, and measures each half by what was calibrated on the other one.
pub fn halves(set: &Set, split: &Split) -> Vec<HalfResult> {
    let family = families(set.texts.len(), &set.labels);
    let mut results = Vec::new();
    for number in 0..split.splits {
        let seed = split.seed.wrapping_add(number);
        let mut random = Random(seed);
        let count = family.iter().max().map_or(0, |most| *most as usize + 1);
        let side: Vec<bool> = (0..count).map(|_| random.below(2) == 1).collect();
        for half in [false, true] {
            let part = |wanted: bool| part(set, |text| side[family[text] as usize] == wanted);
            let (unlabelled, labelled) = (part(half), part(!half));
            results.push(half_result(unlabelled.texts, &labelled, split, seed));
        }
    }
    results
}

fn half_result(texts: Vec<String>, labelled: &Set, split: &Split, seed: u64) -> HalfResult {
    let documents = split.documents.unwrap_or(labelled.texts.len() as u64);
    let assumed = Assumed { documents, duplicate_share: split.duplicate_share };
    let mut edited = with_edits(&labelled.name, texts, seed);
    let Ok(_) = set_aside_copies(&mut edited, split.alike_by, CERTAIN, unchecked);
    let measured = split.profiles.iter().map(|profile| {
        let Ok(candidate) =
            Candidate::measure(profile, None, &edited, assumed, seed, || Duration::ZERO, unchecked);
        candidate
    });
    let candidates: Vec<Candidate> = measured.collect();
    let choice = best(candidates.iter());
    let chosen = choice.as_ref().and_then(|choice| {
        let is_it = |candidate: &&Candidate| candidate.profile().id().to_string() == choice.profile;
        Some((candidates.iter().find(is_it)?.profile(), choice.expected.k))
    });
    let found = chosen.map(|(profile, k)| {
        let Readings { strict, lenient } = curves(profile, labelled);
        [strict.at(k).precision, lenient.at(k).precision, strict.at(k).recall]
    });
    let mut with_copy: Vec<u32> = labelled.labels.positive.iter().flat_map(|&(a, b)| [a, b]).collect();
    with_copy.sort_unstable();
    with_copy.dedup();
    let share = with_copy.len() as f64 / labelled.texts.len().max(1) as f64;
    HalfResult { set: labelled.name.clone(), texts: (labelled.texts.len(), share), choice, found }
}

fn curves(profile: &'static Profile, set: &Set) -> Readings<Curve> {
    let clock = || Duration::ZERO;
    let Ok(signed) = measure_signed(profile, None, set, clock, unchecked);
    if let Some(signed) = signed {
        return signed.near.curves().clone();
    }
    let Ok(measured) = measure(profile, set, clock, unchecked);
    let lenient = measured.second_reading.unwrap_or_else(|| measured.curve.clone());
    Readings { strict: measured.curve, lenient }
}

/// The texts of a set for which `takes` is true, with the labels of their pairs.
pub fn part(set: &Set, takes: impl Fn(usize) -> bool) -> Set {
    let mut numbers = vec![None; set.texts.len()];
    let mut texts = Vec::new();
    for (at, text) in set.texts.iter().enumerate().filter(|(at, _)| takes(*at)) {
        numbers[at] = Some(texts.len() as u32);
        texts.push(text.clone());
    }
    let renumbered = |&(a, b): &Pair| Some((numbers[a as usize]?, numbers[b as usize]?));
    let of = |pairs: &std::collections::HashSet<Pair>| pairs.iter().filter_map(renumbered).collect();
    let labels = &set.labels;
    let labels = Labels {
        positive: of(&labels.positive),
        ignored: of(&labels.ignored),
        disputed: of(&labels.disputed),
        separated: of(&labels.separated),
        alone: labels.alone.iter().filter_map(|at| numbers[*at as usize]).collect(),
    };
    Set { name: set.name.clone(), texts, labels, edits: Vec::new() }
}

/// The results as Markdown.
pub fn halves_table(results: &[HalfResult], duplicate_share: f64) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "## Halves\n\nChosen on one half with edited copies, for as many documents as the other half has, of \
         which {:.0} % are assumed to have a copy; measured on the other half with its labels, in brackets \
         without the pairs about which marks and similarities disagree.\n\n| set | texts | with a copy | \
         chosen | expected precision | precision | expected recall | recall |\n\
         |---|--:|--:|---|---|---|---|--:|",
        duplicate_share * 100.0
    );
    for result in results {
        let (texts, share) = result.texts;
        let _ = write!(out, "| `{}` | {texts} | {:.0} % | ", result.set, share * 100.0);
        let (Some(choice), Some([strict, lenient, recall])) = (&result.choice, result.found) else {
            let _ = writeln!(out, "none | | | | |");
            continue;
        };
        let expected = &choice.expected;
        let _ = writeln!(
            out,
            "`{}` k={} | {:.3} to {:.3} | {strict:.3} ({lenient:.3}) | {:.3} ({:.3} to {:.3}) | \
             {recall:.3} |",
            choice.profile,
            expected.k,
            expected.precision.low,
            expected.precision.high,
            expected.recall.value,
            expected.recall.low,
            expected.recall.high
        );
    }
    let kept =
        |of: usize| results.iter().filter_map(|one| one.found).filter(|one| one[of] >= PROMISED).count();
    let chosen = results.iter().filter(|one| one.found.is_some()).count();
    let _ = writeln!(
        out,
        "\nA precision of {PROMISED} is kept in {} of {chosen} halves, and in {} without the disputed \
         pairs; in {} halves no k was chosen.",
        kept(0),
        kept(1),
        results.len() - chosen
    );
    out
}
