//! Tar and web archives as other programs write them: `import` and `dedupe` read the same files and records
//! of them, and give the same reasons for the others.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::dedupe::{dedupe, done, refused};
use crate::server::{Server, command, directory};

const TEXTS: [&str; 3] = [
    "The harbour ferry will run every twenty minutes during the summer festival, the council said.",
    "The museum shows maps of the old town until October, and the entrance is free on Mondays.",
    "A new bridge for bicycles opens next spring after two years of work beside the railway.",
];

fn line(number: usize) -> String {
    format!("{}\n", json!({"id": format!("d{number}"), "text": TEXTS[number]}))
}

/// Adds an entry of any kind, with any name.
fn add(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, content: &str) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, content.as_bytes()).unwrap();
}

/// Imports a file into a new collection. Returns whether that succeeded, the standard error, and the texts.
async fn imported(server: &Server, folder: &Path, file: &str) -> (bool, String, Vec<String>) {
    let name = file.replace('.', "-");
    let (status, _) = server.put(&format!("/collections/{name}"), json!({"keep_text": true})).await;
    assert!(status.is_success());
    let mut import = command(&["import", "--url", &server.url, "--collection", &name, file]);
    import.current_dir(folder);
    let output = tokio::task::spawn_blocking(move || import.output().unwrap()).await.unwrap();
    let export = server.get(&format!("/collections/{name}/export")).await.text().await.unwrap();
    let text = |line: &str| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().to_owned();
    let mut texts: Vec<String> = export.lines().skip(1).map(text).collect();
    texts.sort();
    (output.status.success(), String::from_utf8(output.stderr).unwrap(), texts)
}

#[tokio::test]
async fn files_of_tar_archives_are_read_or_named() {
    let data = directory();
    let (server, path) = (Server::start(&data.path().join("server")).await, data.path());
    let mut one = Builder::new(Vec::new());
    add(&mut one, EntryType::Regular, "/srv/a.jsonl", &line(0));
    add(&mut one, EntryType::Link, "link.jsonl", "");
    add(&mut one, EntryType::Symlink, "symbolic.jsonl", "");
    add(&mut one, EntryType::Fifo, "pipe.jsonl", "");
    add(&mut one, EntryType::Regular, "._a.jsonl", "\0\u{5}\u{16}\u{7}\0\u{2}\0\0Mac OS X");
    add(&mut one, EntryType::Regular, "inner.tar", "");
    add(&mut one, EntryType::Regular, "t.parquet", "");
    let mut two = Builder::new(Vec::new());
    let copy = line(0).replace("d0", "d9");
    add(&mut two, EntryType::Regular, "../b.jsonl", &(line(1) + &copy));
    add(&mut two, EntryType::Regular, "notes.pdf", "");
    let two = two.into_inner().unwrap();
    let both = [one.into_inner().unwrap(), two.clone()].concat();
    fs::write(path.join("both.tar"), &both).unwrap();
    let (succeeded, stderr, texts) = imported(&server, path, "both.tar").await;
    assert!(succeeded && texts == [TEXTS[0], TEXTS[0], TEXTS[1]], "{texts:?} {stderr}");
    let output = dedupe(path, &["both.tar", "-o", "out"]);
    let of_dedupe = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{of_dedupe}");
    for (name, reason) in [
        ("link.jsonl", "stored as a hard link"),
        ("symbolic.jsonl", "stored as a symbolic link"),
        ("pipe.jsonl", "a device or pipe"),
        ("._a.jsonl", "attributes of macOS"),
        ("inner.tar", "an archive in an archive"),
        ("t.parquet", "Parquet or Arrow in an archive"),
        ("notes.pdf", "of no known format"),
    ] {
        let expected = format!("both.tar/{name}: passed over, {reason}");
        assert!(stderr.contains(&expected), "no {expected:?} in {stderr}");
        assert!(of_dedupe.contains(&expected), "no {expected:?} in {of_dedupe}");
    }
    for stderr in [&stderr, &of_dedupe] {
        assert!(stderr.contains("7 records passed over: 1 of no known format, "), "{stderr}");
    }
    let bytes = fs::read(path.join("out/both.tar")).unwrap();
    let mut archive = tar::Archive::new(&*bytes);
    let written = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        (name, std::io::read_to_string(&mut entry).unwrap())
    });
    let expected = [("srv/a.jsonl".to_owned(), line(0)), ("b.jsonl".to_owned(), line(1))];
    assert_eq!(written.collect::<Vec<_>>(), expected);
    // Extracted, the second file would replace the first one.
    let mut twice = Builder::new(Vec::new());
    add(&mut twice, EntryType::Regular, "a.jsonl", &line(0));
    add(&mut twice, EntryType::Regular, "/a.jsonl", &line(1));
    fs::write(path.join("twice.tar"), twice.into_inner().unwrap()).unwrap();
    fs::remove_dir_all(path.join("out")).unwrap();
    let stderr = refused(path, &["twice.tar", "-o", "out"]);
    assert!(
        stderr.contains("twice.tar/a.jsonl and twice.tar//a.jsonl would both be extracted as a.jsonl"),
        "{stderr}"
    );
    // An archive that is cut off within a file.
    fs::write(path.join("cut.tar"), &two[..540]).unwrap();
    let (succeeded, stderr, _) = imported(&server, path, "cut.tar").await;
    assert!(!succeeded && stderr.contains("the archive ends within it"), "{stderr}");
}

#[tokio::test]
async fn records_of_web_archives_are_read_or_counted_by_reason() {
    let data = directory();
    let (server, path) = (Server::start(&data.path().join("server")).await, data.path());
    let number = std::cell::Cell::new(0);
    let record = |kind: &str, body: &str| {
        number.set(number.get() + 1);
        let (number, length) = (number.get(), body.len());
        let head = format!("WARC-Target-URI: http://e.org/{number}\r\nContent-Length: {length}");
        format!("WARC/1.0\r\nWARC-Type: {kind}\r\n{head}\r\n\r\n{body}\r\n\r\n")
    };
    let answer =
        |head: &str, text: &str| record("response", &format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{text}"));
    let archive = [
        record("warcinfo", "software: x"),
        answer("Content-Type: text/plain\r\nContent-Encoding: br", TEXTS[0]),
        record("response", &format!("HTTP/1.1 200 OK\nContent-Type: text/plain\n\n{}", TEXTS[1])),
        answer("Server: without a type", TEXTS[2]),
        answer("Content-Type: text/plain\r\nTransfer-Encoding: chunked", "19\r\nThe last chunk is missing"),
        answer("Content-Type: text/plain\r\nContent-Encoding: x-unknown", "whatever this is"),
        record("continuation\r\nWARC-Segment-Number: 2", "the rest"),
        record("revisit", "HTTP/1.1 200 OK\r\n\r\n"),
        answer("Content-Type: video/mp4", &"x".repeat(17 << 20)),
    ];
    fs::write(path.join("a.warc"), archive.concat()).unwrap();
    let (succeeded, stderr, texts) = imported(&server, path, "a.warc").await;
    assert_eq!(texts, [TEXTS[2], TEXTS[0], TEXTS[1]]);
    let expected = "5 records passed over: 1 with the content of an earlier record, 1 too large, \
                    1 in several segments, 1 cut off, 1 packed with an unknown coding";
    assert!(succeeded && stderr.contains(expected), "{stderr}");
    let stdout = done(path, &["a.warc", "-o", "out", "--k", "0"]);
    assert!(stdout.contains("3  kept") && stdout.contains(expected), "{stdout}");
    assert!(fs::read(path.join("out/a.warc")).unwrap() == archive.concat().as_bytes());
}
