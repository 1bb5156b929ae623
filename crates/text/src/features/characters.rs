//! Adjacent characters as features (character grams), in any script.
//!
//! Not here: normalisation and removal of spaces (the text is used unchanged), and weights.

use std::iter;

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

#[cfg(test)]
mod tests {
    use super::*;

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
