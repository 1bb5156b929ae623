//! Changes of a collection's settings: the requested settings and the result.
//!
//! A change is partial: it holds only the settings that the client wrote. The writer merges it with the
//! settings that are current when it processes the change, so two clients that change different settings at
//! the same time both succeed. Everything in this module is pure: the same settings and the same change give
//! the same result.
//!
//! *Absent*: profiles. The caller looks up the properties of a profile and passes them as [`ProfileFacts`].

use std::fmt;

use serde::{Deserialize, Serialize};

use super::registry::reach;
use super::{BOILERPLATE, CollectionInfo, CollectionSettings, EngineError, Weights};
use lookalike_hash::{
    ClusterRule, CollectionName, GramRule, KeepRule, Passages, SignatureShape, SketchCheck, Width,
};
use lookalike_text::fingerprint::makes_the_same;

/// The properties of a profile that a collection needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileFacts {
    /// Its id, `name@version`.
    pub id: String,
    /// The width of its hashes.
    pub width: Width,
    /// The shape of a new collection's signatures, if the profile makes signatures. It suits the change's
    /// threshold, if the change has one.
    pub signatures: Option<SignatureShape>,
    /// The default distance of a new collection.
    pub k: u32,
    /// The size in bytes of the sketch that documents of a new collection keep by default, if they keep one.
    pub sketch_bytes: Option<u16>,
    /// The check of documents that are near by this profile at its default distance.
    pub check: Option<SketchCheck>,
}

impl ProfileFacts {
    /// The check of clusters at this distance.
    fn check_at(&self, k: u32, is_weighted: bool) -> Option<SketchCheck> {
        let check = self.check.filter(|_| self.k == k);
        if is_weighted { check.map(SketchCheck::weighted) } else { check }
    }

    /// The default distance, with weights or without.
    fn k_with(&self, is_weighted: bool) -> u32 {
        let shape = self.signatures.filter(|_| is_weighted);
        shape.map_or(self.k, |shape| shape.weighted(self.k))
    }
}

/// The settings that a client names. An omitted setting keeps its value, or gets the default in a new
/// collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsChange {
    /// The distance that queries use by default.
    pub k: Option<u32>,
    /// The similarity of signatures, 0 to 1, that sets `k`; an alternative to `k`.
    pub threshold: Option<f64>,
    /// The size in bytes of the sketch that documents keep, 8 to 1,024; 0 for no sketch.
    pub sketch_bytes: Option<u16>,
    /// The weights of features; `Some(None)` for equal ones. Only a reindex changes them.
    #[allow(clippy::option_option, reason = "not named, none, or some")]
    pub weights: Option<Option<Weights>>,
    /// Which grams of their texts documents keep.
    pub passages: Option<Passages>,
    /// The number of documents, unlike each other, that make what they share boilerplate, 1 to 1,000.
    pub boilerplate: Option<u32>,
    /// The metadata field that names the source of a document; `Some(None)` for one source of all.
    #[allow(clippy::option_option, reason = "not named, none, or some")]
    pub source_field: Option<Option<String>>,
    /// How documents form clusters, for a new collection: the keep rule, and the distance if it is not that
    /// of the collection.
    pub clusters: Option<(KeepRule, Option<u32>)>,
    /// Whether documents keep their texts.
    pub keep_text: Option<bool>,
    /// The default lifetime of documents in seconds; `Some(None)` means that documents do not expire.
    #[allow(clippy::option_option, reason = "not named, none, or some")]
    pub expires_in: Option<Option<u64>>,
}

/// A change of the settings with what it needs of the profiles.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CollectionChange {
    /// The profile, if one is named.
    pub profile: Option<ProfileFacts>,
    /// The profile of a new collection if the change names none.
    pub default_profile: ProfileFacts,
    /// The other settings.
    pub settings: SettingsChange,
}

impl SettingsChange {
    /// The setting of grams after the change.
    fn grams(&self, before: &CollectionSettings) -> Result<Option<GramRule>, EngineError> {
        match (self.passages.unwrap_or(Passages::of(before.grams)), self.boilerplate) {
            (Passages::No, None) => Ok(None),
            (Passages::No, Some(wanted)) => Err(without_passages("boilerplate_documents", &wanted)),
            (kept, wanted) => {
                let before = before.grams.map_or(BOILERPLATE, |rule| rule.boilerplate);
                let is_exact = kept == Passages::Exact;
                Ok(Some(GramRule { is_exact, boilerplate: wanted.unwrap_or(before) }))
            }
        }
    }

    fn source_field(&self, before: &CollectionSettings) -> Result<Option<String>, EngineError> {
        if self.passages.unwrap_or(Passages::of(before.grams)) != Passages::No {
            return Ok(self.source_field.as_ref().unwrap_or(&before.source_field).clone());
        }
        match &self.source_field {
            Some(Some(field)) => Err(without_passages("source_field", field)),
            _ => Ok(None),
        }
    }

    fn sketch_bytes(&self, before: &CollectionSettings) -> Result<Option<u16>, EngineError> {
        match self.sketch_bytes {
            None => Ok(before.sketch_bytes),
            Some(0) => Ok(None),
            Some(bytes) if before.signatures.is_some() => {
                let detail =
                    format!("sketch_bytes is {bytes}; signatures are compared themselves, leave it out");
                Err(EngineError::Invalid { field: "sketch_bytes", detail })
            }
            Some(bytes) => Ok(Some(bytes)),
        }
    }
}

impl CollectionChange {
    /// The settings after the change. If `current` is `None`, they are those of a new collection.
    ///
    /// # Errors
    /// [`EngineError::SettingsConflict`] if the stored documents would not fit the settings,
    /// [`EngineError::Invalid`] or [`EngineError::Distance`] if the collection cannot have such a setting.
    pub fn merge(
        &self,
        name: &CollectionName,
        current: Option<&CollectionSettings>,
    ) -> Result<CollectionSettings, EngineError> {
        let wanted = &self.settings;
        let before = match current {
            Some(settings) => settings.clone(),
            None => self.fresh(),
        };
        let before_clusters = before.clusters.clone();
        // Every setting is named here, so that the compiler asks for a new one.
        let mut after = CollectionSettings {
            k: reach(&before, wanted.k, wanted.threshold)?,
            threshold: if wanted.k.is_some() { None } else { wanted.threshold.or(before.threshold) },
            sketch_bytes: wanted.sketch_bytes(&before)?,
            weights: before.weights.clone(),
            grams: wanted.grams(&before)?,
            source_field: wanted.source_field(&before)?,
            clusters: None,
            keep_text: wanted.keep_text.unwrap_or(before.keep_text),
            expires_in: wanted.expires_in.unwrap_or(before.expires_in),
            profile: before.profile,
            width: before.width,
            signatures: before.signatures,
        };
        let of_clusters = |error: EngineError| match error {
            EngineError::Distance { k, most } => {
                let detail =
                    format!("k of the clusters is {k}; in this collection it ranges from 0 to {most}");
                EngineError::Invalid { field: "clusters/k", detail }
            }
            other => other,
        };
        after.clusters = match (&wanted.clusters, &before_clusters) {
            (None, before) => before.clone(),
            (Some((keep, None)), Some(before)) if before.keep == *keep => Some(before.clone()),
            (Some((keep, k)), _) => {
                let facts = self.profile.as_ref().unwrap_or(&self.default_profile);
                let check = facts.check_at(after.k, after.weights.is_some()).filter(|_| k.is_none());
                let k = reach(&after, *k, None).map_err(of_clusters)?;
                Some(ClusterRule { keep: keep.clone(), k, check })
            }
        };
        if let Some(stored) = current {
            self.check_stored(name, stored, &after)?;
            if let Some(profile) = &self.profile {
                // A user-defined profile may have a new version that makes the same hashes.
                after.profile.clone_from(&profile.id);
            }
        }
        Ok(after)
    }

    /// The settings of a new collection before the other settings of the change are applied.
    fn fresh(&self) -> CollectionSettings {
        let profile = self.profile.as_ref().unwrap_or(&self.default_profile);
        CollectionSettings {
            signatures: profile.signatures,
            k: profile.k,
            sketch_bytes: profile.sketch_bytes,
            ..CollectionSettings::of(profile.id.clone(), profile.width)
        }
    }

    /// The settings after a reindex: profile, distance, sketches, weights and passages as the change names
    /// them, otherwise the current ones. Distances of two profiles are not comparable, nor those with weights
    /// and without: if that changes, `k` and that of clusters are those of the new profile.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] or [`EngineError::Distance`] if the collection cannot have such a setting.
    pub(super) fn reform(&self, current: &CollectionSettings) -> Result<CollectionSettings, EngineError> {
        let profile = self.profile.as_ref().unwrap_or(&self.default_profile);
        let is_same = makes_the_same(&current.profile, &profile.id);
        let wanted = &self.settings;
        let keeps_bands = is_same && wanted.threshold.is_none();
        let signatures = if keeps_bands { current.signatures } else { profile.signatures };
        let weights = wanted.weights.clone().unwrap_or_else(|| current.weights.clone());
        let is_weighted = weights.is_some();
        let keeps_k = is_same && is_weighted == current.weights.is_some();
        let base = CollectionSettings {
            profile: profile.id.clone(),
            width: profile.width,
            signatures,
            k: if keeps_k { current.k } else { profile.k_with(is_weighted) },
            threshold: current.threshold.filter(|_| keeps_k),
            weights,
            sketch_bytes: match (signatures, current.signatures) {
                (Some(_), _) => None,
                (None, Some(_)) => profile.sketch_bytes,
                (None, None) => current.sketch_bytes,
            },
            ..current.clone()
        };
        let k = reach(&base, wanted.k, wanted.threshold)?;
        let clusters = current.clusters.clone();
        let check = profile.check_at(k, is_weighted);
        let clusters = clusters.map(|rule| if keeps_k { rule } else { ClusterRule { k, check, ..rule } });
        let threshold = if wanted.k.is_some() { None } else { wanted.threshold.or(base.threshold) };
        let (sketch_bytes, grams) = (wanted.sketch_bytes(&base)?, wanted.grams(&base)?);
        let source_field = wanted.source_field(&base)?;
        Ok(CollectionSettings { k, threshold, sketch_bytes, grams, source_field, clusters, ..base })
    }

    /// Rejects settings that would not fit the stored documents and the index.
    fn check_stored(
        &self,
        name: &CollectionName,
        stored: &CollectionSettings,
        after: &CollectionSettings,
    ) -> Result<(), EngineError> {
        let conflict = |setting, stored: String, wanted: String| {
            Err(EngineError::SettingsConflict { name: name.clone(), setting, stored, wanted })
        };
        if let Some(wanted) = &self.profile {
            if !makes_the_same(&stored.profile, &wanted.id) {
                return conflict("profile", stored.profile.clone(), wanted.id.clone());
            }
            // A request that names both profile and threshold requires the bands that a new collection would
            // get.
            if let Some(threshold) = self.settings.threshold
                && stored.signatures != wanted.signatures
            {
                let wanted = format!("{threshold}, which takes {}", bands(wanted.signatures));
                return conflict("threshold", bands(stored.signatures), wanted);
            }
        }
        if stored.sketch_bytes != after.sketch_bytes {
            let bytes = |sketch: Option<u16>| sketch.unwrap_or(0).to_string();
            return conflict("sketch_bytes", bytes(stored.sketch_bytes), bytes(after.sketch_bytes));
        }
        if stored.clusters != after.clusters {
            let rule = |rule: &Option<ClusterRule>| {
                rule.as_ref()
                    .map_or_else(|| "none".to_owned(), |rule| format!("{} at k={}", rule.keep, rule.k))
            };
            return conflict("clusters", rule(&stored.clusters), rule(&after.clusters));
        }
        let [kept, wanted] = [stored, after].map(|settings| Passages::of(settings.grams));
        if kept != wanted {
            return conflict("passages", kept.to_string(), wanted.to_string());
        }
        Ok(())
    }
}

/// The error of a setting about passages in a collection that keeps none.
fn without_passages(field: &'static str, value: &dyn fmt::Debug) -> EngineError {
    let detail = format!(
        "{field} is {value:?}, and the collection keeps no passages; create it with \"passages\": true or \
         leave {field} out"
    );
    EngineError::Invalid { field, detail }
}

fn bands(shape: Option<SignatureShape>) -> String {
    shape.map_or_else(|| "no bands".to_owned(), |shape| format!("{} bands of {}", shape.bands, shape.rows))
}

/// The first setting because of which documents made for one collection do not fit another, with both values.
pub(super) fn differing(
    stored: &CollectionSettings,
    wanted: &CollectionSettings,
) -> Option<(&'static str, String, String)> {
    let values = |of: &CollectionSettings| {
        [
            ("sketch_bytes", of.sketch_bytes.unwrap_or(0).to_string()),
            ("passages", Passages::of(of.grams).to_string()),
        ]
    };
    if !makes_the_same(&stored.profile, &wanted.profile) || stored.weights != wanted.weights {
        return Some(("profile", stored.made_by(), wanted.made_by()));
    }
    let mut pairs = values(stored).into_iter().zip(values(wanted));
    pairs.find(|(a, b)| a != b).map(|((setting, stored), (_, wanted))| (setting, stored, wanted))
}

/// A collection that was created or changed.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Whether the collection is new.
    pub is_new: bool,
    /// The collection immediately after the change.
    pub info: CollectionInfo,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> CollectionName {
        CollectionName::new("news").unwrap()
    }

    fn hashes() -> ProfileFacts {
        ProfileFacts {
            id: "plain@1".into(),
            width: Width::Bits64,
            signatures: None,
            k: 7,
            sketch_bytes: None,
            check: None,
        }
    }

    fn minima(bands: u16, rows: u16) -> ProfileFacts {
        let signatures = SignatureShape::of_minima(bands, rows);
        ProfileFacts {
            id: "minima@1".into(),
            width: Width::Bits128,
            signatures,
            k: 100,
            sketch_bytes: None,
            check: None,
        }
    }

    fn change() -> CollectionChange {
        wanting(SettingsChange::default())
    }

    fn wanting(settings: SettingsChange) -> CollectionChange {
        CollectionChange { profile: None, default_profile: hashes(), settings }
    }

    fn of_minima(shape: ProfileFacts, threshold: f64) -> CollectionChange {
        let settings = SettingsChange { threshold: Some(threshold), ..Default::default() };
        CollectionChange { profile: Some(shape), ..wanting(settings) }
    }

    fn conflict(result: Result<CollectionSettings, EngineError>) -> &'static str {
        match result {
            Err(EngineError::SettingsConflict { setting, .. }) => setting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_of_different_settings_commute() {
        let all = [
            wanting(SettingsChange { k: Some(3), ..Default::default() }),
            wanting(SettingsChange { keep_text: Some(true), ..Default::default() }),
            wanting(SettingsChange { expires_in: Some(Some(60)), ..Default::default() }),
        ];
        let made = wanting(SettingsChange { sketch_bytes: Some(64), ..Default::default() })
            .merge(&name(), None)
            .unwrap();
        assert_eq!((made.profile.as_str(), made.k, made.sketch_bytes), ("plain@1", 7, Some(64)));
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let merged = order
                .iter()
                .fold(made.clone(), |settings, at: &usize| all[*at].merge(&name(), Some(&settings)).unwrap());
            let wanted = CollectionSettings { k: 3, keep_text: true, expires_in: Some(60), ..made.clone() };
            assert_eq!(merged, wanted);
        }
        let never = wanting(SettingsChange { expires_in: Some(None), ..Default::default() });
        let expiring = CollectionSettings { expires_in: Some(60), ..made.clone() };
        assert_eq!(never.merge(&name(), Some(&expiring)).unwrap(), made);
        assert_eq!(change().merge(&name(), Some(&expiring)).unwrap(), expiring);
    }

    #[test]
    fn settings_that_do_not_fit_stored_documents_conflict() {
        let made = wanting(SettingsChange { sketch_bytes: Some(64), ..Default::default() })
            .merge(&name(), None)
            .unwrap();
        let other = wanting(SettingsChange { sketch_bytes: Some(32), ..Default::default() });
        assert_eq!(conflict(other.merge(&name(), Some(&made))), "sketch_bytes");
        let none = wanting(SettingsChange { sketch_bytes: Some(0), ..Default::default() });
        assert_eq!(conflict(none.merge(&name(), Some(&made))), "sketch_bytes");
        let passages = |kept| wanting(SettingsChange { passages: Some(kept), ..Default::default() });
        let rule = |boilerplate| GramRule { is_exact: false, boilerplate };
        let with = passages(Passages::Sampled).merge(&name(), None).unwrap();
        assert_eq!((with.grams, made.grams), (Some(rule(BOILERPLATE)), None));
        assert_eq!(conflict(passages(Passages::No).merge(&name(), Some(&with))), "passages");
        assert_eq!(conflict(passages(Passages::Sampled).merge(&name(), Some(&made))), "passages");
        let exact = passages(Passages::Exact);
        assert_eq!(conflict(exact.merge(&name(), Some(&with))), "passages");
        assert_eq!(
            exact.reform(&with).unwrap().grams,
            Some(GramRule { is_exact: true, ..rule(BOILERPLATE) })
        );
        let fewer = wanting(SettingsChange { boilerplate: Some(7), ..Default::default() });
        assert_eq!(fewer.merge(&name(), Some(&with)).unwrap().grams, Some(rule(7)));
        assert!(fewer.merge(&name(), Some(&made)).unwrap_err().is_of_question());
        let other = CollectionChange { profile: Some(minima(16, 8)), ..change() };
        assert_eq!(conflict(other.merge(&name(), Some(&made))), "profile");
        let own = |id: &str| ProfileFacts { id: id.into(), ..hashes() };
        let house = CollectionChange { profile: Some(own("house@1+00000000000000ff")), ..change() };
        let house = house.merge(&name(), None).unwrap();
        let renumbered = CollectionChange { profile: Some(own("house@2+00000000000000ff")), ..change() };
        assert_eq!(
            renumbered.merge(&name(), Some(&house)).unwrap().profile,
            "house@2+00000000000000ff",
            "the hashes are the same"
        );
    }

    #[test]
    fn a_threshold_with_its_profile_requires_bands_and_alone_sets_a_distance() {
        let made = of_minima(minima(25, 8), 0.8).merge(&name(), None).unwrap();
        assert_eq!(made.signatures, SignatureShape::of_minima(25, 8));
        assert_eq!(of_minima(minima(25, 8), 0.8).merge(&name(), Some(&made)).unwrap(), made);
        assert_eq!(conflict(of_minima(minima(50, 4), 0.5).merge(&name(), Some(&made))), "threshold");
        let nearer = wanting(SettingsChange { threshold: Some(0.9), ..Default::default() });
        let nearer = nearer.merge(&name(), Some(&made)).unwrap();
        assert!(nearer.k < made.k && nearer.signatures == made.signatures, "{nearer:?}");
        assert_eq!((made.threshold, nearer.threshold), (Some(0.8), Some(0.9)));
        assert_eq!(change().merge(&name(), Some(&nearer)).unwrap(), nearer);
        let by_distance = wanting(SettingsChange { k: Some(nearer.k), ..Default::default() });
        assert_eq!(by_distance.merge(&name(), Some(&nearer)).unwrap().threshold, None);
        let sketched = wanting(SettingsChange { sketch_bytes: Some(8), ..Default::default() });
        assert!(matches!(sketched.merge(&name(), Some(&made)), Err(EngineError::Invalid { .. })));
        for wrong in [
            wanting(SettingsChange { threshold: Some(1.5), ..Default::default() }),
            wanting(SettingsChange { threshold: Some(0.5), k: Some(1), ..Default::default() }),
            wanting(SettingsChange { k: Some(201), ..Default::default() }),
        ] {
            assert!(wrong.merge(&name(), Some(&made)).unwrap_err().is_of_question(), "{wrong:?}");
        }
        let of_hashes =
            wanting(SettingsChange { threshold: Some(0.5), ..Default::default() }).merge(&name(), None);
        assert!(matches!(of_hashes, Err(EngineError::Invalid { field: "threshold", .. })));
    }
}
