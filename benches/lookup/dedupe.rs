//! `dedupe`: the command on files against fingerprinting the same texts alone, on as many threads, and its
//! memory per document.
//!
//! Both times are elapsed times, and the runs take turns, because the machine is shared.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flate2::read::GzDecoder;
use lookalike::corpus::{Documents, Kept, Print};
use lookalike::fingerprint::Profile;
use lookalike::ids::{Hash, Width};

use crate::rounds::{ROUNDS, median, ratio, take_turns};

/// How many times the texts are in the file, with another first word each time.
const COPIES: usize = 6;
const THREADS: usize = 2;

/// Times, if the sets are there, and the memory of this many documents.
pub fn run(documents: usize) {
    times();
    memory(documents);
}

fn times() {
    let sets = ["zh_edits", "zh_revisions", "en_reuters", "en_abstracts"];
    let read: Vec<Vec<String>> = sets.iter().filter_map(|set| texts(set)).collect();
    if read.len() < sets.len() {
        println!("skipped: sets are missing in ../shared/data\n");
        return;
    }
    let texts: Vec<String> = (0..COPIES)
        .flat_map(|copy| read.iter().flatten().map(move |text| format!("{copy} {text}")))
        .collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("in.jsonl");
    let mut file = BufWriter::new(File::create(&input).expect("a file"));
    for text in &texts {
        writeln!(file, "{}", serde_json::json!({"text": text})).expect("space on the disk");
    }
    file.flush().expect("space on the disk");
    println!(
        "## dedupe of {} texts, {:.0} MB, {THREADS} threads, {ROUNDS} rounds\n",
        texts.len(),
        bytes as f64 / 1e6
    );
    let mut alone = || fingerprinted(&texts);
    let mut first = || deduped(folder.path(), "first");
    let mut longest = || deduped(folder.path(), "longest");
    let [alone, first, longest] = take_turns([&mut alone, &mut first, &mut longest]);
    println!("| what | seconds | speed of fingerprinting alone |\n|---|--:|--:|");
    println!("| fingerprinting alone | {:.2} | 1 |", median(alone.clone()));
    for (name, seconds) in [("`dedupe --keep first`", &first), ("`dedupe --keep longest`", &longest)] {
        println!("| {name} | {:.2} | {:.3} |", median(seconds.clone()), ratio(&alone, seconds));
    }
    println!();
}

/// The seconds in which a new process fingerprints all texts: as the command, it loads its dictionaries.
fn fingerprinted(texts: &[String]) -> f64 {
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    let profile = Profile::default_profile();
    let work = || {
        while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
            std::hint::black_box(profile.sign(text));
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(work)));
    start.elapsed().as_secs_f64()
}

fn deduped(folder: &Path, keep: &str) -> f64 {
    let output = folder.join("out");
    let _ = fs::remove_dir_all(&output);
    let start = Instant::now();
    let threads = THREADS.to_string();
    let status = Command::new(env!("CARGO_BIN_EXE_lookalike"))
        .args(["dedupe", "in.jsonl", "-o", "out", "--duplicates", "dropped.jsonl", "--force"])
        .args(["--keep", keep, "--threads", &threads])
        .current_dir(folder)
        .output();
    assert!(status.expect("the command runs").status.success());
    start.elapsed().as_secs_f64()
}

/// The bytes per document of the structures that `--keep first` holds in memory.
fn memory(documents: usize) {
    println!("## Memory of `dedupe --keep first`, {documents} documents of random hashes, all kept\n");
    println!("| bits | bytes per document |\n|---|--:|");
    for width in [Width::Bits64, Width::Bits128] {
        let mut all = Documents::new(width, None, 7, None);
        let mut kept = Kept::none_of(&all);
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..documents {
            let hash = match width {
                Width::Bits64 => Hash::from_u64(random.u64(..)),
                Width::Bits128 => Hash::from_u128(random.u128(..)),
            };
            let number = all.push(&Print { hash, signature: Vec::new(), sketch: Vec::new() });
            kept.visit(&all, number);
        }
        let bytes = (all.bytes() + kept.bytes()) as f64 / documents as f64;
        println!("| {} | {bytes:.1} |", width.bits());
    }
    println!();
}

fn texts(set: &str) -> Option<Vec<String>> {
    let folder = std::env::var_os("LOOKALIKE_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        std::path::PathBuf::from,
    );
    let file = File::open(folder.join(set).join("docs.jsonl.gz")).ok()?;
    let lines = BufReader::new(GzDecoder::new(file)).lines().map_while(Result::ok);
    let text = |line: String| -> Option<String> {
        serde_json::from_str::<serde_json::Value>(&line).ok()?["text"].as_str().map(str::to_owned)
    };
    Some(lines.filter_map(text).collect())
}
