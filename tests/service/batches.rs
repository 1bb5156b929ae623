//! Many documents or queries in one request: each result equals that of a request of its own, and an invalid
//! element fails alone. Filters give the same answers in bodies and in query strings.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory};

/// Whether a filter admits the document with this number.
type Rule = fn(u32) -> bool;

const TEXT: &str = "A short report about the weather in the mountains, where the first snow has fallen \
                    earlier than usual this year.";

#[tokio::test]
async fn an_invalid_query_fails_alone_with_its_own_problem() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.post("/documents", json!({"id": "a", "hash": "0000000000000fff"})).await;
    let good = json!({"hash": "0000000000000fff"});
    let cases: Vec<(Value, u64, &str, &str, &str)> = vec![
        (json!({"hash": "0f"}), 422, "invalid_field", "this has 2", "/queries/1/hash"),
        (json!({"id": "a", "k": -1}), 422, "invalid_field", "invalid value: integer `-1`", "/queries/1/k"),
        (json!({"hash": 1}), 422, "invalid_field", "many programs round numbers", "/queries/1/hash"),
        (json!({"id": "a", "k": 65}), 422, "invalid_field", "0 to 64", "/queries/1/k"),
        (
            json!({"hash": "000000000000000000000000000000ff"}),
            422,
            "invalid_field",
            "has 128 bits",
            "/queries/1/hash",
        ),
        (json!({"id": "a", "limit": 0}), 422, "invalid_field", "limit is 0", "/queries/1/limit"),
        (json!({"id": "nobody"}), 404, "no_document", "there is no document", "/queries/1"),
        (json!({"text": "!?"}), 422, "empty_text", "no word or character", "/queries/1/text"),
        (json!({"id": "a", "radius": 3}), 422, "unknown_field", "`radius`", "/queries/1/radius"),
        (json!({}), 422, "invalid_field", "exactly one of", "/queries/1"),
        (json!(7), 422, "invalid_field", "expected an object", "/queries/1"),
        (json!({"id": "a", "cursor": "x"}), 422, "invalid_cursor", "for the first page", "/queries/1/cursor"),
    ];
    for (wrong, status, code, detail, pointer) in &cases {
        // The others are answered at once, or on the pool.
        for other in [good.clone(), json!({"text": TEXT}), json!({"id": "a"})] {
            let queries = json!({"queries": [good, wrong, other, wrong]});
            let (found, batch) = server.post("/batch/similar", queries).await;
            let results = batch["results"].as_array().unwrap();
            assert_eq!((found, results.len()), (StatusCode::OK, 4), "{batch}");
            let problem = &results[1]["error"];
            assert_eq!((problem["status"].as_u64(), problem["code"].as_str()), (Some(*status), Some(*code)));
            assert!(problem["detail"].as_str().unwrap().contains(detail), "{wrong}: {problem}");
            assert_eq!(problem["errors"][0]["pointer"], *pointer, "{problem}");
            assert_eq!(results[0]["similar"][0]["id"], "a");
            assert!(results[2]["similar"].is_array() && results[3]["error"].is_object(), "{batch}");
        }
    }
    let wrong: Vec<&Value> = cases.iter().map(|case| &case.0).collect();
    let (_, batch) = server.post("/batch/similar", json!({"queries": wrong})).await;
    let results = batch["results"].as_array().unwrap();
    assert!(results.len() == cases.len() && results.iter().all(|one| one["error"].is_object()), "{batch}");
}

#[tokio::test]
async fn each_of_several_documents_has_the_result_of_one_alone() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for name in ["alone", "array", "lines"] {
        server.put(&format!("/collections/{name}"), json!({"expires_in": "1h"})).await;
    }
    let documents: Vec<Value> = (0..40)
        .map(|number| match number % 4 {
            0 => json!({"id": number.to_string(), "text": TEXT, "metadata": {"number": number}}),
            1 => json!({"id": number.to_string(), "text": format!("{TEXT} Number {number}.")}),
            2 => json!({"id": number.to_string(), "text": "short"}),
            _ => json!({"id": number.to_string(), "hash": format!("{number:016x}"), "expires_in": null}),
        })
        .collect();
    for rule in ["similar=3", "similar=3&on_duplicate=skip&k=5"] {
        let mut alone = Vec::new();
        for document in &documents {
            let route = format!("/collections/alone/documents?{rule}");
            alone.push(server.post(&route, document.clone()).await.1);
        }
        let (_, array) =
            server.post(&format!("/collections/array/batch/documents?{rule}"), json!(documents)).await;
        let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
        let (streamed, _) = server.stream(&format!("/collections/lines/documents?{rule}"), lines).await;
        for (number, one) in alone.iter().enumerate() {
            for many in [&array["results"][number], &streamed[number]] {
                for field in ["hash", "outcome", "status"] {
                    assert_eq!(many.get(field), one.get(field), "{rule} {many} {one}");
                }
                assert_eq!(many.get("expires_at").is_some(), one.get("expires_at").is_some(), "{many}");
                // Later documents of the request may be neighbours too, and of equal ones the ids decide.
                let distances = |result: &Value| -> Vec<u64> {
                    let similar = result["similar"].as_array().unwrap();
                    similar.iter().map(|near| near["distance"].as_u64().unwrap()).collect()
                };
                let (of_many, of_one) = (distances(many), distances(one));
                assert!(of_many.len() >= of_one.len() && of_many.len() <= 10, "{many} {one}");
                assert!(of_one.iter().zip(&of_many).all(|(one, many)| many <= one), "{many} {one}");
            }
        }
    }
    let (_, plain) = server.post("/collections/array/batch/documents", json!([documents[0]])).await;
    assert!(plain["results"][0].get("similar").is_none(), "{plain}");
    let (_, none) = server.post("/collections/array/documents?similar=0", documents[0].clone()).await;
    assert!(none.get("similar").is_none() && none["outcome"] == "updated", "{none}");
    for wrong in ["x", "-1", "", "99999999999999999999"] {
        let (status, problem) =
            server.post(&format!("/documents?similar={wrong}"), documents[0].clone()).await;
        assert_eq!(
            (status.as_u16(), &problem["errors"][0]["parameter"]),
            (422, &json!("similar")),
            "{problem}"
        );
    }
    let (status, problem) = server.post("/documents?similar=1001", documents[0].clone()).await;
    assert_eq!((status.as_u16(), &problem["errors"][0]["parameter"]), (422, &json!("similar")), "{problem}");
}

#[tokio::test]
async fn filters_admit_what_a_simple_rule_admits_in_bodies_and_query_strings() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let hash = "00000000000000ff";
    for number in 0..30 {
        let metadata = match number % 3 {
            0 => json!({"n": number, "source": "rss", "at": format!("2026-11-{:02}T00:00:00Z", number + 1)}),
            1 => {
                let tags = ["a".to_owned(), number.to_string()];
                json!({"n": f64::from(number) + 0.5, "tags": tags, "meta": {"set": "wiki"}})
            }
            _ => json!({"source": null}),
        };
        let document = json!({"id": format!("{number:02}"), "hash": hash, "metadata": metadata});
        server.post("/documents?similar=0", document).await;
    }
    server.post("/documents", json!({"id": "zz", "hash": hash})).await;
    let rules: [(Value, Rule, bool); 11] = [
        (json!({"n": 3}), |n| n == 3, false),
        (json!({"n": [3, 4.5, "6"]}), |n| n == 3 || n == 4, false),
        (json!({"n": {"gt": 3, "lte": 10.5}}), |n| n % 3 < 2 && n > 3 && n <= 10, false),
        (json!({"source": ["rss", "web"]}), |n| n % 3 == 0, false),
        (json!({"source": {"exists": true}}), |n| n % 3 == 0, false),
        (json!({"source": {"exists": false}}), |n| n % 3 != 0, true),
        (json!({"source": {"not": "rss"}, "n": {"exists": false}}), |n| n % 3 == 2, true),
        (json!({"source": null}), |n| n % 3 == 2, false),
        (json!({"tags": "a", "n": {"not": {"lt": 10}}}), |n| n % 3 == 1 && n >= 10, false),
        (json!({"meta.set": "wiki"}), |n| n % 3 == 1, false),
        (
            json!({"at": {"gte": "2026-11-10", "lt": "2026-11-19T01:00:00+01:00"}}),
            |n| n % 3 == 0 && (9..18).contains(&n),
            false,
        ),
    ];
    for (metadata, rule, of_none) in rules {
        let mut expected: Vec<String> = (0..30).filter(|n| rule(*n)).map(|n| format!("{n:02}")).collect();
        if of_none {
            expected.push("zz".to_owned());
        }
        let filter = json!({"metadata": metadata});
        let ids = |answer: &Value| -> Vec<String> {
            let similar = answer["similar"].as_array().unwrap_or_else(|| panic!("{filter}: {answer}"));
            similar.iter().map(|near| near["id"].as_str().unwrap().to_owned()).collect()
        };
        let (_, by_body) =
            server.post("/similar", json!({"hash": hash, "k": 0, "limit": 50, "filter": filter})).await;
        assert_eq!(ids(&by_body), expected, "{filter}");
        let mut url = reqwest::Url::parse(&format!("{}/similar", server.url)).unwrap();
        url.query_pairs_mut().extend_pairs([("hash", hash), ("k", "0"), ("limit", "50")]);
        url.query_pairs_mut().append_pair("filter", &filter.to_string());
        let by_query: Value = server.client.get(url).send().await.unwrap().json().await.unwrap();
        assert_eq!(ids(&by_query), expected, "{filter}");
        let mut url = reqwest::Url::parse(&format!("{}/documents/00/similar", server.url)).unwrap();
        url.query_pairs_mut().extend_pairs([("k", "0"), ("limit", "50")]);
        url.query_pairs_mut().append_pair("filter", &filter.to_string());
        let by_id: Value = server.client.get(url).send().await.unwrap().json().await.unwrap();
        expected.retain(|id| id != "00");
        assert_eq!(ids(&by_id), expected, "{filter}");
    }
}
