//! What was done with a document, and which stored one contains it.

use serde::Serialize;
use utoipa::ToSchema;

use super::values::Id;
use lookalike_hash::DocumentId;
use lookalike_service::Outcome;

/// What was done with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Outcome)]
pub(super) enum OutcomeOut {
    /// A new document was stored.
    Created,
    /// The document replaced the stored one with its id.
    Updated,
    /// The document was stored in place of near-duplicates.
    Replaced,
    /// The document was not stored, because it duplicates a stored one.
    Duplicate,
    /// The document was not stored, because a stored one contains `min_containment` of it and is no
    /// duplicate.
    ContainedIn,
}

/// A document that contains a text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ContainedIn)]
pub(super) struct ContainedOut {
    /// Its id.
    #[schema(value_type = Id)]
    id: Id,
    /// The share of the text that is in it, .8 to 1.
    share: f64,
}

impl From<(DocumentId, f64)> for ContainedOut {
    fn from((id, share): (DocumentId, f64)) -> ContainedOut {
        ContainedOut { id: Id(id), share }
    }
}

impl From<&Outcome> for OutcomeOut {
    fn from(outcome: &Outcome) -> OutcomeOut {
        match outcome {
            Outcome::Created(_) => OutcomeOut::Created,
            Outcome::Duplicate(_) if outcome.is_contained() => OutcomeOut::ContainedIn,
            Outcome::Duplicate(_) => OutcomeOut::Duplicate,
            Outcome::Replaced(..) => OutcomeOut::Replaced,
            Outcome::Updated(_)
            | Outcome::Repeated(..)
            | Outcome::TooManyNear
            | Outcome::Deleted
            | Outcome::Absent
            | Outcome::Refused(_) => OutcomeOut::Updated,
        }
    }
}
