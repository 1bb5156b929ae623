//! A disk that fails: at any write, sync, rename or removal, once or permanently, at the start or later.
//!
//! No acknowledged write is lost. After a failed sync of the journal no write is acknowledged until a
//! restart. Queries are answered, and `/readyz`, the metrics and the log report the failure. If only a
//! snapshot fails, writes continue.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::bench::{Bench, SHORT, cycles, seeded};
use crate::load::Load;
use crate::server::{Ended, Server, serve};
use crate::strace::{self, Fault, Point, points, recorded, with_fault};

const FAULTS: [Fault; 5] = [
    Fault::Once("EIO"),
    Fault::Always("EIO"),
    Fault::Once("ENOSPC"),
    Fault::Always("ENOSPC"),
    Fault::Nothing,
];

/// A directory with documents and a snapshot, left by a kill.
async fn filled_bench(rng: &mut Rng) -> Bench {
    let bench = Bench::new();
    let server = Server::start_with(&bench.data, SHORT).await;
    Load::steps(&server.url, &bench.ledger, 50, rng).await;
    server.post("/snapshots", Value::Null).await;
    Load::steps(&server.url, &bench.ledger, 20, rng).await;
    bench.audit(&server, "before any fault").await;
    server.kill();
    bench
}

/// The scenario during the fault, the same in each run.
async fn scenario(server: &Server, bench: &Bench) {
    let mut rng = Rng::with_seed(5);
    for _ in 0..2 {
        Load::steps(&server.url, &bench.ledger, 12, &mut rng).await;
        let snapshot = server.client.post(format!("{}/snapshots", server.url)).json(&Value::Null);
        let _ = snapshot.send().await;
    }
}

/// The points of a start, the scenario and a shutdown.
async fn record(origin: &Bench) -> Vec<Point> {
    let bench = origin.fork();
    let trace = bench.data.with_file_name("trace");
    let server = Server::launch(recorded(&serve(&bench.data, SHORT), &trace)).await.unwrap();
    scenario(&server, &bench).await;
    let _ = server.stop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    points(&trace, &bench.data)
}

/// The effect of a fault, for the table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The fault affected the probe document: it is unknown whether that is stored.
    Probed,
    NotStarted,
    ReadOnly,
    Full,
    None,
}

/// The state of the server after the scenario. Checks that its answers match the state that it reports.
async fn examine(server: &Server, context: &str) -> Effect {
    let readyz = server.get("/readyz").await;
    let (status, answer) = (readyz.status().as_u16(), readyz.text().await.unwrap());
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    let write = async || {
        let (status, answer) =
            server.post("/documents", json!({"id": "probe", "hash": "00000000000000ff"})).await;
        (status.as_u16(), answer)
    };
    for route in ["/documents/0-1", "/similar?hash=00000000000000ff&k=64", "/export", "/collections"] {
        let status = server.get(route).await.status().as_u16();
        assert!(
            status == 200 || (status == 404 && route.contains("0-1")),
            "{context}: GET {route}: {status}"
        );
    }
    if status == 200 {
        // The ledger does not have the probe document, so it must be deleted before the audit.
        let (status, answer) = write().await;
        // The fault reports a full disk for one file, while readiness checks the real disk, which has free
        // space.
        if status == 507 {
            assert_eq!(answer["outcome"], "not_applied", "{context}: {answer}");
            return Effect::Full;
        }
        if status == 503 && answer["outcome"] == "unknown" {
            assert_eq!(server.get("/readyz").await.status().as_u16(), 503, "{context}: ready after {answer}");
            return Effect::Probed;
        }
        if status == 503 && answer["code"] == "read_only" && answer["outcome"] == "not_applied" {
            // The fault affected a background write between the two requests: from now on the server must
            // not be ready.
            assert_eq!(server.get("/readyz").await.status().as_u16(), 503, "{context}: ready after {answer}");
            return Box::pin(examine(server, context)).await;
        }
        assert!(status < 300, "{context}: ready, and a write gets {status} {answer}");
        let deleted = server.delete("/documents/probe").await.as_u16();
        if deleted == 503 {
            assert_eq!(
                server.get("/readyz").await.status().as_u16(),
                503,
                "{context}: ready after {deleted}"
            );
            return Effect::Probed;
        }
        // The disk became full after the write of the probe, which stays.
        if deleted == 507 && !context.contains("EIO") {
            return Effect::Probed;
        }
        assert_eq!(deleted, 204, "{context}");
        return Effect::None;
    }
    let metrics = server.get("/metrics").await.text().await.unwrap();
    if !metrics.contains("\nlookalike_ready 0\n") {
        // A server whose disk has free space again recovers by itself, perhaps between two requests.
        let again = server.get("/readyz").await.status().as_u16();
        assert!(again == 200 && !context.contains("EIO"), "{context}: the metrics report a ready server");
        return Effect::Full;
    }
    assert!(!answer["detail"].as_str().unwrap_or_default().is_empty(), "{context}: /readyz has no reason");
    let is_logged = |log: &str| {
        log.lines()
            .any(|line| line.contains("ERROR") || (line.contains("WARN") && line.contains("cannot be")))
    };
    // A line of the log may arrive after the answer, because it is read from a pipe.
    for _ in 0..200 {
        if is_logged(&server.log()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_logged(&server.log()), "{context}: the log does not report it:\n{}", server.log());
    match answer["code"].as_str() {
        Some("disk_full") => Effect::Full,
        Some("read_only") => {
            for _ in 0..3 {
                let (status, answer) = write().await;
                let found = (status, answer["code"].as_str(), answer["outcome"].as_str());
                // Writes report the full disk, while `/readyz` reports that the server is read-only.
                if found == (507, Some("disk_full"), Some("not_applied")) {
                    return Effect::Full;
                }
                if status == 201 && !context.contains("EIO") {
                    // The server has recovered in the meantime.
                    assert_eq!(server.get("/readyz").await.status().as_u16(), 200, "{context}");
                    assert_eq!(server.delete("/documents/probe").await.as_u16(), 204, "{context}");
                    return Effect::Full;
                }
                assert_eq!(found, (503, Some("read_only"), Some("not_applied")), "{context}");
            }
            Effect::ReadOnly
        }
        _ => panic!("{context}: /readyz says {status} {answer}"),
    }
}

/// Runs the scenario with a fault, examines the server, and audits after a restart without the fault.
/// Returns the effect, and whether the fault was injected.
async fn check_fault(origin: &Bench, point: &Point, fault: Fault, stop: bool) -> (Effect, bool) {
    let (bench, context) = (origin.fork(), format!("{fault:?} at {point:?}"));
    bench.ledger.note(&context);
    let command = with_fault(&serve(&bench.data, SHORT), &bench.data, point, fault);
    let effect = match Server::launch_with_fault(command).await {
        Ok(server) => {
            scenario(&server, &bench).await;
            let effect = examine(&server, &context).await;
            if stop {
                let _ = server.stop();
            } else {
                server.kill();
            }
            effect
        }
        Err(Ended { status, log }) => {
            let refused =
                status.code().is_some_and(|code| code != 0 && code != 101) && !log.contains("panicked");
            assert!(refused, "{context}: not an orderly refusal: {status}\n{log}");
            Effect::NotStarted
        }
    };
    let is_injected = strace::was_injected(&bench.data);
    let restarted = Server::launch(serve(&bench.data, &[])).await;
    let server = restarted.unwrap_or_else(|ended| panic!("{context}: no start after it: {ended:?}"));
    if effect == Effect::Probed {
        let status = server.delete("/documents/probe").await.as_u16();
        assert!(matches!(status, 204 | 404), "{context}: {status}");
    }
    bench.audit(&server, &context).await;
    server.kill();
    (effect, is_injected)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_at_any_call_loses_no_acknowledged_write() {
    if !strace::available() {
        return;
    }
    let (mut rng, started) = (seeded(), Instant::now());
    let origin = filled_bench(&mut rng).await;
    let mut all: Vec<(Point, Fault)> = Vec::new();
    for point in record(&origin).await {
        let fits = |fault: &&Fault| **fault != Fault::Nothing || point.call.contains("write");
        all.extend(FAULTS.iter().filter(fits).map(|fault| (point.clone(), *fault)));
    }
    let count = all.len();
    rng.shuffle(&mut all);
    all.truncate(cycles(50));
    let mut injected = 0;
    let mut table: BTreeMap<(String, Effect), usize> = BTreeMap::new();
    for (point, fault) in &all {
        let (effect, is_injected) = check_fault(&origin, point, *fault, rng.bool()).await;
        injected += usize::from(is_injected);
        // Only the journal counts here: the file of the high-water mark is synced at checkpoints, the last of
        // which follows the examination.
        let acknowledges = point.call == "fdatasync" && point.file.ends_with(".journal");
        if is_injected && acknowledges && matches!(fault, Fault::Once("EIO") | Fault::Always("EIO")) {
            let held = matches!(effect, Effect::ReadOnly | Effect::NotStarted | Effect::Probed);
            assert!(held, "{fault:?} at {point:?}: {effect:?} after a sync that failed");
        }
        *table.entry((point.call.clone(), effect)).or_default() += 1;
    }
    eprintln!("{} of {count} faults, {injected} injected, in {:?}: {table:?}", all.len(), started.elapsed());
    assert!(injected * 4 > all.len(), "too few faults were injected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_sync_blocks_no_query() {
    if !strace::available() {
        return;
    }
    let mut rng = seeded();
    let origin = filled_bench(&mut rng).await;
    let mut syncs: Vec<Point> = record(&origin).await;
    syncs.retain(|point| point.call == "fdatasync");
    let mut point = syncs.first().expect("writes are made durable").clone();
    // The first syncs may belong to the start; those of writes are later.
    point.number = syncs.iter().filter(|other| other.file == point.file).count() / 2;
    let bench = origin.fork();
    let command = with_fault(&serve(&bench.data, SHORT), &bench.data, &point, Fault::Slow(6));
    let server = std::sync::Arc::new(Server::launch(command).await.unwrap());
    // Write until a write waits for the disk.
    let writes = tokio::spawn({
        let (url, ledger) = (server.url.clone(), std::sync::Arc::clone(&bench.ledger));
        async move { Load::steps(&url, &ledger, 60, &mut Rng::with_seed(5)).await }
    });
    let mut acknowledged = 0;
    let mut waiting = false;
    for _ in 0..400 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = bench.ledger.acknowledged();
        waiting = now == acknowledged && now > 0;
        if waiting || writes.is_finished() {
            break;
        }
        acknowledged = now;
    }
    assert!(waiting && !writes.is_finished(), "no sync was slow");
    for _ in 0..50 {
        assert!(server.get("/similar?hash=00000000000000ff&k=64").await.status().is_success());
        assert!(server.get("/readyz").await.status().is_success());
    }
    assert_eq!(bench.ledger.acknowledged(), acknowledged, "the queries were answered after the write");
    writes.await.unwrap();
    bench.audit(&server, "after a slow sync").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_does_not_answer_blocks_no_shutdown() {
    if !strace::available() {
        return;
    }
    let bench = Bench::new();
    let server = Server::start_with(&bench.data, SHORT).await;
    Load::steps(&server.url, &bench.ledger, 10, &mut Rng::with_seed(5)).await;
    server.kill();
    // A sync that takes a minute, and a shutdown during it.
    let mut syncs = record(&bench).await;
    syncs.retain(|point| point.call == "fdatasync" && point.file.ends_with(".journal"));
    let point = syncs.first().expect("writes are made durable");
    let mut serve = serve(&bench.data, SHORT);
    serve.env("LOOKALIKE_SERVER__DRAIN_SECONDS", "3");
    let command = with_fault(&serve, &bench.data, point, Fault::Slow(60));
    let server = Server::launch(command).await.unwrap();
    let writes = tokio::spawn({
        let (url, ledger) = (server.url.clone(), std::sync::Arc::clone(&bench.ledger));
        async move { Load::steps(&url, &ledger, 40, &mut Rng::with_seed(6)).await }
    });
    for _ in 0..100 {
        if strace::was_injected(&bench.data) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let start = Instant::now();
    server.terminate();
    server.wait_for_log("did not stop in time").await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    // `strace` delays the call, and would delay the end of the process as well.
    strace::release(server.id());
    let ended = tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
    assert_eq!(ended.status.code(), Some(75), "{ended:?}");
    writes.await.unwrap();
    let server = Server::start(&bench.data).await;
    bench.audit(&server, "after a stop that was not waited for").await;
    server.kill();
}
