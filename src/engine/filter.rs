//! Which documents count in an answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::ids::DocumentId;
use crate::store::Row;

/// Conditions on documents, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Documents that do not count.
    pub exclude: BTreeSet<DocumentId>,
    /// Fields of the metadata and the values they must have.
    pub metadata: BTreeMap<String, Value>,
    /// Written at this time or later, in milliseconds since 1970-01-01 UTC.
    pub written_from_ms: Option<u64>,
    /// Written before this time.
    pub written_before_ms: Option<u64>,
}

impl Filter {
    /// Leaves one document out.
    pub fn without(id: DocumentId) -> Filter {
        Filter { exclude: BTreeSet::from([id]), ..Filter::default() }
    }

    /// Whether the id alone rules the document out.
    pub(super) fn excludes(&self, id: &DocumentId) -> bool {
        self.exclude.contains(id)
    }

    /// Whether the conditions beyond the id hold for a row.
    pub(super) fn admits(&self, row: &Row) -> bool {
        let in_time = self.written_from_ms.is_none_or(|from| row.written_ms >= from)
            && self.written_before_ms.is_none_or(|before| row.written_ms < before);
        in_time && (self.metadata.is_empty() || self.admits_metadata(row.metadata.as_deref()))
    }

    /// Whether rows have to be read to know.
    pub(super) fn needs_row(&self) -> bool {
        !self.metadata.is_empty() || self.written_from_ms.is_some() || self.written_before_ms.is_some()
    }

    fn admits_metadata(&self, metadata: Option<&str>) -> bool {
        let Some(Ok(Value::Object(fields))) = metadata.map(serde_json::from_str) else {
            return false;
        };
        self.metadata.iter().all(|(name, wanted)| fields.get(name) == Some(wanted))
    }
}
