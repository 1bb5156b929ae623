//! What is wrong with a text that is not JSON, in plain words, and where.
//!
//! A parser names the rule that it applied, such as "expected value". People look for what stands there: a
//! `NaN`, a name without quotation marks, half of a character. Columns count characters, as editors do.
//!
//! *Absent*: what a value means; a message about a value that is JSON stays as it is.

use std::fmt;

use memchr::{memchr_iter, memrchr};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// The most characters of a word that a message shows.
const SHOWN: usize = 30;

/// Where a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the byte, from 0.
    pub at: usize,
    /// The line, from 1.
    pub line: usize,
    /// The character of the line, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    /// A document of a stream has one line, and its index identifies it, so the first line is not named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place { line: 1, column, .. } => write!(f, " (column {column})"),
            Place { line, column, .. } => write!(f, " (line {line}, column {column})"),
        }
    }
}

impl Place {
    fn of(text: &[u8], at: usize) -> Place {
        let before = &text[..at.min(text.len())];
        let start = memrchr(b'\n', before).map_or(0, |end| end + 1);
        let is_start = |byte: &&u8| **byte & 0xc0 != 0x80;
        Place {
            at,
            line: 1 + memchr_iter(b'\n', before).count(),
            column: 1 + before[start..].iter().filter(is_start).count(),
        }
    }
}

/// The first part of a text that is not JSON: what is wrong, and the place, as [`told`] returns them. `None`
/// if all of it is JSON.
///
/// A program that reads only some members of an object does not see what is wrong with the others. Strings
/// are checked as well: their escapes must name characters.
///
/// ```
/// use lookalike_wording::not_json;
///
/// let (what, place) = not_json(br#"{"id": "a", "score": NaN}"#).unwrap();
/// assert_eq!(format!("{what}{place}"), "NaN is not JSON: write null (column 22)");
/// assert!(not_json(br#"{"id": "a", "score": null}"#).is_none());
/// ```
pub fn not_json(text: &[u8]) -> Option<(String, Place)> {
    serde_json::from_slice::<Checked>(text).err().map(|error| told(text, &error))
}

/// The message of an error about this text, and the place of the error, separately, so that the place does
/// not read as a part of the sentence. Limits of the parser are explained.
pub fn told(text: &[u8], error: &serde_json::Error) -> (String, Place) {
    let (said, line, column) = (error.to_string(), error.line(), error.column());
    let at = offset(text, line, column);
    let message = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
    let (message, at) = match message {
        "recursion limit exceeded" => ("it is nested more than 127 deep; make it flatter".to_owned(), at),
        "number out of range" => {
            ("a number is beyond 1.797e308, the most that 64 bits hold; send it as a string".to_owned(), at)
        }
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => half(text, at),
        "invalid unicode code point" => not_utf8(text, at),
        "EOF while parsing a value" if text.trim_ascii().is_empty() => ("it is empty".to_owned(), at),
        message => word(text, at, message).unwrap_or_else(|| (message.to_owned(), at)),
    };
    (message, Place::of(text, at))
}

/// The number of the byte at this line and column, which counts bytes from 1, or of the first byte of its
/// character.
fn offset(text: &[u8], line: usize, column: usize) -> usize {
    let start = match line {
        0 | 1 => 0,
        _ => memchr_iter(b'\n', text).nth(line - 2).map_or(text.len(), |end| end + 1),
    };
    let mut at = (start + column.saturating_sub(1)).min(text.len());
    while at > start && text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
        at -= 1;
    }
    at
}

/// What stands at this place, if that says more than the message of the parser, and where it begins.
fn word(text: &[u8], at: usize, message: &str) -> Option<(String, usize)> {
    let is_value = ["expected value", "expected ident", "invalid number"].contains(&message);
    let is_name = message == "key must be a string";
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"+-_.$".contains(byte);
    let what = match text.get(at)? {
        b'\'' if is_name || is_value => "names and texts have double quotes in JSON, not single ones",
        b'/' | b'#' if is_name || is_value || message.starts_with("expected `,`") => "JSON has no comments",
        first if is_name && is_of_word(first) => "names have double quotes in JSON",
        _ if is_value => return value(text, at, is_of_word),
        _ => return None,
    };
    Some((what.to_owned(), at))
}

/// The word around a place that is no value of JSON. The parser stops within a word.
fn value(text: &[u8], at: usize, is_of_word: impl Fn(&u8) -> bool) -> Option<(String, usize)> {
    let begin = at - text[..at].iter().rev().take_while(|byte| is_of_word(byte)).count();
    let length = text[begin..].iter().take_while(|byte| is_of_word(byte)).count();
    let word = std::str::from_utf8(&text[begin..begin + length]).ok()?;
    if word.is_empty() || word.starts_with('\u{feff}') || word.chars().count() > SHOWN {
        return None;
    }
    let instead = match word.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str() {
        "nan" | "inf" | "infinity" | "none" | "null" | "nil" | "undefined" => ": write null",
        "true" | "false" => ": write it in small letters",
        _ => "",
    };
    Some((format!("{word} is not JSON{instead}"), begin))
}

/// The escape before this place that is only half of a character.
fn half(text: &[u8], at: usize) -> (String, usize) {
    // A pair of escapes has 12 bytes, and one more may have been read.
    let from = at.saturating_sub(13);
    let is_half = |escape: &[u8]| {
        let digits = escape.strip_prefix(b"\\u").and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        code.is_some_and(|code| (0xd800..0xe000).contains(&code))
    };
    let end = (at + 1).min(text.len());
    let found = text[from..end].windows(6).rposition(is_half).map_or(at, |place| from + place);
    let escape = String::from_utf8_lossy(text.get(found..found + 6).unwrap_or_default()).into_owned();
    let message = format!(
        "the escape {escape} is half of a character (a lone surrogate): write both halves, as in \
         \\ud83d\\ude00, or \\ufffd"
    );
    (message, found)
}

/// The first byte that is not UTF-8.
fn not_utf8(text: &[u8], at: usize) -> (String, usize) {
    match std::str::from_utf8(text) {
        Ok(_) => ("an escape names no character".to_owned(), at),
        Err(error) => {
            let at = error.valid_up_to();
            (format!("the byte 0x{:02x} is not UTF-8, the charset of JSON", text[at]), at)
        }
    }
}

/// Any JSON, of which nothing is kept.
struct Checked;

impl<'de> Visitor<'de> for Checked {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Checked, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Checked, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Checked, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Checked, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Checked, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Checked, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Checked, A::Error> {
        while elements.next_element::<Checked>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Checked, A::Error> {
        while members.next_entry::<Checked, Checked>()?.is_some() {}
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Checked, D::Error> {
        deserializer.deserialize_any(Checked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        not_json(text.as_bytes()).map_or_else(String::new, |(message, place)| format!("{message}{place}"))
    }

    #[test]
    fn json_has_no_fault() {
        for text in ["null", "[1, -2.5e3, \"x\", true]", r#"{"a": {"a": "\ud83d\ude00 \u00e9"}, "a": 1}"#] {
            assert_eq!(found(text), "");
        }
    }

    #[test]
    fn words_of_other_languages_are_named_with_their_column() {
        let number = ": write null";
        for (text, expected) in [
            (r#"{"a": NaN}"#, format!("NaN is not JSON{number} (column 7)")),
            (r#"{"a": -Infinity}"#, format!("-Infinity is not JSON{number} (column 7)")),
            (r#"{"a": +inf}"#, format!("+inf is not JSON{number} (column 7)")),
            (r#"{"é", 名}"#, "expected `:` (column 5)".to_owned()),
            (r#"{"名": "é", "b": nan}"#, format!("nan is not JSON{number} (column 17)")),
            ("[1,\n\n  Infinity]", format!("Infinity is not JSON{number} (line 3, column 3)")),
            ("[None]", "None is not JSON: write null (column 2)".to_owned()),
            ("[undefined]", "undefined is not JSON: write null (column 2)".to_owned()),
            ("[True, False]", "True is not JSON: write it in small letters (column 2)".to_owned()),
            ("['a']", "names and texts have double quotes in JSON, not single ones (column 2)".to_owned()),
            ("{'a': 1}", "names and texts have double quotes in JSON, not single ones (column 2)".to_owned()),
            ("{a: 1}", "names have double quotes in JSON (column 2)".to_owned()),
            ("[01, .5]", "01 is not JSON (column 2)".to_owned()),
            ("{\"a\": 1 // x\n}", "JSON has no comments (column 9)".to_owned()),
            ("[x]", "x is not JSON (column 2)".to_owned()),
            ("[1, ]", "trailing comma (column 5)".to_owned()),
            (" \n", "it is empty (line 2, column 1)".to_owned()),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn half_a_character_is_named_wherever_it_stands() {
        for (text, escape, column) in [
            (r#"{"text": "\ud83d"}"#, r"\ud83d", 11),
            (r#"{"text": "ab\ud83d cd"}"#, r"\ud83d", 13),
            (r#"{"text": "\ude00"}"#, r"\ude00", 11),
            (r#"{"other": {"é": ["\uD83D\u0041"]}}"#, r"\uD83D", 19),
            (r#"{"\udc00": 1}"#, r"\udc00", 3),
            (r#""\ud83d\ude00\ud83d\n""#, r"\ud83d", 14),
        ] {
            let message = found(text);
            let expected = format!("the escape {escape} is half of a character (a lone surrogate)");
            assert!(message.starts_with(&expected), "{text}: {message}");
            assert!(message.ends_with(&format!(" (column {column})")), "{text}: {message}");
        }
    }

    #[test]
    fn a_byte_that_is_not_utf8_is_named() {
        let (message, place) = not_json(b"{\"a\": \"caf\xe9\"}").unwrap();
        assert_eq!(
            format!("{message}{place}"),
            "the byte 0xe9 is not UTF-8, the charset of JSON (column 11)"
        );
    }

    #[test]
    fn the_limits_of_the_parser_are_explained() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(found(&nested(127)), "");
        assert_eq!(found(&nested(128)), "it is nested more than 127 deep; make it flatter (column 128)");
        assert_eq!(found("1.7e308"), "");
        assert!(found("1e400").starts_with("a number is beyond 1.797e308"), "{}", found("1e400"));
    }
}
