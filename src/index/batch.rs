//! Batches: many queries at once.
//!
//! Costs: a lookup of a few runs waits for memory most of its time. A batch prefetches the runs of several
//! queries before it reads the first one, so that their cache misses overlap.
//!
//! *Absent*: the lookups of a batch (`engine`).

use super::block::Filed;
use super::memory::pin;
use super::probe::prefetch_query;
use super::sharded::Index;

/// The number of queries whose runs are prefetched together: about as many as the processor fetches at a
/// time.
pub const GROUP: usize = 8;

impl<W: Filed> Index<W> {
    /// Prefetches the memory that lookups of these queries within `k` read first, without waiting. It is
    /// useful for at most [`GROUP`] queries at a time, directly before their lookups.
    pub fn prefetch(&self, queries: impl IntoIterator<Item = W>, k: u32) {
        if let Some(plan) = self.plan(k) {
            let (pin, hashes) = (pin(), self.len());
            queries
                .into_iter()
                .for_each(|query| prefetch_query(self.layout(&pin), plan, query, hashes, &pin));
        }
    }
}
