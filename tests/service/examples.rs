//! The examples of the contract: every operation succeeds with the values that its pages fill in.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, directory, is_replicated};

/// Operations that cannot succeed on this server, with the reason.
const EXCEPT: [(&str, &str); 8] = [
    ("list_replicas", "the server has no replicas"),
    ("hint_at_entry", "the server has no replicas"),
    ("restore", "its body is a backup, a tar"),
    ("read_parquet", "its body is a Parquet file"),
    ("get_weights", "the collection of the examples has none"),
    ("put_weights", "its body is a table of weights"),
    ("get_document_thumbnail", "the documents of the examples are texts"),
    ("get_document_thumbnail_in_collection", "the documents of the examples are texts"),
];

/// Operations that cannot succeed here on replicas, which answer in turns: those that need another body or
/// other documents, as on a single server; and jobs that only the server knows that runs them.
const NOT_ON_REPLICAS: [&str; 15] = [
    "begin_reindex",
    "end_reindex",
    "get_reindex",
    "get_weights",
    "put_weights",
    "read_parquet",
    "restore",
    "forget_calibration",
    "get_calibration",
    "forget_deletion",
    "forget_deletion_in_collection",
    "get_deletion",
    "get_deletion_in_collection",
    "get_document_thumbnail",
    "get_document_thumbnail_in_collection",
];

/// Requests after which an answer that asks to try again is a failure.
const TRIES: u32 = 600;

fn is_left_out(operation: &str) -> bool {
    if is_replicated() {
        NOT_ON_REPLICAS.contains(&operation)
    } else {
        EXCEPT.iter().any(|(except, _)| *except == operation)
    }
}

/// A part of the contract, or what it refers to.
fn resolved<'c>(contract: &'c Value, part: &'c Value) -> &'c Value {
    match part["$ref"].as_str() {
        Some(reference) => contract.pointer(&reference[1..]).unwrap(),
        None => part,
    }
}

/// The value with which the pages fill in a parameter; `None` if they leave it empty.
fn value(contract: &Value, parameter: &Value) -> Option<Value> {
    let schema = resolved(contract, &parameter["schema"]);
    let places = [&parameter["example"], &schema["default"], &schema["example"], &schema["examples"][0]];
    let found = places.into_iter().find(|value| !value.is_null()).cloned();
    let is_required = parameter["required"] == true;
    assert!(found.is_some() || !is_required, "{parameter} has no example");
    found
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The request of an operation: its path with the query, its headers, and its body with its type.
type Filled = (String, Vec<(String, String)>, Option<(String, Value)>);

fn filled(contract: &Value, path: &str, operation: &Value) -> Filled {
    let (mut path, mut headers) = (path.to_owned(), Vec::new());
    let mut query = form_urlencoded::Serializer::new(String::new());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let parameter = resolved(contract, parameter);
        let Some(value) = value(contract, parameter) else { continue };
        let name = parameter["name"].as_str().unwrap();
        match parameter["in"].as_str().unwrap() {
            "path" => path = path.replace(&format!("{{{name}}}"), &text(&value)),
            "query" => drop(query.append_pair(name, &text(&value))),
            _ => headers.push((name.to_owned(), text(&value))),
        }
    }
    let query = query.finish();
    let route = if query.is_empty() { path } else { format!("{path}?{query}") };
    let content = operation["requestBody"]["content"].as_object();
    let body = content.map(|content| {
        let (kind, content) = content.iter().next().unwrap();
        assert!(!content["example"].is_null(), "{} has no example of {kind}", operation["operationId"]);
        (kind.clone(), content["example"].clone())
    });
    (route, headers, body)
}

/// A server with a few documents, clusters and marks. `default` is the collection of the examples.
async fn prepare(server: &Server) {
    let text =
        |at: usize| format!("The ferry number {at} to the islands runs every twenty minutes in summer.");
    server.delete("/collections/default").await;
    server.put("/collections/default", json!({"keep_text": true, "profile": "copies-64"})).await;
    let ids =
        ["article-1", "article-2"].map(str::to_owned).into_iter().chain((0..120).map(|at| format!("d{at}")));
    let documents: Vec<Value> = ids.enumerate().map(|(at, id)| json!({"id": id, "text": text(at)})).collect();
    let (status, added) = server.post("/batch/documents", json!(documents)).await;
    assert_eq!((status, &added["summary"]["errors"]), (StatusCode::OK, &json!(0)), "{added}");
    server.post("/clusters", json!({"keep": "first"})).await;
    server.post("/marks", json!({"marks": [{"ids": ["article-1", "article-2"]}]})).await;
    let counted = json!({"dry_run": true, "filter": {"metadata": {"source": "rss"}}});
    server.post("/deletions", counted).await;
    if !is_replicated() {
        run_jobs(server).await;
    }
    while server.json("/clusters").await["pending"] != 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Leaves a job of each kind that has ended.
async fn run_jobs(server: &Server) {
    // A reindex forgets the calibration, which was for another profile.
    for job in [json!({}), json!({"sample": 100})].into_iter().zip(["reindex", "calibrate"]) {
        let (body, route) = (job.0, format!("/collections/default/{}", job.1));
        // One reindex runs at a time, and that of an example may still run.
        loop {
            let (status, answer) = server.post(&route, body.clone()).await;
            if status == StatusCode::ACCEPTED {
                break;
            }
            assert_eq!(answer["code"], "busy", "{answer}");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        while server.json(&route).await["state"] == "running" {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn every_operation_succeeds_with_its_examples() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let contract = server.json("/openapi.json").await;
    let (mut sent, mut failed) = (0, Vec::new());
    for (path, methods) in contract["paths"].as_object().unwrap() {
        for (method, operation) in
            methods.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters")
        {
            let id = operation["operationId"].as_str().unwrap();
            if is_left_out(id) {
                continue;
            }
            prepare(&server).await;
            let (route, headers, body) = filled(&contract, path, operation);
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let mut tries = 0;
            let (status, answer) = loop {
                let mut request = server.client.request(method.clone(), format!("{}{route}", server.url));
                for (name, value) in &headers {
                    request = request.header(name, value);
                }
                if let Some((kind, body)) = &body {
                    request = request.header("content-type", kind).body(text(body));
                }
                let response = request.send().await.unwrap();
                let (status, answer) = (response.status(), response.text().await.unwrap());
                // Other tests run on the same processors, and each replica decides its clusters by itself.
                let comes_later = ["\"busy\"", "is not decided yet"];
                tries += 1;
                if tries == TRIES || !comes_later.iter().any(|later| answer.contains(later)) {
                    break (status, answer);
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            };
            if !status.is_success() {
                failed.push(format!("{id}: {method} {route} {body:?}: {status} {answer}"));
            } else if body.is_some() || answer.starts_with('{') {
                assert!(answer.is_empty() || answer.ends_with('\n'), "{id}: {answer}");
            }
            sent += 1;
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(sent > 50, "{sent}");
}
