//! Clusters: that of a document, all of them in an order, one with its members, and building them.
//!
//! *Absent*: the rule and the tasks (`engine`).

use std::slice;
use std::sync::Arc;

use super::Service;
use super::cursor;
use super::error::ServiceError;
use lookalike_engine::{
    ClusterMembers, ClusterOrder, ClusterPage, ClusterPlace, ClusterQuery, Collection, Engine, Placement,
    Rank, Represented,
};
use lookalike_hash::{ClusterRule, CollectionName, DocumentId, KeepRule};
use lookalike_run::pool::Patience;

/// The least number of documents in a cluster of an answer, if the request names none: a document without
/// near ones is not a cluster that anyone looks for.
const MIN_SIZE: u64 = 2;

/// The clusters of a collection that a request asks for.
#[derive(Clone, Debug, Default)]
pub struct WantedClusters {
    /// Their order.
    pub order: ClusterOrder,
    /// The least number of documents in a cluster; 2 if it is `None`.
    pub min_size: Option<u64>,
    /// The cursor of the next page.
    pub cursor: Option<String>,
    /// The most clusters in the answer.
    pub limit: Option<usize>,
}

/// Clusters in an order, and the rule by which they are made.
#[derive(Clone, Debug)]
pub struct ClusterList {
    /// The rule.
    pub rule: ClusterRule,
    /// The clusters.
    pub page: ClusterPage,
    /// The cursor of the next page, if there may be more.
    pub next: Option<String>,
}

/// A cluster with some of its members.
#[derive(Clone, Debug)]
pub struct ClusterFound {
    /// The cluster.
    pub found: ClusterMembers,
    /// The cursor of further members, if there are more.
    pub next: Option<String>,
}

impl Service {
    /// Clusters of a collection in an order.
    ///
    /// # Errors
    /// [`ServiceError::NoClusters`] if the collection has none, [`ServiceError::Cursor`].
    pub async fn clusters(
        &self,
        collection: &CollectionName,
        wanted: WantedClusters,
    ) -> Result<ClusterList, ServiceError> {
        let (collection, rule) = self.clustered(collection)?;
        let limit = self.checked_limit(wanted.limit)?;
        let after = wanted.cursor.as_deref().map(read_place).transpose()?;
        let min_size = wanted.min_size.unwrap_or(MIN_SIZE);
        if min_size == 0 {
            let detail = "min_size is 0; a cluster has 1 document or more";
            return Err(ServiceError::invalid("min_size", detail));
        }
        let query = ClusterQuery { order: wanted.order, min_size, after, limit };
        let engine = Arc::clone(self.engine()?);
        let page =
            self.pool.run(Patience::Interactive, move |_| engine.clusters(&collection, &query)).await??;
        let next = page.next.as_ref().map(write_place);
        Ok(ClusterList { rule, page, next })
    }

    /// The cluster that a document represents, with its members in the order of their ranks.
    ///
    /// # Errors
    /// [`ServiceError::NoDocument`], [`ServiceError::NoCluster`] if the document represents none, and those
    /// of [`Service::clusters`].
    pub async fn cluster(
        &self,
        name: &CollectionName,
        id: DocumentId,
        cursor: Option<&str>,
        limit: Option<usize>,
    ) -> Result<ClusterFound, ServiceError> {
        let (collection, _) = self.clustered(name)?;
        let limit = self.checked_limit(limit)?;
        let after = cursor.map(read_rank).transpose()?;
        let engine = Arc::clone(self.engine()?);
        let asked = id.clone();
        let read = move |_: &_| engine.cluster(&collection, &asked, after.as_ref(), limit);
        let found = match self.pool.run(Patience::Interactive, read).await?? {
            Some(Represented::Cluster(found)) => found,
            Some(Represented::None(placement)) => {
                let representative = match placement {
                    Placement::In { representative, .. } => Some(representative),
                    Placement::Pending => None,
                };
                return Err(ServiceError::NoCluster { collection: name.clone(), id, representative });
            }
            None => return Err(ServiceError::NoDocument { collection: name.clone(), id }),
        };
        let last = found.members.last().filter(|_| found.has_more);
        let next = last.map(|member| write_rank(&member.rank));
        Ok(ClusterFound { found, next })
    }

    /// The cluster of a document.
    ///
    /// # Errors
    /// [`ServiceError::NoDocument`], [`ServiceError::NoClusters`].
    pub fn placement(&self, name: &CollectionName, id: &DocumentId) -> Result<Placement, ServiceError> {
        let (collection, _) = self.clustered(name)?;
        let found = self.engine()?.placement(&collection, id)?;
        found.ok_or_else(|| ServiceError::NoDocument { collection: name.clone(), id: id.clone() })
    }

    /// The cluster of a document that is in an answer; `None` if the collection has no clusters, or the
    /// document does not exist any more.
    ///
    /// # Errors
    /// [`ServiceError`] if there is no such collection any more.
    pub fn placement_if_any(
        &self,
        name: &CollectionName,
        id: &DocumentId,
    ) -> Result<Option<Placement>, ServiceError> {
        let engine = self.engine()?;
        Ok(placements_of(engine, &*engine.find(name)?, slice::from_ref(id)).pop().flatten())
    }

    /// Builds the clusters of a collection anew. They are pending until all documents are decided.
    ///
    /// # Errors
    /// Those of a write.
    pub async fn build_clusters(
        &self,
        name: &CollectionName,
        keep: KeepRule,
        k: Option<u32>,
    ) -> Result<ClusterList, ServiceError> {
        let engine = self.engine()?;
        let _permit = self.permit()?;
        let check = self.rule_of(&*engine.settings(name)?)?.check.filter(|_| k.is_none());
        engine.put_clusters(name, Some((keep, k, check))).await?;
        self.clusters(name, WantedClusters { limit: Some(1), ..WantedClusters::default() }).await
    }

    /// Removes the clusters of a collection, also while they are being built. Documents stay.
    ///
    /// # Errors
    /// [`ServiceError::NoClusters`] if there are none, and those of a write.
    pub async fn remove_clusters(&self, name: &CollectionName) -> Result<(), ServiceError> {
        self.clustered(name)?;
        let _permit = self.permit()?;
        Ok(self.engine()?.put_clusters(name, None).await?)
    }

    /// Checks that a collection has clusters.
    ///
    /// # Errors
    /// [`ServiceError::NoClusters`].
    pub fn check_clusters(&self, name: &CollectionName) -> Result<(), ServiceError> {
        self.clustered(name).map(|_| ())
    }

    /// Checks that the clusters of a collection are decided.
    ///
    /// # Errors
    /// [`ServiceError::NoClusters`], [`ServiceError::ClustersPending`].
    pub async fn check_decided(&self, name: &CollectionName) -> Result<(), ServiceError> {
        let wanted = WantedClusters { limit: Some(1), ..WantedClusters::default() };
        match self.clusters(name, wanted).await?.page.pending {
            0 => Ok(()),
            pending => Err(ServiceError::ClustersPending { collection: name.clone(), pending }),
        }
    }

    /// The collection, and the rule of its clusters.
    pub(super) fn clustered(
        &self,
        name: &CollectionName,
    ) -> Result<(Arc<Collection>, ClusterRule), ServiceError> {
        let collection = self.engine()?.find(name)?;
        let rule = collection.settings().clusters.clone();
        let rule = rule.ok_or_else(|| ServiceError::NoClusters(name.clone()))?;
        Ok((collection, rule))
    }

    pub(super) fn checked_limit(&self, limit: Option<usize>) -> Result<usize, ServiceError> {
        let (limit, most) = (limit.unwrap_or(self.limits.default_matches), self.limits.matches);
        if (1..=most).contains(&limit) {
            return Ok(limit);
        }
        let detail =
            format!("limit is {limit}; it ranges from 1 to {most}, and a cursor returns the next page");
        Err(ServiceError::invalid("limit", detail))
    }
}

/// The clusters of documents that an answer shows, in their order; `None` for a document that does not exist
/// any more, and for all if they cannot be read, which does not change what was stored or found.
pub(super) fn placements_of(
    engine: &Engine,
    collection: &Collection,
    ids: &[DocumentId],
) -> Vec<Option<Placement>> {
    engine.placements(collection, ids).unwrap_or_else(|error| {
        tracing::warn!(%error, "the clusters of documents cannot be read");
        vec![None; ids.len()]
    })
}

fn number(cursor: &str, at: usize) -> Option<u64> {
    let digits =
        cursor.get(at..at + 16).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

fn write_place(place: &ClusterPlace) -> String {
    format!("{:016x}{}", place.size, write_rank(&place.representative))
}

fn read_place(cursor: &str) -> Result<ClusterPlace, ServiceError> {
    let size = number(cursor, 0).ok_or(ServiceError::Cursor)?;
    let rank = cursor.get(16..).ok_or(ServiceError::Cursor)?;
    Ok(ClusterPlace { size, representative: read_rank(rank)? })
}

fn write_rank(rank: &Rank) -> String {
    format!("{:016x}{:016x}{}", rank.key, rank.place, cursor::write_id(&rank.id))
}

fn read_rank(cursor: &str) -> Result<Rank, ServiceError> {
    let rank = || {
        let (key, place) = number(cursor, 0).zip(number(cursor, 16))?;
        Some(Rank { key, place, id: cursor::read_id(cursor.get(32..)?)? })
    };
    rank().ok_or(ServiceError::Cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_were_written() {
        let rank = Rank { key: u64::MAX, place: 7, id: DocumentId::new("页/1").unwrap() };
        assert_eq!(read_rank(&write_rank(&rank)).unwrap(), rank);
        let place = ClusterPlace { size: 3, representative: rank };
        assert_eq!(read_place(&write_place(&place)).unwrap(), place);
        for wrong in
            ["", "00", "00000000000000030000000000000001x", "zz", "＋0000000000000030000000000000001"]
        {
            assert!(read_place(wrong).is_err() && read_rank(wrong).is_err(), "{wrong}");
        }
    }
}
