//! The routes: their paths, what they need, and which one a request means.
//!
//! Every path of the server is spelled here and nowhere else. A path is parsed once, before the gate; authorisation, load
//! shedding, metrics, the contract and the dispatch to handlers use the [`Matched`] route.
//!
//! *Absent*: what a route does.

use std::borrow::Cow;
use std::ops::Range;
use std::str::Utf8Error;

use axum::http::Method;
use percent_encoding::percent_decode_str;

use crate::keys::Role;

/// What precedes the routes of a named collection.
macro_rules! collection {
    ($rest:literal) => {
        concat!("/collections/{collection}", $rest)
    };
}

macro_rules! routes {
    (
        server { $($server:ident = $path:literal,)* }
        collection { $($collection:ident = $in_collection:literal,)* }
        either { $($either:ident = $suffix:literal,)* }
    ) => {
        /// A route of the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the paths say it")]
        pub(super) enum Route {
            $($server,)*
            $($collection,)*
            $($either,)*
            /// The pages about the contract.
            Docs,
            /// No route.
            Unknown,
        }

        impl Route {
            /// Routes about the server.
            #[cfg(test)]
            const OF_SERVER: &[Route] = &[$(Route::$server,)*];
            /// Routes about a collection that the path always names.
            const OF_COLLECTION: &[Route] = &[$(Route::$collection,)*];
            /// Routes about a collection: the default one, or the one that the path names.
            pub(super) const OF_EITHER: &[Route] = &[$(Route::$either,)*];

            /// Its path as the contract and the metrics have it; of a route about either, for the default collection.
            pub(super) const fn path(self) -> &'static str {
                match self {
                    $(Route::$server => $path,)*
                    $(Route::$collection => collection!($in_collection),)*
                    $(Route::$either => $suffix,)*
                    Route::Docs => DOCS,
                    Route::Unknown => "none",
                }
            }

            /// The path of a route about either for a named collection; of other routes their path.
            pub(super) const fn path_in_collection(self) -> &'static str {
                match self {
                    $(Route::$either => collection!($suffix),)*
                    _ => self.path(),
                }
            }

            /// What follows the name of the collection.
            const fn suffix(self) -> &'static str {
                match self {
                    $(Route::$collection => $in_collection,)*
                    $(Route::$either => $suffix,)*
                    _ => "",
                }
            }

            /// The route about the server with this path.
            fn of_server(path: &str) -> Route {
                match path {
                    $($path => Route::$server,)*
                    _ if path == DOCS || path.strip_prefix(DOCS).is_some_and(|rest| rest.starts_with('/')) => Route::Docs,
                    _ => Route::Unknown,
                }
            }
        }
    };
}

routes! {
    server {
        Fingerprint = "/fingerprint",
        Collections = "/collections",
        Snapshots = "/snapshots",
        Livez = "/livez",
        Readyz = "/readyz",
        Metrics = "/metrics",
        Version = "/version",
        Contract = "/openapi.yaml",
    }
    collection {
        Collection = "",
        Backup = "/backup",
        Restore = "/restore",
        Calibrate = "/calibrate",
    }
    either {
        Similar = "/similar",
        Documents = "/documents",
        Document = "/documents/{id}",
        DocumentSimilar = "/documents/{id}/similar",
        Compare = "/compare",
        Export = "/export",
        Stats = "/stats",
    }
}

/// The pages about the contract, and what is under them.
pub(super) const DOCS: &str = "/docs";
/// The contract as the pages read it.
pub(super) const DOCS_CONTRACT: &str = "/docs/openapi.json";
/// The errors explained.
pub(super) const DOCS_ERRORS: &str = "/docs/errors";
/// The parameter in a path that stands for a document.
const ID: &str = "{id}";

/// What the key of a request must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// No key at all.
    Nothing,
    /// This role, for any collection.
    Any(Role),
    /// This role for the collection of the request.
    Collection(Role),
    /// This role for all collections.
    All(Role),
}

impl Route {
    /// The methods of a route, with what each needs. `HEAD` is `GET` without the body.
    pub(super) fn methods(self) -> &'static [(Method, Need)] {
        const READ: Need = Need::Collection(Role::Read);
        const WRITE: Need = Need::Collection(Role::Write);
        const ADMIN: Need = Need::Collection(Role::Admin);
        match self {
            Route::Fingerprint => &[(Method::POST, Need::Any(Role::Read))],
            Route::Collections | Route::Version => &[(Method::GET, Need::Any(Role::Read))],
            Route::Collection => &[(Method::GET, READ), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)],
            Route::Backup => &[(Method::GET, ADMIN)],
            Route::Restore => &[(Method::POST, ADMIN)],
            Route::Calibrate => &[(Method::GET, READ), (Method::POST, ADMIN), (Method::DELETE, ADMIN)],
            Route::Similar => &[(Method::GET, READ), (Method::POST, READ)],
            Route::Compare => &[(Method::POST, READ)],
            Route::Documents => &[(Method::POST, WRITE)],
            Route::Document => &[(Method::GET, READ), (Method::PUT, WRITE), (Method::DELETE, WRITE)],
            Route::DocumentSimilar | Route::Export | Route::Stats => &[(Method::GET, READ)],
            Route::Snapshots => {
                &[(Method::GET, Need::All(Role::Admin)), (Method::POST, Need::All(Role::Admin))]
            }
            Route::Metrics => &[(Method::GET, Need::All(Role::Read))],
            Route::Livez | Route::Readyz | Route::Contract | Route::Docs => &[(Method::GET, Need::Nothing)],
            Route::Unknown => &[],
        }
    }

    /// What a request needs. A method that the route does not have needs a key that may do everything, so that a new route is
    /// closed until it has its methods above.
    pub(super) fn need(self, method: &Method) -> Need {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let found = self.methods().iter().find(|(of, _)| of == method);
        found.map_or(Need::All(Role::Admin), |(_, need)| *need)
    }

    /// Whether a request needs the CPU pool for its body, so that the server refuses it before it reads the body if the pool
    /// is busy.
    pub(super) fn needs_pool(self, method: &Method) -> bool {
        *method == Method::POST && matches!(self, Route::Fingerprint | Route::Similar | Route::Compare)
    }
}

/// The route of a path, and where the path has its parameters.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    /// The route.
    pub(super) route: Route,
    collection: Option<Range<usize>>,
    id: Option<Range<usize>>,
}

impl Matched {
    /// The route of a path. Segments are compared as they stand in the path; only parameters are percent-decoded.
    pub(super) fn of(path: &str) -> Matched {
        let found = |route, collection, id| Matched { route, collection, id };
        if let Some((route, id)) = matching(Route::OF_EITHER, path, 0) {
            return found(route, None, id);
        }
        if let Some(collection) = parameter(path, Route::Collections.path().len() + 1)
            && path.starts_with(Route::Collections.path())
            && path.as_bytes()[collection.start - 1] == b'/'
        {
            let of_collection = matching(Route::OF_COLLECTION, path, collection.end);
            let (route, id) = of_collection
                .or_else(|| matching(Route::OF_EITHER, path, collection.end))
                .unwrap_or((Route::Unknown, None));
            return found(route, Some(collection), id);
        }
        found(Route::of_server(path), None, None)
    }

    /// The path as the contract and the metrics have it: a few in all, whatever clients send.
    pub(super) fn template(&self) -> &'static str {
        if self.collection.is_some() { self.route.path_in_collection() } else { self.route.path() }
    }

    /// The name of the collection in the path; an error if it is no UTF-8.
    pub(super) fn collection(&self, path: &str) -> Option<Result<String, Utf8Error>> {
        self.collection.clone().map(|range| decoded(&path[range]))
    }

    /// The id of the document in the path; an error if it is no UTF-8.
    pub(super) fn id(&self, path: &str) -> Option<Result<String, Utf8Error>> {
        self.id.clone().map(|range| decoded(&path[range]))
    }
}

/// The one of these routes whose suffix is the path from `at` on, and where the path has the id.
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

    fn all() -> impl Iterator<Item = (Route, &'static str)> {
        let server = Route::OF_SERVER.iter().chain(Route::OF_COLLECTION).map(|route| (*route, route.path()));
        let either = Route::OF_EITHER
            .iter()
            .flat_map(|route| [route.path(), route.path_in_collection()].map(|path| (*route, path)));
        server.chain(either)
    }

    #[test]
    fn every_template_matches_its_route() {
        for (route, template) in all() {
            let path = template.replace("{collection}", "n%65ws").replace("{id}", "a%2Fb");
            let matched = Matched::of(&path);
            assert_eq!((matched.route, matched.template()), (route, template), "{path}");
            let expected = template.contains("{collection}").then(|| Ok("news".to_owned()));
            assert_eq!(matched.collection(&path), expected, "{path}");
            assert_eq!(matched.id(&path), template.contains(ID).then(|| Ok("a/b".to_owned())), "{path}");
        }
    }

    #[test]
    fn other_paths_are_no_route() {
        for path in [
            "/",
            "",
            "/nothing",
            "/backup",
            "/calibrate",
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
        for path in ["/docs", "/docs/", "/docs/errors", "/docs/openapi.json"] {
            assert_eq!(Matched::of(path).route, Route::Docs, "{path}");
        }
    }

    #[test]
    fn the_contract_has_every_route_with_every_method() {
        let contract = super::super::openapi::contract().paths.paths;
        assert_eq!(contract.len(), all().count());
        for (route, template) in all() {
            let item = &contract[template];
            let methods = [
                (Method::GET, item.get.is_some()),
                (Method::POST, item.post.is_some()),
                (Method::PUT, item.put.is_some()),
                (Method::DELETE, item.delete.is_some()),
            ];
            for (method, is_there) in methods {
                let has = route.methods().iter().any(|(of, _)| *of == method);
                assert_eq!(has, is_there, "{method} {template}");
            }
        }
    }
}
