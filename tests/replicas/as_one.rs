//! Replicas act as one: what one stores, all find, and any of them can be lost.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::etcd::{self, Etcd};
use super::server::{self, Server, ids, lines};
use super::servers::{POSITION, Replicas, documents, eventually, position};

/// All exports are equal; returns one of them.
fn equal(exports: &[String]) -> &str {
    for export in exports {
        assert_eq!(documents(export), documents(&exports[0]));
    }
    &exports[0]
}

// A thread for each start, which occupies it.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn servers_that_start_at_once_on_an_empty_log_create_the_default_collection_once() {
    if !etcd::is_installed() {
        return;
    }
    for _ in 0..3 {
        let etcd = Etcd::start(1, &[]).await;
        let dirs = [(); 4].map(|()| server::directory());
        let launched = dirs.iter().enumerate().map(|(at, dir)| {
            let mut command = server::serve(dir.path(), &[]);
            command.args(["--shared-log", &etcd.url("lookalike"), "--name", &format!("s{at}")]);
            tokio::spawn(Server::launch(command))
        });
        // All of them wait for the log, and begin to follow it in the same moment.
        etcd.pause(0);
        let launched: Vec<_> = launched.collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        etcd.resume(0);
        let launched = join_all(launched).await.into_iter();
        let servers: Vec<Server> = launched.map(|server| server.unwrap().unwrap()).collect();
        let of = async |server: &Server| server.json("/collections/default").await["created_at"].clone();
        let first = of(&servers[0]).await;
        for server in &servers[1..] {
            assert_eq!(of(server).await, first);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_stores_all_find() {
    if !etcd::is_installed() {
        return;
    }
    let mut replicas = Replicas::start(3).await;
    let (status, _) = replicas.server(0).put("/collections/news", json!({"k": 5, "keep_text": true})).await;
    assert_eq!(status, StatusCode::CREATED);
    // A document through each server, found through the next one at the position of the answer.
    for (at, hash) in [(0, "00000000000000ff"), (1, "0f0f0f0f0f0f0f0f"), (2, "ffffffff00000000")] {
        let url = format!("{}/collections/news/documents?linearizable=true", replicas.server(at).url);
        let document = json!({"id": format!("d{at}"), "hash": hash});
        let stored = replicas.server(at).client.post(url).json(&document).send().await.unwrap();
        assert_eq!(stored.status(), StatusCode::CREATED);
        let position = position(&stored);
        let other = replicas.server((at + 1) % 3);
        let route = format!("/collections/news/similar?hash={hash}&k=0&at_least={position}");
        let found = other.get(&route).await;
        assert!(found.headers()[POSITION].to_str().unwrap().parse::<u64>().unwrap() >= position);
        assert_eq!(ids(&found.json().await.unwrap()), [format!("d{at}")]);
    }
    // A position that is not there yet is waited for, and then refused.
    let late = replicas.server(0).get("/similar?hash=00000000000000ff&at_least=1000000000000").await;
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(late.json::<Value>().await.unwrap()["code"], "behind");
    // A stream through one server, while another one does not run.
    replicas.kill(2);
    let (_, summary) = replicas.server(1).stream("/documents", lines(0..20_000)).await;
    assert_eq!((&summary["created"], &summary["errors"]), (&json!(20_000), &json!(0)));
    replicas.restart(2).await;
    assert_eq!(documents(equal(&replicas.exports("default").await)).len(), 20_000);
    // A server without data reads the whole log.
    replicas.kill(0);
    replicas.wipe(0);
    replicas.restart(0).await;
    assert_eq!(documents(equal(&replicas.exports("default").await)).len(), 20_000);
    assert_eq!(documents(equal(&replicas.exports("news").await)).len(), 3);
    let state: Value = serde_json::from_str(&eventually(replicas.server(0), "/replicas").await).unwrap();
    assert_eq!((&state["prefix"], &state["server"]), (&json!("lookalike"), &json!("s0")));
    let stats: Value = serde_json::from_str(&eventually(replicas.server(0), "/stats").await).unwrap();
    assert_eq!(stats["replica"]["lag_entries"], 0, "{stats:#}");
    assert!(stats["replica"]["position"].as_u64() > Some(0) && stats["replica"]["behind_ms"].is_u64());
    assert_eq!(state["log"]["endpoints"].as_array().unwrap().len(), 3, "{state:#}");
    let names: Vec<&str> =
        state["servers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["s0", "s1", "s2"]);
    // The panels of replicas have the metrics that they show.
    let dashboard = include_str!("../../config/grafana/dashboards/lookalike.json");
    let shown: Vec<&str> = dashboard
        .split(|c: char| !c.is_ascii_lowercase() && c != '_')
        .filter(|word| word.starts_with("lookalike_replica_"))
        .collect();
    let since = Instant::now();
    loop {
        let metrics = eventually(replicas.server(1), "/metrics").await;
        let has = |name: &&&str| {
            let rest =
                |line: &str| line.strip_prefix(**name).is_some_and(|rest| rest.starts_with([' ', '{']));
            metrics.lines().any(rest)
        };
        let absent: Vec<_> = shown.iter().filter(|name| !has(name)).collect();
        if shown.len() > 5 && absent.is_empty() {
            break;
        }
        // The space of etcd is checked every five seconds.
        assert!(since.elapsed() < Duration::from_secs(30), "{absent:?} of {shown:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(replicas.server(1).delete("/collections/news").await, StatusCode::NO_CONTENT);
    for server in replicas.running() {
        let gone = server.get("/collections/news?linearizable=true").await;
        assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_expire_on_every_server_and_marks_and_clusters_are_shared() {
    if !etcd::is_installed() {
        return;
    }
    let replicas = Replicas::start(2).await;
    let (one, two) = (replicas.server(0), replicas.server(1));
    one.put("/collections/c", json!({"clusters": {"keep": "first"}})).await;
    let add = |id: &str, hash: &str, expires: Value| json!({"id": id, "hash": hash, "expires_in": expires});
    let batch = json!([
        add("a", "0000000000000001", Value::Null),
        add("b", "0000000000000003", Value::Null),
        add("c", "0000000000000007", json!(1)),
    ]);
    assert_eq!(one.post("/collections/c/batch/documents", batch).await.0, StatusCode::OK);
    let found: Value =
        serde_json::from_str(&eventually(two, "/collections/c/documents/b/cluster?linearizable=true").await)
            .unwrap();
    assert_eq!(found["representative"], "a", "{found}");
    let (status, marked) = two.post("/collections/c/marks", json!({"marks": [{"ids": ["a", "b"]}]})).await;
    assert!(status.is_success(), "{marked}");
    let near: Value = serde_json::from_str(
        &eventually(one, "/collections/c/documents/a/similar?k=3&linearizable=true").await,
    )
    .unwrap();
    assert!(!ids(&near).contains(&"b".to_owned()), "{near}");
    // The document expires, and is removed from the disk of both although nobody writes.
    let since = Instant::now();
    for server in replicas.running() {
        loop {
            let metrics = server.get("/metrics").await.text().await.unwrap();
            let stored =
                metrics.lines().find(|line| line.starts_with("lookalike_documents{collection=\"c\"}"));
            if stored.is_some_and(|line| line.ends_with(" 2")) {
                break;
            }
            assert!(since.elapsed() < Duration::from_secs(40), "{stored:?}\n{}", server.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert_eq!(documents(equal(&replicas.exports("c").await)).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_etcd_lookups_continue_and_writes_are_refused() {
    if !etcd::is_installed() {
        return;
    }
    let mut replicas = Replicas::start(2).await;
    assert_eq!(
        replicas.server(0).post("/documents", json!({"id": "a", "hash": "1".repeat(16)})).await.0,
        201
    );
    eventually(replicas.server(1), "/documents/a?linearizable=true").await;
    replicas.etcd.kill(1);
    assert_eq!(
        replicas.server(0).post("/documents", json!({"id": "b", "hash": "2".repeat(16)})).await.0,
        201
    );
    replicas.etcd.kill(0);
    replicas.etcd.kill(2);
    for server in replicas.running() {
        let refused = server.client.post(format!("{}/documents", server.url));
        let refused = refused.json(&json!({"id": "c", "hash": "3".repeat(16)})).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key("retry-after"));
        let problem: Value = refused.json().await.unwrap();
        // Without an answer of etcd it may be unknown whether the write is in the log.
        assert!(
            ["log_unavailable", "outcome_unknown"].contains(&problem["code"].as_str().unwrap()),
            "{problem}"
        );
        let found = server.get(&format!("/similar?hash={}&k=0", "1".repeat(16))).await;
        assert!(found.headers().contains_key("x-lookalike-stale-ms"), "{:?}", found.headers());
        assert_eq!(ids(&found.json().await.unwrap()), ["a"]);
        assert_eq!(server.get("/readyz").await.status(), StatusCode::OK);
        let exact = server.get(&format!("/similar?hash={}&linearizable=true", "1".repeat(16))).await;
        assert_eq!(exact.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(exact.json::<Value>().await.unwrap()["code"], "log_unavailable");
    }
    (0..3).for_each(|at| replicas.etcd.restart(at));
    replicas.etcd.wait_until_healthy().await;
    for (at, server) in replicas.running().enumerate() {
        let (status, answer) =
            server.post("/documents", json!({"id": format!("z{at}"), "hash": "4".repeat(16)})).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
    equal(&replicas.exports("default").await);
    let fresh = replicas.server(0).get("/similar?hash=0000000000000000&linearizable=true").await;
    assert!(!fresh.headers().contains_key("x-lookalike-stale-ms"), "{:?}", fresh.headers());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_settings_of_replicas_name_the_way_out() {
    if !etcd::is_installed() {
        return;
    }
    let mut replicas = Replicas::start(1).await;
    replicas.kill(0);
    // The data of a replica without the shared log, and with another prefix.
    let ended = server::Server::launch(server::serve(replicas.dir(0), &[])).await.err().unwrap();
    assert!(ended.log.contains("start it with --shared-log"), "{}", ended.log);
    let mail = replicas.etcd.url("mail");
    let ended =
        replicas.try_start(0, replicas.dir(0), &[("LOOKALIKE_SHARED_LOG__URL", &mail)]).await.err().unwrap();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.log);
    assert!(ended.log.contains("belongs to the shared log \"lookalike\""), "{}", ended.log);
    // The data of a single server as a replica.
    let single = server::directory();
    server::Server::start(single.path()).await.kill();
    let ended = replicas.try_start(1, single.path(), &[]).await.err().unwrap();
    assert!(ended.log.contains("import an export"), "{}", ended.log);
    let names = [("LOOKALIKE_REPLICAS__USER", "a")];
    let ended = replicas.try_start(2, server::directory().path(), &names).await.err().unwrap();
    assert_eq!(ended.status.code(), Some(78));
    assert!(ended.log.contains("replicas.password_file"), "{}", ended.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_the_log_does_not_reach_copies_another_one() {
    if !etcd::is_installed() {
        return;
    }
    let mut replicas = Replicas::start_with(3, &[("LOOKALIKE_REPLICAS__TRIM_BYTES", "1 MiB")]).await;
    // The last server misses what follows, and the log is trimmed as soon as it is not on the list any more.
    replicas.kill(2);
    let mut random = fastrand::Rng::with_seed(5);
    let mut word = || (0..40).map(|_| random.alphanumeric()).collect::<String>();
    let lines: String = (0..60_000_u64)
        .map(|n| format!("{{\"id\":\"d{n}\",\"hash\":\"{n:016x}\",\"metadata\":{{\"w\":\"{}\"}}}}\n", word()))
        .collect();
    let (_, summary) = replicas.server(1).stream("/documents", lines).await;
    assert_eq!(summary["created"], 60_000);
    let trims = |replicas: &Replicas| -> usize {
        let of_server = |server: &server::Server| server.log().matches("the shared log was trimmed").count();
        replicas.running().map(of_server).sum()
    };
    let (since, mut before) = (Instant::now(), None);
    // While the last server is on the list, nothing that it needs is trimmed.
    while before.is_none_or(|before| trims(&replicas) == before) {
        assert!(since.elapsed() < Duration::from_mins(1), "{}", replicas.server(0).log());
        tokio::time::sleep(Duration::from_millis(100)).await;
        let state = replicas.server(0).json("/replicas").await;
        if before.is_none() && state["servers"].as_array().unwrap().len() == 2 {
            before = Some(trims(&replicas));
        }
    }
    replicas.restart(2).await;
    assert!(
        replicas.server(2).log().contains("the data of another server is copied"),
        "{}",
        replicas.server(2).log()
    );
    assert_eq!(documents(equal(&replicas.exports("default").await)).len(), 60_000);
    // A server that has lost its disk.
    replicas.kill(0);
    replicas.wipe(0);
    replicas.restart(0).await;
    assert!(
        replicas.server(0).log().contains("the data of another server is copied"),
        "{}",
        replicas.server(0).log()
    );
    for (at, server) in replicas.running().enumerate() {
        let (status, answer) =
            server.post("/documents", json!({"id": format!("z{at}"), "hash": format!("{at:016x}")})).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
    assert_eq!(documents(equal(&replicas.exports("default").await)).len(), 60_003);
    let near = replicas.server(0).json("/similar?hash=0000000000000000&k=0&linearizable=true").await;
    assert_eq!(ids(&near), ["d0", "z0"]);
}
