//! Spellings and line breaks that do not change what a reader reads: copies with them are found.

use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use lookalike::fingerprint::Profile;
use serde_json::Value as Json;

use crate::shared;

/// The texts of a language; `None` if the set is missing.
fn texts(language: &str) -> Option<Vec<String>> {
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

/// An English text of which about a quarter, by bytes, is Chinese: a Chinese sentence after every few English
/// ones.
fn mixed(english: &str, chinese: &str) -> String {
    let mut sentences = chinese.split_inclusive('。');
    let (mut text, mut foreign) = (String::new(), 0);
    for sentence in english.split_inclusive(". ") {
        text.push_str(sentence);
        while foreign * 3 < text.len() - foreign {
            let Some(sentence) = sentences.next() else { break };
            text.push_str(sentence);
            foreign += sentence.len();
        }
    }
    text
}

#[test]
fn text_in_another_script_at_the_end_of_a_mixed_text_changes_little() {
    let (Some(english), Some(chinese)) =
        (texts_of("en_abstracts/docs.jsonl.gz"), texts_of("zh_edits/docs.jsonl.gz"))
    else {
        return;
    };
    let english: Vec<&String> = english.iter().filter(|text| text.len() > 800).take(400).collect();
    let chinese: Vec<&String> = chinese.iter().filter(|text| text.chars().count() > 400).take(800).collect();
    for (profile, k, least) in [("copies-64", 7, [0.95, 0.75]), ("copies-128", 23, [0.98, 0.95])] {
        let profile = Profile::named(profile).unwrap();
        for (characters, least) in [20, 50].into_iter().zip(least) {
            let is_found = |(at, english): &(usize, &&String)| {
                let own = mixed(english, chinese[*at]);
                let end: String = chinese[at + 400].chars().skip(50).take(characters).collect();
                let [own, copy] = [own.clone(), own + &end].map(|text| profile.fingerprint(&text).hash);
                own.distance(copy).is_some_and(|distance| distance <= k)
            };
            let found = english.iter().enumerate().filter(is_found).count() as f64;
            let recall = found / english.len() as f64;
            println!("{characters} characters at the end, {}: {recall:.3}", profile.id());
            assert!(recall >= least, "{characters} characters: {recall}");
        }
    }
}
