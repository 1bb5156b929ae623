//! The result of a calibration, and its summary in words.

use std::fmt::Write;

use lookalike_eval::{Assumed, COVERED, Candidate, Choice, Estimate, PROMISED};
use lookalike_wording::counted;

/// The result of a calibration.
#[derive(Debug)]
pub struct Calibrated {
    /// The collection's settings: profile and k.
    pub present: (String, u32),
    /// The assumed collection for which k is chosen.
    pub assumed: Assumed,
    /// The edits by which copies were made; none if the pairs to be found are marked.
    pub edits: Vec<String>,
    /// Whether the pairs to be found are marked ones, and not made by edits.
    pub is_marked: bool,
    /// The number of texts, including edited copies.
    pub texts: usize,
    /// The size of the texts in bytes.
    pub bytes: usize,
    /// The number of pairs to be found.
    pub pairs: usize,
    /// The number of unmarked pairs that look like copies. They are ignored.
    pub aside: usize,
    /// The number of unmarked pairs that may be copies. They are ignored, except that they count as wrong at
    /// the ends of intervals on the side of caution.
    pub doubtful: usize,
    /// The number of stored marks "not a duplicate" that are labels.
    pub marks: usize,
    /// The results of each profile.
    pub candidates: Vec<Candidate>,
    /// The best profile and k among those to choose from.
    pub recommended: Option<Choice>,
    /// The best k with the collection's profile.
    pub recommended_here: Option<Choice>,
}

impl Calibrated {
    /// The result and its assumptions in a few sentences.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let (profile, k) = &self.present;
        let here = self.candidates.iter().find(|one| one.profile().id().to_string() == *profile);
        if let Some(point) = here.and_then(|one| one.at(*k)) {
            let _ = write!(
                text,
                "As the collection is set ({profile}, k={k}), {} of the copies are found and {} of the found \
                 documents are copies; {}. ",
                percent(&point.recall),
                percent(&point.precision),
                self.wrong_text(&point.wrong)
            );
        }
        let described = |best: &Choice| {
            let threshold = best.threshold.map(|threshold| format!(" (threshold {threshold:.2})"));
            format!(
                "{} with k={}{}, which finds {} with a precision of {}",
                best.profile,
                best.expected.k,
                threshold.unwrap_or_default(),
                percent(&best.expected.recall),
                percent(&best.expected.precision)
            )
        };
        let _ = match (&self.recommended_here, &self.recommended) {
            (Some(here), Some(best)) if here == best => write!(text, "Recommended: {}.", described(best)),
            (Some(here), Some(best)) => {
                let (best, here) = (described(best), described(here));
                write!(text, "Recommended: {best}; with the present profile, {here}.")
            }
            (None, Some(best)) => write!(text, "Recommended: {}.", described(best)),
            _ => write!(
                text,
                "No k of these profiles finds copies with a precision whose interval begins at {PROMISED} or \
                 above: use a larger k with min_similarity, give more texts, or state fewer documents or a \
                 greater duplicate_share if they are true."
            ),
        };
        let _ = write!(text, " {}", self.assumptions_text());
        text
    }

    fn assumptions_text(&self) -> String {
        let copies = if self.is_marked {
            format!("copies differ like the {}", counted(self.pairs as u64, "marked pair"))
        } else {
            format!("copies differ by one of {} edits, all equally frequent", self.edits.len())
        };
        format!(
            "Assumed: among {} documents {:.1} % have a copy, {copies}, and other documents are as different \
             as the {} texts measured. Intervals cover {:.0} % of samples of these texts; they do not cover \
             errors of the assumptions.",
            self.assumed.documents,
            self.assumed.duplicate_share * 100.0,
            self.texts,
            COVERED * 100.0
        )
    }

    /// The number of wrong neighbours per query, in words.
    fn wrong_text(&self, wrong: &Estimate) -> String {
        let documents = self.assumed.documents;
        if wrong.value >= documents as f64 {
            return "how many wrong neighbours a query gets cannot be told, since too few of these texts are \
                    different"
                .to_owned();
        }
        format!(
            "among {documents} documents like these a query gets {:.3} wrong neighbours ({:.3} to {:.3})",
            wrong.value, wrong.low, wrong.high
        )
    }
}

/// A share and its interval in percent.
fn percent(share: &Estimate) -> String {
    let [value, low, high] = [share.value, share.low, share.high].map(|share| share * 100.0);
    format!("{value:.1} % ({low:.1} to {high:.1})")
}
