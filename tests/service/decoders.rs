//! Every decoder of what comes from outside, fed with bytes at random and with valid input that was changed: it answers or
//! refuses, and never panics.
//!
//! A short run with every other test; a long one by hand: `LOOKALIKE_TEST_DECODERS=1000000 cargo test --release --locked
//! --test service decoders`.

use std::path::Path;

use lookalike::ids::{CollectionName, DocumentId, Hash};
use lookalike::keys::KeyFile;
use lookalike::{config, text};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Bytes at random, or one of these with a few bytes changed, left out or doubled.
fn input(seeds: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let random = proptest::collection::vec(any::<u8>(), 0..200);
    let edits = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..6);
    let changed = (prop::sample::select(seeds), edits).prop_map(|(seed, edits)| {
        let mut bytes = seed.as_bytes().to_vec();
        for (place, byte, how) in edits.into_iter().filter(|_| !seed.is_empty()) {
            if bytes.is_empty() {
                break;
            }
            let place = place.index(bytes.len());
            match how {
                0 => bytes[place] = byte,
                1 => drop(bytes.remove(place)),
                _ => bytes.insert(place, bytes[place]),
            }
        }
        bytes
    });
    prop_oneof![random, changed]
}

/// Feeds a decoder; `share` is how many times fewer cases a dear one gets.
fn feed(seeds: &'static [&'static str], share: u32, decode: impl Fn(&[u8])) {
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
    feed(
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
        "<html><head><title>t</title></head><body><article><h1>h</h1><p>a &amp; b</p><p>c</p></article></body></html>",
        "<table><tr><td>x<td>y</table><!-- c --><script>var a = '</script>'</script>",
        "<!DOCTYPE html><svg><math><mi><p>&#x0;&#xffffffff;",
    ];
    feed(seeds, 4, |bytes| {
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
    let load = |file: Option<&Path>, variables: Vec<(String, String)>| {
        let _ = config::load(file, variables.into_iter(), &[]);
    };
    feed(settings, 4, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        load(Some(&path), vec![]);
        let text = String::from_utf8_lossy(bytes).into_owned();
        load(None, vec![("LOOKALIKE_STORE__CACHE_BYTES".to_owned(), text.clone())]);
        load(None, vec![(format!("LOOKALIKE_{text}"), "1".to_owned())]);
    });
    let keys = &[
        "[[key]]\nname = \"a\"\nrole = \"read\"\ncollections = [\"news\"]\nmade_at = \"now\"\nsha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n",
    ];
    feed(keys, 4, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let _ = KeyFile::at(&path).read();
    });
}
