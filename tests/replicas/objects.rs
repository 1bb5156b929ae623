//! Replicas whose log is in a folder or in S3: what one stores, all find; and a store that is not theirs.

use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use reqwest::StatusCode;
use serde_json::json;

use super::azurite::Azurite;
use super::divergence::expect_agreement;
use super::moto::Moto;
use super::server::{command, lines};
use super::servers::{Replicas, documents, eventually, position};

/// Writes through all servers at once, loses them all, and expects the same from each.
async fn expect_one_set_of_data(mut replicas: Replicas) {
    for round in 0..3 {
        let writes = replicas.running().enumerate().flat_map(|(at, server)| {
            (0..8).map(move |n| {
                let document = json!({"id": format!("{round}-{at}-{n}"), "hash": format!("{n:016x}")});
                async move { server.post("/documents", document).await }
            })
        });
        for (status, answer) in futures::future::join_all(writes).await {
            assert_eq!(status, StatusCode::CREATED, "{answer}");
        }
        let written = replicas.server(0).try_get("/documents/0-0-0?linearizable=true").await.unwrap();
        let route = format!("/similar?hash=0000000000000000&k=0&at_least={}", position(&written));
        for server in replicas.running() {
            assert_eq!(server.json(&route).await["similar"].as_array().unwrap().len(), 3 * (round + 1));
        }
        (0..3).for_each(|at| replicas.kill(at));
        if round == 1 {
            replicas.wipe(1);
        }
        for at in 0..3 {
            replicas.restart(at).await;
        }
    }
    let (_, summary) = replicas.server(2).stream("/documents", lines(0..2_000)).await;
    assert_eq!(summary["created"], 2_000);
    let exports = replicas.exports("default").await;
    assert!(exports.iter().all(|export| documents(export) == documents(&exports[0])));
    assert_eq!(documents(&exports[0]).len(), 3 * 3 * 8 + 2_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_share_a_folder() {
    expect_one_set_of_data(Replicas::start(3).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_share_a_bucket() {
    let Some(moto) = Moto::start_in_order() else { return };
    expect_one_set_of_data(Replicas::on_bucket(3, &moto).await).await;
    assert!(moto.get("news/log/0000000000000000/0001").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_share_a_container_of_azure() {
    let Some(azurite) = Azurite::start() else { return };
    expect_one_set_of_data(Replicas::in_cloud(3, &azurite.variables()).await).await;
}

/// The server of the tests enforces the condition on which all depends.
#[test]
fn of_eight_who_create_an_object_in_a_bucket_one_does() {
    let Some(moto) = Moto::start_in_order() else { return };
    for round in 0..50 {
        let key = format!("k{round}");
        let made = thread::scope(|scope| {
            let client = |n: u8| {
                scope.spawn({
                    let (moto, key) = (&moto, &key);
                    move || moto.create(key, &[n])
                })
            };
            let clients: Vec<_> = (0..8).map(client).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        let winner = made.iter().position(|made| *made).unwrap();
        assert_eq!(made.iter().filter(|made| **made).count(), 1);
        assert_eq!(moto.get(&key).unwrap(), [winner as u8]);
    }
}

async fn until_a_snapshot_is_written(replicas: &Replicas) {
    let since = Instant::now();
    while !replicas.running().any(|server| server.log().contains("wrote a snapshot")) {
        assert!(since.elapsed() < Duration::from_mins(1), "{}", replicas.server(0).log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A server that has lost its disk begins with a snapshot, and goes on with the entries after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_joins_by_a_snapshot() {
    let variables = [("LOOKALIKE_SHARED_LOG__SNAPSHOT_BYTES", "1 MiB")];
    let mut replicas = Replicas::start_with(3, &variables).await;
    let mut random = fastrand::Rng::with_seed(5);
    let mut word = || (0..40).map(|_| random.alphanumeric()).collect::<String>();
    let line =
        |n| format!("{{\"id\":\"d{n}\",\"hash\":\"{n:016x}\",\"metadata\":{{\"w\":\"{}\"}}}}\n", word());
    let lines: String = (0..30_000_u64).map(line).collect();
    let (_, summary) = replicas.server(1).stream("/documents", lines).await;
    assert_eq!(summary["created"], 30_000);
    until_a_snapshot_is_written(&replicas).await;
    let document = json!({"id": "after", "hash": "00000000000000ff"});
    assert_eq!(replicas.server(0).post("/documents", document).await.0, StatusCode::CREATED);
    replicas.kill(2);
    replicas.wipe(2);
    replicas.restart(2).await;
    let log = replicas.server(2).log();
    assert!(log.contains("reading a snapshot of the shared log"), "{log}");
    let exports = replicas.exports("default").await;
    assert!(exports.iter().all(|export| documents(export) == documents(&exports[0])));
    assert_eq!(documents(&exports[0]).len(), 30_001);
    expect_agreement(&replicas).await;
}

/// What was there at a moment is restored beside what is there now, from the first entry or a snapshot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collections_of_a_moment_are_restored_from_the_log() {
    let replicas = Replicas::start_with(1, &[("LOOKALIKE_SHARED_LOG__SNAPSHOT_BYTES", "1 MiB")]).await;
    let server = replicas.server(0);
    let add = |id: &str| json!({"id": id, "hash": "00000000000000ff"});
    let mut moments = Vec::new();
    for id in ["a", "b", "c"] {
        assert_eq!(server.post("/documents", add(id)).await.0, StatusCode::CREATED);
        tokio::time::sleep(Duration::from_millis(20)).await;
        moments.push(humantime::format_rfc3339_millis(SystemTime::now()).to_string());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut random = fastrand::Rng::with_seed(6);
    let mut word = || (0..100).map(|_| random.alphanumeric()).collect::<String>();
    let hash = "1".repeat(16);
    let line = |n| format!("{}\n", json!({"id": format!("n{n}"), "hash": hash, "metadata": {"w": word()}}));
    let lines: String = (0..20_000).map(line).collect();
    assert_eq!(server.stream("/documents", lines).await.1["created"], 20_000);
    until_a_snapshot_is_written(&replicas).await;
    // The store notes the time of a folder's file.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.delete("/documents/a").await, StatusCode::NO_CONTENT);
    moments.push(humantime::format_rfc3339_millis(SystemTime::now() + Duration::from_millis(20)).to_string());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.delete("/documents/b").await, StatusCode::NO_CONTENT);
    let to = tempfile::tempdir().unwrap();
    for (number, (moment, count)) in moments.iter().zip([1, 2, 3, 20_002]).enumerate() {
        let folder = to.path().join(number.to_string());
        let run = |arguments: &[&str]| {
            let done = command(arguments).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        let url = replicas.log_url("lookalike");
        run(&["restore", "--shared-log", &url, "--at", moment, "--to", folder.to_str().unwrap()]);
        let tar = folder.join("default.tar");
        let name = format!("then-{number}");
        run(&["restore", tar.to_str().unwrap(), "--url", &server.url, "--collection", &name]);
        let export = eventually(server, &format!("/collections/{name}/export")).await;
        assert_eq!(documents(&export).len(), count, "{moment}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
    let early =
        command(&["restore", "--shared-log", "ftp://x", "--at", "2026-11-20T12:00Z", "--to", "x"]).output();
    assert_eq!(early.unwrap().status.code(), Some(2));
}

/// A change that depends on a document is decided by all writes that were acknowledged before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_through_the_next_server_is_decided_by_the_log() {
    let replicas = Replicas::start(3).await;
    for n in 0..100 {
        let (first, next) = (replicas.server(n % 3), replicas.server((n + 1) % 3));
        let client = &first.client;
        let at = |base: &str| format!("{base}/documents/p{n}");
        let put = client.put(at(&first.url)).json(&json!({"hash": format!("{n:016x}")}));
        let put = put.send().await.unwrap();
        assert_eq!(put.status(), StatusCode::CREATED);
        let tag = put.headers()["etag"].clone();
        let patch = client.patch(at(&next.url)).header("if-match", tag).json(&json!({"metadata": {"a": n}}));
        let patched = patch.send().await.unwrap();
        assert_eq!(patched.status(), StatusCode::OK, "{}", patched.text().await.unwrap());
        let patched = client.patch(at(&first.url)).json(&json!({"metadata": {"b": n}})).send().await.unwrap();
        assert_eq!(patched.status(), StatusCode::OK);
        let read = next.json(&format!("/documents/p{n}?linearizable=true")).await;
        assert_eq!(read["metadata"], json!({"a": n, "b": n}));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_not_that_of_the_data_is_refused() {
    let mut replicas = Replicas::start(1).await;
    let document = json!({"id": "a", "hash": "00000000000000ff"});
    assert_eq!(replicas.server(0).post("/documents", document).await.0, StatusCode::CREATED);
    replicas.kill(0);
    let refused = async |url: &str| {
        let url = [("LOOKALIKE_SHARED_LOG__URL", url)];
        let ended = replicas.try_start(0, replicas.dir(0), &url).await.err().unwrap();
        assert_eq!(ended.status.code(), Some(78), "{}", ended.log);
        ended.log
    };
    let own = replicas.log_url("lookalike");
    assert!(refused(&replicas.log_url("mail")).await.contains("belongs to the shared log"));
    assert!(refused("file://relative").await.contains("file:///shared/folder"));
    assert!(refused("s3://bucket").await.contains("belongs to the shared log"));
    fs::remove_dir_all(own.strip_prefix("file://").unwrap()).unwrap();
    assert!(refused(&own).await.contains("has followed another log"));
}
