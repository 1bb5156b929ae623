//! Servers that are restarted one after the other, behind HAProxy as in the tour of replicas: no lookup
//! fails, and no acknowledged write is lost.
//!
//! `LOOKALIKE_TEST_EARLIER_BINARY` names the binary of an earlier version, which the servers run at first.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::cycles;
use super::divergence::expect_agreement;
use super::haproxy::{self, HaProxy};
use super::server::{BINARY, ids, lines};
use super::servers::{Place, Replicas, documents};

const CLIENTS: u64 = 3;
/// The documents that are there from the beginning.
const STORED: u64 = 2_000;

/// Looks up stored documents until it is told to stop. Returns the number of lookups, and those that failed.
async fn look_up(url: String, client: u64, stop: Arc<AtomicBool>) -> (u64, Vec<String>) {
    let (http, mut asked, mut failed) = (Client::new(), 0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let id = (asked * 7 + client) % STORED;
        asked += 1;
        let answer = http.get(format!("{url}/similar?hash={id:016x}&k=0")).send().await;
        let found = match answer {
            Ok(answer) if answer.status() == StatusCode::OK => answer.json::<Value>().await.map(|f| ids(&f)),
            Ok(answer) => {
                failed.push(format!("{} {}", answer.status(), answer.text().await.unwrap_or_default()));
                continue;
            }
            Err(error) => Err(error),
        };
        match found {
            Ok(found) if found == [id.to_string()] => {}
            other => failed.push(format!("{id}: {other:?}")),
        }
    }
    (asked, failed)
}

/// Writes new documents until it is told to stop. Returns the ids that were acknowledged, and the failures.
async fn write(url: String, client: u64, stop: Arc<AtomicBool>) -> (Vec<String>, Vec<String>) {
    let (http, mut acknowledged, mut failed) = (Client::new(), Vec::new(), Vec::new());
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("w{client}-{number}");
        let hash = format!("{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ client);
        let request = http.put(format!("{url}/documents/{id}")).json(&json!({"hash": hash}));
        match request.send().await {
            Ok(answer) if answer.status().is_success() => acknowledged.push(id),
            Ok(answer) => {
                failed.push(format!("{} {}", answer.status(), answer.text().await.unwrap_or_default()));
            }
            Err(error) => failed.push(error.to_string()),
        }
    }
    (acknowledged, failed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_fail_no_lookup_and_lose_no_write() {
    if !haproxy::is_installed() {
        return;
    }
    let earlier = std::env::var_os("LOOKALIKE_TEST_EARLIER_BINARY").map(PathBuf::from);
    let here = vec![Place::loopback(); 3];
    let program = earlier.unwrap_or_else(|| BINARY.into());
    // The time for HAProxy to notice that a server stops, as in the default settings.
    let variables = [("LOOKALIKE_SERVER__LAME_DUCK_SECONDS", "2")];
    let mut replicas = Replicas::start_at(&here, &variables, &program).await;
    assert_eq!(replicas.server(0).stream("/documents", lines(0..STORED)).await.1["created"], STORED);
    replicas.exports("default").await;
    let urls: Vec<&str> = replicas.running().map(|server| server.url.as_str()).collect();
    let proxy = block_in_place(|| HaProxy::start(&urls));
    let stop = Arc::<AtomicBool>::default();
    let start = |client| {
        let lookups = tokio::spawn(look_up(proxy.url.clone(), client, Arc::clone(&stop)));
        (lookups, tokio::spawn(write(proxy.url.clone(), client, Arc::clone(&stop))))
    };
    let (lookups, writers): (Vec<_>, Vec<_>) = (0..CLIENTS).map(start).unzip();
    replicas.program = BINARY.into();
    for _ in 0..cycles(1) {
        for at in 0..3 {
            block_in_place(|| replicas.stop(at));
            replicas.restart(at).await;
            // The next one stops when this one gets requests again.
            block_in_place(|| proxy.replace(at, &replicas.server(at).url));
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (mut asked, mut acknowledged) = (0, Vec::new());
    for answers in join_all(lookups).await {
        let (count, failed) = answers.unwrap();
        assert!(failed.is_empty(), "{} of {count} lookups failed: {}", failed.len(), failed[0]);
        asked += count;
    }
    for answers in join_all(writers).await {
        let (written, failed) = answers.unwrap();
        assert!(failed.is_empty(), "{} writes failed: {}", failed.len(), failed[0]);
        acknowledged.extend(written);
    }
    expect_agreement(&replicas).await;
    let export = replicas.exports("default").await.remove(0);
    let stored: std::collections::HashSet<String> =
        documents(&export).iter().map(|document| document["id"].as_str().unwrap().to_owned()).collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|id| !stored.contains(*id)).collect();
    assert!(lost.is_empty(), "{} of {} writes are lost: {lost:?}", lost.len(), acknowledged.len());
    assert!(asked > 100 && acknowledged.len() > 50, "{asked} lookups, {} writes", acknowledged.len());
    eprintln!(
        "{} restarts: {asked} lookups, none failed; {} writes acknowledged, none failed, none lost",
        3 * cycles(1),
        acknowledged.len()
    );
}
