//! The neighbours in the answer to a write. An empty list means that there are no neighbours; if the server
//! did not search, the answer has `similar_unknown` instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory, ids};

/// A pseudo-random hash for a number.
fn hash(number: u64) -> String {
    format!("{:016x}", (number + 1).wrapping_mul(0xd134_2543_de82_ef95))
}

/// A server with one permit in its pool and enough hashes that a lookup at large k needs this permit, with
/// these settings of the pool.
async fn server_with_one_permit(data: &std::path::Path, queue: &str, wait_ms: &str) -> Server {
    let settings = [
        ("LOOKALIKE_POOL__PERMITS", "1"),
        ("LOOKALIKE_POOL__QUEUE", queue),
        ("LOOKALIKE_POOL__WAIT_MS", wait_ms),
    ];
    let server = Server::start_with(data, &settings).await;
    let line = |number| format!("{}\n", json!({"id": format!("{number}"), "hash": hash(number)}));
    let (_, summary) = server.stream("/documents", (0..300_000).map(line).collect()).await;
    assert_eq!(summary["created"], 300_000);
    let (status, _) = server.put("/collections/default", json!({"k": 28})).await;
    assert_eq!(status, StatusCode::OK);
    server
}

/// Keeps the only permit in use until `stop` is set: each request fingerprints `texts` long texts.
fn keep_pool_busy(server: &Server, texts: usize, stop: &Arc<AtomicBool>) -> Vec<tokio::task::JoinHandle<()>> {
    let text = (0..60_000).map(|word| format!("word{word} ")).collect::<String>();
    let body = json!({"texts": vec![text; texts]}).to_string();
    let busy_client = || {
        let (client, url, stop) = (server.client.clone(), server.url.clone(), Arc::clone(stop));
        let body = body.clone();
        async move {
            while !stop.load(Ordering::SeqCst) {
                let request = client.post(format!("{url}/batch/fingerprint")).body(body.clone());
                let _ = request.header("content-type", "application/json").send().await;
            }
        }
    };
    (0..4).map(|_| tokio::spawn(busy_client())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_reports_unknown_neighbours_instead_of_none() {
    let data = directory();
    let server = server_with_one_permit(data.path(), "0", "20").await;
    let stop = Arc::new(AtomicBool::new(false));
    let busy_clients = keep_pool_busy(&server, 1, &stop);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (mut unknown, mut known) = (0, 0);
    for round in 0..400u64 {
        // Each hash is also the hash of a stored document.
        let (status, answer) =
            server.put(&format!("/documents/twin-{round}"), json!({"hash": hash(round)})).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        if answer["similar"].is_null() {
            assert!(answer.as_object().unwrap().contains_key("similar"), "{answer}");
            let reason = answer["similar_unknown"].as_str().unwrap();
            assert!(reason.starts_with("busy: ") && reason.contains("/similar"), "{reason}");
            unknown += 1;
        } else {
            assert!(ids(&answer).contains(&round.to_string()), "{answer}");
            assert_eq!(answer.get("similar_unknown"), None);
            known += 1;
        }
        if unknown == 60 {
            break;
        }
    }
    stop.store(true, Ordering::SeqCst);
    for busy_client in busy_clients {
        busy_client.await.unwrap();
    }
    println!("{unknown} unknown, {known} known");
    assert!(unknown > 0, "the server was never busy");
    // The documents stored meanwhile are found now, and a document without neighbours gets an empty list.
    assert!(ids(&server.json("/documents/0/similar").await).contains(&"twin-0".to_owned()));
    server.put("/collections/default", json!({"k": 0})).await;
    let (_, alone) = server.put("/documents/alone", json!({"hash": "0123456789abcdef"})).await;
    assert_eq!((&alone["similar"], alone.get("similar_unknown")), (&json!([]), None::<&Value>), "{alone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_document_is_acknowledged_when_the_deadline_of_its_lookup_expires() {
    let data = directory();
    let server = server_with_one_permit(data.path(), "64", "60000").await;
    let stop = Arc::new(AtomicBool::new(false));
    let busy_clients = keep_pool_busy(&server, 40, &stop);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut late = 0;
    for round in 0..5u64 {
        // The deadline is much longer than a write, and shorter than the texts that are queued before it.
        let request = server.client.put(format!("{}/documents/late-{round}", server.url));
        let request = request.header("x-timeout-ms", "1500").json(&json!({"hash": hash(round)}));
        let response = request.send().await.unwrap();
        let (status, answer) = (response.status(), response.json::<Value>().await.unwrap());
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        match answer["similar_unknown"].as_str() {
            None => assert!(ids(&answer).contains(&round.to_string()), "{answer}"),
            Some(reason) => {
                assert!(answer["similar"].is_null() && reason.starts_with("deadline_exceeded: "), "{answer}");
                late += 1;
            }
        }
    }
    stop.store(true, Ordering::SeqCst);
    for busy_client in busy_clients {
        // Its texts need not be finished.
        busy_client.abort();
    }
    println!("of 5 lookups {late} were late");
}
