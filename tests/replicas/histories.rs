//! Histories of clients that use three servers while servers are killed and stopped.
//!
//! Each round has documents of its own. While eight clients put, delete and read them through random servers,
//! something breaks; then it is mended, and each history must have a serial order. Reads ask for
//! `linearizable=true`. In each round near-duplicates are offered through different servers at the same time:
//! exactly one is stored. One reader goes from server to server with the position of its last answer, and
//! never sees an older state. In the end all servers export the same.
//!
//! `LOOKALIKE_TORTURE_CYCLES` sets the number of rounds, `LOOKALIKE_TORTURE_SECONDS` the time for which there
//! are more, and `LOOKALIKE_TORTURE_SEED` another sequence. `cut_off` does the same in a network that
//! breaks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use parking_lot::Mutex;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use super::divergence::expect_agreement;
use super::history::{Action, Offer, Operation, has_one_winner, is_linearizable};
use super::moto::Moto;
use super::servers::{Replicas, documents, eventually, position};
use super::{cycles, number};

/// Rounds of the short form.
const ROUNDS: u64 = 4;
const CLIENTS: u64 = 8;
/// Documents of a round.
const IDS: u64 = 4;
/// Operations of a client in a round. Long histories without answers take long to check.
const OPERATIONS: u64 = 12;
/// Longer than a server tries to append.
const TIMEOUT: Duration = Duration::from_secs(9);
/// The time at which an operation without an answer must have taken effect: never. Its entry may be in the
/// log although the server that appended it has died.
const NEVER: u64 = u64::MAX;

/// What the clients of a round share.
struct Shared {
    client: Client,
    urls: Vec<String>,
    clock: AtomicU64,
    marks: AtomicU64,
    histories: Mutex<Vec<Vec<Operation>>>,
    acknowledged: AtomicU64,
    unanswered: AtomicU64,
}

impl Shared {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// The base of a random server.
    fn url(&self, random: &mut fastrand::Rng) -> &str {
        &self.urls[random.usize(0..self.urls.len())]
    }

    fn record(&self, id: u64, begun: u64, action: Option<Action>, open: Action) {
        let answered = action.is_some();
        let ended = if answered { self.now() } else { NEVER };
        let counter = if answered { &self.acknowledged } else { &self.unanswered };
        counter.fetch_add(1, Ordering::Relaxed);
        let action = action.unwrap_or(open);
        // A read without an answer says nothing.
        if answered || !matches!(action, Action::Get(_)) {
            self.histories.lock()[id as usize].push(Operation { begun, ended, answered, action });
        }
    }
}

/// The answer, if it says what was done. A refused write was not done, and is left out.
enum Answer {
    Known(StatusCode, Value),
    Refused,
    Unknown,
}

async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let Ok(response) = request.timeout(TIMEOUT).send().await else { return Answer::Unknown };
    let status = response.status();
    let Ok(text) = response.text().await else { return Answer::Unknown };
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    match value["code"].as_str() {
        None | Some("no_document") => Answer::Known(status, value),
        Some("outcome_unknown" | "deadline_exceeded") => Answer::Unknown,
        Some(_) => Answer::Refused,
    }
}

async fn act(shared: &Shared, round: u64, random: &mut fastrand::Rng) {
    let id = random.u64(0..IDS);
    let url = shared.url(random).to_owned();
    let document = format!("{url}/documents/r{round}-{id}");
    match random.u8(0..10) {
        0..4 => {
            let mark = shared.marks.fetch_add(1, Ordering::Relaxed);
            let body = json!({"hash": format!("{:016x}", mark.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                "metadata": {"mark": mark}});
            let begun = shared.now();
            let put = |was_there| Action::Put { mark, was_there };
            match answer(shared.client.put(document).json(&body)).await {
                Answer::Known(_, stored) => {
                    let was_there = stored["outcome"] == "updated";
                    shared.record(id, begun, Some(put(Some(was_there))), put(None));
                }
                Answer::Unknown => shared.record(id, begun, None, put(None)),
                Answer::Refused => {}
            }
        }
        4..6 => {
            let begun = shared.now();
            let delete = |was_there| Action::Delete { was_there };
            match answer(shared.client.delete(document)).await {
                Answer::Known(status, _) => {
                    let was_there = status == StatusCode::NO_CONTENT;
                    shared.record(id, begun, Some(delete(Some(was_there))), delete(None));
                }
                Answer::Unknown => shared.record(id, begun, None, delete(None)),
                Answer::Refused => {}
            }
        }
        _ => {
            let begun = shared.now();
            if let Answer::Known(status, found) =
                answer(shared.client.get(format!("{document}?linearizable=true"))).await
            {
                let mark = (status == StatusCode::OK).then(|| found["metadata"]["mark"].as_u64().unwrap());
                shared.record(id, begun, Some(Action::Get(mark)), Action::Get(None));
            }
        }
    }
}

/// Offers near-duplicates of one hash through every server at the same time.
async fn offer(shared: &Shared, round: u64) -> Vec<Offer> {
    let base = (round + 1).wrapping_mul(0x0123_4567_89ab_cdef) | 0xff;
    let offers = shared.urls.iter().zip(0_u64..).map(|(url, n)| async move {
        let id = format!("o{round}-{n}");
        let body = json!({"id": id, "hash": format!("{:016x}", base ^ 1 << n)});
        let request = shared.client.post(format!("{url}/documents?on_duplicate=skip&k=3")).json(&body);
        match answer(request).await {
            Answer::Known(_, stored) if stored["outcome"] == "created" => Some(Offer::Created(id)),
            Answer::Known(_, stored) => {
                Some(Offer::Duplicate(stored["similar"][0]["id"].as_str().unwrap_or_default().to_owned()))
            }
            Answer::Unknown => Some(Offer::Open(id)),
            Answer::Refused => None,
        }
    });
    join_all(offers).await.into_iter().flatten().collect()
}

/// Reads a document that only grows, through one server after the other, until it is told to stop. Returns
/// the number of reads.
async fn follow(shared: Arc<Shared>, stop: Arc<AtomicBool>, round: u64) -> u64 {
    let (mut seen, mut last, mut reads) = (0, 0, 0_usize);
    while !stop.load(Ordering::Relaxed) {
        let url = &shared.urls[reads % shared.urls.len()];
        let request = shared.client.get(format!("{url}/documents/c{round}?at_least={last}")).timeout(TIMEOUT);
        reads += 1;
        let Ok(response) = request.send().await else { continue };
        if response.status() != StatusCode::OK {
            continue;
        }
        let at = position(&response);
        let Ok(found) = response.json::<Value>().await else { continue };
        let count = found["metadata"]["count"].as_u64().unwrap();
        assert!(count >= seen, "the document went from {seen} back to {count} at position {at} after {last}");
        (seen, last) = (count, at);
    }
    reads as u64
}

/// Writes growing numbers into the document of [`follow`].
async fn count(shared: Arc<Shared>, stop: Arc<AtomicBool>, round: u64) {
    let mut random = fastrand::Rng::with_seed(round);
    for number in 1.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let body = json!({"hash": "f".repeat(16), "metadata": {"count": number}});
        let url = format!("{}/documents/c{round}", shared.url(&mut random));
        match answer(shared.client.put(url).json(&body)).await {
            Answer::Known(..) => {}
            Answer::Refused => tokio::time::sleep(Duration::from_millis(50)).await,
            // The number may yet be written, also in a later round.
            Answer::Unknown => return,
        }
    }
}

/// Breaks something while the clients work, and mends it. Returns what it was.
async fn break_something(replicas: &mut Replicas, random: &mut fastrand::Rng) -> &'static str {
    tokio::time::sleep(Duration::from_millis(random.u64(50..400))).await;
    let server = random.usize(0..3);
    match random.u8(0..6) {
        0 | 1 => {
            replicas.kill(server);
            "a server was killed"
        }
        2 => {
            replicas.kill(server);
            replicas.kill((server + 1) % 3);
            "two servers were killed"
        }
        3 | 4 => {
            (0..3).for_each(|at| replicas.kill(at));
            "all servers were killed"
        }
        _ => {
            replicas.pause(server);
            tokio::time::sleep(Duration::from_millis(random.u64(100..2_000))).await;
            replicas.resume(server);
            "a server was stopped for a while"
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_have_a_serial_order_whatever_breaks() {
    judge(&mut Replicas::start(3).await, 0, break_something).await;
}

/// The store stops for a while, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_on_a_bucket_have_a_serial_order_whatever_breaks() {
    let Some(moto) = Moto::start_in_order() else { return };
    let mut replicas = Replicas::on_bucket(3, &moto).await;
    judge(&mut replicas, 100, async |replicas: &mut Replicas, random: &mut fastrand::Rng| {
        if random.bool() {
            return break_something(replicas, random).await;
        }
        moto.pause();
        tokio::time::sleep(Duration::from_millis(random.u64(100..6_000))).await;
        moto.resume();
        "the store was stopped for a while"
    })
    .await;
}

/// What rounds add up to.
#[derive(Default)]
struct Sums {
    acknowledged: u64,
    unanswered: u64,
    reads: u64,
    events: BTreeMap<&'static str, u64>,
}

/// Runs rounds in which `disturb` breaks and mends something, and judges the history of each. A client rests
/// for up to `rest_ms` before each operation.
pub async fn judge(
    replicas: &mut Replicas,
    rest_ms: u64,
    mut disturb: impl AsyncFnMut(&mut Replicas, &mut fastrand::Rng) -> &'static str,
) {
    let (rounds, seed) = (cycles(ROUNDS), number("LOOKALIKE_TORTURE_SEED", 7));
    let within = Duration::from_secs(number("LOOKALIKE_TORTURE_SECONDS", 0));
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut sums, mut round, started) = (Sums::default(), 0, Instant::now());
    while round < rounds || started.elapsed() < within {
        let shared = Arc::new(Shared {
            client: Client::new(),
            urls: replicas.running().map(|server| server.url.clone()).collect(),
            clock: AtomicU64::new(0),
            marks: AtomicU64::new(round * 1_000_000),
            histories: Mutex::new((0..IDS).map(|_| Vec::new()).collect()),
            acknowledged: AtomicU64::default(),
            unanswered: AtomicU64::default(),
        });
        let stop = Arc::<AtomicBool>::default();
        let follower = tokio::spawn(follow(Arc::clone(&shared), Arc::clone(&stop), round));
        let counter = tokio::spawn(count(Arc::clone(&shared), Arc::clone(&stop), round));
        let clients = (0..CLIENTS).map(|_| {
            let (shared, mut random) = (Arc::clone(&shared), random.fork());
            tokio::spawn(async move {
                for _ in 0..OPERATIONS {
                    tokio::time::sleep(Duration::from_millis(random.u64(0..=rest_ms))).await;
                    act(&shared, round, &mut random).await;
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        let (what, offers) = tokio::join!(disturb(replicas, &mut random), offer(&shared, round));
        for client in clients {
            client.await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        sums.reads += follower.await.unwrap();
        counter.await.unwrap();
        mend(replicas, &mut random).await;
        for (id, history) in shared.histories.lock().iter().enumerate() {
            assert!(is_linearizable(history), "round {round}, {what}, id {id}: {history:#?}");
        }
        expect_one_winner(replicas, round, &offers, what).await;
        sums.acknowledged += shared.acknowledged.load(Ordering::Relaxed);
        sums.unanswered += shared.unanswered.load(Ordering::Relaxed);
        *sums.events.entry(what).or_default() += 1;
        eprintln!("round {round}: {what}");
        round += 1;
    }
    // No server was found to differ, and in the end each has agreed with the others.
    expect_agreement(replicas).await;
    for server in replicas.running() {
        assert!(!server.log().contains("differ"), "{}", server.log());
    }
    let Sums { acknowledged, unanswered, reads, events } = sums;
    eprintln!(
        "{round} rounds, seed {seed}, {:?}: {acknowledged} acknowledged operations, {unanswered} without an \
         answer, {reads} reads by position, no violation; {events:#?}",
        started.elapsed()
    );
}

/// Starts all that does not run.
async fn mend(replicas: &mut Replicas, random: &mut fastrand::Rng) {
    for at in 0..3 {
        if replicas.servers[at].is_none() {
            // Some come back without data, and begin with a snapshot or the first entry.
            if random.u8(0..4) == 0 {
                replicas.wipe(at);
            }
            replicas.restart(at).await;
        }
    }
}

/// Of the near-duplicates that were offered in a round, exactly one is stored.
async fn expect_one_winner(replicas: &Replicas, round: u64, offers: &[Offer], what: &str) {
    let export = eventually(replicas.server(0), "/export?linearizable=true").await;
    let prefix = format!("o{round}-");
    let stored: Vec<String> = documents(&export)
        .iter()
        .filter_map(|document| document["id"].as_str().map(str::to_owned))
        .filter(|id| id.starts_with(&prefix))
        .collect();
    has_one_winner(offers, &stored).unwrap_or_else(|error| panic!("round {round}, {what}: {error}"));
}
