//! The contract, generated from the handlers. `openapi.yaml` is its text, and a test keeps the two equal.

use std::sync::LazyLock;

use utoipa::OpenApi;
use utoipa::openapi::path::{ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Required, path::Operation};

use super::error::Body;
use super::wire::{BatchOut, ExpiresIn, FingerprintsOut, Hex, Id, Metadata, Timestamp};
use super::{backups, collections, compare, documents, fingerprint, operations, similar};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "lookalike",
        description = "Exact near-duplicate lookup: fingerprints, documents, and which of them lie within Hamming distance k."
    ),
    paths(
        fingerprint::fingerprint, compare::compare,
        documents::add, documents::put, documents::get, documents::delete, documents::export,
        similar::by_query, similar::by_body, similar::by_document,
        collections::list, collections::get, collections::put, collections::delete,
        backups::backup, backups::restore,
        operations::stats, operations::snapshot, operations::snapshots,
        operations::livez, operations::readyz, operations::metrics, operations::version, operations::contract,
    ),
    components(schemas(Body, ExpiresIn, Hex, Id, Metadata, Timestamp, FingerprintsOut, BatchOut)),
    tags(
        (name = "fingerprints", description = "From text to hash."),
        (name = "documents", description = "What is stored."),
        (name = "similar", description = "Which stored documents are near."),
        (name = "collections", description = "Separate sets of documents, each with its profile."),
        (name = "operations", description = "Health, numbers, snapshots."),
    )
)]
struct Contract;

/// The routes of documents, which stand under `/collections/{collection}` too.
const PER_COLLECTION: [&str; 7] =
    ["/documents", "/documents/{id}", "/documents/{id}/similar", "/similar", "/compare", "/export", "/stats"];

static YAML: LazyLock<String> =
    LazyLock::new(|| contract().to_yaml().expect("the contract is plain data and always serialises"));

/// The contract as YAML.
pub fn yaml() -> &'static str {
    &YAML
}

/// The contract.
pub(super) fn contract() -> utoipa::openapi::OpenApi {
    let mut contract = Contract::openapi();
    contract.merge(documents::Streamed::openapi());
    for route in PER_COLLECTION {
        if let Some(item) = contract.paths.paths.get(route) {
            let item = per_collection(item.clone());
            contract.paths.paths.insert(format!("/collections/{{collection}}{route}"), item);
        }
    }
    contract
}

/// The same operations with the collection in the path.
fn per_collection(mut item: PathItem) -> PathItem {
    let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten();
    for operation in operations {
        add_collection(operation);
    }
    item
}

fn add_collection(operation: &mut Operation) {
    let parameter = ParameterBuilder::new()
        .name("collection")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some("The collection."))
        .schema(Some(ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))))
        .build();
    operation.parameters.get_or_insert_default().insert(0, parameter.into());
    let id = operation.operation_id.get_or_insert_default();
    id.push_str("_in_collection");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_file_openapi_yaml_is_what_the_binary_generates() {
        let file = include_str!("../../openapi.yaml");
        assert!(file == super::yaml(), "openapi.yaml is stale: run `cargo run -- openapi > openapi.yaml`");
    }
}
