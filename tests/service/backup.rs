//! Backups: a restore gives back the whole collection or nothing, whatever happens to the backup in between.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, command, directory, ids};

/// A pseudo-random generator with the same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }
}

async fn backup(server: &Server, collection: &str) -> Vec<u8> {
    let response = server.get(&format!("/collections/{collection}/backup")).await;
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "application/x-tar");
    response.bytes().await.unwrap().to_vec()
}

async fn restore(server: &Server, collection: &str, tar: Vec<u8>) -> (u16, Value) {
    let request = server.client.post(format!("{}/collections/{collection}/restore", server.url));
    let response = request.header("content-type", "application/x-tar").body(tar).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn export(server: &Server, collection: &str) -> String {
    server.export(&format!("/collections/{collection}/export")).await
}

async fn collection_names(server: &Server) -> Vec<String> {
    let all = server.json("/collections").await;
    all["collections"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
}

fn uploads(data: &Path) -> usize {
    std::fs::read_dir(data.join("incoming")).unwrap().count()
}

/// Stores documents of every kind: texts with enough features and with too few, unique and shared hashes,
/// metadata with line feeds, and expiry.
async fn fill(server: &Server, collection: &str, profile: &str, digits: usize) {
    let settings = json!({"profile": profile, "k": 5, "keep_text": true, "expires_in": "90d"});
    server.put(&format!("/collections/{collection}"), settings).await;
    let mut numbers = Numbers(7);
    let mut lines = String::new();
    for i in 0..3_000u64 {
        let mut document = json!({"id": format!("文-{i:05}")});
        let fields = document.as_object_mut().unwrap();
        match i % 4 {
            0 => {
                let text = format!("第{i}篇：市图书馆昨天宣布延长开放时间，\u{1}编号");
                fields.insert("text".into(), json!(format!("{text}{}。", numbers.next())))
            }
            1 => fields.insert("text".into(), json!(format!("short {i}"))),
            2 => fields.insert("hash".into(), json!(format!("{:0digits$x}", numbers.next()))),
            _ => fields.insert("hash".into(), json!(format!("{:0digits$x}", i % 12))),
        };
        match i % 3 {
            0 => drop(fields.insert("expires_in".into(), Value::Null)),
            1 => drop(fields.insert("expires_in".into(), json!("5h"))),
            _ => {}
        }
        let mut line = document.to_string();
        if i % 5 == 0 {
            line.pop();
            line.extend([format!(", \"metadata\": {{ \"n\" :  {i}, \"名\": \"é\\n\" }}}}")]);
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    let (_, summary) = server.stream(&format!("/collections/{collection}/documents"), lines).await;
    assert_eq!(summary["created"], 3_000, "{summary}");
    // Metadata of several lines, which NDJSON cannot contain.
    let body = format!("{{\"hash\": \"{:0digits$x}\", \"metadata\": {{\n \"a\":\n1}}}}", 5);
    let url = format!("{}/collections/{collection}/documents/pretty", server.url);
    let request = server.client.put(url).header("content-type", "application/json").body(body);
    assert_eq!(request.send().await.unwrap().status().as_u16(), 201);
}

/// Compares the answers of two collections to an export and to lookups.
async fn assert_equal_collections(one: &Server, first: &str, other: &Server, second: &str, digits: usize) {
    assert_eq!(export(one, first).await, export(other, second).await);
    let mut settings = [
        one.json(&format!("/collections/{first}")).await,
        other.json(&format!("/collections/{second}")).await,
    ];
    for settings in &mut settings {
        settings["name"] = Value::Null;
        // The size of the index depends on the order of insertion.
        settings["index_bytes"] = Value::Null;
    }
    assert_eq!(settings[0], settings[1]);
    for id in ["文-00000", "文-00001", "文-00002", "文-00003", "文-02999", "pretty"] {
        for what in ["", "/similar?k=20&limit=100"] {
            let route = |collection: &str| format!("/collections/{collection}/documents/{id}{what}");
            assert_eq!(one.json(&route(first)).await, other.json(&route(second)).await, "{id}{what}");
        }
    }
    for i in 0..12 {
        for verify in ["", "&verify=scan"] {
            let route = |collection: &str| {
                format!("/collections/{collection}/similar?hash={i:0digits$x}&k=2&limit=1000{verify}")
            };
            assert_eq!(one.json(&route(first)).await, other.json(&route(second)).await);
        }
    }
}

#[tokio::test]
async fn a_restored_collection_equals_the_original() {
    let (data, fresh) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let second = Server::start(fresh.path()).await;
    let profiles = [("narrow", "copies-64", 16), ("wide", "copies-128", 32)];
    for (name, profile, digits) in profiles {
        fill(&server, name, profile, digits).await;
        let tar = backup(&server, name).await;
        let (status, restored) = restore(&second, name, tar).await;
        assert_eq!(status, 201, "{restored}");
        assert_eq!((&restored["documents"], &restored["expired"]), (&json!(3_001), &json!(0)));
        assert_eq!(restored["from"], name);
        assert_eq!(restored["collection"]["documents"], 3_001);
        assert_equal_collections(&server, name, &second, name, digits).await;
    }
    assert_eq!(uploads(fresh.path()), 0);
    // A restored collection survives kills, with and without a later snapshot, and accepts changes.
    second.kill();
    let second = Server::start(fresh.path()).await;
    for (name, _, digits) in profiles {
        assert_equal_collections(&server, name, &second, name, digits).await;
    }
    let (_, again) = restore(&second, "again", backup(&second, "wide").await).await;
    assert_eq!(again["from"], "wide");
    second.post("/snapshots", json!(null)).await;
    for server in [&server, &second] {
        assert_eq!(server.delete("/collections/wide/documents/pretty").await.as_u16(), 204);
    }
    second.kill();
    let second = Server::start(fresh.path()).await;
    assert_eq!(export(&server, "wide").await, export(&second, "wide").await);
    assert_eq!(second.get("/collections/again/documents/pretty").await.status().as_u16(), 200);
    // Two backups of the same state differ only in their time.
    assert_eq!(backup(&server, "narrow").await.len(), backup(&server, "narrow").await.len());
}

#[tokio::test]
async fn an_empty_collection_and_expired_documents() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let empty = backup(&server, "default").await;
    let (status, restored) = restore(&server, "empty", empty).await;
    assert_eq!((status, &restored["documents"]), (201, &json!(0)));
    server.put("/documents/stays", json!({"hash": "00000000000000ff"})).await;
    server.put("/documents/goes", json!({"hash": "00000000000000ff", "expires_in": 1})).await;
    let tar = backup(&server, "default").await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let (_, restored) = restore(&server, "later", tar).await;
    assert_eq!((&restored["documents"], &restored["expired"]), (&json!(1), &json!(1)));
    assert_eq!(ids(&server.json("/collections/later/similar?hash=00000000000000ff").await), ["stays"]);
}

/// Overwrites pairs of documents, each pair in one request, until `stop` is set. Returns the number of
/// requests.
async fn write_pairs(client: reqwest::Client, url: String, writer: u64, stop: Arc<AtomicBool>) -> u64 {
    for round in 0u64.. {
        if stop.load(Ordering::SeqCst) {
            return round;
        }
        let hash = format!("{:016x}", (round << 8) | writer);
        let pair = ["left", "right"].map(|side| {
            let id = format!("{side}-{writer}-{}", round % 25);
            json!({"id": id, "hash": hash, "metadata": {"round": round}})
        });
        let response = client.post(format!("{url}/batch/documents")).json(&json!(pair)).send().await.unwrap();
        assert!(response.status().is_success());
        response.bytes().await.unwrap();
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_during_writes_is_a_consistent_snapshot() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            tokio::spawn(write_pairs(server.client.clone(), server.url.clone(), writer, Arc::clone(&stop)))
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut sequence = 0;
    for copy in 0..8 {
        let name = format!("copy-{copy}");
        let (status, restored) = restore(&server, &name, backup(&server, "default").await).await;
        assert_eq!(status, 201, "{restored}");
        let now = restored["sequence"].as_u64().unwrap();
        assert!(now > sequence, "{now} after {sequence}");
        sequence = now;
        let text = export(&server, &name).await;
        let documents: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (left, right) = documents.split_at(documents.len() / 2);
        assert!(!left.is_empty());
        for (left, right) in left.iter().zip(right) {
            assert_eq!(left["id"].as_str().unwrap().replace("left", "right"), right["id"].as_str().unwrap());
            assert_eq!((&left["hash"], &left["metadata"]), (&right["hash"], &right["metadata"]));
        }
        let info = server.json(&format!("/collections/{name}")).await;
        assert_eq!(info["documents"], documents.len());
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await.unwrap() > 8);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_gets_the_whole_backup_and_may_request_the_next_at_once() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/texts", json!({"keep_text": true})).await;
    let mut numbers = Numbers(11);
    let mut text = || (0..60_000).map(|_| format!("{:x} ", numbers.next())).collect::<String>();
    let documents: Vec<_> = (0..50).map(|i| json!({"id": format!("{i:02}"), "text": text()})).collect();
    for document in &documents {
        let (status, answer) = server.post("/collections/texts/documents", document.clone()).await;
        assert_eq!(status, 201, "{answer}");
    }
    // The client reads more slowly than the server writes, and the backup is larger than all buffers: when
    // the server has written it, every buffer is full.
    let mut response = server.get("/collections/texts/backup").await;
    let (begun, mut tar) = (tokio::time::Instant::now(), Vec::new());
    while let Some(piece) = response.chunk().await.unwrap() {
        tar.extend(piece);
        tokio::time::sleep_until(begun + Duration::from_millis(tar.len() as u64 / 6_000)).await;
    }
    assert!(tar.len() > 12_000_000, "{}", tar.len());
    let (status, restored) = restore(&server, "copy", tar).await;
    assert_eq!((status, &restored["documents"]), (201, &json!(documents.len())), "{restored}");
    for _ in 0..20 {
        backup(&server, "default").await;
    }
}

#[tokio::test]
async fn changed_backups_are_refused_or_restore_the_same_documents() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let lines: String = (0..400u64)
        .map(|i| {
            let text = format!("document {i} of a few, with {} words", i * i);
            format!("{}\n", json!({"id": format!("{i:03}"), "text": text, "metadata": {"i": i}}))
        })
        .collect();
    server.put("/collections/good", json!({"keep_text": true})).await;
    server.stream("/collections/good/documents", lines).await;
    let (good, wanted) = (backup(&server, "good").await, export(&server, "good").await);
    let mut numbers = Numbers(20_261_121);
    let (mut refused, mut same) = (0, 0);
    for round in 0..600 {
        let mut bad = good.clone();
        let at = numbers.next() as usize % bad.len();
        let length = 1 + numbers.next() as usize % 700;
        let end = (at + length).min(bad.len());
        match round % 6 {
            0 => bad[at] ^= 1 << (numbers.next() % 8),
            1 => bad.truncate(at),
            2 => bad[at..end].fill(0),
            3 => drop(bad.drain(at..end)),
            4 => {
                let piece = bad[at..end].to_vec();
                bad.splice(at..at, piece);
            }
            _ => {
                // Swap two blocks of the tar.
                let blocks = bad.len() / 512;
                let (a, b) = ((at / 512).min(blocks - 1) * 512, numbers.next() as usize % blocks * 512);
                for i in 0..512 {
                    bad.swap(a + i, b + i);
                }
            }
        }
        let (status, answer) = restore(&server, "copy", bad).await;
        if status == 201 {
            assert_eq!(export(&server, "copy").await, wanted, "round {round}");
            assert_eq!(server.delete("/collections/copy").await.as_u16(), 204);
            same += 1;
        } else {
            assert_eq!((status, &answer["code"]), (422, &json!("invalid_backup")), "round {round}: {answer}");
            let detail = answer["detail"].as_str().unwrap();
            assert!(
                detail.contains(" at byte ")
                    || detail.contains("no backup made by")
                    || detail.contains("has format")
                    || detail.contains("of the backup: "),
                "{detail}"
            );
            refused += 1;
        }
        assert_eq!(uploads(data.path()), 0);
    }
    assert!(refused > 400 && same > 10, "{refused} refused, {same} the same");
    assert_eq!(collection_names(&server).await, ["default", "good"]);
}

#[tokio::test]
async fn a_refused_restore_reports_what_to_do() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/documents/a", json!({"hash": "00000000000000ff"})).await;
    let tar = backup(&server, "default").await;
    let (status, problem) = restore(&server, "default", tar.clone()).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("collection_exists")));
    assert!(problem["detail"].as_str().unwrap().contains("DELETE /collections/default"), "{problem}");
    let (status, problem) = restore(&server, "b", b"{\"id\":\"a\"}".to_vec()).await;
    assert_eq!((status, problem["code"].as_str()), (422, Some("invalid_backup")));
    assert!(problem["detail"].as_str().unwrap().contains("no backup made by lookalike"), "{problem}");
    let response = server.client.post(format!("{}/collections/b/restore", server.url)).json(&json!({}));
    assert_eq!(response.send().await.unwrap().status().as_u16(), 415);
    assert_eq!(server.get("/collections/nobody/backup").await.status().as_u16(), 404);
    assert_eq!(server.get("/collections/default/backup?part=1").await.status().as_u16(), 422);
    // A body that ends with an error.
    let half = tar[..tar.len() / 2].to_vec();
    let pieces = futures::stream::iter([Ok(half), Err(std::io::Error::other("the cable"))]);
    let request = server.client.post(format!("{}/collections/b/restore", server.url));
    let body = reqwest::Body::wrap_stream(pieces);
    assert!(request.header("content-type", "application/x-tar").body(body).send().await.is_err());
    for _ in 0..200 {
        if uploads(data.path()) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(uploads(data.path()), 0);
    assert_eq!(collection_names(&server).await, ["default"]);
    // Of two concurrent restores exactly one succeeds.
    let both = futures::future::join(restore(&server, "b", tar.clone()), restore(&server, "b", tar)).await;
    let mut statuses = [both.0.0, both.1.0];
    statuses.sort_unstable();
    assert!(matches!(statuses, [201, 409 | 503]), "{both:?}");
    assert_eq!(server.json("/collections/b").await["documents"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_restore_leaves_nothing_or_everything() {
    const DOCUMENTS: u64 = 60_000;
    let data = directory();
    let server = Server::start(data.path()).await;
    let lines: String = (0..DOCUMENTS)
        .map(|i| format!("{{\"id\":\"{i}\",\"hash\":\"{:016x}\",\"expires_in\":\"1d\"}}\n", i * i))
        .collect();
    server.stream("/documents", lines).await;
    let (tar, wanted) = (backup(&server, "default").await, export(&server, "default").await);
    server.kill();
    let (mut absent, mut begun) = (0, 0);
    for pause in [1, 60, 150, 250, 400, 700, 1_200] {
        let server = Server::start(data.path()).await;
        let (url, client, tar) = (server.url.clone(), server.client.clone(), tar.clone());
        let sending = tokio::spawn(async move {
            let request = client.post(format!("{url}/collections/copy/restore"));
            let _ = request.header("content-type", "application/x-tar").body(tar).send().await;
        });
        tokio::time::sleep(Duration::from_millis(pause)).await;
        begun += usize::from(server.log().contains("a backup was verified"));
        server.kill();
        sending.await.unwrap();
        let server = Server::start(data.path()).await;
        assert_eq!(uploads(data.path()), 0, "the start deletes incomplete uploads");
        if server.get("/collections/copy").await.status().as_u16() == 404 {
            assert_eq!(collection_names(&server).await, ["default"]);
            absent += 1;
        } else {
            assert_eq!(export(&server, "copy").await, wanted);
            assert_eq!(server.json("/collections/copy").await["distinct_hashes"], DOCUMENTS);
            assert_eq!(server.delete("/collections/copy").await.as_u16(), 204);
        }
        server.kill();
    }
    assert!(absent > 1, "killed too late each time");
    println!("{begun} killed after the verification, {absent} before the end");
    let server = Server::start(data.path()).await;
    let (status, _) = restore(&server, "copy", tar).await;
    assert_eq!(status, 201);
    assert_eq!(export(&server, "copy").await, wanted);
    // The removal of the incomplete restores does not remove the expiry of other collections.
    assert!(server.json("/collections/copy/documents/5").await["expires_at"].is_string());
}

#[tokio::test]
async fn backup_and_restore_on_the_command_line() {
    let (data, out) = (directory(), directory());
    let server = Server::start(data.path()).await;
    server.put("/collections/news", json!({})).await;
    let lines: String = (0..50)
        .map(|i| format!("{}\n", json!({"id": format!("{i}"), "text": format!("number {i}")})))
        .collect();
    server.stream("/collections/news/documents", lines).await;
    let run = |arguments: &[&str]| {
        let output = command(arguments).output().unwrap();
        let text = [output.stdout.clone(), output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned(), output.stdout)
    };
    let url = server.url.as_str();
    let directory = out.path().to_str().unwrap();
    let (code, text, _) = run(&["backup", "--url", url, "--collection", "news", directory]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("50 documents") && text.contains("verified"), "{text}");
    let made: Vec<_> = std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    let file = made[0].to_str().unwrap();
    assert!(file.contains("/news-") && file.ends_with("Z.tar"), "{file}");
    let (code, text, _) = run(&["restore", "--check", file]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("whole; collection news, profile copies-64@"), "{text}");
    let (code, text, _) = run(&["restore", "--url", url, file]);
    assert_eq!(code, 1);
    assert!(text.contains("409") && text.contains("DELETE /collections/news"), "{text}");
    let (code, text, _) = run(&["restore", "--url", url, "--collection", "copy", file]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("copy: 50 documents restored"), "{text}");
    assert_eq!(export(&server, "copy").await, export(&server, "news").await);
    // Through pipes, and into a named file.
    let (code, _, tar) = run(&["backup", "--url", url, "--collection", "news", "-"]);
    let named = out.path().join("named.tar");
    std::fs::write(&named, &tar).unwrap();
    assert_eq!(code, 0);
    let piped = |arguments: &[&str]| {
        let input = std::fs::File::open(&named).unwrap();
        let output = command(arguments).stdin(input).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(piped(&["restore", "--check", "-"]).0, 0);
    let (code, text) = piped(&["restore", "--url", url, "-"]);
    assert!(code == 2 && text.contains("--collection"), "{text}");
    assert_eq!(piped(&["restore", "--url", url, "--collection", "third", "-"]).0, 0);
    assert_eq!(export(&server, "third").await, export(&server, "news").await);
    // Damage is detected and reported without a server, and nothing is sent.
    let mut bad = tar.clone();
    bad[tar.len() / 2 / 512 * 512 - 300] ^= 4;
    std::fs::write(&named, &bad[..bad.len() - 2_048]).unwrap();
    for arguments in [
        ["restore", "--check", named.to_str().unwrap()].as_slice(),
        &["restore", "--url", url, named.to_str().unwrap()],
    ] {
        let (code, text, _) = run(arguments);
        assert_eq!(code, 65, "{text}");
        assert!(text.contains("named.tar: the backup is damaged: ") && text.contains(" at byte "), "{text}");
    }
    let (code, text) = piped(&["restore", "--url", url, "--collection", "fourth", "-"]);
    assert!(code == 65 && text.contains("422"), "{text}");
    let (code, text, _) = run(&["restore", "--check", "/nowhere/a.tar"]);
    assert!(code == 1 && text.contains("/nowhere/a.tar cannot be read"), "{text}");
    let (code, text, _) = run(&["backup", "--url", url, "--collection", "nobody", directory]);
    assert!(code == 1 && text.contains("404"), "{text}");
}
