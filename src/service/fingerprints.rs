//! From contents to fingerprints, on the CPU pool.

use super::Service;
use super::error::ServiceError;
use crate::engine::EngineError;
use crate::fingerprint::{Explanation, Fingerprint, Profile, Profiles, Status};
use crate::ids::{CollectionName, Hash};
use crate::pool::Patience;
use crate::text::main_text;

/// What a document is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text.
    Text(String),
    /// A page, whose main text counts.
    Html(String),
    /// A hash made elsewhere.
    Hash(Hash),
}

/// A fingerprint and what it was made by.
#[derive(Clone, Debug)]
pub struct Fingerprinted {
    /// The profile.
    pub profile: &'static Profile,
    /// The fingerprint.
    pub fingerprint: Fingerprint,
}

/// A fingerprint with the features and votes behind it.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The profile.
    pub profile: &'static Profile,
    /// The features and votes.
    pub explanation: Explanation,
}

impl Content {
    /// The text that counts; `None` for a hash.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Content::Text(text) => Some(text),
            Content::Html(html) => Some(main_text(&html)),
            Content::Hash(_) => None,
        }
    }
}

impl Service {
    /// The profile of this name, or that of the default collection; the program's own default if that was deleted.
    ///
    /// # Errors
    /// [`ServiceError::NoProfile`] names those that there are.
    pub async fn profile(&self, name: Option<&str>) -> Result<&'static Profile, ServiceError> {
        match name {
            Some(name) => profile_named(self.profiles(), name),
            None => match self.profile_of(&CollectionName::default_collection()).await {
                Err(ServiceError::Engine(EngineError::NoCollection(_))) => Ok(Profile::default_profile()),
                found => found,
            },
        }
    }

    pub(super) async fn profile_of(&self, name: &CollectionName) -> Result<&'static Profile, ServiceError> {
        profile_named(self.profiles(), &self.engine()?.settings(name).await?.profile)
    }

    /// Fingerprints texts with a profile, in order. Hashes among the contents are passed over.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the pool is busy.
    pub async fn fingerprint(
        &self,
        profile: &'static Profile,
        contents: Vec<Content>,
    ) -> Result<Vec<Fingerprinted>, ServiceError> {
        let work = move || {
            let texts = contents.into_iter().filter_map(Content::into_text);
            texts.map(|text| Fingerprinted { profile, fingerprint: profile.fingerprint(&text) }).collect()
        };
        Ok(self.pool.run(Patience::Interactive, work).await?)
    }

    /// Fingerprints one text and explains it.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the pool is busy.
    pub async fn explain(
        &self,
        profile: &'static Profile,
        content: Content,
    ) -> Result<Explained, ServiceError> {
        let work = move || {
            let text = content.into_text().unwrap_or_default();
            Explained { profile, explanation: profile.explain(&text) }
        };
        Ok(self.pool.run(Patience::Interactive, work).await?)
    }

    /// The hash of a text or a page, to look it up by.
    pub(super) async fn hash_of(
        &self,
        profile: &'static Profile,
        content: Content,
    ) -> Result<(Hash, Option<Status>), ServiceError> {
        let made = self.fingerprint(profile, vec![content]).await?;
        match made.first().map(|made| &made.fingerprint) {
            Some(fingerprint) if fingerprint.status != Status::Empty => {
                Ok((fingerprint.hash, Some(fingerprint.status)))
            }
            _ => Err(ServiceError::EmptyText),
        }
    }
}

/// A profile by its name, with or without version.
pub(super) fn profile_named(profiles: Profiles, name: &str) -> Result<&'static Profile, ServiceError> {
    profiles.named(name).ok_or_else(|| match profiles.changed(name) {
        Some(now) => ServiceError::ProfileChanged { stored: name.to_owned(), now: now.id().to_string() },
        None => ServiceError::NoProfile { name: name.chars().take(80).collect(), known: profiles.listing() },
    })
}
