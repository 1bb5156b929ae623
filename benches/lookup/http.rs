//! `GET /similar` compared with a bare axum handler, with the same load (wrk, keep-alive), in turn.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;

use axum::Router;
use axum::routing::get;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use crate::data::Even;
use crate::rounds::{median, ratio, take_turns_in};
use crate::server::Server;

/// Seconds of a round of one contender. Rounds are short and many, because the other load of the machine
/// changes within seconds.
const SECONDS: &str = "1";
const ROUNDS: usize = 25;
const CONNECTIONS: &str = "32";
/// Connections for batches of `BATCH` hashes. With more, some requests would wait longer than
/// `pool.wait_ms` on a machine that occasionally stalls for 0.1 s.
const BATCHING: &str = "4";
/// The pause after the inserts, in which the store finishes its compactions. They would otherwise take a
/// core during the measurement.
const SETTLE: std::time::Duration = std::time::Duration::from_secs(5);
/// The answer of the bare handler, which has the length of an answer without a match.
const BARE: &str = r#"{"hash":"0123456789abcdef","k":3,"similar":[]}"#;

/// The number of documents that are looked up repeatedly, so that their rows are cached.
const POPULAR: usize = 20_000;

/// A wrk script that sends queries in turn, and the file of queries that it reads. Every other query is one
/// of `near` with one bit flipped, the others are random; all are random if `near` is empty.
fn load<'a>(near: impl Iterator<Item = &'a u64>) -> (NamedTempFile, NamedTempFile) {
    let mut queried: Vec<u64> =
        Even::seeded(7).zip(near).flat_map(|(random, near)| [random, near ^ (1 << (random % 64))]).collect();
    if queried.is_empty() {
        queried.extend(Even::seeded(7).take(2 * POPULAR));
    }
    let lines: String = queried.iter().map(|query| format!("{query:016x}\n")).collect();
    let queries = file_with(&lines);
    let script = format!(
        "local hashes = {{}}\n\
         for line in io.lines(\"{}\") do hashes[#hashes + 1] = line end\n\
         local at = 0\n\
         function request()\n\
         at = at % #hashes + 1\n\
         return wrk.format(\"GET\", \"/similar?hash=\" .. hashes[at] .. \"&k=3\")\n\
         end\n",
        queries.path().display()
    );
    (file_with(&script), queries)
}

fn file_with(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("space for it");
    file
}

pub fn run(count: usize) {
    println!("## Over HTTP, {count} uniform 64-bit hashes, `GET /similar?hash=…&k=3`\n");
    if Command::new("wrk").arg("--version").output().is_err() {
        println!("skipped: wrk is not installed\n");
        return;
    }
    let stored: Vec<u64> = Even::seeded(1).take(count).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = runtime.block_on(Server::start(&data.path().join("data")));
    let bare = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route("/similar", get(|| async { BARE }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        fill(&server, &stored).await;
        address
    });
    println!(
        "| | requests/s, median | bare handler in the same rounds | ratio, median of the rounds |\n\
         |---|---|---|---|"
    );
    let random = [load([].iter())];
    let popular = [load(stored.iter().step_by((stored.len() / POPULAR).max(1)).take(POPULAR))];
    let first: Vec<_> = stored.chunks(stored.len().div_ceil(ROUNDS)).map(|part| load(part.iter())).collect();
    for (case, queries) in [
        ("no match", &random[..]),
        ("every other one with a match among 20,000", &popular),
        ("every other one with a match looked up for the first time", &first),
    ] {
        let run_wrk = |address: SocketAddr| {
            let mut scripts = queries.iter().cycle();
            move || scripts.next().map_or(0.0, |script| requests_a_second(address, &script.0, CONNECTIONS))
        };
        let [similar, floor] = take_turns_in(ROUNDS, [&mut run_wrk(server.address), &mut run_wrk(bare)]);
        let medians = (median(similar.iter().copied()), median(floor.iter().copied()));
        println!(
            "| `GET /similar`, {case} | {:.0} | {:.0} | {:.2} |",
            medians.0,
            medians.1,
            ratio(&similar, &floor)
        );
    }
    let batches = batches(&stored);
    let [several] = take_turns_in(ROUNDS, [&mut || requests_a_second(server.address, &batches.0, BATCHING)]);
    println!(
        "\nBy {BATCH} in one request, half of them with a match: {:.2} M hashes/s.\n",
        median(several.iter().copied()) * BATCH as f64 / 1e6
    );
}

/// Hashes in one request.
const BATCH: usize = 1_000;

/// A wrk script that sends batches of `BATCH` queries, half of them one bit from a stored hash, and the
/// file of bodies that it reads.
fn batches(stored: &[u64]) -> (NamedTempFile, NamedTempFile) {
    let near = stored.iter().step_by((stored.len() / POPULAR).max(1)).take(POPULAR);
    let queried: Vec<u64> =
        Even::seeded(9).zip(near).flat_map(|(random, near)| [random, near ^ (1 << (random % 64))]).collect();
    let body = |part: &[u64]| {
        let queries: Vec<String> =
            part.iter().map(|hash| format!("{{\"hash\":\"{hash:016x}\",\"k\":3}}")).collect();
        format!("{{\"queries\":[{}]}}\n", queries.join(","))
    };
    let bodies = file_with(&queried.chunks_exact(BATCH).map(body).collect::<String>());
    let script = format!(
        "local bodies = {{}}\n\
         for line in io.lines(\"{}\") do bodies[#bodies + 1] = line end\n\
         local at = 0\n\
         local headers = {{[\"content-type\"] = \"application/json\"}}\n\
         function request()\n\
         at = at % #bodies + 1\n\
         return wrk.format(\"POST\", \"/batch/similar\", headers, bodies[at])\n\
         end\n",
        bodies.path().display()
    );
    (file_with(&script), bodies)
}

/// Stores the hashes durably over HTTP, and waits until the store is idle.
async fn fill(server: &Server, stored: &[u64]) {
    let client = reqwest::Client::new();
    let start = std::time::Instant::now();
    for part in stored.chunks(100_000) {
        let lines: String =
            part.iter().map(|hash| format!("{{\"id\":\"{hash:x}\",\"hash\":\"{hash:016x}\"}}\n")).collect();
        let request = client.post(server.url("/documents")).header("content-type", "application/x-ndjson");
        let answer = request.body(lines).send().await.expect("an answer");
        let text = answer.text().await.expect("all of it");
        assert!(text.ends_with(&format!(
            "{{\"summary\":{{\"created\":{},\"updated\":0,\"duplicates\":0,\"errors\":0}}}}\n",
            part.len()
        )));
    }
    println!(
        "{:.0} documents/s stored as hashes, durable, one stream\n",
        stored.len() as f64 / start.elapsed().as_secs_f64()
    );
    tokio::time::sleep(SETTLE).await;
}

/// Requests a second of wrk in one round with this script.
pub fn requests_a_second(address: SocketAddr, script: &NamedTempFile, connections: &str) -> f64 {
    let output = Command::new("wrk")
        .args([
            "-t1",
            "-c",
            connections,
            "-d",
            SECONDS,
            "-s",
            &script.path().to_string_lossy(),
            &format!("http://{address}"),
        ])
        .output()
        .expect("wrk runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("Non-2xx"), "{text}");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    line.and_then(|figure| figure.trim().parse().ok()).expect("wrk prints a rate")
}
