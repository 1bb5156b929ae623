//! Lists that are limited while they are read: a body of a few bytes an element would take many times its
//! size.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Elements of any list in a body, at most. No setting admits more.
pub(in crate::http) const MOST: usize = 100_000;

/// A list of at most [`MOST`] elements. What has more is refused before the next one is read.
#[derive(Clone, Debug)]
pub(in crate::http) struct Few<T>(pub(in crate::http) Vec<T>);

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
                    if few.len() == MOST {
                        let detail =
                            format!("the array has more than {MOST} elements; send them in several requests");
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
    fn a_list_ends_with_the_first_element_too_many() {
        let list = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
        assert_eq!(serde_json::from_str::<Few<u8>>(&list(MOST)).unwrap().0.len(), MOST);
        let error = serde_json::from_str::<Few<u8>>(&list(MOST + 5)).unwrap_err();
        assert!(error.to_string().contains("more than 100000 elements"), "{error}");
        assert!(error.column() <= 2 * MOST + 4, "{error}");
        assert!(serde_json::from_str::<Few<u8>>("{}").is_err());
    }
}
