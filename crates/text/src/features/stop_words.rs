//! Stop words: words that carry no information about the topic of a text, and so cannot be keywords.
//!
//! Lists are normalised when they are read, except that of cppjieba, whose texts are not normalised. Not
//! here: normalisation of the words that are looked up.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use foldhash::fast::FixedState;

use crate::normalise;

/// A list of stop words. A clone shares the list.
#[derive(Clone, Debug, Default)]
pub struct StopWords {
    /// Each word of a text is looked up here, so the hasher is fast. It needs no random seed, because the
    /// texts that an attacker chooses do not enter the set.
    words: Arc<HashSet<String, FixedState>>,
}

static BUILT_IN: LazyLock<StopWords> =
    LazyLock::new(|| StopWords::parse(include_str!("../../assets/stopwords.txt")));
static CPPJIEBA: LazyLock<StopWords> = LazyLock::new(|| {
    let lines = include_str!("../../assets/stopwords-cppjieba.txt").lines();
    StopWords { words: Arc::new(lines.map(str::to_owned).collect()) }
});

impl StopWords {
    /// Chinese and English stop words, written for this project.
    pub fn built_in() -> StopWords {
        BUILT_IN.clone()
    }

    /// The stop words of cppjieba, unchanged (see `assets/README.md`).
    pub fn cppjieba() -> StopWords {
        CPPJIEBA.clone()
    }

    /// Words with white space between them. A line that begins with `#` is a comment.
    pub fn parse(lines: &str) -> StopWords {
        let lines = lines.lines().filter(|line| !line.starts_with('#'));
        StopWords { words: Arc::new(lines.flat_map(str::split_whitespace).map(normalise).collect()) }
    }

    /// A number that distinguishes lists: `XXH3` of the sorted words, joined by line breaks.
    pub fn digest(&self) -> u64 {
        let mut words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        words.sort_unstable();
        xxhash_rust::xxh3::xxh3_64(words.join("\n").as_bytes())
    }

    /// Whether this normalised word is in the list.
    #[inline]
    pub fn contains(&self, word: &str) -> bool {
        self.words.contains(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_their_words() {
        assert!(StopWords::built_in().contains("我们") && !StopWords::built_in().contains("飞碟"));
        assert!(StopWords::cppjieba().contains("我们") && StopWords::cppjieba().contains("the"));
        assert!(StopWords::parse("# no\nＴhe  of").contains("the") && !StopWords::default().contains("the"));
    }
}
