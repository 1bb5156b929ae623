//! Documents: add, read, change, delete.

use std::time::Instant;

use axum::extract::{Extension, Request, State as From_};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use utoipa_axum::routes;

use super::State;
use super::access::RequestKey;
use super::body::Json;
use super::bulk::{self, Destination, Framing};
use super::condition::{Conditional, Held, etag};
use super::deadline::Deadline;
use super::error::{Code, Problem};
use super::extract::{DocumentPath, NoParams, Params, Target, check_type, parse_aside, read, read_sized};
use super::idempotency::IdempotencyKey;
use super::image_body;
use super::parse::parse_object;
use super::responses::{BodyRefused, ConditionFailed, Mismatch, NotFound, OutOfSpace, Refused, Unavailable};
use super::route::{READ, Routes, WRITE, of_collection};
use super::wire::{
    AddedOut, BulkOut, DocumentIn, DocumentOut, FormParams, HashFormat, LineOut, NearParams, OnDuplicate,
    PatchIn, SummaryOut,
};
use lookalike_hash::{CollectionName, DocumentId};
use lookalike_service::{self as service, Condition, DuplicateRule, Offered, Outcome, StoreRule, Version};

/// What is percent-encoded in a path: all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The path of the documents of a collection.
pub(super) const PATH: &str = "/documents";
/// The path of one document.
const DOCUMENT: &str = "/documents/{id}";
/// The media type of a stream.
const LINES: &str = "application/x-ndjson";

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(WRITE, routes!(add))
        .of_optional_collection(WRITE, routes!(batch))
        .of_optional_collection(WRITE, routes!(stream))
        .of_optional_collection(READ, routes!(get))
        .of_optional_collection(WRITE, routes!(put, patch, delete))
}

/// Stores one document. A body of `application/x-ndjson` is read as by `POST /stream/documents`.
///
/// An image can also be the body itself, as `image/jpeg`, `image/png`, `image/webp` or `image/gif`, or the
/// part `image` of a form (`multipart/form-data`) whose other parts are the members.
#[utoipa::path(
    post, path = PATH, tag = "documents", operation_id = "add_documents",
    params(
        NearParams,
        ("If-None-Match" = Option<String>, Header, description = "`*` stores only documents with new ids."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters that are new for \
            each request. Documents without ids get ids that follow from it, so it can be sent again. With \
            another body it is refused (422)."),
    ),
    request_body = DocumentIn,
    responses(
        (status = 200, description = "The document was updated, or is a duplicate and was not stored.",
            body = AddedOut,
            headers(("ETag" = Option<String>, description = "The version of one document that was stored."))),
        (status = 201, description = "The document was created.", body = AddedOut,
            headers(
                ("ETag" = String, description = "Its version."),
                ("Location" = String, description = "Its path."),
            )),
        BodyRefused, NotFound, ConditionFailed, Mismatch, Refused, Unavailable, OutOfSpace,
    )
)]
async fn add(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<NearParams>,
    Conditional(condition): Conditional,
    deadline: Deadline,
    key: Option<Extension<RequestKey>>,
    request: Request,
) -> Result<Response, Problem> {
    let is_image = image_body::is_declared(request.headers());
    if !is_image && check_type(request.headers(), &["application/json", LINES])? == LINES {
        return streamed(&state, &collection, &params, condition, key, request).await;
    }
    let idempotency = IdempotencyKey::of(request.headers())?;
    let limits = *state.service.limits();
    let storing = Storing::of(&state, &collection, &params, condition, deadline)?;
    if is_image {
        let offered = async {
            let document = image_body::document(request, &limits).await?;
            Ok(idempotency.named(document.offered(None, &limits)?, 0))
        };
        return storing.store(&state, &collection, offered).await;
    }
    let bytes = read(request, limits.body_bytes()).await?;
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let detail = "expected an object: this route takes one document; send an array to POST \
                      /batch/documents, or many documents as a stream, application/x-ndjson, of any length";
        return Err(Problem::new(Code::InvalidField, detail));
    }
    let form = storing.form;
    let offered = parse_aside(&state, deadline, bytes, move |bytes| {
        let offered = parse_object::<DocumentIn>(bytes)?.offered(form, &limits)?;
        Ok(idempotency.named(offered, 0))
    });
    storing.store(&state, &collection, offered).await
}

/// Stores a stream of documents of any length, one per line.
///
/// The answer is a stream of one `LineResult` per line, in order, and a `SummaryLine` at the end; read it
/// while you send. A bad line fails alone.
///
/// The header of an export gets no result. If its profile is not that of the collection, hashes and
/// signatures up to the next header are refused. An uncompressed body of known length that begins with such a
/// header of an export without texts is refused as a whole (409).
#[utoipa::path(
    post, path = "/stream/documents", tag = "documents", operation_id = "stream_documents",
    params(
        NearParams,
        ("If-None-Match" = Option<String>, Header, description = "`*` stores only documents with new ids; \
            others fail alone."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters that are new for \
            each request. Documents without ids get ids that follow from it, so it can be sent again. With \
            another body it is refused (422)."),
    ),
    request_body(content = String, content_type = "application/x-ndjson"),
    responses(
        (status = 200, description = "The results of the lines.",
            content((LineOut = "application/x-ndjson"))),
        BodyRefused, NotFound, Mismatch, Refused, Unavailable, OutOfSpace,
    )
)]
async fn stream(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<NearParams>,
    Conditional(condition): Conditional,
    key: Option<Extension<RequestKey>>,
    request: Request,
) -> Result<Response, Problem> {
    check_type(request.headers(), &[LINES])?;
    streamed(&state, &collection, &params, condition, key, request).await
}

async fn streamed(
    state: &State,
    collection: &CollectionName,
    params: &NearParams,
    condition: Condition,
    key: Option<Extension<RequestKey>>,
    request: Request,
) -> Result<Response, Problem> {
    let idempotency = IdempotencyKey::of(request.headers())?;
    let limits = *state.service.limits();
    let into = destination(state, collection, params, condition, key)?;
    let into = Destination { idempotency, ..into };
    let waits = [header::EXPECT, header::CONTENT_LENGTH];
    let waits = waits.iter().any(|name| request.headers().contains_key(name));
    let body = request.into_body().into_data_stream();
    let (sizes, enough) = (bulk::Sizes::of(&limits), bulk::enough(&state.service));
    let headers = bulk::headers(&state.service, collection);
    let mut lines = bulk::lines(body, sizes, enough, into.rule.unless.is_some(), headers);
    if waits {
        state.service.admit_stream(collection)?;
        lines = bulk::after_first_chunk(lines).await?;
    }
    bulk::respond(into, lines, Framing::Lines)
}

/// Stores an array of documents. An element that is not a document fails alone.
#[utoipa::path(
    post, path = "/batch/documents", tag = "documents", operation_id = "batch_documents",
    params(
        NearParams,
        ("If-None-Match" = Option<String>, Header, description = "`*` stores only documents with new ids; \
            others fail alone."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters that are new for \
            each request. Documents without ids get ids that follow from it, so it can be sent again. With \
            another body it is refused (422)."),
    ),
    request_body = Vec<DocumentIn>,
    responses(
        (status = 200, description = "The result for each document, in order.", body = BulkOut),
        BodyRefused, NotFound, Mismatch, Refused, Unavailable, OutOfSpace,
    )
)]
async fn batch(
    From_(state): From_<State>,
    Target(collection): Target,
    Params(params): Params<NearParams>,
    Conditional(condition): Conditional,
    deadline: Deadline,
    key: Option<Extension<RequestKey>>,
    request: Request,
) -> Result<Response, Problem> {
    check_type(request.headers(), &["application/json"])?;
    let idempotency = IdempotencyKey::of(request.headers())?;
    let limits = *state.service.limits();
    let into = destination(&state, &collection, &params, condition, key)?;
    let into = Destination { end: Some(deadline.end_of_writes()), idempotency, ..into };
    let way_out = "send many documents as a stream, application/x-ndjson, of any length";
    let bytes = read_sized(request, limits.batch_bytes, way_out).await?;
    let elements =
        parse_aside(&state, deadline, bytes, move |bytes| bulk::elements_of(bytes, limits.batch_documents));
    let headers = bulk::headers(&state.service, &collection);
    let lines =
        bulk::elements(elements.await?, bulk::Sizes::of(&limits), into.rule.unless.is_some(), headers);
    bulk::respond(into, bulk::after_first_chunk(lines).await?, Framing::Array)
}

/// Stores a document with this id, and replaces the stored document that has it.
///
/// An image can also be the body itself, as `image/jpeg`, `image/png`, `image/webp` or `image/gif`, or the
/// part `image` of a form (`multipart/form-data`) whose other parts are the members.
#[utoipa::path(
    put, path = DOCUMENT, tag = "documents", operation_id = "put_document",
    params(
        ("id" = String, Path, description = "The document."), NearParams,
        ("If-Match" = Option<String>, Header, description = "Replace it only in one of these versions: `*` \
            or a list of ETags."),
        ("If-None-Match" = Option<String>, Header, description = "`*` stores it only if there is none with \
            this id."),
    ),
    request_body = DocumentIn,
    responses(
        (status = 200, description = "The document was updated, or is a duplicate and was not stored.",
            body = AddedOut,
            headers(("ETag" = Option<String>, description = "Its version, if it was stored."))),
        (status = 201, description = "The document was created.", body = AddedOut,
            headers(
                ("ETag" = String, description = "Its version."),
                ("Location" = String, description = "Its path."),
            )),
        BodyRefused, NotFound, ConditionFailed, Mismatch, Refused, Unavailable, OutOfSpace,
    )
)]
async fn put(
    From_(state): From_<State>,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
    Params(params): Params<NearParams>,
    Conditional(condition): Conditional,
    deadline: Deadline,
    request: Request,
) -> Result<Response, Problem> {
    let storing = Storing::of(&state, &collection, &params, condition, deadline)?;
    let limits = *state.service.limits();
    if image_body::is_declared(request.headers()) {
        let offered = async { image_body::document(request, &limits).await?.offered_as(&id, None, &limits) };
        return storing.store(&state, &collection, offered).await;
    }
    check_type(request.headers(), &["application/json"])?;
    let bytes = read(request, limits.body_bytes()).await?;
    let form = storing.form;
    let offered = parse_aside(&state, deadline, bytes, move |bytes| {
        parse_object::<DocumentIn>(bytes)?.offered_as(&id, form, &limits)
    });
    storing.store(&state, &collection, offered).await
}

/// Returns a document.
#[utoipa::path(
    get, path = DOCUMENT, tag = "documents", operation_id = "get_document",
    params(
        ("id" = String, Path, description = "The document."), FormParams,
        ("If-None-Match" = Option<String>, Header, description = "ETags of versions that the client has."),
    ),
    responses(
        (status = 200, description = "The document.", body = DocumentOut,
            headers(("ETag" = String, description = "Its version."))),
        (status = 304, description = "The client has this version.",
            headers(("ETag" = String, description = "Its version."))),
        NotFound, Refused, Unavailable,
    )
)]
async fn get(
    From_(state): From_<State>,
    Params(params): Params<FormParams>,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
    held: Held,
) -> Result<Response, Problem> {
    let is_signed = state.service.has_signatures(&collection)?;
    let document = state.service.document(&collection, &id).await?;
    let version = version_of(&document);
    // The cluster of a document changes without the document.
    if held.has(version) && state.service.placement_if_any(&collection, &id)?.is_none() {
        return Ok((StatusCode::NOT_MODIFIED, etag(version)).into_response());
    }
    written(&state, &collection, document, is_signed, params.hash_format).await
}

fn version_of(document: &service::Document) -> Version {
    Version::of_document(document.row.place, document.row.written_ms, document.row.hash)
}

/// The answer with a document, its cluster and its `ETag`.
async fn written(
    state: &State,
    collection: &CollectionName,
    document: service::Document,
    is_signed: bool,
    form: Option<HashFormat>,
) -> Result<Response, Problem> {
    let bytes = document.row.held_bytes();
    let tag = etag(version_of(&document));
    let cluster = state.service.placement_if_any(collection, &document.id)?;
    let write = move || (tag, Json(DocumentOut::new(document, is_signed, cluster, form))).into_response();
    Ok(state.service.aside(bytes, write).await?)
}

/// Changes the metadata and the expiry of a document; its text and its fingerprint stay.
#[utoipa::path(
    patch, path = DOCUMENT, tag = "documents", operation_id = "patch_document",
    params(
        ("id" = String, Path, description = "The document."), FormParams,
        ("If-Match" = Option<String>, Header, description = "Change it only in one of these versions: `*` or \
            a list of ETags."),
    ),
    request_body(content((PatchIn = "application/json"), (PatchIn = "application/merge-patch+json"))),
    responses(
        (status = 200, description = "The changed document.", body = DocumentOut,
            headers(("ETag" = String, description = "Its version."))),
        BodyRefused, NotFound, ConditionFailed, Refused, Unavailable, OutOfSpace,
    )
)]
async fn patch(
    From_(state): From_<State>,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
    Params(params): Params<FormParams>,
    Conditional(condition): Conditional,
    deadline: Deadline,
    request: Request,
) -> Result<Response, Problem> {
    exists(&condition)?;
    check_type(request.headers(), &["application/json", "application/merge-patch+json"])?;
    let bytes = read(request, state.service.limits().body_bytes()).await?;
    let patch = parse_aside(&state, deadline, bytes, |bytes| parse_object::<PatchIn>(bytes)?.patch());
    let patch = patch.await?;
    let is_signed = state.service.has_signatures(&collection)?;
    let document = deadline.write(state.service.patch(&collection, &id, patch, condition)).await?;
    written(&state, &collection, document, is_signed, params.hash_format).await
}

/// Refuses `If-None-Match` for a change of a document that must exist.
fn exists(condition: &Condition) -> Result<(), Problem> {
    if *condition != Condition::Absent {
        return Ok(());
    }
    let detail = "If-None-Match is for documents that do not exist, and this needs one; send If-Match";
    Err(Problem::parameter(Code::InvalidField, "If-None-Match", detail))
}

/// Deletes a document.
#[utoipa::path(
    delete, path = DOCUMENT, tag = "documents", operation_id = "delete_document",
    params(
        ("id" = String, Path, description = "The document."),
        ("If-Match" = Option<String>, Header, description = "Delete it only in one of these versions: `*` or \
            a list of ETags."),
    ),
    responses(
        (status = 204, description = "The document was deleted."),
        NotFound, ConditionFailed, Refused, Unavailable, OutOfSpace,
    )
)]
async fn delete(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    DocumentPath(id): DocumentPath,
    Conditional(condition): Conditional,
    deadline: Deadline,
) -> Result<StatusCode, Problem> {
    exists(&condition)?;
    deadline.write(state.service.delete(&collection, &id, condition)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Counts documents that were not stored because of an error. `service` counts the others.
pub(super) fn count_refused(documents: u64) {
    metrics::counter!("lookalike_document_outcomes_total", "outcome" => "refused").increment(documents);
}

/// How one document is stored.
struct Storing {
    rule: StoreRule,
    /// The number of neighbours in the answer.
    similar: usize,
    deadline: Deadline,
    form: Option<HashFormat>,
}

impl Storing {
    fn of(
        state: &State,
        collection: &CollectionName,
        params: &NearParams,
        condition: Condition,
        deadline: Deadline,
    ) -> Result<Storing, Problem> {
        let limits = state.service.limits();
        let rule = StoreRule { unless: unless(state, collection, params)?, condition };
        let similar = params.neighbours(limits.default_matches, limits.matches)?;
        Ok(Storing { rule, similar, deadline, form: params.hash_format })
    }

    /// Stores a document, and returns its neighbours if the deadline leaves time for the lookup.
    async fn store(
        self,
        state: &State,
        collection: &CollectionName,
        offered: impl Future<Output = Result<Offered, Problem>>,
    ) -> Result<Response, Problem> {
        let Storing { rule, similar, deadline, form } = self;
        let offered = offered.await.inspect_err(|_| count_refused(1))?;
        let start = Instant::now();
        let added = deadline.write(state.service.add(collection, offered, rule)).await;
        let added = added.inspect_err(|_| count_refused(1))?;
        let similar = if similar > 0 {
            let remaining = deadline.after_write(start.elapsed());
            // The document is stored even if the lookup fails, so that does not change the status.
            Some(remaining.query(state.service.neighbours(&added, similar)).await)
        } else {
            None
        };
        let tag = added.version.map(etag);
        let created = matches!(added.outcome, Outcome::Created(_));
        let location = created.then(|| [(header::LOCATION, location(collection, &added.id))]);
        let status = if created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = (status, Json(AddedOut::new(added, similar, form))).into_response();
        response.headers_mut().extend(tag.into_iter().flatten().chain(location.into_iter().flatten()));
        Ok(response)
    }
}

/// Where several documents are stored, and how.
fn destination(
    state: &State,
    collection: &CollectionName,
    params: &NearParams,
    condition: Condition,
    key: Option<Extension<RequestKey>>,
) -> Result<Destination, Problem> {
    if !matches!(condition, Condition::None | Condition::Absent) {
        let detail = "If-Match is for one document; send each with PUT /documents/{id}, or use \
                      If-None-Match: * to store only documents with new ids";
        return Err(Problem::parameter(Code::InvalidField, "If-Match", detail));
    }
    Ok(Destination {
        state: state.clone(),
        collection: collection.clone(),
        rule: StoreRule { unless: unless(state, collection, params)?, condition },
        similar: params.neighbours(0, state.service.limits().matches)?,
        bucket: key.and_then(|Extension(RequestKey(held))| held.bucket),
        all_errors: params.lists_all_errors(),
        form: params.hash_format,
        idempotency: IdempotencyKey::default(),
        end: None,
    })
}

/// The path of a document.
fn location(collection: &CollectionName, id: &DocumentId) -> HeaderValue {
    let id = utf8_percent_encode(id.as_str(), RESERVED).to_string();
    let path = format!("{}/{id}", of_collection(collection, PATH));
    HeaderValue::try_from(path).expect("a percent-encoded path is a header value")
}

/// Which stored documents prevent storing a new one; `None` to store it always.
fn unless(
    state: &State,
    collection: &CollectionName,
    params: &NearParams,
) -> Result<Option<DuplicateRule>, Problem> {
    let replaces = match params.on_duplicate()? {
        OnDuplicate::Store => return Ok(None),
        OnDuplicate::Link => {
            state.service.check_clusters(collection)?;
            return Ok(None);
        }
        OnDuplicate::Skip => false,
        OnDuplicate::Replace => true,
    };
    let (k, threshold, containment) = (params.k.map(|k| k.0), params.threshold, params.min_containment);
    let rule = state.service.duplicate_rule(collection, k, threshold, containment, replaces);
    rule.map(Some).map_err(|error| Problem::from(error).in_query())
}

/// Schemas of answers that are streamed, which no handler returns as one value.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(SummaryOut, OnDuplicate)))]
pub(super) struct Streamed;
