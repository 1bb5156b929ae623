//! Words as features: the cutter that finds them, the words that are kept, and the number of adjacent words
//! in a feature.
//!
//! Not here: weights, and the selection by weight (`keywords`).

use super::digest::Kind;
use super::stop_words::StopWords;
use crate::{CutsWords, NewWords, runs};

/// The method that finds the words of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cutter {
    /// A segmenter for each script; Chinese words that the dictionary does not have are split.
    Split,
    /// As `Split`, but jieba's hidden Markov model guesses where such words begin and end.
    Guess,
    /// The whole text is cut by jieba with the rules of cppjieba; nothing is dropped or simplified.
    Cppjieba,
}

impl Cutter {
    /// All cutters, with their names in profile definitions.
    pub const NAMES: [(&'static str, Cutter); 3] =
        [("split", Cutter::Split), ("guess", Cutter::Guess), ("cppjieba", Cutter::Cppjieba)];
}

/// The parameters of words as features.
#[derive(Clone, Debug)]
pub struct WordPlan {
    /// The method that finds the words.
    pub cutter: Cutter,
    /// Words with fewer characters are dropped.
    pub least_characters: usize,
    /// Whether numbers are dropped.
    pub drops_numbers: bool,
    /// Words to be dropped.
    pub stop_words: StopWords,
    /// The fewest adjacent words in a feature, 1 or more. Words are adjacent even if dropped words are
    /// between them.
    pub shortest: usize,
    /// The most adjacent words in a feature.
    pub longest: usize,
}

impl WordPlan {
    fn keeps(&self, word: &str) -> bool {
        let is_long = || self.least_characters < 2 || word.chars().nth(self.least_characters - 1).is_some();
        let is_number = || word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b',');
        is_long() && !(self.drops_numbers && is_number()) && !self.stop_words.contains(word)
    }

    /// Passes the words that are kept to `each`, in order.
    pub fn words(&self, text: &str, dictionary: &impl CutsWords, mut each: impl FnMut(&str)) {
        let kept = |word: &str| {
            if self.keeps(word) {
                each(word);
            }
        };
        match self.cutter {
            Cutter::Split => cut_runs(text, dictionary, NewWords::Split, kept),
            Cutter::Guess => cut_runs(text, dictionary, NewWords::Guess, kept),
            Cutter::Cppjieba => dictionary.dictionary().cut_like_cppjieba(text, kept),
        }
    }

    /// Passes every feature to `each`, once per occurrence: words, and adjacent words with a space between
    /// them. If the text has fewer words than `shortest`, all of them together are one feature.
    pub fn features(&self, text: &str, dictionary: &impl CutsWords, mut each: impl FnMut(Kind, &str)) {
        let mut line = String::new();
        let mut starts = Vec::new();
        self.words(text, dictionary, |word| {
            if !line.is_empty() {
                line.push(' ');
            }
            starts.push(line.len());
            line.push_str(word);
            for count in self.shortest..=self.longest.min(starts.len()) {
                let kind = match count {
                    1 => Kind::Word,
                    2 => Kind::Pair,
                    _ => Kind::Phrase,
                };
                each(kind, &line[starts[starts.len() - count]..]);
            }
        });
        if !starts.is_empty() && starts.len() < self.shortest {
            each(Kind::Phrase, &line);
        }
    }
}

fn cut_runs(text: &str, dictionary: &impl CutsWords, new_words: NewWords, mut each: impl FnMut(&str)) {
    for run in runs(text) {
        dictionary.words(run, new_words, &mut each);
    }
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dictionary;

    fn plan(shortest: usize, longest: usize) -> WordPlan {
        WordPlan {
            cutter: Cutter::Split,
            least_characters: 1,
            drops_numbers: false,
            stop_words: StopWords::default(),
            shortest,
            longest,
        }
    }

    fn found(plan: &WordPlan, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        plan.features(text, Dictionary::built_in(), |_, text| found.push(text.to_owned()));
        found
    }

    #[test]
    fn adjacent_words_are_features_across_scripts_and_marks() {
        assert_eq!(found(&plan(2, 2), "好天气, fish"), ["好 天气", "天气 fish"]);
        assert_eq!(found(&plan(1, 2), "a b c"), ["a", "b", "a b", "c", "b c"]);
        assert_eq!(found(&plan(3, 3), "a b c d"), ["a b c", "b c d"]);
    }

    #[test]
    fn a_text_shorter_than_a_feature_is_one() {
        assert_eq!(found(&plan(4, 4), "a b"), ["a b"]);
        assert!(found(&plan(4, 4), "。").is_empty());
    }

    #[test]
    fn short_words_numbers_and_stop_words_are_dropped() {
        let stop_words = StopWords::parse("the");
        let plan = WordPlan { least_characters: 2, drops_numbers: true, stop_words, ..plan(1, 1) };
        assert_eq!(found(&plan, "the 12 4.5 x fish 天气好"), ["fish", "天气"]);
    }
}
