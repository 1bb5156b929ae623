//! What the head of a request must be like, whatever its route.

use axum::extract::Request;
use axum::http::{Method, Version, header};

use super::error::{Code, Problem};

/// Bytes of a request's path and query.
const URI_BYTES: usize = 8 << 10;
/// Lines of a request's head.
const HEADERS: usize = 64;

/// Refuses what would be refused for want of a processor after its body was read: reading it would take one from those
/// that are being served.
pub(super) fn check_load(request: &Request) -> Result<(), Problem> {
    let path = request.uri().path();
    let needs_processor = *request.method() == Method::POST
        && ["/fingerprint", "/similar", "/compare"].iter().any(|route| path.ends_with(route));
    if needs_processor {
        return Err(Problem::new(Code::Busy, "the processors are busy; try again in a moment"));
    }
    Ok(())
}

/// Refuses a head that is too large or lacks what HTTP asks for.
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
    // Who stands between may have chosen this server by the name; without one, or with two, nobody knows which.
    if request.version() == Version::HTTP_11 && uri.authority().is_none() {
        let mut hosts = headers.get_all(header::HOST).iter();
        if hosts.next().is_none() || hosts.next().is_some() {
            let detail = "a request by HTTP/1.1 has one Host header";
            return Err(Problem::new(Code::MalformedRequest, detail).ending_connection());
        }
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
