//! Metrics as operators use them: Debian's Prometheus scrapes a server under load, and every query of the
//! dashboard returns samples. Without the Debian package the tests print that they are skipped.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, directory};
use crate::skipped::skipped;

/// A process that is killed at the end of the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skipped(&format!("{program} is not installed (Debian: prometheus)"));
    }
    found
}

async fn load(server: &Server) {
    for i in 0..40u64 {
        server.post("/documents", json!({"hash": format!("{i:016x}")})).await;
        server.get(&format!("/similar?hash={i:016x}")).await;
        server.get("/similar?hash=00000000000000ff&k=64").await;
        server.get("/nothing").await;
    }
    server.post("/snapshots", json!(null)).await;
}

#[tokio::test]
async fn promtool_finds_nothing_wrong_with_the_metrics() {
    if !is_installed("promtool") {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    load(&server).await;
    let metrics = server.get("/metrics").await.text().await.unwrap();
    let file = data.path().join("metrics.txt");
    fs::write(&file, metrics).unwrap();
    let mut check = Command::new("promtool");
    let output = check.args(["check", "metrics"]).stdin(fs::File::open(file).unwrap()).output().unwrap();
    let output_text = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && output_text.is_empty(), "{}", String::from_utf8_lossy(&output_text));
}

#[test]
fn the_alerts_fire_when_they_should() {
    if !is_installed("promtool") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for arguments in [["check", "rules", "config/alerts.yml"], ["test", "rules", "tests/service/alerts.yml"]]
    {
        let output = Command::new("promtool").args(arguments).current_dir(root).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&text));
    }
}

/// A counter that begins at 1 has not increased, so an alert would miss the first event.
#[tokio::test]
async fn a_fresh_server_has_the_counters_that_alerts_wait_for() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let metrics = server.get("/metrics").await.text().await.unwrap();
    let contract = server.json("/openapi.json").await;
    let mut expected = vec!["lookalike_snapshot_failures_total 0".to_owned()];
    let mut expect = |method: &str, path: &str| {
        for status in [500, 507] {
            let labels = format!("method=\"{method}\",route=\"{path}\",status=\"{status}\"");
            expected.push(format!("lookalike_http_requests_total{{{labels}}} 0"));
        }
    };
    for (path, item) in contract["paths"].as_object().unwrap() {
        item.as_object().unwrap().keys().for_each(|method| expect(&method.to_uppercase(), path));
    }
    expect("other", "none");
    assert!(expected.len() > 100);
    for line in &expected {
        assert!(metrics.lines().any(|found| found == line), "{line} is missing:\n{metrics}");
    }
    let rules = include_str!("../../config/alerts.yml");
    for statuses in rules.match_indices("status=\"").map(|(at, _)| &rules[at + 8..at + 11]) {
        // 503 is compared with all requests, and one of them is no reason for an alert.
        assert!(["500", "503", "507"].contains(&statuses), "{statuses}");
    }
}

#[tokio::test]
async fn documents_are_counted_by_outcome_and_collections_by_their_work() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/news", json!({})).await;
    let documents = "/collections/news/documents";
    for (id, hash) in [("a", "00000000000000ff"), ("a", "00000000000000fe"), ("b", "ff00000000000000")] {
        server.post(documents, json!({"id": id, "hash": hash})).await;
    }
    server.post(&format!("{documents}?on_duplicate=skip"), json!({"hash": "00000000000000fc"})).await;
    server.post(documents, json!({"text": "two words"})).await;
    server.post(documents, json!({"hash": "0"})).await;
    server.post("/collections/news/batch/documents", json!([{"hash": "0"}, {"hash": 1}])).await;
    server.delete(&format!("{documents}/b")).await;
    server.get("/collections/news/similar?hash=00000000000000fe").await;
    server.get("/similar?hash=00000000000000fe").await;
    let metrics = server.get("/metrics").await.text().await.unwrap();
    for line in [
        "lookalike_document_outcomes_total{outcome=\"created\"} 3",
        "lookalike_document_outcomes_total{outcome=\"updated\"} 1",
        "lookalike_document_outcomes_total{outcome=\"duplicate\"} 1",
        "lookalike_document_outcomes_total{outcome=\"short\"} 1",
        "lookalike_document_outcomes_total{outcome=\"refused\"} 3",
        "lookalike_collection_writes_total{collection=\"news\"} 5",
        "lookalike_collection_queries_total{collection=\"default\"} 1",
        "lookalike_collection_queries_total{collection=\"news\"} 1",
        &format!("lookalike_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is missing:\n{metrics}");
    }
}

#[tokio::test]
async fn collections_after_the_hundredth_share_a_label() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for number in 0..101 {
        server.put(&format!("/collections/c{number}"), json!({})).await;
    }
    server.post("/collections/c100/documents", json!({"id": "a", "hash": "00000000000000ff"})).await;
    let metrics = server.get("/metrics").await.text().await.unwrap();
    let has = |line: &str| metrics.lines().any(|found| found == line);
    assert!(has("lookalike_documents{collection=\"c98\"} 0") && !metrics.contains("\"c99\""), "{metrics}");
    assert!(has("lookalike_documents{collection=\"_other\"} 1"), "{metrics}");
    assert!(has("lookalike_collection_writes_total{collection=\"_other\"} 1"), "{metrics}");
    assert_eq!(metrics.matches("lookalike_index_bytes{").count(), 101);
}

#[tokio::test]
async fn a_deleted_collection_has_no_metrics() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/gone", json!({})).await;
    let line = "lookalike_documents{collection=\"gone\"} 0";
    assert!(server.get("/metrics").await.text().await.unwrap().contains(line));
    server.delete("/collections/gone").await;
    assert!(!server.get("/metrics").await.text().await.unwrap().contains("\"gone\""));
}

#[tokio::test]
async fn every_query_of_the_dashboard_has_an_answer() {
    if !is_installed("prometheus") {
        return;
    }
    let data = directory();
    let server = Server::start(&data.path().join("data")).await;
    let config = include_str!("../../config/prometheus.yml");
    let config = config.replace("lookalike:8080", server.url.strip_prefix("http://").unwrap());
    let config = config.replace("scrape_interval: 15s", "scrape_interval: 1s");
    fs::write(data.path().join("alerts.yml"), include_str!("../../config/alerts.yml")).unwrap();
    let file = data.path().join("prometheus.yml");
    fs::write(&file, config).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", file.display()));
    prometheus.arg(format!("--storage.tsdb.path={}", data.path().join("tsdb").display()));
    prometheus.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _prometheus = Process(prometheus.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let dashboard: Value =
        serde_json::from_str(include_str!("../../config/grafana/dashboards/lookalike.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    // tests/replicas has the metrics of replicas.
    let mut unanswered: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "30s"))
        .filter(|query| !query.contains("lookalike_replica_"))
        .collect();
    assert!(unanswered.len() > 20);
    let sample_count = async |query: &str| -> Option<usize> {
        let url = format!("http://127.0.0.1:{port}/api/v1/query");
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("query", query).finish();
        let answer: Value =
            server.client.get(format!("{url}?{query}")).send().await.ok()?.json().await.ok()?;
        // A quotient without requests is NaN, which does not count as a sample.
        let samples = answer["data"]["result"].as_array()?;
        Some(samples.iter().filter(|sample| sample["value"][1] != "NaN").count())
    };
    for _ in 0..60 {
        load(&server).await;
        let mut left = Vec::new();
        for query in unanswered {
            if sample_count(&query).await.unwrap_or(0) == 0 {
                left.push(query);
            }
        }
        unanswered = left;
        if unanswered.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("no answer to {unanswered:#?}");
}
