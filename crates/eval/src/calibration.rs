//! Calibration: which profile and k keep a promised precision in a collection of texts like these.
//!
//! Not here: the texts and their pairs (`edits`, `service`), and the jobs of the server.

use std::fmt::Write;
use std::time::Duration;

use super::near::{Near, Readings};
use super::promise::{Assumed, COVERED, Estimate, Expected, PROMISED, expected, largest_kept};
use super::signed::{MeasuredSigned, measure_signed};
use super::{Measured, Set, measure};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;
use lookalike_wording::counted;

/// The profiles among which a calibration chooses unless it is told otherwise: those that find copies best
/// at each cost.
pub const CANDIDATES: [&str; 3] = ["copies-64", "copies-128", "minhash-copies"];

/// A profile, measured for a calibration.
#[derive(Debug)]
pub struct Candidate {
    /// The measurements.
    pub by: MeasuredBy,
    /// What is expected at each k.
    pub expected: Vec<Expected>,
}

/// The measurements of a profile.
#[derive(Debug)]
pub enum MeasuredBy {
    /// Of a profile that makes hashes.
    Hashes(Box<Measured>),
    /// Of a profile that makes signatures.
    Signatures(Box<MeasuredSigned>),
}

/// A profile and a k.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The id of the profile.
    pub profile: String,
    /// The similarity of signatures at this k.
    pub threshold: Option<f64>,
    /// The k, and what is expected at it.
    pub expected: Expected,
}

impl Candidate {
    /// Measures a profile. `clock` and `check` are those of [`measure`]; `seed` is that of the intervals.
    ///
    /// # Errors
    /// The error of `check`.
    pub fn measure<E>(
        profile: &'static Profile,
        table: Option<&Frequencies>,
        set: &Set,
        assumed: Assumed,
        seed: u64,
        clock: impl Fn() -> Duration,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<Candidate, E> {
        if let Some(signed) = measure_signed(profile, table, set, &clock, &check)? {
            let expected = expected(&signed.near, assumed, seed);
            return Ok(Candidate { by: MeasuredBy::Signatures(Box::new(signed)), expected });
        }
        let measured = measure(profile, set, clock, &check)?;
        let lenient = measured.second_reading.as_ref().unwrap_or(&measured.curve).clone();
        let curves = Readings { strict: measured.curve.clone(), lenient };
        let near = Near::of_hashes(&measured.hashes, &set.labels, curves, check)?;
        let expected = expected(&near, assumed, seed);
        Ok(Candidate { by: MeasuredBy::Hashes(Box::new(measured)), expected })
    }

    /// The profile.
    pub fn profile(&self) -> &'static Profile {
        match &self.by {
            MeasuredBy::Hashes(measured) => measured.profile,
            MeasuredBy::Signatures(measured) => measured.profile,
        }
    }

    /// What is expected at this k, or at the largest k that was measured.
    pub fn at(&self, k: u32) -> Option<&Expected> {
        self.expected.get(k as usize).or(self.expected.last())
    }

    /// The largest k that keeps the promise.
    pub fn choice(&self) -> Option<Choice> {
        let expected = *largest_kept(&self.expected)?;
        let threshold = self.profile().signatures().map(|shape| shape.threshold_of(expected.k));
        Some(Choice { profile: self.profile().id().to_string(), threshold, expected })
    }

    /// The bits of a fingerprint or signature.
    fn bits(&self) -> usize {
        let profile = self.profile();
        profile.signatures().map_or(profile.width().bits() as usize, |shape| shape.bytes() * 8)
    }
}

/// The candidate that finds most, each at the largest k that keeps the promise. If two recalls differ by less
/// than half a percentage point, the smaller fingerprint wins. `None` if no candidate keeps the promise.
pub fn best<'c>(candidates: impl Iterator<Item = &'c Candidate>) -> Option<Choice> {
    let mut best: Option<(usize, Choice)> = None;
    for candidate in candidates {
        let Some(next) = candidate.choice() else { continue };
        let recall = next.expected.recall.value;
        let is_better = best.as_ref().is_none_or(|(bits, best)| {
            let other = best.expected.recall.value;
            recall > other + 0.005 || (recall > other - 0.005 && candidate.bits() < *bits)
        });
        if is_better {
            best = Some((candidate.bits(), next));
        }
    }
    best.map(|(_, best)| best)
}

/// What the candidates promise, as Markdown, with the assumptions.
pub fn promised_table(set: &Set, candidates: &[Candidate], assumed: Assumed) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "## Promised for {}\n\nThe largest k of each profile at which the lower end of precision is at least \
         {PROMISED}. Assumed: among {} documents {:.1} % have a copy, edited like the copies here, and other \
         documents are as different as these: {}. Intervals cover {:.0} % of samples of them, and count \
         as wrong, on the side of caution, what may be a copy: {}.\n\n| profile | k | precision | \
         recall | wrong neighbours a query |\n|---|--:|---|---|---|",
        set.name,
        assumed.documents,
        assumed.duplicate_share * 100.0,
        counted(set.texts.len() as u64, "text"),
        COVERED * 100.0,
        counted(set.labels.disputed.len() as u64, "pair")
    );
    let chosen = best(candidates.iter()).map(|choice| choice.profile);
    for candidate in candidates {
        let id = candidate.profile().id().to_string();
        let mark = if chosen.as_ref() == Some(&id) { "**" } else { "" };
        let Some(Choice { expected, .. }) = candidate.choice() else {
            let _ = writeln!(out, "| `{id}` | none | | | |");
            continue;
        };
        let figure = |of: Estimate| format!("{:.3} ({:.3} to {:.3})", of.value, of.low, of.high);
        let _ = writeln!(
            out,
            "| {mark}`{id}`{mark} | {} | {} | {} | {} |",
            expected.k,
            figure(expected.precision),
            figure(expected.recall),
            figure(expected.wrong)
        );
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::word;
    use crate::with_edits;

    #[test]
    fn the_candidate_that_finds_most_is_chosen() {
        let text = |n: usize| -> String { (0..120).map(|at| word(n * 120 + at)).collect() };
        let set = with_edits("own", (0..300).map(text).collect(), 1);
        let assumed = |documents| Assumed { documents, duplicate_share: 0.5 };
        let measure = |name: &str, documents| {
            let profile = Profile::named(name).unwrap();
            let unchecked = || Ok::<_, std::convert::Infallible>(());
            let Ok(found) =
                Candidate::measure(profile, None, &set, assumed(documents), 1, || Duration::ZERO, unchecked);
            found
        };
        let all = CANDIDATES.map(|name| measure(name, 300));
        let [narrow, wide, signed] =
            all.each_ref().map(|one| one.choice().expect("some k keeps the promise"));
        assert!(narrow.threshold.is_none() && signed.threshold.is_some());
        assert!(wide.expected.recall.value > narrow.expected.recall.value + 0.005);
        let most = [&narrow, &wide, &signed].map(|one| one.expected.recall.value);
        let chosen = best(all.iter()).unwrap();
        assert!(most.iter().all(|recall| chosen.expected.recall.value > recall - 0.006), "{chosen:?}");
        assert!(promised_table(&set, &all, assumed(300)).contains("among 300 documents 50.0 % have a copy"));
        // More documents mean more wrong neighbours, so k is smaller.
        let larger = measure("copies-64", 1_000_000_000).choice();
        assert!(larger.is_none_or(|larger| larger.expected.k < narrow.expected.k));
    }
}
