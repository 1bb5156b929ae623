//! Keywords: the words of a text that are frequent in it and rare elsewhere (TF-IDF), and only the first of them.
//!
//! Candid: keywords say what a text is about, not where it was copied from. Two reports of one event share their
//! keywords: of the pairs within 3 bits of 64, 83 in 100 were false on Chinese documentation and 55 in 100 on
//! Reuters news. For copies use shingles.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::LazyLock;

use super::idf::idf;
use crate::text::{NewWords, runs, words};

static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("../../assets/stopwords.txt").lines();
    lines.filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect()
});

/// A word of a text and how well it describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyword {
    /// The word, normalised and simplified.
    pub word: String,
    /// Its count in the text times its inverse document frequency; more than 0.
    pub weight: f64,
}

/// The at most `top` keywords of a normalised text, the weightiest first, equals by the order of their bytes.
///
/// Words of one character, stop words and numbers are none. A word that the table of frequencies does not have
/// is taken to be as rare as the mean of those it has.
pub fn keywords(normalised: &str, top: usize) -> Vec<Keyword> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for run in runs(normalised) {
        words(run, NewWords::Guess, |word| count(word, &mut counts));
    }
    let weigh = |(word, count): (String, u32)| {
        let weight = f64::from(count) * f64::from(idf(&word));
        Keyword { word, weight }
    };
    let mut found: Vec<_> = counts.into_iter().map(weigh).collect();
    // The map gives words in order and the sort is stable, so that equals stay in order.
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    found.truncate(top);
    found
}

fn count(word: &str, counts: &mut BTreeMap<String, u32>) {
    if !is_candidate(word) {
        return;
    }
    match counts.get_mut(word) {
        Some(count) => *count = count.saturating_add(1),
        None => {
            counts.insert(word.to_owned(), 1);
        }
    }
}

fn is_candidate(word: &str) -> bool {
    let is_number = || word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b',');
    word.chars().nth(1).is_some() && !is_number() && !STOP_WORDS.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_frequent_here_and_rare_elsewhere() {
        let found = keywords("美国飞碟专家认为,我们的飞碟不是飞碟,而是 3.14 个气球 balloon the。", 3);
        let words: Vec<_> = found.iter().map(|keyword| keyword.word.as_str()).collect();
        assert_eq!(words, ["飞碟", "balloon", "气球"]);
        assert!(found[0].weight > found[1].weight);
    }

    #[test]
    fn stop_words_numbers_and_single_characters_are_none() {
        assert_eq!(keywords("我们 的 因为 2023 the and of 了", 20), []);
    }

    #[test]
    fn equals_are_in_the_order_of_words() {
        let found = keywords("zeta alpha mid", 2);
        assert_eq!(found.iter().map(|keyword| keyword.word.as_str()).collect::<Vec<_>>(), ["alpha", "mid"]);
    }
}
