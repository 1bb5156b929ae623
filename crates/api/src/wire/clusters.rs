//! Clusters on the wire.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::collections::ClustersOut;
use super::found::RelationOut;
use super::values::{Count, Id};
use lookalike_service::{ClusterFound, ClusterList, ClusterOrder, Placement, WantedClusters};

/// The cluster of a document. While tasks may change it, only `pending` is present.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DocumentCluster)]
pub struct PlacementOut {
    /// The document that represents the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    representative: Option<Id>,
    /// The distance to the representative; 0 for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u32>,
    /// Whether it is not decided yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pending: bool,
}

impl From<Placement> for PlacementOut {
    fn from(placement: Placement) -> PlacementOut {
        match placement {
            Placement::Pending => PlacementOut { representative: None, distance: None, pending: true },
            Placement::In { representative, distance } => PlacementOut {
                representative: Some(Id(representative)),
                distance: Some(distance),
                pending: false,
            },
        }
    }
}

/// An order of clusters.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClusterOrderIn {
    /// The largest first.
    Size,
    /// Those whose representatives arrived last first.
    Newest,
}

/// Which clusters are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ClusterParams {
    /// The order. Default: `size`.
    order: Option<ClusterOrderIn>,
    /// The least number of documents in a cluster. Default: 2.
    #[param(minimum = 1, maximum = 4_294_967_295_u32)]
    min_size: Option<u32>,
    /// The most clusters in the answer. Default: `limits.default_matches`.
    limit: Option<Count>,
    /// The `next` cursor of the previous page.
    cursor: Option<String>,
}

impl ClusterParams {
    /// The clusters that are asked for.
    pub fn wanted(self) -> WantedClusters {
        let order = match self.order {
            None | Some(ClusterOrderIn::Size) => ClusterOrder::Size,
            Some(ClusterOrderIn::Newest) => ClusterOrder::Newest,
        };
        let limit = self.limit.map(|limit| limit.0);
        WantedClusters { order, min_size: self.min_size.map(u64::from), cursor: self.cursor, limit }
    }
}

/// Which members of a cluster are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MemberParams {
    /// The most members in the answer. Default: `limits.default_matches`.
    limit: Option<Count>,
    /// The `next` cursor of the previous page.
    pub cursor: Option<String>,
}

impl MemberParams {
    /// The most members of an answer, if it was given.
    pub fn limit(&self) -> Option<usize> {
        self.limit.as_ref().map(|limit| limit.0)
    }
}

/// Clusters in an order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Clusters)]
pub struct ClustersListOut {
    /// The rule that makes them.
    rule: ClustersOut,
    /// The number of tasks that are left. While there are some, clusters may change.
    pending: u64,
    /// The clusters.
    clusters: Vec<ClusterLineOut>,
    /// The cursor of the next page, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A cluster in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterLine)]
pub(super) struct ClusterLineOut {
    /// The document that represents it.
    #[schema(value_type = Id)]
    representative: Id,
    /// The number of documents in it, with the representative.
    size: u64,
}

impl From<ClusterList> for ClustersListOut {
    fn from(list: ClusterList) -> ClustersListOut {
        let line = |cluster: lookalike_service::FoundCluster| ClusterLineOut {
            representative: Id(cluster.representative),
            size: cluster.size,
        };
        ClustersListOut {
            rule: list.rule.into(),
            pending: list.page.pending,
            clusters: list.page.clusters.into_iter().map(line).collect(),
            next: list.next,
        }
    }
}

/// A cluster with members.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cluster)]
pub struct ClusterOut {
    /// The document that represents it.
    #[schema(value_type = Id)]
    representative: Id,
    /// The number of documents in it, with the representative.
    size: u64,
    /// Whether tasks are left that may change it.
    pending: bool,
    /// Its members without the representative, those that the keep rule prefers first.
    members: Vec<MemberOut>,
    /// The cursor of further members, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A member of a cluster.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterMember)]
pub(super) struct MemberOut {
    /// The document.
    #[schema(value_type = Id)]
    id: Id,
    /// Its distance to the representative.
    distance: u32,
    /// What its text is to that of the representative, if both have sketches or signatures and lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    relation: Option<RelationOut>,
}

impl From<ClusterFound> for ClusterOut {
    fn from(cluster: ClusterFound) -> ClusterOut {
        let ClusterFound { found, next } = cluster;
        let member = |member: lookalike_service::Member| MemberOut {
            id: Id(member.rank.id),
            distance: member.distance,
            relation: member.relation.map(RelationOut::from),
        };
        ClusterOut {
            representative: Id(found.cluster.representative),
            size: found.cluster.size,
            pending: found.is_pending,
            members: found.members.into_iter().map(member).collect(),
            next,
        }
    }
}
