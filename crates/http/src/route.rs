//! The routes: their paths, the keys that they need, and the route of a request.
//!
//! Every path of the server is written only here. A path is parsed once, before all checks. Authorization,
//! load shedding, metrics, the contract and the dispatch to handlers use the [`Matched`] route.
//!
//! *Absent*: the handlers.

use std::borrow::Cow;
use std::ops::Range;
use std::str::Utf8Error;

use axum::http::Method;
use percent_encoding::percent_decode_str;

use lookalike_hash::CollectionName;
use lookalike_keys::Role;

/// The path of a route with the collection in it.
macro_rules! collection {
    ($rest:literal) => {
        concat!("/collections/{collection}", $rest)
    };
}

macro_rules! routes {
    (
        server { $($server:ident = $path:literal,)* }
        collection { $($collection:ident = $in_collection:literal,)* }
        optional_collection { $($optional:ident = $suffix:literal,)* }
    ) => {
        /// A route of the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the paths document the routes")]
        pub(super) enum Route {
            $($server,)*
            $($collection,)*
            $($optional,)*
            /// The documentation pages.
            Docs,
            /// The console and its files.
            Console,
            /// A path without a route.
            Unknown,
        }

        impl Route {
            /// Routes without a collection.
            const OF_SERVER: &[Route] = &[$(Route::$server,)*];
            /// Routes with a collection in the path.
            const OF_COLLECTION: &[Route] = &[$(Route::$collection,)*];
            /// Routes that exist twice: for the collection `default`, and with a collection in the path.
            pub(super) const OF_OPTIONAL_COLLECTION: &[Route] = &[$(Route::$optional,)*];

            /// The path in the contract and the metrics, without an optional collection.
            pub(super) const fn path(self) -> &'static str {
                match self {
                    $(Route::$server => $path,)*
                    $(Route::$collection => collection!($in_collection),)*
                    $(Route::$optional => $suffix,)*
                    Route::Docs => DOCS,
                    Route::Console => CONSOLE,
                    Route::Unknown => "none",
                }
            }

            /// The path with an optional collection in it; for other routes the same as [`Route::path`].
            pub(super) const fn path_in_collection(self) -> &'static str {
                match self {
                    $(Route::$optional => collection!($suffix),)*
                    _ => self.path(),
                }
            }

            /// The path after the name of the collection.
            const fn suffix(self) -> &'static str {
                match self {
                    $(Route::$collection => $in_collection,)*
                    $(Route::$optional => $suffix,)*
                    _ => "",
                }
            }

            /// The route without a collection that has this path.
            fn of_server(path: &str) -> Route {
                match path {
                    $($path => Route::$server,)*
                    CONSOLE => Route::Console,
                    _ if path.starts_with(CONSOLE_FILES) => Route::Console,
                    _ if path == DOCS
                        || path.strip_prefix(DOCS).is_some_and(|rest| rest.starts_with('/')) => Route::Docs,
                    _ => Route::Unknown,
                }
            }
        }
    };
}

routes! {
    server {
        Fingerprint = "/fingerprint",
        BatchFingerprint = "/batch/fingerprint",
        Profiles = "/profiles",
        Key = "/key",
        Collections = "/collections",
        Replicas = "/replicas",
        ReplicasCopy = "/replicas/copy",
        Snapshots = "/snapshots",
        Livez = "/livez",
        Readyz = "/readyz",
        Metrics = "/metrics",
        Version = "/version",
        Contract = "/openapi.yaml",
        ContractJson = "/openapi.json",
    }
    collection {
        Collection = "",
        Backup = "/backup",
        Restore = "/restore",
        Calibrate = "/calibrate",
        Reindex = "/reindex",
        SharedHashes = "/shared-hashes",
    }
    optional_collection {
        Similar = "/similar",
        BatchSimilar = "/batch/similar",
        Documents = "/documents",
        BatchDocuments = "/batch/documents",
        Deletions = "/deletions",
        Document = "/documents/{id}",
        DocumentSimilar = "/documents/{id}/similar",
        DocumentCluster = "/documents/{id}/cluster",
        Clusters = "/clusters",
        Cluster = "/clusters/{id}",
        Marks = "/marks",
        Compare = "/compare",
        Export = "/export",
        Pairs = "/pairs",
        Stats = "/stats",
    }
}

/// The documentation pages; all paths under it belong to them.
pub(super) const DOCS: &str = "/docs";
/// The explanations of the errors.
pub(super) use lookalike_api::error::DOCS_ERRORS;
/// The console.
pub(super) const CONSOLE: &str = "/";
/// The files of the console; the digest of all files comes after it.
pub(super) const CONSOLE_FILES: &str = "/console/";
/// The parameter of a path for the name of a collection.
const COLLECTION: &str = "{collection}";
/// The parameter of a path for the id of a document.
const ID: &str = "{id}";

/// The key that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// No key.
    Nothing,
    /// A key with at least this role, for any collection.
    Any(Role),
    /// A key with at least this role for the collection of the request.
    Collection(Role),
    /// A key with at least this role for all collections.
    All(Role),
}

impl Route {
    /// The methods of a route, and the key that each needs. `HEAD` is `GET` without the body.
    pub(super) fn methods(self) -> &'static [(Method, Need)] {
        const READ: Need = Need::Collection(Role::Read);
        const WRITE: Need = Need::Collection(Role::Write);
        const ADMIN: Need = Need::Collection(Role::Admin);
        match self {
            Route::Fingerprint | Route::BatchFingerprint => &[(Method::POST, Need::Any(Role::Read))],
            Route::Collections | Route::Version | Route::Profiles | Route::Key => {
                &[(Method::GET, Need::Any(Role::Read))]
            }
            Route::Collection => &[(Method::GET, READ), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)],
            Route::Backup => &[(Method::GET, ADMIN)],
            Route::Restore => &[(Method::POST, ADMIN)],
            Route::Calibrate | Route::Reindex | Route::Clusters => {
                &[(Method::GET, READ), (Method::POST, ADMIN), (Method::DELETE, ADMIN)]
            }
            Route::Similar => &[(Method::GET, READ), (Method::POST, READ)],
            Route::Marks | Route::Deletions => {
                &[(Method::GET, READ), (Method::POST, WRITE), (Method::DELETE, WRITE)]
            }
            Route::Compare | Route::BatchSimilar => &[(Method::POST, READ)],
            Route::BatchDocuments => &[(Method::POST, WRITE)],
            Route::Documents => &[(Method::GET, READ), (Method::POST, WRITE)],
            Route::Document => {
                &[(Method::GET, READ), (Method::PUT, WRITE), (Method::PATCH, WRITE), (Method::DELETE, WRITE)]
            }
            Route::DocumentSimilar
            | Route::DocumentCluster
            | Route::Cluster
            | Route::Export
            | Route::Pairs
            | Route::SharedHashes
            | Route::Stats => &[(Method::GET, READ)],
            Route::ReplicasCopy => &[(Method::GET, Need::All(Role::Admin))],
            Route::Snapshots => {
                &[(Method::GET, Need::All(Role::Admin)), (Method::POST, Need::All(Role::Admin))]
            }
            Route::Metrics | Route::Replicas => &[(Method::GET, Need::All(Role::Read))],
            Route::Livez
            | Route::Readyz
            | Route::Contract
            | Route::ContractJson
            | Route::Docs
            | Route::Console => &[(Method::GET, Need::Nothing)],
            Route::Unknown => &[],
        }
    }

    /// All routes of the contract, each with its path; those with an optional collection with both paths.
    pub(super) fn all() -> impl Iterator<Item = (Route, &'static str)> {
        let single = Route::OF_SERVER.iter().chain(Route::OF_COLLECTION).map(|route| (*route, route.path()));
        let optional = Route::OF_OPTIONAL_COLLECTION
            .iter()
            .flat_map(|route| [route.path(), route.path_in_collection()].map(|path| (*route, path)));
        single.chain(optional)
    }

    /// The path of the route for this collection.
    pub(super) fn of_collection(self, name: &CollectionName) -> String {
        self.path_in_collection().replace(COLLECTION, name.as_str())
    }

    /// The key that a request needs. A method that the route does not have needs a key with all rights, so
    /// that a new route is closed until its methods are added above.
    pub(super) fn need(self, method: &Method) -> Need {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let found = self.methods().iter().find(|(of, _)| of == method);
        found.map_or(Need::All(Role::Admin), |(_, need)| *need)
    }

    /// Whether a request needs the CPU pool for its body: then the server refuses it before it reads the body
    /// if the pool is busy.
    pub(super) fn needs_pool(self, method: &Method) -> bool {
        let reads = matches!(
            self,
            Route::Fingerprint
                | Route::BatchFingerprint
                | Route::Similar
                | Route::BatchSimilar
                | Route::Compare
        );
        reads && *method == Method::POST
    }
}

/// The route of a path, and the positions of its parameters.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    /// The route.
    pub(super) route: Route,
    collection: Option<Range<usize>>,
    id: Option<Range<usize>>,
}

impl Matched {
    /// The route of a path. Segments are compared without percent-decoding; only parameters are decoded.
    pub(super) fn of(path: &str) -> Matched {
        let found = |route, collection, id| Matched { route, collection, id };
        if let Some((route, id)) = matching(Route::OF_OPTIONAL_COLLECTION, path, 0) {
            return found(route, None, id);
        }
        if let Some(collection) = parameter(path, Route::Collections.path().len() + 1)
            && path.starts_with(Route::Collections.path())
            && path.as_bytes()[collection.start - 1] == b'/'
        {
            let of_collection = matching(Route::OF_COLLECTION, path, collection.end);
            let (route, id) = of_collection
                .or_else(|| matching(Route::OF_OPTIONAL_COLLECTION, path, collection.end))
                .unwrap_or((Route::Unknown, None));
            return found(route, Some(collection), id);
        }
        found(Route::of_server(path), None, None)
    }

    /// The match of a server without a console.
    pub(super) fn without_console(self) -> Matched {
        let route = if self.route == Route::Console { Route::Unknown } else { self.route };
        Matched { route, ..self }
    }

    /// The path in the contract and the metrics. There are only a few, whatever paths clients send.
    pub(super) fn template(&self) -> &'static str {
        if self.collection.is_some() { self.route.path_in_collection() } else { self.route.path() }
    }

    /// The name of the collection in the path; an error if it is not UTF-8.
    pub(super) fn collection(&self, path: &str) -> Option<Result<String, Utf8Error>> {
        self.collection.clone().map(|range| decoded(&path[range]))
    }

    /// The id of the document in the path; an error if it is not UTF-8.
    pub(super) fn id(&self, path: &str) -> Option<Result<String, Utf8Error>> {
        self.id.clone().map(|range| decoded(&path[range]))
    }
}

/// The route of `routes` whose suffix is the path from `at` on, and the position of the id in the path.
fn matching(routes: &[Route], path: &str, at: usize) -> Option<(Route, Option<Range<usize>>)> {
    routes.iter().find_map(|route| {
        let rest = path.get(at..)?;
        let suffix = route.suffix();
        let Some((before, after)) = suffix.split_once(ID) else {
            return (rest == suffix).then_some((*route, None));
        };
        let id = rest.starts_with(before).then(|| parameter(path, at + before.len()))??;
        (&path[id.end..] == after).then_some((*route, Some(id)))
    })
}

/// The segment that begins at `from`, unless it is empty.
fn parameter(path: &str, from: usize) -> Option<Range<usize>> {
    let rest = path.get(from..)?;
    let length = rest.find('/').unwrap_or(rest.len());
    (length > 0).then_some(from..from + length)
}

fn decoded(text: &str) -> Result<String, Utf8Error> {
    percent_decode_str(text).decode_utf8().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_matches_its_route() {
        for (route, template) in Route::all() {
            let path = template.replace("{collection}", "n%65ws").replace("{id}", "a%2Fb");
            let matched = Matched::of(&path);
            assert_eq!((matched.route, matched.template()), (route, template), "{path}");
            let expected = template.contains("{collection}").then(|| Ok("news".to_owned()));
            assert_eq!(matched.collection(&path), expected, "{path}");
            assert_eq!(matched.id(&path), template.contains(ID).then(|| Ok("a/b".to_owned())), "{path}");
        }
    }

    #[test]
    fn other_paths_have_no_route() {
        for path in [
            "",
            "/console",
            "/nothing",
            "/backup",
            "/calibrate",
            "/reindex",
            "/restore",
            "/similar/",
            "/similar/x",
            "//similar",
            "/Similar",
            "/documents/",
            "/documents/a/",
            "/documents/a/b/c",
            "/documents/a/similar/x",
            "/collections/",
            "/collections//similar",
            "/collectionsx/a",
            "/collections-/a/similar",
            "/collections/a/",
            "/collections/a/b",
            "/collections/a/stats/x",
            "/collections/a/livez",
            "/collections/a/documents/b/similar/x",
            "/docsx",
            "/collections/é/x",
        ] {
            let matched = Matched::of(path);
            assert_eq!(matched.route, Route::Unknown, "{path}");
            assert_eq!(matched.template(), "none", "{path}");
            assert_eq!(matched.route.need(&Method::GET), Need::All(Role::Admin), "{path}");
        }
        for path in ["/docs", "/docs/", "/docs/errors", "/docs/swagger-ui.css"] {
            assert_eq!(Matched::of(path).route, Route::Docs, "{path}");
        }
        for path in ["/", "/console/", "/console/0/js/main.js"] {
            let matched = Matched::of(path);
            assert_eq!((matched.route, matched.template()), (Route::Console, "/"), "{path}");
            assert_eq!(matched.without_console().route, Route::Unknown, "{path}");
        }
        assert_eq!(Matched::of("/docs").without_console().route, Route::Docs);
    }

    #[test]
    fn the_contract_has_every_route_with_every_method() {
        let contract = super::super::openapi::contract().paths.paths;
        assert_eq!(contract.len(), Route::all().count());
        for (route, template) in Route::all() {
            let item = &contract[template];
            let methods = [
                (Method::GET, item.get.is_some()),
                (Method::POST, item.post.is_some()),
                (Method::PUT, item.put.is_some()),
                (Method::PATCH, item.patch.is_some()),
                (Method::DELETE, item.delete.is_some()),
            ];
            for (method, exists) in methods {
                let has = route.methods().iter().any(|(of, _)| *of == method);
                assert_eq!(has, exists, "{method} {template}");
            }
        }
    }
}
