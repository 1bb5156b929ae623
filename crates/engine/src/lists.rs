//! The posting lists in the plan of a group: those of fingerprints, and those of grams.
//!
//! The plan overlays the stored lists with the changes of the group.

use std::collections::{BTreeMap, BTreeSet};

use super::planning::Plan;
use super::registry::Collection;
use lookalike_hash::{CollectionId, DocumentId, Gram, Hash};
use lookalike_store::{Lists, Posting, PostingList, RowHead, StoreError};

/// The key of a posting list: its kind, its collection, and the hash.
pub(super) type ListKey = (Lists, CollectionId, Hash);

/// The keys of the posting lists of grams.
pub(super) fn gram_keys(grams: &[Gram]) -> BTreeSet<Hash> {
    grams.iter().map(|gram| Hash::from_u64(gram.hash)).collect()
}

impl Plan<'_> {
    /// Reads the posting lists of grams ahead, in the order of their keys, in which neighbours in a memtable
    /// are read one after the other.
    pub(super) fn read_grams(&mut self, of: CollectionId, mut grams: Vec<Hash>) -> Result<(), StoreError> {
        grams.sort_unstable();
        grams.dedup();
        for gram in grams {
            let list = self.view.posting_list(Lists::Grams, of, gram)?;
            self.read_ahead.insert((Lists::Grams, of, gram), list);
        }
        Ok(())
    }

    /// Adds the changed lists to the batch, in the order of their keys.
    pub(super) fn write_lists(&mut self) {
        let mut changed: Vec<_> = self.postings.iter().collect();
        changed.sort_unstable_by_key(|(key, _)| **key);
        for (&(lists, of, hash), list) in changed {
            self.batch.set_posting_list(lists, of, hash, list.as_ref());
        }
        let mut shared: Vec<_> = self.shared.iter().collect();
        shared.sort_unstable_by_key(|(key, _)| **key);
        for (&(lists, of, hash), postings) in shared {
            for (id, posting) in postings {
                match posting {
                    Some(posting) => self.batch.add_shared(lists, of, hash, posting),
                    None => self.batch.remove_shared(lists, of, hash, id),
                }
            }
        }
    }

    /// Changes the posting lists of grams from those of the earlier version of a document to those of this
    /// one.
    pub(super) fn change_grams(
        &mut self,
        collection: &Collection,
        before: Option<&RowHead>,
        grams: &[Gram],
        posting: &Posting,
    ) -> Result<(), StoreError> {
        let of = collection.id;
        let earlier = before.map(|before| gram_keys(&before.grams)).unwrap_or_default();
        let now = gram_keys(grams);
        let is_unchanged = before.is_some_and(|before| {
            before.metadata.is_some() == posting.has_metadata
                && before.lifetime.end_ms() == posting.expires_ms
        });
        for &gone in earlier.difference(&now) {
            self.remove_posting(collection, (Lists::Grams, of, gone), &posting.id)?;
        }
        for &gram in &now {
            let already = earlier.contains(&gram);
            if !(already && is_unchanged) {
                self.add_posting(collection, (Lists::Grams, of, gram), posting.clone(), already)?;
            }
        }
        Ok(())
    }

    /// Adds a document to a posting list, or replaces its posting there (`already`). Returns the hash if it
    /// is new in the collection.
    pub(super) fn add_posting(
        &mut self,
        collection: &Collection,
        key: ListKey,
        posting: Posting,
        already: bool,
    ) -> Result<Option<Hash>, StoreError> {
        match self.posting_list(collection, key)? {
            None => {
                self.set_posting_list(key, Some(PostingList::One(posting)));
                return Ok(Some(key.2));
            }
            Some(PostingList::One(other)) if other.id == posting.id => {
                // A list of a fingerprint counts as changed also if only the row did: it may be cached.
                if other != posting || key.0 == Lists::Hashes {
                    self.set_posting_list(key, Some(PostingList::One(posting)));
                }
            }
            Some(PostingList::One(other)) => {
                self.set_posting_list(key, Some(PostingList::Many(2)));
                self.add_shared(key, other);
                self.add_shared(key, posting);
            }
            Some(PostingList::Many(postings)) => {
                if !already {
                    self.set_posting_list(key, Some(PostingList::Many(postings + 1)));
                }
                self.add_shared(key, posting);
            }
        }
        Ok(None)
    }

    /// Removes a document from a posting list. Returns the hash if no document has it now.
    pub(super) fn remove_posting(
        &mut self,
        collection: &Collection,
        key: ListKey,
        id: &DocumentId,
    ) -> Result<Option<Hash>, StoreError> {
        // The remaining postings are counted, not searched: a list may have a million, and each removal
        // would read it again.
        if let Some(PostingList::Many(postings)) = self.posting_list(collection, key)? {
            self.shared.entry(key).or_default().insert(id.clone(), None);
            if postings > 1 {
                self.set_posting_list(key, Some(PostingList::Many(postings - 1)));
                return Ok(None);
            }
        }
        self.set_posting_list(key, None);
        Ok(Some(key.2))
    }

    fn add_shared(&mut self, key: ListKey, posting: Posting) {
        self.shared.entry(key).or_default().insert(posting.id.clone(), Some(posting));
    }

    fn set_posting_list(&mut self, key: ListKey, posting_list: Option<PostingList>) {
        self.postings.insert(key, posting_list);
    }

    fn posting_list(&self, collection: &Collection, key: ListKey) -> Result<Option<PostingList>, StoreError> {
        let (lists, of, hash) = key;
        match self.postings.get(&key).or_else(|| self.read_ahead.get(&key)) {
            Some(touched) => Ok(touched.clone()),
            // The index has the hash of every durable document. Checking it first avoids a disk read.
            None if lists == Lists::Hashes && !collection.index.contains(hash) => Ok(None),
            None => self.view.posting_list(lists, of, hash),
        }
    }

    /// The first postings of a list in id order after `after`, without expired ones.
    pub(super) fn first_postings(
        &self,
        collection: &Collection,
        key: ListKey,
        after: Option<&DocumentId>,
        most: usize,
    ) -> Result<Vec<Posting>, StoreError> {
        let is_live = |posting: &Posting| {
            !posting.has_lapsed(self.now_ms) && after.is_none_or(|after| posting.id > *after)
        };
        match self.posting_list(collection, key)? {
            None => return Ok(Vec::new()),
            Some(PostingList::One(posting)) => {
                return Ok(Some(posting).filter(is_live).into_iter().collect());
            }
            Some(PostingList::Many(_)) => {}
        }
        let touched = self.shared.get(&key);
        let added = touched.into_iter().flat_map(BTreeMap::values).flatten();
        let mut postings: Vec<Posting> = added.filter(|posting| is_live(posting)).cloned().collect();
        let untouched = |id: &DocumentId| !touched.is_some_and(|touched| touched.contains_key(id));
        let mut stored = 0;
        let (lists, of, hash) = key;
        for posting in self.view.postings(lists, of, hash, after)? {
            let posting = posting?;
            if untouched(&posting.id) && is_live(&posting) {
                postings.push(posting);
                stored += 1;
                if stored >= most {
                    break;
                }
            }
        }
        postings.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        postings.truncate(most);
        Ok(postings)
    }

    /// The first live postings of a gram.
    pub(super) fn gram_postings(
        &self,
        collection: &Collection,
        gram: Hash,
        most: usize,
    ) -> Result<Vec<Posting>, StoreError> {
        self.first_postings(collection, (Lists::Grams, collection.id, gram), None, most)
    }
}
