//! More load than the server can carry: it goes on doing its best, says no early, and is as before a moment later.
//!
//! The short form runs with every other test, on a machine that may have any other work: it judges answers, not speed.
//! The long form is run by hand, prints its figures and is held to what is promised: `LOOKALIKE_TEST_OVERLOAD_SECONDS=20
//! cargo test --release --locked --test service overload -- --nocapture --test-threads 1`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::server::{Server, directory};

/// How many seconds each part takes when the machine is there for this test alone.
fn seconds() -> Option<u64> {
    std::env::var("LOOKALIKE_TEST_OVERLOAD_SECONDS").ok().and_then(|text| text.parse().ok())
}

/// Whether the test is run by hand, with nothing beside it: then times are judged.
pub fn by_hand() -> bool {
    seconds().is_some()
}

/// How long each part takes.
fn part() -> Duration {
    Duration::from_secs(seconds().unwrap_or(2))
}

/// A text that takes some hundred microseconds to fingerprint.
fn text(number: u64) -> String {
    format!("{number}市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者可以在馆内阅读到晚上十点。馆长表示，这项安排是根据去年的读者调查做出的。").repeat(20)
}

/// A question that takes the server long to answer and the client nothing to ask, who has the same processors: a scan.
fn scan(http: &reqwest::Client, url: &str, number: u64) -> reqwest::RequestBuilder {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    http.get(format!("{url}/similar?hash={hash:016x}&k=3&limit=1&verify=scan"))
}

/// Stores so many hashes at random.
async fn store(server: &Server, count: u64) {
    for part in 0..count.div_ceil(100_000) {
        let numbers = part * 100_000..count.min((part + 1) * 100_000);
        let hash = |number: u64| (number + 1).wrapping_mul(0xd134_2543_de82_ef95);
        let lines = numbers.map(|i| format!("{{\"id\":\"{i}\",\"hash\":\"{:016x}\"}}\n", hash(i)));
        server.stream("/documents", lines.collect()).await;
    }
}

#[derive(Default)]
struct Tally {
    done: AtomicU64,
    refused: AtomicU64,
}

/// Offers so many requests a second, whatever becomes of them; how many a second were done, and refused.
async fn offer(server: &Server, rate: f64, time: Duration) -> (f64, f64) {
    let tally = Arc::new(Tally::default());
    // As many as there may be connections; what is due beyond that is not sent.
    let places = Arc::new(Semaphore::new(512));
    let (begin, mut sent, mut tasks) = (Instant::now(), 0u64, JoinSet::new());
    while begin.elapsed() < time {
        let due = (begin.elapsed().as_secs_f64() * rate) as u64;
        for number in sent..due {
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let request = scan(&server.client, &server.url, number);
            let tally = Arc::clone(&tally);
            tasks.spawn(async move {
                let _place = place;
                let response = request.send().await.unwrap();
                let status = response.status();
                assert!(
                    status != StatusCode::SERVICE_UNAVAILABLE
                        || response.headers().contains_key("retry-after")
                );
                let _ = response.bytes().await;
                match status {
                    StatusCode::OK => tally.done.fetch_add(1, Ordering::Relaxed),
                    StatusCode::SERVICE_UNAVAILABLE => tally.refused.fetch_add(1, Ordering::Relaxed),
                    other => panic!("{other}"),
                };
            });
        }
        sent = due;
        while tasks.try_join_next().is_some_and(|result| result.is_ok()) {}
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    let seconds = begin.elapsed().as_secs_f64();
    let a_second = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
    (a_second(&tally.done), a_second(&tally.refused))
}

/// The best that a few clients get who wait for each answer.
async fn best(server: &Server, time: Duration) -> f64 {
    let (begin, done) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for client in 0..8 {
        let (http, url, done) = (server.client.clone(), server.url.clone(), Arc::clone(&done));
        clients.spawn(async move {
            for number in 0.. {
                if begin.elapsed() > time {
                    break;
                }
                let answer = scan(&http, &url, client + 8 * number).send().await.unwrap();
                done.fetch_add(u64::from(answer.status() == StatusCode::OK), Ordering::Relaxed);
            }
        });
    }
    clients.join_all().await;
    done.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_three_times_the_load_the_server_goes_on_doing_its_best() {
    let time = part();
    let data = directory();
    let server =
        Server::start_with(data.path(), &[("LOOKALIKE_SERVER__CONNECTIONS_PER_ADDRESS", "1024")]).await;
    store(&server, if by_hand() { 2_000_000 } else { 100_000 }).await;
    best(&server, Duration::from_millis(300)).await;
    let before = best(&server, time).await;
    let (done, refused) = offer(&server, before * 3.0, time).await;
    tokio::time::sleep(Duration::from_secs(if by_hand() { 5 } else { 1 })).await;
    let after = best(&server, time).await;
    println!(
        "best {before:.0}/s; at three times that {done:.0}/s done, {refused:.0}/s refused; after it {after:.0}/s"
    );
    // A server that spends itself on saying no does nothing else.
    let least = if by_hand() { 0.8 } else { 0.05 };
    assert!(done > least * before && after > least * before);
    assert_eq!(server.get("/readyz").await.status(), StatusCode::OK);
}

/// Half, nine tenths and 99 % of lookups take no longer.
async fn lookups(server: &Server, time: Duration) -> [Duration; 3] {
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        let route =
            format!("/similar?hash={:016x}&k=3", (times.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let start = Instant::now();
        assert_eq!(server.get(&route).await.status(), StatusCode::OK);
        times.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times.sort_unstable();
    [0.5, 0.9, 0.99].map(|share| times[(times.len() as f64 * share) as usize])
}

/// Streams the lines until it is over. Whoever streams is on another machine in life; here it takes no processor from who
/// is measured.
fn store_again_and_again(url: &str, lines: &'static str, is_over: &AtomicBool) -> usize {
    rustix::process::nice(19).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, mut stored) = (reqwest::Client::new(), 0);
        while !is_over.load(Ordering::Relaxed) {
            let request = client.post(format!("{url}/documents"));
            let request = request.header("content-type", "application/x-ndjson").body(lines);
            let answer = request.send().await.unwrap().text().await.unwrap();
            assert!(answer.ends_with("\"errors\":0}}\n"), "{answer}");
            stored += 500;
        }
        stored
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_hardly_notice_a_stream_of_documents() {
    let time = part();
    let data = directory();
    let server = Arc::new(Server::start(data.path()).await);
    let lines: String =
        (0..500u64).map(|i| format!("{}\n", json!({"id": format!("d{i}"), "text": text(i)}))).collect();
    let lines: &'static str = lines.leak();
    lookups(&server, Duration::from_millis(300)).await;
    let idle = lookups(&server, time).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let stream = {
        let (url, is_over) = (server.url.clone(), Arc::clone(&is_over));
        std::thread::spawn(move || store_again_and_again(&url, lines, &is_over))
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    let beside = lookups(&server, time).await;
    is_over.store(true, Ordering::Relaxed);
    let stored = stream.join().unwrap();
    let ratio = beside[2].as_secs_f64() / idle[2].as_secs_f64();
    println!("lookups idle {idle:?}, beside a stream of {stored} documents {beside:?}: p99 {ratio:.1} times");
    assert!(stored > 0);
    assert!(!by_hand() || ratio <= 3.0, "{ratio:.1}");
}

#[tokio::test]
async fn a_client_may_ask_for_less_time() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let ask = |value: &'static str, body: serde_json::Value| {
        let request = server
            .client
            .post(format!("{}/fingerprint", server.url))
            .header("x-timeout-ms", value)
            .json(&body);
        async move {
            let response = request.send().await.unwrap();
            (response.status(), response.json::<serde_json::Value>().await.unwrap())
        }
    };
    // Loads what fingerprinting needs first.
    assert_eq!(ask("60000", json!({"text": text(1)})).await.0, StatusCode::OK);
    let long = json!({"text": text(2).repeat(200)});
    let (status, problem) = ask("1", long).await;
    assert_eq!((status.as_u16(), problem["code"].as_str()), (503, Some("deadline_exceeded")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("1 ms (X-Timeout-Ms)"), "{problem}");
    for wrong in ["0", "-1", "soon", "1.5", ""] {
        let (status, problem) = ask(wrong, json!({"text": text(1)})).await;
        assert_eq!(status.as_u16(), 422, "{wrong}");
        assert_eq!(problem["errors"][0]["parameter"], "X-Timeout-Ms");
    }
}

#[tokio::test]
async fn a_key_has_so_many_units_and_a_stream_is_slowed_down() {
    let data = directory();
    let create = |name: &str, arguments: &[&str]| {
        let all = [
            &["keys", "create", name, "--role", "write", "--data", data.path().to_str().unwrap()],
            arguments,
        ]
        .concat();
        let output = crate::server::command(&all).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (slow, fast) = (create("slow", &["--rate", "20"]), create("fast", &[]));
    let server = Server::start(data.path()).await;
    let get = async |key: &str| {
        let request = server.client.get(format!("{}/similar?hash=00000000000000ff", server.url));
        request.bearer_auth(key).send().await.unwrap()
    };
    let mut statuses = Vec::new();
    for _ in 0..60 {
        let answer = get(&slow).await;
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            assert!(answer.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
            let problem: serde_json::Value = answer.json().await.unwrap();
            assert_eq!(problem["code"], "rate_limited");
            assert_eq!(problem["outcome"], "not_applied");
            statuses.push(429);
        } else {
            statuses.push(answer.status().as_u16());
        }
        assert_eq!(get(&fast).await.status(), StatusCode::OK, "the other key is not concerned");
    }
    assert_eq!(statuses[0], 200);
    assert!(statuses.contains(&429), "{statuses:?}");
    // What is larger than the bucket is taken when it is full, and paid off by who comes next.
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    let lines: String = (0..100u64).map(|i| format!("{{\"hash\":\"{i:016x}\"}}\n")).collect();
    let request = server
        .client
        .post(format!("{}/documents", server.url))
        .header("content-type", "application/x-ndjson");
    let begin = Instant::now();
    let text = request.bearer_auth(&slow).body(lines).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("\"created\":100"), "{text}");
    // It waited for its units, or whoever comes next does.
    let is_paid = begin.elapsed() > Duration::from_secs(1)
        || get(&slow).await.status() == StatusCode::TOO_MANY_REQUESTS;
    assert!(is_paid, "the stream was as fast as if it had all units: {:?}", begin.elapsed());
}
