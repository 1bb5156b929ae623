//! Adjacent characters as features, whatever script they are of.
//!
//! Leaves out: words, spaces and weights; the text is taken as it is given.

use std::iter;

/// Hands every `length` adjacent characters of a text to `each`, as often as they occur; the whole text if it has
/// fewer, even if it is empty.
///
/// `length` is 1 or more.
pub fn characters(text: &str, length: usize, mut each: impl FnMut(&str)) {
    if text.len() <= length {
        // So few bytes are no more characters than one feature has.
        each(text);
    } else if text.is_ascii() {
        (length..=text.len()).for_each(|end| each(&text[end - length..end]));
    } else {
        let starts = text.char_indices().map(|(at, _)| at);
        let ends = starts.clone().skip(length).chain(iter::once(text.len()));
        // With fewer characters than a gram there is the one end, and with more as many as there are grams.
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
