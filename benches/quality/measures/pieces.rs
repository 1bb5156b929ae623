//! A text cut into pieces for edits: words, what is between them, and sentences. The concatenation of the
//! pieces is the text.
//!
//! Words are those of the segmenters of each script, so an edit of words is the same in every language. Not
//! here: the edits (`kinds`).

use lookalike_text::{Dictionary, NewWords, System, is_word_character, runs, tokens, words};

/// The words of a text and what is between them, in order.
pub fn pieces(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    for run in runs(text) {
        rest = cut(rest, run.text, &mut found, |inner, found| {
            if run.system == System::Han {
                found.extend(tokens(inner));
                return;
            }
            let mut after = inner;
            words(run, Dictionary::built_in(), NewWords::Split, |word| {
                after = cut(after, word, found, |word, found| found.push(word));
            });
            found.extend(Some(after).filter(|after| !after.is_empty()));
        });
    }
    found.extend(Some(rest).filter(|rest| !rest.is_empty()));
    found
}

/// Passes `part` of a text, and what is before it as one piece, to the list. Returns what is after it. What
/// is before it has no letters, so `part` is found where it first occurs.
fn cut<'a>(
    text: &'a str,
    part: &str,
    found: &mut Vec<&'a str>,
    push: impl FnOnce(&'a str, &mut Vec<&'a str>),
) -> &'a str {
    let Some(at) = text.find(part) else { return text };
    let (before, from) = text.split_at(at);
    let (part, after) = from.split_at(part.len());
    found.extend(Some(before).filter(|before| !before.is_empty()));
    push(part, found);
    after
}

/// Whether a piece is a word.
pub fn is_word(piece: &str) -> bool {
    piece.chars().any(is_word_character)
}

/// Whether the script of a character has no spaces between words.
pub fn is_unspaced(c: char) -> bool {
    runs(c.encode_utf8(&mut [0; 4])).next().is_some_and(|run| run.system != System::Spaced)
}

/// The sentences of a text with what ends them. A space after a letter of Thai, Lao, Khmer or Burmese ends a
/// sentence, because these scripts have no full stop.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut last) = (0, ' ');
    for (at, c) in text.char_indices() {
        let is_end = match c {
            '。' | '.' | '!' | '?' | '！' | '？' | '؟' | '।' | '۔' | '\n' => true,
            ' ' => matches!(last, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'),
            _ => false,
        };
        last = c;
        let end = at + c.len_utf8();
        if is_end && is_word(&text[start..end]) {
            found.push(&text[start..end]);
            start = end;
        }
    }
    found.extend(Some(&text[start..]).filter(|rest| !rest.is_empty()));
    found
}
