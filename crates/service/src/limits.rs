//! The limits of a request.

use std::time::Duration;

use super::fingerprints::Content;

/// Limits with their units. The configuration sets them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum bytes of a text, also of the text of a page.
    pub document_bytes: usize,
    /// Maximum bytes of a page.
    pub page_bytes: usize,
    /// Maximum bytes of a body with several documents or queries that is read as a whole.
    pub batch_bytes: usize,
    /// Maximum bytes of a Parquet file.
    pub file_bytes: usize,
    /// Maximum pixels of an image.
    pub image_pixels: u64,
    /// Maximum bytes of a document's metadata.
    pub metadata_bytes: usize,
    /// Default number of matches in an answer.
    pub default_matches: usize,
    /// Maximum number of matches in an answer.
    pub matches: usize,
    /// Maximum number of queries or texts in a request.
    pub batch_items: usize,
    /// Maximum number of documents in an array.
    pub batch_documents: usize,
    /// The deadline of a query.
    pub query_time: Duration,
    /// The deadline of a write.
    pub write_time: Duration,
    /// The time after which a deletion that is planned without a time takes effect.
    pub deletion_time: Duration,
    /// The time from which a query is logged as slow.
    pub slow_query: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            document_bytes: 1 << 20,
            page_bytes: 4 << 20,
            batch_bytes: 32 << 20,
            file_bytes: 256 << 20,
            image_pixels: 32_000_000,
            metadata_bytes: 16 << 10,
            default_matches: 10,
            matches: 1_000,
            batch_items: 1_000,
            batch_documents: 10_000,
            query_time: Duration::from_secs(2),
            write_time: Duration::from_secs(5),
            deletion_time: Duration::from_mins(10),
            slow_query: Duration::from_millis(200),
        }
    }
}

impl Limits {
    /// Maximum bytes of a body with one document, or of one line of a stream. It can be a page.
    pub fn body_bytes(&self) -> usize {
        self.document_bytes.max(self.page_bytes)
    }

    /// If a text or page is too long: its bytes, the setting that it exceeds, and the value of that.
    pub fn exceeded_by(&self, content: &Content) -> Option<(usize, &'static str, usize)> {
        let (setting, most) = match content {
            Content::Text(_) => ("limits.document_bytes", self.document_bytes),
            Content::Html(..) => ("limits.page_bytes", self.page_bytes),
            Content::Hash(_) | Content::Signature(_) | Content::Features(_) | Content::Image(_) => {
                return None;
            }
        };
        let bytes = content.len();
        (bytes > most).then_some((bytes, setting, most))
    }
}
