//! Import of imperfect input: invalid rows and files among valid ones, archives, and a server that limits
//! the rate.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use encoding_rs::GBK;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::server::{Server, command, directory, lines};

const WORDS: &str = "市图书馆昨天宣布，从下个月开始延长周末的\
                     开放时间，读者可以在馆内阅读到晚上十点。";

/// Imports files of a directory. Returns whether the command succeeded, and its standard error.
async fn import(server: &Server, directory: &Path, files: &[&str], more: &[&str]) -> (bool, String) {
    let all = [&["import", "--url", &server.url], more, files].concat();
    let mut command = command(&all);
    command.current_dir(directory);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    outcome(&output)
}

fn outcome(output: &Output) -> (bool, String) {
    (output.status.success(), String::from_utf8(output.stderr.clone()).unwrap())
}

#[tokio::test]
async fn every_bad_line_is_counted_though_the_server_lists_a_hundred() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let file = format!("{}{}", "{\"text\":7}\n".repeat(700), lines(0..5));
    fs::write(data.path().join("bad.jsonl"), file).unwrap();
    let (succeeded, stderr) = import(&server, data.path(), &["bad.jsonl"], &[]).await;
    assert!(
        !succeeded && stderr.contains("5 created, 0 updated, 0 duplicates left out, 700 bad"),
        "{stderr}"
    );
    assert!(stderr.contains("bad.jsonl:1: ") && !stderr.contains("the server stopped"), "{stderr}");
}

#[tokio::test]
async fn a_report_has_the_reason_of_every_refused_line() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let bad = |number: u64| match number % 3 {
        0 => "{\"text\":7}\n".to_owned(),
        1 => format!("{{\"hash\":\"{number}\"}}\n"),
        _ => lines(number..number + 1),
    };
    let file: String = (0..600).map(bad).collect();
    fs::write(data.path().join("bad.jsonl"), file).unwrap();
    let (succeeded, stderr) =
        import(&server, data.path(), &["bad.jsonl"], &["--report", "report.jsonl"]).await;
    assert!(!succeeded && stderr.contains("200 created") && stderr.contains("400 bad lines"), "{stderr}");
    let report = fs::read_to_string(data.path().join("report.jsonl")).unwrap();
    let reported: Vec<Value> = report.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reported.len(), 400);
    for line in &reported {
        let is_text = line["line"].as_u64().unwrap() % 3 == 1;
        let (code, reason) =
            if is_text { ("unreadable", "is not a string") } else { ("invalid_field", "hash") };
        assert_eq!(line["code"], code, "{line}");
        assert!(line["detail"].as_str().unwrap().contains(reason), "{line}");
    }
}

#[tokio::test]
async fn a_metadata_field_that_no_line_has_is_named() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    fs::write(data.path().join("a.jsonl"), "{\"text\":\"one\",\"language\":\"de\",\"url\":\"u\"}\n").unwrap();
    let options = ["--metadata", "lang,url"];
    let (succeeded, stderr) = import(&server, data.path(), &["a.jsonl"], &options).await;
    assert!(succeeded, "{stderr}");
    let expected = "no line has the field lang, which --metadata names; there are language, url";
    assert!(stderr.contains(expected), "{stderr}");
}

#[tokio::test]
async fn invalid_rows_and_files_fail_alone_and_are_reported() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let write = |name: &str, bytes: &[u8]| fs::write(data.path().join(name), bytes).unwrap();
    write("a.csv", b"id,text\n1,the first row\n2\n3,a bad \xff cell\n4,the last row\n");
    write("b.csv", b"x,y\n1,2\n");
    write("c.txt", &GBK.encode(WORDS).0);
    write("d.txt", b"ab\xff");
    let mut compressed = GzEncoder::new(Vec::new(), Compression::none());
    compressed.write_all(lines(0..5_000).as_bytes()).unwrap();
    let compressed = compressed.finish().unwrap();
    write("e.jsonl.gz", &compressed[..compressed.len() / 2]);
    write("f.jsonl", lines(5_000..5_003).as_bytes());
    let files = ["a.csv", "b.csv", "c.txt", "d.txt", "e.jsonl.gz", "f.jsonl"];
    let (succeeded, stderr) = import(&server, data.path(), &files, &["--id-field", "id"]).await;
    assert!(!succeeded, "{stderr}");
    for expected in [
        "a.csv:3: 1 cell instead of 2",
        "a.csv:4: cell 2 is not UTF-8",
        "b.csv:1: the file cannot be read: there is no column \"text\"; there are x, y; --text-field names",
        "d.txt:1: not UTF-8: byte 2",
        "e.jsonl.gz:",
        "what came before is sent",
        "3 bad lines, 2 files not read to the end",
    ] {
        assert!(stderr.contains(expected), "no {expected:?} in {stderr}");
    }
    for id in ["1", "4", "c.txt", "0", "2000", "5002"] {
        let route = format!("/documents/{id}");
        assert_eq!(server.get(&route).await.status().as_u16(), 200, "{id}: {stderr}");
    }
    let (created, _) = stderr.rsplit_once(" created").unwrap();
    let created: u64 = created.rsplit('\n').next().unwrap().parse().unwrap();
    // Row 1 of the table and line 1 of the JSONL file have the same id, so that one of them is an update.
    assert_eq!(created, server.documents().await, "{stderr}");
}

#[tokio::test]
async fn skipped_records_of_an_archive_are_counted() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let answer = |id: &str, head: &str, body: &[u8]| {
        let body = [format!("HTTP/1.1 {head}\r\n\r\n").as_bytes(), body].concat();
        let head = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {id}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body, b"\r\n\r\n"].concat()
    };
    let page = format!("<html><body><p>{WORDS}</p></body></html>");
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(page.as_bytes()).unwrap();
    let chunk = format!("{:x}\r\n{page}\r\n0\r\n\r\n", page.len());
    let html = "200 OK\r\nContent-Type: text/html";
    let archive = [
        answer("gzip", &format!("{html}\r\nContent-Encoding: gzip"), &compressed.finish().unwrap()),
        answer("chunked", &format!("{html}\r\nTransfer-Encoding: chunked"), chunk.as_bytes()),
        answer("lzw", &format!("{html}\r\nContent-Encoding: compress"), b"x"),
        answer("image", "200 OK\r\nContent-Type: image/png", b"x"),
        answer("gbk", &format!("{html}; charset=gbk"), &GBK.encode(&page).0),
        answer("moved", "301 Moved\r\nContent-Type: text/html", b"x"),
        answer("none", "404 Not Found\r\nContent-Type: text/html", b"x"),
    ];
    fs::write(data.path().join("a.warc"), archive.concat()).unwrap();
    let (succeeded, stderr) = import(&server, data.path(), &["a.warc"], &[]).await;
    assert!(succeeded && stderr.contains("3 created"), "{stderr}");
    let skipped = "4 records passed over: 1 not pages, 2 of another status, 1 packed with an unknown coding";
    assert!(stderr.contains(skipped), "{stderr}");
    let hash = async |id: &str| server.json(&format!("/documents/{id}")).await["hash"].clone();
    assert_eq!(hash("gzip").await, hash("gbk").await);
    assert_eq!(hash("gzip").await, hash("chunked").await);
}

#[tokio::test]
async fn an_import_waits_for_the_rate_limit_and_keeps_standard_input() {
    let data = directory();
    let d = data.path().join("d");
    let create = ["keys", "create", "slow", "--role", "write", "--rate", "1", "--data", d.to_str().unwrap()];
    let key = String::from_utf8(command(&create).output().unwrap().stdout).unwrap().trim().to_owned();
    let server = Server::start(&d).await;
    let file = data.path().join("a.jsonl");
    fs::write(&file, lines(0..2)).unwrap();
    let file = file.to_str().unwrap();
    for (number, name) in [file, "-", file].into_iter().enumerate() {
        // Use up the units of the key, which saves those of two seconds.
        let request = || server.client.get(format!("{}/stats", server.url)).bearer_auth(&key).send();
        while request().await.unwrap().status().as_u16() == 200 {}
        let mut child = command(&["import", name, "--url", &server.url, "--key", &key, "--restart"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(lines(2..4).as_bytes()).unwrap();
        let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
        let (succeeded, stderr) = outcome(&output);
        let expected = if number < 2 { "2 created" } else { "2 updated" };
        assert!(succeeded && stderr.contains(expected), "{stderr}");
        assert_eq!(stderr.matches("has used its 1 units").count(), 1, "{stderr}");
    }
}
