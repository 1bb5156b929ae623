//! The memory budget: inserts are refused before the kernel ends the process, and a start fits the same budget.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::server::{Server, directory};

/// A hash that looks like any other, for each number.
fn hash(i: u64) -> String {
    let mut x = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("{:016x}", x ^ (x >> 31))
}

/// Streams documents until the server refuses them for want of memory; how many are stored.
async fn fill(server: &Server, most: u64) -> u64 {
    const AT_ONCE: u64 = 20_000;
    let mut stored = 0;
    while stored < most {
        let lines: String = (stored..stored + AT_ONCE)
            .map(|i| format!("{{\"id\":\"{i}\",\"hash\":\"{}\"}}\n", hash(i)))
            .collect();
        let request = server.client.post(format!("{}/documents", server.url));
        let response =
            request.header("content-type", "application/x-ndjson").body(lines).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        let refused = text.lines().any(|line| line.contains("\"memory_full\""));
        // Lines are answered in order, and what is refused in the middle of a stream is refused to its end or not.
        stored += text.lines().filter(|line| line.contains("\"outcome\":\"created\"")).count() as u64;
        if refused {
            assert!(status.as_u16() == 507 || status.is_success(), "{status}");
            return stored;
        }
        assert!(status.is_success(), "{status} {text}");
    }
    panic!("{most} documents were stored and none refused:\n{}", server.log());
}

/// Puts documents one by one until that is refused too, or there are `most` more.
async fn fill_singly(server: &Server, from: u64, most: u64) -> (u64, Option<Value>) {
    for i in from..from + most {
        let (status, answer) = server.put(&format!("/documents/{i}"), json!({"hash": hash(i)})).await;
        if status.as_u16() == 507 {
            return (i - from, Some(answer));
        }
        assert!(status.is_success(), "{status} {answer}");
    }
    (most, None)
}

async fn memory(server: &Server) -> Value {
    server.json("/stats").await["memory"].clone()
}

async fn queries_and_deletions_go_on(server: &Server, stored: u64) {
    for i in [1, stored / 2, stored - 1] {
        let near = server.json(&format!("/similar?hash={}&k=0", hash(i))).await;
        assert_eq!(near["similar"][0]["id"], json!(i.to_string()));
    }
    assert_eq!(server.delete("/documents/0").await.as_u16(), 204);
    assert_eq!(server.get("/documents/0").await.status().as_u16(), 404);
    assert_eq!(server.get("/readyz").await.status().as_u16(), 200);
}

#[tokio::test]
async fn a_budget_that_is_used_up_refuses_documents_and_nothing_else() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let state = memory(&server).await;
    assert_eq!(state["state"], "open");
    let resident = state["resident_bytes"].as_u64().unwrap();
    assert!(state["budget_bytes"].as_u64().unwrap() > resident, "{state}");
    server.put("/documents/0", json!({"hash": hash(0)})).await;
    server.put("/documents/1", json!({"hash": hash(1)})).await;
    let tar = server.get("/collections/default/backup").await.bytes().await.unwrap();
    server.kill();
    // A budget of which a little more than what a start takes is nine tenths, and one that it is far above.
    let budgets = [((resident + (12 << 20)) * 10 / 9, "no_bulk"), (64 << 20, "full")];
    for (budget, _) in
        budgets.iter().filter(|(budget, kind)| *kind == "no_bulk" || resident > *budget / 10 * 9)
    {
        let budget = budget.to_string();
        let server = Server::start_with(data.path(), &[("LOOKALIKE_MEMORY__BUDGET", &budget)]).await;
        let stored =
            if memory(&server).await["state"] == "open" { fill(&server, 3_000_000).await } else { 2 };
        let array = json!([{"hash": hash(7)}]);
        let (status, problem) = server.post("/documents", array).await;
        assert_eq!((status.as_u16(), problem["code"].as_str()), (507, Some("memory_full")), "{problem}");
        assert_eq!(problem["outcome"], "not_applied");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&budget) && detail.contains("memory.budget"), "{detail}");
        let request = server.client.post(format!("{}/collections/copy/restore", server.url));
        let response =
            request.header("content-type", "application/x-tar").body(tar.clone()).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 507);
        let metrics = server.get("/metrics").await.text().await.unwrap();
        assert!(metrics.contains("lookalike_memory_refuses{what=\"bulk\"} 1"), "{metrics}");
        assert!(metrics.contains(&format!("lookalike_memory_budget_bytes {budget}")), "{metrics}");
        server.says("memory budget").await;
        server.put("/documents/0", json!({"hash": hash(0)})).await;
        if server.get("/documents/0").await.status().is_success() {
            queries_and_deletions_go_on(&server, stored.max(2)).await;
        }
        server.kill();
    }
}

/// A control group of this test, in the hierarchy that limits memory, where that is allowed.
struct Group(PathBuf);

impl Group {
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
        let own = Path::new(&parent).join(format!("lookalike-test-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", own.display());
        fs::create_dir(&own).map_err(failed)?;
        let group = Group(own.clone());
        fs::write(own.join(file), bytes.to_string()).map_err(failed)?;
        // Where there is no accounting of swap there is none to forbid.
        let _ = fs::write(own.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// How often the kernel ended a process of the group for want of memory.
    fn kills(&self) -> u64 {
        let read = |file| fs::read_to_string(self.0.join(file)).unwrap_or_default();
        let text = read("memory.events") + &read("memory.oom_control");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.map_or(0, |number| number.trim().parse().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel lets go of the processes a moment after they have ended.
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
    let group = match Group::new(256 << 20) {
        Ok(group) => group,
        Err(why) => {
            println!("skipped: no control group can be made here ({why})");
            return;
        }
    };
    let data = directory();
    let start = || Server::start_in(data.path(), &group.0);
    let server = start().await;
    let budget = memory(&server).await["budget_bytes"].as_u64().unwrap();
    assert_eq!(budget, (256 << 20) / 5 * 4, "80 % of the group's limit");
    let stored = fill(&server, 20_000_000).await;
    let (more, refused) = fill_singly(&server, stored, 2_000).await;
    let stored = stored + more;
    println!("{stored} documents, {more} of them singly, then {refused:?}; {}", memory(&server).await);
    assert_eq!(server.documents().await, stored);
    queries_and_deletions_go_on(&server, stored).await;
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
        for i in (1..stored).step_by(stored as usize / 300) {
            let near = server.json(&format!("/similar?hash={}&k=0", hash(i))).await;
            assert_eq!(near["similar"][0]["id"], json!(i.to_string()));
        }
        println!("started again with {}", memory(&server).await);
        // Whether there is room again or not, it refuses in time.
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
    assert_eq!(group.kills(), 0, "the kernel had to end a process");
}
