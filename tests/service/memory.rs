//! The memory budget: inserts are refused before the kernel kills the process, and a restart fits the same
//! budget.

use std::fs;
use std::path::{Path, PathBuf};

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::server::{Server, directory};
use crate::skipped::skipped;

/// A pseudo-random hash for a number.
fn hash(i: u64) -> String {
    let mut x = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("{:016x}", x ^ (x >> 31))
}

/// Streams documents from number `from` on until the server refuses them for lack of memory. Returns the
/// number of the first document that was not stored.
async fn fill(server: &Server, mut from: u64, limit: u64) -> u64 {
    const BATCH: u64 = 20_000;
    while from < limit {
        let lines: String =
            (from..from + BATCH).map(|i| format!("{{\"id\":\"{i}\",\"hash\":\"{}\"}}\n", hash(i))).collect();
        let request = server.client.post(format!("{}/documents", server.url));
        let response =
            request.header("content-type", "application/x-ndjson").body(lines).send().await.unwrap();
        let status = response.status().as_u16();
        assert!(status == 200 || status == 507, "{status}");
        let text = response.text().await.unwrap();
        let stored = text.lines().filter(|line| line.contains("\"outcome\":\"created\"")).count() as u64;
        if stored < BATCH {
            assert!(text.contains("\"memory_full\""), "{text:.2000}");
            // Lines after a refused one may be stored because memory was released meanwhile; the next call
            // sends them again.
            return from
                + text.lines().take_while(|line| line.contains("\"outcome\":\"created\"")).count() as u64;
        }
        from += stored;
    }
    panic!("{limit} documents were stored and none refused:\n{}", server.log());
}

/// Puts single documents, 64 concurrently, until one of them is refused. Returns whether one was refused.
async fn fill_singly(server: &Server, from: u64, limit: u64) -> bool {
    let put = |i: u64| async move {
        let (status, answer) = server.put(&format!("/documents/{i}"), json!({"hash": hash(i)})).await;
        assert!(status.is_success() || status.as_u16() == 507, "{status} {answer}");
        status.as_u16() == 507
    };
    let mut refused = stream::iter(from..from + limit).map(put).buffered(64);
    while let Some(refused) = refused.next().await {
        if refused {
            return true;
        }
    }
    false
}

async fn memory(server: &Server) -> Value {
    server.json("/stats").await["memory"].clone()
}

async fn check_queries_and_deletions(server: &Server, stored: u64) {
    for i in [1, stored / 2, stored - stored / 100 - 1] {
        let near = server.json(&format!("/similar?hash={}&k=0", hash(i))).await;
        assert_eq!(near["similar"][0]["id"], json!(i.to_string()));
    }
    // In the second round the document is already deleted.
    assert!(matches!(server.delete("/documents/0").await.as_u16(), 204 | 404));
    assert_eq!(server.get("/documents/0").await.status().as_u16(), 404);
    assert_eq!(server.get("/readyz").await.status().as_u16(), 200);
}

#[tokio::test]
async fn an_exhausted_budget_refuses_only_documents() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let state = memory(&server).await;
    assert_eq!(state["state"], "open");
    assert!(state["budget_bytes"].as_u64() > state["resident_bytes"].as_u64(), "{state}");
    server.put("/documents/0", json!({"hash": hash(0)})).await;
    server.put("/documents/1", json!({"hash": hash(1)})).await;
    let tar = server.get("/collections/default/backup").await.bytes().await.unwrap();
    server.kill();
    // One budget that has space for documents, and one that the start alone uses up.
    for (budget, is_full) in [(64 << 20, false), (16 << 20, true)] {
        let budget = budget.to_string();
        let server = Server::start_with(data.path(), &[("LOOKALIKE_MEMORY__BUDGET", &budget)]).await;
        let mut stored = 2;
        // A flush may release memory in the meantime; then the loop fills it again.
        let problem = loop {
            let (status, problem) =
                server.post("/batch/documents", json!([{"id": "1", "hash": hash(1)}])).await;
            if status.as_u16() == 507 {
                break problem;
            }
            stored = fill(&server, stored, 3_000_000).await;
        };
        assert_eq!(problem["code"], "memory_full", "{problem}");
        assert_eq!(problem["outcome"], "not_applied");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&budget) && detail.contains("memory.budget"), "{detail}");
        if is_full {
            let (status, problem) = server.put("/documents/1", json!({"hash": hash(1)})).await;
            assert_eq!((status.as_u16(), &problem["code"]), (507, &json!("memory_full")), "{problem}");
            assert_eq!(memory(&server).await["state"], "full");
        }
        let request = server.client.post(format!("{}/collections/copy/restore", server.url));
        let response =
            request.header("content-type", "application/x-tar").body(tar.clone()).send().await.unwrap();
        assert!(matches!(response.status().as_u16(), 507 | 201));
        let metrics = server.get("/metrics").await.text().await.unwrap();
        assert!(metrics.contains("lookalike_memory_refuses{what=\"bulk\"}"), "{metrics}");
        assert!(metrics.contains(&format!("lookalike_memory_budget_bytes {budget}")), "{metrics}");
        server.wait_for_log("memory budget").await;
        check_queries_and_deletions(&server, stored).await;
        server.kill();
    }
}

/// A control group for one test, in the hierarchy that limits memory. The process needs the permission to
/// create it.
pub struct Group(pub PathBuf);

impl Group {
    /// A group of 256 MiB. If none can be created here, prints a line and returns `None`.
    pub fn of_256_mib() -> Option<Group> {
        let group = Group::new(256 << 20);
        group.inspect_err(|error| skipped(&format!("no control group can be created here ({error})"))).ok()
    }

    fn new(bytes: u64) -> Result<Group, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let line = |name: &str| {
            groups.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let found = fields.next()?.split(',').any(|controller| controller == name);
                fields.next().filter(|_| found).map(str::to_owned)
            })
        };
        let (parent, file) = match (line("memory"), line("")) {
            (Some(path), _) => (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"),
            (None, Some(path)) => (format!("/sys/fs/cgroup{path}"), "memory.max"),
            (None, None) => return Err("there are no control groups".into()),
        };
        let own = Path::new(&parent).join(format!(
            "lookalike-test-{}-{}",
            std::process::id(),
            uuid::Uuid::now_v7()
        ));
        let failed = |error: std::io::Error| format!("{}: {error}", own.display());
        fs::create_dir(&own).map_err(failed)?;
        let group = Group(own.clone());
        fs::write(own.join(file), bytes.to_string()).map_err(failed)?;
        // This fails on kernels without swap accounting, where it is not needed.
        let _ = fs::write(own.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// How many processes of the group the kernel killed for lack of memory.
    pub fn kills(&self) -> u64 {
        let read = |file| fs::read_to_string(self.0.join(file)).unwrap_or_default();
        let text = read("memory.events") + &read("memory.oom_control");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.map_or(0, |number| number.trim().parse().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel releases the processes shortly after their end.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[tokio::test]
async fn in_a_group_of_256_mib_inserts_are_refused_and_every_document_survives_kill_and_start() {
    let Some(group) = Group::of_256_mib() else { return };
    let data = directory();
    let start = || Server::start_in(data.path(), &group.0);
    let server = start().await;
    let budget = memory(&server).await["budget_bytes"].as_u64().unwrap();
    assert_eq!(budget, (256 << 20) / 5 * 4, "80 % of the group's limit");
    // The short form stops when streams are refused; the long form continues until single documents are
    // refused too.
    let rounds: u64 = std::env::var("LOOKALIKE_TEST_FILLS").map_or(1, |text| text.parse().unwrap());
    let (mut stored, mut is_full) = (0, false);
    for _ in 0..rounds {
        stored = fill(&server, stored, 50_000_000).await;
        let limit = if rounds == 1 { 500 } else { 20_000 };
        is_full = fill_singly(&server, stored, limit).await;
        if is_full {
            break;
        }
        stored += limit;
    }
    let stored = server.documents().await;
    println!("{stored} documents, singly refused: {is_full}; {}", memory(&server).await);
    check_queries_and_deletions(&server, stored).await;
    server.put("/documents/0", json!({"hash": hash(0)})).await;
    let has_first = server.get("/documents/0").await.status().is_success();
    let stored = if has_first { stored } else { stored - 1 };
    assert_eq!(server.documents().await, stored);
    assert_eq!(group.kills(), 0);
    server.kill();
    for _ in 0..2 {
        let server = start().await;
        let info = server.json("/collections/default").await;
        assert_eq!((&info["documents"], &info["distinct_hashes"]), (&json!(stored), &json!(stored)));
        for i in (1..stored - 100).step_by(stored as usize / 300) {
            let near = server.json(&format!("/similar?hash={}&k=0", hash(i))).await;
            assert_eq!(near["similar"][0]["id"], json!(i.to_string()));
        }
        println!("started again with {}", memory(&server).await);
        // Whether there is free memory again or not, the server refuses before the kernel kills it.
        let request = server.client.post(format!("{}/documents", server.url));
        let lines: String =
            (0..50_000).map(|i| format!("{{\"id\":\"{i}\",\"hash\":\"{}\"}}\n", hash(i))).collect();
        let response =
            request.header("content-type", "application/x-ndjson").body(lines).send().await.unwrap();
        assert!(matches!(response.status().as_u16(), 200 | 507));
        response.bytes().await.unwrap();
        assert!((stored..=stored + 1).contains(&server.documents().await));
        if !has_first {
            server.delete("/documents/0").await;
        }
        server.kill();
    }
    assert_eq!(group.kills(), 0, "the kernel killed a process");
}
