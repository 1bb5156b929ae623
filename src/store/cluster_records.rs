//! The records of clusters and tasks, and their bytes.
//!
//! *Absent*: their keys (`clusters`).

use serde::{Deserialize, Serialize};

use super::codec;
use super::error::StoreError;
use crate::ids::{DocumentId, Hash};

const DISSOLVE: u8 = 0;
const EVALUATE: u8 = 1;
const PROMOTE: u8 = 2;
const CLEAR: u8 = 3;
const SCAN: u8 = 4;

pub(super) const DAMAGED: StoreError = StoreError::Damaged("cluster");

/// The rank of a document: of near-duplicates, that of the smallest rank is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The key by the keep rule.
    pub key: u64,
    /// The place in the order of arrival.
    pub place: u64,
    /// The document.
    pub id: DocumentId,
}

/// What a document is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// It is not decided yet.
    Undecided,
    /// It represents the cluster of this number.
    Representative(u64),
    /// It belongs to the cluster of this number.
    Member {
        /// The number of the cluster.
        cluster: u64,
        /// The distance to its representative.
        distance: u32,
    },
}

/// A document as the clusters know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clustered {
    /// Its hash.
    pub hash: Hash,
    /// The key of its rank.
    pub key: u64,
    /// The place of its rank.
    pub place: u64,
    /// Its role.
    pub role: Role,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The rank of the representative.
    pub representative: Rank,
    /// The number of documents, with the representative.
    pub size: u64,
}

/// What holds for the clusters of a collection as a whole.
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

/// Something that is left to do for the documents of a rank and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Decide the role of the document again.
    Evaluate(DocumentId),
    /// The document became a representative: decide those within k again that rank after it.
    Promote {
        /// The document.
        id: DocumentId,
        /// Those up to this one have a task already.
        after: Option<(Hash, DocumentId)>,
    },
    /// The cluster of this number has no representative any more: decide its members again.
    Dissolve(u64),
    /// Remove all clusters.
    Clear,
    /// Decide all documents.
    Scan {
        /// Those up to this one have a task already.
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

#[derive(Serialize, Deserialize)]
pub(super) struct DocumentLayout {
    pub(super) hash: Vec<u8>,
    pub(super) key: u64,
    pub(super) place: u64,
    pub(super) role: Role,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ClusterLayout {
    pub(super) key: u64,
    pub(super) place: u64,
    pub(super) id: String,
    pub(super) size: u64,
}

pub(super) fn read_representatives(value: &[u8]) -> Result<Vec<(DocumentId, u64)>, StoreError> {
    let layout: Vec<(&str, u64)> = codec::read(value, "cluster")?;
    layout.into_iter().map(|(id, number)| Ok((codec::read_id(id.as_bytes())?, number))).collect()
}

pub(super) fn read_cluster(value: &[u8]) -> Result<Cluster, StoreError> {
    let ClusterLayout { key, place, id, size } = codec::read(value, "cluster")?;
    Ok(Cluster { representative: Rank { key, place, id: codec::read_id(id.as_bytes())? }, size })
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

impl Queued {
    /// The key of the task, by which tasks are ordered.
    pub fn order(&self) -> Vec<u8> {
        let (kind, rest) = match &self.task {
            Task::Dissolve(number) => (DISSOLVE, number.to_be_bytes().to_vec()),
            Task::Evaluate(id) => (EVALUATE, id.as_str().as_bytes().to_vec()),
            Task::Promote { id, .. } => (PROMOTE, id.as_str().as_bytes().to_vec()),
            Task::Clear => (CLEAR, Vec::new()),
            Task::Scan { .. } => (SCAN, Vec::new()),
        };
        [&self.key.to_be_bytes()[..], &self.place.to_be_bytes(), &[kind], &rest].concat()
    }

    pub(super) fn value(&self) -> Vec<u8> {
        match &self.task {
            Task::Promote { after: Some((hash, id)), .. } => {
                codec::write(&(bytes_of(*hash), id.as_str().to_owned()))
            }
            Task::Scan { after: Some(id) } => codec::write(&id.as_str()),
            _ => Vec::new(),
        }
    }

    pub(super) fn read(mut order: &[u8], value: &[u8]) -> Result<Queued, StoreError> {
        let (key, place) = (take_number(&mut order)?, take_number(&mut order)?);
        let (kind, rest) = order.split_first().ok_or(DAMAGED)?;
        let task = match *kind {
            DISSOLVE => Task::Dissolve(rest.try_into().map(u64::from_be_bytes).map_err(|_| DAMAGED)?),
            EVALUATE => Task::Evaluate(codec::read_id(rest)?),
            PROMOTE if value.is_empty() => Task::Promote { id: codec::read_id(rest)?, after: None },
            PROMOTE => {
                let (hash, after): (Vec<u8>, String) = codec::read(value, "cluster")?;
                let after = Some((hash_of(&hash)?, codec::read_id(after.as_bytes())?));
                Task::Promote { id: codec::read_id(rest)?, after }
            }
            CLEAR => Task::Clear,
            SCAN if value.is_empty() => Task::Scan { after: None },
            SCAN => {
                let after: String = codec::read(value, "cluster")?;
                Task::Scan { after: Some(codec::read_id(after.as_bytes())?) }
            }
            _ => return Err(DAMAGED),
        };
        Ok(Queued { key, place, task })
    }
}
