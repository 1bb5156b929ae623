//! A cache of the sizes of collections' buckets.
//!
//! Counting walks the whole index: for 10 million hashes it takes some hundred milliseconds of processor
//! time. However many clients request the numbers, a collection is counted at most once in ten seconds.
//! Small collections are counted each time. *Absent*: the walk itself, which the engine makes on a blocking
//! thread.

use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::OnceCell;

use crate::engine::{BucketSizes, CollectionInfo, Engine, EngineError};
use crate::ids::CollectionName;

/// The time for which a count is cached.
const VALID_MS: u64 = 10_000;
/// Collections of at most this number of hashes are counted each time, which takes at most about a
/// millisecond.
const SMALL: u64 = 10_000;

/// The cached counts.
#[derive(Default)]
pub(super) struct Buckets(DashMap<CollectionName, Arc<Counted>>);

struct Counted {
    at_ms: u64,
    /// Set when the first request has counted. Concurrent requests wait for it.
    sizes: OnceCell<BucketSizes>,
}

impl Buckets {
    /// The sizes of the collection's buckets, and their age in milliseconds.
    pub(super) async fn of(
        &self,
        engine: &Engine,
        collection: &CollectionInfo,
        now_ms: u64,
    ) -> Result<(BucketSizes, u64), EngineError> {
        let name = &collection.name;
        if collection.distinct_hashes <= SMALL {
            return Ok((engine.bucket_sizes(name).await?, 0));
        }
        let counted = self.recent(name, now_ms);
        let sizes = counted.sizes.get_or_try_init(|| engine.bucket_sizes(name)).await?;
        Ok((sizes.clone(), now_ms.saturating_sub(counted.at_ms)))
    }

    /// The cached count, or an empty entry for a new one.
    fn recent(&self, name: &CollectionName, now_ms: u64) -> Arc<Counted> {
        // The clock may be set back: a count from the future is treated as expired.
        let is_fresh =
            |counted: &Counted| now_ms.checked_sub(counted.at_ms).is_some_and(|age| age < VALID_MS);
        if let Some(counted) = self.0.get(name).filter(|counted| is_fresh(counted)) {
            return Arc::clone(&counted);
        }
        // This also removes the entries of deleted collections.
        self.0.retain(|_, counted| is_fresh(counted));
        let new = || Arc::new(Counted { at_ms: now_ms, sizes: OnceCell::new() });
        Arc::clone(&self.0.entry(name.clone()).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_count_is_cached_for_ten_seconds() {
        let buckets = Buckets::default();
        let [news, other] = ["news", "other"].map(|name| CollectionName::new(name).unwrap());
        let largest = async |name: &CollectionName, now_ms: u64, counted: u64| {
            let sizes = async || BucketSizes { largest: counted, ..BucketSizes::default() };
            buckets.recent(name, now_ms).sizes.get_or_init(sizes).await.largest
        };
        assert_eq!(largest(&news, 50_000, 1).await, 1);
        assert_eq!(largest(&news, 59_999, 2).await, 1);
        assert_eq!(largest(&other, 59_999, 3).await, 3);
        assert_eq!(largest(&news, 60_000, 4).await, 4);
        assert_eq!(largest(&news, 10_000, 5).await, 5, "the clock was set back");
        assert_eq!(largest(&news, 90_000, 6).await, 6);
        assert_eq!(buckets.0.len(), 1, "expired counts are removed");
    }
}
