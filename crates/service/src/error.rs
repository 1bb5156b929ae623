//! Why a request failed. Messages name the field, the limit and the way out.

use lookalike_dedupe::Lesson;
use lookalike_engine::{EngineError, MAX_REPLACED, Progress, Version};
use lookalike_hash::{CollectionName, DocumentId, Mark};
use lookalike_run::call::NoMemory;
use lookalike_run::pool::PoolError;
use lookalike_wording::counted;

/// An error of the service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The engine is still reading its data.
    #[error("the server is starting and reads its data{how_far}; try again in a moment")]
    NotReady {
        /// `": recovering, 43 % of 10000000 hashes"`; empty if that is not known yet.
        how_far: String,
    },
    /// A field has an invalid value.
    #[error("{detail}")]
    Invalid {
        /// The field, as a JSON pointer without its slash, or the name of a parameter.
        field: &'static str,
        /// What is wrong, what the limit is, what to do.
        detail: String,
    },
    /// A text has no features.
    #[error(
        "{field} has no word or character to make a fingerprint from: all such texts would be duplicates of \
         each other"
    )]
    EmptyText {
        /// The field of the text: `text` or `html`.
        field: &'static str,
    },
    /// A cursor of another query.
    #[error("the cursor does not belong to this query; send the query without it for the first page")]
    Cursor,
    /// No profile has this name.
    #[error("there is no profile {name:?}; there are {known}")]
    NoProfile {
        /// The requested name.
        name: String,
        /// The existing profiles.
        known: String,
    },
    /// The definition of a user-defined profile has changed since the collection was created.
    #[error(
        "the collection was made with profile {stored}, and the loaded profile of this name is {now}: hashes \
         cannot be compared. Load the old definition under this name again, or make a new collection"
    )]
    ProfileChanged {
        /// The stored id.
        stored: String,
        /// The id of the current definition of this name, or `none`.
        now: String,
    },
    /// A hash or signature is of another profile than those that it would be compared with.
    #[error(
        "the profile is {given}, and the hashes here are of {own}: hashes of two profiles cannot be \
         compared. Create a collection with the profile {given}, or send texts, which are fingerprinted here"
    )]
    ProfileMismatch {
        /// The field that names the profile, as a JSON pointer without its slash.
        field: &'static str,
        /// The profile that the client names.
        given: String,
        /// The profile of the collection.
        own: String,
    },
    /// No such document.
    #[error("there is no document {id:?} in collection \"{collection}\"", id = .id.as_str())]
    NoDocument {
        /// The collection that was searched.
        collection: CollectionName,
        /// The id.
        id: DocumentId,
    },
    /// The document has no thumbnail.
    #[error("document {id:?} in collection \"{collection}\" has no thumbnail: {why}", id = .id.as_str())]
    NoThumbnail {
        /// Its collection.
        collection: CollectionName,
        /// The id.
        id: DocumentId,
        /// Why there is none.
        why: &'static str,
    },
    /// The collection has no clusters.
    #[error("collection \"{0}\" has no clusters; POST /clusters with {{\"keep\": \"first\"}} builds them")]
    NoClusters(CollectionName),
    /// The clusters are not decided yet.
    #[error(
        "the clusters of collection \"{collection}\" are being decided, {pending} tasks are left; try again \
         when pending in the answer of GET /clusters is 0"
    )]
    ClustersPending {
        /// The collection.
        collection: CollectionName,
        /// The number of tasks.
        pending: u64,
    },
    /// The dry run is not held with that many documents.
    #[error(
        "the dry run \"{name}\" is not held here with {from} documents: it was idle, or another server \
         answers; begin again with from=0"
    )]
    NoRun {
        /// Its name.
        name: String,
        /// The documents that the client has sent.
        from: u64,
    },
    /// The document represents no cluster.
    #[error(
        "document \"{id}\" of collection \"{collection}\" represents no cluster: {}",
        match representative {
            Some(other) => format!("\"{other}\" represents its cluster; GET /clusters/{{id}} takes that id"),
            None => "its cluster is not decided yet; try again when pending of GET /clusters is 0"
                .to_owned(),
        }
    )]
    NoCluster {
        /// The collection that was searched.
        collection: CollectionName,
        /// The document.
        id: DocumentId,
        /// The document that represents its cluster, if that is decided.
        representative: Option<DocumentId>,
    },
    /// No such mark.
    #[error("there is no mark of {} in collection \"{collection}\"; GET /marks lists them", marked(mark))]
    NoMark {
        /// The collection that was searched.
        collection: CollectionName,
        /// The mark.
        mark: Mark,
    },
    /// There is no calibration of the collection.
    #[error("collection \"{0}\" was not calibrated since the server started; POST to the same path begins")]
    NoCalibration(CollectionName),
    /// The collection is being calibrated.
    #[error(
        "collection \"{0}\" is being calibrated; GET of the same path returns its progress, and DELETE ends \
         it"
    )]
    Calibrating(CollectionName),
    /// Another calibration is running, or a cancelled one has not stopped yet.
    #[error("{}", one_at_a_time(collection.as_ref(), *seconds, *is_ending))]
    OtherCalibration {
        /// The collection; `None` if it must not be revealed.
        collection: Option<CollectionName>,
        /// Its running time in seconds.
        seconds: u64,
        /// Whether it was cancelled.
        is_ending: bool,
    },
    /// The calibration or the reindex was cancelled.
    #[error("the job was ended by a request")]
    Forgotten,
    /// There is no reindex of the collection.
    #[error(
        "collection \"{0}\" was not reindexed since the server started. A reindex that a stop of the server \
         ended has changed nothing: GET /collections/{0} shows the profile, and POST to the same path begins"
    )]
    NoReindex(CollectionName),
    /// Another replica reindexes the collection.
    #[error(
        "collection \"{collection}\" is being reindexed by the replica {server:?}, and this \
         one does not know its progress: send the request to that server"
    )]
    ReindexElsewhere {
        /// The collection.
        collection: CollectionName,
        /// The server.
        server: String,
    },
    /// The collection is being reindexed.
    #[error(
        "collection \"{0}\" is being reindexed; GET of the same path returns its progress, and DELETE ends it"
    )]
    Reindexing(CollectionName),
    /// The reindex is in its last step and cannot be ended any more.
    #[error(
        "the reindex of collection \"{0}\" takes effect in this moment and cannot be ended any more; GET of \
         the same path returns its result, and POST begins another one with the profile that it had"
    )]
    TakesEffect(CollectionName),
    /// A collection that keeps no texts cannot be reindexed.
    #[error(
        "collection \"{0}\" keeps no texts (keep_text is false), and a reindex makes fingerprints from kept \
         texts. Create a collection with the other profile and send the documents there, with \"keep_text\": \
         true if it is to be reindexed later"
    )]
    KeepsNoTexts(CollectionName),
    /// The collection has no table of weights.
    #[error("collection \"{0}\" has no weights; a reindex with \"weights\": \"learned\" gives it some")]
    NoWeights(CollectionName),
    /// Weights are to be learned of too few texts.
    #[error(
        "there are {documents} different texts to learn weights from, and {} are needed: reindex \
         without \"weights\", or give those of another collection with the same profile",
        Lesson::LEAST
    )]
    TeachesNothing {
        /// How many different texts there are.
        documents: u32,
    },
    /// Some documents have no text, or none from which the new profile makes a fingerprint.
    #[error("{}", unfit(without_text, without_features))]
    Unfit {
        /// Documents that were stored as hashes, signatures or features, or while texts were not kept.
        without_text: Named,
        /// Documents whose texts have nothing of which the profile makes features.
        without_features: Named,
    },
    /// The condition of the request does not hold for the document. Nothing was done.
    #[error("{}", condition_message(id, *version))]
    Condition {
        /// The id.
        id: DocumentId,
        /// Its version; `None` if it does not exist.
        version: Option<Version>,
    },
    /// Another document is stored under the id that follows from the key of the request.
    #[error(
        "this Idempotency-Key was used before, and the document {id:?} that it stored differs from this one: \
         another body was sent with the key, or the document was changed since. Nothing was stored. Send a \
         new document with a new key; to replace the stored one, PUT it under its id",
        id = .0.as_str()
    )]
    KeyReused(DocumentId),
    /// A document would replace more others than one may.
    #[error(
        "more than {MAX_REPLACED} stored documents are within k, and on_duplicate=replace takes the place of \
         at most that many; nothing was stored. Store the document with on_duplicate=link, and delete the \
         other members of its cluster (GET /clusters/{{id}}, POST /deletions)"
    )]
    TooManyNear,
    /// A deletion of this collection by a filter is running.
    #[error(
        "documents of collection \"{0}\" are being deleted by a filter; GET /collections/{0}/deletions \
         returns the progress, and DELETE ends it"
    )]
    Deleting(CollectionName),
    /// There is no deletion of this collection by a filter.
    #[error(
        "no documents of collection \"{0}\" were deleted by a filter since the server started; POST \
         /collections/{0}/deletions starts a deletion"
    )]
    NoDeletion(CollectionName),
    /// A deletion was ended.
    #[error("the deletion was ended by a request, or the collection was deleted")]
    DeletionEnded,
    /// A change of a document was overtaken by others too often.
    #[error("the document {0:?} changes too often to be changed now; try again in a moment")]
    Overtaken(String),
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<NoMemory> for ServiceError {
    fn from(error: NoMemory) -> ServiceError {
        ServiceError::Engine(EngineError::NoMemory(error))
    }
}

fn condition_message(id: &DocumentId, version: Option<Version>) -> String {
    let id = id.as_str();
    match version {
        Some(version) => format!(
            "the document {id:?} has the ETag \"{version}\", for which the condition of the request does not \
             hold: get the document again and send that ETag as If-Match, or leave the condition out"
        ),
        None => format!(
            "there is no document {id:?}, and the condition of the request is that there is one; leave \
             If-Match out to store it"
        ),
    }
}

/// The first of some documents, and their number.
#[derive(Clone, Debug, Default)]
pub struct Named {
    first: Vec<DocumentId>,
    all: u64,
}

impl Named {
    /// Number of documents that are listed.
    const MOST: usize = 10;

    pub(super) fn add(&mut self, id: &DocumentId) {
        self.all += 1;
        if self.first.len() < Self::MOST {
            self.first.push(id.clone());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all == 0
    }

    fn text(&self) -> String {
        let first: Vec<String> = self.first.iter().map(|id| format!("{:?}", id.as_str())).collect();
        let more = self.all - self.first.len() as u64;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{} ({}{more})", self.all, first.join(", "))
    }
}

/// What is wrong with the documents of a collection that cannot be reindexed.
fn unfit(without_text: &Named, without_features: &Named) -> String {
    let mut what = Vec::new();
    if !without_text.is_empty() {
        what.push(format!("documents without a kept text: {}", without_text.text()));
    }
    if !without_features.is_empty() {
        what.push(format!("documents in whose texts the profile finds nothing: {}", without_features.text()));
    }
    format!(
        "{}. Nothing was changed. Delete them or store them again with a text, then reindex again",
        what.join("; ")
    )
}

/// The documents of a mark, in words.
fn marked(mark: &Mark) -> String {
    let id = mark.id().as_str();
    mark.other().map_or_else(|| format!("{id:?}"), |other| format!("{id:?} and {:?}", other.as_str()))
}

fn one_at_a_time(collection: Option<&CollectionName>, seconds: u64, is_ending: bool) -> String {
    let of = collection
        .map_or_else(|| "of another collection".to_owned(), |name| format!("of collection \"{name}\""));
    let remedy = match collection {
        _ if is_ending => "it was ended and stops soon; try again then".to_owned(),
        Some(name) => format!(
            "GET /collections/{name}/calibrate returns its progress, and DELETE ends it; try again when it \
             has ended"
        ),
        None => "try again later".to_owned(),
    };
    format!(
        "one calibration runs at a time, and one {of} has been running for {}: {remedy}",
        counted(seconds, "second")
    )
}

impl From<PoolError> for ServiceError {
    fn from(error: PoolError) -> ServiceError {
        ServiceError::Engine(EngineError::Pool(error))
    }
}

impl ServiceError {
    pub(super) fn not_ready(progress: &Progress) -> ServiceError {
        let (_, of) = progress.hashes();
        let text = |percent| format!(": recovering, {percent} % of {of} hashes");
        ServiceError::NotReady { how_far: progress.percent().map(text).unwrap_or_default() }
    }

    /// Whether it is an error of the query or document itself: others of the request are not affected.
    pub(super) fn is_of_query(&self) -> bool {
        match self {
            ServiceError::Invalid { .. }
            | ServiceError::EmptyText { .. }
            | ServiceError::Cursor
            | ServiceError::ProfileMismatch { .. }
            | ServiceError::Condition { .. }
            | ServiceError::KeyReused(_)
            | ServiceError::TooManyNear
            | ServiceError::NoDocument { .. }
            | ServiceError::NoThumbnail { .. } => true,
            ServiceError::Engine(error) => error.is_of_question(),
            _ => false,
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
    fn the_progress_of_the_start_is_reported_once_it_is_known() {
        let progress = Progress::default();
        let message = |progress: &Progress| ServiceError::not_ready(progress).to_string();
        assert_eq!(message(&progress), "the server is starting and reads its data; try again in a moment");
        progress.expect(1_000);
        progress.add(439);
        let expected = "the server is starting and reads its data: recovering, 43 % of 1000 hashes; try \
                        again in a moment";
        assert_eq!(message(&progress), expected);
    }
}
