//! Lists of documents, and deletion of many: by ids, by a filter, as a job, while others write.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory, is_replicated};

fn ids(answer: &Value) -> Vec<String> {
    let documents = answer["documents"].as_array().unwrap_or_else(|| panic!("{answer}"));
    documents.iter().map(|document| document["id"].as_str().unwrap().to_owned()).collect()
}

/// All pages of a list.
async fn listed(server: &Server, parameters: &str) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.json(&format!("/documents?{parameters}{cursor}")).await;
        all.extend(ids(&page));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn encoded(filter: &Value) -> String {
    percent_encoding::utf8_percent_encode(&filter.to_string(), percent_encoding::NON_ALPHANUMERIC).to_string()
}

async fn fill(server: &Server, count: u64) {
    let line = |number: u64| {
        let metadata = json!({"number": number, "even": number.is_multiple_of(2)});
        let hash = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        format!("{}\n", json!({"id": format!("文-{number:05}"), "hash": hash, "metadata": metadata}))
    };
    server.stream("/documents", (0..count).map(line).collect()).await;
}

#[tokio::test]
async fn a_list_has_every_document_once_in_pages_and_by_filter() {
    let data = directory();
    let server = Server::start(data.path()).await;
    assert_eq!(server.json("/documents").await, json!({"documents": []}));
    fill(&server, 2_345).await;
    let all: Vec<String> = (0..2_345).map(|number| format!("文-{number:05}")).collect();
    for limit in [7, 1_000] {
        assert_eq!(listed(&server, &format!("limit={limit}")).await, all);
    }
    assert_eq!(ids(&server.json("/documents").await).len(), 10);
    let filter =
        json!({"metadata": {"number": {"gte": 100, "lt": 300}, "even": false}, "exclude": [all[101]]});
    let wanted: Vec<String> = all[100..300].iter().skip(1).step_by(2).skip(1).cloned().collect();
    assert_eq!(listed(&server, &format!("limit=30&filter={}", encoded(&filter))).await, wanted);
    let export = server.export(&format!("/export?filter={}", encoded(&filter))).await;
    assert_eq!(export.lines().count(), wanted.len());
    let one = server.json("/documents?limit=1").await;
    let alone = server.json(&format!("/documents/{}", all[0])).await;
    assert_eq!(one["documents"][0], alone);
    for (parameters, parameter) in
        [("limit=0", "limit"), ("limit=1001", "limit"), ("cursor=x1", "cursor"), ("filter=7", "filter")]
    {
        let response = server.get(&format!("/documents?{parameters}")).await;
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{parameters}");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["errors"][0]["parameter"], parameter, "{problem}");
    }
    // A list has no texts, which a document has.
    server.put("/collections/kept", json!({"keep_text": true})).await;
    server.put("/collections/kept/documents/a", json!({"text": "a few words of a text to keep"})).await;
    let listed = server.json("/collections/kept/documents").await;
    assert!(listed["documents"][0].get("text").is_none() && listed["documents"][0]["hash"].is_string());
}

#[tokio::test]
async fn documents_are_deleted_by_ids_and_by_filter_as_a_simple_rule_says() {
    // Only the server that runs a deletion by filter knows how far it is.
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    fill(&server, 3_000).await;
    let some = json!({"ids": ["文-00000", "nobody", "文-00002"]});
    let mut dry = some.clone();
    dry["dry_run"] = json!(true);
    let (_, counted) = server.post("/deletions", dry).await;
    assert_eq!((&counted["matched"], &counted["deleted"]), (&json!(2), &json!(0)), "{counted}");
    assert_eq!(server.documents().await, 3_000);
    let (status, deleted) = server.post("/deletions", some).await;
    assert_eq!((status, &deleted["deleted"]), (StatusCode::OK, &json!(2)), "{deleted}");
    assert_eq!(server.get("/deletions").await.status(), StatusCode::NOT_FOUND);

    let filter = json!({"metadata": {"even": true, "number": {"lt": 1_000}}});
    let (_, counted) = server.post("/deletions", json!({"filter": filter, "dry_run": true})).await;
    assert_eq!((&counted["matched"], &counted["deleted"]), (&json!(498), &json!(0)), "{counted}");
    assert_eq!(server.documents().await, 2_998);
    let (status, deleted) = server.post("/deletions", json!({"filter": filter})).await;
    assert!(status == StatusCode::OK || status == StatusCode::ACCEPTED, "{deleted}");
    let ended = loop {
        let state = server.json("/deletions").await;
        if state["ended_at"].is_string() {
            break state;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((&ended["deleted"], &ended["examined"]), (&json!(498), &json!(2_998)), "{ended}");
    let expected: Vec<String> = (0..3_000)
        .filter(|number| number % 2 == 1 || *number >= 1_000)
        .map(|number| format!("文-{number:05}"))
        .collect();
    assert_eq!(listed(&server, "limit=1000").await, expected);
    let hash = format!("{:016x}", 4u64.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    assert_eq!(server.json(&format!("/similar?hash={hash}&k=0")).await["similar"], json!([]));
    assert_eq!(server.delete("/deletions").await, StatusCode::NO_CONTENT);
    assert_eq!(server.get("/deletions").await.status(), StatusCode::NOT_FOUND);

    for (wrong, detail) in [
        (json!({}), "exactly one of ids and filter"),
        (json!({"ids": [], "filter": {}}), "exactly one of ids and filter"),
        (json!({"filter": {}}), "has no condition"),
        (json!({"filter": {"metadata": {"a": {"like": "b"}}}}), "gt, gte, lt, lte"),
        (json!({"ids": vec!["a"; 1_001]}), "limits.batch_items"),
        (json!({"ids": ["a"], "dryrun": true}), "unknown field"),
    ] {
        let (status, problem) = server.post("/deletions", wrong).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{detail}: {problem}");
    }
}

/// A document that another client writes during the deletion is deleted only if it passes the filter then.
#[tokio::test(flavor = "multi_thread")]
async fn documents_that_change_during_a_deletion_stay() {
    // Only the server that runs a deletion by filter knows how far it is.
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    fill(&server, 20_000).await;
    let deleting = server.post("/deletions", json!({"filter": {"metadata": {"even": true}}}));
    let writing = async {
        let mut kept = BTreeSet::new();
        for number in (0..20_000).step_by(500).rev() {
            let id = format!("文-{number:05}");
            let body = json!({"hash": "00000000000000ff", "metadata": {"even": "no more"}});
            server.put(&format!("/documents/{id}"), body).await;
            kept.insert(id);
        }
        kept
    };
    let ((status, begun), kept) = tokio::join!(deleting, writing);
    assert!(status.is_success(), "{begun}");
    while server.json("/deletions").await.get("ended_at").is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let stored: BTreeSet<String> = listed(&server, "limit=1000").await.into_iter().collect();
    let expected: BTreeSet<String> =
        (0..20_000).filter(|number| number % 2 == 1).map(|number| format!("文-{number:05}")).collect();
    assert_eq!(stored, expected.union(&kept).cloned().collect());
}
