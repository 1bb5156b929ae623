//! `on_duplicate=skip`: of any number of near-duplicates offered at once, one is stored.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::server::{Server, directory};

const CLIENTS: usize = 24;

/// `CLIENTS` hashes of which any two lie within `k` bits: the centre with up to k / 2 bits flipped.
fn near(centre: u64, k: u32, client: usize) -> String {
    let flips = (client as u32) % (k / 2 + 1);
    let hash = (0..flips).fold(centre, |hash, bit| hash ^ (1 << ((bit * 3 + client as u32) % 32)));
    format!("{hash:016x}")
}

#[tokio::test]
async fn of_concurrent_near_duplicates_exactly_one_is_stored_at_every_k() {
    let data = directory();
    let server = Arc::new(Server::start(data.path()).await);
    // So many that at large k the check runs beside the writer and not in it; and far from what is offered:
    // their upper halves are ones, those of the offers zeros.
    let others: String = (0..60_000u64)
        .map(|i| format!("{}\n", json!({"hash": format!("{:016x}", 0xffff_ffff_0000_0000 | i.wrapping_mul(0x9e37_79b9) % (1 << 32))})))
        .collect();
    server.stream("/documents", others).await;
    for (round, k) in [0u32, 1, 3, 4, 7, 9, 11, 14, 20].into_iter().cycle().take(27).enumerate() {
        let centre = (round as u64 + 1).wrapping_mul(0x1234_5679) % (1 << 32);
        let start = Arc::new(Barrier::new(CLIENTS));
        let offers = (0..CLIENTS).map(|client| {
            let (server, start) = (Arc::clone(&server), Arc::clone(&start));
            let body = json!({"id": format!("{round}-{client}"), "hash": near(centre, k, client)});
            tokio::spawn(async move {
                start.wait().await;
                server.post(&format!("/documents?on_duplicate=skip&k={k}"), body).await.1
            })
        });
        let answers: Vec<Value> = join_all(offers).await.into_iter().map(Result::unwrap).collect();
        let created: Vec<&Value> = answers.iter().filter(|answer| answer["outcome"] == "created").collect();
        assert_eq!(created.len(), 1, "k {k}: {answers:#?}");
        for duplicate in answers.iter().filter(|answer| answer["outcome"] != "created") {
            assert_eq!(duplicate["outcome"], "duplicate");
            assert_eq!(duplicate["similar"][0]["id"], created[0]["id"], "k {k}");
            assert!(duplicate.get("id").is_none());
        }
        let stored = server.json(&format!("/similar?hash={centre:016x}&k={k}")).await;
        assert_eq!(stored["similar"].as_array().unwrap().len(), 1);
        server.delete(&format!("/documents/{}", created[0]["id"].as_str().unwrap())).await;
    }
}

#[tokio::test]
async fn a_stream_of_copies_stores_the_first_of_each() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let lines: String = (0..2_000u64)
        .map(|i| format!("{}\n", json!({"id": format!("{i}"), "hash": format!("{:016x}", (i % 100).wrapping_mul(0x0101_0101_0101_0101))})))
        .collect();
    let (results, summary) = server.stream("/documents?on_duplicate=skip&k=0", lines).await;
    assert_eq!(summary, json!({"created": 100, "updated": 0, "duplicates": 1_900, "errors": 0}));
    assert!(results[..100].iter().all(|result| result["outcome"] == "created"));
}

#[tokio::test]
async fn a_deleted_document_is_no_duplicate_any_more() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let offer = |id: &str| json!({"id": id, "hash": "00000000000000aa"});
    let route = "/documents?on_duplicate=skip&k=20";
    assert_eq!(server.post(route, offer("x")).await.1["outcome"], "created");
    assert_eq!(server.post(route, offer("y")).await.1["outcome"], "duplicate");
    server.delete("/documents/x").await;
    assert_eq!(server.post(route, offer("y")).await.1["outcome"], "created");
    // Writing a document again is no duplicate of itself, near the hash that it had or far from it.
    assert_eq!(server.post(route, offer("y")).await.1["outcome"], "updated");
    let near = json!({"id": "y", "hash": "00000000000000ab", "metadata": {"edited": true}});
    assert_eq!(server.post(route, near).await.1["outcome"], "updated");
}
