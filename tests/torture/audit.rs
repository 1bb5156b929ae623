//! The audit: compares the contents of a server, read through its public API only, with the ledger.
//!
//! It reads the export of each collection, each id by GET, each hash by `/similar`, compared with brute
//! force over the export, the counts that the server reports, and its pairs and clusters (`derived`). The
//! server may have no other documents.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::derived;
use crate::ledger::{Expected, Ledger, Version};
use crate::load::metadata;
use crate::server::{Server, without_header};

/// The distances of the lookups, used in turn: exact, the default, a large one, and all.
const DISTANCES: [u32; 4] = [0, 3, 7, 64];
const QUERIES: usize = 100;
/// The page size: the largest that is allowed for `QUERIES` queries in one request.
const LIMIT: usize = 200;
const CONCURRENCY: usize = 16;

/// The counts of an audit.
#[derive(Debug, Default, Clone, Copy)]
pub struct Seen {
    pub documents: usize,
    pub hashes: usize,
}

pub type Documents = BTreeMap<String, Version>;

/// Compares the whole contents of the server with the ledger, and settles the ledger to the contents found.
pub async fn audit(server: &Server, ledger: &Ledger) -> Result<Seen, Vec<String>> {
    let mut violations = Vec::new();
    let mut seen = Seen::default();
    let infos = collections(server).await?;
    let expected = ledger.expected();
    for name in infos.keys().filter(|name| !expected.contains_key(*name)) {
        violations.push(format!("the collection {name} was never created"));
    }
    for (name, expected) in &expected {
        let info = infos.get(name);
        let bits = info.and_then(|info| info["bits"].as_u64()).map(|bits| bits as u32);
        if !expected.bits.contains(&bits) {
            violations.push(format!("collection {name}: width {bits:?}, expected {:?}", expected.bits));
            continue;
        }
        let Some(info) = info else {
            ledger.settle(name, None, &Documents::new());
            continue;
        };
        match audit_collection(server, name, info, expected).await {
            Ok(found) => {
                seen.documents += found.len();
                seen.hashes += distinct(&found).len();
                ledger.settle(name, bits, &found);
            }
            Err(more) => violations.extend(more),
        }
    }
    if violations.is_empty() { Ok(seen) } else { Err(violations) }
}

async fn collections(server: &Server) -> Result<BTreeMap<String, Value>, Vec<String>> {
    let answer = json_of(server, "/collections").await.map_err(|error| vec![error])?;
    let list = answer["collections"].as_array().cloned().unwrap_or_default();
    Ok(list.into_iter().map(|info| (info["name"].as_str().unwrap().to_owned(), info)).collect())
}

async fn audit_collection(
    server: &Server,
    name: &str,
    info: &Value,
    expected: &Expected,
) -> Result<Documents, Vec<String>> {
    let found = export(server, name).await.map_err(|error| vec![error])?;
    let mut violations = Vec::new();
    for (id, version) in &found {
        if !expected.documents.get(id).is_some_and(|states| states.contains(&Some(version.clone()))) {
            let states = expected.documents.get(id);
            violations.push(format!("{name}/{id}: the export has {version:?}, expected one of {states:?}"));
        }
    }
    for (id, states) in &expected.documents {
        if !found.contains_key(id) && !states.contains(&None) {
            violations.push(format!("{name}/{id}: not in the export, expected one of {states:?}"));
        }
    }
    let counts = (found.len(), distinct(&found).len());
    let reported = (info["documents"].as_u64(), info["distinct_hashes"].as_u64());
    if reported != (Some(counts.0 as u64), Some(counts.1 as u64)) {
        violations
            .push(format!("{name}: documents and hashes are {counts:?}, the server reports {reported:?}"));
    }
    let ids: BTreeSet<&String> = expected.documents.keys().chain(found.keys()).collect();
    violations.extend(read_back(server, name, &ids, &found).await);
    violations.extend(look_up(server, name, &found).await);
    violations.extend(derived::pairs(server, name, &found).await);
    if info["clusters"].is_object() {
        violations.extend(derived::clusters(server, name, &found).await);
    }
    if violations.is_empty() { Ok(found) } else { Err(violations) }
}

fn distinct(found: &Documents) -> BTreeSet<&str> {
    found.values().map(|version| version.hash.as_str()).collect()
}

/// The documents of an export.
async fn export(server: &Server, name: &str) -> Result<Documents, String> {
    let text = text_of(server, &format!("/collections/{name}/export")).await?;
    let mut found = Documents::new();
    for line in without_header(&text).lines() {
        let document: Value = serde_json::from_str(line).map_err(|e| format!("an exported line: {e}"))?;
        let id = document["id"].as_str().unwrap_or_default().to_owned();
        let version = version_of(&document).ok_or_else(|| format!("{name}: never written: {line}"))?;
        if found.insert(id.clone(), version).is_some() {
            return Err(format!("{name}/{id} is exported twice"));
        }
    }
    Ok(found)
}

/// Checks that every document of the server was sent with its hash and metadata at some time; a document
/// without metadata, with its hash.
pub async fn sent_only(server: &Server, ledger: &Ledger) -> Result<(), String> {
    for name in collections(server).await.map_err(|violations| violations.join(", "))?.keys() {
        let lines =
            server.get(&format!("/collections/{name}/export")).await.text().await.map_err(error_text)?;
        for line in without_header(&lines).lines() {
            let document: Value = serde_json::from_str(line).map_err(|e| format!("an exported line: {e}"))?;
            let mark = document["metadata"]["v"].as_u64();
            let is_intact = document.get("metadata").is_none() || version_of(&document).is_some();
            let (id, hash) = (document["id"].as_str(), document["hash"].as_str());
            if !is_intact || !ledger.was_sent(name, id.unwrap_or_default(), hash.unwrap_or_default(), mark) {
                return Err(format!("{name} has a document that was never sent: {line}"));
            }
        }
    }
    Ok(())
}

/// The version of a document, or `None` if a part of it does not match its mark.
fn version_of(document: &Value) -> Option<Version> {
    let mark = document["metadata"]["v"].as_u64()?;
    let hash = document["hash"].as_str()?.to_owned();
    (document["metadata"] == metadata(mark)).then_some(Version { hash, mark })
}

async fn read_back(server: &Server, name: &str, ids: &BTreeSet<&String>, found: &Documents) -> Vec<String> {
    let read = async |id: &String| -> Option<String> {
        let route = format!("/collections/{name}/documents/{id}");
        let response = match server.try_get(&route).await {
            Ok(response) => response,
            Err(error) => return Some(error_text(error)),
        };
        let status = response.status().as_u16();
        let document = response.json::<Value>().await.unwrap_or_default();
        match found.get(id) {
            None if status == 404 => None,
            Some(version) if status == 200 && version_of(&document).as_ref() == Some(version) => None,
            expected => Some(format!("GET {route}: {status} {document}, the export has {expected:?}")),
        }
    };
    let answers = stream::iter(ids.iter().map(|id| read(id))).buffer_unordered(CONCURRENCY);
    answers.filter_map(std::future::ready).collect().await
}

/// Looks up every hash and compares each answer with brute force, including distances and order.
async fn look_up(server: &Server, name: &str, found: &Documents) -> Vec<String> {
    let documents: Vec<(&String, u128, &Version)> =
        found.iter().map(|(id, version)| (id, number(&version.hash), version)).collect();
    let hashes: Vec<&str> = distinct(found).into_iter().collect();
    let mut violations = Vec::new();
    for (round, part) in hashes.chunks(QUERIES).enumerate() {
        let k = |index: usize| DISTANCES[(round + index) % DISTANCES.len()];
        let query = |(index, hash): (usize, &&str)| json!({"hash": hash, "k": k(index), "limit": LIMIT});
        let queries: Vec<Value> = part.iter().enumerate().map(query).collect();
        let route = format!("/collections/{name}/batch/similar");
        let (status, answer) = server.post(&route, json!({"queries": queries})).await;
        if !status.is_success() {
            violations.push(format!("POST {route}: {status} {answer}"));
            continue;
        }
        for (index, hash) in part.iter().enumerate() {
            let expected = neighbours(&documents, number(hash), k(index));
            let mut similar = answer["results"][index]["similar"].clone();
            // `derived` compares the clusters.
            for near in similar.as_array_mut().into_iter().flatten() {
                near.as_object_mut().map(|near| near.remove("cluster"));
            }
            if similar != Value::Array(expected.clone()) {
                violations.push(format!("{name}: {hash} at {}: {similar}, expected {expected:?}", k(index)));
            }
        }
    }
    violations
}

/// The expected first page of an answer, by brute force.
fn neighbours(documents: &[(&String, u128, &Version)], of: u128, k: u32) -> Vec<Value> {
    let mut near: Vec<(u32, &String, &Version)> = documents
        .iter()
        .map(|(id, hash, version)| ((hash ^ of).count_ones(), *id, *version))
        .filter(|(distance, ..)| *distance <= k)
        .collect();
    near.sort_by_key(|(distance, id, _)| (*distance, *id));
    let shown = |(distance, id, version): &(u32, &String, &Version)| {
        let metadata = metadata(version.mark);
        json!({"id": id, "hash": version.hash, "distance": distance, "metadata": metadata})
    };
    near.iter().take(LIMIT).map(shown).collect()
}

pub fn number(hash: &str) -> u128 {
    u128::from_str_radix(hash, 16).unwrap()
}

/// The body of a successful answer.
pub async fn text_of(server: &Server, route: &str) -> Result<String, String> {
    let response = server.try_get(route).await.map_err(error_text)?;
    if !response.status().is_success() {
        return Err(format!("GET {route}: {}", response.status()));
    }
    response.text().await.map_err(error_text)
}

pub async fn json_of(server: &Server, route: &str) -> Result<Value, String> {
    let response = server.try_get(route).await.map_err(error_text)?;
    response.json().await.map_err(error_text)
}

fn error_text(error: reqwest::Error) -> String {
    format!("{error:?}")
}
