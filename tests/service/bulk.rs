//! Bulk inserts: NDJSON streams and arrays, invalid lines among valid ones, order of the results.

use futures::StreamExt;
use serde_json::{Value, json};

use crate::server::{Server, directory};

const GOOD: &str = r#"{"id":"good-1","hash":"00000000000000ff"}"#;

#[tokio::test]
async fn an_invalid_line_fails_alone_with_a_reason() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let long = format!(r#"{{"id":"long","text":"{}"}}"#, "x".repeat((1 << 20) + 1));
    let lines = [
        GOOD,
        "{not json",
        "",
        r#"{"id":"n","hash":255}"#,
        r#"{"id":"u","hash":"00000000000000fe","colour":"red"}"#,
        &long,
        r#"{"id":"empty","text":"  ... "}"#,
        "{\"id\":\"line\\nbreak\",\"hash\":\"00000000000000fd\"}",
        r#"{"id":"both","hash":"00000000000000fc","text":"x"}"#,
        r#"{"id":"good-2","hash":"00000000000000fb"}"#,
    ];
    let (results, summary) = server.stream("/documents", lines.join("\n")).await;
    let expected = [
        (0, "created", ""),
        (1, "malformed_request", "not valid JSON"),
        (3, "invalid_field", "many programs round numbers"),
        (4, "unknown_field", "colour"),
        (5, "too_large", "1048576"),
        (6, "empty_text", "no word"),
        (7, "invalid_field", "U+000A"),
        (8, "invalid_field", "exactly one of"),
        (9, "created", ""),
    ];
    assert_eq!(results.len(), expected.len());
    for (result, (index, code, fragment)) in results.iter().zip(expected) {
        assert_eq!(result["index"], index);
        let found = result["outcome"].as_str().or(result["error"]["code"].as_str()).unwrap();
        assert_eq!(found, code, "{result}");
        assert!(
            fragment.is_empty() || result["error"]["detail"].as_str().unwrap().contains(fragment),
            "{result}"
        );
    }
    assert_eq!(summary, json!({"created": 2, "updated": 0, "duplicates": 0, "errors": 7}));
    assert_eq!(server.documents().await, 2);
}

#[tokio::test]
async fn results_are_in_order_and_the_last_document_of_an_id_wins() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let lines: String = (0..5_000u64)
        .map(|i| format!("{}\n", json!({"id": format!("{}", i % 1_000), "hash": format!("{i:016x}")})))
        .collect();
    let (results, summary) = server.stream("/documents", lines).await;
    assert_eq!((summary["created"].as_u64(), summary["updated"].as_u64()), (Some(1_000), Some(4_000)));
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result["index"], number);
        assert_eq!(result["outcome"], if number < 1_000 { "created" } else { "updated" });
    }
    for id in [0, 1, 999] {
        assert_eq!(server.json(&format!("/documents/{id}")).await["hash"], format!("{:016x}", 4_000 + id));
    }
    let info = server.json("/collections/default").await;
    assert_eq!((info["documents"].as_u64(), info["distinct_hashes"].as_u64()), (Some(1_000), Some(1_000)));
}

#[tokio::test]
async fn an_array_is_a_batch_of_documents() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let text = "A short report about the weather in the mountains, where the first snow has fallen \
                earlier than usual.";
    let body = json!([{"id": "a", "text": text}, {"id": "b"}, {"id": "c", "text": text}]);
    let (status, answer) = server.post("/batch/documents?on_duplicate=skip&k=3", body).await;
    assert!(status.is_success(), "{answer}");
    let outcome = |at: usize| {
        answer["results"][at]["outcome"].as_str().or(answer["results"][at]["error"]["code"].as_str()).unwrap()
    };
    assert_eq!([outcome(0), outcome(1), outcome(2)], ["created", "invalid_field", "duplicate"]);
    assert_eq!(answer["summary"], json!({"created": 1, "updated": 0, "duplicates": 1, "errors": 1}));
    let (status, empty) = server.post("/batch/documents", json!([])).await;
    assert!(status.is_success());
    assert_eq!(empty["results"], json!([]));
}

#[tokio::test]
async fn an_aborted_stream_stores_only_complete_lines() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let whole: String = (0..600)
        .map(|i| format!("{}\n", json!({"id": format!("{i}"), "hash": format!("{i:016x}")})))
        .collect();
    // An incomplete last line. The server would store it if it did not wait for the line feed.
    let half = r#"{"id":"half","hash":"0000000000000fff"}"#.to_owned();
    let parts = vec![Ok(whole), Ok(half), Err(std::io::Error::other("gone"))];
    let request = server
        .client
        .post(format!("{}/documents", server.url))
        .header("content-type", "application/x-ndjson");
    let _ = request.body(reqwest::Body::wrap_stream(futures::stream::iter(parts))).send().await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(server.get("/documents/half").await.status().as_u16(), 404);
    let stored = server.documents().await;
    let export = server.export("/export").await;
    assert_eq!(export.lines().count() as u64, stored);
    assert!(
        server.post("/documents", json!({"id": "after", "hash": "00000000000000ff"})).await.0.is_success()
    );
}

#[tokio::test]
async fn each_result_is_sent_before_the_next_line_arrives() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (send, parts) = futures::channel::mpsc::unbounded::<Result<String, std::io::Error>>();
    let request = server
        .client
        .post(format!("{}/documents", server.url))
        .header("content-type", "application/x-ndjson");
    let response = request.body(reqwest::Body::wrap_stream(parts)).send().await.unwrap();
    let mut results = response.bytes_stream();
    for number in 0..3 {
        let line = json!({"id": format!("{number}"), "hash": format!("{number:016x}")});
        send.unbounded_send(Ok(format!("{line}\n"))).unwrap();
        let result: Value = serde_json::from_slice(&results.next().await.unwrap().unwrap()).unwrap();
        assert_eq!((result["index"].as_u64(), result["outcome"].as_str()), (Some(number), Some("created")));
    }
    drop(send);
    let summary: Value = serde_json::from_slice(&results.next().await.unwrap().unwrap()).unwrap();
    assert_eq!(summary["summary"]["created"], 3);
}

#[tokio::test]
async fn an_answer_lists_at_most_100_errors_and_the_first_of_each_code() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let mut lines = vec!["1"; 900];
    lines.push(r#"{"text":"..."}"#);
    lines.push(r#"{"id":"good","hash":"00000000000000fe"}"#);
    let array = serde_json::from_str(&format!("[{}]", lines.join(","))).unwrap();
    let (status, answer) = server.post("/batch/documents", array).await;
    assert!(status.is_success(), "{answer}");
    let (of_stream, summary) = server.stream("/documents", lines.join("\n")).await;
    let of_array = answer["results"].as_array().unwrap();
    for (results, summary, outcome) in
        [(of_array, &answer["summary"], "created"), (&of_stream, &summary, "updated")]
    {
        assert_eq!((&summary["errors"], &summary[outcome]), (&json!(901), &json!(1)), "{summary}");
        let errors: Vec<&Value> = results.iter().filter(|result| result["error"].is_object()).collect();
        assert!((40..=100).contains(&errors.len()), "{}", errors.len());
        assert!(errors.iter().enumerate().all(|(at, error)| at + 1 == errors.len() || error["index"] == at));
        let last = &results[results.len() - 2..];
        assert_eq!((&last[0]["index"], &last[0]["error"]["code"]), (&json!(900), &json!("empty_text")));
        assert_eq!((&last[1]["index"], &last[1]["outcome"]), (&json!(901), &json!(outcome)));
    }
}
