//! What is deleted leaves the disk by itself while nothing else happens, and after a restart too.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::server::{Server, directory};

/// Within this long. A minute is promised; a machine that is busy with other tests may need another.
const LEAVES: Duration = Duration::from_mins(2);
const DOCUMENTS: u64 = 6_000;
/// A segment of the journal has its room reserved, which counts: here half a megabyte.
const SETTINGS: &[(&str, &str)] = &[("LOOKALIKE_STORE__JOURNAL_BYTES", "4194304")];

/// Bytes of all files under a directory, as the disk counts them.
fn taken(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => taken(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        // Deleted since the directory was read.
        Err(_) => 0,
    });
    sizes.sum()
}

/// Documents of some 2 KB, each sixth of 12 KB, which lies apart.
async fn fill(server: &Server, collection: &str) {
    let mut rng = fastrand::Rng::with_seed(1);
    for from in (0..DOCUMENTS).step_by(1_000) {
        let lines = (from..from + 1_000).map(|id| {
            let words = if id % 6 == 0 { 750 } else { 120 };
            let filling: String = (0..words).map(|_| format!("{:016x}", rng.u64(..))).collect();
            let hash = format!("{:016x}", rng.u64(..));
            format!("{}\n", json!({"id": id.to_string(), "hash": hash, "metadata": {"f": filling}}))
        });
        let (_, summary) = server.stream(&format!("{collection}/documents"), lines.collect()).await;
        assert_eq!(summary["errors"], 0);
    }
}

async fn leaves(server: &Server, data: &Path, least: u64, when: &str) {
    let start = Instant::now();
    while taken(data) > least {
        let (elapsed, left) = (start.elapsed(), taken(data));
        let log = || server.log();
        assert!(
            elapsed < LEAVES,
            "{when}: {left} bytes are left after {elapsed:?}, {least} expected\n{}",
            log()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn query_times(server: &Server, queries: u64) -> Vec<Duration> {
    let mut times = Vec::new();
    for query in 0..queries {
        let start = Instant::now();
        let hash = query.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        assert!(server.get(&format!("/similar?hash={hash:016x}&k=3")).await.status().is_success());
        times.push(start.elapsed());
    }
    times.sort();
    times
}

#[tokio::test]
async fn deleted_documents_leave_a_quiet_disk() {
    let data = directory();
    let server = Server::start_with(data.path(), SETTINGS).await;
    fill(&server, "").await;
    let before = taken(data.path());
    assert!(before > 15 << 20, "{before}");
    for id in 100..DOCUMENTS {
        assert_eq!(server.delete(&format!("/documents/{id}")).await.as_u16(), 204);
    }
    leaves(&server, data.path(), 4 << 20, "deleted one by one").await;
    assert_eq!(server.documents().await, 100);
    assert!(query_times(&server, 200).await.len() == 200);
    let export = server.get("/export").await.text().await.unwrap();
    assert_eq!(export.lines().filter(|line| line.contains("\"hash\"")).count(), 100);
    assert!(server.stop().success());
}

#[tokio::test]
async fn a_deleted_collection_leaves_a_quiet_disk_after_a_restart() {
    let data = directory();
    let server = Server::start_with(data.path(), SETTINGS).await;
    server.put("/collections/c", json!({})).await;
    fill(&server, "/collections/c").await;
    assert!(taken(data.path()) > 15 << 20);
    assert_eq!(server.delete("/collections/c").await.as_u16(), 204);
    server.kill();
    let server = Server::start_with(data.path(), SETTINGS).await;
    leaves(&server, data.path(), 4 << 20, "after a kill").await;
    assert!(server.stop().success());
}
