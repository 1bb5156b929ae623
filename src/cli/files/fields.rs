//! The fields of a JSON line, as they are in the line: those that a command needs, or all.
//!
//! The whole line is validated. Fields that are not needed are skipped without being stored, and a text
//! without escapes is not copied.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The values of these fields of an object, if it has them; of repeated ones, the last. A name with a dot,
/// `a.b`, is the field of that name, or the field `b` of the object `a`.
///
/// # Errors
/// If the line is not a JSON object.
pub(in crate::cli) fn fields_of<'a, const N: usize>(
    line: &'a str,
    names: [&str; N],
) -> serde_json::Result<[Option<&'a RawValue>; N]> {
    let mut read = serde_json::Deserializer::from_str(line);
    let found = Wanted(names).deserialize(&mut read)?;
    read.end()?;
    Ok(std::array::from_fn(|at| {
        let Found { own, outer } = found[at];
        own.or_else(|| {
            let (_, inner) = names[at].split_once('.')?;
            fields_of(outer?.get(), [inner]).ok()?[0]
        })
    }))
}

/// A string, which is copied only if it has escapes; `None` for another value.
pub(in crate::cli) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Some(inner.into()),
        Some(_) => serde_json::from_str(value.get()).ok().map(Cow::Owned),
    }
}

/// All fields of an object in their order, repeated ones too.
///
/// # Errors
/// If the line is not a JSON object.
pub(in crate::cli) fn all_fields(line: &str) -> serde_json::Result<Vec<(Cow<'_, str>, &RawValue)>> {
    let mut read = serde_json::Deserializer::from_str(line);
    let found = read.deserialize_map(All)?;
    read.end()?;
    Ok(found)
}

/// The error of a field, or of another `what`, that a record does not have, with those that it has.
pub(in crate::cli) fn missing<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str>) -> String {
    const LISTED: usize = 10;
    let mut names: Vec<&str> = names.take(LISTED + 1).collect();
    if names.len() > LISTED {
        names[LISTED] = "…";
    }
    if names.is_empty() {
        return format!("there is no {what} {name:?}: there is none at all");
    }
    format!("there is no {what} {name:?}; there are {}", names.join(", "))
}

struct All;

impl<'a> Visitor<'a> for All {
    type Value = Vec<(Cow<'a, str>, &'a RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            fields.push((name, map.next_value()?));
        }
        Ok(fields)
    }
}

/// A key, which is copied only if it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value of a field, and that of the object that may have it under the rest of its name.
#[derive(Clone, Copy, Default)]
struct Found<'a> {
    own: Option<&'a RawValue>,
    outer: Option<&'a RawValue>,
}

/// The names of the fields.
#[derive(Clone, Copy)]
struct Wanted<'n, const N: usize>([&'n str; N]);

impl<'a, const N: usize> DeserializeSeed<'a> for Wanted<'_, N> {
    type Value = [Found<'a>; N];

    fn deserialize<D: Deserializer<'a>>(self, read: D) -> Result<Self::Value, D::Error> {
        read.deserialize_map(self)
    }
}

impl<'a, const N: usize> Visitor<'a> for Wanted<'_, N> {
    type Value = [Found<'a>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [Found::default(); N];
        while let Some(Places { own, outer }) = map.next_key_seed(self.key())? {
            if own == 0 && outer == 0 {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = Some(map.next_value::<&RawValue>()?);
            for (at, found) in found.iter_mut().enumerate() {
                found.own = if own & 1 << at == 0 { found.own } else { value };
                found.outer = if outer & 1 << at == 0 { found.outer } else { value };
            }
        }
        Ok(found)
    }
}

/// For a key: which names it is, and of which names it is the part before the dot, as bits.
struct Places {
    own: u32,
    outer: u32,
}

/// Compares a key with the names.
struct Key<'n, const N: usize>([&'n str; N]);

impl<'n, const N: usize> Wanted<'n, N> {
    fn key(&self) -> Key<'n, N> {
        Key(self.0)
    }
}

impl<'a, const N: usize> DeserializeSeed<'a> for Key<'_, N> {
    type Value = Places;

    fn deserialize<D: Deserializer<'a>>(self, read: D) -> Result<Places, D::Error> {
        read.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for Key<'_, N> {
    type Value = Places;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Places, E> {
        let bits = |is: &dyn Fn(&str) -> bool| {
            self.0.iter().enumerate().fold(0, |bits, (at, name)| bits | u32::from(is(name)) << at)
        };
        let is_outer = |name: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        Ok(Places { own: bits(&|name| name == key), outer: bits(&is_outer) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The definition: the whole object in memory.
    fn by_definition(line: &str, name: &str) -> Option<String> {
        let object: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).ok()?;
        if let Some(value) = object.get(name) {
            return Some(value.get().to_owned());
        }
        let (outer, inner) = name.split_once('.')?;
        by_definition(object.get(outer)?.get(), inner)
    }

    #[test]
    fn fields_are_those_of_the_whole_object() {
        let lines = [
            r#"{"id":1,"text":"a\"b","meta":{"n":2,"deep":{"x":null}}}"#,
            r#" { "text" : "a" , "text" : [1, {"id": 3}] , "meta.n" : true, "meta":{"n":1} } "#,
            r#"{"\u0069d":"escaped key","t":{},"meta":"no object"}"#,
            r#"{"meta":{"n":1},"meta":{"deep":{"x":"2"}}}"#,
            "{}",
        ];
        for line in lines {
            let last: BTreeMap<String, &RawValue> =
                all_fields(line).unwrap().into_iter().map(|(name, value)| (name.into(), value)).collect();
            let whole: BTreeMap<String, &RawValue> = serde_json::from_str(line).unwrap();
            let text = |object: BTreeMap<String, &RawValue>| -> Vec<(String, String)> {
                object.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()
            };
            assert_eq!(text(last), text(whole), "{line}");
            let names = ["id", "text", "meta.n", "meta.deep.x", "meta", "id"];
            let found = fields_of(line, names).unwrap();
            for (name, found) in names.iter().zip(found) {
                assert_eq!(found.map(|value| value.get().to_owned()), by_definition(line, name), "{line}");
            }
        }
        for wrong in
            ["", "[]", "7", r#"{"a":1"#, r#"{"a":1} x"#, r#"{"a":tru}"#, r#"{"a":"\q"}"#, "{\"a\":\"\n\"}"]
        {
            assert!(fields_of(wrong, ["b"]).is_err() && all_fields(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn strings_are_decoded() {
        for text in ["", "plain", "with \"quotes\" and \\", "line\nbreak", "文本\u{1f600}"] {
            let json = serde_json::to_string(text).unwrap();
            let value: &RawValue = serde_json::from_str(&json).unwrap();
            assert_eq!(string(value).as_deref(), Some(text));
        }
        for json in ["7", "null", "[\"a\"]", "{}"] {
            let value: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(string(value), None);
        }
    }
}
