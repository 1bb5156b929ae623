//! Partitions: which documents a server of a cluster holds, and how it asks others for the rest.
//!
//! *Guarantees*
//! - The partition of a document depends on its id and the number of partitions only.
//! - An answer of [`Engine::answer_part`] has documents of the wanted partitions only.
//!
//! *Absent*: which servers there are, and the network (`cluster`); the union of answers (`everywhere`).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use xxhash_rust::xxh3::xxh3_64;

use super::everywhere::search;
use super::shared::Shared;
use super::{
    Answer, CollectionInfo, Document, Engine, EngineError, Filter, Listing, Outcome, Page, Query, listing,
};
use crate::ids::{CollectionName, DocumentId};
use crate::pool::{Cancel, Patience};

/// The partitions of a cluster, and those of them that a server holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitions {
    count: u32,
    held: BTreeSet<u32>,
}

impl Partitions {
    /// The partitions 0 to `count` - 1, of which a server has those that are `held`. `None` if there is none,
    /// or if one of the held ones does not exist.
    pub fn new(count: u32, held: impl IntoIterator<Item = u32>) -> Option<Partitions> {
        let held: BTreeSet<u32> = held.into_iter().collect();
        let is_valid = !held.is_empty() && held.iter().all(|partition| *partition < count);
        is_valid.then_some(Partitions { count, held })
    }

    /// The number of partitions.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Those that the server holds.
    pub fn held(&self) -> &BTreeSet<u32> {
        &self.held
    }

    /// The partition of a document.
    pub fn of(&self, id: &DocumentId) -> u32 {
        partition_of(self.count, id)
    }

    /// Whether the server holds the partition of a document.
    pub fn hold(&self, id: &DocumentId) -> bool {
        self.held.contains(&self.of(id))
    }

    /// Those that the server does not hold.
    pub fn missing(&self) -> BTreeSet<u32> {
        (0..self.count).filter(|partition| !self.held.contains(partition)).collect()
    }
}

/// The partition of a document, of this number of partitions.
pub(super) fn partition_of(count: u32, id: &DocumentId) -> u32 {
    (xxh3_64(id.as_str().as_bytes()) % u64::from(count)) as u32
}

/// A question to a server about the documents of some partitions.
#[derive(Clone, Debug)]
pub enum PartAsk {
    /// The documents near to each of these.
    Near(CollectionName, Arc<[Query]>),
    /// A document.
    Get(CollectionName, DocumentId),
    /// A page of documents.
    List(CollectionName, Listing),
    /// The numbers of documents and of distinct hashes of each of these collections.
    Count(Vec<CollectionName>),
    /// The outcomes of operations of an entry of the log: their numbers in the entry, and their partitions.
    Outcomes(u64, Vec<(u32, u32)>),
}

/// What a server has found.
#[derive(Clone, Debug)]
pub enum PartFound {
    /// An answer to each query.
    Near(Vec<Answer>),
    /// The document, if it exists.
    Document(Option<Document>),
    /// The page.
    Page(Page),
    /// The collections with their numbers of documents and of distinct hashes.
    Counts(Vec<(CollectionName, u64, u64)>),
    /// The outcomes, each with the number of its operation.
    Outcomes(Vec<(u32, Outcome)>),
}

/// The answer of a server.
#[derive(Clone, Debug)]
pub struct PartAnswer {
    /// It has the effect of all entries up to this position of the log.
    pub applied: u64,
    /// It has no effect of later entries than this one.
    pub visible: u64,
    /// What it has found.
    pub found: PartFound,
}

/// The other servers of a cluster.
pub trait Elsewhere: Send + Sync {
    /// Asks a live holder of each of these partitions, which has applied the log up to a position. Together
    /// the answers are about exactly these partitions.
    ///
    /// # Errors
    /// [`EngineError::PartitionUnavailable`] if no holder of a partition answers,
    /// [`EngineError::PartitionBusy`] if all have too much to do, and [`EngineError::NoCollection`].
    fn ask(
        &self,
        ask: PartAsk,
        partitions: BTreeSet<u32>,
        at_least: u64,
    ) -> BoxFuture<'static, Result<Vec<PartAnswer>, EngineError>>;

    /// Checks that each of these partitions has a holder, as far as this server knows.
    ///
    /// # Errors
    /// [`EngineError::PartitionUnavailable`].
    fn check(&self, partitions: BTreeSet<u32>) -> BoxFuture<'static, Result<(), EngineError>>;
}

impl Engine {
    /// The partitions of the cluster; `None` if there is only one.
    pub fn partitions(&self) -> Option<&Partitions> {
        self.everywhere.as_ref().map(|everywhere| &*everywhere.partitions)
    }

    /// Whether other servers hold documents that this one does not.
    pub fn is_part(&self) -> bool {
        self.everywhere.as_ref().is_some_and(|everywhere| !everywhere.missing.is_empty())
    }

    /// An id of a partition that this server holds, so that its document needs no other server.
    pub fn own_id(&self, make: fn() -> DocumentId) -> DocumentId {
        let is_own = |id: &DocumentId| self.partitions().is_none_or(|partitions| partitions.hold(id));
        std::iter::repeat_with(make).find(is_own).unwrap_or_else(make)
    }

    /// Refuses what exists only on a server that has all documents.
    ///
    /// # Errors
    /// [`EngineError::NotInCluster`] with this reason and way out.
    pub fn refuse_partitions(&self, reason: &'static str) -> Result<(), EngineError> {
        if self.partitions().is_some() { Err(EngineError::NotInCluster(reason)) } else { Ok(()) }
    }

    /// Answers another server from the documents of this one that are in some partitions, once this server
    /// has applied the log up to a position.
    ///
    /// # Errors
    /// [`EngineError::PartitionUnavailable`] if it does not hold one of them, [`EngineError::Behind`] after
    /// the time `within`, and those of the question.
    pub async fn answer_part(
        &self,
        ask: PartAsk,
        wanted: BTreeSet<u32>,
        (at_least, within): (u64, Duration),
    ) -> Result<PartAnswer, EngineError> {
        let Some(partitions) = self.partitions().filter(|own| wanted.is_subset(&own.held)) else {
            let reason = "the server that was asked does not hold them";
            return Err(EngineError::unavailable(wanted, reason));
        };
        self.reach(at_least, within).await?;
        let (applied, _) = *self.shared.position.borrow();
        let found = self.part(ask, wanted, partitions).await?;
        Ok(PartAnswer { applied, visible: self.position(), found })
    }

    async fn part(
        &self,
        ask: PartAsk,
        wanted: BTreeSet<u32>,
        partitions: &Partitions,
    ) -> Result<PartFound, EngineError> {
        // Without other partitions there is nothing to leave out.
        let only = (wanted != partitions.held).then(|| (partitions.count, wanted.clone()));
        let narrowed = |filter: Option<Box<Filter>>| match &only {
            None => filter,
            Some(only) => {
                let mut filter = filter.unwrap_or_default();
                filter.partitions = Some(only.clone());
                Some(filter)
            }
        };
        Ok(match ask {
            PartAsk::Near(name, queries) => {
                let collection = self.find(&name)?;
                queries.iter().try_for_each(|query| collection.check(query))?;
                let narrow =
                    |query: &Query| Query { filter: narrowed(query.filter.clone()), ..query.clone() };
                let queries: Arc<[Query]> = match &only {
                    None => queries,
                    Some(_) => queries.iter().map(narrow).collect(),
                };
                let found = search(&self.shared, &self.pool, Patience::Interactive, &collection, &queries);
                PartFound::Near(found.await?)
            }
            PartAsk::Get(name, id) => PartFound::Document(self.get(self.find(&name)?.as_ref(), &id)?),
            PartAsk::List(name, wanted) => {
                let (shared, collection) = (Arc::clone(&self.shared), self.find(&name)?);
                let wanted = Listing { filter: narrowed(wanted.filter.clone()), ..wanted };
                let read = move |cancel: &Cancel| listing::page(&shared, collection.id, &wanted, cancel);
                PartFound::Page(self.pool.run(Patience::Bulk, read).await??)
            }
            PartAsk::Count(names) => {
                let mut infos = self.collections()?;
                infos.retain(|info| names.contains(&info.name));
                let count = |info: CollectionInfo| (info.name, info.documents, info.distinct_hashes);
                let Some((count_of, wanted)) = only else {
                    return Ok(PartFound::Counts(infos.into_iter().map(count).collect()));
                };
                let shared = Arc::clone(&self.shared);
                let counted = move |cancel: &Cancel| {
                    let of = |info| count_rows(&shared, info, (count_of, &wanted), cancel);
                    infos.into_iter().map(of).collect::<Result<_, EngineError>>()
                };
                PartFound::Counts(self.pool.run(Patience::Bulk, counted).await??)
            }
            PartAsk::Outcomes(entry, operations) => {
                // Other servers may be asked about the rest of the entry.
                let operations = operations.into_iter().filter(|(_, partition)| wanted.contains(partition));
                let operations: Vec<u32> = operations.map(|(operation, _)| operation).collect();
                let known = self.following.as_ref().and_then(|own| own.decided.outcomes(entry, &operations));
                let forgotten = || EngineError::Unknown("the outcome is not known any more".to_owned());
                PartFound::Outcomes(known.ok_or_else(forgotten)?)
            }
        })
    }
}

/// Counts the documents of some partitions, and their hashes, by reading all rows.
fn count_rows(
    shared: &Shared,
    info: CollectionInfo,
    (count, wanted): (u32, &BTreeSet<u32>),
    cancel: &Cancel,
) -> Result<(CollectionName, u64, u64), EngineError> {
    let (mut documents, mut hashes) = (0, HashSet::new());
    for row in shared.store.view().stored_rows_after(info.id, None) {
        let (id, row) = row?;
        cancel.check()?;
        if wanted.contains(&partition_of(count, &id)) {
            documents += 1;
            hashes.insert(row.head()?.hash);
        }
    }
    Ok((info.name, documents, hashes.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_of_an_id_never_changes() {
        let partitions = Partitions::new(4, [1, 3]).unwrap();
        let of = |id: &str| partitions.of(&DocumentId::new(id).unwrap());
        assert_eq!(["a", "b", "新闻/1", "d0", "d1"].map(of), PINNED);
        assert_eq!(partitions.missing(), BTreeSet::from([0, 2]));
        assert!(Partitions::new(4, [4]).is_none() && Partitions::new(4, []).is_none());
        // Many ids are spread evenly.
        let mut counts = [0; 4];
        (0..4_000).for_each(|n| counts[of(&format!("d{n}")) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    /// A change of these moves stored documents to servers that do not have them.
    const PINNED: [u32; 5] = [3, 3, 1, 3, 2];
}
