//! Whether two texts have most of their letters in one order: copies with wrong, missing and further letters,
//! as recognition of print and typing make them.
//!
//! The similarity of letters is 1 less the least number of letters to replace, remove and insert, for each
//! letter of the longer text (Levenshtein, 1966). Not here: which texts are compared.

use rapidfuzz::distance::levenshtein::{self, Args};

use super::overlap::FeatureSet;
use lookalike_text::fingerprint::Profile;

/// The letters of a text up to which they are aligned, which then takes some 40 ms for a pair.
const MOST_LETTERS: usize = 1 << 15;
/// The least share of features of texts one of which is longer. Unlike texts have up to a third.
const LEAST_OF_LONG: f64 = 0.5;

/// The letters of a text.
pub(super) struct Aligned {
    /// The first ones, if they are too many to be aligned.
    letters: Vec<char>,
    /// The features of a text that may be near one that is not aligned.
    features: Option<FeatureSet>,
}

impl Aligned {
    pub(super) fn of(profile: &Profile, text: &str) -> Aligned {
        let letters: Vec<char> = profile.letters(text).chars().take(MOST_LETTERS + 1).collect();
        let is_long = letters.len() > MOST_LETTERS / 2;
        Aligned { letters, features: is_long.then(|| FeatureSet::of(profile, None, text)) }
    }

    pub(super) fn len(&self) -> usize {
        self.letters.len()
    }

    /// Whether this text and another one have at least this similarity of letters; of features, if one has
    /// too many letters. It is then not near a text of less than half as many.
    pub(super) fn is_near(&self, other: &Aligned, least: f64) -> bool {
        if self.len().max(other.len()) <= MOST_LETTERS {
            let [a, b] = [self, other].map(|text| text.letters.iter().copied());
            let args = Args::default().score_cutoff(least);
            return levenshtein::normalized_similarity_with_args(a, b, &args).is_some();
        }
        let features = self.features.as_ref().zip(other.features.as_ref());
        features.is_some_and(|(a, b)| a.overlap(b).similarity >= LEAST_OF_LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Wagner and Fischer.
    fn edits(a: &[char], b: &[char]) -> usize {
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (at, x) in a.iter().enumerate() {
            let mut before = row[0];
            row[0] = at + 1;
            for (other, y) in b.iter().enumerate() {
                let replaced = before + usize::from(x != y);
                before = row[other + 1];
                row[other + 1] = replaced.min(row[other] + 1).min(row[other + 1] + 1);
            }
        }
        row[b.len()]
    }

    fn noisy(text: &str, random: &mut fastrand::Rng, wrong: f64) -> String {
        let each = |c: char| match random.f64() / wrong {
            share if share >= 1.0 => vec![c],
            share if share < 0.2 => vec![],
            share if share < 0.4 => vec![c, 'e'],
            _ => vec![random.char('a'..='z')],
        };
        text.chars().flat_map(each).collect()
    }

    #[test]
    fn letters_are_aligned_as_by_the_table() {
        let profile = Profile::named("noisy").unwrap();
        let mut random = fastrand::Rng::with_seed(3);
        let texts = ["The ferry will run every twenty minutes.", "市图书馆延长开放时间。", ""];
        for text in texts {
            for wrong in [0.05, 0.3, 0.6, 0.9] {
                let other = noisy(text, &mut random, wrong);
                let [a, b] = [text, &other].map(|text| profile.letters(text).chars().collect::<Vec<char>>());
                let longer = a.len().max(b.len()).max(1) as f64;
                let similarity = 1.0 - edits(&a, &b) as f64 / longer;
                let [one, two] = [text, &other].map(|text| Aligned::of(profile, text));
                for least in [0.2, 0.5, 0.8] {
                    assert_eq!(one.is_near(&two, least), similarity >= least, "{text} {other} {least}");
                }
            }
        }
    }

    #[test]
    fn long_texts_are_compared_by_features() {
        let profile = Profile::named("noisy").unwrap();
        let mut random = fastrand::Rng::with_seed(4);
        let text: String =
            std::iter::repeat_with(|| random.char('a'..='z')).take(MOST_LETTERS * 5 / 3).collect();
        let other: String =
            std::iter::repeat_with(|| random.char('a'..='z')).take(MOST_LETTERS * 5 / 3).collect();
        let copy = noisy(&text, &mut random, 0.02);
        let [text, other, copy, part, short] = [&text, &other, &copy, &text[..MOST_LETTERS], &text[..9_000]]
            .map(|text| Aligned::of(profile, text));
        assert!(text.is_near(&copy, 0.5) && !text.is_near(&other, 0.5) && !text.is_near(&short, 0.5));
        assert!(text.is_near(&part, 0.5) && !other.is_near(&part, 0.5));
    }
}
