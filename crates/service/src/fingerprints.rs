//! Fingerprinting: from contents to fingerprints, on the CPU pool.

use std::sync::Arc;

use bytes::Bytes;

use super::Service;
use super::error::ServiceError;
use super::images::hashed;
use super::second_check::fingerprint_with_sketch;
use lookalike_engine::{Collection, CollectionSettings, EngineError, Row, Weights};
use lookalike_hash::{CollectionName, Gram, GramRule, Hash};
use lookalike_run::call::{self, NoMemory, Reserved};
use lookalike_run::pool::{Cancel, Patience, PoolError};
use lookalike_text::features::{Frequencies, exact_grams, sampled_grams};
use lookalike_text::fingerprint::{
    Explanation, Fingerprint, GivenFeature, Profile, Profiles, Signed, Status, check_takes_texts,
    has_too_little, makes_the_same, signature_name,
};
use lookalike_text::{PageRead, PageText, checked_page_text, memory_for_page};

/// What stands between a profile and the digest of its weights.
const WEIGHED: char = '~';

/// The content of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A text.
    Text(String),
    /// An HTML page, and which text of it is fingerprinted.
    Html(String, PageText),
    /// A hash made by the client.
    Hash(Hash),
    /// A signature made by the client.
    Signature(Vec<u8>),
    /// Features given by the client with their weights.
    Features(Vec<GivenFeature>),
    /// The bytes of an image file.
    Image(Bytes),
}

/// A fingerprint and the profile that made it.
#[derive(Clone, Debug)]
pub struct Fingerprinted {
    /// The profile.
    pub profile: &'static Profile,
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// The signature that the hash identifies, if the profile makes signatures.
    pub signature: Option<Vec<u8>>,
    /// Which text of a page was used; `None` of a text.
    pub page: Option<PageText>,
    /// How much there is to see in an image, 0 to 100; `None` of a text.
    pub quality: Option<u8>,
}

/// The maximum memory in bytes for fingerprinting a text or page of `bytes` bytes by any profile, in
/// addition to the memory that every thread may use. No text has more than `most` bytes.
pub fn working_bytes(bytes: usize, most: usize) -> usize {
    let per_byte = Profile::all().iter().map(Profile::memory_per_byte).max().unwrap_or_default();
    if Service::goes_aside(bytes) { memory_for_page(bytes).max(per_byte * bytes.min(most)) } else { 0 }
}

/// Reserves memory for fingerprinting a content, of which the text of a page has at most `most` bytes.
pub(super) fn reserve_for_fingerprint(
    profile: &Profile,
    content: &Content,
    most: usize,
) -> Result<Reserved, NoMemory> {
    reserve_for(content, most, profile.memory_per_byte())
}

/// Reserves memory for the explanation of a content. The text of a page has at most `most` bytes.
pub(super) fn reserve_for_explanation(content: &Content, most: usize) -> Result<Reserved, NoMemory> {
    reserve_for(content, most, Profile::EXPLAINED_PER_BYTE)
}

fn reserve_for(content: &Content, most: usize, per_byte: usize) -> Result<Reserved, NoMemory> {
    let bytes = content.len();
    let is_page = matches!(content, Content::Html(..));
    let mut reserved = reserve_for_text(if is_page { bytes.min(most) } else { bytes }, per_byte)?;
    if is_page && Service::goes_aside(bytes) {
        reserved.grow_to(memory_for_page(bytes))?;
    }
    Ok(reserved)
}

/// Reserves memory for work on a text of `bytes` bytes that needs `per_byte` bytes for each of them.
pub(super) fn reserve_for_text(bytes: usize, per_byte: usize) -> Result<Reserved, NoMemory> {
    call::reserve(if Service::goes_aside(bytes) { per_byte * bytes } else { 0 })
}

/// The subject of a query, which is compared with stored documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) hash: Hash,
    pub(super) signature: Option<Arc<[u8]>>,
    /// The fingerprint, if it was made from a text.
    pub(super) made: Option<Fingerprint>,
}

/// A fingerprint with the features and votes behind it.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The profile.
    pub profile: &'static Profile,
    /// The features and votes; the signature too, if the profile makes signatures.
    pub explanation: Explanation,
    /// Which text of a page was used; `None` of a text.
    pub page: Option<PageText>,
}

/// The text of a content.
#[derive(Debug, Default)]
pub(super) struct Wording {
    pub(super) text: String,
    /// Which text of a page it is; `None` of a text.
    pub(super) page: Option<PageText>,
    /// Whether it is the text of a page that has too little to be compared.
    pub(super) is_little: bool,
}

impl Content {
    /// The name of its field in a request.
    pub(super) fn field(&self) -> &'static str {
        match self {
            Content::Text(_) => "text",
            Content::Html(..) => "html",
            Content::Hash(_) => "hash",
            Content::Signature(_) => "signature",
            Content::Features(_) => "features",
            Content::Image(_) => "image",
        }
    }

    /// The length in bytes of a text or a page; 0 for others.
    pub(super) fn len(&self) -> usize {
        match self {
            Content::Text(text) | Content::Html(text, _) => text.len(),
            Content::Hash(_) | Content::Signature(_) | Content::Features(_) | Content::Image(_) => 0,
        }
    }

    /// The text to fingerprint, which may have `most` bytes if it is that of a page; `None` for hashes,
    /// signatures and features.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] if it is longer; [`PoolError::Cancelled`].
    pub(super) fn into_text(self, most: usize, cancel: &Cancel) -> Result<Option<Wording>, ServiceError> {
        let (html, which) = match self {
            Content::Text(text) => return Ok(Some(Wording { text, ..Wording::default() })),
            Content::Html(html, which) => (html, which),
            Content::Hash(_) | Content::Signature(_) | Content::Features(_) | Content::Image(_) => {
                return Ok(None);
            }
        };
        let read = checked_page_text(&html, which, || cancel.check())?;
        let is_little = has_too_little(&html, &read, || cancel.check())?;
        let PageRead { text, which, .. } = read;
        if text.len() > most {
            let detail = format!(
                "the text of the page has {} bytes; at most {most} are accepted (limits.document_bytes)",
                text.len()
            );
            return Err(ServiceError::invalid("html", detail));
        }
        Ok(Some(Wording { text, page: Some(which), is_little }))
    }
}

impl Service {
    /// The profile of this name. Without a name: the profile of the default collection, or the built-in
    /// default if that collection does not exist.
    ///
    /// # Errors
    /// [`ServiceError::NoProfile`] with the existing profiles.
    pub fn profile(&self, name: Option<&str>) -> Result<&'static Profile, ServiceError> {
        match name {
            Some(name) => profile_named(self.profiles(), name),
            None => match self.profile_of(CollectionName::default_collection()) {
                Err(ServiceError::Engine(EngineError::NoCollection(_))) => Ok(Profile::default_profile()),
                found => found,
            },
        }
    }

    /// Checks that the profile that a client names for hashes is that of the collection.
    ///
    /// # Errors
    /// [`ServiceError::ProfileMismatch`] if it is not.
    pub fn check_profile_of(&self, collection: &CollectionName, given: &str) -> Result<(), ServiceError> {
        let settings = self.engine()?.settings(collection)?;
        check_profile(self.profiles(), given, &settings.made_by(), "profile")
    }

    pub(super) fn profile_of(&self, name: &CollectionName) -> Result<&'static Profile, ServiceError> {
        profile_named(self.profiles(), &self.engine()?.settings(name)?.profile)
    }

    /// The profile of this collection, which may have been replaced by one of the same name.
    pub(super) fn profile_in(&self, collection: &Collection) -> Result<&'static Profile, ServiceError> {
        profile_named(self.profiles(), &collection.settings().profile)
    }

    /// Fingerprints texts and images with a profile, and with weights if the profile takes them, in order.
    /// Hashes and signatures among the contents are skipped.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the pool is full or there is not enough memory.
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn fingerprint(
        &self,
        profile: &'static Profile,
        weights: Option<Weights>,
        contents: Vec<Content>,
    ) -> Result<Vec<Fingerprinted>, ServiceError> {
        let limits = self.limits;
        let most = limits.document_bytes;
        let work = move |cancel: &Cancel| {
            let mut made = Vec::with_capacity(contents.len());
            if let Some(first) = contents.first().filter(|first| !matches!(first, Content::Image(_))) {
                takes_texts(profile, first.field())?;
            }
            for content in contents {
                cancel.check()?;
                if let Content::Image(image) = &content {
                    made.push(hashed(profile, image, &limits, false, cancel)?.made_with(profile));
                    continue;
                }
                let _working = reserve_for_fingerprint(profile, &content, most)?;
                let Some(Wording { text, page, .. }) = content.into_text(most, cancel)? else { continue };
                let table = weights.as_ref().map(Weights::table);
                let Signed { fingerprint, signature } =
                    profile.checked_sign(&text, table, || cancel.check())?;
                made.push(Fingerprinted { profile, fingerprint, signature, page, quality: None });
            }
            Ok(made)
        };
        self.pool.run(Patience::Interactive, work).await?
    }

    /// Fingerprints one text and explains it.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the pool is full or there is not enough memory.
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn explain(
        &self,
        profile: &'static Profile,
        content: Content,
    ) -> Result<Explained, ServiceError> {
        takes_texts(profile, content.field())?;
        let most = self.limits.document_bytes;
        let work = move |cancel: &Cancel| {
            // Not released here: the features and their text are a part of the answer.
            reserve_for_explanation(&content, most)?.keep();
            let Wording { text, page, .. } = content.into_text(most, cancel)?.unwrap_or_default();
            cancel.check()?;
            let explanation = profile.explain(&text);
            cancel.check()?;
            Ok(Explained { profile, explanation, page })
        };
        self.pool.run(Patience::Interactive, work).await?
    }

    /// The text of a page in its place, for a query of several steps that all need it. Other contents stay.
    ///
    /// # Errors
    /// Those of [`Content::into_text`], and if the pool is full or there is not enough memory.
    pub(super) async fn text_of_page(&self, content: Content) -> Result<Content, ServiceError> {
        if !matches!(content, Content::Html(..)) {
            return Ok(content);
        }
        let most = self.limits.document_bytes;
        let work = move |cancel: &Cancel| {
            let _working = reserve_for(&content, most, 1)?;
            Ok(Content::Text(content.into_text(most, cancel)?.unwrap_or_default().text))
        };
        self.pool.run(Patience::Interactive, work).await?
    }

    /// The hash and signature by which a text, a page or a signature is looked up.
    pub(super) async fn locate(
        &self,
        profile: &'static Profile,
        weights: Option<Weights>,
        content: Content,
    ) -> Result<Located, ServiceError> {
        if let Content::Signature(bytes) = content {
            let signature = checked_signature(profile, bytes)?;
            let hash = signature_name(&signature);
            return Ok(Located { hash, signature: Some(signature.into()), made: None });
        }
        let field = content.field();
        let made = self.fingerprint(profile, weights, vec![content]).await?.pop();
        match made {
            Some(Fingerprinted { fingerprint, signature, .. }) if fingerprint.status != Status::Empty => {
                let (hash, made) = (fingerprint.hash, Some(fingerprint));
                Ok(Located { hash, signature: signature.map(Arc::from), made })
            }
            _ => Err(ServiceError::EmptyText { field }),
        }
    }
}

/// The explanation of a text, whose signature has the weights of the table.
pub(super) fn explanation(profile: &Profile, table: Option<&Frequencies>, text: &str) -> Explanation {
    let mut explanation = profile.explain(text);
    if let Some(table) = table.filter(|_| profile.takes_weights()) {
        let Signed { fingerprint, signature } = profile.sign_weighted(table, text);
        (explanation.fingerprint, explanation.signature) = (fingerprint, signature);
    }
    explanation
}

/// Sets the parts of a row that are made from the text of the document. If the text is empty, it changes
/// nothing.
///
/// # Errors
/// Those of `check`, which is called from time to time.
pub(super) fn sign(
    row: &mut Row,
    text: &str,
    profile: &'static Profile,
    settings: &CollectionSettings,
    check: impl Fn() -> Result<(), PoolError>,
) -> Result<Status, PoolError> {
    let (sketch_bytes, table) =
        (settings.sketch_bytes.filter(|_| settings.signatures.is_none()), settings.table());
    let (fingerprint, sketch) = if let Some(bytes) = sketch_bytes {
        let (fingerprint, sketch) = fingerprint_with_sketch(text, bytes, profile, table, check)?;
        (fingerprint, Some(sketch))
    } else {
        let Signed { fingerprint, signature } = profile.checked_sign(text, table, check)?;
        (fingerprint, signature)
    };
    if fingerprint.status == Status::Empty {
        return Ok(Status::Empty);
    }
    row.hash = fingerprint.hash;
    row.features = Some(u32::try_from(fingerprint.features).unwrap_or(u32::MAX));
    row.short = fingerprint.status == Status::Short;
    row.characters = Some(u32::try_from(text.chars().count()).unwrap_or(u32::MAX));
    row.sketch = sketch;
    row.grams = settings.grams.map(|rule| grams_of(text, rule)).unwrap_or_default();
    Ok(fingerprint.status)
}

/// The grams of a text by which a collection with this rule finds passages.
pub(super) fn grams_of(text: &str, rule: GramRule) -> Vec<Gram> {
    if rule.is_exact { exact_grams(text) } else { sampled_grams(text) }
}

/// A profile by its name, with or without version.
pub(super) fn profile_named(profiles: Profiles, name: &str) -> Result<&'static Profile, ServiceError> {
    profiles.named(name).ok_or_else(|| match profiles.changed(name) {
        Some(now) => ServiceError::ProfileChanged { stored: name.chars().take(80).collect(), now },
        None => ServiceError::NoProfile { name: name.chars().take(80).collect(), known: profiles.listing() },
    })
}

/// Checks that the profile that a client names for a hash or signature is that of the collection. A name
/// without version is that of the newest version, as everywhere. After `~` it may name the weights.
pub(super) fn check_profile(
    profiles: Profiles,
    given: &str,
    own: &str,
    field: &'static str,
) -> Result<(), ServiceError> {
    let ((name, weights), (profile, own_weights)) = (parts(given), parts(own));
    let is_own = |id: &str| makes_the_same(id, profile);
    let is_profile =
        is_own(name) || profiles.named(name).is_some_and(|found| is_own(&found.id().to_string()));
    if is_profile && (weights.is_none() || weights == own_weights) {
        return Ok(());
    }
    let given = given.chars().take(80).collect();
    Err(ServiceError::ProfileMismatch { field, given, own: own.to_owned() })
}

/// The profile and the weights of a name.
fn parts(name: &str) -> (&str, Option<&str>) {
    name.split_once(WEIGHED).map_or((name, None), |(profile, weights)| (profile, Some(weights)))
}

/// [`check_made_by`] of a signature in a collection with weights.
pub(super) fn check_signed_by(
    given: Option<&str>,
    settings: &CollectionSettings,
) -> Result<(), ServiceError> {
    if settings.weights.is_none() { Ok(()) } else { check_made_by("signature", given, settings) }
}

/// Checks that the client says what made a signature or sketch, which these do not tell: the profile, and the
/// weights if the collection has any.
pub(super) fn check_made_by(
    what: &str,
    given: Option<&str>,
    settings: &CollectionSettings,
) -> Result<(), ServiceError> {
    let is_said = given.is_some_and(|given| settings.weights.is_none() || given.contains(WEIGHED));
    if is_said {
        return Ok(());
    }
    let made_by = settings.made_by();
    let detail = format!(
        "a {what} needs what made it: add \"profile\": \"{made_by}\" if that made it, send the header of the \
         export before its documents, or send the text"
    );
    Err(ServiceError::invalid("profile", detail))
}

/// Checks that a profile makes fingerprints of the texts or features in a field.
pub(super) fn takes_texts(profile: &Profile, field: &'static str) -> Result<(), ServiceError> {
    check_takes_texts(profile).map_err(|detail| ServiceError::invalid(field, detail))
}

/// Checks that a signature made by the client fits this profile.
pub(super) fn checked_signature(profile: &Profile, bytes: Vec<u8>) -> Result<Vec<u8>, ServiceError> {
    match profile.signatures() {
        None => {
            let detail = format!("profile {} makes no signatures; give a text, html or hash", profile.id());
            Err(ServiceError::invalid("signature", detail))
        }
        Some(shape) if shape.bytes() != bytes.len() => {
            let detail = format!(
                "the signature has {} digits; those of profile {} have {}",
                2 * bytes.len(),
                profile.id(),
                2 * shape.bytes()
            );
            Err(ServiceError::invalid("signature", detail))
        }
        Some(_) => Ok(bytes),
    }
}
