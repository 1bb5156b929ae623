//! Reading JSON and query strings into wire types. What is wrong becomes a [`Problem`] that names its place.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::{Code, Problem};
use lookalike_wording::{self as wording, HUGE, NUMBER, Place, plain, told};

/// The byte order mark in UTF-8.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// The parameters of a query string. Unknown ones are refused if `T` denies unknown fields.
pub fn query<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    if query.contains('%') {
        check_utf8(query)?;
    }
    serde_urlencoded::from_str(query).map_err(|_| parameter_problem::<T>(query))
}

/// Refuses a name or a value that is not UTF-8 after percent-decoding: the parser would replace it by U+FFFD.
fn check_utf8(query: &str) -> Result<(), Problem> {
    let replaced = |text: &str| text.contains('\u{fffd}');
    let wrong =
        form_urlencoded::parse(query.as_bytes()).find(|(name, value)| replaced(name) || replaced(value));
    match wrong {
        Some((name, _)) if !query.to_ascii_uppercase().contains("%EF%BF%BD") && !replaced(query) => {
            let detail = format!("{name} is not percent-encoded UTF-8; encode it as UTF-8");
            Err(Problem::parameter(Code::InvalidField, &name, detail))
        }
        _ => Ok(()),
    }
}

/// The error of a query string. It is parsed again with the place of the error, which takes twice as long.
fn parameter_problem<T: DeserializeOwned>(query: &str) -> Problem {
    let deserializer = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    match serde_path_to_error::deserialize::<_, T>(deserializer) {
        Ok(_) => Problem::new(Code::MalformedRequest, "the query string cannot be read"),
        Err(error) => {
            let name = error.path().to_string();
            let detail = with_range(&name, plain(&error.inner().to_string()));
            Problem::parameter(code_of(&detail), field_name(&detail).unwrap_or(&name), detail.clone())
        }
    }
}

/// Parses a JSON object; the error has the place. Without this, serde would also accept an array, as the
/// fields of a struct in order.
pub fn parse_object<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Problem> {
    parse::<Object<T>>(bytes).map(|object| object.0)
}

/// A value that is parsed only from an object.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// The bytes without a byte order mark, with which some programs begin every UTF-8 text.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}

/// Parses `T` from JSON; the error has the place.
pub fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Problem> {
    let bytes = without_mark(bytes);
    // If the whole text is validated as UTF-8, serde does not validate each string.
    let read = simdutf8::basic::from_utf8(bytes).ok().and_then(|text| serde_json::from_str(text).ok());
    read.map_or_else(|| parse_tracked(bytes), Ok)
}

/// The same with the place of the error, which is slower; for a text that cannot be parsed.
#[cold]
fn parse_tracked<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let pointer = pointer(error.path());
        let inner = error.into_inner();
        // What is no JSON is named first: a member that holds it may be unknown, too.
        if let Some((message, place)) = wording::not_json(bytes) {
            return malformed(&message, place);
        }
        let (message, place) = told(bytes, &inner);
        if !inner.is_data() {
            return malformed(&message, place);
        }
        let detail = plain(&message);
        let of_object = detail.starts_with("missing field") || detail.starts_with("duplicate field");
        let member = field_name(&detail).filter(|_| of_object);
        let pointer = member.map_or_else(|| pointer.clone(), |name| format!("{pointer}/{name}"));
        let detail = with_range(pointer.rsplit('/').next().unwrap_or_default(), detail);
        let forms = ["expected an object", "expected an array"];
        let is_of_form =
            detail.starts_with("missing field") || forms.iter().any(|form| detail.ends_with(form));
        let way_out = if is_of_form { "; /docs has the form of each body" } else { "" };
        Problem::field(code_of(&detail), pointer, format!("{detail}{place}{way_out}"))
    })?;
    deserializer.end().map_err(|error| {
        let (message, place) = told(bytes, &error);
        malformed(&message, place)
    })?;
    Ok(value)
}

fn malformed(message: &str, place: Place) -> Problem {
    Problem::new(Code::MalformedRequest, format!("the body is not valid JSON: {message}{place}"))
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let segment = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    };
    path.iter().map(segment).collect()
}

/// Adds the range of a number, which its type does not state. The upper end of k depends on the collection,
/// which is not known here.
fn with_range(name: &str, detail: String) -> String {
    let range = match name {
        "k" => "k ranges from 0 to the bits of the collection's hashes, 64, 128 or 256",
        "min_size" => "min_size is 1 or more",
        "similar" => "similar ranges from 0 to limits.matches, 1000 unless the server has another one",
        "limit" => "limit ranges from 1 to limits.matches, 1000 unless the server has another one",
        _ => return detail,
    };
    let is_range = detail.contains(NUMBER) || detail.contains(HUGE);
    if is_range { format!("{detail}; {range}") } else { detail }
}

fn code_of(detail: &str) -> Code {
    if detail.starts_with("unknown field") { Code::UnknownField } else { Code::InvalidField }
}

/// The first name in back-ticks in a message of serde about a field.
fn field_name(detail: &str) -> Option<&str> {
    let rest = detail.strip_prefix("unknown field `").or_else(|| detail.strip_prefix("missing field `"));
    rest.or_else(|| detail.strip_prefix("duplicate field `"))?.split('`').next()
}
