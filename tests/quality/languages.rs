//! Spellings and line breaks that do not change what a reader reads: copies with them are found.

use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use lookalike_text::fingerprint::Profile;
use serde_json::Value as Json;

use crate::shared;

/// The texts of a language; `None` if the set is missing.
pub fn texts(language: &str) -> Option<Vec<String>> {
    texts_of(&format!("languages/{language}.jsonl.gz"))
}

/// The texts of a file; `None` if it is missing.
fn texts_of(file: &str) -> Option<Vec<String>> {
    let path = shared(file)?;
    let lines = BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines();
    let text =
        |line: String| serde_json::from_str::<Json>(&line).unwrap()["text"].as_str().unwrap().to_owned();
    Some(lines.map(|line| text(line.unwrap())).collect())
}

/// Inserts `mark` after every `step`-th of the characters that `is_place` accepts.
fn insert(text: &str, mark: &str, step: usize, is_place: impl Fn(char) -> bool) -> String {
    let mut place = 0;
    let mut edited = String::new();
    for c in text.chars() {
        edited.push(c);
        place += usize::from(is_place(c));
        if is_place(c) && place.is_multiple_of(step) {
            edited.push_str(mark);
        }
    }
    edited
}

fn is_arabic(c: char) -> bool {
    ('ب'..='ي').contains(&c)
}

/// Breaks every seventh word of six or more letters with a hyphen at the end of a line.
fn hyphenate(text: &str) -> String {
    let breaks = |(at, word): (usize, &str)| {
        let middle = word.char_indices().nth(word.chars().count() / 2).map_or(0, |(middle, _)| middle);
        let is_long = word.chars().count() >= 6 && word.chars().all(char::is_alphabetic);
        if at % 7 == 0 && is_long {
            format!("{}-\n{}", &word[..middle], &word[middle..])
        } else {
            word.to_owned()
        }
    };
    text.split(' ').enumerate().map(breaks).collect::<Vec<_>>().join(" ")
}

#[test]
fn copies_in_another_spelling_are_found() {
    type Edit = fn(&str) -> String;
    let cases: [(&str, &str, Edit); 9] = [
        ("ar", "tatweel", |text| insert(text, "\u{640}", 5, is_arabic)),
        ("ar", "vowel marks", |text| insert(text, "\u{64e}", 2, is_arabic)),
        ("ar", "bare alef", |text| text.replace(['أ', 'إ', 'آ'], "ا")),
        ("ar", "heh for teh marbuta", |text| text.replace('ة', "ه")),
        ("ar", "yeh for alef maksura", |text| text.replace('ى', "ي")),
        ("ja", "lines of 30 characters", |text| insert(text, "\n", 30, |c| c != '\n')),
        ("th", "lines of 30 characters", |text| insert(text, "\n", 30, |c| c != '\n')),
        ("ru", "hyphens at line ends", hyphenate),
        ("vi", "hyphens at line ends", hyphenate),
    ];
    for (language, name, edit) in cases {
        let Some(texts) = texts(language) else { return };
        for (profile, k) in [("copies-64", 7), ("copies-128", 23)] {
            let profile = Profile::named(profile).unwrap();
            let is_found = |text: &&String| {
                let [own, copy] = [(*text).clone(), edit(text)].map(|text| profile.fingerprint(&text).hash);
                own.distance(copy).is_some_and(|distance| distance <= k)
            };
            let recall = texts.iter().filter(is_found).count() as f64 / texts.len() as f64;
            println!("{language}, {name}, {}: {recall:.3} of {} texts", profile.id(), texts.len());
            assert!(recall >= 0.95, "{language}, {name}, {}: {recall:.3}", profile.id());
        }
    }
}

/// An English text of which the given percentage of the bytes is English and the others are Chinese: a piece
/// of Chinese after every English piece that leaves too few of them. Pieces are sentences or words.
fn mixed(english: &str, chinese: &str, percent: usize, of_words: bool) -> String {
    let letters: Vec<char> = chinese.chars().filter(|c| ('\u{4e00}'..='\u{9fff}').contains(c)).collect();
    let mut words = letters.chunks(3).map(|word| word.iter().collect::<String>() + " ");
    let mut sentences = chinese.split_inclusive('。').map(str::to_owned);
    let (mut text, mut foreign) = (String::new(), 0);
    for piece in english.split_inclusive(if of_words { " " } else { ". " }) {
        text.push_str(piece);
        while foreign * percent < (100 - percent) * (text.len() - foreign) {
            let next = if of_words { words.next() } else { sentences.next() };
            let Some(next) = next else { break };
            foreign += next.len();
            text.push_str(&next);
        }
    }
    text
}

const SHARES: [usize; 7] = [60, 65, 70, 75, 80, 85, 90];
const ADDED: [usize; 5] = [5, 20, 50, 100, 200];

#[test]
fn text_in_another_script_at_the_end_of_a_mixed_text_changes_little() {
    let (Some(english), Some(chinese)) =
        (texts_of("en_abstracts/docs.jsonl.gz"), texts_of("zh_edits/docs.jsonl.gz"))
    else {
        return;
    };
    let english: Vec<&String> = english.iter().filter(|text| text.len() > 800).collect();
    let chinese: Vec<&String> = chinese.iter().filter(|text| text.chars().count() > 400).collect();
    for (profile, k) in [("copies-64", 7), ("copies-128", 23)] {
        let profile = Profile::named(profile).unwrap();
        for of_words in [false, true] {
            for adds_english in [false, true] {
                let mut found = [[0_u32; ADDED.len()]; SHARES.len()];
                for (row, share) in SHARES.into_iter().enumerate() {
                    for (column, added) in ADDED.into_iter().enumerate() {
                        for number in 0..40 {
                            let at = (row * ADDED.len() + column) * 40 + number;
                            let [text, other] = [at, at + 777].map(|at| english[at % english.len()]);
                            let [between, end] = [at, at + 777].map(|at| chinese[at % chinese.len()]);
                            let own = mixed(text, between, share, of_words);
                            let end: String = if adds_english {
                                format!(" {}", other.chars().skip(100).take(3 * added).collect::<String>())
                            } else {
                                end.chars().skip(50).take(added).collect()
                            };
                            let [own, copy] =
                                [own.clone(), own + &end].map(|text| profile.fingerprint(&text).hash);
                            found[row][column] += u32::from(own.distance(copy) <= Some(k));
                        }
                    }
                }
                let kind = match (of_words, adds_english) {
                    (false, false) => "sentences, Chinese added",
                    (false, true) => "sentences, English added",
                    (true, false) => "words, Chinese added",
                    (true, true) => "words, English added",
                };
                let mean = |counts: &mut dyn Iterator<Item = u32>| {
                    let counts: Vec<u32> = counts.collect();
                    f64::from(counts.iter().sum::<u32>()) / 40.0 / counts.len() as f64
                };
                let by_added = (0..ADDED.len()).map(|column| mean(&mut found.iter().map(|row| row[column])));
                let by_added: Vec<f64> = by_added.collect();
                let by_share: Vec<f64> = found.iter().map(|row| mean(&mut row.iter().copied())).collect();
                println!(
                    "{} {kind}: {by_added:.2?} by characters {ADDED:?}, {by_share:.2?} by share {SHARES:?}",
                    profile.id()
                );
                assert!(by_added[0] > 0.98 && by_added[1] > 0.93, "{kind}: {by_added:?}");
                let least = by_share.iter().copied().fold(1.0, f64::min);
                let most = by_share.iter().copied().fold(0.0, f64::max);
                assert!(most - least < 0.15, "no share is worse than the others: {kind} {by_share:?}");
            }
        }
    }
}
