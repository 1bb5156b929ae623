//! Protection against web pages in a browser that can reach the server: only the server's own pages and
//! those of configured origins may send requests.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::edge::raw;
use crate::server::{Server, command, directory};

const DOCUMENT: &str = r#"{"id":"planted","hash":"00000000000000ff"}"#;

/// Sends a request with these headers only. Returns status, headers and body of the answer.
async fn request_with(
    server: &Server,
    method: Method,
    route: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (StatusCode, HeaderMap, Value) {
    let all_headers = headers.iter().map(|(name, value)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    });
    let request =
        server.client.request(method, format!("{}{route}", server.url)).headers(all_headers.collect());
    let response = request.body(body.to_owned()).send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    (status, headers, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn get(server: &Server, headers: &[(&str, &str)]) -> (StatusCode, Value) {
    let (status, _, answer) =
        request_with(server, Method::GET, "/similar?hash=00000000000000ff", headers, "").await;
    (status, answer)
}

#[tokio::test]
async fn every_route_that_reads_a_body_requires_its_content_type() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let bare = r#"{"hash":"00000000000000ff"}"#;
    let routes = [
        (Method::POST, "/documents", DOCUMENT),
        (Method::POST, "/batch/documents", "[]"),
        (Method::POST, "/collections/default/documents", DOCUMENT),
        (Method::PUT, "/documents/planted", bare),
        (Method::PUT, "/collections/planted", "{}"),
        (Method::POST, "/collections/default/calibrate", r#"{"documents":1}"#),
        (Method::POST, "/collections/planted/restore", "x"),
        (Method::POST, "/similar", bare),
        (Method::POST, "/compare", "{}"),
        (Method::POST, "/fingerprint", r#"{"text":"some words"}"#),
    ];
    for (method, route, body) in routes {
        let case = format!("{method} {route}");
        // A page may send these types without a preflight request. `/fingerprint` accepts text because it
        // stores nothing.
        for kind in ["", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"]
        {
            // Forms carry images: pages of other origins are refused by their origin (`images.rs`).
            let takes_forms = !["/batch", "/compare"].iter().any(|start| route.starts_with(start))
                && (route.contains("documents") || ["/similar", "/fingerprint"].contains(&route));
            if (route, kind) == ("/fingerprint", "text/plain") || takes_forms && kind.starts_with("multipart")
            {
                continue;
            }
            let header = [("content-type", kind)];
            let headers = if kind.is_empty() { &[][..] } else { &header[..] };
            let (status, _, problem) = request_with(&server, method.clone(), route, headers, body).await;
            let code = problem["code"].as_str();
            assert_eq!((status.as_u16(), code), (415, Some("unsupported_media_type")), "{case} {kind:?}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("-H 'content-type: application/"), "{case}: {detail}");
        }
    }
    assert_eq!(server.documents().await, 0);
    assert_eq!(server.json("/collections").await["collections"].as_array().unwrap().len(), 1);
    let started = request_with(&server, Method::POST, "/collections/default/calibrate", &[], "").await;
    assert_ne!(started.0, StatusCode::UNSUPPORTED_MEDIA_TYPE, "a request without a body: {}", started.2);
}

#[tokio::test]
async fn an_unknown_host_name_is_refused() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for host in ["localhost", "localhost:8080", "api.localhost", "127.0.0.1:1", "10.1.2.3:8080", "[::1]:8080"]
    {
        let (status, answer) = get(&server, &[("host", host)]).await;
        assert_eq!(status, StatusCode::OK, "{host}: {answer}");
    }
    for route in ["/similar?hash=00000000000000ff", "/export", "/livez", "/docs/", "/nothing"] {
        let (status, _, problem) =
            request_with(&server, Method::GET, route, &[("host", "evil.example:8080")], "").await;
        assert_eq!((status.as_u16(), &problem["code"]), (421, &json!("unknown_host")), "{route}");
        let detail = problem["detail"].as_str().unwrap();
        let remedy = "set server.hosts = [\"evil.example\"] (LOOKALIKE_SERVER__HOSTS=evil.example)";
        assert!(detail.contains(remedy), "{detail}");
    }
    let json = ("content-type", "application/json");
    let headers = [json, ("host", "evil.example"), ("origin", "http://evil.example")];
    assert_eq!(request_with(&server, Method::POST, "/documents", &headers, DOCUMENT).await.0.as_u16(), 421);
    assert_eq!(server.documents().await, 0);
}

#[tokio::test]
async fn a_missing_or_repeated_host_is_checked_by_http_version() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for (head, status) in [
        ("GET /readyz HTTP/1.0\r\n", 200),
        ("GET /readyz HTTP/1.0\r\nhost: localhost\r\n", 200),
        ("GET /readyz HTTP/1.0\r\nhost: evil.example\r\n", 421),
        ("GET /readyz HTTP/1.0\r\nhost: localhost\r\nhost: localhost\r\n", 400),
        ("GET /readyz HTTP/1.1\r\n", 400),
        ("GET /readyz HTTP/1.1\r\nhost:\r\n", 421),
        ("GET http://localhost/readyz HTTP/1.1\r\nhost: localhost\r\n", 200),
        ("GET http://localhost/readyz HTTP/1.1\r\n", 400),
        ("GET http://evil.example/readyz HTTP/1.1\r\nhost: localhost\r\n", 421),
        ("GET http://localhost/readyz HTTP/1.1\r\nhost: evil.example\r\n", 421),
    ] {
        let answer = raw(&server, format!("{head}connection: close\r\n\r\n").as_bytes()).await;
        let found = answer.split(' ').nth(1).unwrap();
        assert_eq!(found, status.to_string(), "{head}: {answer}");
    }
}

#[tokio::test]
async fn host_names_are_configurable_and_with_keys_any_is_accepted() {
    let data = directory();
    let named = [("LOOKALIKE_SERVER__HOSTS", "lookalike.example, lookalike")];
    let server = Server::start_with(&data.path().join("named"), &named).await;
    for (host, status) in [
        ("lookalike:8080", 200),
        ("LOOKALIKE.example", 200),
        ("localhost", 200),
        ("other.example", 421),
        ("a.lookalike.example", 421),
    ] {
        assert_eq!(get(&server, &[("host", host)]).await.0.as_u16(), status, "{host}");
    }
    let closed = data.path().join("closed");
    let create = ["keys", "create", "reader", "--role", "read", "--data", closed.to_str().unwrap()];
    let key = String::from_utf8(command(&create).output().unwrap().stdout).unwrap();
    let server = Server::start(&closed).await;
    let with_key = [("host", "proxied.example"), ("x-api-key", key.trim())];
    assert_eq!(get(&server, &with_key).await.0, StatusCode::OK);
    assert_eq!(get(&server, &with_key[..1]).await.0, StatusCode::UNAUTHORIZED);
    drop(server);
    let server = Server::start_with(&closed, &named).await;
    assert_eq!(get(&server, &with_key).await.0.as_u16(), 421, "configured names always apply");
}

#[tokio::test]
async fn foreign_pages_are_refused_and_the_servers_own_are_accepted() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let json = ("content-type", "application/json");
    for origin in ["http://evil.example", "null", "http://localhost:3000", "https://127.0.0.1", "file://"] {
        for (method, route) in [
            (Method::POST, "/documents"),
            (Method::POST, "/snapshots"),
            (Method::POST, "/collections/default/calibrate"),
            (Method::DELETE, "/collections/default"),
            (Method::GET, "/export"),
            (Method::OPTIONS, "/documents"),
        ] {
            let headers = [json, ("origin", origin), ("access-control-request-method", "POST")];
            let (status, headers, problem) = request_with(&server, method, route, &headers, DOCUMENT).await;
            let code = problem["code"].as_str();
            assert_eq!((status.as_u16(), code), (403, Some("foreign_origin")), "{origin} {route}");
            assert!(!headers.contains_key("access-control-allow-origin"), "{origin} {route}");
        }
    }
    assert_eq!(server.documents().await, 0);
    let (_, problem) = get(&server, &[("origin", "https://pages.example")]).await;
    let remedy =
        "server.origins = [\"https://pages.example\"] (LOOKALIKE_SERVER__ORIGINS=https://pages.example)";
    assert!(problem["detail"].as_str().unwrap().contains(remedy), "{problem}");
    for site in ["cross-site", "same-site"] {
        let image = [("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
        assert_eq!(get(&server, &image).await.0, StatusCode::FORBIDDEN, "{site}");
        let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate")];
        assert_eq!(request_with(&server, Method::GET, "/docs/", &link, "").await.0, StatusCode::OK);
    }
    let own = server.url.clone();
    let headers = [json, ("origin", own.as_str()), ("sec-fetch-site", "same-origin")];
    assert_eq!(
        request_with(&server, Method::POST, "/documents", &headers, DOCUMENT).await.0,
        StatusCode::CREATED
    );
}

#[tokio::test]
async fn configured_origins_get_the_headers_that_browsers_need() {
    let data = directory();
    let create = ["keys", "create", "writer", "--role", "write", "--data", data.path().to_str().unwrap()];
    let key = String::from_utf8(command(&create).output().unwrap().stdout).unwrap();
    let variables = [("LOOKALIKE_SERVER__ORIGINS", "https://pages.example,http://localhost:3000")];
    let server = Server::start_with(data.path(), &variables).await;
    let origin = ("origin", "http://localhost:3000");
    let list = |headers: &HeaderMap, name: &str| headers[name].to_str().unwrap().to_owned();
    let wanted = [
        origin,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,x-api-key"),
    ];
    // The methods of a route are no secret.
    let expected = [("/documents", "GET HEAD OPTIONS POST"), ("/batch/similar", "OPTIONS POST")];
    for (path, methods) in expected {
        let (status, headers, _) = request_with(&server, Method::OPTIONS, path, &[], "").await;
        let allow = list(&headers, "allow");
        let mut allowed: Vec<&str> = allow.split(',').collect();
        allowed.sort_unstable();
        assert_eq!((status, allowed.join(" ").as_str()), (StatusCode::NO_CONTENT, methods));
        let (status, headers, _) = request_with(&server, Method::TRACE, path, &[], "").await;
        assert!(status.is_client_error() && !headers.contains_key("etag"), "{status}");
    }
    // Browsers send no key with a preflight request.
    let (status, headers, _) = request_with(&server, Method::OPTIONS, "/documents", &wanted, "").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(list(&headers, "access-control-allow-origin"), origin.1);
    assert!(list(&headers, "access-control-allow-methods").split(", ").any(|method| method == "POST"));
    let allowed = list(&headers, "access-control-allow-headers");
    for name in ["content-type", "x-api-key", "authorization", "if-match", "x-timeout-ms"] {
        assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}: {allowed}");
    }
    let headers = [origin, ("content-type", "application/json"), ("x-api-key", key.trim())];
    let (status, headers, _) = request_with(&server, Method::POST, "/documents", &headers, DOCUMENT).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(list(&headers, "access-control-allow-origin"), origin.1);
    assert_eq!(list(&headers, "vary"), "origin");
    assert!(list(&headers, "access-control-expose-headers").contains("x-request-id"));
    // Refusals have the header too; otherwise the page could not read the reason.
    let (status, headers, _) = request_with(&server, Method::POST, "/documents", &[origin], DOCUMENT).await;
    assert_eq!(
        (status, list(&headers, "access-control-allow-origin").as_str()),
        (StatusCode::UNAUTHORIZED, origin.1)
    );
    let (status, headers, _) =
        request_with(&server, Method::OPTIONS, "/documents", &[("origin", "http://evil.example")], "").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(!headers.contains_key("access-control-allow-origin"));
    // An answer to a request without an origin has no such headers.
    let own = server.get("/livez").await;
    assert!(
        !own.headers().keys().any(|name| name.as_str().starts_with("access-control")),
        "{:?}",
        own.headers()
    );
}

#[tokio::test]
async fn every_answer_forbids_sniffing_and_every_page_forbids_foreign_content() {
    let data = directory();
    let server = Server::start(data.path()).await;
    for route in [
        "/similar?hash=00000000000000ff",
        "/similar?hash=x",
        "/export",
        "/livez",
        "/metrics",
        "/nothing",
        "/openapi.yaml",
        "/docs/",
        "/docs/errors",
        "/docs/swagger-ui-bundle.js",
    ] {
        let answer = server.get(route).await;
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff", "{route}");
        let is_page = route.starts_with("/docs");
        assert_eq!(answer.headers().contains_key("content-security-policy"), is_page, "{route}");
        if is_page {
            let policy = answer.headers()["content-security-policy"].to_str().unwrap();
            assert!(
                policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
                "{policy}"
            );
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(answer.headers()["referrer-policy"], "no-referrer", "{route}");
        }
    }
}

#[tokio::test]
async fn the_compose_file_allows_the_host_name_that_prometheus_uses() {
    let read =
        |path: &str| std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let compose = read("docker-compose.yml");
    let hosts = compose.lines().find_map(|line| line.trim().strip_prefix("LOOKALIKE_SERVER__HOSTS: "));
    let prometheus = read("config/prometheus.yml");
    let target =
        prometheus.lines().find_map(|line| line.trim().strip_prefix("- targets: [\"")?.strip_suffix("\"]"));
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_SERVER__HOSTS", hosts.unwrap())]).await;
    let (status, _, _) =
        request_with(&server, Method::GET, "/metrics", &[("host", target.unwrap())], "").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(server.get("/metrics").await.status(), StatusCode::OK, "from this machine");
}
