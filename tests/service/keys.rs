//! Keys: every route with every kind of key; keys created and revoked while the server runs; no key in the
//! log.

use std::path::Path;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, command, directory};

/// Creates a key on the command line and returns its secret.
fn create(data: &Path, name: &str, arguments: &[&str]) -> String {
    let data = data.to_str().unwrap();
    let all = [&["keys", "create", name, "--data", data], arguments].concat();
    let output = command(&all).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A route and the letters of the keys that may use it: `r`(ead), `w`(rite) and `a`(dmin) for all
/// collections, `R`, `W` and `A` for `news` only, `-` for requests without a key, `?` for any key.
struct Route {
    method: Method,
    path: &'static str,
    body: Option<Value>,
    kind: &'static str,
    allowed: &'static str,
}

fn routes() -> Vec<Route> {
    let route = |method, path, allowed| Route { method, path, body: None, kind: "application/json", allowed };
    let post = |path, body, allowed| Route { body: Some(body), ..route(Method::POST, path, allowed) };
    let put = |path, body, allowed| Route { body: Some(body), ..route(Method::PUT, path, allowed) };
    let document = || json!({"id": "kept", "hash": "00000000000000ff"});
    let bare = || json!({"hash": "00000000000000ff"});
    let mut routes = vec![
        route(Method::GET, "/", "-?"),
        route(Method::GET, "/livez", "-?"),
        route(Method::GET, "/readyz", "-?"),
        route(Method::GET, "/docs/", "-?"),
        route(Method::GET, "/docs/errors", "-?"),
        route(Method::GET, "/openapi.json", "-?"),
        route(Method::GET, "/openapi.yaml", "-?"),
        route(Method::GET, "/version", "?"),
        route(Method::GET, "/profiles", "?"),
        route(Method::GET, "/key", "?"),
        route(Method::GET, "/collections", "?"),
        post("/fingerprint", json!({"text": "some words of a text"}), "?"),
        post("/batch/fingerprint", json!({}), "?"),
        post("/preview/parquet", json!({}), "?"),
        route(Method::GET, "/metrics", "rwa"),
        route(Method::GET, "/snapshots", "a"),
        route(Method::POST, "/snapshots", "a"),
        route(Method::GET, "/replicas", "rwa"),
        route(Method::POST, "/replicas/hint?position=1", "rwa"),
        route(Method::GET, "/nothing", "a"),
        route(Method::GET, "/collections/news", "rwaRWA"),
        put("/collections/news", json!({}), "aA"),
        put("/collections/other", json!({}), "a"),
        route(Method::DELETE, "/collections/other", "a"),
        route(Method::GET, "/collections/n%65ws/export", "rwaRWA"),
        route(Method::GET, "/collections/news/calibrate", "rwaRWA"),
        route(Method::GET, "/collections/news/reindex", "rwaRWA"),
        route(Method::GET, "/collections/news/weights", "rwaRWA"),
        route(Method::PUT, "/collections/news/weights", "aA"),
        route(Method::GET, "/collections/news/shared-hashes", "rwaRWA"),
        route(Method::GET, "/collections/news/backup", "aA"),
        route(Method::POST, "/collections/news/restore", "aA"),
        post("/collections/news/calibrate", json!({}), "aA"),
        post("/collections/news/reindex", json!({}), "aA"),
        route(Method::DELETE, "/collections/news/reindex", "aA"),
        route(Method::DELETE, "/collections/news/calibrate", "aA"),
        route(Method::GET, "/collections/..%2Fnews/export", "rwa"),
    ];
    let of_collection = [
        (Method::POST, "/documents", Some(document()), "write"),
        (Method::GET, "/documents/kept", None, "read"),
        (Method::HEAD, "/documents/kept", None, "read"),
        (Method::GET, "/documents/kept/cluster", None, "read"),
        (Method::GET, "/documents/kept/thumbnail", None, "read"),
        (Method::PUT, "/documents/kept", Some(bare()), "write"),
        (Method::PATCH, "/documents/kept", Some(json!({})), "write"),
        (Method::GET, "/documents", None, "read"),
        (Method::POST, "/batch/documents", Some(json!({})), "write"),
        (Method::POST, "/preview/documents", Some(json!({})), "read"),
        (Method::GET, "/documents/kept/similar", None, "read"),
        (Method::GET, "/similar?hash=00000000000000ff", None, "read"),
        (Method::POST, "/similar", Some(bare()), "read"),
        (Method::POST, "/batch/similar", Some(json!({})), "read"),
        (Method::POST, "/compare", Some(json!({})), "read"),
        (Method::GET, "/pairs", None, "read"),
        (Method::GET, "/marks", None, "read"),
        (Method::POST, "/marks", Some(json!({})), "write"),
        (Method::DELETE, "/marks", None, "write"),
        (Method::GET, "/clusters", None, "read"),
        (Method::GET, "/clusters/none", None, "read"),
        (Method::POST, "/clusters", Some(json!({})), "admin"),
        (Method::DELETE, "/clusters", None, "admin"),
        (Method::GET, "/deletions", None, "read"),
        (Method::POST, "/deletions", Some(json!({})), "write"),
        (Method::DELETE, "/deletions", None, "write"),
        (Method::GET, "/export", None, "read"),
        (Method::GET, "/stats", None, "read"),
        (Method::DELETE, "/documents/none", None, "write"),
    ];
    for (method, path, body, role) in of_collection {
        let of_news: &'static str = format!("/collections/news{path}").leak();
        let (of_all, of_both) = match role {
            "read" => ("rwa", "rwaRWA"),
            "write" => ("wa", "waWA"),
            _ => ("a", "aA"),
        };
        routes.push(Route { body: body.clone(), ..route(method.clone(), path, of_all) });
        routes.push(Route { body, ..route(method, of_news, of_both) });
    }
    let lines = Value::String("{\"id\":\"kept\",\"hash\":\"00000000000000ff\"}\n".to_owned());
    for (path, allowed) in [
        ("/collections/news/documents", "waWA"),
        ("/collections/news/stream/documents", "waWA"),
        ("/stream/documents", "wa"),
    ] {
        routes.push(Route { kind: "application/x-ndjson", ..post(path, lines.clone(), allowed) });
    }
    routes
}

async fn status(server: &Server, route: &Route, key: Option<(&str, &str)>) -> (StatusCode, Value) {
    let mut request = server.client.request(route.method.clone(), format!("{}{}", server.url, route.path));
    if let Some((header, value)) = key {
        request = request.header(header, value);
    }
    if let Some(body) = &route.body {
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        request = request.header("content-type", route.kind).body(text);
    }
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_default())
}

/// Whether a path is one of a template of the contract, such as `/documents/{id}`.
fn is_of(path: &str, template: &str) -> bool {
    let (path, mut template) = (path.split('?').next().unwrap_or_default().split('/'), template.split('/'));
    path.map(Some).chain([None]).all(|own| match (own, template.next()) {
        (Some(own), Some(of)) => of.starts_with('{') || own == of,
        (own, of) => own == of,
    })
}

#[tokio::test]
async fn every_route_accepts_exactly_the_keys_with_its_role() {
    let data = directory();
    let key = |name: &str, role: &str, news: bool| {
        let scope: &[&str] = if news { &["--collection", "news"] } else { &[] };
        create(data.path(), name, &[&["--role", role], scope].concat())
    };
    let keys: Vec<(char, String)> = [
        ('r', key("r", "read", false)),
        ('w', key("w", "write", false)),
        ('a', key("a", "admin", false)),
        ('R', key("news.r", "read", true)),
        ('W', key("news.w", "write", true)),
        ('A', key("news.a", "admin", true)),
    ]
    .into();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_LOG__LEVEL", "trace")]).await;
    let admin = format!("Bearer {}", keys[2].1);
    let setup = Route {
        method: Method::PUT,
        path: "/collections/news",
        body: Some(json!({})),
        kind: "application/json",
        allowed: "",
    };
    assert_eq!(status(&server, &setup, Some(("authorization", &admin))).await.0, StatusCode::CREATED);
    let contract = server.json("/openapi.json").await;
    let all = routes();
    for (template, methods) in contract["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let is_tried = |route: &Route| {
                route.method.as_str().eq_ignore_ascii_case(method) && is_of(route.path, template)
            };
            assert!(all.iter().any(is_tried), "{method} {template} is not among the routes");
        }
    }
    let mut checked = 0;
    for route in all {
        let case = format!("{} {}", route.method, route.path);
        for (letter, secret) in &keys {
            let bearer = format!("bearer {secret}");
            let header = if checked % 2 == 0 {
                ("Authorization", bearer.as_str())
            } else {
                ("X-API-Key", secret.as_str())
            };
            let (status, problem) = status(&server, &route, Some(header)).await;
            let allowed = route.allowed.contains('?') || route.allowed.contains(*letter);
            assert_eq!(status != StatusCode::FORBIDDEN, allowed, "{case} with {letter}: {status} {problem}");
            assert_ne!(status, StatusCode::UNAUTHORIZED, "{case} with {letter}");
            assert!(!status.is_server_error(), "{case} with {letter}: {status} {problem}");
            if !allowed && route.method != Method::HEAD {
                assert_eq!(problem["code"], "forbidden", "{case}");
            }
            checked += 1;
        }
        let altered = format!("{}0", &keys[2].1[..66]);
        let wrong = [
            None,
            Some((
                "authorization",
                "Bearer lk_0000000000000000000000000000000000000000000000000000000000000000",
            )),
            Some(("authorization", "Basic YTpi")),
            Some(("authorization", "")),
            Some(("x-api-key", "")),
            Some(("x-api-key", altered.as_str())),
        ];
        for key in wrong {
            let key = key.filter(|(_, value)| *value != keys[2].1);
            let (status, problem) = status(&server, &route, key).await;
            let is_open = route.allowed.contains('-');
            assert_eq!(
                status != StatusCode::UNAUTHORIZED,
                is_open,
                "{case} with {key:?}: {status} {problem}"
            );
        }
    }
    let list = Route { method: Method::GET, path: "/collections", ..setup };
    let names = |list: &Value| {
        list["collections"].as_array().unwrap().iter().map(|info| info["name"].clone()).collect::<Vec<_>>()
    };
    let (_, of_news) = status(&server, &list, Some(("x-api-key", &keys[3].1))).await;
    assert_eq!(names(&of_news), ["news"], "other collections are not listed");
    let log = server.log();
    for (letter, secret) in &keys {
        assert!(!log.contains(&secret[3..]), "key {letter} is in the log");
        let file = std::fs::read_to_string(data.path().join("keys.toml")).unwrap();
        assert!(!file.contains(&secret[3..]), "key {letter} is in the file");
    }
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked_while_the_server_runs() {
    let data = directory();
    let server = Server::start(data.path()).await;
    assert_eq!(server.get("/stats").await.status(), StatusCode::OK, "there are no keys yet");
    let secret = create(data.path(), "crawler", &["--role", "write", "--collection", "default"]);
    let route = Route { method: Method::GET, path: "/stats", body: None, kind: "", allowed: "" };
    let wait_for_status = async |wanted: StatusCode| {
        for _ in 0..200 {
            let found = status(&server, &route, Some(("x-api-key", &secret))).await.0;
            let without = status(&server, &route, None).await.0;
            if (found, without) == (wanted, StatusCode::UNAUTHORIZED) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server does not apply changes of its keys:\n{}", server.log());
    };
    wait_for_status(StatusCode::OK).await;
    let dir = data.path().to_str().unwrap();
    let listed = command(&["keys", "list", "--data", dir]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0], "name\trole\tcollections\trate\tcreated");
    assert!(lines[1].starts_with("crawler\twrite\tdefault\tunlimited\t20"), "{listed}");
    assert!(command(&["keys", "revoke", "crawler", "--data", dir]).status().unwrap().success());
    wait_for_status(StatusCode::UNAUTHORIZED).await;
    assert!(!command(&["keys", "revoke", "crawler", "--data", dir]).output().unwrap().status.success());
    let challenge = server.get("/stats").await;
    assert!(challenge.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
}

#[test]
fn without_keys_the_server_listens_only_on_loopback_addresses() {
    let data = directory();
    let dir = data.path().to_str().unwrap();
    for (listen, others) in [("0.0.0.0:0", true), ("[::]:0", true)] {
        let output = command(&["serve", "--listen", listen, "--data", dir]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code() == Some(78), others, "{listen}: {stderr}");
        assert!(stderr.contains("lookalike keys create") && stderr.contains("--open"), "{stderr}");
    }
    std::fs::write(data.path().join("keys.toml"), "damage").unwrap();
    let output = command(&["serve", "--listen", "127.0.0.1:0", "--data", dir]).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
}

#[tokio::test]
async fn a_key_can_ask_what_it_may_do() {
    let data = directory();
    let server = Server::start(data.path()).await;
    assert_eq!(server.json("/key").await, json!({"required": false, "role": "admin"}));
    let secret = create(data.path(), "news.w", &["--role", "write", "--collection", "news"]);
    let start = std::time::Instant::now();
    while server.get("/key").await.status() != StatusCode::UNAUTHORIZED {
        assert!(start.elapsed() < Duration::from_secs(20), "the key file is not followed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let request = server.client.get(format!("{}/key", server.url)).header("x-api-key", secret);
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    let expected = json!({"required": true, "name": "news.w", "role": "write", "collections": ["news"]});
    assert_eq!(answer, expected);
}
