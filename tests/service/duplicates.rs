//! `on_duplicate=skip`: of any number of near-duplicates sent concurrently, exactly one is stored.

use std::sync::Arc;

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::server::{Server, directory, ids};

const CLIENTS: usize = 24;

/// The hash of a client: the centre with up to `k / 2` bits flipped, so that any two clients' hashes differ
/// in at most `k` bits.
fn near(centre: u64, k: u32, client: usize) -> String {
    let flips = (client as u32) % (k / 2 + 1);
    let hash = (0..flips).fold(centre, |hash, bit| hash ^ (1 << ((bit * 3 + client as u32) % 32)));
    format!("{hash:016x}")
}

#[tokio::test]
async fn of_concurrent_near_duplicates_exactly_one_is_stored_at_every_k() {
    let data = directory();
    let server = Arc::new(Server::start(data.path()).await);
    // At large k, this many documents make the check run on the pool and not in the writer. They are far
    // from the offered hashes: their upper 32 bits are ones, those of the offers zeros.
    let others: String = (0..60_000u64)
        .map(|i| 0xffff_ffff_0000_0000 | i.wrapping_mul(0x9e37_79b9) % (1 << 32))
        .map(|hash| format!("{}\n", json!({"hash": format!("{hash:016x}")})))
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
async fn a_stream_of_copies_stores_the_first_copy_of_each() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let lines: String = (0..2_000u64)
        .map(|i| (i, (i % 100).wrapping_mul(0x0101_0101_0101_0101)))
        .map(|(i, hash)| format!("{}\n", json!({"id": format!("{i}"), "hash": format!("{hash:016x}")})))
        .collect();
    let (results, summary) = server.stream("/documents?on_duplicate=skip&k=0", lines).await;
    assert_eq!(summary, json!({"created": 100, "updated": 0, "duplicates": 1_900, "errors": 0}));
    assert!(results[..100].iter().all(|result| result["outcome"] == "created"));
}

#[tokio::test]
async fn a_deleted_document_is_no_longer_a_duplicate() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let offer = |id: &str| json!({"id": id, "hash": "00000000000000aa"});
    let route = "/documents?on_duplicate=skip&k=20";
    assert_eq!(server.post(route, offer("x")).await.1["outcome"], "created");
    assert_eq!(server.post(route, offer("y")).await.1["outcome"], "duplicate");
    server.delete("/documents/x").await;
    assert_eq!(server.post(route, offer("y")).await.1["outcome"], "created");
    // A document is not a duplicate of itself, whether its new hash is near the old one or not.
    assert_eq!(server.post(route, offer("y")).await.1["outcome"], "updated");
    let near = json!({"id": "y", "hash": "00000000000000ab", "metadata": {"edited": true}});
    assert_eq!(server.post(route, near).await.1["outcome"], "updated");
}

/// The server caches the rows of recent matches. A changed row must not be served from the cache.
#[tokio::test]
async fn a_changed_match_is_not_served_from_the_cache() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let around = "/similar?hash=00000000000000f0&k=3";
    let metadata = async |server: &Server| server.json(around).await["similar"][0]["metadata"]["v"].clone();
    for version in 0..3 {
        let document = json!({"hash": "00000000000000f0", "metadata": {"v": version}});
        server.put("/documents/a", document).await;
        for _ in 0..3 {
            assert_eq!(metadata(&server).await, version);
        }
    }
    server.put("/documents/b", json!({"hash": "00000000000000f0"})).await;
    assert_eq!(ids(&server.json(around).await), ["a", "b"]);
    server.delete("/documents/a").await;
    for _ in 0..3 {
        assert_eq!(ids(&server.json(around).await), ["b"]);
    }
    server.put("/documents/b", json!({"hash": "ff000000000000f0"})).await;
    assert_eq!(ids(&server.json(around).await), [""; 0]);
    assert_eq!(ids(&server.json("/similar?hash=ff000000000000f0&k=3").await), ["b"]);
}

/// Many documents share one hash and get another one after the other. Each change must cost the same.
#[tokio::test]
async fn a_shared_hash_is_found_until_its_last_document_changes() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let lines = |hash: &dyn Fn(u64) -> u64| -> String {
        (0..3_000u64)
            .map(|i| format!("{}\n", json!({"id": format!("{i:05}"), "hash": format!("{:016x}", hash(i))})))
            .collect()
    };
    server.stream("/documents", lines(&|_| 7)).await;
    server.stream("/documents", lines(&|_| 7)).await;
    assert_eq!(server.json("/collections/default").await["distinct_hashes"], 1);
    server.stream("/documents", lines(&|i| if i == 2_999 { 7 } else { (i + 1) << 20 })).await;
    assert_eq!(ids(&server.json("/similar?hash=0000000000000007&k=0").await), ["02999"]);
    server.delete("/documents/02999").await;
    assert_eq!(ids(&server.json("/similar?hash=0000000000000007&k=0").await), [""; 0]);
    let info = server.json("/collections/default").await;
    assert_eq!((&info["documents"], &info["distinct_hashes"]), (&json!(2_999), &json!(2_999)));
}

/// A better document is never dropped without a word, however many it would replace.
#[tokio::test]
async fn more_near_documents_than_one_may_replace_are_refused_with_a_way_out() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/best", json!({"k": 3, "clusters": {"keep": "max:n", "k": 3}})).await;
    let route = "/collections/best/documents?on_duplicate=replace";
    let copies = |count: u64| -> String {
        let line = |at| json!({"id": format!("c{at}"), "hash": "00000000000000ff", "metadata": {"n": at}});
        (0..count).map(|at| format!("{}\n", line(at))).collect()
    };
    server.stream("/collections/best/documents", copies(1_001)).await;
    let offered = |n: u64| json!({"id": "new", "hash": "00000000000000fe", "metadata": {"n": n}});
    let (status, worse) = server.post(route, offered(500)).await;
    assert_eq!((status, &worse["outcome"]), (StatusCode::OK, &json!("duplicate")), "{worse}");
    let (status, better) = server.post(route, offered(5_000)).await;
    assert_eq!((status, &better["code"]), (StatusCode::CONFLICT, &json!("too_many_near")), "{better}");
    let detail = better["detail"].as_str().unwrap();
    assert!(detail.contains("1000 stored documents") && detail.contains("on_duplicate=link"), "{detail}");
    // In a stream it fails alone.
    let lines = format!("{}\n{}\n", offered(5_000), json!({"id": "far", "hash": "ff000000000000ff"}));
    let (results, summary) = server.stream(route, lines).await;
    assert_eq!((&summary["errors"], &summary["created"]), (&json!(1), &json!(1)), "{summary}");
    assert_eq!(results[0]["error"]["code"], "too_many_near", "{results:?}");
    assert_eq!(server.json("/collections/best").await["documents"], 1_002);
    // One fewer, and it is stored in place of all of them.
    server.delete("/collections/best/documents/c7").await;
    let (status, replaced) = server.post(route, offered(5_000)).await;
    assert_eq!((status, &replaced["outcome"]), (StatusCode::OK, &json!("replaced")), "{replaced}");
    assert_eq!(server.json("/collections/best").await["documents"], 2);
}
