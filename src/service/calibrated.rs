//! The result of a calibration, and its summary in words.

use std::fmt::Write;

use crate::eval::{Banded, Measured, Recommendation};

/// The result of a calibration.
#[derive(Debug)]
pub struct Calibrated {
    /// The collection's settings: profile and k.
    pub present: (String, u32),
    /// The number of documents for which k is chosen.
    pub documents: u64,
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
    /// The results of profiles that make hashes.
    pub measured: Vec<Measured>,
    /// The results of profiles that make `MinHash` signatures.
    pub banded: Vec<Banded>,
    /// The best profile and k among the measured ones.
    pub recommended: Option<Recommendation>,
    /// The best k with the collection's profile.
    pub recommended_here: Option<Recommendation>,
}

impl Calibrated {
    /// The result in a few sentences.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let (profile, k) = &self.present;
        if let Some(one) = self.measured.iter().find(|one| one.profile.id().to_string() == *profile) {
            let point = one.curve.at(*k);
            let _ = write!(
                text,
                "As the collection is set ({profile}, k={k}), {:.1} % of the copies are found and {:.1} % of \
                 the found documents are copies; {}. ",
                point.recall * 100.0,
                point.precision * 100.0,
                self.false_neighbours_text(one, *k)
            );
        }
        let described = |best: &Recommendation| {
            format!("{} with k={}, which finds {:.1} %", best.profile, best.k, best.recall * 100.0)
        };
        let _ = match (&self.recommended_here, &self.recommended) {
            (Some(here), Some(best)) if here == best => write!(text, "Recommended: {}.", described(best)),
            (Some(here), Some(best)) => {
                write!(
                    text,
                    "Recommended: {}; with the present profile, {}.",
                    described(best),
                    described(here)
                )
            }
            (None, Some(best)) => write!(text, "Recommended: {}.", described(best)),
            _ if self.measured.is_empty() => {
                write!(text, "Only signatures were measured: choose a threshold.")
            }
            _ => write!(
                text,
                "No k of these profiles finds copies with a precision of 0.97 and at most 0.05 wrong \
                 neighbours a query, or too few of these texts are different to know: use a larger k with \
                 min_similarity, or give more texts."
            ),
        };
        text
    }

    /// The number of false neighbours per query, in words.
    fn false_neighbours_text(&self, one: &Measured, k: u32) -> String {
        let documents = self.documents as f64;
        match one.curve.false_neighbours(k, documents) {
            (wrong, true) if wrong >= documents => {
                "how many wrong neighbours a query gets cannot be told, since too few of these texts are \
                 different"
                    .to_owned()
            }
            (wrong, is_bound) => format!(
                "among {} documents like these a query gets {}{wrong:.2} wrong neighbours",
                self.documents,
                if is_bound { "fewer than " } else { "" }
            ),
        }
    }
}
