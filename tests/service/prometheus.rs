//! Metrics as operators use them: Debian's Prometheus scrapes a server under load, and every query of the
//! dashboard returns samples. Without the Debian package the tests print that they are skipped.

use std::fs;
use std::net::TcpListener;
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
    let mut unanswered: Vec<String> =
        targets.map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "30s")).collect();
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
