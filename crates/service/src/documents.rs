//! Adding documents: they are prepared (fingerprinted) on the CPU pool, and the engine stores them in the
//! order of arrival.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use super::Service;
use super::checks::{check_expiry, check_metadata, check_text, checked_hash};
use super::clusters::placements_of;
use super::counts::count_outcomes;
use super::error::ServiceError;
use super::exported::Exported;
use super::fingerprints::{
    Content, Wording, check_made_by, check_profile, check_signed_by, checked_signature, profile_named,
    reserve_for_fingerprint, sign, takes_texts,
};
use super::given::hash_of;
use super::images::{Hashed, hashed};
use super::limits::Limits;
use super::second_check::check_sketch_bytes;
use super::thumbnails::{check_thumbnail, keeps_thumbnails};
use lookalike_engine::{
    Admission, Collection, CollectionSettings, Condition, Document, DuplicateRule, EngineError, Lifetime,
    MAX_OPERATIONS, Operation, Outcome, Outline, Placement, Row, Version, fewest_grams,
};
use lookalike_hash::{CollectionName, DocumentId, Hash};
use lookalike_run::pool::{Cancel, Patience, Turns};
use lookalike_text::PageText;
use lookalike_text::fingerprint::{Profile, Profiles, Status, signature_name};

/// A document as the client sends it.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Its id; `None` to generate one.
    pub id: Option<DocumentId>,
    /// Its content.
    pub content: Content,
    /// The profile that made its hash or signature, as the client says.
    pub profile: Option<Arc<str>>,
    /// The number of characters of its text, if the client sends a hash in place of the text.
    pub characters: Option<u32>,
    /// The sketch of its text, if the client sends a hash in place of the text.
    pub sketch: Option<Vec<u8>>,
    /// The thumbnail of its image, if the client sends a hash in place of the image.
    pub thumbnail: Option<Bytes>,
    /// Its metadata, a JSON object.
    pub metadata: Option<String>,
    /// When it expires.
    pub expires: Expires,
    /// Its place in the order of arrival, if it comes from an export.
    pub place: Option<u64>,
    /// What an export carries besides.
    pub exported: Option<Exported>,
    /// Whether its id follows from the key of a request that may be sent again.
    pub is_keyed: bool,
}

/// When a document expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expires {
    /// After the collection's default lifetime.
    #[default]
    Default,
    /// Never.
    Never,
    /// This number of seconds after it is written, in the range [`EXPIRES_IN`].
    In(u64),
    /// At this time, in milliseconds since 1970-01-01 UTC; at most the end of [`EXPIRES_IN`] from now.
    At(u64),
}

/// The range of a document's lifetime in seconds: 1 second to 100 years of 365.25 days.
pub const EXPIRES_IN: std::ops::RangeInclusive<u64> = 1..=3_155_760_000;

/// The number of documents whose clusters are read on the thread of the request.
const PLACED_AT_ONCE: usize = 16;

/// A document ready to be stored.
#[derive(Clone, Debug)]
pub struct Prepared {
    document: Document,
    /// Whether its id follows from the key of a request that may be sent again.
    is_keyed: bool,
    /// Whether the client gave its id, so that another one may have it too.
    is_named: bool,
    /// Which text of a page was used, if it is a page.
    page: Option<PageText>,
    /// Whether it is a page with too little text to be compared: it is stored whatever it is near to.
    is_little: bool,
    /// The settings by which it was made.
    settings: Arc<CollectionSettings>,
}

impl Prepared {
    /// The document, whether the client gave its id, and whether it has too little to be compared.
    pub(super) fn into_parts(self) -> (Document, bool, bool) {
        (self.document, self.is_named, self.is_little)
    }
}

/// The settings for preparing the documents of a collection.
pub(super) struct Preparation {
    profiles: Profiles,
    profile: &'static Profile,
    pub(super) settings: Arc<CollectionSettings>,
    pub(super) limits: Limits,
    pub(super) now_ms: u64,
    /// The engine's time, by which documents expire. It never goes backwards.
    expiry_now_ms: u64,
    new_id: fn() -> DocumentId,
}

impl Preparation {
    fn prepare(&self, offered: Offered, cancel: &Cancel) -> Result<Prepared, ServiceError> {
        check_metadata(offered.metadata.as_deref(), self.limits.metadata_bytes)?;
        if let Some(given) = &offered.profile {
            check_profile(self.profiles, given, &self.settings.made_by(), "profile")?;
        }
        if matches!(offered.content, Content::Signature(_)) {
            check_signed_by(offered.profile.as_deref(), &self.settings)?;
        }
        let (mut row, page, is_little) = self.row(offered.content, cancel)?;
        if let Some(sketch) = offered.sketch {
            check_made_by("sketch", offered.profile.as_deref(), &self.settings)?;
            check_sketch_bytes("sketch", sketch.len(), &self.settings)?;
            row.sketch = Some(sketch);
        }
        if let Some(thumbnail) = offered.thumbnail {
            check_thumbnail(&thumbnail)?;
            row.thumbnail = (keeps_thumbnails(&self.settings) == Some(true)).then(|| thumbnail.to_vec());
        }
        row.characters = row.characters.or(offered.characters);
        row.lifetime = self.expires_ms(offered.expires)?.into();
        row.metadata = offered.metadata;
        row.place = offered.place.unwrap_or_default();
        offered.exported.unwrap_or_default().add_to(&mut row, &self.settings, self.now_ms)?;
        let is_named = offered.id.is_some();
        let id = offered.id.unwrap_or_else(self.new_id);
        let (is_keyed, settings) = (offered.is_keyed, Arc::clone(&self.settings));
        Ok(Prepared { document: Document { id, row }, is_keyed, is_named, page, is_little, settings })
    }

    /// The row of a content; of a page also which text of it was used, and whether it has too little.
    fn row(&self, content: Content, cancel: &Cancel) -> Result<(Row, Option<PageText>, bool), ServiceError> {
        let (mut which, mut has_little) = (None, false);
        let mut row = Row {
            hash: Hash::from_u64(0),
            features: None,
            short: false,
            characters: None,
            place: 0,
            written_ms: 0,
            lifetime: Lifetime::Endless,
            metadata: None,
            grams: Vec::new(),
            text: None,
            sketch: None,
            thumbnail: None,
        };
        match content {
            Content::Hash(hash) => row.hash = checked_hash(self.profile, hash)?,
            Content::Features(features) => row.hash = hash_of(self.profile, &features)?,
            Content::Image(image) => {
                let kept = self.settings.keep_text;
                let made = hashed(self.profile, &image, &self.limits, kept, cancel)?;
                let Hashed { fingerprint, thumbnail, .. } = made;
                row.thumbnail = thumbnail;
                (row.hash, row.features) = (fingerprint.hash, Some(0));
                row.short = fingerprint.status == Status::Short;
            }
            Content::Signature(bytes) => {
                let signature = checked_signature(self.profile, bytes)?;
                row.hash = signature_name(&signature);
                row.sketch = Some(signature);
            }
            content => {
                let field = content.field();
                takes_texts(self.profile, field)?;
                let most = self.limits.document_bytes;
                let Wording { text, page, is_little } = content.into_text(most, cancel)?.unwrap_or_default();
                (which, has_little) = (page, is_little);
                let made = sign(&mut row, &text, self.profile, &self.settings, || cancel.check())?;
                if made == Status::Empty {
                    return Err(ServiceError::EmptyText { field });
                }
                if self.settings.keep_text {
                    check_text(field, &text, self.limits.document_bytes)?;
                    row.text = Some(text);
                }
            }
        }
        Ok((row, which, has_little))
    }

    pub(super) fn expires_ms(&self, wanted: Expires) -> Result<Option<u64>, ServiceError> {
        let now = self.expiry_now_ms;
        let after = |seconds: u64| now.saturating_add(seconds.saturating_mul(1_000));
        match wanted {
            Expires::Default => Ok(self.settings.expires_in.map(after)),
            Expires::Never => Ok(None),
            Expires::In(seconds) => Ok(Some(after(seconds))),
            Expires::At(at) if at <= now => {
                let detail = "expires_at is past: the document would expire before it is stored; leave it \
                              out, or send a later time or expires_in";
                Err(ServiceError::invalid("expires_at", detail))
            }
            Expires::At(at) => check_expiry(at, now).map(|()| Some(at)),
        }
    }
}

/// The result for a document.
#[derive(Clone, Debug)]
pub struct Added {
    /// Its id.
    pub id: DocumentId,
    /// Its hash.
    pub hash: Hash,
    /// Whether the fingerprint is reliable; `None` if the client sent a hash, a signature or features.
    pub status: Option<Status>,
    /// Whether it is a text that is too short to be found by its passages, which its collection keeps.
    pub is_without_passages: bool,
    /// Which text of a page was used; `None` if it is no page.
    pub page: Option<PageText>,
    /// When it expires, in milliseconds since 1970-01-01 UTC, if it does.
    pub expires_ms: Option<u64>,
    /// The result of the operation.
    pub outcome: Outcome,
    /// The version that was stored, if it was.
    pub version: Option<Version>,
    /// Its cluster, if it was stored in a collection with clusters.
    pub placement: Option<Placement>,
    /// The signature that the hash identifies, if the collection has signatures.
    pub(super) signature: Option<Arc<[u8]>>,
    /// What is stored of its text beside the hash, besides a signature.
    pub(super) outline: Outline,
    /// The collection in which it was stored.
    pub(super) written_to: Arc<Collection>,
}

/// Resolves when the documents are durable, with the result for each, or the error of one that was not stored
/// because of its condition.
pub type Adding = BoxFuture<'static, Result<Vec<Result<Added, ServiceError>>, EngineError>>;

/// When documents are stored.
#[derive(Clone, Debug, Default)]
pub struct StoreRule {
    /// Only if no stored document is a near-duplicate by this measure.
    pub unless: Option<DuplicateRule>,
    /// Only if this holds for the stored document with the same id.
    pub condition: Condition,
}

impl Added {
    fn with_outcome(self, outcome: Outcome, is_keyed: bool) -> Result<Added, ServiceError> {
        let version = match &outcome {
            Outcome::Refused(_) if is_keyed => return Err(ServiceError::KeyReused(self.id)),
            Outcome::Refused(version) => {
                return Err(ServiceError::Condition { id: self.id, version: *version });
            }
            Outcome::TooManyNear => return Err(ServiceError::TooManyNear),
            &Outcome::Repeated(version, expires_ms) => {
                let outcome = Outcome::Updated(version);
                return Ok(Added { outcome, version: Some(version), expires_ms, ..self });
            }
            Outcome::Created(version) | Outcome::Updated(version) | Outcome::Replaced(version, _) => {
                Some(*version)
            }
            Outcome::Duplicate(_) | Outcome::Deleted | Outcome::Absent => None,
        };
        Ok(Added { outcome, version, ..self })
    }

    /// The stored documents that the result shows: itself if it was stored, and those that it duplicates.
    fn shown(&self) -> impl Iterator<Item = &DocumentId> {
        let of = if let Outcome::Duplicate(of) = &self.outcome { of.as_slice() } else { &[] };
        self.version.map(|_| &self.id).into_iter().chain(of.iter().map(|near| &near.id))
    }

    /// Takes the clusters of the documents that it shows, in the same order.
    fn place(&mut self, placements: &mut impl Iterator<Item = Option<Placement>>) {
        if self.version.is_some() {
            self.placement = placements.next().flatten();
        }
        if let Outcome::Duplicate(of) = &mut self.outcome {
            of.iter_mut().for_each(|near| near.cluster = placements.next().flatten().map(Box::new));
        }
    }
}

impl Service {
    /// Fingerprints documents. An invalid document fails alone. The iterator `offered` and the
    /// fingerprinting run on the CPU pool.
    ///
    /// # Errors
    /// For all documents: if the collection does not exist or the pool is full.
    pub async fn prepare<E: From<ServiceError> + Send + 'static>(
        &self,
        collection: &CollectionName,
        patience: Patience,
        offered: impl Iterator<Item = Result<Offered, E>> + Send + 'static,
    ) -> Result<Vec<Result<Prepared, E>>, ServiceError> {
        let preparation = self.preparation(collection)?;
        let work = move |cancel: &Cancel| {
            let mut turns = Turns::new(patience);
            let mut prepared = Vec::new();
            for offered in offered {
                turns.pause();
                cancel.check()?;
                prepared.push(offered.and_then(|offered| Ok(preparation.prepare(offered, cancel)?)));
            }
            Ok(prepared)
        };
        self.pool.run(patience, work).await?
    }

    #[tracing::instrument(level = "trace", skip_all)]
    async fn prepare_one(
        &self,
        collection: &CollectionName,
        offered: Offered,
    ) -> Result<Prepared, ServiceError> {
        let preparation = self.preparation(collection)?;
        // Hashes and signatures need no fingerprinting.
        if matches!(offered.content, Content::Hash(_) | Content::Signature(_)) {
            return preparation.prepare(offered, &Cancel::default());
        }
        let work = move |cancel: &Cancel| {
            let most = preparation.limits.document_bytes;
            let _working = reserve_for_fingerprint(preparation.profile, &offered.content, most)?;
            preparation.prepare(offered, cancel)
        };
        self.pool.run(Patience::Interactive, work).await?
    }

    pub(super) fn preparation(&self, collection: &CollectionName) -> Result<Preparation, ServiceError> {
        let engine = self.engine()?;
        let settings = engine.settings(collection)?;
        Ok(Preparation {
            profiles: self.profiles(),
            profile: profile_named(self.profiles(), &settings.profile)?,
            settings,
            limits: self.limits,
            now_ms: self.now_ms(),
            expiry_now_ms: engine.now_ms(),
            new_id: self.surroundings.new_id,
        })
    }

    /// Checks whether a stream of documents can begin: the collection exists, and the memory budget admits
    /// documents.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`], [`EngineError::MemoryFull`].
    pub fn admit_stream(&self, collection: &CollectionName) -> Result<(), ServiceError> {
        let engine = self.engine()?;
        engine.settings(collection)?;
        Ok(engine.admit(true)?)
    }

    /// Queues prepared documents. The returned future resolves when they are durable.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if nothing was queued.
    ///
    /// # Panics
    /// If there are more than [`MAX_OPERATIONS`]: the caller must split them into chunks.
    pub async fn submit(
        &self,
        collection: &CollectionName,
        prepared: Vec<Prepared>,
        rule: StoreRule,
        admission: Admission,
    ) -> Result<Adding, ServiceError> {
        assert!(prepared.len() <= MAX_OPERATIONS, "the caller cuts documents into chunks");
        let engine = Arc::clone(self.engine()?);
        let written_to = engine.find(collection)?;
        let fact = |Prepared { document: Document { id, row }, page, settings, .. }: &Prepared| Added {
            id: id.clone(),
            hash: row.hash,
            status: status(row),
            is_without_passages: row.features.is_some()
                && settings.grams.is_some_and(|rule| row.grams.len() < fewest_grams(rule)),
            page: *page,
            expires_ms: row.lifetime.end_ms(),
            outcome: Outcome::Absent,
            version: None,
            signature: settings.signatures.and(row.sketch.as_deref()).map(Arc::from),
            outline: Outline {
                sketch: row.sketch.clone().filter(|_| settings.signatures.is_none()),
                characters: row.characters.filter(|_| settings.weights.is_none()),
            },
            placement: None,
            written_to: Arc::clone(&written_to),
        };
        let facts: Vec<Added> = prepared.iter().map(fact).collect();
        let made_for = prepared.first().map(|prepared| Arc::clone(&prepared.settings));
        let StoreRule { unless, condition } = rule;
        // A condition of the request comes first: the ids that the key makes exist if it was sent before.
        let is_keyed = |one: &Prepared| one.is_keyed && condition == Condition::None;
        let keyed: Vec<bool> = prepared.iter().map(is_keyed).collect();
        let put = |one: Prepared| {
            let condition = if is_keyed(&one) { Condition::Repeats } else { condition.clone() };
            let unless = unless.filter(|_| !one.is_little);
            Operation::Put { document: one.document, unless, condition }
        };
        let operations = prepared.into_iter().map(put).collect();
        let receipt = engine.write(collection, made_for.as_deref(), operations, admission).await?;
        let pool = self.pool.clone();
        Ok(Box::pin(async move {
            let outcomes = receipt.await?;
            let is_stored = |outcome: &&Outcome| {
                matches!(outcome, Outcome::Created(_) | Outcome::Updated(_) | Outcome::Replaced(..))
            };
            let stored = outcomes.iter().filter(is_stored).count();
            written_to.traffic.wrote(stored as u64);
            let added = facts.into_iter().zip(outcomes).zip(keyed);
            let mut added: Vec<Result<Added, ServiceError>> =
                added.map(|((fact, outcome), is_keyed)| fact.with_outcome(outcome, is_keyed)).collect();
            count_outcomes(&added);
            if written_to.settings().clusters.is_none() {
                return Ok(added);
            }
            let ids: Vec<DocumentId> = added.iter().flatten().flat_map(Added::shown).cloned().collect();
            let are_few = ids.len() <= PLACED_AT_ONCE;
            let place = move |_: &Cancel| placements_of(&engine, &written_to, &ids);
            let placements = if are_few {
                place(&Cancel::default())
            } else {
                // Thousands of reads would delay other requests. The documents are stored even if these reads
                // fail.
                pool.run(Patience::Bulk, place).await.unwrap_or_default()
            };
            let mut placements = placements.into_iter();
            added.iter_mut().flatten().for_each(|one| one.place(&mut placements));
            Ok(added)
        }))
    }

    /// Stores one document. [`Service::neighbours`] returns the similar documents.
    ///
    /// # Errors
    /// [`ServiceError`]; nothing was stored, unless it is [`EngineError::Unknown`].
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn add(
        &self,
        collection: &CollectionName,
        offered: Offered,
        rule: StoreRule,
    ) -> Result<Added, ServiceError> {
        let prepared = self.prepare_one(collection, offered).await?;
        let adding = self.submit(collection, vec![prepared], rule, Admission::Shed).await?;
        adding.await?.into_iter().next().ok_or(EngineError::Closed)?
    }

    /// Deletes a document if the condition holds.
    ///
    /// # Errors
    /// [`ServiceError::NoDocument`] if it does not exist, [`ServiceError::Condition`].
    pub async fn delete(
        &self,
        collection: &CollectionName,
        id: &DocumentId,
        condition: Condition,
    ) -> Result<(), ServiceError> {
        let (engine, operations) = (self.engine()?, vec![Operation::Delete { id: id.clone(), condition }]);
        let written_to = engine.find(collection)?;
        let receipt = engine.write(collection, None, operations, Admission::Shed).await?;
        match receipt.await?.first() {
            Some(Outcome::Deleted) => {
                written_to.traffic.wrote(1);
                Ok(())
            }
            Some(Outcome::Refused(version)) => {
                Err(ServiceError::Condition { id: id.clone(), version: *version })
            }
            _ => Err(ServiceError::NoDocument { collection: collection.clone(), id: id.clone() }),
        }
    }
}

/// Whether the fingerprint of a stored document is reliable; `None` if it was stored as a hash or a
/// signature.
pub fn status(row: &Row) -> Option<Status> {
    row.features.map(|_| if row.short { Status::Short } else { Status::Ok })
}
