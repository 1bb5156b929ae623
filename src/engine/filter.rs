//! Filters: which documents a query may return.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::ids::DocumentId;
use crate::store::RowHead;

/// Conditions on documents. A document must satisfy all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Documents to exclude.
    pub exclude: BTreeSet<DocumentId>,
    /// Metadata fields and their required values.
    pub metadata: BTreeMap<String, Value>,
    /// Written at this time or later, in milliseconds since 1970-01-01 UTC.
    pub written_from_ms: Option<u64>,
    /// Written before this time.
    pub written_before_ms: Option<u64>,
}

impl Filter {
    /// A filter that excludes only this document.
    pub fn without(id: DocumentId) -> Filter {
        Filter { exclude: BTreeSet::from([id]), ..Filter::default() }
    }

    /// Whether the document is excluded by its id alone.
    pub(super) fn excludes(&self, id: &DocumentId) -> bool {
        self.exclude.contains(id)
    }

    /// Whether a row satisfies the conditions other than the id.
    pub(super) fn admits(&self, row: &RowHead) -> bool {
        let in_time = self.written_from_ms.is_none_or(|from| row.written_ms >= from)
            && self.written_before_ms.is_none_or(|before| row.written_ms < before);
        in_time && (self.metadata.is_empty() || self.admits_metadata(row.metadata.as_deref()))
    }

    /// Whether the row must be read to apply the filter.
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
