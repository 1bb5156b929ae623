//! Clusters on disk: which document represents each cluster, which documents are its members, and the tasks
//! that are left to do.
//!
//! [`Clusters`] reads a view, overlaid with changes that are not durable yet. The keys of the tree begin with
//! the number of the collection and a byte:
//!
//! ```text
//! 0                           the state
//! 1  id                       a document: its hash, its rank and its role
//! 2  u64 number               a cluster: the rank of its representative, its size
//! 3  hash                     the documents with this hash that represent clusters, and their numbers
//! 4  u64 number, rank         a member, and its distance
//! 5  !u64 size, u64 number    the clusters by size
//! 6  u64 key, u64 place, task a task
//! ```
//!
//! *Absent*: the rule (`engine/clustering`).

use std::collections::BTreeMap;
use std::ops::Bound;

use super::cluster_records::{
    Cluster, ClusterLayout, ClusterState, Clustered, DAMAGED, DocumentLayout, Queued, Rank, Task, bytes_of,
    hash_of, read_cluster, read_representatives, take_number,
};
use super::codec;
use super::error::StoreError;
use super::trees::Tree;
use super::view::View;
use crate::ids::{CollectionId, DocumentId, Hash};

const STATE: u8 = 0;
const DOCUMENT: u8 = 1;
const CLUSTER: u8 = 2;
const REPRESENTATIVE: u8 = 3;
const MEMBER: u8 = 4;
const BY_SIZE: u8 = 5;
const TASK: u8 = 6;

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// Changes to the clusters of a collection.
pub struct ClusterChanges(pub(super) BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl ClusterChanges {
    /// The first task of clusters that are built anew for all stored documents, or only removed. The new ones
    /// get numbers above `last`.
    pub fn rebuild(collection: CollectionId, last: u64) -> ClusterChanges {
        let task = Queued { key: 0, place: 0, task: Task::Clear };
        let state = ClusterState { last, tasks: 1, ..ClusterState::default() };
        ClusterChanges(BTreeMap::from([
            (key(collection, STATE, &[]), Some(codec::write(&state))),
            (key(collection, TASK, &[&task.order()]), Some(task.value())),
        ]))
    }
}

fn key(collection: CollectionId, kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = codec::collection_prefix(collection).to_vec();
    key.push(kind);
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

/// The clusters of a collection in a view, with changes.
pub struct Clusters<'v, 's> {
    view: &'v View<'s>,
    collection: CollectionId,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'v, 's> Clusters<'v, 's> {
    /// The clusters of a collection, without changes.
    pub fn of(view: &'v View<'s>, collection: CollectionId) -> Clusters<'v, 's> {
        Clusters { view, collection, changes: BTreeMap::new() }
    }

    /// The changes.
    pub fn into_changes(self) -> ClusterChanges {
        ClusterChanges(self.changes)
    }

    fn key(&self, kind: u8, parts: &[&[u8]]) -> Vec<u8> {
        key(self.collection, kind, parts)
    }

    fn get<T>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self.changes.get(key) {
            Some(changed) => changed.as_deref().map(read).transpose(),
            None => self.view.get(Tree::Clusters, key.to_vec())?.map(|value| read(&value)).transpose(),
        }
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.changes.insert(key, Some(value));
    }

    fn remove(&mut self, key: Vec<u8>) {
        self.changes.insert(key, None);
    }

    /// The first entries below a prefix, after a key; each without the prefix.
    fn entries(&self, prefix: &[u8], after: Option<&[u8]>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let start = match after {
            Some(after) => Bound::Excluded([prefix, after].concat()),
            None => Bound::Included(prefix.to_vec()),
        };
        // The end is the next prefix of the same length.
        let mut end = prefix.to_vec();
        while end.pop_if(|last| *last == u8::MAX).is_some() {}
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let range = (start, Bound::Excluded(end));
        let mut found: Vec<Entry> = Vec::new();
        for entry in self.view.range(Tree::Clusters, range.clone()) {
            let (key, value) = entry?;
            if found.len() >= most {
                break;
            }
            if !self.changes.contains_key(&*key) {
                found.push((key.to_vec(), value.to_vec()));
            }
        }
        let changed = self.changes.range(range).filter_map(|(key, value)| Some((key, value.as_ref()?)));
        found.extend(changed.take(most).map(|(key, value)| (key.clone(), value.clone())));
        found.sort_unstable();
        found.truncate(most);
        Ok(found.into_iter().map(|(key, value)| (key[prefix.len()..].to_vec(), value)).collect())
    }

    /// The state.
    ///
    /// # Errors
    /// As for all methods here: [`StoreError`] if the disk fails or an entry does not read back.
    pub fn state(&self) -> Result<ClusterState, StoreError> {
        let state = self.get(&self.key(STATE, &[]), |value| codec::read(value, "cluster"))?;
        Ok(state.unwrap_or_default())
    }

    /// Changes the state.
    pub fn set_state(&mut self, state: &ClusterState) {
        self.put(self.key(STATE, &[]), codec::write(state));
    }

    /// A document; `None` if the clusters do not know it.
    pub fn document(&self, id: &DocumentId) -> Result<Option<Clustered>, StoreError> {
        self.get(&self.key(DOCUMENT, &[id.as_str().as_bytes()]), |value| {
            let DocumentLayout { hash, key, place, role } = codec::read(value, "cluster")?;
            Ok(Clustered { hash: hash_of(&hash)?, key, place, role })
        })
    }

    /// Changes a document, or removes it.
    pub fn set_document(&mut self, id: &DocumentId, document: Option<&Clustered>) {
        let at = self.key(DOCUMENT, &[id.as_str().as_bytes()]);
        let Some(&Clustered { hash, key, place, role }) = document else { return self.remove(at) };
        self.put(at, codec::write(&DocumentLayout { hash: bytes_of(hash), key, place, role }));
    }

    /// A cluster; `None` if it has no representative.
    pub fn cluster(&self, number: u64) -> Result<Option<Cluster>, StoreError> {
        self.get(&self.key(CLUSTER, &[&number.to_be_bytes()]), read_cluster)
    }

    /// Changes a cluster, or removes it.
    pub fn set_cluster(&mut self, number: u64, before: Option<&Cluster>, after: Option<&Cluster>) {
        let by_size = |cluster: &Cluster| [(!cluster.size).to_be_bytes(), number.to_be_bytes()].concat();
        if let Some(before) = before {
            self.remove(self.key(BY_SIZE, &[&by_size(before)]));
        }
        let at = self.key(CLUSTER, &[&number.to_be_bytes()]);
        let Some(after) = after else {
            return self.remove(at);
        };
        self.put(self.key(BY_SIZE, &[&by_size(after)]), Vec::new());
        let Rank { key, place, id } = &after.representative;
        let (id, size) = (id.as_str().to_owned(), after.size);
        self.put(at, codec::write(&ClusterLayout { key: *key, place: *place, id, size }));
    }

    /// The documents with this hash that represent clusters, and the numbers of these.
    pub fn representatives(&self, hash: Hash) -> Result<Vec<(DocumentId, u64)>, StoreError> {
        let found = self.get(&self.key(REPRESENTATIVE, &[&bytes_of(hash)]), read_representatives)?;
        Ok(found.unwrap_or_default())
    }

    /// Adds the document as the representative of this cluster.
    pub fn add_representative(&mut self, hash: Hash, id: &DocumentId, number: u64) -> Result<(), StoreError> {
        let mut found = self.representatives(hash)?;
        found.push((id.clone(), number));
        self.set_representatives(hash, &found);
        Ok(())
    }

    /// Removes a representative.
    pub fn remove_representative(&mut self, hash: Hash, id: &DocumentId) -> Result<(), StoreError> {
        let mut found = self.representatives(hash)?;
        found.retain(|(other, _)| other != id);
        self.set_representatives(hash, &found);
        Ok(())
    }

    fn set_representatives(&mut self, hash: Hash, found: &[(DocumentId, u64)]) {
        let key = self.key(REPRESENTATIVE, &[&bytes_of(hash)]);
        if found.is_empty() {
            return self.remove(key);
        }
        let layout: Vec<(&str, u64)> = found.iter().map(|(id, number)| (id.as_str(), *number)).collect();
        self.put(key, codec::write(&layout));
    }

    /// The stored hashes of representatives, and a document with each.
    pub fn all_representatives(
        &self,
    ) -> impl Iterator<Item = Result<(Hash, DocumentId), StoreError>> + use<> {
        let prefix = self.key(REPRESENTATIVE, &[]);
        let end = self.key(REPRESENTATIVE + 1, &[]);
        let range = (Bound::Included(prefix.clone()), Bound::Excluded(end));
        self.view.range(Tree::Clusters, range).map(move |entry| {
            let (key, value) = entry?;
            let (id, _) = read_representatives(&value)?.into_iter().next().ok_or(DAMAGED)?;
            Ok((hash_of(&key[prefix.len()..])?, id))
        })
    }

    /// The first members of a cluster in the order of their ranks, after `after`, and their distances.
    pub fn members(
        &self,
        number: u64,
        after: Option<&Rank>,
        most: usize,
    ) -> Result<Vec<(Rank, u32)>, StoreError> {
        let prefix = self.key(MEMBER, &[&number.to_be_bytes()]);
        let entries = self.entries(&prefix, after.map(Rank::write).as_deref(), most)?;
        let member = |(rank, value): Entry| {
            let distance = value.try_into().map(u32::from_be_bytes).map_err(|_| DAMAGED)?;
            Ok((Rank::read(&rank)?, distance))
        };
        entries.into_iter().map(member).collect()
    }

    /// Adds a member to a cluster.
    pub fn add_member(&mut self, number: u64, rank: &Rank, distance: u32) {
        let key = self.key(MEMBER, &[&number.to_be_bytes(), &rank.write()]);
        self.put(key, distance.to_be_bytes().to_vec());
    }

    /// Removes a member from a cluster.
    pub fn remove_member(&mut self, number: u64, rank: &Rank) {
        self.remove(self.key(MEMBER, &[&number.to_be_bytes(), &rank.write()]));
    }

    /// The largest clusters after this size and number: their sizes and numbers.
    pub fn by_size(&self, after: Option<(u64, u64)>, most: usize) -> Result<Vec<(u64, u64)>, StoreError> {
        let after = after.map(|(size, number)| [(!size).to_be_bytes(), number.to_be_bytes()].concat());
        let entries = self.entries(&self.key(BY_SIZE, &[]), after.as_deref(), most)?;
        let cluster = |(key, _): Entry| {
            let mut key = &key[..];
            Ok((!take_number(&mut key)?, take_number(&mut key)?))
        };
        entries.into_iter().map(cluster).collect()
    }

    /// The stored clusters before this number, the newest first.
    pub fn newest(
        &self,
        before: Option<u64>,
    ) -> impl Iterator<Item = Result<(u64, Cluster), StoreError>> + use<> {
        let start = self.key(CLUSTER, &[]);
        let end = before
            .map_or_else(|| self.key(CLUSTER + 1, &[]), |number| self.key(CLUSTER, &[&number.to_be_bytes()]));
        let skip = start.len();
        let range = (Bound::Included(start), Bound::Excluded(end));
        self.view.range(Tree::Clusters, range).rev().map(move |entry| {
            let (key, value) = entry?;
            Ok((codec::read_number(&key[skip..])?, read_cluster(&value)?))
        })
    }

    /// The first tasks.
    pub fn tasks(&self, state: &ClusterState, most: usize) -> Result<Vec<Queued>, StoreError> {
        if state.tasks == 0 {
            return Ok(Vec::new());
        }
        let before = [state.first.0.to_be_bytes(), state.first.1.to_be_bytes()].concat();
        let entries = self.entries(&self.key(TASK, &[]), Some(&before), most)?;
        entries.iter().map(|(order, value)| Queued::read(order, value)).collect()
    }

    /// Whether a task is stored that was not read.
    pub fn has_task(&self, order: &[u8]) -> Result<bool, StoreError> {
        Ok(self.get(&self.key(TASK, &[order]), |_| Ok(()))?.is_some())
    }

    /// Adds or changes a task.
    pub fn add_task(&mut self, queued: &Queued) {
        self.put(self.key(TASK, &[&queued.order()]), queued.value());
    }

    /// Removes a task.
    pub fn remove_task(&mut self, order: &[u8]) {
        self.remove(self.key(TASK, &[order]));
    }

    /// Removes up to `most` entries, but not the state and the task to do this. Returns whether none is left.
    pub fn clear(&mut self, most: usize) -> Result<bool, StoreError> {
        let task = Queued { key: 0, place: 0, task: Task::Clear };
        let kept = [vec![STATE], [&[TASK][..], &task.order()].concat()];
        let prefix = codec::collection_prefix(self.collection);
        let found = self.entries(&prefix, None, most + kept.len())?;
        let mut removed = found.into_iter().filter(|(key, _)| !kept.contains(key)).take(most).peekable();
        let is_empty = removed.peek().is_none();
        for (key, _) in removed {
            self.remove([&prefix[..], &key].concat());
        }
        Ok(is_empty)
    }
}
