//! A disk that others fill, and free again: writes are refused with 507 and nothing of them is applied, queries go
//! on, and as soon as there is room so do writes. The process starts while it is full.

use std::fs;
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
