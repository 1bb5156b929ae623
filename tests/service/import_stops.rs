//! Imports that a signal or a kill cuts, and what the report says: every line once, however often the run is
//! cut.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, command, directory, lines};
use crate::skipped::skipped;

/// Lines without ids, so that a line that is sent twice is stored twice.
fn without_ids(range: std::ops::Range<u64>) -> String {
    range.map(|i| format!("{{\"hash\":\"{i:016x}\"}}\n")).collect()
}

fn start(folder: &Path, arguments: &[&str], input: Stdio) -> Child {
    let mut command = command(arguments);
    command.current_dir(folder).stdin(input).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

async fn end(child: Child) -> (Option<i32>, String) {
    let output: Output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Waits until the server has more documents than these, or all.
async fn wait_for_more(server: &Server, documents: u64, all: u64) {
    for _ in 0..12_000 {
        let now = server.documents().await;
        if now > documents || now == all {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing was imported");
}

#[tokio::test]
async fn a_signal_ends_an_import_after_its_last_answer_and_no_line_is_sent_twice() {
    const LINES: u64 = 400_000;
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    fs::write(data.path().join("a.jsonl"), without_ids(0..LINES / 2)).unwrap();
    fs::write(data.path().join("b.jsonl"), without_ids(LINES / 2..LINES)).unwrap();
    let arguments = ["import", "a.jsonl", "b.jsonl", "--url", &server.url];
    let (mut cuts, mut stored) = (0, 0);
    for name in ["-INT", "-TERM", "-INT", "none"] {
        let child = start(data.path(), &arguments, Stdio::null());
        wait_for_more(&server, stored, LINES).await;
        if name != "none" {
            let _ = Command::new("kill").args([name, &child.id().to_string()]).status();
        }
        let (code, stderr) = end(child).await;
        if code == Some(0) {
            break;
        }
        cuts += 1;
        assert_eq!(code, Some(if name == "-INT" { 130 } else { 143 }), "{stderr}");
        assert!(stderr.contains(" created, 0 updated") && stderr.contains("stopped after line "), "{stderr}");
        assert!(stderr.contains("jsonl:") && stderr.contains("run the same command again"), "{stderr}");
        let (_, rest) = stderr.split_once("stopped after line ").unwrap();
        stored = rest.split_once(' ').unwrap().0.parse().unwrap();
        assert_eq!(stored, server.documents().await, "{stderr}");
    }
    assert_eq!(server.documents().await, LINES);
    if cuts == 0 {
        skipped("the machine imported 400,000 documents before the first signal");
    }
}

#[tokio::test]
async fn standard_input_goes_on_with_skip() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let all = without_ids(0..20_000);
    let arguments = ["import", "-", "--url", &server.url];
    let mut child = start(data.path(), &arguments, Stdio::piped());
    let mut input = child.stdin.take().unwrap();
    // The rest never comes: the signal ends the import nevertheless.
    input.write_all(&all.as_bytes()[..all.len() / 2]).unwrap();
    wait_for_more(&server, 0, 20_000).await;
    signal(&child, "-INT");
    let (code, stderr) = end(child).await;
    assert_eq!(code, Some(130), "{stderr}");
    let (_, rest) = stderr.split_once("the same command with --skip ").unwrap();
    let skip = rest.split_once(' ').unwrap().0;
    assert_eq!(skip.parse::<u64>().unwrap(), server.documents().await, "{stderr}");
    let arguments = [&arguments[..], &["--skip", skip]].concat();
    let mut child = start(data.path(), &arguments, Stdio::piped());
    child.stdin.take().unwrap().write_all(all.as_bytes()).unwrap();
    let (code, stderr) = end(child).await;
    assert_eq!((code, server.documents().await), (Some(0), 20_000), "{stderr}");
}

/// The lines of a report.
fn report(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn the_report_says_what_was_not_stored_as_new() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let write = |name: &str, text: &str| fs::write(data.path().join(name), text).unwrap();
    let hash = |id: &str, hash: u64| format!("{}\n", json!({"id": id, "hash": format!("{hash:016x}")}));
    write("stored.jsonl", &[hash("a", 0), hash("b", 0xff00), hash("c", 0b1_1111)].concat());
    let import = ["import", "--url", &server.url];
    let (code, stderr) =
        end(start(data.path(), &[&import[..], &["stored.jsonl"]].concat(), Stdio::null())).await;
    assert_eq!(code, Some(0), "{stderr}");
    let lines = [
        hash("a", 0),
        hash("near", 0b11),
        hash("far", 0xffff_0000_0000),
        "{\"id\":\"x\",\"hash\":\"12\"}\n".to_owned(),
        "{\"url\":\"u\"}\n".to_owned(),
        format!("{}\n", json!({"id": "brief", "text": "a brief text"})),
    ];
    write("new.jsonl", &lines.concat());
    write("table.csv", "id,text\n1\n");
    let options =
        ["new.jsonl", "table.csv", "missing.csv", "--skip-duplicates", "--k", "3", "--report", "r.jsonl"];
    write("missing.csv", "a,b\n1,2\n");
    let (code, stderr) = end(start(data.path(), &[&import[..], &options].concat(), Stdio::null())).await;
    assert_eq!(code, Some(1), "{stderr}");
    let found = report(&data.path().join("r.jsonl"));
    let outcomes: Vec<Value> = found
        .iter()
        .map(|line| json!([line["file"], line["line"], line["id"], line["outcome"], line["code"]]))
        .collect();
    let expected = [
        json!(["new.jsonl", 1, "a", "updated", null]),
        json!(["new.jsonl", 2, "near", "duplicate", null]),
        json!(["new.jsonl", 4, "x", "invalid", "invalid_field"]),
        json!(["new.jsonl", 5, null, "invalid", "unreadable"]),
        json!(["new.jsonl", 6, "brief", "created", null]),
        json!(["table.csv", 2, null, "invalid", "unreadable"]),
        json!(["missing.csv", 1, null, "cut", "unreadable"]),
    ];
    assert_eq!(outcomes, expected, "{stderr}");
    let similar: BTreeMap<&str, u64> = found[1]["similar"]
        .as_array()
        .unwrap()
        .iter()
        .map(|near| (near["id"].as_str().unwrap(), near["distance"].as_u64().unwrap()))
        .collect();
    assert_eq!(similar, BTreeMap::from([("a", 2), ("c", 3)]));
    assert!(found[4]["status"] == "short" && stderr.contains("1 short text:"), "{stderr}");
    assert!(found[3]["detail"].as_str().unwrap().contains("there are url"), "{}", found[3]);
}

#[tokio::test]
async fn the_report_of_a_killed_import_has_every_line_once() {
    const LINES: u64 = 300_000;
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    fs::write(data.path().join("a.jsonl"), lines(0..LINES)).unwrap();
    let import = ["import", "--url", &server.url, "--restart", "a.jsonl"];
    let (code, stderr) = end(start(data.path(), &import, Stdio::null())).await;
    assert_eq!(code, Some(0), "{stderr}");
    let again = ["import", "--url", &server.url, "a.jsonl", "--report", "r.jsonl"];
    let progress = data.path().join("a.jsonl.import-progress");
    let mut is_cut = false;
    let mut child = start(data.path(), &again, Stdio::null());
    for _ in 0..1_000 {
        is_cut = progress.exists();
        if is_cut || child.try_wait().unwrap().is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _ = child.kill();
    child.wait().unwrap();
    if !is_cut {
        skipped("the machine imported 300,000 documents before the first progress file");
    }
    let (code, stderr) = end(start(data.path(), &again, Stdio::null())).await;
    assert_eq!((code, stderr.contains("going on after line")), (Some(0), is_cut), "{stderr}");
    let found = report(&data.path().join("r.jsonl"));
    let lines: Vec<u64> = found.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert!(lines.iter().copied().eq(1..=LINES), "{} lines", lines.len());
    assert!(found.iter().all(|line| line["outcome"] == "updated"));
}
