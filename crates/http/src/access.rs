//! Checks of every request by its head: its size and its codings, its host, and whether its key allows what
//! its route needs.
//!
//! They are made before the handler, so that none can forget them. Authorization depends only on the method
//! and the path.
//!
//! *Absent*: which hosts and origins are known (`browser`).

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Version, header};

use super::error::{Code, Problem};
use super::route::{Need, Rule};
use lookalike_hash::CollectionName;
use lookalike_keys::{Held, Key, Scope};
use lookalike_run::call::Client;

/// The maximum length of a path with its query string, in bytes.
const URI_BYTES: usize = 8 << 10;
/// The maximum number of headers of a request.
const HEADERS: usize = 64;

/// Refuses a head that is too large, or has an unknown transfer coding.
pub(super) fn check_head(request: &Request) -> Result<(), Problem> {
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

/// The secret in the head of a request: `Authorization: Bearer`, or else `X-API-Key`.
fn secret(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let value = value.as_bytes();
        let scheme = value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        return scheme.map(|_| value[7..].trim_ascii());
    }
    headers.get("x-api-key").map(|value| value.as_bytes().trim_ascii())
}

/// Checks that a request may use its route, and adds its key to its extensions.
pub(super) fn check(
    keys: Option<&[Held]>,
    rule: &Rule,
    target: &Result<CollectionName, Problem>,
    request: &mut Request,
) -> Result<(), Problem> {
    let Some(keys) = keys else {
        return Ok(());
    };
    let need = rule.need(request.method());
    if need == Need::Nothing {
        return Ok(());
    }
    let Some(secret) = secret(request.headers()) else {
        let detail =
            "this server requires a key: send it as `Authorization: Bearer lk_…` or as `X-API-Key: lk_…`";
        return Err(Problem::new(Code::Unauthorized, detail));
    };
    let Some(held) = lookalike_keys::find(keys, secret) else {
        let detail = "the key is unknown: it was mistyped or revoked, or belongs to another server";
        return Err(Problem::new(Code::Unauthorized, detail));
    };
    allows(&held.key, need, target)?;
    if let Some(Err(wait)) = held.bucket.as_ref().map(|bucket| bucket.take(1)) {
        let rate = held.key.rate.unwrap_or_default();
        metrics::counter!("lookalike_rate_limited_requests_total", "key" => held.key.name.clone())
            .increment(1);
        let detail = format!(
            "the key {:?} has used its {rate} units a second; try again in {:.1} s, or store many documents \
             as one stream, which is slowed down instead of refused",
            held.key.name,
            wait.as_secs_f64()
        );
        return Err(Problem::new(Code::RateLimited, detail).retry_in(wait));
    }
    request.extensions_mut().insert(RequestKey(held.clone()));
    Ok(())
}

/// The sender of a request that has passed [`check`]: its key, or its address if requests need no key.
pub(super) fn client(request: &Request, address: IpAddr) -> Client {
    match request.extensions().get::<RequestKey>() {
        Some(RequestKey(held)) => Client::of(&held.key.name),
        None => Client::of(&address),
    }
}

fn allows(key: &Key, need: Need, target: &Result<CollectionName, Problem>) -> Result<(), Problem> {
    let (role, scope) = match need {
        Need::Nothing => return Ok(()),
        Need::Any(role) => (role, RequiredScope::Any),
        Need::All(role) => (role, RequiredScope::All),
        // No key is limited to a name that no collection can have.
        Need::Collection(role) => {
            (role, target.as_ref().map_or(RequiredScope::All, RequiredScope::Collection))
        }
    };
    if key.role < role {
        let detail = format!(
            "the key {:?} has the role {}; this needs one with the role {role}: lookalike keys create NAME \
             --role {role}",
            key.name,
            key.role.name(),
            role = role.name()
        );
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let (is_allowed, detail) = match scope {
        RequiredScope::Any => return Ok(()),
        RequiredScope::All => (
            key.scope == Scope::All,
            format!("the key {:?} is limited to some collections; this needs one for all", key.name),
        ),
        RequiredScope::Collection(name) => (
            key.scope.holds(name),
            format!("the key {:?} does not include the collection {:?}", key.name, name.as_str()),
        ),
    };
    if is_allowed { Ok(()) } else { Err(Problem::new(Code::Forbidden, detail)) }
}

/// The collections that a key must include.
enum RequiredScope<'a> {
    Any,
    Collection(&'a CollectionName),
    All,
}

/// The key of a request, in the extensions of the request; absent if the route or the server needs no key.
#[derive(Clone, Debug)]
pub(super) struct RequestKey(pub(super) Held);
