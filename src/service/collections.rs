//! Making, changing and deleting collections.

use std::sync::Arc;

use tokio::sync::SemaphorePermit;

use super::Service;
use super::error::ServiceError;
use super::fingerprints::profile_named;
use super::second_check::SKETCH_BYTES;
use crate::engine::{Changed, CollectionChange, Condition, Engine, EngineError, ProfileFacts};
use crate::fingerprint::{Banding, Profile, Profiles};
use crate::ids::{CollectionName, SignatureShape};

/// The share of the pairs at a collection's threshold that its bands are to catch.
const CAUGHT: f64 = 0.95;

/// The settings that a request names; what it leaves out keeps its value or gets the default.
#[derive(Clone, Debug, Default)]
pub struct WantedCollection {
    /// The profile of its fingerprints.
    pub profile: Option<String>,
    /// The distance that queries use unless they name another.
    pub k: Option<u32>,
    /// The same as a similarity of signatures, from 0 to 1.
    pub threshold: Option<f64>,
    /// The bytes of the sketch that documents keep for a second check, [`super::SKETCH_BYTES`]; 0 is none.
    pub sketch_bytes: Option<u16>,
    /// Whether documents keep their texts.
    pub keep_text: Option<bool>,
    /// After how many seconds documents expire that say nothing of it, [`super::EXPIRES_IN`]; `Some(None)` is never.
    pub expires_in: Option<Option<u64>>,
}

impl Service {
    /// Makes a collection or changes its settings.
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
        let _turn = self.turn()?;
        let change = change(self.profiles(), wanted)?;
        Ok(engine.put_collection(name, change, condition, self.now_ms()).await?)
    }

    /// A place among those who change collections.
    fn turn(&self) -> Result<SemaphorePermit<'_>, ServiceError> {
        let turn = self.collection_changes.try_acquire();
        Ok(turn.map_err(|_| EngineError::Busy("the queue of changes of collections"))?)
    }

    /// Makes a collection in an engine that the service was not given yet.
    ///
    /// # Errors
    /// As [`Service::put_collection`].
    pub async fn make_collection(
        &self,
        engine: &Arc<dyn Engine>,
        name: &CollectionName,
        wanted: WantedCollection,
    ) -> Result<(), ServiceError> {
        let change = change(self.profiles(), wanted)?;
        engine.put_collection(name, change, Condition::Absent, self.now_ms()).await?;
        Ok(())
    }

    /// Whether a collection could be made so.
    ///
    /// # Errors
    /// [`ServiceError::NoProfile`], [`ServiceError::Invalid`].
    pub fn check_collection(
        profiles: Profiles,
        name: &CollectionName,
        wanted: WantedCollection,
    ) -> Result<(), ServiceError> {
        change(profiles, wanted)?.merge(name, None)?;
        Ok(())
    }

    /// Whether the documents of a collection have signatures.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is none.
    pub async fn has_signatures(&self, name: &CollectionName) -> Result<bool, ServiceError> {
        Ok(self.engine()?.settings(name).await?.signatures.is_some())
    }

    /// Deletes a collection with all its documents.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is none, [`EngineError::Condition`] if the condition does not hold.
    pub async fn delete_collection(
        &self,
        name: &CollectionName,
        condition: Condition,
    ) -> Result<(), ServiceError> {
        let engine = self.engine()?;
        let _turn = self.turn()?;
        if engine.delete_collection(name, condition).await? {
            // Nobody could ask for what it finds.
            self.calibrations.forget(name);
            return Ok(());
        }
        Err(EngineError::NoCollection(name.clone()).into())
    }
}

/// What a request wants as the engine takes it: what depends on profiles is looked up here, what depends on the
/// settings that there are is left to the engine, which knows them when the change is made.
fn change(profiles: Profiles, wanted: WantedCollection) -> Result<CollectionChange, ServiceError> {
    let WantedCollection { profile, k, threshold, sketch_bytes, keep_text, expires_in } = wanted;
    if let Some(bytes) = sketch_bytes.filter(|bytes| *bytes != 0 && !SKETCH_BYTES.contains(bytes)) {
        let (least, most) = (SKETCH_BYTES.start(), SKETCH_BYTES.end());
        let detail = format!("sketch_bytes is {bytes}; it is 0 for none, or from {least} to {most}");
        return Err(ServiceError::invalid("sketch_bytes", detail));
    }
    let named = profile.map(|name| profile_named(profiles, &name)).transpose()?;
    Ok(CollectionChange {
        profile: named.map(|profile| facts(profile, threshold)),
        usual: facts(Profile::default_profile(), threshold),
        k,
        threshold,
        sketch_bytes,
        keep_text,
        expires_in,
    })
}

fn facts(profile: &Profile, threshold: Option<f64>) -> ProfileFacts {
    let shape = profile.signatures();
    ProfileFacts {
        id: profile.id().to_string(),
        width: profile.width(),
        signatures: shape.map(|shape| threshold.map_or(shape, |least| fitted(profile, shape, least))),
        k: profile.default_k(),
    }
}

/// The shape of signatures whose bands suit a threshold; that of the profile for the threshold that the profile is made
/// for, and for sets, whose bands are their cells.
fn fitted(profile: &Profile, shape: SignatureShape, threshold: f64) -> SignatureShape {
    let is_usable = (0.0..=1.0).contains(&threshold);
    if shape.is_set || !is_usable || shape.distance_for(threshold) == profile.default_k() {
        return shape;
    }
    let banding = Banding::for_threshold(threshold, CAUGHT, usize::from(shape.cells));
    let (bands, rows) = (banding.bands as u16, banding.rows as u16);
    SignatureShape { bands, rows, ..shape }.checked().unwrap_or(shape)
}
