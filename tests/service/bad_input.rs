//! Invalid requests: each gets a clear 4xx that names the field, and changes nothing.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, directory, ids};

struct Case {
    name: &'static str,
    method: Method,
    route: &'static str,
    kind: &'static str,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
    /// What the detail must contain.
    detail: &'static str,
    /// The expected pointer or parameter; empty if there is none.
    place: &'static str,
}

fn post(
    name: &'static str,
    route: &'static str,
    body: &str,
    expected: (u16, &'static str, &'static str, &'static str),
) -> Case {
    let (status, code, detail, place) = expected;
    Case {
        name,
        method: Method::POST,
        route,
        kind: "application/json",
        body: body.into(),
        status,
        code,
        detail,
        place,
    }
}

fn get(
    name: &'static str,
    route: &'static str,
    expected: (u16, &'static str, &'static str, &'static str),
) -> Case {
    let (status, code, detail, place) = expected;
    Case { name, method: Method::GET, route, kind: "", body: vec![], status, code, detail, place }
}

fn bodies() -> Vec<Case> {
    let deep = format!(
        r#"{{"id":"x","hash":"00000000000000ff","metadata":{}{}}}"#,
        "{\"a\":".repeat(200),
        "1".to_owned() + &"}".repeat(200)
    );
    let wide = format!(r#"{{"hash":"00000000000000ff","metadata":{{"a":"{}"}}}}"#, "x".repeat(20_000));
    let long_id = format!(r#"{{"id":"{}","hash":"00000000000000ff"}}"#, "x".repeat(257));
    vec![
        post(
            "incomplete JSON",
            "/documents",
            r#"{"id": "a", "#,
            (400, "malformed_request", "not valid JSON", ""),
        ),
        post(
            "JSON followed by other text",
            "/documents",
            r#"{"hash":"00000000000000ff"} x"#,
            (400, "malformed_request", "trailing", ""),
        ),
        post(
            "NaN in a member that is not known",
            "/documents",
            r#"{"text": "é", "score": NaN}"#,
            (400, "malformed_request", "NaN is not JSON", ""),
        ),
        post(
            "NaN and its column, in characters",
            "/documents",
            r#"{"text": "é", "score": NaN}"#,
            (400, "malformed_request", "(column 24)", ""),
        ),
        post(
            "infinity in metadata",
            "/documents",
            r#"{"text": "x", "metadata": {"a": -Infinity}}"#,
            (400, "malformed_request", "-Infinity is not JSON", ""),
        ),
        post(
            "half of a character",
            "/documents",
            r#"{"text": "a \ud83d b"}"#,
            (400, "malformed_request", "an escape is half of a character", ""),
        ),
        post(
            "half of a character in a member that is not known",
            "/documents",
            r#"{"text": "x", "other": "\udc00"}"#,
            (422, "unknown_field", "`other`", "/other"),
        ),
        post(
            "half of a character in metadata",
            "/documents",
            r#"{"text": "x", "metadata": {"a": "\ud83d"}}"#,
            (422, "invalid_field", "an escape is half of a character", "/metadata"),
        ),
        post(
            "Python in place of JSON",
            "/similar",
            "{'text': 'x'}",
            (400, "malformed_request", "double quotes", ""),
        ),
        post("no body", "/documents", "", (400, "malformed_request", "it is empty", "")),
        post("a number for a document", "/documents", "7", (422, "invalid_field", "expected an object", "")),
        post(
            "an array instead of a query object",
            "/similar",
            r#"["00000000000000ff", null, null]"#,
            (422, "invalid_field", "expected an object", ""),
        ),
        post(
            "a parameter where the route takes none",
            "/clusters?k=3",
            r#"{"keep": "first"}"#,
            (422, "unknown_field", "no parameters", "k"),
        ),
        post(
            "a wrong type",
            "/documents",
            r#"{"text": 7}"#,
            (422, "invalid_field", "expected a string", "/text"),
        ),
        post(
            "an unknown field",
            "/documents",
            r#"{"text": "x", "titel": "y"}"#,
            (422, "unknown_field", "`titel`", "/titel"),
        ),
        post(
            "a field twice",
            "/documents",
            r#"{"hash":"00000000000000ff","hash":"00000000000000fe"}"#,
            (422, "invalid_field", "duplicate field `hash`", ""),
        ),
        post(
            "a hash as a number",
            "/documents",
            r#"{"hash": 255}"#,
            (422, "invalid_field", "many programs round numbers", "/hash"),
        ),
        post(
            "a huge number as a hash",
            "/documents",
            r#"{"hash": 18446744073709551616000}"#,
            (422, "invalid_field", "many programs round numbers", "/hash"),
        ),
        post(
            "a short hash",
            "/documents",
            r#"{"hash": "ff"}"#,
            (422, "invalid_field", "16 hexadecimal digits", "/hash"),
        ),
        post(
            "a hash with a wrong digit",
            "/documents",
            r#"{"hash": "00000000000000zz"}"#,
            (422, "invalid_field", "character 15", "/hash"),
        ),
        post(
            "a hash of another width",
            "/documents",
            r#"{"hash": "000000000000000000000000000000ff"}"#,
            (422, "invalid_field", "128 bits", "/hash"),
        ),
        post(
            "metadata with a duplicate name",
            "/documents",
            r#"{"hash":"00000000000000ff","metadata":{"a":{"b":1,"b":2}}}"#,
            (422, "invalid_field", "\"b\" stands twice", "/metadata"),
        ),
        post(
            "metadata with a lone surrogate",
            "/documents",
            r#"{"hash":"00000000000000ff","metadata":{"a":"\ud800"}}"#,
            (422, "invalid_field", "metadata cannot be kept", "/metadata"),
        ),
        post(
            "a filter with a duplicate name",
            "/similar",
            r#"{"hash":"00000000000000ff","filter":{"metadata":{"a":1,"a":2}}}"#,
            (422, "invalid_field", "stands twice", "/filter/metadata"),
        ),
        post(
            "a filter with a number past 2^64",
            "/similar",
            r#"{"hash":"00000000000000ff","filter":{"metadata":{"a":18446744073709551616}}}"#,
            (422, "invalid_field", "as a string", "/filter/metadata"),
        ),
        post(
            "an empty text",
            "/documents",
            r#"{"text": ""}"#,
            (422, "empty_text", "text has no word", "/text"),
        ),
        post(
            "a page without a word",
            "/documents",
            r#"{"html": "<p>!</p>"}"#,
            (422, "empty_text", "html has no word", "/html"),
        ),
        post(
            "a comparison with one side",
            "/compare",
            r#"{"a": {"text": "a b c"}}"#,
            (422, "invalid_field", "/docs has the form of each body", "/b"),
        ),
        post(
            "a text of punctuation",
            "/documents",
            r#"{"text": " ... \n "}"#,
            (422, "empty_text", "no word", "/text"),
        ),
        post(
            "an id with a newline",
            "/documents",
            r#"{"id": "a\nb", "hash": "00000000000000ff"}"#,
            (422, "invalid_field", "U+000A at byte 1", "/id"),
        ),
        post(
            "an empty id",
            "/documents",
            r#"{"id": "", "hash": "00000000000000ff"}"#,
            (422, "invalid_field", "1 to 256 bytes", "/id"),
        ),
        post("a long id", "/documents", &long_id, (422, "invalid_field", "this one has 257", "/id")),
        post(
            "nothing to fingerprint",
            "/documents",
            "{}",
            (422, "invalid_field", "exactly one of text, html, image, hash and signature", ""),
        ),
        post(
            "metadata that is no object",
            "/documents",
            r#"{"hash": "00000000000000ff", "metadata": [1]}"#,
            (422, "invalid_field", "JSON object", "/metadata"),
        ),
        post("too much metadata", "/documents", &wide, (422, "invalid_field", "at most 16384", "/metadata")),
        post(
            "metadata nested too deep",
            "/documents",
            &deep,
            (422, "invalid_field", "metadata", "/metadata"),
        ),
        post(
            "an unknown parameter",
            "/documents?on_dupe=skip",
            r#"{"hash":"00000000000000ff"}"#,
            (422, "unknown_field", "`on_dupe`", "on_dupe"),
        ),
        post(
            "k without skip",
            "/documents?k=3",
            r#"{"hash":"00000000000000ff"}"#,
            (422, "invalid_field", "on_duplicate=skip", "k"),
        ),
        post(
            "k out of range",
            "/documents?on_duplicate=skip&k=65",
            r#"{"hash":"00000000000000ff"}"#,
            (422, "invalid_field", "0 to 64", "k"),
        ),
        post(
            "a missing collection",
            "/collections/none/documents",
            r#"{"hash":"00000000000000ff"}"#,
            (404, "no_collection", "PUT /collections/none", ""),
        ),
        post(
            "a collection name that is a path",
            "/collections/..%2Fx/documents",
            r#"{"hash":"00000000000000ff"}"#,
            (422, "invalid_field", "a-z", "collection"),
        ),
        post(
            "k out of range in a query",
            "/similar",
            r#"{"hash":"00000000000000ff","k":65}"#,
            (422, "invalid_field", "0 to 64", "/k"),
        ),
        post(
            "a negative k",
            "/similar",
            r#"{"hash":"00000000000000ff","k":-1}"#,
            (422, "invalid_field", "invalid value: integer `-1`", "/k"),
        ),
        post(
            "a duplicate field",
            "/documents",
            r#"{"id":"a","id":"b","hash":"00000000000000ff"}"#,
            (422, "invalid_field", "duplicate field `id` (column 14)", "/id"),
        ),
        post(
            "no subject in a query",
            "/similar",
            "{}",
            (422, "invalid_field", "exactly one of hash, signature, text, html, image and id", ""),
        ),
        post(
            "two subjects in a query",
            "/similar",
            r#"{"hash":"00000000000000ff","id":"kept"}"#,
            (422, "invalid_field", "exactly one of", ""),
        ),
        post(
            "a wrong time",
            "/similar",
            r#"{"hash":"00000000000000ff","filter":{"written_from":"yesterday"}}"#,
            (422, "invalid_field", "2026-", "/filter/written_from"),
        ),
        post(
            "an unknown profile",
            "/fingerprint",
            r#"{"text":"x","profile":"best"}"#,
            (422, "no_profile", "copies-64@1", "/profile"),
        ),
        post(
            "explain with several texts",
            "/batch/fingerprint",
            r#"{"texts":["x"],"explain":true}"#,
            (422, "unknown_field", "`explain`", "/explain"),
        ),
        post(
            "several texts where one is due",
            "/fingerprint",
            r#"{"texts":["x"]}"#,
            (422, "unknown_field", "`texts`", "/texts"),
        ),
        post(
            "an array of documents where one is due",
            "/documents",
            r#"[{"hash":"00000000000000ff"}]"#,
            (422, "invalid_field", "POST /batch/documents", ""),
        ),
        post(
            "queries where one is due",
            "/similar",
            r#"{"queries":[]}"#,
            (422, "unknown_field", "`queries`", "/queries"),
        ),
        post(
            "queries with a field of a query",
            "/batch/similar",
            r#"{"queries":[],"k":3}"#,
            (422, "unknown_field", "`k`", "/k"),
        ),
        post(
            "a filter with an unknown operator",
            "/similar",
            r#"{"hash":"00000000000000ff","filter":{"metadata":{"n":{"above":2}}}}"#,
            (422, "invalid_field", "gt, gte, lt, lte", "/filter/metadata"),
        ),
        post(
            "a filter with a bound that does not compare",
            "/similar",
            r#"{"hash":"00000000000000ff","filter":{"metadata":{"n":{"gt":"soon"}}}}"#,
            (422, "invalid_field", "a number or a time", "/filter/metadata"),
        ),
        post(
            "a lone surrogate",
            "/fingerprint",
            r#"{"text":"\ud800"}"#,
            (400, "malformed_request", "half of a character", ""),
        ),
    ]
}

#[tokio::test]
async fn the_invalid_query_of_a_batch_is_named_at_any_position() {
    let directory = directory();
    let server = Server::start(directory.path()).await;
    let right = json!({"hash": "00000000000000ff", "k": 3});
    let wrong = json!({"hash": "00000000000000ff", "k": 99});
    // Only cheap lookups, which run on the thread of the request; a lookup by text; and an expensive lookup.
    let others =
        [right, json!({"text": "a few words of a text"}), json!({"hash": "00000000000000ff", "k": 40})];
    for (other, place) in
        others.iter().flat_map(|other| [0, 7, 8, 63, 64, 65, 299].map(|place| (other, place)))
    {
        let mut queries = vec![others[0].clone(); 300];
        (queries[150], queries[place]) = (other.clone(), wrong.clone());
        let (_, batch) = server.post("/batch/similar", json!({"queries": queries})).await;
        let problem = &batch["results"][place]["error"];
        assert_eq!(problem["errors"][0]["pointer"], format!("/queries/{place}/k"), "{other} {problem}");
    }
}

fn queries() -> Vec<Case> {
    vec![
        get("k out of range", "/similar?hash=00000000000000ff&k=65", (422, "invalid_field", "0 to 64", "k")),
        get(
            "k that is no number",
            "/similar?hash=00000000000000ff&k=three",
            (422, "invalid_field", "a whole number", "k"),
        ),
        get("bytes that are no UTF-8", "/similar?text=%C4%E3%BA%C3", (422, "invalid_field", "UTF-8", "text")),
        get(
            "a parameter of another route",
            "/documents/kept?dry_run=1",
            (422, "unknown_field", "`dry_run`", "dry_run"),
        ),
        get(
            "two subjects in the query",
            "/similar?hash=00000000000000ff&text=a",
            (422, "invalid_field", "exactly one of hash, signature, text and id is needed;", ""),
        ),
        get(
            "a k below 0",
            "/similar?hash=00000000000000ff&k=-1",
            (422, "invalid_field", "a whole number", "k"),
        ),
        get("a wrong hash", "/similar?hash=xyz", (422, "invalid_field", "not a hexadecimal digit", "hash")),
        get(
            "a hash of another width",
            "/similar?hash=000000000000000000000000000000ff",
            (422, "invalid_field", "128 bits", "hash"),
        ),
        get(
            "an unknown parameter",
            "/similar?hash=00000000000000ff&radius=3",
            (422, "unknown_field", "`radius`", "radius"),
        ),
        get(
            "a filter that is no JSON",
            "/similar?hash=00000000000000ff&filter=source:rss",
            (422, "invalid_field", "filter is JSON such as", "filter"),
        ),
        get(
            "a filter with an unknown operator in the query",
            "/similar?hash=00000000000000ff&filter=%7B%22metadata%22:%7B%22n%22:%7B%22x%22:1%7D%7D%7D",
            (422, "invalid_field", "gt, gte, lt, lte", "filter"),
        ),
        get(
            "a limit of 0",
            "/similar?hash=00000000000000ff&limit=0",
            (422, "invalid_field", "1 to 1000", "limit"),
        ),
        get(
            "too high a limit",
            "/similar?hash=00000000000000ff&limit=1001",
            (422, "invalid_field", "1 to 1000", "limit"),
        ),
        get(
            "a made-up cursor",
            "/similar?hash=00000000000000ff&cursor=abc",
            (422, "invalid_cursor", "for the first page", "cursor"),
        ),
        get(
            "an unknown value of verify",
            "/similar?hash=00000000000000ff&verify=trust",
            (422, "invalid_field", "`scan`", "verify"),
        ),
        get("an empty text", "/similar?text=%20", (422, "empty_text", "no word", "text")),
        get("an unknown document", "/similar?id=none", (404, "no_document", "\"none\"", "")),
        get(
            "an unknown document's neighbours",
            "/documents/none/similar",
            (404, "no_document", "\"none\"", ""),
        ),
        get("an unknown document", "/documents/none", (404, "no_document", "\"none\"", "")),
        get(
            "a missing collection",
            "/collections/none/similar?hash=00000000000000ff",
            (404, "no_collection", "none", ""),
        ),
        get("an unknown route", "/nothing", (404, "route_not_found", "GET /nothing", "")),
        Case {
            method: Method::DELETE,
            ..get("a method of another route", "/similar", (405, "method_not_allowed", "DELETE", ""))
        },
        Case {
            method: Method::PUT,
            kind: "application/json",
            body: br#"{"id":"b","hash":"00000000000000ff"}"#.to_vec(),
            ..get("two ids", "/documents/a", (422, "invalid_field", "differs", "/id"))
        },
        Case {
            method: Method::PUT,
            kind: "application/json",
            body: br#"{"profile":"copies-128"}"#.to_vec(),
            ..get("another profile", "/collections/default", (409, "settings_conflict", "copies-64@1", ""))
        },
        Case {
            method: Method::PUT,
            kind: "application/json",
            body: br#"{"k":65}"#.to_vec(),
            ..get("k out of range", "/collections/new", (422, "invalid_field", "0 to 64", "/k"))
        },
        Case {
            kind: "text/plain",
            ..post(
                "another type",
                "/documents",
                "x",
                (415, "unsupported_media_type", "application/x-ndjson", ""),
            )
        },
        Case {
            kind: "application/json; charset=gbk",
            ..post("another charset", "/fingerprint", "x", (415, "unsupported_media_type", "UTF-8", ""))
        },
        Case {
            kind: "text/plain",
            body: vec![b'a', 0xff, 0xfe],
            ..post("bytes that are no text", "/fingerprint", "", (400, "malformed_request", "byte 1", ""))
        },
        Case {
            body: [br#"{"text":""#.as_slice(), &[0xc3, 0x28], br#""}"#].concat(),
            ..post(
                "JSON that is no UTF-8",
                "/documents",
                "",
                (400, "malformed_request", "not valid JSON", ""),
            )
        },
    ]
}

#[tokio::test]
async fn a_compressed_body_without_its_encoding_is_named() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let line = b"{\"id\": \"a\", \"text\": \"some words of a text\"}\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, &line.repeat(200)).unwrap();
    let zstd = zstd::encode_all(&line[..], 1).unwrap();
    for (body, name) in [(gzip.finish().unwrap(), "gzip"), (zstd, "zstd")] {
        for (route, kind) in [
            ("/documents", "application/json"),
            ("/documents", "application/x-ndjson"),
            ("/batch/documents", "application/json"),
            ("/similar", "application/json"),
            ("/fingerprint", "text/plain"),
            ("/fingerprint", "text/html"),
            ("/compare", "application/json"),
        ] {
            let request = server.client.post(format!("{}{route}", server.url)).header("content-type", kind);
            let answer = request.body(body.clone()).send().await.unwrap();
            assert_eq!(answer.status(), 400, "{route} {kind} {name}");
            let problem: Value = answer.json().await.unwrap();
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(&format!("compressed with {name}")), "{problem}");
            assert!(detail.contains(&format!("Content-Encoding: {name}")), "{problem}");
        }
        // A stream of unknown length is answered line by line, and no line is called bad JSON.
        let parts = body.chunks(7).map(|part| Ok::<_, std::io::Error>(part.to_vec())).collect::<Vec<_>>();
        let request = server.client.post(format!("{}/documents", server.url));
        let request = request.header("content-type", "application/x-ndjson");
        let request = request.body(reqwest::Body::wrap_stream(futures::stream::iter(parts)));
        let answer = request.send().await.unwrap().text().await.unwrap();
        let (last, errors) = answer.trim_end().rsplit_once('\n').unwrap_or((&answer, ""));
        assert!(answer.contains(&format!("compressed with {name}")), "{answer}");
        assert!(!answer.contains("not valid JSON"), "{last} {errors}");
    }
    assert_eq!(server.json("/collections/default").await["documents"], 0);
}

#[tokio::test]
async fn a_body_of_settings_may_be_absent() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let put = |name: &str| server.client.put(format!("{}/collections/{name}", server.url));
    for (number, request) in [
        put("c0"),
        put("c1").header("content-length", "0"),
        put("c2").header("content-type", "application/json"),
        put("c3").json(&json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 201, "{number}");
        let made: Value = answer.json().await.unwrap();
        assert_eq!(made["profile"], "copies-64@1", "{made}");
    }
    // A second one changes nothing.
    server.put("/collections/c0", json!({"k": 5})).await;
    let answer = put("c0").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json::<Value>().await.unwrap()["k"], 5);
    // A body without its type is refused as before, and a collection that keeps no texts cannot be reindexed.
    assert_eq!(put("c9").body("{}").send().await.unwrap().status(), 415);
    let reindex = server.client.post(format!("{}/collections/c0/reindex", server.url));
    let refused: Value = reindex.send().await.unwrap().json().await.unwrap();
    assert_eq!(refused["code"], "no_texts", "{refused}");
    // Where members are needed, an empty body is named.
    let (kind, empty) = ("content-type", "it is empty");
    for route in ["/similar", "/compare", "/documents", "/clusters", "/marks", "/deletions"] {
        let request = server.client.post(format!("{}{route}", server.url)).header(kind, "application/json");
        let problem: Value = request.send().await.unwrap().json().await.unwrap();
        assert!(problem["detail"].as_str().unwrap().contains(empty), "{route}: {problem}");
    }
}

async fn send(server: &Server, case: &Case) -> (StatusCode, String, Value) {
    let mut request = server.client.request(case.method.clone(), format!("{}{}", server.url, case.route));
    if !case.kind.is_empty() {
        request = request.header("content-type", case.kind).body(case.body.clone());
    }
    let response = request.send().await.unwrap();
    assert!(response.headers().contains_key("x-request-id"), "{}", case.name);
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    (response.status(), kind, response.json().await.unwrap())
}

#[tokio::test]
async fn every_bad_request_gets_a_clear_answer_and_changes_nothing() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.post("/documents", json!({"id": "kept", "hash": "00000000000000f0"})).await;
    for case in bodies().into_iter().chain(queries()) {
        let name = case.name;
        let (status, kind, problem) = send(&server, &case).await;
        assert_eq!(status.as_u16(), case.status, "{name}: {problem}");
        assert_eq!(kind, "application/problem+json", "{name}");
        assert_eq!(problem["status"], case.status, "{name}");
        assert_eq!(problem["code"], case.code, "{name}: {problem}");
        assert_eq!(problem["type"], format!("/docs/errors#{}", case.code), "{name}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(case.detail), "{name}: {detail}");
        if !case.place.is_empty() {
            let field = &problem["errors"][0];
            let place = field["pointer"].as_str().or(field["parameter"].as_str());
            assert_eq!(place, Some(case.place), "{name}: {problem}");
        }
        assert_eq!(server.documents().await, 1, "{name}");
    }
    assert_eq!(ids(&server.json("/similar?hash=00000000000000f0&k=0").await), ["kept"]);
    assert_eq!(server.json("/collections").await["collections"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_body_of_100_megabytes_is_refused_before_it_is_read() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let body = || format!(r#"{{"text":"{}"}}"#, "x".repeat(100 << 20));
    let request =
        server.client.post(format!("{}/documents", server.url)).header("content-type", "application/json");
    // The server answers and closes the connection; a client that is still sending sees either the answer
    // or an error.
    if let Ok(response) = request.body(body()).send().await {
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["code"], "too_large");
        assert!(problem["detail"].as_str().unwrap().contains("1048576"), "{problem}");
    }
    let memory = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap_or_default();
    let peak = memory
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    assert!(peak.is_none_or(|kilobytes| kilobytes < 150 * 1024), "peak memory {peak:?} kB");
    // Without a Content-Length the server stops reading at the limit.
    let pieces = (0..100).map(|_| Ok::<_, std::io::Error>("x".repeat(1 << 20)));
    let chunked = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
    let request =
        server.client.post(format!("{}/fingerprint", server.url)).header("content-type", "text/plain");
    if let Ok(response) = request.body(chunked).send().await {
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(server.documents().await, 0);
    assert_eq!(server.get("/readyz").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn hostile_pages_and_texts_do_not_affect_the_server() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let bodies = [
        "<div>".repeat(100_000) + "deep text in the middle of it all",
        "<".repeat(200_000),
        "<table>".repeat(20_000),
        "<p>a &amp;".repeat(50_000),
        "<!--".repeat(50_000),
        format!("<p>{}</p>", "\u{202e}\u{200b}\u{feff}".repeat(1_000)),
    ];
    for body in bodies {
        let start: String = body.chars().take(20).collect();
        let (status, answer) = server.post("/fingerprint", json!({"html": body})).await;
        assert_eq!(status, StatusCode::OK, "{start}: {answer}");
    }
    for text in [
        "\u{0}\u{1}\u{2}",
        "🙂🙂🙂",
        "a".repeat(1_000_000).as_str(),
        "字".repeat(300_000).as_str(),
        "\u{fdfa}".repeat(50_000).as_str(),
    ] {
        let (status, answer) = server.post("/fingerprint", json!({"text": text})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    assert_eq!(server.get("/readyz").await.status(), StatusCode::OK);
}
