//! The routes of all modules as one router: each module adds its own, with the key that each operation needs.
//!
//! A path is written once, beside its handlers. The routes of a collection have its name in the path; those
//! with an optional collection exist a second time without it, for `default`. Metrics, authorization and load
//! shedding use the [`Rule`] of a path, which the router finds for all but the most frequent lookups.
//!
//! *Absent*: the handlers.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::Router;
use axum::http::Method;
use foldhash::fast::RandomState;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::UtoipaMethodRouter;

use super::{State, openapi};
use lookalike_hash::CollectionName;
use lookalike_keys::Role;

/// The path of a collection, and what comes before its name.
pub(super) const COLLECTION: &str = "/collections/{collection}";
pub(super) const COLLECTIONS: &str = "/collections/";

pub(super) const READ: Need = Need::Collection(Role::Read);
pub(super) const WRITE: Need = Need::Collection(Role::Write);
pub(super) const ADMIN: Need = Need::Collection(Role::Admin);

/// The key that an operation needs.
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

/// What an operation needs before its body is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) need: Need,
    /// Whether its body needs the CPU pool: then the server refuses it if the pool is busy.
    pub(super) uses_pool: bool,
    /// Whether a replica whose data differ from those of others refuses it.
    pub(super) is_for_data: bool,
}

impl Need {
    /// The terms of an operation whose body needs the CPU pool.
    pub(super) fn on_pool(self) -> Terms {
        Terms { uses_pool: true, ..self.into() }
    }

    /// The terms of an operation whose answer has nothing of the stored data.
    pub(super) fn without_data(self) -> Terms {
        Terms { is_for_data: false, ..self.into() }
    }
}

impl From<Need> for Terms {
    fn from(need: Need) -> Terms {
        Terms { need, uses_pool: false, is_for_data: need != Need::Nothing }
    }
}

/// A path of the router.
pub(super) struct Rule {
    /// The path in the contract and the metrics. There are only a few, whatever paths clients send.
    pub(super) label: &'static str,
    operations: Vec<(Method, Terms)>,
}

/// The rule of a path without a route.
pub(super) static UNKNOWN: Rule = Rule { label: "none", operations: Vec::new() };

impl Rule {
    /// Whether there is a route.
    pub(super) fn is_known(&self) -> bool {
        !self.operations.is_empty()
    }

    /// Its methods, without `HEAD`, which is `GET` without the body.
    pub(super) fn methods(&self) -> impl Iterator<Item = &Method> {
        self.operations.iter().map(|(method, _)| method)
    }

    /// The terms of a method; `None` if the route does not have it.
    pub(super) fn terms(&self, method: &Method) -> Option<Terms> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        self.operations.iter().find(|(of, _)| of == method).map(|(_, terms)| *terms)
    }

    /// The key that a request needs. A method that the route does not have needs a key with all rights.
    pub(super) fn need(&self, method: &Method) -> Need {
        self.terms(method).map_or(Need::All(Role::Admin), |terms| terms.need)
    }
}

/// The routes, their contract and their rules.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) router: Router<State>,
    pub(super) contract: OpenApi,
    /// By the path of the router.
    pub(super) rules: HashMap<&'static str, Rule, RandomState>,
}

/// All routes.
pub(super) static ROUTES: LazyLock<Routes> =
    LazyLock::new(|| super::MODULES.iter().fold(Routes::default(), |all, add| add(all)));

impl Routes {
    /// Adds operations of the server.
    pub(super) fn of_server(self, terms: impl Into<Terms>, routes: UtoipaMethodRouter<State>) -> Routes {
        self.with("", terms.into(), routes)
    }

    /// Adds operations of a collection, whose path comes before theirs.
    pub(super) fn of_collection(
        self,
        terms: impl Into<Terms>,
        (schemas, mut paths, handlers): UtoipaMethodRouter<State>,
    ) -> Routes {
        paths.paths.values_mut().flat_map(openapi::operations).for_each(openapi::add_collection);
        self.with(COLLECTION, terms.into(), (schemas, paths, handlers))
    }

    /// Adds operations of a collection that exist for the collection `default` without its name, too.
    pub(super) fn of_optional_collection(
        self,
        terms: impl Into<Terms>,
        routes: UtoipaMethodRouter<State>,
    ) -> Routes {
        let (terms, mut named) = (terms.into(), routes.clone());
        named.1.paths.values_mut().flat_map(openapi::operations).for_each(openapi::add_suffix);
        self.with("", terms, routes).of_collection(terms, named)
    }

    /// Adds pages, which are no part of the contract and need no key. The metrics have them as one path.
    pub(super) fn pages(
        mut self,
        label: &'static str,
        paths: &[&'static str],
        pages: Router<State>,
    ) -> Routes {
        for &path in paths {
            let operations = vec![(Method::GET, Need::Nothing.into())];
            self.rules.insert(path, Rule { label, operations });
        }
        self.router = self.router.merge(pages);
        self
    }

    fn with(
        mut self,
        prefix: &str,
        terms: Terms,
        (schemas, paths, handlers): UtoipaMethodRouter<State>,
    ) -> Routes {
        for (path, item) in paths.paths {
            // The routes are made once.
            let path: &'static str = format!("{prefix}{path}").leak();
            let methods = [
                (Method::GET, item.get.is_some()),
                (Method::POST, item.post.is_some()),
                (Method::PUT, item.put.is_some()),
                (Method::PATCH, item.patch.is_some()),
                (Method::DELETE, item.delete.is_some()),
            ];
            let rule = self.rules.entry(path).or_insert(Rule { label: path, operations: Vec::new() });
            let added = methods.into_iter().filter(|(_, exists)| *exists).map(|(method, _)| (method, terms));
            rule.operations.extend(added);
            self.router = self.router.route(path, handlers.clone());
            self.contract.paths.paths.entry(path.to_owned()).or_default().merge_operations(item);
        }
        self.contract.components.get_or_insert_default().schemas.extend(schemas);
        self
    }
}

/// A path in this collection.
pub(super) fn of_collection(name: &CollectionName, path: &str) -> String {
    format!("{COLLECTIONS}{name}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_contract_has_its_terms_and_every_other_one_is_closed() {
        let closed = Need::All(Role::Admin);
        for (path, item) in &mut openapi::contract().paths.paths {
            let rule = &ROUTES.rules[path.as_str()];
            assert_eq!(rule.label, path);
            assert_eq!(rule.methods().count(), openapi::operations(item).count(), "{path}");
            assert_eq!(rule.need(&Method::TRACE), closed, "{path}");
        }
        assert_eq!(UNKNOWN.need(&Method::GET), closed);
    }
}
