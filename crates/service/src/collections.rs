//! Creating, changing and deleting collections.

use std::fmt;
use std::ops::RangeInclusive;

use tokio::sync::SemaphorePermit;

use super::Service;
use super::error::ServiceError;
use super::fingerprints::profile_named;
use super::second_check::{DEFAULT_SKETCH, SKETCH_BYTES};
use lookalike_engine::{
    Changed, CollectionChange, CollectionInfo, Condition, Engine, EngineError, ProfileFacts, SettingsChange,
    Weights,
};
use lookalike_hash::{CollectionName, SignatureShape};
use lookalike_text::fingerprint::{Banding, Profile, Profiles};

/// The recall of a collection's bands at its threshold: the share of pairs of that similarity that must share
/// a band.
const RECALL: f64 = 0.95;

/// The range of the number of unlike documents that make boilerplate. A lookup reads at least so
/// many postings per gram.
pub(super) const BOILERPLATE_DOCUMENTS: RangeInclusive<u32> = 1..=1_000;
/// The length in bytes of the name of a metadata field that names sources.
const SOURCE_FIELD_BYTES: RangeInclusive<usize> = 1..=256;

/// The settings that a request names. An omitted setting keeps its value, or gets the default in a new
/// collection.
#[derive(Clone, Debug, Default)]
pub struct WantedCollection {
    /// The profile of its fingerprints.
    pub profile: Option<String>,
    /// Whether its images keep a thumbnail.
    pub keep_thumbnail: Option<bool>,
    /// The other settings.
    pub settings: SettingsChange,
}

impl Service {
    /// All collections in the order of their names.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if they cannot be read.
    pub fn collections(&self) -> Result<Vec<CollectionInfo>, ServiceError> {
        Ok(self.engine()?.collections()?)
    }

    /// The settings and counts of a collection.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is none.
    pub fn collection(&self, name: &CollectionName) -> Result<CollectionInfo, ServiceError> {
        Ok(self.engine()?.collection(name)?)
    }

    /// Creates a collection or changes its settings.
    ///
    /// # Errors
    /// [`ServiceError::NoProfile`], [`ServiceError::Invalid`], and those of [`Engine::put_collection`].
    pub async fn put_collection(
        &self,
        name: &CollectionName,
        wanted: WantedCollection,
        condition: Condition,
    ) -> Result<Changed, ServiceError> {
        let engine = self.engine()?;
        let _permit = self.permit()?;
        // A collection without a profile has that of the collection `default`, like a fingerprint.
        let usual = match wanted.profile {
            Some(_) => Profile::default_profile(),
            None => self.profile_of(name).or_else(|_| self.profile(None))?,
        };
        let change = change(self.profiles(), usual, &wanted)?;
        Ok(engine.put_collection(name, change, condition, self.now_ms()).await?)
    }

    /// A permit to change collections.
    pub(super) fn permit(&self) -> Result<SemaphorePermit<'_>, ServiceError> {
        let permit = self.collection_changes.try_acquire();
        Ok(permit.map_err(|_| EngineError::Busy("the queue of collection changes"))?)
    }

    /// Creates a collection in an engine before [`Service::start`].
    ///
    /// # Errors
    /// As [`Service::put_collection`].
    pub async fn make_collection(
        &self,
        engine: &Engine,
        name: &CollectionName,
        wanted: WantedCollection,
    ) -> Result<(), ServiceError> {
        let change = change(self.profiles(), Profile::default_profile(), &wanted)?;
        engine.put_collection(name, change, Condition::Absent, self.now_ms()).await?;
        Ok(())
    }

    /// Checks whether a collection could be created with these settings.
    ///
    /// # Errors
    /// [`ServiceError::NoProfile`], [`ServiceError::Invalid`].
    pub fn check_collection(
        profiles: Profiles,
        name: &CollectionName,
        wanted: &WantedCollection,
    ) -> Result<(), ServiceError> {
        change(profiles, Profile::default_profile(), wanted)?.merge(name, None)?;
        Ok(())
    }

    /// The weights of a collection.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`], [`ServiceError::NoWeights`].
    pub fn weights(&self, name: &CollectionName) -> Result<Weights, ServiceError> {
        let settings = self.engine()?.settings(name)?;
        settings.weights.clone().ok_or_else(|| ServiceError::NoWeights(name.clone()))
    }

    /// Whether the documents of a collection have signatures.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is none.
    pub fn has_signatures(&self, name: &CollectionName) -> Result<bool, ServiceError> {
        Ok(self.engine()?.settings(name)?.signatures.is_some())
    }

    /// Deletes a collection with all its documents.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is none, [`EngineError::Condition`] if the condition does not
    /// hold.
    pub async fn delete_collection(
        &self,
        name: &CollectionName,
        condition: Condition,
    ) -> Result<(), ServiceError> {
        let engine = self.engine()?;
        let _permit = self.permit()?;
        if engine.delete_collection(name, condition).await? {
            // Their results could not be requested any more.
            self.calibrations.jobs.forget(name);
            self.deletions.forget(name);
            self.reindexes.forget(name);
            return Ok(());
        }
        Err(EngineError::NoCollection(name.clone()).into())
    }
}

/// Converts a request for the engine. The properties of profiles are looked up here. The engine checks what
/// depends on the current settings, because it knows them when it makes the change. `usual` is the profile of
/// a new collection that names none.
pub(super) fn change(
    profiles: Profiles,
    usual: &Profile,
    wanted: &WantedCollection,
) -> Result<CollectionChange, ServiceError> {
    let settings = wanted.settings.clone();
    check_range("boilerplate_documents", settings.boilerplate, &BOILERPLATE_DOCUMENTS, "it ranges")?;
    if let Some(Some(field)) = &settings.source_field {
        check_source_field(field)?;
    }
    let sketch = settings.sketch_bytes.filter(|bytes| *bytes != 0);
    check_range("sketch_bytes", sketch, &SKETCH_BYTES, "it is 0 for none, or")?;
    let named = wanted.profile.as_deref().map(|name| profile_named(profiles, name)).transpose()?;
    let used = named.unwrap_or(usual);
    let keep_text = wanted.keeps(used)?;
    if used.alignment().is_some() {
        let why = "aligns the letters of two texts, which collections do not do";
        let detail = format!("{} {why}: take minhash-copies, or lookalike dedupe", used.id());
        return Err(ServiceError::invalid("profile", detail));
    }
    Ok(CollectionChange {
        profile: named.map(|profile| facts(profile, settings.threshold)),
        default_profile: facts(usual, settings.threshold),
        settings: SettingsChange { keep_text, ..settings },
    })
}

/// Rejects the name of a metadata field that is empty or too long.
pub(super) fn check_source_field(field: &str) -> Result<(), ServiceError> {
    if SOURCE_FIELD_BYTES.contains(&field.len()) {
        return Ok(());
    }
    let detail = format!(
        "source_field has {} bytes; it is the name of a metadata field, of 1 to {}, or null",
        field.len(),
        SOURCE_FIELD_BYTES.end()
    );
    Err(ServiceError::invalid("source_field", detail))
}

/// Rejects a value outside its range. `rule` begins what the error says of the range.
fn check_range<T: PartialOrd + fmt::Display>(
    field: &'static str,
    value: Option<T>,
    range: &RangeInclusive<T>,
    rule: &str,
) -> Result<(), ServiceError> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (least, most) = (range.start(), range.end());
            let detail = format!("{field} is {value}; {rule} from {least} to {most}");
            Err(ServiceError::invalid(field, detail))
        }
        _ => Ok(()),
    }
}

fn facts(profile: &Profile, threshold: Option<f64>) -> ProfileFacts {
    let shape = profile.signatures();
    ProfileFacts {
        id: profile.id().to_string(),
        width: profile.width(),
        signatures: shape.map(|shape| threshold.map_or(shape, |least| fitted(profile, shape, least))),
        k: profile.default_k(),
        check: profile.check().filter(|_| shape.is_none()),
        // Signatures are compared themselves, and hashes of the client have no texts.
        sketch_bytes: Some(DEFAULT_SKETCH).filter(|_| shape.is_none() && profile.takes_texts()),
    }
}

/// The shape of signatures whose bands suit a threshold. It is the profile's own for the profile's default
/// threshold, and for sets, whose bands are their cells.
fn fitted(profile: &Profile, shape: SignatureShape, threshold: f64) -> SignatureShape {
    let is_usable = (0.0..=1.0).contains(&threshold);
    if shape.is_set || !is_usable || shape.distance_for(threshold) == profile.default_k() {
        return shape;
    }
    let banding = Banding::for_threshold(threshold, RECALL, usize::from(shape.cells));
    let (bands, rows) = (banding.bands as u16, banding.rows as u16);
    SignatureShape { bands, rows, ..shape }.checked().unwrap_or(shape)
}
