//! What two texts have in common, without an estimate: their similarity, and how much of each the other one
//! has.

use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;

/// The distinct features of a text, with their weights.
///
/// ```
/// use lookalike_dedupe::{FeatureSet, Overlap};
/// use lookalike_text::fingerprint::Profile;
///
/// let profile = Profile::named("minhash-copies").expect("it is built in");
/// let page = "The ferry runs every hour until noon. Extra boats have been hired from a town nearby.";
/// let [part, page] = ["The ferry runs every hour", page].map(|text| FeatureSet::of(profile, None, text));
/// let Overlap { similarity, contained_in, contains } = part.overlap(&page);
/// assert!(contained_in > 0.8 && contains < 0.3 && similarity < contains);
/// ```
#[derive(Clone, Debug)]
pub struct FeatureSet {
    /// Sorted.
    features: Vec<u64>,
    /// The weight of each feature; empty if each weighs the same.
    weights: Vec<u8>,
}

/// What two texts have in common. Each number is 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// The weight of the common features ÷ that of all: the weighted Jaccard similarity, which signatures
    /// estimate (ADR 57). 1 if neither text has a feature.
    pub similarity: f64,
    /// The share of the features of the first text that the second one has, without weights; 1 if there are
    /// none. Of a text that was copied into a longer one all are there but those at its ends.
    pub contained_in: f64,
    /// The share of the features of the second text that the first one has.
    pub contains: f64,
}

impl FeatureSet {
    /// The features of a text by a profile. The table is not read if the profile takes no weights.
    pub fn of(profile: &Profile, table: Option<&Frequencies>, text: &str) -> FeatureSet {
        let features = profile.feature_set(text);
        let table = table.filter(|_| profile.takes_weights());
        let weights = table.map_or_else(Vec::new, |table| table.weights(&features));
        FeatureSet { features, weights }
    }

    /// The number of features.
    pub(super) fn len(&self) -> usize {
        self.features.len()
    }

    /// What this text and another one have in common. Both have the weights of one table, or none.
    pub fn overlap(&self, other: &FeatureSet) -> Overlap {
        let (mut place, mut count, mut common) = (0, 0, 0);
        for (own, feature) in self.features.iter().enumerate() {
            place += other.features[place..].iter().take_while(|found| *found < feature).count();
            if other.features.get(place) == Some(feature) {
                count += 1;
                common += self.weights.get(own).map_or(1, |weight| u64::from(*weight));
            }
        }
        let all = self.weight() + other.weight() - common;
        let [contained_in, contains] = [self, other].map(|set| share(count, set.features.len() as u64));
        Overlap { similarity: share(common, all), contained_in, contains }
    }

    fn weight(&self) -> u64 {
        if self.weights.is_empty() {
            return self.features.len() as u64;
        }
        self.weights.iter().map(|weight| u64::from(*weight)).sum()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// For each of these texts, [`Overlap::contained_in`] of it and `by`.
///
/// ```
/// use lookalike_dedupe::contained;
/// use lookalike_text::fingerprint::Profile;
///
/// let profile = Profile::named("minhash-copies").expect("it is built in");
/// let page = "The ferry runs every hour until noon. Extra boats have been hired from a town nearby.";
/// let shares = contained(profile, page, ["The ferry runs every hour", page, "Fish and chips"]);
/// assert_eq!(shares, [6.0 / 7.0, 1.0, 0.0]); // "every hour" ends the one text and goes on in the other
/// ```
pub fn contained<'a>(profile: &Profile, by: &str, texts: impl IntoIterator<Item = &'a str>) -> Vec<f64> {
    let mut of_by: Option<FeatureSet> = None;
    let share = |text: &str| {
        if text == by {
            return 1.0;
        }
        let by = of_by.get_or_insert_with(|| FeatureSet::of(profile, None, by));
        FeatureSet::of(profile, None, text).overlap(by).contained_in
    };
    texts.into_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::texts::tests::texts;
    use super::*;

    /// By the definition: a set with weights is a set in which each feature is repeated.
    fn repeated(table: Option<&Frequencies>, set: &[u64]) -> HashSet<(u64, u8)> {
        let weights = table.map_or_else(|| vec![1; set.len()], |table| table.weights(set));
        let times = |(feature, weight): (&u64, u8)| (0..weight).map(|time| (*feature, time)).collect();
        set.iter().zip(weights).flat_map::<Vec<_>, _>(times).collect()
    }

    fn expected(profile: &Profile, table: Option<&Frequencies>, a: &str, b: &str) -> Overlap {
        let sets = [a, b].map(|text| profile.feature_set(text));
        let [a, b]: [HashSet<u64>; 2] = [&sets[0], &sets[1]].map(|set| set.iter().copied().collect());
        let [wide_a, wide_b] = [&sets[0], &sets[1]].map(|set| repeated(table, set));
        let ratio = |part: usize, whole: usize| if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
        let common = a.intersection(&b).count();
        Overlap {
            similarity: ratio(wide_a.intersection(&wide_b).count(), wide_a.union(&wide_b).count()),
            contained_in: ratio(common, a.len()),
            contains: ratio(common, b.len()),
        }
    }

    #[test]
    fn the_overlap_is_that_of_its_definition() {
        let mut texts = texts(80);
        texts.push(String::new());
        for name in ["minhash-copies", "copies-64", "longest-sentences"] {
            let profile = Profile::named(name).unwrap();
            let mut table = Frequencies::of_kind(0);
            texts.iter().for_each(|text| table.add(&profile.feature_set(text)));
            for table in [None, Some(&table)] {
                let sets: Vec<_> = texts.iter().map(|text| FeatureSet::of(profile, table, text)).collect();
                let table = table.filter(|_| profile.takes_weights());
                for (a, b) in (0..texts.len()).flat_map(|a| (0..texts.len()).map(move |b| (a, b))) {
                    let found = sets[a].overlap(&sets[b]);
                    assert_eq!(found, expected(profile, table, &texts[a], &texts[b]), "{name} {a} {b}");
                }
            }
        }
    }
}
