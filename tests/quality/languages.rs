//! Spellings and line breaks that do not change what a reader reads: copies with them are found.

use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use lookalike::fingerprint::Profile;
use serde_json::Value as Json;

use crate::shared;

/// The texts of a language; `None` if the set is missing.
fn texts(language: &str) -> Option<Vec<String>> {
    let path = shared(&format!("languages/{language}.jsonl.gz"))?;
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
