//! Data directories of every released format: the server opens each of them, and their contents are
//! unchanged.
//!
//! `tests/golden/data-N.tar.gz` is a directory of layout N after a kill, with documents in tables, in the
//! journal and in a snapshot; `data-N.jsonl` is the export of its collections. A new layout needs a new pair,
//! created by `LOOKALIKE_MAKE_GOLDEN=1 cargo test --release --test service make_the_golden -- --ignored`;
//! the pairs of released versions stay. `before-0.1.0.tar.gz` is a directory of a version that was not
//! released, and is refused.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::damage::failed_start;
use crate::server::{Server, directory, ids};

/// Small tables and journal files, so that a small directory has several of each.
const SMALL: [(&str, &str); 1] = [("LOOKALIKE_STORE__JOURNAL_BYTES", "65536")];
/// The directory that is made.
const MADE: &str = "data-4";

/// The threshold of a collection of signatures.
const THRESHOLD: f64 = 0.505;

fn golden_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The exports of all collections, one line for each document, in the order of collections and ids, and for
/// each mark.
async fn exported(server: &Server) -> String {
    let mut lines = String::new();
    let collections = server.json("/collections").await;
    let names = collections["collections"].as_array().unwrap().iter();
    for collection in names.map(|collection| collection["name"].as_str().unwrap()) {
        let text = server.export(&format!("/collections/{collection}/export")).await;
        for line in text.lines() {
            let document: Value = serde_json::from_str(line).unwrap();
            lines += &json!({"collection": collection, "document": document}).to_string();
            lines.push('\n');
        }
        let marks = server.json(&format!("/collections/{collection}/marks?limit=1000")).await;
        for mark in marks["marks"].as_array().unwrap() {
            lines += &json!({"collection": collection, "mark": mark}).to_string();
            lines.push('\n');
        }
    }
    lines
}

/// The lines as values, in which the order of fields does not matter.
fn values(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn unpacked(archive: &Path) -> TempDir {
    let data = directory();
    tar::Archive::new(GzDecoder::new(File::open(archive).unwrap())).unpack(data.path()).unwrap();
    data
}

#[test]
fn a_directory_of_before_the_first_release_is_refused_with_the_way_out() {
    let data = unpacked(&golden_directory().join("before-0.1.0.tar.gz"));
    let (code, stderr) = failed_start(data.path());
    assert!(code == 65 && stderr.contains("development version") && stderr.contains("Export"), "{stderr}");
}

#[tokio::test]
async fn directories_of_every_format_open_with_their_contents() {
    let mut opened = 0;
    for entry in fs::read_dir(golden_directory()).unwrap() {
        let archive = entry.unwrap().path();
        let name = archive.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_suffix(".tar.gz").filter(|name| name.starts_with("data-")) else {
            continue;
        };
        let data = unpacked(&archive);
        let server = Server::start(data.path()).await;
        let expected = fs::read_to_string(golden_directory().join(format!("{name}.jsonl"))).unwrap();
        assert!(values(&exported(&server).await) == values(&expected), "{name} exports something else");
        if name == MADE {
            assert_eq!(server.json("/collections/sets").await["threshold"], THRESHOLD);
        }
        for line in expected.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if line.get("mark").is_some() {
                continue;
            }
            let (collection, document) = (line["collection"].as_str().unwrap(), &line["document"]);
            // An export has the text instead of the hash if the text is stored.
            let Some(hash) = document["hash"].as_str() else {
                let route = format!("/collections/{collection}/similar");
                let (_, answer) = server.post(&route, json!({"text": document["text"]})).await;
                let passages = &answer["passages"];
                let mut found = passages["documents"].as_array().unwrap().iter();
                let is_short = passages["grams"].as_u64().unwrap() < 2;
                assert!(is_short || found.any(|found| found["id"] == document["id"]), "{name}: {answer}");
                continue;
            };
            let route = format!("/collections/{collection}/similar?hash={hash}&k=0&limit=1000");
            let found = ids(&server.json(&route).await);
            assert!(
                found.iter().any(|id| document["id"] == *id),
                "{name}: {document} is not found: {found:?}"
            );
        }
        opened += 1;
    }
    assert!(opened > 0, "there are golden directories");
}

/// Stores documents of every kind.
async fn fill(server: &Server, from: u64, to: u64) {
    for i in from..to {
        let hash = if i % 10 == 0 { 7 } else { i << 13 };
        let mut document = json!({"id": format!("d{i}"), "hash": format!("{hash:016x}")});
        if i % 3 == 0 {
            document["metadata"] = json!({"number": i, "place": "臺灣"});
        }
        if i % 7 == 0 {
            document["expires_in"] = json!(3_000_000_000_u64);
        }
        let (status, answer) = server.post("/documents", document).await;
        assert!(status.is_success(), "{answer}");
        let wide = json!({"id": format!("w{i}"), "hash": format!("{:032x}", u128::from(i) << 77)});
        assert!(server.post("/collections/wide/documents", wide).await.0.is_success());
        let pdq = json!({"id": format!("p{i}"), "hash": format!("{:064x}", u128::from(i) << 99)});
        assert!(server.post("/collections/pdq/documents", pdq).await.0.is_success());
    }
    let pair = |i: u64| json!({"ids": [format!("d{i}"), format!("d{}", i + 1)]});
    let marks: Vec<Value> =
        (from..to).step_by(5).map(pair).chain([json!({"ids": [format!("d{to}")]})]).collect();
    assert!(server.post("/marks", json!({"marks": marks})).await.0.is_success());
    for i in (from..to).step_by(9) {
        server.delete(&format!("/documents/d{i}")).await;
    }
    let long: String = (0..2_000).map(|i| format!("word{} ", i * from)).collect();
    for (id, text) in [
        ("short", "Two texts within k bits are near-duplicates."),
        ("zh", "两篇文章只差几个字。"),
        ("long", &long),
    ] {
        let document = json!({"id": format!("{id}{from}"), "text": text});
        let (status, answer) = server.post("/collections/texts/documents", document).await;
        assert!(status.is_success(), "{answer}");
    }
}

#[tokio::test]
#[ignore = "writes the golden directory of the present format; only for a new format"]
async fn make_the_golden_directory_of_this_format() {
    assert!(std::env::var_os("LOOKALIKE_MAKE_GOLDEN").is_some(), "set LOOKALIKE_MAKE_GOLDEN=1 to say so");
    let data = directory();
    let server = Server::start_with(data.path(), &SMALL).await;
    let settings = json!({"keep_text": true, "passages": true, "source_field": "site"});
    server.put("/collections/texts", settings).await;
    server.put("/collections/wide", json!({"profile": "copies-128"})).await;
    server.put("/collections/pdq", json!({"profile": "hashes-256"})).await;
    server.put("/collections/sets", json!({"profile": "minhash-copies", "threshold": THRESHOLD})).await;
    fill(&server, 0, 120).await;
    assert!(server.post("/snapshots", json!(null)).await.0.is_success());
    assert!(server.stop().success());
    let server = Server::start_with(data.path(), &SMALL).await;
    fill(&server, 120, 150).await;
    let lines = exported(&server).await;
    server.kill();
    fs::write(golden_directory().join(format!("{MADE}.jsonl")), lines).unwrap();
    let archive = GzEncoder::new(
        File::create(golden_directory().join(format!("{MADE}.tar.gz"))).unwrap(),
        Compression::best(),
    );
    let mut tar = tar::Builder::new(archive);
    tar.append_dir_all(".", data.path()).unwrap();
    tar.into_inner().unwrap().finish().unwrap();
}
