//! The `OpenAPI` contract, generated from the handlers. A test checks that `openapi.yaml` is equal to it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::Method;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::openapi::{Required, path::Operation};
use utoipa::{IntoResponses, OpenApi};

use super::error::Body;
use super::responses::{self, AnyProblem, NotAllowed};
use super::route::{Need, ROUTES};
use super::wire::{
    Arrival, Bits, ClusterOrderIn, Count, ErrorsListed, ExpiresIn, HashFormat, HashIn, HashOut, Id, Metadata,
    Timestamp,
};
use super::{documents, examples, links, pairs, parquet};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "lookalike",
        description = "Exact near-duplicate lookup: fingerprints, and documents within Hamming distance \
                       k.\n\n\
                       The header `X-Timeout-Ms` (1 or more) shortens the time of a lookup, a fingerprint\n\
                       or a write. After it the answer is 503 `deadline_exceeded`; elements of an array\n\
                       that were not begun have this error.\n\n\
                       Every body may be compressed: `Content-Encoding: gzip` or `zstd`. Limits count\n\
                       decompressed bytes."
    ),
    servers((url = "/", description = "The server that has this contract.")),
    components(schemas(
        Arrival, Body, Bits, ClusterOrderIn, Count, ErrorsListed, ExpiresIn, HashFormat, HashIn, HashOut, Id,
        Metadata, Timestamp,
    )),
    tags(
        (name = "fingerprints", description = "Fingerprints of texts."),
        (name = "documents", description = "The stored documents."),
        (name = "similar", description = "Lookup of near stored documents."),
        (name = "clusters", description = "Groups of near-duplicates, and which document represents each."),
        (name = "marks", description = "Documents that users marked as no duplicates."),
        (name = "collections", description = "Separate sets of documents, each with its profile."),
        (name = "operations", description = "Health, metrics, snapshots, backups."),
    )
)]
struct Contract;

/// The suffix of the ids of operations with the collection in the path.
pub(super) const IN_COLLECTION: &str = "_in_collection";

static YAML: LazyLock<String> =
    LazyLock::new(|| contract().to_yaml().expect("the contract can always be serialised"));

static JSON: LazyLock<String> =
    LazyLock::new(|| contract().to_json().expect("the contract can always be serialised") + "\n");

/// The contract as JSON.
pub(super) fn json() -> &'static str {
    &JSON
}

/// The contract as YAML.
pub fn yaml() -> &'static str {
    &YAML
}

/// The contract.
pub(super) fn contract() -> utoipa::openapi::OpenApi {
    let mut contract = Contract::openapi();
    contract.merge(ROUTES.contract.clone());
    contract.merge(documents::Streamed::openapi());
    contract.merge(pairs::Streamed::openapi());
    contract.merge(parquet::Streamed::openapi());
    for (path, item) in &mut contract.paths.paths {
        let is_open = ROUTES.rules[path.as_str()].need(&Method::GET) == Need::Nothing;
        operations(item).for_each(|operation| {
            add_errors(operation, is_open);
            add_parameter_schemas(operation);
            remove_text_schemas(operation);
        });
    }
    links::add(&mut contract);
    examples::add(&mut contract);
    share(&mut contract);
    let components = contract.components.get_or_insert_default();
    components.responses.extend(responses::all());
    let schemes = &mut components.security_schemes;
    schemes.insert("bearer".to_owned(), SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)).into());
    let header = ApiKey::Header(ApiKeyValue::new("X-API-Key"));
    schemes.insert("key".to_owned(), SecurityScheme::ApiKey(header).into());
    let none: [&str; 0] = [];
    // The first alternative is no key at all, for a server without keys.
    contract.security = Some(vec![
        SecurityRequirement::default(),
        SecurityRequirement::new("bearer", none),
        SecurityRequirement::new("key", none),
    ]);
    contract
}

pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// Adds the schemas of the parameters in the path and of the conditions in the headers.
fn add_parameter_schemas(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        parameter.schema = match (&parameter.parameter_in, parameter.name.as_str()) {
            (ParameterIn::Path, "collection") => Some(text("^[a-z0-9][a-z0-9_-]{0,63}$", Some("default"))),
            (ParameterIn::Path, "id") => Some(Ref::from_schema_name("DocumentId").into()),
            (ParameterIn::Header, "If-Match") => Some(text(r#"^(\*|"[!#-~]*"(, "[!#-~]*")*)$"#, Some("*"))),
            (ParameterIn::Header, "If-None-Match") => Some(text(r"^\*$", None)),
            _ => continue,
        };
    }
}

fn text(pattern: &str, example: Option<&str>) -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
    RefOr::T(schema.pattern(Some(pattern)).examples(example).into())
}

/// Removes the schemas of bodies of text, which can be any text.
fn remove_text_schemas(operation: &mut Operation) {
    let Some(RefOr::T(body)) = &mut operation.request_body else {
        return;
    };
    for (kind, content) in &mut body.content {
        if let RefOr::T(content) = content
            && kind.starts_with("text/")
        {
            content.schema = None;
        }
    }
}

/// Adds the errors that any request can get.
fn add_errors(operation: &mut Operation, is_open: bool) {
    if !is_open {
        operation.responses.responses.extend(NotAllowed::responses());
    }
    operation.responses.responses.extend(AnyProblem::responses());
}

/// Describes parameters and responses that several operations have once, and refers to them.
fn share(contract: &mut utoipa::openapi::OpenApi) {
    let (mut parameters, mut responses) = (Vec::new(), Vec::new());
    for operation in contract.paths.paths.values_mut().flat_map(operations) {
        let id = operation.operation_id.as_deref().unwrap_or_default();
        let id = id.strip_suffix(IN_COLLECTION).unwrap_or(id).to_owned();
        for parameter in operation.parameters.iter_mut().flatten() {
            let RefOr::T(Parameter { name, .. }) = &*parameter else { continue };
            parameters.push((name.clone(), format!("{id}_{name}"), parameter));
        }
        for (status, response) in &mut operation.responses.responses {
            let name = format!("{id}_{status}");
            responses.push((name.clone(), name, response));
        }
    }
    let (parameters, responses) = (shared(parameters, "parameters"), shared(responses, "responses"));
    let components = contract.components.get_or_insert_default();
    components.parameters.extend(parameters);
    components.responses.extend(responses);
}

/// Moves values that stand in several places to the components of this kind. The name there is the short one,
/// or the long one of the first place if values of the short name differ.
fn shared<T: Clone + PartialEq>(
    places: Vec<(String, String, &mut RefOr<T>)>,
    kind: &str,
) -> BTreeMap<String, RefOr<T>> {
    let mut values: Vec<(T, &str, &str, usize)> = Vec::new();
    for (short, long, place) in &places {
        let RefOr::T(value) = &**place else { continue };
        match values.iter_mut().find(|(known, ..)| known == value) {
            Some((.., uses)) => *uses += 1,
            None => values.push((value.clone(), short, long, 1)),
        }
    }
    let names: Vec<(T, String)> = values
        .iter()
        .filter(|(.., uses)| *uses > 1)
        .map(|(value, short, long, _)| {
            let is_unique = values.iter().filter(|(_, other, ..)| other == short).count() == 1;
            (value.clone(), (*if is_unique { short } else { long }).to_owned())
        })
        .collect();
    let mut components = BTreeMap::new();
    for (_, _, place) in places {
        let RefOr::T(value) = &*place else { continue };
        let Some((_, name)) = names.iter().find(|(known, _)| known == value) else { continue };
        let reference = RefOr::Ref(Ref::new(format!("#/components/{kind}/{name}")));
        let described = std::mem::replace(place, reference);
        let before = components.insert(name.clone(), described.clone());
        assert!(before.is_none_or(|before| before == described), "two {kind} have the name {name}");
    }
    components
}

/// Adds the parameter of the path for the collection.
pub(super) fn add_collection(operation: &mut Operation) {
    let parameter = ParameterBuilder::new()
        .name("collection")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some("The collection."))
        .build();
    operation.parameters.get_or_insert_default().insert(0, parameter.into());
}

/// Gives the variant of an operation with the collection in the path an id of its own.
pub(super) fn add_suffix(operation: &mut Operation) {
    operation.operation_id.get_or_insert_default().push_str(IN_COLLECTION);
}

#[cfg(test)]
mod tests {
    #[test]
    fn openapi_yaml_is_equal_to_the_generated_contract() {
        let file = include_str!("../../../openapi.yaml");
        assert!(file == super::yaml(), "openapi.yaml is stale: run `cargo run -- openapi > openapi.yaml`");
    }
}
