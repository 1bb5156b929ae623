//! The named limits of what one request may ask.

use std::time::Duration;

/// Limits with their units; the configuration sets them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one document's body, or of one line of a stream.
    pub document_bytes: usize,
    /// Bytes of a body with several documents or queries that is read whole.
    pub batch_bytes: usize,
    /// Bytes of a document's metadata.
    pub metadata_bytes: usize,
    /// Matches in an answer, when none are named.
    pub default_matches: usize,
    /// Matches in an answer, at most.
    pub matches: usize,
    /// Queries or texts in a request, at most.
    pub batch_items: usize,
    /// Documents in an array, at most.
    pub batch_documents: usize,
    /// Until a question is answered.
    pub query_time: Duration,
    /// Until a document is stored.
    pub write_time: Duration,
    /// How long a query takes that gets a line in the log.
    pub slow_query: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            document_bytes: 1 << 20,
            batch_bytes: 32 << 20,
            metadata_bytes: 16 << 10,
            default_matches: 10,
            matches: 1_000,
            batch_items: 1_000,
            batch_documents: 10_000,
            query_time: Duration::from_secs(2),
            write_time: Duration::from_secs(5),
            slow_query: Duration::from_millis(200),
        }
    }
}
