//! What is wrong with a text that is not JSON, in plain words, and where.
//!
//! A parser names the rule that it applied, such as "expected value". People look for what stands there: a
//! `NaN`, a name without quotation marks. Columns count characters, as editors do.
//!
//! *Absent*: what a value means; a message about a value that is JSON stays as it is.

use std::fmt;

use memchr::{memchr_iter, memrchr};
use serde::de::IgnoredAny;

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
/// A program that reads only some members of an object does not see what is wrong with the others.
///
/// ```
/// use lookalike_wording::not_json;
///
/// let (what, place) = not_json(br#"{"id": "a", "score": NaN}"#).unwrap();
/// assert_eq!(format!("{what}{place}"), "NaN is not JSON: write null (column 22)");
/// assert!(not_json(br#"{"id": "a", "score": null}"#).is_none());
/// ```
pub fn not_json(text: &[u8]) -> Option<(String, Place)> {
    serde_json::from_slice::<IgnoredAny>(text).err().map(|error| told(text, &error))
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
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            let half = "an escape is half of a character (a lone surrogate): write both halves, as in \
                        \\ud83d\\ude00, or \\ufffd";
            (half.to_owned(), at)
        }
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
            ("[1, ]", "expected value (column 5)".to_owned()),
            (" \n", "it is empty (line 2, column 1)".to_owned()),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn halves_of_characters_and_the_limits_of_the_parser_are_explained() {
        let said = |text: &str| {
            let error = serde_json::from_str::<serde_json::Value>(text).err();
            error.map_or_else(String::new, |error| told(text.as_bytes(), &error).0)
        };
        assert!(said(r#""ab\ud83d cd""#).starts_with("an escape is half of a character"));
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(said(&nested(127)), "");
        assert_eq!(said(&nested(128)), "it is nested more than 127 deep; make it flatter");
        assert_eq!(said("1.7e308"), "");
        assert!(said("1e400").starts_with("a number is beyond 1.797e308"));
    }
}
