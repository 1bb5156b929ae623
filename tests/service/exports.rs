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
        ("news", unnamed, "/profile", ["a sketch needs the profile", "copies-64@1"]),
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
