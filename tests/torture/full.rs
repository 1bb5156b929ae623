//! A disk that another process fills and frees: writes get 507 and are not applied, queries are answered,
//! and writes succeed again as soon as there is free space. The server also starts while the disk is full.

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

/// How long the server may take to accept writes again after space is freed.
const HEALING_TIME: Duration = Duration::from_secs(10);
/// A smaller reserve of free space than the default, because the disks of these tests are small.
const SETTINGS: &[(&str, &str)] = &[("LOOKALIKE_STORE__RESERVE_BYTES", "4194304")];

async fn write(server: &Server, id: &str) -> (u16, Value) {
    let (status, answer) = server.post("/documents", json!({"id": id, "hash": "00000000000000ff"})).await;
    (status.as_u16(), answer)
}

/// Waits until `/readyz` has this status. The server needs some time to detect the change.
async fn wait_for_readyz(server: &Server, wanted: u16, when: &str) {
    let start = Instant::now();
    let mut last = (0, String::new());
    while start.elapsed() < HEALING_TIME {
        let response = server.get("/readyz").await;
        last = (response.status().as_u16(), response.text().await.unwrap());
        if last.0 == wanted {
            assert!(wanted == 200 || last.1.contains("\"disk_full\""), "{when}: {last:?}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{when}: /readyz is not {wanted} after {HEALING_TIME:?}: {last:?}\n{}", server.log());
}

/// Checks that every kind of write is refused as documented, and every kind of query is answered.
async fn check_while_full(server: &Server, when: &str) {
    wait_for_readyz(server, 503, when).await;
    let refused = |status: u16, answer: &Value| {
        let found = (status, answer["code"].as_str(), answer["outcome"].as_str());
        assert_eq!(found, (507, Some("disk_full"), Some("not_applied")), "{when}: {answer}");
        assert!(answer["detail"].as_str().unwrap().len() > 40, "{when}: {answer} has no instruction");
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

/// Checks that a snapshot does not use the reserve of the disk and leaves no file.
async fn check_no_snapshot(server: &Server, disk: &Disk) {
    let (before, free) = (server.json("/snapshots").await, disk.free());
    let (status, answer) = server.post("/snapshots", Value::Null).await;
    assert_eq!((status.as_u16(), &answer["code"]), (507, &json!("disk_full")), "{answer}");
    assert_eq!(server.json("/snapshots").await, before);
    // The journal and the file system may take or return a little meanwhile.
    assert!(disk.free() + (256 << 10) >= free, "{} of {free} bytes are free", disk.free());
}

/// Waits until the server is ready, and checks that it accepts writes and deletions.
async fn check_healed(server: &Server, when: &str) {
    wait_for_readyz(server, 200, when).await;
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
        // Fill the disk completely or almost, without concurrent writes.
        let ballast = disk.fill([0, 1 << 20][cycle % 2]);
        check_while_full(&server, "full").await;
        check_no_snapshot(&server, &disk).await;
        bench.audit(&server, "while it is full").await;
        fs::remove_file(&ballast).unwrap();
        check_healed(&server, "freed").await;
        // Fill the disk while clients write.
        let load = Load::start(&server.url, &bench.ledger, 4, &mut rng);
        tokio::time::sleep(Duration::from_millis(rng.u64(20..200))).await;
        let ballast = disk.fill(0);
        check_while_full(&server, "full under load").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        load.stop().await;
        // Kill the server while the disk is full, and start it again.
        server.kill();
        server = Server::spawn(serve(&bench.data, SETTINGS)).unwrap_or_else(|ended| panic!("{ended:?}"));
        server.wait_for_log("ready").await;
        // The start released the space that the previous process had reserved for its journal.
        disk.fill(0);
        check_while_full(&server, "started while it is full").await;
        bench.audit(&server, "started while it is full").await;
        fs::remove_file(&ballast).unwrap();
        check_healed(&server, "freed after a start").await;
        bench.audit(&server, "freed after a start").await;
    }
    Load::steps(&server.url, &bench.ledger, 30, &mut Rng::with_seed(3)).await;
    bench.audit(&server, "at the end").await;
    assert!(server.stop().success());
}

/// A text that hardly compresses.
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
    let found = (status, problem["code"].as_str(), problem["outcome"].as_str());
    assert_eq!(found, (507, Some("disk_full"), Some("not_applied")), "{problem}");
    assert!(
        server.log().contains("a backup was verified"),
        "the disk was full before the restore started:\n{}",
        server.log()
    );
    assert_eq!(server.get("/collections/texts").await.status().as_u16(), 404);
    assert_eq!(fs::read_dir(data.join("incoming")).unwrap().count(), 0);
    // The data of the restore is deleted, and earlier documents are still stored.
    check_healed(&server, "after the restore").await;
    assert_eq!(server.json("/documents/before").await["id"], "before");
    server.kill();
    let server = Server::start_with(&data, SETTINGS).await;
    assert_eq!(server.get("/collections/texts").await.status().as_u16(), 404);
    check_healed(&server, "after a start").await;
    assert!(server.stop().success());
}

/// Bytes that all files under a directory allocate on the disk.
fn disk_usage(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk_usage(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        // The file was deleted after the directory was read.
        Err(_) => 0,
    });
    sizes.sum()
}

/// Streams documents with these ids, each with 1 KiB of random hexadecimal digits, which compress to a
/// half. Returns how many were refused.
async fn stream(server: &Server, ids: impl Iterator<Item = u64>, rng: &mut Rng) -> u64 {
    let lines = ids.map(|id| {
        let padding: String = (0..64).map(|_| format!("{:016x}", rng.u64(..))).collect();
        let hash = format!("{:016x}", rng.u64(..));
        format!("{}\n", json!({"id": id.to_string(), "hash": hash, "metadata": {"f": padding}}))
    });
    let (_, summary) = server.stream("/documents", lines.collect()).await;
    summary["errors"].as_u64().unwrap()
}

/// Stops the server with SIGTERM and checks that it ends in time. Kills it otherwise.
async fn stop_within(server: Server, within: Duration, when: &str) -> ExitStatus {
    let (start, id) = (Instant::now(), server.id());
    let stopping = tokio::task::spawn_blocking(move || server.stop());
    match tokio::time::timeout(within, stopping).await {
        Ok(status) => status.unwrap(),
        Err(_) => {
            let _ = std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status();
            panic!("{when}: still running {:?} after SIGTERM", start.elapsed());
        }
    }
}

/// Settings without a reserve: the journal is the first that finds no space, for its next file.
const WITHOUT_RESERVE: [(&str, &str); 4] = [
    ("LOOKALIKE_STORE__RESERVE_BYTES", "0"),
    ("LOOKALIKE_SNAPSHOTS__EVERY_CHANGES", "60"),
    ("LOOKALIKE_SNAPSHOTS__EVERY_SECONDS", "1"),
    ("LOOKALIKE_SERVER__DRAIN_SECONDS", "20"),
];

/// Writes to the collection `large`, which the ledger does not track, and requests snapshots, for 3 seconds.
async fn write_much(server: &Server) {
    let metadata = json!({ "f": "x".repeat(1_500) });
    let large = |id| {
        let (id, hash) = (format!("{id}"), format!("{id:016x}"));
        json!({"id": id, "hash": hash, "metadata": metadata})
    };
    let large: Vec<Value> = (0..400).map(large).collect();
    let end = Instant::now() + Duration::from_secs(3);
    let writes = async || {
        while Instant::now() < end {
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
}

/// Writes documents to the collection `large` until one is refused.
async fn use_up_the_journal(server: &Server) {
    let document = json!({"hash": "00000000000000ff", "metadata": { "f": "x".repeat(1_500) }});
    for _ in 0..100_000 {
        let (status, answer) = server.post("/collections/large/documents", document.clone()).await;
        match status.as_u16() {
            200 | 201 => {}
            507 => return,
            _ => panic!("{status}: {answer}"),
        }
    }
    panic!("no write was refused\n{}", server.log());
}

/// A commit that finds no space while a snapshot is written blocks neither the snapshot thread nor the
/// shutdown. `/readyz` reports it, and the same process accepts writes again when there is space.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_space_blocks_no_thread_and_heals() {
    let dir = directory();
    let Some(disk) = Disk::ext4(dir.path(), 64) else {
        return;
    };
    let (bench, mut rng) = (Bench::on(&disk.root), seeded());
    for _ in 0..cycles(2) {
        let server = Server::start_with(&bench.data, &WITHOUT_RESERVE).await;
        for is_freed in [true, false] {
            server.put("/collections/large", json!({})).await;
            let load = Load::start(&server.url, &bench.ledger, 8, &mut rng);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let ballast = disk.fill(3 << 20);
            write_much(&server).await;
            load.stop().await;
            // A checkpoint may have freed a part of the journal.
            disk.fill(0);
            use_up_the_journal(&server).await;
            check_while_full(&server, "the journal found no space").await;
            if is_freed {
                fs::remove_file(ballast).unwrap();
                check_healed(&server, "freed").await;
                assert_eq!(server.delete("/collections/large").await.as_u16(), 204);
                bench.audit(&server, "healed").await;
                continue;
            }
            let status = stop_within(server, Duration::from_secs(22), "the journal found no space").await;
            assert!(status.success(), "{status}");
            fs::remove_file(ballast).unwrap();
            break;
        }
        let server = Server::start_with(&bench.data, &WITHOUT_RESERVE).await;
        check_healed(&server, "started after it was freed").await;
        assert_eq!(server.delete("/collections/large").await.as_u16(), 204);
        bench.audit(&server, "after a commit without space").await;
        let status = stop_within(server, Duration::from_secs(22), "healed").await;
        assert!(status.success(), "{status}");
    }
}

/// A compaction that finds no space does not use the reserve, and deletes its unfinished files at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_without_space_leaves_no_files() {
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
        // The reserve pays for one memtable flush, the end of a table, and the metadata of the file system.
        assert!(
            lowest > RESERVE / 2,
            "only {lowest} bytes were left of a reserve of {RESERVE}\n{}",
            server.log()
        );
        assert_eq!(server.get("/similar?hash=00000000000000ff&k=3").await.status().as_u16(), 200);
        fs::remove_file(&ballast).unwrap();
        check_healed(&server, "freed").await;
    }
    eprintln!("{refused} documents were refused, {lowest} bytes of a reserve of {RESERVE} were left");
    // Once the store is idle, overwritten data and unfinished files are deleted.
    let live = 8_000 * 1_300;
    let start = Instant::now();
    while disk_usage(&data) > live + (8 << 20) && start.elapsed() < Duration::from_secs(40) {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let left = disk_usage(&data);
    eprintln!("{left} bytes are used after {:?}", start.elapsed());
    assert!(left <= live + (8 << 20), "{left} bytes are used by {live} bytes of documents\n{}", server.log());
    let status = stop_within(server, Duration::from_secs(12), "at the end").await;
    assert!(status.success(), "{status}");
}
