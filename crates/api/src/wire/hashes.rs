//! Hashes on the wire, in the form that a request names with `hash_format`.
//!
//! A hash of an answer has its form. A hash of a request is parsed without its form, and read when that is
//! known ([`HashIn::read`]). Without a form, hashes are written as hexadecimal digits, and read in every form
//! that needs no name.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::error::{Code, Problem};
use lookalike_hash::{FormError, Hash, HashForm};

/// The form of every hash of a request and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFormat(pub HashForm);

impl<'de> Deserialize<'de> for HashFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HashFormat, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        name.parse().map(HashFormat).map_err(de::Error::custom)
    }
}

impl Serialize for HashFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// The parameter of a route that has no other ones.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FormParams {
    /// The form of every hash in the request and in the answer. Default: `hex`, and every form that needs no
    /// name in the request.
    pub hash_format: Option<HashFormat>,
}

/// The form of an answer to a request that names this one.
pub(super) fn form_of(named: Option<HashFormat>) -> HashForm {
    named.map_or(HashForm::Hex, |format| format.0)
}

/// A hash of an answer.
#[derive(Clone, Copy, Debug)]
pub struct HashOut {
    hash: Hash,
    form: HashForm,
}

impl HashOut {
    /// A hash in the form that the request names.
    pub(super) fn new(hash: Hash, form: Option<HashFormat>) -> HashOut {
        HashOut { hash, form: form_of(form) }
    }
}

/// Appends the hexadecimal digits of a hash.
pub(super) fn write_digits(hash: Hash, text: &mut Vec<u8>) {
    text.extend(&hash.to_digits()[..hash.width().digits()]);
}

impl Serialize for HashOut {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.form == HashForm::Hex {
            let digits = self.hash.to_digits();
            let digits = &digits[..self.hash.width().digits()];
            return serializer.serialize_str(std::str::from_utf8(digits).unwrap_or_default());
        }
        // A number too is a string: programs in JavaScript round numbers above 2^53.
        serializer.serialize_str(&self.form.write(self.hash))
    }
}

/// A hash of a request, as it is written.
#[derive(Clone, Debug)]
pub enum HashIn {
    /// A string.
    Text(Box<str>),
    /// A whole number.
    Number(i128),
    /// Another number.
    Inexact,
}

impl HashIn {
    /// The hash in the form that the request names.
    pub(super) fn read(&self, form: Option<HashFormat>) -> Result<Hash, Problem> {
        let form = form.map(|format| format.0);
        let read = match self {
            HashIn::Text(text) => HashForm::read(text, form),
            HashIn::Number(number) => HashForm::read_number(*number, form),
            HashIn::Inexact => Err(form.map_or(FormError::Number, |_| FormError::Inexact)),
        };
        read.map_err(|error| Problem::field(Code::InvalidField, "/hash", error.to_string()))
    }
}

struct HashVisitor;

impl Visitor<'_> for HashVisitor {
    type Value = HashIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hash: a string of 16, 32 or 64 hexadecimal digits")
    }

    fn visit_str<E>(self, text: &str) -> Result<HashIn, E> {
        Ok(HashIn::Text(text.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<HashIn, E> {
        Ok(HashIn::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<HashIn, E> {
        Ok(HashIn::Number(number.into()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<HashIn, E> {
        Ok(HashIn::Inexact)
    }
}

impl<'de> Deserialize<'de> for HashIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HashIn, D::Error> {
        deserializer.deserialize_any(HashVisitor)
    }
}

/// A hash of 64, 128 or 256 bits in any form. Not every text of this pattern is one.
const PATTERN: &str = "^((0[xX])?([0-9a-fA-F]{16}|[0-9a-fA-F]{32}|[0-9a-fA-F]{64})|0[xX][0-9a-fA-F]{1,64}|\
                       -?[0-9]{1,79}|[0-9a-zA-Z+/_-]{11,43}={0,2})$";

/// The schema of strings of hashes in any form.
fn text(about: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .pattern(Some(PATTERN))
        .description(Some(about))
        .examples(["f776119227163845"])
}

impl PartialSchema for HashOut {
    fn schema() -> RefOr<Schema> {
        RefOr::T(
            text(
                "A hash: 16, 32 or 64 hexadecimal digits (64, 128, 256 bits), or the form of `hash_format`. \
                 Numbers are strings too, because many programs round numbers above 2^53.",
            )
            .into(),
        )
    }
}

impl ToSchema for HashOut {
    fn name() -> Cow<'static, str> {
        "Hash".into()
    }
}

impl PartialSchema for HashIn {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Integer))
            .minimum(Some(isize::MIN))
            .maximum(Some(usize::MAX))
            .description(Some("With `hash_format` `decimal` or `signed`: a whole number of 64 bits."));
        let text = text(
            "16, 32 or 64 hexadecimal digits (64, 128, 256 bits), perhaps after `0x`; base64 of the bytes, \
             the least significant first, with padding; or the form of `hash_format`.",
        );
        RefOr::T(OneOfBuilder::new().item(text).item(number).description(Some("A hash in a request.")).into())
    }
}

impl ToSchema for HashIn {
    fn name() -> Cow<'static, str> {
        "HashIn".into()
    }
}

impl PartialSchema for HashFormat {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(HashForm::NAMES.map(|(name, _)| name)))
            .description(Some("A form of hashes."));
        RefOr::T(schema.into())
    }
}

impl ToSchema for HashFormat {
    fn name() -> Cow<'static, str> {
        "HashFormat".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_and_written_in_the_form_of_the_request() {
        let hash = Hash::from_u64(0xf776_1192_2716_3845);
        let written = |form| serde_json::to_string(&HashOut::new(hash, form)).unwrap();
        let read = |json: &str, form| serde_json::from_str::<HashIn>(json).unwrap().read(form).ok();
        for (_, form) in HashForm::NAMES {
            let form = Some(HashFormat(form));
            assert_eq!(read(&written(form), form), Some(hash));
        }
        let [decimal, signed] = [HashForm::Decimal, HashForm::Signed].map(|form| Some(HashFormat(form)));
        assert_eq!(written(None), "\"f776119227163845\"");
        assert_eq!(written(decimal), "\"17831459094038722629\"");
        assert_eq!(read("\"RTgWJ5IRdvc=\"", None), Some(hash));
        for json in ["17831459094038722629", "-615284979670828987", "\"17831459094038722629\"", "1.5"] {
            assert_eq!(read(json, None), None, "{json}");
        }
        assert_eq!(read("-615284979670828987", signed), Some(hash));
        assert_eq!(read("17831459094038722629", decimal), Some(hash));
        for json in ["17831459094038722629.0", "1e19", "18446744073709551616", "-1"] {
            assert_eq!(read(json, decimal), None, "{json}");
        }
    }
}
