//! Caches of what is counted by walking a whole collection: the sizes of its buckets, and the hashes that
//! most documents share.
//!
//! For 10 million hashes a walk takes some hundred milliseconds of processor time for the buckets, and twenty
//! seconds for the hashes. However many clients request the numbers, a collection is counted at most once in
//! the time for which a count is valid. Small collections are counted each time. *Absent*: the walks
//! themselves, which the engine makes on a blocking thread.

use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::OnceCell;

use lookalike_engine::{BucketSizes, CollectionInfo, Engine, EngineError};
use lookalike_hash::{CollectionName, Hash};

/// The time for which the sizes of buckets are cached.
const BUCKETS_VALID_MS: u64 = 10_000;
/// The time for which the most shared hashes are cached.
const SHARED_VALID_MS: u64 = 300_000;
/// The number of most shared hashes.
const MOST_SHARED: usize = 50;
/// Collections of at most this number of hashes are counted each time, which takes at most some
/// milliseconds.
const SMALL: u64 = 10_000;

/// Cached counts of collections.
struct Counts<T>(DashMap<CollectionName, Arc<Counted<T>>>);

struct Counted<T> {
    at_ms: u64,
    /// Set when the first request has counted. Concurrent requests wait for it.
    count: OnceCell<T>,
}

/// The cached counts of each kind.
#[derive(Default)]
pub(super) struct Buckets {
    sizes: Counts<BucketSizes>,
    shared: Counts<Vec<(Hash, u64)>>,
}

impl Buckets {
    /// The sizes of the collection's buckets, and their age in milliseconds.
    pub(super) async fn sizes(
        &self,
        engine: &Engine,
        collection: &CollectionInfo,
        now_ms: u64,
    ) -> Result<(BucketSizes, u64), EngineError> {
        let count = || engine.bucket_sizes(&collection.name);
        self.sizes.of(collection, now_ms, BUCKETS_VALID_MS, count).await
    }

    /// The hashes that most documents of the collection have, and the age of the count in milliseconds.
    pub(super) async fn most_shared(
        &self,
        engine: &Engine,
        collection: &CollectionInfo,
        now_ms: u64,
    ) -> Result<(Vec<(Hash, u64)>, u64), EngineError> {
        let count = || engine.most_shared(&collection.name, MOST_SHARED);
        self.shared.of(collection, now_ms, SHARED_VALID_MS, count).await
    }
}

impl<T> Default for Counts<T> {
    fn default() -> Counts<T> {
        Counts(DashMap::new())
    }
}

impl<T: Clone> Counts<T> {
    async fn of<F: Future<Output = Result<T, EngineError>>>(
        &self,
        collection: &CollectionInfo,
        now_ms: u64,
        valid_ms: u64,
        count: impl FnOnce() -> F,
    ) -> Result<(T, u64), EngineError> {
        if collection.distinct_hashes <= SMALL {
            return Ok((count().await?, 0));
        }
        let counted = self.recent(&collection.name, now_ms, valid_ms);
        let found = counted.count.get_or_try_init(count).await?;
        Ok((found.clone(), now_ms.saturating_sub(counted.at_ms)))
    }

    /// The cached count, or an empty entry for a new one.
    fn recent(&self, name: &CollectionName, now_ms: u64, valid_ms: u64) -> Arc<Counted<T>> {
        // The clock may be set back: a count from the future is treated as expired.
        let is_fresh =
            |counted: &Counted<T>| now_ms.checked_sub(counted.at_ms).is_some_and(|age| age < valid_ms);
        if let Some(counted) = self.0.get(name).filter(|counted| is_fresh(counted)) {
            return Arc::clone(&counted);
        }
        // This also removes the entries of deleted collections.
        self.0.retain(|_, counted| is_fresh(counted));
        let new = || Arc::new(Counted { at_ms: now_ms, count: OnceCell::new() });
        Arc::clone(&self.0.entry(name.clone()).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_count_is_cached_for_ten_seconds() {
        let counts = Counts::<u64>::default();
        let [news, other] = ["news", "other"].map(|name| CollectionName::new(name).unwrap());
        let count = async |name: &CollectionName, now_ms: u64, counted: u64| {
            *counts.recent(name, now_ms, 10_000).count.get_or_init(async || counted).await
        };
        assert_eq!(count(&news, 50_000, 1).await, 1);
        assert_eq!(count(&news, 59_999, 2).await, 1);
        assert_eq!(count(&other, 59_999, 3).await, 3);
        assert_eq!(count(&news, 60_000, 4).await, 4);
        assert_eq!(count(&news, 10_000, 5).await, 5, "the clock was set back");
        assert_eq!(count(&news, 90_000, 6).await, 6);
        assert_eq!(counts.0.len(), 1, "expired counts are removed");
    }
}
