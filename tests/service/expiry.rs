//! Expiry: an expired document is in no answer from its expiry time on, is removed from the disk soon
//! after, and never comes back.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::server::{Server, directory, ids};
use crate::skipped::skipped;

/// The library of Debian's package `faketime`.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
/// Seconds until expiry: long enough to read a document before it expires, also on a busy machine.
const SHORT: u64 = 3;

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn ms(time: &Value) -> u64 {
    let time = humantime::parse_rfc3339(time.as_str().unwrap()).unwrap();
    time.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn hash(i: u64) -> String {
    format!("{:016x}", i << 20)
}

async fn wait_until(time_ms: u64) {
    tokio::time::sleep(Duration::from_millis(time_ms.saturating_sub(now_ms()) + 20)).await;
}

/// Waits until the collection has this number of documents. Expired documents are removed in the background.
async fn wait_for_documents(server: &Server, documents: u64) {
    for _ in 0..500 {
        if server.documents().await == documents {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} documents in place of {documents}:\n{}", server.documents().await, server.log());
}

async fn exported(server: &Server) -> Vec<Value> {
    let text = server.export("/export").await;
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks that no kind of request returns the document.
async fn check_gone(server: &Server, id: &str, hash: &str) {
    assert_eq!(server.get(&format!("/documents/{id}")).await.status().as_u16(), 404, "{id}");
    assert_eq!(server.get(&format!("/documents/{id}/similar")).await.status().as_u16(), 404, "{id}");
    for verify in ["", "&verify=scan"] {
        let near = server.json(&format!("/similar?hash={hash}&k=3&limit=1000{verify}")).await;
        assert!(!ids(&near).contains(&id.to_owned()), "{id} has expired and is found{verify}");
    }
    let filter = json!({"hash": hash, "k": 3, "filter": {"exclude": ["nobody"]}});
    let (_, batch) = server.post("/batch/similar", json!({"queries": [filter, {"hash": hash}]})).await;
    for answer in batch["results"].as_array().unwrap() {
        assert!(!ids(answer).contains(&id.to_owned()), "{id} has expired and is found in a batch");
    }
    let ids: Vec<Value> = exported(server).await.into_iter().map(|line| line["id"].clone()).collect();
    assert!(!ids.contains(&json!(id)), "{id} has expired and is exported");
}

#[tokio::test]
async fn an_expired_document_is_in_no_answer() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let before = now_ms();
    let (status, added) =
        server.post("/documents", json!({"id": "a", "hash": hash(1), "expires_in": SHORT})).await;
    assert_eq!(status.as_u16(), 201, "{added}");
    let at = ms(&added["expires_at"]);
    // The server reads its clock between the two calls of `now_ms`; allow 50 ms of difference between the
    // clocks.
    assert!(at + 50 >= before + SHORT * 1_000 && at <= now_ms() + SHORT * 1_000 + 50, "{added}");
    server.put("/documents/stays", json!({"hash": hash(1)})).await;
    server.put("/documents/alone", json!({"hash": hash(0xff0), "expires_in": format!("{SHORT}s")})).await;
    // Request it twice, so that the second answer comes from the cache.
    for _ in 0..2 {
        let near = server.json(&format!("/similar?hash={}&k=3", hash(1))).await;
        assert_eq!(ids(&near), ["a", "stays"]);
        assert_eq!(near["similar"][0]["expires_at"], added["expires_at"]);
        assert_eq!(near["similar"][1].get("expires_at"), None);
        assert_eq!(ids(&server.json(&format!("/similar?hash={}&k=3", hash(0xff0))).await), ["alone"]);
    }
    assert_eq!(server.json("/documents/a").await["expires_at"], added["expires_at"]);
    assert_eq!(exported(&server).await.len(), 3);
    wait_until(at + 1_000).await;
    check_gone(&server, "a", &hash(1)).await;
    check_gone(&server, "alone", &hash(0xff0)).await;
    wait_for_documents(&server, 1).await;
    // The index has removed the hash of `alone`, but not the hash that `a` shared with `stays`.
    let info = server.json("/collections/default").await;
    assert_eq!(info["distinct_hashes"], 1, "{info}");
    assert_eq!(ids(&server.json(&format!("/similar?hash={}&k=3", hash(1))).await), ["stays"]);
    let metrics = server.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("lookalike_expired_documents_total 2"), "{metrics}");
}

#[tokio::test]
async fn a_cached_match_is_not_returned_after_its_expiry() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (_, added) = server.post("/documents", json!({"id": "a", "hash": hash(5), "expires_in": 2})).await;
    let at = ms(&added["expires_at"]);
    let route = format!("/similar?hash={}&k=3", hash(5));
    // Request it without a pause until after the expiry: a request that starts after the expiry must find
    // nothing.
    loop {
        let start = now_ms();
        let found = ids(&server.json(&route).await);
        if start > at + 50 {
            assert!(found.is_empty(), "{}", start - at);
        } else if now_ms() + 50 < at {
            assert_eq!(found, ["a"]);
        }
        if start > at + 600 {
            break;
        }
    }
}

#[tokio::test]
async fn an_update_replaces_the_expiry_and_an_expired_document_is_created_anew() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for id in ["longer", "never", "default", "deleted", "again", "moved"] {
        server.put(&format!("/documents/{id}"), json!({"hash": hash(3), "expires_in": SHORT})).await;
    }
    let last = now_ms() + SHORT * 1_000;
    let (status, longer) =
        server.put("/documents/longer", json!({"hash": hash(3), "expires_in": "1h"})).await;
    assert_eq!((status.as_u16(), longer["outcome"].as_str()), (200, Some("updated")));
    server.put("/documents/never", json!({"hash": hash(3), "expires_in": null})).await;
    server.put("/documents/default", json!({"hash": hash(3)})).await;
    server.put("/documents/moved", json!({"hash": hash(4), "expires_in": "1h"})).await;
    assert_eq!(server.delete("/documents/deleted").await.as_u16(), 204);
    wait_until(last).await;
    // An expired document cannot be updated, whether it has been removed already or not.
    let (status, again) = server.put("/documents/again", json!({"hash": hash(3)})).await;
    assert_eq!((status.as_u16(), again["outcome"].as_str()), (201, Some("created")));
    assert_eq!(again.get("expires_at"), None);
    wait_for_documents(&server, 5).await;
    let near = server.json(&format!("/similar?hash={}&k=0", hash(3))).await;
    assert_eq!(ids(&near), ["again", "default", "longer", "never"]);
    assert_eq!(ids(&server.json(&format!("/similar?hash={}&k=0", hash(4))).await), ["moved"]);
}

#[tokio::test]
async fn the_default_expiry_of_a_collection_applies_to_later_writes() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (status, created) = server.put("/collections/news", json!({"expires_in": "2h"})).await;
    assert_eq!((status.as_u16(), &created["expires_in"]), (201, &json!(7200)));
    let put = |id: &'static str, more: Value| {
        let mut body = json!({"hash": hash(1)});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let server = &server;
        async move { server.put(&format!("/collections/news/documents/{id}"), body).await.1 }
    };
    let span = |added: &Value| (ms(&added["expires_at"]) + 30_000 - now_ms()) / 60_000;
    assert_eq!(span(&put("default", json!({})).await), 120);
    assert_eq!(span(&put("own", json!({"expires_in": 60})).await), 1);
    assert_eq!(put("never", json!({"expires_in": null})).await.get("expires_at"), None);
    // An omitted setting stays; `null` removes it.
    let (_, same) = server.put("/collections/news", json!({"k": 5})).await;
    assert_eq!(same["expires_in"], json!(7200));
    let (_, off) = server.put("/collections/news", json!({"expires_in": null})).await;
    assert_eq!(off["expires_in"], json!(null));
    assert_eq!(put("later", json!({})).await.get("expires_at"), None);
    let earlier = server.json("/collections/news/documents/default").await;
    assert_eq!(span(&earlier), 120);
    server.kill();
    let server = Server::start(data.path()).await;
    assert_eq!(server.json("/collections/news/documents/default").await, earlier);
    assert_eq!(server.json("/collections/news").await["expires_in"], json!(null));
}

#[tokio::test]
async fn invalid_expiry_spans_are_refused_with_their_range() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let cases = [
        (json!(0), "ranges from 1 second to 100 years"),
        (json!(-5), "ranges from 1 second to 100 years"),
        (json!(3_155_760_001_u64), "ranges from 1 second to 100 years"),
        (json!("101y"), "ranges from 1 second to 100 years"),
        (json!("0s"), "ranges from 1 second to 100 years"),
        (json!("1500ms"), "whole number of seconds"),
        (json!(1.5), "whole number of seconds"),
        (json!("soon"), "write it like"),
        (json!("36"), "write it like"),
        (json!(""), "write it like"),
        (json!("99999999999999999999y"), "write it like"),
        (json!(true), "whole number of seconds"),
        (json!({"days": 3}), "whole number of seconds"),
    ];
    for (span, expected) in cases {
        for (route, body) in [
            ("/documents/a", json!({"hash": hash(1), "expires_in": span})),
            ("/collections/a", json!({"expires_in": span})),
        ] {
            let (status, problem) = server.put(route, body).await;
            assert_eq!(status.as_u16(), 422, "{span}: {problem}");
            assert_eq!(problem["errors"][0]["pointer"], "/expires_in", "{problem}");
            assert!(problem["detail"].as_str().unwrap().contains(expected), "{span}: {problem}");
        }
    }
    let at = |time: &str| json!({"hash": hash(1), "expires_at": time});
    for (body, expected) in [
        (at("2020-01-01T00:00:00Z"), "is past"),
        (at("2190-01-01T00:00:00Z"), "more than 100 years"),
        (at("tomorrow"), "2026-11-21T09:30:00Z"),
        (json!({"hash": hash(1), "expires_at": "2100-01-01T00:00:00Z", "expires_in": 5}), "leave one out"),
    ] {
        let (status, problem) = server.put("/documents/a", body).await;
        assert_eq!(status.as_u16(), 422, "{problem}");
        assert_eq!(problem["errors"][0]["pointer"], "/expires_at", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(expected), "{problem}");
    }
    for span in [json!(1), json!(3_155_760_000_u64), json!("100y"), json!("7d"), json!("1h 30m")] {
        let (status, added) = server.put("/documents/a", json!({"hash": hash(1), "expires_in": span})).await;
        assert!(status.is_success(), "{span}: {added}");
    }
    assert_eq!(server.documents().await, 1);
}

#[tokio::test]
async fn documents_of_streams_and_arrays_expire_and_exports_keep_the_times() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let line = |i: u64, span: Value| json!({"id": format!("s{i:04}"), "hash": hash(i), "expires_in": span});
    let lines: String = (0..3_000)
        .map(|i| format!("{}\n", line(i, if i % 3 == 0 { json!("1d") } else { json!(SHORT) })))
        .collect();
    let (_, summary) = server.stream("/documents", lines + "{\"hash\":\"00\",\"expires_in\":0}\n").await;
    assert_eq!((summary["created"].as_u64(), summary["errors"].as_u64()), (Some(3_000), Some(1)));
    let last = now_ms() + SHORT * 1_000;
    let array: Vec<Value> = (5_000..5_010).map(|i| line(i, json!(SHORT))).collect();
    server.post("/batch/documents", json!(array)).await;
    let kept: Vec<Value> =
        exported(&server).await.into_iter().filter(|line| ms(&line["expires_at"]) > last + 60_000).collect();
    assert_eq!(kept.len(), 1_000);
    wait_until(last + 1_000).await;
    assert_eq!(exported(&server).await, kept);
    let near = server.json("/similar?hash=0000000000000000&k=64&limit=1000").await;
    assert!(ids(&near).iter().all(|id| id[1..].parse::<u64>().unwrap() % 3 == 0), "{near}");
    assert_eq!(ids(&near).len(), 1_000);
    wait_for_documents(&server, 1_000).await;
    assert_eq!(server.json("/collections/default").await["distinct_hashes"], 1_000);
    // An import into another server keeps the expiry times.
    let other = directory();
    let second = Server::start(other.path()).await;
    let lines: String = kept.iter().map(|line| format!("{line}\n")).collect();
    let (_, summary) = second.stream("/documents", lines).await;
    assert_eq!(summary["created"], 1_000);
    assert_eq!(exported(&second).await, kept);
}

#[tokio::test]
async fn an_expired_document_does_not_count_as_a_duplicate() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let route = "/documents?on_duplicate=skip&k=3";
    // One document with its own hash, and three that share one.
    let firsts = [(hash(1), 1), ("ffffffff00000000".to_owned(), 3)];
    for (hash, count) in &firsts {
        for i in 0..*count {
            let id = format!("{hash}-{i}");
            let (_, added) =
                server.post("/documents", json!({"id": id, "hash": hash, "expires_in": SHORT})).await;
            assert_eq!(added["outcome"], "created", "{added}");
        }
    }
    let last = now_ms() + SHORT * 1_000;
    for (hash, _) in &firsts {
        let (_, refused) = server.post(route, json!({"hash": hash})).await;
        assert_eq!(refused["outcome"], "duplicate", "{refused}");
        assert!(refused["similar"][0]["expires_at"].is_string(), "{refused}");
    }
    // A new document must be accepted from the expiry on, not only after the removal: try until it is
    // accepted.
    let mut accepted = 0;
    while accepted < firsts.len() {
        let (hash, _) = &firsts[accepted];
        let start = now_ms();
        let (_, added) = server.post(route, json!({"hash": hash})).await;
        if added["outcome"] == "created" {
            assert!(now_ms() + 50 >= last - 2_000);
            accepted += 1;
        } else {
            assert!(
                start <= last + 50,
                "refused {} ms after the last document expired: {added}",
                start - last
            );
        }
    }
    wait_for_documents(&server, 2).await;
}

/// Fills a directory with documents. Every second one expires.
async fn fill_directory(data: &Path, span: &str) -> u64 {
    let server = Server::start(data).await;
    let lines: String = (0..500)
        .map(|i| {
            let span = if i % 2 == 0 { json!(span) } else { json!(null) };
            format!("{}\n", json!({"id": format!("{i:04}"), "hash": hash(i / 4), "expires_in": span}))
        })
        .collect();
    server.stream("/documents", lines).await;
    let end = now_ms();
    server.kill();
    end
}

/// Checks that index and store have exactly the documents that do not expire.
async fn check_remaining_half(server: &Server) {
    let kept: Vec<String> = (0..500).filter(|i| i % 2 == 1).map(|i| format!("{i:04}")).collect();
    let found: Vec<String> =
        exported(server).await.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, kept);
    for i in [0, 4, 250, 499] {
        for verify in ["", "&verify=scan"] {
            let near = server.json(&format!("/similar?hash={}&k=0{verify}", hash(i / 4))).await;
            let first = i / 4 * 4;
            assert_eq!(ids(&near), [format!("{:04}", first + 1), format!("{:04}", first + 3)]);
        }
    }
    wait_for_documents(server, 250).await;
    assert_eq!(server.json("/collections/default").await["distinct_hashes"], 125);
}

#[tokio::test]
async fn expiry_survives_kills_before_and_while_documents_are_removed() {
    let data = directory();
    let written = fill_directory(data.path(), "2s").await;
    wait_until(written + 2_000).await;
    // Kill the server at several stages of the removal, which begins at the start.
    for pause in [0, 1, 3, 10, 30] {
        let server = Server::start(data.path()).await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        server.kill();
    }
    let server = Server::start(data.path()).await;
    check_remaining_half(&server).await;
    assert!(server.stop().success());
    check_remaining_half(&Server::start(data.path()).await).await;
}

#[tokio::test]
async fn a_deleted_collection_leaves_no_expiry_entries() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for profile in ["copies-64", "copies-128"] {
        server.put("/collections/short", json!({"profile": profile, "expires_in": 2})).await;
        let digits = if profile == "copies-64" { 16 } else { 32 };
        let lines: String = (0..3_000)
            .map(|i| format!("{}\n", json!({"hash": format!("{:0digits$x}", i / 3 << 9)})))
            .collect();
        server.stream("/collections/short/documents", lines).await;
        assert_eq!(server.delete("/collections/short").await.as_u16(), 204);
    }
    server.put("/documents/a", json!({"hash": hash(1), "expires_in": 2})).await;
    wait_for_documents(&server, 0).await;
    let metrics = server.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("lookalike_expired_documents_total 1"), "{metrics}");
}

#[tokio::test]
async fn a_wall_clock_step_restores_no_expired_document() {
    if !Path::new(FAKETIME).exists() {
        skipped(&format!("{FAKETIME} is missing (Debian: apt-get install faketime)"));
        return;
    }
    let data = directory();
    fill_directory(data.path(), "2d").await;
    // The monotonic clock must not change: timeouts and intervals depend on it.
    let stepped = |by: &'static str| {
        [("LD_PRELOAD", FAKETIME), ("FAKETIME", by), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]
    };
    let server = Server::start_with(data.path(), &stepped("+1d")).await;
    assert_eq!(exported(&server).await.len(), 500, "documents expired a day early");
    server.put("/documents/0001", json!({"hash": hash(0)})).await;
    server.kill();
    // The wall clock steps back to today: the server's clock continues from the last recorded time, one day
    // ahead.
    let server = Server::start(data.path()).await;
    let (_, added) = server.put("/documents/0003", json!({"hash": hash(0), "expires_in": "1h"})).await;
    let ahead = ms(&added["expires_at"]) - now_ms();
    assert!((23 * 3_600_000..26 * 3_600_000).contains(&ahead), "{ahead}");
    server.put("/documents/0003", json!({"hash": hash(0)})).await;
    server.wait_for_log("the wall clock is behind the last recorded time").await;
    server.kill();
    let server = Server::start_with(data.path(), &stepped("+3d")).await;
    check_remaining_half(&server).await;
    server.kill();
    for by in ["-10y", "+0d"] {
        let server = Server::start_with(data.path(), &stepped(by)).await;
        check_remaining_half(&server).await;
        server.kill();
    }
}
