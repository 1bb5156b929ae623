//! `Idempotency-Key`: a request that is sent again stores nothing twice, on any route that makes ids.

use std::collections::BTreeSet;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, directory};

const TEXT: &str = "The harbour ferry will run every twenty minutes during the summer festival.";

fn request(server: &Server, route: &str, key: Option<&str>) -> RequestBuilder {
    let request = server.client.post(format!("{}{route}", server.url));
    match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    }
}

async fn add(server: &Server, key: Option<&str>, route: &str, body: Value) -> (StatusCode, Value) {
    let response = request(server, route, key).json(&body).send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

fn ids(results: &[Value]) -> BTreeSet<String> {
    results.iter().map(|one| one["id"].as_str().unwrap_or_else(|| panic!("{one}")).to_owned()).collect()
}

#[tokio::test]
async fn a_document_that_is_sent_again_is_stored_once_also_after_a_kill() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (status, first) = add(&server, Some("9f1c"), "/documents", json!({"text": TEXT})).await;
    assert_eq!(status, StatusCode::CREATED, "{first}");
    server.kill();
    let server = Server::start(data.path()).await;
    for key in ["9f1c", "\"9f1c\""] {
        let (status, again) = add(&server, Some(key), "/documents", json!({"text": TEXT})).await;
        assert_eq!((status, &again["id"]), (StatusCode::OK, &first["id"]), "{again}");
        assert_eq!(again["outcome"], "updated");
    }
    // It is no duplicate of its own first version.
    let (_, skipped) =
        add(&server, Some("9f1c"), "/documents?on_duplicate=skip", json!({"text": TEXT})).await;
    assert_eq!((&skipped["id"], &skipped["outcome"]), (&first["id"], &json!("updated")), "{skipped}");
    assert_eq!(server.documents().await, 1);
    for key in [Some("9f1d"), None, None] {
        let (status, other) = add(&server, key, "/documents", json!({"text": TEXT})).await;
        assert!(status == StatusCode::CREATED && other["id"] != first["id"], "{other}");
    }
    // An id of the client's own is kept.
    let (_, own) = add(&server, Some("9f1c"), "/documents", json!({"id": "own", "text": TEXT})).await;
    assert_eq!(own["id"], "own");
    assert_eq!(server.documents().await, 5);
}

#[tokio::test]
async fn arrays_and_streams_that_are_sent_again_are_stored_once() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let documents: Vec<Value> = (0..3_000u64)
        .map(|number| match number % 3 {
            0 => json!({"id": format!("own-{number}"), "hash": format!("{number:016x}")}),
            _ => json!({"hash": format!("{number:016x}")}),
        })
        .collect();
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    let stream = async |key: &str| {
        let sent = request(&server, "/documents", Some(key)).header("content-type", "application/x-ndjson");
        let answer = sent.body(lines.clone()).send().await.unwrap().text().await.unwrap();
        let mut results: Vec<Value> =
            answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let summary = results.pop().unwrap();
        assert_eq!(summary["summary"]["errors"], 0, "{summary}");
        ids(&results)
    };
    let first = stream("of the stream").await;
    assert_eq!((first.len(), server.documents().await), (3_000, 3_000));
    assert_eq!(stream("of the stream").await, first);
    assert_eq!(server.documents().await, 3_000);
    // Another key makes other ids: the thousand ids of the client stay.
    let second = stream("another").await;
    assert_eq!((second.intersection(&first).count(), server.documents().await), (1_000, 5_000));
    let mut arrays = Vec::new();
    for _ in 0..2 {
        let (_, answer) =
            add(&server, Some("of the array"), "/batch/documents", json!(documents[..100])).await;
        arrays.push(ids(answer["results"].as_array().unwrap()));
    }
    assert_eq!((arrays[0].len(), &arrays[0]), (100, &arrays[1]));
    assert_eq!(server.documents().await, 5_066);
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_nothing_is_stored() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let long = "k".repeat(256);
    for key in ["", "\"\"", &long, "schlüssel"] {
        for route in ["/documents", "/batch/documents"] {
            let body = if route == "/documents" { json!({"text": TEXT}) } else { json!([{"text": TEXT}]) };
            let (status, answer) = add(&server, Some(key), route, body).await;
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{key:?} {answer}");
            assert_eq!(answer["errors"][0]["parameter"], "Idempotency-Key", "{answer}");
            assert!(answer["detail"].as_str().unwrap().contains("1 to 255 ASCII characters"), "{answer}");
        }
    }
    let twice = request(&server, "/documents", Some("a")).header("idempotency-key", "b");
    assert_eq!(twice.json(&json!({"text": TEXT})).send().await.unwrap().status(), 422);
    assert_eq!(server.documents().await, 0);
}
