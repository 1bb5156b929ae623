//! Features that the client gives with their weights: the worked examples step by step, over HTTP and on the
//! command line, and documents of features.
//!
//! The examples are those of `../shared/data`, or of the folder in `LOOKALIKE_TEST_DATA`; without it, the one
//! below.

use std::fs;
use std::path::PathBuf;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, command, directory};

const EXAMPLE: &str = r#"[{"name": "two keywords",
    "features": [["美国", 4, "100101"], ["51区", 5, "101011"]],
    "weighted": {"美国": [4, -4, -4, 4, -4, 4], "51区": [5, -5, 5, -5, 5, 5]},
    "sums": [9, -9, 1, -1, 1, 9], "hash": "101011"}]"#;

fn examples() -> Vec<Value> {
    let folder = std::env::var_os("LOOKALIKE_TEST_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let text = fs::read_to_string(folder.join("golden/worked-examples.json"));
    serde_json::from_str(text.as_deref().unwrap_or(EXAMPLE)).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[tokio::test]
async fn the_worked_examples_have_their_steps_over_http() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for example in examples() {
        let body = match example.get("features") {
            Some(features) => json!({"features": features, "bits": 6, "explain": true}),
            None => json!({"sums": example["sums"], "explain": true}),
        };
        let (status, answer) = server.post("/fingerprint", body).await;
        assert_eq!((status, &answer["binary"]), (StatusCode::OK, &example["hash"]), "{example} {answer}");
        assert_eq!(answer["bits"], 6, "{answer}");
        let steps = &answer["explanation"];
        assert_eq!(numbers(&steps["sums"]), numbers(&example["sums"]), "{answer}");
        for step in steps["features"].as_array().unwrap() {
            let expected = &example["weighted"][step["text"].as_str().unwrap()];
            assert_eq!(numbers(&step["votes"]), numbers(expected), "{step}");
        }
    }
}

#[test]
fn the_worked_examples_have_their_steps_on_the_command_line() {
    let listed = |list: &Value| numbers(list).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    for example in examples() {
        let hash = example["hash"].as_str().unwrap();
        let mut arguments = vec!["vote".to_owned(), "--explain".to_owned()];
        let mut expected = Vec::new();
        match example.get("features") {
            Some(features) => {
                arguments.extend(["--bits".to_owned(), "6".to_owned()]);
                for feature in features.as_array().unwrap() {
                    let [text, hash] = [0, 2].map(|at| feature[at].as_str().unwrap());
                    arguments.push(format!("{text}={}:{hash}", feature[1]));
                    expected.push(format!(
                        "{text}\t{}\t{hash}\t{}",
                        feature[1],
                        listed(&example["weighted"][text])
                    ));
                }
            }
            None => arguments.push(format!("--sums={}", listed(&example["sums"]).replace(' ', ","))),
        }
        expected.push(format!("sums\t\t\t{}", listed(&example["sums"])));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = command(&arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..lines.len() - 1], expected, "{example}");
        assert!(lines[lines.len() - 1].ends_with(&format!("  {hash}")), "{text}");
    }
    let refused = command(&["vote", "--bits", "200", "a=1"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("bits takes 4 to 160"));
}

#[tokio::test]
async fn documents_of_features_are_found_by_their_fingerprint() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let features = json!([["美国", 5], ["51区", 2], ["飞碟", 3.5]]);
    let (_, made) = server.post("/fingerprint", json!({"features": features})).await;
    assert_eq!((&made["bits"], &made["features"]), (&json!(64), &json!(3)), "{made}");
    assert_eq!(made["profile"], "copies-64@1", "{made}");
    let (status, stored) = server.post("/documents", json!({"id": "a", "features": features})).await;
    assert_eq!((status, &stored["hash"]), (StatusCode::CREATED, &made["hash"]), "{stored}");
    assert!(stored.get("status").is_none(), "{stored}");
    let near = server.json(&format!("/similar?hash={}", made["hash"].as_str().unwrap())).await;
    assert_eq!(near["similar"][0]["id"], "a", "{near}");
    // The order of the features does not matter, and a given hash replaces that of the text.
    let given = json!([["飞碟", 3.5], ["51区", 2], [{"hash": "0123456789abcdef"}, 5]]);
    let (_, other) = server.post("/fingerprint", json!({"features": given})).await;
    assert_ne!(other["hash"], made["hash"]);
    let lines =
        format!("{}\n{}\n", json!({"id": "b", "features": features}), json!({"id": "c", "features": []}));
    let request = server.client.post(format!("{}/documents", server.url)).body(lines);
    let answer =
        request.header("content-type", "application/x-ndjson").send().await.unwrap().text().await.unwrap();
    assert!(answer.contains("\"outcome\":\"created\"") && answer.contains("1 to 10000 features"), "{answer}");
}

#[tokio::test]
async fn wrong_features_are_refused_with_the_field() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/sets", json!({"profile": "minhash"})).await;
    let one = json!([["a", 1]]);
    let cases = [
        ("/fingerprint", json!({"features": one, "bits": 3}), "/bits", "bits takes 4 to 160"),
        ("/fingerprint", json!({"features": one, "bits": 160}), "/function", "has 128 bits at most"),
        ("/fingerprint", json!({"features": one, "function": "crc"}), "/function", "function takes one of"),
        ("/fingerprint", json!({"features": one, "tie": "both"}), "/tie", "tie takes one of"),
        ("/fingerprint", json!({"features": [["a", 0]]}), "/features", "wrong weight"),
        ("/fingerprint", json!({"features": [["a", 1, "xyz"]]}), "/features", "wrong hash"),
        ("/fingerprint", json!({"features": [["a"]]}), "/features", "a feature: [text, weight]"),
        ("/fingerprint", json!({"features": one, "profile": "minhash"}), "/profile", "makes signatures"),
        ("/fingerprint", json!({"sums": [1, 2], "bits": 6}), "/bits", "bits takes 4 to 160"),
        ("/fingerprint", json!({"text": "a b c", "bits": 6}), "/bits", "can be combined with features"),
        ("/fingerprint", json!({"text": "a", "features": one}), "", "exactly one of"),
        ("/documents", json!({"text": "a", "features": one}), "", "exactly one of"),
        ("/documents", json!({"features": []}), "/features", "1 to 10000 features"),
        ("/collections/sets/documents", json!({"features": one}), "/profile", "makes signatures"),
    ];
    for (route, body, field, part) in cases {
        let (status, answer) = server.post(route, body.clone()).await;
        assert!(status.is_client_error(), "{body} {answer}");
        assert!(answer.to_string().contains(field) && answer.to_string().contains(part), "{body} {answer}");
    }
}
