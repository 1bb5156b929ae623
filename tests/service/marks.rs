//! Marks against their definition, by a loop: while documents and marks come and go, with kills.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::clusters::wait_until_decided;
use crate::server::{Server, command, directory, ids, is_replicated};

/// The stored documents with their hashes, the marked pairs with the smaller id first, and the documents that
/// are marked themselves.
#[derive(Clone, Default)]
struct Twin {
    documents: BTreeMap<String, u64>,
    pairs: BTreeSet<(String, String)>,
    alone: BTreeSet<String>,
}

/// A page of an answer: the ids, the number of marked ones, and whether there is a next page.
type Page = (Vec<String>, u64, bool);

impl Twin {
    fn is_pair(&self, a: &str, b: &str) -> bool {
        let (a, b) = if a < b { (a, b) } else { (b, a) };
        self.pairs.contains(&(a.to_owned(), b.to_owned()))
    }

    /// The documents within k, with their distances, in the order of an answer.
    fn near(&self, hash: u64, id: Option<&str>, k: u32) -> Vec<(u32, String)> {
        let others = self.documents.iter().filter(|(other, _)| Some(other.as_str()) != id);
        let near = others.map(|(other, own)| ((own ^ hash).count_ones(), other.clone()));
        let mut near: Vec<_> = near.filter(|(distance, _)| *distance <= k).collect();
        near.sort();
        near
    }

    /// A page of the answer about a hash, or about the document with it.
    fn page(&self, hash: u64, id: Option<&str>, k: u32, limit: usize, skip: usize) -> Page {
        let near = self.near(hash, id, k);
        if id.is_some_and(|id| self.alone.contains(id)) {
            return (Vec::new(), near.len().min(limit) as u64, false);
        }
        let is_left_out =
            |other: &str| self.alone.contains(other) || id.is_some_and(|id| self.is_pair(id, other));
        let kept: Vec<usize> = (0..near.len()).filter(|at| !is_left_out(&near[*at].1)).collect();
        let of_page: Vec<usize> = kept.iter().skip(skip).take(limit).copied().collect();
        let has_more = kept.len() > skip + of_page.len();
        let from = if skip == 0 { 0 } else { kept[skip - 1] + 1 };
        let to = if has_more { of_page[of_page.len() - 1] + 1 } else { near.len() };
        let marked = to - from - of_page.len();
        (of_page.iter().map(|at| near[*at].1.clone()).collect(), marked as u64, has_more)
    }

    /// All marks as `GET /marks` lists them.
    fn listed(&self) -> Vec<Vec<String>> {
        let pairs = self.pairs.iter().map(|(a, b)| vec![a.clone(), b.clone()]);
        let mut all: Vec<_> = pairs.chain(self.alone.iter().map(|id| vec![id.clone()])).collect();
        all.sort();
        all
    }
}

fn marked(answer: &Value) -> u64 {
    let marked = &answer["marked"];
    assert!(marked.is_null() || *marked != 0, "{answer}");
    marked.as_u64().unwrap_or(0)
}

async fn compare_query(server: &Server, query: &str, limit: usize, expected: impl Fn(usize) -> Page) {
    for verify in ["", "&verify=scan"] {
        let (mut skip, mut cursor) = (0, String::new());
        loop {
            let answer = server.json(&format!("{query}limit={limit}{verify}{cursor}")).await;
            let (of_twin, left_out, has_more) = expected(skip);
            assert_eq!(ids(&answer), of_twin, "{query} {skip} {answer}");
            assert_eq!(marked(&answer), left_out, "{query} {skip} {verify} {answer}");
            assert_eq!(answer["next"].is_string(), has_more, "{query} {answer}");
            let Some(next) = answer["next"].as_str() else { break };
            (skip, cursor) = (skip + limit, format!("&cursor={next}"));
        }
    }
}

/// All marks, read page by page.
async fn listed(server: &Server, route: &str, limit: usize) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.json(&format!("{route}/marks?limit={limit}{cursor}")).await;
        all.extend(page["marks"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn ids_of(marks: &[Value]) -> Vec<Vec<String>> {
    marks.iter().map(|mark| serde_json::from_value(mark["ids"].clone()).unwrap()).collect()
}

fn near_a_centre(random: &mut fastrand::Rng) -> u64 {
    let centre = random.u64(0..3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..random.u32(0..5)).fold(centre, |hash, _| hash ^ (1 << random.u32(0..14)))
}

#[tokio::test]
async fn answers_leave_out_what_is_marked_while_documents_and_marks_come_and_go_with_kills() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    let (mut twin, mut random) = (Twin::default(), fastrand::Rng::with_seed(35));
    // Ids of which some are prefixes of others.
    let id = |number: u64| format!("d{number}");
    for round in 0..8 {
        for _ in 0..60 {
            let (a, b) = (id(random.u64(0..60)), id(random.u64(0..60)));
            match random.u8(0..10) {
                0 => {
                    let expected = if twin.documents.remove(&a).is_some() { 204 } else { 404 };
                    assert_eq!(server.delete(&format!("/documents/{a}")).await.as_u16(), expected);
                }
                // In the first rounds no document is marked itself.
                1 | 2 if a != b => {
                    let is_new = !twin.is_pair(&a, &b);
                    twin.pairs.insert((a.clone().min(b.clone()), a.clone().max(b.clone())));
                    let marks = json!({"marks": [{"ids": [a, b]}, {"ids": [b, a]}]});
                    let (status, answer) = server.post("/marks", marks).await;
                    let added = u64::from(is_new);
                    assert_eq!(status, StatusCode::OK, "{answer}");
                    assert_eq!(answer, json!({"added": added, "present": 2 - added}));
                }
                3 if round > 2 && random.bool() => {
                    let added = u64::from(twin.alone.insert(a.clone()));
                    let (_, answer) = server.post("/marks", json!({"marks": [{"ids": [a]}]})).await;
                    assert_eq!(answer, json!({"added": added, "present": 1 - added}));
                }
                4 => {
                    let removed = twin.alone.remove(&a);
                    let expected = if removed { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND };
                    assert_eq!(server.delete(&format!("/marks?id={a}")).await, expected);
                }
                5 if !twin.pairs.is_empty() => {
                    let (a, b) = twin.pairs.iter().nth(random.usize(0..twin.pairs.len())).unwrap().clone();
                    twin.pairs.remove(&(a.clone(), b.clone()));
                    // The order of the ids does not matter.
                    let route = format!("/marks?id={b}&other={a}");
                    assert_eq!(server.delete(&route).await, StatusCode::NO_CONTENT);
                    assert_eq!(server.delete(&route).await, StatusCode::NOT_FOUND);
                }
                way => {
                    let hash = near_a_centre(&mut random);
                    let skips = way == 6 && !twin.documents.contains_key(&a);
                    let mut after = twin.clone();
                    after.documents.insert(a.clone(), hash);
                    let expected = after.page(hash, Some(&a), 7, 10, 0);
                    let route = if skips { "/documents?on_duplicate=skip" } else { "/documents" };
                    let document = json!({"id": a, "hash": format!("{hash:016x}")});
                    let (status, answer) = server.post(route, document).await;
                    assert!(status.is_success(), "{answer}");
                    if skips && !expected.0.is_empty() {
                        assert_eq!(answer["outcome"], "duplicate", "{answer}");
                        // Which ones of those at one distance are named is not defined.
                        let all = after.page(hash, Some(&a), 7, 1_000, 0).0;
                        let named = ids(&answer);
                        assert_eq!(named.len(), expected.0.len());
                        assert!(named.iter().all(|id| all.contains(id)), "{answer}");
                    } else {
                        assert_eq!((ids(&answer), marked(&answer)), (expected.0, expected.1), "{answer}");
                        twin = after;
                    }
                }
            }
        }
        if round % 2 == 1 {
            server.kill();
            server = Server::start(data.path()).await;
        }
        for (id, hash) in &twin.documents {
            for (k, limit) in [(7, 4), (3, 100)] {
                compare_query(&server, &format!("/documents/{id}/similar?k={k}&"), limit, |skip| {
                    twin.page(*hash, Some(id), k, limit, skip)
                })
                .await;
            }
            compare_query(&server, &format!("/similar?hash={hash:016x}&"), 5, |skip| {
                twin.page(*hash, None, 7, 5, skip)
            })
            .await;
        }
        let queries: Vec<Value> = twin.documents.keys().map(|id| json!({"id": id, "k": 7})).collect();
        let (_, answer) = server.post("/batch/similar", json!({"queries": queries})).await;
        for ((id, hash), answer) in twin.documents.iter().zip(answer["results"].as_array().unwrap()) {
            let expected = twin.page(*hash, Some(id), 7, 10, 0);
            assert_eq!((ids(answer), marked(answer)), (expected.0, expected.1), "{id}");
        }
        let all = listed(&server, "", 3).await;
        assert_eq!(ids_of(&all), twin.listed());
        let of_one = server.json("/marks?id=d7&limit=1000").await;
        let expected: Vec<_> =
            twin.listed().into_iter().filter(|mark| mark.contains(&"d7".to_owned())).collect();
        assert_eq!(ids_of(of_one["marks"].as_array().unwrap()), expected);
        let collection = server.json("/collections/default").await;
        assert_eq!(collection["marks"].as_u64().unwrap_or(0), all.len() as u64);
    }
    assert!(twin.pairs.len() > 20 && twin.alone.len() > 3, "{:?}", twin.listed());

    // The list is an export that another collection takes with its times, and a backup has the marks.
    server.put("/collections/other", json!({"k": 7})).await;
    let all = listed(&server, "", 1_000).await;
    let (status, answer) = server.post("/collections/other/marks", json!({"marks": all, "next": "x"})).await;
    assert_eq!((status, &answer["added"]), (StatusCode::OK, &json!(all.len())));
    assert_eq!(listed(&server, "/collections/other", 7).await, all);
    let tar = server.get("/collections/default/backup").await.bytes().await.unwrap();
    let file = data.path().join("backup.tar");
    std::fs::write(&file, &tar).unwrap();
    let checked = command(&["restore", file.to_str().unwrap(), "--check"]).output().unwrap();
    let report = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.status.success(), "{report}");
    let restore = server.client.post(format!("{}/collections/again/restore", server.url));
    let restored = restore.header("content-type", "application/x-tar").body(tar).send().await.unwrap();
    assert_eq!(restored.status(), StatusCode::CREATED);
    assert_eq!(listed(&server, "/collections/again", 9).await, all);
    for (id, hash) in twin.documents.iter().take(10) {
        let query = format!("/collections/again/documents/{id}/similar?k=7&");
        compare_query(&server, &query, 6, |skip| twin.page(*hash, Some(id), 7, 6, skip)).await;
    }

    // A collection that is deleted and created again has no marks.
    assert_eq!(server.delete("/collections/other").await, StatusCode::NO_CONTENT);
    server.put("/collections/other", json!({"k": 7})).await;
    assert_eq!(listed(&server, "/collections/other", 7).await, Vec::<Value>::new());

    // `repair` is for the directory of one server.
    if is_replicated() {
        return;
    }
    // So has a repaired directory.
    assert!(server.stop().success());
    let repaired = directory();
    let to = repaired.path().join("data");
    let mut repair = command(&["repair", data.path().to_str().unwrap(), "--to", to.to_str().unwrap()]);
    let repair = repair.output().unwrap();
    let report = String::from_utf8(repair.stdout).unwrap();
    assert!(repair.status.success() && report.contains(&format!("; {} marks", all.len())), "{report}");
    let server = Server::start(&to).await;
    assert_eq!(listed(&server, "", 100).await, all);
    assert_eq!(listed(&server, "/collections/again", 100).await, all);
}

#[tokio::test]
async fn a_mark_of_a_damaged_table_is_saved_or_reported() {
    // It damages the directory of one server.
    if is_replicated() {
        return;
    }
    let data = directory();
    let server = Server::start(data.path()).await;
    server.post("/documents", json!({"id": "a", "hash": "00"})).await;
    for part in 0..20 {
        let mark = |n: u64| json!({"ids": [format!("a{n:05}"), format!("b{n:05}")]});
        let marks: Vec<Value> = (part * 1_000..(part + 1) * 1_000).map(mark).collect();
        let (status, answer) = server.post("/marks", json!({"marks": marks})).await;
        assert_eq!((status, &answer["added"]), (StatusCode::OK, &json!(1_000)), "{answer}");
    }
    assert!(server.stop().success());
    let tables = std::fs::read_dir(data.path().join("store/marks/tables")).unwrap();
    let table = tables.map(|entry| entry.unwrap().path()).next().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[5_000] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let verified = command(&["verify", data.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(verified.status.code(), Some(65));
    let repaired = directory();
    let to = repaired.path().join("data");
    let mut repair = command(&["repair", data.path().to_str().unwrap(), "--to", to.to_str().unwrap()]);
    let repair = repair.output().unwrap();
    let report = String::from_utf8(repair.stdout).unwrap();
    assert_eq!(repair.status.code(), Some(3), "{report}");
    assert!(report.contains("lost: ") && report.contains("marks/tables"), "{report}");
    let server = Server::start(&to).await;
    // The entries of a pair are in two blocks, so the damage of one loses no mark.
    assert_eq!(listed(&server, "", 1_000).await.len(), 20_000, "{report}");
}

#[tokio::test]
async fn marks_are_limited_and_added_all_or_none() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let pair = |n: u64| json!({"ids": ["a", format!("b{n}")]});
    let marks: Vec<Value> = (0..1_000).map(pair).collect();
    let (status, answer) = server.post("/marks", json!({"marks": marks})).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"added": 1_000, "present": 0})));
    for more in [json!([{"ids": ["c", "d"]}, pair(1_000)]), json!([{"ids": ["e"]}, {"ids": ["a"]}])] {
        let (status, problem) = server.post("/marks", json!({"marks": more})).await;
        assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("too_many_marks")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("1000 marks"), "{problem}");
    }
    assert_eq!(listed(&server, "", 1_000).await.len(), 1_000, "nothing was added");
    assert_eq!(server.delete("/marks?id=a&other=b5").await, StatusCode::NO_CONTENT);
    let (_, answer) = server.post("/marks", json!({"marks": [pair(1_000), pair(7)]})).await;
    assert_eq!(answer, json!({"added": 1, "present": 1}));
    // A page of one document's marks.
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let page = server.json(&format!("/marks?id=a&limit=300{cursor}")).await;
        count += page["marks"].as_array().unwrap().len();
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(count, 1_000);
    // A mark keeps its time, and an unknown document may be marked.
    let at = json!({"marks": [{"ids": ["z"], "marked_at": "2026-01-02T03:04:05Z"}]});
    assert_eq!(server.post("/marks", at).await.1["added"], 1);
    assert_eq!(server.post("/marks", json!({"marks": [{"ids": ["z"]}]})).await.1["present"], 1);
    assert_eq!(server.json("/marks?id=z").await["marks"][0]["marked_at"], "2026-01-02T03:04:05.000Z");
    let long = "x".repeat(300);
    for (body, pointer) in [
        (json!({}), Value::Null),
        (json!({"marks": 1}), json!("/marks")),
        (json!({"marks": [{"ids": []}]}), json!("/marks/0/ids")),
        (json!({"marks": [{"ids": ["a"]}, {"ids": ["a", "b", "c"]}]}), json!("/marks/1/ids")),
        (json!({"marks": [{"ids": ["a", "a"]}]}), json!("/marks/0/ids")),
        (json!({"marks": [{"ids": ["a\u{0}b"]}]}), Value::Null),
        (json!({"marks": [{"ids": [long]}]}), Value::Null),
        (json!({"marks": [{"ids": ["a"], "why": 1}]}), Value::Null),
        (json!({"marks": [{"ids": ["a"], "marked_at": "yesterday"}]}), Value::Null),
        (json!({"marks": (0..1_001).map(pair).collect::<Vec<_>>()}), json!("/marks")),
    ] {
        let (status, problem) = server.post("/marks", body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(pointer.is_null() || problem["errors"][0]["pointer"] == pointer, "{pointer} {problem}");
    }
    for query in ["limit=0", "limit=1001", "cursor=zz", "cursor=61.61", "id=", "ids=a", "id=%00"] {
        let answer = server.get(&format!("/marks?{query}")).await;
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "{query}");
    }
    for query in ["", "?other=a", "?id=a&other=a", "?id=a&other=b&limit=1"] {
        assert_eq!(
            server.delete(&format!("/marks{query}")).await,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{query}"
        );
    }
    let (status, answer) = server.post("/marks", json!({"marks": []})).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"added": 0, "present": 0})));
    assert_eq!(server.post("/collections/none/marks", json!({"marks": []})).await.0, StatusCode::NOT_FOUND);
    let metrics = server.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("lookalike_marks{collection=\"default\"} 1001"), "{metrics}");
}

#[tokio::test]
async fn passages_second_checks_and_replacements_follow_marks() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let settings = json!({"keep_text": true, "passages": true, "k": 30, "profile": "copies-64",
        "clusters": {"keep": "longest"}});
    let (status, made) = server.put("/collections/p", settings).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let sentence = |n: u64| {
        format!(
            "The ferry number {n} will run every {} minutes in the summer of {}, said captain {}. ",
            n * 7 + 1,
            1900 + n * 3,
            n * n
        )
    };
    let text: String = (0..40).map(sentence).collect();
    let longer = format!("{text}{}", sentence(99));
    let route = "/collections/p/documents";
    for (id, text) in [("a", &text), ("b", &longer), ("c", &text)] {
        assert!(server.post(route, json!({"id": id, "text": text})).await.0.is_success());
    }
    let found = |answer: &Value| -> BTreeSet<String> {
        let documents = answer["passages"]["documents"].as_array().unwrap().iter();
        documents.map(|found| found["id"].as_str().unwrap().to_owned()).collect()
    };
    let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
    let similar = "/collections/p/similar";
    let (_, answer) = server.post(similar, json!({"id": "a"})).await;
    assert_eq!(found(&answer), set(&["b", "c"]), "{answer}");
    server.post("/collections/p/marks", json!({"marks": [{"ids": ["a", "b"]}]})).await;
    let (_, answer) = server.post(similar, json!({"id": "a"})).await;
    assert_eq!(found(&answer), set(&["c"]), "{answer}");
    assert_eq!((&answer["passages"]["marked"], ids(&answer)), (&json!(1), vec!["c".to_owned()]), "{answer}");
    let (_, checked) = server.post(similar, json!({"id": "a", "min_similarity": 0.5})).await;
    assert_eq!((ids(&checked), marked(&checked)), (vec!["c".to_owned()], 1), "{checked}");
    // A text is not a document.
    let (_, answer) = server.post(similar, json!({"text": text, "min_similarity": 0.5})).await;
    assert_eq!((ids(&answer).len(), marked(&answer), found(&answer).len()), (3, 0, 3), "{answer}");
    // A document whose id is marked is in no answer, and finds nothing.
    server.post("/collections/p/marks", json!({"marks": [{"ids": ["c"]}]})).await;
    let (_, answer) = server.post(similar, json!({"text": text})).await;
    assert_eq!((found(&answer), marked(&answer)), (set(&["a", "b"]), 1), "{answer}");
    assert_eq!(answer["passages"]["marked"], 1);
    let (_, answer) = server.post(similar, json!({"id": "c"})).await;
    assert_eq!((found(&answer), ids(&answer)), (set(&[]), Vec::<String>::new()), "{answer}");
    assert_eq!((marked(&answer), &answer["passages"]["marked"]), (2, &json!(2)), "{answer}");
    // What is marked with every near document is no duplicate; c is marked itself.
    let (_, refused) =
        server.post(&format!("{route}?on_duplicate=skip"), json!({"id": "d", "text": text})).await;
    assert_eq!(refused["outcome"], "duplicate", "{refused}");
    let marks = json!({"marks": [{"ids": ["d", "a"]}, {"ids": ["d", "b"]}]});
    server.post("/collections/p/marks", marks).await;
    for containment in ["", "&min_containment=0.5"] {
        let skip = format!("{route}?on_duplicate=skip{containment}");
        let (_, stored) = server.post(&skip, json!({"id": "d", "text": text})).await;
        assert!(stored["outcome"] == "created" || stored["outcome"] == "updated", "{stored}");
        assert_eq!((&stored["similar"], marked(&stored)), (&json!([]), 3), "{stored}");
    }
    let replace = format!("{route}?on_duplicate=replace");
    let longest = format!("{longer}{}", sentence(77));
    server.post("/collections/p/marks", json!({"marks": [{"ids": ["e", "a"]}]})).await;
    let (_, replaced) = server.post(&replace, json!({"id": "e", "text": longest})).await;
    assert_eq!(replaced["outcome"], "replaced", "{replaced}");
    let gone: BTreeSet<String> = ids(&replaced).into_iter().collect();
    assert_eq!(gone, set(&["b", "d"]), "a and c are marked");
    assert_eq!(server.get(&format!("{route}/a")).await.status(), StatusCode::OK);
    // The mark outlives the documents.
    assert_eq!(server.json("/collections/p/marks?id=b").await["marks"][0]["ids"], json!(["a", "b"]));
}

#[tokio::test]
async fn thousands_of_marked_documents_with_one_hash_are_left_out() {
    let data = directory();
    let server = Server::start(data.path()).await;
    // Ten thousand documents with one hash, all of them marked: no answer has one, and clusters are decided.
    let settings = json!({"clusters": {"keep": "first"}});
    server.put("/collections/c", settings).await;
    let lines: String =
        (0..10_000).map(|n| format!("{{\"id\":\"d{n}\",\"hash\":\"{:016x}\"}}\n", 5)).collect();
    server.stream("/collections/c/documents", lines).await;
    for part in 0..10 {
        let mark = |n: u64| json!({"ids": [format!("d{n}")]});
        let marks: Vec<Value> = (part * 1_000..(part + 1) * 1_000).map(mark).collect();
        assert_eq!(server.post("/collections/c/marks", json!({"marks": marks})).await.1["added"], 1_000);
    }
    let answer = server.json("/collections/c/similar?hash=0000000000000005").await;
    assert_eq!((ids(&answer).len(), marked(&answer)), (0, 10_000));
    wait_until_decided(&server, "/collections/c").await;
    assert_eq!(server.json("/collections/c/clusters?min_size=2").await["clusters"], json!([]));
    let (_, added) =
        server.post("/collections/c/documents", json!({"id": "n", "hash": format!("{:016x}", 5)})).await;
    assert_eq!((&added["similar"], added["cluster"]["representative"].as_str()), (&json!([]), Some("n")));
}
