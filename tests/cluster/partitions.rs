//! Partitions: every answer is that of one server with all documents, or an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::etcd;
use super::server::{Server, directory};
use super::servers::{Cluster, documents, position};

/// Four partitions. Answers that wait for the processors are answers too: other tests run at the same time.
const FOUR: [(&str, &str); 3] = [
    ("LOOKALIKE_CLUSTER__PARTITIONS", "4"),
    ("LOOKALIKE_POOL__WAIT_MS", "10000"),
    ("LOOKALIKE_LIMITS__QUERY_MS", "20000"),
];
/// Four servers, each partition on two of them, and no two servers with the same.
const RING: [&str; 4] = ["0,1", "1,2", "2,3", "3,0"];

/// The documents that are stored, by id: the twin of a cluster.
type Model = BTreeMap<String, u64>;

/// The ids within k, by distance, then id: by a comparison with every document.
fn scan(model: &Model, hash: u64, k: u32) -> Vec<String> {
    let near = model.iter().map(|(id, other)| ((hash ^ other).count_ones(), id.clone()));
    let near: BTreeSet<(u32, String)> = near.filter(|(distance, _)| *distance <= k).collect();
    near.into_iter().map(|(_, id)| id).collect()
}

/// The ids of an answer without those of documents that come and go.
fn stable(answer: &Value) -> Vec<String> {
    let matches = answer["similar"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let ids = matches.iter().map(|found| found["id"].as_str().unwrap());
    ids.filter(|id| !id.starts_with("passing")).map(str::to_owned).collect()
}

/// Asks a server for every k around a hash, and compares each answer with a scan.
async fn compare(server: &Server, model: &Model, hash: u64, at_least: u64) {
    let digits = format!("{hash:016x}");
    for part in [0..=31, 32..=64] {
        let queries: Vec<Value> =
            part.clone().map(|k| json!({"hash": digits, "k": k, "limit": 600})).collect();
        let route = format!("/batch/similar?at_least={at_least}");
        let (status, answer) = server.post(&route, json!({"queries": queries})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        for (k, answer) in part.zip(answer["results"].as_array().unwrap()) {
            assert_eq!(stable(answer), scan(model, hash, k), "k {k} around {digits}");
        }
    }
}

/// Reads an answer in small pages, and compares the whole with a scan.
async fn compare_pages(server: &Server, model: &Model, hash: u64, k: u32, at_least: u64) {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let route = format!("/similar?hash={hash:016x}&k={k}&limit=7&at_least={at_least}{cursor}");
        let page = server.json(&route).await;
        let matches = page["similar"].as_array().unwrap();
        assert!(matches.len() <= 7);
        found.extend(stable(&page));
        let Some(next) = page["next"].as_str() else { break };
        assert!(!matches.is_empty());
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, scan(model, hash, k));
}

/// A hash near one of a few centres, so that there are documents at every distance.
fn hash(random: &mut fastrand::Rng) -> u64 {
    let centre = [0, u64::MAX, 0x0f0f_0f0f_0f0f_0f0f, 0x1234_5678_9abc_def0][random.usize(0..4)];
    (0..random.u32(0..20)).fold(centre, |hash, _| hash ^ (1 << random.u32(0..64)))
}

/// Stores, replaces and deletes documents through all servers in all ways. Returns the position after that.
async fn change(cluster: &Cluster, model: &mut Model, random: &mut fastrand::Rng) -> u64 {
    let mut last = 0;
    for server in cluster.running() {
        let mut document = |n: u32| {
            let (id, hash) = (format!("d{n}"), hash(random));
            model.insert(id.clone(), hash);
            json!({"id": id, "hash": format!("{hash:016x}"), "metadata": {"n": n}})
        };
        let numbers: Vec<u32> = (0..30).map(|_| fastrand::u32(0..300)).collect();
        let array: Vec<Value> = numbers.iter().map(|n| document(*n)).collect();
        let (status, answer) = server.post("/batch/documents", json!(array)).await;
        assert_eq!((status, &answer["summary"]["errors"]), (StatusCode::OK, &json!(0)), "{answer}");
        let indexes = answer["results"].as_array().unwrap().iter().map(|one| one["index"].as_u64().unwrap());
        assert!(indexes.eq(0..30), "{answer}");
        let lines: String = (0..40).map(|_| format!("{}\n", document(fastrand::u32(0..300)))).collect();
        let (_, summary) = server.stream("/documents", lines).await;
        assert_eq!((&summary["errors"], &summary["duplicates"]), (&json!(0), &json!(0)), "{summary}");
        let one = document(fastrand::u32(0..300));
        let id = one["id"].as_str().unwrap().to_owned();
        assert!(server.put(&format!("/documents/{id}"), json!({"hash": one["hash"]})).await.0.is_success());
        let gone: Vec<String> = model.keys().filter(|_| fastrand::u8(0..40) == 0).cloned().collect();
        for id in &gone {
            model.remove(id);
            assert_eq!(server.delete(&format!("/documents/{id}")).await, StatusCode::NO_CONTENT);
            assert_eq!(server.delete(&format!("/documents/{id}")).await, StatusCode::NOT_FOUND);
        }
        last = last.max(position(&server.get("/documents?limit=1").await));
    }
    last
}

/// Stores and deletes further documents until it is stopped.
async fn pass(server: &Server, number: usize, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let id = format!("passing{number}-{}", fastrand::u8(0..20));
        let document = json!({"id": id, "hash": format!("{:016x}", fastrand::u64(..))});
        let _ = server.client.post(format!("{}/documents", server.url)).json(&document).send().await;
        if fastrand::bool() {
            let _ = server.client.delete(format!("{}/documents/{id}", server.url)).send().await;
        }
    }
}

/// Compares all servers with the twin, while documents come and go.
async fn all_agree(cluster: &Cluster, model: &Model, position: u64, random: &mut fastrand::Rng) {
    let hashes = [hash(random), hash(random), random.u64(..)];
    let stop = AtomicBool::new(false);
    let lookups = join_all(cluster.running().map(|server| async {
        for hash in hashes {
            compare(server, model, hash, position).await;
        }
        compare_pages(server, model, hashes[0], 30, position).await;
    }));
    let lookups = lookups.map(|_| stop.store(true, Ordering::Relaxed));
    // Every write has its answer before the test goes on.
    let passing = cluster.running().enumerate().map(|(at, server)| pass(server, at, &stop));
    tokio::join!(lookups, join_all(passing));
}

/// Removes the documents that came and went, and compares lists, counts and single documents.
async fn same_documents(cluster: &Cluster, model: &Model) {
    let first = cluster.running().next().unwrap();
    let (mut passing, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = first.json(&format!("/documents?limit=100&linearizable=true{cursor}")).await;
        let ids = page["documents"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap());
        passing.extend(ids.filter(|id| id.starts_with("passing")).map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    for id in passing {
        first.delete(&format!("/documents/{id}")).await;
    }
    let at = position(&first.get("/documents?limit=1&linearizable=true").await);
    for server in cluster.running() {
        let info = server.json(&format!("/collections/default?at_least={at}")).await;
        assert_eq!(info["documents"], model.len(), "{info}");
        let export = server.get(&format!("/export?at_least={at}")).await.text().await.unwrap();
        let listed: Model = documents(&export)
            .iter()
            .map(|one| {
                let hash = one["hash"].as_str().unwrap();
                (one["id"].as_str().unwrap().to_owned(), u64::from_str_radix(hash, 16).unwrap())
            })
            .collect();
        assert_eq!(listed, *model);
        let (id, hash) = model.iter().nth(fastrand::usize(0..model.len())).unwrap();
        let found = server.json(&format!("/documents/{id}?at_least={at}")).await;
        assert_eq!(found["hash"], format!("{hash:016x}"));
        let near = server.json(&format!("/documents/{id}/similar?k=20&limit=600&at_least={at}")).await;
        let expected: Vec<String> = scan(model, *hash, 20).into_iter().filter(|other| other != id).collect();
        assert_eq!(stable(&near), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_over_two_and_over_four_servers_are_those_of_a_scan() {
    if !etcd::is_installed() {
        return;
    }
    for holds in [&["", ""][..], &RING[..]] {
        let mut cluster = Cluster::start_on(1, holds, &FOUR).await;
        let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(7));
        for _ in 0..2 {
            let position = change(&cluster, &mut model, &mut random).await;
            all_agree(&cluster, &model, position, &mut random).await;
        }
        same_documents(&cluster, &model).await;
        // A holder is lost. The others answer as before, and store what it would hold.
        cluster.kill(1);
        let position = change(&cluster, &mut model, &mut random).await;
        all_agree(&cluster, &model, position, &mut random).await;
        cluster.restart(1).await;
        same_documents(&cluster, &model).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_without_a_holder_is_an_error() {
    if !etcd::is_installed() {
        return;
    }
    let mut cluster = Cluster::start_on(1, &["0,1", "0,1", "2,3", "2,3"], &FOUR).await;
    let lines: String = (0..200).map(|n| format!("{{\"id\":\"d{n}\",\"hash\":\"{n:016x}\"}}\n")).collect();
    let (_, summary) = cluster.server(0).stream("/documents", lines).await;
    assert_eq!(summary["created"], 200);
    let state = cluster.server(2).json("/cluster").await;
    assert_eq!(state["partitions"], json!([["s0", "s1"], ["s0", "s1"], ["s2", "s3"], ["s2", "s3"]]));
    assert_eq!(state["servers"][3]["holds"], json!([2, 3]));
    cluster.kill(0);
    let near = cluster.server(2).json("/similar?hash=0000000000000000&k=64&limit=500").await;
    assert_eq!(stable(&near).len(), 200);
    cluster.kill(1);
    let routes = ["/similar?hash=0000000000000000&k=64&limit=500", "/documents", "/collections/default"];
    for route in routes {
        let refused = cluster.server(2).get(route).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{route}");
        assert!(refused.headers().contains_key("retry-after"));
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["code"], "partition_unavailable", "{route}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains("partition 0, 1"), "{problem}");
    }
    // Until the leases end, the servers do not know that they are lost, and the outcome may be unknown.
    while cluster.server(2).json("/cluster").await["servers"].as_array().unwrap().len() > 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (mut stored, mut refused) = (0, 0);
    for n in 0..20 {
        let document = json!({"id": format!("z{n}"), "hash": format!("{n:016x}")});
        let (status, answer) = cluster.server(2 + n % 2).post("/documents", document).await;
        if status == StatusCode::CREATED {
            stored += 1;
            continue;
        }
        assert_eq!(answer["code"], "partition_unavailable", "{answer}");
        assert_eq!(answer["outcome"], "not_applied", "{answer}");
        refused += 1;
    }
    assert!(stored > 0 && refused > 0, "{stored} stored, {refused} refused");
    // A duplicate rule needs all partitions.
    let document = json!({"hash": "f".repeat(16)});
    let (_, answer) = cluster.server(2).post("/documents?on_duplicate=skip", document).await;
    assert_eq!(answer["code"], "partition_unavailable", "{answer}");
    cluster.restart(1).await;
    let since = Instant::now();
    loop {
        let near = cluster.server(2).get("/similar?hash=0000000000000000&k=64&limit=500").await;
        if near.status() == StatusCode::OK {
            assert_eq!(stable(&near.json().await.unwrap()).len(), 200 + stored);
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{}", cluster.server(2).log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lookup_is_busy_and_a_stream_waits_while_the_only_holder_has_too_much_to_do() {
    if !etcd::is_installed() {
        return;
    }
    let variables = [
        ("LOOKALIKE_CLUSTER__PARTITIONS", "4"),
        ("LOOKALIKE_POOL__PERMITS", "1"),
        ("LOOKALIKE_POOL__QUEUE", "1"),
        ("LOOKALIKE_LIMITS__QUERY_MS", "20000"),
    ];
    let cluster = Cluster::start_on(1, &["0,1", "2,3"], &variables).await;
    let (asked, holder) = (cluster.server(0), cluster.server(1));
    let long: String = (0..60_000).map(|n| format!("word{n} ")).collect();
    let fingerprint = json!({"text": long});
    let load = async {
        let one = || async {
            loop {
                holder.post("/fingerprint", fingerprint.clone()).await;
            }
        };
        join_all((0..8).map(|_| one())).await
    };
    let work = async {
        let mut busy = 0;
        for _ in 0..50 {
            let answer = asked.get("/similar?hash=0000000000000000&k=3").await;
            if answer.status() != StatusCode::OK {
                let problem: Value = answer.json().await.unwrap();
                assert_eq!(problem["code"], "busy", "{problem}");
                let detail = problem["detail"].as_str().unwrap();
                assert!(detail.starts_with("the servers that hold partition 2, 3 have"), "{detail}");
                busy += 1;
            }
        }
        assert!(busy > 0, "no lookup met a busy server");
        let lines: String = (0..100_u64).map(|n| format!("{{\"hash\":\"{:016x}\"}}\n", n << 32)).collect();
        let (_, summary) = asked.stream("/documents?on_duplicate=skip&k=0", lines).await;
        assert_eq!(summary, json!({"created": 100, "updated": 0, "duplicates": 0, "errors": 0}));
    };
    tokio::select! {
        _ = load => {}
        () = work => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_duplicates_offered_to_several_servers_are_stored_once() {
    if !etcd::is_installed() {
        return;
    }
    let mut cluster = Cluster::start_on(1, &RING, &FOUR).await;
    let route = "/batch/documents?on_duplicate=skip&k=3";
    let mut random = fastrand::Rng::with_seed(11);
    let mut groups = 0;
    for round in 0..12_u64 {
        // A restarted server has the window that the others have.
        if round == 6 {
            cluster.kill(3);
            cluster.restart(3).await;
        }
        // Ten groups: the hashes of a group are one or two bits apart, those of others many.
        let centres: Vec<u64> = (0..10).map(|_| random.u64(..)).collect();
        groups += centres.len();
        let offers = cluster.running().enumerate().map(|(at, server)| {
            let document = |(n, centre): (usize, &u64)| {
                let hash = centre ^ (1 << ((at + n) % 64));
                json!({"id": format!("r{round}-{n}-{at}"), "hash": format!("{hash:016x}")})
            };
            let documents: Vec<Value> = centres.iter().enumerate().map(document).collect();
            server.post(route, json!(documents))
        });
        let answers = join_all(offers).await;
        let all = |outcome: &str| answers.iter().map(|one| one.1["summary"][outcome].as_u64().unwrap()).sum();
        let (created, duplicates): (u64, u64) = (all("created"), all("duplicates"));
        assert_eq!((created, duplicates), (10, 30), "{answers:?}");
        // A duplicate names what is stored.
        for line in answers.iter().flat_map(|one| one.1["results"].as_array().unwrap()) {
            let group = &centres[line["index"].as_u64().unwrap() as usize];
            assert!(line["outcome"] == "created" || !line["similar"][0]["id"].is_null(), "{group:x}: {line}");
        }
    }
    // Within one request, the first is stored, whatever the partitions.
    let documents: Vec<Value> = (0..32)
        .map(|n| json!({"id": format!("one{n}"), "hash": format!("{:016x}", 1_u64 << (n % 2))}))
        .collect();
    let (_, answer) = cluster.server(2).post(route, json!(documents)).await;
    assert_eq!(answer["results"][0]["outcome"], "created", "{answer}");
    assert_eq!((&answer["summary"]["created"], &answer["summary"]["duplicates"]), (&json!(1), &json!(31)));
    let end = position(&cluster.server(2).get("/documents?limit=1&linearizable=true").await);
    for server in cluster.running() {
        let info = server.json(&format!("/collections/default?at_least={end}")).await;
        assert_eq!(info["documents"], groups + 1, "{info}");
    }
    // A near-duplicate that is deleted prevents nothing.
    assert_eq!(cluster.server(0).delete("/documents/one0").await, StatusCode::NO_CONTENT);
    let (status, answer) =
        cluster.server(3).post("/documents?on_duplicate=skip", json!({"hash": format!("{:016x}", 1)})).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
}

/// The documents of an array that a single server stores with `on_duplicate=skip`.
fn kept(hashes: &[u64], k: u32) -> Vec<bool> {
    let mut stored: Vec<u64> = Vec::new();
    let keep = |hash: &u64| {
        let is_kept = stored.iter().all(|other| (other ^ hash).count_ones() > k);
        stored.extend(is_kept.then_some(*hash));
        is_kept
    };
    hashes.iter().map(keep).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_over_three_servers_have_the_outcomes_of_one_server() {
    if !etcd::is_installed() {
        return;
    }
    let mut three = FOUR;
    three[0].1 = "3";
    let cluster = Cluster::start_on(1, &["0", "1", "2"], &three).await;
    let mut random = fastrand::Rng::with_seed(3);
    // A chain: each hash is within k of the one before, and of few others.
    let mut hash = random.u64(..);
    let chain = (0..400).map(|_| {
        hash = (0..3).fold(hash, |hash, _| hash ^ 1 << random.u32(0..64));
        hash
    });
    let hashes: Vec<u64> = chain.collect();
    let documents = |part: &[u64], name: &str| {
        let all = part.iter().enumerate();
        let all = all.map(|(n, hash)| json!({"id": format!("{name}{n}"), "hash": format!("{hash:016x}")}));
        json!(all.collect::<Vec<_>>())
    };
    let route = "/batch/documents?on_duplicate=skip&k=3";
    let (_, answer) = cluster.server(0).post(route, documents(&hashes, "chain")).await;
    let created: Vec<bool> =
        answer["results"].as_array().unwrap().iter().map(|one| one["outcome"] == "created").collect();
    assert_eq!(created, kept(&hashes, 3), "{answer}");
    // Without a duplicate rule, every outcome comes from the server that holds the document.
    let others: Vec<u64> = (0..300).map(|_| random.u64(..)).collect();
    for outcome in ["created", "updated"] {
        let (status, answer) = cluster.server(1).post("/batch/documents", documents(&others, "own")).await;
        assert_eq!((status, &answer["summary"][outcome]), (StatusCode::OK, &json!(300)), "{answer}");
    }
    // Of two documents of one id the later one stays, also if the earlier one is offered twice: it is near
    // to one that is near to the first.
    for round in 0..8_u64 {
        let base = random.u64(..);
        let sent = [(0, base), (1, base ^ 0b11), (2, base ^ 0b1_1111), (2, !base)];
        let sent =
            sent.map(|(n, hash)| json!({"id": format!("r{round}-{n}"), "hash": format!("{hash:016x}")}));
        let (_, answer) = cluster.server(2).post(route, json!(sent)).await;
        assert_eq!(answer["summary"]["errors"], 0, "{answer}");
        let last = cluster.server(0).json(&format!("/documents/r{round}-2?linearizable=true")).await;
        assert_eq!(last["hash"], format!("{:016x}", !base), "{answer}");
    }
    // A condition is checked before duplicates are, wherever the document is.
    let (status, _) = cluster.server(0).put("/documents/twin", json!({"hash": "00000000ffffffff"})).await;
    assert_eq!(status, StatusCode::CREATED);
    for n in 0..6 {
        let (status, _) =
            cluster.server(0).put(&format!("/documents/c{n}"), json!({"hash": hash_of(n)})).await;
        assert_eq!(status, StatusCode::CREATED);
        for (header, expected) in
            [("if-none-match", StatusCode::PRECONDITION_FAILED), ("if-match", StatusCode::OK)]
        {
            let server = cluster.server(n % 3);
            let url = format!("{}/documents/c{n}?on_duplicate=skip&k=3", server.url);
            let request =
                server.client.put(url).header(header, "*").json(&json!({"hash": "00000000fffffffe"}));
            assert_eq!(request.send().await.unwrap().status(), expected, "c{n}, {header}");
        }
    }
}

/// Hashes far from each other and from others of the test.
fn hash_of(n: usize) -> String {
    let far = 0xff_u64 << (8 * n);
    format!("{:016x}", 0x5555_5555_5555_5555_u64.rotate_left(n as u32) ^ far)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_all_documents_on_one_server_is_refused() {
    if !etcd::is_installed() {
        return;
    }
    let mut cluster = Cluster::start_on(1, &["0,1", "2,3"], &FOUR).await;
    let server = cluster.server(0);
    let refused = |status: StatusCode, answer: Value| {
        assert_eq!((status, &answer["code"]), (StatusCode::CONFLICT, &json!("not_in_cluster")), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains("partitions"), "{answer}");
    };
    for route in ["/clusters", "/marks", "/pairs?k=3", "/collections/default/backup"] {
        let answer = server.get(route).await;
        refused(answer.status(), answer.json().await.unwrap());
    }
    for route in ["/collections/default/calibrate", "/collections/default/reindex", "/marks", "/clusters"] {
        let (status, answer) = server.post(route, json!({})).await;
        refused(status, answer);
    }
    for settings in [json!({"passages": true}), json!({"clusters": {"keep": "first"}})] {
        let (status, answer) = server.put("/collections/other", settings).await;
        refused(status, answer);
    }
    // Metadata and expiry are changed, whichever server has the document.
    for n in 0..8 {
        let document =
            json!({"id": format!("d{n}"), "text": format!("the text of document {n}"), "metadata": {"n": n}});
        let (status, answer) = server.post("/documents", document).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        let change = server.client.patch(format!("{}/documents/d{n}", server.url));
        let changed = change.json(&json!({"metadata": {"m": n}})).send().await.unwrap();
        assert_eq!(changed.status(), StatusCode::OK);
        let changed: Value = changed.json().await.unwrap();
        assert_eq!(changed["metadata"], json!({"n": n, "m": n}));
    }
    let ask = json!({"text": "the text of document 3", "filter": {"metadata": {"m": 3}}, "k": 64});
    let (_, found) = server.post("/similar", ask).await;
    assert_eq!(stable(&found), ["d3"], "{found}");
    // Other partitions than those of the cluster, and of the data.
    let fresh = directory();
    let ended = cluster.try_start(5, fresh.path(), &[("LOOKALIKE_CLUSTER__PARTITIONS", "8")]).await;
    let log = ended.err().unwrap().log;
    assert!(log.contains("4 partitions") && log.contains("8 partitions"), "{log}");
    let ended = cluster.try_start(5, fresh.path(), &[("LOOKALIKE_CLUSTER__HOLDS", "4")]).await;
    let log = ended.err().unwrap().log;
    assert!(log.contains("the partitions are 0 to 3"), "{log}");
    cluster.kill(1);
    let ended = cluster.try_start(1, cluster.dir(1), &[("LOOKALIKE_CLUSTER__HOLDS", "1,2")]).await;
    let log = ended.err().unwrap().log;
    assert!(log.contains("has the documents of the partitions 2, 3"), "{log}");
}
