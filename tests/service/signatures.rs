//! Collections of signatures (`MinHash` and longest sentences) on every route. Every answer is compared
//! with an exhaustive comparison of all signatures.

use std::collections::{BTreeMap, BTreeSet};

use lookalike_hash::SignatureShape;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory, ids};

const SENTENCES: [&str; 12] = [
    "The harbour office said on Monday that the ferry to the islands will run twice a day \
     until the end of March.",
    "Tickets can be bought at the pier, and children under six travel for nothing if an adult is with them.",
    "In a storm the captain decides whether the ship sails, and the office puts a note on its door \
     an hour before.",
    "市图书馆昨天宣布,从下个月开始延长周末的开放时间,\
     读者可以在馆内阅读到晚上十点。",
    "馆长表示,新的自习区有两百个座位,每个座位都有电源和台灯,\
     不需要预约就可以使用。",
    "В понедельник управление порта сообщило, что паром \
     на острова будет ходить два раза в день до конца марта.",
    "港の事務所は月曜日に、\
     島へのフェリーが三月末まで一日二回運航すると発表しました。",
    "항만 사무소는 월요일에 섬으로 가는 여객선이 삼월 말까지 하루에 두 \
     번 운항한다고 밝혔다.",
    "Bread is baked in the old mill every Saturday, and whoever brings flour may take two loaves home \
     for free.",
    "The mill was built in 1742 by a family of carpenters, burned down twice, and was rebuilt in stone \
     each time.",
    "Visitors can see the wheel turn from a bridge behind the bakery, except when the brook is frozen \
     in winter.",
    "กรุงเทพมหานครเป็นเมืองหลวง\
     และนครที่มีประชากร\
     มากที่สุดของประเทศไทย",
];

/// Text `i`: the sentences whose bits are set in `i`. It shares many sentences with other texts.
fn text(i: usize) -> String {
    let picked = |(at, sentence): (usize, &&str)| (i >> at & 1 == 1).then(|| (*sentence).to_owned());
    let all: Vec<String> = SENTENCES.iter().enumerate().filter_map(picked).collect();
    all.join(" ")
}

/// Numbers of texts with at least three sentences.
fn numbers() -> impl Iterator<Item = usize> {
    (1..1 << SENTENCES.len()).step_by(11).filter(|i: &usize| i.count_ones() >= 3)
}

fn bytes(signature: &Value) -> Vec<u8> {
    let digits = signature.as_str().unwrap();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn shape(of: &Value, is_set: bool) -> SignatureShape {
    let number = |name: &str| of["signatures"][name].as_u64().unwrap();
    let cell_bytes = number("bytes") / number("cells");
    SignatureShape {
        cells: number("cells") as u16,
        cell_bytes: cell_bytes as u8,
        bands: number("bands") as u16,
        rows: number("rows") as u16,
        is_set,
    }
}

/// Every signature of an export, by id.
async fn exported(server: &Server, collection: &str) -> BTreeMap<String, Vec<u8>> {
    let lines = server.export(&format!("/collections/{collection}/export")).await;
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["hash"].is_null() && line["text"].is_null());
        (line["id"].as_str().unwrap().to_owned(), bytes(&line["signature"]))
    };
    lines.lines().map(line).collect()
}

fn share_a_band(shape: SignatureShape, a: &[u8], b: &[u8]) -> bool {
    let band = usize::from(shape.cell_bytes) * usize::from(shape.rows);
    if shape.is_set {
        let real = |cell: &[u8]| cell.iter().any(|byte| *byte != 0);
        return a.chunks(band).any(|cell| real(cell) && b.chunks(band).any(|other| other == cell));
    }
    a.chunks(band).zip(b.chunks(band)).take(usize::from(shape.bands)).any(|(a, b)| a == b)
}

/// The elements that more than [`SignatureShape::MAX_SHARED`] different signatures have.
fn standing_phrases(shape: SignatureShape, stored: &BTreeMap<String, Vec<u8>>) -> BTreeSet<&[u8]> {
    let signatures: BTreeSet<&Vec<u8>> = stored.values().collect();
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    for signature in signatures {
        signature.chunks(shape.cell_bytes.into()).for_each(|cell| *counts.entry(cell).or_default() += 1);
    }
    let many = counts.into_iter().filter(|(_, count)| *count > SignatureShape::MAX_SHARED);
    many.map(|(cell, _)| cell).collect()
}

/// The distance in a collection with these standing phrases, which sets do not share.
fn distance(shape: SignatureShape, phrases: &BTreeSet<&[u8]>, a: &[u8], b: &[u8]) -> u32 {
    if !shape.is_set || a == b {
        return shape.distance(a, b);
    }
    let cells = |of: &[u8]| -> BTreeSet<Vec<u8>> {
        let cells = of.chunks(shape.cell_bytes.into()).filter(|cell| cell.iter().any(|byte| *byte != 0));
        cells.filter(|cell| !phrases.contains(cell)).map(<[u8]>::to_vec).collect()
    };
    u32::from(shape.cells) - cells(a).intersection(&cells(b)).count() as u32
}

/// Compares every answer, by banding and by scan, page by page, with the result of comparing all signatures.
async fn check_answers(server: &Server, collection: &str, is_set: bool) {
    let about = server.json(&format!("/collections/{collection}")).await;
    let shape = shape(&about, is_set);
    let stored = exported(server, collection).await;
    assert_eq!(about["documents"].as_u64().unwrap(), stored.len() as u64);
    let phrases = if is_set { standing_phrases(shape, &stored) } else { BTreeSet::new() };
    assert_eq!(is_set, !phrases.is_empty(), "some sentences are in many texts");
    for (id, own) in stored.iter().step_by(stored.len() / 12) {
        for k in [0, u64::from(shape.cells) / 2, u64::from(shape.cells)] {
            for scan in [false, true] {
                let mut expected: Vec<(u32, &String)> = stored
                    .iter()
                    .filter(|(other, signature)| {
                        *other != id && (scan || share_a_band(shape, own, signature))
                    })
                    .map(|(other, signature)| (distance(shape, &phrases, own, signature), other))
                    .filter(|(distance, _)| u64::from(*distance) <= k)
                    .collect();
                expected.sort();
                let scan = if scan { "&verify=scan" } else { "" };
                let mut found = Vec::new();
                let mut cursor = String::new();
                loop {
                    let route = format!(
                        "/collections/{collection}/similar?id={id}&k={k}&limit=100&stats=true{scan}{cursor}"
                    );
                    let page = server.json(&route).await;
                    let method = if scan.is_empty() { "bands" } else { "scan" };
                    assert_eq!(page["stats"]["method"], method);
                    for near in page["similar"].as_array().unwrap() {
                        let distance = near["distance"].as_u64().unwrap() as u32;
                        let similarity = near["similarity"].as_f64().unwrap();
                        assert!((similarity - shape.similarity(distance)).abs() < 1e-9);
                        found.push((distance, near["id"].as_str().unwrap().to_owned()));
                    }
                    match page["next"].as_str() {
                        Some(next) => cursor = format!("&cursor={next}"),
                        None => break,
                    }
                }
                let expected: Vec<_> =
                    expected.into_iter().map(|(distance, id)| (distance, id.clone())).collect();
                assert_eq!(found, expected, "{collection} {id} k={k} {scan}");
            }
        }
    }
}

async fn create(server: &Server, name: &str, settings: Value) -> Value {
    let (status, made) = server.put(&format!("/collections/{name}"), settings).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made
}

async fn fill(server: &Server, collection: &str) {
    let line = |i: usize| format!("{}\n", json!({"id": format!("t{i}"), "text": text(i)}));
    let (_, summary) =
        server.stream(&format!("/collections/{collection}/documents"), numbers().map(line).collect()).await;
    assert_eq!(summary["errors"], 0, "{summary}");
}

#[tokio::test]
async fn collections_of_signatures_work_on_every_route_and_survive_kills() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for (name, profile, is_set) in [
        ("news", "minhash", false),
        ("copies", "minhash-copies", false),
        ("sentences", "longest-sentences", true),
    ] {
        let made = create(&server, name, json!({"profile": profile})).await;
        assert!(made["threshold"].as_f64().unwrap() > 0.3, "{made}");
        fill(&server, name).await;
        check_answers(&server, name, is_set).await;
    }
    // Delete some documents and change others.
    for (count, i) in numbers().enumerate() {
        let route = format!("/collections/copies/documents/t{i}");
        match count % 5 {
            0 => assert_eq!(server.delete(&route).await, StatusCode::NO_CONTENT),
            1 => assert_eq!(server.put(&route, json!({"text": text(4095 - i)})).await.0, StatusCode::OK),
            _ => {}
        }
    }
    check_answers(&server, "copies", false).await;
    let before = [exported(&server, "copies").await, exported(&server, "sentences").await];
    server.post("/snapshots", Value::Null).await;
    server.delete("/collections/copies/documents/t4095").await;
    server.put("/collections/copies/documents/t4095", json!({"text": text(4095)})).await;
    let backup = server.get("/collections/copies/backup").await.bytes().await.unwrap();
    server.kill();
    let server = Server::start(data.path()).await;
    for (name, before, is_set) in [("copies", &before[0], false), ("sentences", &before[1], true)] {
        let after = exported(&server, name).await;
        assert!(before.iter().all(|(id, signature)| after.get(id) == Some(signature)), "{name}");
        check_answers(&server, name, is_set).await;
    }
    // Restore from a backup, and import an export.
    let restore = server.client.post(format!("{}/collections/again/restore", server.url));
    let restored = restore.header("content-type", "application/x-tar").body(backup).send().await.unwrap();
    assert_eq!(restored.status(), StatusCode::CREATED, "{}", restored.text().await.unwrap());
    assert_eq!(exported(&server, "again").await, exported(&server, "copies").await);
    check_answers(&server, "again", false).await;
    create(&server, "moved", json!({"profile": "minhash-copies"})).await;
    let lines = server.export("/collections/copies/export").await;
    server.stream("/collections/moved/documents", lines).await;
    assert_eq!(exported(&server, "moved").await, exported(&server, "copies").await);
}

#[tokio::test]
async fn of_near_duplicates_by_signature_one_is_stored() {
    let data = directory();
    let server = Server::start(data.path()).await;
    create(&server, "copies", json!({"profile": "minhash-copies"})).await;
    let original = text(0b0111_0000_0111);
    let edited = |i: usize| original.replace("twice a day", &format!("{i} times a day"));
    let route = "/collections/copies/batch/documents?on_duplicate=skip&threshold=0.5";
    // All in one array: the first document is not stored yet when the others are checked.
    let documents: Vec<Value> = (0..8).map(|i| json!({"id": format!("d{i}"), "text": edited(i)})).collect();
    let (_, answer) = server.post(route, json!(documents)).await;
    assert_eq!(
        (&answer["summary"]["created"], &answer["summary"]["duplicates"]),
        (&json!(1), &json!(7)),
        "{answer}"
    );
    assert_eq!(answer["results"][7]["similar"][0]["id"], "d0");
    assert!(answer["results"][7]["similar"][0]["similarity"].as_f64().unwrap() > 0.5);
    let route = "/collections/copies/documents?on_duplicate=skip&threshold=0.5";
    let (status, answer) = server.post(route, json!({"id": "other", "text": text(0b0000_0111_1000)})).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    // Concurrent requests.
    let offers = (100..124).map(|i| {
        let text = text(0b1110_0000_0000).replace("1742", &format!("17{i}"));
        let server = &server;
        async move { server.post(route, json!({"id": format!("m{i}"), "text": text})).await.0 }
    });
    let statuses = futures::future::join_all(offers).await;
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::CREATED).count(), 1, "{statuses:?}");
}

#[tokio::test]
async fn signatures_are_computed_compared_and_looked_up() {
    let data = directory();
    let server = Server::start(data.path()).await;
    create(&server, "copies", json!({"profile": "minhash-copies", "threshold": 0.7})).await;
    let about = server.json("/collections/copies").await;
    assert_eq!(about["threshold"], 0.7, "{about}");
    server.put("/collections/copies", json!({"threshold": 0.7005})).await;
    assert_eq!(server.json("/collections/copies").await["threshold"], 0.7005);
    server.put("/collections/copies", json!({"threshold": 0.7})).await;
    create(&server, "usual", json!({"profile": "minhash-copies"})).await;
    assert_eq!(server.json("/collections/usual").await["threshold"], 0.5, "the default of the profile");
    let shape = shape(&about, false);
    assert!(shape.caught(0.7) >= 0.95 && shape.rows > 4, "bands for this threshold: {about}");
    let (_, made) = server
        .post("/fingerprint", json!({"profile": "minhash-copies", "text": text(7), "explain": true}))
        .await;
    assert_eq!((made["bits"].as_u64(), bytes(&made["signature"]).len()), (Some(128), shape.bytes()));
    assert!(made["explanation"]["votes"].as_array().unwrap().is_empty());
    let (status, added) = server
        .post("/collections/copies/documents", json!({"id": "a", "signature": made["signature"]}))
        .await;
    assert_eq!((status, &added["hash"]), (StatusCode::CREATED, &made["hash"]), "{added}");
    let stored = server.json("/collections/copies/documents/a").await;
    assert_eq!(stored["signature"], made["signature"]);
    let digits = made["signature"].as_str().unwrap();
    for by in [
        format!("hash={}", made["hash"].as_str().unwrap()),
        format!("signature={digits}"),
        format!("text={}", text(7).replace(' ', "%20")),
    ] {
        let found = server.json(&format!("/collections/copies/similar?{by}&threshold=0.9&stats=true")).await;
        assert_eq!((ids(&found), &found["similar"][0]["similarity"]), (vec!["a".to_owned()], &json!(1.0)));
        assert!(found["stats"]["caught"].as_f64().unwrap() > 0.95);
    }
    let queries = json!({"queries": [
        {"text": text(7), "threshold": 0.9}, {"signature": digits, "k": 0}, {"hash": made["hash"]},
    ]});
    let (_, found) = server.post("/collections/copies/batch/similar", queries).await;
    assert!(found["results"].as_array().unwrap().iter().all(|one| ids(one) == ["a"]), "{found}");
    let (_, compared) = server
        .post("/collections/copies/compare", json!({"a": {"text": text(7)}, "b": {"text": text(6)}}))
        .await;
    assert!(compared["summary"].as_str().unwrap().contains("cells differ"), "{compared}");
    let similarity = compared["similarity"].as_f64().unwrap();
    let exact = compared["features"]["jaccard"].as_f64().unwrap();
    assert!((similarity - exact).abs() < 3.0 / f64::from(shape.cells).sqrt(), "{similarity} {exact}");
    let (_, compared) = server
        .post("/collections/copies/compare", json!({"a": {"id": "a"}, "b": {"signature": digits}}))
        .await;
    assert_eq!((&compared["distance"], &compared["match"]), (&json!(0), &json!(true)), "{compared}");
}

#[tokio::test]
async fn options_that_do_not_apply_to_signatures_are_refused_with_a_reason() {
    let data = directory();
    let server = Server::start(data.path()).await;
    create(&server, "copies", json!({"profile": "minhash-copies"})).await;
    let refused = async |method: &str, route: &str, body: Value, expected: &str| {
        let (status, problem) = match method {
            "PUT" => server.put(route, body).await,
            "POST" => server.post(route, body).await,
            _ => {
                let response = server.get(route).await;
                (response.status(), response.json().await.unwrap())
            }
        };
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{route} {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(expected), "{route} {problem}");
    };
    let none = Value::Null;
    let hash = "0123456789abcdef0123456789abcdef";
    refused("PUT", "/collections/x", json!({"threshold": 0.5}), "threshold is for collections of signatures")
        .await;
    refused("PUT", "/collections/x", json!({"profile": "minhash", "threshold": 1.5}), "from 0 to 1").await;
    refused(
        "PUT",
        "/collections/x",
        json!({"profile": "minhash", "threshold": 0.5, "k": 4}),
        "leave one out",
    )
    .await;
    refused("PUT", "/collections/x", json!({"profile": "minhash", "k": 129}), "from 0 to 128").await;
    refused(
        "PUT",
        "/collections/x",
        json!({"profile": "minhash", "sketch_bytes": 64}),
        "compared themselves",
    )
    .await;
    refused("PUT", "/collections/x", json!({"sketch_bytes": 4}), "from 8 to 1024").await;
    refused("POST", "/collections/copies/documents", json!({"hash": hash}), "names of signatures").await;
    refused("POST", "/collections/copies/documents", json!({"signature": "00ff"}), "has 4 digits").await;
    refused("POST", "/documents", json!({"signature": "00ff"}), "makes no signatures").await;
    refused("POST", "/collections/copies/documents", json!({"signature": "0g"}), "hexadecimal").await;
    refused("GET", &format!("/collections/copies/similar?hash={hash}"), none.clone(), "no stored document")
        .await;
    refused(
        "GET",
        &format!("/similar?hash={}&threshold=0.5", &hash[..16]),
        none.clone(),
        "number of bits, k",
    )
    .await;
    refused("GET", "/collections/copies/similar?text=a&k=201", none.clone(), "from 0 to 200").await;
    refused("GET", "/collections/copies/similar?text=a&k=1&threshold=0.5", none.clone(), "leave one out")
        .await;
    refused("GET", "/collections/copies/similar?text=a&threshold=7", none, "from 0 to 1").await;
    let compared = json!({"a": {"hash": hash}, "b": {"text": "a"}});
    refused("POST", "/collections/copies/compare", compared, "name of a signature").await;
    let route = "/collections/copies/documents?threshold=0.5";
    refused("POST", route, json!({"text": "a"}), "goes with on_duplicate=skip").await;
}

#[tokio::test]
async fn sketches_check_candidates_without_their_texts() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let made = create(&server, "sketched", json!({"sketch_bytes": 64, "k": 24})).await;
    assert_eq!((&made["sketch_bytes"], &made["keep_text"]), (&json!(64), &json!(false)));
    create(&server, "kept", json!({"keep_text": true, "k": 24})).await;
    fill(&server, "sketched").await;
    fill(&server, "kept").await;
    server.kill();
    let server = Server::start(data.path()).await;
    let (mut all, mut squares) = (0, 0.0);
    for i in numbers().step_by(17) {
        let query = json!({"text": text(i), "min_similarity": 0.3, "limit": 1000});
        let (status, exact) = server.post("/collections/kept/similar", query.clone()).await;
        assert_eq!(status, StatusCode::OK);
        let (_, estimated) = server.post("/collections/sketched/similar", query).await;
        let (_, by_id) = server
            .post(
                "/collections/sketched/similar",
                json!({"id": format!("t{i}"), "min_similarity": 0.3, "limit": 1000}),
            )
            .await;
        let similarities = |answer: &Value| -> BTreeMap<String, f64> {
            let near = answer["similar"].as_array().unwrap();
            let values = near.iter().map(|near| near["similarity"].as_f64().unwrap());
            assert!(values.clone().is_sorted_by(|a, b| a >= b) && values.clone().all(|value| value >= 0.3));
            ids(answer).into_iter().zip(values).collect()
        };
        let (exact, mut estimated) = (similarities(&exact), similarities(&estimated));
        for (id, exact) in &exact {
            if let Some(estimate) = estimated.get(id) {
                all += 1;
                squares += (exact - estimate).powi(2);
            } else {
                assert!(*exact < 0.55, "{id} is similar by {exact} and was left out");
            }
        }
        estimated.remove(&format!("t{i}"));
        assert_eq!(estimated, similarities(&by_id));
    }
    let error = (squares / f64::from(all)).sqrt();
    println!("{all} similarities, error {error:.3}");
    assert!(all > 100 && error < 0.06, "{all} {error}");
    // The measure `cosine` needs the texts.
    let query = json!({"text": text(23), "min_similarity": 0.5, "measure": "cosine"});
    let (_, by_cosine) = server.post("/collections/kept/similar", query.clone()).await;
    assert_eq!(
        (&by_cosine["similar"][0]["id"], &by_cosine["similar"][0]["similarity"]),
        (&json!("t23"), &json!(1.0)),
        "{by_cosine}"
    );
    for (route, query) in [
        ("/collections/sketched/similar", query),
        ("/collections/kept/similar", json!({"text": "a", "measure": "cosine"})),
    ] {
        let (status, problem) = server.post(route, query).await;
        assert_eq!(
            (status, &problem["errors"][0]["pointer"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("/measure"))
        );
    }
    let (status, problem) = server.put("/collections/sketched", json!({"sketch_bytes": 128})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("settings_conflict")));
    assert!(problem["detail"].as_str().unwrap().contains("sketch_bytes 64"), "{problem}");
    create(&server, "bare", json!({"sketch_bytes": 0})).await;
    let query = json!({"text": text(7), "min_similarity": 0.5});
    let (_, problem) = server.post("/collections/bare/similar", query).await;
    assert!(problem["detail"].as_str().unwrap().contains("sketch_bytes"), "{problem}");
}
