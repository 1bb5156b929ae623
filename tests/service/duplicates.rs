//! `on_duplicate`: of any number of near-duplicates sent concurrently, exactly one is stored; and which are
//! near-duplicates.

use std::sync::Arc;

use futures::future::join_all;
use lookalike_hash::Hash;
use lookalike_text::fingerprint::{Profile, Signature, Sketch};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::clusters::wait_until_decided;
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

/// Words of a text of which `changed` differ from those of others with this `topic`.
fn text(topic: u64, version: u64, changed: u64) -> String {
    let word = |seed: u64| {
        let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..3 + mixed % 5).map(|at| char::from(b'a' + (mixed >> (8 + 5 * at)) as u8 % 26)).collect::<String>()
    };
    let words = (0..40).map(|at| {
        let is_changed = (at * 7 + version) % 40 < changed;
        word(topic << 32 | at << 16 | if is_changed { version } else { 0 })
    });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn without_a_distance_texts_are_duplicates_by_their_similarity() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/c", json!({"profile": "copies-128"})).await;
    let (_, all) =
        server.put("/collections/all", json!({"profile": "copies-128", "clusters": {"keep": "first"}})).await;
    let check = json!({"keep": "first", "k": 23, "check": {"k": 31, "similarity": 0.5}});
    assert_eq!(all["clusters"], check, "{all}");
    let profile = Profile::named("copies-128").unwrap();
    let features = Profile::named("pairs-64").unwrap();
    let mut stored: Vec<(Hash, String, Option<Sketch>)> = Vec::new();
    // Near hashes that are no duplicates, far ones that are, and hashes without a text.
    let mut seen = [0; 3];
    for (at, (topic, version)) in
        (0..300).flat_map(|topic| (0..4).map(move |version| (topic, version))).enumerate()
    {
        let text = text(topic % 60, version + topic / 60 * 4 + 1, (topic + version) % 16);
        let hash = profile.fingerprint(&text).hash;
        let sketch = Signature::of(&features.feature_set(&text), 256).sketch(1);
        let id = format!("{at:04}");
        let has_text = at % 7 != 3;
        let near = |(other, id, sketched): &(Hash, String, Option<Sketch>)| {
            let distance = hash.distance(*other).unwrap();
            let similarity = sketched.as_ref().map(|other| sketch.similarity(other)).filter(|_| has_text);
            let reach = if has_text { 31 } else { 23 };
            (distance <= reach).then(|| (distance, *other, id.clone(), similarity))
        };
        let mut near: Vec<_> = stored.iter().filter_map(near).collect();
        near.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
        assert!(near.len() <= 32, "the test is of fewer than are compared");
        near.retain(|(distance, _, _, similarity)| {
            let is_near = similarity.map_or(*distance <= 23, |similarity| similarity >= 0.5);
            seen[0] += usize::from(!is_near && *distance <= 23);
            seen[1] += usize::from(is_near && *distance > 23);
            seen[2] += usize::from(is_near && similarity.is_none());
            is_near
        });
        let body = if has_text {
            json!({"id": id, "text": text})
        } else {
            json!({"id": id, "hash": hash.to_string()})
        };
        server.post("/collections/all/documents", body.clone()).await;
        let (status, answer) =
            server.post("/collections/c/documents?on_duplicate=skip&similar=10", body).await;
        if near.is_empty() {
            assert_eq!(
                (status, &answer["outcome"]),
                (StatusCode::CREATED, &json!("created")),
                "{at}: {answer}"
            );
            stored.push((hash, id, has_text.then_some(sketch)));
            continue;
        }
        near.sort_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
        near.truncate(10);
        let expected: Vec<Value> =
            near.iter().map(|(_, _, id, similarity)| json!([id, similarity])).collect();
        let named = answer["similar"].as_array().unwrap().iter();
        let named: Vec<Value> = named.map(|one| json!([one["id"], one.get("similarity")])).collect();
        assert_eq!((&answer["outcome"], named), (&json!("duplicate"), expected), "{at}: {answer}");
    }
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
    // What is kept here represents the clusters of all; and those of an explicit k are others.
    let kept: Vec<&str> = stored.iter().map(|(_, id, _)| id.as_str()).collect();
    wait_until_decided(&server, "/collections/all").await;
    assert_eq!(representatives(&server).await, kept);
    for (rule, is_checked) in [(json!({"keep": "first", "k": 23}), false), (json!({"keep": "first"}), true)] {
        let (_, begun) = server.post("/collections/all/clusters", rule).await;
        assert_eq!(begun["rule"].get("check").is_some(), is_checked, "{begun}");
        wait_until_decided(&server, "/collections/all").await;
        assert_eq!(representatives(&server).await == kept, is_checked);
    }
}

/// The documents of the collection `all` that represent clusters.
async fn representatives(server: &Server) -> Vec<String> {
    let lines = server.export("/collections/all/export?representatives=true").await;
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    lines.lines().map(id).collect()
}

#[tokio::test]
async fn of_concurrent_similar_texts_exactly_one_is_stored() {
    let data = directory();
    let server = Arc::new(Server::start(data.path()).await);
    server.put("/collections/c", json!({"profile": "copies-128"})).await;
    // So many that the search runs on the pool and not in the writer.
    let others: String =
        (0..3_000).map(|at| format!("{}\n", json!({"text": text(at + 100, 0, 0)}))).collect();
    server.stream("/collections/c/documents", others).await;
    // Topics of which any two texts are within reach, so that the order of arrival does not matter.
    let profile = Profile::named("copies-128").unwrap();
    let is_close = |topic: &u64| {
        let made = (0..CLIENTS as u64).map(|client| profile.fingerprint(&text(*topic, client + 1, 1)).hash);
        let hashes: Vec<Hash> = made.collect();
        hashes.iter().all(|one| hashes.iter().all(|other| one.distance(*other).unwrap() <= 31))
    };
    let mut rounds = 0;
    for round in (0..100).filter(is_close).take(10) {
        let start = Arc::new(Barrier::new(CLIENTS));
        let offers = (0..CLIENTS as u64).map(|client| {
            let (server, start) = (Arc::clone(&server), Arc::clone(&start));
            let body = json!({"id": format!("{round}-{client}"), "text": text(round, client + 1, 1)});
            tokio::spawn(async move {
                start.wait().await;
                server.post("/collections/c/documents?on_duplicate=skip", body).await.1
            })
        });
        let answers: Vec<Value> = join_all(offers).await.into_iter().map(Result::unwrap).collect();
        let created = answers.iter().filter(|answer| answer["outcome"] == "created").count();
        assert_eq!(created, 1, "{round}: {answers:#?}");
        rounds += 1;
    }
    assert_eq!(rounds, 10);
}

#[tokio::test]
async fn a_text_replaces_only_those_that_are_similar() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let rule = json!({"profile": "copies-128", "clusters": {"keep": "max:n", "k": 23}});
    server.put("/collections/c", rule).await;
    for (id, version, changed) in [("near", 1, 0), ("edited", 2, 2), ("form", 3, 9)] {
        let body = json!({"id": id, "text": text(1, version, changed), "metadata": {"n": 1}});
        server.post("/collections/c/documents", body).await;
    }
    let best = json!({"id": "best", "text": text(1, 4, 0), "metadata": {"n": 2}});
    let (_, answer) = server.post("/collections/c/documents?on_duplicate=replace", best).await;
    assert_eq!(answer["outcome"], "replaced", "{answer}");
    let found = server.json("/collections/c/similar?id=best&k=40").await;
    assert_eq!(ids(&found), ["form"], "{found}");
}
