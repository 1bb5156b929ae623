//! The audit of what a server derives from its documents: clusters and pairs, against loops over the export.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::audit::{Documents, json_of, number, text_of};
use crate::server::Server;

/// The distance of the clusters that clients ask for.
pub const CLUSTER_K: u32 = 3;
/// The keep rule: the largest mark first. Marks are unique, so the rule orders all documents.
pub const KEEP: &str = "max:v";
/// The distance of the pairs that are listed.
const PAIRS_K: u32 = 2;

/// Compares the pairs with two nested loops.
pub async fn pairs(server: &Server, name: &str, found: &Documents) -> Vec<String> {
    let mut expected = BTreeSet::new();
    let hashes: Vec<(&String, u128)> =
        found.iter().map(|(id, version)| (id, number(&version.hash))).collect();
    for (at, (second, b)) in hashes.iter().enumerate() {
        for (first, a) in &hashes[..at] {
            let distance = (a ^ b).count_ones();
            if distance <= PAIRS_K {
                expected.insert((u64::from(distance), (*first).clone(), (*second).clone()));
            }
        }
    }
    let listed = match text_of(server, &format!("/collections/{name}/pairs?k={PAIRS_K}")).await {
        Ok(listed) => listed,
        Err(error) => return vec![format!("{name}: pairs: {error}")],
    };
    let pair = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        let id = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        (line["distance"].as_u64().unwrap_or(u64::MAX), id("first"), id("second"))
    };
    let listed: Vec<_> = listed.lines().map(pair).collect();
    if listed.iter().eq(&expected) {
        return Vec::new();
    }
    vec![format!("{name}: {} pairs, expected {}: {listed:?}", listed.len(), expected.len())]
}

/// Compares the clusters with their definition, once they are decided. A server that accepts no writes may
/// leave them undecided.
pub async fn clusters(server: &Server, name: &str, found: &Documents) -> Vec<String> {
    match decided(server, name).await {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(error) => return vec![format!("{name}: {error}")],
    }
    let mut order: Vec<_> = found.iter().collect();
    order.sort_by_key(|(_, version)| std::cmp::Reverse(version.mark));
    let mut kept: Vec<(&String, u128)> = Vec::new();
    let mut nearest: BTreeMap<&String, (u32, BTreeSet<&str>)> = BTreeMap::new();
    for (id, version) in order {
        let hash = number(&version.hash);
        let mut near: Vec<(u32, &str)> = Vec::new();
        for (other, of) in &kept {
            near.push(((hash ^ of).count_ones(), other.as_str()));
        }
        near.retain(|(distance, _)| *distance <= CLUSTER_K);
        let Some(least) = near.iter().map(|(distance, _)| *distance).min() else {
            nearest.insert(id, (0, [id.as_str()].into()));
            kept.push((id, hash));
            continue;
        };
        let of_least = near.iter().filter(|(distance, _)| *distance == least);
        nearest.insert(id, (least, of_least.map(|(_, other)| *other).collect()));
    }
    let listed = match listed(server, name).await {
        Ok(listed) => listed,
        Err(error) => return vec![format!("{name}: list: {error}")],
    };
    let mut violations = Vec::new();
    for (id, (distance, representatives)) in &nearest {
        let cluster = match json_of(server, &format!("/collections/{name}/documents/{id}/cluster")).await {
            Ok(cluster) => cluster,
            Err(error) => return vec![format!("{name}/{id}: {error}")],
        };
        let of_list = listed.get(*id).unwrap_or(&Value::Null);
        let is_right = |cluster: &Value| {
            // Of several at one distance the first to arrive is right, which the ledger does not know.
            let representative = cluster["representative"].as_str().unwrap_or_default();
            cluster["distance"] == *distance && representatives.contains(representative)
        };
        if ![&cluster, of_list].into_iter().all(is_right) {
            violations.push(format!(
                "{name}/{id}: {cluster}, in the list {of_list}, expected {distance} to one of \
                 {representatives:?}"
            ));
        }
    }
    violations
}

/// The clusters that the list of documents shows, by id.
async fn listed(server: &Server, name: &str) -> Result<BTreeMap<String, Value>, String> {
    let (mut found, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = json_of(server, &format!("/collections/{name}/documents?limit=1000{cursor}")).await?;
        for document in page["documents"].as_array().ok_or("it has no documents")? {
            let id = document["id"].as_str().unwrap_or_default().to_owned();
            found.insert(id, document["cluster"].clone());
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(found),
        }
    }
}

/// Waits until no task of the clusters is left; `false` if the server accepts no writes meanwhile.
async fn decided(server: &Server, name: &str) -> Result<bool, String> {
    let start = Instant::now();
    loop {
        let list = json_of(server, &format!("/collections/{name}/clusters?limit=1")).await?;
        match list["pending"].as_u64() {
            Some(0) => return Ok(true),
            None => return Err(format!("the clusters are {list}")),
            Some(_) if start.elapsed() < Duration::from_secs(30) => {}
            Some(pending) => return Err(format!("{pending} tasks of clusters are left")),
        }
        let ready = server.try_get("/readyz").await.map_err(|error| format!("{error:?}"))?;
        if !ready.status().is_success() {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
