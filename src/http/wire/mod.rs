//! The JSON types of requests and answers, and their conversion to the types of the service.
//!
//! *Absent*: checks that need a collection, such as the range of k.

mod calibrate;
mod clusters;
mod collections;
mod compare;
mod content;
mod documents;
mod export;
mod exported;
mod features;
mod few;
mod filter;
mod fingerprints;
mod found;
mod hashes;
mod key;
mod listing;
mod marks;
mod pairs;
mod plain;
mod profiles;
mod reindex;
mod similar;
mod summary;
mod values;

pub(super) use calibrate::{CalibrateIn, CalibrationOut};
pub(super) use clusters::{
    ClusterOrderIn, ClusterOut, ClusterParams, ClustersListOut, MemberParams, PlacementOut,
};
pub(super) use collections::{
    ClustersIn, CollectionIn, CollectionOut, CollectionsOut, FollowingOut, RestoredOut, SharedHashesOut,
    SnapshotOut, SnapshotsOut, StatsOut, VersionOut,
};
pub(super) use compare::{CompareIn, ComparisonOut};
pub(super) use content::{check_size, page};
pub use documents::DOCUMENT_MEMBERS;
pub(super) use documents::{AddedOut, DocumentIn, DocumentOut, LineOut, PatchIn};
pub use export::ExportHeader;
pub(super) use export::{ExportOut, ExportParams};
pub(super) use few::Few;
pub use fingerprints::CharsetOut;
pub(super) use fingerprints::{FingerprintIn, FingerprintOut, FingerprintsOut, TextsIn};
pub(super) use found::{QueryResultsOut, SimilarOut};
pub(super) use hashes::{FormParams, HashFormat, HashIn, Hex, form_of_query, in_form};
pub(super) use key::KeyOut;
pub(super) use listing::{DeletionIn, DeletionOut, DocumentsOut, ListParams, Matching};
pub(super) use marks::{MarkListParams, MarkParams, MarkedOut, MarksIn, MarksOut};
pub(super) use pairs::{PairOut, PairsParams, read_pair};
pub(super) use profiles::{ProfileOut, ProfilesOut};
pub(super) use reindex::{ReindexIn, ReindexOut};
pub(super) use similar::{
    AskIn, ErrorsListed, NearIdParams, NearParams, OnDuplicate, QueriesIn, Several, SimilarParams,
};
pub(super) use summary::{BulkOut, Summary, SummaryOut};
pub(super) use values::{Arrival, Bits, Count, ExpiresIn, Id, Metadata, Timestamp};
