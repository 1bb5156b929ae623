//! How numbers are written in messages, command output and log lines: `1 document`, `2 documents`, `17.557`
//! milliseconds; and what is wrong with JSON and with zstd data, in plain words.
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
        "Allocation error : not enough memory" => {
            "its window takes more memory than there is, up to 2 GiB: compress it again without --long"
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
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
