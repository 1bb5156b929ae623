//! The work of a change in a collection with clusters does not depend on the number of copies: it is counted
//! in entries that are read and written.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::StatusCode;
use serde_json::json;

use crate::clusters::wait_until_decided;
use crate::server::{Server, directory, is_replicated};

/// The most entries that one change reads and writes, whatever the number of copies.
const MOST: u64 = 200;
const CHANGES: u64 = 20;

/// The entries of clusters that were read and written so far.
async fn entries(server: &Server) -> u64 {
    let metrics = server.get("/metrics").await.text().await.unwrap();
    let lines = metrics.lines().filter(|line| line.starts_with("lookalike_cluster_entries_total{"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// The representative of the cluster of a document.
async fn representative(server: &Server, id: &str) -> String {
    wait_until_decided(server, "/collections/c").await;
    let cluster = server.json(&format!("/collections/c/documents/{id}/cluster")).await;
    cluster["representative"].as_str().unwrap_or_else(|| panic!("{cluster}")).to_owned()
}

/// Stores `count` copies of these hashes in turns, and changes what represents them: by a deletion, a change
/// of the metadata, an overwritten hash, a mark, and an expiry. Returns the most entries of one change.
async fn measure(count: u64, hashes: &[u64]) -> u64 {
    let data = directory();
    let server = Server::start(data.path()).await;
    let settings = json!({"profile": "hashes-64", "k": 3, "clusters": {"keep": "newest:t", "k": 3}});
    assert_eq!(server.put("/collections/c", settings).await.0, StatusCode::CREATED);
    let hash = |at: u64| format!("{:016x}", hashes[at as usize % hashes.len()]);
    let line =
        |at| json!({"id": format!("d{at}"), "hash": hash(at), "metadata": {"t": at}}).to_string() + "\n";
    for from in (0..count).step_by(500) {
        let lines: String = (from..count.min(from + 500)).map(line).collect();
        let (_, summary) = server.stream("/collections/c/documents", lines).await;
        assert_eq!(summary["errors"], 0, "{summary}");
    }
    let (mut most, mut newest) = (0, count - 1);
    assert_eq!(representative(&server, "d0").await, format!("d{newest}"));
    for at in 0..CHANGES {
        let before = entries(&server).await;
        let id = format!("d{newest}");
        let document = format!("/collections/c/documents/{id}");
        let expected = match at % 4 {
            // The representative goes: the next one in the order takes its place.
            0 => {
                assert_eq!(server.delete(&document).await, StatusCode::NO_CONTENT);
                newest -= 1;
                newest
            }
            // It gets the greatest rank.
            1 => {
                let request = server.client.patch(format!("{}{document}", server.url));
                let answer = request.json(&json!({"metadata": {"t": -1}})).send().await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
                newest -= 1;
                newest
            }
            // Another one gets the smallest rank, and gives it back.
            2 => {
                let route = format!("{}/collections/c/documents/d7", server.url);
                for t in [count + 1, 7] {
                    let change = json!({"metadata": {"t": t}});
                    let answer = server.client.patch(&route).json(&change).send().await.unwrap();
                    assert_eq!(answer.status(), StatusCode::OK);
                    let first = if t == 7 { id.clone() } else { "d7".to_owned() };
                    assert_eq!(representative(&server, "d0").await, first);
                }
                newest
            }
            // It gets a hash that no other one has.
            _ => {
                let other =
                    json!({"hash": format!("{:016x}", !hashes[0] ^ (1 << at)), "metadata": {"t": -1}});
                assert!(server.put(&document, other).await.0.is_success());
                newest -= 1;
                newest
            }
        };
        assert_eq!(representative(&server, "d0").await, format!("d{expected}"), "change {at}");
        most = most.max(entries(&server).await - before);
    }
    // Those that expire go together, in one step.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for at in 0..CHANGES {
        let route = format!("{}/collections/c/documents/d{}", server.url, newest - at);
        let change = json!({"expires_in": 1});
        assert_eq!(server.client.patch(route).json(&change).send().await.unwrap().status(), StatusCode::OK);
    }
    let before = entries(&server).await;
    while server.json("/collections/c").await["documents"].as_u64().unwrap() > count - 5 - CHANGES {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() < now + 60, "they expire");
    }
    assert_eq!(representative(&server, "d0").await, format!("d{}", newest - CHANGES));
    let expired = (entries(&server).await - before) / CHANGES;
    // The cluster has every document that is left, and pages of members have each once.
    let of = representative(&server, "d0").await;
    let (mut members, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.json(&format!("/collections/c/clusters/{of}?limit=997{cursor}")).await;
        let ids = page["members"].as_array().unwrap().iter();
        members.extend(ids.map(|member| member["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else {
            assert_eq!(page["size"], members.len() as u64 + 1);
            break;
        };
        cursor = format!("&cursor={next}");
    }
    // By the rule: the newest first, and those whose time was set to -1 last.
    let rest = (0..newest - CHANGES).rev().map(|at| format!("d{at}"));
    assert!(members.iter().zip(rest).all(|(found, expected)| *found == expected));
    assert_eq!(members.len() as u64 + 1, count - 5 - CHANGES - 5);
    most.max(expired)
}

#[tokio::test]
async fn what_a_change_of_copies_costs_does_not_depend_on_their_number() {
    // The replicas have counters of their own.
    if is_replicated() {
        return;
    }
    for hashes in
        [&[0x0123_4567_89ab_cdef][..], &[0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdee, 0x0123_4567_89ab_cdec]]
    {
        let [few, many] = [measure(100, hashes).await, measure(10_000, hashes).await];
        eprintln!("{} hashes: {few} entries with 100 copies, {many} with 10,000", hashes.len());
        assert!(few <= MOST && many <= MOST, "{} hashes: {few} and {many} entries", hashes.len());
    }
}
