//! What clients do across the moment in which a reindex takes effect: lists, exports, conditional changes,
//! deletions by filter, calibrations, and the end of the job itself.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{ETAG, IF_MATCH};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::reindex::{lines, reindex, text, wait_for_end};
use crate::server::{Server, directory};

/// A server with some documents in a collection that keeps texts.
async fn filled(data: &std::path::Path, documents: u64) -> Server {
    let server = Server::start(data).await;
    server.put("/collections/news", json!({"profile": "copies-64", "keep_text": true})).await;
    let (_, summary) = server.stream("/collections/news/documents", lines(0..documents)).await;
    assert_eq!(summary["created"], documents);
    server
}

fn id(number: u64) -> String {
    format!("文{number:05}")
}

/// Reindexes and waits until it has taken effect.
async fn swap(server: &Server, wanted: Value) {
    let (status, job) = reindex(server, "news", wanted).await;
    assert_eq!(status, 202, "{job}");
    let job = wait_for_end(server, "news").await;
    assert_eq!(job["state"], "done", "{job}");
}

async fn etag(server: &Server, number: u64) -> String {
    let found = server.get(&format!("/collections/news/documents/{}", id(number))).await;
    found.headers()[ETAG].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_list_and_an_export_that_began_before_it_have_every_document_once() {
    const COUNT: u64 = 3_000;
    let data = directory();
    let server = filled(data.path(), 0).await;
    // More than the buffers between the server and its client can hold.
    let line = |number: u64| json!({"id": id(number), "text": text(number, 700)}).to_string() + "\n";
    server.stream("/collections/news/documents", (0..COUNT).map(line).collect()).await;
    let page = server.json("/collections/news/documents?limit=1000").await;
    let mut export = server.get("/collections/news/export").await.bytes_stream();
    let mut exported = export.next().await.unwrap().unwrap().to_vec();
    swap(&server, json!({"profile": "copies-128"})).await;
    let all: Vec<String> = (0..COUNT).map(id).collect();
    let mut listed = Vec::new();
    let mut page = page;
    loop {
        let documents = page["documents"].as_array().unwrap();
        listed.extend(documents.iter().map(|document| document["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        page = server.json(&format!("/collections/news/documents?limit=1000&cursor={next}")).await;
    }
    assert_eq!(listed, all);
    while let Some(part) = export.next().await {
        exported.extend(part.unwrap());
    }
    let exported = String::from_utf8(exported).unwrap();
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["export"]["profile"], "copies-64@1", "the collection as it was");
    let ids: Vec<&str> = lines[1..].iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, all);
}

#[tokio::test]
async fn a_version_of_before_it_matches_only_if_the_hash_is_the_same() {
    let data = directory();
    let server = filled(data.path(), 60).await;
    let patch = async |number: u64, tag: &str| {
        let url = format!("{}/collections/news/documents/{}", server.url, id(number));
        let request = server.client.request(Method::PATCH, url).header(IF_MATCH, tag);
        let answer = request.json(&json!({"metadata": {"seen": tag}})).send().await.unwrap();
        let current = answer.headers().get(ETAG).map(|tag| tag.to_str().unwrap().to_owned());
        (answer.status(), current)
    };
    let (first, second) = (etag(&server, 1).await, etag(&server, 2).await);
    swap(&server, json!({"sketch_bytes": 64})).await;
    assert_eq!(etag(&server, 1).await, first);
    assert_eq!(patch(1, &first).await.0, 200);
    swap(&server, json!({"profile": "copies-128"})).await;
    let now = etag(&server, 2).await;
    assert_ne!(now, second);
    assert_eq!(patch(2, &second).await, (StatusCode::PRECONDITION_FAILED, Some(now.clone())));
    assert_eq!(patch(2, &now).await.0, 200);
}

#[tokio::test]
async fn a_deletion_by_filter_that_meets_it_deletes_all_that_the_filter_admits() {
    let data = directory();
    let server = filled(data.path(), 2_500).await;
    let mut left: BTreeSet<u64> = (0..2_500).collect();
    for (round, profile) in ["copies-128", "pairs-64", "copies-64"].into_iter().enumerate() {
        let (status, job) = reindex(&server, "news", json!({"profile": profile})).await;
        assert_eq!(status, 202, "{job}");
        // Nearly all documents are read: the deletion meets the last step.
        while server.json("/collections/news/reindex").await["documents_read"].as_u64() < Some(1_000) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let wanted: BTreeSet<u64> = (0..2_500)
            .filter(|number| number % 3 == 0 && number % 7 == round as u64)
            .filter(|number| left.contains(number))
            .collect();
        let filter = json!({"filter": {"metadata": {"n": round}}});
        let (status, mut deletion) = server.post("/collections/news/deletions", filter).await;
        assert!(status.is_success(), "{deletion}");
        while deletion["ended_at"].is_null() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            deletion = server.json("/collections/news/deletions").await;
        }
        assert!(deletion.get("error").is_none(), "{deletion}");
        let counts = (deletion["matched"].as_u64(), deletion["deleted"].as_u64());
        assert_eq!(counts, (Some(wanted.len() as u64), Some(wanted.len() as u64)), "{deletion}");
        let job = wait_for_end(&server, "news").await;
        assert_eq!(job["state"], "done", "{job}");
        left.retain(|number| !wanted.contains(number));
        let export = server.export("/collections/news/export").await;
        let ids = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone());
        assert_eq!(ids.collect::<Vec<_>>(), left.iter().copied().map(id).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_calibration_of_before_it_is_forgotten() {
    let data = directory();
    let server = filled(data.path(), 200).await;
    let wanted = json!({"sample": 100, "profiles": ["copies-64"]});
    let route = "/collections/news/calibrate";
    server.post(route, wanted.clone()).await;
    while server.json(route).await["state"] == "running" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // One that has ended, and one that runs.
    for profile in ["copies-128", "copies-64"] {
        swap(&server, json!({"profile": profile})).await;
        let gone = server.get(route).await;
        assert_eq!(gone.status(), 404);
        let gone: Value = gone.json().await.unwrap();
        assert!(gone["detail"].as_str().unwrap().contains("POST to the same path begins"), "{gone}");
        let (status, begun) = server.post(route, wanted.clone()).await;
        assert!(status == 202 || begun["code"] == "busy", "{begun}");
    }
}

#[tokio::test]
async fn the_answer_to_its_end_says_whether_it_has_taken_effect() {
    let data = directory();
    let server = filled(data.path(), 40).await;
    let (mut profile, mut other) = ("copies-64@1", "copies-128@1");
    let mut seen = BTreeSet::new();
    for round in 0..40 {
        let (status, job) = reindex(&server, "news", json!({"profile": other})).await;
        if status == 503 {
            // One that was ended has not stopped yet.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        assert_eq!(status, 202, "{job}");
        tokio::time::sleep(Duration::from_millis(fastrand::Rng::with_seed(round).u64(..40))).await;
        let request = server.client.delete(format!("{}/collections/news/reindex", server.url));
        let answer = request.send().await.unwrap();
        let (status, answer) = (answer.status(), answer.json::<Value>().await.unwrap());
        let has_effect = if status == 409 {
            assert!(answer["detail"].as_str().unwrap().contains("takes effect"), "{answer}");
            assert_eq!(wait_for_end(&server, "news").await["state"], "done");
            true
        } else {
            assert_eq!(status, 200, "{answer}");
            assert_eq!(server.get("/collections/news/reindex").await.status(), 404);
            let state = answer["state"].as_str().unwrap();
            assert!(["ended", "done"].contains(&state), "{answer}");
            state == "done"
        };
        seen.insert((status.as_u16(), has_effect));
        if has_effect {
            (profile, other) = (other, profile);
        }
        // Later it has none either.
        for _ in 0..3 {
            assert_eq!(server.json("/collections/news").await["profile"], profile, "{answer}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    println!("{seen:?}");
    assert!(seen.len() >= 2, "{seen:?}");
}
