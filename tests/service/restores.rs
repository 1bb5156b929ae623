//! Restores that exceed the limits of inserts or the memory budget: refused as a whole, with an error that
//! names the document, the limit and the setting.

use std::path::Path;

use lookalike_hash::{CollectionName, DocumentId, Gram, GramRule, Hash, Width};
use lookalike_store::backup::{Manifest, Writer};
use lookalike_store::{CollectionSettings, Lifetime, Row};
use serde_json::{Value, json};

use crate::server::{Server, directory};

async fn restore(server: &Server, name: &str, tar: Vec<u8>) -> (u16, Value) {
    let request = server.client.post(format!("{}/collections/{name}/restore", server.url));
    let response = request.header("content-type", "application/x-tar").body(tar).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Checks that nothing of a restore is left.
async fn check_nothing_is_left(server: &Server, data: &Path, name: &str) {
    assert_eq!(server.get(&format!("/collections/{name}")).await.status().as_u16(), 404);
    assert_eq!(std::fs::read_dir(data.join("incoming")).unwrap().count(), 0);
}

fn row(hash: u64) -> Row {
    Row {
        hash: Hash::from_u64(hash),
        features: None,
        characters: None,
        place: 0,
        short: false,
        written_ms: 1_700_000_000_000,
        lifetime: Lifetime::Endless,
        metadata: None,
        grams: Vec::new(),
        text: None,
        sketch: None,
        thumbnail: None,
    }
}

fn rule(boilerplate: u32) -> GramRule {
    GramRule { is_exact: false, boilerplate }
}

fn grams(count: u32) -> Vec<Gram> {
    (0..count).map(|at| Gram { hash: at.into(), from: at, to: at + 16 }).collect()
}

/// A backup of these documents, with settings after `change`.
fn backup(change: impl FnOnce(&mut CollectionSettings), documents: &[(&str, Row)]) -> Vec<u8> {
    let name = CollectionName::new("news").unwrap();
    let mut settings =
        CollectionSettings { k: 3, ..CollectionSettings::of("copies-64@1".into(), Width::Bits64) };
    change(&mut settings);
    let manifest = Manifest::of(&name, settings);
    let mut writer = Writer::begin(Vec::new(), &manifest).unwrap();
    for (id, row) in documents {
        writer.document(&DocumentId::new(id).unwrap(), row).unwrap();
    }
    writer.finish().unwrap()
}

/// A change of the settings, a change of a row, and the status, the code and parts of the message of the
/// refusal.
type Case = (fn(&mut CollectionSettings), fn(&mut Row), u16, &'static str, [&'static str; 2]);

#[tokio::test]
async fn a_restore_checks_the_limits_of_inserts() {
    let data = directory();
    let start = async |metadata: &str, document: &str| {
        let limits =
            [("LOOKALIKE_LIMITS__METADATA_BYTES", metadata), ("LOOKALIKE_LIMITS__DOCUMENT_BYTES", document)];
        Server::start_with(data.path(), &limits).await
    };
    let server = start("1000", "20000").await;
    let with = |change: fn(&mut Row)| {
        let mut wrong = row(2);
        change(&mut wrong);
        vec![("good", row(1)), ("wrong", wrong)]
    };
    let large: [Case; 3] = [
        (
            |_| (),
            |row| row.metadata = Some(format!("{{\"a\":\"{}\"}}", "x".repeat(1_000))),
            413,
            "too_large",
            ["document \"wrong\"", "at most 1000 are kept (limits.metadata_bytes)"],
        ),
        (
            |of| of.keep_text = true,
            |row| row.text = Some("x".repeat(20_001)),
            413,
            "too_large",
            ["document \"wrong\"", "at most 20000 are kept (limits.document_bytes)"],
        ),
        (
            |of| of.keep_text = true,
            |row| row.text = Some("x".repeat(3_000_000)),
            413,
            "too_large",
            ["after \"good\"", "limits.document_bytes"],
        ),
    ];
    let other: [Case; 10] = [
        (
            |_| (),
            |row| row.metadata = Some("{\"a\":1,\"a\":2}".into()),
            422,
            "invalid_backup",
            ["document \"wrong\"", "stands twice"],
        ),
        (
            |_| (),
            |row| row.lifetime = Lifetime::Until(u64::MAX),
            422,
            "invalid_backup",
            ["document \"wrong\"", "100 years"],
        ),
        (|_| (), |row| row.sketch = Some(vec![0; 64]), 422, "invalid_backup", ["sketch_bytes", "64"]),
        (
            |of| of.sketch_bytes = Some(32),
            |row| row.sketch = Some(vec![0; 64]),
            422,
            "invalid_backup",
            ["sketch_bytes 32", "64"],
        ),
        (|_| (), |row| row.grams = grams(1), 422, "invalid_backup", ["document \"wrong\"", "passages"]),
        (
            |of| of.grams = Some(rule(5)),
            |row| row.grams = grams(65_537),
            422,
            "invalid_backup",
            ["document \"wrong\"", "grams"],
        ),
        (|of| of.grams = Some(rule(0)), |_| (), 422, "invalid_backup", ["boilerplate is 0", "manifest"]),
        (|of| of.sketch_bytes = Some(2), |_| (), 422, "invalid_backup", ["sketch_bytes is 2", "manifest"]),
        (|of| of.expires_in = Some(0), |_| (), 422, "invalid_backup", ["expires_in is 0", "manifest"]),
        (
            |of| of.source_field = Some(String::new()),
            |_| (),
            422,
            "invalid_backup",
            ["source_field has 0 bytes", "manifest"],
        ),
    ];
    for (at, (settings, change, status, code, expected)) in large.iter().chain(&other).enumerate() {
        let (found, problem) = restore(&server, "copy", backup(settings, &with(*change))).await;
        assert_eq!((found, problem["code"].as_str()), (*status, Some(*code)), "case {at}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(expected.iter().all(|words| detail.contains(words)), "case {at}: {detail}");
        check_nothing_is_left(&server, data.path(), "copy").await;
    }
    // Expired documents are not restored, and so not checked.
    let expired = with(|row| {
        row.lifetime = Lifetime::Until(1);
        row.metadata = Some(format!("{{\"a\":\"{}\"}}", "x".repeat(1_000)));
    });
    let (status, restored) = restore(&server, "expired", backup(|_| (), &expired)).await;
    assert_eq!((status, &restored["documents"], &restored["expired"]), (201, &json!(1), &json!(1)));
    server.kill();
    // With larger limits the restore succeeds.
    let server = start("100000", "4000000").await;
    for (at, (settings, change, ..)) in large.iter().enumerate() {
        let (status, answer) =
            restore(&server, &format!("copy-{at}"), backup(settings, &with(*change))).await;
        assert_eq!((status, &answer["documents"]), (201, &json!(2)), "case {at}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_exceeds_the_memory_budget_is_undone() {
    const DOCUMENTS: u64 = 800_000;
    let (data, small) = (directory(), directory());
    let server = Server::start(data.path()).await;
    let hash = |number: u64| (number + 1).wrapping_mul(0xd134_2543_de82_ef95);
    for part in 0..DOCUMENTS / 100_000 {
        let numbers = part * 100_000..(part + 1) * 100_000;
        let lines = numbers.map(|i| format!("{{\"id\":\"document-{i}\",\"hash\":\"{:016x}\"}}\n", hash(i)));
        server.stream("/documents", lines.collect()).await;
    }
    let tar = server.get("/collections/default/backup").await.bytes().await.unwrap().to_vec();
    server.kill();
    let server = Server::start(small.path()).await;
    let resident = server.json("/stats").await["memory"]["resident_bytes"].as_u64().unwrap();
    server.kill();
    // Enough memory for a start, whose usage varies, and for a part of the backup.
    let budget = (3 * resident).to_string();
    let server = Server::start_with(small.path(), &[("LOOKALIKE_MEMORY__BUDGET", &budget)]).await;
    server.put("/documents/a", json!({"hash": "00000000000000ff"})).await;
    let (status, problem) = restore(&server, "copy", tar).await;
    assert_eq!((status, problem["code"].as_str()), (507, Some("memory_full")), "{problem}");
    assert_eq!(problem["outcome"], "not_applied");
    let log = server.log();
    assert!(log.contains("a backup was verified"), "refused before the restore started: {log}");
    check_nothing_is_left(&server, small.path(), "copy").await;
    assert_eq!(server.json("/documents/a").await["hash"], "00000000000000ff");
    server.kill();
    let server = Server::start(small.path()).await;
    check_nothing_is_left(&server, small.path(), "copy").await;
    assert_eq!(server.documents().await, 1);
}
