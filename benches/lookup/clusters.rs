//! Streams of documents into a collection with clusters of documents, compared with the same streams into one
//! without: 64 and 128 bits, copies of few documents, and documents without near ones.
//!
//! Without near ones every document represents a cluster, so each is looked up among all before it.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::data::Even;
use crate::rounds::{ROUNDS, median, ratio, take_turns_in};
use crate::server::Server;

/// The copies of each document that has some.
const COPIES: usize = 5;

/// The hashes of a stream.
struct Hashes {
    profile: &'static str,
    bits: u32,
    k: u32,
    /// The most bits in which a copy differs.
    differing: u32,
}

const HASHES: [Hashes; 2] = [
    Hashes { profile: "copies-64", bits: 64, k: 7, differing: 6 },
    Hashes { profile: "copies-128", bits: 128, k: 23, differing: 20 },
];

pub fn run(counts: &[usize]) {
    let runtime = Runtime::new().expect("a runtime");
    for &count in counts {
        // A million documents of 128 bits take minutes, so there is one round of them.
        let rounds = (1_000_000 / count.max(1)).clamp(1, ROUNDS);
        println!("## Clusters of documents, {count} documents, keep first, rounds: {rounds}\n");
        println!("| | documents/s without | with clusters | with ÷ without | representatives |");
        println!("|---|--:|--:|--:|--:|");
        for hashes in &HASHES {
            for (kind, centres) in [("copies", count / (COPIES + 1)), ("none near", count)] {
                let row = compare(&runtime, hashes, (count, centres.max(1)), rounds);
                println!("| {} bits, k={}, {kind} | {row} |", hashes.bits, hashes.k);
            }
        }
        println!();
    }
}

/// Measures both in turns, each time on a fresh server. Returns the cells of a row.
fn compare(runtime: &Runtime, hashes: &Hashes, counts: (usize, usize), rounds: usize) -> String {
    let body = hashes.lines(counts);
    let plain = json!({"profile": hashes.profile, "k": hashes.k});
    let mut clustered = plain.clone();
    clustered["clusters"] = json!({"keep": "first"});
    let store = |settings: &Value| {
        let data = tempfile::tempdir().expect("a temporary directory");
        let server = runtime.block_on(Server::start(&data.path().join("data")));
        let took = runtime.block_on(server.store("documents", settings, body.clone()));
        (server, data, counts.0 as f64 / took.as_secs_f64())
    };
    let mut representatives = 0;
    let mut store_clustered = || {
        let (server, _data, rate) = store(&clustered);
        representatives = runtime.block_on(count_representatives(&server));
        rate
    };
    let [without, with] = take_turns_in(rounds, [&mut || store(&plain).2, &mut store_clustered]);
    let middle = |rates: &[f64]| median(rates.iter().copied());
    let (plain, clustered) = (middle(&without), middle(&with));
    format!("{plain:.0} | {clustered:.0} | {:.2} | {representatives}", ratio(&with, &without))
}

impl Hashes {
    /// As many documents as the first number, as NDJSON: those of the second number first, and then copies of
    /// them in turns.
    fn lines(&self, (count, centres): (usize, usize)) -> Bytes {
        let mut even = Even::seeded(25);
        let mut number = || even.next().expect("there are always more");
        let width = |hash: u128| if self.bits == 64 { hash & u128::from(u64::MAX) } else { hash };
        let stored: Vec<u128> =
            (0..centres).map(|_| width(u128::from(number()) << 64 | u128::from(number()))).collect();
        let (mut lines, digits) = (String::new(), self.bits as usize / 4);
        for at in 0..count {
            let flips = if at < centres { 0 } else { number() % u64::from(self.differing + 1) };
            let hash = (0..flips)
                .fold(stored[at % centres], |hash, _| hash ^ 1 << (number() % u64::from(self.bits)));
            let _ = writeln!(lines, "{{\"id\":\"{at}\",\"hash\":\"{hash:0digits$x}\"}}");
        }
        lines.into()
    }
}

/// The number of documents that represent clusters.
async fn count_representatives(server: &Server) -> usize {
    let route = "/collections/documents/export?representatives=true";
    loop {
        let answer = reqwest::get(server.url(route)).await.expect("an answer");
        // Until all are decided it is refused.
        if answer.status().is_success() {
            let lines = answer.bytes().await.expect("all of it");
            return memchr::memchr_iter(b'\n', &lines).count() - 1;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
