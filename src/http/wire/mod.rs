//! What goes over the wire: JSON as clients write and read it. Nothing but shapes and their conversion.

mod collections;
mod documents;
mod similar;
mod values;

pub(super) use collections::{
    CollectionIn, CollectionOut, CollectionsOut, SnapshotOut, SnapshotsOut, StatsOut, VersionOut,
};
pub(super) use documents::{
    AddedOut, BulkOut, DocumentIn, DocumentOut, ExportOut, FingerprintIn, FingerprintOut, FingerprintsOut,
    LineOut, Summary, SummaryOut,
};
pub(super) use similar::{AskIn, BatchOut, NearIdParams, NearParams, SimilarIn, SimilarOut, SimilarParams};
pub(super) use values::{Bits, Count, Hex, Id, Metadata, Timestamp};
