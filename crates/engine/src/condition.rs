//! Versions of collections and documents, and the conditions under which they may be changed.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::EngineError;
use lookalike_hash::{CollectionName, Hash};
use lookalike_store::Row;

/// Identifies a state of the settings of a collection, or of a document. Two states have different versions,
/// also if one was deleted and created again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Version {
    /// The version of a document with this place, time of writing, and hash. Each write of a document has a
    /// later time than the one before, and a reindex makes another hash. A document that is deleted and
    /// created again has another place, or the place that an export states and a later time.
    pub fn of_document(place: u64, written_ms: u64, hash: Hash) -> Version {
        let mut bytes = [place.to_le_bytes(), written_ms.to_le_bytes()].concat();
        hash.write_bytes(&mut bytes);
        Version(xxh3_64(&bytes))
    }
}

/// The condition under which a collection or a document may be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// No condition.
    #[default]
    None,
    /// None has this name or id.
    Absent,
    /// It exists.
    Present,
    /// It exists, and has one of these versions.
    Version(Vec<Version>),
    /// It does not exist, or is the same document, which was sent before and is not written again.
    Repeats,
}

impl Condition {
    /// Whether the condition holds for this version; `None` if it does not exist.
    pub fn holds(&self, version: Option<Version>) -> bool {
        match (self, version) {
            // Whether a document is the same is decided with its content.
            (Condition::None | Condition::Repeats, _) => true,
            (Condition::Absent, version) => version.is_none(),
            (Condition::Present, version) => version.is_some(),
            (Condition::Version(wanted), version) => version.is_some_and(|version| wanted.contains(&version)),
        }
    }

    /// Checks the condition for a collection whose settings have this version; `None` if it does not exist.
    ///
    /// # Errors
    /// [`EngineError::Condition`] if the condition does not hold.
    pub(super) fn check(&self, name: &CollectionName, version: Option<Version>) -> Result<(), EngineError> {
        let failed = || Err(EngineError::Condition { name: name.clone(), version });
        if self.holds(version) { Ok(()) } else { failed() }
    }
}

/// Whether a document that is sent again is the one that is stored, as far as this is known without its text:
/// by its hash, the number of characters and the metadata as values. When it expires does not count: that may
/// be relative to the time of the request.
pub(super) fn is_same(sent: &Row, (hash, characters): (Hash, Option<u32>), metadata: Option<&str>) -> bool {
    let value = |metadata: &str| serde_json::from_str::<serde_json::Value>(metadata).ok();
    let own = sent.metadata.as_deref();
    sent.hash == hash
        && sent.characters.zip(characters).is_none_or(|(sent, stored)| sent == stored)
        && (own == metadata || own.map(value) == metadata.map(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_condition_reports_the_current_version() {
        let name = CollectionName::default_collection();
        let (one, two) = (Version(1), Version(2));
        for (condition, absent, present) in [
            (Condition::None, true, true),
            (Condition::Absent, true, false),
            (Condition::Present, false, true),
            (Condition::Version(vec![two, one]), false, true),
            (Condition::Version(vec![two]), false, false),
            (Condition::Version(Vec::new()), false, false),
        ] {
            assert_eq!(condition.check(name, None).is_ok(), absent, "{condition:?}");
            assert_eq!(condition.check(name, Some(one)).is_ok(), present, "{condition:?}");
        }
        let message = Condition::Version(vec![two]).check(name, Some(one)).unwrap_err().to_string();
        assert!(message.contains("\"0000000000000001\""), "{message}");
    }
}
