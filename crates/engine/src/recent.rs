//! Recently added hashes: those that an earlier check for near-duplicates may have missed.
//!
//! The writer decides about near-duplicates one operation at a time. A search may take a millisecond if k is
//! large, and would delay all writes. So the caller searches first, concurrently with the writer, and
//! records the last change that it is certain to have seen. The writer compares only the hashes added after
//! that change.

use std::collections::VecDeque;

use lookalike_hash::{CollectionId, Hash, Sequence};

/// Number of retained hashes: those of several batches. An older check is repeated by the writer.
const CAPACITY: usize = 65_536;

/// The most recently added hashes, each with the number of the change that added it.
#[derive(Default)]
pub(super) struct Recent {
    added: VecDeque<(Sequence, CollectionId, Hash)>,
    /// Every hash added after this change is retained.
    complete_after: Sequence,
}

impl Recent {
    /// No hashes, at the start of a process whose last change is `last`.
    pub(super) fn new(last: Sequence) -> Recent {
        Recent { added: VecDeque::new(), complete_after: last }
    }

    pub(super) fn add(&mut self, number: Sequence, collection: CollectionId, hash: Hash) {
        self.added.push_back((number, collection, hash));
        if self.added.len() > CAPACITY
            && let Some((removed, _, _)) = self.added.pop_front()
        {
            self.complete_after = removed;
        }
    }

    /// Removes the hashes of changes after `last`: these changes were not committed, and others get their
    /// numbers.
    pub(super) fn remove_after(&mut self, last: Sequence) {
        while self.added.back().is_some_and(|(number, _, _)| *number > last) {
            self.added.pop_back();
        }
    }

    /// The near hashes added to a collection after change `seen`; `None` if that is not known any more.
    pub(super) fn since(
        &self,
        seen: Sequence,
        collection: CollectionId,
        is_near: impl Fn(Hash) -> bool,
    ) -> Option<Vec<Hash>> {
        if seen < self.complete_after {
            return None;
        }
        let from = self.added.partition_point(|(number, _, _)| *number <= seen);
        let mut found: Vec<Hash> = self
            .added
            .range(from..)
            .filter(|(_, of, _)| *of == collection)
            .map(|(_, _, hash)| *hash)
            .filter(|hash| is_near(*hash))
            .collect();
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_hashes_are_found_until_they_are_evicted() {
        let mut recent = Recent::new(Sequence(10));
        let here = CollectionId(1);
        let near = |recent: &Recent, seen| {
            recent.since(Sequence(seen), here, |hash| hash.distance(Hash::from_u64(0)) <= Some(2))
        };
        assert_eq!(near(&recent, 9), None);
        assert_eq!(near(&recent, 10), Some(vec![]));
        recent.add(Sequence(11), here, Hash::from_u64(0b11));
        recent.add(Sequence(12), here, Hash::from_u64(0b111));
        recent.add(Sequence(13), CollectionId(2), Hash::from_u64(0));
        recent.add(Sequence(14), here, Hash::from_u64(0b1));
        assert_eq!(near(&recent, 10), Some(vec![Hash::from_u64(1), Hash::from_u64(3)]));
        assert_eq!(near(&recent, 11), Some(vec![Hash::from_u64(1)]));
        recent.remove_after(Sequence(11));
        assert_eq!(near(&recent, 10), Some(vec![Hash::from_u64(3)]));
        recent.add(Sequence(12), here, Hash::from_u64(0b1));
        assert_eq!(near(&recent, 11), Some(vec![Hash::from_u64(1)]));
        for number in 0..CAPACITY as u64 {
            recent.add(Sequence(100 + number), here, Hash::from_u64(u64::MAX));
        }
        assert_eq!(near(&recent, 11), None);
        assert_eq!(near(&recent, 12), Some(vec![]));
    }
}
