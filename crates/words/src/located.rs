//! A text cut into tokens with their places: words of scripts with spaces, single characters of Chinese,
//! Japanese, Thai, Lao, Khmer and Burmese, each with the marks behind it.
//!
//! Tokens whose normal forms are equal ([`normalise()`] and [`folded()`]) have equal digests: case, width and
//! invisible characters make no difference. What is between tokens belongs to none. A place is one of bytes
//! in the text as it is, which is not normalised as a whole. Not here: words of Chinese, and simplified for
//! traditional characters.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use xxhash_rust::xxh3::xxh3_64;

use super::class::Class;
use super::{folded, normalise};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The digest of its normal form.
    pub digest: u64,
    /// The first of its bytes.
    pub from: u32,
    /// The byte behind it.
    pub to: u32,
}

/// What a character is for a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Word,
    Single,
    /// It belongs to the token before it.
    Mark,
    /// It is invisible, and ends no token.
    Invisible,
    Nothing,
}

impl Part {
    #[inline]
    fn of(c: char) -> Part {
        if c.is_ascii() {
            return if c.is_ascii_alphanumeric() { Part::Word } else { Part::Nothing };
        }
        match Class::of(c) {
            // Marks of kana of half the width.
            _ if matches!(c, '\u{ff9e}' | '\u{ff9f}') => Part::Mark,
            Class::Letter | Class::Digit => Part::Word,
            Class::Han | Class::Kana | Class::SouthEastAsian => Part::Single,
            Class::Mark => Part::Mark,
            Class::Other if c.is_whitespace() || !normalise(c.encode_utf8(&mut [0; 4])).is_empty() => {
                Part::Nothing
            }
            Class::Other => Part::Invisible,
        }
    }
}

/// The tokens of a text, in order.
///
/// ```
/// let text = "The FERRY, 渡轮!";
/// let found = lookalike_words::located(text);
/// let words: Vec<&str> = found.iter().map(|token| &text[token.from as usize..token.to as usize]).collect();
/// assert_eq!(words, ["The", "FERRY", "渡", "轮"]);
/// assert_eq!(found[1].digest, lookalike_words::located("ferry")[0].digest);
/// ```
///
/// # Panics
/// For a text of 4 GiB and more.
pub fn located(text: &str) -> Vec<Located> {
    u32::try_from(text.len()).expect("a text is shorter than 4 GiB");
    let (mut found, mut forms) = (Vec::with_capacity(text.len() / 5), Forms::default());
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let (from, part) = (at, Part::of(c));
        at += c.len_utf8();
        if !matches!(part, Part::Word | Part::Single) {
            continue;
        }
        let mut to = at;
        while let Some(c) = text[at..].chars().next() {
            match Part::of(c) {
                Part::Word if part == Part::Word => to = at + c.len_utf8(),
                Part::Mark => to = at + c.len_utf8(),
                Part::Invisible => {}
                _ => break,
            }
            at += c.len_utf8();
        }
        if let Some(digest) = forms.digest(&text[from..to]) {
            found.push(Located { digest, from: from as u32, to: to as u32 });
        }
    }
    found
}

/// The digests of tokens that are not in ASCII, since a normal form takes long.
#[derive(Default)]
struct Forms<'t> {
    known: HashMap<&'t str, Option<u64>, RandomState>,
    lower: Vec<u8>,
}

impl<'t> Forms<'t> {
    fn digest(&mut self, token: &'t str) -> Option<u64> {
        if token.is_ascii() {
            self.lower.clear();
            self.lower.extend(token.bytes().map(|byte| byte.to_ascii_lowercase()));
            return Some(xxh3_64(&self.lower));
        }
        *self.known.entry(token).or_insert_with(|| {
            let form = folded(normalise(token));
            (!form.is_empty()).then(|| xxh3_64(form.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        located(text).iter().map(|token| &text[token.from as usize..token.to as usize]).collect()
    }

    fn digests(text: &str) -> Vec<u64> {
        located(text).iter().map(|token| token.digest).collect()
    }

    #[test]
    fn tokens_are_words_or_characters() {
        for (text, tokens) in [
            ("Don't — 3,5 km; привет_мир", "Don t 3 5 km привет мир"),
            ("2023年 用rust写、カナ。", "2023 年 用 rust 写 カ ナ"),
            ("ที่นี่", "ที่ นี่"),
            ("क्षेत्र 한국어", "क्षेत्र 한국어"),
            ("\u{301}e\u{301} soft\u{ad}hyphen\u{200b}. ｶﾞ", "e\u{301} soft\u{ad}hyphen ｶﾞ"),
        ] {
            assert_eq!(cut(text), tokens.split(' ').collect::<Vec<_>>());
        }
        assert!(located(" ,。!\u{200b}").is_empty());
    }

    #[test]
    fn equal_forms_have_equal_digests() {
        for (a, b) in [
            ("Straße CAFÉ", "strasse cafe\u{301}"),
            ("Ｆｕｌｌ width", "full WIDTH"),
            ("soft\u{ad}hyphen", "softhyphen"),
            ("ｶﾞ", "ガ"),
            ("a, b!", "a b"),
        ] {
            assert_eq!(digests(a), digests(b), "{a} {b}");
        }
        assert_ne!(digests("臺"), digests("台"));
        assert_ne!(digests("café"), digests("cafe"));
    }

    proptest::proptest! {
        #[test]
        fn tokens_are_in_order_and_have_all_letters(
            text in "\\PC{0,40}|[a-cA é\u{301}中カ\u{ff9e}น\u{e48}\u{ad} .]{0,40}"
        ) {
            let (found, mut end) = (located(&text), 0);
            for token in &found {
                let (from, to) = (token.from as usize, token.to as usize);
                proptest::prop_assert!(end <= from && from < to);
                let is_letter = |c: char| matches!(Part::of(c), Part::Word | Part::Single);
                proptest::prop_assert!(text[from..].starts_with(is_letter));
                end = to;
            }
            // Cut apart, the tokens are the same.
            let apart: Vec<&str> = found.iter().map(|t| &text[t.from as usize..t.to as usize]).collect();
            proptest::prop_assert_eq!(digests(&apart.join(" ")), digests(&text));
        }
    }
}
