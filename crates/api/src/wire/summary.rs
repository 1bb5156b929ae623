//! The counts at the end of the answer to a stream or an array of documents.

use serde::Serialize;
use utoipa::ToSchema;

use super::documents::LineOut;
use super::outcome::OutcomeOut;

/// The last line of the answer to a stream.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = SummaryLine)]
pub struct SummaryOut {
    /// The counts.
    pub summary: Summary,
}

/// The number of documents with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Summary {
    /// Documents stored under a new id.
    created: u64,
    /// Documents that replaced the stored one with their id.
    updated: u64,
    /// Documents stored in place of near-duplicates.
    #[serde(skip_serializing_if = "is_zero")]
    replaced: u64,
    /// Documents not stored, because they duplicate stored ones.
    duplicates: u64,
    /// Documents not stored, because stored ones contain them.
    #[serde(skip_serializing_if = "is_zero")]
    contained: u64,
    /// Documents not stored because of an error, listed or not.
    errors: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Summary {
    /// Counts the answer to a document.
    pub fn count(&mut self, line: &LineOut) {
        match line.outcome {
            Some(OutcomeOut::Created) => self.created += 1,
            Some(OutcomeOut::Updated) => self.updated += 1,
            Some(OutcomeOut::Replaced) => self.replaced += 1,
            Some(OutcomeOut::Duplicate) => self.duplicates += 1,
            Some(OutcomeOut::ContainedIn) => self.contained += 1,
            None => self.errors += 1,
        }
    }
}

/// The answer to an array of documents.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BulkResult)]
#[allow(dead_code, reason = "a shape for the contract: the answer is streamed")]
pub struct BulkOut {
    /// The result for each element, in order; at most 100 of them are errors.
    results: Vec<LineOut>,
    /// The counts.
    summary: Summary,
}
