//! Stop words: words that say nothing about what a text is about, and are no keywords.
//!
//! Leaves out: normalisation of what is asked; a list is normalised when it is read, but for cppjieba's, whose
//! texts are not.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use foldhash::fast::FixedState;

use crate::text::normalise;

/// A list of stop words. A clone is the same list.
#[derive(Clone, Debug, Default)]
pub struct StopWords {
    /// Asked for every word of a text, so that the hasher is a fast one; nobody can choose what is in it.
    words: Arc<HashSet<String, FixedState>>,
}

static BUILT_IN: LazyLock<StopWords> =
    LazyLock::new(|| StopWords::parse(include_str!("../../assets/stopwords.txt")));
static CPPJIEBA: LazyLock<StopWords> = LazyLock::new(|| {
    let lines = include_str!("../../assets/stopwords-cppjieba.txt").lines();
    StopWords { words: Arc::new(lines.map(str::to_owned).collect()) }
});

impl StopWords {
    /// Chinese and English ones, written for this project.
    pub fn built_in() -> StopWords {
        BUILT_IN.clone()
    }

    /// Those of cppjieba, as they are there (see `assets/README.md`).
    pub fn cppjieba() -> StopWords {
        CPPJIEBA.clone()
    }

    /// Words with white space between them. A line that begins with `#` is a comment.
    pub fn parse(lines: &str) -> StopWords {
        let lines = lines.lines().filter(|line| !line.starts_with('#'));
        StopWords { words: Arc::new(lines.flat_map(str::split_whitespace).map(normalise).collect()) }
    }

    /// A number that tells lists apart: `XXH3` of the words in order, a line each.
    pub fn digest(&self) -> u64 {
        let mut words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        words.sort_unstable();
        xxhash_rust::xxh3::xxh3_64(words.join("\n").as_bytes())
    }

    /// Whether this normalised word is one of them.
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
