//! Clusters over HTTP, against their definition, while documents come, change, expire and go, with kills.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, command, directory, is_replicated};

/// A stored document: its hash, its number for the rule, and its place in the order of arrival.
#[derive(Clone, Copy)]
struct Known {
    hash: u64,
    number: i64,
    place: u64,
}

/// Marks: pairs of ids with the smaller one first, or one id twice.
type Marks = BTreeSet<(String, String)>;

/// The representative of each document, and the distance to it: the definition, by a loop.
fn expected(stored: &BTreeMap<String, Known>, by_number: bool, k: u32) -> BTreeMap<String, (String, u32)> {
    expected_with(stored, by_number, k, &Marks::new())
}

/// The expected clusters with marks.
fn expected_with(
    stored: &BTreeMap<String, Known>,
    by_number: bool,
    k: u32,
    marks: &Marks,
) -> BTreeMap<String, (String, u32)> {
    let is_marked =
        |a: &String, b: &String| marks.contains(&(a.clone().min(b.clone()), a.clone().max(b.clone())));
    let separates = |a: &String, b: &String| is_marked(a, b) || is_marked(a, a) || is_marked(b, b);
    let mut order: Vec<_> = stored.iter().collect();
    order.sort_by_key(|(_, known)| (if by_number { -known.number } else { 0 }, known.place));
    let (mut kept, mut found): (Vec<(&String, &Known)>, BTreeMap<_, _>) = (Vec::new(), BTreeMap::new());
    for (id, known) in order {
        let near = kept.iter().filter(|(other, _)| !separates(id, other));
        let near = near.map(|(id, of)| ((of.hash ^ known.hash).count_ones(), of.place, *id));
        let nearest = near.filter(|(distance, ..)| *distance <= k).min();
        let (distance, _, other) = nearest.unwrap_or_else(|| {
            kept.push((id, known));
            (0, known.place, id)
        });
        found.insert(id.clone(), (other.clone(), distance));
    }
    found
}

pub async fn wait_until_decided(server: &Server, route: &str) {
    let (start, mut decided) = (Instant::now(), 0);
    // Each replica decides for itself, and they answer in turns.
    while decided < 3 {
        let answer = server.json(&format!("{route}/clusters")).await;
        decided = if answer["pending"] == 0 { decided + 1 } else { 0 };
        if decided > 0 {
            continue;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "the clusters are not decided");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Compares the clusters of documents, as an answer names them, with the definition. Returns whether all are
/// decided.
fn are_placed(shown: &Value, expected: &BTreeMap<String, (String, u32)>) -> bool {
    let mut are_decided = true;
    for document in shown.as_array().unwrap() {
        let (representative, distance) = &expected[document["id"].as_str().unwrap()];
        let cluster = &document["cluster"];
        if cluster["pending"] == true {
            are_decided = false;
        } else {
            assert_eq!(cluster["representative"], **representative, "{document}");
            assert_eq!(cluster["distance"], *distance, "{document}");
        }
    }
    are_decided
}

/// The same for the documents near this one.
async fn near_are_placed(
    server: &Server,
    route: &str,
    id: &str,
    expected: &BTreeMap<String, (String, u32)>,
) -> bool {
    are_placed(&server.json(&format!("{route}/similar?id={id}&limit=1000")).await["similar"], expected)
}

/// The same for all documents, page by page.
async fn listed_are_placed(server: &Server, route: &str, expected: &BTreeMap<String, (String, u32)>) -> bool {
    let (mut are_decided, mut count, mut cursor) = (true, 0, String::new());
    loop {
        let page = server.json(&format!("{route}/documents?limit=17{cursor}")).await;
        are_decided &= are_placed(&page["documents"], expected);
        count += page["documents"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(count, expected.len());
    are_decided
}

/// Compares the cluster of each document with the definition, and the clusters with their members.
async fn compare(server: &Server, route: &str, expected: &BTreeMap<String, (String, u32)>) {
    wait_until_decided(server, route).await;
    let mut members: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    for (id, (representative, distance)) in expected {
        let cluster = server.json(&format!("{route}/documents/{id}/cluster")).await;
        assert_eq!(cluster["representative"], **representative, "{id}: {cluster}");
        assert_eq!(cluster["distance"], *distance, "{id}: {cluster}");
        let document = server.json(&format!("{route}/documents/{id}")).await;
        assert_eq!(document["cluster"], cluster, "{id}: {document}");
        assert!(near_are_placed(server, route, id, expected).await, "{id}: pending");
        members.entry(representative).or_default().insert(id, *distance);
    }
    assert!(listed_are_placed(server, route, expected).await, "pending");
    for order in ["size", "newest"] {
        let (mut found, mut cursor) = (BTreeMap::new(), String::new());
        loop {
            let list = format!("{route}/clusters?order={order}&min_size=1&limit=3{cursor}");
            let page = server.json(&list).await;
            for cluster in page["clusters"].as_array().unwrap() {
                let representative = cluster["representative"].as_str().unwrap().to_owned();
                found.insert(representative, cluster["size"].as_u64().unwrap());
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found.len(), members.len(), "{order}");
        for (representative, size) in &found {
            let of_twin = &members[representative.as_str()];
            assert_eq!(*size as usize, of_twin.len());
            let cluster = server.json(&format!("{route}/clusters/{representative}?limit=1000")).await;
            let listed = cluster["members"].as_array().unwrap();
            assert_eq!(listed.len() + 1, of_twin.len(), "{cluster}");
            for member in listed {
                assert_eq!(member["distance"], of_twin[member["id"].as_str().unwrap()], "{cluster}");
            }
        }
    }
    let export = server.export(&format!("{route}/export?representatives=true")).await;
    let exported: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(exported.len(), members.len());
    assert!(exported.iter().all(|line| members.contains_key(line["id"].as_str().unwrap())));
}

#[tokio::test]
async fn clusters_are_what_the_rule_says_while_documents_and_marks_come_and_go_with_kills() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    let rules = [("first", false), ("max:n", true)];
    for (name, rule) in ["a", "b"].into_iter().zip(rules) {
        let settings = json!({"k": 9, "clusters": {"keep": rule.0, "k": 4}});
        let (status, made) = server.put(&format!("/collections/{name}"), settings).await;
        assert_eq!((status, &made["clusters"]), (StatusCode::CREATED, &json!({"keep": rule.0, "k": 4})));
    }
    let mut random = fastrand::Rng::with_seed(25);
    let (mut stored, mut arrived) = (BTreeMap::<String, Known>::new(), 0);
    let mut marks = Marks::new();
    for round in 0..6 {
        for _ in 0..40 {
            if random.u8(0..4) == 0 {
                let (a, b) = (random.i64(0..90), random.i64(0..90));
                let (a, b) = (format!("d{a}"), format!("d{b}"));
                let mark =
                    if random.u8(0..4) == 0 { (a.clone(), a) } else { (a.clone().min(b.clone()), a.max(b)) };
                let is_removed = marks.remove(&mark);
                for name in ["a", "b"] {
                    let (id, other) = &mark;
                    let others = if id == other { String::new() } else { format!("&other={other}") };
                    let ids = if id == other { json!([id]) } else { json!([other, id]) };
                    if is_removed {
                        let route = format!("/collections/{name}/marks?id={id}{others}");
                        assert_eq!(server.delete(&route).await, StatusCode::NO_CONTENT);
                    } else {
                        let body = json!({"marks": [{"ids": ids}]});
                        let (_, answer) = server.post(&format!("/collections/{name}/marks"), body).await;
                        assert_eq!(answer["added"], 1, "{answer}");
                    }
                }
                if !is_removed {
                    marks.insert(mark);
                }
            }
            let number = random.i64(0..90);
            let id = format!("d{number}");
            if random.u8(0..4) == 0 {
                for name in ["a", "b"] {
                    server.delete(&format!("/collections/{name}/documents/{id}")).await;
                }
                stored.remove(&id);
                continue;
            }
            let centre = random.u64(0..4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let hash = (0..random.u32(0..5)).fold(centre, |hash, _| hash ^ (1 << random.u32(0..14)));
            arrived += 1;
            let place = stored.get(&id).map_or(arrived, |known| known.place);
            stored.insert(id.clone(), Known { hash, number, place });
            let document = json!({"id": id, "hash": format!("{hash:016x}"), "metadata": {"n": number}});
            for ((name, by_number), (status, answer)) in [("a", false), ("b", true)].into_iter().zip([
                server.post("/collections/a/documents", document.clone()).await,
                server.post("/collections/b/documents", document.clone()).await,
            ]) {
                assert!(status.is_success(), "{answer}");
                let all = expected_with(&stored, by_number, 4, &marks);
                near_are_placed(&server, &format!("/collections/{name}"), &id, &all).await;
                are_placed(&answer["similar"], &all);
                let wanted = &all[&id];
                if answer["cluster"]["pending"] != true {
                    assert_eq!(answer["cluster"]["representative"], *wanted.0, "{name}: {answer}");
                    assert_eq!(answer["cluster"]["distance"], wanted.1, "{name}: {answer}");
                }
            }
        }
        compare(&server, "/collections/a", &expected_with(&stored, false, 4, &marks)).await;
        compare(&server, "/collections/b", &expected_with(&stored, true, 4, &marks)).await;
        if round % 2 == 1 {
            server.kill();
            server = Server::start(data.path()).await;
        }
    }
    // An export has the order of arrival, whatever the order of its lines; it has no marks.
    let export = server.get("/collections/a/export").await.text().await.unwrap();
    let settings = json!({"k": 9, "clusters": {"keep": "first", "k": 4}});
    server.put("/collections/e", settings).await;
    let mut lines: Vec<&str> = export.lines().collect();
    random.shuffle(&mut lines[1..]);
    let (_, summary) = server.stream("/collections/e/documents", lines.join("\n")).await;
    assert_eq!(summary["created"], stored.len(), "{summary}");
    compare(&server, "/collections/e", &expected(&stored, false, 4)).await;
    let again = server.get("/collections/e/export").await.text().await.unwrap();
    assert_eq!(again.split_once('\n').unwrap().1, export.split_once('\n').unwrap().1);
    // A backup has the order of arrival; the clusters are built again.
    let tar = server.get("/collections/a/backup").await.bytes().await.unwrap();
    let restore = server.client.post(format!("{}/collections/c/restore", server.url));
    let restored = restore.header("content-type", "application/x-tar").body(tar).send().await.unwrap();
    assert_eq!(restored.status(), StatusCode::CREATED);
    compare(&server, "/collections/c", &expected_with(&stored, false, 4, &marks)).await;
    // `repair` is for the directory of one server.
    if is_replicated() {
        return;
    }
    // So has a repaired directory.
    assert!(server.stop().success());
    let repaired = directory();
    let to = repaired.path().join("data");
    let mut repair = command(&["repair", data.path().to_str().unwrap(), "--to", to.to_str().unwrap()]);
    assert!(repair.output().unwrap().status.success());
    let server = Server::start(&to).await;
    compare(&server, "/collections/b", &expected_with(&stored, true, 4, &marks)).await;
}

#[tokio::test]
async fn clusters_are_built_for_stored_documents_and_removed() {
    let data = directory();
    let mut server = Server::start(data.path()).await;
    let hash = |number: u64| (number % 50).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (1 << (number % 3));
    let lines =
        (0..5_000u64).map(|number| format!("{{\"id\":\"d{number}\",\"hash\":\"{:016x}\"}}\n", hash(number)));
    let lines: String = lines.collect();
    server.stream("/documents", lines.clone()).await;
    let stored =
        (0..5_000u64).map(|place| (format!("d{place}"), Known { hash: hash(place), number: 0, place }));
    let mut stored: BTreeMap<String, Known> = stored.collect();
    let is_placed = async |server: &Server| {
        let near = server.json("/similar?id=d0&limit=100").await;
        let listed = server.json("/documents?limit=50").await;
        let document = server.json("/documents/d0").await;
        let (near, listed) = (near["similar"].as_array().unwrap(), listed["documents"].as_array().unwrap());
        assert!(near.len() > 90 && listed.len() == 50, "{near:?}");
        let shown = near.iter().chain(listed).chain([&document]);
        let (all, placed) = (shown.clone().count(), shown.filter(|one| one.get("cluster").is_some()).count());
        assert!([0, all].contains(&placed), "{placed} of {all}");
        placed > 0
    };
    assert!(!is_placed(&server).await);
    let answer = server.get("/clusters").await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert_eq!(answer.json::<Value>().await.unwrap()["code"], "no_clusters");
    let (status, begun) = server.post("/clusters", json!({"keep": "first", "k": 2})).await;
    assert_eq!((status, &begun["rule"]), (StatusCode::ACCEPTED, &json!({"keep": "first", "k": 2})));
    // The job goes on after a kill, and new documents are pending until it has reached them.
    server.kill();
    server = Server::start(data.path()).await;
    let (_, added) =
        server.post("/documents", json!({"id": "late", "hash": format!("{:016x}", hash(7))})).await;
    assert!(added["cluster"]["pending"] == true || added["cluster"]["representative"] == "d7", "{added}");
    stored.insert("late".to_owned(), Known { hash: hash(7), number: 0, place: 9_999 });
    wait_until_decided(&server, "").await;
    let expected = expected(&stored, false, 2);
    for id in ["d0", "d51", "d102", "d4999", "late"] {
        let cluster = server.json(&format!("/documents/{id}/cluster")).await;
        assert_eq!(cluster["representative"], expected[id].0, "{id}");
    }
    assert!(is_placed(&server).await && near_are_placed(&server, "", "d0", &expected).await);
    duplicates_are_placed(&server, &[hash(0), hash(7), hash(4_999)], &expected).await;
    let largest = server.json("/clusters?limit=1").await;
    let sizes = expected.values().fold(BTreeMap::<&str, u64>::new(), |mut sizes, (representative, _)| {
        *sizes.entry(representative).or_default() += 1;
        sizes
    });
    assert_eq!(largest["clusters"][0]["size"], *sizes.values().max().unwrap());
    // The documents to keep are those that `dedupe` keeps.
    let (file, output) = (data.path().join("all.jsonl"), data.path().join("unique"));
    std::fs::write(&file, lines + &format!("{{\"id\":\"late\",\"hash\":\"{:016x}\"}}\n", hash(7))).unwrap();
    let mut dedupe = command(&["dedupe", file.to_str().unwrap(), "--output", output.to_str().unwrap()]);
    dedupe.args(["--hash-field", "hash", "--profile", "copies-64", "--k", "2", "--max-loss", "1"]);
    assert!(dedupe.status().unwrap().success());
    let kept = std::fs::read_to_string(output.join("all.jsonl")).unwrap();
    let exported = server.export("/export?representatives=true").await;
    let ids = |lines: &str| -> BTreeSet<String> {
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
        lines.lines().map(id).collect()
    };
    assert_eq!(ids(&kept), ids(&exported));
    // Other settings conflict; the job makes other clusters.
    let (status, problem) =
        server.put("/collections/default", json!({"clusters": {"keep": "longest"}})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("settings_conflict")), "{problem}");
    let (status, begun) = server.post("/clusters", json!({"keep": "longest"})).await;
    assert_eq!((status, &begun["clusters"]), (StatusCode::ACCEPTED, &json!([])), "{begun}");
    assert_eq!(server.get("/export?representatives=true").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    wait_until_decided(&server, "").await;
    assert_eq!(server.delete("/clusters").await, StatusCode::NO_CONTENT);
    assert_eq!(server.get("/documents/d0/cluster").await.status(), StatusCode::CONFLICT);
    assert_eq!(server.documents().await, 5_001);
}

/// Offers documents with the hashes of stored ones in each way, and compares the clusters of the stored ones.
async fn duplicates_are_placed(server: &Server, hashes: &[u64], expected: &BTreeMap<String, (String, u32)>) {
    let offer = |hash: u64| json!({"hash": format!("{hash:016x}")});
    let is_right = |answer: &Value| {
        assert!(answer["outcome"] == "duplicate" && answer.get("cluster").is_none(), "{answer}");
        assert!(!answer["similar"].as_array().unwrap().is_empty(), "{answer}");
        assert!(are_placed(&answer["similar"], expected), "{answer}");
    };
    for similar in ["", "&similar=3", "&similar=10"] {
        let route = format!("/documents?on_duplicate=skip{similar}");
        is_right(&server.post(&route, offer(hashes[0])).await.1);
        let lines: String = hashes.iter().map(|hash| format!("{}\n", offer(*hash))).collect();
        let (answers, _) = server.stream(&route, lines).await;
        assert_eq!(answers.len(), hashes.len(), "{answers:?}");
        answers.iter().for_each(is_right);
    }
}

#[tokio::test]
async fn an_expired_representative_is_followed_by_the_next() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/c", json!({"clusters": {"keep": "first"}})).await;
    let hash = |bits: u64| format!("{bits:016x}");
    let route = "/collections/c/documents";
    server.post(route, json!({"id": "a", "hash": hash(0), "expires_in": 1})).await;
    // b and c are near a, and c is not near b.
    let (_, b) = server.post(route, json!({"id": "b", "hash": hash(0x7f)})).await;
    let (_, c) = server.post(route, json!({"id": "c", "hash": hash(0x7f00)})).await;
    for (answer, distance) in [(&b, 7), (&c, 7)] {
        assert_eq!(answer["cluster"]["representative"], "a", "{answer}");
        assert_eq!(answer["cluster"]["distance"], distance, "{answer}");
    }
    let start = Instant::now();
    loop {
        let cluster = server.json(&format!("{route}/b/cluster")).await;
        if start.elapsed() > Duration::from_millis(1_300) {
            assert_ne!(cluster["representative"], "a", "a has expired");
        }
        if cluster["representative"] == "b" {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{cluster}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.json(&format!("{route}/c/cluster")).await["representative"], "c");
    assert_eq!(server.get(&format!("{route}/a/cluster")).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_better_near_duplicate_replaces_and_a_linked_one_is_named() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server
        .put("/collections/news", json!({"keep_text": true, "clusters": {"keep": "longest", "k": 12}}))
        .await;
    let route = "/collections/news/documents";
    let text = concat!(
        "市图书馆昨天宣布，从下个月开始延长周末的开放时间，",
        "读者可以在馆内阅读到晚上十点。馆长表示，",
        "这项安排是根据去年的读者调查做出的，",
        "希望给上班族和学生更多安静学习的机会。"
    );
    let longer = format!("{text}此外，自习座位将增加。");
    let (status, first) = server.post(route, json!({"id": "short", "text": text})).await;
    assert_eq!((status, &first["cluster"]["representative"]), (StatusCode::CREATED, &json!("short")));
    let replace = format!("{route}?on_duplicate=replace&k=20");
    let (status, second) = server.post(&replace, json!({"id": "long", "text": longer})).await;
    assert_eq!((status, &second["outcome"]), (StatusCode::OK, &json!("replaced")), "{second}");
    assert_eq!(
        (&second["similar"][0]["id"], &second["cluster"]["representative"]),
        (&json!("short"), &json!("long"))
    );
    assert_eq!(second["similar"][0].get("cluster"), None, "it was replaced: {second}");
    assert_eq!(server.get(&format!("{route}/short")).await.status(), StatusCode::NOT_FOUND);
    let (_, third) = server.post(&replace, json!({"id": "again", "text": text})).await;
    assert_eq!(
        (&third["outcome"], &third["similar"][0]["id"]),
        (&json!("duplicate"), &json!("long")),
        "{third}"
    );
    let (_, linked) =
        server.post(&format!("{route}?on_duplicate=link"), json!({"id": "copy", "text": longer})).await;
    assert_eq!(linked["cluster"], json!({"representative": "long", "distance": 0}), "{linked}");
    for (wanted, code) in [("link", "no_clusters"), ("replace", "no_clusters")] {
        let (status, problem) =
            server.post(&format!("/documents?on_duplicate={wanted}"), json!({"text": text})).await;
        assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!(code)), "{problem}");
    }
    let wrong = json!({"clusters": {"keep": "first", "k": 500}});
    let (status, problem) = server.put("/collections/wrong", wrong).await;
    assert_eq!(
        (status, &problem["errors"][0]["pointer"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("/clusters/k"))
    );
    let (status, problem) = server.post("/clusters", json!({"keep": "best"})).await;
    assert_eq!(
        (status, &problem["errors"][0]["pointer"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("/keep"))
    );
    assert!(problem["detail"].as_str().unwrap().contains("newest:FIELD"), "{problem}");
    let (status, problem) = server.post("/clusters", json!({"keep": "first", "k": 65})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid_field")),
        "{problem}"
    );
    for (path, status) in [
        ("clusters/long", StatusCode::OK),
        ("clusters/99", StatusCode::NOT_FOUND),
        ("clusters?cursor=zz", StatusCode::UNPROCESSABLE_ENTITY),
        ("clusters?limit=0", StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        assert_eq!(server.get(&format!("/collections/news/{path}")).await.status(), status, "{path}");
    }
    let answer = server.get("/collections/news/clusters/copy").await;
    let problem = answer.json::<Value>().await.unwrap();
    assert_eq!(problem["code"], "no_cluster");
    assert!(problem["detail"].as_str().unwrap().contains("\"long\" represents its cluster"), "{problem}");
}

#[tokio::test]
async fn signatures_form_clusters_too() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let settings = json!({"profile": "minhash-copies", "threshold": 0.5, "clusters": {"keep": "first"}});
    let (status, made) = server.put("/collections/m", settings).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let text = "The harbour ferry will run every twenty minutes during the summer festival, the city council \
                said on Tuesday. Extra boats have been hired from a neighbouring town, and tickets remain \
                valid.";
    let route = "/collections/m/documents";
    server.post(route, json!({"id": "a", "text": text})).await;
    let (_, b) = server.post(route, json!({"id": "b", "text": text.replace("Tuesday", "Friday")})).await;
    assert_eq!(b["cluster"]["representative"], "a", "{b}");
    server.post(route, json!({"id": "c", "text": text.replace("twenty", "ten")})).await;
    assert_eq!(server.delete(&format!("{route}/a")).await, StatusCode::NO_CONTENT);
    wait_until_decided(&server, "/collections/m").await;
    assert_eq!(server.json(&format!("{route}/c/cluster")).await["representative"], "b");
    server.kill();
    let server = Server::start(data.path()).await;
    let (_, d) = server.post(route, json!({"id": "d", "text": text.replace("Tuesday", "Monday")})).await;
    assert_eq!(d["cluster"]["representative"], "b", "{d}");
}
