//! The net effect of a batch on hashes: which ones enter the index, and which ones leave it.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::ids::{CollectionId, Hash};
use crate::store::Change;

/// The net effect of a batch on a hash, which the batch may add and remove several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetChange {
    /// Whether a document had the hash before the batch.
    pub(super) existed_before: bool,
    /// Whether a document has it after the batch.
    pub(super) exists_after: bool,
}

/// The net effect on each hash of a collection.
pub(super) type NetChanges = HashMap<(CollectionId, Hash), NetChange, RandomState>;

/// The net effect of a batch on each hash that it adds or removes.
pub(super) fn net_changes(changes: &[Change]) -> NetChanges {
    let mut net_changes = NetChanges::with_capacity_and_hasher(changes.len(), RandomState::default());
    let mut record = |of: CollectionId, hash: Option<Hash>, exists_after: bool| {
        // A hash whose first change is a removal existed before, and one whose first change is an addition
        // did not.
        let first = NetChange { existed_before: !exists_after, exists_after };
        if let Some(hash) = hash {
            net_changes.entry((of, hash)).or_insert(first).exists_after = exists_after;
        }
    };
    for change in changes {
        if let Change::Document { collection, added, removed } = change {
            record(*collection, *removed, false);
            record(*collection, *added, true);
        }
    }
    net_changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_that_existed_before_a_batch_are_distinguished_from_added_ones() {
        let of = CollectionId(1);
        let [a, b, c, d] = [1, 2, 3, 4].map(Hash::from_u64);
        let change = |added, removed| Change::Document { collection: of, added, removed };
        // a is removed and added, b is added and removed, c is added, d is removed.
        let net_changes = net_changes(&[
            change(Some(b), Some(a)),
            change(Some(a), Some(b)),
            change(Some(c), None),
            change(None, Some(d)),
        ]);
        let net_change =
            |hash| (net_changes[&(of, hash)].existed_before, net_changes[&(of, hash)].exists_after);
        assert_eq!(
            [a, b, c, d].map(net_change),
            [(true, true), (false, false), (false, true), (true, false)]
        );
    }
}
