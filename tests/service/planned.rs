//! Deletions that are planned and cancelled, and dry runs: nothing is lost before its time, and nothing is
//! stored by a question.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory, is_replicated};

fn hash(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A number that follows from another one, without a pattern.
fn mixed(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17
}

/// One of hashes many of which are near each other.
fn near_hash(number: u64) -> String {
    format!("{:016x}", mixed(number) & 0x3333)
}

fn encoded(filter: &Value) -> String {
    percent_encoding::utf8_percent_encode(&filter.to_string(), percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The stored documents by id, without what every write changes, as the filter admits them.
async fn stored(server: &Server, filter: Value) -> BTreeMap<String, Value> {
    let page = server.json(&format!("/documents?limit=1000&filter={}", encoded(&filter))).await;
    let one = |document: &Value| {
        let mut document = document.clone();
        document.as_object_mut().unwrap().remove("written_at");
        (document["id"].as_str().unwrap().to_owned(), document)
    };
    page["documents"].as_array().unwrap_or_else(|| panic!("{page}")).iter().map(one).collect()
}

async fn fill(server: &Server) {
    let line = |number: u64| {
        let mut document =
            json!({"id": format!("d{number:02}"), "hash": hash(number), "metadata": {"n": number}});
        if number.is_multiple_of(3) {
            document["expires_in"] = json!("9d");
        }
        format!("{document}\n")
    };
    server.stream("/documents", (0..40).map(line).collect()).await;
}

/// The end of a deletion by a filter.
async fn ended(server: &Server, wanted: Value) -> Value {
    let (_, mut state) = server.post("/deletions", wanted).await;
    while state["ended_at"].is_null() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        state = server.json("/deletions").await;
    }
    state
}

#[tokio::test]
async fn a_planned_deletion_is_seen_survives_a_kill_and_can_be_undone_with_the_expiry_before_it() {
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    fill(&server).await;
    let before = stored(&server, json!({})).await;
    let ids: Vec<String> = (0..10).map(|number| format!("d{number:02}")).collect();
    let (status, planned) = server.post("/deletions", json!({"ids": ids, "expires_in": "10m"})).await;
    assert_eq!((status, &planned["planned"], &planned["deleted"]), (StatusCode::OK, &json!(10), &json!(0)));
    // Again changes nothing: the first time holds.
    let first = stored(&server, json!({"deletion_planned": true})).await;
    let (_, again) = server.post("/deletions", json!({"ids": ids, "expires_in": "1d"})).await;
    assert_eq!((&again["matched"], &again["planned"]), (&json!(10), &json!(0)), "{again}");
    server.kill();
    let server = Server::start(data.path()).await;
    assert_eq!(stored(&server, json!({"deletion_planned": true})).await, first);
    assert_eq!(first.keys().collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    assert!(
        first.values().all(|one| one["deletion_at"].is_string() && one["deletion_at"] == one["expires_at"])
    );
    // It is found until then, so that a copy that arrives is still a copy.
    let found = server.json(&format!("/similar?hash={}&k=0", hash(1))).await;
    assert_eq!(found["similar"][0]["id"], "d01", "{found}");
    // An export and a new version know nothing of the plan.
    let export = server.export("/export").await;
    assert!(!export.contains("deletion_at"), "{export}");
    server.put("/documents/d09", json!({"hash": hash(9), "metadata": {"n": 9}, "expires_in": "9d"})).await;
    assert_eq!(stored(&server, json!({"deletion_planned": true})).await.len(), 9);
    let kept = ended(&server, json!({"filter": {"id_prefix": "d0"}, "cancel": true})).await;
    assert_eq!((&kept["matched"], &kept["cancelled"]), (&json!(10), &json!(9)), "{kept}");
    let mut after = stored(&server, json!({})).await;
    for (id, document) in &mut after {
        if id == "d09" {
            document["expires_at"] = before[id]["expires_at"].clone();
        }
    }
    assert_eq!(after, before);
}

#[tokio::test]
async fn what_was_not_undone_is_deleted_in_time_and_a_backup_keeps_the_plan() {
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    fill(&server).await;
    let few = json!({"metadata": {"n": {"lt": 5}}});
    let planned = ended(&server, json!({"filter": few, "expires_in": 600})).await;
    assert_eq!(planned["planned"], 5, "{planned}");
    let backup = server.get("/collections/default/backup").await.bytes().await.unwrap();
    let restored = server.client.post(format!("{}/collections/copy/restore", server.url));
    let restored = restored.header("content-type", "application/x-tar").body(backup).send().await.unwrap();
    assert!(restored.status().is_success(), "{}", restored.text().await.unwrap());
    let filter = encoded(&json!({"deletion_planned": true}));
    let copied = server.json(&format!("/collections/copy/documents?filter={filter}&limit=100")).await;
    assert_eq!(copied["documents"].as_array().unwrap().len(), 5, "{copied}");
    let (_, soon) = server.post("/deletions", json!({"ids": ["d20", "nobody"], "expires_in": 1})).await;
    assert_eq!((&soon["matched"], &soon["planned"]), (&json!(1), &json!(1)), "{soon}");
    while server.get("/documents/d20").await.status() == StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (_, late) = server.post("/deletions", json!({"ids": ["d20"], "cancel": true})).await;
    assert_eq!((&late["matched"], &late["cancelled"]), (&json!(0), &json!(0)), "{late}");
    for wrong in [
        json!({"ids": ["d01"], "expires_in": null}),
        json!({"ids": ["d01"], "expires_in": "10m", "cancel": true}),
        json!({"ids": ["d01"], "dry_run": true, "cancel": true}),
        json!({"ids": ["d01"], "expires_in": "10m", "plan": true}),
    ] {
        let (status, problem) = server.post("/deletions", wrong).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("plan a deletion"), "{problem}");
    }
    assert_eq!(stored(&server, json!({})).await.len(), 39, "a refused request deletes nothing");
}

#[tokio::test]
async fn the_beginning_of_an_id_filters_a_list_like_a_simple_rule_also_with_foreign_cursors() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let names = ["a", "aa", "ab", "b", "b/1", "b/2", "ba", "z", "文", "文/1"];
    let lines = names.iter().zip(1..).map(|(id, n)| format!("{}\n", json!({"id": id, "hash": hash(n)})));
    server.stream("/documents", lines.collect()).await;
    for prefix in ["", "a", "aa", "b", "b/", "c", "文", "文/1", "zz"] {
        let expected: Vec<&str> = names.iter().copied().filter(|id| id.starts_with(prefix)).collect();
        let filter = json!({"id_prefix": prefix});
        let found = stored(&server, filter.clone()).await;
        assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), expected, "{prefix}");
        for cursor in names {
            let digits: String = cursor.bytes().map(|byte| format!("{byte:02x}")).collect();
            let path = format!("/documents?limit=100&cursor={digits}&filter={}", encoded(&filter));
            let page = server.json(&path).await;
            let after: Vec<&str> = expected.iter().copied().filter(|id| *id > cursor).collect();
            let ids: Vec<&str> =
                page["documents"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
            assert_eq!(ids, after, "{prefix} after {cursor}");
        }
    }
}

#[tokio::test]
async fn a_dry_run_says_what_a_store_with_skip_does_and_stores_nothing() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let text = |number: usize| {
        let words = ["ferry", "market", "orchard", "station", "theatre", "bridge", "tower", "garden", "mill"];
        let word =
            |at: usize| format!("{}{}", words[(number * 7 + at * 5) % words.len()], (number + 3) * (at + 11));
        (0..60).map(word).collect::<Vec<_>>().join(" ")
    };
    for (collection, profile) in [("bits", "copies-128"), ("sets", "minhash-copies")] {
        server.put(&format!("/collections/{collection}"), json!({"profile": profile})).await;
        let at = |path: &str| format!("/collections/{collection}{path}");
        server.put(&at("/documents/stored"), json!({"text": text(0)})).await;
        let mut documents: Vec<Value> = Vec::new();
        for number in 0..12 {
            documents.push(json!({"id": format!("n{number}"), "text": text(number)}));
            documents.push(json!({"id": format!("c{number}"), "text": text(number)}));
        }
        documents.push(json!({"id": "stored", "text": text(40)}));
        documents.push(json!({"id": "wrong"}));
        let (status, foreseen) = server.post(&at("/preview/documents"), json!(documents)).await;
        assert_eq!(status, StatusCode::OK, "{foreseen}");
        assert_eq!(server.json(&at("/documents")).await["documents"].as_array().unwrap().len(), 1);
        let counts =
            ["new", "known", "near_stored", "near_earlier", "errors"].map(|name| foreseen[name].clone());
        assert_eq!(json!(counts), json!([11, 1, 2, 11, 1]), "{foreseen}");
        assert_eq!(foreseen["results"][3]["near_earlier"], 2, "{foreseen}");
        assert_eq!(foreseen["results"][0]["near_stored"]["id"], "stored", "{foreseen}");
        // In requests of a run the results are the same.
        for size in [1, 7] {
            let mut results = Vec::new();
            for part in documents.chunks(size) {
                let path = at(&format!("/preview/documents?run=file-{size}&from={}", results.len()));
                let (status, answer) = server.post(&path, json!(part)).await;
                assert_eq!(status, StatusCode::OK, "{answer}");
                results.extend(answer["results"].as_array().unwrap().iter().cloned());
            }
            assert_eq!(json!(results), foreseen["results"]);
        }
        // The twin: storing them, one after the other.
        let (_, kept) = server.post(&at("/batch/documents?on_duplicate=skip"), json!(documents)).await;
        for (place, result) in kept["results"].as_array().unwrap().iter().enumerate() {
            let seen = &foreseen["results"][place];
            let expected = match result["outcome"].as_str() {
                Some("duplicate") => seen.get("near_stored").is_some() || seen.get("near_earlier").is_some(),
                Some("created") => {
                    ["near_stored", "near_earlier", "known"].iter().all(|name| seen.get(*name).is_none())
                }
                Some(_) => seen["known"] == true,
                None => seen.get("error").is_some(),
            };
            assert!(expected, "{place}: {result} {seen}");
        }
    }
    // By the rule of the import, with its k, each fate is the outcome: also of a document that is near one
    // that is left out.
    server.put("/collections/hashes", json!({"profile": "copies-64", "k": 0})).await;
    let hashes = ["00000000000000ff", "00000000000000f0", "0000000000000000", "000000000000000f"];
    let documents: Vec<Value> = hashes.iter().map(|hash| json!({"id": hash, "hash": hash})).collect();
    for k in [0, 3, 4, 8] {
        let rule = format!("on_duplicate=skip&k={k}");
        let (_, seen) =
            server.post(&format!("/collections/hashes/preview/documents?{rule}"), json!(documents)).await;
        let (_, kept) =
            server.post(&format!("/collections/hashes/batch/documents?{rule}"), json!(documents)).await;
        assert_eq!(seen["new"], kept["summary"]["created"], "k = {k}: {seen} {kept}");
        assert_eq!(seen["near_earlier"], kept["summary"]["duplicates"], "k = {k}: {seen} {kept}");
        server.post("/collections/hashes/deletions", json!({"ids": hashes})).await;
    }
    // Ids come again, stored ones among them: what replaces is compared, and what is replaced is not.
    for seed in 0..40_u64 {
        let stored: Vec<Value> =
            (0..4).map(|at| json!({"id": format!("d{at}"), "hash": near_hash(seed * 100 + at)})).collect();
        server.post("/collections/hashes/batch/documents", json!(stored)).await;
        let documents: Vec<Value> = (0..30)
            .map(|at| {
                let number = seed * 100 + 10 + at;
                json!({"id": format!("d{}", mixed(number) % 12), "hash": near_hash(number)})
            })
            .collect();
        let rule = ["on_duplicate=skip&k=2", "on_duplicate=skip&k=4"][seed as usize % 2];
        let of = "/collections/hashes";
        let (_, whole) = server.post(&format!("{of}/preview/documents?{rule}"), json!(documents)).await;
        let mut seen = Vec::new();
        for part in documents.chunks(7) {
            let path = format!("{of}/preview/documents?{rule}&run=again&from={}", seen.len());
            let (_, answer) = server.post(&path, json!(part)).await;
            seen.extend(answer["results"].as_array().unwrap().iter().cloned());
        }
        assert_eq!(json!(seen), whole["results"], "seed {seed}");
        let (_, kept) = server.post(&format!("{of}/batch/documents?{rule}"), json!(documents)).await;
        for (place, result) in kept["results"].as_array().unwrap().iter().enumerate() {
            let is_near = seen[place].get("near_stored").or(seen[place].get("near_earlier")).is_some();
            let expected = match result["outcome"].as_str().unwrap() {
                "duplicate" => is_near,
                "created" => !is_near && seen[place].get("known").is_none(),
                _ => !is_near && seen[place]["known"] == true,
            };
            assert!(expected, "seed {seed}, {place}: {result} {}", seen[place]);
        }
        server.delete(of).await;
        server.put(of, json!({"profile": "copies-64", "k": 0})).await;
    }
    for query in ["on_duplicate=replace", "on_duplicate=link", "k=129"] {
        let (status, problem) = server.post(&format!("/preview/documents?{query}"), json!([])).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    }
    let (status, problem) = server.post("/preview/documents", json!({"id": "a"})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    let (status, _) = server.post("/collections/none/preview/documents", json!([])).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

/// More copies of one hash than are examined at first: each replaces itself, and is near the ones before it.
#[tokio::test]
async fn a_file_of_one_text_is_compared_before_it_is_imported_again() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_LIMITS__QUERY_MS", "60000")]).await;
    let hash = hash(7);
    let line = |n: u64| json!({"id": format!("d{n:05}"), "hash": hash});
    let lines: String = (0..6_000).map(|n| format!("{}\n", line(n))).collect();
    assert_eq!(server.stream("/documents", lines).await.1["created"], 6_000);
    let preview = async |range: std::ops::Range<u64>| {
        let path = format!("/preview/documents?run=again&from={}", range.start);
        server.post(&path, json!(range.map(line).collect::<Vec<_>>())).await.1
    };
    for from in (0..6_000).step_by(1_000) {
        let seen = preview(from..from + 1_000).await;
        assert_eq!(seen["known"], 1_000, "{}", seen["detail"]);
        let results = seen["results"].as_array().unwrap();
        // Once more stored ones are replaced than are examined, the run is asked.
        let is_stored = results.iter().filter(|one| one.get("near_stored").is_some()).count();
        let is_earlier = results.iter().filter(|one| one.get("near_earlier").is_some()).count();
        assert_eq!(is_stored + is_earlier, 1_000);
        assert!(from < 3_000 || is_earlier == 1_000, "{from}: {is_stored} {is_earlier}");
    }
}

#[tokio::test]
async fn a_run_goes_on_only_where_it_ended() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let ask = async |query: &str| {
        let documents = json!([{"hash": "00000000000000ff"}]);
        server.post(&format!("/preview/documents?{query}"), documents).await
    };
    assert_eq!(ask("run=a").await.1["new"], 1);
    assert_eq!(ask("run=b").await.1["new"], 1, "another run");
    assert_eq!(ask("run=a&from=1").await.1["results"][0]["near_earlier"], 0);
    for query in ["run=a&from=1", "run=c&from=1"] {
        let (status, problem) = ask(query).await;
        assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("no_run")), "{query}");
    }
    assert_eq!(ask("run=a").await.1["new"], 1, "it begins again");
    let long = "a".repeat(65);
    for query in ["run=", "from=1", &format!("run={long}"), "run=b&from=3000000"] {
        assert_eq!(ask(query).await.0, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
    }
}

#[tokio::test]
async fn a_plan_without_a_time_is_that_of_the_server() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_SERVER__DELETION_SECONDS", "1")]).await;
    server.put("/documents/a", json!({"hash": "00000000000000ff"})).await;
    let (_, answer) = server.post("/deletions", json!({"ids": ["a"], "plan": true})).await;
    assert_eq!(answer["planned"], 1, "{answer}");
    assert!(answer["deletion_at"].as_str() > answer["ended_at"].as_str(), "{answer}");
    while server.get("/documents/a").await.status() != StatusCode::NOT_FOUND {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
