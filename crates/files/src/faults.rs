//! Why a record is not JSON, in plain words and with the column: the faults that programs which write JSON by
//! hand, or by the rules of another language, make.

use serde_json::error::Category;

use super::{Reason, Unread};
use lookalike_wording::{self as wording, Place};

/// The fault of a record that is not a JSON object.
pub(super) fn fault(text: &str, error: &serde_json::Error) -> Unread {
    if text.trim_start().starts_with('[') {
        return Reason::Object.because("a JSON array in place of an object");
    }
    let (message, Place { at, line, column }) = wording::told(text.as_bytes(), error);
    let place =
        if line == 1 { format!("column {column}") } else { format!("line {line} of it, column {column}") };
    if error.classify() == Category::Data {
        return Reason::Object.because(format!("not a JSON object: {message}"));
    }
    if message.contains(" is not JSON") {
        return Reason::Json.because(format!("{message} ({place})"));
    }
    let (before, rest) = text.split_at(at);
    let why = match &*message {
        _ if rest.starts_with('\u{feff}') => "a byte order mark within the record",
        "expected value" if rest.starts_with([']', '}']) && before.trim_ascii_end().ends_with(',') => {
            "trailing comma"
        }
        "trailing characters" if before.ends_with('\r') => {
            "a carriage return alone does not end a line: end lines with line feeds"
        }
        "trailing characters" if rest.starts_with(',') => "a comma follows the object",
        "trailing characters" => "something follows the object",
        "EOF while parsing a string" => "it ends within a string",
        "EOF while parsing an object" => "it ends within an object",
        "EOF while parsing a list" => "it ends within an array",
        "EOF while parsing a value" => "it ends before a value",
        message => message,
    };
    Reason::Json.because(format!("not a JSON object: {why} ({place})"))
}

/// The half of a character that stands alone in a JSON string, as its escape.
pub(super) fn lone_surrogate(json: &str) -> Option<&str> {
    let mut at = 0;
    let code = |at: usize| {
        let digits = json.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    loop {
        at += memchr::memchr(b'\\', json.as_bytes().get(at..)?)?;
        match code(at) {
            Some(0xd800..=0xdbff) if code(at + 6).is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) => {
                at += 12;
            }
            Some(0xd800..=0xdfff) => return json.get(at..at + 6),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::UTF_8;

    use super::*;
    use crate::Fields;

    #[test]
    fn faults_are_named_with_their_column() {
        for (line, expected) in [
            (r#"{"text":"a","score":NaN}"#, "NaN is not JSON: write null (column 21)"),
            (r#"{"text":"é","score":-Infinity}"#, "-Infinity is not JSON: write null (column 21)"),
            (r#"{"a":[1, Infinity]}"#, "Infinity is not JSON: write null (column 10)"),
            (r#"{"a":None}"#, "None is not JSON: write null (column 6)"),
            (r#"{"a":nan}"#, "nan is not JSON: write null (column 6)"),
            (r#"{"a":True}"#, "True is not JSON: write it in small letters (column 6)"),
            (r#"{"a":tru}"#, "tru is not JSON (column 6)"),
            (r#"{"a":01}"#, "01 is not JSON (column 6)"),
            (r#"{"a":.5}"#, ".5 is not JSON (column 6)"),
            (r#"{"a":+1}"#, "+1 is not JSON (column 6)"),
            (r#"{"a":'b'}"#, "names and texts have double quotes in JSON, not single ones (column 6)"),
            (r"{'a':1}", "names and texts have double quotes in JSON, not single ones (column 2)"),
            (r"{a:1}", "names have double quotes in JSON (column 2)"),
            (r#"{"a":1,}"#, "trailing comma (column 8)"),
            (r#"{"a":[1,]}"#, "trailing comma (column 9)"),
            ("{\"a\":\"b\tc\"}", "control character"),
            ("{\"a\":\u{feff}1}", "a byte order mark within the record (column 6)"),
            (r#"{"a":1}{"b":2}"#, "something follows the object (column 8)"),
            (r#"{"a":1},"#, "a comma follows the object (column 8)"),
            ("{\"a\":1}\r{\"b\":2}", "a carriage return alone does not end a line"),
            ("// comment", "JSON has no comments (column 1)"),
            ("{ # comment", "JSON has no comments (column 3)"),
            (r#"{"a":"b"#, "ends within a string"),
            (r#"{"a":1 "b":2}"#, "column 8"),
            (r#"{"\ud83d":1}"#, "half of a character (a lone surrogate)"),
            ("{\"a\":1,\n \"b\":NaN}", "NaN is not JSON: write null (line 2 of it, column 6)"),
            ("7", "not a JSON object: invalid type"),
            ("[{}]", "a JSON array in place of an object"),
        ] {
            let unread = Fields::of_json(line.as_bytes(), UTF_8).unwrap_err();
            assert!(unread.detail.contains(expected), "{line}: {}", unread.detail);
        }
    }

    #[test]
    fn a_lone_surrogate_is_found() {
        for (json, expected) in [
            (r#""a \ud83d b""#, Some("\\ud83d")),
            (r#""\ude00""#, Some("\\ude00")),
            (r#""\ud83d\ud83d\ude00""#, Some("\\ud83d")),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""a""#, None),
        ] {
            assert_eq!(lone_surrogate(json), expected, "{json}");
        }
    }
}
