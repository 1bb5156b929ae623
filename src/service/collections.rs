//! Making, changing and deleting collections.

use std::sync::Arc;

use tokio::sync::SemaphorePermit;

use super::Service;
use super::error::ServiceError;
use super::fingerprints::profile_named;
use crate::engine::{CollectionInfo, CollectionSettings, Engine, EngineError};
use crate::fingerprint::{Profile, Profiles};
use crate::ids::CollectionName;

/// The settings that a request names; what it leaves out keeps its value or gets the default.
#[derive(Clone, Debug, Default)]
pub struct WantedCollection {
    /// The profile of its fingerprints.
    pub profile: Option<String>,
    /// The distance that queries use unless they name another.
    pub k: Option<u32>,
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
    let bits = profile.width().bits();
    let k = wanted.k.or(existing.map(|settings| settings.k)).unwrap_or(profile.default_k());
    if k > bits {
        let detail = format!("k is {k}; with profile {} it ranges from 0 to {bits}", profile.id());
        return Err(ServiceError::invalid("k", detail));
    }
    Ok(CollectionSettings {
        profile: profile.id().to_string(),
        width: profile.width(),
        k,
        keep_text: wanted.keep_text.or(existing.map(|settings| settings.keep_text)).unwrap_or(false),
        expires_in: wanted.expires_in.or(existing.map(|settings| settings.expires_in)).flatten(),
    })
}
