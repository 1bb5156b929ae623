//! Spans of requests as a collector receives them.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use reqwest::StatusCode;
use serde_json::json;

use crate::server::{Server, directory, serve};

type Bodies = Arc<Mutex<Vec<Bytes>>>;

/// A collector that keeps the received bodies.
async fn collector() -> (String, Bodies) {
    let bodies = Bodies::default();
    let receive = |State(bodies): State<Bodies>, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        assert_eq!(uri.path(), "/v1/traces");
        assert_eq!(headers["content-type"], "application/x-protobuf");
        bodies.lock().unwrap().push(body);
    };
    let router = axum::Router::new().fallback(receive).with_state(Arc::clone(&bodies));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, bodies)
}

fn contains(bodies: &Bodies, expected: &[u8]) -> bool {
    bodies.lock().unwrap().iter().any(|body| body.windows(expected.len()).any(|part| part == expected))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_sent_to_the_collector_with_the_trace_of_the_caller() {
    let (url, bodies) = collector().await;
    let data = directory();
    let variables = [("LOOKALIKE_TRACES__ENDPOINT", url.as_str()), ("LOOKALIKE_TRACES__PERCENT", "100")];
    let server = Server::start_with(data.path(), &variables).await;
    let trace = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128;
    let post = server
        .client
        .post(format!("{}/fingerprint", server.url))
        .header("traceparent", format!("00-{trace:032x}-b7ad6b7169203331-01"))
        .header("x-request-id", "of-the-caller-17")
        .json(&json!({"text": "some words of a text"}));
    assert_eq!(post.send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(server.get("/similar?hash=xyz").await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    // A request whose `traceparent` is not sampled is not traced.
    let unsampled = server
        .client
        .get(format!("{}/stats", server.url))
        .header("traceparent", "00-11111111111111111111111111111111-2222222222222222-00");
    assert_eq!(unsampled.send().await.unwrap().status(), StatusCode::OK);
    // The shutdown sends the remaining spans.
    assert_eq!(server.stop().code(), Some(0));
    for expected in
        ["POST /fingerprint", "of-the-caller-17", "GET /similar", "lookalike", "fingerprint", "http.route"]
    {
        assert!(contains(&bodies, expected.as_bytes()), "{expected}");
    }
    assert!(contains(&bodies, &trace.to_be_bytes()));
    assert!(!contains(&bodies, b"GET /stats"));
}

#[tokio::test]
async fn an_unreachable_collector_delays_no_request() {
    let data = directory();
    let variables =
        [("LOOKALIKE_TRACES__ENDPOINT", "http://127.0.0.1:9"), ("LOOKALIKE_TRACES__PERCENT", "50")];
    let server = Server::start_with(data.path(), &variables).await;
    for number in 0..200 {
        let (status, _) = server.post("/documents", json!({"id": format!("{number}"), "hash": "00"})).await;
        assert!(status.is_client_error());
    }
    let start = std::time::Instant::now();
    assert_eq!(server.stop().code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_invalid_endpoint_is_refused() {
    let data = directory();
    let variables = [("LOOKALIKE_TRACES__ENDPOINT", "not a url")];
    let output = serve(data.path(), &variables).stderr(Stdio::piped()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{stderr}");
    assert!(stderr.contains("traces.endpoint"), "{stderr}");
}
