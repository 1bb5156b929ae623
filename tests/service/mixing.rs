//! Hashes of two profiles do not mix: headers of exports, and the profile that a document or a query names.

use std::fs;
use std::path::Path;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, command, directory, lines, serve, without_header};

const TEXT: &str =
    "A short report about the weather in the mountains, where the first snow has fallen earlier.";

/// Sends lines of unknown length, of which the server cannot wait for the first.
async fn stream_chunked(server: &Server, route: &str, lines: &str) -> (Vec<Value>, Value) {
    let parts = [Ok::<_, std::io::Error>(lines.to_owned())];
    let body = reqwest::Body::wrap_stream(futures::stream::iter(parts));
    let request = server.client.post(format!("{}{route}", server.url));
    let request = request.header("content-type", "application/x-ndjson").body(body);
    let text = request.send().await.unwrap().text().await.unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap()["summary"].clone();
    (lines, summary)
}

async fn post_lines(server: &Server, route: &str, lines: &str) -> (StatusCode, Value) {
    let request = server.client.post(format!("{}{route}", server.url));
    let request = request.header("content-type", "application/x-ndjson").body(lines.to_owned());
    let answer = request.send().await.unwrap();
    (answer.status(), serde_json::from_str(answer.text().await.unwrap().lines().next().unwrap()).unwrap())
}

async fn run(arguments: &[&str], directory: &Path) -> (bool, String) {
    let mut command = command(arguments);
    command.current_dir(directory);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

fn mismatch(problem: &Value, pointer: &str) {
    assert_eq!(
        (&problem["code"], &problem["status"]),
        (&json!("profile_mismatch"), &json!(409)),
        "{problem}"
    );
    assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    for part in ["copies-64@1", "pairs-64@1", "Create a collection", "or send texts"] {
        assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
    }
}

/// A server with a collection of another profile of the same width.
async fn server(data: &Path) -> Server {
    let server = Server::start(data).await;
    assert!(server.put("/collections/topics", json!({"profile": "pairs-64"})).await.0.is_success());
    server
}

#[tokio::test]
async fn an_export_is_refused_by_a_collection_of_another_profile_of_the_same_width() {
    let data = directory();
    let server = server(data.path()).await;
    server.stream("/documents", lines(0..700)).await;
    let export = server.get("/export").await.text().await.unwrap();
    let header: Value = serde_json::from_str(export.lines().next().unwrap()).unwrap();
    let expected = json!({
        "collection": "default", "profile": "copies-64@1", "bits": 64, "keep_text": false, "sketch_bytes": 32,
        "passages": false,
        "representatives": false, "version": env!("CARGO_PKG_VERSION"),
    });
    assert_eq!(header["export"], expected);
    // As a whole, if the length of the body is known.
    let topics = "/collections/topics/documents";
    let (status, problem) = post_lines(&server, topics, &export).await;
    assert_eq!(status, StatusCode::CONFLICT);
    mismatch(&problem, "/export/profile");
    // Otherwise every line is refused.
    let (results, summary) = stream_chunked(&server, topics, &export).await;
    assert_eq!(summary, json!({"created": 0, "updated": 0, "duplicates": 0, "errors": 700}));
    assert_eq!(results[0]["index"], 1);
    mismatch(&results[0]["error"], "/export/profile");
    // As an array too.
    let array: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (status, problem) = server.post("/collections/topics/batch/documents", json!(array)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert_eq!(server.json("/collections/topics").await["documents"], 0);
    // A collection of its profile takes the same lines.
    server.put("/collections/copy", json!({})).await;
    let (_, answer) = server.post("/collections/copy/batch/documents", json!(array[..300])).await;
    assert_eq!((&answer["results"][0]["index"], &answer["summary"]["created"]), (&json!(1), &json!(299)));
    let (_, summary) = stream_chunked(&server, "/collections/copy/documents", &export).await;
    assert_eq!((&summary["created"], &summary["updated"]), (&json!(401), &json!(299)), "{summary}");
    assert_eq!(server.export("/collections/copy/export").await, without_header(&export));
}

#[tokio::test]
async fn every_header_of_concatenated_exports_holds_for_its_lines() {
    let data = directory();
    let server = server(data.path()).await;
    let line = |id: &str, hash: u64| format!("{{\"id\":\"{id}\",\"hash\":\"{hash:016x}\"}}\n");
    let header = |profile: &str| format!("{{\"export\": {{\"profile\": \"{profile}\"}}}}\n");
    let body = [
        line("before", 1),
        header("pairs-64@1"),
        line("refused", 2),
        format!("{{\"id\":\"text\",\"text\":\"{TEXT}\"}}\n"),
        "{\"id\":\"own\",\"hash\":\"0000000000000003\",\"profile\":\"copies-64\"}\n".to_owned(),
        header("copies-64@1"),
        line("after", 4),
        "{\"export\":7}\n".to_owned(),
        "{\"export\":null}\n".to_owned(),
        line("end", 5),
    ];
    for body in [body.concat(), body.join("\n")] {
        let (results, summary) = stream_chunked(&server, "/documents", &body).await;
        assert_eq!(summary["errors"], 2, "{results:?}");
        let codes: Vec<&str> = results.iter().filter_map(|result| result["error"]["code"].as_str()).collect();
        assert_eq!(codes, ["profile_mismatch", "invalid_field"], "{results:?}");
        mismatch(&results[1]["error"], "/profile");
    }
    for id in ["before", "text", "own", "after", "end"] {
        assert!(server.get(&format!("/documents/{id}")).await.status().is_success(), "{id}");
    }
    assert_eq!(server.get("/documents/refused").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn texts_of_an_export_are_fingerprinted_by_the_collection_that_gets_them() {
    let data = directory();
    let server = server(data.path()).await;
    server.put("/collections/kept", json!({"keep_text": true})).await;
    server.post("/collections/kept/documents", json!({"id": "text", "text": TEXT})).await;
    server.post("/collections/kept/documents", json!({"id": "hash", "hash": "00000000000000ff"})).await;
    let export = server.get("/collections/kept/export").await.text().await.unwrap();
    let (results, summary) = server.stream("/collections/topics/documents", export).await;
    assert_eq!((&summary["created"], &summary["errors"]), (&json!(1), &json!(1)), "{results:?}");
    mismatch(&results.iter().find(|result| result["error"].is_object()).unwrap()["error"], "/profile");
    let (_, made) = server.post("/fingerprint", json!({"text": TEXT, "profile": "pairs-64"})).await;
    assert_eq!(server.json("/collections/topics/documents/text").await["hash"], made["hash"]);
}

#[tokio::test]
async fn documents_and_queries_may_name_the_profile_of_their_hash() {
    let data = directory();
    let server = server(data.path()).await;
    let hash = "00000000000000ff";
    for own in ["copies-64@1", "copies-64"] {
        let (status, answer) =
            server.post("/documents", json!({"id": "a", "hash": hash, "profile": own})).await;
        assert!(status.is_success(), "{answer}");
        let query = json!({"hash": hash, "profile": own});
        assert_eq!(server.post("/similar", query.clone()).await.1["similar"][0]["id"], "a");
        let (_, several) = server.post("/batch/similar", json!({"queries": [{"id": "a"}, query]})).await;
        assert_eq!(several["results"][1]["similar"][0]["id"], "a", "{several}");
        assert!(server.get(&format!("/similar?hash={hash}&profile={own}")).await.status().is_success());
        let side = json!({"hash": hash, "profile": own});
        assert_eq!(server.post("/compare", json!({"a": side, "b": {"id": "a"}})).await.1["distance"], 0);
    }
    let other = json!({"hash": hash, "profile": "pairs-64@1"});
    for (route, body, pointer) in [
        ("/documents", other.clone(), "/profile"),
        ("/similar", other.clone(), "/profile"),
        ("/compare", json!({"a": {"id": "a"}, "b": other.clone()}), "/b/profile"),
    ] {
        let (status, problem) = server.post(route, body).await;
        assert_eq!(status, StatusCode::CONFLICT, "{problem}");
        mismatch(&problem, pointer);
    }
    for first in [json!({"hash": hash}), json!({"text": TEXT})] {
        let (_, batch) = server.post("/batch/similar", json!({"queries": [first, other.clone()]})).await;
        mismatch(&batch["results"][1]["error"], "/queries/1/profile");
    }
    assert_eq!(server.put("/documents/b", other).await.0, StatusCode::CONFLICT);
    let response = server.get(&format!("/similar?hash={hash}&profile=pairs-64")).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["errors"][0]["parameter"], "profile", "{problem}");
    // A name of no profile here is that of another server.
    let (status, problem) = server.post("/similar", json!({"hash": hash, "profile": "house@1+00"})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("profile_mismatch")), "{problem}");
    assert_eq!(server.documents().await, 1);
}

#[tokio::test]
async fn profiles_of_one_name_with_two_definitions_do_not_mix() {
    let data = directory();
    let start = async |name: &str, gram: u32| {
        let file = data.path().join(format!("{name}.toml"));
        fs::write(&file, format!("[house]\nlike = \"copies-64\"\ngram = {gram}\n")).unwrap();
        let variables = [
            ("LOOKALIKE_PROFILES__FILE", file.to_str().unwrap()),
            ("LOOKALIKE_COLLECTION__PROFILE", "house"),
        ];
        Server::launch(serve(&data.path().join(name), &variables)).await.unwrap()
    };
    let (one, same, other) = (start("one", 4).await, start("same", 4).await, start("other", 5).await);
    one.stream("/documents", lines(0..3)).await;
    let export = one.get("/export").await.text().await.unwrap();
    let (_, summary) = stream_chunked(&same, "/documents", &export).await;
    assert_eq!(summary["created"], 3, "{export}");
    let (status, problem) = post_lines(&other, "/documents", &export).await;
    assert_eq!(status, StatusCode::CONFLICT);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.matches("house@1+").count() >= 2, "{detail}");
    let hash = json!({"hash": "00000000000000ff", "profile": "house@1"});
    assert!(other.post("/documents", hash).await.0.is_success());
}

#[tokio::test]
async fn imports_verify_headers_of_several_files_and_when_they_go_on() {
    let data = directory();
    let server = server(&data.path().join("d")).await;
    server.stream("/documents", lines(0..40)).await;
    let write = |name: &str, text: &str| fs::write(data.path().join(name), text).unwrap();
    let read = |name: &str| fs::read_to_string(data.path().join(name)).unwrap();
    for (name, form) in [("own.jsonl", "hex"), ("signed.jsonl", "signed")] {
        let arguments = ["export", "--url", &server.url, "--hash-format", form, "--output", name];
        let (succeeded, stderr) = run(&arguments, data.path()).await;
        assert!(succeeded && stderr.contains("40 documents exported"), "{stderr}");
    }
    write("other.jsonl", &read("own.jsonl").replacen("copies-64@1", "pairs-64@1", 1));
    write("plain.jsonl", &lines(100..110));
    // The header of a file does not hold for the next one, neither its profile nor its form.
    let import = ["import", "--url", &server.url, "--collection"];
    for (collection, files, made, bad) in [
        ("a", &["own.jsonl", "other.jsonl", "plain.jsonl"][..], 50, 40),
        ("b", &["signed.jsonl", "plain.jsonl", "own.jsonl"], 50, 0),
        ("c", &["other.jsonl", "signed.jsonl"], 40, 40),
    ] {
        server.put(&format!("/collections/{collection}"), json!({})).await;
        let (succeeded, stderr) = run(&[&import, &[collection][..], files].concat(), data.path()).await;
        assert_eq!(succeeded, bad == 0, "{stderr}");
        assert!(stderr.contains(&format!("{bad} bad lines")), "{collection}: {stderr}");
        let documents = server.json(&format!("/collections/{collection}")).await["documents"].clone();
        assert_eq!(documents, made, "{collection}: {stderr}");
        let document = server.json(&format!("/collections/{collection}/documents/7")).await;
        assert_eq!(document["hash"], format!("{:016x}", 7));
    }
    // An import that goes on after a line sends the header that holds for the next one.
    for (name, lines, made) in [("signed.jsonl", 21, 20), ("other.jsonl", 5, 0)] {
        server.delete("/collections/rest").await;
        server.put("/collections/rest", json!({})).await;
        let progress = json!({
            "target": format!("{}/collections/rest/documents", server.url),
            "bytes": read(name).len(), "lines": lines,
        });
        write(&format!("{name}.import-progress"), &progress.to_string());
        let (_, stderr) = run(&[&import, &["rest", name][..]].concat(), data.path()).await;
        assert!(stderr.contains(&format!("going on after line {lines}")), "{stderr}");
        assert!(stderr.contains(&format!("{made} created")), "{stderr}");
        if made == 0 {
            let first = format!("{name}:{}: profile_mismatch", lines + 1);
            assert!(stderr.contains(&first), "{stderr}");
        } else {
            assert_eq!(server.json("/collections/rest/documents/9").await["hash"], format!("{:016x}", 9));
        }
    }
}

#[tokio::test]
async fn dedupe_reads_exports_and_refuses_hashes_of_another_profile() {
    let data = directory();
    let server = server(&data.path().join("d")).await;
    server.stream("/documents", lines(0..4)).await;
    let export = server.get("/export?hash_format=decimal").await.text().await.unwrap();
    fs::write(data.path().join("a.jsonl"), server.get("/export").await.text().await.unwrap()).unwrap();
    fs::write(data.path().join("b.jsonl"), &export).unwrap();
    fs::write(data.path().join("c.jsonl"), export.replacen("copies-64@1", "pairs-64@1", 1)).unwrap();
    let dedupe = async |files: &[&str], more: &[&str]| {
        let _ = fs::remove_dir_all(data.path().join("out"));
        let common = ["--hash-field", "hash", "--k", "0", "--output", "out"];
        run(&[&["dedupe"], files, &common[..], more].concat(), data.path()).await
    };
    let (succeeded, stderr) = dedupe(&["a.jsonl"], &["--profile", "copies-64"]).await;
    assert!(succeeded, "{stderr}");
    // The header is a line of the output, so that the output is still an export.
    let read = |name: &str| fs::read_to_string(data.path().join(name)).unwrap();
    assert_eq!(read("out/a.jsonl"), read("a.jsonl"));
    let decimal = ["--profile", "copies-64", "--hash-format", "decimal"];
    let (succeeded, stderr) = dedupe(&["b.jsonl"], &decimal).await;
    assert!(succeeded && read("out/b.jsonl") == export, "{stderr}");
    for (files, more, expected) in [
        (&["a.jsonl", "b.jsonl"][..], &decimal[..2], "--hash-format decimal"),
        (&["b.jsonl", "c.jsonl"], &decimal, "pairs-64@1, not copies-64@1; --profile sets it"),
    ] {
        let (succeeded, stderr) = dedupe(files, more).await;
        assert!(!succeeded && stderr.contains(expected), "{stderr}");
    }
}

#[tokio::test]
async fn an_export_keeps_the_lengths_of_texts_for_the_keep_rule() {
    let data = directory();
    let server = server(data.path()).await;
    let clusters = json!({"clusters": {"keep": "longest", "k": 64}});
    for name in ["one", "two"] {
        assert!(server.put(&format!("/collections/{name}"), clusters.clone()).await.0.is_success());
    }
    for (id, text) in [("a", TEXT.to_owned()), ("b", TEXT.repeat(2)), ("c", TEXT[..40].to_owned())] {
        server.post("/collections/one/documents", json!({"id": id, "text": text})).await;
    }
    let export = server.get("/collections/one/export").await.text().await.unwrap();
    assert!(export.contains(&format!("\"characters\":{}", TEXT.len())), "{export}");
    server.stream("/collections/two/documents", export.clone()).await;
    for name in ["one", "two"] {
        let found = server.json(&format!("/collections/{name}/documents/c/cluster")).await;
        assert_eq!(found["representative"], "b", "{name}: {found}");
    }
    assert_eq!(server.export("/collections/two/export").await, without_header(&export));
    let (status, problem) = server.post("/documents", json!({"text": TEXT, "characters": 3})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(problem["errors"][0]["pointer"], "/characters", "{problem}");
}
