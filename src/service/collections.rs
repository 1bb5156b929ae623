//! Making, changing and deleting collections.

use std::sync::Arc;

use tokio::sync::SemaphorePermit;

use super::Service;
use super::documents::checked_k;
use super::error::ServiceError;
use super::fingerprints::profile_named;
use super::second_check::SKETCH_BYTES;
use crate::engine::{CollectionInfo, CollectionSettings, Engine, EngineError};
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
    /// Makes a collection or changes its settings; whether it is new, and how it stands now.
    ///
    /// # Errors
    /// [`ServiceError::NoProfile`], [`ServiceError::Invalid`] for k, [`EngineError::SettingsConflict`].
    pub async fn put_collection(
        &self,
        name: &CollectionName,
        wanted: WantedCollection,
    ) -> Result<(bool, CollectionInfo), ServiceError> {
        let engine = self.engine()?;
        let _turn = self.turn()?;
        self.make_collection(engine, name, wanted).await
    }

    /// A place among those who change collections.
    fn turn(&self) -> Result<SemaphorePermit<'_>, ServiceError> {
        let turn = self.collection_changes.try_acquire();
        Ok(turn.map_err(|_| EngineError::Busy("the queue of changes of collections"))?)
    }

    /// The same in an engine that the service may not have been given yet.
    ///
    /// # Errors
    /// As [`Service::put_collection`].
    pub async fn make_collection(
        &self,
        engine: &Arc<dyn Engine>,
        name: &CollectionName,
        wanted: WantedCollection,
    ) -> Result<(bool, CollectionInfo), ServiceError> {
        let existing = match engine.settings(name).await {
            Ok(settings) => Some(settings),
            Err(EngineError::NoCollection(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let settings = merge(self.profiles(), existing.as_deref(), &wanted)?;
        let created = engine.put_collection(name, settings, self.now_ms()).await?;
        Ok((created, engine.collection(name).await?))
    }

    /// Whether a collection could be made so.
    ///
    /// # Errors
    /// [`ServiceError::NoProfile`], [`ServiceError::Invalid`].
    pub fn check_collection(profiles: Profiles, wanted: &WantedCollection) -> Result<(), ServiceError> {
        merge(profiles, None, wanted).map(|_| ())
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
    /// [`EngineError::NoCollection`] if there is none.
    pub async fn delete_collection(&self, name: &CollectionName) -> Result<(), ServiceError> {
        let engine = self.engine()?;
        let _turn = self.turn()?;
        if engine.delete_collection(name).await? {
            return Ok(());
        }
        Err(EngineError::NoCollection(name.clone()).into())
    }
}

fn merge(
    profiles: Profiles,
    existing: Option<&CollectionSettings>,
    wanted: &WantedCollection,
) -> Result<CollectionSettings, ServiceError> {
    let profile = match (&wanted.profile, existing) {
        (Some(name), _) => profile_named(profiles, name)?,
        (None, Some(settings)) => profile_named(profiles, &settings.profile)?,
        (None, None) => Profile::default_profile(),
    };
    let mut settings = CollectionSettings {
        profile: profile.id().to_string(),
        width: profile.width(),
        signatures: existing.map_or(profile.signatures(), |settings| settings.signatures),
        k: existing.map_or(profile.default_k(), |settings| settings.k),
        sketch_bytes: sketch_bytes(profile, existing, wanted.sketch_bytes)?,
        keep_text: wanted.keep_text.or(existing.map(|settings| settings.keep_text)).unwrap_or(false),
        expires_in: wanted.expires_in.or(existing.map(|settings| settings.expires_in)).flatten(),
    };
    settings.k = checked_k(&settings, wanted.k, wanted.threshold)?;
    if let (None, Some(threshold), Some(shape)) = (existing, wanted.threshold, settings.signatures)
        && settings.k != profile.default_k()
        && !shape.is_set
    {
        let banding = Banding::for_threshold(threshold, CAUGHT, usize::from(shape.cells));
        let (bands, rows) = (banding.bands as u16, banding.rows as u16);
        settings.signatures = SignatureShape { bands, rows, ..shape }.checked();
    }
    Ok(settings)
}

/// The sketch that documents are to keep: once there is a collection it cannot be another.
fn sketch_bytes(
    profile: &Profile,
    existing: Option<&CollectionSettings>,
    wanted: Option<u16>,
) -> Result<Option<u16>, ServiceError> {
    let wanted = match wanted {
        None => return Ok(existing.and_then(|settings| settings.sketch_bytes)),
        Some(0) => None,
        Some(bytes) if profile.signatures().is_some() => {
            let detail = format!("sketch_bytes is {bytes}; signatures are compared themselves, leave it out");
            return Err(ServiceError::invalid("sketch_bytes", detail));
        }
        Some(bytes) if SKETCH_BYTES.contains(&bytes) => Some(bytes),
        Some(bytes) => {
            let (least, most) = (SKETCH_BYTES.start(), SKETCH_BYTES.end());
            let detail = format!("sketch_bytes is {bytes}; it is 0 for none, or from {least} to {most}");
            return Err(ServiceError::invalid("sketch_bytes", detail));
        }
    };
    match existing {
        Some(settings) if settings.sketch_bytes != wanted => {
            let detail = format!(
                "documents of this collection keep sketches of {} bytes; those that are stored would have others. \
                 Make another collection",
                settings.sketch_bytes.unwrap_or(0)
            );
            Err(ServiceError::invalid("sketch_bytes", detail))
        }
        _ => Ok(wanted),
    }
}
