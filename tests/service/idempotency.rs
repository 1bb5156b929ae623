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

/// A key that stands for another body stores nothing, and what is stored stays.
#[tokio::test]
async fn a_key_of_another_body_is_refused_and_the_stored_document_stays() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    server.put("/collections/kept", json!({"keep_text": true})).await;
    for route in ["/documents", "/collections/kept/documents"] {
        let base = route.trim_end_matches("/documents");
        let body = json!({"text": TEXT, "metadata": {"b": 1, "a": [2]}, "expires_in": 1_000});
        let (status, first) = add(&server, Some("k1"), route, body.clone()).await;
        assert_eq!(status, StatusCode::CREATED, "{first}");
        let stored = format!("{base}/documents/{}", first["id"].as_str().unwrap());
        let document = server.json(&stored).await;
        let others = [
            json!({"text": TEXT.replace("twenty", "ten"), "metadata": {"b": 1, "a": [2]}}),
            json!({"text": TEXT, "metadata": {"b": 2, "a": [2]}}),
            json!({"text": TEXT}),
            // The letters of a fingerprint are the same, the text is another one.
            json!({"text": format!("{TEXT} !"), "metadata": {"b": 1, "a": [2]}}),
        ];
        server.kill();
        server = Server::start(data.path()).await;
        for other in others {
            for rule in ["", "?on_duplicate=skip"] {
                let (status, refused) =
                    add(&server, Some("k1"), &format!("{route}{rule}"), other.clone()).await;
                assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{other} {refused}");
                assert_eq!(refused["code"], "idempotency_key_reused");
                assert_eq!(refused["errors"][0]["parameter"], "Idempotency-Key", "{refused}");
                assert!(refused["detail"].as_str().unwrap().contains("a new key"), "{refused}");
            }
        }
        assert_eq!(server.json(&stored).await, document, "it stays");
        // The same body is the same, in whatever order its members are, and is not written again.
        let again = json!({"expires_in": 1_000, "metadata": {"a": [2], "b": 1}, "text": TEXT});
        let (status, answer) = add(&server, Some("k1"), route, again).await;
        assert_eq!((status, &answer["outcome"]), (StatusCode::OK, &json!("updated")), "{answer}");
        assert_eq!(answer["expires_at"], first["expires_at"], "the first time counts");
        assert_eq!(server.json(&stored).await, document);
        // A change in between is not undone.
        let change = server.client.patch(format!("{}{stored}", server.url));
        change.json(&json!({"metadata": {"seen": true}})).send().await.unwrap();
        let (status, late) = add(&server, Some("k1"), route, body.clone()).await;
        assert_eq!(
            (status, &late["code"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reused"))
        );
        assert_eq!(server.json(&stored).await["metadata"]["seen"], true);
        // A document that was deleted since is stored again.
        assert_eq!(server.delete(&stored).await, StatusCode::NO_CONTENT);
        let (status, anew) = add(&server, Some("k1"), route, body).await;
        assert_eq!((status, &anew["id"]), (StatusCode::CREATED, &first["id"]), "{anew}");
    }
}

#[tokio::test]
async fn an_element_of_another_body_fails_alone_in_arrays_and_streams() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let hash = |number: u64| json!({"hash": format!("{number:016x}")});
    let outcome = |line: &Value| line.get("error").map_or(&line["outcome"], |error| &error["code"]).clone();
    let lines =
        |numbers: &[u64]| numbers.iter().map(|number| format!("{}\n", hash(*number))).collect::<String>();
    let stream = async |numbers: &[u64]| {
        let sent = request(&server, "/documents", Some("s")).header("content-type", "application/x-ndjson");
        let answer = sent.body(lines(numbers)).send().await.unwrap().text().await.unwrap();
        answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    assert_eq!(stream(&[1, 2, 3]).await[3]["summary"]["created"], 3);
    let again = stream(&[1, 9, 3]).await;
    let outcomes: Vec<Value> = again[..3].iter().map(outcome).collect();
    assert_eq!(outcomes, ["updated", "idempotency_key_reused", "updated"], "{again:?}");
    assert_eq!((&again[3]["summary"]["errors"], &again[3]["summary"]["updated"]), (&json!(1), &json!(2)));
    let array = async |numbers: [u64; 2]| {
        add(&server, Some("a"), "/batch/documents", json!(numbers.map(hash))).await.1["results"].clone()
    };
    array([11, 12]).await;
    let again = array([11, 19]).await;
    assert_eq!(again[0]["outcome"], "updated", "{again}");
    assert_eq!(outcome(&again[1]), "idempotency_key_reused", "{again}");
    // Of two that are sent at once with one key, one is stored and the other one refused.
    let [one, other] = [21, 22].map(|number| add(&server, Some("at once"), "/documents", hash(number)));
    let (one, other) = futures::join!(one, other);
    let mut statuses = [one.0.as_u16(), other.0.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 422], "{one:?} {other:?}");
    assert_eq!(server.documents().await, 6);
}
