//! Links of the contract: the operations that can follow an answer, with the parameters that it provides.
//! Test generators follow them from request to request, and the pages of the contract show them.

use std::collections::BTreeMap;

use utoipa::openapi::link::Link;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, RefOr};

use super::openapi::{IN_COLLECTION, operations};

/// A parameter of the next operation, and the place of its value in the request or the answer.
type Known = (&'static str, &'static str);

const ADDED: Known = ("id", "$response.body#/id");
const NAMED: Known = ("id", "$request.path.id");
const COLLECTION: Known = ("collection", "$request.path.collection");

/// An operation and a status, the parameter that is known then, and the operations that can follow.
const LINKS: [(&str, &str, Known, &[&str]); 8] = [
    (
        "add_documents",
        "201",
        ADDED,
        &[
            "get_document",
            "put_document",
            "delete_document",
            "get_document_similar",
            "get_document_cluster",
            "get_similar",
        ],
    ),
    (
        "put_document",
        "201",
        NAMED,
        &["get_document", "delete_document", "get_document_similar", "get_similar"],
    ),
    ("put_document", "200", NAMED, &["put_document", "delete_document"]),
    (
        "put_collection",
        "201",
        COLLECTION,
        &[
            "get_collection",
            "put_collection",
            "delete_collection",
            "add_documents_in_collection",
            "export_documents_in_collection",
            "get_stats_in_collection",
            "build_clusters_in_collection",
            "list_clusters_in_collection",
            "add_marks_in_collection",
            "list_marks_in_collection",
            "get_shared_hashes",
            "backup",
            "begin_calibration",
            "begin_reindex",
        ],
    ),
    ("put_collection", "200", COLLECTION, &["get_collection", "add_documents_in_collection"]),
    ("begin_calibration", "202", COLLECTION, &["get_calibration", "forget_calibration"]),
    ("begin_reindex", "202", COLLECTION, &["get_reindex", "end_reindex"]),
    ("put_weights", "202", COLLECTION, &["get_reindex", "end_reindex"]),
];

/// Adds the links, and the same links between the variants of operations with the collection in the path.
pub(super) fn add(contract: &mut OpenApi) {
    for operation in contract.paths.paths.values_mut().flat_map(operations) {
        let id = operation.operation_id.clone().unwrap_or_default();
        let plain = id.strip_suffix(IN_COLLECTION);
        for (from, status, known, targets) in LINKS {
            if from == id {
                add_to(operation, status, &[known], targets.iter().map(|to| (*to).to_owned()));
            } else if plain == Some(from) {
                let targets = targets.iter().map(|to| format!("{to}{IN_COLLECTION}"));
                add_to(operation, status, &[COLLECTION, known], targets);
            }
        }
    }
}

fn add_to(operation: &mut Operation, status: &str, known: &[Known], targets: impl Iterator<Item = String>) {
    let Some(RefOr::T(response)) = operation.responses.responses.get_mut(status) else { return };
    let parameters: BTreeMap<String, serde_json::Value> =
        known.iter().map(|(name, place)| ((*name).to_owned(), (*place).into())).collect();
    for target in targets {
        let mut link = Link::builder().operation_id(target.clone()).build();
        link.parameters.clone_from(&parameters);
        response.links.insert(target, link.into());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_link_is_in_the_contract_and_has_a_target() {
        let mut contract = super::super::openapi::contract();
        let all: Vec<&mut Operation> = contract.paths.paths.values_mut().flat_map(operations).collect();
        let ids: BTreeSet<&str> =
            all.iter().filter_map(|operation| operation.operation_id.as_deref()).collect();
        for (from, status, _, targets) in LINKS {
            let operation = all.iter().find(|operation| operation.operation_id.as_deref() == Some(from));
            let Some(RefOr::T(response)) = operation.and_then(|found| found.responses.responses.get(status))
            else {
                panic!("{from} has no {status}");
            };
            for to in targets {
                assert!(response.links.contains_key(*to) && ids.contains(to), "{from}: {to}");
            }
        }
    }
}
