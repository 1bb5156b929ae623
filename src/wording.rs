//! How numbers are written in messages, command output and log lines: `1 document`, `2 documents`, `17.557`
//! milliseconds.
//!
//! Guarantees: one rule for all. Not here: the console, which has its own rules for two languages.

use std::fmt;
use std::time::Duration;

/// A count with its noun; see [`counted`].
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    count: u64,
    noun: &'static str,
}

/// A count with its noun, which is given in the singular. The last word of the noun takes the plural.
///
/// ```
/// use lookalike::wording::counted;
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

/// A time in milliseconds for a log line, to the microsecond.
pub fn milliseconds(elapsed: Duration) -> f64 {
    elapsed.as_micros() as f64 / 1e3
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
