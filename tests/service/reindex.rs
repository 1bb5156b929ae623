//! Reindex: afterwards a collection equals a fresh one that got the same documents, whatever was written
//! meanwhile; after a kill it is as it was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lookalike_hash::Mark;
use lookalike_store::backup::{BackupError, Item, LINE_BYTES};
use lookalike_store::{Row, Store, StoreSettings};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory};

const WORDS: [&str; 16] = [
    "harbour",
    "ferry",
    "islands",
    "morning",
    "captain",
    "storm",
    "ticket",
    "children",
    "office",
    "bread",
    "图书馆",
    "周末",
    "读者",
    "晚上",
    "城市",
    "经济",
];

/// A text of some words; neighbouring numbers share most of them.
pub fn text(number: u64, words: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(number / 3);
    let words: Vec<String> =
        (0..words).map(|_| format!("{}{}", WORDS[rng.usize(..WORDS.len())], rng.u32(..400))).collect();
    format!("{} ending{}", words.join(" "), number % 3)
}

/// The lines of some documents of every kind: with metadata, expiry and neither.
pub fn lines(numbers: impl Iterator<Item = u64>) -> String {
    let line = |number: u64| {
        let mut line = json!({"id": format!("文{number:05}"), "text": text(number, 60 + number % 90)});
        match number % 3 {
            0 => line["metadata"] = json!({"n": number % 7, "名": "é"}),
            1 => line["expires_in"] = json!("5h"),
            _ => {}
        }
        line.to_string() + "\n"
    };
    numbers.map(line).collect()
}

pub async fn reindex(server: &Server, name: &str, wanted: Value) -> (StatusCode, Value) {
    server.post(&format!("/collections/{name}/reindex"), wanted).await
}

pub async fn wait_for_end(server: &Server, name: &str) -> Value {
    let start = Instant::now();
    loop {
        let job = server.json(&format!("/collections/{name}/reindex")).await;
        if job["state"] != "running" {
            return job;
        }
        assert!(start.elapsed() < Duration::from_mins(3), "{job}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The rows and the marks of a collection, as a backup has them.
#[derive(Debug, PartialEq)]
struct Content {
    rows: BTreeMap<String, Row>,
    marks: Vec<(Mark, u64)>,
}

async fn content(server: &Server, name: &str) -> Content {
    let tar = server.get(&format!("/collections/{name}/backup")).await.bytes().await.unwrap();
    let mut content = Content { rows: BTreeMap::new(), marks: Vec::new() };
    let take = |item| {
        match item {
            Item::Document(id, row) => drop(content.rows.insert(id.as_str().to_owned(), row)),
            Item::Mark(mark, marked_ms) => content.marks.push((mark, marked_ms)),
        }
        Ok::<(), BackupError>(())
    };
    lookalike_store::backup::read(&tar[..], LINE_BYTES, |_| Ok(()), take).unwrap();
    content
}

impl Content {
    /// The documents in the order of arrival, without what depends on the time.
    fn without_times(mut self) -> (Vec<(String, Row)>, Vec<Mark>) {
        let mut order: Vec<(u64, String)> =
            self.rows.iter().map(|(id, row)| (row.place, id.clone())).collect();
        order.sort();
        let mut without = |(_, id): (u64, String)| {
            let row = self.rows.remove(&id).unwrap();
            let lifetime = row.lifetime.end_ms().map(|_| 0).into();
            (id, Row { place: 0, written_ms: 0, lifetime, ..row })
        };
        let rows = order.into_iter().map(&mut without).collect();
        (rows, self.marks.into_iter().map(|(mark, _)| mark).collect())
    }

    /// What a reindex keeps.
    fn kept<'a>(&'a self) -> Vec<Kept<'a>> {
        let kept = |(id, row): (&'a String, &'a Row)| {
            let Row { place, written_ms, lifetime, metadata, text, .. } = row;
            (id, *place, *written_ms, lifetime.end_ms(), metadata, text)
        };
        self.rows.iter().map(kept).collect()
    }
}

/// Id, place, times of the write and of expiry, metadata and text of a document.
type Kept<'a> = (&'a String, u64, u64, Option<u64>, &'a Option<String>, &'a Option<String>);

/// The JSON of a GET, again while the server is too busy.
async fn patient(server: &Server, route: &str) -> Value {
    loop {
        let response = server.get(route).await;
        let (status, answer) = (response.status(), response.json::<Value>().await.unwrap());
        if status.is_success() {
            return answer;
        }
        assert_eq!(answer["code"], "busy", "{answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The members of each cluster, by their representative.
async fn clusters(server: &Server, name: &str) -> BTreeMap<String, Value> {
    let start = Instant::now();
    let route = format!("/collections/{name}/clusters?min_size=1&limit=1000");
    loop {
        let page = server.json(&route).await;
        if page["pending"] == 0 {
            assert_eq!(page["next"], Value::Null);
            let all = page["clusters"].as_array().unwrap();
            return all
                .iter()
                .map(|one| (one["representative"].as_str().unwrap().to_owned(), one["size"].clone()))
                .collect();
        }
        assert!(start.elapsed() < Duration::from_mins(1), "the clusters are not decided");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that a collection has the rows, settings, marks, clusters and answers of a fresh one.
async fn assert_equals_twin(server: &Server, name: &str, twin: &str) {
    let (own, fresh) = (content(server, name).await, content(server, twin).await);
    let ids: Vec<String> = own.rows.keys().step_by(17).cloned().collect();
    assert!(ids.len() > 10);
    assert_eq!(own.without_times(), fresh.without_times());
    assert_eq!(clusters(server, name).await, clusters(server, twin).await);
    let settings = async |name: &str| {
        let mut settings = server.json(&format!("/collections/{name}")).await;
        for field in ["name", "created_at", "index_bytes"] {
            settings[field] = Value::Null;
        }
        settings
    };
    assert_eq!(settings(name).await, settings(twin).await);
    for id in ids {
        for query in ["", "verify=scan", "limit=3", "k=0"] {
            let answer = async |name: &str| {
                let answer =
                    patient(server, &format!("/collections/{name}/documents/{id}/similar?{query}")).await;
                let found = answer["similar"].as_array().unwrap().iter();
                found.map(|one| (one["id"].clone(), one["distance"].clone())).collect::<Vec<_>>()
            };
            assert_eq!(answer(name).await, answer(twin).await, "{id} {query}");
        }
    }
}

/// Waits until no rows of removed collections are left, then checks it in the store itself.
async fn assert_nothing_leaks(server: Server, data: &std::path::Path, collections: usize) {
    // The sweep is done while the server is idle.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(server.stop().success());
    let settings =
        StoreSettings { cache_bytes: 1 << 20, reserve_bytes: 0, journal_bytes: 4 << 20, verify: true };
    let store = Store::open(&data.join("store"), settings, None).unwrap();
    assert_eq!(store.garbage().unwrap(), []);
    assert_eq!(store.collections().unwrap().len(), collections);
    store.collections().unwrap().iter().for_each(|collection| store.check_digest(collection).unwrap());
    store.close();
}

#[tokio::test]
async fn a_reindexed_collection_equals_a_fresh_one() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    let source = json!({"profile": "copies-64", "keep_text": true, "clusters": {"keep": "first"}, "k": 6});
    let cases = [
        (json!({"profile": "copies-128"}), json!({"profile": "copies-128"})),
        (
            json!({"profile": "copies-128", "k": 9, "sketch_bytes": 32, "passages": true}),
            json!({"profile": "copies-128", "k": 9, "sketch_bytes": 32, "passages": true}),
        ),
        (
            json!({"profile": "minhash-copies", "threshold": 0.6}),
            json!({"profile": "minhash-copies", "threshold": 0.6, "sketch_bytes": 0}),
        ),
        (json!({"passages": "exact"}), json!({"profile": "copies-64", "k": 6, "passages": "exact"})),
    ];
    for (at, (wanted, fresh)) in cases.iter().enumerate() {
        let (name, twin) = (format!("c{at}"), format!("twin{at}"));
        server.put(&format!("/collections/{name}"), source.clone()).await;
        let mut twin_settings = source.clone();
        twin_settings.as_object_mut().unwrap().remove("k");
        twin_settings.as_object_mut().unwrap().extend(fresh.as_object().unwrap().clone());
        let (status, made) = server.put(&format!("/collections/{twin}"), twin_settings).await;
        assert_eq!(status, 201, "{made}");
        for collection in [&name, &twin] {
            let route = format!("/collections/{collection}");
            // The order of arrival is not that of the ids, and some documents lose and regain their places.
            let order = (0..400).map(|number| number * 7 % 400);
            server.stream(&format!("{route}/documents"), lines(order)).await;
            for number in (0..400).step_by(31) {
                assert_eq!(server.delete(&format!("{route}/documents/文{number:05}")).await, 204);
            }
            server.stream(&format!("{route}/documents"), lines((0..400).step_by(62))).await;
            let marked = [vec!["文00001", "文00002"], vec!["文00004"], vec!["文00007", "文00008"]];
            let marks: Vec<Value> = marked.iter().map(|ids| json!({"ids": ids})).collect();
            server.post(&format!("{route}/marks"), json!({"marks": marks})).await;
            assert_eq!(server.delete(&format!("{route}/marks?id=文00007&other=文00008")).await, 204);
        }
        let before = content(&server, &name).await;
        let (status, job) = reindex(&server, &name, wanted.clone()).await;
        assert_eq!((status.as_u16(), &job["state"]), (202, &json!("running")), "{job}");
        let job = wait_for_end(&server, &name).await;
        assert_eq!(job["state"], "done", "{job}");
        assert_eq!(job["documents_read"], job["documents"]);
        assert_eq!(
            job["collection"]["profile"],
            server.json(&format!("/collections/{twin}")).await["profile"]
        );
        assert_equals_twin(&server, &name, &twin).await;
        let after = content(&server, &name).await;
        assert_eq!(after.kept(), before.kept());
        assert_eq!(after.marks, before.marks);
    }
    // With and without a snapshot of the new index.
    for snapshot in [false, true] {
        if snapshot {
            server.post("/snapshots", json!(null)).await;
        }
        server.kill();
        server = Server::start(data.path()).await;
        for at in 0..cases.len() {
            assert_equals_twin(&server, &format!("c{at}"), &format!("twin{at}")).await;
        }
    }
    assert_eq!(server.get("/collections/c0/reindex").await.status(), 404);
    assert_nothing_leaks(server, data.path(), 1 + 2 * cases.len()).await;
}

/// The last acknowledged state of the documents of a writer: the number of the text of each.
type Ledger = BTreeMap<String, u64>;

/// Writes and deletes documents of its own until `stop` is set. Returns their state and the number of writes
/// that were refused and sent again.
async fn write(client: reqwest::Client, url: String, writer: u64, stop: Arc<AtomicBool>) -> (Ledger, u64) {
    let (mut ledger, mut refused) = (Ledger::new(), 0);
    let mut rng = fastrand::Rng::with_seed(writer);
    let route = format!("{url}/collections/news/documents");
    while !stop.load(Ordering::SeqCst) {
        let (id, number) = (format!("w{writer}-{:03}", rng.u64(..150)), rng.u64(..1_000_000));
        let is_deletion = rng.u8(..4) == 0;
        let request = if is_deletion {
            client.delete(format!("{route}/{id}"))
        } else {
            client.put(format!("{route}/{id}")).json(&json!({"text": text(number, 30)}))
        };
        let response = request.send().await.unwrap();
        let status = response.status();
        let answer = response.text().await.unwrap();
        match status.as_u16() {
            200 | 201 => drop(ledger.insert(id, number)),
            204 => drop(ledger.remove(&id)),
            404 if is_deletion && answer.contains("no_document") => assert!(!ledger.contains_key(&id)),
            503 => {
                assert!(answer.contains("\"busy\"") && answer.contains("not_applied"), "{answer}");
                refused += 1;
            }
            _ => panic!("{status} {answer}"),
        }
    }
    (ledger, refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_are_written_meanwhile_are_not_lost() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let settings = json!({"profile": "copies-64", "keep_text": true});
    server.put("/collections/news", settings).await;
    server.stream("/collections/news/documents", lines(0..3_000)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            tokio::spawn(write(server.client.clone(), server.url.clone(), writer, Arc::clone(&stop)))
        })
        .collect();
    let asked = Arc::new(AtomicU64::new(0));
    let reader = tokio::spawn({
        let (client, url, stop) = (server.client.clone(), server.url.clone(), Arc::clone(&stop));
        let asked = Arc::clone(&asked);
        async move {
            while !stop.load(Ordering::SeqCst) {
                let number = fastrand::u64(..1_000) * 3 + 2;
                let by_text = client.post(format!("{url}/collections/news/similar"));
                let by_text = by_text.json(&json!({"text": text(number, 60 + number % 90)}));
                let by_id =
                    client.get(format!("{url}/collections/news/documents/文{:05}/similar", number - 1));
                for request in [by_text, by_id] {
                    let response = request.send().await.unwrap();
                    let status = response.status();
                    let answer: Value = response.json().await.unwrap();
                    if answer["code"] == "busy" && answer["detail"].as_str().unwrap().contains("processors") {
                        continue;
                    }
                    assert_eq!(status, 200, "{answer}");
                    let similar = answer["similar"].as_array().unwrap();
                    let is_it = |found: &Value| found["id"] == format!("文{number:05}");
                    assert!(similar.iter().any(is_it), "{number}: {answer}");
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut marks = 0;
    for (at, wanted) in [
        json!({"profile": "copies-128", "sketch_bytes": 16}),
        json!({"sketch_bytes": 64, "passages": true}),
        json!({"profile": "copies-64", "sketch_bytes": 0, "passages": false}),
    ]
    .into_iter()
    .enumerate()
    {
        let (status, job) = reindex(&server, "news", wanted.clone()).await;
        assert_eq!(status, 202, "{job}");
        let (status, again) = reindex(&server, "news", wanted).await;
        assert_eq!((status.as_u16(), &again["code"]), (409, &json!("reindexing")));
        // Marks and settings change meanwhile.
        // Those of documents that the queries are not about.
        let id = |number| format!("文{number:05}");
        let marked = [vec![id(3 * at), id(2_997)], vec![id(3 * at + 300)]];
        let mark = json!({"marks": marked.map(|ids| json!({"ids": ids}))});
        let marked = server.post("/collections/news/marks", mark).await;
        assert!(marked.0.is_success() || marked.1["code"] == "busy", "{marked:?}");
        marks += marked.1["added"].as_u64().unwrap_or(0);
        server.put("/collections/news", json!({"expires_in": format!("{}d", 30 + at)})).await;
        let job = wait_for_end(&server, "news").await;
        assert_eq!(job["state"], "done", "{job}");
        assert_eq!(server.json("/collections/news").await["expires_in"], (30 + at) * 86_400);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.store(true, Ordering::SeqCst);
    reader.await.unwrap();
    assert!(asked.load(Ordering::SeqCst) > 100);
    let mut expected = Ledger::new();
    for writer in writers {
        let (ledger, refused) = writer.await.unwrap();
        println!("{} documents, {refused} writes refused", ledger.len());
        expected.extend(ledger);
    }
    let found = content(&server, "news").await;
    assert_eq!(found.rows.len(), 3_000 + expected.len());
    assert_eq!(server.json("/collections/news").await["documents"], found.rows.len());
    for (id, number) in &expected {
        assert_eq!(found.rows[id].text, Some(text(*number, 30)), "{id}");
    }
    // A fresh collection with the same texts has the same fingerprints.
    let settings = json!({"profile": "copies-64", "keep_text": true, "sketch_bytes": 0});
    server.put("/collections/twin", settings).await;
    let line = |(id, row): (&String, &Row)| json!({"id": id, "text": row.text}).to_string() + "\n";
    server.stream("/collections/twin/documents", found.rows.iter().map(line).collect()).await;
    let twin = content(&server, "twin").await;
    for (id, fresh) in &twin.rows {
        let of = |row: &Row| (row.hash, row.features, row.short, row.characters, row.sketch.clone());
        assert_eq!(of(&found.rows[id]), of(fresh), "{id}");
        assert!(found.rows[id].grams.is_empty());
    }
    assert_eq!(found.marks.len() as u64, marks);
    assert_nothing_leaks(server, data.path(), 3).await;
}

/// Begins a reindex of `news`. A job that was ended gives its place to the next one when it stops.
async fn begin(server: &Server, wanted: Value) {
    let start = Instant::now();
    loop {
        let (status, job) = reindex(server, "news", wanted.clone()).await;
        if status == 202 {
            return;
        }
        assert_eq!(job["code"], "busy", "{job}");
        assert!(start.elapsed() < Duration::from_secs(30), "{job}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_kill_or_an_end_in_the_middle_leaves_the_collection_as_it_was() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    server.put("/collections/news", json!({"profile": "copies-64", "keep_text": true})).await;
    server.stream("/collections/news/documents", lines(0..4_000)).await;
    let before = content(&server, "news").await;
    for kill in [true, false, true] {
        begin(&server, json!({"profile": "copies-128"})).await;
        while server.json("/collections/news/reindex").await["documents_read"] == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(server.json("/collections/news/reindex").await["state"], "running");
        if kill {
            server.kill();
            server = Server::start(data.path()).await;
        } else {
            let ended = server.client.delete(format!("{}/collections/news/reindex", server.url));
            let ended = ended.send().await.unwrap();
            assert_eq!(ended.status(), 200);
            assert_eq!(ended.json::<Value>().await.unwrap()["state"], "ended");
        }
        let gone = server.get("/collections/news/reindex").await;
        assert_eq!(gone.status(), 404);
        // A stop of the server ends a job, and the answer says what that means.
        let gone: Value = gone.json().await.unwrap();
        assert_eq!(gone["code"], "no_reindex");
        assert!(gone["detail"].as_str().unwrap().contains("stop of the server"), "{gone}");
        assert_eq!(content(&server, "news").await, before);
        let similar = server.json("/collections/news/documents/文00000/similar?verify=scan").await;
        assert!(similar["similar"].as_array().unwrap().len() >= 2, "{similar}");
        // Writes are accepted, with the old profile.
        let hash = before.rows["文00000"].hash.to_string();
        let (status, added) =
            server.put("/collections/news/documents/new", json!({"text": text(0, 60)})).await;
        assert_eq!((status.as_u16(), &added["hash"]), (201, &json!(hash)), "{added}");
        assert_eq!(server.delete("/collections/news/documents/new").await, 204);
    }
    begin(&server, json!({"profile": "copies-128"})).await;
    assert_eq!(wait_for_end(&server, "news").await["state"], "done");
    assert_nothing_leaks(server, data.path(), 2).await;
}

#[tokio::test]
async fn what_cannot_be_reindexed_is_refused_with_the_way_out() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let refused = async |name: &str, wanted: Value, status: u16, code: &str, words: &str| {
        let (found, answer) = reindex(&server, name, wanted).await;
        assert_eq!((found.as_u16(), &answer["code"]), (status, &json!(code)), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains(words), "{answer}");
    };
    refused("none", json!({}), 404, "no_collection", "none").await;
    refused("default", json!({"profile": "copies-128"}), 409, "no_texts", "keep_text").await;
    server.put("/collections/news", json!({"keep_text": true})).await;
    for (wanted, code, words) in [
        (json!({"profile": "nothing"}), "no_profile", "copies-128"),
        (json!({"profile": "hashes-64"}), "invalid_field", "hash"),
        (json!({"profile": "copies-64", "k": 65}), "invalid_field", "64"),
        (json!({"k": 1, "threshold": 0.5}), "invalid_field", "leave one out"),
        (json!({"threshold": 0.5}), "invalid_field", "signatures"),
        (json!({"sketch_bytes": 7}), "invalid_field", "8 to 1024"),
        (json!({"profile": "minhash-copies", "sketch_bytes": 64}), "invalid_field", "signatures"),
        (json!({"name": "x"}), "unknown_field", "name"),
    ] {
        refused("news", wanted, 422, code, words).await;
    }
    assert_eq!(server.get("/collections/news/reindex").await.status(), 404);
    assert_eq!(server.delete("/collections/news/reindex").await, 404);
    // Documents without a text are named, and nothing changes.
    server.stream("/collections/news/documents", lines(0..50)).await;
    for number in 0..12 {
        let hash = json!({"hash": format!("{number:016x}")});
        server.put(&format!("/collections/news/documents/hash{number:02}"), hash).await;
    }
    let before = content(&server, "news").await;
    reindex(&server, "news", json!({"profile": "copies-128"})).await;
    let job = wait_for_end(&server, "news").await;
    assert_eq!((&job["state"], &job["error"]["code"]), (&json!("failed"), &json!("no_texts")), "{job}");
    let detail = job["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("12 (\"hash00\"") && detail.contains("and 2 more"), "{detail}");
    assert_eq!(content(&server, "news").await, before);
    for number in 0..12 {
        assert_eq!(server.delete(&format!("/collections/news/documents/hash{number:02}")).await, 204);
    }
    reindex(&server, "news", json!({"profile": "copies-128"})).await;
    assert_eq!(wait_for_end(&server, "news").await["state"], "done");
    // The collection is deleted meanwhile.
    server.stream("/collections/news/documents", lines(50..2_000)).await;
    let (status, _) = reindex(&server, "news", json!({"profile": "copies-64"})).await;
    assert_eq!(status, 202);
    assert_eq!(server.delete("/collections/news").await, 204);
    server.put("/collections/news", json!({"keep_text": true})).await;
    assert_eq!(server.get("/collections/news/reindex").await.status(), 404);
    server.wait_for_log("a reindex has ended without effect").await;
    assert_eq!(server.json("/collections/news").await["documents"], 0);
    assert_nothing_leaks(server, data.path(), 2).await;
}
