//! Collections with passages, sampled and exact, compared with one without: the rate of a stream of
//! documents, the memory, the disk, and the time of lookups by text.

use std::fmt::Write;
use std::time::{Duration, Instant};

use futures::stream;
use serde_json::{Value, json};

use crate::server::Server;

/// Sentences of a document, about 1,000 letters.
const SENTENCES: u64 = 13;
/// Documents in a piece of a stream.
const PIECE: u64 = 1_000;
/// The text of a lookup, from its number and the number of stored documents.
type Text = fn(u64, u64) -> String;

/// Lookups of each kind.
const LOOKUPS: u64 = 1_000;

pub fn run(documents: u64) {
    println!("## Passages, {documents} documents\n");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("| | documents/s | resident MB | disk MB |\n|---|--:|--:|--:|");
    let mut lookups = String::new();
    for (name, settings) in [
        ("without passages", json!({})),
        ("with passages", json!({"passages": true})),
        ("with exact passages", json!({"passages": "exact"})),
    ] {
        runtime.block_on(measure(name, &settings, documents, &mut lookups));
    }
    println!(
        "\n| lookup by text, one connection, ms: median, p99 | found | median | p99 |\n|---|--:|--:|--:|"
    );
    println!("{lookups}");
}

async fn measure(name: &str, settings: &Value, documents: u64, lookups: &mut String) {
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&data.path().join("data")).await;
    let client = reqwest::Client::new();
    let collection = server.url("/collections/passages");
    let pieces = (0..documents.div_ceil(PIECE)).map(move |piece| {
        let numbers = piece * PIECE..documents.min((piece + 1) * PIECE);
        let line = |number: u64| format!("{}\n", json!({"id": number.to_string(), "text": article(number)}));
        Ok::<_, std::io::Error>(numbers.map(line).collect::<String>())
    });
    let body = reqwest::Body::wrap_stream(stream::iter(pieces));
    let took = server.store("passages", settings, body).await;
    let rate = documents as f64 / took.as_secs_f64();
    // Compaction ends in a few seconds.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let stats = client.get(format!("{collection}/stats")).send().await.expect("an answer");
    let stats: Value = stats.json().await.expect("JSON");
    let megabytes = |bytes: &Value| bytes.as_f64().unwrap_or(f64::NAN) / 1e6;
    println!(
        "| {name} | {rate:.0} | {:.0} | {:.0} |",
        megabytes(&stats["memory"]["resident_bytes"]),
        megabytes(&stats["disk_bytes"])
    );
    let kinds: [(&str, Text); 3] = [
        ("a stored article", |number, documents| article(number % documents)),
        ("a page, a tenth of which is a stored article", |number, documents| {
            let others = |from: u64| (from..from + 4).map(|n| article(documents * 2 + n)).collect::<String>();
            format!("{}{}{}", others(number * 10), article(number % documents), others(number * 10 + 5))
        }),
        ("an article that is not stored", |number, documents| article(documents * 9 + number)),
    ];
    for (kind, text) in kinds {
        let (mut times, mut found) = (Vec::new(), 0);
        for at in 0..LOOKUPS {
            let number = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let query = json!({"text": text(number % documents, documents)});
            let start = Instant::now();
            let answer = client.post(format!("{collection}/similar")).json(&query).send().await;
            let answer: Value = answer.expect("an answer").json().await.expect("JSON");
            times.push(start.elapsed());
            let wanted = (number % documents).to_string();
            let all =
                answer["similar"].as_array().into_iter().chain(answer["passages"]["documents"].as_array());
            found += u64::from(all.flatten().any(|document| document["id"] == wanted.as_str()));
        }
        times.sort_unstable();
        let ms = |share: f64| times[(share * (times.len() - 1) as f64) as usize].as_secs_f64() * 1e3;
        let _ =
            writeln!(lookups, "| {name}: {kind} | {found} of {LOOKUPS} | {:.2} | {:.2} |", ms(0.5), ms(0.99));
    }
}

/// Sentences of invented words. Articles of other numbers share none.
fn article(number: u64) -> String {
    const SYLLABLES: [&str; 16] = [
        "ba", "ko", "lu", "mi", "ne", "ra", "so", "ti", "der", "fan", "gol", "hun", "jas", "pel", "vor",
        "zen",
    ];
    let mut text = String::new();
    for sentence in 0..SENTENCES {
        for word in 0..14 {
            let mut seed = (number * SENTENCES + sentence) * 14 + word;
            seed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            seed = (seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            for at in 0..=(seed >> 60) % 4 {
                text += SYLLABLES[(seed >> (4 * at) & 15) as usize];
            }
            text.push(' ');
        }
        text += ". ";
    }
    text
}
