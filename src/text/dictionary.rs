//! The dictionary of Chinese words: jieba's, alone or with words of a user's own, and how to cut by it.
//!
//! Promises: the same text and words give the same cut on every machine. Leaves out: the scripts that jieba does
//! not know, and simplification, which are for who calls.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use jieba_rs::Jieba;

use super::cppjieba;
use super::lexicon::Lexicon;
use super::segment::NewWords;

static PACKED: &[u8] = include_bytes!("../../assets/words.txt.gz");

/// A tenth of a second to load; shared, since it is read only.
static BUILT_IN: LazyLock<Lexicon> = LazyLock::new(|| {
    let text = unpacked();
    Lexicon::of(entries(&text)).expect("the built-in dictionary is not too large")
});

/// Chinese words with their frequencies.
#[derive(Debug)]
pub struct Dictionary {
    /// jieba's dictionary with words of a user's own; without any it is `BUILT_IN`, which is loaded when a first
    /// Chinese word is to be cut.
    own: Option<Lexicon>,
}

/// Words of a user that cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum WrongWord {
    /// A line that is none.
    #[error("line {line} of the dictionary, {text:?}, is not a word, or a word, a space and its frequency")]
    Line {
        /// Its number.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// The lexicon has no room for them.
    #[error("the dictionary has too many words, or too many different frequencies: at most 65,535 of them")]
    TooMany,
}

impl Dictionary {
    /// jieba's dictionary of 349,000 words.
    pub fn built_in() -> &'static Dictionary {
        &Dictionary { own: None }
    }

    /// jieba's dictionary and these words: one a line, with a space and a frequency if it has one, and a part of
    /// speech, which is passed over. Without a frequency a word gets one that makes it win over its parts.
    /// Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// [`WrongWord`] names the first line that is something else.
    ///
    /// # Panics
    /// Never: the built-in dictionary can be read.
    pub fn with_words(lines: &str) -> Result<Dictionary, WrongWord> {
        let built_in = unpacked();
        let mut words = entries(&built_in);
        // jieba says what frequency makes a word win.
        let mut jieba = Jieba::with_dict(&mut built_in.as_bytes()).expect("lines of words and frequencies");
        for (line, text) in (1..).zip(lines.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let mut parts = text.split_whitespace();
            let word = parts.next().unwrap_or_default();
            let frequency = parts.next().map(str::parse).transpose();
            let frequency =
                frequency.map_err(|_| WrongWord::Line { line, text: text.chars().take(40).collect() })?;
            words.push((word, jieba.add_word(word, frequency, None)));
        }
        // Of words that are given twice the last one counts.
        words.reverse();
        words.sort_by_key(|&(word, _)| word);
        words.dedup_by_key(|&mut (word, _)| word);
        Ok(Dictionary { own: Some(Lexicon::of(words).ok_or(WrongWord::TooMany)?) })
    }

    fn lexicon(&self) -> &Lexicon {
        self.own.as_ref().unwrap_or_else(|| &BUILT_IN)
    }

    /// Hands the words of a text to `each`, in order, and what stands between them character by character.
    pub fn cut(&self, text: &str, new_words: NewWords, each: impl FnMut(&str)) {
        match new_words {
            NewWords::Split => self.lexicon().cut(text, each),
            NewWords::Guess => self.lexicon().cut_and_guess(text, each),
        }
    }

    /// The same as cppjieba cuts: see `cppjieba`.
    pub fn cut_like_cppjieba(&self, text: &str, each: impl FnMut(&str)) {
        cppjieba::cut(self.lexicon(), text, each);
    }
}

/// The lines of the built-in dictionary: a word, a space and its frequency, in the order of their bytes.
fn unpacked() -> String {
    let mut text = String::new();
    GzDecoder::new(PACKED).read_to_string(&mut text).expect("the program contains what it was built with");
    text
}

fn entries(text: &str) -> Vec<(&str, usize)> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(word, count)| Some((word, count.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(dictionary: &Dictionary, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        dictionary.cut(text, NewWords::Split, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn words_of_a_user_are_found_whole() {
        assert_eq!(cut(Dictionary::built_in(), "江大桥讲话"), ["江", "大桥", "讲话"]);
        let own = Dictionary::with_words("# people\n江大桥\n\n讲话 5000 v\n").unwrap();
        assert_eq!(cut(&own, "江大桥讲话"), ["江大桥", "讲话"]);
    }

    /// jieba-rs with the same words, which is what both ways to cut are held against.
    fn jieba(own: &[(&str, Option<usize>)]) -> Jieba {
        let mut jieba = Jieba::with_dict(&mut unpacked().as_bytes()).unwrap();
        own.iter().for_each(|(word, frequency)| _ = jieba.add_word(word, *frequency, None));
        jieba
    }

    fn assert_cuts_alike(dictionary: &Dictionary, jieba: &Jieba, text: &str) {
        for new_words in [NewWords::Split, NewWords::Guess] {
            let mut found = Vec::new();
            dictionary.cut(text, new_words, |word| found.push(word.to_owned()));
            let expected: Vec<&str> =
                jieba.cut(text, new_words == NewWords::Guess).iter().map(|token| token.word).collect();
            assert_eq!(found, expected, "{new_words:?} {text}");
        }
    }

    #[test]
    fn texts_are_cut_as_jieba_cuts_them() {
        let own =
            [("江大桥", None), ("讲话", Some(5000)), ("大桥讲", None), ("c++", Some(7)), ("𠀀中", Some(0))];
        let lines: Vec<String> = own
            .iter()
            .map(|(word, count)| format!("{word} {}", count.map_or(String::new(), |count| count.to_string())))
            .collect();
        let cases = [
            (Dictionary::built_in(), jieba(&[])),
            (&Dictionary::with_words(&lines.join("\n")).unwrap(), jieba(&own)),
        ];
        let texts = [
            "",
            "我来到北京清华大学。他来到了网易杭研大厦",
            "江大桥讲话,c++ 和 c#,3.5%的 utf-8\r\n\n当上总经理,出任ceo,走上人生巅峰",
            "𠀀𠀁𠀀中㐀龥鿿豈々〇ー한abc-1.2_3 e\u{301}",
            "在一个好的我不是了有人这中大来上国",
        ];
        // Words of the dictionary strung together, so that they overlap in every way.
        let unpacked = unpacked();
        let words: Vec<&str> = unpacked.lines().map(|line| line.split(' ').next().unwrap()).collect();
        let strung = |seed: usize| -> String {
            (0..60).map(|at| words[(seed * 7919 + at * at * 104_729 + at * 31) % words.len()]).collect()
        };
        for (dictionary, jieba) in &cases {
            texts.iter().for_each(|text| assert_cuts_alike(dictionary, jieba, text));
            (0..400).for_each(|seed| assert_cuts_alike(dictionary, jieba, &strung(seed)));
        }
    }

    #[test]
    fn a_line_that_is_no_word_is_named() {
        let error = Dictionary::with_words("江大桥\n讲话 often\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of the dictionary, \"讲话 often\", is not a word, or a word, a space and its frequency"
        );
    }
}
