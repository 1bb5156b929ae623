//! Exports of collections that keep no texts: their sketches move with them, and no other sketch is taken.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::server::{Server, command, directory};

const WORDS: [&str; 8] = ["harbour", "ferry", "storm", "captain", "图书馆", "周末", "读者", "城市"];

/// A text of sixty words; three adjacent numbers share all but a few.
fn text(number: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(number / 3);
    let words: Vec<String> =
        (0..60).map(|_| format!("{}{}", WORDS[rng.usize(..WORDS.len())], rng.u32(..300))).collect();
    format!("{} ending{} and{}", words.join(" "), number % 3, number % 3)
}

async fn fill(server: &Server, name: &str, settings: Value) {
    let (status, made) = server.put(&format!("/collections/{name}"), settings).await;
    assert!(status.is_success(), "{made}");
    let line = |number: u64| {
        let mut line = json!({"id": format!("d{number:03}"), "text": text(number)});
        match number % 3 {
            0 => line["metadata"] = json!({"n": number, "名": "é"}),
            1 => line["expires_at"] = json!("2100-01-01T00:00:00Z"),
            _ => {}
        }
        line.to_string() + "\n"
    };
    let (_, summary) =
        server.stream(&format!("/collections/{name}/documents"), (0..90).map(line).collect()).await;
    assert_eq!(summary["created"], 90);
}

/// Answers that need the sketches of stored documents.
async fn answers(server: &Server, name: &str) -> Vec<Value> {
    let mut answers = Vec::new();
    for number in 0..90 {
        for query in [json!({"id": format!("d{number:03}")}), json!({"text": text(number)})] {
            let mut query = query;
            query["min_similarity"] = json!(0.5);
            query["k"] = json!(40);
            let (status, found) = server.post(&format!("/collections/{name}/similar"), query).await;
            assert_eq!(status, 200, "{found}");
            assert!(!found["similar"].as_array().unwrap().is_empty(), "{found}");
            answers.push(found);
        }
        let [a, b] = [number, (number + 1) % 90].map(|number| json!({"id": format!("d{number:03}")}));
        let (status, compared) =
            server.post(&format!("/collections/{name}/compare"), json!({"a": a, "b": b})).await;
        assert_eq!((status.as_u16(), &compared["compared"]), (200, &json!("sketches")), "{compared}");
        answers.push(compared);
    }
    answers
}

async fn run(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = command(arguments);
    command.current_dir(folder);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn a_collection_without_texts_moves_with_its_sketches() {
    for settings in [json!({}), json!({"sketch_bytes": 16, "profile": "short-128"})] {
        let (data, folder) = ([directory(), directory()], directory());
        let from = Server::start(data[0].path()).await;
        fill(&from, "news", settings.clone()).await;
        let (succeeded, stderr) =
            run(folder.path(), &["export", "--url", &from.url, "--collection", "news", "-o", "a.ndjson"])
                .await;
        assert!(succeeded, "{stderr}");
        let expected = answers(&from, "news").await;
        let to = Server::start(data[1].path()).await;
        to.put("/collections/news", settings.clone()).await;
        let (succeeded, stderr) =
            run(folder.path(), &["import", "--url", &to.url, "--collection", "news", "a.ndjson"]).await;
        assert!(succeeded && stderr.contains("90 created"), "{stderr}");
        let exported = fs::read_to_string(folder.path().join("a.ndjson")).unwrap();
        let again = to.get("/collections/news/export").await.text().await.unwrap();
        assert_eq!(again, exported);
        let bytes = settings["sketch_bytes"].as_u64().unwrap_or(32) as usize;
        for (at, line) in exported.lines().enumerate() {
            let line: Value = serde_json::from_str(line).unwrap();
            if at == 0 {
                assert_eq!(line["export"]["sketch_bytes"], json!(bytes), "{line}");
            } else {
                assert_eq!(line["sketch"].as_str().map(str::len), Some(2 * bytes), "{line}");
            }
        }
        assert_eq!(answers(&to, "news").await, expected);
    }
}

#[tokio::test]
async fn texts_and_signatures_are_exported_without_sketches() {
    let data = directory();
    let server = Server::start(data.path()).await;
    fill(&server, "kept", json!({"keep_text": true})).await;
    fill(&server, "signed", json!({"profile": "minhash"})).await;
    fill(&server, "bare", json!({"sketch_bytes": 0})).await;
    for (name, field) in [("kept", "text"), ("signed", "signature"), ("bare", "hash")] {
        for line in server.export(&format!("/collections/{name}/export")).await.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(line.get("sketch").is_none() && line[field].is_string(), "{line}");
        }
    }
}

#[tokio::test]
async fn a_sketch_that_cannot_be_checked_or_compared_is_refused_with_the_way_out() {
    let data = directory();
    let server = Server::start(data.path()).await;
    fill(&server, "news", json!({})).await;
    server.put("/collections/bare", json!({"sketch_bytes": 0})).await;
    server.put("/collections/larger", json!({"sketch_bytes": 64})).await;
    let export = server.get("/collections/news/export").await.text().await.unwrap();
    let mut good: Value = serde_json::from_str(export.lines().nth(1).unwrap()).unwrap();
    good["profile"] = json!("copies-64");
    good.as_object_mut().unwrap().remove("exported");
    let with = |name: &str, value: Value| {
        let mut other = good.clone();
        other[name] = value;
        other
    };
    let mut unnamed = good.clone();
    unnamed.as_object_mut().unwrap().remove("profile");
    let mut text = with("text", json!(text(1)));
    for name in ["hash", "characters"] {
        text.as_object_mut().unwrap().remove(name);
    }
    let digits = good["sketch"].as_str().unwrap();
    for (name, document, field, parts) in [
        ("news", unnamed, "/profile", ["a sketch needs what made it", "copies-64@1"]),
        ("news", text, "/sketch", ["a hash in place of its text", "leave it out"]),
        ("news", with("sketch", json!(digits[..62])), "/sketch", ["31 bytes", "sketches of 32 bytes"]),
        ("news", with("sketch", json!(digits[..63])), "/sketch", ["16 to 2048", "hexadecimal digits"]),
        ("news", with("sketch", json!("")), "/sketch", ["16 to 2048", "GET /export"]),
        ("news", with("sketch", json!("xy".repeat(32))), "/sketch", ["16 to 2048", "two per byte"]),
        ("bare", good.clone(), "/sketch", ["keeps no sketches", "\"sketch_bytes\": 32"]),
        ("larger", good.clone(), "/sketch", ["sketches of 64 bytes", "leave sketch out"]),
    ] {
        let (status, problem) =
            server.post(&format!("/collections/{name}/documents"), document.clone()).await;
        assert_eq!(status, 422, "{document} {problem}");
        assert_eq!(problem["errors"][0]["pointer"], field, "{problem}");
        for part in parts {
            assert!(problem["detail"].as_str().unwrap().contains(part), "no {part:?} in {problem}");
        }
    }
    let (status, mismatch) =
        server.post("/collections/news/documents", with("profile", json!("pairs-64"))).await;
    assert_eq!((status.as_u16(), &mismatch["code"]), (409, &json!("profile_mismatch")));
    let (status, stored) = server.post("/collections/news/documents", good.clone()).await;
    assert_eq!((status.as_u16(), &stored["outcome"]), (200, &json!("updated")), "{stored}");

    // The header says it for all lines, before any is read.
    for name in ["bare", "larger"] {
        let request = server.client.post(format!("{}/collections/{name}/documents", server.url));
        let request = request.header("content-type", "application/x-ndjson").body(export.clone());
        let refused = request.send().await.unwrap();
        assert_eq!(refused.status(), 422);
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["errors"][0]["pointer"], "/export/sketch_bytes", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("\"sketch_bytes\": 32"), "{problem}");
        assert_eq!(server.json(&format!("/collections/{name}")).await["documents"], 0);
    }
}

/// An article of invented words; articles of other numbers share no passage with it.
fn article(number: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(1_000 + number);
    let word = |rng: &mut fastrand::Rng| -> String { (0..6).map(|_| rng.lowercase()).collect() };
    (0..160).map(|at| word(&mut rng) + if at % 12 == 11 { ". " } else { " " }).collect()
}

/// The answers to pages that each contain one article.
async fn found_by_passages(server: &Server, name: &str) -> Vec<Value> {
    let mut answers = Vec::new();
    for number in 0..50 {
        let page = [article(7_000 + number), article(number), article(8_000 + number)].join("\n");
        let query = json!({"text": page, "min_containment": 0.5});
        let (status, found) = server.post(&format!("/collections/{name}/similar"), query).await;
        assert_eq!(status, 200, "{found}");
        let mut found = found["passages"]["documents"].clone();
        // Clusters have the same members and other numbers.
        for document in found.as_array_mut().unwrap() {
            document.as_object_mut().unwrap().remove("cluster");
        }
        answers.push(found);
    }
    answers
}

#[tokio::test]
async fn a_collection_without_texts_moves_with_its_passages_and_all_else() {
    let settings = json!({"passages": true, "clusters": {"keep": "first"}});
    for settings in [settings, json!({"passages": "exact", "profile": "minhash"}), json!({"sketch_bytes": 0})]
    {
        let (data, folder) = ([directory(), directory()], directory());
        let from = Server::start(data[0].path()).await;
        from.put("/collections/news", settings.clone()).await;
        let line = |number: u64| {
            let id = format!("a{:02}", (number * 7) % 50);
            let mut line = json!({"id": id, "text": article((number * 7) % 50)});
            if number.is_multiple_of(3) {
                line["metadata"] = json!({"n": number});
            }
            line.to_string() + "\n"
        };
        from.stream("/collections/news/documents", (0..50).map(line).collect()).await;
        from.put("/collections/news/documents/short", json!({"text": "two words"})).await;
        let (_, features) = from.post("/fingerprint", json!({"text": "a b c d e f"})).await;
        let signed = settings["profile"] == "minhash";
        if !signed {
            from.put("/collections/news/documents/given", json!({"hash": features["hash"]})).await;
        }
        let has_passages = !settings["passages"].is_null();
        let expected = if has_passages { found_by_passages(&from, "news").await } else { Vec::new() };
        assert!(expected.iter().all(|found| found.as_array().unwrap().len() == 1), "{expected:?}");
        let (succeeded, stderr) =
            run(folder.path(), &["export", "--url", &from.url, "--collection", "news", "-o", "a.ndjson"])
                .await;
        assert!(succeeded, "{stderr}");
        // The clock of the second server is past all times of the export.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let to = Server::start(data[1].path()).await;
        to.put("/collections/news", settings.clone()).await;
        let (succeeded, stderr) =
            run(folder.path(), &["import", "--url", &to.url, "--collection", "news", "a.ndjson"]).await;
        assert!(succeeded, "{stderr}");
        let exported = fs::read_to_string(folder.path().join("a.ndjson")).unwrap();
        assert_eq!(to.get("/collections/news/export").await.text().await.unwrap(), exported);
        if has_passages {
            assert_eq!(found_by_passages(&to, "news").await, expected);
        }
        for line in exported.lines().skip(1) {
            let line: Value = serde_json::from_str(line).unwrap();
            let route = format!("/collections/news/documents/{}", line["id"].as_str().unwrap());
            let (before, after) = (from.get(&route).await, to.get(&route).await);
            assert_eq!(before.headers()["etag"], after.headers()["etag"], "{line}");
            let [mut before, mut after]: [Value; 2] =
                [before.json().await.unwrap(), after.json().await.unwrap()];
            // The number of a cluster is that of its server; the document that represents it is the same.
            for document in [&mut before, &mut after] {
                document["cluster"] = document["cluster"]["representative"].take();
            }
            assert_eq!(before, after);
            assert_eq!(before["written_at"], line["exported"]["written_at"]);
            assert_eq!(before["status"], line["exported"]["status"]);
            assert_eq!(before["features"], line["exported"]["features"]);
            let is_article = line["id"].as_str().unwrap().starts_with('a');
            assert_eq!(line["exported"]["grams"].is_string(), is_article && has_passages, "{line}");
        }
    }
}

#[tokio::test]
async fn what_an_export_has_and_a_collection_cannot_use_is_refused_before_it_is_read() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/news", json!({"passages": true})).await;
    server.put("/collections/plain", json!({})).await;
    server.put("/collections/exact", json!({"passages": "exact"})).await;
    server.post("/collections/news/documents", json!({"id": "a", "text": article(1)})).await;
    let export = server.get("/collections/news/export").await.text().await.unwrap();
    let array = format!("[{}]", export.trim_end().replace('\n', ","));
    for (route, kind, body) in [
        ("/collections/plain/documents", "application/x-ndjson", export.clone()),
        ("/collections/exact/documents", "application/x-ndjson", export.clone()),
        ("/collections/plain/batch/documents", "application/json", array),
    ] {
        let request = server.client.post(format!("{}{route}", server.url)).header("content-type", kind);
        let refused = request.body(body).send().await.unwrap();
        assert_eq!(refused.status(), 422);
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["errors"][0]["pointer"], "/export/passages", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("\"passages\": true"), "{problem}");
    }
    assert_eq!(server.json("/collections/plain").await["documents"], 0);

    // Lines that cannot have come from an export.
    let line: Value = serde_json::from_str(export.lines().nth(1).unwrap()).unwrap();
    let header = export.lines().next().unwrap();
    let with = |member: &str, value: Value| {
        let mut other = line.clone();
        other["id"] = json!("b");
        other["exported"][member] = value;
        other
    };
    let grams = line["exported"]["grams"].as_str().unwrap();
    let mut text = with("features", json!(3));
    for member in ["hash", "characters", "sketch"] {
        text.as_object_mut().unwrap().remove(member);
    }
    text["text"] = json!(article(1));
    let cases = [
        (with("grams", json!(format!("{}{}", &grams[32..64], &grams[..32]))), "/exported/grams"),
        (with("grams", json!("0".repeat(31))), "/exported/grams"),
        (with("grams", json!(grams.repeat(2))), "/exported/grams"),
        (with("status", json!("empty")), "/exported/status"),
        (with("status", Value::Null), "/exported/status"),
        (with("other", json!(1)), "/exported/other"),
        (text, "/exported"),
    ];
    for (bad, pointer) in cases {
        let lines = format!("{header}\n{bad}\n");
        let (results, summary) = server.stream("/collections/news/documents", lines).await;
        assert_eq!(summary["errors"], 1, "{bad} {results:?}");
        assert_eq!(results[0]["error"]["errors"][0]["pointer"], pointer, "{bad} {results:?}");
    }
    // Its header may promise texts; then the line says it.
    let header = header.replace("\"keep_text\":false", "\"keep_text\":true");
    let (results, _) = server.stream("/collections/plain/documents", format!("{header}\n{line}\n")).await;
    assert_eq!(results[0]["error"]["errors"][0]["pointer"], "/exported/grams", "{results:?}");
}

#[tokio::test]
async fn a_time_of_writing_is_never_in_the_future_and_never_goes_back() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let store = async |at: &str| {
        let exported = json!({"written_at": at});
        let line = json!({"id": "a", "hash": "00000000000000ff", "exported": exported});
        let lines = format!("{}\n{line}\n", json!({"export": {"profile": "copies-64"}}));
        let (results, summary) = server.stream("/documents", lines).await;
        assert_eq!(summary["errors"], 0, "{results:?}");
        server.json("/documents/a").await["written_at"].as_str().unwrap().to_owned()
    };
    assert_eq!(store("2020-01-02T03:04:05.678Z").await, "2020-01-02T03:04:05.678Z");
    // It is stored already, so this is another write.
    assert_eq!(store("2020-01-02T03:04:05.678Z").await, "2020-01-02T03:04:05.679Z");
    assert_eq!(store("2019-01-01T00:00:00Z").await, "2020-01-02T03:04:05.680Z");
    assert_eq!(store("2021-01-01T00:00:00Z").await, "2021-01-01T00:00:00.000Z");
    let future = store("2999-01-01T00:00:00Z").await;
    assert!(("2026".."2999").contains(&future.as_str()), "{future}");
    // A line of an export may be sent alone.
    let alone = json!({"hash": "00000000000000ff", "exported": {"written_at": "2020-01-02T03:04:05.678Z"}});
    assert_eq!(server.put("/documents/b", alone).await.0, 201);
    assert_eq!(server.json("/documents/b").await["written_at"], "2020-01-02T03:04:05.678Z");
}

#[tokio::test]
async fn an_export_says_what_it_does_not_have() {
    let (data, folder) = (directory(), directory());
    let server = Server::start(data.path()).await;
    for (id, hash) in [("a", "00000000000000ff"), ("b", "00000000000000fe")] {
        server.post("/documents", json!({"id": id, "hash": hash})).await;
    }
    let (succeeded, stderr) = run(folder.path(), &["export", "--url", &server.url, "-o", "a"]).await;
    assert!(succeeded && !stderr.contains("mark"), "{stderr}");
    let (status, marked) = server.post("/marks", json!({"marks": [{"ids": ["a", "b"]}]})).await;
    assert!(status.is_success(), "{marked}");
    let (succeeded, stderr) = run(folder.path(), &["export", "--url", &server.url, "-o", "b"]).await;
    assert!(succeeded && stderr.starts_with("the collection has 1 mark, which"), "{stderr}");
    let exported = fs::read_to_string(folder.path().join("b")).unwrap();
    let header: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert_eq!(header["export"]["marks"], 1);
}
