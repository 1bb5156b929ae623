//! Overload: the server keeps its throughput, refuses the excess early, and recovers when the load ends.
//!
//! The short form runs with all other tests on a machine that may be busy: it checks answers, not speed.
//! The long form is run by hand, prints its measurements and checks the documented limits:
//!
//! ```sh
//! LOOKALIKE_TEST_OVERLOAD_SECONDS=20 \
//!     cargo test --release --locked --test service overload -- --nocapture --test-threads 1
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::server::{Server, directory};

/// Seconds for each part of the long form, which has the machine for itself; `None` for the short
/// form.
fn seconds() -> Option<u64> {
    std::env::var("LOOKALIKE_TEST_OVERLOAD_SECONDS").ok().and_then(|text| text.parse().ok())
}

/// Whether this is the long form, run by hand on an idle machine: only then are latencies and rates checked.
pub fn by_hand() -> bool {
    seconds().is_some()
}

/// The duration of each part.
fn part_duration() -> Duration {
    Duration::from_secs(seconds().unwrap_or(2))
}

/// A text that takes a few hundred microseconds to fingerprint.
fn text(number: u64) -> String {
    let sentences = "市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者可以在馆内阅读到晚上十点。\
                     馆长表示，这项安排是根据去年的读者调查做出的。";
    format!("{number}{sentences}").repeat(20)
}

/// A scan: expensive for the server and cheap for the client, which uses the same processors.
fn scan(http: &reqwest::Client, url: &str, number: u64) -> reqwest::RequestBuilder {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    http.get(format!("{url}/similar?hash={hash:016x}&k=3&limit=1&verify=scan"))
}

/// Stores `count` pseudo-random hashes.
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

/// Sends `rate` requests a second, independently of their answers. Returns how many a second succeeded and
/// were refused.
async fn offer(server: &Server, rate: f64, time: Duration) -> (f64, f64) {
    let tally = Arc::new(Tally::default());
    // At most as many requests as there may be connections; requests beyond that are not sent.
    let connections = Arc::new(Semaphore::new(512));
    let (begin, mut sent, mut tasks) = (Instant::now(), 0u64, JoinSet::new());
    while begin.elapsed() < time {
        let due = (begin.elapsed().as_secs_f64() * rate) as u64;
        for number in sent..due {
            let Ok(connection) = Arc::clone(&connections).try_acquire_owned() else { continue };
            let request = scan(&server.client, &server.url, number);
            let tally = Arc::clone(&tally);
            tasks.spawn(async move {
                let _connection = connection;
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
    let per_second = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
    (per_second(&tally.done), per_second(&tally.refused))
}

/// Successful requests a second for eight clients, each of which waits for its answer before the next
/// request.
async fn closed_loop_rate(server: &Server, time: Duration) -> f64 {
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
async fn at_three_times_the_load_the_server_keeps_its_throughput() {
    let time = part_duration();
    let data = directory();
    let server =
        Server::start_with(data.path(), &[("LOOKALIKE_SERVER__CONNECTIONS_PER_ADDRESS", "1024")]).await;
    store(&server, if by_hand() { 2_000_000 } else { 100_000 }).await;
    closed_loop_rate(&server, Duration::from_millis(300)).await;
    let before = closed_loop_rate(&server, time).await;
    let (done, refused) = offer(&server, before * 3.0, time).await;
    tokio::time::sleep(Duration::from_secs(if by_hand() { 5 } else { 1 })).await;
    let after = closed_loop_rate(&server, time).await;
    println!(
        "best {before:.0}/s; at three times that {done:.0}/s done, {refused:.0}/s refused; \
         afterwards {after:.0}/s"
    );
    // A server that spends most of its time on refusals would not reach this rate.
    let least = if by_hand() { 0.8 } else { 0.05 };
    assert!(done > least * before && after > least * before);
    assert_eq!(server.get("/readyz").await.status(), StatusCode::OK);
}

/// The latencies of lookups: median, 90th and 99th percentile.
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

/// Streams the lines until `is_over` is set. In production the streaming client runs on another machine;
/// here it runs at the lowest priority, so that it takes no processor time from the measured requests.
fn stream_until(url: &str, lines: &'static str, is_over: &AtomicBool) -> usize {
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
async fn a_stream_of_documents_hardly_delays_lookups() {
    let time = part_duration();
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
        std::thread::spawn(move || stream_until(&url, lines, &is_over))
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    let loaded = lookups(&server, time).await;
    is_over.store(true, Ordering::Relaxed);
    let stored = stream.join().unwrap();
    let ratio = loaded[2].as_secs_f64() / idle[2].as_secs_f64();
    println!("lookups idle {idle:?}, during a stream of {stored} documents {loaded:?}: p99 {ratio:.1} times");
    assert!(stored > 0);
    assert!(!by_hand() || ratio <= 3.0, "{ratio:.1}");
}

#[tokio::test]
async fn a_client_may_set_a_shorter_deadline() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let send = |value: &'static str, body: serde_json::Value| {
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
    // The first request loads the dictionaries and tables.
    assert_eq!(send("60000", json!({"text": text(1)})).await.0, StatusCode::OK);
    let long = json!({"text": text(2).repeat(200)});
    let (status, problem) = send("1", long).await;
    assert_eq!((status.as_u16(), problem["code"].as_str()), (503, Some("deadline_exceeded")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("1 ms (X-Timeout-Ms)"), "{problem}");
    for wrong in ["0", "-1", "soon", "1.5", ""] {
        let (status, problem) = send(wrong, json!({"text": text(1)})).await;
        assert_eq!(status.as_u16(), 422, "{wrong}");
        assert_eq!(problem["errors"][0]["parameter"], "X-Timeout-Ms");
    }
}

#[tokio::test]
async fn a_key_has_a_rate_limit_that_slows_streams_down() {
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
        assert_eq!(get(&fast).await.status(), StatusCode::OK, "the other key is not limited");
    }
    assert_eq!(statuses[0], 200);
    assert!(statuses.contains(&429), "{statuses:?}");
    // A request that is larger than the token bucket is admitted when the bucket is full; later requests
    // wait until the debt is paid.
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    let lines: String = (0..100u64).map(|i| format!("{{\"hash\":\"{i:016x}\"}}\n")).collect();
    let request = server
        .client
        .post(format!("{}/documents", server.url))
        .header("content-type", "application/x-ndjson");
    let begin = Instant::now();
    let text = request.bearer_auth(&slow).body(lines).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("\"created\":100"), "{text}");
    // The stream waited for its units, or the next request has to.
    let is_paid = begin.elapsed() > Duration::from_secs(1)
        || get(&slow).await.status() == StatusCode::TOO_MANY_REQUESTS;
    assert!(is_paid, "the stream was not slowed down: {:?}", begin.elapsed());
}
