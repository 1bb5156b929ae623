//! Fuzz target for requests to a server in this process: bodies for every route, streams, cursors,
//! parameters, and raw bytes.
//!
//! Every request must get an HTTP answer, and no internal error.
#![no_main]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use lookalike::config::Settings;
use lookalike::server;

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let data =
        tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::TempDir::new()).expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("a socket");
    let mut settings = Settings::default();
    settings.data.dir = data.keep();
    settings.server.connections_per_address = 1_000;
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            server::run(settings, listener, std::future::pending()).await.expect("a server");
        });
    });
    for _ in 0..1_000 {
        let request = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        if answer(address, request).starts_with(b"HTTP/1.1 200") {
            return address;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server is not ready");
});

fn answer(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(15))).expect("a socket");
    // The server may refuse the request and close the connection before it has read all of it.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn post(route: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {route} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// The bytes as a query string: all but letters, digits and `&=-_` percent-encoded.
fn encoded(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'&' | b'=' | b'-' | b'_' => {
                char::from(*byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let json = "application/json";
    let request = match kind % 12 {
        0 => post("/documents", json, bytes),
        1 => post("/documents", "application/x-ndjson", bytes),
        2 => post("/similar", json, bytes),
        3 => post("/compare", json, bytes),
        4 => post("/fingerprint", json, bytes),
        5 => post("/fingerprint", "text/html", bytes),
        6 => post("/collections/default/calibrate", json, bytes),
        7 => post("/collections/restored/restore", "application/x-tar", bytes),
        8 => {
            let query = encoded(bytes);
            format!("GET /similar?{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                .into_bytes()
        }
        9 => {
            let cursor = encoded(bytes);
            let query = format!("hash=0000000000000000&k=8&limit=1&cursor={cursor}");
            format!("GET /similar?{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                .into_bytes()
        }
        10 => {
            let body = String::from_utf8_lossy(bytes);
            let put = post("/collections/other", json, body.as_bytes());
            [b"PUT", &put[4..]].concat()
        }
        _ => bytes.to_vec(),
    };
    let answered = answer(*SERVER, &request);
    let status = answered.get(9..12).unwrap_or_default();
    // A truncated head may get no answer; every other request gets one. 503 and 507 are allowed: the server
    // is busy, or the disk or the memory budget is full.
    let is_allowed = || status[0] != b'5' || status == b"503" || status == b"507";
    assert!(
        answered.is_empty() || (answered.starts_with(b"HTTP/1.") && is_allowed()),
        "{}",
        String::from_utf8_lossy(&answered)
    );
    assert!(
        !answered.windows(10).any(|part| part == b"\"internal\""),
        "{}",
        String::from_utf8_lossy(&answered)
    );
});
