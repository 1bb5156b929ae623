//! The content of a record: the fields of a JSON object, a row of a table or a row of Parquet, with the rules
//! for a text and an id that all commands share.
//!
//! A text without escapes is not copied.

use std::borrow::Cow;
use std::fmt;

use encoding_rs::{Encoding, UTF_8};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::faults::{fault, lone_surrogate};
use super::names::shown_bytes;
use super::nested::Path;
use super::{Reason, Unread, fitting};
use lookalike_hash::DocumentId;

/// The way out of bytes that are invalid in the charset of a file.
pub(super) const NAME_THE_CHARSET: &str =
    "--charset names the charset of the file, such as windows-1252 (latin1)";

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Valid JSON.
    Json(&'a str),
    /// A cell.
    Text(&'a str),
    /// A value that is missing in a row of Parquet.
    Null,
    /// A column of Parquet before its values are known: it may have fields of any name.
    Column,
}

impl<'a> Value<'a> {
    /// The value as JSON.
    pub fn json(self) -> Cow<'a, str> {
        match self {
            Value::Json(json) => json.into(),
            Value::Text(text) => quoted(text).into(),
            Value::Null | Value::Column => "null".into(),
        }
    }

    /// Whether it is `null`, or an empty cell.
    pub fn is_null(self) -> bool {
        matches!(self, Value::Null | Value::Json("null"))
    }

    /// A string, which is copied only if it has escapes; the error of another value.
    pub fn string(self) -> Result<Cow<'a, str>, Option<serde_json::Error>> {
        match self {
            Value::Text(text) => Ok(text.into()),
            Value::Column => Ok("".into()),
            Value::Json(json) if json.starts_with('"') => match memchr::memchr(b'\\', json.as_bytes()) {
                None => Ok(json.trim_matches('"').into()),
                Some(_) => serde_json::from_str(json).map(Cow::Owned).map_err(Some),
            },
            _ => Err(None),
        }
    }

    /// The JSON of a value in a JSON object.
    pub(crate) fn raw(self) -> &'a str {
        match self {
            Value::Json(json) => json,
            _ => "null",
        }
    }

    /// A string without its quotes, anything else as it is.
    pub fn plain(self) -> String {
        self.string().unwrap_or_else(|_| self.json()).into_owned()
    }
}

/// The fields of a record in their order.
#[derive(Debug)]
pub struct Fields<'a> {
    /// The word for them in messages: fields or columns.
    pub what: &'static str,
    /// The names with their values, in their order.
    pub all: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Fields<'a> {
    /// The fields of a JSON object, which is a line or an element of a file in this charset.
    ///
    /// # Errors
    /// If it is none, or an object in it has two members of one name.
    pub(crate) fn of_json(bytes: &'a [u8], encoding: &'static Encoding) -> Result<Fields<'a>, Unread> {
        let text = valid(bytes, encoding)?.trim_start_matches('\u{feff}');
        let all = members(text).map_err(|error| fault(text, &error))?;
        match repeated(text) {
            Some(name) => Err(Reason::Repeated.because(format!(
                "an object has the name {name:?} twice, and which value is meant is unknown"
            ))),
            None => Ok(Fields { what: "field", all }),
        }
    }

    /// The cells of a row.
    pub fn of_row(names: &'a [String], cells: impl Iterator<Item = Value<'a>>) -> Fields<'a> {
        let names = names.iter().map(|name| Cow::Borrowed(name.as_str()));
        Fields { what: "column", all: names.zip(cells).collect() }
    }

    /// The names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|(name, _)| &**name)
    }

    /// The value of the field of this name; of `a.b`, else that of the field `b` of the object `a`.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        let own = |wanted: &str| self.all.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
        own(name).or_else(|| {
            if let Some(path) = Path::of(name) {
                return own(path.outer).filter(|value| *value == Value::Column);
            }
            let (outer, inner) = name.split_once('.')?;
            match own(outer)? {
                Value::Json(object) => Fields { what: self.what, all: members(object).ok()? }.get(inner),
                Value::Column => Some(Value::Column),
                Value::Text(_) | Value::Null => None,
            }
        })
    }

    /// The value of a field that every record must have. The option names another field.
    ///
    /// # Errors
    /// If there is none.
    pub fn needed(&self, name: &str, option: &str) -> Result<Value<'a>, Unread> {
        match self.get(name) {
            None => {
                let all = missing(self.what, name, self.names());
                Err(Reason::Field.because(format!("{all}; {option} names another one")))
            }
            Some(value) if value.is_null() => {
                Err(Reason::Field.because(format!("there is no value in the {} {name:?}", self.what)))
            }
            Some(value) => Ok(value),
        }
    }

    /// The text in a field; of a path with `[]`, all texts there.
    ///
    /// # Errors
    /// If there is none.
    pub fn text(&self, name: &str, option: &str) -> Result<Cow<'a, str>, Unread> {
        if let (None, Some(path)) = (self.get(name), Path::of(name))
            && let Some(Value::Json(outer)) = self.get(path.outer)
        {
            return path.text(self.what, outer).map(Cow::Owned);
        }
        let value = self.needed(name, option)?;
        let what = self.what;
        value.string().map_err(|error| {
            let why = broken_character(value).filter(|_| error.is_some());
            let why = why.unwrap_or_else(|| format!("is not a string; {option} names another one"));
            Reason::Value.because(format!("the {what} {name:?} {why}"))
        })
    }

    /// The id in a field, a text or an integer; `None` if there is none and none is needed. An id of more
    /// than 256 bytes becomes its digest. An empty cell of a table is no id.
    ///
    /// # Errors
    /// If the value is of another kind, or cannot be an id.
    pub fn id(&self, name: &str, is_needed: bool) -> Result<Option<String>, Unread> {
        const OPTION: &str = "--id-field";
        let found = if is_needed {
            Some(self.needed(name, OPTION)?)
        } else {
            self.get(name).filter(|value| !value.is_null() && *value != Value::Text(""))
        };
        let Some(value) = found else { return Ok(None) };
        let is_digit = |byte: u8| byte == b'-' || byte.is_ascii_digit();
        let id = match value {
            Value::Json(json) if json.bytes().all(is_digit) => Ok(fitting(json)),
            _ => value.string().map(|text| fitting(&text)).map_err(|error| {
                broken_character(value).filter(|_| error.is_some()).unwrap_or_else(|| {
                    let shown: String = value.json().chars().take(40).collect();
                    format!("is {}; an id is a text or an integer", shown_bytes(shown.as_bytes()))
                })
            }),
        };
        let id =
            id.and_then(|id| DocumentId::new(&id).map(|_| id).map_err(|error| format!("is no id: {error}")));
        let what = self.what;
        id.map(Some).map_err(|why| {
            Reason::Id.because(format!("the {what} {name:?} {why}: {OPTION} names another one"))
        })
    }
}

/// Checks that a field, which is passed on as it is, has only whole characters.
///
/// # Errors
/// With the half that is not.
pub fn check_characters(name: &str, value: Value<'_>) -> Result<(), Unread> {
    match broken_character(value) {
        Some(why) => Err(Reason::Value.because(format!("the field {name:?} {why}"))),
        None => Ok(()),
    }
}

/// What is wrong with JSON that cannot be decoded.
fn broken_character(value: Value<'_>) -> Option<String> {
    let Value::Json(json) = value else { return None };
    lone_surrogate_in(json).map(|what| format!("has {what}"))
}

/// The half of a character in a JSON string, in words.
pub(crate) fn lone_surrogate_in(json: &str) -> Option<String> {
    lone_surrogate(json).map(|escape| format!("half of a character, the lone surrogate {escape}"))
}

/// The bytes of a record of a file in this charset, which were made UTF-8.
///
/// # Errors
/// If they are invalid.
pub(crate) fn valid<'a>(bytes: &'a [u8], encoding: &'static Encoding) -> Result<&'a str, Unread> {
    simdutf8::compat::from_utf8(bytes).map_err(|error| {
        if encoding == UTF_8 {
            return not_utf8(error.valid_up_to());
        }
        let (name, help) = (encoding.name(), "--charset names another one");
        Reason::Bytes
            .because(format!("it has bytes that are invalid in the charset of the file, {name}; {help}"))
    })
}

/// The fault of bytes that are not UTF-8 at this place.
pub(super) fn not_utf8(at: usize) -> Unread {
    Reason::Bytes.because(format!("not UTF-8: byte {at} is invalid; {NAME_THE_CHARSET}"))
}

/// The members of an object in their order.
///
/// # Errors
/// If it is not a JSON object.
pub fn members(json: &str) -> serde_json::Result<Vec<(Cow<'_, str>, Value<'_>)>> {
    let mut read = serde_json::Deserializer::from_str(json);
    let found = read.deserialize_map(All)?;
    read.end()?;
    Ok(found)
}

/// The error of a field, or of another `what`, that a record does not have, with those that it has.
pub fn missing<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str>) -> String {
    const LISTED: usize = 10;
    // Blanks around a name are seen only between quotation marks.
    let quoted = |name: &str| {
        if name.trim() == name && !name.is_empty() {
            shown_bytes(name.as_bytes())
        } else {
            format!("{name:?}")
        }
    };
    let mut names: Vec<String> = names.take(LISTED + 1).map(quoted).collect();
    if names.len() > LISTED {
        "…".clone_into(&mut names[LISTED]);
    }
    if names.is_empty() {
        return format!("there is no {what} {name:?}: there is none at all");
    }
    format!("there is no {what} {name:?}; there are {}", names.join(", "))
}

/// A text as JSON.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

struct All;

impl<'a> Visitor<'a> for All {
    type Value = Vec<(Cow<'a, str>, Value<'a>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            fields.push((name, Value::Json(map.next_value::<&RawValue>()?.get())));
        }
        Ok(fields)
    }
}

/// A name, which is copied only if it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A name that two members of one object have, at any depth of valid JSON.
fn repeated(json: &str) -> Option<Cow<'_, str>> {
    let bytes = json.as_bytes();
    // The names of each object that is open. Only objects have names, so arrays need no place.
    let (mut open, mut at): (Vec<Vec<Cow<'_, str>>>, usize) = (Vec::new(), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'{' => open.push(Vec::new()),
            b'}' => {
                let mut names = open.pop()?;
                names.sort_unstable();
                if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Some(pair[0].clone());
                }
            }
            b'"' => {
                let end = end_of_string(bytes, at)?;
                let is_name = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                if is_name && let Some(names) = open.last_mut() {
                    names.push(serde_json::from_str::<Name<'_>>(&json[at..end]).ok()?.0);
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The place after the string that begins at `from`.
fn end_of_string(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn fields(line: &str) -> Fields<'_> {
        Fields::of_json(line.as_bytes(), UTF_8).unwrap()
    }

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
            r#" { "text" : [1, {"id": 3}] , "meta.n" : true, "meta":{"n":1} } "#,
            r#"{"\u0069d":"escaped key","t":{},"meta":"no object"}"#,
            "{}",
        ];
        for line in lines {
            for name in ["id", "text", "meta.n", "meta.deep.x", "meta"] {
                let found = fields(line).get(name).map(|value| value.json().into_owned());
                assert_eq!(found, by_definition(line, name), "{line}");
            }
        }
        for wrong in
            ["", "[]", "7", r#"{"a":1"#, r#"{"a":1} x"#, r#"{"a":tru}"#, r#"{"a":"\q"}"#, "{\"a\":\"\n\"}"]
        {
            assert!(Fields::of_json(wrong.as_bytes(), UTF_8).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_that_an_object_has_twice_is_found_at_any_depth() {
        for (line, name) in [
            (r#"{"text":"a","id":1,"text":"b"}"#, Some("text")),
            (r#"{"text":"a" , "\u0074ext" : "b"}"#, Some("text")),
            (r#"{"a":{"b":1,"c":{},"b":2}}"#, Some("b")),
            (r#"{"a":[1,{"b\"\\":[{"x":1}],"b\"\\":2}]}"#, Some("b\"\\")),
            (r#"{"a":{"b":1},"b":{"a":1},"c":[{"b":1},{"b":2}]}"#, None),
            (r#"{"a":"{\"b\":1,\"b\":2}","b":"a\\","c":"a:"}"#, None),
            (r#"{"a":["b","b"],"":{"":1}}"#, None),
        ] {
            assert_eq!(repeated(line).as_deref(), name, "{line}");
            let found = Fields::of_json(line.as_bytes(), UTF_8).map_err(|unread| unread.reason);
            assert_eq!(found.err(), name.map(|_| Reason::Repeated), "{line}");
        }
        // The time does not grow with the depth.
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(300_000), "]".repeat(300_000));
        assert_eq!(repeated(&deep), None);
    }

    #[test]
    fn strings_are_decoded() {
        for text in ["", "plain", "with \"quotes\" and \\", "line\nbreak", "文本\u{1f600}", "\""] {
            let json = quoted(text);
            assert_eq!(Value::Json(&json).string().unwrap(), text);
            assert_eq!(Value::Text(text).json(), json);
        }
        for json in ["7", "null", "[\"a\"]", "{}"] {
            assert!(Value::Json(json).string().is_err());
            assert_eq!(Value::Json(json).plain(), json);
        }
    }

    #[test]
    fn an_id_is_a_text_or_an_integer_that_the_server_takes() {
        let long = "u".repeat(257);
        for (line, needed, expected) in [
            (r#"{"id":"a"}"#.to_owned(), None, Ok(Some("a".to_owned()))),
            (
                r#"{"id":12345678901234567890123}"#.to_owned(),
                None,
                Ok(Some("12345678901234567890123".to_owned())),
            ),
            (r#"{"id":-7}"#.to_owned(), Some("id"), Ok(Some("-7".to_owned()))),
            (r#"{"id":null}"#.to_owned(), None, Ok(None)),
            (r#"{"a":{"b":"c"}}"#.to_owned(), Some("a.b"), Ok(Some("c".to_owned()))),
            (format!("{{\"id\":\"{long}\"}}"), None, Ok(Some(fitting(&long)))),
            (r#"{"id":null}"#.to_owned(), Some("id"), Err("no value in the field \"id\"")),
            ("{}".to_owned(), Some("id"), Err("there is no field \"id\"")),
            (r#"{"id":1.5}"#.to_owned(), None, Err("is 1.5; an id is a text or an integer")),
            (r#"{"id":true}"#.to_owned(), None, Err("is true; an id is a text or an integer")),
            (r#"{"id":""}"#.to_owned(), None, Err("this one is empty")),
            (
                r#"{"id":"a\nb"}"#.to_owned(),
                None,
                Err("an id has no control characters; this one has U+000A"),
            ),
        ] {
            match (fields(&line).id(needed.unwrap_or("id"), needed.is_some()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{line}"),
                (Err(Unread { detail, .. }), Err(expected)) => assert!(detail.contains(expected), "{detail}"),
                (found, expected) => panic!("{line}: {found:?}, {expected:?}"),
            }
        }
        let (names, cells) = (["id".to_owned()], [Value::Text("")].into_iter());
        assert_eq!(Fields::of_row(&names, cells).id("id", false), Ok(None));
    }
}
