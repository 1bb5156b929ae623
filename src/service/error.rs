//! Why a request was not done. Sentences name the field, the limit and the way out.

use crate::call::NoMemory;
use crate::engine::{EngineError, Progress};
use crate::ids::{CollectionName, DocumentId};
use crate::pool::PoolError;

/// An error of the service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The engine is still reading its data.
    #[error("the server is starting and reads its data{how_far}; try again in a moment")]
    NotReady {
        /// `": recovering, 43 % of 10000000 hashes"`, or nothing if that is not known yet.
        how_far: String,
    },
    /// A field has a value that cannot be accepted.
    #[error("{detail}")]
    Invalid {
        /// The field, as a JSON pointer without its slash, or the name of a parameter.
        field: &'static str,
        /// What is wrong, what the limit is, what to do.
        detail: String,
    },
    /// A text without a feature.
    #[error(
        "{field} has no word or character to make a fingerprint from: all such texts would be duplicates of each other"
    )]
    EmptyText {
        /// The field that it stands in: `text` or `html`.
        field: &'static str,
    },
    /// A cursor that does not belong to this query.
    #[error("the cursor is not one that this query answered with; send the query without it to begin anew")]
    Cursor,
    /// No such profile.
    #[error("there is no profile {name:?}; there are {known}")]
    NoProfile {
        /// What was asked for.
        name: String,
        /// All there are.
        known: String,
    },
    /// A profile of the user's own that is another now than the one that was stored.
    #[error(
        "the collection was made with profile {stored}, and what is loaded of this name now is {now}: hashes cannot be \
         compared. Load the old definition under this name again, or make a new collection"
    )]
    ProfileChanged {
        /// The id that was stored.
        stored: String,
        /// The id of the definition of the same name, or that there is none.
        now: String,
    },
    /// No such document.
    #[error("there is no document {id:?} in collection \"{collection}\"", id = .id.as_str())]
    NoDocument {
        /// Where it was looked for.
        collection: CollectionName,
        /// The id.
        id: DocumentId,
    },
    /// The collection was not calibrated.
    #[error("collection \"{0}\" was not calibrated since the server began; POST to the same place begins")]
    NoCalibration(CollectionName),
    /// The collection is being calibrated.
    #[error(
        "collection \"{0}\" is being calibrated; GET the same place tells how far it has come, and DELETE ends it"
    )]
    Calibrating(CollectionName),
    /// A calibration of another collection runs, or one that was ended has not stopped yet.
    #[error("{}", one_at_a_time(collection.as_ref(), *seconds, *is_ending))]
    OtherCalibration {
        /// The collection; `None` if it is not to be named.
        collection: Option<CollectionName>,
        /// For how many seconds it has been running.
        seconds: u64,
        /// Whether it was ended.
        is_ending: bool,
    },
    /// Nobody wants to know any more.
    #[error("the calibration was ended by a request")]
    Forgotten,
    /// One of several questions cannot be answered.
    #[error("{source}")]
    Question {
        /// Its place among them, from 0.
        at: usize,
        /// What is wrong with it.
        source: Box<ServiceError>,
    },
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<NoMemory> for ServiceError {
    fn from(error: NoMemory) -> ServiceError {
        ServiceError::Engine(EngineError::NoMemory(error))
    }
}

fn one_at_a_time(collection: Option<&CollectionName>, seconds: u64, is_ending: bool) -> String {
    let of = collection
        .map_or_else(|| "of another collection".to_owned(), |name| format!("of collection \"{name}\""));
    let way_out = match collection {
        _ if is_ending => "it was ended and stops in a moment; try again then".to_owned(),
        Some(name) => format!(
            "GET /collections/{name}/calibrate tells how far it has come, and DELETE ends it; try again when it has ended"
        ),
        None => "try again later".to_owned(),
    };
    format!("one calibration runs at a time, and one {of} has been running for {seconds} seconds: {way_out}")
}

impl From<PoolError> for ServiceError {
    fn from(error: PoolError) -> ServiceError {
        ServiceError::Engine(EngineError::Pool(error))
    }
}

impl ServiceError {
    pub(super) fn not_ready(progress: &Progress) -> ServiceError {
        let (_, of) = progress.hashes();
        let told = |percent| format!(": recovering, {percent} % of {of} hashes");
        ServiceError::NotReady { how_far: progress.percent().map(told).unwrap_or_default() }
    }

    /// The same of the question at this place among several, if it is the question that is wrong.
    pub(super) fn of_question(self, at: usize) -> ServiceError {
        let is_of_question = match &self {
            ServiceError::Invalid { .. }
            | ServiceError::EmptyText { .. }
            | ServiceError::Cursor
            | ServiceError::NoDocument { .. } => true,
            ServiceError::Engine(error) => error.is_of_question(),
            _ => false,
        };
        if is_of_question { ServiceError::Question { at, source: Box::new(self) } } else { self }
    }

    /// The same where this many questions stood before those that it counts.
    #[must_use]
    pub fn after(self, before: usize) -> ServiceError {
        match self {
            ServiceError::Question { at, source } => ServiceError::Question { at: at + before, source },
            ServiceError::Engine(EngineError::Question { at, source }) => {
                ServiceError::Question { at: at + before, source: Box::new(ServiceError::Engine(*source)) }
            }
            other => other,
        }
    }

    pub(super) fn invalid(field: &'static str, detail: impl Into<String>) -> ServiceError {
        ServiceError::Invalid { field, detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_the_start_has_come_is_told_once_it_is_known() {
        let progress = Progress::default();
        let told = |progress: &Progress| ServiceError::not_ready(progress).to_string();
        assert_eq!(told(&progress), "the server is starting and reads its data; try again in a moment");
        progress.expect(1_000);
        progress.add(439);
        let expected = "the server is starting and reads its data: recovering, 43 % of 1000 hashes; try again in a moment";
        assert_eq!(told(&progress), expected);
    }
}
