//! Chinese cut as cppjieba cuts it: jieba's cut, adjusted for the differences between the two programs.
//!
//! Both find the most probable words of the dictionary. They differ where single characters are left over:
//! cppjieba passes every run of them to its hidden Markov model, including punctuation; jieba passes only
//! runs that are not words of the dictionary themselves, without punctuation. In cppjieba, a character that
//! the model does not know makes all states equally likely, so the characters after it in the run stay
//! single, and the character before it counts as the end of a word. ASCII becomes names (a letter, then
//! letters and digits), numbers (digits and points) and single marks.
//!
//! Not here: cuts that would need the probabilities of the model, at the end of three or more left-over
//! characters before punctuation. There the last character is joined to the word before it. `tests/quality`
//! measures the result on golden texts.

use super::lexicon::{Lexicon, guess};

/// Passes every word, punctuation mark and space of a text to `each`, in order.
pub(super) fn cut(lexicon: &Lexicon, text: &str, mut each: impl FnMut(&str)) {
    for sentence in text.split_inclusive(is_separator) {
        let end = sentence.trim_end_matches(is_separator).len();
        cut_sentence(lexicon, &sentence[..end], &mut each);
        if end < sentence.len() {
            each(&sentence[end..]);
        }
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '，' | '。')
}

fn cut_sentence(lexicon: &Lexicon, sentence: &str, each: &mut impl FnMut(&str)) {
    let (mut left_over, mut at) = (0..0, 0);
    lexicon.cut(sentence, |word| {
        let start = at;
        at += word.len();
        let is_single = word.chars().nth(1).is_none();
        // Without its model jieba joins letters and digits; cppjieba treats them as single characters.
        if is_single || (word.is_ascii() && !lexicon.has(word)) {
            left_over.end = at;
        } else {
            cut_left_over(&sentence[left_over.start..start], each);
            each(word);
            left_over = at..at;
        }
    });
    cut_left_over(&sentence[left_over.start..], each);
}

/// Cuts a run of single characters.
fn cut_left_over(run: &str, each: &mut impl FnMut(&str)) {
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
            cut_by_model(part, each);
        }
        rest = after;
    }
}

/// The length of the name, number or mark at the beginning.
fn ascii_length(bytes: &[u8]) -> usize {
    let goes_on = |byte: &&u8| match bytes[0] {
        b'a'..=b'z' | b'A'..=b'Z' => byte.is_ascii_alphanumeric(),
        b'0'..=b'9' => byte.is_ascii_digit() || **byte == b'.',
        _ => false,
    };
    bytes.iter().take_while(goes_on).count().max(1)
}

fn cut_by_model(run: &str, each: &mut impl FnMut(&str)) {
    let is_unknown = |c: char| !('\u{4e00}'..='\u{9fd5}').contains(&c);
    let known = run.find(is_unknown).unwrap_or(run.len());
    let mut ends = vec![0];
    guess(&run[..known], |word| ends.push(ends[ends.len() - 1] + word.len()));
    let last = &run[ends[ends.len().saturating_sub(2)]..known];
    if known < run.len() && ends.len() > 2 && last.chars().nth(1).is_none() {
        ends.remove(ends.len() - 2);
    }
    ends.windows(2).for_each(|word| each(&run[word[0]..word[1]]));
    let singles = &run[known..];
    singles.char_indices().for_each(|(at, c)| each(&singles[at..at + c.len_utf8()]));
}

#[cfg(test)]
mod tests {
    use crate::text::Dictionary;

    fn found(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        Dictionary::built_in().cut_like_cppjieba(text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn names_and_numbers_are_separated() {
        let expected = ["用", "GPT4", "和", "4", "G", "，", "covid", "-", "19", "涨", "3.5", "%"];
        assert_eq!(found("用GPT4和4G，covid-19涨3.5%"), expected);
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
