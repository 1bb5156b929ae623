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
mod outcome;
mod pairs;
mod parquet;
mod patch;
mod plain;
mod preview;
mod profiles;
mod reindex;
mod similar;
mod stats;
mod summary;
mod values;

pub use calibrate::{CalibrateIn, CalibrationOut};
pub use clusters::{ClusterOrderIn, ClusterOut, ClusterParams, ClustersListOut, MemberParams, PlacementOut};
pub use collections::{ClustersIn, CollectionIn, CollectionOut, CollectionsOut, RestoredOut};
pub use compare::{CompareIn, ComparisonOut};
pub use content::{ImageIn, check_size, page};
pub use documents::DOCUMENT_MEMBERS;
pub use documents::{AddedOut, DocumentIn, DocumentOut, LineOut};
pub use export::ExportHeader;
pub use export::{ExportOut, ExportParams};
pub use few::Few;
pub use fingerprints::CharsetOut;
pub use fingerprints::{FingerprintIn, FingerprintOut, FingerprintsOut, TextsIn};
pub use found::{QueryResultsOut, SimilarOut};
pub use hashes::{FormParams, HashFormat, HashIn, HashOut};
pub use key::KeyOut;
pub use listing::{DeletionIn, DeletionOut, DocumentsOut, ListParams, Matching};
pub use marks::{MarkListParams, MarkParams, MarkedOut, MarksIn, MarksOut};
pub use pairs::{PairOut, PairsParams, read_pair};
pub use parquet::{ParquetFileOut, ParquetLineOut};
pub use patch::PatchIn;
pub use preview::{PreviewOut, PreviewParams};
pub use profiles::{ProfileOut, ProfilesOut};
pub use reindex::{ReindexIn, ReindexOut};
pub use similar::{
    AskIn, ErrorsListed, NearIdParams, NearParams, OnDuplicate, QueriesIn, Several, SimilarParams,
};
pub use stats::{FollowingOut, SharedHashesOut, SnapshotOut, SnapshotsOut, StatsOut, VersionOut};
pub use summary::{BulkOut, Summary, SummaryOut};
pub use values::{Arrival, Bits, Count, ExpiresIn, Id, Metadata, Timestamp};
