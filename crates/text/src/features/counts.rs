//! How often a text has each of its words, and the cosine of two such counts.
//!
//! All words count, those without a topic as well: "did approve" and "did not approve" differ in one of
//! them. Words are normalised, Chinese ones in the simplified script. Not here: weights by rarity
//! (`keywords`).

use xxhash_rust::xxh3::xxh3_64;

use super::stop_words::StopWords;
use super::words::{Cutter, WordPlan};
use crate::{Dictionary, normalise};

/// The distinct words of a text, each with the number of times that it occurs.
#[derive(Clone, Debug, PartialEq)]
pub struct WordCounts {
    /// The 64-bit `XXH3` of each word, in order, and its number.
    counts: Vec<(u64, f64)>,
    /// The length of the vector of these numbers.
    length: f64,
}

impl WordCounts {
    /// The counts of a text.
    pub fn of(text: &str) -> WordCounts {
        let plan = WordPlan {
            cutter: Cutter::Split,
            least_characters: 1,
            drops_numbers: false,
            stop_words: StopWords::default(),
            shortest: 1,
            longest: 1,
        };
        let mut words = Vec::new();
        plan.words(&normalise(text), Dictionary::built_in(), |word| words.push(xxh3_64(word.as_bytes())));
        // Sorting, not a hash table, because an attacker who chooses the text could make a table slow.
        words.sort_unstable();
        let counts: Vec<(u64, f64)> =
            words.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as f64)).collect();
        let length = counts.iter().map(|(_, count)| count * count).sum::<f64>().sqrt();
        WordCounts { counts, length }
    }

    /// The cosine of the angle between two counts, 0 to 1: 1 if the texts have the same words equally often,
    /// 0 if they have none in common, or if one has none (Salton, Wong and Yang, "A vector space model for
    /// automatic indexing", 1975).
    ///
    /// ```
    /// use lookalike_text::features::WordCounts;
    ///
    /// let [a, b] = ["to be or not to be", "to be"].map(WordCounts::of);
    /// assert!((a.cosine(&a) - 1.0).abs() < 1e-12);
    /// // (2 · 1 + 2 · 1) ÷ (√10 · √2)
    /// assert!((a.cosine(&b) - 0.894_427).abs() < 1e-6);
    /// ```
    pub fn cosine(&self, other: &WordCounts) -> f64 {
        if self.counts == other.counts {
            return if self.counts.is_empty() { 0.0 } else { 1.0 };
        }
        let (mut at, mut dot) = (0, 0.0);
        for (word, count) in &self.counts {
            while other.counts.get(at).is_some_and(|(of_other, _)| of_other < word) {
                at += 1;
            }
            let of_other = other.counts.get(at).filter(|(of_other, _)| of_other == word);
            dot += of_other.map_or(0.0, |(_, of_other)| count * of_other);
        }
        let lengths = self.length * other.length;
        if lengths > 0.0 { (dot / lengths).min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str) -> f64 {
        WordCounts::of(a).cosine(&WordCounts::of(b))
    }

    #[test]
    fn the_worked_example_of_the_literature_has_its_value() {
        // Cut as in the literature: 13 ÷ √(12 · 16).
        let a = "我 喜欢 看 电视 不 喜欢 看 电影";
        let b = "我 不 喜欢 看 电视 也 不 喜欢 看 电影";
        assert!((cosine(a, b) - 13.0 / 192.0_f64.sqrt()).abs() < 1e-12, "{}", cosine(a, b));
        assert!((cosine(a, b) - 0.938).abs() < 5e-4);
        // Cut by jieba, which has 看电视 as one word: 10 ÷ √(9 · 13).
        let a = "我喜欢看电视，不喜欢看电影。";
        let b = "我不喜欢看电视，也不喜欢看电影。";
        assert!((cosine(a, b) - 10.0 / 117.0_f64.sqrt()).abs() < 1e-12, "{}", cosine(a, b));
        assert!((cosine(a, b) - 0.9245).abs() < 5e-5);
    }

    #[test]
    fn all_words_count() {
        // 2 ÷ (√2 · √3)
        assert!((cosine("did approve", "did not approve") - 0.816_497).abs() < 1e-6);
        assert!((cosine("3 of 4", "3 of 5") - 2.0 / 3.0).abs() < 1e-12);
        assert!((cosine("a a a b", "a b b b") - 0.6).abs() < 1e-12);
        assert_eq!(cosine("fish", "chips").to_bits(), 0.0_f64.to_bits());
        assert_eq!(cosine("!", "!").to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn order_case_marks_and_script_do_not_count() {
        for (a, b) in [
            ("To be, or not to be!", "be to NOT or be to"),
            ("臺灣的電腦", "台湾的电脑"),
            ("Ｆｕｌｌ width", "full width"),
        ] {
            assert!((cosine(a, b) - 1.0).abs() < 1e-12, "{a}: {}", cosine(a, b));
        }
    }
}
