//! Adjacent characters as features (character grams), in any script: of a text as it is, or of its letters
//! alone.
//!
//! Not here: normalisation, and weights.

use std::iter;

use crate::{System, is_word_character, runs, simplify};

/// Passes every gram of `length` adjacent characters of a text to `each`, once per occurrence. A text with
/// fewer characters, even an empty one, is passed whole.
///
/// `length` is 1 or more.
pub fn characters(text: &str, length: usize, mut each: impl FnMut(&str)) {
    if text.len() <= length {
        // A text has at most as many characters as bytes, so this text has at most one gram.
        each(text);
    } else if text.is_ascii() {
        (length..=text.len()).for_each(|end| each(&text[end - length..end]));
    } else {
        let starts = text.char_indices().map(|(at, _)| at);
        let ends = starts.clone().skip(length).chain(iter::once(text.len()));
        // A text shorter than a gram has one end; otherwise there are as many ends as grams.
        starts.zip(ends).for_each(|(start, end)| each(&text[start..end]));
    }
}

/// Passes every gram of `units` adjacent letters, digits and marks of a normalised text to `each`, once per
/// occurrence: a character from U+2E80 on, most of which are a syllable or a word, counts two. Spaces and
/// punctuation are dropped, and Chinese is simplified. A text of fewer units is passed whole, unless it has
/// no letter.
///
/// `units` is 1 or more.
///
/// ```
/// use lookalike_text::features::letter_grams;
/// let mut found = Vec::new();
/// letter_grams("a har- bour", 5, |gram| found.push(gram.to_owned()));
/// assert_eq!(found, ["aharb", "harbo", "arbou", "rbour"]);
/// ```
pub fn letter_grams(normalised: &str, units: usize, mut each: impl FnMut(&str)) {
    let letters = letters(normalised);
    let (mut end, mut held) = (0, 0);
    let mut ahead = letters.chars();
    for (start, c) in letters.char_indices() {
        while held < units
            && let Some(next) = ahead.next()
        {
            held += of_units(next);
            end += next.len_utf8();
        }
        if held < units && start > 0 {
            break;
        }
        each(&letters[start..end]);
        held -= of_units(c);
    }
}

/// The letters, digits and marks of a normalised text. Chinese is simplified.
pub fn letters(normalised: &str) -> String {
    let mut letters = String::with_capacity(normalised.len());
    for run in runs(normalised) {
        let kept = |text: &str, letters: &mut String| {
            letters.extend(text.chars().filter(|&c| is_word_character(c)));
        };
        match run.system {
            System::Han => kept(&simplify(run.text), &mut letters),
            _ => kept(run.text, &mut letters),
        }
    }
    letters
}

fn of_units(letter: char) -> usize {
    if letter >= '\u{2e80}' { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "zh")]
    #[test]
    fn letter_grams_ignore_spaces_marks_and_script() {
        let found = |text: &str| {
            let mut found = Vec::new();
            letter_grams(text, 5, |gram| found.push(gram.to_owned()));
            found
        };
        assert_eq!(found("the har- bour, 12"), found("theharbour12"));
        assert_eq!(found("臺灣,電腦ab"), ["台湾电", "湾电脑", "电脑a"]);
        assert_eq!((found("ab"), found("。")), (vec!["ab".to_owned()], vec![]));
        // A gram that ends with a wide letter may have a unit more.
        assert_eq!(found("abcd好"), ["abcd好", "bcd好"]);
    }

    #[test]
    fn ascii_and_other_texts_are_cut_alike() {
        for text in ["a", "abcde", "abcdefgh", "ab cd ef"] {
            let mut plain = Vec::new();
            characters(text, 5, |gram| plain.push(gram.replace('a', "é")));
            let mut accented = Vec::new();
            characters(&text.replace('a', "é"), 5, |gram| accented.push(gram.to_owned()));
            assert_eq!(plain, accented);
        }
    }

    #[test]
    fn a_text_of_few_characters_is_one_feature() {
        for text in ["", "a", "你好"] {
            let mut found = Vec::new();
            characters(text, 3, |gram| found.push(gram.to_owned()));
            assert_eq!(found, [text]);
        }
    }
}
