//! Weights that a collection learns from its texts: what they change, that every stored signature and sketch
//! has them, and that they go wherever the documents go.

use std::fs;

use lookalike_hash::sketch_similarity;
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::{Profile, Signature};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::dedupe::{dedupe, done, json_lines};
use crate::dedupe_weights::decree;
use crate::reindex::{reindex, wait_for_end};
use crate::server::{Server, directory};

/// A decision of a court in one of three wordings, about the persons, the street and the sum of a number.
fn judgment(number: usize) -> String {
    const FORMS: [&str; 3] = ["驳回原告诉讼请求", "准许撤回本案起诉", "变更还款期限"];
    let character = |salt: usize| {
        let digest = xxhash_rust::xxh3::xxh3_64(&(number * 16 + salt).to_le_bytes());
        char::from_u32(0x4e00 + (digest % 5_000) as u32).unwrap()
    };
    let word = |salt: usize| (0..3).map(|at| character(salt * 3 + at)).collect::<String>();
    let [name, other, street, firm] = [0, 1, 2, 3].map(word);
    format!(
        "本院依照民事诉讼法的有关规定，经过公开开庭审理，\
         对原告{name}与被告{other}的借款纠纷一案作出如下判决：\
         {}，案件受理费{number}元由住在{street}路的{firm}负担，\
         并于本判决生效之日起十日内向本院缴纳，\
         逾期不缴纳的，本院将依法强制执行。\
         如不服本判决，可在判决书送达之日起十五日内，向本院递交上诉状。",
        FORMS[number % 3]
    )
}

/// Texts of one form, and the change of wording that makes a copy.
type Kind = (fn(usize) -> String, [&'static str; 2]);

const KINDS: [Kind; 2] = [(decree, ["read aloud", "proclaimed"]), (judgment, ["公开", "依法"])];

async fn stored(server: &Server, name: &str, settings: Value, text: fn(usize) -> String, count: usize) {
    let (status, made) = server.put(&format!("/collections/{name}"), settings).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let line = |number| json!({"id": format!("d{number:04}"), "text": text(number)}).to_string() + "\n";
    server.stream(&format!("/collections/{name}/documents"), (0..count).map(line).collect()).await;
}

async fn learned(server: &Server, name: &str, wanted: Value) -> Value {
    let (status, job) = reindex(server, name, wanted).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    let job = wait_for_end(server, name).await;
    assert_eq!(job["state"], "done", "{job}");
    server.json(&format!("/collections/{name}")).await
}

/// Of new texts of the form, and of copies of stored ones, how many are not stored as duplicates.
async fn skipped(server: &Server, name: &str, (text, [before, after]): Kind) -> [usize; 2] {
    let mut counts = [0, 0];
    for number in 0..20 {
        let new = (text(1_000 + number), 0);
        let copy = (text(number * 7).replace(before, after), 1);
        for (text, kind) in [new, copy] {
            let route = format!("/collections/{name}/preview/documents?on_duplicate=skip");
            let (status, answer) = server.post(&route, json!([{"text": text}])).await;
            assert_eq!(status, StatusCode::OK, "{answer}");
            counts[kind] += usize::from(answer["results"][0].get("near_stored").is_some());
        }
    }
    counts
}

async fn table(server: &Server, name: &str) -> (Frequencies, Vec<u8>) {
    let bytes = server.get(&format!("/collections/{name}/weights")).await.bytes().await.unwrap().to_vec();
    (Frequencies::from_bytes(&bytes).unwrap(), bytes)
}

async fn put_table(server: &Server, name: &str, bytes: Vec<u8>) -> (StatusCode, Value) {
    let request = server.client.put(format!("{}/collections/{name}/weights", server.url));
    let request = request.header("content-type", "application/octet-stream").body(bytes);
    let answer = request.send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn texts_of_one_form_are_no_duplicates_once_weights_are_learned() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for (at, kind) in KINDS.into_iter().enumerate() {
        for profile in ["copies-128", "minhash-copies"] {
            let name = format!("{profile}-{at}");
            stored(&server, &name, json!({"profile": profile, "keep_text": true}), kind.0, 300).await;
            let [new, copies] = skipped(&server, &name, kind).await;
            assert!(new >= 15 && copies == 20, "{name}: the form alone makes {new} of 20 duplicates");
            let made = learned(&server, &name, json!({"weights": "learned"})).await;
            assert_eq!(made["weights"]["documents"], 300, "{made}");
            let [new, copies] = skipped(&server, &name, kind).await;
            println!("{name}: {new} of 20 new texts and {copies} of 20 copies are duplicates");
            assert!(new <= 1 && copies == 20, "{name}: {new} {copies}");
            let made = learned(&server, &name, json!({"weights": "none"})).await;
            assert_eq!(made["weights"], Value::Null);
            assert!(skipped(&server, &name, kind).await[0] >= 15);
        }
    }
}

#[tokio::test]
async fn signatures_and_sketches_have_the_weights_whenever_they_are_made() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    let cases = [("minhash-copies", "minhash-copies", "signature"), ("copies-128", "pairs-64", "sketch")];
    for (profile, features, field) in cases {
        stored(&server, profile, json!({"profile": profile, "keep_text": true}), decree, 150).await;
        let made = learned(&server, profile, json!({"weights": "learned"})).await;
        // Written after it, and by a server that was killed.
        let documents = format!("/collections/{profile}/documents");
        assert_eq!(server.post(&documents, json!({"text": decree(900), "id": "e0"})).await.0, 201);
        server.kill();
        server = Server::start(data.path()).await;
        assert_eq!(server.json(&format!("/collections/{profile}")).await["weights"], made["weights"]);
        assert_eq!(server.post(&documents, json!({"text": decree(901), "id": "e1"})).await.0, 201);
        // Without their texts, documents are exported with their signatures or sketches.
        server.put(&format!("/collections/{profile}"), json!({"keep_text": false})).await;
        assert_eq!(server.post(&documents, json!({"text": decree(902), "id": "e2"})).await.0, 201);
        let (table, _) = table(&server, profile).await;
        assert_eq!(format!("{:016x}", table.digest()), made["weights"]["digest"].as_str().unwrap());
        let [own, features] = [profile, features].map(|name| Profile::named(name).unwrap());
        assert_eq!(table.kind(), features.kind_of_features());
        let expected = |text: &str| {
            if field == "signature" {
                return own.sign_weighted(&table, text).signature.unwrap();
            }
            let set = features.feature_set(text);
            Signature::weighted(&set, &table.weights(&set), 256).sketch(1).bytes().to_vec()
        };
        let export = server.export(&format!("/collections/{profile}/export")).await;
        let line = export.lines().find(|line| line.contains("\"e2\"")).unwrap();
        let made = expected(&decree(902));
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()[field], digits(&made), "{line}");
        for (id, number) in [("d0007", 7), ("e0", 900), ("e1", 901)] {
            let query = json!({"a": {"id": id}, "b": {"text": decree(902)}});
            let (_, compared) = server.post(&format!("/collections/{profile}/compare"), query).await;
            let similarity = compared["similarity"].as_f64().unwrap();
            let estimate = match field {
                "signature" => own.signatures().unwrap().similarity(
                    made.iter().zip(&expected(&decree(number))).filter(|(a, b)| a != b).count() as u32,
                ),
                _ => sketch_similarity(&made, &expected(&decree(number))),
            };
            assert!((similarity - estimate).abs() < 0.15, "{id}: {similarity} {estimate}");
        }
        if field == "signature" {
            let (_, answer) = server.post("/fingerprint", json!({"text": "x y z", "profile": profile})).await;
            assert_eq!(answer["profile"], "minhash-copies@1");
        }
    }
}

#[tokio::test]
async fn weights_go_where_documents_go() {
    let [data, other] = [directory(), directory()];
    let server = Server::start(data.path()).await;
    let settings = json!({"profile": "minhash-copies", "keep_text": true});
    stored(&server, "laws", settings.clone(), decree, 200).await;
    let laws = learned(&server, "laws", json!({"weights": "learned"})).await;
    let digest = laws["weights"]["digest"].as_str().unwrap();
    // A file, another collection, and a backup have the same table.
    let (_, bytes) = table(&server, "laws").await;
    for name in ["file", "of"] {
        stored(&server, name, settings.clone(), decree, 20).await;
    }
    assert_eq!(put_table(&server, "file", bytes.clone()).await.0, StatusCode::ACCEPTED);
    assert_eq!(wait_for_end(&server, "file").await["collection"]["weights"], laws["weights"]);
    let of = learned(&server, "of", json!({"weights": {"of": "laws"}})).await;
    assert_eq!((&of["weights"], &of["k"]), (&laws["weights"], &laws["k"]));
    // Another reindex keeps them.
    let kept = learned(&server, "of", json!({"passages": true})).await;
    assert_eq!((&kept["weights"], &kept["k"]), (&laws["weights"], &laws["k"]));
    let backup = server.get("/collections/laws/backup").await.bytes().await.unwrap();
    let far = Server::start(other.path()).await;
    let request = far.client.post(format!("{}/collections/laws/restore", far.url));
    let restored = request.header("content-type", "application/x-tar").body(backup).send().await.unwrap();
    assert_eq!(restored.status(), StatusCode::CREATED);
    assert_eq!(table(&far, "laws").await.1, bytes);
    // Signatures say what made them, and are refused where other weights are.
    server.put("/collections/laws", json!({"keep_text": false})).await;
    server.put("/collections/laws/documents/s1", json!({"text": decree(990)})).await;
    let export = server.get("/collections/laws/export").await.text().await.unwrap();
    let header = export.lines().next().unwrap();
    assert!(header.contains(&format!("\"profile\":\"minhash-copies@1~{digest}\"")), "{header}");
    let line = export.lines().find(|line| line.contains("\"s1\"")).unwrap();
    assert!(line.contains("\"signature\""), "{line}");
    // A run of `dedupe` against the collection has its weights.
    let folder = directory();
    let copy = json!({"id": "copy", "text": decree(990).replace("read aloud", "proclaimed")});
    let new = json!({"id": "new", "text": decree(5_000)});
    fs::write(folder.path().join("in.jsonl"), format!("{copy}\n{new}\n")).unwrap();
    let url = format!("{}/collections/laws", server.url);
    let arguments = ["in.jsonl", "-o", "out", "--duplicates", "d.jsonl", "--against", &url];
    let summary = done(folder.path(), &arguments);
    assert!(summary.contains(&format!("200 texts, digest {digest}")), "{summary}");
    let dropped = json_lines(&folder.path().join("d.jsonl"));
    assert_eq!((dropped.len(), &dropped[0]["id"]), (1, &json!("copy")), "{dropped:?}");
    let refused = dedupe(folder.path(), &[&arguments[..], &["--force", "--weights", "none"]].concat());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("leave it out"), "{refused:?}");
    far.put("/collections/plain", json!({"profile": "minhash-copies"})).await;
    let lines = format!("{header}\n{line}\n");
    let request = far.client.post(format!("{}/collections/plain/documents", far.url));
    let request = request.header("content-type", "application/x-ndjson").body(lines.clone());
    let refused: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(refused["code"], "profile_mismatch", "{refused}");
    let (results, _) = far.stream("/collections/laws/documents", lines).await;
    assert_eq!(results[0]["outcome"], "created", "{results:?}");
    let signature = serde_json::from_str::<Value>(line).unwrap()["signature"].clone();
    let plain = json!({"signature": signature, "profile": "minhash-copies"});
    let both = json!({"a": plain, "b": {"id": "s1"}});
    for (route, body) in [("documents", &plain), ("similar", &plain), ("compare", &both)] {
        let (status, problem) = far.post(&format!("/collections/laws/{route}"), body.clone()).await;
        assert_eq!((status, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid_field")));
        let made_by = format!("minhash-copies@1~{digest}");
        assert!(problem["detail"].as_str().unwrap().contains(&made_by), "{problem}");
        let named = json!({"signature": signature, "profile": made_by});
        let named = if route == "compare" { json!({"a": named, "b": {"id": "s1"}}) } else { named };
        let (status, answer) = far.post(&format!("/collections/laws/{route}"), named).await;
        assert!(status.is_success(), "{answer}");
    }
    let both = json!({"a": {"text": decree(990)}, "b": {"text": decree(990)}, "profile": "minhash-copies"});
    let (_, compared) = far.post("/collections/laws/compare", both).await;
    assert_eq!(
        (&compared["k"], &compared["profile"]),
        (&laws["k"], &json!(format!("minhash-copies@1~{digest}")))
    );
    // A dry run ends when the weights change.
    let route = "/collections/of/preview/documents?run=r&from=";
    assert_eq!(server.post(&format!("{route}0"), json!([{"text": decree(1)}])).await.0, StatusCode::OK);
    learned(&server, "of", json!({"weights": "none"})).await;
    let (_, problem) = server.post(&format!("{route}1"), json!([{"text": decree(1)}])).await;
    assert_eq!(problem["code"], "no_run", "{problem}");
}

#[tokio::test]
async fn weights_that_do_not_fit_are_refused() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let detail = |problem: &Value| problem["detail"].as_str().unwrap().to_owned();
    stored(&server, "few", json!({"profile": "minhash-copies", "keep_text": true}), decree, 99).await;
    let none = server.get("/collections/few/weights").await;
    assert_eq!(none.json::<Value>().await.unwrap()["code"], "no_weights");
    let (status, _) = reindex(&server, "few", json!({"weights": "learned"})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let job = wait_for_end(&server, "few").await;
    assert_eq!((&job["state"], &job["error"]["code"]), (&json!("failed"), &json!("no_texts")), "{job}");
    assert!(detail(&job["error"]).contains("99 different texts"), "{job}");
    stored(&server, "laws", json!({"keep_text": true}), decree, 120).await;
    let laws = learned(&server, "laws", json!({"weights": "learned"})).await;
    // The table of pairs of words does not weigh the features of another profile.
    let (_, bytes) = table(&server, "laws").await;
    for (status, problem) in [
        put_table(&server, "few", bytes.clone()).await,
        reindex(&server, "few", json!({"weights": {"of": "laws"}})).await,
        reindex(&server, "laws", json!({"profile": "minhash-copies"})).await,
    ] {
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(
            detail(&problem).contains("counts other features than those of minhash-copies@1"),
            "{problem}"
        );
        assert_eq!(problem["errors"][0]["pointer"], "/weights", "{problem}");
    }
    for bytes in [bytes[..bytes.len() - 1].to_vec(), b"lookidf1 and more".to_vec(), Vec::new()] {
        let (status, problem) = put_table(&server, "laws", bytes).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    }
    let (status, problem) = put_table(&server, "laws", [&bytes[..], b"!"].concat()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{problem}");
    for wrong in [json!("idf"), json!({"of": "no such name!"}), json!(3), json!({"of": "absent"})] {
        let (status, problem) = reindex(&server, "laws", json!({"weights": wrong})).await;
        assert!(status.is_client_error(), "{problem}");
    }
    // A collection without sketches has nothing to weigh.
    stored(&server, "bare", json!({"keep_text": true, "sketch_bytes": 0}), decree, 120).await;
    let (status, problem) = reindex(&server, "bare", json!({"weights": "learned"})).await;
    assert!(
        status == StatusCode::UNPROCESSABLE_ENTITY && detail(&problem).contains("sketch_bytes"),
        "{problem}"
    );
    assert_eq!(server.json("/collections/laws").await, laws, "nothing of all this changed it");
}
