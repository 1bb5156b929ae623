//! The longest sentences of a text: the method of news searches of the 2000s, and a cheap test for reprints,
//! because two independent texts hardly ever share a long sentence.
//!
//! Not here: the hashes of the sentences (`digest`).

use crate::{is_word_character, simplified};

/// The `count` longest sentences of a normalised text, the longest first, each once; sentences of equal
/// length are in the order of their bytes. A sentence ends at one of 。.!?;…।؟۔ or with the text. Only
/// its letters, digits and marks are kept and counted, so that changes of punctuation and spaces have no
/// effect. Chinese is simplified.
pub fn longest_sentences(normalised: &str, count: usize) -> Vec<String> {
    let letters = |sentence: &str| {
        let sentence = simplified(sentence);
        let letters: String = sentence.chars().filter(|&c| is_word_character(c)).collect();
        (letters.chars().count(), letters)
    };
    let mut found: Vec<(usize, String)> =
        sentences(normalised).map(letters).filter(|(length, _)| *length > 0).collect();
    found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.dedup();
    found.truncate(count);
    found.into_iter().map(|(_, sentence)| sentence).collect()
}

/// The sentences of a normalised text, without the marks that end them.
pub(crate) fn sentences(normalised: &str) -> impl Iterator<Item = &str> {
    normalised.split(['。', '.', '!', '?', ';', '…', '।', '؟', '۔'])
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_come_first_without_marks_and_spaces() {
        let text = "短句。这是一个比较长的句子,有逗号。one two! \
                    a longer sentence of words? 短句。";
        assert_eq!(
            longest_sentences(text, 3),
            ["alongersentenceofwords", "这是一个比较长的句子有逗号", "onetwo"]
        );
        assert_eq!(longest_sentences(text, 9).len(), 4);
        assert!(longest_sentences("。!? ", 3).is_empty());
    }
}
