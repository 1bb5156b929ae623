//! Every decoder of external input gets random bytes and modified valid input. It returns a result or an
//! error, and never panics.
//!
//! The short form runs with all other tests; the long form is run by hand: `LOOKALIKE_TEST_DECODERS=1000000
//! cargo test --release --locked --test service decoders`.

use std::path::Path;

use lookalike::config;
use lookalike_hamming::Progress;
use lookalike_hamming::snapshot;
use lookalike_hash::{CollectionName, DocumentId, Gram, Hash, Mark, Width};
use lookalike_keys::KeyFile;
use lookalike_store::backup::{self, BackupError, Manifest, Writer};
use lookalike_store::{CollectionSettings, Lifetime, Row};
use lookalike_text as text;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Random bytes, or one of the seeds with a few bytes changed, deleted or duplicated.
fn input(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let random = proptest::collection::vec(any::<u8>(), 0..200);
    let edits = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..6);
    let changed = (prop::sample::select(seeds), edits).prop_map(|(seed, edits)| {
        let mut bytes = seed;
        for (place, byte, edit) in edits {
            if bytes.is_empty() {
                break;
            }
            let place = place.index(bytes.len());
            match edit {
                0 => bytes[place] = byte,
                1 => drop(bytes.remove(place)),
                _ => bytes.insert(place, bytes[place]),
            }
        }
        bytes
    });
    prop_oneof![random, changed]
}

/// Runs a decoder on generated inputs. `share` divides the number of cases, for expensive decoders.
fn run_decoder(seeds: &[&str], share: u32, decode: impl Fn(&[u8])) {
    run_decoder_on_bytes(seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect(), share, decode);
}

fn run_decoder_on_bytes(seeds: Vec<Vec<u8>>, share: u32, decode: impl Fn(&[u8])) {
    let cases = std::env::var("LOOKALIKE_TEST_DECODERS").ok().and_then(|text| text.parse().ok());
    let cases = (cases.unwrap_or(4_000) / share).max(1);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&input(seeds), |bytes| {
            decode(&bytes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn hashes_ids_and_names() {
    run_decoder(
        &["f776119227163845", "0xF776119227163845f776119227163845", "article-1", "新闻", "news_2"],
        1,
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(hash) = text.parse::<Hash>() {
                assert_eq!(hash.to_string().parse::<Hash>().unwrap(), hash);
            }
            if let Ok(id) = DocumentId::new(&text) {
                assert!(id.as_str() == text && id.as_str().len() <= 256);
            }
            if let Ok(name) = CollectionName::new(&text) {
                assert!(!name.as_str().contains(['/', '.', '\0']));
            }
        },
    );
}

#[test]
fn pages() {
    let seeds = &[
        "<html><head><title>t</title></head><body><article><h1>h</h1><p>a &amp; b</p><p>c</p></article>\
         </body></html>",
        "<table><tr><td>x<td>y</table><!-- c --><script>var a = '</script>'</script>",
        "<!DOCTYPE html><svg><math><mi><p>&#x0;&#xffffffff;",
    ];
    run_decoder(seeds, 4, |bytes| {
        let _ = text::main_text(&String::from_utf8_lossy(bytes));
    });
}

#[test]
fn settings_and_keys() {
    let directory = crate::server::directory();
    let path = directory.path().join("file.toml");
    let settings = &[
        "[server]\nlisten = \"127.0.0.1:0\"\n[limits]\nmatches = 50\nbatch_bytes = \"32 MiB\"\n",
        "a.b.c = [1, {x = 0x_}]",
    ];
    let load = |file: Option<&Path>, variables: Vec<(String, std::ffi::OsString)>| {
        let _ = config::load(file, variables.into_iter(), &[]);
    };
    run_decoder(settings, 4, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        load(Some(&path), vec![]);
        let text = String::from_utf8_lossy(bytes).into_owned();
        load(None, vec![("LOOKALIKE_STORE__CACHE_BYTES".to_owned(), text.clone().into())]);
        load(None, vec![(format!("LOOKALIKE_{text}"), "1".into())]);
    });
    let keys = &["[[key]]\nname = \"a\"\nrole = \"read\"\ncollections = [\"news\"]\nmade_at = \"now\"\n\
         sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n"];
    run_decoder(keys, 4, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let _ = KeyFile::at(&path).read();
    });
}

#[test]
fn snapshots() {
    let directory = crate::server::directory();
    let path = directory.path().join("some.snapshot");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/hamming/tests/golden/format-1.snapshot");
    let whole = vec![std::fs::read(golden).unwrap()];
    run_decoder_on_bytes(whole.clone(), 4, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let loaded = snapshot::load(&path, &Progress::default());
        assert!(loaded.is_err() || whole.iter().any(|whole| whole == bytes), "a change was not detected");
    });
}

#[test]
fn backups() {
    let name = CollectionName::new("news").unwrap();
    let settings = CollectionSettings::of("copies-64@1".into(), Width::Bits64);
    let mut writer = Writer::begin(Vec::new(), &Manifest::of(&name, settings)).unwrap();
    for number in 0..3u64 {
        let row = Row {
            hash: Hash::from_u64(number),
            features: Some(12),
            characters: None,
            place: 0,
            short: false,
            written_ms: number,
            lifetime: Lifetime::Endless,
            metadata: Some("{\"a\":1}".to_owned()),
            grams: vec![Gram { hash: number, from: 3, to: 9 }, Gram { hash: 1 << 60, from: 4, to: 20 }],
            text: Some("图书馆\n".to_owned()),
            sketch: None,
            thumbnail: None,
        };
        writer.document(&DocumentId::new(&format!("id-{number}")).unwrap(), &row).unwrap();
    }
    let id = |text: &str| DocumentId::new(text).unwrap();
    writer.mark(&Mark::pair(id("a"), id("b")).unwrap(), 7).unwrap();
    writer.mark(&Mark::of(id("图")), 8).unwrap();
    let whole = writer.finish().unwrap();
    let documents = |bytes: &[u8]| {
        let mut all = Vec::new();
        let take = |item| {
            all.push(item);
            Ok::<_, BackupError>(())
        };
        backup::read(bytes, backup::LINE_BYTES, |_| Ok(()), take).map(|_| all)
    };
    let all = documents(&whole).ok();
    assert_eq!(all.as_ref().map(Vec::len), Some(5));
    run_decoder_on_bytes(vec![whole], 4, |bytes| {
        let found = documents(bytes);
        assert!(found.is_err() || found.ok() == all, "a changed backup was read without an error");
    });
}

#[test]
fn cursors_and_streams_over_http() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let data = crate::server::directory();
    let server = runtime.block_on(crate::server::Server::start(data.path()));
    let cursor = runtime.block_on(async {
        for number in 0..3u64 {
            let body = serde_json::json!({"id": format!("d{number}"), "hash": format!("{number:016x}")});
            server.post("/documents", body).await;
        }
        let page = server.json("/similar?hash=0000000000000000&k=8&limit=1").await;
        page["next"].as_str().expect("there are more").to_owned()
    });
    run_decoder(&[&cursor], 20, |bytes| {
        let route = format!("{}/similar", server.url);
        let text = String::from_utf8_lossy(bytes);
        let query = [("hash", "0000000000000000"), ("k", "8"), ("limit", "1"), ("cursor", &*text)];
        let query = serde_urlencoded::to_string(query).unwrap();
        let status = runtime.block_on(server.client.get(format!("{route}?{query}")).send()).unwrap().status();
        assert!(status.is_success() || status.is_client_error(), "{status} {text:?}");
    });
    let lines = "{\"id\":\"a\",\"hash\":\"00000000000000ff\",\"metadata\":{\"x\":[1e3,\"\\u00e9\"]}}\r\n\n\
                 {\"id\":\"b\",\"text\":\"图书馆宣布\"}\noops\n{\"hash\":\"0f\",\"expires_in\":\"36h\"}";
    run_decoder(&[lines], 20, |bytes| {
        let request = server.client.post(format!("{}/documents", server.url));
        let request = request.header("content-type", "application/x-ndjson").body(bytes.to_vec());
        let answer = runtime.block_on(async { request.send().await.unwrap().text().await.unwrap() });
        let answers: Vec<serde_json::Value> =
            answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (summary, results) = answers.split_last().unwrap();
        let counts = ["created", "updated", "duplicates", "errors"];
        let counted: u64 = counts.iter().map(|of| summary["summary"][of].as_u64().unwrap()).sum();
        assert_eq!(counted as usize, results.len(), "{answer}");
        assert!(!answer.contains("\"internal\""), "{answer}");
    });
    runtime.block_on(async { assert_eq!(server.get("/readyz").await.status(), reqwest::StatusCode::OK) });
}
