//! Examples of the contract, with which its pages fill in requests. A test sends every one of them.
//!
//! An example that an element of a schema has is right for that element, but a request of all elements is
//! often contradictory, such as `k` together with `threshold`. Therefore bodies have examples as a whole, and
//! a query with several subjects has an example of one.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder};
use utoipa::openapi::{OpenApi, RefOr, Schema};

use super::openapi::{IN_COLLECTION, operations};

type Schemas = BTreeMap<String, RefOr<Schema>>;

const TEXT: &str = "The ferry to the islands runs every twenty minutes during the summer festival.";
const OTHER: &str = "The ferry to the islands runs every thirty minutes during the summer festival.";

/// The body of an operation; `None` if it needs none.
fn body(operation: &str) -> Option<Value> {
    Some(match operation {
        "fingerprint" => json!({"text": TEXT}),
        "compare" => json!({"a": {"text": TEXT}, "b": {"text": OTHER}}),
        "add_documents" => json!({"id": "article-1", "text": TEXT, "metadata": {"source": "rss"}}),
        "stream_documents" => json!("{\"id\": \"article-1\", \"hash\": \"a1b2c3d4e5f60718\"}\n"),
        "batch_documents" | "preview_documents" => {
            json!([{"id": "article-1", "text": TEXT, "metadata": {"source": "rss"}}])
        }
        "batch_fingerprint" => json!({"texts": [TEXT, OTHER]}),
        "batch_similar" => json!({"queries": [{"text": TEXT}, {"text": OTHER}]}),
        "patch_document" => json!({"metadata": {"checked": true}}),
        "delete_documents" => json!({"dry_run": true, "filter": {"metadata": {"source": "rss"}}}),
        "put_document" => json!({"text": TEXT, "metadata": {"source": "rss"}}),
        "post_similar" => json!({"text": OTHER, "limit": 10}),
        "put_collection" => json!({"profile": "copies-64", "keep_text": true}),
        "build_clusters" => json!({"keep": "first"}),
        "add_marks" => json!({"marks": [{"ids": ["article-1", "article-2"]}]}),
        "begin_reindex" => json!({"profile": "copies-128"}),
        "begin_calibration" => json!({"profiles": ["copies-64", "copies-128"], "sample": 1_000}),
        _ => return None,
    })
}

/// The values of parameters in place of those of their schemas; `None` for no value.
fn parameters(operation: &str) -> &'static [(&'static str, Option<&'static str>)] {
    match operation {
        "get_similar" => &[("text", Some(OTHER)), ("hash", None), ("id", None), ("profile", None)],
        "add_documents" | "batch_documents" | "stream_documents" | "get_document" => {
            &[("If-None-Match", None)]
        }
        "put_document" => &[("If-Match", None), ("If-None-Match", None)],
        "patch_document" | "delete_document" => &[("If-Match", None)],
        "remove_mark" => &[("other", Some("article-2"))],
        _ => &[],
    }
}

/// Adds the examples.
pub(super) fn add(contract: &mut OpenApi) {
    let schemas = contract.components.clone().unwrap_or_default().schemas;
    for operation in contract.paths.paths.values_mut().flat_map(operations) {
        let id = operation.operation_id.clone().unwrap_or_default();
        let id = id.strip_suffix(IN_COLLECTION).unwrap_or(&id);
        if let Some(example) = body(id) {
            set_body(operation, &example);
        }
        for (name, example) in parameters(id) {
            set_parameter(operation, name, *example, &schemas);
        }
    }
}

fn set_body(operation: &mut Operation, example: &Value) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    for (kind, content) in &mut body.content {
        if let RefOr::T(content) = content
            && (kind.ends_with("json") && example.is_string() == kind.ends_with("ndjson"))
        {
            content.example = Some(example.clone());
        }
    }
}

fn set_parameter(operation: &mut Operation, name: &str, example: Option<&str>, schemas: &Schemas) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.name == name
        {
            *parameter = ParameterBuilder::from(parameter.clone()).example(example.map(Value::from)).build();
            if example.is_none() {
                remove_example(parameter, schemas);
            }
        }
    }
}

/// Gives a parameter its schema without the example that others with this schema have.
fn remove_example(parameter: &mut Parameter, schemas: &Schemas) {
    if let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema {
        object.examples.clear();
    }
    let Some(RefOr::Ref(reference)) = &parameter.schema else { return };
    let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
    if let Some(RefOr::T(Schema::Object(object))) = schemas.get(name) {
        let mut object = object.clone();
        object.examples.clear();
        parameter.schema = Some(RefOr::T(object.into()));
    }
}
