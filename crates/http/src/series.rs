//! Which collections have series of their own in the metrics.
//!
//! The first [`OWN`] collections have, in the order in which they were created. The later ones share the
//! label [`OTHERS`], so that a client that creates collections cannot fill the monitoring system. A place
//! that a deletion frees goes to the next collection that is created. A collection that has begun among the
//! others stays there: if it moved, their sum would fall, which looks like a restart. For the same reason the
//! counts of the others contain those of deleted ones.
//!
//! Not here: the values of the series (`gauges`).

use std::collections::BTreeMap;

use parking_lot::Mutex;

use lookalike_hash::CollectionId;
use lookalike_service::CollectionInfo;

/// The number of collections with series of their own.
const OWN: usize = 100;
/// The label of the others, which no collection can have as its name.
pub(super) const OTHERS: &str = "_other";

/// The collections that have been seen.
#[derive(Default)]
pub struct Series(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// The collections that exist, and the counts of those that have no series.
    known: BTreeMap<CollectionId, Option<Counts>>,
    /// The counts of the others that were deleted; `None` while there were no others.
    deleted: Option<Counts>,
}

/// The numbers of queries and of written documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) queries: u64,
    pub(super) written: u64,
}

impl Counts {
    fn plus(self, more: Counts) -> Counts {
        Counts { queries: self.queries + more.queries, written: self.written + more.written }
    }
}

/// The collections as the metrics show them.
pub(super) struct Shown {
    /// Those with series of their own.
    pub(super) own: Vec<CollectionInfo>,
    /// The others that exist.
    pub(super) others: Vec<CollectionInfo>,
    /// The counts of all others since the start, deleted ones too; `None` if there were none.
    pub(super) counts: Option<Counts>,
}

impl Series {
    /// Divides the collections that exist.
    pub(super) fn divide(&self, collections: Vec<CollectionInfo>) -> Shown {
        let mut seen = self.0.lock();
        let now: BTreeMap<CollectionId, Counts> = collections
            .iter()
            .map(|info| (info.id, Counts { queries: info.queries, written: info.written }))
            .collect();
        seen.update(&now);
        let has_own = |info: &CollectionInfo| seen.known.get(&info.id).is_some_and(Option::is_none);
        let (own, others) = collections.into_iter().partition(has_own);
        Shown { own, others, counts: seen.counts() }
    }
}

impl Seen {
    /// Takes the counts of the collections that exist.
    fn update(&mut self, now: &BTreeMap<CollectionId, Counts>) {
        let Seen { known, deleted } = self;
        known.retain(|id, counts| {
            match (now.get(id), counts) {
                (Some(now), Some(counts)) => *counts = *now,
                (None, Some(counts)) => *deleted = Some(deleted.unwrap_or_default().plus(*counts)),
                (_, None) => {}
            }
            now.contains_key(id)
        });
        let own = known.values().filter(|counts| counts.is_none()).count();
        // A collection that a reindex or a restore reveals has a smaller number than others.
        let created: Vec<(CollectionId, Counts)> =
            now.iter().filter(|(id, _)| !known.contains_key(id)).map(|(id, counts)| (*id, *counts)).collect();
        for (place, (id, counts)) in (own..).zip(created) {
            known.insert(id, (place >= OWN).then_some(counts));
        }
    }

    fn counts(&self) -> Option<Counts> {
        let others = self.known.values().flatten().copied();
        self.deleted.into_iter().chain(others).reduce(Counts::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collections that exist, each with ten times its number as counts.
    fn existing(ids: impl Iterator<Item = u32>) -> BTreeMap<CollectionId, Counts> {
        let counts = |id: u32| Counts { queries: u64::from(id) * 10, written: u64::from(id) };
        ids.map(|id| (CollectionId(id), counts(id))).collect()
    }

    fn own(seen: &Seen) -> Vec<u32> {
        seen.known.iter().filter(|(_, counts)| counts.is_none()).map(|(id, _)| id.0).collect()
    }

    #[test]
    fn the_first_collections_have_series_and_counts_of_the_others_never_fall() {
        let mut seen = Seen::default();
        seen.update(&existing(1..=100));
        assert_eq!((own(&seen).len(), seen.counts()), (100, None));
        seen.update(&existing(1..=102));
        assert_eq!(own(&seen), (1..=100).collect::<Vec<_>>());
        assert_eq!(seen.counts(), Some(Counts { queries: 2_030, written: 203 }));
        // One with series and one of the others are deleted: nobody moves.
        seen.update(&existing((2..=102).filter(|id| *id != 102)));
        assert_eq!(own(&seen), (2..=100).collect::<Vec<_>>());
        assert_eq!(seen.counts(), Some(Counts { queries: 2_030, written: 203 }));
        // The free place goes to a new collection.
        seen.update(&existing((2..=101).chain(103..=104)));
        assert_eq!(own(&seen), (2..=100).chain([103]).collect::<Vec<_>>());
        assert_eq!(seen.counts(), Some(Counts { queries: 3_070, written: 307 }));
        // One with a smaller number is revealed later: the first free place is its own.
        seen.update(&existing((3..=100).chain(103..=104)));
        seen.update(&existing((1..=100).chain(103..=104).filter(|id| *id != 2)));
        assert!(own(&seen).contains(&1));
        seen.update(&existing(std::iter::empty()));
        assert_eq!((own(&seen).len(), seen.counts()), (0, Some(Counts { queries: 3_070, written: 307 })));
    }
}
