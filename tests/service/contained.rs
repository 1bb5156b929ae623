//! Texts that stand in other ones are an outcome of their own: in lookups, on arrival, in dry runs, clusters
//! and comparisons. A twin decides by sets of letter runs what each pair is.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::clusters::wait_until_decided;
use crate::server::{Server, directory};

/// The letters of a run of the twin, and the shares within which it does not decide: runs across changes
/// are in one text only.
const RUN: usize = 8;
const UNSURE: std::ops::Range<f64> = 0.74..0.86;

fn runs(text: &str) -> HashSet<Vec<char>> {
    let letters: Vec<char> = text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
    letters.windows(RUN).map(<[char]>::to_vec).collect()
}

/// The shares of two texts that are in the other one, by their runs.
fn shares(a: &str, b: &str) -> [f64; 2] {
    let [a, b] = [runs(a), runs(b)];
    let shared = a.intersection(&b).count() as f64;
    [&a, &b].map(|all| shared / all.len() as f64)
}

/// What the twin says of two texts; `None` if it is not sure.
fn relation(a: &str, b: &str) -> Option<&'static str> {
    let shares = shares(a, b);
    if shares.iter().any(|share| UNSURE.contains(share)) {
        return None;
    }
    Some(match shares.map(|share| share >= 0.8) {
        [true, true] => "duplicate",
        [true, false] => "contained_in",
        [false, true] => "contains",
        [false, false] => "unlike",
    })
}

/// Texts in English, Chinese and Russian; generated ones of two alphabets where the folder is missing.
fn languages() -> HashMap<&'static str, Vec<String>> {
    let folder = std::env::var_os("LOOKALIKE_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let mut found = HashMap::from([
        ("generated", (0..40).map(|number| generated(number, 'a', 26)).collect()),
        ("signs", (0..40).map(|number| generated(number, '\u{4e00}', 9_000)).collect()),
    ]);
    let sets = [
        ("english", "en_reuters/docs.jsonl.gz"),
        ("chinese", "zh_edits/docs.jsonl.gz"),
        ("russian", "languages/ru.jsonl.gz"),
    ];
    for (name, path) in sets {
        let Ok(file) = File::open(folder.join(path)) else {
            println!("skipped: {path} is missing in {}", folder.display());
            continue;
        };
        let lines = BufReader::new(GzDecoder::new(file)).lines().map_while(Result::ok);
        let text =
            |line: String| serde_json::from_str::<Value>(&line).unwrap()["text"].as_str().unwrap().to_owned();
        let mut texts: Vec<String> = lines.map(text).filter(|text| text.chars().count() > 500).collect();
        // Edited copies follow each other.
        texts = texts.into_iter().step_by(7).take(40).collect();
        texts.retain_mut(|text| {
            *text = text.chars().take(1_500).collect();
            true
        });
        found.insert(name, texts);
    }
    found
}

/// A text of random words of these letters.
fn generated(number: u64, first: char, letters: u32) -> String {
    let mut random = fastrand::Rng::with_seed(number);
    let letter = |random: &mut fastrand::Rng| char::from_u32(first as u32 + random.u32(..letters)).unwrap();
    let mut text = String::new();
    for _ in 0..180 {
        (0..random.u32(2..7)).for_each(|_| text.push(letter(&mut random)));
        text.push(' ');
    }
    text
}

fn start(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

/// Pairs of a text that is stored and one that arrives, each with a name.
fn pairs(texts: &[String]) -> Vec<(String, String, String)> {
    let mut pairs = Vec::new();
    for (at, four) in texts.chunks_exact(4).enumerate() {
        let [a, b, c, d] = four else { unreachable!() };
        let length = a.chars().count();
        let [title, tail] = [b, c].map(|text| start(text, length / 2));
        let footer = start(d, 60);
        let mut add = |kind: &str, stored: String, arrives: String| {
            pairs.push((format!("{kind}{at}"), stored, arrives));
        };
        match at % 5 {
            0 => add("titled", format!("{title} {a} {tail}"), a.clone()),
            1 => add("quoted", start(a, 500), format!("{b} {} {c}", start(a, 500))),
            2 => add("quotation", format!("{b} {} {c}", start(a, 500)), start(a, 500)),
            3 => add("footer", format!("{a} {footer}"), format!("{b} {footer}")),
            _ => add("equal", a.clone(), a.clone()),
        }
    }
    pairs
}

async fn create(server: &Server, name: &str, settings: Value) -> String {
    let (status, answer) = server.put(&format!("/collections/{name}"), settings).await;
    assert!(status.is_success(), "{answer}");
    format!("/collections/{name}")
}

/// What an answer says about a document, in any of its lists.
fn said<'v>(answer: &'v Value, id: &str) -> Option<&'v str> {
    let lists = [&answer["passages"]["documents"], &answer["similar"]];
    let all = lists.into_iter().filter_map(Value::as_array).flatten();
    all.filter(|near| near["id"] == id).find_map(|near| near["relation"].as_str())
}

#[tokio::test]
async fn every_answer_says_what_a_text_is_to_another_one_as_sets_of_runs_say() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for (language, texts) in languages() {
        let settings = [
            ("kept", json!({"passages": true, "keep_text": true})),
            ("exact", json!({"passages": "exact", "keep_text": true})),
            ("grams", json!({"passages": "exact"})),
            ("signed", json!({"passages": true, "profile": "minhash"})),
        ];
        for (kind, settings) in settings {
            let of = create(&server, &format!("{language}-{kind}"), settings).await;
            let (skip, mut unsure) = ("on_duplicate=skip&min_containment=0.8", 0);
            for (id, stored, arrives) in pairs(&texts) {
                let context = format!("{language} {kind} {id}");
                server.post(&format!("{of}/documents"), json!({"id": id, "text": stored})).await;
                let Some(expected) = relation(&arrives, &stored) else {
                    unsure += 1;
                    continue;
                };
                let (_, found) = server.post(&format!("{of}/similar"), json!({"text": arrives})).await;
                assert_eq!(said(&found, &id).unwrap_or("unlike"), expected, "{context}: {found}");
                let sides = json!({"a": {"text": arrives}, "b": {"text": stored}});
                let (_, compared) = server.post("/compare", sides).await;
                assert_eq!(compared["relation"], expected, "{context}");
                // Without the flag it is stored, and the answer names the text that contains it.
                let new = json!({"id": "new", "text": arrives});
                let (_, added) = server.post(&format!("{of}/documents"), new.clone()).await;
                assert_eq!(added["outcome"], "created", "{context}: {added}");
                if expected == "contained_in" {
                    let near = said(&added, &id).map(|near| (json!(id), json!(near), json!(1)));
                    let named = &added["contained_in"];
                    let near =
                        near.unwrap_or((named["id"].clone(), json!("contained_in"), named["share"].clone()));
                    assert_eq!(
                        (&near.0, &near.1),
                        (&json!(id), &json!("contained_in")),
                        "{context}: {added}"
                    );
                    assert!(near.2.as_f64().unwrap() >= 0.8, "{context}: {added}");
                } else {
                    assert!(added["contained_in"].is_null(), "{context}: {added}");
                }
                server.delete(&format!("{of}/documents/new")).await;
                // With it, neither duplicates nor parts are stored, and a dry run says so.
                let (_, foreseen) =
                    server.post(&format!("{of}/preview/documents?{skip}"), json!([new])).await;
                let (results, summary) =
                    server.stream(&format!("{of}/documents?{skip}"), format!("{new}\n")).await;
                let outcome = &results[0]["outcome"];
                let wanted = match expected {
                    "duplicate" | "contained_in" => expected,
                    _ => "created",
                };
                // A near text that stands in a stored one is a duplicate by the rule of the collection.
                let is_near = results[0]["similar"][0]["shared"].is_null() && outcome == "duplicate";
                assert!(*outcome == wanted || is_near, "{context}: {results:?}");
                let count = |name: &str| foreseen[name].as_u64().unwrap_or(0);
                assert_eq!(count("contained"), u64::from(outcome == "contained_in"), "{context}: {foreseen}");
                assert_eq!(summary["contained"].as_u64().unwrap_or(0), count("contained"), "{summary}");
                assert_eq!(count("near_stored"), u64::from(outcome == "duplicate"), "{context}: {foreseen}");
                if outcome == "contained_in" {
                    assert_eq!(foreseen["results"][0]["in_stored"]["id"], *id, "{foreseen}");
                    assert_eq!(results[0]["similar"][0]["relation"], "contained_in", "{results:?}");
                }
                server.delete(&format!("{of}/documents/new")).await;
            }
            assert!(unsure < 4, "{language}: {unsure} pairs are near the limit");
        }
    }
}

#[tokio::test]
async fn without_passages_sketches_and_kept_texts_tell_parts_of_near_texts() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (mut right, mut all) = (0, 0);
    for (language, texts) in languages() {
        for keeps_text in [true, false] {
            let settings = json!({"keep_text": keeps_text, "profile": "copies-128", "sketch_bytes": 64});
            let of = create(&server, &format!("{language}-{keeps_text}"), settings).await;
            for (at, two) in texts.chunks_exact(2).enumerate() {
                let id = format!("whole{at}");
                let whole = format!("{} {}", two[0], start(&two[1], two[0].chars().count() * 2 / 3));
                server.post(&format!("{of}/documents"), json!({"id": id, "text": whole})).await;
                let plain = server.post(&format!("{of}/similar"), json!({"text": two[0], "k": 128})).await.1;
                assert_eq!(said(&plain, &id), None, "no text or sketch was compared: {plain}");
                if relation(&two[0], &whole) != Some("contained_in") {
                    continue;
                }
                for (text, expected) in [(&two[0], "contained_in"), (&whole, "duplicate")] {
                    let query = json!({"text": text, "k": 128, "min_similarity": 0.0});
                    let (_, found) = server.post(&format!("{of}/similar"), query).await;
                    let said = said(&found, &id).unwrap();
                    assert!(said == expected || !keeps_text, "{language} {id}: {found}");
                    (right, all) = (right + u32::from(said == expected), all + 1);
                }
                // What an insert names is estimated by sketches.
                let part = json!({"id": "part", "text": two[0]});
                let (_, added) = server.post(&format!("{of}/documents?on_duplicate=skip"), part).await;
                if added["outcome"] == "duplicate" {
                    let said = said(&added, &id).unwrap();
                    (right, all) = (right + u32::from(said == "contained_in"), all + 1);
                }
                server.delete(&format!("{of}/documents/part")).await;
            }
        }
    }
    println!("{right} of {all} are right");
    assert!(right * 100 >= all * 95, "{right} of {all}");
    // Hashes have no parts.
    server.post("/documents", json!({"id": "h", "hash": "0000000000000001"})).await;
    let (_, found) = server.post("/similar", json!({"hash": "0000000000000000", "k": 3})).await;
    assert_eq!(found["similar"][0]["id"], "h", "{found}");
    assert!(found["similar"][0]["relation"].is_null(), "{found}");
}

#[tokio::test]
async fn members_of_clusters_say_that_they_are_parts_and_a_part_replaces_nothing() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let settings =
        json!({"clusters": {"keep": "longest"}, "profile": "minhash", "threshold": 0.4, "passages": true});
    let of = create(&server, "press", settings).await;
    let [a, b, c] = [1, 2, 3].map(|number| generated(number, 'a', 26));
    let whole = format!("{a} {}", start(&b, 500));
    for (id, text) in [("part", &a), ("whole", &whole), ("copy", &whole)] {
        server.post(&format!("{of}/documents"), json!({"id": id, "text": text})).await;
    }
    wait_until_decided(&server, &of).await;
    let cluster = server.json(&format!("{of}/clusters/whole")).await;
    let said = |id: &str| {
        let members = cluster["members"].as_array().unwrap().iter();
        members.clone().find(|member| member["id"] == id).unwrap_or_else(|| panic!("{cluster}"))["relation"]
            .clone()
    };
    assert_eq!((said("part"), said("copy")), (json!("contained_in"), json!("duplicate")), "{cluster}");
    // A quotation is not near the text that has it, so it would be stored.
    let long = format!("{b} {} {c}", start(&a, 400));
    server.post(&format!("{of}/documents"), json!({"id": "long", "text": long})).await;
    let quotation = json!({"id": "quotation", "text": start(&c, 500)});
    let replace = format!("{of}/documents?on_duplicate=replace");
    let (_, kept) = server.post(&format!("{replace}&min_containment=0.8"), quotation.clone()).await;
    assert_eq!(
        (&kept["outcome"], &kept["similar"][0]["id"]),
        (&json!("contained_in"), &json!("long")),
        "{kept}"
    );
    let (_, stored) = server.post(&replace, quotation).await;
    assert_eq!(
        (&stored["outcome"], &stored["contained_in"]["id"]),
        (&json!("created"), &json!("long")),
        "{stored}"
    );
    let refused = server.post(&format!("{of}/documents?min_containment=0.8"), json!({"text": a})).await.1;
    assert!(refused["detail"].as_str().unwrap().contains("on_duplicate=skip or replace"), "{refused}");
}

#[tokio::test]
async fn a_dry_run_knows_parts_of_earlier_documents_and_an_import_counts_them() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let of = create(&server, "pages", json!({"passages": true})).await;
    let long = |number| format!("{} {}", generated(number, 'a', 26), generated(100 + number, 'a', 26));
    let documents: Vec<Value> = (0..10)
        .flat_map(|n| {
            [("whole", long(n)), ("part", start(&long(n), 600))].map(|(kind, text)| (n, kind, text))
        })
        .map(|(n, kind, text)| json!({"id": format!("{kind}{n}"), "text": text}))
        .collect();
    let rule = "on_duplicate=skip&min_containment=0.8";
    let mut parts = 0;
    for (from, some) in documents.chunks(7).enumerate().map(|(at, some)| (7 * at, some)) {
        let path = format!("{of}/preview/documents?{rule}&run=file&from={from}");
        let (_, foreseen) = server.post(&path, json!(some)).await;
        parts += foreseen["contained"].as_u64().unwrap_or(0);
        for (at, result) in foreseen["results"].as_array().unwrap().iter().enumerate() {
            if let Some(place) = result["in_earlier"].as_u64() {
                assert_eq!(place + 1, (from + at) as u64, "{result}");
                assert!(result["share"].as_f64().unwrap() >= 0.8, "{result}");
            }
        }
    }
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    let (_, summary) = server.stream(&format!("{of}/documents?{rule}"), lines).await;
    assert_eq!(
        (&summary["contained"], &summary["created"]),
        (&json!(parts), &json!(20 - parts)),
        "{summary}"
    );
    assert!(parts > 7, "{parts} of ten parts");
    // Copies that the run replaced are forgotten.
    let again = [(Some("a"), long(50)), (Some("a"), long(51)), (None, start(&long(50), 600))];
    let again = again.map(|(id, text)| json!({"id": id, "text": text}));
    let (_, foreseen) = server.post(&format!("{of}/preview/documents?{rule}"), json!(again)).await;
    assert!(foreseen["contained"].is_null() && foreseen["results"][2]["in_earlier"].is_null(), "{foreseen}");
    let (_, refused) = server.post(&format!("{of}/preview/documents?min_containment=0.8"), json!([])).await;
    assert!(refused["detail"].as_str().unwrap().contains("on_duplicate=skip"), "{refused}");
}
