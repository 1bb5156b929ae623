//! Checks of the parts of a document, which name the field, the limit and the way out.

use super::documents::EXPIRES_IN;
use super::error::ServiceError;
use super::strict_json::Strict;
use lookalike_hash::Hash;
use lookalike_text::fingerprint::Profile;
use lookalike_wording::told;

/// Checks that a hash made by the client fits this profile.
pub(super) fn checked_hash(profile: &Profile, hash: Hash) -> Result<Hash, ServiceError> {
    if profile.signatures().is_some() {
        let detail = "in this collection hashes are names of signatures and cannot be compared; give a text, \
                      html or the signature";
        return Err(ServiceError::invalid("hash", detail));
    }
    if hash.width() == profile.width() {
        return Ok(hash);
    }
    let (found, wanted) = (hash.width().bits(), profile.width());
    let detail = format!(
        "the hash has {found} bits; this collection has hashes of {} bits, {} digits",
        wanted.bits(),
        wanted.digits()
    );
    Err(ServiceError::invalid("hash", detail))
}

/// Rejects an expiry that is too far in the future.
pub(super) fn check_expiry(at_ms: u64, now_ms: u64) -> Result<(), ServiceError> {
    if at_ms > now_ms.saturating_add(EXPIRES_IN.end() * 1_000) {
        let detail = "expires_at is more than 100 years away; leave it out if the document must not expire";
        return Err(ServiceError::invalid("expires_at", detail));
    }
    Ok(())
}

/// Rejects a text that is too long to be stored.
pub(super) fn check_text(field: &'static str, text: &str, limit: usize) -> Result<(), ServiceError> {
    if text.len() > limit {
        let detail =
            format!("the text has {} bytes; at most {limit} are kept (limits.document_bytes)", text.len());
        return Err(ServiceError::invalid(field, detail));
    }
    Ok(())
}

/// Rejects metadata that is too long, is not a JSON object, or is ambiguous.
pub(super) fn check_metadata(metadata: Option<&str>, limit: usize) -> Result<(), ServiceError> {
    let Some(text) = metadata else {
        return Ok(());
    };
    if text.len() > limit {
        let detail =
            format!("metadata has {} bytes; at most {limit} are kept (limits.metadata_bytes)", text.len());
        return Err(ServiceError::invalid("metadata", detail));
    }
    match serde_json::from_str::<Strict>(text) {
        Ok(Strict(serde_json::Value::Object(_))) => Ok(()),
        Ok(_) => {
            Err(ServiceError::invalid("metadata", "metadata is a JSON object, such as {\"source\": \"rss\"}"))
        }
        Err(error) => {
            let (message, place) = told(text.as_bytes(), &error);
            Err(ServiceError::invalid("metadata", format!("metadata cannot be kept: {message}{place}")))
        }
    }
}
