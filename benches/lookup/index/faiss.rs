//! The index compared with binary indexes of faiss, which run in a separate process, with the same queries
//! in turn. Python is that of the tests, or `LOOKALIKE_BENCH_PYTHON`. Without `faiss-cpu` the
//! comparison is skipped with a message.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use lookalike_hamming::Index;
use lookalike_hash::U256;
use tempfile::NamedTempFile;

use super::data::Hash;
use super::{QUERIES, SLICE, data};
use crate::rounds::{ROUNDS, median, ratio};

/// The largest distance is 12, because there a query of faiss among ten million takes half a second.
const DISTANCES: [u32; 7] = [0, 3, 6, 7, 8, 10, 12];
/// The distances at 256 bits.
const WIDE: [u32; 3] = [7, 15, 31];
/// The index of 64 bits, and those of 256 bits: name, arguments of the program, whether it finds everything.
const NARROW: Peer = ("IndexBinaryMultiHash, 4 maps", ["multi", "4"], true);
const PEERS: [Peer; 3] = [
    ("IndexBinaryMultiHash, 16 maps", ["multi", "16"], true),
    ("IndexBinaryFlat", ["flat", "0"], true),
    ("IndexBinaryHash, 24 bits", ["hash", "24"], false),
];

type Peer = (&'static str, [&'static str; 2], bool);

/// A process with the hashes in an index of faiss.
struct Faiss {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Faiss {
    fn start<W: Hash>(stored: &[W], arguments: [&str; 2]) -> Option<Faiss> {
        let hashes = file_of(stored);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/lookup/index/binary_index.py");
        let mut command = Command::new(python());
        command
            .arg(script)
            .arg(hashes.path())
            .arg(W::WIDTH.bits().to_string())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let (orders, answers) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut faiss = Faiss { child, orders, answers };
        (faiss.line() == "ready").then_some(faiss)
    }

    /// Nanoseconds per query, and the number of hashes that all queries found.
    fn look<W: Hash>(&mut self, queries: &[W], k: u32) -> (f64, u64) {
        let file = file_of(queries);
        writeln!(self.orders, "{k} {}", file.path().display()).expect("it takes orders");
        let line = self.line();
        let (nanoseconds, found) = line.split_once(' ').expect("two numbers");
        let nanoseconds: f64 = nanoseconds.parse().expect("a number");
        (nanoseconds / queries.len() as f64, found.parse().expect("a number"))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        // If the process has ended, the line is empty.
        let _ = self.answers.read_line(&mut line);
        line.trim_end().to_owned()
    }
}

impl Drop for Faiss {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python() -> PathBuf {
    let of_tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    std::env::var_os("LOOKALIKE_BENCH_PYTHON").map_or(of_tests, PathBuf::from)
}

fn file_of<W: Hash>(hashes: &[W]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    let mut bytes = Vec::with_capacity(hashes.len() * W::WIDTH.bytes());
    hashes.iter().for_each(|hash| hash.to_hash().write_bytes(&mut bytes));
    file.write_all(&bytes).expect("room for it");
    file
}

pub fn report(index: &Index<u64>, stored: &[u64]) {
    compare(NARROW, index, stored, &DISTANCES);
}

/// As [`report`], for 256 bits.
pub fn report_wide(index: &Index<U256>, stored: &[U256]) {
    PEERS.into_iter().for_each(|peer| compare(peer, index, stored, &WIDE));
}

fn compare<W: Hash>((name, arguments, is_exact): Peer, index: &Index<W>, stored: &[W], distances: &[u32]) {
    let Some(mut faiss) = Faiss::start(stored, arguments) else {
        println!(
            "\nfaiss: skipped, since Python has none; `target/python/bin/pip install faiss-cpu` brings it\n"
        );
        return;
    };
    println!(
        "\n| k | {name}, ns a query | lookalike | its ns ÷ lookalike's | it finds |\n|---|---|---|---|---|"
    );
    for &k in distances {
        let (mut all, mut of_all) = (0, 0);
        let (mut theirs, mut own) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let sample = data::queries(stored, QUERIES.0, k, 1_000 + round as u64);
            let (one, _) = faiss.look(&sample, k);
            let asked = ((SLICE.as_nanos() as f64 / one) as usize).clamp(QUERIES.0, QUERIES.1 / 10);
            let queries = data::queries(stored, asked, k, round as u64);
            let (nanoseconds, found) = faiss.look(&queries, k);
            theirs.push(nanoseconds);
            let (mut near, mut matches) = (Vec::new(), 0);
            let start = Instant::now();
            for query in &queries {
                near.clear();
                index.within(*query, k, &mut near);
                matches += near.len() as u64;
            }
            own.push(start.elapsed().as_nanos() as f64 / asked as f64);
            assert!(!is_exact || matches == found, "faiss differs at k = {k}");
            (all, of_all) = (all + matches, of_all + found);
        }
        let figures = [&theirs, &own].map(|figures| median(figures.iter().copied()));
        let share = of_all as f64 / all.max(1) as f64;
        println!(
            "| {k} | {:.0} | {:.0} | {:.2} | {share:.3} |",
            figures[0],
            figures[1],
            ratio(&theirs, &own)
        );
    }
}
