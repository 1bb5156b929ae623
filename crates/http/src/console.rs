//! The console: a web page at `/` and its files, which are compiled into the binary.
//!
//! The files are in `console/`. All paths except that of the page contain a digest of all files, so a browser
//! may cache them without asking again, and never mixes the files of two versions. The page itself is
//! revalidated each time by its `ETag`. Every file is compressed once, at the first request. The page names
//! every module of the first view, so that a browser requests all of them in one round; the modules of other
//! views are read when they are shown. The console uses only the routes of the contract.
//!
//! *Absent*: whether the console is served (`server.console`), which is decided before its handler is called.

use std::io::Write;
use std::sync::LazyLock;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use xxhash_rust::xxh3::Xxh3;

use super::no_route;
use super::route::Routes;

/// The path of the page.
pub(super) const PATH: &str = "/";
/// The files next to it; the digest of all files comes after it.
const BESIDE: &str = "/console/";

/// The page and its files.
pub(super) fn routes(all: Routes) -> Routes {
    const FILES: &str = "/console/{*file}";
    let pages = Router::new().route(PATH, get(page)).route(FILES, get(page));
    all.pages(PATH, &[PATH, FILES], pages)
}

async fn page(request: Request) -> Response {
    file(&request).unwrap_or_else(|| no_route(request.method(), request.uri()).into_response())
}

macro_rules! files {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../console/", $name))),)*]
    };
}

/// The files next to the page.
const FILES: &[(&str, &str)] = files![
    "console.css",
    "icon.svg",
    "js/access.js",
    "js/api.js",
    "js/bits.js",
    "js/calibrate.js",
    "js/charts.js",
    "js/clusters.js",
    "js/collections.js",
    "js/compare.js",
    "js/detect.js",
    "js/diff.js",
    "js/document.js",
    "js/documents.js",
    "js/dom.js",
    "js/en-work.js",
    "js/en.js",
    "js/features.js",
    "js/filters.js",
    "js/find.js",
    "js/foresee.js",
    "js/format.js",
    "js/headlines.js",
    "js/i18n.js",
    "js/image.js",
    "js/import.js",
    "js/keys.js",
    "js/lines.js",
    "js/main.js",
    "js/marks.js",
    "js/members.js",
    "js/parquet.js",
    "js/pictures.js",
    "js/pick.js",
    "js/planned.js",
    "js/preview.js",
    "js/problems.js",
    "js/profiles.js",
    "js/rates.js",
    "js/reindex.js",
    "js/review.js",
    "js/route.js",
    "js/sample.js",
    "js/save.js",
    "js/shell.js",
    "js/settings.js",
    "js/side.js",
    "js/vlist.js",
    "js/welcome.js",
    "js/zh-work.js",
    "js/zh.js",
];
/// The modules from which the first view begins; it needs what they import.
const FIRST: [&str; 2] = ["js/main.js", "js/compare.js"];
/// The page, in which [`BASE`] stands for the path of the files and [`PRELOADS`] for the list of modules.
const PAGE: &str = include_str!("../../../console/index.html");
const BASE: &str = "{{base}}";
const PRELOADS: &str = "<!-- {{modules}} -->";

/// What the page may load and run: files of this server. No script may turn a text into markup (Trusted
/// Types), so that a document cannot become part of the page even by a mistake in a module.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
/// A year, the usual maximum.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_EACH_TIME: &str = "no-cache";
const HEADERS: [(HeaderName, &str); 3] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::VARY, "accept-encoding"),
];

/// A file, plain and compressed.
struct File {
    path: String,
    kind: &'static str,
    caching: &'static str,
    plain: Bytes,
    gzip: Bytes,
}

struct Console {
    /// The digest of all files in quotes: the `ETag` of the page.
    tag: String,
    files: Vec<File>,
}

static CONSOLE: LazyLock<Console> = LazyLock::new(Console::new);

impl Console {
    fn new() -> Console {
        let mut digest = Xxh3::new();
        for (name, contents) in FILES.iter().chain([&("", PAGE)]) {
            digest.update(name.as_bytes());
            digest.update(&contents.len().to_le_bytes());
            digest.update(contents.as_bytes());
        }
        let digest = format!("{:016x}", digest.digest());
        let base = format!("{BESIDE}{digest}");
        let preloads: String = first_view()
            .iter()
            .map(|name| format!("<link rel=\"modulepreload\" href=\"{base}/{name}\">\n"))
            .collect();
        let page = PAGE.replace(PRELOADS, preloads.trim_end()).replace(BASE, &base);
        let mut files = vec![File::new(PATH.to_owned(), page, ASK_EACH_TIME)];
        files.extend(
            FILES.iter().map(|(name, contents)| {
                File::new(format!("{base}/{name}"), (*contents).to_owned(), FOR_EVER)
            }),
        );
        Console { tag: format!("\"{digest}\""), files }
    }
}

/// The modules of the first view: those of [`FIRST`], and what these import before they run.
fn first_view() -> Vec<String> {
    let mut found = FIRST.map(str::to_owned).to_vec();
    let mut at = 0;
    while let Some(name) = found.get(at) {
        let contents = FILES.iter().find(|(of, _)| of == name).map_or("", |(_, contents)| contents);
        for part in contents.split(" from \"./").skip(1) {
            let imported = format!("js/{}", part.split('"').next().unwrap_or_default());
            if !found.contains(&imported) {
                found.push(imported);
            }
        }
        at += 1;
    }
    found
}

impl File {
    fn new(path: String, contents: String, caching: &'static str) -> File {
        let kind = match path.rsplit_once('.') {
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory cannot fail.
        let _ = gzip.write_all(contents.as_bytes());
        let gzip = gzip.finish().unwrap_or_default();
        File { path, kind, caching, plain: contents.into(), gzip: gzip.into() }
    }
}

/// The page or one of its files; `None` if there is no such file.
fn file(request: &Request) -> Option<Response> {
    let console = &*CONSOLE;
    let file = console.files.iter().find(|file| file.path == request.uri().path())?;
    let is_page = file.caching == ASK_EACH_TIME;
    let asked = request.headers().get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let is_known = is_page && asked.is_some_and(|tag| tag.contains(&console.tag));
    let is_compressed = accepts_gzip(request.headers());
    let body = match (is_known, is_compressed) {
        (true, _) => Body::empty(),
        (false, true) => Body::from(file.gzip.clone()),
        (false, false) => Body::from(file.plain.clone()),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(file.caching));
    if is_page && let Ok(tag) = HeaderValue::from_str(&console.tag) {
        headers.insert(header::ETAG, tag);
    }
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Some(response);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}

/// Whether the client takes gzip. A client that lists it with a quality of zero does not.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.unwrap_or_default().split(',').any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = parameters.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse);
        name.trim().eq_ignore_ascii_case("gzip") && quality.is_ok_and(|quality: f64| quality > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Maximum bytes of all files, compressed.
    const MAX_BYTES: usize = 128 << 10;
    /// Maximum bytes of those that the first view needs, compressed.
    const MAX_FIRST: usize = 70 << 10;

    fn get(path: &str, headers: &[(&str, &str)]) -> Option<Response> {
        let request = axum::http::Request::get(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        file(&request.body(Body::empty()).unwrap())
    }

    #[test]
    fn every_file_of_the_directory_is_embedded() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console");
        let names = |sub: &str| -> Vec<String> {
            let entries = std::fs::read_dir(directory.join(sub)).unwrap().map(|entry| entry.unwrap());
            let files = entries.filter(|entry| entry.path().is_file());
            files.map(|entry| format!("{sub}{}", entry.file_name().to_str().unwrap())).collect()
        };
        let mut found: BTreeSet<String> = [names(""), names("js/")].concat().into_iter().collect();
        assert!(found.remove("index.html"));
        assert_eq!(found, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    #[test]
    fn the_files_are_small() {
        let bytes = |are: &dyn Fn(&str) -> bool| -> usize {
            CONSOLE.files.iter().filter(|file| are(&file.path)).map(|file| file.gzip.len()).sum()
        };
        let all = bytes(&|_| true);
        assert!(all < MAX_BYTES, "{all} bytes, compressed");
        let first = first_view();
        let is_first = |path: &str| !path.contains("/js/") || first.iter().any(|name| path.ends_with(name));
        let first_bytes = bytes(&is_first);
        assert!(first_bytes < MAX_FIRST && first_bytes > 10 << 10, "{first_bytes} bytes, compressed");
    }

    #[test]
    fn the_first_view_has_every_module_that_it_imports_and_no_other_page() {
        let first = first_view();
        assert!(first.iter().all(|name| FILES.iter().any(|(of, _)| of == name)), "{first:?}");
        assert!(first.iter().any(|name| name == "js/en.js") && first.len() > 10, "{first:?}");
        assert!(!first.iter().any(|name| name == "js/review.js"), "{first:?}");
    }

    #[test]
    fn files_are_immutable_and_the_page_is_not() {
        let page = get("/", &[]).unwrap();
        assert_eq!(page.headers()[header::CACHE_CONTROL], ASK_EACH_TIME);
        assert_eq!(page.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
        let tag = page.headers()[header::ETAG].to_str().unwrap().to_owned();
        let again = get("/", &[("if-none-match", &tag)]).unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        for file in &CONSOLE.files[1..] {
            let answer = get(&file.path, &[("accept-encoding", "br, gzip")]).unwrap();
            assert_eq!(answer.headers()[header::CACHE_CONTROL], FOR_EVER, "{}", file.path);
            assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip", "{}", file.path);
        }
        assert!(get("/console/0/console.css", &[]).is_none(), "the digest of another version");
    }

    #[test]
    fn a_client_without_gzip_gets_plain_files() {
        for (accepted, compressed) in
            [("gzip", true), ("br, GZIP;q=0.5", true), ("gzip;q=0", false), ("identity", false), ("", false)]
        {
            let answer = get("/", &[("accept-encoding", accepted)]).unwrap();
            assert_eq!(answer.headers().contains_key(header::CONTENT_ENCODING), compressed, "{accepted}");
        }
    }
}
