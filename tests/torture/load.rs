//! The load: clients that write, overwrite and delete documents, one or many in a request, and record this
//! in the ledger.
//!
//! Each client has its own ids and its own collection; all clients share some ids of `default`. Hashes are
//! drawn near a few centres, so that neighbours, shared hashes and duplicates are common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::audit::number;
use crate::derived::{CLUSTER_K, KEEP};
use crate::ledger::{Ledger, Ticket, Version};

/// The number of a client's own ids in each collection, and of the ids that all clients share.
const OWN_IDS: u64 = 14;
const SHARED_IDS: u64 = 15;
const CENTRES: u64 = 20;

/// The metadata of a document with this mark: usually small, sometimes large enough for a blob file.
pub fn metadata(mark: u64) -> Value {
    let length = match mark % 64 {
        0 => 9_000,
        1..4 => 700,
        _ => mark % 7,
    };
    json!({"v": mark, "f": "x".repeat(length as usize)})
}

/// How a client continues.
enum Next {
    Go,
    /// The server has ended, or accepts no more writes.
    End,
}

/// One client.
pub struct Writer {
    client: Client,
    url: String,
    ledger: Arc<Ledger>,
    rng: Rng,
    name: u64,
    stop: Arc<AtomicBool>,
    /// The width of its own collection; `None` if it does not exist or its state is unknown.
    own: Option<u32>,
    /// Whether its own collection has clusters.
    has_clusters: bool,
}

/// Running clients.
pub struct Load {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Starts `clients` clients, each with its own random sequence.
    pub fn start(url: &str, ledger: &Arc<Ledger>, clients: u64, rng: &mut Rng) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..clients).map(|name| {
            let writer = Writer::new(url, ledger, name, rng.fork(), Arc::clone(&stop));
            tokio::spawn(Writer { has_clusters: name % 2 == 0, ..writer }.run(usize::MAX))
        });
        Load { tasks: tasks.collect(), stop }
    }

    /// Runs one client for `steps` sequential steps, without clusters, whose tasks run in the background. The
    /// result depends only on the seed.
    pub async fn steps(url: &str, ledger: &Arc<Ledger>, steps: usize, rng: &mut Rng) {
        let mut writer = Writer::new(url, ledger, 0, rng.fork(), Arc::default());
        writer.look_up_own().await;
        writer.run(steps).await;
    }

    /// Waits until every client has detected the end of the server.
    pub async fn join(self) {
        for task in self.tasks {
            task.await.unwrap();
        }
    }

    /// Lets the clients end after their current step, and waits for them.
    pub async fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.join().await;
    }
}

fn own_collection(client: u64) -> String {
    format!("own-{client}")
}

impl Writer {
    fn new(url: &str, ledger: &Arc<Ledger>, name: u64, rng: Rng, stop: Arc<AtomicBool>) -> Writer {
        let own = ledger.expected().get(&own_collection(name)).and_then(|collection| collection.bits[0]);
        Writer {
            // A request to a server that is killed while it connects may wait for ever.
            client: Client::builder().timeout(Duration::from_secs(60)).build().unwrap(),
            url: url.to_owned(),
            ledger: Arc::clone(ledger),
            rng,
            name,
            stop,
            own,
            has_clusters: false,
        }
    }

    /// Reads whether the client's own collection exists. After a kill during its deletion the ledger has
    /// only the possible states.
    async fn look_up_own(&mut self) {
        let route = format!("{}/collections/{}", self.url, own_collection(self.name));
        if let Ok((status, about)) = answer(self.client.get(route).send().await).await {
            self.own = (status == 200).then(|| about["bits"].as_u64().unwrap() as u32);
        }
    }

    async fn run(mut self, steps: usize) {
        for _ in 0..steps {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let next = match self.rng.u32(..100) {
                0..45 => self.write_one().await,
                45..60 => self.delete().await,
                60..75 => self.write_many(false).await,
                75..92 => self.write_many(true).await,
                _ => self.change_collection().await,
            };
            if matches!(next, Next::End) {
                return;
            }
        }
    }

    /// The target of the next document: collection, width of its hashes, id.
    fn target(&mut self) -> (String, u32, String) {
        let own = format!("{}-{}", self.name, self.rng.u64(..OWN_IDS));
        match self.own {
            Some(bits) if self.rng.u32(..3) == 0 => (own_collection(self.name), bits, own),
            _ if self.rng.u32(..4) == 0 => {
                ("default".to_owned(), 64, format!("all-{}", self.rng.u64(..SHARED_IDS)))
            }
            _ => ("default".to_owned(), 64, own),
        }
    }

    fn version(&mut self, bits: u32) -> Version {
        let centre = self.rng.u64(..CENTRES).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let flipped = (0..self.rng.u32(..4)).fold(centre, |hash, _| hash ^ (1 << self.rng.u32(..64)));
        let hash =
            if bits == 64 { format!("{flipped:016x}") } else { format!("{centre:016x}{flipped:016x}") };
        Version { hash, mark: self.ledger.mark() }
    }

    /// Writes one document by PUT or POST, sometimes with `on_duplicate=skip`.
    async fn write_one(&mut self) -> Next {
        let (collection, bits, id) = self.target();
        let version = self.version(bits);
        let mut document = body(&id, &version);
        let ticket = self.ledger.intend(&collection, &id, Some(version.clone()));
        let base = format!("{}/collections/{collection}/documents", self.url);
        let request = match self.rng.u32(..3) {
            0 => {
                document.as_object_mut().unwrap().remove("id");
                self.client.put(format!("{base}/{id}"))
            }
            1 => self.client.post(base),
            _ => self.client.post(format!("{base}?on_duplicate=skip&k=2")),
        };
        let Ok((status, answer)) = answer(request.json(&document).send().await).await else {
            return Next::End;
        };
        match (status, answer["outcome"].as_str()) {
            (200 | 201, Some("created" | "updated")) => self.ledger.acknowledge(ticket),
            (200, Some("duplicate")) => {
                let nearest = &answer["similar"][0];
                let hash = number(nearest["hash"].as_str().unwrap());
                let distance = (hash ^ number(&version.hash)).count_ones();
                assert!(distance <= 2, "a duplicate without a near document: {answer}");
                self.ledger.refuse(ticket, "duplicate");
            }
            _ => return self.refused(vec![ticket], status, &answer).await,
        }
        Next::Go
    }

    async fn delete(&mut self) -> Next {
        let (collection, _, id) = self.target();
        let ticket = self.ledger.intend(&collection, &id, None);
        let request = self.client.delete(format!("{}/collections/{collection}/documents/{id}", self.url));
        let Ok((status, answer)) = answer(request.send().await).await else {
            return Next::End;
        };
        match status {
            // 404 also proves that the document does not exist.
            204 => self.ledger.acknowledge(ticket),
            404 if answer["code"] == "no_document" => self.ledger.acknowledge(ticket),
            _ => return self.refused(vec![ticket], status, &answer).await,
        }
        Next::Go
    }

    /// Writes many documents in one request, as an array or as NDJSON. Each has its own result.
    async fn write_many(&mut self, lines: bool) -> Next {
        let (collection, bits, _) = self.target();
        let count = self.rng.u64(2..if lines { 60 } else { 20 });
        let mut ids: Vec<String> = (0..OWN_IDS).map(|id| format!("{}-{id}", self.name)).collect();
        ids.extend((0..SHARED_IDS).filter(|_| collection == "default").map(|id| format!("all-{id}")));
        self.rng.shuffle(&mut ids);
        ids.truncate(count as usize);
        let versions: Vec<Version> = ids.iter().map(|_| self.version(bits)).collect();
        let documents: Vec<Value> =
            ids.iter().zip(&versions).map(|(id, version)| body(id, version)).collect();
        let intend = |(id, version): (&String, Version)| self.ledger.intend(&collection, id, Some(version));
        let tickets: Vec<Ticket> = ids.iter().zip(versions).map(intend).collect();
        let route = if lines { "documents" } else { "batch/documents" };
        let request = self.client.post(format!("{}/collections/{collection}/{route}", self.url));
        if lines {
            let text: String = documents.iter().map(|document| format!("{document}\n")).collect();
            let request = request.header("content-type", "application/x-ndjson").body(text);
            return self.lines(request.send().await, tickets).await;
        }
        let Ok((status, answer)) = answer(request.json(&documents).send().await).await else {
            return Next::End;
        };
        if status != 200 {
            return self.refused(tickets, status, &answer).await;
        }
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), tickets.len(), "a result for each document");
        self.results(tickets.into_iter().map(Some).collect(), results).await
    }

    /// Reads the results of a stream line by line. Each complete line is an acknowledgement.
    async fn lines(&mut self, response: Result<Response, reqwest::Error>, tickets: Vec<Ticket>) -> Next {
        let Ok(mut response) = response else {
            return Next::End;
        };
        let status = response.status().as_u16();
        if status != 200 {
            let answer = response.json().await.unwrap_or_default();
            return self.refused(tickets, status, &answer).await;
        }
        let mut tickets: Vec<Option<Ticket>> = tickets.into_iter().map(Some).collect();
        let (mut rest, mut answered) = (Vec::new(), 0);
        while let Ok(Some(part)) = response.chunk().await {
            rest.extend_from_slice(&part);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let result: Value = serde_json::from_slice(&line).unwrap();
                if result.get("summary").is_some() {
                    assert_eq!(answered, tickets.len(), "a result for each line");
                    return Next::Go;
                }
                let ticket = tickets[result["index"].as_u64().unwrap() as usize].take();
                if let Next::End = self.results(vec![ticket], &[result]).await {
                    return Next::End;
                }
                answered += 1;
            }
        }
        Next::End
    }

    async fn results(&mut self, tickets: Vec<Option<Ticket>>, results: &[Value]) -> Next {
        let mut next = Next::Go;
        for (ticket, result) in tickets.into_iter().flatten().zip(results) {
            match result["outcome"].as_str() {
                Some("created" | "updated") => self.ledger.acknowledge(ticket),
                _ => {
                    let error = &result["error"];
                    let status = error["status"].as_u64().unwrap_or_default() as u16;
                    next = self.refused(vec![ticket], status, error).await;
                }
            }
        }
        next
    }

    /// Creates the client's own collection, or deletes it with its documents.
    async fn change_collection(&mut self) -> Next {
        let name = own_collection(self.name);
        let route = format!("{}/collections/{name}", self.url);
        let bits = match self.own {
            Some(_) if self.rng.u32(..3) > 0 => return Next::Go,
            Some(_) => None,
            None => Some(if self.rng.bool() { 64 } else { 128 }),
        };
        let ticket = self.ledger.intend_collection(&name, bits);
        let request = match bits {
            Some(bits) => {
                let mut settings = json!({"profile": format!("copies-{bits}")});
                if self.has_clusters {
                    settings["clusters"] = json!({"keep": KEEP, "k": CLUSTER_K});
                }
                self.client.put(route).json(&settings)
            }
            None => self.client.delete(route),
        };
        let Ok((status, answer)) = answer(request.send().await).await else {
            return Next::End;
        };
        match status {
            201 | 204 => self.ledger.acknowledge(ticket),
            _ => return self.refused(vec![ticket], status, &answer).await,
        }
        self.own = bits;
        Next::Go
    }

    /// Handles an answer other than success. The client continues if the refusal is temporary, and ends
    /// otherwise.
    async fn refused(&mut self, tickets: Vec<Ticket>, status: u16, answer: &Value) -> Next {
        let code = answer["code"].as_str().unwrap_or_default();
        let outcome = answer["outcome"].as_str().unwrap_or_default();
        match (status, code, outcome) {
            (503, "busy", "not_applied") | (507, "disk_full" | "memory_full", "not_applied") => {
                tickets.into_iter().for_each(|ticket| self.ledger.refuse(ticket, code));
                tokio::time::sleep(Duration::from_millis(5)).await;
                Next::Go
            }
            (503, "read_only" | "shutting_down" | "log_unavailable" | "behind", "not_applied") => {
                tickets.into_iter().for_each(|ticket| self.ledger.refuse(ticket, code));
                Next::End
            }
            // The change may or may not exist after the next start: the intent stays open.
            (503, "outcome_unknown", "unknown") => Next::End,
            _ => panic!("{status} {answer}"),
        }
    }
}

fn body(id: &str, version: &Version) -> Value {
    json!({"id": id, "hash": version.hash, "metadata": metadata(version.mark)})
}

/// Status and JSON of a complete answer. A truncated body is an error, and no acknowledgement.
async fn answer(response: Result<Response, reqwest::Error>) -> Result<(u16, Value), reqwest::Error> {
    let response = response?;
    let status = response.status().as_u16();
    let bytes = response.bytes().await?;
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
}
