//! The required value of a key: its kind, its range, and how it is read from text and from TOML.
//!
//! Reading checks only the type. A number beyond 64 bits is read as the nearest 64-bit number, which is
//! outside every range, so that the error is about its size and not about its type.

use std::fmt;
use std::net::SocketAddr;

use toml::Value;
use toml::de::DeValue;

use super::settings::read_shared_log;

/// The kind of a value.
pub(super) enum Kind {
    /// An IP address and a port.
    Address,
    /// Any text that is not blank.
    Text,
    /// True or false.
    Switch,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A text of one form.
    Formed(&'static Form),
    /// Any number of texts of one form; comma-separated in a variable or flag.
    List(&'static Form),
    /// A whole number.
    Number(Range),
    /// A number of bytes, which may be written with a unit.
    Size(Range),
}

/// The form of a text.
pub(super) struct Form {
    /// Completes a sentence that begins with "expected".
    expected: &'static str,
    is_valid: fn(&str) -> bool,
}

/// Names of hosts.
pub(super) const HOSTS: Form = Form {
    expected: "host names without a port, such as [\"lookalike.example\"] (comma-separated in a variable)",
    is_valid: |text| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !text.is_empty() && text.bytes().all(is_name)
    },
};

/// Origins of web pages.
pub(super) const ORIGINS: Form = Form {
    expected: "origins as browsers send them, without a path and without the default port, such as \
               [\"https://pages.example\"] (comma-separated in a variable)",
    is_valid: |text| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        let parts = text.split_once("://").filter(|(scheme, host)| !scheme.is_empty() && !host.is_empty());
        parts.is_some_and(|(scheme, host)| {
            let is_default =
                (scheme == "https" && host.ends_with(":443")) || (scheme == "http" && host.ends_with(":80"));
            scheme.bytes().chain(host.bytes()).all(is_name) && !is_default
        })
    },
};

/// The URL of a shared log.
pub(super) const SHARED_LOG: Form = Form {
    expected: "a URL such as \"file:///shared/folder\" or \"s3://bucket/prefix\" (also gs:// and az://)",
    is_valid: |text| read_shared_log(text).is_some(),
};

impl Kind {
    /// The range, if it is a number.
    pub(super) fn range(&self) -> Option<Range> {
        match self {
            Kind::Number(range) | Kind::Size(range) => Some(*range),
            _ => None,
        }
    }

    /// Completes a sentence that begins with "expected".
    pub(super) fn expected(&self) -> String {
        match self {
            Kind::Address => "an IP address with a port, such as \"127.0.0.1:8080\"".into(),
            Kind::Text => "a string".into(),
            Kind::Switch => "true or false".into(),
            Kind::OneOf(words) => {
                words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or ")
            }
            Kind::Formed(form) | Kind::List(form) => form.expected.into(),
            Kind::Number(_) => "a whole number".into(),
            Kind::Size(_) => "a number of bytes, or a string with a unit such as \"32 MiB\"".into(),
        }
    }

    /// Reads the value of a variable or flag; `None` if it is of another kind.
    pub(super) fn read_text(&self, text: &str) -> Option<Value> {
        match self {
            Kind::Address => text.parse::<SocketAddr>().ok().map(|_| text.into()),
            Kind::Text => Some(text.into()),
            Kind::Formed(form) => (form.is_valid)(text).then(|| text.into()),
            Kind::Switch => text.parse::<bool>().ok().map(Value::Boolean),
            Kind::OneOf(words) => words.contains(&text).then(|| text.into()),
            Kind::List(form) => {
                form.read(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(Some))
            }
            Kind::Number(_) => text.parse().ok().map(integer),
            Kind::Size(_) => bytes(text).map(integer),
        }
    }

    /// Reads a value of a TOML document; `None` if it is of another kind. A number in quotes is a string.
    pub(super) fn read_toml(&self, value: &DeValue<'_>) -> Option<Value> {
        match (self, value) {
            (Kind::Number(_) | Kind::Size(_), DeValue::Integer(digits)) => {
                i128::from_str_radix(digits.as_str(), digits.radix()).ok().map(integer)
            }
            (Kind::Switch, DeValue::Boolean(value)) => Some(Value::Boolean(*value)),
            (Kind::List(form), DeValue::Array(parts)) => {
                form.read(parts.iter().map(|part| part.get_ref().as_str()))
            }
            (Kind::Switch | Kind::Number(_) | Kind::List(_), _) => None,
            (_, DeValue::String(text)) => self.read_text(text),
            _ => None,
        }
    }
}

impl Form {
    fn read<'a>(&self, mut parts: impl Iterator<Item = Option<&'a str>>) -> Option<Value> {
        let is_valid = |text: &&str| (self.is_valid)(text);
        parts
            .try_fold(Vec::new(), |mut list, part| {
                list.push(Value::from(part.filter(is_valid)?));
                Some(list)
            })
            .map(Value::Array)
    }
}

/// The nearest number that TOML can represent.
fn integer(value: i128) -> Value {
    let nearest = value.clamp(i64::MIN.into(), i64::MAX.into());
    Value::Integer(i64::try_from(nearest).unwrap_or(i64::MAX))
}

/// A number of bytes, alone or with KiB, MiB or GiB after at most one space.
fn bytes(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match unit.strip_prefix(' ').unwrap_or(unit) {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<i128>().ok().map(|number| number.saturating_mul(1 << scale))
}

/// The numbers that a key admits, both ends included.
///
/// ```
/// use lookalike::config::{Range, Unit};
/// assert_eq!(Range { least: 1, most: 1 << 20, unit: Unit::Bytes }.to_string(), "1 byte to 1 MiB");
/// assert_eq!(Range { least: 2, most: 9, unit: Unit::Each("tasks") }.to_string(), "2 to 9 tasks");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The minimum.
    pub least: i64,
    /// The maximum.
    pub most: i64,
    /// The unit.
    pub unit: Unit,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, which have larger units.
    Bytes,
    /// Another unit, in the plural.
    Each(&'static str),
}

impl Range {
    /// Whether the number is in the range.
    pub fn contains(&self, number: i64) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Bytes => write!(f, "{} to {}", size(self.least), size(self.most)),
            Unit::Each(unit) => write!(f, "{} to {} {unit}", self.least, self.most),
        }
    }
}

/// A number of bytes in the largest unit that needs no fraction.
fn size(bytes: i64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")];
    match units.iter().find(|(unit, _)| bytes >= *unit && bytes % unit == 0) {
        Some((1, _)) if bytes == 1 => "1 byte".into(),
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}
