//! How far one changed word moves a fingerprint.
//!
//! A word is in some features. If it is replaced, their weights leave the vote and those of the features of
//! the new word enter it. A bit flips if this turns the sign of its sum, which is more likely the smaller
//! the sum is. With `T` the sum of the squared weights of all features, `r` the share of `T` that leaves and
//! `a` the share that enters, a sum `S` becomes a normal variable of mean `S (1 − r)` and variance
//! `T (r (1 − r) + a)`: the part of `S` that is due to the features that leave is known only by
//! expectation. The probabilities of the bits add up to the mean and the variance of the distance, and a
//! normal distribution gives the probability that it is at most k.
//!
//! `r` and `a` follow from the kind of features and the number of words, so no feature is attributed to its
//! word. `docs/figures/short.md` compares the result with counts. Guarantees: the same on every machine.
//! Not here: the features (`recipe`).

use std::sync::LazyLock;

use super::recipe::{Features, Recipe};
use super::vote::Sums;
use crate::features::{Half, Units};
use lookalike_hash::SignatureShape;

/// The sensitivity below which a text is [`super::Status::Short`].
pub(super) const RELIABLE: f64 = 0.9;
/// The sensitivity at which a larger k is not worth its wrong matches.
const NEARLY_ALL: f64 = 0.99;

/// The distance between a fingerprint and that of the same text with one word changed, in bits or cells, as
/// a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Its mean, in 1/256.
    mean: u16,
    /// Its variance, in 1/256.
    variance: u16,
}

impl Moved {
    fn new(mean: f64, variance: f64) -> Moved {
        Moved { mean: (mean * 256.0) as u16, variance: (variance * 256.0) as u16 }
    }

    /// The probability that the distance is at most `k`, to the nearest thousandth.
    pub fn within(self, k: u32) -> f64 {
        let above = f64::from(k) + 0.5 - f64::from(self.mean) / 256.0;
        let deviation = libm::sqrt(f64::from(self.variance.max(1)) / 256.0);
        let probability = libm::erfc(-above / deviation * std::f64::consts::FRAC_1_SQRT_2) / 2.0;
        libm::round(probability * 1_000.0) / 1_000.0
    }

    /// The least k from `least` to `usual` at which a copy with one changed word is found with a probability
    /// of [`NEARLY_ALL`], or at `usual` of [`RELIABLE`]; otherwise one more than `usual`.
    ///
    /// A larger k finds more unrelated texts, so a text has no larger k than it needs.
    pub(super) fn least_k(self, least: u32, usual: u32) -> u32 {
        let wanted = |k: u32| if k < usual { NEARLY_ALL } else { RELIABLE };
        (least..=usual).find(|&k| self.within(k) >= wanted(k)).unwrap_or(usual + 1)
    }
}

/// The shares of the sum of squared weights that one changed word takes away and adds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    removed: f64,
    added: f64,
    /// The standard deviation of these shares among the words of a text, as a share of them.
    spread: f64,
}

/// Characters in a word of Chinese or Japanese, and of Thai, Lao, Khmer or Burmese, on average.
const CHARACTERS: [f64; 2] = [1.7, 4.0];
/// Clusters of letters in a word of Thai, on average.
const CLUSTERS: f64 = 2.6;
/// The features that enter, as a multiple of those that leave, where a segmenter cuts a word with one other
/// character into several.
const SPLIT: f64 = 1.6;
/// Grams that begin at the first letter of a word extend over fewer spaces than those that begin anywhere.
const STEPPED: f64 = 0.65;
/// [`Change::spread`] of scripts with spaces, whose words differ in length, and of others, where the
/// segmenter may cut differently.
const SPREAD: [f64; 2] = [0.25, 0.45];

impl Change {
    /// The change of one word of a prepared text.
    pub(super) fn of(recipe: &Recipe, prepared: &str) -> Change {
        if matches!(recipe.features, Features::Sentences { as_one: true, .. }) {
            // One feature: it is replaced if a word of these sentences changes, which any word may be.
            return Change { removed: 1.0, added: 1.0, spread: 0.0 };
        }
        let units = Units::of(prepared);
        let dense = [units.ideographs / CHARACTERS[0], units.south_east_asian / CHARACTERS[1]];
        let all = units.words + dense[0] + dense[1];
        let touched = Touched::of(recipe, &units);
        let of_spaced = units.words * touched.spaced;
        let of_each = |script: usize| dense[script] * touched.dense[script];
        let of_dense = of_each(0) + of_each(1);
        // The chance that a word is of a script, times the features that it is part of, as a share of all.
        let share = |touched: f64| (touched / all.max(1.0).powi(2)).min(1.0);
        Change {
            removed: share(of_spaced + of_dense),
            added: share(of_spaced + of_each(0) * touched.split[0] + of_each(1) * touched.split[1]),
            spread: (of_spaced * SPREAD[0] + of_dense * SPREAD[1])
                / (of_spaced + of_dense).max(f64::MIN_POSITIVE),
        }
    }
}

/// The squared weights of the features that one changed word is part of, relative to those of the features
/// per word.
struct Touched {
    spaced: f64,
    /// For each of [`CHARACTERS`].
    dense: [f64; 2],
    /// The squared weights that enter, as a multiple of those that leave, for each of [`CHARACTERS`].
    split: [f64; 2],
}

impl Touched {
    fn of(recipe: &Recipe, units: &Units) -> Touched {
        let letters = (units.letters / units.words.max(1.0)).max(1.0);
        // A gram overlaps one word, and another one for each space that it extends over.
        let gram = |length: usize, reach: f64| 1.0 + reach * (length as f64 - 1.0) / (letters + 1.0);
        let words = |overlap: f64| Touched { spaced: overlap, dense: [overlap; 2], split: [SPLIT; 2] };
        match &recipe.features {
            Features::Shingles(plan) => {
                let single = if plan.half == Half::SingleCharacters { 1.6 } else { 1.5 };
                // A gram of Thai is a third as many clusters, and a changed character is in one of them.
                let of_clusters = plan.gram.div_ceil(3) as f64 / CLUSTERS;
                // Words of Hangul are joined, so a changed one is in the grams that begin before it, too.
                let hangul = units.syllables / units.letters.max(1.0);
                let of_syllables = 1.0 + (plan.gram.div_ceil(3) as f64 - 1.0) / letters;
                let of_letters = gram(plan.gram, if plan.step > 1 { STEPPED } else { 1.0 });
                Touched {
                    spaced: hangul * of_syllables + (1.0 - hangul) * of_letters,
                    dense: [single, of_clusters],
                    split: [SPLIT, 1.0],
                }
            }
            Features::Words(plan) => words((plan.shortest + plan.longest) as f64 / 2.0),
            Features::Characters { length, .. } => {
                let dense = CHARACTERS.map(|characters| *length as f64 / characters);
                Touched { spaced: gram(*length, 1.0), dense, split: [1.0; 2] }
            }
            // Every second token is a word.
            Features::Letters(units) => Touched {
                spaced: gram(*units, 1.0),
                dense: [*units as f64 / 2.0 / CHARACTERS[0], *units as f64 / CHARACTERS[1]],
                split: [1.0; 2],
            },
            Features::Code(plan) => words(plan.tokens as f64 / 2.0),
            Features::Sentences { .. } | Features::Supplied | Features::Images => words(1.0),
            Features::ShortTexts => Touched::of_short_texts(units, letters),
        }
    }

    /// Features of the lesser weight have nine sixteenths of the squared weight of others.
    fn of_short_texts(units: &Units, letters: f64) -> Touched {
        const LESS: f64 = 9.0 / 16.0;
        let hangul = units.syllables / units.letters.max(1.0);
        let of_words = (1.0 + 2.0 * LESS) / (1.0 + LESS);
        let of_syllables = (1.0 + (letters + 1.0) * LESS) / (1.0 + letters * LESS);
        let of_characters = (2.0 + 4.0 * LESS) / (1.0 + 2.0 * LESS);
        let of_longer_grams = (3.0 + 4.0 * LESS) / (1.0 + LESS);
        Touched {
            spaced: hangul * of_syllables + (1.0 - hangul) * of_words,
            dense: [of_characters / CHARACTERS[0], of_longer_grams / CHARACTERS[1]],
            split: [1.0; 2],
        }
    }
}

/// The distance that a change moves a hash with these sums of votes, and this sum of squared weights.
pub(super) fn moved_bits<const L: usize>(sums: &Sums<L>, squares: f64, change: Change) -> Moved {
    let Change { removed, added, spread } = change;
    let deviation = libm::sqrt(squares * (removed * (1.0 - removed) + added)).max(f64::MIN_POSITIVE);
    let scale = (1.0 - removed) / deviation * STEPS;
    let (mut mean, mut variance) = (0.0, 0.0);
    let flips_at: &[f64; ENTRIES + 1] = &FLIPS;
    for &sum in sums.as_flattened() {
        // Without a branch: whether a sum is beyond the table is unpredictable.
        let at = ((sum.abs() as f64 * scale) as usize).min(ENTRIES);
        let flips = flips_at[at];
        mean += flips;
        variance += flips * (1.0 - flips);
    }
    // The distance grows with the square root of the share.
    Moved::new(mean, variance + (mean * spread / 2.0).powi(2))
}

/// Entries per standard deviation.
const STEPS: f64 = 64.0;

/// The entries of the table, up to six standard deviations.
const ENTRIES: usize = 384;

/// The probability that a normal variable exceeds the middle of each step; 0 beyond the last one.
static FLIPS: LazyLock<[f64; ENTRIES + 1]> = LazyLock::new(|| {
    let middle = |at: usize| (at as f64 + 0.5) / STEPS;
    let flips = |at: usize| libm::erfc(middle(at) * std::f64::consts::FRAC_1_SQRT_2) / 2.0;
    std::array::from_fn(|at| if at < ENTRIES { flips(at) } else { 0.0 })
});

/// The distance that a change moves a signature.
///
/// A minimum differs with the probability 1 − J, where J is the Jaccard similarity of the sets. Of a set of
/// sentences, one is changed.
pub(super) fn moved_cells(shape: SignatureShape, features: usize, change: Change) -> Moved {
    if shape.is_set {
        let differ = if features > 1 { 1.0 } else { f64::from(shape.cells) };
        return Moved::new(differ, 0.0);
    }
    let differ = (change.removed + change.added) / (1.0 + change.added);
    let cells = f64::from(shape.cells);
    let between = (cells * differ * change.spread).powi(2);
    Moved::new(cells * differ, (cells * differ * (1.0 - differ) + between).min(255.0))
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use crate::fingerprint::Profile;

    #[test]
    fn k_depends_on_the_text_only_for_short_texts() {
        let texts = [
            ("word", 31),
            ("Fish and chips, battered fish and fried potatoes, is a dish that came from England.", 25),
            (
                "東京タワーは、東京都港区芝公園にある総合電波塔である。\
                 観光名所として知られる。",
                23,
            ),
        ];
        let short = Profile::named("short-128").unwrap();
        for (text, k) in texts {
            assert_eq!(short.fingerprint(text).k, k, "{text}");
            for profile in Profile::all().iter().filter(|profile| !profile.is_for_short_texts()) {
                assert_eq!(profile.fingerprint(text).k, profile.default_k(), "{}", profile.id());
            }
        }
    }

    #[test]
    fn a_longer_text_is_less_sensitive_and_a_larger_k_finds_more() {
        let profile = Profile::named("copies-128").unwrap();
        let of = |words: usize| {
            let text: String = (0..words).map(|n| format!("letters{} ", n * n)).collect();
            profile.fingerprint(&text).moved
        };
        let found: Vec<f64> = [4, 8, 16, 32, 64].map(|words| of(words).within(23)).to_vec();
        assert!(found.is_sorted() && found[0] < 0.5 && found[4] > 0.99, "{found:?}");
        let by_k: Vec<f64> = [0, 11, 23, 64, 128].map(|k| of(8).within(k)).to_vec();
        assert!(by_k.is_sorted() && by_k[0] < 0.1 && by_k[4] > 0.999, "{by_k:?}");
    }
}
