//! How numbers are written in messages, command output and log lines: `1 document`, `2 documents`, `17.557`
//! milliseconds; and the messages of parsers and of zstd in plain words.
//!
//! Guarantees: one rule for all. Not here: the console, which has its own rules for two languages.

#![deny(unreachable_pub)]

mod json;

use std::fmt;
use std::time::Duration;

pub use json::{Place, not_json, told};

/// A count with its noun; see [`counted`].
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    count: u64,
    noun: &'static str,
}

/// A count with its noun, which is given in the singular. The last word of the noun takes the plural.
///
/// ```
/// use lookalike_wording::counted;
///
/// assert_eq!(counted(1, "document").to_string(), "1 document");
/// assert_eq!(counted(0, "equal hash").to_string(), "0 equal hashes");
/// assert_eq!(counted(2, "entry").to_string(), "2 entries");
/// ```
pub fn counted(count: u64, noun: &'static str) -> Counted {
    Counted { count, noun }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted { count, noun } = self;
        if *count == 1 {
            return write!(f, "1 {noun}");
        }
        match noun.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => write!(f, "{count} {stem}ies"),
            _ if ["s", "sh", "ch", "x"].iter().any(|end| noun.ends_with(end)) => {
                write!(f, "{count} {noun}es")
            }
            _ => write!(f, "{count} {noun}s"),
        }
    }
}

/// The form of a verb that agrees with a count: `1 bit differs`, `2 bits differ`.
///
/// ```
/// use lookalike_wording::agreeing;
///
/// assert_eq!(agreeing(1, "is", "are"), "is");
/// assert_eq!(agreeing(0, "is", "are"), "are");
/// ```
pub fn agreeing(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// A time in milliseconds for a log line, to the microsecond.
pub fn milliseconds(elapsed: Duration) -> f64 {
    elapsed.as_micros() as f64 / 1e3
}

/// What is wrong with zstd data, by the name that the library has for its error. The decoder takes windows of
/// up to 2 to the power of `window` bytes.
///
/// ```
/// use lookalike_wording::of_zstd;
///
/// assert_eq!(of_zstd("Restored data doesn't match checksum", 23), "its checksum is wrong");
/// ```
pub fn of_zstd(name: &str, window: u32) -> String {
    let known = match name {
        "Unknown frame descriptor" => "it has something that is no frame",
        "Restored data doesn't match checksum" => "its checksum is wrong",
        "Dictionary mismatch" => {
            "it was compressed with a dictionary; decompress it with `zstd -d -D` and the dictionary"
        }
        "incomplete frame" => "it ends within a frame",
        "Frame requires too much memory for decoding" => {
            let (size, unit) = if window < 30 { (window - 20, "MiB") } else { (window - 30, "GiB") };
            return format!("its window is larger than {} {unit}", 1 << size);
        }
        _ => return name.to_ascii_lowercase(),
    };
    known.to_owned()
}

/// The type of a count, in messages.
pub const NUMBER: &str = "expected a whole number, 0 or more";
/// What is wrong with a number above the range of its type, in messages.
pub const HUGE: &str = "the number is too large";

/// The message of a parser with the terms of JSON, TOML and query strings in place of those of Rust.
///
/// ```
/// use lookalike_wording::plain;
///
/// assert_eq!(plain("invalid digit found in string"), "expected a whole number, 0 or more");
/// assert_eq!(plain("invalid type: sequence, expected f64"), "invalid type: array, expected a number");
/// ```
pub fn plain(message: &str) -> String {
    const WORDS: [(&str, &str); 20] = [
        ("expected u64", NUMBER),
        ("expected u32", NUMBER),
        ("expected usize", NUMBER),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected f32", "expected a number"),
        ("invalid digit found in string", NUMBER),
        ("cannot parse integer from empty string", NUMBER),
        ("number too large to fit in target type", HUGE),
        ("number too small to fit in target type", NUMBER),
        ("invalid float literal", "expected a number"),
        ("cannot parse float from empty string", "expected a number"),
        ("provided string was not `true` or `false`", "expected true or false"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
        ("invalid type: sequence", "invalid type: array"),
        ("invalid type: map", "invalid type: object"),
        ("unknown variant", "unknown value"),
        ("floating point", "number"),
    ];
    let text = WORDS.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to));
    // Names such as `struct NewDocument` or `enum OnDuplicate` may be absent from the contract.
    let named = text.split_once("expected struct ").or_else(|| text.split_once("expected enum "));
    match named.map(|(before, _)| before) {
        Some(before) => format!("{before}expected an object"),
        None => with_the_way_out(text),
    }
}

/// A message about a value of the wrong type, with what to write instead if quotation marks make the
/// difference.
fn with_the_way_out(text: String) -> String {
    let is_text = text.starts_with("invalid type: string");
    let is_number = ["integer", "number"].iter().any(|of| text.starts_with(&format!("invalid type: {of}")));
    let expects = |what: &str| text.contains(what);
    let way_out = if is_text && (expects("expected a whole number") || expects("expected a number")) {
        "write the number without quotation marks"
    } else if is_text && expects("expected true or false") {
        "write true or false without quotation marks"
    } else if is_number && expects("expected a string") {
        "write it between quotation marks"
    } else {
        return text;
    };
    match text.split_once(" at line ") {
        Some((before, place)) => format!("{before}: {way_out} at line {place}"),
        None => format!("{text}: {way_out}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_follow_the_ending_of_the_noun() {
        let plurals =
            [("key", "keys"), ("query", "queries"), ("batch", "batches"), ("bad line", "bad lines")];
        for (noun, plural) in plurals {
            assert_eq!(counted(1, noun).to_string(), format!("1 {noun}"));
            assert_eq!(counted(1_000, noun).to_string(), format!("1000 {plural}"));
        }
    }

    #[test]
    fn milliseconds_have_at_most_three_decimals() {
        for (nanoseconds, text) in [(17_556_911, "17.556"), (999, "0"), (2_000_000, "2"), (1_100_000, "1.1")]
        {
            assert_eq!(milliseconds(Duration::from_nanos(nanoseconds)).to_string(), text);
        }
    }

    #[test]
    fn messages_have_the_terms_of_json() {
        for (message, expected) in [
            (
                "invalid value: integer `-1`, expected u32",
                "invalid value: integer `-1`, expected a whole number, 0 or more",
            ),
            (
                "invalid type: floating point `1.5`, expected usize at line 1",
                "invalid type: number `1.5`, expected a whole number, 0 or more at line 1",
            ),
            (
                "invalid type: integer `7`, expected a string",
                "invalid type: integer `7`, expected a string: write it between quotation marks",
            ),
            (
                "invalid type: string \"7\", expected u32 at line 1",
                "invalid type: string \"7\", expected a whole number, 0 or more: write the number without \
                 quotation marks at line 1",
            ),
            (
                "invalid type: string \"true\", expected a boolean",
                "invalid type: string \"true\", expected true or false: write true or false without \
                 quotation marks",
            ),
            ("invalid type: map, expected a string", "invalid type: object, expected a string"),
            ("invalid type: sequence, expected struct FilterIn", "invalid type: array, expected an object"),
            ("unknown variant `x`, expected `scan`", "unknown value `x`, expected `scan`"),
        ] {
            assert_eq!(plain(message), expected);
        }
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
