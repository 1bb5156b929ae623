//! Collections of hashes that the client makes, of every width: everything that documents of hashes have is
//! compared with loops over a list, and texts are refused with the way out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use lookalike_hash::{Hash, U256, Width};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, command, directory, ids, is_replicated};

type Stored = BTreeMap<String, Hash>;

const PROFILES: [(&str, Width); 3] =
    [("hashes-64", Width::Bits64), ("hashes-128", Width::Bits128), ("hashes-256", Width::Bits256)];

fn of(width: Width, value: U256) -> Hash {
    match width {
        Width::Bits64 => Hash::from_u64(value.low()),
        Width::Bits128 => Hash::from_u128(value.low_128()),
        Width::Bits256 => Hash::from_u256(value),
    }
}

/// Hashes around a few centres, from equal ones to those that are far apart.
fn made(width: Width, count: u32) -> Stored {
    let mut random = fastrand::Rng::with_seed(u64::from(width.bits()));
    let hash = |_| {
        let centre = random.u64(1..12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let centre = U256::from_words([centre, !centre, centre.rotate_left(17), centre ^ 0x5555]);
        let flips = random.u32(0..width.bits() / 4);
        of(width, (0..flips).fold(centre, |hash, _| hash ^ U256::from(1) << random.u32(0..width.bits())))
    };
    (0..count).map(|number| format!("d{number:03}")).zip((0..count).map(hash)).collect()
}

async fn store(server: &Server, path: &str, stored: &Stored) {
    let mut lines = String::new();
    for (id, hash) in stored {
        writeln!(lines, "{}", json!({"id": id, "hash": hash.to_string()})).unwrap();
    }
    let (failed, _) = server.stream(&format!("{path}/documents"), lines).await;
    assert!(failed.iter().all(|line| line["error"].is_null()), "{failed:?}");
}

/// The ids within k of a hash, nearest first.
fn near(stored: &Stored, hash: Hash, k: u32) -> Vec<String> {
    let with_distance = stored.iter().map(|(id, other)| (hash.distance(*other).unwrap(), id));
    let mut near: Vec<(u32, &String)> = with_distance.filter(|(distance, _)| *distance <= k).collect();
    near.sort_unstable();
    near.into_iter().map(|(_, id)| id.clone()).collect()
}

/// Compares lookups at several k, and all at the collection's own, with a loop.
async fn compare(server: &Server, path: &str, stored: &Stored, own_k: u32) {
    let width = stored.values().next().unwrap().width();
    for (number, hash) in stored.values().step_by(17).enumerate() {
        let query = of(width, hash.value() ^ U256::from(0b1011 << number));
        for k in [0, 3, own_k, own_k + 9, width.bits() / 2, width.bits()] {
            let expected = near(stored, query, k);
            for verify in ["", "&verify=scan"] {
                let route = format!("{path}/similar?hash={query}&k={k}&limit=1000{verify}");
                assert_eq!(ids(&server.json(&route).await), expected, "{route}");
            }
        }
        let own = server.json(&format!("{path}/similar?hash={query}&limit=1000")).await;
        assert_eq!(ids(&own), near(stored, query, own_k));
    }
    let queries: Vec<Value> =
        stored.values().take(20).map(|hash| json!({"hash": hash.to_string(), "limit": 1000})).collect();
    let (status, batch) = server.post(&format!("{path}/batch/similar"), json!({"queries": queries})).await;
    assert_eq!(status, StatusCode::OK, "{batch}");
    for (answer, hash) in batch["results"].as_array().unwrap().iter().zip(stored.values()) {
        assert_eq!(ids(answer), near(stored, *hash, own_k));
    }
    let text = server.get(&format!("{path}/pairs?k={own_k}")).await.text().await.unwrap();
    let mut expected = 0;
    for (at, hash) in stored.values().enumerate() {
        expected +=
            stored.values().skip(at + 1).filter(|other| hash.distance(**other) <= Some(own_k)).count();
    }
    assert_eq!(text.lines().filter(|line| line.contains("\"first\"")).count(), expected);
}

#[tokio::test]
async fn hashes_of_every_width_live_as_other_documents_do() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    for (profile, width) in PROFILES {
        let path = format!("/collections/{profile}");
        let (status, made_collection) =
            server.put(&path, json!({"profile": profile, "clusters": {"keep": "first"}})).await;
        assert!(status.is_success(), "{made_collection}");
        let own_k = width.bits() / 8 - 1;
        assert_eq!((&made_collection["bits"], &made_collection["k"]), (&json!(width.bits()), &json!(own_k)));
        let mut stored = made(width, 300);
        store(&server, &path, &stored).await;
        compare(&server, &path, &stored, own_k).await;
        // Overwritten, deleted, expired and refused documents.
        let others: Stored =
            stored.keys().step_by(5).cloned().zip(made(width, 90).into_values().rev()).collect();
        store(&server, &path, &others).await;
        stored.extend(others);
        for id in stored.keys().step_by(7).cloned().collect::<Vec<_>>() {
            assert_eq!(server.delete(&format!("{path}/documents/{id}")).await, StatusCode::NO_CONTENT);
            stored.remove(&id);
        }
        let (_, hash) = stored.first_key_value().unwrap();
        let expired = json!({"id": "gone", "hash": hash.to_string(), "expires_in": "1s"});
        assert!(server.post(&format!("{path}/documents"), expired).await.0.is_success());
        let again = json!({"id": "again", "hash": hash.to_string()});
        let (_, skipped) = server.post(&format!("{path}/documents?on_duplicate=skip"), again).await;
        assert_eq!(skipped["outcome"], "duplicate", "{skipped}");
        tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
        compare(&server, &path, &stored, own_k).await;
        let pair: Vec<(&String, &Hash)> = stored.iter().take(2).collect();
        let (_, compared) = server
            .post(
                &format!("{path}/compare"),
                json!({"a": {"id": pair[0].0}, "b": {"hash": pair[1].1.to_string()}}),
            )
            .await;
        assert_eq!(compared["distance"], json!(pair[0].1.distance(*pair[1].1)), "{compared}");
        let clusters = server.json(&format!("{path}/clusters?limit=1")).await;
        assert!(clusters["clusters"].as_array().is_some_and(|list| !list.is_empty()), "{clusters}");
        // From the journal after a kill, and from a snapshot.
        server.kill();
        server = Server::start(data.path()).await;
        compare(&server, &path, &stored, own_k).await;
        assert_eq!(server.post("/snapshots", json!(null)).await.0, StatusCode::CREATED);
        server.kill();
        server = Server::start(data.path()).await;
        compare(&server, &path, &stored, own_k).await;
        // A backup, and an export that is imported again.
        let tar = server.get(&format!("{path}/backup")).await.bytes().await.unwrap();
        let restored = format!("/collections/r-{profile}");
        let request = server.client.post(format!("{}{restored}/restore", server.url));
        let request = request.header("content-type", "application/x-tar").body(tar);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::CREATED);
        compare(&server, &restored, &stored, own_k).await;
        let exported = server.get(&format!("{path}/export")).await.text().await.unwrap();
        let imported = format!("/collections/i-{profile}");
        server.put(&imported, json!({"profile": profile, "clusters": {"keep": "first"}})).await;
        server.stream(&format!("{imported}/documents"), exported).await;
        compare(&server, &imported, &stored, own_k).await;
        assert_eq!(server.delete(&path).await, StatusCode::NO_CONTENT);
    }
    assert!(server.stop().success());
    // `repair` is for the directory of one server.
    if is_replicated() {
        return;
    }
    let repaired = directory();
    let [from, to] =
        [data.path(), &repaired.path().join("new")].map(|path| path.to_str().unwrap().to_owned());
    for arguments in [vec!["verify", &from], vec!["repair", "--to", &to, &from]] {
        let done = command(&arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let server = Server::start(to.as_ref()).await;
    for (profile, _) in PROFILES {
        let path = format!("/collections/r-{profile}");
        let [one, other] = [&path, &format!("/collections/i-{profile}")].map(|path| format!("{path}/export"));
        let [one, other] = [server.get(&one).await, server.get(&other).await];
        let [one, other] = [one.text().await.unwrap(), other.text().await.unwrap()];
        // The headers name the collections.
        assert!(one.lines().skip(1).eq(other.lines().skip(1)), "{profile}");
    }
}

#[tokio::test]
async fn texts_and_other_hashes_are_refused_with_the_way_out() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/images", json!({"profile": "hashes-256"})).await;
    let at = |what: &str| format!("/collections/images/{what}");
    let only = "profile hashes-256@1 takes no text, page or features, only a hash of 64 hexadecimal digits";
    let hash = "f".repeat(64);
    let profile = |content: Value| {
        let mut body = content;
        body["profile"] = json!("hashes-256");
        body
    };
    let cases = [
        (at("documents"), json!({"id": "a", "text": "some words"}), "/text", only),
        (at("documents"), json!({"id": "a", "html": "<p>some words</p>"}), "/html", only),
        (at("documents"), json!({"id": "a", "features": [["word", 1]]}), "/features", only),
        (at("documents"), json!({"id": "a", "hash": "f".repeat(32)}), "/hash", "of 256 bits, 64 digits"),
        (at("documents"), json!({"id": "a", "hash": "f".repeat(63)}), "/hash", "64 (256 bits)"),
        (at("similar"), json!({"text": "some words"}), "/text", only),
        (at("similar"), json!({"hash": "f".repeat(16)}), "/hash", "has 64 bits"),
        (at("similar"), json!({"hash": hash, "k": 257}), "/k", "256"),
        (at("compare"), json!({"a": {"hash": hash}, "b": {"text": "some words"}}), "/b", only),
        (at("calibrate"), json!({}), "/profiles", "a calibration compares texts"),
        ("/fingerprint".to_owned(), profile(json!({"text": "some words"})), "/text", only),
        ("/fingerprint".to_owned(), profile(json!({"text": "words", "explain": true})), "/text", only),
        ("/fingerprint".to_owned(), profile(json!({"features": [["word", 1]]})), "/features", only),
    ];
    for (route, body, field, words) in cases {
        let (status, problem) = server.post(&route, body.clone()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{route} {body} {problem}");
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], field, "{route} {body} {problem}");
        assert!(error["detail"].as_str().unwrap().contains(words), "{route} {body} {problem}");
    }
    let (_, problem) = server.post(&at("similar"), json!({"text": "words"})).await;
    assert!(problem["detail"].as_str().unwrap().contains("profiles that take texts are copies-64@1"));
    let listed = server.json("/profiles").await;
    let found = listed["profiles"].as_array().unwrap().iter().find(|one| one["profile"] == "hashes-256@1");
    assert_eq!(found.map(|one| (&one["bits"], &one["takes_texts"])), Some((&json!(256), &json!(false))));
}

#[test]
fn the_command_line_takes_hashes_of_256_bits_and_refuses_texts() {
    let folder = directory();
    let file = folder.path().join("hashes.jsonl");
    let stored = made(Width::Bits256, 120);
    let mut lines = String::new();
    let mut kept: Stored = BTreeMap::new();
    for (id, hash) in &stored {
        writeln!(lines, "{}", json!({"id": id, "pdq": hash.to_string()})).unwrap();
        if near(&kept, *hash, 31).is_empty() {
            kept.insert(id.clone(), *hash);
        }
    }
    fs::write(&file, lines).unwrap();
    let [file, unique] = [&file, &folder.path().join("unique")].map(|path| path.to_str().unwrap().to_owned());
    let run = |arguments: &[&str]| {
        let done = command(arguments).output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let dedupe = ["dedupe", &file, "-o", &unique, "--profile", "hashes-256"];
    let (success, message) = run(&dedupe);
    assert!(!success && message.contains("--hash-field"), "{message}");
    let (success, message) = run(&[&dedupe[..], &["--hash-field", "pdq"]].concat());
    assert!(success, "{message}");
    let found: Vec<String> = fs::read_to_string(format!("{unique}/hashes.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(found, kept.into_keys().collect::<Vec<_>>());
    let (success, message) = run(&["fingerprint", "--profile", "hashes-256", &file]);
    assert!(!success && message.contains("profiles that take texts are copies-64@1"), "{message}");
}
