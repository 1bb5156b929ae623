//! The forms of these types in files and messages: what a person reads is text, and every other form is
//! compact. A form is checked when it is read.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{CollectionName, DocumentId, Hash, KeepRule, Mark, SignatureShape, Width};

/// Types whose form is a text that is checked.
macro_rules! texts {
    ($($name:ty: $read:expr;)*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                        to.write_str("a text")
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        let read: fn(&str) -> Result<$name, _> = $read;
                        read(text).map_err(E::custom)
                    }
                }

                from.deserialize_str(Text)
            }
        }
    )*};
}

texts! {
    CollectionName: CollectionName::new;
    DocumentId: DocumentId::new;
    KeepRule: str::parse;
}

impl Serialize for Width {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(self.bits())
    }
}

impl<'de> Deserialize<'de> for Width {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Width, D::Error> {
        let bits = u32::deserialize(from)?;
        Width::from_bits(bits).ok_or_else(|| D::Error::custom(format!("no hash has {bits} bits")))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            return to.collect_str(self);
        }
        let mut bytes = Vec::with_capacity(32);
        self.write_bytes(&mut bytes);
        to.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hash, D::Error> {
        struct Form;

        impl Visitor<'_> for Form {
            type Value = Hash;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a hash")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Hash, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Hash, E> {
                Hash::from_bytes(bytes).ok_or_else(|| E::invalid_length(bytes.len(), &self))
            }
        }

        if from.is_human_readable() { from.deserialize_str(Form) } else { from.deserialize_bytes(Form) }
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.id(), self.other()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Mark, D::Error> {
        match Deserialize::deserialize(from)? {
            (id, None) => Ok(Mark::of(id)),
            (id, Some(other)) => {
                Mark::pair(id, other).ok_or_else(|| D::Error::custom("a pair of one document"))
            }
        }
    }
}

/// A shape that has not been checked.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnyShape {
    cells: u16,
    cell_bytes: u8,
    bands: u16,
    rows: u16,
    is_set: bool,
}

impl TryFrom<AnyShape> for SignatureShape {
    type Error = &'static str;

    fn try_from(shape: AnyShape) -> Result<SignatureShape, &'static str> {
        let AnyShape { cells, cell_bytes, bands, rows, is_set } = shape;
        let shape = SignatureShape { cells, cell_bytes, bands, rows, is_set };
        shape.checked().ok_or("no signature has this shape")
    }
}
