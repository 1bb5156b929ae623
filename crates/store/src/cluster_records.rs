//! The records of clusters and tasks, and their bytes.
//!
//! *Absent*: their keys (`clusters`).

use serde::{Deserialize, Serialize};

use super::codec;
use super::error::StoreError;
use lookalike_hash::{DocumentId, Hash};

const DISSOLVE: u8 = 0;
const DECIDE: u8 = 1;
const PROMOTE: u8 = 2;
const CLEAR: u8 = 3;
const SCAN: u8 = 4;
const REGROUP: u8 = 5;

pub(super) const DAMAGED: StoreError = StoreError::Damaged("cluster");

/// The rank of a document: of near-duplicates, that of the smallest rank is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// The key by the keep rule.
    pub key: u64,
    /// The place in the order of arrival.
    pub place: u64,
    /// The document.
    pub id: DocumentId,
}

/// Documents that are decided together: all those of one hash and one sketch that are not marked, or one that
/// is marked alone or in pairs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CopiesOf {
    /// Their hash.
    pub hash: Hash,
    /// The digest of their sketch; 0 if sketches decide nothing.
    pub sketch: u64,
    /// The one document, if it is marked.
    pub marked: Option<DocumentId>,
}

/// The cluster of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Membership {
    /// The number of the cluster.
    pub cluster: u64,
    /// The distance to its representative.
    pub distance: u32,
}

/// Copies that follow each other in the order of ranks and are in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The first of them. The part ends before the first one of the next part.
    pub first: Rank,
    /// Their number.
    pub count: u64,
    /// Their cluster; `None` if it is not decided yet.
    pub of: Option<Membership>,
}

/// The decision about copies. There are several parts if a representative that is nearer ranks between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// Whether the first one represents the cluster of all.
    pub represents: bool,
    /// The parts in the order of ranks. None is empty.
    pub parts: Vec<Part>,
}

impl Copies {
    /// The number of documents.
    pub fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// The part in which a document of this rank is, or would be.
    pub fn part_of(&self, rank: &Rank) -> usize {
        self.parts.partition_point(|part| part.first <= *rank).saturating_sub(1)
    }

    /// The number of the cluster that the first of them represents.
    pub fn represented(&self) -> Option<u64> {
        let of = self.parts.first().and_then(|part| part.of);
        of.filter(|_| self.represents).map(|of| of.cluster)
    }
}

/// A document as the clusters know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clustered {
    /// Its hash.
    pub hash: Hash,
    /// The digest of its sketch; 0 if sketches decide nothing.
    pub sketch: u64,
    /// The key of its rank.
    pub key: u64,
    /// The place of its rank.
    pub place: u64,
    /// Whether it is decided alone, because it is marked.
    pub is_marked: bool,
}

impl Clustered {
    /// The rank of this document.
    pub fn rank(&self, id: &DocumentId) -> Rank {
        Rank { key: self.key, place: self.place, id: id.clone() }
    }

    /// The documents with which this one is decided.
    pub fn copies(&self, id: &DocumentId) -> CopiesOf {
        CopiesOf { hash: self.hash, sketch: self.sketch, marked: self.is_marked.then(|| id.clone()) }
    }
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The copies whose first one represents it.
    pub of: CopiesOf,
    /// The rank of the representative.
    pub representative: Rank,
    /// The number of documents, with the representative.
    pub size: u64,
    /// Key and place of the task that decides its members again, if there is one.
    pub dissolves: Option<(u64, u64)>,
}

/// A part of copies in a cluster that others represent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// The first document.
    pub first: Rank,
    /// The copies.
    pub of: CopiesOf,
    /// The distance to the representative.
    pub distance: u32,
    /// Whether the part has more than one document.
    pub has_several: bool,
}

impl PartOf {
    pub(super) fn read(rank: &[u8], value: &[u8]) -> Result<PartOf, StoreError> {
        let (of, distance, has_several): (Vec<u8>, u32, bool) = codec::read(value, "cluster")?;
        Ok(PartOf { first: Rank::read(rank)?, of: CopiesOf::read(&of)?, distance, has_several })
    }
}

/// The state of the clusters of a collection as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterState {
    /// The number of the last new cluster.
    pub last: u64,
    /// Key and place of the greatest rank that was decided. Documents of greater ranks have a task, or get
    /// one from a scan.
    pub reached: (u64, u64),
    /// The number of tasks.
    pub tasks: u64,
    /// Key and place of the first task, or less. The tree keeps removed tasks until compaction, so it takes
    /// time to find the first one without this.
    pub first: (u64, u64),
}

impl ClusterState {
    /// Whether the clusters of an earlier rule are still being removed, or no document is decided yet.
    pub fn is_beginning(&self) -> bool {
        self.tasks > 0 && self.first == (0, 0)
    }
}

/// Work that is left for the documents of a rank and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Decide copies again.
    Decide(CopiesOf),
    /// A mark of this document was added or removed: it may be decided with others now, or alone.
    Regroup(DocumentId),
    /// The first of these copies became a representative, or one of a smaller rank: decide those within k
    /// again that rank after it.
    Promote {
        /// The copies.
        of: CopiesOf,
        /// Copies up to these have a task already.
        after: Option<CopiesOf>,
    },
    /// The cluster of this number has no representative any more, or one of a greater rank: decide its
    /// members again.
    Dissolve {
        /// The number.
        number: u64,
        /// The parts up to the one that begins with this rank have a task already.
        after: Option<Rank>,
    },
    /// Remove all clusters.
    Clear {
        /// Entries up to this key are removed already.
        after: Option<Vec<u8>>,
    },
    /// Decide all documents.
    Scan {
        /// Documents up to this one have a task already.
        after: Option<DocumentId>,
    },
}

/// A task and the rank that it precedes. Tasks are done in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The key of the rank.
    pub key: u64,
    /// The place of the rank.
    pub place: u64,
    /// The task.
    pub task: Task,
}

pub(super) fn bytes_of(hash: Hash) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    hash.write_bytes(&mut bytes);
    bytes
}

pub(super) fn hash_of(bytes: &[u8]) -> Result<Hash, StoreError> {
    Hash::from_bytes(bytes).ok_or(DAMAGED)
}

pub(super) fn take_number(bytes: &mut &[u8]) -> Result<u64, StoreError> {
    let (number, rest) = bytes.split_first_chunk().ok_or(DAMAGED)?;
    *bytes = rest;
    Ok(u64::from_be_bytes(*number))
}

impl Rank {
    pub(super) fn write(&self) -> Vec<u8> {
        let id = self.id.as_str().as_bytes();
        [&self.key.to_be_bytes()[..], &self.place.to_be_bytes(), id].concat()
    }

    pub(super) fn read(mut bytes: &[u8]) -> Result<Rank, StoreError> {
        let (key, place) = (take_number(&mut bytes)?, take_number(&mut bytes)?);
        Ok(Rank { key, place, id: codec::read_id(bytes)? })
    }
}

impl CopiesOf {
    /// What the bytes of all copies with a hash begin with.
    pub(super) fn prefix(hash: Hash) -> Vec<u8> {
        let mut bytes = vec![hash.width().bytes() as u8];
        hash.write_bytes(&mut bytes);
        bytes
    }

    /// The hash behind its length, the digest, and the id of a marked document.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = CopiesOf::prefix(self.hash);
        bytes.extend_from_slice(&self.sketch.to_be_bytes());
        if let Some(id) = &self.marked {
            bytes.extend_from_slice(id.as_str().as_bytes());
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<CopiesOf, StoreError> {
        let (&length, rest) = bytes.split_first().ok_or(DAMAGED)?;
        let (hash, mut id) = rest.split_at_checked(length.into()).ok_or(DAMAGED)?;
        let sketch = take_number(&mut id)?;
        let marked = if id.is_empty() { None } else { Some(codec::read_id(id)?) };
        Ok(CopiesOf { hash: hash_of(hash)?, sketch, marked })
    }
}

impl Queued {
    /// The key of the task, by which tasks are ordered.
    pub fn order(&self) -> Vec<u8> {
        let (kind, rest) = match &self.task {
            Task::Dissolve { number, .. } => (DISSOLVE, number.to_be_bytes().to_vec()),
            Task::Decide(of) => (DECIDE, of.write()),
            Task::Promote { of, .. } => (PROMOTE, of.write()),
            Task::Clear { .. } => (CLEAR, Vec::new()),
            Task::Scan { .. } => (SCAN, Vec::new()),
            Task::Regroup(id) => (REGROUP, id.as_str().as_bytes().to_vec()),
        };
        [&self.key.to_be_bytes()[..], &self.place.to_be_bytes(), &[kind], &rest].concat()
    }

    /// Where it goes on; empty if it was not begun.
    pub(super) fn value(&self) -> Vec<u8> {
        match &self.task {
            Task::Promote { after, .. } => after.as_ref().map(CopiesOf::write),
            Task::Dissolve { after, .. } => after.as_ref().map(Rank::write),
            Task::Clear { after } => after.clone(),
            Task::Scan { after } => after.as_ref().map(|id| id.as_str().as_bytes().to_vec()),
            Task::Decide(_) | Task::Regroup(_) => None,
        }
        .unwrap_or_default()
    }

    pub(super) fn read(mut order: &[u8], value: &[u8]) -> Result<Queued, StoreError> {
        let (key, place) = (take_number(&mut order)?, take_number(&mut order)?);
        let (kind, rest) = order.split_first().ok_or(DAMAGED)?;
        let begun = Some(value).filter(|value| !value.is_empty());
        let task = match *kind {
            DISSOLVE => {
                let number = rest.try_into().map(u64::from_be_bytes).map_err(|_| DAMAGED)?;
                Task::Dissolve { number, after: begun.map(Rank::read).transpose()? }
            }
            DECIDE => Task::Decide(CopiesOf::read(rest)?),
            PROMOTE => {
                let after = begun.map(CopiesOf::read).transpose()?;
                Task::Promote { of: CopiesOf::read(rest)?, after }
            }
            CLEAR => Task::Clear { after: begun.map(<[u8]>::to_vec) },
            SCAN => Task::Scan { after: begun.map(codec::read_id).transpose()? },
            REGROUP => Task::Regroup(codec::read_id(rest)?),
            _ => return Err(DAMAGED),
        };
        Ok(Queued { key, place, task })
    }
}
