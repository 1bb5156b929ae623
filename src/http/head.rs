//! What the head of a request must be like, whatever its route.

use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};

use super::error::{Code, Problem};

/// Bytes of a request's path and query.
const URI_BYTES: usize = 8 << 10;
/// Lines of a request's head.
const HEADERS: usize = 64;

/// Refuses a head that is too large, or whose body has a form that is not known.
pub(super) fn check(request: &Request) -> Result<(), Problem> {
    let uri = request.uri();
    let length = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if length > URI_BYTES {
        let detail = format!(
            "the URI has {length} bytes; at most {URI_BYTES} are taken. Send a long text as a body: POST /similar"
        );
        return Err(Problem::new(Code::UriTooLong, detail));
    }
    let headers = request.headers();
    if headers.len() > HEADERS {
        let detail = format!("the request has {} headers; at most {HEADERS} are taken", headers.len());
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }
    // What a coding before `chunked` hides may be read as another request by whoever does not know it: RFC
    // 9112, 6.1.
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

/// The `Host` of a request, which by HTTP/1.1 has exactly one: who stands between may have chosen this server
/// by it, and of two nobody knows which. By HTTP/1.0 there may be none, as balancers ask for health; browsers
/// always send one.
pub(super) fn host(request: &Request) -> Result<Option<&HeaderValue>, Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(Some(host)),
        (None, _) if request.version() == Version::HTTP_10 => Ok(None),
        _ => {
            let detail = "a request by HTTP/1.1 has one Host header, by HTTP/1.0 one or none";
            Err(Problem::new(Code::MalformedRequest, detail).ending_connection())
        }
    }
}
