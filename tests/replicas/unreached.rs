//! Servers that do not reach the log, or whose clock is not that of its store, or whose log is older than
//! they are.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use super::divergence::{expect_agreement, until_ready_is};
use super::server::{Server, ids};
use super::servers::{Replicas, copy, documents, eventually};
use super::skipped::skipped;

const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
const STALE: &str = "x-lookalike-stale-ms";
const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

fn add(id: &str, digit: &str) -> Value {
    json!({"id": id, "hash": digit.repeat(16)})
}

/// A server answers lookups from its data, says that they may be old, and refuses writes.
async fn expect_old_data(server: &Server) {
    let (status, problem) = server.post("/documents", add("c", "3")).await;
    assert_eq!(status, UNAVAILABLE, "{problem}");
    let code = problem["code"].as_str().unwrap();
    let is_unknown = code == "deadline_exceeded" && problem["outcome"] == "unknown";
    assert!(["log_unavailable", "outcome_unknown"].contains(&code) || is_unknown, "{problem}");
    let found = server.get(&format!("/similar?hash={}&k=0", "1".repeat(16))).await;
    assert!(found.headers().contains_key(STALE), "{:?}", found.headers());
    assert_eq!(ids(&found.json().await.unwrap()), ["a"]);
    assert_eq!(server.get("/readyz").await.status(), StatusCode::OK);
    let exact = server.get(&format!("/similar?hash={}&linearizable=true", "1".repeat(16))).await;
    assert_eq!(exact.status(), UNAVAILABLE);
    assert_eq!(exact.json::<Value>().await.unwrap()["code"], "log_unavailable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_log_lookups_continue_also_after_a_start() {
    let mut replicas = Replicas::start(2).await;
    assert_eq!(replicas.server(0).post("/documents", add("a", "1")).await.0, StatusCode::CREATED);
    eventually(replicas.server(1), "/documents/a?linearizable=true").await;
    replicas.stop(1);
    replicas.hide_log();
    expect_old_data(replicas.server(0)).await;
    replicas.restart(1).await;
    expect_old_data(replicas.server(1)).await;
    replicas.show_log();
    for (at, server) in replicas.running().enumerate() {
        let (status, answer) = server.post("/documents", add(&format!("z{at}"), "4")).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
    let exports = replicas.exports("default").await;
    assert_eq!(documents(&exports[0]), documents(&exports[1]));
    let fresh = replicas.server(1).get("/similar?hash=0000000000000000&linearizable=true").await;
    assert!(!fresh.headers().contains_key(STALE), "{:?}", fresh.headers());
    expect_agreement(&replicas).await;
}

/// A first start waits for the log, and knows the parameters of replicas meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_waits_for_its_first_log_says_so() {
    let replicas = Replicas::start(1).await;
    replicas.hide_log();
    let dir = tempfile::tempdir().unwrap();
    let mut waiting = replicas.command(1, dir.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines().map(Result::unwrap);
    let bound = lines.find_map(|line| Some(line.split_once("bound to ")?.1.split_once(';')?.0.to_owned()));
    let (client, url) = (Client::new(), format!("http://{}", bound.unwrap()));
    for query in ["", "&at_least=7", "&linearizable=true"] {
        let refused =
            client.get(format!("{url}/similar?hash={}{query}", "1".repeat(16))).send().await.unwrap();
        assert_eq!(refused.status(), UNAVAILABLE);
        assert_eq!(refused.json::<Value>().await.unwrap()["code"], "starting", "{query}");
    }
    replicas.show_log();
    assert!(lines.any(|line| line.contains("ready, listening on")));
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_wrong_clock_writes_no_expiry_times() {
    if !Path::new(FAKETIME).exists() {
        return skipped(&format!("{FAKETIME} is missing (Debian: apt-get install faketime)"));
    }
    let mut replicas = Replicas::start(2).await;
    let short = |id: &str| json!({"id": id, "hash": "5".repeat(16), "expires_in": "30m"});
    assert_eq!(replicas.server(0).post("/documents", short("a")).await.0, StatusCode::CREATED);
    replicas.kill(1);
    let mut command = replicas.command(1, replicas.dir(1));
    command.envs([("LD_PRELOAD", FAKETIME), ("FAKETIME", "+1h"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
    command.env("NO_FAKE_STAT", "1");
    let wrong = Server::launch_with_fault(command).await.unwrap();
    let reason = until_ready_is(&wrong, UNAVAILABLE, "s ahead of that of the store").await;
    assert!(reason.contains("synchronise it"), "{reason}");
    let (status, refused) = wrong.post("/documents", short("b")).await;
    assert_eq!((status, &refused["code"]), (UNAVAILABLE, &json!("log_unavailable")), "{refused}");
    // It writes what does not expire, and lets no time pass for the others.
    assert_eq!(wrong.post("/documents", add("c", "6")).await.0, StatusCode::CREATED);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let export = eventually(replicas.server(0), "/export?linearizable=true").await;
    assert_eq!(documents(&export).len(), 2, "{export}");
}

/// The store of the log has an older state again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_older_than_the_data_takes_no_writes() {
    let mut replicas = Replicas::start(2).await;
    assert_eq!(replicas.server(0).post("/documents", add("a", "1")).await.0, StatusCode::CREATED);
    let older = tempfile::tempdir().unwrap();
    let url = replicas.log_url("lookalike");
    let log = Path::new(url.strip_prefix("file://").unwrap());
    copy(log, older.path());
    assert_eq!(replicas.server(1).post("/documents", add("b", "2")).await.0, StatusCode::CREATED);
    replicas.exports("default").await;
    (0..2).for_each(|at| replicas.kill(at));
    fs::remove_dir_all(log).unwrap();
    fs::create_dir(log).unwrap();
    copy(older.path(), log);
    for at in 0..2 {
        replicas.restart_in_any_state(at).await;
        let server = replicas.server(at);
        let reason = until_ready_is(server, UNAVAILABLE, "restored from an older backup or replaced").await;
        assert!(reason.contains("read_only") && reason.contains("start the replicas anew"), "{reason}");
        for refused in [
            server.post("/documents", add("c", "3")).await,
            server.put("/collections/new", json!({"k": 3})).await,
        ] {
            assert_eq!((refused.0, &refused.1["code"]), (UNAVAILABLE, &json!("read_only")), "{}", refused.1);
        }
        assert_eq!(documents(&eventually(server, "/export").await).len(), 2);
        let metrics = eventually(server, "/metrics").await;
        assert!(metrics.contains("\nlookalike_replica_following 0\n"));
    }
}
