//! The parts of a request that handlers use: the collection, ids, parameters, bodies. An invalid part becomes
//! a [`Problem`] that names its place.

use axum::body::{Body, Bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use futures::StreamExt;
use serde::de::DeserializeOwned;

use super::body::Growing;
use super::deadline::Deadline;
use super::edge::TooSlow;
use super::encoding;
use super::error::{Code, Problem};
use super::parse::{self, MARK, parse_object};
use lookalike_hash::{CollectionName, DocumentId};

/// The collection of a request: `{collection}` of the path, or the default collection.
pub(super) struct Target(pub(super) CollectionName);

impl<S: Send + Sync> FromRequestParts<S> for Target {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Target, Problem> {
        target(parts).await.map(Target)
    }
}

/// The collection of a request.
pub(super) async fn target(parts: &mut Parts) -> Result<CollectionName, Problem> {
    let Some(name) = path_parameter(parts, "collection").await? else {
        return Ok(CollectionName::default_collection().clone());
    };
    CollectionName::new(&name)
        .map_err(|error| Problem::parameter(Code::InvalidField, "collection", error.to_string()))
}

/// The document of a request: `{id}` of the path.
pub(super) struct DocumentPath(pub(super) DocumentId);

impl<S: Send + Sync> FromRequestParts<S> for DocumentPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<DocumentPath, Problem> {
        let id = path_parameter(parts, "id").await?.unwrap_or_default();
        DocumentId::new(&id)
            .map(DocumentPath)
            .map_err(|error| Problem::parameter(Code::InvalidField, "id", error.to_string()))
    }
}

/// A parameter of the path.
async fn path_parameter(parts: &mut Parts, name: &str) -> Result<Option<String>, Problem> {
    match RawPathParams::from_request_parts(parts, &()).await {
        Ok(all) => Ok(all.iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_owned())),
        Err(RawPathParamsRejection::InvalidUtf8InPathParam(error)) => {
            let detail = format!("{error} of the path; percent-encode it as UTF-8");
            Err(Problem::new(Code::MalformedRequest, detail))
        }
        // The path has no route.
        Err(_) => Ok(None),
    }
}

/// The query string. Unknown parameters are refused if `T` denies unknown fields.
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params<T>, Problem> {
        Params::of(parts.uri.query().unwrap_or_default()).map(Params)
    }
}

impl<T: DeserializeOwned> Params<T> {
    /// The parameters of a query string.
    pub(super) fn of(query: &str) -> Result<T, Problem> {
        parse::query(query)
    }
}

/// For routes without parameters: refuses a parameter that would be ignored.
pub(super) struct NoParams;

impl<S: Send + Sync> FromRequestParts<S> for NoParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<NoParams, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        match form_urlencoded::parse(query.as_bytes()).next() {
            None => Ok(NoParams),
            Some((name, _)) => {
                let detail = format!("unknown field `{name}`: this route takes no parameters in the query");
                Err(Problem::parameter(Code::UnknownField, &name, detail))
            }
        }
    }
}

/// Parses a body in the time of a query. A large one is parsed on the CPU pool, where it does not delay other
/// requests.
pub(super) async fn parse_aside<T: Send + 'static>(
    state: &super::State,
    deadline: Deadline,
    bytes: Bytes,
    make: impl FnOnce(&Bytes) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let size = bytes.len();
    deadline.query(state.service.aside(size, move || make(&bytes))).await?
}

/// The type of the body, which must be one of these. A request must declare it. A page of another origin can
/// make a browser send a body without a type, or of one of a few types, without a preflight request. Routes
/// that store something accept neither.
pub(super) fn check_type(headers: &HeaderMap, known: &[&'static str]) -> Result<&'static str, Problem> {
    let way_out =
        || format!("send one of {} in UTF-8, with curl as -H 'content-type: {}'", known.join(", "), known[0]);
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        let detail = format!("the request does not declare the type of its body; {}", way_out());
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    };
    let text = value.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_utf8 = charset(headers).is_none_or(|name| name.eq_ignore_ascii_case("utf-8"));
    let found = known.iter().find(|known| **known == essence).copied();
    // Texts and pages may have another charset; JSON must be UTF-8.
    found.filter(|found| is_utf8 || found.starts_with("text/")).ok_or_else(|| {
        let detail = format!("the body has the type {text:?}; {}", way_out());
        Problem::new(Code::UnsupportedMediaType, detail)
    })
}

/// The charset that the content type declares.
pub(super) fn charset(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let parameters = text.split(';').skip(1).map(str::trim);
    let is_charset = |part: &&str| part.get(..8).is_some_and(|name| name.eq_ignore_ascii_case("charset="));
    parameters.into_iter().find(is_charset).map(|part| part[8..].trim_matches('"'))
}

/// The whole body, of at most `limit` bytes. A body with a larger `Content-Length` is refused before it is
/// read.
pub(super) async fn read(request: Request, limit: usize) -> Result<Bytes, Problem> {
    read_sized(request, limit, "send less at a time").await
}

fn too_large(announced: Option<usize>, most: usize, way_out: &str) -> Problem {
    let size =
        announced.map_or_else(|| "is too large".to_owned(), |announced| format!("has {announced} bytes"));
    let limits = "limits.document_bytes, limits.page_bytes, limits.batch_bytes, limits.file_bytes";
    let detail = format!("the body {size}; at most {most} bytes are accepted here ({limits}): {way_out}");
    Problem::new(Code::TooLarge, detail)
}

/// As [`read`]. `way_out` is the advice for a larger body.
pub(super) async fn read_sized(request: Request, limit: usize, way_out: &str) -> Result<Bytes, Problem> {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let announced: Option<usize> = announced.and_then(|text| text.parse().ok());
    if announced.is_some_and(|announced| announced > limit) {
        return Err(too_large(announced, limit, way_out));
    }
    let mut stream = Body::into_data_stream(request.into_body());
    let mut all = Growing::of(announced);
    while let Some(part) = stream.next().await {
        let part = part.map_err(|error| broken(&error))?;
        all.extend(&part)?;
        if all.bytes.len() > limit {
            return Err(too_large(announced, limit, way_out));
        }
    }
    if let Some(problem) = encoding::undeclared(&all.bytes) {
        return Err(problem);
    }
    let all = all.into_bytes();
    Ok(if all.starts_with(MARK) { all.slice(MARK.len()..) } else { all })
}

/// The error of a body that did not arrive completely.
pub(super) fn broken(error: &(dyn std::error::Error + 'static)) -> Problem {
    if let Some(detail) = TooSlow::of(error) {
        return Problem::new(Code::TooSlow, detail);
    }
    let incomplete = || Problem::new(Code::MalformedRequest, "the body is incomplete; send all of it");
    encoding::problem(error).unwrap_or_else(incomplete)
}

/// The extractor of a JSON body with one document.
pub(super) struct Document<T>(pub(super) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<super::State> for Document<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &super::State) -> Result<Document<T>, Problem> {
        check_type(request.headers(), &["application/json"])?;
        let deadline = Deadline::of(request.headers(), state.service.limits())?;
        let bytes = read(request, state.service.limits().body_bytes()).await?;
        parse_aside(state, deadline, bytes, |bytes| parse_object(bytes)).await.map(Document)
    }
}

/// The body with settings that may all be omitted, of at most `limit` bytes: a body that is absent or empty
/// is `{}`, of any type or none.
pub(super) async fn read_settings(request: Request, limit: usize) -> Result<Bytes, Problem> {
    let kind = check_type(request.headers(), &["application/json"]);
    let bytes = read(request, limit).await?;
    if bytes.is_empty() {
        return Ok(Bytes::from_static(b"{}"));
    }
    kind.map(|_| bytes)
}

/// The extractor of a JSON body with settings that may all be omitted.
pub(super) struct Settings<T>(pub(super) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<super::State> for Settings<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &super::State) -> Result<Settings<T>, Problem> {
        let deadline = Deadline::of(request.headers(), state.service.limits())?;
        let bytes = read_settings(request, state.service.limits().body_bytes()).await?;
        parse_aside(state, deadline, bytes, |bytes| parse_object(bytes)).await.map(Settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_byte_order_mark_is_removed_from_any_parts_of_the_body() {
        for cut in 0..=5 {
            let (first, second) = b"\xef\xbb\xbf[1]".split_at(cut);
            let parts = [first, second].map(|part| Ok::<_, std::io::Error>(Bytes::from_static(part)));
            let request = Request::new(Body::from_stream(futures::stream::iter(parts)));
            assert_eq!(&*read(request, 6).await.unwrap(), b"[1]", "{cut}");
        }
    }
}
