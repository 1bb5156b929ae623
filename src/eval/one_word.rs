//! Recall and precision by the length of texts, when one word of each text is replaced.
//!
//! Where words are not separated by spaces, one character is replaced. A text of n words is n adjacent words
//! of the set. In a script without spaces it has as many characters as n words have in that set on average.
//! Beside the counts is what the fingerprints themselves predict ([`crate::fingerprint::Moved`]). Not here:
//! other edits (`edits`).

use std::convert::Infallible;
use std::fmt::Write;

use super::{ALIKE, Labels, Set, at_own_k, distinct_sentences, set_aside_copies};
use crate::features::{Units, is_dense, word_count};
use crate::fingerprint::{Fingerprint, Profile, Status};
use crate::random::Random;

/// The lengths that are measured, in words.
const LENGTHS: [usize; 9] = [8, 10, 15, 20, 30, 50, 100, 300, 1_000];
/// The most texts of one length.
const TEXTS: usize = 2_000;
/// The texts by which the words of a set are measured.
const SAMPLED: usize = 500;
/// The number of attempts to find a word that differs.
const ATTEMPTS: usize = 8;

/// A set of the texts and a copy of each with one word replaced by a word of another text. A text without
/// words has no copy.
pub fn with_one_word_replaced(name: &str, texts: Vec<String>, seed: u64) -> Set {
    let count = texts.len();
    let mut set = Set { name: name.to_owned(), texts, labels: Labels::default(), edits: Vec::new() };
    let mut random = Random(seed);
    for number in 0..count {
        let other = random.below(count);
        let Some(copy) = replaced(&set.texts[number], &set.texts[other], &mut random) else { continue };
        let pair = (number as u32, set.texts.len() as u32);
        set.texts.push(copy);
        set.labels.positive.insert(pair);
        set.edits.push((pair, "one word replaced".to_owned()));
    }
    set
}

/// The text with one word, or one character, of `other` in place of one of its own.
fn replaced(text: &str, other: &str, random: &mut Random) -> Option<String> {
    let dense = Units::of(text).are_dense();
    let parts = |text| if dense { characters(text) } else { words(text) };
    let (own, others) = (parts(text), parts(other));
    for _ in 0..ATTEMPTS {
        let &(start, part) = own.get(random.below(own.len()))?;
        let &(_, new) = others.get(random.below(others.len()))?;
        if new.to_lowercase() != part.to_lowercase() {
            return Some(format!("{}{new}{}", &text[..start], &text[start + part.len()..]));
        }
    }
    None
}

/// The words of a text without the marks around them, and where they begin.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        if !bare.is_empty() {
            found.push((bare.as_ptr() as usize - text.as_ptr() as usize, bare));
        }
    }
    found
}

fn characters(text: &str) -> Vec<(usize, &str)> {
    let found = text.char_indices().filter(|(_, c)| is_dense(*c));
    found.map(|(at, c)| (at, &text[at..at + c.len_utf8()])).collect()
}

/// Texts of `length` words each.
fn pieces(texts: &[String], length: usize) -> Vec<String> {
    let sample: Vec<&str> = texts.iter().take(SAMPLED).map(String::as_str).collect();
    let sample = sample.join(" ");
    if Units::of(&sample).are_dense() {
        let of_a_word = sample.chars().count() as f64 / word_count(&sample).max(1) as f64;
        let all: Vec<char> = texts.iter().flat_map(|text| text.chars().chain(['\n'])).collect();
        let chunks = all.chunks_exact((of_a_word * length as f64) as usize);
        return chunks.take(TEXTS).map(|chunk| chunk.iter().collect()).collect();
    }
    let all: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
    all.chunks_exact(length).take(TEXTS).map(|chunk| chunk.join(" ")).collect()
}

/// A table for each profile: what each text finds at its k, by the length of the texts. `by` gives the
/// features by which unmarked copies are set aside.
pub fn table_by_length(
    name: &str,
    texts: &[String],
    profiles: &[&'static Profile],
    by: &Profile,
    seed: u64,
) -> String {
    let texts = distinct_sentences(texts);
    let sets: Vec<(usize, Set)> =
        LENGTHS.iter().map(|&length| (length, set(&texts, length, by, seed))).collect();
    let mut out = format!("## {name}\n\n");
    for profile in profiles {
        let _ = writeln!(
            out,
            "### {}\n\n| words | texts | mean k | precision | found | predicted | short |\n\
             |--:|--:|--:|--:|--:|--:|--:|",
            profile.id()
        );
        for (length, set) in sets.iter().filter(|(_, set)| !set.labels.positive.is_empty()) {
            row(&mut out, profile, *length, set);
        }
        out.push('\n');
    }
    out
}

fn set(texts: &[String], length: usize, by: &Profile, seed: u64) -> Set {
    let mut set = with_one_word_replaced("", pieces(texts, length), seed);
    let Ok(_) = set_aside_copies(&mut set, by, ALIKE, || Ok::<_, Infallible>(()));
    set
}

fn row(out: &mut String, profile: &Profile, length: usize, set: &Set) {
    let made: Vec<Fingerprint> = set.texts.iter().map(|text| profile.fingerprint(text)).collect();
    let Ok(found) = at_own_k(&made, &set.labels, || Ok::<_, Infallible>(()));
    let originals: Vec<&Fingerprint> =
        set.labels.positive.iter().map(|&(original, _)| &made[original as usize]).collect();
    let mean = |of: fn(&Fingerprint) -> f64| {
        originals.iter().map(|made| of(made)).sum::<f64>() / originals.len() as f64
    };
    let k = mean(|made| f64::from(made.k));
    let predicted = mean(|made| made.moved.within(made.k));
    let short = mean(|made| f64::from(u8::from(made.status == Status::Short)));
    let _ = writeln!(
        out,
        "| {length} | {} | {k:.1} | {:.3} | {:.3} | {predicted:.3} | {:.0} % |",
        originals.len(),
        found.precision,
        found.recall,
        short * 100.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_replaced() {
        let texts: Vec<String> =
            (0..9).map(|n| (0..9).map(|w| format!("w{n}x{w}, ")).collect::<String>()).collect();
        let set = with_one_word_replaced("own", texts.clone(), 1);
        assert_eq!(set.labels.positive.len(), 9);
        for &(a, b) in &set.labels.positive {
            let [a, b] = [a, b].map(|at| words(&set.texts[at as usize]));
            assert_eq!(a.len(), b.len());
            assert_eq!(a.iter().zip(&b).filter(|(a, b)| a.1 != b.1).count(), 1);
        }
        assert!(with_one_word_replaced("own", vec!["。".to_owned(), String::new()], 1).edits.is_empty());
    }

    #[test]
    fn one_character_is_replaced_where_words_are_not_separated() {
        let texts = vec!["今天的天气，很好".to_owned(), "明天我们去北京".to_owned()];
        let set = with_one_word_replaced("own", texts, 3);
        for &(a, b) in &set.labels.positive {
            let [a, b] = [a, b].map(|at| set.texts[at as usize].chars().collect::<Vec<_>>());
            assert_eq!(a.len(), b.len());
            assert_eq!(a.iter().zip(&b).filter(|(a, b)| a != b).count(), 1);
        }
    }

    #[test]
    fn pieces_have_their_length() {
        let texts = vec!["one two three four".to_owned(), "five six seven".to_owned()];
        assert_eq!(pieces(&texts, 3), ["one two three", "four five six"]);
        let texts = vec!["今天的天气很好我们去北京".to_owned(); 4];
        let lengths: Vec<usize> = pieces(&texts, 4).iter().map(|piece| piece.chars().count()).collect();
        assert!(lengths.iter().all(|length| (5..9).contains(length)), "{lengths:?}");
    }

    #[test]
    fn the_table_has_a_row_for_each_length() {
        let texts: Vec<String> = (0..40).map(|n| format!("word{n} and others{n}")).collect();
        let profile = Profile::named("copies-64").unwrap();
        let by = Profile::named("pairs-64").unwrap();
        let table = table_by_length("own", &texts, &[profile], by, 1);
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
        // 120 words: the lengths 8 to 50 and 100, but one text of 100 words has no other one.
        assert_eq!(rows.len(), 2 + 7, "{table}");
        assert!(rows[2].starts_with("| 8 | 15 |"), "{table}");
    }
}
