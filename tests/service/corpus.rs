//! Invalid and unusual JSON, sent to every route that reads JSON. The server answers with a clear 4xx or a
//! result, never with a 5xx, and its memory stays below a limit.

use reqwest::StatusCode;
use serde_json::Value;

use crate::server::{Server, directory};

/// Bodies that are not valid JSON.
fn invalid() -> Vec<(&'static str, Vec<u8>)> {
    let text = |what, text: &str| (what, text.as_bytes().to_vec());
    let bytes = |what, bytes: &[u8]| (what, [br#"{"text":""#, bytes, br#""}"#].concat());
    vec![
        text("nothing", ""),
        text("white space", " \t\r\n "),
        text("an open object", "{"),
        text("an open array", "["),
        text("an open string", r#"{"text":"a"#),
        text("an open escape", r#"{"text":"\"#),
        text("two values", "{} {}"),
        text("a trailing comma", r#"{"text":"a",}"#),
        text("a leading comma", r#"{,"text":"a"}"#),
        text("no comma", r#"{"text":"a" "id":"b"}"#),
        text("no colon", r#"{"text" "a"}"#),
        text("two colons", r#"{"text"::"a"}"#),
        text("a name without quotes", r#"{text:"a"}"#),
        text("single quotes", "{'text':'a'}"),
        text("a comment", r#"{"text":"a"/* b */}"#),
        text("a number as a name", r#"{1:"a"}"#),
        text("a capitalised literal", r#"{"text":True}"#),
        text("NaN", r#"{"text":NaN}"#),
        text("Infinity", r#"{"text":-Infinity}"#),
        text("a number with a plus", r#"{"k":+1}"#),
        text("a number with a leading zero", r#"{"k":01}"#),
        text("a number that ends in its point", r#"{"k":1.}"#),
        text("a number that begins with its point", r#"{"k":.1}"#),
        text("a hexadecimal number", r#"{"k":0x1}"#),
        text("an exponent without digits", r#"{"k":1e}"#),
        text("a tab in a string", "{\"text\":\"a\tb\"}"),
        text("a new line in a string", "{\"text\":\"a\nb\"}"),
        text("a NUL in a string", "{\"text\":\"a\0b\"}"),
        text("an unknown escape", r#"{"text":"\x41"}"#),
        text("a short escape", r#"{"text":"\u00"}"#),
        text("an escape that is no number", r#"{"text":"\u00zz"}"#),
        text("a lone high surrogate", r#"{"text":"\ud83d"}"#),
        text("a lone low surrogate", r#"{"text":"\udc00"}"#),
        text("two high surrogates", r#"{"text":"\ud83d\ud83d"}"#),
        text("a high surrogate and a letter", r#"{"text":"\ud83da"}"#),
        text("a byte order mark in the middle", "{\u{feff}\"text\":\"a\"}"),
        text("a vertical tab between", "{\u{b}\"text\":\"a\"}"),
        text("a no-break space between", "{\u{a0}\"text\":\"a\"}"),
        bytes("a byte that is never UTF-8", b"\xff"),
        bytes("an incomplete character", b"\xe4\xb8"),
        bytes("an overlong character", b"\xc0\xaf"),
        bytes("a surrogate in UTF-8", b"\xed\xa0\x80"),
        bytes("a character past the last", b"\xf4\x90\x80\x80"),
        ("UTF-16", "\u{feff}{\"text\":\"a\"}".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("a hundred thousand open arrays", b"[".repeat(100_000)),
        ("a hundred thousand open objects", br#"{"a":"#.repeat(100_000)),
        ("arrays nested a hundred thousand deep", [b"[".repeat(100_000), b"]".repeat(100_000)].concat()),
        (
            "metadata nested ten thousand deep",
            [
                br#"{"hash":"00000000000000ff","metadata":"#.to_vec(),
                br#"{"a":"#.repeat(10_000),
                b"1".to_vec(),
                b"}".repeat(10_001),
            ]
            .concat(),
        ),
    ]
}

/// Valid JSON that no route expects.
fn unexpected() -> Vec<(&'static str, Vec<u8>)> {
    let text = |what, text: &str| (what, text.as_bytes().to_vec());
    vec![
        text("null", "null"),
        text("a string", "\"text\""),
        text("a number", "1e400"),
        text("true", "true"),
        text("an array of nulls", "[null, null]"),
        text("an array of arrays", "[[[[]]]]"),
        text("an empty name", r#"{"":1}"#),
        text("a name of NULs", r#"{"\u0000":1}"#),
        text("a field twice", r#"{"text":"a","text":"b"}"#),
        text("a field twice, once escaped", r#"{"text":"a","\u0074ext":"b"}"#),
        text("nulls for everything", r#"{"id":null,"text":null,"html":null,"hash":null,"metadata":null}"#),
        text("a text of objects", r#"{"text":{"a":"b"}}"#),
        text("an id of numbers", r#"{"id":7,"text":"a"}"#),
        text("k past 2^32", r#"{"hash":"00000000000000ff","k":4294967296}"#),
        text("k past 2^64", r#"{"hash":"00000000000000ff","k":18446744073709551616}"#),
        text(
            "k of a thousand digits",
            &format!(r#"{{"hash":"00000000000000ff","k":{}}}"#, "9".repeat(1_000)),
        ),
        text("k with a point", r#"{"hash":"00000000000000ff","k":3.0}"#),
        text("k as a string", r#"{"hash":"00000000000000ff","k":"3"}"#),
        text("k below zero", r#"{"hash":"00000000000000ff","k":-0}"#),
        text("a limit past 2^64", r#"{"hash":"00000000000000ff","limit":1e30}"#),
        text("a hash with a minus", r#"{"hash":"-0000000000000ff"}"#),
        text("a hash in full-width digits", r#"{"hash":"００００００００００００００ff"}"#),
        text("metadata of an array", r#"{"hash":"00000000000000ff","metadata":[]}"#),
        text(
            "a time in the year 0",
            r#"{"hash":"00000000000000ff","filter":{"written_from":"0000-01-01T00:00:00Z"}}"#,
        ),
        text(
            "a time past the largest",
            r#"{"hash":"00000000000000ff","filter":{"written_before":"99999-01-01T00:00:00Z"}}"#,
        ),
        text("a cursor of nonsense", r#"{"hash":"00000000000000ff","cursor":"\u0000'; DROP TABLE"}"#),
        text("a path as a profile", r#"{"text":"a","profile":"../../etc/passwd"}"#),
        text("no queries", r#"{"queries":[]}"#),
        text("queries that are not objects", r#"{"queries":[null,1,"a",[],{}]}"#),
        text("queries in a query", r#"{"queries":[{"queries":[]}]}"#),
        ("a name of a megabyte", format!(r#"{{"{}":1}}"#, "n".repeat(1_000_000)).into_bytes()),
        ("a hundred thousand fields", {
            let fields: Vec<String> = (0..100_000).map(|i| format!("\"f{i}\":{i}")).collect();
            format!("{{{}}}", fields.join(",")).into_bytes()
        }),
        ("a million commas", [b"[".to_vec(), b"0,".repeat(1_000_000), b"0]".to_vec()].concat()),
    ]
}

const ROUTES: [(&str, &str); 10] = [
    ("POST", "/documents"),
    ("POST", "/batch/documents"),
    ("POST", "/preview/documents"),
    ("POST", "/batch/similar"),
    ("POST", "/batch/fingerprint"),
    ("PUT", "/documents/corpus"),
    ("POST", "/similar"),
    ("POST", "/fingerprint"),
    ("PUT", "/collections/corpus"),
    ("POST", "/collections/default/similar"),
];

async fn send(server: &Server, (method, route): (&str, &str), body: Vec<u8>) -> (StatusCode, Value) {
    let request = server.client.request(method.parse().unwrap(), format!("{}{route}", server.url));
    let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{route}: {error}: {text}")))
}

pub fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn invalid_and_unexpected_json_gets_a_clear_answer_on_every_route() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let rust_terms = ["u32", "u64", "usize", "i64", "struct ", "enum ", "DocumentIn", "Option<", "::"];
    for (is_invalid, cases) in [(true, invalid()), (false, unexpected())] {
        for (what, body) in cases {
            for route in ROUTES {
                let (status, answer) = send(&server, route, body.clone()).await;
                assert!(!status.is_server_error(), "{what} to {route:?}: {status} {answer}");
                // A route that takes arrays may answer a body that is no document as an array of invalid
                // documents.
                let is_error = |result: &Value| result.get("error").is_some();
                let all_fail =
                    answer["results"].as_array().is_some_and(|results| results.iter().all(is_error));
                let fails_alone = answer["summary"]["created"] == 0 || all_fail;
                // All settings of a collection may be left out.
                let is_default = what == "nothing" && route.1 == "/collections/corpus";
                if is_invalid && !fails_alone && !is_default {
                    assert!(
                        matches!(status.as_u16(), 400 | 413 | 422),
                        "{what} to {route:?}: {status} {answer}"
                    );
                }
                if status.is_client_error() {
                    let detail = answer["detail"].as_str().unwrap();
                    let found = rust_terms.iter().find(|word| detail.contains(**word));
                    assert_eq!(found, None, "{what} to {route:?}: {detail}");
                    assert!(detail.len() < 2_000_000, "{what} to {route:?}");
                }
            }
        }
    }
    let lines: Vec<u8> = invalid()
        .into_iter()
        .chain(unexpected())
        .flat_map(|(_, body)| {
            let line: Vec<u8> = body.into_iter().filter(|byte| *byte != b'\n').collect();
            [line, b"\n".to_vec()].concat()
        })
        .collect();
    let request = server
        .client
        .post(format!("{}/documents", server.url))
        .header("content-type", "application/x-ndjson");
    let text = request.body(lines).send().await.unwrap().text().await.unwrap();
    let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(summary["summary"]["errors"].as_u64().unwrap() > 60, "{summary}");
    assert!(!text.contains("\"internal\""), "{text}");
    assert_eq!(server.get("/readyz").await.status(), StatusCode::OK);
    assert!(memory(&server) < 250_000, "{} kB", memory(&server));
}

#[tokio::test]
async fn a_byte_order_mark_before_json_is_skipped() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let marked = |text: &str| format!("\u{feff}{text}").into_bytes();
    let (status, _) =
        send(&server, ("POST", "/documents"), marked(r#"{"id":"a","hash":"00000000000000ff"}"#)).await;
    assert_eq!(status, StatusCode::CREATED);
    let (_, array) =
        send(&server, ("POST", "/batch/documents"), marked(r#" [{"id":"b","hash":"00000000000000fe"}]"#))
            .await;
    assert_eq!(array["summary"]["created"], 1);
    let lines = "\u{feff}{\"id\":\"c\",\"hash\":\"00000000000000fd\"}\r\n\
                 {\"id\":\"d\",\"hash\":\"00000000000000fc\"}\r\n";
    let (_, summary) = server.stream("/documents", lines.to_owned()).await;
    assert_eq!(summary["created"], 2);
}

#[tokio::test]
async fn queries_whose_answers_would_be_too_large_fail_alone() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let metadata = serde_json::json!({ "m": "x".repeat(15_000) });
    let line = |i: u64| {
        let (id, hash) = (format!("{i:05}"), format!("{i:016x}"));
        serde_json::json!({"id": id, "hash": hash, "metadata": metadata})
    };
    let lines: String = (0..1_000u64).map(|i| format!("{}\n", line(i))).collect();
    server.stream("/documents", lines).await;
    let queries: Vec<Value> =
        (0..20).map(|_| serde_json::json!({"hash": "0000000000000000", "k": 64, "limit": 1000})).collect();
    let (status, batch) = server.post("/batch/similar", serde_json::json!({"queries": queries})).await;
    let results = batch["results"].as_array().unwrap();
    assert_eq!((status.as_u16(), results.len()), (200, 20));
    assert!(results[0]["next"].is_string(), "a page ends where its metadata is enough");
    let problem = &results[19]["error"];
    assert_eq!(problem["errors"][0]["pointer"], "/queries/19/limit", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("8388608 bytes"), "{problem}");
    assert!(batch.to_string().len() < 10 << 20);
    // Twenty answers of 15 MB each would take 300 MB.
    assert!(memory(&server) < 350_000, "{} kB", memory(&server));
}
