//! kill -9 at any time loses no acknowledged document. The ledger is kept here, in a process that lives on.
//!
//! Short form: a dozen kills. `LOOKALIKE_TEST_KILLS` sets another number for the long form.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::server::{Server, directory, ids};

const WRITERS: u64 = 4;

/// What is known of a document: the hash acknowledged last, and those sent since, which may have been stored.
#[derive(Clone, Debug, Default)]
struct Entry {
    acknowledged: Option<u64>,
    /// States that were asked for and not acknowledged; `None` is deletion.
    intended: Vec<Option<u64>>,
}

type Ledger = Arc<Mutex<BTreeMap<String, Entry>>>;

/// Writes, overwrites and deletes documents of its own until the server is gone.
async fn write(client: reqwest::Client, url: String, writer: u64, round: u64, ledger: Ledger) {
    for step in 0u64.. {
        let id = format!("{writer}-{}", (step * 7 + round) % 60);
        let state = (step % 5 != 4).then_some((writer << 32) | (round << 16) | (step % 40) << 3);
        ledger.lock().unwrap().entry(id.clone()).or_default().intended.push(state);
        let route = format!("{url}/documents/{id}");
        let request = match state {
            Some(hash) => client.put(route).json(&json!({"hash": format!("{hash:016x}")})),
            None => client.delete(route),
        };
        let Ok(response) = request.send().await else {
            return;
        };
        // A body cut short is no acknowledgement.
        let status = response.status();
        if response.bytes().await.is_err() {
            return;
        }
        assert!(status.is_success() || status == reqwest::StatusCode::NOT_FOUND, "{status}");
        *ledger.lock().unwrap().entry(id).or_default() = Entry { acknowledged: state, intended: vec![] };
    }
}

/// Every document is in its last acknowledged state or in one asked for later; the index agrees with it.
async fn check(server: &Server, ledger: &Ledger) -> usize {
    let entries = ledger.lock().unwrap().clone();
    let mut present = 0;
    for (id, entry) in &entries {
        let response = server.get(&format!("/documents/{id}")).await;
        let found = if response.status().is_success() {
            let document: serde_json::Value = response.json().await.unwrap();
            Some(u64::from_str_radix(document["hash"].as_str().unwrap(), 16).unwrap())
        } else {
            None
        };
        assert!(
            found == entry.acknowledged || entry.intended.contains(&found),
            "{id}: {found:x?} of {entry:x?}"
        );
        if let Some(hash) = found {
            present += 1;
            for verify in ["", "&verify=scan"] {
                let near = server.json(&format!("/similar?hash={hash:016x}&k=0&limit=1000{verify}")).await;
                assert!(ids(&near).contains(id), "{id} is stored and not found{verify}");
            }
        }
        // What was found is what is durable: later checks hold the server to it.
        ledger.lock().unwrap().insert(id.clone(), Entry { acknowledged: found, intended: vec![] });
    }
    assert_eq!(server.documents().await as usize, present, "nothing else is stored");
    present
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_document_is_lost_by_kills_at_any_time() {
    let kills: u64 =
        std::env::var("LOOKALIKE_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let data = directory();
    let ledger = Ledger::default();
    // Snapshots as often as can be, so that kills meet them too.
    let variables =
        [("LOOKALIKE_SNAPSHOTS__EVERY_CHANGES", "50"), ("LOOKALIKE_SNAPSHOTS__EVERY_SECONDS", "1")];
    for round in 0..kills {
        let server = Server::start_with(data.path(), &variables).await;
        check(&server, &ledger).await;
        let (client, url) = (server.client.clone(), server.url.clone());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                tokio::spawn(write(client.clone(), url.clone(), writer, round, Arc::clone(&ledger)))
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(30 + round * 97 % 700)).await;
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let server = Server::start_with(data.path(), &variables).await;
    let present = check(&server, &ledger).await;
    assert!(present > 20, "only {present} documents: the writers hardly wrote");
    assert!(server.stop().success());
}
