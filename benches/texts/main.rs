//! Writes texts with known copies, as many as one likes, for runs over corpora that are larger than memory:
//!
//! ```sh
//! cargo bench --bench texts -- 20000000 > texts.jsonl
//! ```
//!
//! A text is some 170 words of a language that does not exist, whose words are as unevenly frequent as those
//! of a real one. Three texts in five are copies of an earlier one, of six kinds. A line has an `id`, the
//! `text`, and of a copy `copy_of`. A text depends on its number alone, so that the first million texts of
//! two files are the same.

use std::io::{self, BufWriter, Write};

use fastrand::Rng;

/// The words of the language, and the syllables that they are made of.
const WORDS: usize = 60_000;
const SYLLABLES: &str = "banacodefigohujakilemanopirusatevoxyzawebloclidrefrigluhonmerspatrunvil";
/// Of so many texts in a row the last ones are copies.
const IN_A_ROW: u64 = 5;
const ORIGINALS: u64 = 2;

fn main() -> io::Result<()> {
    // Cargo adds `--bench` to the arguments.
    let count = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let Some(count) = count else {
        eprintln!("usage: cargo bench --bench texts -- COUNT > FILE");
        return Ok(());
    };
    let words: Vec<String> = (0..WORDS).map(word).collect();
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    for number in 0..count {
        match original_of(number) {
            None => writeln!(out, r#"{{"id":"t{number}","text":"{}"}}"#, text(&words, number).join(" "))?,
            Some(original) => {
                let copy = copied(&words, text(&words, original), number);
                writeln!(out, r#"{{"id":"t{number}","text":"{copy}","copy_of":"t{original}"}}"#)?;
            }
        }
    }
    out.flush()
}

/// The word with this number.
fn word(number: usize) -> String {
    let mut random = Rng::with_seed(number as u64);
    let length = 1 + usize::from(number > 100) + random.usize(..3);
    let places: Vec<usize> = (0..length).map(|_| 2 * random.usize(..SYLLABLES.len() / 2)).collect();
    places.iter().map(|place| &SYLLABLES[*place..][..2]).collect()
}

/// A word, the first ones far more often than the last ones.
fn any<'a>(words: &'a [String], random: &mut Rng) -> &'a str {
    &words[((WORDS as f64).powf(random.f64()) as usize).clamp(1, WORDS) - 1]
}

/// The words of an original.
fn text(words: &[String], number: u64) -> Vec<&str> {
    let mut random = Rng::with_seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let length = random.usize(60..280);
    (0..length).map(|_| any(words, &mut random)).collect()
}

/// The number of the text that this one is a copy of; `None` if it is an original.
fn original_of(number: u64) -> Option<u64> {
    let place = number % IN_A_ROW;
    let mut random = Rng::with_seed(!number);
    (place >= ORIGINALS).then(|| random.u64(..=number / IN_A_ROW) * IN_A_ROW + random.u64(..ORIGINALS))
}

/// A copy of a text.
fn copied<'a>(words: &'a [String], mut text: Vec<&'a str>, number: u64) -> String {
    let mut random = Rng::with_seed(number.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let kind = random.usize(..6);
    match kind {
        1..=3 => {
            let share = [0.02, 0.05, 0.1][kind - 1];
            for place in &mut text {
                if random.f64() < share {
                    *place = any(words, &mut random);
                }
            }
        }
        4 => text.truncate(text.len() * 4 / 5),
        5 => text = [&["read", "more", "on", "page"][..], &text, &["all", "rights", "reserved"]].concat(),
        _ => {}
    }
    text.join(" ")
}
