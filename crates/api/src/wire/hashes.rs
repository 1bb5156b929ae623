//! Hashes on the wire, in the form that a request names with `hash_format`.
//!
//! The form surrounds the parsing of a request and the writing of its answer ([`in_form`]), so that no type
//! in between has to name it. Both are done on one thread and without waiting. Without a form, hashes are
//! written as hexadecimal digits, and read in every form that needs no name.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use lookalike_hash::{FormError, Hash, HashForm, WideHash};

thread_local! {
    /// The form of the request that this thread parses or answers.
    static FORM: Cell<Option<HashForm>> = const { Cell::new(None) };
}

/// Parses or writes hashes in this form.
pub fn in_form<T>(form: Option<HashForm>, work: impl FnOnce() -> T) -> T {
    struct Restored(Option<HashForm>);

    impl Drop for Restored {
        fn drop(&mut self) {
            FORM.set(self.0);
        }
    }

    let _restored = Restored(FORM.replace(form));
    work()
}

/// Whether hashes are written as hexadecimal digits.
pub(super) fn is_plain() -> bool {
    FORM.get().is_none_or(|form| form == HashForm::Hex)
}

/// A hash in the current form.
pub(super) fn written_hash(hash: Hash) -> String {
    FORM.get().unwrap_or_default().write(hash)
}

/// A hash of any width in the current form.
pub(super) fn written_wide(hash: WideHash) -> String {
    FORM.get().unwrap_or_default().write_wide(hash)
}

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
    hash_format: Option<HashFormat>,
}

impl FormParams {
    /// The form of hashes.
    pub fn form(&self) -> Option<HashForm> {
        self.hash_format.map(|format| format.0)
    }
}

/// The form that a query string names; `None` if it names none, or none that exists.
pub fn form_of_query(query: &str) -> Option<HashForm> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == "hash_format")?.1.parse().ok()
}

/// A hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex(pub Hash);

impl Hex {
    /// Appends its hexadecimal digits.
    pub(super) fn write(self, text: &mut Vec<u8>) {
        text.extend(&self.0.to_digits()[..self.0.width().digits()]);
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match FORM.get() {
            None | Some(HashForm::Hex) => {
                let digits = self.0.to_digits();
                let digits = &digits[..self.0.width().digits()];
                serializer.serialize_str(std::str::from_utf8(digits).unwrap_or_default())
            }
            // A number too is a string: programs in JavaScript round numbers above 2^53.
            Some(form) => serializer.serialize_str(&form.write(self.0)),
        }
    }
}

struct HexVisitor;

impl HexVisitor {
    fn read<E: de::Error>(read: impl FnOnce(Option<HashForm>) -> Result<Hash, FormError>) -> Result<Hex, E> {
        read(FORM.get()).map(Hex).map_err(E::custom)
    }
}

impl Visitor<'_> for HexVisitor {
    type Value = Hex;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hash: a string of 16, 32 or 64 hexadecimal digits")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Hex, E> {
        HexVisitor::read(|form| HashForm::read(text, form))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Hex, E> {
        HexVisitor::read(|form| HashForm::read_number(number.into(), form))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Hex, E> {
        HexVisitor::read(|form| HashForm::read_number(number.into(), form))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Hex, E> {
        HexVisitor::read(|form| match form {
            None => Err(FormError::Number),
            Some(_) => Err(FormError::Inexact),
        })
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        deserializer.deserialize_any(HexVisitor)
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

impl PartialSchema for Hex {
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

impl ToSchema for Hex {
    fn name() -> Cow<'static, str> {
        "Hash".into()
    }
}

/// The schema of a hash in a request.
#[derive(Debug)]
pub struct HashIn;

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
        let hash = Hex(Hash::from_u64(0xf776_1192_2716_3845));
        let written = || serde_json::to_string(&hash).unwrap();
        let read = |json: &str| serde_json::from_str::<Hex>(json).ok();
        for (_, form) in HashForm::NAMES {
            in_form(Some(form), || assert_eq!(read(&written()), Some(hash)));
        }
        assert_eq!(written(), "\"f776119227163845\"");
        assert_eq!(in_form(Some(HashForm::Decimal), written), "\"17831459094038722629\"");
        assert_eq!(read("\"RTgWJ5IRdvc=\""), Some(hash));
        for json in ["17831459094038722629", "-615284979670828987", "\"17831459094038722629\"", "1.5"] {
            assert_eq!(read(json), None, "{json}");
        }
        in_form(Some(HashForm::Signed), || assert_eq!(read("-615284979670828987"), Some(hash)));
        in_form(Some(HashForm::Decimal), || {
            assert_eq!(read("17831459094038722629"), Some(hash));
            for json in ["17831459094038722629.0", "1e19", "18446744073709551616", "-1"] {
                assert_eq!(read(json), None, "{json}");
            }
        });
        let panicked = std::panic::catch_unwind(|| in_form(Some(HashForm::Decimal), || panic!("a fault")));
        assert!(panicked.is_err() && is_plain());
    }

    #[test]
    fn a_query_string_names_a_form() {
        assert_eq!(form_of_query("hash=1&hash_format=decimal"), Some(HashForm::Decimal));
        for query in ["", "hash=1", "hash_format=", "hash_format=x", "xhash_format=decimal"] {
            assert_eq!(form_of_query(query), None, "{query}");
        }
    }
}
