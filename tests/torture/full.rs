//! A disk that others fill, and free again: writes are refused with 507 and nothing of them is applied, queries go
//! on, and as soon as there is room so do writes. The process starts while it is full.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::bench::{Bench, cycles, seeded};
use crate::disk::Disk;
use crate::load::Load;
use crate::server::{Server, directory, serve};

/// Within this long writes are taken again when there is room.
const HEALED: Duration = Duration::from_secs(10);
/// The least that is to be left free, for these tests: their disks are small.
const SETTINGS: &[(&str, &str)] = &[("LOOKALIKE_STORE__RESERVE_BYTES", "4194304")];

async fn write(server: &Server, id: &str) -> (u16, Value) {
    let (status, answer) = server.post("/documents", json!({"id": id, "hash": "00000000000000ff"})).await;
    (status.as_u16(), answer)
}

/// Waits until `/readyz` has this status; it may take a moment until the process has noticed.
async fn readyz(server: &Server, wanted: u16, when: &str) {
    let start = Instant::now();
    let mut last = (0, String::new());
    while start.elapsed() < HEALED {
        let response = server.get("/readyz").await;
        last = (response.status().as_u16(), response.text().await.unwrap());
        if last.0 == wanted {
            assert!(wanted == 200 || last.1.contains("\"disk_full\""), "{when}: {last:?}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{when}: /readyz is not {wanted} after {HEALED:?}: {last:?}\n{}", server.log());
}

/// Every kind of write is refused as the contract has it, every kind of query is answered.
async fn holds_while_full(server: &Server, when: &str) {
    readyz(server, 503, when).await;
    let refused = |status: u16, answer: &Value| {
        let told = (status, answer["code"].as_str(), answer["outcome"].as_str());
        assert_eq!(told, (507, Some("disk_full"), Some("not_applied")), "{when}: {answer}");
        assert!(answer["detail"].as_str().unwrap().len() > 40, "{when}: {answer} does not say what to do");
    };
    let (status, answer) = write(server, "probe").await;
    refused(status, &answer);
    let (status, answer) = server.put("/documents/probe", json!({"hash": "00000000000000ff"})).await;
    refused(status.as_u16(), &answer);
    let (status, answer) = server.put("/collections/probe", json!({})).await;
    refused(status.as_u16(), &answer);
    let (lines, summary) =
        server.stream("/documents", "{\"id\":\"probe\",\"hash\":\"00000000000000ff\"}\n".into()).await;
    refused(lines[0]["error"]["status"].as_u64().unwrap() as u16, &lines[0]["error"]);
    assert_eq!(summary["errors"], 1);
    for route in ["/similar?hash=00000000000000ff&k=64", "/export", "/collections", "/stats", "/snapshots"] {
        assert_eq!(server.get(route).await.status().as_u16(), 200, "{when}: GET {route}");
    }
    assert_eq!(
        server.get("/documents/probe").await.status().as_u16(),
        404,
        "{when}: a refused write was applied"
    );
    assert!(server.get("/metrics").await.text().await.unwrap().contains("\nlookalike_ready 0\n"), "{when}");
}

async fn heals(server: &Server, when: &str) {
    readyz(server, 200, when).await;
    let (status, answer) = write(server, "probe").await;
    assert_eq!(status, 201, "{when}: {answer}\n{}", server.log());
    let deleted = server.client.delete(format!("{}/documents/probe", server.url)).send().await.unwrap();
    let (status, answer) = (deleted.status().as_u16(), deleted.text().await.unwrap());
    assert_eq!(status, 204, "{when}: {answer}\n{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_answers_queries_and_heals() {
    let dir = directory();
    let Some(disk) = Disk::ext4(dir.path(), 192) else {
        return;
    };
    let (bench, mut rng) = (Bench::on(&disk.root), seeded());
    let mut server = Server::start_with(&bench.data, SETTINGS).await;
    for cycle in 0..cycles(3) {
        Load::steps(&server.url, &bench.ledger, 30, &mut rng).await;
        // To the last byte, or nearly: both while nobody writes.
        let ballast = disk.fill([0, 1 << 20][cycle % 2]);
        holds_while_full(&server, "full").await;
        bench.audit(&server, "while it is full").await;
        fs::remove_file(&ballast).unwrap();
        heals(&server, "freed").await;
        // While clients write.
        let load = Load::start(&server.url, &bench.ledger, 4, &mut rng);
        tokio::time::sleep(Duration::from_millis(rng.u64(20..200))).await;
        let ballast = disk.fill(0);
        holds_while_full(&server, "full under load").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        load.stop().await;
        // Killed while it is full, and started again.
        server.kill();
        server = Server::spawn(serve(&bench.data, SETTINGS)).unwrap_or_else(|ended| panic!("{ended:?}"));
        server.says("ready").await;
        // The start has given back what the one before had reserved for its journal.
        disk.fill(0);
        holds_while_full(&server, "started while it is full").await;
        bench.audit(&server, "started while it is full").await;
        fs::remove_file(&ballast).unwrap();
        heals(&server, "freed after a start").await;
        bench.audit(&server, "freed after a start").await;
    }
    Load::steps(&server.url, &bench.ledger, 30, &mut Rng::with_seed(3)).await;
    bench.audit(&server, "at the end").await;
    assert!(server.stop().success());
}

/// A text that hardly packs.
fn noise(rng: &mut Rng, letters: usize) -> String {
    (0..letters).map(|_| rng.alphanumeric()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_fills_the_disk_is_undone() {
    let (dir, other) = (directory(), directory());
    let Some(disk) = Disk::ext4(dir.path(), 128) else {
        return;
    };
    let mut rng = seeded();
    let source = Server::start(other.path()).await;
    source.put("/collections/texts", json!({"keep_text": true})).await;
    for batch in 0..12 {
        let lines = (0..250).map(|at| {
            let text = noise(&mut rng, 24_000);
            format!("{}\n", json!({"id": format!("{batch}-{at}"), "text": text}))
        });
        let (_, summary) = source.stream("/collections/texts/documents", lines.collect()).await;
        assert_eq!(summary["created"], 250, "{summary}");
    }
    let tar = source.get("/collections/texts/backup").await.bytes().await.unwrap();
    source.kill();
    let data = disk.root.join("data");
    let server = Server::start_with(&data, SETTINGS).await;
    assert_eq!(write(&server, "before").await.0, 201);
    let request = server.client.post(format!("{}/collections/texts/restore", server.url));
    let response =
        request.header("content-type", "application/x-tar").body(tar.clone()).send().await.unwrap();
    let (status, problem) = (response.status().as_u16(), response.json::<Value>().await.unwrap());
    let told = (status, problem["code"].as_str(), problem["outcome"].as_str());
    assert_eq!(told, (507, Some("disk_full"), Some("not_applied")), "{problem}");
    assert!(server.log().contains("a backup was verified"), "it was full before it began:\n{}", server.log());
    assert_eq!(server.get("/collections/texts").await.status().as_u16(), 404);
    assert_eq!(fs::read_dir(data.join("incoming")).unwrap().count(), 0);
    // What it had written goes, and what was there before is there.
    heals(&server, "after the restore").await;
    assert_eq!(server.json("/documents/before").await["id"], "before");
    server.kill();
    let server = Server::start_with(&data, SETTINGS).await;
    assert_eq!(server.get("/collections/texts").await.status().as_u16(), 404);
    heals(&server, "after a start").await;
    assert!(server.stop().success());
}

/// Bytes of all files under a directory, as the disk counts them.
fn taken(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => taken(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        // Deleted since the directory was read.
        Err(_) => 0,
    });
    sizes.sum()
}

/// One stream of documents with these ids, each with half a kilobyte that does not compress; how many were refused.
async fn stream(server: &Server, ids: impl Iterator<Item = u64>, rng: &mut Rng) -> u64 {
    let lines = ids.map(|id| {
        let filling: String = (0..64).map(|_| format!("{:016x}", rng.u64(..))).collect();
        let hash = format!("{:016x}", rng.u64(..));
        format!("{}\n", json!({"id": id.to_string(), "hash": hash, "metadata": {"f": filling}}))
    });
    let (_, summary) = server.stream("/documents", lines.collect()).await;
    summary["errors"].as_u64().unwrap()
}

/// Asked to stop, the process ends by itself and in time.
async fn stops(server: Server, within: Duration, when: &str) -> ExitStatus {
    let (start, id) = (Instant::now(), server.id());
    let stopping = tokio::task::spawn_blocking(move || server.stop());
    match tokio::time::timeout(within, stopping).await {
        Ok(status) => status.unwrap(),
        Err(_) => {
            let _ = std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status();
            panic!("{when}: still there {:?} after SIGTERM", start.elapsed());
        }
    }
}

/// A commit that finds no room while a snapshot is written must keep neither the snapshot thread nor the stop waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_room_stops_no_thread() {
    let dir = directory();
    let Some(disk) = Disk::ext4(dir.path(), 64) else {
        return;
    };
    // Without a reserve it is the journal that finds no room for its next segment.
    let settings = [
        ("LOOKALIKE_STORE__RESERVE_BYTES", "0"),
        ("LOOKALIKE_SNAPSHOTS__EVERY_CHANGES", "60"),
        ("LOOKALIKE_SNAPSHOTS__EVERY_SECONDS", "1"),
        ("LOOKALIKE_SERVER__DRAIN_SECONDS", "20"),
    ];
    let (bench, mut rng) = (Bench::on(&disk.root), seeded());
    for _ in 0..cycles(2) {
        let server = Server::start_with(&bench.data, &settings).await;
        server.put("/collections/large", json!({})).await;
        let load = Load::start(&server.url, &bench.ledger, 8, &mut rng);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let ballast = disk.fill(3 << 20);
        let large = |id| json!({"id": format!("{id}"), "hash": format!("{id:016x}"), "metadata": {"f": "x".repeat(1_500)}});
        let large: Vec<Value> = (0..400).map(large).collect();
        let end = Instant::now() + Duration::from_secs(3);
        let writes = async || {
            while Instant::now() < end {
                // In a collection of which the ledger knows nothing.
                server.post("/collections/large/documents", json!(large)).await;
            }
        };
        let snapshots = async || {
            while Instant::now() < end {
                let snapshot = server.client.post(format!("{}/snapshots", server.url)).json(&Value::Null);
                let answer = snapshot.timeout(Duration::from_secs(20)).send().await;
                assert!(answer.is_ok(), "no answer to POST /snapshots: {answer:?}\n{}", server.log());
            }
        };
        tokio::join!(writes(), writes(), snapshots());
        load.stop().await;
        let status = stops(server, Duration::from_secs(22), "the journal found no room").await;
        assert!(status.success(), "{status}");
        fs::remove_file(ballast).unwrap();
        let server = Server::start_with(&bench.data, &settings).await;
        heals(&server, "freed").await;
        assert_eq!(server.delete("/collections/large").await.as_u16(), 204);
        bench.audit(&server, "after a commit without room").await;
        let status = stops(server, Duration::from_secs(22), "healed").await;
        assert!(status.success(), "{status}");
    }
}

/// Compaction leaves the reserve alone, and what it had begun is deleted at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_without_room_leaves_nothing_behind() {
    const RESERVE: u64 = 6 << 20;
    let dir = directory();
    let Some(disk) = Disk::ext4(dir.path(), 96) else {
        return;
    };
    let reserve = RESERVE.to_string();
    let settings = [
        ("LOOKALIKE_STORE__RESERVE_BYTES", reserve.as_str()),
        ("LOOKALIKE_STORE__JOURNAL_BYTES", "1048576"),
        ("LOOKALIKE_LOG__LEVEL", "info"),
    ];
    let data = disk.root.join("data");
    let server = Server::start_with(&data, &settings).await;
    let mut rng = seeded();
    for _ in 0..20 {
        assert_eq!(stream(&server, 0..1_000, &mut rng).await, 0);
    }
    let (mut lowest, mut refused) = (u64::MAX, 0);
    for _ in 0..cycles(1) {
        let ballast = disk.fill(RESERVE + (9 << 20));
        for round in 0..40 {
            refused += stream(&server, (0..500).map(|id| (round * 500 + id) % 8_000), &mut rng).await;
            lowest = lowest.min(disk.free());
            if refused > 0 {
                break;
            }
        }
        assert!(refused > 0, "the disk did not become full");
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            lowest = lowest.min(disk.free());
        }
        // One memtable on its way, the end of a table, and the file system's own.
        assert!(
            lowest > RESERVE / 2,
            "only {lowest} bytes were left of a reserve of {RESERVE}\n{}",
            server.log()
        );
        assert_eq!(server.get("/similar?hash=00000000000000ff&k=3").await.status().as_u16(), 200);
        fs::remove_file(&ballast).unwrap();
        heals(&server, "freed").await;
    }
    eprintln!("{refused} documents were refused, {lowest} bytes of a reserve of {RESERVE} were left");
    // What was written over is gone once the store is quiet: the documents, and no unfinished file.
    let live = 8_000 * 1_300;
    let start = Instant::now();
    while taken(&data) > live + (8 << 20) && start.elapsed() < Duration::from_secs(40) {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let left = taken(&data);
    eprintln!("{left} bytes are taken after {:?}", start.elapsed());
    assert!(left <= live + (8 << 20), "{left} bytes are taken by {live} of documents\n{}", server.log());
    let status = stops(server, Duration::from_secs(12), "at the end").await;
    assert!(status.success(), "{status}");
}
