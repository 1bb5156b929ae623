//! Changes of stored documents: their metadata and their expiry. The rest stays.
//!
//! The metadata is changed by the rules of JSON merge patch (RFC 7396). Members that the patch does not name
//! keep their exact text, with all digits of their numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::Service;
use super::checks::check_metadata;
use super::documents::{Expires, Preparation};
use super::error::ServiceError;
use lookalike_engine::{Admission, Condition, Document, Operation, Outcome, Version};
use lookalike_hash::{CollectionName, DocumentId};

/// Maximum number of attempts. One fails if the document is written between its read and its write.
const ATTEMPTS: usize = 16;

/// The change of a document.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The merge patch of the metadata: an object, or `null` to remove it. `None` to keep it.
    pub metadata: Option<Box<RawValue>>,
    /// When it expires; `None` to keep the present expiry.
    pub expires: Option<Expires>,
}

impl Service {
    /// Changes a document if the condition holds. Returns what was stored, without the text.
    ///
    /// # Errors
    /// [`ServiceError::NoDocument`], [`ServiceError::Condition`], or [`ServiceError::Overtaken`] if another
    /// write made every attempt fail.
    pub async fn patch(
        &self,
        collection: &CollectionName,
        id: &DocumentId,
        patch: Patch,
        condition: Condition,
    ) -> Result<Document, ServiceError> {
        let preparation = self.preparation(collection)?;
        if let Some(change) = patch.metadata.as_deref().filter(|change| change.get() != "null") {
            check_metadata(Some(change.get()), preparation.limits.metadata_bytes)?;
        }
        for _ in 0..ATTEMPTS {
            let found = self.document(collection, id).await;
            if let (Err(ServiceError::NoDocument { .. }), true) = (&found, condition != Condition::None) {
                return Err(ServiceError::Condition { id: id.clone(), version: None });
            }
            let mut document = found?;
            let version =
                Version::of_document(document.row.place, document.row.written_ms, document.row.hash);
            if !condition.holds(Some(version)) {
                return Err(ServiceError::Condition { id: id.clone(), version: Some(version) });
            }
            preparation.change(&mut document, &patch)?;
            let condition = Condition::Version(vec![version]);
            let put = Operation::Put { document: document.clone(), unless: None, condition };
            let engine = Arc::clone(self.engine()?);
            let written_to = engine.find(collection)?;
            let receipt =
                engine.write(collection, Some(&preparation.settings), vec![put], Admission::Shed).await?;
            if let Some(Outcome::Updated(_)) = receipt.await?.first() {
                written_to.traffic.wrote(1);
                // It is not read again: that could fail, or find a later version.
                document.row.text = None;
                return Ok(document);
            }
        }
        Err(ServiceError::Overtaken(id.as_str().to_owned()))
    }
}

impl Preparation {
    fn change(&self, document: &mut Document, patch: &Patch) -> Result<(), ServiceError> {
        let row = &mut document.row;
        if let Some(change) = &patch.metadata {
            let before = row.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
            row.metadata = merged(before, change).map(|merged| merged.get().to_owned());
            check_metadata(row.metadata.as_deref(), self.limits.metadata_bytes)?;
        }
        if let Some(expires) = patch.expires {
            row.lifetime = self.expires_ms(expires)?.into();
        }
        // The writer computes the same time.
        row.written_ms = self.now_ms.max(row.written_ms + 1);
        Ok(())
    }
}

type Members = BTreeMap<String, Box<RawValue>>;

/// The result of a merge patch; `None` if it removes the value.
fn merged(target: Option<&RawValue>, patch: &RawValue) -> Option<Box<RawValue>> {
    if patch.get() == "null" {
        return None;
    }
    let members = |value: &RawValue| serde_json::from_str::<Members>(value.get()).ok();
    let Some(changes) = members(patch) else { return Some(patch.to_owned()) };
    let mut result = target.and_then(members).unwrap_or_default();
    for (name, change) in changes {
        match merged(result.get(&name).map(|value| &**value), &change) {
            Some(value) => result.insert(name, value),
            None => result.remove(&name),
        };
    }
    Some(serde_json::value::to_raw_value(&result).expect("an object of JSON can always be serialised"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn merge(target: &str, patch: &str) -> String {
        let target: Option<&RawValue> = serde_json::from_str(target).ok();
        merged(target, serde_json::from_str(patch).unwrap())
            .map_or("null".to_owned(), |raw| raw.get().to_owned())
    }

    #[test]
    fn the_examples_of_rfc_7396_hold_for_objects() {
        for (target, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            ("", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (
                r#"{"a":12345678901234567890123.50}"#,
                r#"{"b":1}"#,
                r#"{"a":12345678901234567890123.50,"b":1}"#,
            ),
            (r#"{"a":1}"#, "null", "null"),
        ] {
            assert_eq!(merge(target, patch), expected, "{target} {patch}");
        }
    }

    /// The algorithm of RFC 7396, section 2.
    fn twin(target: &Value, patch: &Value) -> Value {
        let Value::Object(changes) = patch else { return patch.clone() };
        let mut result = target.as_object().cloned().unwrap_or_default();
        for (name, change) in changes {
            if change.is_null() {
                result.remove(name);
            } else {
                let value = twin(result.get(name).unwrap_or(&Value::Null), change);
                result.insert(name.clone(), value);
            }
        }
        Value::Object(result)
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(json!(null)), any::<i32>().prop_map(Value::from), Just(json!([1, {"a": null}]))];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn a_merge_is_that_of_the_rfc(target in values(), patch in values()) {
            prop_assume!(patch.is_object());
            let merged = merge(&target.to_string(), &patch.to_string());
            let merged: Value = serde_json::from_str(&merged).unwrap();
            prop_assert_eq!(merged, twin(&target, &patch));
        }
    }
}
