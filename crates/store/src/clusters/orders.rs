//! The orders of clusters: by size, and by the arrival of their representatives.
//!
//! Both follow from the documents alone, so they are the same on each server with the same documents.

use std::ops::Bound;

use super::super::cluster_records::{Cluster, Rank, take_number};
use super::super::codec;
use super::super::error::StoreError;
use super::super::trees::Tree;
use super::{Clusters, Entry, after_all};

const BY_SIZE: u8 = 9;
const BY_ARRIVAL: u8 = 10;

impl Cluster {
    /// Its place in the orders of clusters.
    pub fn place(&self) -> ClusterPlace {
        ClusterPlace { size: self.size, representative: self.representative.clone() }
    }
}

/// The place of a cluster in the orders of clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPlace {
    /// The number of documents.
    pub size: u64,
    /// The rank of the representative.
    pub representative: Rank,
}

impl ClusterPlace {
    fn by_size(&self) -> Vec<u8> {
        [&(!self.size).to_be_bytes()[..], &self.representative.write()].concat()
    }

    fn read_by_size(mut bytes: &[u8]) -> Result<ClusterPlace, StoreError> {
        Ok(ClusterPlace { size: !take_number(&mut bytes)?, representative: Rank::read(bytes)? })
    }

    fn by_arrival(&self) -> Vec<u8> {
        let Rank { place, id, .. } = &self.representative;
        [&(!place).to_be_bytes()[..], id.as_str().as_bytes()].concat()
    }
}

impl Clusters<'_, '_> {
    /// The keys of a cluster in both orders.
    pub(super) fn orders(&self, cluster: &Cluster) -> [Vec<u8>; 2] {
        let place = cluster.place();
        [self.key(BY_SIZE, &[&place.by_size()]), self.key(BY_ARRIVAL, &[&place.by_arrival()])]
    }

    /// The stored clusters in the order of their sizes after this place, the largest first.
    pub fn by_size(
        &self,
        after: Option<&ClusterPlace>,
    ) -> impl Iterator<Item = Result<ClusterPlace, StoreError>> + use<> {
        let after = after.map(ClusterPlace::by_size);
        self.ordered(BY_SIZE, after).map(|entry| ClusterPlace::read_by_size(&entry?.0))
    }

    /// The numbers of the stored clusters after this place, those whose representatives arrived last first.
    pub fn by_arrival(
        &self,
        after: Option<&ClusterPlace>,
    ) -> impl Iterator<Item = Result<u64, StoreError>> + use<> {
        let after = after.map(ClusterPlace::by_arrival);
        self.ordered(BY_ARRIVAL, after).map(|entry| codec::read(&entry?.1, "cluster"))
    }

    /// The stored entries of an order after a key, each without the prefix.
    fn ordered(
        &self,
        order: u8,
        after: Option<Vec<u8>>,
    ) -> impl Iterator<Item = Result<Entry, StoreError>> + use<> {
        let prefix = self.key(order, &[]);
        let start = match after {
            Some(after) => Bound::Excluded([&prefix[..], &after].concat()),
            None => Bound::Included(prefix.clone()),
        };
        self.view.range(Tree::Clusters, (start, Bound::Excluded(after_all(&prefix)))).map(move |entry| {
            let (key, value) = entry?;
            Ok((key[prefix.len()..].to_vec(), value.to_vec()))
        })
    }
}
