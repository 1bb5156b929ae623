//! The contract as clients and operators see it: `OpenAPI`, documentation pages, health, metrics, logs and
//! snapshots.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, command, directory, is_replicated};

#[tokio::test]
async fn the_served_contract_equals_the_file_and_the_output_of_the_command() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let served = server.get("/openapi.yaml").await.text().await.unwrap();
    assert!(served == include_str!("../../openapi.yaml"), "openapi.yaml is stale");
    let json = server.get("/openapi.json").await.text().await.unwrap();
    assert!(json.ends_with("}\n"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["servers"][0]["url"], "/");
    for path in json["paths"].as_object().unwrap().keys() {
        assert!(served.contains(&format!("\n  {path}:\n")), "{path}");
    }
    let printed = command(&["openapi"]).output().unwrap();
    assert!(served.as_bytes() == printed.stdout, "the command prints another contract");
}

#[tokio::test]
async fn every_operation_of_the_contract_has_a_handler() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let contract = server.json("/openapi.json").await;
    let mut operations = 0;
    for (path, methods) in contract["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|name| *name != "parameters") {
            let method = reqwest::Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let path = path.replace(['{', '}'], "");
            let answer = server.client.request(method.clone(), format!("{}{path}", server.url)).send();
            let status = answer.await.unwrap().status();
            assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            operations += 1;
        }
    }
    assert!(operations > 30, "only {operations} operations were found");
}

#[tokio::test]
async fn the_documentation_loads_nothing_from_other_hosts() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let page = server.get("/docs/").await.text().await.unwrap();
    let mut loaded = 0;
    for attribute in ["src=\"", "href=\""] {
        for part in page.split(attribute).skip(1) {
            let target = part.split('"').next().unwrap();
            assert!(!target.contains("//"), "{target} is on another host");
            let response = server.get(&format!("/docs/{}", target.trim_start_matches("./"))).await;
            assert_eq!(response.status(), StatusCode::OK, "{target}");
            loaded += 1;
        }
    }
    assert!(loaded >= 3, "only {loaded} parts were found in the page");
    let initializer = server.get("/docs/swagger-initializer.js").await.text().await.unwrap();
    assert!(initializer.contains("\"validatorUrl\": \"none\""), "{initializer}");
    assert!(initializer.contains("\"/openapi.json\""), "{initializer}");
}

#[tokio::test]
async fn the_default_profile_answers_for_the_hash_that_it_makes() {
    let data = directory();
    let variables = [("LOOKALIKE_COLLECTION__PROFILE", "copies-128")];
    let server = Server::start_with(data.path(), &variables).await;
    let text = "The harbour ferry will run every twenty minutes during the summer festival.";
    let (_, made) = server.post("/fingerprint", json!({"text": text})).await;
    assert_eq!(
        (&made["profile"], &made["bits"], &made["k"]),
        (&json!("copies-128@1"), &json!(128), &json!(23))
    );
    server.post("/documents", json!({"id": "a", "text": text})).await;
    let path = format!("/similar?hash={}&k=3", made["hash"].as_str().unwrap());
    let found = server.json(&path).await;
    assert_eq!((&found["similar"][0]["id"], &found["similar"][0]["distance"]), (&json!("a"), &json!(0)));
    // A collection that names no profile has that of the collection `default`.
    server.put("/collections/more", json!({"keep_text": true})).await;
    assert_eq!(server.json("/collections/more").await["profile"], "copies-128@1");
    server.put("/collections/small", json!({"profile": "copies-64"})).await;
    for (collection, digits) in [("default", 16), ("more", 16), ("small", 32)] {
        let path = format!("/collections/{collection}/similar?hash={:0digits$x}&k=3", 1);
        let answer = server.get(&path).await;
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "{collection}");
        let problem: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(
            (&problem["code"], &problem["errors"][0]["parameter"]),
            (&json!("invalid_field"), &json!("hash"))
        );
    }
}

#[tokio::test]
async fn health_version_statistics_and_metrics_are_served() {
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    assert_eq!(server.get("/livez").await.text().await.unwrap(), "live\n");
    assert_eq!(server.get("/readyz").await.text().await.unwrap(), "ready\n");
    let version = server.json("/version").await;
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["profiles"].as_array().unwrap().contains(&json!("copies-64@1")));
    server.post("/documents", json!({"id": "a", "hash": "00000000000000ff"})).await;
    server.get("/similar?hash=00000000000000fe").await;
    let (status, snapshot) = server.post("/snapshots", json!(null)).await;
    assert_eq!(status, StatusCode::CREATED);
    let listed = server.json("/snapshots").await;
    assert_eq!(listed["snapshots"][0]["checksum"], snapshot["checksum"]);
    assert_eq!(listed["snapshots"][0]["bytes"], snapshot["bytes"]);
    let stats = server.json("/stats").await;
    assert_eq!(stats["collection"]["documents"], 1);
    assert_eq!(stats["answered_distances"]["1"], 1);
    server.put("/collections/other", json!({})).await;
    assert_eq!(server.json("/collections/other/stats").await["answered_distances"], json!({}));
    let scanned = server.json("/similar?hash=00000000000000fe&stats=true&verify=scan").await;
    assert_eq!(scanned["stats"]["candidates"], 1, "the one stored hash is compared: {scanned}");
    assert_eq!(stats["snapshot"]["name"], snapshot["name"]);
    let metrics = server.get("/metrics").await.text().await.unwrap();
    for line in [
        "lookalike_documents{collection=\"default\"} 1",
        "lookalike_distinct_hashes{collection=\"default\"} 1",
        "lookalike_http_requests_total{method=\"GET\",route=\"/similar\",status=\"200\"} 2",
        "lookalike_commit_seconds_count",
        "lookalike_ready 1",
        "process_resident_memory_bytes",
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
}

#[tokio::test]
async fn profiles_are_listed_with_what_they_are_for() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let listed = server.json("/profiles").await;
    let of = |id: &str| {
        let found = listed["profiles"].as_array().unwrap().iter().find(|profile| profile["profile"] == id);
        found.unwrap().clone()
    };
    let copies = of("copies-128@1");
    assert_eq!((&copies["bits"], &copies["k"], &copies["cells"]), (&json!(128), &json!(23), &Value::Null));
    assert!(copies["summary"].as_str().unwrap().len() > 20);
    let signed = of("minhash-copies@1");
    assert_eq!(signed["cells"], json!(200));
    // The similarity of a whole number of cells that is next to 0.5.
    assert!((signed["threshold"].as_f64().unwrap() - 0.5).abs() < 0.01, "{signed}");
    let version = server.json("/version").await;
    assert_eq!(version["profiles"].as_array().unwrap().len(), listed["profiles"].as_array().unwrap().len());
}

#[tokio::test]
async fn the_hashes_that_most_documents_share_are_listed() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let shared = async || server.json("/collections/default/shared-hashes").await["hashes"].clone();
    assert_eq!(shared().await, json!([]));
    // The hash n has n documents.
    let lines: String = (1..=60)
        .flat_map(|hash| (0..hash).map(move |copy| (hash, copy)))
        .map(|(hash, copy)| {
            format!("{}\n", json!({"id": format!("{hash}-{copy}"), "hash": format!("{hash:016x}")}))
        })
        .collect();
    server.stream("/documents", lines).await;
    let found = shared().await;
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 50);
    assert_eq!(found[0], json!({"hash": format!("{:016x}", 60), "documents": 60}));
    assert_eq!(found[49], json!({"hash": format!("{:016x}", 11), "documents": 11}));
    let absent = server.get("/collections/absent/shared-hashes").await;
    assert_eq!(absent.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn without_the_console_its_paths_are_unknown() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_SERVER__CONSOLE", "false")]).await;
    let answer = server.get("/").await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["code"], "route_not_found");
}

#[tokio::test]
async fn a_request_id_is_generated_or_taken_from_the_request() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let own = server.get("/livez").await.headers()["x-request-id"].clone();
    assert_ne!(own, server.get("/livez").await.headers()["x-request-id"]);
    let request = server.client.get(format!("{}/livez", server.url)).header("x-request-id", "mine-1");
    assert_eq!(request.send().await.unwrap().headers()["x-request-id"], "mine-1");
}

#[tokio::test]
async fn the_json_log_has_the_request_id_and_a_numeric_time() {
    let data = directory();
    let log = [("LOOKALIKE_LOG__FORMAT", "json"), ("LOOKALIKE_LOG__LEVEL", "lookalike=debug")];
    let server = Server::start_with(data.path(), &log).await;
    let id = server.get("/version").await.headers()["x-request-id"].to_str().unwrap().to_owned();
    server.wait_for_log(&id).await;
    let log = server.log();
    let line = log.lines().find(|line| line.contains(&id)).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["request_id"], &line["route"]), (&json!(id), &json!("/version")));
    assert!(line["elapsed_ms"].as_f64().unwrap() > 0.0, "{line}");
}

#[tokio::test]
async fn a_graceful_shutdown_writes_a_snapshot() {
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    server.post("/documents", json!({"id": "a", "hash": "00000000000000ff"})).await;
    assert!(server.stop().success());
    assert_eq!(crate::server::snapshot_files(data.path()).len(), 1);
    let server = Server::start(data.path()).await;
    assert_eq!(server.documents().await, 1);
    server.wait_for_log("loaded from a snapshot").await;
}

#[tokio::test]
async fn a_failed_snapshot_reports_the_reason() {
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    server.post("/documents", json!({"id": "a", "hash": "00000000000000ff"})).await;
    let snapshots = data.path().join("snapshots");
    std::fs::remove_dir(&snapshots).unwrap();
    let (status, answer) = server.post("/snapshots", json!(null)).await;
    assert_eq!((status.as_u16(), &answer["code"]), (500, &json!("internal")), "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("No such file"), "{answer}");
}

#[tokio::test]
async fn a_change_of_settings_is_stored_and_applied() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.post("/documents", json!({"id": "a", "hash": "00000000000000ff"})).await;
    let (status, changed) = server.put("/collections/default", json!({"k": 1})).await;
    assert_eq!((status, changed["k"].as_u64()), (StatusCode::OK, Some(1)));
    assert_eq!(server.json("/similar?hash=00000000000000fc").await["similar"], json!([]));
    server.kill();
    let server = Server::start(data.path()).await;
    assert_eq!(server.json("/collections/default").await["k"], 1);
}
