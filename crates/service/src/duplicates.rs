//! Which stored documents are duplicates of a new one.
//!
//! A near hash is a reason to compare. Unless a request names a distance, the profile of the collection has a
//! check, which decides by the sketches of both texts.

use super::fingerprints::profile_named;
use super::passages::check_containment;
use super::{Service, ServiceError};
use lookalike_engine::{CollectionSettings, DuplicateRule, reach};
use lookalike_hash::{CollectionName, SketchCheck};

impl Service {
    /// Which stored documents are near-duplicates of a new one: those within this `k` or threshold, and those
    /// that contain this share of it. Without `k` and threshold: those that pass the check of the profile, if
    /// it has one and the collection has its distance and keeps sketches; otherwise those within the distance
    /// of the collection.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`], and those of [`lookalike_engine::Collection::reach`].
    pub fn duplicate_rule(
        &self,
        collection: &CollectionName,
        k: Option<u32>,
        threshold: Option<f64>,
        containment: Option<f64>,
        replaces: bool,
    ) -> Result<DuplicateRule, ServiceError> {
        if replaces {
            self.clustered(collection)?;
        }
        let settings = self.engine()?.settings(collection)?;
        if let Some(least) = containment {
            check_containment(settings.grams.is_some(), least)?;
        }
        let usual = self.rule_of(&settings)?;
        let check = if k.is_some() || threshold.is_some() { None } else { usual.check };
        Ok(DuplicateRule { k: reach(&settings, k, threshold)?, check, containment, replaces })
    }

    /// The rule of a collection where a request names no distance.
    pub(super) fn rule_of(&self, settings: &CollectionSettings) -> Result<DuplicateRule, ServiceError> {
        let usual = DuplicateRule { k: settings.k, check: None, containment: None, replaces: false };
        if settings.signatures.is_some() || settings.sketch_bytes.is_none() {
            return Ok(usual);
        }
        let profile = profile_named(self.profiles(), &settings.profile)?;
        let check = profile.check().filter(|_| settings.k == profile.default_k());
        let check = if settings.weights.is_some() { check.map(SketchCheck::weighted) } else { check };
        Ok(DuplicateRule { check, ..usual })
    }
}
