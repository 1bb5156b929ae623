//! Concurrent clients with kills in between: their histories are recorded and checked for linearizability.
//!
//! The ids of a cluster have hashes near its centre and far from all others, so that a query for the centre
//! reads every id of the cluster at once: an id that is not in the answer was read as absent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::bench::{OFTEN, cycles, seeded};
use crate::history::{Action, Offer, Operation, has_one_winner, is_linearizable};
use crate::server::{Server, directory};

const CLUSTERS: u64 = 3;
const IDS: u64 = 3;
const CLIENTS: u64 = 6;
/// Operations of a client within one life of the process. The number is small because the search is
/// exponential in the worst case.
const STEPS: usize = 30;

/// The clock that all clients share, and the history of each id.
#[derive(Default)]
struct Recorder {
    clock: AtomicU64,
    histories: Mutex<BTreeMap<String, Vec<Operation>>>,
}

impl Recorder {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn record(&self, id: &str, begun: u64, action: Action, answered: bool) {
        // An operation without an answer gets its end when the process is dead.
        let ended = if answered { self.now() } else { u64::MAX };
        let mut histories = self.histories.lock().unwrap();
        histories.entry(id.to_owned()).or_default().push(Operation { begun, ended, answered, action });
    }

    fn died(&self) {
        let now = self.now();
        let mut histories = self.histories.lock().unwrap();
        let all = histories.values_mut().flatten();
        all.filter(|operation| operation.ended == u64::MAX).for_each(|operation| operation.ended = now);
    }
}

fn centre(cluster: u64) -> u64 {
    [0, u64::MAX, 0xffff_ffff][cluster as usize]
}

fn id_of(cluster: u64, number: u64) -> String {
    format!("{cluster}-{number}")
}

struct Racer {
    client: reqwest::Client,
    url: String,
    recorder: Arc<Recorder>,
    rng: Rng,
}

impl Racer {
    async fn run(mut self) {
        for _ in 0..STEPS {
            let (cluster, number) = (self.rng.u64(..CLUSTERS), self.rng.u64(..IDS));
            let id = id_of(cluster, number);
            let done = match self.rng.u32(..10) {
                0..4 => self.put(cluster, &id).await,
                4..6 => self.delete(&id).await,
                6..8 => self.get(&id).await,
                _ => self.query(cluster).await,
            };
            if done.is_none() {
                return;
            }
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Option<(u16, Value)> {
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.ok()?;
        Some((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    async fn put(&mut self, cluster: u64, id: &str) -> Option<()> {
        let begun = self.recorder.now();
        // A new hash for each write, so that the index has to change; it can be computed from the mark.
        let hash = format!("{:016x}", centre(cluster) ^ (1 << (begun % 64)));
        let request = self.client.put(format!("{}/documents/{id}", self.url));
        let answer = self.send(request.json(&json!({"hash": hash, "metadata": {"v": begun}}))).await;
        let was_there = answer.as_ref().map(|(status, answer)| {
            assert!(*status < 300, "{status} {answer}");
            answer["outcome"] == "updated"
        });
        self.recorder.record(id, begun, Action::Put { mark: begun, was_there }, answer.is_some());
        answer.map(|_| ())
    }

    async fn delete(&mut self, id: &str) -> Option<()> {
        let begun = self.recorder.now();
        let answer = self.send(self.client.delete(format!("{}/documents/{id}", self.url))).await;
        let was_there = answer.as_ref().map(|(status, answer)| {
            assert!(*status == 204 || *status == 404, "{status} {answer}");
            *status == 204
        });
        self.recorder.record(id, begun, Action::Delete { was_there }, answer.is_some());
        answer.map(|_| ())
    }

    async fn get(&mut self, id: &str) -> Option<()> {
        let begun = self.recorder.now();
        let (status, document) = self.send(self.client.get(format!("{}/documents/{id}", self.url))).await?;
        assert!(status == 200 || status == 404, "{status} {document}");
        self.recorder.record(id, begun, Action::Get(document["metadata"]["v"].as_u64()), true);
        Some(())
    }

    /// Queries the neighbours of a centre: this reads each id of the cluster as present or absent.
    async fn query(&mut self, cluster: u64) -> Option<()> {
        let begun = self.recorder.now();
        let k = self.rng.choice([1, 3, 7]).unwrap();
        let scan = if self.rng.u32(..4) == 0 { "&verify=scan" } else { "" };
        let route = format!("{}/similar?hash={:016x}&k={k}&limit=100{scan}", self.url, centre(cluster));
        let (status, answer) = self.send(self.client.get(route)).await?;
        assert_eq!(status, 200, "{answer}");
        let mut seen = BTreeMap::new();
        for found in answer["similar"].as_array().unwrap() {
            let mark = found["metadata"]["v"].as_u64().unwrap();
            let hash = format!("{:016x}", centre(cluster) ^ (1 << (mark % 64)));
            assert_eq!(found["hash"], hash, "hash and metadata of different versions: {answer}");
            let twice = seen.insert(found["id"].as_str().unwrap().to_owned(), mark);
            assert!(twice.is_none(), "one document twice in an answer: {answer}");
        }
        for number in 0..IDS {
            let id = id_of(cluster, number);
            self.recorder.record(&id, begun, Action::Get(seen.remove(&id)), true);
        }
        assert!(seen.is_empty(), "ids of another cluster: {answer}");
        Some(())
    }
}

/// Clients race on a few ids; two of three lives of the process end by a kill. The history over all lives
/// is checked as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn each_id_is_linearizable_through_kills_and_queries_see_what_was_acknowledged() {
    let (cycles, mut rng, started) = (cycles(25), seeded(), Instant::now());
    let mut checked = 0;
    for cycle in 0..cycles {
        let (data, recorder) = (directory(), Arc::new(Recorder::default()));
        for life in 0..3 {
            let server = Server::start_with(data.path(), OFTEN).await;
            let racers = (0..CLIENTS).map(|_| {
                let (client, url) = (reqwest::Client::new(), server.url.clone());
                let racer = Racer { client, url, recorder: Arc::clone(&recorder), rng: rng.fork() };
                tokio::spawn(racer.run())
            });
            let racers: Vec<_> = racers.collect();
            if life < 2 {
                tokio::time::sleep(Duration::from_millis(rng.u64(5..120))).await;
                server.kill();
            }
            for racer in racers {
                racer.await.unwrap();
            }
            recorder.died();
        }
        let histories = recorder.histories.lock().unwrap();
        for (id, history) in histories.iter() {
            checked += history.len();
            assert!(
                is_linearizable(history),
                "cycle {cycle}: nothing explains the answers for {id}: {history:#?}"
            );
        }
    }
    eprintln!("{cycles} histories of three lives, {checked} operations, {:?}", started.elapsed());
}

/// A hash with up to `k / 2` bits of the centre flipped, so that any two such hashes differ in at most `k`
/// bits.
fn near(centre: u64, k: u32, rng: &mut Rng) -> String {
    let flips = (0..k / 2).fold(centre, |hash, _| hash ^ (1 << rng.u32(..64)));
    format!("{flips:016x}")
}

#[tokio::test(flavor = "multi_thread")]
async fn of_near_duplicates_at_a_barrier_one_is_stored_at_every_k_through_kills() {
    let (mut rng, started) = (seeded(), Instant::now());
    let rounds = cycles(130);
    let data = directory();
    let (mut kills, mut open) = (0, 0);
    let mut server = Server::start_with(data.path(), OFTEN).await;
    for round in 0..rounds {
        let k = round as u32 % 65;
        // A new collection for each group: at a large k, documents of two groups would be near-duplicates.
        let collection = format!("round-{round}");
        server.put(&format!("/collections/{collection}"), json!({})).await;
        let kill = rng.u32(..3) == 0;
        let (clients, middle) = (if kill { 12 } else { 16 }, rng.u64(..));
        let start = Arc::new(Barrier::new(clients + 1));
        let offers = (0..clients).map(|client| {
            let (http, start) = (reqwest::Client::new(), Arc::clone(&start));
            let route = format!("{}/collections/{collection}/documents?on_duplicate=skip&k={k}", server.url);
            let id = format!("offer-{client}");
            let body = json!({"id": id, "hash": near(middle, k, &mut rng)});
            tokio::spawn(async move {
                start.wait().await;
                let Ok(response) = http.post(route).json(&body).send().await else {
                    return Offer::Open(id);
                };
                let status = response.status().as_u16();
                let Ok(answer) = response.json::<Value>().await else {
                    return Offer::Open(id);
                };
                match answer["outcome"].as_str() {
                    Some("created") => Offer::Created(id),
                    Some("duplicate") => {
                        Offer::Duplicate(answer["similar"][0]["id"].as_str().unwrap().into())
                    }
                    _ => panic!("{status} {answer}"),
                }
            })
        });
        let offers: Vec<_> = offers.collect();
        start.wait().await;
        let answers = join_all(offers);
        let answers = if kill {
            tokio::time::sleep(Duration::from_micros(rng.u64(..6_000))).await;
            server.kill();
            kills += 1;
            let answers = answers.await;
            server = Server::start_with(data.path(), OFTEN).await;
            answers
        } else {
            answers.await
        };
        let offers: Vec<Offer> = answers.into_iter().map(Result::unwrap).collect();
        open += offers.iter().filter(|offer| matches!(offer, Offer::Open(_))).count();
        let lines = server.export(&format!("/collections/{collection}/export")).await;
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
        let stored: Vec<String> = lines.lines().map(id).collect();
        has_one_winner(&offers, &stored).unwrap_or_else(|reason| panic!("round {round}, k {k}: {reason}"));
    }
    eprintln!("{rounds} rounds, {kills} kills, {open} offers without an answer, {:?}", started.elapsed());
}
