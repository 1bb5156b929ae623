//! Reading clusters: that of a document, one with its members, and all in an order.
//!
//! Every answer comes from one view. What ranks before the first task is decided, and no task that is done
//! later changes it; anything else is reported as pending.

use std::collections::{BTreeMap, VecDeque};
use std::slice;

use super::command::Command;
use super::registry::Collection;
use super::relations::Outline;
use super::{Engine, EngineError};
use lookalike_hash::{CollectionId, CollectionName, DocumentId, KeepRule, SketchCheck};
use lookalike_store::{
    Cluster, ClusterPlace, ClusterState, Clusters, CopiesOf, Membership, Rank, StoreError, View,
};
use lookalike_text::fingerprint::TextRelation;

/// Maximum number of clusters that are read to find those of a minimum size in the order of arrival.
const READ: usize = 10_000;
/// The number of copies that are read at once.
const COPIES: usize = 64;

/// The cluster of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It is not decided yet.
    Pending,
    /// It is in this cluster.
    In {
        /// The document that represents it.
        representative: DocumentId,
        /// The distance to that document.
        distance: u32,
    },
}

/// An order of clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterOrder {
    /// The largest first.
    #[default]
    Size,
    /// Those whose representatives arrived last first.
    Newest,
}

/// Which clusters are wanted.
#[derive(Clone, Debug)]
pub struct ClusterQuery {
    /// The order.
    pub order: ClusterOrder,
    /// The least size.
    pub min_size: u64,
    /// Only clusters after this place.
    pub after: Option<ClusterPlace>,
    /// The most clusters in the answer.
    pub limit: usize,
}

/// A cluster in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCluster {
    /// The document that represents it.
    pub representative: DocumentId,
    /// The number of documents in it.
    pub size: u64,
}

impl From<ClusterPlace> for FoundCluster {
    fn from(place: ClusterPlace) -> FoundCluster {
        FoundCluster { representative: place.representative.id, size: place.size }
    }
}

/// Clusters in an order.
#[derive(Clone, Debug)]
pub struct ClusterPage {
    /// The clusters.
    pub clusters: Vec<FoundCluster>,
    /// The place after which the next page begins, if there may be more.
    pub next: Option<ClusterPlace>,
    /// The number of tasks that may change clusters.
    pub pending: u64,
}

/// A member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its rank.
    pub rank: Rank,
    /// The distance to the representative.
    pub distance: u32,
    /// What its text is to that of the representative, as far as it can be estimated.
    pub relation: Option<TextRelation>,
}

/// A cluster with some of its members.
#[derive(Clone, Debug)]
pub struct ClusterMembers {
    /// The cluster.
    pub cluster: FoundCluster,
    /// The members in the order of their ranks, without the representative.
    pub members: Vec<Member>,
    /// Whether more members follow.
    pub has_more: bool,
    /// Whether tasks may change the cluster.
    pub is_pending: bool,
}

/// What is known of the cluster that a document represents.
#[derive(Clone, Debug)]
pub enum Represented {
    /// It represents this one.
    Cluster(ClusterMembers),
    /// It represents none; its place.
    None(Placement),
}

impl Engine {
    /// Begins to build the clusters of a collection by this rule, at this distance or that of the
    /// collection, with a check of what is near; with `None`, to remove them.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`], [`EngineError::Distance`], and those of a write.
    pub async fn put_clusters(
        &self,
        name: &CollectionName,
        rule: Option<(KeepRule, Option<u32>, Option<SketchCheck>)>,
    ) -> Result<(), EngineError> {
        let name = name.clone();
        self.command(Command::PutClusters { name, rule }).await.map(drop)
    }

    /// The cluster of a document; `None` if there is no such document, or if the collection has no clusters.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub fn placement(
        &self,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<Placement>, EngineError> {
        Ok(self.placements(collection, slice::from_ref(id))?.pop().flatten())
    }

    /// The clusters of several documents, in their order and from one view.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub fn placements(
        &self,
        collection: &Collection,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Placement>>, EngineError> {
        if !collection.has_clusters() {
            return Ok(vec![None; ids.len()]);
        }
        let expires = self.shared.expiry_is_due();
        let (view, now_ms) = (self.shared.store.view(), self.now_ms());
        let placements = Placements::of(&view, collection, expires)?;
        let of = |id: &DocumentId| {
            if view.row_head(collection.id, id)?.is_none_or(|row| row.has_lapsed(now_ms)) {
                return Ok(None);
            }
            Ok(Some(placements.of_document(id)?))
        };
        ids.iter().map(of).collect()
    }

    /// Clusters in an order.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub fn clusters(
        &self,
        collection: &Collection,
        query: &ClusterQuery,
    ) -> Result<ClusterPage, EngineError> {
        let expires = self.shared.expiry_is_due();
        let view = self.shared.store.view();
        let clusters = Clusters::of(&view, collection.id);
        let state = clusters.state()?;
        let pending = state.tasks.max(u64::from(expires));
        let mut page = ClusterPage { clusters: Vec::new(), next: None, pending };
        if state.is_beginning() {
            return Ok(page);
        }
        match query.order {
            ClusterOrder::Size => {
                let mut last = None;
                for place in clusters.by_size(query.after.as_ref()) {
                    let place = place?;
                    if place.size < query.min_size {
                        break;
                    }
                    if page.clusters.len() == query.limit {
                        page.next = last;
                        break;
                    }
                    page.clusters.push(place.clone().into());
                    last = Some(place);
                }
            }
            ClusterOrder::Newest => {
                let mut last = None;
                for (read, number) in clusters.by_arrival(query.after.as_ref()).enumerate() {
                    if page.clusters.len() == query.limit || read == READ {
                        page.next = last;
                        break;
                    }
                    let Some(place) = clusters.cluster(number?)?.map(|cluster| cluster.place()) else {
                        continue;
                    };
                    if place.size >= query.min_size {
                        page.clusters.push(place.clone().into());
                    }
                    last = Some(place);
                }
            }
        }
        Ok(page)
    }

    /// The cluster that a document represents, with its members after a rank; `None` if there is no such
    /// document.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub fn cluster(
        &self,
        collection: &Collection,
        id: &DocumentId,
        after: Option<&Rank>,
        limit: usize,
    ) -> Result<Option<Represented>, EngineError> {
        let expires = self.shared.expiry_is_due();
        let view = self.shared.store.view();
        if view.row_head(collection.id, id)?.is_none_or(|row| row.has_lapsed(self.now_ms())) {
            return Ok(None);
        }
        let placements = Placements::of(&view, collection, expires)?;
        let Placements { clusters, state, .. } = &placements;
        let number = if state.is_beginning() { None } else { represented(clusters, id)? };
        let cluster = number.map(|number| clusters.cluster(number)).transpose()?.flatten();
        let Some((number, cluster)) = number.zip(cluster) else {
            return Ok(Some(Represented::None(placements.of_document(id)?)));
        };
        let mut found = members(clusters, number, &cluster, after, limit + 1)?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        // A task at any rank may take a member away, or add one.
        let is_pending = expires || state.tasks > 0;
        let whole = Outline::of(&view, collection, &cluster.representative.id)?;
        let member = |(rank, distance): (Rank, u32)| {
            let similarity = collection.signatures.map(|shape| shape.similarity(distance));
            let relation = Outline::of(&view, collection, &rank.id)?.relation(&whole, similarity);
            Ok(Member { rank, distance, relation })
        };
        let members = found.into_iter().map(member).collect::<Result<_, StoreError>>()?;
        let cluster = cluster.place().into();
        Ok(Some(Represented::Cluster(ClusterMembers { cluster, members, has_more, is_pending })))
    }
}

/// Reads the clusters of documents from one view.
pub(super) struct Placements<'v, 's> {
    clusters: Clusters<'v, 's>,
    state: ClusterState,
    /// Whether a document may have expired before the view was taken, and still be in it.
    expires: bool,
}

impl<'v, 's> Placements<'v, 's> {
    pub(super) fn of(
        view: &'v View<'s>,
        collection: &Collection,
        expires: bool,
    ) -> Result<Placements<'v, 's>, StoreError> {
        let clusters = Clusters::of(view, collection.id);
        let state = clusters.state()?;
        Ok(Placements { clusters, state, expires })
    }

    /// The cluster of a document of the view.
    pub(super) fn of_document(&self, id: &DocumentId) -> Result<Placement, StoreError> {
        if self.expires || self.state.is_beginning() {
            return Ok(Placement::Pending);
        }
        let Some(document) = self.clusters.document(id)? else { return Ok(Placement::Pending) };
        // A task may change what is decided about documents of its rank and after it.
        if self.state.tasks > 0 && self.state.first <= (document.key, document.place) {
            return Ok(Placement::Pending);
        }
        let copies = self.clusters.copies(&document.copies(id))?;
        let part = copies.and_then(|copies| {
            let part = copies.part_of(&document.rank(id));
            copies.parts.into_iter().nth(part)
        });
        let Some(Membership { cluster: number, distance }) = part.and_then(|part| part.of) else {
            return Ok(Placement::Pending);
        };
        Ok(self.clusters.cluster(number)?.map_or(Placement::Pending, |cluster| Placement::In {
            representative: cluster.representative.id,
            distance,
        }))
    }
}

/// Whether a document represents a cluster.
pub(super) fn represents(
    view: &View<'_>,
    collection: CollectionId,
    id: &DocumentId,
) -> Result<bool, StoreError> {
    Ok(represented(&Clusters::of(view, collection), id)?.is_some())
}

/// The number of the cluster that a document represents.
fn represented(clusters: &Clusters<'_, '_>, id: &DocumentId) -> Result<Option<u64>, StoreError> {
    let Some(document) = clusters.document(id)? else { return Ok(None) };
    let copies = clusters.copies(&document.copies(id))?;
    let copies = copies.filter(|copies| copies.parts.first().is_some_and(|part| part.first.id == *id));
    Ok(copies.and_then(|copies| copies.represented()))
}

/// Copies in a cluster, some of which were read.
struct Source {
    of: CopiesOf,
    distance: u32,
    /// Ranks that were read and not yet taken.
    read: VecDeque<Rank>,
    /// Whether there may be more, and the rank before which they are.
    #[allow(clippy::option_option, reason = "no more, more from the beginning, or more from a rank")]
    more: Option<Option<Rank>>,
}

impl Source {
    /// Takes the next document.
    fn next(&mut self, clusters: &Clusters<'_, '_>, after: &Rank) -> Result<Option<Rank>, StoreError> {
        if let (true, Some(end)) = (self.read.is_empty(), &self.more) {
            let range = (std::ops::Bound::Excluded(after), end.as_ref());
            self.read = clusters.ranks(&self.of, range, COPIES, false)?.into();
            self.more.take_if(|_| self.read.len() < COPIES);
        }
        Ok(self.read.pop_front())
    }
}

/// The first members of a cluster in the order of their ranks, after a rank, and their distances. The copies
/// in the cluster are merged for this.
fn members(
    clusters: &Clusters<'_, '_>,
    number: u64,
    cluster: &Cluster,
    after: Option<&Rank>,
    most: usize,
) -> Result<Vec<(Rank, u32)>, StoreError> {
    let mut sources: BTreeMap<Rank, Source> = BTreeMap::new();
    let after = after.unwrap_or(&cluster.representative).max(&cluster.representative).clone();
    let copies = clusters.copies(&cluster.of)?;
    if copies.is_some_and(|copies| copies.count() > 1) {
        let more = Some(None);
        let mut own = Source { of: cluster.of.clone(), distance: 0, read: VecDeque::new(), more };
        if let Some(rank) = own.next(clusters, &after)? {
            sources.insert(rank, own);
        }
    }
    let mut found = Vec::new();
    let mut parts = clusters.all_parts(number).peekable();
    while found.len() < most {
        // Only the parts that begin before the next member are needed.
        while let Some(part) = parts.next_if(|part| {
            let first = part.as_ref().map(|part| &part.first);
            first.map_or(true, |first| sources.first_key_value().is_none_or(|(next, _)| first < next))
        }) {
            let part = part?;
            if part.first <= after && !part.has_several {
                continue;
            }
            let mut more = None;
            if part.has_several {
                let copies = clusters.copies(&part.of)?;
                let later = copies.and_then(|copies| {
                    copies.parts.into_iter().map(|part| part.first).find(|first| *first > part.first)
                });
                more = Some(later);
            }
            let (of, distance) = (part.of, part.distance);
            let mut source = Source { of, distance, read: VecDeque::new(), more };
            let first = if part.first > after { Some(part.first) } else { source.next(clusters, &after)? };
            if let Some(first) = first {
                sources.insert(first, source);
            }
        }
        let Some((rank, mut source)) = sources.pop_first() else { break };
        let distance = source.distance;
        if let Some(next) = source.next(clusters, &rank)? {
            sources.insert(next, source);
        }
        found.push((rank, distance));
    }
    Ok(found)
}
