//! Conditional requests: `If-Match`, `If-None-Match` and `ETag` of RFC 9110, section 13, for collections and
//! documents.
//!
//! The tag of a document identifies what was stored by one write, and a `GET` of a document that the client
//! has is answered with 304. The tag of a collection identifies its settings, and differs from that of a
//! deleted collection with the same name. It does not change with the counts, so caches cannot use it, and a
//! `GET` of a collection is never answered with 304. The engine checks the condition of a change at the
//! moment of the change.

use axum::extract::FromRequestParts;
use axum::http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};

use super::error::{Code, Problem};
use lookalike_service::{Condition, Version};

/// The condition of a request.
pub struct Conditional(pub Condition);

impl<S: Send + Sync> FromRequestParts<S> for Conditional {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Conditional, Problem> {
        condition(&parts.headers).map(Conditional)
    }
}

/// The versions of a document that the client has, by `If-None-Match`.
pub enum Held {
    /// Any.
    Any,
    /// These.
    Versions(Vec<Version>),
}

impl<S: Send + Sync> FromRequestParts<S> for Held {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Held, Problem> {
        match joined(&parts.headers, &IF_NONE_MATCH)? {
            None => Ok(Held::Versions(Vec::new())),
            Some(tags) if tags == "*" => Ok(Held::Any),
            // Weak tags are compared too, as RFC 9110 says for this header.
            Some(tags) => versions(&tags, true).map(Held::Versions).ok_or_else(|| {
                let detail =
                    "If-None-Match is * or a list of ETags, each with its quotation marks, as in an answer";
                Problem::parameter(Code::InvalidField, "If-None-Match", detail)
            }),
        }
    }
}

impl Held {
    /// Whether the client has this version.
    pub fn has(&self, version: Version) -> bool {
        match self {
            Held::Any => true,
            Held::Versions(versions) => versions.contains(&version),
        }
    }
}

/// The header with the tag of a collection or a document.
#[expect(clippy::missing_panics_doc, reason = "it does not panic: the value is always valid")]
pub fn etag(version: Version) -> [(HeaderName, HeaderValue); 1] {
    let quoted = format!("\"{version}\"");
    [(ETAG, HeaderValue::try_from(quoted).expect("quoted hexadecimal digits are a header value"))]
}

fn condition(headers: &HeaderMap) -> Result<Condition, Problem> {
    match (joined(headers, &IF_MATCH)?, joined(headers, &IF_NONE_MATCH)?) {
        (None, None) => Ok(Condition::None),
        (Some(tags), None) if tags == "*" => Ok(Condition::Present),
        (Some(tags), None) => Ok(Condition::Version(versions(&tags, false).ok_or_else(|| {
            let detail = "If-Match is * or a list of ETags, each with its quotation marks, as in an answer";
            Problem::parameter(Code::InvalidField, "If-Match", detail)
        })?)),
        (None, Some(tags)) if tags == "*" => Ok(Condition::Absent),
        (None, Some(_)) => {
            let detail = "If-None-Match must be *, to store only what does not exist; send If-Match with an \
                          ETag to change what exists";
            Err(Problem::parameter(Code::InvalidField, "If-None-Match", detail))
        }
        (Some(_), Some(_)) => {
            let detail =
                "If-Match requires what is changed to exist, If-None-Match that it does not; leave one out";
            Err(Problem::parameter(Code::InvalidField, "If-None-Match", detail))
        }
    }
}

/// The value of a header, which may be sent in several lines.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
    let lines = lines.map_err(|_| {
        let detail = format!("{name} has bytes that are not visible ASCII");
        Problem::parameter(Code::InvalidField, name.as_str(), detail)
    })?;
    Ok((!lines.is_empty()).then(|| lines.join(",").trim().to_owned()))
}

/// The versions in a list of tags; `None` if it is not such a list. Tags that this server does not issue, and
/// weak ones unless `with_weak`, are left out: they match nothing.
fn versions(tags: &str, with_weak: bool) -> Option<Vec<Version>> {
    let (mut rest, mut found) = (tags, Vec::new());
    loop {
        let is_weak = rest.starts_with("W/");
        let (tag, after) = rest.trim_start_matches("W/").strip_prefix('"')?.split_once('"')?;
        found.extend(version(tag).filter(|_| with_weak || !is_weak));
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(found);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

fn version(tag: &str) -> Option<Version> {
    let version = Version(u64::from_str_radix(tag, 16).ok()?);
    (version.to_string() == tag).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&HeaderName, &str)]) -> Option<Condition> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        condition(&headers).ok()
    }

    #[test]
    fn conditions_are_read_as_rfc_9110_defines_them() {
        let (one, two) = ("\"0000000000000001\"", "\"00000000000000ff\"");
        let version =
            |numbers: &[u64]| Some(Condition::Version(numbers.iter().copied().map(Version).collect()));
        assert_eq!(read(&[]), Some(Condition::None));
        assert_eq!(read(&[(&IF_MATCH, "*")]), Some(Condition::Present));
        assert_eq!(read(&[(&IF_NONE_MATCH, " * ")]), Some(Condition::Absent));
        assert_eq!(read(&[(&IF_MATCH, one)]), version(&[1]));
        assert_eq!(read(&[(&IF_MATCH, &format!("{one} ,{two}"))]), version(&[1, 255]));
        assert_eq!(read(&[(&IF_MATCH, one), (&IF_MATCH, two)]), version(&[1, 255]));
        for other in ["W/\"0000000000000001\"", "\"\"", "\"a, b\"", "\"1\"", "\"+000000000000001\""] {
            assert_eq!(read(&[(&IF_MATCH, other)]), version(&[]), "{other}");
        }
        for wrong in ["", "0000000000000001", "\"0000000000000001", "\"a\" \"b\"", "\"a\",", "*, \"a\""] {
            assert_eq!(read(&[(&IF_MATCH, wrong)]), None, "{wrong:?}");
        }
        assert_eq!(read(&[(&IF_NONE_MATCH, one)]), None);
        assert_eq!(read(&[(&IF_MATCH, one), (&IF_NONE_MATCH, "*")]), None);
        assert_eq!(etag(Version(255))[0].1, two);
    }
}
