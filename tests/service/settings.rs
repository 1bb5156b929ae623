//! Concurrent changes of collection settings: no change is lost, the stored settings match the index, and
//! conditional requests detect changes by others.

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, directory, ids};

async fn put_if(server: &Server, name: &str, header: (&str, &str), body: &Value) -> Response {
    let request = server.client.put(format!("{}/collections/{name}", server.url));
    request.header(header.0, header.1).json(body).send().await.unwrap()
}

async fn delete_if(server: &Server, name: &str, tag: &str) -> Response {
    let request = server.client.delete(format!("{}/collections/{name}", server.url));
    request.header("if-match", tag).send().await.unwrap()
}

fn tag(response: &Response) -> String {
    response.headers()["etag"].to_str().unwrap().to_owned()
}

async fn tag_of(server: &Server, name: &str) -> String {
    tag(&server.get(&format!("/collections/{name}")).await)
}

/// Sends two concurrent requests to one collection.
async fn both(server: &Server, name: &str, bodies: [Value; 2]) -> [(StatusCode, Value); 2] {
    let route = format!("/collections/{name}");
    let [first, second] = bodies;
    futures::future::join(server.put(&route, first), server.put(&route, second)).await.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_changes_neither_is_lost() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let mut lost = 0;
    for round in 1..=200u64 {
        let (k, seconds, keeps) = (round % 64, round + 1, round % 2 == 0);
        let bodies = [json!({"k": k, "keep_text": keeps}), json!({"expires_in": seconds})];
        let [near, expiry] = both(&server, "default", bodies).await;
        assert_eq!((near.0, expiry.0), (StatusCode::OK, StatusCode::OK), "{near:?} {expiry:?}");
        // Each answer shows its own change.
        assert_eq!((&near.1["k"], &expiry.1["expires_in"]), (&json!(k), &json!(seconds)));
        let now = server.json("/collections/default").await;
        lost += usize::from(now["k"] != k || now["keep_text"] != keeps || now["expires_in"] != seconds);
    }
    assert_eq!(lost, 0, "pairs of 200 that lost a change");
    server.kill();
    let server = Server::start(data.path()).await;
    let now = server.json("/collections/default").await;
    assert_eq!((&now["k"], &now["expires_in"]), (&json!(200 % 64), &json!(201)));
}

const WORDS: [&str; 12] = [
    "harbour", "ferry", "island", "captain", "storm", "ticket", "office", "bread", "mill", "bridge",
    "winter", "garden",
];

/// Texts that share most of their words with the previous text, so that many pairs have a similarity of
/// about 0.5.
fn texts() -> String {
    let words = |from: usize| -> Vec<String> {
        (from * 6..from * 6 + 40).map(|at| format!("{}{at}", WORDS[at % WORDS.len()])).collect()
    };
    (0..12).map(|at| format!("{}\n", json!({"id": format!("t{at}"), "text": words(at).join(" ")}))).collect()
}

/// The ids that each text finds in a collection by banding.
async fn matches(server: &Server, name: &str) -> Vec<Vec<String>> {
    let queries: Vec<Value> =
        (0..12).map(|at| json!({"id": format!("t{at}"), "threshold": 0.2, "limit": 100})).collect();
    let (status, answer) =
        server.post(&format!("/collections/{name}/batch/similar"), json!({"queries": queries})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer["results"].as_array().unwrap().iter().map(ids).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_thresholds_one_defines_the_collection_and_its_index() {
    const RACES: usize = 100;
    let data = directory();
    let server = Server::start(data.path()).await;
    let bodies = [0.8, 0.4].map(|threshold| json!({"profile": "minhash-copies", "threshold": threshold}));
    let mut before = Vec::new();
    for race in 0..RACES {
        let name = format!("race-{race}");
        let [one, two] = both(&server, &name, bodies.clone()).await;
        let (created, refused) = if one.0 == StatusCode::CREATED { (one.1, two) } else { (two.1, one) };
        assert_eq!((refused.0, &refused.1["code"]), (StatusCode::CONFLICT, &json!("settings_conflict")));
        let detail = refused.1["detail"].as_str().unwrap();
        assert!(detail.contains("threshold") && detail.contains("bands of"), "{detail}");
        let now = server.json(&format!("/collections/{name}")).await;
        assert_eq!((&now["signatures"], &now["k"]), (&created["signatures"], &created["k"]));
        server.stream(&format!("/collections/{name}/documents"), texts()).await;
        before.push((created["signatures"].clone(), matches(&server, &name).await));
    }
    let kinds: Vec<&Vec<Vec<String>>> = before.iter().map(|(_, matches)| matches).collect();
    assert!(kinds.iter().any(|matches| *matches != kinds[0]), "one threshold won every race");
    assert!(kinds.iter().all(|matches| matches.iter().any(|ids| !ids.is_empty())));
    server.kill();
    let server = Server::start(data.path()).await;
    for (race, (signatures, found_before)) in before.iter().enumerate() {
        let name = format!("race-{race}");
        assert_eq!(server.json(&format!("/collections/{name}")).await["signatures"], *signatures);
        assert_eq!(matches(&server, &name).await, *found_before, "{name} has other matches after a restart");
    }
    // The threshold may change later; the bands stay.
    let (status, changed) = server.put("/collections/race-0", json!({"threshold": 0.9})).await;
    assert_eq!((status, &changed["signatures"]), (StatusCode::OK, &before[0].0), "{changed}");
    assert!(changed["threshold"].as_f64().unwrap() > 0.85, "{changed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_sketch_sizes_one_is_refused() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for race in 0..30 {
        let name = format!("race-{race}");
        let [one, two] = both(&server, &name, [16, 64].map(|bytes| json!({"sketch_bytes": bytes}))).await;
        let mut statuses = [one.0.as_u16(), two.0.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "{one:?} {two:?}");
    }
}

#[tokio::test]
async fn a_change_may_depend_on_the_settings_that_were_read() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let created = put_if(&server, "news", ("if-none-match", "*"), &json!({"k": 3})).await;
    assert_eq!(created.status(), StatusCode::CREATED);
    let first = tag(&created);
    assert_eq!(tag_of(&server, "news").await, first);
    // Changes of documents do not change the tag.
    server.put("/collections/news/documents/a", json!({"hash": "00000000000000ff"})).await;
    assert_eq!(tag_of(&server, "news").await, first);
    let again = put_if(&server, "news", ("if-none-match", "*"), &json!({"k": 4})).await;
    assert_eq!(again.status(), StatusCode::PRECONDITION_FAILED);
    let problem: Value = again.json().await.unwrap();
    assert_eq!(problem["code"], "precondition_failed");
    assert!(problem["detail"].as_str().unwrap().contains(&first), "{problem}");

    let changed = put_if(&server, "news", ("if-match", &first), &json!({"k": 5})).await;
    assert_eq!(changed.status(), StatusCode::OK);
    let second = tag(&changed);
    assert_ne!(second, first);
    let late = put_if(&server, "news", ("if-match", &first), &json!({"k": 6})).await;
    assert_eq!(late.status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(server.json("/collections/news").await["k"], 5);
    let either = format!("{first}, {second}");
    let same = put_if(&server, "news", ("if-match", &either), &json!({"k": 5})).await;
    assert_eq!((same.status(), tag(&same)), (StatusCode::OK, second.clone()), "nothing was changed");
    for (header, value, status) in [
        ("if-match", "*", StatusCode::OK),
        ("if-match", "W/\"0000000000000000\"", StatusCode::PRECONDITION_FAILED),
        ("if-match", "\"of another server\"", StatusCode::PRECONDITION_FAILED),
        ("if-match", "5", StatusCode::UNPROCESSABLE_ENTITY),
        ("if-none-match", first.as_str(), StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let answer = put_if(&server, "news", (header, value), &json!({})).await;
        assert_eq!(answer.status(), status, "{header}: {value}");
    }
    let absent = put_if(&server, "nobody", ("if-match", "*"), &json!({})).await;
    assert_eq!(absent.status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(server.get("/collections/nobody").await.status(), StatusCode::NOT_FOUND);

    assert_eq!(delete_if(&server, "news", &first).await.status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(delete_if(&server, "nobody", &first).await.status(), StatusCode::NOT_FOUND);
    // A restart does not change the tag.
    server.kill();
    let server = Server::start(data.path()).await;
    assert_eq!(tag_of(&server, "news").await, second);
    assert_eq!(delete_if(&server, "news", &second).await.status(), StatusCode::NO_CONTENT);
    let created_again = put_if(&server, "news", ("if-none-match", "*"), &json!({"k": 5})).await;
    assert_eq!(created_again.status(), StatusCode::CREATED);
    assert_ne!(tag(&created_again), second, "a new collection with the same settings has another tag");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_changes_with_the_same_tag_one_succeeds() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for round in 0..50u64 {
        let tag = tag_of(&server, "default").await;
        let bodies = [json!({"k": round % 60}), json!({"expires_in": round + 1})];
        let put = |body| put_if(&server, "default", ("if-match", &tag), body);
        let (one, two) = futures::future::join(put(&bodies[0]), put(&bodies[1])).await;
        let mut statuses = [one.status().as_u16(), two.status().as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "round {round}");
    }
}
