//! Requests of web pages: the server's own pages may send any request, and other pages none, unless
//! `server.origins` names them.
//!
//! A browser on this machine or network can reach the server, and sends the requests of any page. No page can
//! forge these three headers. `Host` is the name in the URL: an attacker can make a name of its own resolve
//! to this server (DNS rebinding), so without keys only known names are accepted. `Origin` is the page that
//! sent the request. Without `Origin`, `Sec-Fetch-Site` states whether the page belongs to another site.
//!
//! An IP address as `Host` is always accepted: a page from an address comes from the server at that address,
//! and DNS is not involved. With keys, any name is accepted unless `server.hosts` is set: the page of an
//! attacker has no key, and there is no cookie that a browser would add.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use super::access;
use super::error::{Code, Problem};

/// A header of every answer: a browser must not guess another content type.
pub(super) const NO_SNIFFING: (HeaderName, HeaderValue) =
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
/// The content that a page of the server may load and run: files of the server. `data:` is for the icons in
/// the style sheet of Swagger, and the digest is that of the style in Swagger's logo.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' \
                           'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='; img-src 'self' data:; \
                           connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// The methods and headers that a page of an allowed origin may send, and the headers that it may read.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const REQUEST_HEADERS: &str = "authorization, content-encoding, content-type, idempotency-key, if-match, \
                               if-none-match, traceparent, x-api-key, x-request-id, x-timeout-ms";
const RESPONSE_HEADERS: &str = "etag, location, retry-after, x-request-id";
/// Seconds for which a browser may cache the answer to a preflight; no browser accepts more.
const PREFLIGHT_SECONDS: &str = "86400";

/// The names of this server, and the origins whose pages may use it.
#[derive(Clone, Debug)]
pub struct Sites {
    /// `server.hosts`, without ports.
    pub hosts: Vec<String>,
    /// `server.origins`, in the form that browsers send.
    pub origins: Vec<String>,
    /// Whether the server uses TLS: then a page that was loaded without TLS is not its own.
    pub is_encrypted: bool,
}

/// The origin of a request if `server.origins` names it; an extension of the request.
#[derive(Clone, Debug)]
pub(super) struct AllowedOrigin(HeaderValue);

impl Sites {
    /// Refuses requests for unknown hosts, and requests of pages with unknown origins.
    pub(super) fn check(&self, has_keys: bool, request: &mut Request) -> Result<(), Problem> {
        let host = access::host(request)?.map(|host| host.to_str().unwrap_or_default());
        // A request line with the host takes precedence over `Host`. Browsers send the same host in both.
        let authority = request.uri().authority().map(Authority::as_str);
        if !has_keys || !self.hosts.is_empty() {
            let unknown = [authority, host].into_iter().flatten().find(|host| !self.is_known(host));
            unknown.map_or(Ok(()), |host| Err(self.unknown_host(host)))?;
        }
        let Some(origin) = request.headers().get(header::ORIGIN) else {
            return if is_from_another_site(request) { Err(without_origin()) } else { Ok(()) };
        };
        let text = match request.headers().get_all(header::ORIGIN).iter().count() {
            1 => origin.to_str().unwrap_or_default(),
            _ => "several",
        };
        if self.is_own(text, authority.or(host)) {
            return Ok(());
        }
        if !self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)) {
            return Err(self.foreign_origin(text));
        }
        let allowed = AllowedOrigin(origin.clone());
        request.extensions_mut().insert(allowed);
        Ok(())
    }

    fn is_known(&self, host: &str) -> bool {
        let name = name(host);
        let is_name = |known: &str| known.eq_ignore_ascii_case(name);
        is_address(name) || is_loopback(name) || self.hosts.iter().any(|known| is_name(known))
    }

    /// Whether this is the origin of the server's own pages, for requests with this host.
    fn is_own(&self, origin: &str, host: Option<&str>) -> bool {
        let authority = match origin.split_once("://") {
            Some(("http", authority)) if !self.is_encrypted => authority,
            Some(("https", authority)) => authority,
            _ => return false,
        };
        host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
    }

    #[cold]
    fn unknown_host(&self, host: &str) -> Problem {
        let name = name(host).to_ascii_lowercase();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let remedy = if name.is_empty() || !name.bytes().all(is_name) {
            "Use a host name".to_owned()
        } else {
            let mut remedy = format!("If it is this server's, set {}", setting("hosts", &self.hosts, &name));
            if self.hosts.is_empty() {
                remedy += ", or create a key (lookalike keys create): with keys every name is accepted";
            }
            remedy
        };
        let detail = format!(
            "the request is for the host {host:?}; this server accepts only localhost, IP addresses and \
             server.hosts, so that a web page cannot reach it by another name (DNS rebinding). {remedy}"
        );
        Problem::new(Code::UnknownHost, detail)
    }

    #[cold]
    fn foreign_origin(&self, origin: &str) -> Problem {
        let remedy = if origin.contains("://") {
            format!("If it may use this server, set {}", setting("origins", &self.origins, origin))
        } else {
            "A page without an origin (a file, a sandboxed frame, a redirect) cannot be allowed: serve it by \
             HTTP"
                .to_owned()
        };
        let detail = format!(
            "a web page of the origin {origin:?} sent the request, which is not this server's own. {remedy}"
        );
        Problem::new(Code::ForeignOrigin, detail)
    }
}

/// A list setting with one more value, in the syntax of the file and of the environment.
fn setting(name: &str, before: &[String], more: &str) -> String {
    let all: Vec<&str> = before.iter().map(String::as_str).chain([more]).collect();
    format!("server.{name} = {all:?} (LOOKALIKE_SERVER__{}={})", name.to_ascii_uppercase(), all.join(","))
}

#[cold]
fn without_origin() -> Problem {
    let detail = "a web page of another site sent the request (Sec-Fetch-Site), without CORS. If that page \
                  may use this server, it must use CORS, and server.origins must name its origin";
    Problem::new(Code::ForeignOrigin, detail)
}

/// Whether a page of another site sent a request without `Origin`. A followed link is allowed: the page that
/// has the link cannot read the answer.
fn is_from_another_site(request: &Request) -> bool {
    let headers = request.headers();
    let Some(site) = headers.get(FETCH_SITE) else { return false };
    let is_another = site == "cross-site" || site == "same-site";
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_link = is_read && headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate");
    is_another && !is_link
}

/// The host without its port and without a final dot.
fn name(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn is_address(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Whether a name is reserved for loopback addresses, and so cannot be an attacker's: RFC 6761, section 6.3.
fn is_loopback(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost")
}

/// Whether this is a preflight request for a page of an allowed origin. A browser sends no key with it.
pub(super) fn is_preflight(request: &Request) -> bool {
    *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && request.extensions().get::<AllowedOrigin>().is_some()
}

/// The answer to a preflight request.
pub(super) fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
    response
}

/// Adds the headers of every answer, and those that the browser needs for a page of an allowed origin.
pub(super) fn finish(headers: &mut HeaderMap, allowed: Option<AllowedOrigin>) {
    let (name, value) = NO_SNIFFING;
    headers.insert(name, value);
    if let Some(AllowedOrigin(origin)) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
}

/// Adds the headers of the server's own pages: what a page may load, that it may not be framed, and that it
/// sends no `Referer`.
pub(super) async fn page(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(hosts: &[&str], origins: &[&str]) -> Sites {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Sites { hosts: owned(hosts), origins: owned(origins), is_encrypted: false }
    }

    fn request(method: &str, headers: &[(&str, &str)]) -> Request {
        let builder = axum::http::Request::builder().method(method).uri("/similar");
        let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        builder.body(Body::empty()).unwrap()
    }

    #[test]
    fn loopback_names_addresses_and_set_names_are_known_with_and_without_a_port() {
        let sites = sites(&["Lookalike.Example", "lookalike"], &[]);
        for host in [
            "localhost",
            "LocalHost:8080",
            "localhost.:80",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9:1",
            "10.0.0.7:8080",
            "[::1]",
            "[::1]:8080",
            "[2001:db8::7]:443",
            "lookalike.example",
            "lookalike.example.",
            "LOOKALIKE:8080",
        ] {
            assert!(sites.is_known(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "evil.lookalike.example",
            "::1",
            "[::1",
            "[::1].evil.example",
            "[localhost]",
            "2130706433",
            "127.1",
            "0x7f.0.0.1",
            "evil@localhost:evil",
            "localhost:80:90",
            "lookalike:x",
        ] {
            assert!(!sites.is_known(host), "{host}");
        }
    }

    #[test]
    fn only_the_servers_own_pages_have_its_origin() {
        let host = Some("localhost:8080");
        let own = sites(&[], &[]);
        for origin in ["http://localhost:8080", "https://localhost:8080", "http://LOCALHOST:8080"] {
            assert!(own.is_own(origin, host), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:3000",
            "file://localhost:8080",
            "localhost:8080",
        ] {
            assert!(!own.is_own(origin, host), "{origin}");
        }
        assert!(!own.is_own("http://localhost:8080", None));
        let encrypted = Sites { is_encrypted: true, ..own };
        assert!(encrypted.is_own("https://localhost:8080", host));
        assert!(
            !encrypted.is_own("http://localhost:8080", host),
            "without TLS, a machine on the path can forge the page"
        );
    }

    #[test]
    fn without_an_origin_the_headers_sec_fetch_decide() {
        let refused = |method: &str, site: &str, mode: &str| {
            let headers = [("host", "localhost"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            sites(&[], &[]).check(false, &mut request(method, &headers)).is_err()
        };
        assert!(!refused("GET", "same-origin", "cors"));
        assert!(!refused("GET", "none", "navigate"), "typed by the user");
        assert!(!refused("GET", "cross-site", "navigate"), "a link");
        assert!(refused("GET", "cross-site", "no-cors"), "an image, a script");
        assert!(refused("GET", "same-site", "no-cors"), "a page from another port");
        assert!(refused("POST", "cross-site", "navigate"), "a form");
    }

    #[test]
    fn the_error_for_an_unknown_name_has_the_setting_that_allows_it() {
        let error = |sites: &Sites, host: &str| {
            let problem = sites.check(false, &mut request("GET", &[("host", host)])).unwrap_err();
            assert_eq!(problem.name(), "unknown_host");
            problem.body_text()
        };
        let first = error(&sites(&[], &[]), "Lookalike:8080");
        assert!(
            first.contains("server.hosts = [\"lookalike\"] (LOOKALIKE_SERVER__HOSTS=lookalike)"),
            "{first}"
        );
        assert!(first.contains("lookalike keys create"), "{first}");
        let second = error(&sites(&["a.example"], &[]), "lookalike");
        assert!(second.contains("(LOOKALIKE_SERVER__HOSTS=a.example,lookalike)"), "{second}");
        assert!(!error(&sites(&[], &[]), "a\"b").contains("LOOKALIKE_SERVER__HOSTS"));
    }

    #[test]
    fn with_keys_every_name_is_accepted_unless_names_are_set() {
        let check = |sites: &Sites, has_keys| {
            sites.check(has_keys, &mut request("GET", &[("host", "evil.example")])).is_ok()
        };
        assert!(!check(&sites(&[], &[]), false));
        assert!(check(&sites(&[], &[]), true));
        assert!(!check(&sites(&["lookalike.example"], &[]), true));
    }

    #[test]
    fn a_host_in_the_request_line_is_checked_like_the_header() {
        let check = |uri: &str, host: &str| {
            let request = axum::http::Request::get(uri).header("host", host).body(Body::empty());
            sites(&[], &[]).check(false, &mut request.unwrap()).is_ok()
        };
        assert!(check("http://localhost/similar", "localhost"));
        assert!(!check("http://evil.example/similar", "localhost"));
        assert!(!check("http://localhost/similar", "evil.example"));
    }
}
