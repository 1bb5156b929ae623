//! All pairs over HTTP, against two nested loops and against lookups.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use futures::StreamExt;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory, ids, is_replicated};

/// The documents of one of two hashes. They have more pairs than one round finds.
const DOCUMENTS: u64 = 1_500;

/// The lines of an answer.
async fn pairs(server: &Server, route: &str) -> Vec<String> {
    let answer = server.get(route).await;
    assert_eq!(answer.status(), StatusCode::OK);
    answer.text().await.unwrap().lines().map(str::to_owned).collect()
}

fn expected(stored: &BTreeMap<String, u64>, k: u32) -> Vec<String> {
    let mut all = BTreeSet::new();
    for (second, b) in stored {
        for (first, a) in stored.range(..second.clone()) {
            all.insert(((a ^ b).count_ones(), first, second));
        }
    }
    let within = all.into_iter().take_while(|(distance, ..)| *distance <= k);
    within.map(|(distance, a, b)| line(distance, a, b)).collect()
}

fn line(distance: u32, first: &str, second: &str) -> String {
    format!("{{\"distance\":{distance},\"first\":{},\"second\":{}}}", json!(first), json!(second))
}

fn after(line: &str) -> String {
    let encoded: String = line.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("&cursor={encoded}")
}

async fn store(server: &Server, route: &str, documents: &BTreeMap<String, u64>) {
    let mut lines = String::new();
    for (id, hash) in documents {
        writeln!(lines, "{}", json!({"id": id, "hash": format!("{hash:016x}")})).unwrap();
    }
    let (failed, _) = server.stream(&format!("{route}/documents"), lines).await;
    assert!(failed.iter().all(|line| line["error"].is_null()), "{failed:?}");
}

#[tokio::test]
async fn pairs_are_those_of_two_nested_loops_and_continue_after_any_line() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let mut random = fastrand::Rng::with_seed(7);
    let mut stored = BTreeMap::new();
    for number in 0..400 {
        let centre = random.u64(0..30).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (0..random.u32(0..7)).fold(centre, |hash, _| hash ^ 1 << random.u32(0..64));
        // Ids in an order of bytes that is not that of their numbers.
        stored.insert(format!("{}/新闻 {number}\"", random.u8(0..20)), hash);
    }
    store(&server, "", &stored).await;
    // Overwritten, deleted and expired documents.
    let all: Vec<String> = stored.keys().cloned().collect();
    for id in all.iter().step_by(7) {
        stored.insert(id.clone(), random.u64(..));
    }
    store(&server, "", &stored).await;
    for id in all.iter().skip(1).step_by(9) {
        let path: String = id.bytes().map(|byte| format!("%{byte:02x}")).collect();
        server.delete(&format!("/documents/{path}")).await;
        stored.remove(id);
    }
    let expired = json!({"id": "gone", "hash": format!("{:016x}", stored[&all[2]]), "expires_in": "1s"});
    server.post("/documents", expired).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    for k in [0, 1, 5, 12, 64] {
        let (found, expected) = (pairs(&server, &format!("/pairs?k={k}")).await, expected(&stored, k));
        assert!(found == expected, "k = {k}: {} and {}", found.len(), expected.len());
    }
    // Marks separate a pair, or a document from all others.
    let all = expected(&stored, 12);
    let id = |line: &str, name: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line[name].as_str().unwrap().to_owned()
    };
    let pair = [id(&all[0], "first"), id(&all[0], "second")];
    let alone = id(&all[all.len() / 2], "first");
    let marks = json!({"marks": [{"ids": pair}, {"ids": [alone]}, {"ids": ["not stored"]}]});
    assert_eq!(server.post("/marks", marks).await.0, StatusCode::OK);
    let is_left = |line: &&String| {
        let ids = [id(line, "first"), id(line, "second")];
        ids != pair && !ids.contains(&alone)
    };
    let left: Vec<&String> = all.iter().filter(is_left).collect();
    let found = pairs(&server, "/pairs?k=12").await;
    assert!(left.len() + 1 < all.len() && found.iter().eq(left), "pairs without the marked ones");
    for mark in [vec![pair[0].as_str(), pair[1].as_str()], vec![alone.as_str()]] {
        let encoded = |id: &str| id.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let other = mark.get(1).map_or(String::new(), |other| format!("&other={}", encoded(other)));
        let removed = server.delete(&format!("/marks?id={}{other}", encoded(mark[0]))).await;
        assert_eq!(removed, StatusCode::NO_CONTENT);
    }
    // Pages, each of which continues after the last line of the one before.
    let expected = expected(&stored, 8);
    for limit in [1, 7, expected.len() - 1, expected.len(), expected.len() + 1] {
        let (mut found, mut cursor): (Vec<String>, _) = (Vec::new(), String::new());
        while found.len() < expected.len() && found.len() < 40 * limit {
            let page = pairs(&server, &format!("/pairs?k=8&limit={limit}{cursor}")).await;
            assert_eq!(page.len(), limit.min(expected.len() - found.len()));
            cursor = after(page.last().unwrap());
            found.extend(page);
        }
        assert!(expected.starts_with(&found), "limit = {limit}");
    }
    assert!(pairs(&server, &format!("/pairs?k=8{}", after(expected.last().unwrap()))).await.is_empty());
    // The documents of the line may be gone.
    for (first, second) in [("0", "zzz"), ("1/5", "1/6"), ("zzy", "zzz")] {
        let cursor = line(3, first, second);
        let found = pairs(&server, &format!("/pairs?k=8{}", after(&cursor))).await;
        let key = |line: &str| -> (u64, String, String) {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            (line["distance"].as_u64().unwrap(), text("first"), text("second"))
        };
        let rest: Vec<&String> = expected.iter().filter(|line| key(line) > key(&cursor)).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), rest, "after {cursor}");
    }
}

#[tokio::test]
async fn pairs_of_signatures_are_those_that_lookups_find() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (status, _) = server.put("/collections/m", json!({"profile": "minhash-copies"})).await;
    assert_eq!(status, StatusCode::CREATED);
    let mut random = fastrand::Rng::with_seed(3);
    let words: Vec<String> = (0..500).map(|number| format!("word{number}")).collect();
    let mut texts: Vec<Vec<&str>> = Vec::new();
    for number in 0..120 {
        let mut text: Vec<&str> = (0..60).map(|_| random.choice(&words).unwrap().as_str()).collect();
        if number % 4 > 0 {
            text.clone_from(&texts[number - 1]);
            for _ in 0..random.usize(0..12) {
                text[random.usize(0..60)] = random.choice(&words).unwrap();
            }
        }
        let document = json!({"id": format!("d{number}"), "text": text.join(" ")});
        let (status, answer) = server.post("/collections/m/documents", document).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        texts.push(text);
    }
    for threshold in ["0.5", "0.8", "1"] {
        let mut by_lookups = BTreeSet::new();
        for number in 0..120 {
            let id = format!("d{number}");
            let similar = format!("/collections/m/documents/{id}/similar?threshold={threshold}&limit=200");
            let found = server.json(&similar).await;
            for near in found["similar"].as_array().unwrap() {
                let other = near["id"].as_str().unwrap().to_owned();
                if id < other {
                    let distance = near["distance"].as_u64().unwrap();
                    by_lookups.insert((distance, id.clone(), other, near["similarity"].to_string()));
                }
            }
        }
        let found = pairs(&server, &format!("/collections/m/pairs?threshold={threshold}")).await;
        let found: Vec<_> = found
            .iter()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                let text = |name: &str| line[name].as_str().unwrap().to_owned();
                let similarity = line["similarity"].to_string();
                (line["distance"].as_u64().unwrap(), text("first"), text("second"), similarity)
            })
            .collect();
        assert!(threshold != "0.5" || found.len() > 50);
        assert_eq!(found, by_lookups.into_iter().collect::<Vec<_>>(), "threshold = {threshold}");
    }
}

#[tokio::test]
async fn many_pairs_of_one_hash_come_in_order_from_one_moment_and_one_at_a_time() {
    // Each replica lists one at a time.
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    let stored: BTreeMap<String, u64> =
        (0..DOCUMENTS).map(|number| (format!("d{number:04}"), 7 + number % 2)).collect();
    store(&server, "", &stored).await;
    // A client that has begun to read, while documents come and go.
    let answer = server.get("/pairs?k=64").await;
    assert_eq!(answer.status(), StatusCode::OK);
    let refused = server.get("/pairs").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(problem["code"], "busy", "{problem}");
    server.delete("/documents/d0000").await;
    server.post("/documents", json!({"id": "new", "hash": format!("{:016x}", 7)})).await;
    let (mut body, mut text, mut lines) = (answer.bytes_stream(), Vec::new(), 0);
    let mut last = (0, String::new(), String::new());
    while let Some(bytes) = body.next().await {
        text.extend_from_slice(&bytes.unwrap());
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in text.drain(..end).collect::<Vec<_>>().split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let line: Value = serde_json::from_slice(line).unwrap();
            let id = |name: &str| line[name].as_str().unwrap().to_owned();
            let pair = (line["distance"].as_u64().unwrap(), id("first"), id("second"));
            let distance = u64::from((stored[&pair.1] ^ stored[&pair.2]).count_ones());
            assert!(pair.1 < pair.2 && pair.0 == distance && last < pair, "{last:?}, {pair:?}");
            last = pair;
            lines += 1;
        }
    }
    assert_eq!(lines, DOCUMENTS * (DOCUMENTS - 1) / 2);
    // The next list can be made, and shows what happened meanwhile.
    let found = pairs(&server, "/pairs?k=0&limit=5").await;
    assert_eq!(found[0], line(0, "d0001", "d0003"));
    let similar = server.json("/documents/new/similar?k=0&limit=1").await;
    assert_eq!(ids(&similar), ["d0002"]);
    // A client that goes away frees the place.
    drop(server.get("/pairs?k=64").await);
    let start = std::time::Instant::now();
    while server.get("/pairs?limit=1").await.status() != StatusCode::OK {
        assert!(start.elapsed().as_secs() < 30, "the place is not freed");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn invalid_requests_for_pairs_name_the_field_and_the_way_out() {
    let data = directory();
    let server = Server::start(data.path()).await;
    assert!(pairs(&server, "/pairs").await.is_empty());
    let cases = [
        ("k=65", "k", "0 to 64"),
        ("k=-1", "k", "0 or more"),
        ("threshold=0.5", "threshold", "signatures"),
        ("limit=0", "limit", "1 or more"),
        ("cursor=7", "cursor", "a line of an earlier answer"),
        (
            "cursor=%7B%22distance%22%3A1%2C%22first%22%3A%22b%22%2C%22second%22%3A%22a%22%7D",
            "cursor",
            "line",
        ),
        ("order=size", "order", "order"),
    ];
    for (query, name, part) in cases {
        let answer = server.get(&format!("/pairs?{query}")).await;
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "{query}");
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["errors"][0]["parameter"], name, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
    }
    assert_eq!(server.get("/collections/none/pairs").await.status(), StatusCode::NOT_FOUND);
}
