//! A server that alone writes and does not wait for the log: kills, outages of the store, another server on
//! its log, and the steps of a write.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::divergence::until_ready_is;
use super::moto::Moto;
use super::server::{Ended, Server, directory, lines, serve};
use super::servers::{Replicas, bucket, copy, documents, eventually};

const LOCAL: (&str, &str) = ("LOOKALIKE_SHARED_LOG__ACKNOWLEDGE", "local");
const STORED: (&str, &str) = (LOCAL.0, "stored");

/// Writes documents one after another, each acknowledged.
async fn add(server: &Server, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let added = server.post("/documents", json!({"id": format!("{n:04}"), "hash": format!("{n:016x}")}));
        let (status, answer) = added.await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
}

async fn unsent(server: &Server) -> Value {
    server.json("/replicas").await["unsent"].clone()
}

async fn until_all_is_sent(server: &Server) {
    let since = Instant::now();
    while unsent(server).await["entries"] != 0 {
        assert!(since.elapsed() < Duration::from_secs(30), "{}", server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The ids that a server has.
async fn ids(server: &Server) -> Vec<String> {
    let export = eventually(server, "/export").await;
    let id = |document: &Value| document["id"].as_str().unwrap().to_owned();
    documents(&export).iter().map(id).collect()
}

fn first(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n:04}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_survives_kills_and_outages_and_the_log_has_a_prefix_of_it() {
    let mut replicas = Replicas::start_with(1, &[LOCAL]).await;
    add(replicas.server(0), 0..50).await;
    // Killed while entries follow: at the start they are sent again, or found.
    replicas.kill(0);
    replicas.restart(0).await;
    assert_eq!(ids(replicas.server(0)).await, first(50));
    until_all_is_sent(replicas.server(0)).await;

    replicas.hide_log();
    add(replicas.server(0), 50..150).await;
    let state = unsent(replicas.server(0)).await;
    let (entries, bytes) = (state["entries"].as_u64().unwrap(), state["bytes"].as_u64().unwrap());
    // Writes that wait are parts of few entries.
    assert!((1..50).contains(&entries) && bytes > 0, "{state}");
    let ready = replicas.server(0).get("/readyz").await;
    assert_eq!(ready.status(), StatusCode::OK);
    assert!(ready.text().await.unwrap().contains("the shared log lacks"));
    let metrics = eventually(replicas.server(0), "/metrics").await;
    assert!(metrics.contains("\nlookalike_replica_unsent_entries "), "{metrics}");
    // Decided by what is stored, without the log.
    let read = replicas.server(0).get("/documents/0149?linearizable=true").await;
    assert_eq!(read.status(), StatusCode::OK);
    assert!(!read.headers().contains_key("x-lookalike-stale-ms"));

    // Killed without the store, and started without it.
    replicas.kill(0);
    replicas.restart(0).await;
    add(replicas.server(0), 150..200).await;
    replicas.kill(0);
    replicas.restart(0).await;
    assert_eq!(ids(replicas.server(0)).await, first(200));

    // The machine is lost now: the log has what was written before the outage.
    let lost = Replicas::start_with(0, &[]).await;
    let (from, to) = (replicas.log_url("lookalike.away"), lost.log_url("lookalike"));
    let path = |url: &str| Path::new(url.strip_prefix("file://").unwrap()).to_owned();
    fs::create_dir(path(&to)).unwrap();
    copy(&path(&from), &path(&to));
    let other = directory();
    let url = ("LOOKALIKE_SHARED_LOG__URL", to.as_str());
    let restored = Server::launch({
        let mut command = serve(other.path(), &[url, STORED, ("LOOKALIKE_REPLICAS__SERVER", "new")]);
        command.env("LOOKALIKE_REPLICAS__MAX_LAG_MS", "2000");
        command
    });
    let has = ids(&restored.await.unwrap_or_else(|ended| panic!("{ended:?}"))).await;
    assert_eq!(has, first(has.len()));
    assert!(has.len() >= 50);

    replicas.show_log();
    until_all_is_sent(replicas.server(0)).await;
    // A server without data has all of it.
    replicas.stop(0);
    replicas.wipe(0);
    replicas.restart(0).await;
    assert_eq!(ids(replicas.server(0)).await, first(200));

    // With the other form, what is left is sent before anything else.
    replicas.hide_log();
    add(replicas.server(0), 200..220).await;
    replicas.kill(0);
    replicas.show_log();
    let stored = replicas.try_start(0, replicas.dir(0), &[STORED]).await.unwrap();
    add(&stored, 220..230).await;
    let second = replicas.try_start(1, directory().path(), &[STORED]).await.unwrap();
    assert_eq!(ids(&second).await, first(230));
}

/// What a rule leaves out depends on all writes before it, so the log must have them in the same order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_with_a_rule_reach_a_bucket_that_stops() {
    let Some(moto) = Moto::start_in_order() else { return };
    let variables = bucket(&moto);
    let mut variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(LOCAL);
    let mut replicas = Replicas::start_with(1, &variables).await;
    let mut created = 0;
    for round in 0..6_u64 {
        let server = replicas.server(0);
        if round % 2 == 1 {
            moto.pause();
        }
        let part = lines(round * 1_500..(round + 2) * 1_500);
        let (_, summary) =
            server.stream(&format!("/documents?on_duplicate=skip&k={}", 1 + round % 3), part).await;
        assert!(summary["duplicates"].as_u64() > Some(100), "{summary}");
        created += summary["created"].as_u64().unwrap();
        if round % 2 == 1 {
            assert_ne!(unsent(server).await["entries"], 0);
            replicas.kill(0);
            moto.resume();
            replicas.restart(0).await;
        }
    }
    until_all_is_sent(replicas.server(0)).await;
    let export = eventually(replicas.server(0), "/export").await;
    assert_eq!(documents(&export).len() as u64, created);
    replicas.stop(0);
    let from_log = replicas.try_start(1, directory().path(), &[STORED]).await.unwrap();
    assert_eq!(documents(&eventually(&from_log, "/export").await), documents(&export));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_server_uses_the_log_and_another_one_is_noticed() {
    let mut replicas = Replicas::start_with(1, &[LOCAL]).await;
    add(replicas.server(0), 0..3).await;
    until_all_is_sent(replicas.server(0)).await;
    for form in [LOCAL, STORED] {
        let refused = replicas.try_start(1, directory().path(), &[form]).await;
        let Err(Ended { log, .. }) = refused else { panic!("a second server started") };
        assert!(log.contains("server \"s0\" uses the log"), "{log}");
    }
    // It is lost with an entry that the log does not have, and another one takes its place.
    replicas.hide_log();
    add(replicas.server(0), 3..6).await;
    replicas.kill(0);
    replicas.show_log();
    let second = replicas.try_start(1, directory().path(), &[]).await.unwrap();
    assert_eq!(ids(&second).await, first(3));
    add(&second, 6..9).await;
    until_all_is_sent(&second).await;
    assert!(second.stop().success());
    replicas.restart_in_any_state(0).await;
    let first = replicas.server(0);
    let reason =
        until_ready_is(first, StatusCode::SERVICE_UNAVAILABLE, "another server has made entry").await;
    assert!(reason.contains("read_only") && reason.contains("empty data directory"), "{reason}");
    let (status, refused) = first.post("/documents", json!({"id": "x", "hash": "0".repeat(16)})).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("read_only")),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_log_may_lack_is_bounded() {
    let limit = ("LOOKALIKE_SHARED_LOG__BEHIND_BYTES", "1MiB");
    let replicas = Replicas::start_with(1, &[LOCAL, limit]).await;
    let server = replicas.server(0);
    replicas.hide_log();
    let mut sum = 0;
    loop {
        server.stream("/documents", lines(sum..sum + 5_000)).await;
        sum += 5_000;
        let (status, answer) = server.post("/documents", json!({"hash": "2".repeat(16)})).await;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(answer["code"], "log_unavailable", "{answer}");
            break;
        }
        assert!(sum < 1_000_000);
    }
    until_ready_is(server, StatusCode::SERVICE_UNAVAILABLE, "shared_log.behind_bytes is 1048576").await;
    replicas.show_log();
    until_all_is_sent(server).await;
    until_ready_is(server, StatusCode::OK, "ready").await;
    assert_eq!(server.post("/documents", json!({"hash": "1".repeat(16)})).await.0, StatusCode::CREATED);
}

/// A write has the commits, and so the syncs, of one on a server without a log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_has_the_steps_of_a_server_without_a_log() {
    async fn commits(server: &Server) -> u64 {
        let metrics = eventually(server, "/metrics").await;
        let count = metrics.lines().find_map(|line| line.strip_prefix("lookalike_commit_seconds_count "));
        count.unwrap().parse().unwrap()
    }
    let (dir, replicas) = (directory(), Replicas::start_with(1, &[LOCAL]).await);
    let alone = Server::start(dir.path()).await;
    let mut counts = Vec::new();
    for server in [&alone, replicas.server(0)] {
        let before = commits(server).await;
        add(server, 0..40).await;
        counts.push(commits(server).await - before);
    }
    assert_eq!(counts, [40, 40]);
}
