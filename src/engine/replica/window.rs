//! The window: the hashes of the last entries of the log, of all partitions.
//!
//! A server that stores a document with a duplicate rule asks all partitions first. Its entry carries the
//! position up to which every answer was complete. Hashes that were stored after it are in the window of
//! every server, so every server decides alike whether the entry is refused.
//!
//! *Guarantees*
//! - The decisions follow from the entries of the log alone, not from what a server holds, when it was
//!   started, or which entries it applied together.
//! - Every hash that an entry after the position has counts: also one that was refused, whose condition did
//!   not hold, or that was deleted again. The server that offered the document then asks again. So the window
//!   is the same for a server that fills it from its last entries, and cannot decide those again.
//!
//! *Absent*: the documents up to the position, which the server has compared before.

use std::collections::VecDeque;

use crate::engine::{DuplicateRule, Operation};
use crate::ids::{CollectionId, DocumentId, Hash};

/// The bounds of a window. All servers must have the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) entries: usize,
    pub(super) hashes: usize,
    /// Bytes of the entries in the log, which must keep them for servers that start.
    pub(super) bytes: usize,
}

/// At a thousand entries a second, a second of questions to all partitions fits.
pub(super) const BOUNDS: Bounds = Bounds { entries: 1_024, hashes: 65_536, bytes: 32 << 20 };

/// The hashes of the last entries.
#[derive(Debug)]
pub(super) struct Window {
    bounds: Bounds,
    kept: VecDeque<Kept>,
    hashes: usize,
    bytes: usize,
    /// Every hash that was offered after this position is in the window.
    complete_after: u64,
}

/// The hashes of an entry.
#[derive(Debug)]
struct Kept {
    position: u64,
    bytes: usize,
    offered: Vec<(CollectionId, Hash, DocumentId)>,
}

impl Window {
    /// A window without entries, which the entries after a position will fill.
    pub(super) fn after(position: u64, bounds: Bounds) -> Window {
        Window { bounds, kept: VecDeque::new(), hashes: 0, bytes: 0, complete_after: position }
    }

    /// The position after which every hash is in the window.
    pub(super) fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// Takes the next entry, which has this size in the log. Returns for each of its operations whether it is
    /// refused.
    pub(super) fn admit(
        &mut self,
        (position, bytes): (u64, usize),
        writes: &[(CollectionId, Vec<Operation>)],
    ) -> Vec<bool> {
        let mut refused = Vec::new();
        let mut offered = Vec::new();
        for (collection, operations) in writes {
            for operation in operations {
                let Operation::Put { document, unless, .. } = operation else {
                    refused.push(false);
                    continue;
                };
                let (hash, id) = (document.row.hash, &document.id);
                let is_refused = unless.is_some_and(|rule| {
                    rule.seen.is_none_or(|seen| seen < self.complete_after)
                        || self.is_near(&offered, *collection, (hash, id), rule)
                });
                offered.push((*collection, hash, id.clone()));
                refused.push(is_refused);
            }
        }
        self.hashes += offered.len();
        self.bytes += bytes;
        self.kept.push_back(Kept { position, bytes, offered });
        self.evict();
        refused
    }

    /// Whether a hash of another document, offered after the position of the rule, lies within its distance.
    fn is_near(
        &self,
        of_entry: &[(CollectionId, Hash, DocumentId)],
        collection: CollectionId,
        (hash, id): (Hash, &DocumentId),
        rule: DuplicateRule,
    ) -> bool {
        let from = self.kept.partition_point(|kept| Some(kept.position) <= rule.seen);
        let earlier = self.kept.range(from..).flat_map(|kept| &kept.offered);
        earlier.chain(of_entry).any(|(of, other, other_id)| {
            *of == collection
                && other_id != id
                && hash.distance(*other).is_some_and(|distance| distance <= rule.k)
        })
    }

    /// Drops the first entries until the rest is within the bounds.
    fn evict(&mut self) {
        while self.kept.len() > self.bounds.entries
            || self.hashes > self.bounds.hashes
            || self.bytes > self.bounds.bytes
        {
            let Some(first) = self.kept.pop_front() else { break };
            self.hashes -= first.offered.len();
            self.bytes -= first.bytes;
            self.complete_after = first.position;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{Condition, Document};
    use crate::store::Row;

    const SMALL: Bounds = Bounds { entries: 5, hashes: 9, bytes: 60 };

    /// A put: its id, its hash, and how many positions before the entry the rule has seen.
    type Put = (u8, u8, Option<u64>);

    /// Entries at positions 3, 6, 9, each with its size.
    fn entries() -> impl Strategy<Value = Vec<(usize, Vec<Put>)>> {
        let put = (0_u8..6, 0_u8..16, prop::option::of(1_u64..25));
        prop::collection::vec((0_usize..30, prop::collection::vec(put, 0..5)), 0..30)
    }

    fn writes(position: u64, puts: &[Put]) -> Vec<(CollectionId, Vec<Operation>)> {
        let put = |&(id, hash, age): &Put| {
            let rule = |age: u64| DuplicateRule {
                k: 1,
                containment: None,
                replaces: false,
                seen: Some(position.saturating_sub(age)),
            };
            let row = Row {
                hash: Hash::from_u64(hash.into()),
                features: None,
                short: false,
                characters: None,
                place: 0,
                written_ms: 0,
                expires_ms: None,
                metadata: None,
                grams: Vec::new(),
                text: None,
                sketch: None,
            };
            let document = Document { id: DocumentId::new(&id.to_string()).unwrap(), row };
            Operation::Put { document, unless: age.map(rule), condition: Condition::None }
        };
        let in_collection = |collection: usize| {
            let of_it = puts.iter().filter(|put| usize::from(put.1 > 7) == collection);
            (CollectionId(collection as u32), of_it.map(put).collect())
        };
        vec![in_collection(0), in_collection(1)]
    }

    /// The twin: keeps everything, and looks at all of it each time.
    #[derive(Default)]
    struct Twin {
        /// Position, size, number of hashes.
        entries: Vec<(u64, usize, usize)>,
        offered: Vec<(u64, CollectionId, Hash, DocumentId)>,
    }

    impl Twin {
        fn complete_after(&self) -> u64 {
            let is_within = |from: usize| {
                let last = &self.entries[from..];
                last.len() <= SMALL.entries
                    && last.iter().map(|entry| entry.1).sum::<usize>() <= SMALL.bytes
                    && last.iter().map(|entry| entry.2).sum::<usize>() <= SMALL.hashes
            };
            let first = (0..=self.entries.len()).find(|from| is_within(*from)).unwrap();
            first.checked_sub(1).map_or(0, |before| self.entries[before].0)
        }

        fn admit(
            &mut self,
            (position, bytes): (u64, usize),
            work: &[(CollectionId, Vec<Operation>)],
        ) -> Vec<bool> {
            let (complete_after, before) = (self.complete_after(), self.offered.len());
            let mut refused = Vec::new();
            let all = work.iter().flat_map(|(of, all)| all.iter().map(move |one| (of, one)));
            for (collection, operation) in all {
                let Operation::Put { document, unless, .. } = operation else { unreachable!() };
                let is_refused = unless.is_some_and(|rule| {
                    let seen = rule.seen.unwrap();
                    let mut after = self.offered.iter().filter(|one| one.0 > seen);
                    seen < complete_after
                        || after.any(|(_, of, hash, id)| {
                            of == collection
                                && *id != document.id
                                && hash.distance(document.row.hash).unwrap() <= rule.k
                        })
                });
                refused.push(is_refused);
                self.offered.push((position, *collection, document.row.hash, document.id.clone()));
            }
            self.entries.push((position, bytes, self.offered.len() - before));
            refused
        }
    }

    proptest! {
        #[test]
        fn a_window_decides_as_one_that_forgets_nothing(entries in entries(), restart in 0_usize..30) {
            let (mut window, mut twin) = (Window::after(0, SMALL), Twin::default());
            let mut log = Vec::new();
            for (number, (bytes, puts)) in entries.iter().enumerate() {
                let position = 3 * (number as u64 + 1);
                // A server that is started again fills its window from the log.
                if number == restart {
                    let from = window.complete_after();
                    window = Window::after(from, SMALL);
                    let later = log.iter().filter(|entry: &&(u64, usize, Vec<_>)| entry.0 > from);
                    for (at, bytes, work) in later {
                        window.admit((*at, *bytes), work);
                    }
                }
                prop_assert_eq!(window.complete_after(), twin.complete_after());
                let work = writes(position, puts);
                let refused = window.admit((position, *bytes), &work);
                prop_assert_eq!(refused, twin.admit((position, *bytes), &work));
                log.push((position, *bytes, work));
            }
        }
    }
}
