//! Inserts of Chinese articles as an NDJSON stream, durable, compared with fingerprinting alone on all cores.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flate2::read::GzDecoder;
use lookalike_text::fingerprint::Profile;

use crate::rounds::{median, ratio, take_turns};
use crate::server::Server;

const ARTICLES: &str = "../shared/data/zh_edits/docs.jsonl.gz";

pub fn run() {
    println!("## Storing Chinese articles, durable, compared with fingerprinting alone\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(ARTICLES);
    let Ok(file) = File::open(&path) else {
        println!("skipped: {ARTICLES} is missing\n");
        return;
    };
    let lines: Vec<String> = BufReader::new(GzDecoder::new(file)).lines().map_while(Result::ok).collect();
    let text = |line: &String| -> Option<String> {
        serde_json::from_str::<serde_json::Value>(line).ok()?["text"].as_str().map(str::to_owned)
    };
    let texts: Vec<String> = lines.iter().filter_map(text).collect();
    let megabytes = texts.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    let profile = Profile::default_profile();
    profile.fingerprint(&texts[0]);

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = runtime.block_on(Server::start(&data.path().join("data")));
    let body = bytes::Bytes::from(lines.join("\n"));
    let [alone, stored] = take_turns([&mut || fingerprint_all(profile, &texts, megabytes), &mut || {
        let took = runtime.block_on(server.store("articles", &serde_json::json!({}), body.clone()));
        runtime.block_on(remove(&server));
        megabytes / took.as_secs_f64()
    }]);
    println!("{} articles, {megabytes:.1} MB of text, profile {}\n", texts.len(), profile.id());
    println!("| | MB/s, median | articles/s |\n|---|---|---|");
    let rate = |figure: f64| figure / megabytes * texts.len() as f64;
    for (name, figures) in [("fingerprinting alone, all cores", &alone), ("NDJSON stream, durable", &stored)]
    {
        let figure = median(figures.iter().copied());
        println!("| {name} | {figure:.1} | {:.0} |", rate(figure));
    }
    println!("| ratio, median of the rounds | {:.2} | |\n", ratio(&stored, &alone));
}

fn fingerprint_all(profile: &Profile, texts: &[String], megabytes: f64) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|threads| {
        for _ in 0..cores {
            threads.spawn(|| {
                while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    std::hint::black_box(profile.fingerprint(text));
                }
            });
        }
    });
    megabytes / start.elapsed().as_secs_f64()
}

/// Removes all articles.
async fn remove(server: &Server) {
    let url = server.url("/collections/articles");
    reqwest::Client::new().delete(url).send().await.expect("an answer");
    // The server does the work within 40 ms, which must not overlap with the other contender.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}
