//! Restores and reindexes on replicas: all servers have the same result, whatever is written meanwhile; a
//! server that is killed in the middle leaves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookalike_hash::Frequencies;
use lookalike_store::{Store, StoreSettings};
use serde_json::{Value, json};

use super::server::{Server, lines};
use super::servers::{Replicas, documents, eventually};

/// A text of some words; neighbouring numbers share most of them.
fn text(number: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(number / 3);
    let words: Vec<String> = (0..60 + number % 60).map(|_| format!("word{}", rng.u32(..900))).collect();
    format!("{} ending{}", words.join(" "), number % 3)
}

/// The lines of documents with texts, some with metadata or expiry.
fn texts(numbers: std::ops::Range<u64>) -> String {
    let line = |number: u64| {
        let mut line = json!({"id": format!("d{number:05}"), "text": text(number)});
        match number % 3 {
            0 => line["metadata"] = json!({"n": number % 7}),
            1 => line["expires_in"] = json!("5h"),
            _ => {}
        }
        line.to_string() + "\n"
    };
    numbers.map(line).collect()
}

async fn backup(server: &Server, name: &str) -> Vec<u8> {
    let answer = server.get(&format!("/collections/{name}/backup?linearizable=true")).await;
    answer.bytes().await.unwrap().to_vec()
}

async fn restore(server: &Server, name: &str, tar: Vec<u8>) -> (u16, Value) {
    let request = server.client.post(format!("{}/collections/{name}/restore", server.url));
    let answer = request.header("content-type", "application/x-tar").body(tar).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn reindex(server: &Server, name: &str, profile: &str) -> (u16, Value) {
    let wanted = json!({"profile": profile, "weights": "learned"});
    let (status, job) = server.post(&format!("/collections/{name}/reindex"), wanted).await;
    (status.as_u16(), job)
}

async fn wait_for_end(server: &Server, name: &str) -> Value {
    let since = Instant::now();
    loop {
        let job = server.json(&format!("/collections/{name}/reindex")).await;
        if job["state"] != "running" {
            return job;
        }
        assert!(since.elapsed() < Duration::from_mins(2), "{job}\n{}", server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The documents of a collection by id, equal on all servers.
async fn equal(replicas: &Replicas, name: &str) -> BTreeMap<String, Value> {
    let exports = replicas.exports(name).await;
    let all = documents(&exports[0]);
    for export in &exports {
        assert_eq!(documents(export), all);
    }
    all.into_iter().map(|one| (one["id"].as_str().unwrap().to_owned(), one)).collect()
}

/// Writes and deletes documents of its own until `stop` is set. Returns the number of the text of each that
/// is left, and the number of writes that were refused.
async fn write(
    client: reqwest::Client,
    url: String,
    writer: u64,
    stop: Arc<AtomicBool>,
) -> (BTreeMap<String, u64>, u64) {
    let (mut ledger, mut refused) = (BTreeMap::new(), 0);
    let mut rng = fastrand::Rng::with_seed(writer);
    while !stop.load(Ordering::SeqCst) {
        let (id, number) = (format!("w{writer}-{:03}", rng.u64(..60)), rng.u64(..1_000_000));
        let route = format!("{url}/collections/news/documents/{id}");
        let is_deletion = rng.u8(..4) == 0;
        let request = if is_deletion {
            client.delete(route)
        } else {
            client.put(route).json(&json!({"text": text(number)}))
        };
        let answer = request.send().await.unwrap();
        let (status, answer) = (answer.status().as_u16(), answer.text().await.unwrap());
        match status {
            200 | 201 => drop(ledger.insert(id, number)),
            204 => drop(ledger.remove(&id)),
            404 if is_deletion && answer.contains("no_document") => assert!(!ledger.contains_key(&id)),
            503 => {
                assert!(answer.contains("\"busy\""), "{answer}");
                refused += 1;
            }
            _ => panic!("{status} {answer}"),
        }
    }
    (ledger, refused)
}

/// The numbers of the collections that the servers which run have discarded, by their logs.
fn discarded(replicas: &Replicas) -> BTreeSet<String> {
    let numbers = |server: &Server| {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("is discarded: its server is gone"));
        let number = |line: &str| {
            let (_, rest) = line.split_once("collection").unwrap();
            rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect()
        };
        lines.map(number).collect::<Vec<String>>()
    };
    replicas.running().flat_map(numbers).collect()
}

/// Checks in the store of a server that has stopped that nothing is left of collections that do not exist.
fn check_nothing_is_left(data: &Path, collections: usize) {
    let settings =
        StoreSettings { cache_bytes: 1 << 20, reserve_bytes: 0, journal_bytes: 4 << 20, verify: true };
    let store = Store::open(&data.join("store"), settings, None).unwrap();
    assert_eq!((store.hidden().unwrap(), store.garbage().unwrap()), (vec![], vec![]));
    let records = store.collections().unwrap();
    assert_eq!(records.len(), collections);
    records.iter().for_each(|collection| store.check_digest(collection).unwrap());
    store.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restores_and_reindexes_are_the_same_on_all_servers() {
    let mut replicas = Replicas::start(3).await;
    let settings = json!({"profile": "copies-64", "keep_text": true, "clusters": {"keep": "first"}});
    replicas.server(0).put("/collections/news", settings).await;
    replicas.server(0).stream("/collections/news/documents", texts(0..1_500)).await;
    let marks = json!({"marks": [{"ids": ["d00001", "d00002"]}, {"ids": ["d00004"]}]});
    assert!(replicas.server(0).post("/collections/news/marks", marks).await.0.is_success());
    let tar = backup(replicas.server(1), "news").await;

    // A backup that is cut off leaves nothing, and of two restores one wins.
    let (status, problem) = restore(replicas.server(1), "copy", tar[..tar.len() / 2].to_vec()).await;
    assert_eq!((status, &problem["code"]), (422, &json!("invalid_backup")), "{problem}");
    let (one, other) = (replicas.server(0), replicas.server(2));
    let both = futures::future::join(restore(one, "copy", tar.clone()), restore(other, "copy", tar.clone()));
    let ((one, first), (other, second)) = both.await;
    assert_eq!([one.min(other), one.max(other)], [201, 409], "{first} {second}");
    let (status, problem) = restore(replicas.server(1), "copy", tar).await;
    assert_eq!((status, &problem["code"]), (409, &json!("collection_exists")), "{problem}");
    assert_eq!(equal(&replicas, "copy").await, equal(&replicas, "news").await);
    for server in replicas.running() {
        let marks = server.json("/collections/copy/marks").await;
        assert_eq!(marks["marks"].as_array().unwrap().len(), 2, "{marks}");
        assert_eq!(server.json("/collections").await["collections"].as_array().unwrap().len(), 3);
    }

    // A reindex while others write, and while a server begins without data.
    replicas.stop(2);
    replicas.wipe(2);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = |at: usize| {
        let server = replicas.server(at);
        tokio::spawn(write(server.client.clone(), server.url.clone(), at as u64, Arc::clone(&stop)))
    };
    let writers = [writer(0), writer(1)];
    let (status, job) = reindex(replicas.server(0), "news", "copies-128").await;
    assert_eq!(status, 202, "{job}");
    let (status, problem) = reindex(replicas.server(1), "news", "copies-128").await;
    assert_eq!((status, &problem["code"]), (409, &json!("reindexing")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("\"s0\""), "{problem}");
    let elsewhere = replicas.server(1).get("/collections/news/reindex").await.json::<Value>().await.unwrap();
    assert_eq!(elsewhere["code"], "no_reindex", "{elsewhere}");
    assert!(elsewhere["detail"].as_str().unwrap().contains("\"s0\""), "{elsewhere}");
    replicas.restart(2).await;
    let job = wait_for_end(replicas.server(0), "news").await;
    assert_eq!(job["state"], "done", "{job}");
    stop.store(true, Ordering::SeqCst);
    let mut expected: BTreeMap<String, String> =
        (0..1_500).map(|number| (format!("d{number:05}"), text(number))).collect();
    for writer in writers {
        let (ledger, refused) = writer.await.unwrap();
        println!("{} documents, {refused} writes refused", ledger.len());
        expected.extend(ledger.into_iter().map(|(id, number)| (id, text(number))));
    }
    let found = equal(&replicas, "news").await;
    let found_texts: BTreeMap<String, String> =
        found.iter().map(|(id, one)| (id.clone(), one["text"].as_str().unwrap().to_owned())).collect();
    assert_eq!(found_texts, expected);
    let fresh = json!({"profile": "copies-128", "keep_text": true});
    replicas.server(1).put("/collections/fresh", fresh).await;
    let line = |(id, text)| json!({"id": id, "text": text}).to_string() + "\n";
    replicas.server(1).stream("/collections/fresh/documents", expected.iter().map(line).collect()).await;
    for (id, fresh) in equal(&replicas, "fresh").await {
        for field in ["hash", "features", "characters", "text"] {
            assert_eq!(found[&id][field], fresh[field], "{id} {field}");
        }
    }
    for server in replicas.running() {
        let news: Value =
            serde_json::from_str(&eventually(server, "/collections/news?linearizable=true").await).unwrap();
        assert_eq!((&news["profile"], &news["marks"]), (&json!("copies-128@1"), &json!(2)), "{news}");
        assert_eq!(news["weights"], job["collection"]["weights"], "{news}");
        let table = server.get("/collections/news/weights").await.bytes().await.unwrap();
        let digest = Frequencies::from_bytes(&table).unwrap().digest();
        assert_eq!(news["weights"]["digest"], format!("{digest:016x}"), "{news}");
    }
    // The rows of what was replaced and discarded are removed while the servers are idle.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for at in 0..3 {
        replicas.stop(at);
        check_nothing_is_left(replicas.dir(at), 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_in_the_middle_leaves_nothing() {
    let mut replicas = Replicas::start(3).await;
    replicas.server(0).put("/collections/news", json!({"profile": "copies-64", "keep_text": true})).await;
    replicas.server(0).stream("/collections/news/documents", texts(0..3_000)).await;
    replicas.server(1).put("/collections/many", json!({"profile": "copies-64"})).await;
    replicas.server(1).stream("/collections/many/documents", lines(0..30_000)).await;
    let before = equal(&replicas, "news").await;
    let tar = backup(replicas.server(0), "many").await;
    // Killed for good, and killed and started again.
    for (at, returns) in [(0, false), (1, true)] {
        let (status, job) = reindex(replicas.server(at), "news", "copies-128").await;
        assert_eq!(status, 202, "{job}");
        let server = replicas.server(at);
        let request = server.client.post(format!("{}/collections/copy/restore", server.url));
        let request = request.header("content-type", "application/x-tar").body(tar.clone());
        let restoring = tokio::spawn(request.send());
        server.wait_for_log("a backup was verified and is being restored").await;
        assert_eq!(server.json("/collections/news/reindex").await["state"], "running");
        tokio::time::sleep(Duration::from_millis(100)).await;
        replicas.kill(at);
        let before_kill = discarded(&replicas).len();
        assert!(restoring.await.unwrap().is_err(), "the server is killed before the restore has ended");
        if returns {
            replicas.restart(at).await;
        }
        let killed = Instant::now();
        while discarded(&replicas).len() < before_kill + 2 {
            assert!(killed.elapsed() < Duration::from_mins(1), "{}", replicas.server(2).log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("discarded {} ms after the kill", killed.elapsed().as_millis());
        assert_eq!(equal(&replicas, "news").await, before);
        for server in replicas.running() {
            assert_eq!(server.get("/collections/copy?linearizable=true").await.status(), 404);
        }
        if !returns {
            replicas.restart(at).await;
        }
        let stored = replicas.server(2).put("/collections/news/documents/x", json!({"text": text(1)})).await;
        assert!(stored.0.is_success(), "{}", stored.1);
        assert_eq!(replicas.server(2).delete("/collections/news/documents/x").await, 204);
    }
    assert_eq!(equal(&replicas, "news").await, before);
    let (status, restored) = restore(replicas.server(1), "copy", tar).await;
    assert_eq!((status, &restored["documents"]), (201, &json!(30_000)), "{restored}");
    assert_eq!(equal(&replicas, "copy").await, equal(&replicas, "many").await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    for at in 0..3 {
        replicas.stop(at);
        check_nothing_is_left(replicas.dir(at), 4);
    }
}
