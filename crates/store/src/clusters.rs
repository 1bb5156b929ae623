//! Clusters on disk: which copies represent each cluster, which are its members, and the tasks that are left
//! to do.
//!
//! [`Clusters`] reads a view, overlaid with changes that are not durable yet. The keys of the tree begin with
//! the number of the collection and a byte:
//!
//! ```text
//! 0                           the state
//! 1  id                       a document: its hash, its rank, whether it is marked
//! 2  u64 number               a cluster: the copies that represent it, their first rank, its size
//! 3  hash                     the documents with this hash that represent clusters, and their numbers
//! 4  u64 number, rank         a part of copies with this first rank in a cluster that others represent
//! 9  !u64 size, rank          the clusters by size, and by the rank of their representatives
//! 10 !u64 place, id           the clusters by the arrival of their representatives, and their numbers
//! 6  u64 key, u64 place, task a task
//! 7  copies                   what is decided about these copies
//! 8  copies, rank             one of several copies
//! ```
//!
//! Copies are decided together, so that a change costs the same for two and for a million: their ranks are in
//! order, and the first one takes the place of a representative that goes.
//!
//! *Absent*: the rule (`engine/clustering`).

mod orders;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::cluster_records::{
    Cluster, ClusterState, Clustered, Copies, CopiesOf, DAMAGED, Membership, Part, PartOf, Queued, Rank,
    Task, bytes_of, hash_of,
};
use super::codec;
use super::error::StoreError;
use super::trees::Tree;
use super::view::View;
use lookalike_hash::{CollectionId, DocumentId, Hash};
pub use orders::ClusterPlace;

const STATE: u8 = 0;
const DOCUMENT: u8 = 1;
const CLUSTER: u8 = 2;
const REPRESENTATIVE: u8 = 3;
const MEMBER: u8 = 4;
const TASK: u8 = 6;
const COPIES: u8 = 7;
const COPY: u8 = 8;

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// Changes to the clusters of a collection.
pub struct ClusterChanges(pub(super) BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl ClusterChanges {
    /// The first task of clusters that are built anew for all stored documents, or only removed. The new ones
    /// get numbers above `last`.
    pub fn rebuild(collection: CollectionId, last: u64) -> ClusterChanges {
        let task = Queued { key: 0, place: 0, task: Task::Clear { after: None } };
        let state = ClusterState { last, tasks: 1, ..ClusterState::default() };
        ClusterChanges(BTreeMap::from([
            (key(collection, STATE, &[]), Some(codec::write(&state))),
            (key(collection, TASK, &[&task.order()]), Some(task.value())),
        ]))
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.0.len()
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
    /// Changed clusters: what is stored, and what will be. A batch may change the size of one often, and each
    /// size has a key.
    changed: BTreeMap<u64, (Option<Cluster>, Option<Cluster>)>,
    /// The number of entries that were read.
    read: Cell<u64>,
}

impl<'v, 's> Clusters<'v, 's> {
    /// The clusters of a collection, without changes.
    pub fn of(view: &'v View<'s>, collection: CollectionId) -> Clusters<'v, 's> {
        Clusters { view, collection, changes: BTreeMap::new(), changed: BTreeMap::new(), read: Cell::new(0) }
    }

    /// The changes, and the number of entries that were read.
    pub fn into_changes(mut self) -> (ClusterChanges, u64) {
        for (number, (before, after)) in std::mem::take(&mut self.changed) {
            let of = |cluster: &Option<Cluster>| -> Vec<_> {
                cluster.iter().flat_map(|cluster| self.orders(cluster)).collect()
            };
            let (gone, new) = (of(&before), of(&after));
            for key in gone.iter().filter(|key| !new.contains(key)) {
                self.remove(key.clone());
            }
            for key in new.into_iter().filter(|key| !gone.contains(key)) {
                self.put(key, codec::write(&number));
            }
            let at = self.key(CLUSTER, &[&number.to_be_bytes()]);
            match after {
                Some(after) => self.put(at, codec::write(&after)),
                None => self.remove(at),
            }
        }
        (ClusterChanges(self.changes), self.read.get())
    }

    fn key(&self, kind: u8, parts: &[&[u8]]) -> Vec<u8> {
        key(self.collection, kind, parts)
    }

    fn get<T>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.read.set(self.read.get() + 1);
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
        let found = self.within((start, Bound::Excluded(after_all(prefix))), most, false)?;
        Ok(found.into_iter().map(|(key, value)| (key[prefix.len()..].to_vec(), value)).collect())
    }

    /// The first entries of a range of keys, or the last ones, the last one first.
    fn within(
        &self,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        most: usize,
        is_reverse: bool,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut found: Vec<Entry> = Vec::new();
        if let (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) = &range
            && start >= end
        {
            return Ok(found);
        }
        let mut stored = self.view.range(Tree::Clusters, range.clone());
        while found.len() < most
            && let Some(entry) = if is_reverse { stored.next_back() } else { stored.next() }
        {
            let (key, value) = entry?;
            self.read.set(self.read.get() + 1);
            if !self.changes.contains_key(&*key) {
                found.push((key.to_vec(), value.to_vec()));
            }
        }
        let changed = self.changes.range(range);
        let changed = changed.filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        if is_reverse {
            found.extend(changed.rev().take(most));
            found.sort_unstable_by(|a, b| b.cmp(a));
        } else {
            found.extend(changed.take(most));
            found.sort_unstable();
        }
        found.truncate(most);
        Ok(found)
    }

    /// The state.
    ///
    /// # Errors
    /// As for all methods here: [`StoreError`] if the disk fails or an entry does not read back.
    pub fn state(&self) -> Result<ClusterState, StoreError> {
        Ok(self
            .get(&self.key(STATE, &[]), |value| codec::read::<ClusterState>(value, "cluster"))?
            .unwrap_or_default())
    }

    /// Changes the state.
    pub fn set_state(&mut self, state: &ClusterState) {
        self.put(self.key(STATE, &[]), codec::write(state));
    }

    /// A document.
    pub fn document(&self, id: &DocumentId) -> Result<Option<Clustered>, StoreError> {
        self.get(&self.key(DOCUMENT, &[id.as_str().as_bytes()]), |value| codec::read(value, "cluster"))
    }

    /// Changes a document, or removes it.
    pub fn set_document(&mut self, id: &DocumentId, document: Option<&Clustered>) {
        let at = self.key(DOCUMENT, &[id.as_str().as_bytes()]);
        let Some(document) = document else { return self.remove(at) };
        self.put(at, codec::write(document));
    }

    /// The decision about copies; `None` if there is no such document.
    pub fn copies(&self, of: &CopiesOf) -> Result<Option<Copies>, StoreError> {
        self.get(&self.key(COPIES, &[&of.write()]), |value| codec::read(value, "cluster"))
    }

    /// All copies with this hash after these ones.
    pub fn all_copies(
        &self,
        hash: Hash,
        after: Option<&CopiesOf>,
        most: usize,
    ) -> Result<Vec<(CopiesOf, Copies)>, StoreError> {
        let prefix = self.key(COPIES, &[&CopiesOf::prefix(hash)]);
        let skip = prefix.len() - 1 - bytes_of(hash).len();
        let start = match after {
            Some(after) => Bound::Excluded(self.key(COPIES, &[&after.write()])),
            None => Bound::Included(prefix.clone()),
        };
        let entries = self.within((start, Bound::Excluded(after_all(&prefix))), most, false)?;
        let copies =
            |(key, value): Entry| Ok((CopiesOf::read(&key[skip..])?, codec::read(&value, "cluster")?));
        entries.into_iter().map(copies).collect()
    }

    /// Replaces what is decided about copies, and changes their clusters accordingly: sizes and members.
    /// Clusters that do not exist any more are left out.
    pub fn set_copies(
        &mut self,
        of: &CopiesOf,
        before: Option<&Copies>,
        after: Option<&Copies>,
    ) -> Result<(), StoreError> {
        let at = self.key(COPIES, &[&of.write()]);
        match after {
            Some(after) => self.put(at, codec::write(&after)),
            None => self.remove(at),
        }
        let mut sizes: BTreeMap<u64, i64> = BTreeMap::new();
        for (copies, sign) in
            before.map(|copies| (copies, -1)).into_iter().chain(after.map(|copies| (copies, 1)))
        {
            for part in &copies.parts {
                if let Some(of) = part.of {
                    *sizes.entry(of.cluster).or_default() += sign * i64::try_from(part.count).unwrap_or(0);
                }
            }
        }
        for (number, difference) in sizes.into_iter().filter(|(_, difference)| *difference != 0) {
            if let Some(cluster) = self.cluster(number)? {
                let size = cluster.size.saturating_add_signed(difference);
                let after = Cluster { size, ..cluster.clone() };
                self.set_cluster(number, Some(cluster), Some(after));
            }
        }
        let (before, after) = (self.members_of(of, before), self.members_of(of, after));
        for (key, _) in before.difference(&after) {
            self.remove(key.clone());
        }
        for (key, value) in after.difference(&before) {
            self.put(key.clone(), value.clone());
        }
        Ok(())
    }

    /// The entries of the parts of copies that others represent.
    fn members_of(&self, of: &CopiesOf, copies: Option<&Copies>) -> BTreeSet<Entry> {
        let parts = copies.filter(|copies| !copies.represents).into_iter().flat_map(|copies| &copies.parts);
        let entry = |part: &Part| {
            let Membership { cluster, distance } = part.of?;
            let key = self.key(MEMBER, &[&cluster.to_be_bytes(), &part.first.write()]);
            Some((key, codec::write(&(of.write(), distance, part.count > 1))))
        };
        parts.filter_map(entry).collect()
    }

    /// Adds a document to several copies.
    pub fn add_copy(&mut self, of: &CopiesOf, rank: &Rank) {
        self.put(self.key(COPY, &[&of.write(), &rank.write()]), Vec::new());
    }

    /// Removes a document from several copies.
    pub fn remove_copy(&mut self, of: &CopiesOf, rank: &Rank) {
        self.remove(self.key(COPY, &[&of.write(), &rank.write()]));
    }

    /// The first of several copies in a range of ranks, or the last ones, the last one first.
    pub fn ranks(
        &self,
        of: &CopiesOf,
        (from, before): (Bound<&Rank>, Option<&Rank>),
        most: usize,
        is_reverse: bool,
    ) -> Result<Vec<Rank>, StoreError> {
        let prefix = self.key(COPY, &[&of.write()]);
        let of = |rank: &Rank| [&prefix[..], &rank.write()].concat();
        let start = match from {
            Bound::Unbounded => Bound::Included(prefix.clone()),
            from => from.map(of),
        };
        let end = before.map_or_else(|| after_all(&prefix), of);
        let entries = self.within((start, Bound::Excluded(end)), most, is_reverse)?;
        entries.into_iter().map(|(key, _)| Rank::read(&key[prefix.len()..])).collect()
    }

    /// A cluster; `None` if it has no representative.
    pub fn cluster(&self, number: u64) -> Result<Option<Cluster>, StoreError> {
        match self.changed.get(&number) {
            Some((_, now)) => Ok(now.clone()),
            None => {
                self.get(&self.key(CLUSTER, &[&number.to_be_bytes()]), |value| codec::read(value, "cluster"))
            }
        }
    }

    /// Changes a cluster that is `before` now, or removes it.
    pub fn set_cluster(&mut self, number: u64, before: Option<Cluster>, after: Option<Cluster>) {
        self.changed.entry(number).or_insert((before, None)).1 = after;
    }

    /// The documents with this hash that represent clusters, and the numbers of these.
    pub fn representatives(&self, hash: Hash) -> Result<Vec<(DocumentId, u64)>, StoreError> {
        let found = self.get(&self.key(REPRESENTATIVE, &[&bytes_of(hash)]), |value| {
            codec::read::<Vec<(DocumentId, u64)>>(value, "cluster")
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Adds the document as the representative of this cluster.
    pub fn add_representative(&mut self, hash: Hash, id: &DocumentId, number: u64) -> Result<(), StoreError> {
        let mut found = self.representatives(hash)?;
        found.push((id.clone(), number));
        self.set_representatives(hash, &found);
        Ok(())
    }

    /// Makes another document with the hash the representative of this cluster.
    pub fn rename_representative(
        &mut self,
        hash: Hash,
        number: u64,
        id: &DocumentId,
    ) -> Result<(), StoreError> {
        let mut found = self.representatives(hash)?;
        found.iter_mut().filter(|(_, of)| *of == number).for_each(|(named, _)| *named = id.clone());
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
            let representatives: Vec<(DocumentId, u64)> = codec::read(&value, "cluster")?;
            let (id, _) = representatives.into_iter().next().ok_or(DAMAGED)?;
            Ok((hash_of(&key[prefix.len()..])?, id))
        })
    }

    /// The parts of a cluster that others represent, in the order of their first ranks, after this one.
    pub fn parts(&self, number: u64, after: Option<&Rank>, most: usize) -> Result<Vec<PartOf>, StoreError> {
        let prefix = self.key(MEMBER, &[&number.to_be_bytes()]);
        let entries = self.entries(&prefix, after.map(Rank::write).as_deref(), most)?;
        entries.iter().map(|(rank, value)| PartOf::read(rank, value)).collect()
    }

    /// The stored parts of a cluster that others represent, in the order of their first ranks, without
    /// changes.
    pub fn all_parts(&self, number: u64) -> impl Iterator<Item = Result<PartOf, StoreError>> + use<> {
        let prefix = self.key(MEMBER, &[&number.to_be_bytes()]);
        let range = (Bound::Included(prefix.clone()), Bound::Excluded(after_all(&prefix)));
        self.view.range(Tree::Clusters, range).map(move |entry| {
            let (key, value) = entry?;
            PartOf::read(&key[prefix.len()..], &value)
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

    /// Removes up to `most` entries after a key, but not the state and the task to do this. Returns the last
    /// of these keys; `None` if no entry is left. Each call goes on after the last one: removed entries stay
    /// in the tree until compaction, and take time.
    pub fn clear(&mut self, after: Option<&[u8]>, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let task = Queued { key: 0, place: 0, task: Task::Clear { after: None } };
        let kept = [vec![STATE], [&[TASK][..], &task.order()].concat()];
        let prefix = codec::collection_prefix(self.collection);
        let found = self.entries(&prefix, after, most)?;
        let last = found.last().map(|(key, _)| key.clone());
        for (key, _) in found.into_iter().filter(|(key, _)| !kept.contains(key)) {
            self.remove([&prefix[..], &key].concat());
        }
        Ok(last)
    }
}

/// The first key after all those with a prefix.
fn after_all(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while end.pop_if(|last| *last == u8::MAX).is_some() {}
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
