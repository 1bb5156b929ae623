//! A disk that fails: at any write, sync, rename or removal, once or from then on, at the start or later.
//!
//! What was acknowledged stays; after a failed sync of what is acknowledged nothing more is, until a restart;
//! queries go on; `/readyz`, the metrics and the log say so. Where nothing but a snapshot failed, writes go on.

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

/// A directory with documents and a snapshot, ended by a kill.
async fn filled(rng: &mut Rng) -> Bench {
    let bench = Bench::new();
    let server = Server::start_with(&bench.data, SHORT).await;
    Load::steps(&server.url, &bench.ledger, 50, rng).await;
    server.post("/snapshots", Value::Null).await;
    Load::steps(&server.url, &bench.ledger, 20, rng).await;
    bench.audit(&server, "before any fault").await;
    server.kill();
    bench
}

/// What happens while the disk fails, the same each time.
async fn scenario(server: &Server, bench: &Bench) {
    let mut rng = Rng::with_seed(5);
    for _ in 0..2 {
        Load::steps(&server.url, &bench.ledger, 12, &mut rng).await;
        let snapshot = server.client.post(format!("{}/snapshots", server.url)).json(&Value::Null);
        let _ = snapshot.send().await;
    }
}

/// The points of a start, the scenario and a stop.
async fn record(origin: &Bench) -> Vec<Point> {
    let bench = origin.fork();
    let trace = bench.data.with_file_name("trace");
    let server = Server::launch(recorded(&serve(&bench.data, SHORT), &trace)).await.unwrap();
    scenario(&server, &bench).await;
    let _ = server.stop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    points(&trace, &bench.data)
}

/// What a fault came to, for the table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The fault met the probe itself: whether that is stored, nobody knows.
    Probed,
    NotStarted,
    ReadOnly,
    Full,
    None,
}

/// How the server stands after the scenario, held to what it says of itself.
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
        // A probe is no part of the ledger: it must be gone before the audit.
        let (status, answer) = write().await;
        // A file that has no room on a disk that has: readiness looks at the disk.
        if status == 507 {
            assert_eq!(answer["outcome"], "not_applied", "{context}: {answer}");
            return Effect::Full;
        }
        if status == 503 && answer["outcome"] == "unknown" {
            assert_eq!(server.get("/readyz").await.status().as_u16(), 503, "{context}: ready after {answer}");
            return Effect::Probed;
        }
        if status == 503 && answer["code"] == "read_only" && answer["outcome"] == "not_applied" {
            // The fault met what is written in the background, between the two questions: it has to say so from now on.
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
        // No room any more since the write a moment ago: the probe stays.
        if deleted == 507 && !context.contains("EIO") {
            return Effect::Probed;
        }
        assert_eq!(deleted, 204, "{context}");
        return Effect::None;
    }
    let gauge = server.get("/metrics").await.text().await.unwrap();
    if !gauge.contains("\nlookalike_ready 0\n") {
        // A disk that has room again heals by itself, perhaps between two questions.
        let again = server.get("/readyz").await.status().as_u16();
        assert!(again == 200 && !context.contains("EIO"), "{context}: the metrics say that it is ready");
        return Effect::Full;
    }
    assert!(!answer["detail"].as_str().unwrap_or_default().is_empty(), "{context}: /readyz does not say why");
    let is_told = |log: &str| {
        log.lines()
            .any(|line| line.contains("ERROR") || (line.contains("WARN") && line.contains("cannot be")))
    };
    // The log comes through a pipe, perhaps after answers.
    for _ in 0..200 {
        if is_told(&server.log()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_told(&server.log()), "{context}: the log does not say so:\n{}", server.log());
    match answer["code"].as_str() {
        Some("disk_full") => Effect::Full,
        Some("read_only") => {
            for _ in 0..3 {
                let (status, answer) = write().await;
                let told = (status, answer["code"].as_str(), answer["outcome"].as_str());
                // A disk that refuses is full for who writes, and a server that takes no writes for who asks for health.
                if told == (507, Some("disk_full"), Some("not_applied")) {
                    return Effect::Full;
                }
                if status == 201 && !context.contains("EIO") {
                    // It has healed meanwhile.
                    assert_eq!(server.get("/readyz").await.status().as_u16(), 200, "{context}");
                    assert_eq!(server.delete("/documents/probe").await.as_u16(), 204, "{context}");
                    return Effect::Full;
                }
                assert_eq!(told, (503, Some("read_only"), Some("not_applied")), "{context}");
            }
            Effect::ReadOnly
        }
        _ => panic!("{context}: /readyz says {status} {answer}"),
    }
}

/// Runs into a fault, examines what is left, and audits after a restart without it. What it came to, and whether the
/// fault was met.
async fn one(origin: &Bench, point: &Point, fault: Fault, stop: bool) -> (Effect, bool) {
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
            assert!(refused, "{context}: not a refusal: {status}\n{log}");
            Effect::NotStarted
        }
    };
    let met = strace::was_met(&bench.data);
    let restarted = Server::launch(serve(&bench.data, &[])).await;
    let server = restarted.unwrap_or_else(|ended| panic!("{context}: no start after it: {ended:?}"));
    if effect == Effect::Probed {
        let status = server.delete("/documents/probe").await.as_u16();
        assert!(matches!(status, 204 | 404), "{context}: {status}");
    }
    bench.audit(&server, &context).await;
    server.kill();
    (effect, met)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_at_any_call_costs_nothing_acknowledged() {
    if !strace::available() {
        return;
    }
    let (mut rng, started) = (seeded(), Instant::now());
    let origin = filled(&mut rng).await;
    let mut all: Vec<(Point, Fault)> = Vec::new();
    for point in record(&origin).await {
        let fits = |fault: &&Fault| **fault != Fault::Nothing || point.call.contains("write");
        all.extend(FAULTS.iter().filter(fits).map(|fault| (point.clone(), *fault)));
    }
    let count = all.len();
    rng.shuffle(&mut all);
    all.truncate(cycles(50));
    let mut met = 0;
    let mut table: BTreeMap<(String, Effect), usize> = BTreeMap::new();
    for (point, fault) in &all {
        let (effect, is_met) = one(&origin, point, *fault, rng.bool()).await;
        met += usize::from(is_met);
        // The mark is made durable at checkpoints, the last of them after all was examined.
        let acknowledges = point.call == "fdatasync" && point.file.ends_with(".journal");
        if is_met && acknowledges && matches!(fault, Fault::Once("EIO") | Fault::Always("EIO")) {
            let held = matches!(effect, Effect::ReadOnly | Effect::NotStarted | Effect::Probed);
            assert!(held, "{fault:?} at {point:?}: {effect:?} after a sync that failed");
        }
        *table.entry((point.call.clone(), effect)).or_default() += 1;
    }
    eprintln!("{} of {count} faults, {met} met, in {:?}: {table:?}", all.len(), started.elapsed());
    assert!(met * 4 > all.len(), "hardly a fault was met");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_sync_keeps_no_query_waiting() {
    if !strace::available() {
        return;
    }
    let mut rng = seeded();
    let origin = filled(&mut rng).await;
    let mut syncs: Vec<Point> = record(&origin).await;
    syncs.retain(|point| point.call == "fdatasync");
    let mut point = syncs.first().expect("writes are made durable").clone();
    // The start may sync, too; the ones that come with writes are later.
    point.number = syncs.iter().filter(|other| other.file == point.file).count() / 2;
    let bench = origin.fork();
    let command = with_fault(&serve(&bench.data, SHORT), &bench.data, &point, Fault::Slow(6));
    let server = std::sync::Arc::new(Server::launch(command).await.unwrap());
    // Writes until one of them waits for the disk.
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
async fn a_disk_that_does_not_answer_keeps_no_stop_waiting() {
    if !strace::available() {
        return;
    }
    let bench = Bench::new();
    let server = Server::start_with(&bench.data, SHORT).await;
    Load::steps(&server.url, &bench.ledger, 10, &mut Rng::with_seed(5)).await;
    server.kill();
    // A write that takes a minute, and a stop meanwhile.
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
        if strace::was_met(&bench.data) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let start = Instant::now();
    server.terminate();
    server.says("did not stop in time").await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    // What holds the call back would hold the dying process back as well.
    strace::release(server.id());
    let ended = tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
    assert_eq!(ended.status.code(), Some(75), "{ended:?}");
    writes.await.unwrap();
    let server = Server::start(&bench.data).await;
    bench.audit(&server, "after a stop that was not waited for").await;
    server.kill();
}
