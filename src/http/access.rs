//! Whether the key of a request has what its route needs.
//!
//! Decided before the handler from the route and the method alone, so that no handler can forget it (see `route`).

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, header};

use super::error::{Code, Problem};
use super::route::{Matched, Need};
use crate::call::Client;
use crate::ids::CollectionName;
use crate::keys::{Held, Key, Scope};

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
pub(super) fn check(keys: Option<&[Held]>, matched: &Matched, request: &mut Request) -> Result<(), Problem> {
    let Some(keys) = keys else {
        return Ok(());
    };
    let need = matched.route.need(request.method());
    if need == Need::Nothing {
        return Ok(());
    }
    let Some(secret) = secret(request.headers()) else {
        let detail =
            "this server asks for a key: send it as `Authorization: Bearer lk_…` or as `X-API-Key: lk_…`";
        return Err(Problem::new(Code::Unauthorized, detail));
    };
    let Some(held) = crate::keys::find(keys, secret) else {
        let detail = "the key is not known here: it was mistyped or revoked, or belongs to another server";
        return Err(Problem::new(Code::Unauthorized, detail));
    };
    allows(&held.key, need, matched, request.uri().path())?;
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

fn allows(key: &Key, need: Need, matched: &Matched, path: &str) -> Result<(), Problem> {
    let (role, place) = match need {
        Need::Nothing => return Ok(()),
        Need::Any(role) => (role, Place::Any),
        Need::All(role) => (role, Place::All),
        Need::Collection(role) => match matched.collection(path) {
            None => (role, Place::Collection(CollectionName::default_collection().clone())),
            Some(name) => {
                let name = name.ok().and_then(|name| CollectionName::new(&name).ok());
                // No key is limited to a name that no collection can have.
                (role, name.map_or(Place::All, Place::Collection))
            }
        },
    };
    if key.role < role {
        let detail = format!(
            "the key {:?} may {}; this needs one that may {}",
            key.name,
            key.role.name(),
            role.name()
        );
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let (is_allowed, detail) = match place {
        Place::Any => return Ok(()),
        Place::All => (
            key.scope == Scope::All,
            format!("the key {:?} is good for named collections alone; this needs one for all", key.name),
        ),
        Place::Collection(name) => (
            key.scope.holds(&name),
            format!("the key {:?} is not good for the collection {:?}", key.name, name.as_str()),
        ),
    };
    if is_allowed { Ok(()) } else { Err(Problem::new(Code::Forbidden, detail)) }
}

/// Where a key must be valid.
enum Place {
    Any,
    Collection(CollectionName),
    All,
}

/// The key of a request, in its extensions; absent where none is asked for.
#[derive(Clone, Debug)]
pub(super) struct Bearer(pub(super) Held);
