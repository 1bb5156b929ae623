//! Answers to lookups on the wire.

use serde::Serialize;
use utoipa::ToSchema;

use super::clusters::PlacementOut;
use super::hashes::{HashFormat, HashOut, form_of, write_digits};
use super::values::{Id, Metadata, StatusOut, Timestamp};
use crate::body::write_json;
use crate::error::Body;
use lookalike_hash::{HashForm, SignatureShape};
use lookalike_service::{Containment, Found, Match, Passages, Placement, SharedPassage, TextRelation, Work};

/// Approximate bytes of an answer without matches.
const ANSWER_BYTES: usize = 128;
/// Approximate bytes of a match without id and metadata.
const MATCH_BYTES: usize = 96;
/// Approximate bytes of a shared passage.
const RANGES_BYTES: usize = 80;
/// Approximate bytes of a cluster without the id of its representative.
const CLUSTER_BYTES: usize = 64;
/// The most shared passages of a document in an answer.
const PASSAGES: usize = 100;

/// A document within k.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Match)]
pub(super) struct MatchOut {
    /// Its id.
    #[schema(value_type = Id)]
    id: Id,
    /// Its hash.
    #[schema(value_type = HashOut)]
    hash: HashOut,
    /// The number of bits in which the hashes differ, or of cells in which the signatures differ.
    distance: u32,
    /// The similarity of the texts, 0 to 1. It is computed by `measure` if `min_similarity` is set. Otherwise
    /// it is estimated by their signatures, if the collection has signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// The passages that it shares with the query, if they were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<SharedOut>,
    /// What the text of the query, or of the document that was sent, is to it. Absent where nothing was
    /// compared but distances: for hashes, and for lookups without `min_similarity` in collections without
    /// passages; absent, too, if the two are no duplicates and neither text stands in the other one.
    #[serde(skip_serializing_if = "Option::is_none")]
    relation: Option<RelationOut>,
    /// When it expires, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
    /// Its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Metadata>)]
    metadata: Option<Metadata>,
    /// Its cluster, in a collection with clusters; absent for a document that was replaced. The document
    /// represents the cluster if `representative` is its own id.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<PlacementOut>,
}

impl MatchOut {
    pub(super) fn new(found: Match, form: Option<HashFormat>) -> MatchOut {
        MatchOut {
            id: Id(found.id),
            hash: HashOut::new(found.hash, form),
            distance: found.distance,
            similarity: found.similarity,
            shared: found.shared.map(|shared| SharedOut::from(*shared)),
            relation: found.relation.map(RelationOut::from),
            expires_at: found.expires_ms.map(Timestamp),
            metadata: found.metadata.and_then(Metadata::stored),
            cluster: found.cluster.map(|cluster| PlacementOut::from(*cluster)),
        }
    }
}

/// What a text is to another one. Texts are compared by letters or, where they are not kept, by their grams;
/// without passages by their pairs of words, or by sketches or signatures and the lengths of both texts.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TextRelation)]
pub(super) enum RelationOut {
    /// Each stands in the other one to .8 or more, or neither does and they are duplicates nevertheless.
    Duplicate,
    /// .8 of it or more are in the other one, but not the other way round.
    ContainedIn,
    /// .8 of the other one or more are in it, but not the other way round.
    Contains,
    /// None of these: only in the answer to `POST /compare`.
    Unlike,
}

impl From<TextRelation> for RelationOut {
    fn from(relation: TextRelation) -> RelationOut {
        match relation {
            TextRelation::Duplicate => RelationOut::Duplicate,
            TextRelation::ContainedIn => RelationOut::ContainedIn,
            TextRelation::Contains => RelationOut::Contains,
        }
    }
}

/// The passages that the text of a query and a document share. They are compared by their letters if the
/// collection stores texts, and otherwise estimated from sampled grams.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Shared)]
struct SharedOut {
    /// The share of the text of the query that is in the document, 0 to 1. Boilerplate does not count,
    /// unless most of one of both texts is shared with it.
    query_in_document: f64,
    /// The share of the document that is in the text of the query, 0 to 1.
    document_in_query: f64,
    /// The passages, in the order of the query, at most 100.
    passages: Vec<RangesOut>,
}

/// A passage that two texts share: for each text the first character, and the one after the last.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SharedRanges)]
struct RangesOut {
    /// Where it is in the text of the query.
    query: [usize; 2],
    /// Where it is in the text of the document.
    document: [usize; 2],
    /// The share of the letters, or of the sampled grams, of the passage that are equal, 0 to 1.
    equal: f64,
}

impl From<Containment> for SharedOut {
    fn from(found: Containment) -> SharedOut {
        let ranges = |shared: SharedPassage| RangesOut {
            query: [shared.a.start, shared.a.end],
            document: [shared.b.start, shared.b.end],
            equal: shared.equal,
        };
        SharedOut {
            query_in_document: found.a_in_b,
            document_in_query: found.b_in_a,
            passages: found.shared.into_iter().take(PASSAGES).map(ranges).collect(),
        }
    }
}

/// The documents that share passages with the text of a query.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Passages)]
struct PassagesOut {
    /// The number of grams of the text. With fewer than two sampled ones no document is found; a text of 200
    /// letters or 100 Chinese characters has about three.
    grams: usize,
    /// The parts of the text that `boilerplate_documents` have which are otherwise unlike each other: the
    /// first character, and the one after the last. They count for a document only if, with them, seven
    /// tenths of one of both texts are shared. With `source_field` they are those of any source, and
    /// count for documents of others.
    boilerplate: Vec<[u32; 2]>,
    /// The documents of which `min_containment` is in the text, or the other way round: whole copies first,
    /// then by the larger share.
    documents: Vec<MatchOut>,
    /// The number of those that were left out because of marks, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<u64>,
}

/// The number of matches that were left out because of marks, if there are any.
pub(super) fn left_out(marked: u64) -> Option<u64> {
    Some(marked).filter(|marked| *marked > 0)
}

impl PassagesOut {
    fn new(found: Passages, form: Option<HashFormat>) -> PassagesOut {
        PassagesOut {
            grams: found.grams,
            boilerplate: found.boilerplate.into_iter().map(|part| [part.start, part.end]).collect(),
            documents: found.documents.into_iter().map(|found| MatchOut::new(found, form)).collect(),
            marked: left_out(found.marked),
        }
    }
}

/// The answer to a query.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Similar)]
pub struct SimilarOut {
    /// The hash of the query.
    #[schema(value_type = HashOut)]
    hash: HashOut,
    /// The distance of the query.
    k: u32,
    /// The distance as a similarity, if signatures were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// Whether the fingerprint is reliable, if the query is a text or a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// The probability that a copy of that text with one changed word is within the distance of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<f64>,
    /// The documents within k, by distance, then id.
    similar: Vec<MatchOut>,
    /// The documents that share passages with the query, if the collection keeps passages and the query is a
    /// text, a page or a document. Later pages of an answer do not have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    passages: Option<PassagesOut>,
    /// The number of documents within k that were left out because of marks, if there are any. If the
    /// document of the query is marked itself, these are all matches of a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<u64>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// How the answer was found, if `stats` was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<Box<StatsOut>>,
}

/// How an answer was found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LookupStats)]
pub(super) struct StatsOut {
    /// `index`, `bands` (the index of signatures) or `scan`.
    method: &'static str,
    /// The search radius in each block of the hash, the least significant first; -1 for a block that was not
    /// probed. The number of blocks depends on the width and the number of hashes. Empty for a scan.
    radii: Vec<i8>,
    /// The number of leading bits of each block that select a run of hashes. With fewer bits, the runs are
    /// fewer and longer.
    bits: Vec<u8>,
    /// For `bands`: the share of the documents of exactly the similarity `threshold` that are equal in a
    /// band, and so are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    caught: Option<f64>,
    /// The number of runs of hashes read.
    probes: u64,
    /// The number of entries compared in these runs, including empty ones. Of a scan: the number of hashes.
    candidates: u64,
    /// The number of distinct hashes found within the distance.
    verified: u64,
    /// The processing time in the engine, in microseconds.
    microseconds: u64,
}

impl StatsOut {
    fn new(work: &Work, signatures: Option<SignatureShape>, k: u32) -> StatsOut {
        StatsOut {
            method: match signatures {
                _ if work.scanned => "scan",
                Some(_) => "bands",
                None => "index",
            },
            caught: signatures.filter(|_| !work.scanned).map(|shape| shape.caught(shape.threshold_of(k))),
            radii: work.plan.as_ref().map(|plan| plan.radii().to_vec()).unwrap_or_default(),
            bits: work
                .plan
                .as_ref()
                .map(|plan| vec![plan.bits() as u8; plan.radii().len()])
                .unwrap_or_default(),
            probes: work.probes,
            candidates: work.candidates,
            verified: work.verified,
            microseconds: u64::try_from(work.elapsed.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl SimilarOut {
    /// What was found, with hashes in this form; `stats` adds the work that it took.
    pub(super) fn new(found: Found, stats: bool, form: Option<HashFormat>) -> SimilarOut {
        SimilarOut {
            hash: HashOut::new(found.hash, form),
            k: found.k,
            threshold: found.signatures.map(|shape| shape.threshold_of(found.k)),
            status: found.made.map(|made| made.status.into()),
            sensitivity: found.made.filter(|made| !made.is_of_image()).map(|made| made.moved.within(found.k)),
            similar: found.matches.into_iter().map(|found| MatchOut::new(found, form)).collect(),
            passages: found.passages.map(|passages| PassagesOut::new(*passages, form)),
            marked: left_out(found.marked),
            next: found.next,
            stats: stats.then(|| Box::new(StatsOut::new(&found.work, found.signatures, found.k))),
        }
    }

    /// The approximate size of an answer as JSON, in bytes.
    pub fn bytes(found: &Found) -> usize {
        let metadata = |near: &Match| near.metadata.as_ref().map_or(0, String::len);
        let shared =
            |near: &Match| near.shared.as_ref().map_or(0, |shared| shared.shared.len().min(PASSAGES));
        let cluster = |near: &Match| match near.cluster.as_deref() {
            Some(Placement::In { representative, .. }) => CLUSTER_BYTES + representative.as_str().len(),
            Some(Placement::Pending) => CLUSTER_BYTES,
            None => 0,
        };
        let bytes = |near: &Match| {
            let parts = metadata(near) + shared(near) * RANGES_BYTES + cluster(near);
            MATCH_BYTES + near.id.as_str().len() + parts
        };
        let passages = found.passages.as_ref().map_or(0, |passages| {
            let parts = passages.boilerplate.len() * RANGES_BYTES;
            parts + passages.documents.iter().map(bytes).sum::<usize>()
        });
        found.matches.iter().map(bytes).sum::<usize>() + passages + ANSWER_BYTES
    }

    /// Appends an answer as JSON, with exactly the bytes that serde writes. Most answers have only a hash and
    /// matches with id, hash and distance. They are written directly, without a search for characters to
    /// escape.
    pub fn write(found: Found, stats: bool, form: Option<HashFormat>, text: &mut Vec<u8>) {
        if stats || form_of(form) != HashForm::Hex || !is_plain(&found) {
            return write_json(text, &SimilarOut::new(found, stats, form));
        }
        let mut number = itoa::Buffer::new();
        text.extend(b"{\"hash\":\"");
        write_digits(found.hash, text);
        text.extend(b"\",\"k\":");
        text.extend(number.format(found.k).as_bytes());
        text.extend(b",\"similar\":[");
        for (at, near) in found.matches.iter().enumerate() {
            text.extend(if at == 0 { &b"{\"id\":\""[..] } else { b",{\"id\":\"" });
            text.extend(near.id.as_str().as_bytes());
            text.extend(b"\",\"hash\":\"");
            write_digits(near.hash, text);
            text.extend(b"\",\"distance\":");
            text.extend(number.format(near.distance).as_bytes());
            text.push(b'}');
        }
        text.extend(b"]}");
    }
}

/// Whether an answer has only hashes, distances, and ids without characters to escape.
fn is_plain(found: &Found) -> bool {
    let Found { hash: _, made, k: _, signatures, signature: _, matches, passages, next, marked, work: _ } =
        found;
    let has_more = made.is_some() || signatures.is_some() || passages.is_some() || next.is_some();
    let has_more = has_more || *marked > 0;
    let is_plain = |near: &Match| {
        let Match { id, hash: _, distance: _, similarity, shared, relation, expires_ms, metadata, cluster } =
            near;
        let has_more = similarity.is_some() || shared.is_some() || relation.is_some();
        let has_more = has_more || expires_ms.is_some() || metadata.is_some() || cluster.is_some();
        // An id has no control characters.
        !has_more && !id.as_str().bytes().any(|byte| matches!(byte, b'"' | b'\\'))
    };
    !has_more && matches.iter().all(is_plain)
}

/// The answer to one of several queries, or its error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueryResult)]
#[allow(dead_code, reason = "a shape for the contract: answers are written one by one")]
struct QueryResultOut {
    /// Why the query was not answered; then no other field is there. Other queries are not affected.
    error: Option<Box<Body>>,
    /// The hash of the query.
    #[schema(value_type = Option<HashOut>)]
    hash: Option<HashOut>,
    /// The distance of the query.
    k: Option<u32>,
    /// The distance as a similarity, if signatures were compared.
    threshold: Option<f64>,
    /// Whether the fingerprint is reliable, if the query is a text or a page.
    status: Option<StatusOut>,
    /// The probability that a copy of that text with one changed word is within the distance of the query.
    sensitivity: Option<f64>,
    /// The documents within k, by distance, then id.
    similar: Option<Vec<MatchOut>>,
    /// The documents that share passages with the query.
    passages: Option<PassagesOut>,
    /// The number of documents within k that were left out because of marks, if there are any.
    marked: Option<u64>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
    /// How the answer was found, if `stats` was requested.
    stats: Option<Box<StatsOut>>,
}

/// The answers to several queries, in their order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueryResults)]
#[allow(dead_code, reason = "a shape for the contract: answers are written one by one")]
pub struct QueryResultsOut {
    /// The answer to each query, or its error.
    results: Vec<QueryResultOut>,
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::weighted;
    use proptest::prelude::*;

    use super::*;
    use lookalike_hash::{DocumentId, Hash, U256};

    fn hashes() -> impl Strategy<Value = Hash> {
        prop_oneof![
            any::<u64>().prop_map(Hash::from_u64),
            any::<u128>().prop_map(Hash::from_u128),
            any::<u128>().prop_map(|half| Hash::from_u256(U256::from(half) << 128 | U256::from(!half)))
        ]
    }

    fn matches() -> impl Strategy<Value = Match> {
        let ids = "[ -~àß中文🦀]{1,40}".prop_map(|id| DocumentId::new(&id).unwrap());
        let metadata = weighted(0.1, Just(r#"{"a":[1,"\\"]}"#.to_owned()));
        let representative = |id: String| {
            Box::new(Placement::In { representative: DocumentId::new(&id).unwrap(), distance: 3 })
        };
        let cluster = weighted(0.1, "[a-z\"]{1,9}".prop_map(representative));
        let known = (weighted(0.1, 0.0..1.0), weighted(0.1, 0..u64::MAX), metadata, cluster);
        (ids, hashes(), 0..=128u32, known).prop_map(|(id, hash, distance, known)| {
            let (similarity, expires_ms, metadata, cluster) = known;
            let (shared, relation) = (None, None);
            Match { id, hash, distance, similarity, shared, relation, expires_ms, metadata, cluster }
        })
    }

    proptest! {
        #[test]
        fn an_answer_is_written_as_serde_writes_it(
            (hash, k, matches) in (hashes(), 0..=128u32, vec(matches(), 0..5)),
            next in weighted(0.1, "[a-z]{1,9}"),
            marked in weighted(0.1, 1..9u64),
            stats in weighted(0.1, Just(())),
        ) {
            let work = Work::default();
            let found = Found {
                hash,
                made: None,
                k,
                signatures: None,
                signature: None,
                matches,
                passages: None,
                next,
                marked: marked.unwrap_or(0),
                work,
            };
            let expected = SimilarOut::new(found.clone(), stats.is_some(), None);
            let expected = serde_json::to_string(&expected).unwrap();
            let mut written = Vec::new();
            SimilarOut::write(found, stats.is_some(), None, &mut written);
            prop_assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
