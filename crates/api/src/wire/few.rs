//! Lists whose length is limited while they are parsed. Otherwise a body of many small elements would use
//! many times its size in memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum number of elements of a list in a body. No setting allows more.
pub(super) const MAX_ELEMENTS: usize = 100_000;

/// A list of at most `MAX_ELEMENTS` elements. Parsing ends with an error at the first element above that.
#[derive(Clone, Debug)]
pub struct Few<T>(pub Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Few<T>, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Few<T>, A::Error> {
                let mut few = Vec::new();
                while let Some(element) = elements.next_element()? {
                    if few.len() == MAX_ELEMENTS {
                        let detail = format!(
                            "the array has more than {MAX_ELEMENTS} elements; send them in several requests"
                        );
                        return Err(A::Error::custom(detail));
                    }
                    few.push(element);
                }
                Ok(Few(few))
            }
        }

        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_ends_at_the_first_element_above_the_maximum() {
        let list = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
        assert_eq!(serde_json::from_str::<Few<u8>>(&list(MAX_ELEMENTS)).unwrap().0.len(), MAX_ELEMENTS);
        let error = serde_json::from_str::<Few<u8>>(&list(MAX_ELEMENTS + 5)).unwrap_err();
        assert!(error.to_string().contains("more than 100000 elements"), "{error}");
        assert!(error.column() <= 2 * MAX_ELEMENTS + 4, "{error}");
        assert!(serde_json::from_str::<Few<u8>>("{}").is_err());
    }
}
