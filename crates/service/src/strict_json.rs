//! Unambiguous JSON: no object has two members with the same name, at any depth.
//!
//! Parsers differ in which of the two members they use, so another program may read a different value than
//! the one that was checked.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value without duplicate names.
#[derive(Clone, Debug, PartialEq)]
pub struct Strict(pub Value);

impl Strict {
    /// Whether it has a number beyond 2^64. Only the leading digits of such a number are stored and
    /// compared.
    pub fn has_huge_number(value: &Value) -> bool {
        match value {
            Value::Number(number) => number
                .as_f64()
                .is_some_and(|float| number.is_f64() && float.abs() >= 18_446_744_073_709_551_616.0),
            Value::Array(values) => values.iter().any(Strict::has_huge_number),
            Value::Object(members) => members.values().any(Strict::has_huge_number),
            _ => false,
        }
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Strict, E> {
        Ok(Strict(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Strict, E> {
        Ok(Strict(Value::String(value)))
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Strict, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = elements.next_element()? {
            values.push(value);
        }
        Ok(Strict(Value::Array(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Strict, A::Error> {
        let mut values = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if values.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the name {name:?} stands twice in one object")));
            }
            let Strict(value) = members.next_value()?;
            values.insert(name, value);
        }
        Ok(Strict(Value::Object(values)))
    }
}

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unambiguous_json_is_read_as_by_any_parser() {
        for text in ["null", "[1, -2, 2.5, true, \"x\"]", r#"{"a": {"a": [{"a": 1}, {"a": 2}]}, "b": 1e300}"#]
        {
            let Strict(value) = serde_json::from_str(text).unwrap();
            assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        }
    }

    #[test]
    fn a_duplicate_name_is_rejected_at_any_depth() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "\u0061": 2}}]"#] {
            let error = serde_json::from_str::<Strict>(text).unwrap_err().to_string();
            assert!(error.contains("\"a\" stands twice"), "{error}");
        }
    }

    #[test]
    fn numbers_beyond_two_to_the_64_are_recognised() {
        let huge = |text: &str| Strict::has_huge_number(&serde_json::from_str(text).unwrap());
        assert!(huge("[18446744073709551616]") && huge(r#"{"a": -1e40}"#));
        assert!(!huge("[18446744073709551615, -9223372036854775808, 0.5, 1e10]"));
    }
}
