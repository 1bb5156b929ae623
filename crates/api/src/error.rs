//! Errors on the wire: RFC 9457 problem details. Only this file maps errors to HTTP statuses.
//!
//! Every kind of error has a stable `code`. `docs/errors.md` states the cause and the remedy of each; a test
//! checks that it is complete.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::body::Json;
use super::condition::etag;
use super::encoding;
use lookalike_run::call::NoMemory;
use lookalike_service::BackupError;
use lookalike_service::EngineError;
use lookalike_service::PoolError;
use lookalike_service::{ServiceError, Version};

/// The page that explains each code.
pub const DOCS_ERRORS: &str = "/docs/errors";

/// Seconds after which a refused client may try again.
const RETRY_AFTER: u64 = 1;

macro_rules! codes {
    ($($variant:ident $status:ident $code:literal $title:literal;)*) => {
        /// The kinds of error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $(#[doc = $title] $variant),* }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            fn facts(self) -> (StatusCode, &'static str, &'static str) {
                match self { $(Code::$variant => (StatusCode::$status, $code, $title)),* }
            }
        }
    };
}

codes! {
    MalformedRequest BAD_REQUEST "malformed_request" "The request cannot be read";
    Unauthorized UNAUTHORIZED "unauthorized" "A key is needed";
    Forbidden FORBIDDEN "forbidden" "The key does not allow this";
    ForeignOrigin FORBIDDEN "foreign_origin" "A web page of another origin sent the request";
    RouteNotFound NOT_FOUND "route_not_found" "There is no such route";
    NoCollection NOT_FOUND "no_collection" "There is no such collection";
    NoDocument NOT_FOUND "no_document" "There is no such document";
    NoThumbnail NOT_FOUND "no_thumbnail" "The document has no thumbnail";
    NoCluster NOT_FOUND "no_cluster" "The document represents no cluster";
    NoRun NOT_FOUND "no_run" "The dry run is not held";
    NoMark NOT_FOUND "no_mark" "There is no such mark";
    NoCalibration NOT_FOUND "no_calibration" "The collection was not calibrated";
    NoDeletion NOT_FOUND "no_deletion" "No documents were deleted by a filter";
    NoWeights NOT_FOUND "no_weights" "The collection has no weights";
    NoReindex NOT_FOUND "no_reindex" "The collection was not reindexed";
    MethodNotAllowed METHOD_NOT_ALLOWED "method_not_allowed" "The route has no such method";
    TooSlow REQUEST_TIMEOUT "too_slow" "The body came too slowly";
    SettingsConflict CONFLICT "settings_conflict" "The setting would not fit what is stored";
    NoClusters CONFLICT "no_clusters" "The collection has no clusters";
    TooManyMarks CONFLICT "too_many_marks" "The document has too many marks";
    TooManyNear CONFLICT "too_many_near" "More documents are near than one may replace";
    NoReplicas CONFLICT "no_replicas" "Only a replica can do this";
    CollectionExists CONFLICT "collection_exists" "There is such a collection already";
    Calibrating CONFLICT "calibrating" "The collection is being calibrated";
    Deleting CONFLICT "deleting" "Documents are being deleted by a filter";
    Reindexing CONFLICT "reindexing" "The collection is being reindexed";
    NoTexts CONFLICT "no_texts" "Documents have no kept text";
    PreconditionFailed PRECONDITION_FAILED "precondition_failed" "The condition of the request does not hold";
    UriTooLong URI_TOO_LONG "uri_too_long" "The URI is too long";
    HeadersTooLarge REQUEST_HEADER_FIELDS_TOO_LARGE "headers_too_large" "The headers are too large";
    TooLarge PAYLOAD_TOO_LARGE "too_large" "The body is too large";
    UnsupportedMediaType UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" "The body's type is not accepted";
    UnsupportedEncoding UNSUPPORTED_MEDIA_TYPE "unsupported_encoding" "The body's encoding is not accepted";
    UnknownHost MISDIRECTED_REQUEST "unknown_host" "The server does not answer to this host name";
    InvalidField UNPROCESSABLE_ENTITY "invalid_field" "A field cannot be accepted";
    UnknownField UNPROCESSABLE_ENTITY "unknown_field" "A field is not known";
    EmptyText UNPROCESSABLE_ENTITY "empty_text" "The text is empty";
    InvalidCursor UNPROCESSABLE_ENTITY "invalid_cursor" "The cursor belongs to another query";
    IdempotencyKeyReused UNPROCESSABLE_ENTITY "idempotency_key_reused" "The key has another document";
    InvalidBackup UNPROCESSABLE_ENTITY "invalid_backup" "The backup cannot be used";
    NoProfile UNPROCESSABLE_ENTITY "no_profile" "There is no such profile";
    ProfileMismatch CONFLICT "profile_mismatch" "The hashes are of another profile";
    ProfileChanged CONFLICT "profile_changed" "The profile's definition has changed";
    RateLimited TOO_MANY_REQUESTS "rate_limited" "The key has used its units";
    DeadlineExceeded SERVICE_UNAVAILABLE "deadline_exceeded" "There was no answer in time";
    ClustersPending SERVICE_UNAVAILABLE "clusters_pending" "The clusters are not decided yet";
    Busy SERVICE_UNAVAILABLE "busy" "The server has too much to do";
    Starting SERVICE_UNAVAILABLE "starting" "The server is starting";
    ShuttingDown SERVICE_UNAVAILABLE "shutting_down" "The server is shutting down";
    LogUnavailable SERVICE_UNAVAILABLE "log_unavailable" "The shared log takes no writes";
    Behind SERVICE_UNAVAILABLE "behind" "This server has not applied that position of the log yet";
    Diverged SERVICE_UNAVAILABLE "diverged" "The data of this server differ from those of others";
    ReadOnly SERVICE_UNAVAILABLE "read_only" "The server takes no writes";
    DiskFull INSUFFICIENT_STORAGE "disk_full" "The disk is full";
    OutcomeUnknown SERVICE_UNAVAILABLE "outcome_unknown" "The write may or may not be stored";
    MemoryFull INSUFFICIENT_STORAGE "memory_full" "The memory budget is used up";
    UnknownTransferCoding NOT_IMPLEMENTED "unknown_transfer_coding" "The transfer coding is not known";
    Internal INTERNAL_SERVER_ERROR "internal" "The server failed";
}

impl Code {
    /// The stable name.
    pub fn name(self) -> &'static str {
        self.facts().1
    }

    /// The status.
    pub fn status(self) -> StatusCode {
        self.facts().0
    }

    /// Whether the server is at fault.
    pub fn is_fault(self) -> bool {
        self.status() == StatusCode::INTERNAL_SERVER_ERROR
    }

    /// Whether the server refuses a valid request in its present state. `Starting` is excluded: it is the
    /// expected answer to a poll for readiness.
    pub fn is_shed(self) -> bool {
        let statuses = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::INSUFFICIENT_STORAGE];
        statuses.contains(&self.status()) && self != Code::Starting
    }
}

/// A field or parameter that is wrong.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct FieldProblem {
    /// JSON pointer to the field in the body, such as `/queries/0/k`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Name of the query or path parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// What is wrong with it.
    pub detail: String,
}

/// An error in the form of RFC 9457.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct Body {
    /// The path on this server that explains the error.
    r#type: String,
    /// The kind of error, in words.
    title: &'static str,
    /// The HTTP status.
    #[schema(example = 422)]
    status: u16,
    /// The kind of error, for programs. It never changes.
    #[schema(example = "invalid_field")]
    code: &'static str,
    /// What is wrong, the limit, and the remedy.
    detail: String,
    /// The fields that are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    /// For a write: `not_applied` if nothing was stored, `unknown` if it may or may not be stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
}

impl Body {
    /// The kind of error, for programs.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

/// An error to be sent to a client.
#[derive(Clone, Debug)]
#[must_use]
pub struct Problem {
    code: Code,
    detail: String,
    errors: Vec<FieldProblem>,
    /// The outcome of a write, if the code does not imply it.
    outcome: Option<&'static str>,
    /// Seconds after which the request may succeed, if that is known.
    retry_after: Option<u64>,
    /// The present version, if it does not meet the condition of the request.
    version: Option<Version>,
    /// Whether this is the answer of `/readyz`: then the status is 503 for every code.
    is_unavailable: bool,
    /// Whether the connection must be closed, because the start of the next request is uncertain.
    ends_connection: bool,
}

impl Problem {
    /// An error with this code. `detail` says what is wrong, the limit, and the way out.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            outcome: None,
            retry_after: None,
            version: None,
            is_unavailable: false,
            ends_connection: false,
        }
    }

    /// The error of a write that may or may not be stored.
    pub fn with_unknown_outcome(self) -> Problem {
        Problem { outcome: Some("unknown"), ..self }
    }

    /// The error of a write that was not begun.
    pub fn with_no_effect(self) -> Problem {
        Problem { outcome: Some("not_applied"), ..self }
    }

    /// The answer of `/readyz`, with status 503 for every code.
    pub fn of_readiness(self) -> Problem {
        Problem { is_unavailable: true, ..self }
    }

    /// An error after which the connection is closed.
    pub fn ending_connection(self) -> Problem {
        Problem { ends_connection: true, ..self }
    }

    /// The error of a request that may succeed after this time.
    pub fn retry_in(self, wait: Duration) -> Problem {
        Problem { retry_after: Some(wait.as_secs() + 1), ..self }
    }

    /// A wrong field of the body, by its JSON pointer.
    pub fn field(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Problem {
        let (pointer, detail) = (pointer.into(), detail.into());
        let field = FieldProblem { pointer: Some(pointer), parameter: None, detail: detail.clone() };
        Problem { errors: vec![field], ..Problem::new(code, detail) }
    }

    /// A wrong parameter of the path or the query.
    pub fn parameter(code: Code, name: &str, detail: impl Into<String>) -> Problem {
        let detail = detail.into();
        let field = FieldProblem { pointer: None, parameter: Some(name.into()), detail: detail.clone() };
        Problem { errors: vec![field], ..Problem::new(code, detail) }
    }

    /// An error in the part of the body at the JSON pointer `place`.
    pub fn within(mut self, place: &str) -> Problem {
        if self.errors.is_empty() {
            return Problem::field(self.code, place, self.detail);
        }
        for field in &mut self.errors {
            field.pointer = Some(format!("{place}{}", field.pointer.as_deref().unwrap_or_default()));
        }
        self
    }

    /// An error in one of several queries.
    pub fn of_query(self, at: usize) -> Problem {
        self.within(&format!("/queries/{at}"))
    }

    /// The error of a request whose fields are parameters of the query string.
    pub fn in_query(mut self) -> Problem {
        for field in &mut self.errors {
            field.parameter = field.pointer.take().map(|pointer| pointer.trim_start_matches('/').to_owned());
        }
        self
    }

    /// Its JSON form.
    pub fn body(&self) -> Body {
        let (_, code, title) = self.code.facts();
        let outcome = match self.code {
            Code::OutcomeUnknown => Some("unknown"),
            Code::ReadOnly
            | Code::LogUnavailable
            | Code::Busy
            | Code::ShuttingDown
            | Code::MemoryFull
            | Code::DiskFull
            | Code::Behind
            | Code::Diverged
            | Code::RateLimited => Some("not_applied"),
            _ => self.outcome,
        };
        Body {
            r#type: format!("{DOCS_ERRORS}#{code}"),
            title,
            status: self.status().as_u16(),
            code,
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            outcome,
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        if self.is_unavailable { StatusCode::SERVICE_UNAVAILABLE } else { self.code.status() }
    }

    /// The stable name of the code.
    pub fn name(&self) -> &'static str {
        self.code.name()
    }

    /// Seconds after which the same request may succeed.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after.or_else(|| (self.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_AFTER))
    }

    /// The error in one line, for a stream that it ends.
    pub fn body_text(&self) -> String {
        format!("{}: {}", self.code.name(), self.detail)
    }

    /// A snapshot that failed. The client is an operator, so the answer includes the causes.
    fn of_snapshot(detail: &str, source: &(dyn Error + 'static)) -> Problem {
        let detail = format!("{detail}: {}", causes(source));
        let is_full = chain(source).any(|cause| cause.downcast_ref().is_some_and(is_full));
        Problem::new(if is_full { Code::DiskFull } else { Code::Internal }, detail)
    }

    /// A failure whose cause is logged, and not sent to the client.
    fn internal(detail: &str, source: &(dyn Error + 'static)) -> Problem {
        tracing::error!(detail, cause = causes(source), "the engine failed");
        Problem::new(Code::Internal, detail)
    }
}

/// Why a request was refused, for the log: an extension of the response, not part of its body.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The kind of error.
    pub code: Code,
    /// The detail that the client gets.
    pub detail: Arc<str>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(version) = self.version {
            headers.extend(etag(version));
        }
        if self.ends_connection {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.code == Code::UnsupportedEncoding {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(encoding::KNOWN));
        }
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"lookalike\""));
        }
        // `observe::answer` logs it, because it knows the id of the request.
        response.extensions_mut().insert(Reason { code: self.code, detail: self.detail.into() });
        response
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Problem {
        Problem::from(&error)
    }
}

impl From<&ServiceError> for Problem {
    fn from(error: &ServiceError) -> Problem {
        let detail = error.to_string();
        let plain = |code: Code| Problem::new(code, error.to_string());
        match error {
            ServiceError::NotReady { .. } => plain(Code::Starting),
            ServiceError::Invalid { field, .. } => {
                Problem::field(Code::InvalidField, format!("/{field}"), detail)
            }
            ServiceError::EmptyText { field } => Problem::field(Code::EmptyText, format!("/{field}"), detail),
            ServiceError::Cursor => Problem::field(Code::InvalidCursor, "/cursor", detail),
            ServiceError::NoProfile { .. } => Problem::field(Code::NoProfile, "/profile", detail),
            ServiceError::ProfileMismatch { field, .. } => {
                Problem::field(Code::ProfileMismatch, format!("/{field}"), detail)
            }
            ServiceError::ProfileChanged { .. } => plain(Code::ProfileChanged),
            ServiceError::NoDocument { .. } => plain(Code::NoDocument),
            ServiceError::NoThumbnail { .. } => plain(Code::NoThumbnail),
            ServiceError::Condition { version, .. } => {
                Problem { version: *version, ..plain(Code::PreconditionFailed) }
            }
            ServiceError::KeyReused(_) => {
                Problem::parameter(Code::IdempotencyKeyReused, "Idempotency-Key", detail)
            }
            ServiceError::TooManyNear => plain(Code::TooManyNear),
            ServiceError::NoCluster { .. } => plain(Code::NoCluster),
            ServiceError::NoRun { .. } => plain(Code::NoRun),
            ServiceError::NoMark { .. } => plain(Code::NoMark),
            ServiceError::NoClusters(_) => plain(Code::NoClusters),
            ServiceError::NoCalibration(_) | ServiceError::Forgotten => plain(Code::NoCalibration),
            ServiceError::Deleting(_) => plain(Code::Deleting),
            ServiceError::NoDeletion(_) | ServiceError::DeletionEnded => plain(Code::NoDeletion),
            ServiceError::NoWeights(_) => plain(Code::NoWeights),
            // A reindex that was ended is forgotten, so no client gets its error.
            ServiceError::NoReindex(_) | ServiceError::ReindexElsewhere { .. } => plain(Code::NoReindex),
            ServiceError::Reindexing(_) | ServiceError::TakesEffect(_) => plain(Code::Reindexing),
            ServiceError::KeepsNoTexts(_)
            | ServiceError::TeachesNothing { .. }
            | ServiceError::Unfit { .. } => plain(Code::NoTexts),
            ServiceError::Calibrating(_) => plain(Code::Calibrating),
            ServiceError::ClustersPending { .. } => plain(Code::ClustersPending),
            ServiceError::OtherCalibration { .. } | ServiceError::Overtaken(_) => plain(Code::Busy),
            ServiceError::Engine(error) => error.into(),
        }
    }
}

impl From<NoMemory> for Problem {
    fn from(error: NoMemory) -> Problem {
        let code = if matches!(error, NoMemory::TooLarge { .. }) { Code::MemoryFull } else { Code::Busy };
        Problem::new(code, error.to_string())
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        Problem::from(&error)
    }
}

impl From<&EngineError> for Problem {
    fn from(error: &EngineError) -> Problem {
        let detail = error.to_string();
        let code = match error {
            EngineError::NoCollection(_) => Code::NoCollection,
            EngineError::SettingsConflict { .. } => Code::SettingsConflict,
            EngineError::Condition { version, .. } => {
                return Problem { version: *version, ..Problem::new(Code::PreconditionFailed, detail) };
            }
            EngineError::Invalid { field, .. } => {
                return Problem::field(Code::InvalidField, format!("/{field}"), detail);
            }
            EngineError::Distance { .. } => return Problem::field(Code::InvalidField, "/k", detail),
            EngineError::NoSignature(_) | EngineError::Width { .. } => {
                return Problem::field(Code::InvalidField, "/hash", detail);
            }
            EngineError::Signature { .. } => {
                return Problem::field(Code::InvalidField, "/signature", detail);
            }
            EngineError::NoMemory(error) => return Problem::from(*error),
            EngineError::Busy(_) | EngineError::Switching(_) | EngineError::Pool(PoolError::Busy) => {
                Code::Busy
            }
            // Work is cancelled only if its caller stops waiting, so no client gets this.
            EngineError::Pool(PoolError::Cancelled) => Code::DeadlineExceeded,
            EngineError::ReadOnly(_) => Code::ReadOnly,
            EngineError::DiskFull(_) => Code::DiskFull,
            EngineError::MemoryFull { .. } => Code::MemoryFull,
            EngineError::Unknown(_) => Code::OutcomeUnknown,
            EngineError::LogUnavailable(_) | EngineError::Discarded => Code::LogUnavailable,
            EngineError::Behind { .. } => Code::Behind,
            EngineError::ReindexedBy { .. } => Code::Reindexing,
            EngineError::Closed => Code::ShuttingDown,
            EngineError::TooManyMarks { .. } => Code::TooManyMarks,
            EngineError::CollectionExists(_) => Code::CollectionExists,
            EngineError::Upload(_) => Code::MalformedRequest,
            EngineError::Spool(source) | EngineError::Backup(BackupError::Io(source)) => {
                if is_full(source) {
                    return Problem::new(Code::DiskFull, format!("{detail}: {source}"));
                }
                return Problem::internal(&detail, source);
            }
            EngineError::TooLarge(_) => Code::TooLarge,
            EngineError::Backup(_) | EngineError::NotAdmitted(_) => Code::InvalidBackup,
            EngineError::Pool(PoolError::Panicked) | EngineError::ChangesLeft(_) => Code::Internal,
            EngineError::Store(source) => return Problem::internal(&detail, source),
            EngineError::Snapshot(source) => return Problem::of_snapshot(&detail, source),
        };
        Problem::new(code, detail)
    }
}

fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// An error and its causes, the root cause last.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn causes(error: &(dyn Error + 'static)) -> String {
    chain(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_another_failure_of_a_snapshot_have_different_codes() {
        let failed = |source: std::io::Error| Problem::of_snapshot("no snapshot was taken", &source).body();
        let full = failed(std::io::ErrorKind::StorageFull.into());
        assert_eq!((full.status, full.code), (507, "disk_full"));
        let other = failed(std::io::Error::other("the disk is loose"));
        assert_eq!((other.status, other.code), (500, "internal"));
        assert_eq!(other.detail, "no snapshot was taken: the disk is loose");
        let ready = Problem::new(Code::DiskFull, "the disk is full").of_readiness();
        assert_eq!((ready.body().status, ready.retry_after()), (503, Some(RETRY_AFTER)));
    }

    #[test]
    fn every_code_is_explained_in_the_documents() {
        let document = include_str!("../../../docs/errors.md");
        for code in Code::ALL {
            let heading = format!("## {} ({})", code.name(), code.status().as_u16());
            assert!(document.contains(&heading), "docs/errors.md has no heading {heading:?}");
        }
    }
}
