//! Spans of requests: what a collector gets. A test of its own, since the program has to be built anew for it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics, in its helpers too")]

#[path = "../service/server.rs"]
#[allow(dead_code, reason = "the service's tests need more of it")]
mod server;

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use reqwest::StatusCode;
use serde_json::json;

use server::{Server, directory, serve};

type Taken = Arc<Mutex<Vec<Bytes>>>;

/// A collector that keeps what it gets.
async fn collector() -> (String, Taken) {
    let taken = Taken::default();
    let take = |State(taken): State<Taken>, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        assert_eq!(uri.path(), "/v1/traces");
        assert_eq!(headers["content-type"], "application/x-protobuf");
        taken.lock().unwrap().push(body);
    };
    let router = axum::Router::new().fallback(take).with_state(Arc::clone(&taken));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, taken)
}

fn holds(taken: &Taken, wanted: &[u8]) -> bool {
    taken.lock().unwrap().iter().any(|body| body.windows(wanted.len()).any(|part| part == wanted))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_told_to_the_collector_with_their_callers_trace() {
    let (url, taken) = collector().await;
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
    // A caller that does not want to be traced is not.
    let unwanted = server
        .client
        .get(format!("{}/stats", server.url))
        .header("traceparent", "00-11111111111111111111111111111111-2222222222222222-00");
    assert_eq!(unwanted.send().await.unwrap().status(), StatusCode::OK);
    // What was not sent yet goes out at the end.
    assert_eq!(server.stop().code(), Some(0));
    for wanted in
        ["POST /fingerprint", "of-the-caller-17", "GET /similar", "lookalike", "fingerprint", "http.route"]
    {
        assert!(holds(&taken, wanted.as_bytes()), "{wanted}");
    }
    assert!(holds(&taken, &trace.to_be_bytes()));
    assert!(!holds(&taken, b"GET /stats"));
}

#[tokio::test]
async fn a_collector_that_is_not_there_holds_up_nobody() {
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
fn an_endpoint_that_is_none_is_refused() {
    let data = directory();
    let variables = [("LOOKALIKE_TRACES__ENDPOINT", "not a url")];
    let output = serve(data.path(), &variables).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("traces.endpoint"), "{said}");
}
