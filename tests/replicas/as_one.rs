//! Replicas act as one: what one stores, all find, and any of them can be lost.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};

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
    for _ in 0..3 {
        let log = server::directory();
        let url = format!("file://{}/log", log.path().display());
        let dirs = [(); 4].map(|()| server::directory());
        let launched = dirs.iter().enumerate().map(|(at, dir)| {
            let mut command = server::serve(dir.path(), &[]);
            command.args(["--shared-log", &url, "--name", &format!("s{at}")]);
            tokio::spawn(Server::launch(command))
        });
        let launched: Vec<_> = launched.collect();
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
    assert_eq!((&state["url"], &state["server"]), (&json!(replicas.log_url("lookalike")), &json!("s0")));
    let stats: Value = serde_json::from_str(&eventually(replicas.server(0), "/stats").await).unwrap();
    assert_eq!(stats["replica"]["lag_entries"], 0, "{stats:#}");
    assert!(stats["replica"]["position"].as_u64() > Some(0) && stats["replica"]["behind_ms"].is_u64());
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
async fn wrong_settings_of_replicas_name_the_way_out() {
    let mut replicas = Replicas::start(1).await;
    replicas.kill(0);
    // The data of a replica without the shared log, and with another prefix.
    let ended = server::Server::launch(server::serve(replicas.dir(0), &[])).await.err().unwrap();
    assert!(ended.log.contains("start it with --shared-log"), "{}", ended.log);
    let mail = replicas.log_url("mail");
    let ended =
        replicas.try_start(0, replicas.dir(0), &[("LOOKALIKE_SHARED_LOG__URL", &mail)]).await.err().unwrap();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.log);
    assert!(ended.log.contains("belongs to the shared log \""), "{}", ended.log);
    // The data of a single server as a replica.
    let single = server::directory();
    let alone = server::Server::start(single.path()).await;
    // A directory in which nothing is acknowledged may be any server's.
    alone.put("/documents/a", json!({"hash": "00000000000000ff"})).await;
    alone.kill();
    let ended = replicas.try_start(1, single.path(), &[]).await.err().unwrap();
    assert!(ended.log.contains("import an export"), "{}", ended.log);
}
