//! The longest sentences of a text: what the news search of the 2000s compared, and still a cheap test for
//! reprints, since nobody writes the same long sentence twice.
//!
//! Leaves out: what becomes of them.

use crate::text::{is_word_character, simplified};

/// The `count` longest sentences of a normalised text, the longest first, equals in the order of their bytes,
/// each once. A sentence ends at 。.!?;…।؟۔ or with the text, and is counted in letters, digits and marks; whatever
/// else stands in it is dropped, so that a reprint may change punctuation and spaces. Chinese is simplified.
pub fn longest_sentences(normalised: &str, count: usize) -> Vec<String> {
    let ends = |c: char| matches!(c, '。' | '.' | '!' | '?' | ';' | '…' | '।' | '؟' | '۔');
    let letters = |sentence: &str| {
        let sentence = simplified(sentence);
        let letters: String = sentence.chars().filter(|&c| is_word_character(c)).collect();
        (letters.chars().count(), letters)
    };
    let mut found: Vec<(usize, String)> =
        normalised.split(ends).map(letters).filter(|(length, _)| *length > 0).collect();
    found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.dedup();
    found.truncate(count);
    found.into_iter().map(|(_, sentence)| sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_come_first_without_marks_and_spaces() {
        let text = "短句。这是一个比较长的句子,有逗号。one two! a longer sentence of words? 短句。";
        assert_eq!(
            longest_sentences(text, 3),
            ["alongersentenceofwords", "这是一个比较长的句子有逗号", "onetwo"]
        );
        assert_eq!(longest_sentences(text, 9).len(), 4);
        assert!(longest_sentences("。!? ", 3).is_empty());
    }
}
