//! Recall and precision by the length of texts, when one word of each text is replaced.
//!
//! Where words are not separated by spaces, one character is replaced. A text of n words is n adjacent words
//! of the set; in a set of which most words are not separated by spaces, words are those of the segmenters.
//! Beside the counts is what the fingerprints predict ([`lookalike_text::fingerprint::Moved`]), and, if
//! wanted, what a second check leaves of the pairs within a larger k. Not here: other edits (`kinds`).

use std::fmt::Write;

use lookalike_eval::random::Random;
use lookalike_eval::{ALIKE, Labels, Set, at_own_k, set_aside_copies};
use lookalike_text::features::Units;
use lookalike_text::fingerprint::{Fingerprint, Profile, Status};

use super::pieces::{is_unspaced, is_word, pieces};
use super::second_check::{candidate_ks, second_check};
use super::sentences::distinct_sentences;
use super::unchecked;

/// The lengths that are measured, in words.
const LENGTHS: [usize; 9] = [8, 10, 15, 20, 30, 50, 100, 300, 1_000];
/// The most texts of one length.
const TEXTS: usize = 2_000;
/// The texts that show whether spaces separate the words of a set.
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
    let dense = is_dense(text);
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

/// The words of a text without the marks around them, and where they begin. What has characters of a script
/// without spaces is left out, because it may be a whole sentence.
pub fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        if !bare.is_empty() && !bare.contains(is_unspaced) {
            found.push((bare.as_ptr() as usize - text.as_ptr() as usize, bare));
        }
    }
    found
}

/// Whether most words of a text are not separated by spaces.
pub fn is_dense(text: &str) -> bool {
    let units = Units::of(text);
    units.ideographs / 2.0 + units.south_east_asian / 4.0 > units.words
}

/// The characters of scripts without spaces, and where they are.
pub fn characters(text: &str) -> Vec<(usize, &str)> {
    let is_unit = |c: char| {
        let units = Units::of(c.encode_utf8(&mut [0; 4]));
        units.ideographs + units.south_east_asian > 0.0
    };
    let found = text.char_indices().filter(|(_, c)| is_unit(*c));
    found.map(|(at, c)| (at, &text[at..at + c.len_utf8()])).collect()
}

/// At most [`TEXTS`] texts of `length` words each.
pub fn texts_of_length(texts: &[String], length: usize) -> Vec<String> {
    let sample: Vec<&str> = texts.iter().take(SAMPLED).map(String::as_str).collect();
    if is_dense(&sample.join(" ")) {
        return segmented(texts, length);
    }
    let all: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
    all.chunks_exact(length).take(TEXTS).map(|chunk| chunk.join(" ")).collect()
}

/// The same with the words of the segmenters, and what is between and after them.
fn segmented(texts: &[String], length: usize) -> Vec<String> {
    let mut found = Vec::new();
    let (mut open, mut words) = (String::new(), 0);
    for piece in texts.iter().flat_map(|text| pieces(text).into_iter().chain(["\n"])) {
        if is_word(piece) {
            if words == length {
                found.push(std::mem::take(&mut open));
                words = 0;
            }
            words += 1;
        }
        if found.len() == TEXTS {
            return found;
        }
        open.push_str(piece);
    }
    found.extend(Some(open).filter(|_| words == length));
    found
}

/// The similarity from which a pair passes the second check.
const SIMILAR: f64 = 0.5;
/// The second checks that are measured: of texts, and of sketches of the default size.
const CHECKS: [&str; 2] = ["exact", "256 minima of 1 bits"];

/// A table for each profile: what each text finds at its k, by the length of the texts. `by` gives the
/// features by which unmarked copies are set aside. With `checks`, each table has the second check, too; it
/// compares the features of a profile for short texts, and otherwise those of `by`.
pub fn table_by_length(
    name: &str,
    texts: &[String],
    profiles: &[&'static Profile],
    by: &Profile,
    seed: u64,
    checks: bool,
) -> String {
    let texts = distinct_sentences(texts);
    let sets: Vec<(usize, Set)> =
        LENGTHS.iter().map(|&length| (length, set(&texts, length, by, seed))).collect();
    let mut out = format!("## {name}\n\n");
    for profile in profiles {
        let of_check = checks.then(|| {
            let [_, k] = candidate_ks(profile);
            let by = if profile.is_for_short_texts() { profile } else { by };
            (k, by)
        });
        heading(&mut out, profile, of_check.map(|(k, _)| k));
        for (length, set) in sets.iter().filter(|(_, set)| !set.labels.positive.is_empty()) {
            row(&mut out, profile, *length, set);
            if let Some((k, by)) = of_check {
                checked(&mut out, profile, by, set, k);
            }
            out.push('\n');
        }
        out.push('\n');
    }
    out
}

fn heading(out: &mut String, profile: &Profile, checked_within: Option<u32>) {
    let (mut columns, mut rule) =
        ("| words | texts | mean k | precision | found | predicted | short |".to_owned(), "--:|".repeat(7));
    if let Some(k) = checked_within {
        let _ = write!(columns, " k={k}, texts alike from {SIMILAR} | k={k}, sketches |");
        rule += &"---|".repeat(CHECKS.len());
    }
    let _ = writeln!(out, "### {}\n\n{columns}\n|{rule}", profile.id());
}

fn set(texts: &[String], length: usize, by: &Profile, seed: u64) -> Set {
    let mut set = with_one_word_replaced("", texts_of_length(texts, length), seed);
    let Ok(_) = set_aside_copies(&mut set, by, ALIKE, unchecked);
    set
}

fn row(out: &mut String, profile: &Profile, length: usize, set: &Set) {
    let made: Vec<Fingerprint> = set.texts.iter().map(|text| profile.fingerprint(text)).collect();
    let Ok(found) = at_own_k(&made, &set.labels, unchecked);
    let originals: Vec<&Fingerprint> =
        set.labels.positive.iter().map(|&(original, _)| &made[original as usize]).collect();
    let mean = |of: fn(&Fingerprint) -> f64| {
        originals.iter().map(|made| of(made)).sum::<f64>() / originals.len() as f64
    };
    let k = mean(|made| f64::from(made.k));
    let predicted = mean(|made| made.moved.within(made.k));
    let short = mean(|made| f64::from(u8::from(made.status == Status::Short)));
    let _ = write!(
        out,
        "| {length} | {} | {k:.1} | {:.3} | {:.3} | {predicted:.3} | {:.0} % |",
        originals.len(),
        found.precision,
        found.recall,
        short * 100.0
    );
}

/// Adds the precision and the share found of each second check to a row.
fn checked(out: &mut String, profile: &Profile, by: &Profile, set: &Set, k: u32) {
    let measured = second_check(profile, by, set, k, &[SIMILAR]);
    for name in CHECKS {
        if let Some(check) = measured.iter().find(|check| check.by == name) {
            let _ = write!(out, " {:.3}/{:.3} |", check.found.precision, check.found.recall);
        }
    }
}
