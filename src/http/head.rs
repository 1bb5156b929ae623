//! Checks of the head of a request that apply to every route.

use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};

use super::error::{Code, Problem};

/// The maximum length of a path with its query string, in bytes.
const URI_BYTES: usize = 8 << 10;
/// The maximum number of headers of a request.
const HEADERS: usize = 64;

/// Refuses a head that is too large, or has an unknown transfer coding.
pub(super) fn check(request: &Request) -> Result<(), Problem> {
    let uri = request.uri();
    let length = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if length > URI_BYTES {
        let detail = format!(
            "the URI has {length} bytes; at most {URI_BYTES} are accepted: send long texts with POST /similar"
        );
        return Err(Problem::new(Code::UriTooLong, detail));
    }
    let headers = request.headers();
    if headers.len() > HEADERS {
        let detail = format!(
            "the request has {} headers; at most {HEADERS} are accepted: remove headers",
            headers.len()
        );
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }
    // With another coding than `chunked`, a proxy that does not know it may find another end of the body, and
    // read the rest as a request: RFC 9112, 6.1.
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next()
        && (codings.next().is_some() || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
    {
        let detail = format!(
            "the body has the transfer coding {coding:?}; send it with `chunked` alone or with a length"
        );
        return Err(Problem::new(Code::UnknownTransferCoding, detail).ending_connection());
    }
    Ok(())
}

/// The `Host` of a request. An HTTP/1.1 request must have exactly one: a proxy may choose the server by it,
/// and with two it is unknown by which. An HTTP/1.0 request may have none, as in the health checks of load
/// balancers; browsers always send one.
pub(super) fn host(request: &Request) -> Result<Option<&HeaderValue>, Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(Some(host)),
        (None, _) if request.version() == Version::HTTP_10 => Ok(None),
        _ => {
            let detail = "an HTTP/1.1 request must have one Host header, an HTTP/1.0 request at most one";
            Err(Problem::new(Code::MalformedRequest, detail).ending_connection())
        }
    }
}
