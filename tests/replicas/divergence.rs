//! Servers whose data are not those of the others: they are found, and answer nothing. Older data that the
//! log can complete are not wrong.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use lookalike_hash::DocumentId;
use lookalike_store::{Store, StoreSettings};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::server::{Server, lines};
use super::servers::{Replicas, copy, documents, eventually};

/// How long the comparison may take: a digest comes some seconds after the last write.
const SOON: Duration = Duration::from_secs(30);

/// Whether a change of a row also changes the digest in the store, as a write would.
#[derive(Clone, Copy, PartialEq)]
enum Digest {
    Follows,
    Stays,
}

/// Gives other metadata to a document of a server that does not run.
fn change_row(dir: &Path, id: &str, digest: Digest) {
    let settings =
        StoreSettings { cache_bytes: 1 << 20, reserve_bytes: 0, journal_bytes: 4 << 20, verify: true };
    let store = Store::open(&dir.join("store"), settings, None).unwrap();
    let (of, id) = (store.collections().unwrap()[0].id, DocumentId::new(id).unwrap());
    let (_, stored) = store.view().row_head_and_digest(of, &id).unwrap().unwrap();
    let row = |text: &str| {
        let mut row = store.view().row(of, &id).unwrap().unwrap();
        row.metadata = Some(text.to_owned());
        row
    };
    let mut batch = store.batch().unwrap();
    let written = batch.put_row(of, &id, &row("{\"wrong\":1}"), Some(stored));
    if digest == Digest::Stays {
        // The batch is dropped; the next one has the right row with the digest of the wrong one before it.
        batch = store.batch().unwrap();
        batch.put_row(of, &id, &row("{\"wrong\":1}"), Some(written));
    }
    batch.commit().unwrap();
    store.close();
}

/// Waits until `/readyz` of a server has this status and code.
pub async fn until_ready_is(server: &Server, status: StatusCode, code: &str) -> String {
    let since = Instant::now();
    loop {
        let answer = server.get("/readyz").await;
        let (found, text) = (answer.status(), answer.text().await.unwrap());
        if found == status && text.contains(code) {
            return text;
        }
        assert!(since.elapsed() < SOON, "{found} {text}\n{}", server.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The answers of a server to requests for data, and what it says about itself.
async fn expect_silence(server: &Server) {
    for route in ["/similar?hash=0000000000000001", "/documents/1", "/export", "/stats", "/collections"] {
        let refused = server.get(route).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{route}");
        assert_eq!(refused.json::<Value>().await.unwrap()["code"], "diverged", "{route}");
    }
    let (status, refused) = server.post("/documents", json!({"id": "x", "hash": "1".repeat(16)})).await;
    assert_eq!((status, &refused["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("diverged")));
    let metrics = eventually(server, "/metrics").await;
    assert!(metrics.contains("\nlookalike_replica_diverged 1\n"), "{metrics}");
    assert_eq!(server.get("/livez").await.status(), StatusCode::OK);
}

fn status_table(server: &Server) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookalike"));
    let output = command.args(["replicas", "status", "--url", &server.url]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until all servers have the same documents, and each has agreed with the others.
pub async fn expect_agreement(replicas: &Replicas) {
    let exports = replicas.exports("default").await;
    exports.iter().for_each(|export| assert_eq!(documents(export), documents(&exports[0])));
    let since = Instant::now();
    for server in replicas.running() {
        until_ready_is(server, StatusCode::OK, "ready").await;
        while !eventually(server, "/metrics").await.contains("\nlookalike_replica_agreed_position ") {
            assert!(since.elapsed() < SOON, "{}", server.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_differs_from_two_others_answers_nothing_and_joins_anew() {
    let mut replicas = Replicas::start(3).await;
    assert_eq!(replicas.server(0).stream("/documents", lines(0..2_000)).await.1["created"], 2_000);
    expect_agreement(&replicas).await;

    // Older data of a server: the log completes them.
    replicas.stop(2);
    let older = tempfile::tempdir().unwrap();
    copy(replicas.dir(2), older.path());
    replicas.restart(2).await;
    assert_eq!(replicas.server(1).stream("/documents", lines(1_000..3_000)).await.1["errors"], 0);
    expect_agreement(&replicas).await;
    replicas.stop(2);
    let newer = tempfile::tempdir().unwrap();
    copy(replicas.dir(2), newer.path());
    replicas.put_back(2, older.path(), "");
    replicas.restart(2).await;
    expect_agreement(&replicas).await;

    // Older files of one tree, and of one tree with the list of what is needed.
    replicas.stop(2);
    for parts in [&["store/rows"][..], &["store/rows", "store/MANIFEST"], &["store/postings"]] {
        replicas.put_back(2, newer.path(), "");
        parts.iter().for_each(|part| replicas.put_back(2, older.path(), part));
        let ended = replicas.try_start(2, replicas.dir(2), &[]).await.err().expect("it must not start");
        assert!(ended.log.contains("Restore a backup"), "{parts:?}: {}", ended.log);
    }
    // A row that is not what was written, although every file has its checksum.
    replicas.put_back(2, newer.path(), "");
    change_row(replicas.dir(2), "1500", Digest::Stays);
    let ended = replicas.try_start(2, replicas.dir(2), &[]).await.err().expect("it must not start");
    assert!(ended.log.contains("the collection default is damaged: rows or marks"), "{}", ended.log);

    // A row that was written, but not by the log: only the other servers know.
    replicas.put_back(2, newer.path(), "");
    change_row(replicas.dir(2), "1500", Digest::Follows);
    replicas.restart_in_any_state(2).await;
    let reason = until_ready_is(replicas.server(2), StatusCode::SERVICE_UNAVAILABLE, "diverged").await;
    assert!(reason.contains("differ from those of s0, s1") && reason.contains("start it again"), "{reason}");
    expect_silence(replicas.server(2)).await;
    for at in [0, 1] {
        until_ready_is(replicas.server(at), StatusCode::OK, "ready").await;
        assert_eq!(replicas.server(at).get("/documents/1500").await.status(), StatusCode::OK);
    }
    let since = Instant::now();
    while !status_table(replicas.server(0)).contains("DIFFER") {
        assert!(since.elapsed() < SOON, "{}", status_table(replicas.server(0)));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("{}", status_table(replicas.server(0)));
    // It does not come back with the same data.
    replicas.kill(2);
    replicas.restart(2).await;
    assert!(replicas.server(2).log().contains("and are replaced"));
    expect_agreement(&replicas).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_servers_that_differ_neither_answers_until_one_is_replaced() {
    let mut replicas = Replicas::start(2).await;
    assert_eq!(replicas.server(0).stream("/documents", lines(0..100)).await.1["created"], 100);
    expect_agreement(&replicas).await;
    replicas.stop(1);
    change_row(replicas.dir(1), "50", Digest::Follows);
    replicas.restart_in_any_state(1).await;
    for at in [0, 1] {
        let reason = until_ready_is(replicas.server(at), StatusCode::SERVICE_UNAVAILABLE, "diverged").await;
        assert!(reason.contains("no majority") && reason.contains("delete its data directory"), "{reason}");
        expect_silence(replicas.server(at)).await;
    }
    // The other one is alone, and nobody contradicts it.
    replicas.stop(1);
    until_ready_is(replicas.server(0), StatusCode::OK, "ready").await;
    replicas.wipe(1);
    replicas.restart(1).await;
    expect_agreement(&replicas).await;
    assert_eq!(documents(&replicas.exports("default").await[1]).len(), 100);
    assert!(!fs::exists(replicas.dir(0).join("DIVERGED")).unwrap());
}
