//! Backups of collections, out and in.
//!
//! What is restored is held to the limits of what is added: otherwise a backup would be the way around them.

use std::sync::Arc;

use super::Service;
use super::documents::{EXPIRES_IN, check_expiry, check_metadata, check_text};
use super::error::ServiceError;
use super::limits::Limits;
use super::second_check::SKETCH_BYTES;
use crate::engine::{CollectionSettings, Document, EngineError, Incoming, Pieces, RestoreRules, Restored};
use crate::ids::CollectionName;

/// By how much the clock of the machine that a backup was taken on may be ahead.
const CLOCKS_MS: u64 = 24 * 3_600 * 1_000;
/// How many bytes of a backup a byte of text or metadata takes, at most: `\u0001`.
const ESCAPED: usize = 6;
/// What a document takes in a backup beside text and metadata, at most: an id, a signature, times.
const BESIDE: usize = 16 << 10;

impl Service {
    /// A backup of a collection as of this moment.
    ///
    /// # Errors
    /// [`ServiceError`] if none can be begun.
    pub async fn backup(&self, collection: &CollectionName) -> Result<Pieces, ServiceError> {
        Ok(self.engine()?.backup(collection, self.now_ms()).await?)
    }

    /// Makes a collection of a backup.
    ///
    /// # Errors
    /// [`ServiceError`]; there is no such collection then.
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
        most.saturating_mul(ESCAPED).saturating_add(BESIDE)
    }

    fn settings(&self, settings: &CollectionSettings) -> Result<(), EngineError> {
        let refused = |what: String| {
            Err(EngineError::NotAdmitted(format!(
                "{what} in the manifest of the backup; no collection has that"
            )))
        };
        match settings {
            CollectionSettings { sketch_bytes: Some(bytes), .. } if !SKETCH_BYTES.contains(bytes) => {
                refused(format!("sketch_bytes is {bytes}"))
            }
            CollectionSettings { expires_in: Some(seconds), .. } if !EXPIRES_IN.contains(seconds) => {
                refused(format!("expires_in is {seconds} seconds"))
            }
            _ => Ok(()),
        }
    }

    fn document(&self, document: &Document, now_ms: u64) -> Result<(), EngineError> {
        let Document { id, row } = document;
        let of = |error: ServiceError| format!("document {:?} of the backup: {error}", id.as_str());
        let too_large =
            |error| EngineError::TooLarge(format!("{}; raise the limit to restore it", of(error)));
        if let Some(text) = &row.text {
            check_text("text", text, self.document_bytes).map_err(too_large)?;
        }
        let metadata = row.metadata.as_deref();
        let is_too_large = metadata.is_some_and(|text| text.len() > self.metadata_bytes);
        check_metadata(metadata, self.metadata_bytes).map_err(|error| {
            if is_too_large { too_large(error) } else { EngineError::NotAdmitted(of(error)) }
        })?;
        let expiry = row.expires_ms.map_or(Ok(()), |at| check_expiry(at, now_ms.saturating_add(CLOCKS_MS)));
        expiry.map_err(|error| EngineError::NotAdmitted(of(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Row;
    use crate::ids::{DocumentId, Hash};

    const NOW_MS: u64 = 1_800_000_000_000;

    fn document(change: impl FnOnce(&mut Row)) -> Document {
        let mut row = Row {
            hash: Hash::from_u64(1),
            features: None,
            short: false,
            written_ms: NOW_MS,
            expires_ms: None,
            metadata: None,
            text: None,
            sketch: None,
        };
        change(&mut row);
        Document { id: DocumentId::new("a").unwrap(), row }
    }

    #[test]
    fn what_is_restored_is_held_to_the_limits_of_what_is_added() {
        let limits = Limits { document_bytes: 100, metadata_bytes: 10, ..Limits::default() };
        let longest = EXPIRES_IN.end() * 1_000;
        let check = |change: fn(&mut Row)| limits.document(&document(change), NOW_MS);
        assert!(check(|row| row.text = Some("x".repeat(100))).is_ok());
        assert!(check(|row| row.metadata = Some("{\"a\":\"23\"}".into())).is_ok());
        assert!(limits.document(&document(|row| row.expires_ms = Some(NOW_MS + longest)), NOW_MS).is_ok());
        for (change, is_too_large, expected) in [
            ((|row| row.text = Some("x".repeat(101))) as fn(&mut Row), true, "limits.document_bytes"),
            (|row| row.metadata = Some("{\"a\":\"234\"}".into()), true, "limits.metadata_bytes"),
            (|row| row.metadata = Some("{\"a\":1,".into()), false, "cannot be kept"),
            (|row| row.metadata = Some("[1]".into()), false, "a JSON object"),
            (|row| row.expires_ms = Some(u64::MAX), false, "100 years"),
        ] {
            let error = check(change).unwrap_err();
            assert_eq!(matches!(error, EngineError::TooLarge(_)), is_too_large, "{error}");
            let said = error.to_string();
            assert!(said.contains("document \"a\"") && said.contains(expected), "{said}");
        }
    }
}
