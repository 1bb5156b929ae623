//! The audit: what a server holds, read through its public API alone, against the ledger.
//!
//! The export of each collection as a whole, each id by GET, each hash by `/similar` against brute force over
//! what the export gave, and the numbers that the server tells of itself. Nothing else may be there.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::ledger::{Expected, Ledger, Version};
use crate::load::metadata;
use crate::server::Server;

/// Distances at which each hash is looked up, one after the other: exact, the default, most, and all.
const DISTANCES: [u32; 4] = [0, 3, 7, 64];
const QUERIES: usize = 100;
/// The page asked for: as long as that many queries in one request may have it.
const LIMIT: usize = 200;
const AT_A_TIME: usize = 16;

/// What an audit saw.
#[derive(Debug, Default, Clone, Copy)]
pub struct Seen {
    pub documents: usize,
    pub hashes: usize,
}

type Documents = BTreeMap<String, Version>;

/// Compares all that the server holds with the ledger, and settles the ledger to it.
pub async fn audit(server: &Server, ledger: &Ledger) -> Result<Seen, Vec<String>> {
    let mut wrong = Vec::new();
    let mut seen = Seen::default();
    let infos = collections(server).await?;
    let expected = ledger.expected();
    for name in infos.keys().filter(|name| !expected.contains_key(*name)) {
        wrong.push(format!("the collection {name} was never made"));
    }
    for (name, expected) in &expected {
        let info = infos.get(name);
        let bits = info.and_then(|info| info["bits"].as_u64()).map(|bits| bits as u32);
        if !expected.bits.contains(&bits) {
            wrong.push(format!("collection {name}: width {bits:?}, expected {:?}", expected.bits));
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
            Err(more) => wrong.extend(more),
        }
    }
    if wrong.is_empty() { Ok(seen) } else { Err(wrong) }
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
    let mut wrong = Vec::new();
    for (id, version) in &found {
        if !expected.documents.get(id).is_some_and(|states| states.contains(&Some(version.clone()))) {
            let states = expected.documents.get(id);
            wrong.push(format!("{name}/{id}: the export has {version:?}, expected one of {states:?}"));
        }
    }
    for (id, states) in &expected.documents {
        if !found.contains_key(id) && !states.contains(&None) {
            wrong.push(format!("{name}/{id}: not in the export, expected one of {states:?}"));
        }
    }
    let counts = (found.len(), distinct(&found).len());
    let told = (info["documents"].as_u64(), info["distinct_hashes"].as_u64());
    if told != (Some(counts.0 as u64), Some(counts.1 as u64)) {
        wrong.push(format!("{name}: documents and hashes are {counts:?}, the server tells {told:?}"));
    }
    let ids: BTreeSet<&String> = expected.documents.keys().chain(found.keys()).collect();
    wrong.extend(read_back(server, name, &ids, &found).await);
    wrong.extend(look_up(server, name, &found).await);
    if wrong.is_empty() { Ok(found) } else { Err(wrong) }
}

fn distinct(found: &Documents) -> BTreeSet<&str> {
    found.values().map(|version| version.hash.as_str()).collect()
}

/// Every line of an export.
async fn export(server: &Server, name: &str) -> Result<Documents, String> {
    let response = server.try_get(&format!("/collections/{name}/export")).await.map_err(told)?;
    if !response.status().is_success() {
        return Err(format!("GET export of {name}: {}", response.status()));
    }
    let text = response.text().await.map_err(told)?;
    let mut found = Documents::new();
    for line in text.lines() {
        let document: Value = serde_json::from_str(line).map_err(|e| format!("an exported line: {e}"))?;
        let id = document["id"].as_str().unwrap_or_default().to_owned();
        let version = version_of(&document).ok_or_else(|| format!("{name}: never written: {line}"))?;
        if found.insert(id.clone(), version).is_some() {
            return Err(format!("{name}/{id} is exported twice"));
        }
    }
    Ok(found)
}

/// Whether every document was sent like this at some time; one without metadata, whether with its hash.
pub async fn sent_only(server: &Server, ledger: &Ledger) -> Result<(), String> {
    for name in collections(server).await.map_err(|wrong| wrong.join(", "))?.keys() {
        let lines = server.get(&format!("/collections/{name}/export")).await.text().await.map_err(told)?;
        for line in lines.lines() {
            let document: Value = serde_json::from_str(line).map_err(|e| format!("an exported line: {e}"))?;
            let mark = document["metadata"]["v"].as_u64();
            let whole = document.get("metadata").is_none() || version_of(&document).is_some();
            let (id, hash) = (document["id"].as_str(), document["hash"].as_str());
            if !whole || !ledger.was_sent(name, id.unwrap_or_default(), hash.unwrap_or_default(), mark) {
                return Err(format!("{name} has what was never sent to it: {line}"));
            }
        }
    }
    Ok(())
}

/// A document as it was written, or `None` if any part of it is not what its mark says.
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
            Err(error) => return Some(told(error)),
        };
        let status = response.status().as_u16();
        let document = response.json::<Value>().await.unwrap_or_default();
        match found.get(id) {
            None if status == 404 => None,
            Some(version) if status == 200 && version_of(&document).as_ref() == Some(version) => None,
            expected => Some(format!("GET {route}: {status} {document}, the export has {expected:?}")),
        }
    };
    let answers = stream::iter(ids.iter().map(|id| read(id))).buffer_unordered(AT_A_TIME);
    answers.filter_map(std::future::ready).collect().await
}

/// Looks every hash up and compares each answer with brute force, distances and order included.
async fn look_up(server: &Server, name: &str, found: &Documents) -> Vec<String> {
    let documents: Vec<(&String, u128, &Version)> =
        found.iter().map(|(id, version)| (id, number(&version.hash), version)).collect();
    let hashes: Vec<&str> = distinct(found).into_iter().collect();
    let mut wrong = Vec::new();
    for (round, part) in hashes.chunks(QUERIES).enumerate() {
        let k = |place: usize| DISTANCES[(round + place) % DISTANCES.len()];
        let query = |(place, hash): (usize, &&str)| json!({"hash": hash, "k": k(place), "limit": LIMIT});
        let queries: Vec<Value> = part.iter().enumerate().map(query).collect();
        let route = format!("/collections/{name}/similar");
        let (status, answer) = server.post(&route, json!({"queries": queries})).await;
        if !status.is_success() {
            wrong.push(format!("POST {route}: {status} {answer}"));
            continue;
        }
        for (place, hash) in part.iter().enumerate() {
            let expected = neighbours(&documents, number(hash), k(place));
            let similar = &answer["results"][place]["similar"];
            if *similar != Value::Array(expected.clone()) {
                wrong.push(format!("{name}: {hash} at {}: {similar}, expected {expected:?}", k(place)));
            }
        }
    }
    wrong
}

/// The first page of an answer, by definition.
fn neighbours(documents: &[(&String, u128, &Version)], of: u128, k: u32) -> Vec<Value> {
    let mut near: Vec<(u32, &String, &Version)> = documents
        .iter()
        .map(|(id, hash, version)| ((hash ^ of).count_ones(), *id, *version))
        .filter(|(distance, ..)| *distance <= k)
        .collect();
    near.sort_by_key(|(distance, id, _)| (*distance, *id));
    let shown = |(distance, id, version): &(u32, &String, &Version)| json!({"id": id, "hash": version.hash, "distance": distance, "metadata": metadata(version.mark)});
    near.iter().take(LIMIT).map(shown).collect()
}

pub fn number(hash: &str) -> u128 {
    u128::from_str_radix(hash, 16).unwrap()
}

async fn json_of(server: &Server, route: &str) -> Result<Value, String> {
    let response = server.try_get(route).await.map_err(told)?;
    response.json().await.map_err(told)
}

fn told(error: reqwest::Error) -> String {
    format!("{error:?}")
}
