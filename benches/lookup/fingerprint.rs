//! Fingerprinting: every profile in MB/s on one core, compared with word segmentation by jieba-rs alone.
//!
//! Times are processor times of the thread, because the machine is shared.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use jieba_rs::Jieba;
use lookalike_run::machine::thread_time;
use lookalike_text::fingerprint::Profile;

use crate::rounds::{ROUNDS, median};

/// MiB of text from each set.
const MEGABYTES: usize = 4;

pub fn run() {
    println!("## From text to hash, MB/s of one core, median of {ROUNDS} rounds\n");
    let sets = ["zh_edits", "zh_revisions", "en_reuters", "en_abstracts"];
    let texts: Vec<Vec<String>> = sets.iter().filter_map(|set| read(set)).collect();
    if texts.len() < sets.len() {
        println!("skipped: sets are missing in ../shared/data\n");
        return;
    }
    println!("| what | {} |\n|---|{}", sets.join(" | "), "--:|".repeat(sets.len()));
    for profile in Profile::all() {
        row(&profile.id().to_string(), &texts, |text| profile.fingerprint(text).features);
    }
    let words = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/words/assets/words.txt.gz");
    let words = GzDecoder::new(File::open(words).expect("the built-in dictionary"));
    let jieba = Jieba::with_dict(&mut BufReader::new(words)).expect("words with frequencies");
    row("jieba-rs alone, dictionary only", &texts, |text| jieba.cut(text, false).len());
    row("jieba-rs alone, with its model", &texts, |text| jieba.cut(text, true).len());
    println!();
}

fn row(name: &str, sets: &[Vec<String>], each: impl Fn(&str) -> usize) {
    let figures = sets.iter().map(|texts| {
        let bytes: usize = texts.iter().map(String::len).sum();
        // Load the data that is loaded on demand before the measurement.
        std::hint::black_box(each(&texts[0]));
        let rates = (0..ROUNDS).map(|_| {
            let start = thread_time();
            texts.iter().for_each(|text| _ = std::hint::black_box(each(text)));
            bytes as f64 / 1e6 / thread_time().saturating_sub(start).as_secs_f64()
        });
        format!("{:.1}", median(rates.collect::<Vec<_>>()))
    });
    println!("| {name} | {} |", figures.collect::<Vec<_>>().join(" | "));
}

fn read(set: &str) -> Option<Vec<String>> {
    let folder = std::env::var_os("LOOKALIKE_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        std::path::PathBuf::from,
    );
    let path = folder.join(set).join("docs.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(File::open(path).ok()?)).lines().map_while(Result::ok);
    let text = |line: String| -> Option<String> {
        serde_json::from_str::<serde_json::Value>(&line).ok()?["text"].as_str().map(str::to_owned)
    };
    let mut bytes = 0;
    let is_enough = |text: &String| {
        bytes += text.len();
        bytes < MEGABYTES << 20
    };
    Some(lines.filter_map(text).take_while(is_enough).collect())
}
