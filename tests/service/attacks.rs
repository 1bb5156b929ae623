//! Requests that each stay within their limits but together exhaust memory or processors. In a control
//! group of 256 MiB the server keeps running, refuses the excess, and serves other clients.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::memory::Group;
use crate::overload::by_hand;
use crate::server::{Server, directory, without_header};

/// The requests of other clients during an attack: a short text to fingerprint and a lookup. Each must
/// succeed.
async fn check_other_clients(server: &Server, count: usize, p99: Duration) {
    let mut times = Vec::new();
    for number in 0..count {
        let start = Instant::now();
        let text =
            format!("The harbour ferry number {number} will run every twenty minutes during the festival.");
        let (status, answer) = server.post("/fingerprint", json!({ "text": text })).await;
        assert_eq!(status, StatusCode::OK, "{answer}\n{}", server.log());
        assert!(server.get("/similar?hash=00000000000000ff&k=3").await.status().is_success());
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let p99_measured = times[count * 99 / 100];
    println!("during the attack p50 {:?}, p99 {p99_measured:?}", times[count / 2]);
    // Other tests run on the same processors, so that only manual runs check latencies.
    assert!(!by_hand() || p99_measured < p99, "p99 {p99_measured:?}");
}

/// Sends a head from one of three addresses, which other clients do not use.
async fn connect(server: &Server, number: u8, head: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 2 + number % 3], 0).into()).unwrap();
    let mut stream = socket.connect(server.url.trim_start_matches("http://").parse().unwrap()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Streams documents as soon as the memory budget allows it. After an attack the server needs a short time
/// to release memory.
async fn stream_when_memory_allows(server: &Server, route: &str, lines: String) {
    let start = Instant::now();
    loop {
        let request = server
            .client
            .post(format!("{}{route}", server.url))
            .header("content-type", "application/x-ndjson");
        let response = request.body(lines.clone()).send().await;
        if let Ok(response) = response.and_then(reqwest::Response::error_for_status) {
            let text = response.text().await.unwrap();
            let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            if summary["summary"]["errors"] == 0 {
                return;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(30), "memory does not come back:\n{}", server.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The answer as soon as there is memory for it: the server refuses until it detects that other answers are
/// not read, or that their connections have ended.
async fn get_when_memory_allows(server: &Server, route: &str) -> reqwest::Response {
    let start = Instant::now();
    loop {
        let response = server.get(route).await;
        if response.status() == StatusCode::OK {
            return response;
        }
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(start.elapsed() < Duration::from_secs(30), "memory does not come back:\n{}", server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends a body, or as much of it as the server reads. Returns the status of the answer, or 0 if there is
/// none.
async fn send(server: &Server, route: &str, body: String) -> u16 {
    let request =
        server.client.post(format!("{}{route}", server.url)).header("content-type", "application/json");
    match request.body(body).send().await {
        Ok(response) => {
            let status = response.status().as_u16();
            let answer = response.bytes().await.unwrap_or_default();
            assert!(answer.len() < 8 << 20, "{route}: an answer of {} bytes", answer.len());
            status
        }
        // The server refused the request before the end of the body, and closed the connection.
        Err(_) => 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_need_too_much_memory_are_refused_and_others_are_served() {
    let Some(group) = Group::of_256_mib() else { return };
    let data = directory();
    let server = Server::start_in(data.path(), &group.0).await;
    let check = async || check_other_clients(&server, 50, Duration::from_millis(100)).await;

    // Bodies that stall shortly before their end.
    let mut stalled = Vec::new();
    for (number, route) in (0..).zip(["/documents", "/similar"].repeat(6)) {
        let head = format!(
            "POST {route} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            32 << 20
        );
        let mut stream = connect(&server, number, &head).await;
        let part = vec![b' '; 1 << 20];
        for _ in 0..30 {
            // The server may refuse the request before it has the body.
            let writing = tokio::time::timeout(Duration::from_secs(2), stream.write_all(&part));
            if !matches!(writing.await, Ok(Ok(()))) {
                break;
            }
        }
        stalled.push(stream);
    }
    check().await;
    drop(stalled);

    // Elements of two or three bytes each.
    let many = |open: &str, element: &str, close: &str| {
        format!("{open}{}{element}{close}", format!("{element},").repeat((30 << 20) / (element.len() + 1)))
    };
    for (route, body) in [
        ("/batch/documents", many("[", "1", "]")),
        ("/preview/documents", many("[", "1", "]")),
        ("/batch/fingerprint", many("{\"texts\":[", "\"\"", "]}")),
        ("/collections/default/calibrate", many("{\"texts\":[", "\"\"", "]}")),
        ("/similar", many("{\"hash\":\"00000000000000ff\",\"filter\":{\"exclude\":[", "\"a\"", "]}}")),
        ("/similar", many("{\"hash\":\"00000000000000ff\",\"filter\":{\"metadata\":{\"a\":[", "1", "]}}}")),
    ] {
        let status = send(&server, route, body).await;
        assert!(matches!(status, 0 | 413 | 422 | 503 | 507), "{route}: {status}");
    }
    let array = format!("[{}1]", "1,".repeat(9_999));
    assert_eq!(send(&server, "/batch/documents", array).await, 200, "each element fails alone");
    assert_eq!(send(&server, "/batch/documents", format!("[{}1]", "1,".repeat(10_000))).await, 422);
    check().await;

    // Answers that the client does not read.
    let metadata = json!({ "padding": "x".repeat(16_000) });
    let spread = |id: u64| format!("{:016x}", id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let lines = (0..1_000)
        .map(|id| format!("{}\n", json!({"id": id.to_string(), "hash": spread(id), "metadata": metadata})));
    stream_when_memory_allows(&server, "/documents", lines.collect()).await;
    let mut unread = Vec::new();
    for number in 0..30 {
        let head = "GET /similar?hash=00000000000000ff&k=64&limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
        unread.push(connect(&server, number, head).await);
    }
    check().await;
    drop(unread);
    // An answer that the client reads is one page: its metadata reaches the size limit before `limit` is
    // reached.
    let page = get_when_memory_allows(&server, "/similar?hash=00000000000000ff&k=64&limit=1000").await;
    let page: Value = page.json().await.unwrap();
    assert!(page["next"].is_string() && page["similar"].as_array().unwrap().len() < 1_000);

    // Batches of queries whose answers have more metadata than an answer may have.
    let queries: Vec<Value> =
        (0..1_000).map(|id| json!({"hash": spread(id), "k": 64, "limit": 20})).collect();
    let batch = json!({ "queries": queries });
    let mut batches = JoinSet::new();
    for _ in 0..6 {
        let request = server.client.post(format!("{}/batch/similar", server.url)).json(&batch);
        batches.spawn(async move {
            for _ in 0..if by_hand() { 60 } else { 6 } {
                let status = request.try_clone().unwrap().send().await.unwrap().status().as_u16();
                assert!(matches!(status, 200 | 503 | 507), "{status}");
            }
        });
    }
    check().await;
    while let Some(done) = batches.join_next().await {
        done.unwrap();
    }
    // The answers to smaller batches, 6 MB each, which the client does not read.
    let batch = json!({ "queries": queries[..20] }).to_string();
    let head = format!(
        "POST /batch/similar HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{batch}",
        batch.len()
    );
    let mut unread = Vec::new();
    for number in 0..30 {
        unread.push(connect(&server, number, &head).await);
    }
    check().await;
    drop(unread);

    // Large documents, exported by several clients.
    server.put("/collections/texts", json!({"keep_text": true})).await;
    let documents = if by_hand() { 400 } else { 100 };
    for id in 0..documents {
        let text = format!("text number {id} ").repeat(65_000);
        let line = json!({"id": id.to_string(), "text": &text[..900_000]});
        stream_when_memory_allows(&server, "/collections/texts/documents", format!("{line}\n")).await;
    }
    let head = "GET /collections/texts/export HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut exports = Vec::new();
    for number in 0..20 {
        exports.push(connect(&server, number, head).await);
    }
    check().await;
    drop(exports);
    let export = get_when_memory_allows(&server, "/collections/texts/export").await.text().await.unwrap();
    assert_eq!(without_header(&export).lines().count(), documents);
    assert_eq!(group.kills(), 0, "the kernel killed the process");
}

#[tokio::test(flavor = "multi_thread")]
async fn small_requests_with_large_results_are_limited_too() {
    let Some(group) = Group::of_256_mib() else { return };
    let data = directory();
    let server = Server::start_in(data.path(), &group.0).await;
    let check = async || check_other_clients(&server, 50, Duration::from_millis(100)).await;

    // Lines of 27 bytes, each a duplicate of ten documents with 16 KB of metadata.
    let metadata = json!({ "padding": "x".repeat(16_000) });
    let lines = (0..10).map(|id| {
        format!("{}\n", json!({"id": id.to_string(), "hash": "f0f0f0f0f0f0f0f0", "metadata": metadata}))
    });
    stream_when_memory_allows(&server, "/documents", lines.collect()).await;
    let lines = "{\"hash\":\"f0f0f0f0f0f0f0f0\"}\n".repeat(40_000);
    let head = format!(
        "POST /documents?on_duplicate=skip HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        lines.len()
    );
    let mut unread = JoinSet::new();
    for number in 0..12 {
        let mut stream = connect(&server, number, &head).await;
        let lines = lines.clone();
        unread.spawn(async move {
            // The server stops reading when its results are not read.
            let writing = stream.write_all(lines.as_bytes());
            let _ = tokio::time::timeout(Duration::from_secs(5), writing).await;
            stream
        });
    }
    check().await;
    while unread.join_next().await.is_some() {}
    check().await;
    let (status, answer) =
        server.post("/documents?on_duplicate=skip", json!({"hash": "f0f0f0f0f0f0f0f0"})).await;
    assert_eq!((status, &answer["outcome"]), (StatusCode::OK, &json!("duplicate")), "{answer}");
    let similar = answer["similar"].as_array().unwrap();
    assert!(similar.len() == 10 && similar.iter().all(|found| found["metadata"] == metadata));

    // Filters of 60 KB in a batch, with a value every two bytes; and lists of ids, with one every four.
    let values = format!("[{}1]", "1,".repeat(30_000));
    let ids = format!("[{}\"a\"]", "\"a\",".repeat(900));
    for filter in [format!("{{\"metadata\":{{\"a\":{values}}}}}"), format!("{{\"exclude\":{ids}}}")] {
        let query = format!("{{\"hash\":\"00000000000000ff\",\"filter\":{filter}}}");
        let count = ((11 << 20) / query.len()).min(1_000);
        let body = format!("{{\"queries\":[{}{query}]}}", format!("{query},").repeat(count - 1));
        let mut attack = JoinSet::new();
        for number in 0..6 {
            let head = format!(
                "POST /batch/similar HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            let mut stream = connect(&server, number, &head).await;
            let body = body.clone();
            attack.spawn(async move {
                let writing = stream.write_all(body.as_bytes());
                let _ = tokio::time::timeout(Duration::from_secs(5), writing).await;
                stream
            });
        }
        check().await;
        while attack.join_next().await.is_some() {}
    }
    assert_eq!(group.kills(), 0, "the kernel killed the process");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_queries_end_at_their_deadline_and_do_not_delay_others() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let documents = if by_hand() { 1_000_000 } else { 100_000u64 };
    let spread = |id: u64| (id + 1).wrapping_mul(0xd134_2543_de82_ef95);
    for part in 0..documents / 100_000 {
        let lines = (part * 100_000..(part + 1) * 100_000)
            .map(|id| format!("{{\"id\":\"{id}\",\"hash\":\"{:016x}\"}}\n", spread(id)));
        server.stream("/documents", lines.collect()).await;
    }
    // As many documents that share one hash.
    server.put("/collections/one", json!({})).await;
    let lines = (0..documents).map(|id| format!("{{\"id\":\"{id}\",\"hash\":\"00000000000000ff\"}}\n"));
    server.stream("/collections/one/documents", lines.collect()).await;
    let nothing =
        json!({"hash": "00000000000000ff", "k": 64, "filter": {"metadata": {"a": "no document has it"}}});
    // Texts of 200 KB, which are compared one by one.
    server.put("/collections/texts", json!({"keep_text": true})).await;
    for id in 0..if by_hand() { 1_000 } else { 60 } {
        let text = format!("text number {id} of a long attack ").repeat(200_000 / 32);
        let line = json!({"id": id.to_string(), "text": &text[..190_000]});
        stream_when_memory_allows(&server, "/collections/texts/documents", format!("{line}\n")).await;
    }
    let compared =
        json!({"text": "text number of a long attack", "k": 64, "min_similarity": 0.1, "limit": 10});
    let scans: Vec<Value> = (0..1_000)
        .map(|id| json!({"hash": format!("{:016x}", spread(id)), "k": 20, "verify": "scan"}))
        .collect();
    for (route, body) in [
        ("/similar", nothing.clone()),
        ("/collections/one/similar", nothing),
        ("/batch/similar", json!({ "queries": scans })),
        ("/collections/texts/similar", compared),
    ] {
        let mut attack = JoinSet::new();
        for _ in 0..if route.contains("texts") { 8 } else { 3 } {
            let request = server.client.post(format!("{}{route}", server.url)).json(&body);
            let request = request.header("x-timeout-ms", "1500");
            attack.spawn(async move {
                for _ in 0..2 {
                    let start = Instant::now();
                    let status = request.try_clone().unwrap().send().await.unwrap().status().as_u16();
                    assert!(matches!(status, 200 | 503), "{status}");
                    // The deadline, plus the delay of a busy machine.
                    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        check_other_clients(&server, 50, Duration::from_millis(50)).await;
        while let Some(done) = attack.join_next().await {
            done.unwrap();
        }
        // The server does not continue expired requests.
        let start = Instant::now();
        check_other_clients(&server, 5, Duration::from_millis(50)).await;
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_ends_at_its_deadline_and_names_what_it_did_not_begin() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let spread = |id: u64| (id + 1).wrapping_mul(0xd134_2543_de82_ef95);
    let documents: u64 = if by_hand() { 1_000_000 } else { 200_000 };
    let lines = (0..documents).map(|id| format!("{{\"id\":\"{id}\",\"hash\":\"{:016x}\"}}\n", spread(id)));
    server.stream("/documents", lines.collect()).await;
    // Each of them is compared with all stored hashes.
    let array: Vec<Value> = (0..5_000).map(|id| json!({"hash": format!("{:016x}", spread(!id))})).collect();
    let url = format!("{}/batch/documents?on_duplicate=skip&k=20", server.url);
    let request = server.client.post(url).json(&array).header("x-timeout-ms", "300");
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    let summary = &answer["summary"];
    let errors = summary["errors"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    assert!(errors > 0, "{summary}");
    let counts = ["created", "updated", "duplicates"].map(|count| summary[count].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>() + errors, 5_000, "{summary}");
    assert_eq!(server.documents().await, documents + counts[0]);
    let results = answer["results"].as_array().unwrap();
    let error = &results.iter().find(|result| result["error"].is_object()).unwrap()["error"];
    assert_eq!(
        (&error["code"], &error["outcome"]),
        (&json!("deadline_exceeded"), &json!("not_applied")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_large_documents_do_not_delay_others() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.put("/collections/texts", json!({"keep_text": true})).await;
    let text = "one of the words of a long text ".repeat(28_000);
    let stored = server.put("/collections/texts/documents/a", json!({"text": text})).await;
    assert!(stored.0.is_success(), "{}", stored.1);
    // From another address: one client alone may fill its share of the queue.
    let other = reqwest::Client::builder().local_address(Some([127, 0, 0, 2].into())).build().unwrap();
    let mut attack = JoinSet::new();
    for _ in 0..60 {
        let request = other.get(format!("{}/collections/texts/documents/a", server.url));
        attack.spawn(async move {
            for _ in 0..10 {
                let response = request.try_clone().unwrap().send().await.unwrap();
                assert!(matches!(response.status().as_u16(), 200 | 503), "{}", response.status());
                response.bytes().await.unwrap();
            }
        });
    }
    check_other_clients(&server, 50, Duration::from_millis(50)).await;
    while let Some(done) = attack.join_next().await {
        done.unwrap();
    }
}
