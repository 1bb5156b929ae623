//! Calibration: its counts equal those from hashes compared one by one, and it does not block other requests.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory};

const WORDS: [&str; 40] = [
    "harbour",
    "ferry",
    "islands",
    "morning",
    "captain",
    "storm",
    "ticket",
    "children",
    "office",
    "bread",
    "mill",
    "bridge",
    "winter",
    "library",
    "evening",
    "reader",
    "station",
    "mountain",
    "valley",
    "teacher",
    "market",
    "flower",
    "garden",
    "window",
    "图书馆",
    "周末",
    "读者",
    "晚上",
    "城市",
    "经济",
    "发展",
    "建设",
    "паром",
    "острова",
    "港の",
    "事務所",
    "제주",
    "여객선",
    "مدينة",
    "बंदरगाह",
];

/// A text of sentences that no other text has.
fn text(number: usize) -> String {
    let mut state = number as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let sentence = |next: &mut dyn FnMut() -> usize| -> String {
        let words: Vec<String> = (0..9)
            .map(|_| {
                let word = WORDS[next() % WORDS.len()];
                format!("{word}{}", next() % 1_000)
            })
            .collect();
        words.join(" ") + ". "
    };
    (0..12).map(|_| sentence(&mut next)).collect()
}

/// Waits for the end of the calibration and returns it.
async fn wait_for_end(server: &Server, collection: &str) -> Value {
    for _ in 0..1_200 {
        let calibration = server.json(&format!("/collections/{collection}/calibrate")).await;
        if calibration["state"] != "running" {
            return calibration;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the calibration does not end");
}

fn point_at(measured: &Value, k: u64) -> &Value {
    measured["points"].as_array().unwrap().iter().find(|point| point["k"] == k).unwrap()
}

#[tokio::test]
async fn counts_of_marked_pairs_match_the_distances_of_their_hashes() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (status, _) = server.put("/collections/news", json!({"keep_text": true})).await;
    assert_eq!(status, StatusCode::CREATED);
    let mut lines = String::new();
    let mut pairs = Vec::new();
    for number in 0..150 {
        let original = text(number);
        let line = |id: String, text: &str| json!({"id": id, "text": text}).to_string() + "\n";
        lines += &line(format!("a{number}"), &original);
        if number < 60 {
            // The higher the number, the more words of the copy differ.
            let mut words: Vec<String> = original.split(' ').map(str::to_owned).collect();
            (0..number / 2).for_each(|at| words[at * 3] = format!("other{at}"));
            words.push("end".to_owned());
            lines += &line(format!("b{number}"), &words.join(" "));
            pairs.push(json!([format!("b{number}"), format!("a{number}")]));
        }
    }
    server.stream("/collections/news/documents", lines).await;
    let route = "/collections/news/calibrate";
    assert_eq!(server.get(route).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(server.get(route).await.json::<Value>().await.unwrap()["code"], "no_calibration");
    let request = json!({"pairs": pairs, "profiles": ["copies-64", "minhash-copies"], "documents": 5_000_000,
            "duplicate_share": 0.2});
    let started = server.client.post(format!("{}{route}", server.url)).json(&request).send().await.unwrap();
    assert_eq!(started.status(), StatusCode::ACCEPTED);
    assert_eq!(started.headers()["location"], route);
    let calibration = wait_for_end(&server, "news").await;
    let result = &calibration["result"];
    assert_eq!(
        (&calibration["state"], &result["labels"]),
        (&json!("done"), &json!("pairs")),
        "{calibration}"
    );
    assert_eq!((&result["texts"], &result["pairs"]), (&json!(210), &json!(60)));
    assert_eq!(calibration["progress"]["documents_read"], 210);
    let measured = &result["profiles"][0];
    // The reference: compare each marked pair with a separate request.
    let mut distances = Vec::new();
    for number in 0..60 {
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        let (_, compared) = server
            .post(
                "/collections/news/compare",
                json!({"a": {"id": a}, "b": {"id": b}, "profile": "copies-64"}),
            )
            .await;
        distances.push(compared["distance"].as_u64().unwrap());
    }
    for k in [0, 3, 7, 11, 16] {
        let found = distances.iter().filter(|distance| **distance <= k).count();
        let recall = point_at(measured, k)["recall"].as_f64().unwrap();
        assert!((recall - found as f64 / 60.0).abs() < 1e-9, "k={k}: {recall} {found}");
    }
    assert!(
        distances.iter().any(|distance| *distance > 7) && distances.iter().any(|distance| *distance <= 7)
    );
    // No wrong pair lies within 3 bits: at most three would be expected among so many.
    let aside = result["unmarked_copies"].as_f64().unwrap() + result["doubtful_pairs"].as_f64().unwrap();
    let negative = f64::from(210 * 209 / 2 - 60) - aside;
    let point = point_at(measured, 3);
    let wrong = point["false_neighbours"].as_f64().unwrap();
    assert!(wrong > 0.0 && wrong <= 3.0 / negative * 5e6 && point["extrapolated"] == true, "{point}");
    let [precision, recall] = ["precision", "recall"].map(|name| point[name].as_f64().unwrap());
    assert!((precision - 0.2 * recall / (0.2 * recall + wrong)).abs() < 1e-9, "{point}");
    for name in ["precision", "recall", "false_neighbours"] {
        let [low, high] = ["low", "high"].map(|end| point[format!("{name}_interval")][end].as_f64().unwrap());
        let value = point[name].as_f64().unwrap();
        assert!(low <= value && value <= high && low < high, "{name}: {point}");
    }
    let assumptions = &result["assumptions"];
    assert_eq!(
        assumptions,
        &json!({"documents": 5_000_000, "duplicate_share": 0.2, "texts": 210}),
        "no edits were made"
    );
    let signatures = &result["signatures"][0];
    assert_eq!((&signatures["profile"], &signatures["bands"]), (&json!("minhash-copies@1"), &json!(50)));
    assert!(result["summary"].as_str().unwrap().contains("As the collection is set (copies-64@"), "{result}");
    // A calibration is deleted by request, and with its collection.
    assert_eq!(server.delete(route).await, StatusCode::NO_CONTENT);
    assert_eq!(server.delete(route).await, StatusCode::NOT_FOUND);
    let (_, started) = server.post(route, request).await;
    assert_eq!(started["progress"]["profiles"], 2, "{started}");
    wait_for_end(&server, "news").await;
    assert_eq!(server.delete("/collections/news").await, StatusCode::NO_CONTENT);
    assert_eq!(server.get(route).await.json::<Value>().await.unwrap()["code"], "no_collection");
    server.put("/collections/news", json!({})).await;
    assert_eq!(server.get(route).await.json::<Value>().await.unwrap()["code"], "no_calibration");
}

#[tokio::test]
async fn texts_of_the_request_are_measured_with_edited_copies() {
    let data = directory();
    let server = Server::start(data.path()).await;
    // 60 texts occur twice. These copies are not marked, and must not count as false positives.
    let texts: Vec<String> = (0..200).chain(0..60).map(text).collect();
    let request = json!({"texts": texts, "seed": 7, "documents": 100});
    let (status, _) = server.post("/collections/default/calibrate", request.clone()).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let calibration = wait_for_end(&server, "default").await;
    let result = &calibration["result"];
    assert_eq!(result["labels"], "edits", "{calibration}");
    assert!(result["unmarked_copies"].as_u64().unwrap() >= 60, "{}", result["unmarked_copies"]);
    let names: Vec<&str> =
        result["profiles"].as_array().unwrap().iter().map(|one| one["profile"].as_str().unwrap()).collect();
    assert_eq!(names, ["copies-64@1", "copies-128@1"]);
    assert_eq!(result["signatures"][0]["profile"], "minhash-copies@1");
    assert_eq!(result["assumptions"]["edits"].as_array().unwrap().len(), 14);
    let summary = result["summary"].as_str().unwrap();
    assert!(summary.contains("Assumed: among 100 documents 10.0 % have a copy"), "{summary}");
    let point = point_at(&result["profiles"][0], 7);
    assert!(point["precision"].as_f64().unwrap() > 0.9, "{point}");
    let recall = point["recall"].as_f64().unwrap();
    assert!((0.1..1.0).contains(&recall), "{point}");
    assert_eq!(result["profiles"][0]["edits"].as_array().unwrap().len(), 14);
    let recommended = &result["recommended"];
    assert!(recommended["k"].as_u64().unwrap() > 0, "{recommended}");
    assert!(recommended["precision_interval"]["low"].as_f64().unwrap() >= 0.97, "{recommended}");
    // The same seed gives the same result, except for the speed.
    server.post("/collections/default/calibrate", request).await;
    let again = wait_for_end(&server, "default").await;
    assert_eq!(again["result"]["profiles"][0]["points"], result["profiles"][0]["points"]);
}

#[tokio::test]
async fn one_calibration_runs_at_a_time_and_can_be_cancelled() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/other", json!({})).await;
    let texts: Vec<String> = (0..1_500).map(|number| text(number).repeat(4)).collect();
    let route = "/collections/default/calibrate";
    assert_eq!(server.post(route, json!({"texts": texts})).await.0, StatusCode::ACCEPTED);
    let few: Vec<String> = (0..100).map(text).collect();
    let few = json!({"texts": few, "profiles": ["copies-64"]});
    let (status, problem) = server.post(route, few.clone()).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("calibrating")), "{problem}");
    let (status, problem) = server.post("/collections/other/calibrate", few.clone()).await;
    assert_eq!((status, &problem["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("busy")), "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    for expected in
        ["collection \"default\" has been running for", "GET /collections/default/calibrate", "DELETE"]
    {
        assert!(detail.contains(expected), "{detail}");
    }
    // Other requests do not wait for the calibration.
    let (status, _) = server.post("/documents", json!({"id": "x", "text": "some words of a text"})).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(server.json(route).await["state"], "running");
    assert_eq!(server.delete(route).await, StatusCode::NO_CONTENT);
    assert_eq!(server.get(route).await.status(), StatusCode::NOT_FOUND);
    let mut tries = 0;
    while server.post("/collections/other/calibrate", few.clone()).await.0 != StatusCode::ACCEPTED {
        tries += 1;
        assert!(tries < 600, "the deleted calibration still runs");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(wait_for_end(&server, "other").await["state"], "done");
}

#[tokio::test]
async fn the_texts_of_marked_pairs_have_a_limit() {
    let data = directory();
    // Half of the memory of one client, a sixteenth of it for a sample, half of that for the pairs.
    let budget = ("LOOKALIKE_MEMORY__BUDGET", "268435456");
    let server = Server::start_with(data.path(), &[budget]).await;
    server.put("/collections/kept", json!({"keep_text": true})).await;
    for id in 0..6_usize {
        let long = text(id).repeat(500_000 / text(id).len());
        let (status, problem) =
            server.post("/collections/kept/documents", json!({"id": id.to_string(), "text": long})).await;
        assert_eq!(status, StatusCode::CREATED, "{problem}");
    }
    let pairs = json!({"pairs": [["0", "1"], ["2", "3"], ["4", "5"]]});
    assert_eq!(server.post("/collections/kept/calibrate", pairs).await.0, StatusCode::ACCEPTED);
    let calibration = wait_for_end(&server, "kept").await;
    let detail = calibration["error"]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("mark fewer pairs"), "{calibration}");
}

#[tokio::test]
async fn an_invalid_calibration_is_refused_with_the_field() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/kept", json!({"keep_text": true})).await;
    let few: Vec<String> = (0..99).map(text).collect();
    let cases = [
        ("default", json!({}), "/texts", "keeps no texts"),
        ("default", json!({"texts": few}), "/texts", "99; it ranges from 100 to 20000"),
        ("kept", json!({"sample": 20_001}), "/sample", "it ranges from 100 to 20000"),
        ("kept", json!({"profiles": ["none"]}), "/profile", "there is no profile"),
        ("kept", json!({"duplicate_share": 0}), "/duplicate_share", "it is above 0 and at most 1"),
        ("kept", json!({"duplicate_share": 1.1}), "/duplicate_share", "it is above 0 and at most 1"),
        ("kept", json!({"profiles": vec!["copies-64"; 9]}), "/profiles", "9; it ranges from 0 to 8"),
        ("kept", json!({"documents": 1_u64 << 63}), "/documents", "it ranges from 1 to 1000000000000"),
        ("kept", json!({"seed": 1_u64 << 53}), "/seed", "it ranges from 0 to 9007199254740991"),
        ("kept", json!({"pairs": [["a", ""]]}), "/pairs/0/1", "id"),
        ("kept", json!({"pairs": [["a", "b"], ["a"]]}), "/pairs/1", "an array of two ids"),
        ("kept", json!({"pairs": [["a", "b", "c"]]}), "/pairs/0", "an array of two ids"),
        ("kept", json!({"pairs": [["a", "b"], "c"]}), "/pairs/1", "an array of two ids"),
        ("kept", json!({"seeds": 3}), "/seeds", "unknown field"),
        (
            "kept",
            json!({"pairs": [["a", "b"], ["d", "d"]]}),
            "/pairs",
            "pair 1 (counted from 0) names one document",
        ),
        ("kept", json!({"documents": 0}), "/documents", "it ranges from 1"),
    ];
    for (collection, body, field, expected) in cases {
        let (status, problem) = server.post(&format!("/collections/{collection}/calibrate"), body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert_eq!(problem["errors"][0]["pointer"], field, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(expected), "{problem}");
    }
    // Errors that occur during the run are reported by the calibration.
    let (status, _) = server.post("/collections/kept/calibrate", json!({"pairs": [["a", "b"]]})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let calibration = wait_for_end(&server, "kept").await;
    assert_eq!(
        (&calibration["state"], &calibration["error"]["code"]),
        (&json!("failed"), &json!("invalid_field")),
        "{calibration}"
    );
    assert!(
        calibration["error"]["detail"].as_str().unwrap().contains("names document \"a\""),
        "{calibration}"
    );
    let blank = json!({"texts": vec!["…"; 100]});
    assert_eq!(server.post("/collections/kept/calibrate", blank).await.0, StatusCode::ACCEPTED);
    let calibration = wait_for_end(&server, "kept").await;
    assert!(
        calibration["error"]["detail"].as_str().unwrap().contains("there are 0 texts to measure"),
        "{calibration}"
    );
    let alike = json!({"texts": vec![text(1); 100]});
    assert_eq!(server.post("/collections/kept/calibrate", alike).await.0, StatusCode::ACCEPTED);
    let result = &wait_for_end(&server, "kept").await["result"];
    assert!(result["recommended"].is_null(), "equal texts give no recommendation: {result}");
    assert!(result["summary"].as_str().unwrap().contains("cannot be told"), "{result}");
    let empty =
        server.client.post(format!("{}/collections/kept/calibrate", server.url)).send().await.unwrap();
    assert_eq!(empty.status(), StatusCode::ACCEPTED);
    assert!(
        wait_for_end(&server, "kept").await["error"]["detail"]
            .as_str()
            .unwrap()
            .contains("there are 0 texts"),
        "a collection without documents"
    );
}

#[tokio::test]
async fn marked_documents_are_no_copies() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/news", json!({"keep_text": true})).await;
    // 40 texts occur twice; 20 of these pairs are marked, and one document of another pair.
    let line = |id: String, number: usize| json!({"id": id, "text": text(number)}).to_string() + "\n";
    let lines: String = (0..200).map(|n| line(format!("a{n}"), n)).collect();
    let copies: String = (0..40).map(|n| line(format!("b{n}"), n)).collect();
    server.stream("/collections/news/documents", lines + &copies).await;
    let route = "/collections/news/calibrate";
    let request = json!({"profiles": ["copies-64"], "seed": 7});
    server.post(route, request.clone()).await;
    let before = wait_for_end(&server, "news").await["result"].clone();
    let mut marks: Vec<Value> = (0..20).map(|n| json!({"ids": [format!("a{n}"), format!("b{n}")]})).collect();
    marks.push(json!({"ids": ["b20"]}));
    marks.push(json!({"ids": ["a21", "unknown"]}));
    server.post("/collections/news/marks", json!({"marks": marks})).await;
    server.post(route, request).await;
    let after = wait_for_end(&server, "news").await["result"].clone();
    assert_eq!((&before["marks"], &after["marks"]), (&json!(0), &json!(21)), "{after}");
    let aside = |result: &Value| result["unmarked_copies"].as_u64().unwrap();
    // A pair and the copies that edits make of both.
    assert!(aside(&before) >= aside(&after) + 21, "{before} {after}");
    let wrong = |result: &Value| point_at(&result["profiles"][0], 3)["false_neighbours"].as_f64().unwrap();
    assert!(wrong(&after) > wrong(&before), "marked pairs that are found are wrong: {before} {after}");
    // A pair of the request contradicts a mark.
    let pairs = json!({"pairs": [["a30", "b30"], ["b3", "a3"]], "profiles": ["copies-64"]});
    server.post(route, pairs).await;
    let failed = wait_for_end(&server, "news").await;
    assert_eq!(failed["state"], "failed", "{failed}");
    assert!(failed.to_string().contains("pair 1 (counted from 0) are marked as no duplicates"), "{failed}");
    let pairs: Vec<Value> = (21..40).map(|n| json!([format!("a{n}"), format!("b{n}")])).collect();
    server.post(route, json!({"pairs": pairs, "profiles": ["copies-64"]})).await;
    let result = wait_for_end(&server, "news").await["result"].clone();
    assert_eq!((&result["pairs"], &result["marks"]), (&json!(19), &json!(21)), "{result}");
    assert_eq!(aside(&result), 0, "all copies are labelled");
}
