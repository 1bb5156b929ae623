//! Compressed bodies: they mean what plain ones mean on every route, and one that expands to more than its
//! limit is refused without memory for it.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::corpus::memory;
use crate::server::{Server, directory, lines};

const TEXT: &str = "The harbour ferry will run every twenty minutes during the summer festival.";
/// Bytes of a bomb.
const BOMB: u64 = 1 << 30;

fn packed(encoding: &str, content: impl Read) -> Vec<u8> {
    match encoding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            std::io::copy(&mut { content }, &mut encoder).unwrap();
            encoder.finish().unwrap()
        }
        _ => zstd::encode_all(content, 1).unwrap(),
    }
}

/// Status, the header `Accept-Encoding` and body of an answer.
async fn send(
    server: &Server,
    method: &Method,
    route: &str,
    kind: &str,
    encoding: Option<&str>,
    body: Vec<u8>,
) -> (StatusCode, Option<String>, Value) {
    let mut request = server.client.request(method.clone(), format!("{}{route}", server.url));
    request = request.header("content-type", kind);
    if let Some(encoding) = encoding {
        request = request.header("content-encoding", encoding);
    }
    let response = request.body(body).send().await.unwrap();
    let accepted = response.headers().get("accept-encoding").map(|value| value.to_str().unwrap().to_owned());
    let status = response.status();
    let text = response.text().await.unwrap();
    // Of a stream, the summary.
    let last = text.lines().last().unwrap_or("null");
    let mut answer: Value =
        serde_json::from_str(&text).unwrap_or_else(|_| serde_json::from_str(last).unwrap());
    // While the job of `/clusters` builds them, a cluster is pending.
    remove_clusters(&mut answer);
    (status, accepted, answer)
}

fn remove_clusters(answer: &mut Value) {
    match answer {
        Value::Object(fields) => {
            fields.remove("cluster");
            fields.values_mut().for_each(remove_clusters);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_clusters),
        _ => {}
    }
}

/// Sends a request until no job of an earlier one is in its way.
async fn send_when_free(
    server: &Server,
    method: &Method,
    route: &str,
    kind: &str,
    encoding: Option<&str>,
    body: &[u8],
) -> (StatusCode, Option<String>, Value) {
    loop {
        let answer = send(server, method, route, kind, encoding, body.to_vec()).await;
        if answer.2["code"] != "busy" && answer.2["code"] != "reindexing" {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn every_route_takes_compressed_bodies() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let backup = {
        server.stream("/documents", lines(0..100)).await;
        server.get("/collections/default/backup").await.bytes().await.unwrap().to_vec()
    };
    let json = |value: Value| value.to_string().into_bytes();
    let page = format!("<html><body><article><p>{TEXT}</p></article></body></html>");
    let (put, post, kind) = (Method::PUT, Method::POST, "application/json");
    // Without `expected`, the answer equals that to the plain body.
    let routes = |name: &str| {
        vec![
            (&put, "/collections/kept".to_owned(), kind, json(json!({"keep_text": true})), None),
            (&post, "/fingerprint".to_owned(), kind, json(json!({"text": TEXT})), None),
            (&post, "/fingerprint".to_owned(), "text/plain", TEXT.into(), None),
            (&post, "/fingerprint".to_owned(), "text/html", page.clone().into_bytes(), None),
            (&put, "/documents/a".to_owned(), kind, json(json!({"text": TEXT})), None),
            (&put, "/documents/b".to_owned(), kind, json(json!({"text": TEXT})), None),
            (&post, "/documents".to_owned(), kind, json(json!({"id": "c", "text": TEXT})), None),
            (&post, "/documents".to_owned(), kind, json(json!([{"id": "c", "text": TEXT}])), None),
            (&post, "/documents".to_owned(), "application/x-ndjson", lines(0..5_000).into_bytes(), None),
            (&post, "/similar".to_owned(), kind, json(json!({"text": TEXT, "limit": 3})), None),
            (&post, "/compare".to_owned(), kind, json(json!({"a": {"id": "a"}, "b": {"text": TEXT}})), None),
            (&post, "/marks".to_owned(), kind, json(json!({"marks": [{"ids": ["a", "b"]}]})), None),
            (&post, "/clusters".to_owned(), kind, json(json!({"keep": "first"})), None),
            (&post, format!("/collections/{name}/restore"), "application/x-tar", backup.clone(), Some(201)),
            (&post, "/collections/kept/reindex".to_owned(), kind, json(json!({})), Some(202)),
            (&post, "/collections/none/calibrate".to_owned(), kind, json(json!({"seed": 1})), Some(404)),
        ]
    };
    // Twice, so that documents and settings exist already.
    let (mut plain, mut count) = (Vec::new(), 0);
    for round in 0..2 {
        plain.clear();
        for (method, route, kind, body, _) in routes(&format!("plain{round}")) {
            plain.push(send_when_free(&server, method, &route, kind, None, &body).await);
        }
    }
    for encoding in ["gzip", "zstd", "X-Gzip"] {
        for ((method, route, kind, body, expected), plain) in
            routes(&encoding.to_lowercase()).iter().zip(&plain)
        {
            let body = packed(if encoding == "zstd" { "zstd" } else { "gzip" }, &body[..]);
            let answer = send_when_free(&server, method, route, kind, Some(encoding), &body).await;
            match expected {
                Some(status) => assert_eq!(answer.0.as_u16(), *status, "{route} {}", answer.2),
                None => assert_eq!(answer, *plain, "{encoding} {method} {route} {kind}"),
            }
            count += 1;
        }
    }
    assert_eq!(count, 48);
    assert_eq!(server.json("/collections/gzip").await["documents"], 100);
}

#[tokio::test]
async fn limits_count_decompressed_bytes_and_bombs_take_no_memory() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for encoding in ["gzip", "zstd"] {
        let bomb = packed(encoding, std::io::repeat(b'0').take(BOMB));
        assert!(bomb.len() < 6 << 20, "{encoding} {}", bomb.len());
        let refused = [
            ("/documents", "application/json"),
            ("/similar", "application/json"),
            ("/compare", "application/json"),
            ("/fingerprint", "text/plain"),
            ("/fingerprint", "text/html"),
        ];
        for (route, kind) in refused {
            let (status, _, answer) =
                send(&server, &Method::POST, route, kind, Some(encoding), bomb.clone()).await;
            assert_eq!((status.as_u16(), &answer["code"]), (413, &json!("too_large")), "{route} {answer}");
        }
        // One line, which is too long, and a valid one after it.
        let mut stream = packed(encoding, std::io::repeat(b'0').take(BOMB));
        stream.extend(packed(encoding, &b"\n{\"id\":\"a\",\"hash\":\"00000000000000ff\"}\n"[..]));
        let kind = "application/x-ndjson";
        let (status, _, answer) =
            send(&server, &Method::POST, "/documents", kind, Some(encoding), stream).await;
        assert_eq!((status.as_u16(), &answer["summary"]["errors"]), (200, &json!(1)), "{answer}");
        assert_eq!(server.delete("/documents/a").await, StatusCode::NO_CONTENT);
    }
    assert!(memory(&server) < 200_000, "{} kB", memory(&server));
    // Just below and just above a limit, whatever the compressed size is.
    for (bytes, expected) in [(1 << 20, 200), ((1 << 20) + 1, 413)] {
        let text = "ab ".repeat(bytes / 3 + 1);
        let body = packed("gzip", &text.as_bytes()[..bytes]);
        let (status, ..) =
            send(&server, &Method::POST, "/fingerprint", "text/plain", Some("gzip"), body).await;
        assert_eq!(status.as_u16(), expected, "{bytes}");
    }
}

#[tokio::test]
async fn unknown_damaged_and_incomplete_encodings_are_refused() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let body = json!({"id": "a", "text": TEXT}).to_string().into_bytes();
    for encoding in ["br", "deflate", "gzip, zstd", "gzip,gzip", "compress"] {
        let (status, accepted, answer) =
            send(&server, &Method::POST, "/documents", "application/json", Some(encoding), body.clone())
                .await;
        assert_eq!((status.as_u16(), &answer["code"]), (415, &json!("unsupported_encoding")), "{answer}");
        assert_eq!(accepted.as_deref(), Some("gzip, zstd"));
        assert!(answer["detail"].as_str().unwrap().contains("gzip, zstd"), "{answer}");
    }
    let mut gzip_of_gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip_of_gzip.write_all(&packed("gzip", &body[..])).unwrap();
    let twice = gzip_of_gzip.finish().unwrap();
    for encoding in ["gzip", "zstd"] {
        let whole = packed(encoding, &body[..]);
        for kind in ["application/json", "application/x-ndjson"] {
            for bad in [&whole[..whole.len() - 1], &whole[..whole.len() / 2], &whole[..4], &body[..], &twice]
            {
                let (status, _, answer) =
                    send(&server, &Method::POST, "/documents", kind, Some(encoding), bad.to_vec()).await;
                // A stream has begun its answer; its lines have the error.
                let is_refused = status == StatusCode::BAD_REQUEST
                    || (status == StatusCode::OK && answer["summary"]["errors"] != 0);
                assert!(is_refused, "{encoding} {kind} {status} {answer}");
            }
        }
        let (status, _, answer) = send(
            &server,
            &Method::POST,
            "/collections/none/restore",
            "application/x-tar",
            Some(encoding),
            whole[..whole.len() - 2].to_vec(),
        )
        .await;
        assert_eq!((status.as_u16(), &answer["code"]), (400, &json!("malformed_request")), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains(encoding), "{answer}");
    }
    assert_eq!(server.documents().await, 0);
    // Without a body the header has no meaning.
    let request = server.client.get(format!("{}/stats", server.url)).header("content-encoding", "gzip");
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
}
