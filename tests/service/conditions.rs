//! Versions of documents: tags, conditions, changes of metadata and expiry, and their races.

use reqwest::header::{ETAG, HeaderMap, LOCATION};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, directory};

/// Sends a request. Returns the status, the headers and the JSON of the answer.
async fn send(
    server: &Server,
    method: Method,
    route: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> (StatusCode, HeaderMap, Value) {
    let mut request = server.client.request(method, format!("{}{route}", server.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    (status, headers, serde_json::from_str(&text).unwrap_or(Value::Null))
}

fn tag(headers: &HeaderMap) -> String {
    headers[ETAG].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_document_has_an_etag_that_each_write_changes() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let document = |hash: &str| Some(json!({"id": "新闻/1", "hash": hash}));
    let (status, headers, _) =
        send(&server, Method::POST, "/documents", &[], document("00000000000000ff")).await;
    assert_eq!(status, StatusCode::CREATED);
    let path = headers[LOCATION].to_str().unwrap();
    assert_eq!(path, "/collections/default/documents/%E6%96%B0%E9%97%BB%2F1");
    let (status, read, stored) = send(&server, Method::GET, path, &[], None).await;
    assert_eq!((status, &stored["id"], tag(&read)), (StatusCode::OK, &json!("新闻/1"), tag(&headers)));
    let mut seen = vec![tag(&read)];
    // Equal writes in the same millisecond are different versions too.
    for _ in 0..20 {
        let (status, headers, _) = send(&server, Method::PUT, path, &[], document("00000000000000ff")).await;
        assert!(status == StatusCode::OK && !seen.contains(&tag(&headers)), "{seen:?}");
        assert_eq!(tag(&send(&server, Method::GET, path, &[], None).await.1), tag(&headers));
        seen.push(tag(&headers));
    }
    // A document that is deleted and made again is another one.
    assert_eq!(server.delete(path).await, StatusCode::NO_CONTENT);
    let (_, headers, _) = send(&server, Method::PUT, path, &[], document("00000000000000ff")).await;
    assert!(!seen.contains(&tag(&headers)));
    // Duplicates are not stored, and have no version.
    let duplicate = Some(json!({"hash": "00000000000000ff"}));
    let route = "/documents?on_duplicate=skip";
    let (status, headers, _) = send(&server, Method::POST, route, &[], duplicate).await;
    assert!(status == StatusCode::OK && !headers.contains_key(ETAG) && !headers.contains_key(LOCATION));
}

#[tokio::test]
async fn conditions_prevent_lost_updates() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let body = || Some(json!({"hash": "00000000000000ff", "metadata": {"n": 1}}));
    let refused = |(status, _, problem): &(StatusCode, HeaderMap, Value)| {
        assert_eq!(
            (*status, problem["code"].as_str()),
            (StatusCode::PRECONDITION_FAILED, Some("precondition_failed"))
        );
    };
    let path = "/documents/a";
    // There is no document yet.
    refused(&send(&server, Method::PUT, path, &[("if-match", "*")], body()).await);
    let absent = send(&server, Method::DELETE, path, &[("if-match", "*")], None).await;
    refused(&absent);
    assert!(!absent.1.contains_key(ETAG), "it has no version");
    refused(&send(&server, Method::PATCH, path, &[("if-match", "*")], Some(json!({"metadata": {}}))).await);
    assert_eq!(server.documents().await, 0);
    let (status, headers, _) = send(&server, Method::PUT, path, &[("if-none-match", "*")], body()).await;
    assert_eq!(status, StatusCode::CREATED);
    let first = tag(&headers);
    // Now there is one.
    refused(&send(&server, Method::PUT, path, &[("if-none-match", "*")], body()).await);
    let post = Some(json!({"id": "a", "hash": "0000000000000fff"}));
    refused(&send(&server, Method::POST, "/documents", &[("if-none-match", "*")], post).await);
    let (status, headers, _) = send(&server, Method::PUT, path, &[("if-match", &first)], body()).await;
    assert_eq!(status, StatusCode::OK);
    let second = tag(&headers);
    let old = [("if-match", first.as_str())];
    let problem = send(&server, Method::PUT, path, &old, body()).await;
    refused(&problem);
    assert!(problem.2["detail"].as_str().unwrap().contains(&second), "{}", problem.2);
    assert_eq!(tag(&problem.1), second);
    refused(&send(&server, Method::PATCH, path, &old, Some(json!({"metadata": {"n": 2}}))).await);
    refused(&send(&server, Method::DELETE, path, &old, None).await);
    let several = format!("{first}, {second}");
    assert_eq!(
        send(&server, Method::DELETE, path, &[("if-match", &several)], None).await.0,
        StatusCode::NO_CONTENT
    );
    // Many documents: those with ids that exist fail alone.
    server.post("/documents", json!({"id": "a", "hash": "00000000000000ff"})).await;
    let array =
        Some(json!([{"id": "a", "hash": "0000000000000001"}, {"id": "b", "hash": "0000000000000002"}]));
    let (_, _, answer) =
        send(&server, Method::POST, "/batch/documents", &[("if-none-match", "*")], array.clone()).await;
    assert_eq!(answer["results"][0]["error"]["code"], "precondition_failed", "{answer}");
    assert_eq!(answer["results"][1]["outcome"], "created", "{answer}");
    let (status, _, problem) =
        send(&server, Method::POST, "/batch/documents", &[("if-match", "*")], array).await;
    assert_eq!((status.as_u16(), &problem["errors"][0]["parameter"]), (422, &json!("If-Match")), "{problem}");
}

#[tokio::test]
async fn a_document_that_the_client_has_is_not_sent_again() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let path = "/documents/a";
    server.put(path, json!({"hash": "00000000000000ff"})).await;
    let first = tag(&send(&server, Method::GET, path, &[], None).await.1);
    for held in [first.clone(), format!("W/{first}"), "*".to_owned(), format!("\"x\", {first}")] {
        for method in [Method::GET, Method::HEAD] {
            let (status, headers, body) =
                send(&server, method, path, &[("if-none-match", &held)], None).await;
            assert_eq!((status, tag(&headers), body), (StatusCode::NOT_MODIFIED, first.clone(), Value::Null));
        }
    }
    for other in ["\"x\"", "\"0000000000000000\""] {
        let (status, headers, _) = send(&server, Method::GET, path, &[("if-none-match", other)], None).await;
        assert_eq!((status, tag(&headers)), (StatusCode::OK, first.clone()));
    }
    let wrong = send(&server, Method::GET, path, &[("if-none-match", "x")], None).await;
    assert_eq!((wrong.0.as_u16(), &wrong.2["errors"][0]["parameter"]), (422, &json!("If-None-Match")));
    let none = send(&server, Method::GET, "/documents/none", &[("if-none-match", "*")], None).await;
    assert_eq!(none.0, StatusCode::NOT_FOUND);
    send(&server, Method::PATCH, path, &[], Some(json!({"metadata": {"n": 1}}))).await;
    let (status, headers, _) = send(&server, Method::GET, path, &[("if-none-match", &first)], None).await;
    assert!(status == StatusCode::OK && tag(&headers) != first);
}

#[tokio::test]
async fn a_collection_that_is_made_has_a_location_and_a_refused_change_its_etag() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let path = "/collections/news";
    let (status, headers, _) = send(&server, Method::PUT, path, &[], Some(json!({}))).await;
    assert_eq!((status, headers[LOCATION].to_str().unwrap()), (StatusCode::CREATED, path));
    let (status, headers, _) = send(&server, Method::PUT, path, &[], Some(json!({"k": 5}))).await;
    assert!(status == StatusCode::OK && !headers.contains_key(LOCATION));
    let condition = [("if-match", "\"0000000000000001\"")];
    let refused = send(&server, Method::PUT, path, &condition, Some(json!({"k": 6}))).await;
    assert_eq!((refused.0, tag(&refused.1)), (StatusCode::PRECONDITION_FAILED, tag(&headers)));
    // Its counts have no version, so it is always sent.
    let own = tag(&headers);
    assert_eq!(send(&server, Method::GET, path, &[("if-none-match", &own)], None).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_patch_changes_metadata_and_expiry_and_nothing_else() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/kept", json!({"keep_text": true})).await;
    let path = "/collections/kept/documents/a";
    let text = "A short report about the weather in the mountains, where the first snow has fallen earlier.";
    let metadata = json!({"source": "rss", "draft": true, "of": {"x": 1, "y": 2}});
    server.put(path, json!({"text": text, "metadata": metadata})).await;
    let before = server.json(path).await;
    let change = json!({"metadata": {"source": "web", "draft": null, "of": {"y": null, "z": [1]}}});
    let (status, headers, after) = send(&server, Method::PATCH, path, &[], Some(change)).await;
    assert_eq!(status, StatusCode::OK, "{after}");
    assert_eq!(after["metadata"], json!({"source": "web", "of": {"x": 1, "z": [1]}}));
    for field in ["id", "hash", "features", "status", "expires_at"] {
        assert_eq!(after.get(field), before.get(field), "{field}");
    }
    assert!(after["written_at"].as_str() > before["written_at"].as_str());
    let (_, read, mut now) = send(&server, Method::GET, path, &[], None).await;
    // The answer to a change has no text.
    let text_after = now.as_object_mut().unwrap().remove("text");
    assert_eq!((&now, text_after, tag(&read)), (&after, Some(json!(text)), tag(&headers)));
    let (_, found) = server.post("/collections/kept/similar", json!({"text": text})).await;
    assert_eq!(found["similar"][0]["metadata"]["source"], "web", "{found}");
    // All digits of a number stay.
    let exact =
        r#"{"id":"a","text":"TEXT","metadata":{"n":12345678901234567890123.5,"m":1}}"#.replace("TEXT", text);
    let request =
        server.client.put(format!("{}{path}", server.url)).header("content-type", "application/json");
    assert!(request.body(exact).send().await.unwrap().status().is_success());
    send(&server, Method::PATCH, path, &[], Some(json!({"metadata": {"m": 2}}))).await;
    let raw = server.get(path).await.text().await.unwrap();
    assert!(raw.contains("12345678901234567890123.5"), "{raw}");
    // Expiry, and its removal.
    let (_, _, expiring) = send(&server, Method::PATCH, path, &[], Some(json!({"expires_in": "1h"}))).await;
    assert!(expiring["expires_at"].is_string() && expiring["metadata"]["m"] == 2, "{expiring}");
    let (_, _, lasting) = send(&server, Method::PATCH, path, &[], Some(json!({"expires_at": null}))).await;
    assert!(lasting.get("expires_at").is_none(), "{lasting}");
    let (_, _, plain) = send(&server, Method::PATCH, path, &[], Some(json!({"metadata": null}))).await;
    assert!(plain.get("metadata").is_none(), "{plain}");
    for (wrong, status, place) in [
        (json!({}), 422, "nothing to change"),
        (json!({"text": "x"}), 422, "unknown field"),
        (json!({"metadata": [1]}), 422, "metadata is a JSON object"),
        (json!({"metadata": {"a": "x".repeat(20_000)}}), 422, "limits.metadata_bytes"),
        (json!({"expires_in": "1h", "expires_at": null}), 422, "leave one out"),
    ] {
        let (found, _, problem) = send(&server, Method::PATCH, path, &[], Some(wrong)).await;
        assert_eq!(found.as_u16(), status, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(place), "{place}: {problem}");
    }
    let missing = send(&server, Method::PATCH, "/documents/none", &[], Some(json!({"metadata": {}}))).await;
    assert_eq!((missing.0, &missing.2["code"]), (StatusCode::NOT_FOUND, &json!("no_document")));
}

/// Clients that increase a number in the metadata, each by its own condition, lose no step.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_are_all_applied() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/documents/counter", json!({"hash": "00000000000000ff", "metadata": {"n": 0}})).await;
    let steps = 25;
    let count = async |client: usize| {
        for step in 0..steps {
            // A merge patch names only its own member, so it needs no condition.
            let own = json!({"metadata": {format!("client-{client}"): step}});
            let (status, ..) = send(&server, Method::PATCH, "/documents/counter", &[], Some(own)).await;
            assert!(matches!(status.as_u16(), 200 | 503), "{status}");
            loop {
                let (_, headers, read) = send(&server, Method::GET, "/documents/counter", &[], None).await;
                let next = json!({"metadata": {"n": read["metadata"]["n"].as_u64().unwrap() + 1}});
                let condition = [("if-match", headers[ETAG].to_str().unwrap())];
                match send(&server, Method::PATCH, "/documents/counter", &condition, Some(next)).await.0 {
                    StatusCode::OK => break,
                    StatusCode::PRECONDITION_FAILED | StatusCode::SERVICE_UNAVAILABLE => {}
                    other => panic!("{other}"),
                }
            }
        }
    };
    futures::future::join_all((0..4).map(&count)).await;
    let counted = server.json("/documents/counter").await;
    assert_eq!(counted["metadata"]["n"], 4 * steps, "{counted}");
}

/// The error of an id that is too long is the same wherever it is written.
#[tokio::test]
async fn an_id_that_is_too_long_has_one_error_on_every_route() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let long = "é".repeat(129);
    let encoded = "%C3%A9".repeat(129);
    let one = json!({"ids": [long]});
    let requests = [
        (Method::GET, format!("/documents/{encoded}"), None),
        (Method::PUT, format!("/documents/{encoded}"), Some(json!({"hash": "00000000000000ff"}))),
        (Method::PATCH, format!("/documents/{encoded}"), Some(json!({"metadata": {}}))),
        (Method::DELETE, format!("/documents/{encoded}"), None),
        (Method::GET, format!("/documents/{encoded}/similar"), None),
        (Method::GET, format!("/documents/{encoded}/cluster"), None),
        (Method::GET, format!("/similar?id={encoded}"), None),
        (Method::GET, format!("/marks?id={encoded}"), None),
        (Method::DELETE, format!("/marks?id={encoded}"), None),
        (Method::POST, "/documents".to_owned(), Some(json!({"id": long, "hash": "00000000000000ff"}))),
        (Method::POST, "/similar".to_owned(), Some(json!({"id": long}))),
        (
            Method::POST,
            "/similar".to_owned(),
            Some(json!({"hash": "00000000000000ff", "filter": {"exclude": [long]}})),
        ),
        (Method::POST, "/compare".to_owned(), Some(json!({"a": {"id": long}, "b": {"text": "x"}}))),
        (Method::POST, "/marks".to_owned(), Some(json!({"marks": [one]}))),
        (Method::POST, "/deletions".to_owned(), Some(one)),
    ];
    for (method, route, body) in requests {
        let (status, _, problem) = send(&server, method.clone(), &route, &[], body).await;
        assert_eq!(
            (status.as_u16(), problem["code"].as_str()),
            (422, Some("invalid_field")),
            "{method} {route}: {problem}"
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("an id has 1 to 256 bytes of UTF-8; this one has 258"),
            "{method} {route}: {problem}"
        );
    }
    let (_, batch) = server.post("/batch/similar", json!({"queries": [{"id": long}]})).await;
    let detail = batch["results"][0]["error"]["detail"].as_str().unwrap();
    assert!(detail.starts_with("an id has 1 to 256 bytes of UTF-8"), "{batch}");
}
