//! `GET /similar` beside a bare axum handler: the same load (wrk, keep-alive) in turns.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::data::Even;
use crate::rounds::{median, ratio, take_turns};
use crate::server::Server;

/// Seconds of one round of one contender.
const SECONDS: &str = "4";
const CONNECTIONS: &str = "32";
/// What the store gets after a million writes to finish its compactions, which would take a core.
const SETTLE: std::time::Duration = std::time::Duration::from_secs(5);
/// What the bare handler answers: as long as the answer without a match.
const BARE: &str = r#"{"hash":"0123456789abcdef","k":3,"similar":[]}"#;

/// Every other request asks for a stored hash with one bit flipped, the rest for random ones.
fn script(stored: &[u64]) -> String {
    let hashes: Vec<String> = Even(7)
        .zip(stored.iter().step_by(stored.len() / 20_000 + 1))
        .flat_map(|(random, near)| {
            [format!("\"{random:016x}\""), format!("\"{:016x}\"", near ^ (1 << (random % 64)))]
        })
        .collect();
    format!(
        "local hashes = {{{}}}\nlocal at = 0\nfunction request()\n  at = at % #hashes + 1\n  return wrk.format(\"GET\", \"/similar?hash=\" .. hashes[at] .. \"&k=3\")\nend\n",
        hashes.join(",")
    )
}

pub fn run(count: usize) {
    println!("## Over HTTP, {count} uniform 64-bit hashes, `GET /similar?hash=…&k=3`\n");
    if Command::new("wrk").arg("--version").output().is_err() {
        println!("skipped: wrk is not installed\n");
        return;
    }
    let stored: Vec<u64> = Even(1).take(count).collect();
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
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(script(&stored).as_bytes()).expect("room for it");
    let path = file.path().to_string_lossy().into_owned();
    let [similar, floor] = take_turns([&mut || requests_a_second(server.address, &path), &mut || {
        requests_a_second(bare, &path)
    }]);
    println!("| | requests/s, median |\n|---|---|");
    println!("| `GET /similar`, half of them with a match | {:.0} |", median(similar.iter().copied()));
    println!("| bare axum handler | {:.0} |", median(floor.iter().copied()));
    println!("| ratio, median of the rounds | {:.2} |\n", ratio(&similar, &floor));
}

/// Stores the hashes over HTTP, durable, and waits until the store has settled.
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

fn requests_a_second(address: SocketAddr, script: &str) -> f64 {
    let output = Command::new("wrk")
        .args(["-t1", "-c", CONNECTIONS, "-d", SECONDS, "-s", script, &format!("http://{address}")])
        .output()
        .expect("wrk runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("Non-2xx"), "{text}");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    line.and_then(|figure| figure.trim().parse().ok()).expect("wrk prints a rate")
}
