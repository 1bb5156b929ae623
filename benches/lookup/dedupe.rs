//! `dedupe`: the command on files against fingerprinting the same texts alone, on as many threads, and its
//! memory per document.
//!
//! Both times are elapsed times of new processes, which load their dictionaries, and the runs take turns,
//! because the machine is shared. Processor times are those of the processes and all their threads.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flate2::read::GzDecoder;
use lookalike_corpus::{Documents, Kept, Print};
use lookalike_hash::{Hash, U256, Width};
use lookalike_run::machine::thread_time;
use lookalike_text::fingerprint::Profile;

use crate::rounds::{ROUNDS, median, ratio, take_turns};

/// How many times the texts are in the file, with another first word each time.
const COPIES: usize = 6;
const THREADS: usize = 2;
/// The profiles of the command and of fingerprinting alone.
const PROFILES: [&str; 3] = ["copies-64", "copies-128", "minhash-copies"];

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
    drop(texts);
    println!("| profile | what | seconds | processor seconds | speed of fingerprinting alone |");
    println!("|---|---|--:|--:|--:|");
    for profile in PROFILES {
        let (mut alone_used, mut first_used, mut longest_used) = (Vec::new(), Vec::new(), Vec::new());
        let mut alone = || fingerprinted(&input, profile, &mut alone_used);
        let mut first = || deduped(folder.path(), profile, "first", &mut first_used);
        let mut longest = || deduped(folder.path(), profile, "longest", &mut longest_used);
        let [alone, first, longest] = take_turns([&mut alone, &mut first, &mut longest]);
        let row = |name: &str, seconds: &Vec<f64>, used: Vec<f64>| {
            let (median, used, ratio) = (median(seconds.clone()), median(used), ratio(&alone, seconds));
            println!("| `{profile}` | {name} | {median:.2} | {used:.2} | {ratio:.3} |");
        };
        row("fingerprinting alone", &alone, alone_used);
        row("`dedupe --keep first`", &first, first_used);
        row("`dedupe --keep longest`", &longest, longest_used);
    }
    println!();
}

/// Runs a process. Returns what it writes, and adds the processor time that it used.
fn used(command: &mut Command, used: &mut Vec<f64>) -> String {
    let before = children_seconds();
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    used.push(children_seconds() - before);
    String::from_utf8(output.stdout).expect("text")
}

/// The processor time of all processes that this one has started and that have ended (proc(5), fields 16 and
/// 17, in hundredths of a second).
fn children_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("procfs");
    let after_name = stat.rsplit_once(')').expect("a name").1;
    let fields = after_name.split_whitespace().skip(13).take(2);
    fields.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

/// The seconds in which a new process fingerprints all texts, which it has in memory.
fn fingerprinted(input: &Path, profile: &str, times: &mut Vec<f64>) -> f64 {
    let own = std::env::current_exe().expect("a path");
    let arguments = ["dedupe-alone".as_ref(), profile.as_ref(), input.as_os_str()];
    let mut ignored = Vec::new();
    let output = used(Command::new(own).args(arguments), &mut ignored);
    let mut figures = output.split_whitespace().map(|figure| figure.parse::<f64>().expect("a number"));
    let (elapsed, processor) = figures.next().zip(figures.next()).expect("two figures");
    times.push(processor);
    elapsed
}

/// Prints the seconds in which this process fingerprints the texts of a file, and its processor time for it.
pub fn alone(profile: &str, input: &Path) {
    let lines = BufReader::new(File::open(input).expect("a file")).lines();
    let text = |line: std::io::Result<String>| -> String {
        let line: serde_json::Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        line["text"].as_str().expect("a text").to_owned()
    };
    let texts: Vec<String> = lines.map(text).collect();
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    let profile = Profile::named(profile).expect("a profile");
    let work = || {
        let before = thread_time();
        while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
            std::hint::black_box(profile.sign(text));
        }
        thread_time().saturating_sub(before).as_secs_f64()
    };
    let processor: f64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    println!("{} {processor}", start.elapsed().as_secs_f64());
}

fn deduped(folder: &Path, profile: &str, keep: &str, times: &mut Vec<f64>) -> f64 {
    let output = folder.join("out");
    let _ = fs::remove_dir_all(&output);
    let start = Instant::now();
    let threads = THREADS.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookalike"));
    command
        .args(["dedupe", "in.jsonl", "-o", "out", "--duplicates", "dropped.jsonl", "--force"])
        .args(["--profile", profile, "--keep", keep, "--threads", &threads])
        .current_dir(folder);
    used(&mut command, times);
    start.elapsed().as_secs_f64()
}

/// The bytes per document of the structures that `--keep first` holds in memory.
fn memory(documents: usize) {
    println!("## Memory of `dedupe --keep first`, {documents} documents of random hashes, all kept\n");
    println!("| bits | bytes per document |\n|---|--:|");
    for width in Width::ALL {
        let mut kept = Kept::like(&Documents::new(width, None, 7, None));
        let mut random = fastrand::Rng::with_seed(5);
        for number in 0..documents as u32 {
            let hash = match width {
                Width::Bits64 => Hash::from_u64(random.u64(..)),
                Width::Bits128 => Hash::from_u128(random.u128(..)),
                Width::Bits256 => {
                    Hash::from_u256(U256::from(random.u128(..)) << 128 | U256::from(random.u128(..)))
                }
            };
            kept.visit((number, &Print { hash, signature: Vec::new(), sketch: Vec::new() }));
        }
        let bytes = kept.bytes() as f64 / documents as f64;
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
