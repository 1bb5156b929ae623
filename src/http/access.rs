//! What each route needs, and whether the key of a request has it.
//!
//! Decided before the router from method and path alone, in one place, so that no handler can forget it. What is not
//! in the table needs a key that may do everything: a new route is closed until it is entered here.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};

use super::error::{Code, Problem};
use crate::call::Client;
use crate::ids::CollectionName;
use crate::keys::{Held, Key, Role, Scope};

/// For what a key must be good.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Anything.
    Any,
    /// This collection; `None` is a name that none can have.
    Collection(Option<CollectionName>),
    /// All collections.
    All,
}

/// What a request needs; `None` is nothing, not even a key.
type Need = Option<(Role, Place)>;

/// What a request needs.
fn need(method: &Method, path: &str) -> Need {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let (role, place) = match parts.as_slice() {
        ["livez" | "readyz" | "openapi.yaml"] | ["docs", ..] if is_read => return None,
        ["version" | "collections"] if is_read => (Role::Read, Place::Any),
        ["fingerprint"] => (Role::Read, Place::Any),
        ["metrics"] if is_read => (Role::Read, Place::All),
        ["collections", name] => {
            (if is_read { Role::Read } else { Role::Admin }, Place::Collection(collection(name)))
        }
        ["collections", name, rest @ ..] => of_collection(is_read, rest, collection(name)),
        rest => of_collection(is_read, rest, Some(CollectionName::default_collection().clone())),
    };
    Some((role, place))
}

/// The routes that stand under a collection.
fn of_collection(is_read: bool, rest: &[&str], name: Option<CollectionName>) -> (Role, Place) {
    let role = match rest {
        ["similar" | "compare"] => Role::Read,
        ["export" | "stats" | "calibrate"] | ["documents", _] | ["documents", _, "similar"] if is_read => {
            Role::Read
        }
        ["documents"] | ["documents", _] => Role::Write,
        ["backup"] if is_read => Role::Admin,
        ["restore" | "calibrate"] => Role::Admin,
        _ => return (Role::Admin, Place::All),
    };
    (role, Place::Collection(name))
}

/// The collection of a path, decoded as the router does it.
fn collection(part: &str) -> Option<CollectionName> {
    let decoded = percent_decode(part)?;
    CollectionName::new(&decoded).ok()
}

fn percent_decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The secret that a request brings: `Authorization: Bearer`, or else `X-API-Key`.
fn secret(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let value = value.as_bytes();
        let scheme = value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        return scheme.map(|_| value[7..].trim_ascii());
    }
    headers.get("x-api-key").map(|value| value.as_bytes().trim_ascii())
}

/// Lets a request pass, or says why not. The key goes with it, for handlers that answer to a part of the question.
pub(super) fn check(keys: Option<&[Held]>, request: &mut Request) -> Result<(), Problem> {
    let Some(keys) = keys else {
        return Ok(());
    };
    let Some((role, place)) = need(request.method(), request.uri().path()) else {
        return Ok(());
    };
    let Some(secret) = secret(request.headers()) else {
        let detail =
            "this server asks for a key: send it as `Authorization: Bearer lk_…` or as `X-API-Key: lk_…`";
        return Err(Problem::new(Code::Unauthorized, detail));
    };
    let Some(held) = crate::keys::find(keys, secret) else {
        let detail = "the key is not known here: it was mistyped or revoked, or belongs to another server";
        return Err(Problem::new(Code::Unauthorized, detail));
    };
    allows(&held.key, role, &place)?;
    if let Some(Err(wait)) = held.bucket.as_ref().map(|bucket| bucket.take(1)) {
        let rate = held.key.rate.unwrap_or_default();
        metrics::counter!("lookalike_rate_limited_requests_total", "key" => held.key.name.clone())
            .increment(1);
        let detail = format!(
            "the key {:?} has used its {rate} units a second; try again in {:.1} s, or store many documents as one \
             stream, which is slowed down in place of failing",
            held.key.name,
            wait.as_secs_f64()
        );
        return Err(Problem::new(Code::RateLimited, detail).retry_in(wait));
    }
    request.extensions_mut().insert(Bearer(held.clone()));
    Ok(())
}

/// Who sends a request that was let pass: the key, or the address where no keys are asked for.
pub(super) fn client(request: &Request, address: IpAddr) -> Client {
    match request.extensions().get::<Bearer>() {
        Some(Bearer(held)) => Client::of(&held.key.name),
        None => Client::of(&address),
    }
}

fn allows(key: &Key, role: Role, place: &Place) -> Result<(), Problem> {
    if key.role < role {
        let detail = format!(
            "the key {:?} may {}; this needs one that may {}",
            key.name,
            key.role.name(),
            role.name()
        );
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let is_here = match place {
        Place::Any => true,
        Place::Collection(Some(name)) => key.scope.holds(name),
        Place::Collection(None) | Place::All => key.scope == Scope::All,
    };
    if is_here {
        return Ok(());
    }
    let detail = match place {
        Place::Collection(Some(name)) => {
            format!("the key {:?} is not good for the collection {name:?}", key.name, name = name.as_str())
        }
        _ => format!("the key {:?} is good for named collections alone; this needs one for all", key.name),
    };
    Err(Problem::new(Code::Forbidden, detail))
}

/// The key of a request, in its extensions; absent where none is asked for.
#[derive(Clone, Debug)]
pub(super) struct Bearer(pub(super) Held);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_the_contract_is_in_the_table() {
        for (path, item) in super::super::openapi::contract().paths.paths {
            let methods = [
                (Method::GET, item.get.is_some()),
                (Method::POST, item.post.is_some()),
                (Method::PUT, item.put.is_some()),
                (Method::DELETE, item.delete.is_some()),
            ];
            let path = path.replace("{collection}", "news").replace("{id}", "a");
            for (method, _) in methods.into_iter().filter(|(_, there)| *there) {
                let everything = Some((Role::Admin, Place::All));
                let is_closed = need(&method, &path) == everything;
                let operates = ["/snapshots"].iter().any(|part| path.contains(part));
                assert_eq!(is_closed, operates, "{method} {path}: enter it in `need`");
            }
        }
    }

    #[test]
    fn a_path_in_disguise_needs_what_it_is() {
        let news = Place::Collection(Some(CollectionName::new("news").unwrap()));
        let default = Place::Collection(Some(CollectionName::default_collection().clone()));
        let cases = [
            (Method::GET, "/collections/n%65ws/similar", Role::Read, news.clone()),
            (Method::POST, "/collections/news/documents", Role::Write, news.clone()),
            (Method::DELETE, "/collections/news", Role::Admin, news),
            (Method::DELETE, "/documents/a%2Fb", Role::Write, default.clone()),
            (Method::HEAD, "/documents/a", Role::Read, default),
            (Method::GET, "/collections/a%2F..%2Fb/similar", Role::Read, Place::Collection(None)),
            (Method::GET, "/collections/%ff/similar", Role::Read, Place::Collection(None)),
            (Method::GET, "//similar", Role::Admin, Place::All),
            (Method::GET, "/similar/", Role::Admin, Place::All),
            (Method::POST, "/livez", Role::Admin, Place::All),
            (Method::PATCH, "/collections", Role::Admin, Place::All),
            (Method::GET, "/Similar", Role::Admin, Place::All),
            (Method::GET, "", Role::Admin, Place::All),
        ];
        for (method, path, role, place) in cases {
            assert_eq!(need(&method, path), Some((role, place)), "{method} {path}");
        }
        assert_eq!(need(&Method::GET, "/docs/errors"), None);
    }
}
