//! A text cut into tokens for a comparison that people read: words, punctuation and spaces, nothing dropped
//! or changed.
//!
//! Not here: normalisation and simplification. Chinese is cut by the dictionary, so traditional characters
//! mostly become single tokens. Kana and South-East Asian scripts are cut into single characters.

use super::Dictionary;
use super::class::Class;
use super::words::NewWords;

/// The tokens of a text, in order; their concatenation is the text.
pub fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = Kind::of(first);
        let length = match kind {
            Kind::Single => first.len_utf8(),
            _ => rest.find(|c| Kind::of(c) != kind).unwrap_or(rest.len()),
        };
        let (stretch, after) = rest.split_at(length);
        if kind == Kind::Chinese {
            cut(stretch, &mut found);
        } else {
            found.push(stretch);
        }
        rest = after;
    }
    found
}

fn cut<'a>(stretch: &'a str, found: &mut Vec<&'a str>) {
    let mut rest = stretch;
    Dictionary::built_in().cut(stretch, NewWords::Split, |word| {
        let (word, after) = rest.split_at(word.len());
        found.push(word);
        rest = after;
    });
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Chinese,
    Word,
    Space,
    Single,
}

impl Kind {
    fn of(c: char) -> Kind {
        match Class::of(c) {
            Class::Han => Kind::Chinese,
            Class::Letter | Class::Digit | Class::Mark => Kind::Word,
            Class::Other if c.is_whitespace() => Kind::Space,
            Class::Kana | Class::SouthEastAsian | Class::Other => Kind::Single,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_punctuation_and_spaces() {
        let expected = ["我", "来到", "北京", ",", "Café", " ", "42", "!", " \n", "あ", "い"];
        assert_eq!(tokens("我来到北京,Café 42! \nあい"), expected);
        assert!(tokens("").is_empty());
    }

    #[test]
    fn nothing_is_lost() {
        for text in ["臺灣的電腦軟體", "e\u{301} 𠀀𠀁 🙂。。", "\u{0}\u{200b}中a文"] {
            assert_eq!(tokens(text).concat(), text);
        }
    }
}
