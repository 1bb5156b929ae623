//! Writes to one collection while copies in another one expire, are deleted, and get another representative:
//! with clusters of documents and without, on fresh servers.
//!
//! The copies have 60 hashes; for the change of a representative all have one hash. One client writes single
//! documents to the other collection as fast as it gets answers, with a pause of 2 ms.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reqwest::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::data::Even;
use crate::server::Server;

/// The number of hashes of the copies.
const HASHES: usize = 60;
/// The copies that are deleted by one request each.
const SINGLES: usize = 3_000;
/// The ids of one deletion.
const IDS: usize = 500;

/// What is done to the copies.
#[derive(Clone, Copy, Debug)]
enum Case {
    Expire,
    DeleteByFilter,
    DeleteByIds,
    DeleteOneByOne,
    ChangeRepresentative,
}

const CASES: [Case; 5] =
    [Case::Expire, Case::DeleteByFilter, Case::DeleteByIds, Case::DeleteOneByOne, Case::ChangeRepresentative];

pub fn run(counts: &[usize]) {
    let runtime = Runtime::new().expect("a runtime");
    for &count in counts {
        println!("## Writes to another collection beside {count} copies\n");
        println!("| the copies | clusters | took s | writes | p50 ms | p99 ms | max ms | refused |");
        println!("|---|---|--:|--:|--:|--:|--:|--:|");
        for case in CASES {
            for has_clusters in [false, true] {
                let row = runtime.block_on(measure(case, has_clusters, count));
                println!("| {case:?} | {} | {row} |", if has_clusters { "with" } else { "without" });
            }
        }
        println!();
    }
}

/// The copies as NDJSON; they expire at a time in seconds, if one is given.
fn lines(case: Case, count: usize, expires: Option<u64>) -> String {
    let hashes: Vec<u64> = Even::seeded(7).take(HASHES).collect();
    let mut lines = String::new();
    for at in 0..count {
        let hash = if matches!(case, Case::ChangeRepresentative) { hashes[0] } else { hashes[at % HASHES] };
        let _ = write!(lines, "{{\"id\":\"{at}\",\"hash\":\"{hash:016x}\",\"metadata\":{{\"t\":{at}}}");
        if let Some(expires) = expires {
            let _ = write!(lines, ",\"expires_in\":{expires}");
        }
        lines.push_str("}\n");
    }
    lines
}

async fn measure(case: Case, has_clusters: bool, count: usize) -> String {
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&data.path().join("data")).await;
    let client = Client::new();
    let keep = if matches!(case, Case::ChangeRepresentative) { "newest:t" } else { "first" };
    let mut settings = json!({"profile": "hashes-64", "k": 3});
    if has_clusters {
        settings["clusters"] = json!({"keep": keep, "k": 3});
    }
    // Each document expires this long after it is stored, and all are stored before the first one expires.
    let life = (count as u64 / 10_000).max(3);
    let expires = matches!(case, Case::Expire).then_some(life);
    let begun = SystemTime::now();
    server.store("copies", &settings, lines(case, count, expires)).await;
    server.store("other", &json!({"profile": "hashes-64"}), "{\"hash\":\"0000000000000001\"}\n").await;
    while expires.is_none() && pending(&client, &server).await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if expires.is_some() {
        let rest = (begun + Duration::from_secs(life)).duration_since(SystemTime::now());
        tokio::time::sleep(rest.unwrap_or_default().saturating_sub(Duration::from_millis(200))).await;
    }
    let is_done = Arc::new(AtomicBool::new(false));
    let writes =
        tokio::spawn(write(client.clone(), server.url("/collections/other/documents"), Arc::clone(&is_done)));
    let start = Instant::now();
    change(case, &client, &server, count).await;
    while pending(&client, &server).await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = start.elapsed();
    tokio::time::sleep(Duration::from_millis(300)).await;
    is_done.store(true, Ordering::SeqCst);
    let (mut times, refused) = writes.await.expect("the writer ends");
    times.sort_unstable();
    let at =
        |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)].as_secs_f64() * 1e3;
    let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
    format!("{:.2} | {} | {p50:.1} | {p99:.1} | {max:.0} | {refused}", took.as_secs_f64(), times.len())
}

/// Writes documents until it is told to end. Returns how long each took, and how many were refused.
async fn write(client: Client, url: String, is_done: Arc<AtomicBool>) -> (Vec<Duration>, usize) {
    let (mut times, mut refused, mut hashes) = (Vec::new(), 0, Even::seeded(9));
    while !is_done.load(Ordering::SeqCst) {
        let hash = hashes.next().expect("there are always more");
        let start = Instant::now();
        let sent = client.post(&url).json(&json!({"hash": format!("{hash:016x}")})).send().await;
        times.push(start.elapsed());
        refused += usize::from(!sent.is_ok_and(|answer| answer.status().is_success()));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (times, refused)
}

async fn change(case: Case, client: &Client, server: &Server, count: usize) {
    let route = |route: String| server.url(&format!("/collections/copies{route}"));
    let delete = async |body: Value| {
        let sent = client.post(route("/deletions".to_owned())).json(&body).send().await.expect("an answer");
        assert!(sent.status().is_success(), "{:?}", sent.text().await);
    };
    match case {
        Case::Expire => {}
        Case::DeleteByFilter => delete(json!({"filter": {"written_before": "2100-01-01T00:00:00Z"}})).await,
        Case::DeleteByIds => {
            for from in (0..count).step_by(IDS) {
                let ids: Vec<String> = (from..count.min(from + IDS)).map(|at| at.to_string()).collect();
                delete(json!({"ids": ids})).await;
            }
        }
        Case::DeleteOneByOne => {
            for at in 0..count.min(SINGLES) {
                let sent = client.delete(route(format!("/documents/{at}"))).send().await.expect("an answer");
                assert!(sent.status().is_success());
            }
            return;
        }
        Case::ChangeRepresentative => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            let change = json!({"metadata": {"t": now}});
            let url = route(format!("/documents/{}", count / 2));
            let sent = client.patch(url).json(&change).send().await.expect("an answer");
            assert!(sent.status().is_success());
            return;
        }
    }
    while about(client, &route(String::new())).await["documents"] != 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The number of tasks that are left; 0 without clusters.
async fn pending(client: &Client, server: &Server) -> u64 {
    let found = about(client, &server.url("/collections/copies/clusters?limit=1")).await;
    found["pending"].as_u64().unwrap_or_default()
}

async fn about(client: &Client, url: &str) -> Value {
    let answer = client.get(url).send().await.expect("an answer");
    answer.json().await.expect("JSON")
}
