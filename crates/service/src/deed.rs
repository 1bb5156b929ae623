//! What a deletion does to a document: delete it, plan that, cancel such a plan, or count it.
//!
//! A planned deletion is an expiry that remembers the one in whose place it is ([`Lifetime`]), so it is kept,
//! replicated and carried out like any other.

use std::sync::Arc;
use std::time::Duration;

use super::Service;
use super::error::ServiceError;
use lookalike_engine::{
    Admission, CollectionSettings, Condition, Document, EngineError, Lifetime, MAX_OPERATIONS, Operation,
    Outcome, Version,
};
use lookalike_hash::{CollectionName, DocumentId};
use lookalike_run::pool::{Cancel, Patience};

/// Bytes of documents in one write. A document that reaches them is the last one.
const PART_BYTES: usize = 4 << 20;
/// How often, and after which pause, a write is tried that a reindex holds up.
const ATTEMPTS: usize = 600;
const PAUSE: Duration = Duration::from_secs(1);

/// What is done to a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deed {
    /// It is counted.
    #[default]
    Count,
    /// It is deleted.
    Delete,
    /// Its deletion is planned for this time, in milliseconds since 1970-01-01 UTC.
    Plan(u64),
    /// The plan to delete it is cancelled.
    Cancel,
}

impl Deed {
    /// Whether the document is written again, which needs its text.
    pub(super) fn writes(self) -> bool {
        matches!(self, Deed::Plan(_) | Deed::Cancel)
    }

    fn lifetime(self, before: Lifetime) -> Lifetime {
        match self {
            Deed::Plan(at_ms) => before.planned(at_ms),
            Deed::Cancel => before.cancelled(),
            Deed::Count | Deed::Delete => before,
        }
    }

    /// The operation on a document in this version; `None` if nothing changes.
    pub(super) fn operation(self, mut document: Document) -> Option<Operation> {
        let row = &mut document.row;
        let version = Version::of_document(row.place, row.written_ms, row.hash);
        let condition = Condition::Version(vec![version]);
        if self == Deed::Delete {
            return Some(Operation::Delete { id: document.id, condition });
        }
        let lifetime = self.lifetime(row.lifetime);
        let changes = lifetime != row.lifetime;
        row.lifetime = lifetime;
        changes.then_some(Operation::Put { document, unless: None, condition })
    }
}

impl Service {
    /// Plans deletions of the documents with these ids, or cancels them. Returns how many exist, and how many
    /// were changed.
    pub(super) async fn plan_ids(
        &self,
        name: &CollectionName,
        ids: Vec<DocumentId>,
        deed: Deed,
    ) -> Result<(u64, u64), ServiceError> {
        let engine = self.engine()?;
        let (mut matched, mut done, mut rest) = (0, 0, ids);
        while !rest.is_empty() {
            let (reader, collection) = (Arc::clone(engine), engine.find(name)?);
            let (settings, ids) = (collection.settings(), std::mem::take(&mut rest));
            let read = move |cancel: &Cancel| {
                let (mut documents, mut bytes, mut ids) = (Vec::new(), 0, ids.into_iter());
                for id in ids.by_ref() {
                    cancel.check()?;
                    let document = reader.get(&collection, &id)?;
                    bytes += document.as_ref().map_or(0, |document| document.row.held_bytes());
                    documents.extend(document);
                    if bytes >= PART_BYTES || documents.len() >= MAX_OPERATIONS {
                        break;
                    }
                }
                Ok::<_, ServiceError>((documents, ids.collect()))
            };
            let (documents, left): (Vec<Document>, _) = self.pool.run(Patience::Interactive, read).await??;
            matched += documents.len() as u64;
            let operations = documents.into_iter().filter_map(|document| deed.operation(document)).collect();
            done += self.write_patiently(name, &settings, operations).await?;
            rest = left;
        }
        Ok((matched, done))
    }

    /// Does those of these operations whose documents have not changed, and returns their number. Waits while
    /// a reindex replaces the collection.
    pub(super) async fn write_patiently(
        &self,
        name: &CollectionName,
        settings: &CollectionSettings,
        operations: Vec<Operation>,
    ) -> Result<u64, ServiceError> {
        let engine = self.engine()?;
        if operations.is_empty() {
            return Ok(0);
        }
        let writes = operations.iter().any(|operation| matches!(operation, Operation::Put { .. }));
        let made_for = writes.then_some(settings);
        for _ in 0..ATTEMPTS {
            match engine.write(name, made_for, operations.clone(), Admission::Wait).await {
                Err(EngineError::Switching(_) | EngineError::Busy(_)) => tokio::time::sleep(PAUSE).await,
                // A document of the collection before a reindex is not written into the one after it.
                Err(EngineError::SettingsConflict { .. }) => return Ok(0),
                written => {
                    let is_done =
                        |outcome: &&Outcome| matches!(outcome, Outcome::Deleted | Outcome::Updated(_));
                    let done = written?.await?.iter().filter(is_done).count() as u64;
                    engine.find(name)?.traffic.wrote(done);
                    return Ok(done);
                }
            }
        }
        Err(EngineError::Switching(name.clone()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_change_only_the_lifetime_and_counting_changes_nothing() {
        for before in [Lifetime::Endless, Lifetime::Until(5), Lifetime::Until(5).planned(2)] {
            assert_eq!(Deed::Plan(3).lifetime(before), before.planned(3));
            assert_eq!(Deed::Cancel.lifetime(before), before.cancelled());
            assert_eq!(Deed::Count.lifetime(before), before);
        }
        assert!(Deed::Plan(1).writes() && Deed::Cancel.writes() && !Deed::Delete.writes());
    }
}
