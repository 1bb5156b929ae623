//! Which profile and which k: a rule that is stated, so that anybody can disagree with it.

use super::Measured;

/// The most wrong neighbours of a query that are borne.
const WRONG_NEIGHBOURS: f64 = 0.05;
/// The least precision on the labelled pairs.
const PRECISION: f64 = 0.97;

/// A profile and a k.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// The profile's id.
    pub profile: String,
    /// The distance.
    pub k: u32,
    /// What it finds of the positive pairs, of all sets together.
    pub recall: f64,
}

/// Of all profiles the one with the greatest recall, summed over all sets, at its largest k with a precision of
/// 0.97 or more on each set and, on the median of the sets, at most 0.05 expected wrong neighbours a query among so
/// many documents; the narrower hash if two are within half a percent. `None` if no profile has such a k.
///
/// The median and not the worst, because a set of a few pages in many revisions says little about strangers.
///
/// `measured` has one list for each set, of the same profiles in the same order.
pub fn recommend(measured: &[Vec<Measured>], documents: f64) -> Option<Recommendation> {
    let profiles = measured.first()?.len();
    let of = |at: usize| -> Option<Recommendation> {
        let sets: Vec<&Measured> = measured.iter().map(|set| &set[at]).collect();
        let is_borne = |k: u32| {
            let mut wrong: Vec<f64> = sets
                .iter()
                .map(|set| match set.curve.false_neighbours(k, documents) {
                    // With hardly a wrong pair the set is too small to tell; precision tells then.
                    (_, true) => 0.0,
                    (wrong, false) => wrong,
                })
                .collect();
            wrong.sort_by(f64::total_cmp);
            wrong[(wrong.len() - 1) / 2] <= WRONG_NEIGHBOURS
                && sets.iter().all(|set| set.curve.at(k).precision >= PRECISION)
        };
        let k = (0..=sets[0].curve.width() / 2).take_while(|&k| is_borne(k)).last()?;
        let found: u64 = sets.iter().map(|set| set.curve.at(k).right).sum();
        let all: u64 = sets.iter().map(|set| set.curve.positive()).sum();
        let profile = sets[0].profile.id().to_string();
        Some(Recommendation { profile, k, recall: found as f64 / all.max(1) as f64 })
    };
    let mut best: Option<(u32, Recommendation)> = None;
    for at in 0..profiles {
        let width = measured[0][at].profile.width().bits();
        let Some(next) = of(at) else { continue };
        let is_better = best.as_ref().is_none_or(|(other, best)| {
            next.recall > best.recall + 0.005 || (next.recall > best.recall - 0.005 && width < *other)
        });
        if is_better {
            best = Some((width, next));
        }
    }
    best.map(|(_, best)| best)
}
