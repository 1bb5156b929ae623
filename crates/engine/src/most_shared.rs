//! The hashes of a collection that most documents have.
//!
//! The posting lists of the collection are walked, which takes two seconds per million hashes on a busy
//! machine. *Absent*: a cache of the result, which the service has.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::shared::Shared;
use super::{Engine, EngineError};
use lookalike_hash::{CollectionName, Hash};

/// Lists walked between two checks whether the engine closes.
const LISTS_PER_CHECK: usize = 4_096;

impl Engine {
    /// The `most` hashes that most documents have, with the number of these documents, the largest number
    /// first; hashes with equal numbers are in ascending order. Hashes of one document are left out.
    pub async fn most_shared(
        &self,
        collection: &CollectionName,
        most: usize,
    ) -> Result<Vec<(Hash, u64)>, EngineError> {
        let record = self.shared.registry.get(collection)?.record();
        let walk = move |shared: &Shared| {
            let mut kept: BinaryHeap<(Reverse<u64>, Hash)> = BinaryHeap::with_capacity(most + 1);
            for (at, list) in shared.store.shared_hashes(&record).enumerate() {
                let (hash, documents) = list?;
                kept.push((Reverse(documents), hash));
                if kept.len() > most {
                    kept.pop();
                }
                if at % LISTS_PER_CHECK == 0 && shared.is_out_of_time() {
                    break;
                }
            }
            let sorted = kept.into_sorted_vec().into_iter();
            Ok(sorted.map(|(Reverse(documents), hash)| (hash, documents)).collect())
        };
        self.blocking(walk).await
    }
}
