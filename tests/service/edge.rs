//! The HTTP edge: bad peers do not affect other clients, malformed requests are answered, and a shutdown
//! does not wait for stuck connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::overload::by_hand;
use crate::server::{Server, directory};

fn address(server: &Server) -> SocketAddr {
    server.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Opens a connection from this local address.
async fn connect_from(host: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((host, 0).into())?;
    socket.connect(to).await
}

/// Sends raw bytes and reads until the server closes the connection.
pub async fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address(server)).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("the server closes").unwrap();
    String::from_utf8(answer).unwrap()
}

/// Status and problem of the first answer in the bytes of a raw connection.
pub fn problem_of(answer: &str) -> (u16, Value) {
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("x-request-id: "), "{answer}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert!(head.contains("application/problem+json"), "{answer}");
    (status, serde_json::from_str(&body[..length.parse().unwrap()]).unwrap())
}

/// The number of answers in the bytes of a raw connection.
fn answers(text: &str) -> usize {
    text.split("HTTP/1.1 ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())).count()
}

/// The number of bad peers of each kind.
const SILENT: usize = 2_000;
const HEAD_DRIP: usize = 1_000;
const BODY_DRIP: usize = 500;
/// A request whose body stalls after the first byte.
const POST_BEGIN: &[u8] = b"POST /documents HTTP/1.1\r\nhost: localhost\r\n\
    content-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
/// The number of good requests in each round.
const GOOD: usize = 400;

/// Opens bad connections of all kinds, keeps each until the server ends it, and then opens it again after a
/// pause.
fn attack(to: SocketAddr, host: impl Fn(usize) -> Ipv4Addr, pause: Duration) -> JoinSet<()> {
    let mut peers = JoinSet::new();
    for number in 0..SILENT + HEAD_DRIP + BODY_DRIP {
        let host = host(number);
        peers.spawn(async move {
            loop {
                if let Ok(mut stream) = connect_from(host, to).await {
                    let start: &[u8] = match number {
                        ..SILENT => b"",
                        _ if number < SILENT + HEAD_DRIP => b"GET /livez HT",
                        _ => POST_BEGIN,
                    };
                    let _ = stream.write_all(start).await;
                    let mut buffer = [0; 256];
                    loop {
                        tokio::select! {
                            read = stream.read(&mut buffer) => {
                                if !read.is_ok_and(|count| count > 0) { break }
                            }
                            () = tokio::time::sleep(Duration::from_millis(500)), if number >= SILENT => {
                                if stream.write_all(b" ").await.is_err() { break }
                            }
                        }
                    }
                }
                // Spread the connections over time.
                tokio::time::sleep(pause / 2 + pause * (number % 16) as u32 / 16).await;
            }
        });
    }
    peers
}

/// Median and 99th percentile of `GOOD` requests, each on a new connection.
async fn request_latencies(server: &Server) -> (Duration, Duration) {
    let (mut times, mut retries) = (Vec::new(), 0);
    for number in 0..GOOD {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(0);
        let client = client.build().unwrap();
        let start = Instant::now();
        let route = format!("{}/similar?hash={number:016x}", server.url);
        // At the address of thousands of bad peers the server may end a connection before it reads the
        // request. The client tries again, as real clients do; the measured time includes this.
        let answer = loop {
            match client.get(&route).send().await {
                Ok(answer) => break answer,
                Err(error) if retries < GOOD / 100 => {
                    retries += 1;
                    drop(error);
                }
                Err(error) => panic!("a good peer is not served: {error}"),
            }
        };
        assert_eq!(answer.status(), StatusCode::OK);
        answer.bytes().await.unwrap();
        times.push(start.elapsed());
        // The round takes some seconds, in which the ended bad peers connect again.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    times.sort_unstable();
    println!("{retries} of {GOOD} requests were sent again");
    (times[GOOD / 2], times[GOOD * 99 / 100])
}

async fn bad_peers_do_not_starve_others(host: impl Fn(usize) -> Ipv4Addr, pause: Duration) {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.post("/documents", json!({"id": "a", "hash": "00000000000000ff"})).await;
    let idle = request_latencies(&server).await;
    let peers = attack(address(&server), host, pause);
    // Wait until all bad peers have connected at least once.
    let accepted = "lookalike_http_connections_accepted_total";
    let wanted = (SILENT + HEAD_DRIP + BODY_DRIP) as f64;
    for _ in 0..600 {
        // A new connection: the server closes idle ones to accept others.
        let Ok(metrics) = reqwest::get(format!("{}/metrics", server.url)).await else { continue };
        let metrics = metrics.text().await.unwrap();
        let value = metrics.lines().find_map(|line| line.strip_prefix(accepted)?.trim().parse::<f64>().ok());
        if value.is_some_and(|value| value >= wanted) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The documented limit is 100 ms; only a run by hand on an idle machine checks it. With other tests
    // running, the test detects only starvation: a starved request waits in each round for the seconds that
    // a bad peer may take.
    let limit = if by_hand() { Duration::from_millis(100) } else { Duration::from_secs(3).max(idle.1 * 10) };
    let mut rounds = Vec::new();
    while rounds.len() < 3 && rounds.last().is_none_or(|(_, p99)| *p99 >= limit) {
        rounds.push(request_latencies(&server).await);
    }
    println!("median and p99 idle {idle:?}, with {wanted} bad peers {rounds:?}");
    assert!(rounds.iter().any(|(_, p99)| *p99 < limit), "{rounds:?}, idle {idle:?}");
    let body = json!({"id": "b", "hash": "00000000000000fe"});
    // The head does not tell whether the body follows. While bad peers at the same address use all its
    // places with incomplete bodies, the server answers 503 and the client tries again.
    let start = Instant::now();
    let status = loop {
        let request = reqwest::Client::new().post(format!("{}/documents", server.url)).json(&body);
        match request.send().await.map(|answer| answer.status()) {
            Ok(StatusCode::SERVICE_UNAVAILABLE) | Err(_) if start.elapsed() < Duration::from_secs(30) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            status => break status.unwrap(),
        }
    };
    println!("stored after {:?}", start.elapsed());
    assert_eq!(status, StatusCode::CREATED);
    drop(peers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_peers_of_many_addresses_do_not_starve_others() {
    bad_peers_do_not_starve_others(
        |number| Ipv4Addr::new(127, 0, 1, 1 + (number % 200) as u8),
        Duration::from_millis(200),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_peers_at_the_address_of_good_ones_do_not_starve_them() {
    // A new connection has time to send its request, although thousands of others arrive before it is read.
    bad_peers_do_not_starve_others(|_| Ipv4Addr::LOCALHOST, Duration::from_secs(1)).await;
}

#[tokio::test]
async fn slow_peers_get_an_error_or_are_disconnected() {
    let data = directory();
    let limits = [
        ("LOOKALIKE_SERVER__HEADER_SECONDS", "1"),
        ("LOOKALIKE_SERVER__IDLE_SECONDS", "2"),
        ("LOOKALIKE_SERVER__BODY_SECONDS", "1"),
        ("LOOKALIKE_SERVER__STALL_SECONDS", "1"),
    ];
    let server = Server::start_with(data.path(), &limits).await;
    for start in ["", "GET /livez HTTP/1.1\r\nhost"] {
        assert_eq!(raw(&server, start.as_bytes()).await, "", "{start:?}");
    }
    let idle = raw(&server, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(idle.starts_with("HTTP/1.1 200") && idle.ends_with("live\n"), "{idle}");
    let late = "POST /documents HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 99\r\n\r\n{";
    let (status, problem) = problem_of(&raw(&server, late.as_bytes()).await);
    assert_eq!((status, problem["code"].as_str()), (408, Some("too_slow")));
    assert!(problem["detail"].as_str().unwrap().contains("1 bytes of the body came"), "{problem}");
    let stream = "POST /documents HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
                  content-length: 99\r\n\r\n{\"id\":\"s\",\"hash\":\"00000000000000ff\"}\n{";
    let answer = raw(&server, stream.as_bytes()).await;
    assert!(answer.contains("\"outcome\":\"created\"") && answer.contains("\"too_slow\""), "{answer}");
    assert!(
        answer.contains("\"summary\":{\"created\":1,\"updated\":0,\"duplicates\":0,\"errors\":1}"),
        "{answer}"
    );
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_abandoned() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_SERVER__STALL_SECONDS", "1")]).await;
    let metadata = json!({ "m": "x".repeat(8_000) });
    let line = |i: u64| {
        let (id, hash) = (format!("{i:05}"), format!("{i:016x}"));
        json!({"id": id, "hash": hash, "metadata": metadata})
    };
    let lines: String = (0..2_000u64).map(|i| format!("{}\n", line(i))).collect();
    server.stream("/documents", lines).await;
    let mut stream = TcpStream::connect(address(&server)).await.unwrap();
    stream.write_all(b"GET /export HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // The answer has 16 MB, more than the buffers of the two sockets; the client reads nothing.
    server.wait_for_ended_connection("answer_not_read").await;
}

#[tokio::test]
async fn malformed_requests_get_an_answer() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let headers = |count: usize| (0..count).map(|i| format!("x-{i}: y\r\n")).collect::<String>();
    let get = |rest: &str| format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{rest}\r\n").into_bytes();
    let post = |rest: &str| {
        format!("POST /documents HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{rest}")
            .into_bytes()
    };
    // A head that cannot be parsed gets a status only, and so has no code.
    let cases: Vec<(&str, Vec<u8>, u16, &str)> = vec![
        ("no HTTP at all", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), 400, ""),
        ("another version", b"GET /livez HTTP/3.0\r\nhost: localhost\r\n\r\n".to_vec(), 400, ""),
        ("no Host", b"GET /livez HTTP/1.1\r\n\r\n".to_vec(), 400, "malformed_request"),
        ("two Hosts", get("host: y\r\n"), 400, "malformed_request"),
        ("a space before the colon", get("x : y\r\n"), 400, ""),
        ("a header without a name", get(": y\r\n"), 400, ""),
        ("a NUL in a header", get("x: a\0b\r\n"), 400, ""),
        ("a folded header", get("x: a\r\n b\r\n"), 400, ""),
        ("a space in the path", b"GET /a b HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(), 400, ""),
        ("65 headers", get(&format!("connection: close\r\n{}", headers(63))), 431, "headers_too_large"),
        ("200 headers", get(&headers(200)), 431, ""),
        ("40 KB of headers", get(&format!("x: {}\r\n", "y".repeat(40 << 10))), 431, ""),
        ("1 MB of headers", get(&format!("x: {}\r\n", "y".repeat(1 << 20))), 431, ""),
        (
            "a URI of 9 KB",
            format!(
                "GET /similar?text={} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
                "y".repeat(9 << 10)
            )
            .into(),
            414,
            "uri_too_long",
        ),
        ("two lengths", post("content-length: 2\r\ncontent-length: 3\r\n\r\n{}"), 400, ""),
        ("lengths in a list", post("content-length: 2, 3\r\n\r\n{}"), 400, ""),
        ("a negative length", post("content-length: -1\r\n\r\n"), 400, ""),
        ("a length with a sign", post("content-length: +2\r\n\r\n{}"), 400, ""),
        ("a length past 2^64", post("content-length: 18446744073709551616\r\n\r\n"), 400, ""),
        ("another encoding", post("transfer-encoding: gzip\r\n\r\n"), 400, ""),
        (
            "a coding before the chunks",
            post("transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            501,
            "unknown_transfer_coding",
        ),
        (
            "the same in two lines",
            post("transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            501,
            "unknown_transfer_coding",
        ),
        (
            "chunks in chunks",
            post("transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
            501,
            "unknown_transfer_coding",
        ),
        ("chunked and then not", post("transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"), 400, ""),
        (
            "a chunk whose size is no number",
            post("transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
            400,
            "malformed_request",
        ),
        (
            "a chunk past 2^64",
            post("transfer-encoding: chunked\r\n\r\n10000000000000000\r\n{}"),
            400,
            "malformed_request",
        ),
        // Refused before a byte of the body arrives or is requested.
        ("a body announced as too large", post("content-length: 40000000\r\n\r\n"), 413, "too_large"),
        (
            "the same with Expect: 100-continue",
            post("expect: 100-continue\r\ncontent-length: 40000000\r\n\r\n"),
            413,
            "too_large",
        ),
        (
            "a body that is not compressed as it says",
            post("connection: close\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}"),
            400,
            "malformed_request",
        ),
        (
            "an unknown encoding",
            post("connection: close\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\n{}"),
            415,
            "unsupported_encoding",
        ),
    ];
    for (case, bytes, status, code) in cases {
        let answer = raw(&server, &bytes).await;
        assert_eq!(answers(&answer), 1, "{case}: {answer}");
        if code.is_empty() {
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{case}: {answer}");
            assert!(answer.ends_with("\r\n\r\n"), "{case}: {answer}");
            continue;
        }
        let (found, problem) = problem_of(&answer);
        assert_eq!((found, problem["code"].as_str()), (status, Some(code)), "{case}: {answer}");
    }
    assert_eq!(server.documents().await, 0);
}

#[tokio::test]
async fn http2_gets_no_answer_and_the_connection_is_closed() {
    let data = directory();
    let server = Server::start(data.path()).await;
    assert_eq!(raw(&server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await, "");
    // A method that begins like the preface.
    let other =
        raw(&server, b"PRINT /nothing HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    assert_eq!(problem_of(&other).0, 404, "{other}");
}

#[tokio::test]
async fn bytes_after_an_unknown_transfer_coding_are_not_a_second_request() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.post("/documents", json!({"id": "kept", "hash": "00000000000000f0"})).await;
    let hidden = "DELETE /documents/kept HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let head = "POST /documents HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    let request = format!("{head}\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n{hidden}");
    let answer = raw(&server, request.as_bytes()).await;
    assert_eq!((problem_of(&answer).0, answers(&answer)), (501, 1), "{answer}");
    assert_eq!(server.documents().await, 1);
}

#[tokio::test]
async fn refused_requests_are_logged_once_a_second_and_not_one_by_one() {
    let data = directory();
    let variables = [("LOOKALIKE_SERVER__LAME_DUCK_SECONDS", "3"), ("LOOKALIKE_LOG__FORMAT", "json")];
    let server = Server::start_with(data.path(), &variables).await;
    server.terminate();
    server.wait_for_log("shutting down").await;
    let start = Instant::now();
    let mut refused = 0u64;
    while refused < 200 {
        let status = server.get("/readyz").await.status();
        refused += u64::from(status == StatusCode::SERVICE_UNAVAILABLE);
    }
    let seconds = start.elapsed().as_secs();
    server.wait_for_log("more requests failed within a second").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let log = server.log();
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.contains("\"shutting_down\""))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() as u64 <= seconds + 3, "{} lines in {seconds} s:\n{log}", lines.len());
    assert_eq!((&lines[0]["route"], &lines[0]["status"]), (&json!("/readyz"), &json!(503)));
    let reported: u64 = lines.iter().map(|line| line["requests"].as_u64().unwrap_or(1)).sum();
    assert_eq!(reported, refused, "{log}");
}

#[tokio::test]
async fn bytes_after_an_ambiguous_length_are_not_a_second_request() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let hidden = "DELETE /documents/kept HTTP/1.1\r\nhost: localhost\r\n\r\n";
    server.post("/documents", json!({"id": "kept", "hash": "00000000000000f0"})).await;
    let both = [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
    ];
    for lengths in both {
        // By its chunks the body is empty; by its length it includes the start of the hidden request.
        let request = format!(
            "POST /documents HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             {lengths}\r\n\r\n0\r\n\r\n{hidden}"
        );
        let answer = raw(&server, request.as_bytes()).await;
        assert_eq!(answers(&answer), 1, "{answer}");
        assert_eq!(problem_of(&answer).0, 400);
    }
    assert_eq!(server.documents().await, 1);
}

#[tokio::test]
async fn a_stop_waits_for_requests_and_not_for_stuck_connections() {
    let data = directory();
    let drain = [("LOOKALIKE_SERVER__DRAIN_SECONDS", "3"), ("LOOKALIKE_SERVER__LAME_DUCK_SECONDS", "1")];
    let server = Server::start_with(data.path(), &drain).await;
    let to = address(&server);
    let mut stuck = Vec::new();
    let begins: [&[u8]; 4] =
        [b"", b"GET /livez HT", POST_BEGIN, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"];
    for start in begins.iter().cycle().take(80) {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(start).await.unwrap();
        stuck.push(stream);
    }
    // A stream that has stored one document and sends another one later.
    let mut stream = TcpStream::connect(to).await.unwrap();
    let head = "POST /documents HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let first = chunk("{\"id\":\"a\",\"hash\":\"00000000000000ff\"}\n");
    stream.write_all(format!("{head}{first}").as_bytes()).await.unwrap();
    let mut buffer = [0; 4_096];
    let mut answer = String::new();
    while !answer.contains("\"created\"") {
        let count = stream.read(&mut buffer).await.unwrap();
        answer.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    let url = server.url.clone();
    let stopping = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        (server.stop(), start.elapsed())
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let lame = reqwest::get(format!("{url}/readyz")).await.expect("requests are still accepted");
    assert_eq!(lame.status(), StatusCode::SERVICE_UNAVAILABLE);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let second = chunk("{\"id\":\"b\",\"hash\":\"00000000000000fe\"}\n");
    stream.write_all(format!("{second}0\r\n\r\n").as_bytes()).await.unwrap();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("\"created\":2"), "{answer}");
    let (status, took) = stopping.await.unwrap();
    assert!(status.success());
    assert!(took < Duration::from_secs(30), "{took:?}");
    drop(stuck);
    let server = Server::start(data.path()).await;
    assert_eq!(server.documents().await, 2);
}
