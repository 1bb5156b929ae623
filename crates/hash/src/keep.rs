//! The keep rules: which of near-duplicate documents is kept.

use std::fmt;
use std::str::FromStr;

use super::check::{SketchCheck, are_duplicates, reach};
use super::times::seconds;

/// A rule that orders documents by one of their properties: those that come first are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepRule {
    /// Those that arrived first.
    First,
    /// The longest text first, in characters.
    Longest,
    /// The latest time in a field first.
    Newest(String),
    /// The earliest time in a field first.
    Oldest(String),
    /// The largest number in a field first.
    Max(String),
    /// The smallest number in a field first.
    Min(String),
}

/// How the documents of a collection form clusters.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ClusterRule {
    /// Which documents of a cluster represent it.
    pub keep: KeepRule,
    /// The largest distance between a document and its representative.
    pub k: u32,
    /// The check that decides instead where both have sketches.
    pub check: Option<SketchCheck>,
}

impl ClusterRule {
    /// The distance within which a document with this sketch may have a representative.
    pub fn reach(&self, sketch: Option<&[u8]>) -> u32 {
        reach(self.k, self.check, sketch)
    }

    /// Whether documents at this distance with these sketches belong together.
    pub fn joins(&self, distance: u32, sketches: [Option<&[u8]>; 2]) -> bool {
        are_duplicates(self.k, self.check, distance, sketches).is_some()
    }
}

impl FromStr for KeepRule {
    type Err = String;

    fn from_str(text: &str) -> Result<KeepRule, String> {
        let (rule, of) = text.split_once(':').unwrap_or((text, ""));
        let field = || match of {
            "" => Err(format!("{rule} needs a field: {rule}:FIELD")),
            field => Ok(field.to_owned()),
        };
        match (rule, of) {
            ("first", "") => Ok(KeepRule::First),
            ("longest", "") => Ok(KeepRule::Longest),
            ("newest", _) => field().map(KeepRule::Newest),
            ("oldest", _) => field().map(KeepRule::Oldest),
            ("max", _) => field().map(KeepRule::Max),
            ("min", _) => field().map(KeepRule::Min),
            _ => Err("the rules are first, longest, newest:FIELD, oldest:FIELD, max:FIELD and min:FIELD"
                .to_owned()),
        }
    }
}

impl fmt::Display for KeepRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepRule::First => f.write_str("first"),
            KeepRule::Longest => f.write_str("longest"),
            KeepRule::Newest(field) => write!(f, "newest:{field}"),
            KeepRule::Oldest(field) => write!(f, "oldest:{field}"),
            KeepRule::Max(field) => write!(f, "max:{field}"),
            KeepRule::Min(field) => write!(f, "min:{field}"),
        }
    }
}

impl KeepRule {
    /// The field that the rule reads.
    pub fn field(&self) -> Option<&str> {
        match self {
            KeepRule::First | KeepRule::Longest => None,
            KeepRule::Newest(field)
            | KeepRule::Oldest(field)
            | KeepRule::Max(field)
            | KeepRule::Min(field) => Some(field),
        }
    }

    /// The key of a document by the value of the field, or by the number of characters of its text. Smaller
    /// keys come first.
    ///
    /// # Errors
    /// If the value is not of the kind that the rule compares.
    pub fn key(&self, value: Option<&str>, characters: u64) -> Result<u64, String> {
        let value = value.unwrap_or_default();
        let number = || {
            let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| format!("{value:?} is not a number"))
        };
        let time = || {
            let time = seconds(value.trim()).or_else(|| number().ok());
            time.ok_or_else(|| {
                format!("{value:?} is neither a time such as 2026-11-25T10:00:00Z nor a number")
            })
        };
        match self {
            KeepRule::First => Ok(0),
            KeepRule::Longest => Ok(!characters),
            KeepRule::Newest(_) => time().map(descending),
            KeepRule::Oldest(_) => time().map(ascending),
            KeepRule::Max(_) => number().map(descending),
            KeepRule::Min(_) => number().map(ascending),
        }
    }
}

/// A key by which smaller values come first. Values are not NaN.
fn ascending(value: f64) -> u64 {
    // -0 and 0 are equal.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// A key by which larger values come first. Values are not NaN.
fn descending(value: f64) -> u64 {
    !ascending(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_documents_as_the_rule_says() {
        let key = |rule: &str, value: &str| {
            rule.parse::<KeepRule>().unwrap().key(Some(value), value.chars().count() as u64).unwrap()
        };
        assert!(key("longest", "abc") < key("longest", "页页"));
        assert!(key("max:x", "10") < key("max:x", "9") && key("min:x", "-10") < key("min:x", "9"));
        assert!(key("newest:x", "2026-11-25") < key("newest:x", "2025-11-25T23:00:00Z"));
        assert!(key("oldest:x", "1700000000") < key("oldest:x", "1700000001.5"));
        assert!("max:x".parse::<KeepRule>().unwrap().key(Some("NaN"), 0).is_err());
        for wrong in ["max", "max:", "best", "first:x"] {
            assert!(wrong.parse::<KeepRule>().is_err(), "{wrong}");
        }
        for rule in ["first", "longest", "newest:a.b", "oldest:x", "max:x:y", "min:x"] {
            assert_eq!(rule.parse::<KeepRule>().unwrap().to_string(), rule);
        }
    }

    proptest::proptest! {
        #[test]
        fn keys_sort_as_numbers_do(a in -1e300..1e300f64, b in -1e300..1e300f64) {
            proptest::prop_assert_eq!(a.partial_cmp(&b), Some(ascending(a).cmp(&ascending(b))));
            proptest::prop_assert_eq!(b.partial_cmp(&a), Some(descending(a).cmp(&descending(b))));
            proptest::prop_assert_eq!(ascending(0.0), ascending(-0.0));
        }
    }
}
