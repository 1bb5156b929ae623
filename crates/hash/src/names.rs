//! Document ids, collection names and numbers, and sequence numbers, each valid by construction.

use std::fmt;
use std::sync::{Arc, LazyLock};

/// The largest document id, in bytes of UTF-8.
const MAX_ID_BYTES: usize = 256;
/// The longest collection name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Why a string is not an identifier. The messages name the limit and not the field, which the caller adds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// An empty document id.
    #[error("an id has 1 to {MAX_ID_BYTES} bytes; this one is empty")]
    IdEmpty,
    /// A document id above the limit.
    #[error("an id has 1 to {MAX_ID_BYTES} bytes of UTF-8; this one has {0}")]
    IdTooLong(usize),
    /// A control character, such as a line break, in a document id.
    #[error("an id has no control characters; this one has U+{:04X} at byte {at}", u32::from(*found))]
    IdControl {
        /// The character.
        found: char,
        /// The byte at which it begins, from 0.
        at: usize,
    },
    /// A collection name in another form.
    #[error(
        "a collection name has 1 to {MAX_NAME_CHARS} of a-z, 0-9, '-' and '_', and begins with a letter or \
         digit; this is {0:?}"
    )]
    Name(String),
}

/// The name of a document within its collection: 1 to 256 bytes of UTF-8 without control characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId(Arc<str>);

impl DocumentId {
    /// Checks the length and the characters.
    ///
    /// # Errors
    /// [`IdError`] if the text is empty, longer than 256 bytes, or has a control character.
    pub fn new(text: &str) -> Result<DocumentId, IdError> {
        if text.is_empty() {
            return Err(IdError::IdEmpty);
        }
        if text.len() > MAX_ID_BYTES {
            return Err(IdError::IdTooLong(text.len()));
        }
        if let Some((at, found)) = text.char_indices().find(|(_, c)| c.is_control()) {
            return Err(IdError::IdControl { found, at });
        }
        Ok(DocumentId(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DocumentId({:?})", &self.0)
    }
}

/// The name of a collection: 1 to 64 of `a-z`, `0-9`, `-`, `_`, beginning with a letter or a digit.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionName(Arc<str>);

impl CollectionName {
    /// Checks the form.
    ///
    /// # Errors
    /// [`IdError::Name`] if it has another form.
    pub fn new(text: &str) -> Result<CollectionName, IdError> {
        let form = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if begins && text.len() <= MAX_NAME_CHARS && text.chars().all(form) {
            Ok(CollectionName(text.into()))
        } else {
            Err(IdError::Name(text.chars().take(MAX_NAME_CHARS + 1).collect()))
        }
    }

    /// The collection that is meant if none is named.
    pub fn default_collection() -> &'static CollectionName {
        static DEFAULT: LazyLock<CollectionName> = LazyLock::new(|| CollectionName("default".into()));
        &DEFAULT
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectionName({:?})", &self.0)
    }
}

/// The number of a collection in the store. It is never reused, so that remaining data of a deleted
/// collection cannot become part of a new collection of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CollectionId(pub u32);

/// The position of a change in the history. The first change has 1, and each later one has the next
/// number, without gaps. Zero means "before every change".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sequence(pub u64);

impl Sequence {
    /// The next sequence number.
    #[must_use]
    pub const fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_any_text_without_control_characters() {
        for good in ["a", "https://例え.jp/1?x=y", "emoji 🙂", &"x".repeat(256)] {
            assert_eq!(DocumentId::new(good).unwrap().as_str(), good);
        }
        assert_eq!(DocumentId::new(""), Err(IdError::IdEmpty));
        assert_eq!(DocumentId::new(&"x".repeat(257)), Err(IdError::IdTooLong(257)));
        assert_eq!(DocumentId::new("a\nb"), Err(IdError::IdControl { found: '\n', at: 1 }));
    }

    #[test]
    fn a_collection_name_cannot_be_a_path() {
        for good in ["default", "news-zh", "0_a", &"n".repeat(64)] {
            assert_eq!(CollectionName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "..", "a/b", "News", "-a", "a b", "é", &"n".repeat(65)] {
            assert!(CollectionName::new(bad).is_err(), "{bad:?}");
        }
    }
}
