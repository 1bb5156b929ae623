//! The keep rules: which of near-duplicate documents is kept.

use std::fmt;
use std::str::FromStr;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRule {
    /// Which documents of a cluster represent it.
    pub keep: KeepRule,
    /// The largest distance between a document and its representative.
    pub k: u32,
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

/// The seconds since 1970 of a time by ISO 8601: a date, then optionally a time of day and its offset from
/// UTC. A time without an offset is in UTC.
fn seconds(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10).unwrap_or((text, ""));
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok().filter(|_| part.len() >= 2));
    let (year, month, day) =
        (parts.next()??, parts.next().unwrap_or(Some(1))?, parts.next().unwrap_or(Some(1))?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !date.contains('-') || parts.next().is_some()
    {
        return None;
    }
    let midnight = days(year, month, day) as f64 * 86_400.0;
    let Some(time) = rest.strip_prefix(['T', 't', ' ']) else {
        return rest.is_empty().then_some(midnight);
    };
    let end = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(end);
    let offset = match zone {
        "" | "Z" | "z" => 0.0,
        _ => {
            let clock = clock_seconds(&zone[1..])?;
            if zone.starts_with('-') { -clock } else { clock }
        }
    };
    Some(midnight + clock_seconds(clock.trim_end())? - offset)
}

/// The seconds of `hh`, `hh:mm`, `hhmm` or `hh:mm:ss.fff`.
fn clock_seconds(text: &str) -> Option<f64> {
    if text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return clock_seconds(&format!("{}:{}", &text[..2], &text[2..]));
    }
    let mut seconds = 0.0;
    for (part, (unit, most)) in text.split(':').zip([(3_600.0, 25.0), (60.0, 60.0), (1.0, 61.0)]) {
        let value = part.parse::<f64>().ok().filter(|value| (0.0..most).contains(value))?;
        seconds += value * unit;
    }
    (text.split(':').count() <= 3).then_some(seconds)
}

/// The days from 1970-01-01 to a date of the Gregorian calendar (Hinnant, "chrono-compatible low-level date
/// algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        for text in
            ["2018-02-14T00:28:07Z", "1970-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "1969-12-31T00:00:01Z"]
        {
            let expected = match humantime::parse_rfc3339(text) {
                Ok(time) => time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64(),
                Err(_) => -86_399.0,
            };
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        let of = |text| (seconds(text).unwrap() * 1_000.0) as i64;
        assert_eq!(of("2026-11-25T10:00:00+01:00"), of("2026-11-25 09:00"));
        assert_eq!(of("2026-11-25T10:00:00.500-0130"), of("2026-11-25T11:30:00.5Z"));
        assert_eq!((of("2026-11"), of("2026-11-25")), (of("2026-11-01T00:00"), of("2026-11-25T00Z")));
        for wrong in
            ["", "now", "2026", "2026-13-01", "2026-11-25T", "2026-11-25x", "2026-11-25T10:99", "25-11-2026"]
        {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

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
