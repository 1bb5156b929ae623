//! Single values on the wire: hashes, ids, metadata, times.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use lookalike_hash::{DocumentId, Passages, SignatureShape};
use lookalike_service::{EXPIRES_IN, SKETCH_BYTES, Status};

/// A Hamming distance. Its range is checked where the width of the collection is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct Bits(pub u32);

/// A number of matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct Count(pub usize);

/// A signature as a string of hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignatureHex(pub Vec<u8>);

/// Maximum number of digits of a signature: 255 cells of 8 bytes.
const SIGNATURE_DIGITS: usize = 2 * 8 * SignatureShape::MAX_CELLS as usize;

/// The sketch of a text as a string of hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SketchHex(pub Vec<u8>);

/// The numbers of digits that a sketch may have.
const SKETCH_DIGITS: RangeInclusive<usize> =
    2 * *SKETCH_BYTES.start() as usize..=2 * *SKETCH_BYTES.end() as usize;

/// The hexadecimal digits of bytes, two per byte.
pub(super) fn hex_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits, if their number is in this range and even.
pub(super) fn hex_bytes(text: &str, range: &RangeInclusive<usize>) -> Option<Vec<u8>> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    let read = || text.as_bytes().chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect();
    (is_hex && text.len().is_multiple_of(2) && range.contains(&text.len())).then(read)
}

impl Serialize for SignatureHex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex_digits(&self.0))
    }
}

impl<'de> Deserialize<'de> for SignatureHex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SignatureHex, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let wrong = || {
            de::Error::custom(format!(
                "a signature is a string of 2 to {SIGNATURE_DIGITS} hexadecimal digits, two per byte; POST \
                 /fingerprint returns it"
            ))
        };
        hex_bytes(&text, &(2..=SIGNATURE_DIGITS)).map(SignatureHex).ok_or_else(wrong)
    }
}

impl Serialize for SketchHex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex_digits(&self.0))
    }
}

impl<'de> Deserialize<'de> for SketchHex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SketchHex, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let (least, most) = (SKETCH_DIGITS.start(), SKETCH_DIGITS.end());
        let wrong = || {
            de::Error::custom(format!(
                "a sketch is a string of {least} to {most} hexadecimal digits, two per byte; GET /export \
                 returns it"
            ))
        };
        hex_bytes(&text, &SKETCH_DIGITS).map(SketchHex).ok_or_else(wrong)
    }
}

/// The place of a document in the order of arrival, which is never 0, as 16 hexadecimal digits: they are in
/// the order of the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival(pub u64);

impl Serialize for Arrival {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Arrival {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Arrival, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let digits = hex_bytes(&text, &(16..=16)).and_then(|bytes| bytes.try_into().ok());
        let wrong =
            || de::Error::custom("arrival is a string of 16 hexadecimal digits; GET /export returns it");
        let place = u64::from_be_bytes(digits.ok_or_else(wrong)?);
        Ok(Arrival(place.max(1)))
    }
}

/// A document id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id(pub DocumentId);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        DocumentId::new(&text).map(Id).map_err(de::Error::custom)
    }
}

/// The JSON object of a document's metadata, unchanged.
#[derive(Clone, Debug)]
pub struct Metadata(Box<RawValue>);

impl Metadata {
    /// The text of the JSON object.
    pub fn into_string(self) -> String {
        self.0.get().to_owned()
    }

    /// Stored metadata, which was checked when it was added.
    pub fn stored(text: String) -> Option<Metadata> {
        RawValue::from_string(text).ok().map(Metadata)
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Metadata)
    }
}

/// A time, in milliseconds since 1970-01-01 UTC; RFC 3339 on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub u64);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The format ends with the year 9999; a later time is written as its last millisecond.
        let last = 253_402_300_799_999;
        let time = UNIX_EPOCH + Duration::from_millis(self.0.min(last));
        serializer.collect_str(&humantime::format_rfc3339_millis(time))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        milliseconds(&text).map(Timestamp).ok_or_else(|| {
            de::Error::custom(
                "a time is written like 2026-11-21T09:30:00Z or 2026-11-21T17:30:00+08:00, from 1970 on",
            )
        })
    }
}

/// A time of RFC 3339 in milliseconds since 1970-01-01 UTC.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    let (local, ahead) = if let Some(local) = text.strip_suffix('Z') {
        (local, 0)
    } else {
        let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
        (local, seconds_ahead(offset)?)
    };
    let time: SystemTime = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let since = i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    u64::try_from(since - ahead * 1_000).ok()
}

/// The seconds by which an offset such as `+08:00` is ahead of UTC.
fn seconds_ahead(offset: &str) -> Option<i64> {
    let sign = match offset.as_bytes() {
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let (hours, minutes) = offset[1..].split_once(':')?;
    let number = |digits: &str, most: i64| {
        let is_plain = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<i64>().ok().filter(|number| is_plain && *number <= most)
    };
    Some(sign * (number(hours, 23)? * 3_600 + number(minutes, 59)? * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_with_every_offset_of_rfc_3339() {
        let noon = milliseconds("2026-11-21T12:00:00Z").unwrap();
        for same in
            ["2026-11-21T20:00:00+08:00", "2026-11-21t06:30:00.000-05:30", "2026-11-21T12:00:00-00:00"]
        {
            assert_eq!(milliseconds(same), Some(noon), "{same}");
        }
        for wrong in [
            "",
            "Z",
            "2026-11-21",
            "2026-11-21T12:00:00",
            "2026-11-21T12:00:00+8:00",
            "2026-11-21T12:00:00+24:00",
            "2026-11-21T12:00:00+08:60",
            "1970-01-01T00:00:00+01:00",
            "2026-13-21T12:00:00Z",
            "二〇二六年",
            "2026-11-21T12:00:00+٠٨:00",
        ] {
            assert_eq!(milliseconds(wrong), None, "{wrong}");
        }
    }
}

/// The lifetime of a document: whole seconds, or a text such as `36h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiresIn(pub u64);

impl ExpiresIn {
    fn of<E: de::Error>(seconds: u64) -> Result<ExpiresIn, E> {
        if EXPIRES_IN.contains(&seconds) {
            return Ok(ExpiresIn(seconds));
        }
        let detail = format!(
            "expires_in is {seconds} seconds; it ranges from 1 second to 100 years. For no expiry use null"
        );
        Err(E::custom(detail))
    }
}

struct ExpiresInVisitor;

impl Visitor<'_> for ExpiresInVisitor {
    type Value = ExpiresIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of seconds, or a string such as \"36h\" or \"7d\"")
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<ExpiresIn, E> {
        ExpiresIn::of(seconds)
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<ExpiresIn, E> {
        let detail = format!(
            "expires_in is {seconds} seconds; it ranges from 1 second to 100 years. For no expiry use null"
        );
        Err(E::custom(detail))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ExpiresIn, E> {
        let duration = humantime::parse_duration(text).map_err(|error| {
            E::custom(format!(
                "expires_in is {text:?}: {error}; write it like 90, \"36h\", \"7d\" or \"1h 30m\""
            ))
        })?;
        if duration.subsec_nanos() != 0 {
            return Err(E::custom(format!("expires_in is {text:?}; it must be a whole number of seconds")));
        }
        ExpiresIn::of(duration.as_secs())
    }
}

impl<'de> Deserialize<'de> for ExpiresIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExpiresIn, D::Error> {
        deserializer.deserialize_any(ExpiresInVisitor)
    }
}

/// Parses a field that is present, with a value or `null`. With `default`, an absent field is `None`.
#[allow(clippy::option_option, reason = "absent, null and a value are three things")]
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// Which letter grams documents are stored with: `false` for none, `true` for a sample, by which articles are
/// found in pages, `"exact"` for as many that every run of 100 letters, or of 25 Chinese characters, kana or
/// Hangul syllables, is found inside another text, unless it is boilerplate.
#[derive(Clone, Copy, Debug, Serialize, serde::Deserialize, ToSchema)]
#[serde(untagged, expecting = "true, false or \"exact\"")]
#[schema(as = PassagesKept, example = true)]
pub enum PassagesKept {
    /// A sample, or none.
    Sampled(bool),
    /// Some of every run.
    Exact(Exact),
}

/// The word for exact passages.
#[derive(Clone, Copy, Debug, Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Exact {
    /// Some of every run.
    Exact,
}

impl Default for PassagesKept {
    fn default() -> PassagesKept {
        PassagesKept::Sampled(false)
    }
}

impl From<Passages> for PassagesKept {
    fn from(kept: Passages) -> PassagesKept {
        match kept {
            Passages::Exact => PassagesKept::Exact(Exact::Exact),
            kept => PassagesKept::Sampled(kept == Passages::Sampled),
        }
    }
}

impl From<PassagesKept> for Passages {
    fn from(kept: PassagesKept) -> Passages {
        match kept {
            PassagesKept::Sampled(false) => Passages::No,
            PassagesKept::Sampled(true) => Passages::Sampled,
            PassagesKept::Exact(Exact::Exact) => Passages::Exact,
        }
    }
}

/// Whether a fingerprint is reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Status)]
pub(super) enum StatusOut {
    /// It is reliable: a copy with one changed word is found with a probability of at least 0.9.
    Ok,
    /// The text has so few words that a copy with one changed word may be missed: it is within k with a
    /// probability below 0.9. This k is that of a query that gives none, and of a collection that has none.
    Short,
    /// The text has no feature.
    Empty,
}

impl From<Status> for StatusOut {
    fn from(status: Status) -> StatusOut {
        match status {
            Status::Ok => StatusOut::Ok,
            Status::Short => StatusOut::Short,
            Status::Empty => StatusOut::Empty,
        }
    }
}

fn number(least: usize, most: usize, about: &str) -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer));
    let schema = schema.minimum(Some(least)).maximum(Some(most)).description(Some(about));
    RefOr::T(schema.into())
}

impl PartialSchema for Bits {
    fn schema() -> RefOr<Schema> {
        number(0, 256, "A Hamming distance in bits, at most the width of the collection's hashes.")
    }
}

impl ToSchema for Bits {
    fn name() -> Cow<'static, str> {
        "Distance".into()
    }
}

impl PartialSchema for Count {
    fn schema() -> RefOr<Schema> {
        number(1, 1_000, "A number of matches, at most limits.matches of the settings.")
    }
}

impl ToSchema for Count {
    fn name() -> Cow<'static, str> {
        "Limit".into()
    }
}

fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))
}

impl PartialSchema for SignatureHex {
    fn schema() -> RefOr<Schema> {
        let schema = string()
            .pattern(Some("^([0-9a-fA-F]{2})+$"))
            .max_length(Some(SIGNATURE_DIGITS))
            .description(Some("A signature: two hexadecimal digits for each byte of its cells."));
        RefOr::T(schema.into())
    }
}

impl ToSchema for SignatureHex {
    fn name() -> Cow<'static, str> {
        "Signature".into()
    }
}

impl PartialSchema for SketchHex {
    fn schema() -> RefOr<Schema> {
        let schema = string()
            .pattern(Some("^([0-9a-fA-F]{2})+$"))
            .min_length(Some(*SKETCH_DIGITS.start()))
            .max_length(Some(*SKETCH_DIGITS.end()))
            .description(Some("The sketch of a text: two hexadecimal digits for each byte."));
        RefOr::T(schema.into())
    }
}

impl ToSchema for SketchHex {
    fn name() -> Cow<'static, str> {
        "Sketch".into()
    }
}

impl PartialSchema for Arrival {
    fn schema() -> RefOr<Schema> {
        let about = "A place in the order of arrival: 16 hexadecimal digits, in that order.";
        let schema = string().pattern(Some("^[0-9a-fA-F]{16}$")).description(Some(about));
        RefOr::T(schema.examples(["0018bcfe56800000"]).into())
    }
}

impl ToSchema for Arrival {
    fn name() -> Cow<'static, str> {
        "Arrival".into()
    }
}

impl PartialSchema for ExpiresIn {
    fn schema() -> RefOr<Schema> {
        let seconds = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Integer))
            .minimum(Some(*EXPIRES_IN.start() as f64))
            .maximum(Some(*EXPIRES_IN.end() as f64));
        let schema = OneOfBuilder::new().item(seconds).item(string().examples(["36h"])).description(Some(
            "A time span of 1 second to 100 years: whole seconds, or a string such as 90s, 36h, 7d, 1h 30m.",
        ));
        RefOr::T(schema.into())
    }
}

impl ToSchema for ExpiresIn {
    fn name() -> Cow<'static, str> {
        "TimeSpan".into()
    }
}

impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        let schema = string()
            .min_length(Some(1))
            .max_length(Some(256))
            .pattern(Some("^[^\\u0000-\\u001f\\u007f-\\u009f]*$"))
            .description(Some("A document id: 1 to 256 bytes of UTF-8 without control characters."))
            .examples(["article-1"]);
        RefOr::T(schema.into())
    }
}

impl ToSchema for Id {
    fn name() -> Cow<'static, str> {
        "DocumentId".into()
    }
}

impl PartialSchema for Metadata {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Object))
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .description(Some("Any JSON object. It is stored and returned unchanged."));
        RefOr::T(schema.into())
    }
}

impl ToSchema for Metadata {
    fn name() -> Cow<'static, str> {
        "Metadata".into()
    }
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        let format = Some(SchemaFormat::KnownFormat(KnownFormat::DateTime));
        RefOr::T(string().format(format).examples(["2026-11-21T09:30:00.000Z"]).into())
    }
}

impl ToSchema for Timestamp {
    fn name() -> Cow<'static, str> {
        "Timestamp".into()
    }
}
