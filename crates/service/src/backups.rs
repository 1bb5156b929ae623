//! Backups and restores of collections.
//!
//! Restored documents must satisfy the limits for added documents. Otherwise a backup would bypass these
//! limits.

use std::sync::Arc;

use super::Service;
use super::checks::{check_expiry, check_metadata, check_text};
use super::collections::{BOILERPLATE_DOCUMENTS, check_source_field};
use super::documents::EXPIRES_IN;
use super::error::ServiceError;
use super::limits::Limits;
use super::second_check::{SKETCH_BYTES, weighed_features};
use super::thumbnails::{THUMBNAIL_BYTES, check_thumbnail};
use lookalike_engine::{CollectionSettings, Document, EngineError, Incoming, Pieces, RestoreRules, Restored};
use lookalike_hash::CollectionName;
use lookalike_text::features::MAX_EXACT;
use lookalike_text::fingerprint::Profile;

/// Maximum time by which the clock of the machine that made a backup may be ahead.
const CLOCK_SKEW_MS: u64 = 24 * 3_600 * 1_000;
/// Maximum bytes of a backup per byte of text or metadata, as in `\u0001`.
const MAX_ESCAPE: usize = 6;
/// Maximum bytes of a document in a backup, without text and metadata: an id, a
/// signature or a thumbnail, times, grams.
const DOCUMENT_OVERHEAD: usize = (16 << 10) + 2 * THUMBNAIL_BYTES + MAX_EXACT * GRAM_DIGITS;
/// Digits of a gram in a backup.
const GRAM_DIGITS: usize = 32;

impl Service {
    /// Streams a backup of a collection as it is now.
    ///
    /// # Errors
    /// [`ServiceError`] if it cannot be started.
    pub fn backup(&self, collection: &CollectionName) -> Result<Pieces, ServiceError> {
        Ok(self.engine()?.backup(collection, self.now_ms())?)
    }

    /// Creates a collection from a backup.
    ///
    /// # Errors
    /// [`ServiceError`]; the collection is then not created.
    pub async fn restore(
        &self,
        collection: &CollectionName,
        tar: Incoming,
    ) -> Result<Restored, ServiceError> {
        Ok(self.engine()?.restore(collection, tar, Arc::new(self.limits)).await?)
    }
}

impl RestoreRules for Limits {
    fn line_bytes(&self) -> usize {
        let most = self.document_bytes.saturating_add(self.metadata_bytes);
        most.saturating_mul(MAX_ESCAPE).saturating_add(DOCUMENT_OVERHEAD)
    }

    fn settings(&self, settings: &CollectionSettings) -> Result<(), EngineError> {
        let refused = |what: String| {
            Err(EngineError::NotAdmitted(format!(
                "{what} in the manifest of the backup; no collection can have that"
            )))
        };
        // Every setting is named here, so that the compiler asks for the check of a new one.
        let CollectionSettings {
            profile,
            width: _,
            signatures: _,
            k: _,
            threshold: _,
            clusters: _,
            keep_text: _,
            weights,
            sketch_bytes,
            grams,
            source_field,
            expires_in,
        } = settings;
        if let Some(bytes) = sketch_bytes.filter(|bytes| !SKETCH_BYTES.contains(bytes)) {
            return refused(format!("sketch_bytes is {bytes}"));
        }
        let profile = Profile::named(profile);
        let weighed = profile.and_then(|profile| weighed_features(profile, settings));
        if let Some(weights) = weights.as_ref().filter(|_| profile.is_some())
            && weighed.is_none_or(|of| of.kind_of_features() != weights.table().kind())
        {
            return refused("a table of weights of other features".to_owned());
        }
        let boilerplate = grams.map(|rule| rule.boilerplate);
        if let Some(documents) = boilerplate.filter(|documents| !BOILERPLATE_DOCUMENTS.contains(documents)) {
            return refused(format!("boilerplate is {documents}"));
        }
        if let Some(field) = source_field.as_deref().filter(|field| check_source_field(field).is_err()) {
            return refused(format!("source_field has {} bytes", field.len()));
        }
        if let Some(seconds) = expires_in.filter(|seconds| !EXPIRES_IN.contains(seconds)) {
            return refused(format!("expires_in is {seconds} seconds"));
        }
        Ok(())
    }

    fn document(&self, document: &Document, now_ms: u64) -> Result<(), EngineError> {
        let Document { id, row } = document;
        let of = |error: ServiceError| format!("document {:?} of the backup: {error}", id.as_str());
        let too_large =
            |error| EngineError::TooLarge(format!("{}; raise the limit to restore it", of(error)));
        if let Some(text) = &row.text {
            check_text("text", text, self.document_bytes).map_err(too_large)?;
        }
        if let Some(thumbnail) = &row.thumbnail {
            check_thumbnail(thumbnail).map_err(|error| EngineError::NotAdmitted(of(error)))?;
        }
        if row.grams.len() > MAX_EXACT {
            let id = id.as_str();
            return Err(EngineError::NotAdmitted(format!(
                "document {id:?} of the backup has too many grams"
            )));
        }
        let metadata = row.metadata.as_deref();
        let is_too_large = metadata.is_some_and(|text| text.len() > self.metadata_bytes);
        check_metadata(metadata, self.metadata_bytes).map_err(|error| {
            if is_too_large { too_large(error) } else { EngineError::NotAdmitted(of(error)) }
        })?;
        let expiry =
            row.lifetime.end_ms().map_or(Ok(()), |at| check_expiry(at, now_ms.saturating_add(CLOCK_SKEW_MS)));
        expiry.map_err(|error| EngineError::NotAdmitted(of(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike_engine::{Lifetime, Row};
    use lookalike_hash::{DocumentId, Hash};

    const NOW_MS: u64 = 1_800_000_000_000;

    fn document(change: impl FnOnce(&mut Row)) -> Document {
        let mut row = Row {
            hash: Hash::from_u64(1),
            features: None,
            short: false,
            characters: None,
            place: 0,
            written_ms: NOW_MS,
            lifetime: Lifetime::Endless,
            metadata: None,
            grams: Vec::new(),
            text: None,
            sketch: None,
            thumbnail: None,
        };
        change(&mut row);
        Document { id: DocumentId::new("a").unwrap(), row }
    }

    #[test]
    fn restored_documents_must_satisfy_the_limits_for_added_documents() {
        let limits = Limits { document_bytes: 100, metadata_bytes: 10, ..Limits::default() };
        let longest = EXPIRES_IN.end() * 1_000;
        let check = |change: fn(&mut Row)| limits.document(&document(change), NOW_MS);
        assert!(check(|row| row.text = Some("x".repeat(100))).is_ok());
        assert!(check(|row| row.metadata = Some("{\"a\":\"23\"}".into())).is_ok());
        assert!(
            limits
                .document(&document(|row| row.lifetime = Lifetime::Until(NOW_MS + longest)), NOW_MS)
                .is_ok()
        );
        for (change, is_too_large, expected) in [
            ((|row| row.text = Some("x".repeat(101))) as fn(&mut Row), true, "limits.document_bytes"),
            (|row| row.metadata = Some("{\"a\":\"234\"}".into()), true, "limits.metadata_bytes"),
            (|row| row.metadata = Some("{\"a\":1,".into()), false, "cannot be kept"),
            (|row| row.metadata = Some("[1]".into()), false, "a JSON object"),
            (|row| row.lifetime = Lifetime::Until(u64::MAX), false, "100 years"),
        ] {
            let error = check(change).unwrap_err();
            assert_eq!(matches!(error, EngineError::TooLarge(_)), is_too_large, "{error}");
            let message = error.to_string();
            assert!(message.contains("document \"a\"") && message.contains(expected), "{message}");
        }
    }
}
