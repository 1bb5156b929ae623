//! The words that letter grams come from, for people: `bour ` comes from `harbour`.
//!
//! Costs a pass over the text. Not here: grams of scripts without spaces, which are as readable as words.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::{System, is_word_character, runs};

/// The most words, or groups of words, that are given for a gram.
const WORDS: usize = 3;
/// The most characters of a word on each side of a gram. Without a limit, the words of a text of one long
/// word would take its length for each gram.
const AROUND: usize = 40;

/// The words of the runs of a text that are written with spaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origins {
    /// A line for each run: its words with one space between them.
    lines: String,
    /// The number of characters of a gram.
    gram: usize,
}

impl Origins {
    /// The words of a normalised text that is cut into grams of this number of characters.
    pub fn of(normalised: &str, gram: usize) -> Origins {
        let mut lines = String::new();
        for run in runs(normalised).filter(|run| run.system == System::Spaced) {
            for word in run.text.split(|c| !is_word_character(c)).filter(|word| !word.is_empty()) {
                lines.push_str(word);
                lines.push(' ');
            }
            if lines.ends_with(' ') {
                lines.pop();
                lines.push('\n');
            }
        }
        Origins { lines, gram }
    }

    /// The words that overlap these grams, for each gram in the order of the text, each once, at most 3. A
    /// gram that does not come from words with spaces has none.
    ///
    /// ```
    /// use lookalike_text::features::Origins;
    ///
    /// let origins = Origins::of("the harbour, the ferry", 5);
    /// let words = origins.words(["bour ", "the h", "天气"].into_iter());
    /// assert_eq!((&words["bour "], &words["the h"]), (&vec!["harbour"], &vec!["the harbour"]));
    /// assert!(words["天气"].is_empty());
    /// ```
    pub fn words<'t>(
        &'t self,
        grams: impl Iterator<Item = &'t str>,
    ) -> HashMap<&'t str, Vec<&'t str>, RandomState> {
        let mut found: HashMap<&str, Vec<&str>, RandomState> = grams.map(|gram| (gram, Vec::new())).collect();
        let mut see = |line: &'t str, start: usize, end: usize| {
            if let Some(words) = found.get_mut(&line[start..end]).filter(|words| words.len() < WORDS) {
                let word = around(line, start, end);
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        };
        for line in self.lines.lines() {
            let starts = line.char_indices().map(|(at, _)| at);
            let ends = starts.clone().skip(self.gram).chain([line.len()]);
            // A line shorter than a gram is one gram.
            starts.zip(ends).for_each(|(start, end)| see(line, start, end));
        }
        found
    }
}

/// The part of a line, with the rest of the words that it cuts.
fn around(line: &str, start: usize, end: usize) -> &str {
    let is_letter = |(_, c): &(usize, char)| *c != ' ';
    let (before, gram, after) = (&line[..start], &line[start..end], &line[end..]);
    let mut from = start;
    if !gram.starts_with(' ') {
        let letters = before.char_indices().rev().take(AROUND).take_while(is_letter);
        from = letters.last().map_or(start, |(at, _)| at);
    }
    let mut to = end;
    if !gram.ends_with(' ') {
        let letters = after.char_indices().take(AROUND).take_while(is_letter);
        to = letters.last().map_or(end, |(at, c)| end + at + c.len_utf8());
    }
    line[from..to].trim()
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{Kind, ShinglePlan, shingles};
    use crate::{Dictionary, normalise};

    fn words(text: &str, gram: usize, of: &str) -> Vec<String> {
        let origins = Origins::of(text, gram);
        origins.words([of].into_iter())[of].iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_gram_has_the_words_that_it_overlaps() {
        assert_eq!(words("a nation, a station; nations", 5, "ation"), ["nation", "station", "nations"]);
        assert_eq!(words("run every twenty minutes", 5, "ry tw"), ["every twenty"]);
        assert_eq!(words("a an in to be", 5, "an in"), ["an in"]);
        assert_eq!(words("fox jumps", 5, " jump"), ["jumps"]);
        assert_eq!(words("abc", 5, "abc"), ["abc"]);
        assert!(words("天气 rust", 5, "天气").is_empty());
        assert_eq!(words(&"a".repeat(1_000), 5, "aaaaa")[0].len(), 5 + AROUND);
        assert_eq!(words("one\u{e9}two three", 5, "\u{e9}two "), ["one\u{e9}two"]);
    }

    #[test]
    fn every_gram_of_words_with_spaces_has_words_around_it() {
        let text = normalise(
            "Fish & chips — 用rust写, 5 o'clock: the день «привет» naïve fiancé. \
             好天气",
        );
        let origins = Origins::of(&text, ShinglePlan::COPIES_64.gram);
        let mut grams = Vec::new();
        shingles(&text, ShinglePlan::COPIES_64, Dictionary::built_in(), |kind, gram| {
            if kind == Kind::Gram {
                grams.push(gram.to_owned());
            }
        });
        let found = origins.words(grams.iter().map(String::as_str));
        assert!(grams.len() > 10);
        for gram in &grams {
            let words = &found[gram.as_str()];
            assert!(
                !words.is_empty() && words.iter().all(|word| word.contains(gram.trim())),
                "{gram:?} {words:?}"
            );
        }
    }
}
