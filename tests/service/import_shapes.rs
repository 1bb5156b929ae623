//! Import of files as people have them: fields of any names, charsets, delimiters, arrays, folders and
//! archives, in several languages, without options where that is possible.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use encoding_rs::{BIG5, Encoding, GBK, SHIFT_JIS};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::server::{Server, command, directory};

const CHINESE: &str = "市图书馆昨天宣布，从下个月开始延长周末的\
    开放时间，读者可以在馆内阅读到晚上十点。";
const TRADITIONAL: &str = "市圖書館昨天宣布，從下個月開始延長週末的\
    開放時間，讀者可以在館內閱讀到晚上十點。";
const JAPANESE: &str = "市立図書館は昨日、来月から週末の開館時間を\
    延長し、夜十時まで読書ができると発表しました。";
const GERMAN: &str = "Die Bücherei öffnet ab nächstem Monat auch sonntags, wie die Stadt gestern sagte.";
const RUSSIAN: &str = "Городская библиотека со следующего месяца \
    будет работать по выходным до десяти вечера.";
const ENGLISH: &str =
    "The city library will open on Sundays from next month, the council announced yesterday.";

/// Runs a command in a folder. Returns whether it succeeded, and its standard error.
async fn run(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = command(arguments);
    command.current_dir(folder);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// Creates a collection and imports into it. Returns the documents by their texts, without ids that the
/// server made, and the standard error.
async fn imported(
    server: &Server,
    folder: &Path,
    name: &str,
    arguments: &[&str],
) -> (BTreeMap<String, Value>, String) {
    let (status, _) = server.put(&format!("/collections/{name}"), json!({"keep_text": true})).await;
    assert!(status.is_success());
    let all = [&["import", "--url", &server.url, "--collection", name], arguments].concat();
    let (_, stderr) = run(folder, &all).await;
    let export = server.get(&format!("/collections/{name}/export")).await.text().await.unwrap();
    let documents = export.lines().skip(1).map(|line| {
        let mut document: Value = serde_json::from_str(line).unwrap();
        let is_made = document["id"].as_str().is_some_and(|id| uuid::Uuid::parse_str(id).is_ok());
        let object = document.as_object_mut().unwrap();
        object.retain(|name, _| name != "arrival" && name != "exported");
        if is_made {
            object.remove("id");
        }
        let Some(Value::String(text)) = object.remove("text") else { panic!("{document}") };
        (text, document)
    });
    (documents.collect(), stderr)
}

#[tokio::test]
async fn lines_of_known_collections_and_arrays_need_no_options() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let write = |name: &str, text: String| fs::write(data.path().join(name), text).unwrap();
    let time = "2019-04-25T12:57:54Z";
    write("c4.jsonl", json!({"text": GERMAN, "timestamp": time, "url": "https://e.org/"}).to_string());
    let dolma = json!({"id": "d", "text": ENGLISH, "source": "s", "added": time, "created": time,
        "metadata": {"url": "u", "length": 7}});
    write("dolma.jsonl", format!("\n{dolma}\n"));
    write("pile.jsonl", json!({"text": CHINESE, "meta": {"pile_set_name": "Pile-CC"}}).to_string());
    let array = json!([{"id": 12, "text": RUSSIAN, "lang": "ru"}, {"title": "no text"}]);
    write("array.json", format!("\u{feff}{}\n", serde_json::to_string_pretty(&array).unwrap()));
    let files = ["c4.jsonl", "dolma.jsonl", "pile.jsonl", "array.json"];
    let (found, stderr) = imported(&server, data.path(), "shapes", &files).await;
    let metadata = json!({"source": "s", "added": time, "created": time, "url": "u", "length": 7});
    let expected = [
        (GERMAN, json!({"metadata": {"timestamp": time, "url": "https://e.org/"}})),
        (ENGLISH, json!({"id": "d", "metadata": metadata})),
        (CHINESE, json!({"metadata": {"meta": {"pile_set_name": "Pile-CC"}}})),
        (RUSSIAN, json!({"id": "12", "metadata": {"lang": "ru"}})),
    ];
    let expected: BTreeMap<String, Value> =
        expected.into_iter().map(|(text, rest)| (text.to_owned(), rest)).collect();
    assert_eq!(found, expected, "{stderr}");
    let missing = "array.json:7: there is no field \"text\"; there are title; --text-field names another one";
    assert!(stderr.contains(missing) && stderr.contains("4 created") && stderr.contains("1 bad"), "{stderr}");
    // An export of these documents, which has their metadata, is imported unchanged.
    let exported = ["export", "--url", &server.url, "--collection", "shapes", "--output", "all.jsonl"];
    assert!(run(data.path(), &exported).await.0);
    let (again, stderr) = imported(&server, data.path(), "again", &["all.jsonl"]).await;
    assert_eq!(again.len(), 4, "{stderr}");
    assert!(
        again.iter().all(|(text, document)| document["metadata"] == found[text]["metadata"]),
        "{again:?}"
    );
}

#[tokio::test]
async fn fields_columns_charsets_and_delimiters_are_named_or_detected() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let write = |name: &str, charset: &'static Encoding, text: &str| {
        fs::write(data.path().join(name), charset.encode(text).0).unwrap();
    };
    write("gbk.csv", GBK, &format!("id;text;栏目\n1;\"{CHINESE}\";本地\n"));
    write("big5.tsv", BIG5, &format!("id\ttext\n2\t{TRADITIONAL}\n"));
    write("sjis.csv", SHIFT_JIS, &format!("id,text\n3,{JAPANESE}\n"));
    write("gbk.txt", GBK, CHINESE.replace("晚上", "早上").as_str());
    let (found, stderr) =
        imported(&server, data.path(), "detected", &["gbk.csv", "big5.tsv", "sjis.csv", "gbk.txt"]).await;
    assert!(stderr.contains("4 created"), "{stderr}");
    assert_eq!(found[CHINESE], json!({"id": "1", "metadata": {"栏目": "本地"}}));
    assert_eq!((&found[TRADITIONAL]["id"], &found[JAPANESE]["id"]), (&json!("2"), &json!("3")));
    for (name, charset, file) in
        [("a", "gb18030", "gbk.csv"), ("b", "big5", "big5.tsv"), ("c", "shift_jis", "sjis.csv")]
    {
        let (named, stderr) = imported(&server, data.path(), name, &[file, "--charset", charset]).await;
        assert!(named.len() == 1 && named.iter().all(|(text, rest)| found[text] == *rest), "{stderr}");
    }
    let line = json!({"doc": {"body": GERMAN, "key": 7}, "lang": "de", "seen": 3}).to_string();
    fs::write(data.path().join("deep.jsonl"), line).unwrap();
    let options = ["deep.jsonl", "--text-field", "doc.body", "--id-field", "doc.key"];
    let (found, stderr) = imported(&server, data.path(), "all", &options).await;
    let expected = json!({"id": "7", "metadata": {"doc": {"key": 7}, "lang": "de", "seen": 3}});
    assert_eq!(found[GERMAN], expected, "{stderr}");
    let options = [&options[..], &["--metadata", "lang,doc.key"]].concat();
    let (found, _) = imported(&server, data.path(), "some", &options).await;
    assert_eq!(found[GERMAN]["metadata"], json!({"lang": "de", "doc.key": 7}));
    let (_, stderr) = run(data.path(), &["import", "gbk.csv", "--charset", "klingon"]).await;
    assert!(stderr.contains("there is no charset \"klingon\"; examples: "), "{stderr}");
}

#[tokio::test]
async fn folders_patterns_and_archives_mean_the_files_in_them() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let folder = data.path().join("crawl");
    fs::create_dir_all(folder.join("b")).unwrap();
    let line = |id: &str, text: &str| format!("{}\n", json!({"id": id, "text": text, "n": 1}));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(line("2", RUSSIAN).as_bytes()).unwrap();
    let files: [(&str, Vec<u8>); 4] = [
        ("a.jsonl", line("1", GERMAN).into_bytes()),
        ("b/c.jsonl.gz", packed.finish().unwrap()),
        ("d.csv", format!("id|text\n3|{CHINESE}\n").into_bytes()),
        ("ignored.png", b"\x89PNG".to_vec()),
    ];
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in &files {
        fs::write(folder.join(name), bytes).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    let archive = archive.into_inner().unwrap().finish().unwrap();
    fs::write(data.path().join("crawl.tar.gz"), &archive).unwrap();
    fs::write(data.path().join("cut.tgz"), &archive[..archive.len() / 2]).unwrap();
    let one_by_one = ["crawl/a.jsonl", "crawl/b/c.jsonl.gz", "crawl/d.csv"];
    let (expected, stderr) = imported(&server, data.path(), "files", &one_by_one).await;
    assert!(expected.len() == 3 && stderr.contains("3 created"), "{stderr}");
    for (name, argument) in [("folder", "crawl"), ("pattern", "c*l/**/*.[jc]s*"), ("archive", "crawl.tar.gz")]
    {
        let (found, stderr) = imported(&server, data.path(), name, &[argument]).await;
        assert_eq!(found, expected, "{stderr}");
        assert_eq!(
            stderr.contains("not read, by the ending: 1 file in the folders"),
            name == "folder",
            "{stderr}"
        );
    }
    let (_, stderr) = imported(&server, data.path(), "cut", &["cut.tgz", "crawl/d.csv"]).await;
    assert!(stderr.contains("cut.tgz:1: the archive cannot be read further"), "{stderr}");
}

#[tokio::test]
async fn metadata_beyond_the_limit_is_refused_with_the_way_out() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let big = json!({"id": "big", "text": ENGLISH, "raw": "x".repeat(20_000)});
    let deep = json!({"id": "twice", "text": GERMAN, "lang": "de", "metadata": {"lang": "en"}});
    fs::write(data.path().join("a.jsonl"), format!("{big}\n{deep}\n")).unwrap();
    let (found, stderr) = imported(&server, data.path(), "limits", &["a.jsonl"]).await;
    assert!(found.is_empty() && stderr.contains("2 bad lines"), "{stderr}");
    let refused = "a.jsonl:1: invalid_field: metadata has 20010 bytes; at most 16384 are kept";
    for expected in [refused, "--metadata none leaves all out", "a.jsonl:2: two values of the field \"lang\""]
    {
        assert!(stderr.contains(expected), "no {expected:?} in {stderr}");
    }
    let options = ["a.jsonl", "--metadata", "none"];
    let (found, stderr) = imported(&server, data.path(), "none", &options).await;
    assert_eq!(found[ENGLISH], json!({"id": "big"}), "{stderr}");
    assert_eq!(found.len(), 2);
}

#[tokio::test]
async fn records_of_archives_keep_their_place_and_recaptures_stay_apart() {
    let data = directory();
    let server = Server::start(&data.path().join("d")).await;
    let record = |date: &str, text: &str| {
        let body = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{text}");
        let head = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://e.org/a\r\nWARC-Date: {date}\r\n\
             WARC-Payload-Digest: sha1:{}\r\nContent-Length: {}\r\n\r\n",
            text.len(),
            body.len()
        );
        format!("{head}{body}\r\n\r\n")
    };
    let dates = ["2024-01-02T03:04:05Z", "2025-01-02T03:04:05Z", "2026-01-02T03:04:05Z"];
    let mut archive = Vec::new();
    for (date, text) in dates.iter().zip([ENGLISH, GERMAN, ENGLISH]) {
        let mut member = GzEncoder::new(&mut archive, Compression::fast());
        member.write_all(record(date, text).as_bytes()).unwrap();
        member.finish().unwrap();
    }
    fs::write(data.path().join("a.warc.gz"), &archive).unwrap();
    let arguments = ["import", "--url", &server.url, "a.warc.gz"];
    let (succeeded, stderr) = run(data.path(), &arguments).await;
    assert!(succeeded && stderr.contains("3 created"), "{stderr}");
    for date in dates {
        let id = format!("http%3A%2F%2Fe.org%2Fa@{date}");
        let metadata = server.json(&format!("/documents/{id}")).await["metadata"].clone();
        let offset = metadata["offset"].as_u64().unwrap() as usize;
        let expected = json!({"url": "http://e.org/a", "date": date, "status": 200, "offset": offset});
        assert_eq!(metadata, expected);
        let mut own = String::new();
        GzDecoder::new(&archive[offset..]).read_to_string(&mut own).unwrap();
        assert!(own.contains(date), "{own}");
    }
    for (id, made) in [("url", "1 created, 2 updated"), ("digest", "2 created, 1 updated")] {
        server.put(&format!("/collections/{id}"), json!({})).await;
        let more = ["--restart", "--collection", id, "--id", id];
        let (_, stderr) = run(data.path(), &[&arguments[..], &more].concat()).await;
        assert!(stderr.contains(made), "{id}: {stderr}");
    }
}

#[tokio::test]
async fn fingerprint_explains_what_to_do_with_many_documents() {
    let data = directory();
    for name in ["a.jsonl", "b.csv", "c.warc.gz", "d.tar", "e.tar.gz", "f.tgz"] {
        fs::write(data.path().join(name), "{\"text\": \"a\"}\n").unwrap();
        let (succeeded, stderr) = run(data.path(), &["fingerprint", name]).await;
        for expected in [format!("{name}: it has many documents"), format!("`lookalike import {name}`")] {
            assert!(!succeeded && stderr.contains(&expected), "no {expected:?} in {stderr}");
        }
        // `dedupe` takes no archives of files.
        let is_tar = name.contains(".t");
        assert_eq!(stderr.contains(&format!("`lookalike dedupe {name} -o FOLDER`")), !is_tar, "{stderr}");
    }
}
