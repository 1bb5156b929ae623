//! Chinese cut as cppjieba 5.6.7 cuts it: its dictionary first, then its rules for what is left over.
//!
//! A text is cut at spaces, tabs, line feeds and the two Chinese marks `，` and `。`. Of each part, the
//! most probable words of the dictionary are found ([`Lexicon::cut_like_cppjieba`]). Adjacent words of one
//! character form a run. In a run, ASCII letters and digits are one token, with a decimal suffix if a point
//! and digits follow (`5G`, `v8.0`, `PM2.5`, and `127.0` of `127.0.0.1`); any other ASCII character is alone;
//! all else is cut by the hidden Markov model (`markov`).
//!
//! Not here: the words that are dropped, and their weights (`lookalike-text`).

use super::lexicon::{Lexicon, Place};
use super::markov;

/// Passes every word, punctuation mark and space of a text to `each`, in order.
pub(super) fn cut(lexicon: &Lexicon, text: &str, mut each: impl FnMut(&str)) {
    let mut places = Vec::new();
    for part in text.split_inclusive(is_separator) {
        let end = part.trim_end_matches(is_separator).len();
        cut_part(lexicon, &part[..end], &mut places, &mut each);
        if end < part.len() {
            each(&part[end..]);
        }
    }
}

#[inline]
fn is_separator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '，' | '。')
}

fn cut_part(lexicon: &Lexicon, part: &str, places: &mut Vec<Place>, each: &mut impl FnMut(&str)) {
    let (mut run, mut at) = (0, 0);
    lexicon.cut_like_cppjieba(part, places, |word| {
        let start = at;
        at += word.len();
        if word.chars().nth(1).is_some() {
            cut_run(&part[run..start], each);
            each(word);
            run = at;
        }
    });
    cut_run(&part[run..], each);
}

/// Cuts a run of single characters.
fn cut_run(run: &str, each: &mut impl FnMut(&str)) {
    let mut rest = run;
    while let Some(first) = rest.bytes().next() {
        let length = if first.is_ascii() {
            ascii_length(rest.as_bytes())
        } else {
            rest.bytes().position(|byte| byte.is_ascii()).unwrap_or(rest.len())
        };
        let (part, after) = rest.split_at(length);
        if first.is_ascii() {
            each(part);
        } else {
            markov::cut(part, &mut *each);
        }
        rest = after;
    }
}

/// The length of the token or mark at the beginning.
#[inline]
fn ascii_length(bytes: &[u8]) -> usize {
    let length =
        |bytes: &[u8], is_part: fn(&u8) -> bool| bytes.iter().take_while(|byte| is_part(byte)).count();
    let token = length(bytes, u8::is_ascii_alphanumeric);
    match bytes[token..].strip_prefix(b".").map(|after| length(after, u8::is_ascii_digit)) {
        _ if token == 0 => 1,
        None | Some(0) => token,
        Some(digits) => token + 1 + digits,
    }
}

#[cfg(test)]
mod tests {
    use crate::Dictionary;

    fn found(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        Dictionary::built_in().cut_like_cppjieba(text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn letters_and_digits_are_one_token_with_a_decimal_suffix() {
        let cases: [(&str, &[&str]); 6] = [
            ("5G网络", &["5G", "网络"]),
            ("v8.0和PM2.5", &["v8.0", "和", "PM2.5"]),
            ("127.0.0.1:20k", &["127.0", ".", "0.1", ":", "20k"]),
            ("1.5G 3.shtml", &["1.5", "G", " ", "3", ".", "shtml"]),
            ("covid-19,涨3.5%.", &["covid", "-", "19", ",", "涨", "3.5", "%", "."]),
            ("C++和C#、B超", &["C++", "和", "C#", "、", "B超"]),
        ];
        for (text, expected) in cases {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn the_dictionary_is_that_of_cppjieba() {
        assert_eq!(found("云计算用U盘"), ["云计算", "用", "U", "盘"]);
        assert_eq!(found("区块链在吉林"), ["区块链", "在", "吉林"]);
    }

    #[test]
    fn left_over_characters_are_joined_even_if_the_dictionary_has_the_word() {
        assert_eq!(found("当上总经理"), ["当上", "总经理"]);
    }

    #[test]
    fn nothing_is_lost() {
        for text in ["", "，", "a，b", "“上、下”。 东数西算", "他来到了网易杭研大厦"]
        {
            assert_eq!(found(text).concat(), text);
        }
    }
}
