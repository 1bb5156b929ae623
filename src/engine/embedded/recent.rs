//! Hashes added lately: what a check for near-duplicates made a moment ago cannot have seen.
//!
//! The writer decides about near-duplicates, one operation after the other. To look k bits around may take
//! a millisecond when k is large, and all writes would wait for it. So the caller looks first, beside the
//! writer, and remembers after which change; the writer then compares only what was added since.

use std::collections::VecDeque;

use crate::ids::{CollectionId, Hash, Sequence};

/// How many are remembered: several batches' worth. A check older than that is made again.
const REMEMBERED: usize = 65_536;

/// The last hashes added, by the number of the change that added them.
#[derive(Default)]
pub(super) struct Recent {
    added: VecDeque<(Sequence, CollectionId, Hash)>,
    /// Every addition after this change is remembered.
    complete_after: Sequence,
}

impl Recent {
    /// Nothing remembered, at the start of a process whose last change is `last`.
    pub(super) fn new(last: Sequence) -> Recent {
        Recent { added: VecDeque::new(), complete_after: last }
    }

    pub(super) fn add(&mut self, number: Sequence, collection: CollectionId, hash: Hash) {
        self.added.push_back((number, collection, hash));
        if self.added.len() > REMEMBERED
            && let Some((forgotten, _, _)) = self.added.pop_front()
        {
            self.complete_after = forgotten;
        }
    }

    /// Forgets what changes after `last` were to add: they were not made, and others get their numbers.
    pub(super) fn forget_after(&mut self, last: Sequence) {
        while self.added.back().is_some_and(|(number, _, _)| *number > last) {
            self.added.pop_back();
        }
    }

    /// The hashes added to a collection after change `seen` that are near; `None` if that is longer ago than is
    /// remembered.
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
    fn what_was_added_since_is_found_and_what_is_forgotten_is_said() {
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
        recent.forget_after(Sequence(11));
        assert_eq!(near(&recent, 10), Some(vec![Hash::from_u64(3)]));
        recent.add(Sequence(12), here, Hash::from_u64(0b1));
        assert_eq!(near(&recent, 11), Some(vec![Hash::from_u64(1)]));
        for number in 0..REMEMBERED as u64 {
            recent.add(Sequence(100 + number), here, Hash::from_u64(u64::MAX));
        }
        assert_eq!(near(&recent, 11), None);
        assert_eq!(near(&recent, 12), Some(vec![]));
    }
}
