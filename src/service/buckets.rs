//! The sizes of a collection's buckets, counted now and then.
//!
//! Counting walks the whole index: 10 million hashes take some hundred milliseconds of a processor. Whoever asks for
//! numbers every few seconds, and any number of them at once, cause one walk in ten seconds. Small collections are
//! counted each time. *Absent*: the walk itself, which the engine makes on a thread that may wait.

use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::OnceCell;

use crate::engine::{BucketSizes, CollectionInfo, Engine, EngineError};
use crate::ids::CollectionName;

/// For how long what was counted is told again.
const KEPT_MS: u64 = 10_000;
/// Collections of up to so many hashes are counted each time: it takes a millisecond or less.
const SMALL: u64 = 10_000;

/// What was counted lately.
#[derive(Default)]
pub(super) struct Buckets(DashMap<CollectionName, Arc<Counted>>);

struct Counted {
    at_ms: u64,
    /// There when the first who asked has it; the others wait for that.
    sizes: OnceCell<BucketSizes>,
}

impl Buckets {
    /// The sizes of the collection's buckets, and how many milliseconds ago they were asked for.
    pub(super) async fn of(
        &self,
        engine: &dyn Engine,
        collection: &CollectionInfo,
        now_ms: u64,
    ) -> Result<(BucketSizes, u64), EngineError> {
        let name = &collection.name;
        if collection.distinct_hashes <= SMALL {
            return Ok((engine.bucket_sizes(name).await?, 0));
        }
        let counted = self.lately(name, now_ms);
        let sizes = counted.sizes.get_or_try_init(|| engine.bucket_sizes(name)).await?;
        Ok((sizes.clone(), now_ms.saturating_sub(counted.at_ms)))
    }

    /// What was counted lately, or a place for what is to be counted now.
    fn lately(&self, name: &CollectionName, now_ms: u64) -> Arc<Counted> {
        // The clock may be set: what seems to come from the future is as old as what is too old.
        let is_fresh = |counted: &Counted| now_ms.checked_sub(counted.at_ms).is_some_and(|age| age < KEPT_MS);
        if let Some(counted) = self.0.get(name).filter(|counted| is_fresh(counted)) {
            return Arc::clone(&counted);
        }
        // Collections that are gone, too.
        self.0.retain(|_, counted| is_fresh(counted));
        let new = || Arc::new(Counted { at_ms: now_ms, sizes: OnceCell::new() });
        Arc::clone(&self.0.entry(name.clone()).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_counted_is_told_for_ten_seconds() {
        let buckets = Buckets::default();
        let [news, other] = ["news", "other"].map(|name| CollectionName::new(name).unwrap());
        let largest = async |name: &CollectionName, now_ms: u64, counted: u64| {
            let sizes = async || BucketSizes { largest: counted, ..BucketSizes::default() };
            buckets.lately(name, now_ms).sizes.get_or_init(sizes).await.largest
        };
        assert_eq!(largest(&news, 50_000, 1).await, 1);
        assert_eq!(largest(&news, 59_999, 2).await, 1);
        assert_eq!(largest(&other, 59_999, 3).await, 3);
        assert_eq!(largest(&news, 60_000, 4).await, 4);
        assert_eq!(largest(&news, 10_000, 5).await, 5, "the clock was set back");
        assert_eq!(largest(&news, 90_000, 6).await, 6);
        assert_eq!(buckets.0.len(), 1, "what nobody asks for is forgotten");
    }
}
