//! The forms of values of other crates in a stored command: `#[serde(with = "stored")]`.
//!
//! A form is checked when it is read. `docs/formats.md` documents the bytes.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use lookalike_hash::{CollectionId, CollectionName, DocumentId, KeepRule, Mark, SignatureShape, Width};
use lookalike_store::{HiddenRecord, Row};

/// A value that has a form.
pub(super) trait Stored: Sized {
    type Form: Serialize + for<'de> Deserialize<'de>;

    fn form(&self) -> Self::Form;

    /// The value; `None` if the form has none.
    fn read(form: Self::Form) -> Option<Self>;
}

pub(super) fn serialize<T: Stored, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.form().serialize(to)
}

pub(super) fn deserialize<'de, T: Stored, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let invalid = || D::Error::custom(std::any::type_name::<T>());
    T::read(T::Form::deserialize(from)?).ok_or_else(invalid)
}

macro_rules! stored {
    ($($value:ty as $form:ty: $write:expr, $read:expr;)*) => {$(
        impl Stored for $value {
            type Form = $form;

            fn form(&self) -> $form {
                let write: fn(&$value) -> $form = $write;
                write(self)
            }

            fn read(form: $form) -> Option<$value> {
                let read: fn($form) -> Option<$value> = $read;
                read(form)
            }
        }
    )*};
}

stored! {
    u32 as u32: |number| *number, Some;
    u64 as u64: |number| *number, Some;
    CollectionId as u32: |id| id.0, |id| Some(CollectionId(id));
    CollectionName as String: ToString::to_string, |name| CollectionName::new(&name).ok();
    DocumentId as String: ToString::to_string, |id| DocumentId::new(&id).ok();
    KeepRule as String: ToString::to_string, |rule| rule.parse().ok();
    Width as u32: |width| width.bits(), Width::from_bits;
    Row as Vec<u8>: Row::to_bytes, |bytes| Row::from_bytes(&bytes).ok();
    Box<HiddenRecord> as Vec<u8>: |record| record.to_bytes(),
        |bytes| HiddenRecord::from_bytes(&bytes).ok().map(Box::new);
    SignatureShape as (u16, u8, u16, u16, bool):
        |shape| (shape.cells, shape.cell_bytes, shape.bands, shape.rows, shape.is_set),
        |(cells, cell_bytes, bands, rows, is_set)| {
            SignatureShape { cells, cell_bytes, bands, rows, is_set }.checked()
        };
    Mark as (String, Option<String>): |mark| (mark.id().form(), mark.other().map(Stored::form)),
        |(id, other)| {
            let id = DocumentId::read(id)?;
            match other {
                None => Some(Mark::of(id)),
                Some(other) => Mark::pair(id, DocumentId::read(other)?),
            }
        };
}

impl<T: Stored> Stored for Vec<T> {
    type Form = Vec<T::Form>;

    fn form(&self) -> Self::Form {
        self.iter().map(T::form).collect()
    }

    fn read(form: Self::Form) -> Option<Vec<T>> {
        form.into_iter().map(T::read).collect()
    }
}

impl<T: Stored> Stored for Option<T> {
    type Form = Option<T::Form>;

    fn form(&self) -> Self::Form {
        self.as_ref().map(T::form)
    }

    fn read(form: Self::Form) -> Option<Option<T>> {
        form.map_or(Some(None), |form| T::read(form).map(Some))
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    type Form = (A::Form, B::Form);

    fn form(&self) -> Self::Form {
        (self.0.form(), self.1.form())
    }

    fn read(form: Self::Form) -> Option<(A, B)> {
        Some((A::read(form.0)?, B::read(form.1)?))
    }
}

/// The lifetime in a change: unchanged, none, or this one.
pub(super) mod lifetime {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::option_option, clippy::ref_option, reason = "serde passes the field as it is")]
    pub(in super::super) fn serialize<S: Serializer>(
        named: &Option<Option<u64>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        (named.is_some(), named.flatten()).serialize(to)
    }

    #[allow(clippy::option_option, reason = "not named, none, or some")]
    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Option<u64>>, D::Error> {
        let (is_named, lifetime) = Deserialize::deserialize(from)?;
        Ok(bool::then_some(is_named, lifetime))
    }
}
