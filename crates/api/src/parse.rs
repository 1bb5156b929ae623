//! Reading JSON and query strings into wire types. What is wrong becomes a [`Problem`] that names its place.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::{Code, Problem};
use lookalike_wording::{Place, not_json, told};

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
            let (name, said) = (error.path().to_string(), in_json(&error.inner().to_string()));
            Problem::parameter(code_of(&said), field_name(&said).unwrap_or(&name), said.clone())
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

/// [`parse`] that finds the place of the error, which is slower; for a text that cannot be parsed.
#[cold]
fn parse_tracked<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let pointer = pointer(error.path());
        let inner = error.into_inner();
        let (said, place) = told(bytes, &inner);
        let said = in_json(&said);
        if !inner.is_data() {
            return malformed(&said, place);
        }
        // Invalid JSON is reported first: it may be the value of an unknown member.
        if let Some((message, place)) = not_json(bytes) {
            return malformed(&message, place);
        }
        let member = field_name(&said).filter(|_| !said.starts_with("unknown field"));
        let pointer = member.map_or_else(|| pointer.clone(), |name| format!("{pointer}/{name}"));
        Problem::field(code_of(&said), pointer, format!("{said}{}{place}", way_out(&said)))
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

const WHOLE: &str = "a whole number, 0 or more";
const NUMBER: &str = "a number";

/// A message with the kinds of JSON in place of those of Rust. A number of a query is parsed by the standard
/// library, which does not say what it expects.
fn in_json(said: &str) -> String {
    match said {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            return format!("expected {WHOLE}");
        }
        "invalid float literal" | "cannot parse float from empty string" => {
            return format!("expected {NUMBER}");
        }
        _ => {}
    }
    match said.rsplit_once("expected ") {
        Some((before, "u8" | "u16" | "u32" | "u64" | "usize")) => format!("{before}expected {WHOLE}"),
        Some((before, "f32" | "f64")) => format!("{before}expected {NUMBER}"),
        Some((before, "i32" | "i64")) => format!("{before}expected a whole number"),
        Some((before, kind)) if kind.starts_with("struct ") || kind.starts_with("enum ") => {
            format!("{before}expected an object")
        }
        _ => said.to_owned(),
    }
}

/// What to write instead, if quotation marks make the difference, or where the form of the body stands.
fn way_out(said: &str) -> &'static str {
    let expects = |kinds: &[&str]| kinds.iter().any(|kind| said.ends_with(kind));
    if said.starts_with("missing field") || expects(&["an object", "a map", "an array", "a sequence"]) {
        return "; /docs has the form of each body";
    }
    match said.strip_prefix("invalid type: ").and_then(|rest| rest.split(' ').next()) {
        Some("string") if expects(&[WHOLE, NUMBER, "a boolean"]) => ": write it without quotation marks",
        Some("integer" | "floating") if expects(&["a string"]) => ": write it between quotation marks",
        _ => "",
    }
}

fn code_of(said: &str) -> Code {
    if said.starts_with("unknown field") { Code::UnknownField } else { Code::InvalidField }
}

/// The name in a message of serde about a field that is unknown, missing or there twice.
fn field_name(said: &str) -> Option<&str> {
    let (about, rest) = said.split_once(" field `")?;
    ["unknown", "missing", "duplicate"].contains(&about).then(|| rest.split('`').next())?
}
