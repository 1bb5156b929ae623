//! Single-document inserts, each acknowledged when it is durable, for several numbers of connections,
//! compared with the syncs a second of the disk alone. With group commit one sync acknowledges all writes
//! that arrived during the previous one.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::http::requests_a_second;
use crate::rounds::{median, take_turns};
use crate::server::Server;

/// Numbers of connections. They stay below the default limit of 128 for one address, because connections of
/// the previous round are closed with a delay.
const CONNECTIONS: [&str; 4] = ["1", "4", "16", "64"];
/// Bytes that the journal writes for one document, approximately.
const RECORD: usize = 256;

pub fn run() {
    println!("## Single documents, `POST /documents` with a hash, durable\n");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = runtime.block_on(Server::start(&data.path().join("data")));
    let client = reqwest::Client::new();
    let mut run = 0;
    println!(
        "| connections | documents/s | syncs/s of the server | documents a sync | syncs/s of the disk alone |"
    );
    println!("|---|---|---|---|---|");
    for connections in CONNECTIONS {
        let mut syncs = Vec::new();
        let mut store = || {
            run += 1;
            let (script, before) = (script(run), runtime.block_on(commits(&client, &server)));
            let start = Instant::now();
            let documents = requests_a_second(server.address, &script, connections);
            let made = runtime.block_on(commits(&client, &server)) - before;
            syncs.push(made / start.elapsed().as_secs_f64());
            documents
        };
        let [documents, alone] = take_turns([&mut store, &mut || sync_alone(data.path())]);
        let [documents, syncs, alone] = [documents, syncs, alone].map(median);
        println!("| {connections} | {documents:.0} | {syncs:.0} | {:.1} | {alone:.0} |", documents / syncs);
    }
    println!();
}

/// A wrk script that stores documents with ids that no other run uses.
fn script(run: u32) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    let text = format!(
        "local at = 0\n\
         math.randomseed({run})\n\
         local headers = {{[\"content-type\"] = \"application/json\"}}\n\
         function request()\n\
         at = at + 1\n\
         local high, low = math.random(0, 4294967295), math.random(0, 4294967295)\n\
         local body = string.format('{{\"id\":\"{run}-%d\",\"hash\":\"%08x%08x\"}}', at, high, low)\n\
         return wrk.format(\"POST\", \"/documents\", headers, body)\n\
         end\n"
    );
    file.write_all(text.as_bytes()).expect("space for it");
    file
}

/// The number of group commits so far.
async fn commits(client: &reqwest::Client, server: &Server) -> f64 {
    let answer = client.get(server.url("/metrics")).send().await.expect("an answer");
    let text = answer.text().await.expect("all of it");
    let count = text.lines().find_map(|line| line.strip_prefix("lookalike_commit_seconds_count "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// Syncs a second for records written sequentially to a preallocated file, with a sync after each.
fn sync_alone(dir: &std::path::Path) -> f64 {
    let path = dir.join("alone");
    let file = File::create(&path).expect("a file");
    file.write_all_at(&vec![1; 8 << 20], 0).expect("space for it");
    file.sync_all().expect("a disk that syncs");
    let (start, mut syncs) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_secs(1) {
        file.write_all_at(&[2; RECORD], syncs * RECORD as u64 % (8 << 20)).expect("space for it");
        file.sync_data().expect("a disk that syncs");
        syncs += 1;
    }
    syncs as f64 / start.elapsed().as_secs_f64()
}
