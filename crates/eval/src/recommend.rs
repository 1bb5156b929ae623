//! The recommended profile and k, by an explicit rule.
//!
//! Not here: the measurements (`curve`).

use super::Measured;

/// The most expected wrong neighbours of a query.
const WRONG_NEIGHBOURS: f64 = 0.05;
/// The least precision on the labelled pairs.
const PRECISION: f64 = 0.97;

/// A profile and a k.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// The id of the profile.
    pub profile: String,
    /// The distance.
    pub k: u32,
    /// The share of the positive pairs of all sets that it finds.
    pub recall: f64,
    /// Whether a set has too few wrong pairs within k, so that their number is extrapolated from larger
    /// distances.
    pub is_extrapolated: bool,
}

/// The profile with the greatest recall over all sets, each profile at its largest admissible k. `None` if
/// no profile has an admissible k at which it finds a pair.
///
/// A k is admissible if precision is at least 0.97 on each set and, on at least half of the sets (on both
/// if there are two), at most 0.05 wrong neighbours are expected for a query among `documents` documents.
/// Half of the sets are enough, because a set of many revisions of a few pages says little about
/// independent texts. If two recalls differ by less than half a percentage point, the narrower hash wins.
///
/// `measured` has one list for each set, with the same profiles in the same order.
pub(crate) fn recommend(measured: &[Vec<Measured>], documents: f64) -> Option<Recommendation> {
    let of = |at: usize| -> Option<Recommendation> {
        let sets: Vec<&Measured> = measured.iter().map(|set| &set[at]).collect();
        let is_admissible = |k: u32| {
            let wrong = sets.iter().map(|set| set.curve.extrapolated_false_neighbours(k, documents));
            let Some(wrong) = wrong.collect::<Option<Vec<f64>>>() else { return false };
            of_half(wrong) <= WRONG_NEIGHBOURS
                && sets.iter().all(|set| set.curve.at(k).precision >= PRECISION)
        };
        let k = (0..=sets[0].curve.width() / 2).take_while(|&k| is_admissible(k)).last()?;
        let found: u64 = sets.iter().map(|set| set.curve.at(k).right).sum();
        let all: u64 = sets.iter().map(|set| set.curve.positive()).sum();
        let profile = sets[0].profile.id().to_string();
        let is_extrapolated = sets.iter().any(|set| set.curve.false_neighbours(k, documents).1);
        let recall = found as f64 / all.max(1) as f64;
        (found > 0).then_some(Recommendation { profile, k, recall, is_extrapolated })
    };
    let mut best: Option<(u32, Recommendation)> = None;
    for (at, one) in measured.first()?.iter().enumerate() {
        let width = one.profile.width().bits();
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

/// The least value that at least half of the values do not exceed; of two values the greater.
fn of_half(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[if values.len() == 2 { 1 } else { (values.len() - 1) / 2 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_sets_count_and_both_of_two() {
        let cases: [(&[f64], f64); 4] =
            [(&[3.0], 3.0), (&[0.0, 4.0], 4.0), (&[9.0, 1.0, 2.0], 2.0), (&[9.0, 1.0, 8.0, 2.0], 2.0)];
        for (values, expected) in cases {
            assert!((of_half(values.to_vec()) - expected).abs() < 1e-9, "{values:?}");
        }
    }
}
