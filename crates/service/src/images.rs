//! Images: from the bytes of a file to a hash, on the CPU pool and within the memory that a request may take.
//!
//! *Absent*: how an image is decoded and hashed (`lookalike-images`). A build without the feature `images`
//! refuses every image.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ask::{Ask, By};
use super::fingerprints::{Content, Fingerprinted};
use super::lookup::Found;
use super::{Limits, Service, ServiceError};
use lookalike_engine::{Collection, Match};
use lookalike_hash::{DocumentId, Hash};
use lookalike_run::pool::{Cancel, Patience};
use lookalike_text::fingerprint::{Fingerprint, Profile, Status, check_takes_images};

/// What an image has.
#[derive(Clone, Debug)]
pub(super) struct Hashed {
    pub(super) fingerprint: Fingerprint,
    /// How much there is to see, 0 to 100.
    pub(super) quality: u8,
    /// The hashes of its eight turns and mirrors, for profiles of 256 bits.
    turns: Vec<Hash>,
    /// A small JPEG of it.
    pub(super) thumbnail: Option<Vec<u8>>,
}

impl Hashed {
    pub(super) fn made_with(self, profile: &'static Profile) -> Fingerprinted {
        let (fingerprint, quality) = (self.fingerprint, Some(self.quality));
        Fingerprinted { profile, fingerprint, signature: None, page: None, quality }
    }
}

/// The fingerprint of an image, and a thumbnail of it if it is to be `kept`.
///
/// # Errors
/// [`ServiceError::Invalid`] if the profile takes no images or the image is refused; without memory, that
/// error.
#[cfg(feature = "images")]
pub(super) fn hashed(
    profile: &Profile,
    image: &[u8],
    limits: &Limits,
    kept: bool,
    cancel: &Cancel,
) -> Result<Hashed, ServiceError> {
    use lookalike_hash::Width;
    use lookalike_images::{Header, Pdq, Refusal, phash_64};

    check_takes_images(profile).map_err(|detail| ServiceError::invalid("image", detail))?;
    let refused = |refusal: Refusal| ServiceError::invalid("image", refusal.to_string());
    cancel.check()?;
    let header = Header::read(image, limits.image_pixels).map_err(refused)?;
    let _working = lookalike_run::call::reserve(header.memory() as usize)?;
    let raster = header.decode().map_err(refused)?;
    cancel.check()?;
    let pdq = Pdq::of(&raster);
    let is_pdq = profile.width() == Width::Bits256;
    let (hash, turns) =
        if is_pdq { (pdq.hash(), pdq.dihedral().to_vec()) } else { (phash_64(&raster), Vec::new()) };
    let quality = pdq.quality();
    let status = if quality < Pdq::GOOD { Status::Short } else { Status::Ok };
    let fingerprint = Fingerprint::of_image(hash, status, profile.default_k());
    Ok(Hashed { fingerprint, quality, turns, thumbnail: kept.then(|| raster.thumbnail()) })
}

/// Refuses every image.
#[cfg(not(feature = "images"))]
pub(super) fn hashed(
    profile: &Profile,
    _: &[u8],
    _: &Limits,
    _: bool,
    _: &Cancel,
) -> Result<Hashed, ServiceError> {
    check_takes_images(profile).map_err(|detail| ServiceError::invalid("image", detail))?;
    let detail = "this build reads no images: build it with the feature images, or send the hash";
    Err(ServiceError::invalid("image", detail))
}

impl Service {
    /// The profile for images. Without a name it is PDQ, unless the default collection takes images.
    ///
    /// # Errors
    /// For a name that no profile has.
    pub fn profile_of_images(&self, name: Option<&str>) -> Result<&'static Profile, ServiceError> {
        let named = self.profile(name)?;
        let is_default = name.is_none() && !named.takes_images();
        if is_default { self.profile(Some("pdq")) } else { Ok(named) }
    }

    /// The documents that are near an image in any of its eight turns and mirrors, each at its least
    /// distance.
    pub(super) async fn similar_turned(
        &self,
        collection: &Arc<Collection>,
        mut ask: Ask,
    ) -> Result<Found, ServiceError> {
        let profile = self.profile_in(collection)?;
        let of_image = |detail: &str| Err(ServiceError::invalid("dihedral", detail));
        let By::Content(Content::Image(image)) = &ask.by else {
            return of_image("dihedral turns an image: give image, or leave dihedral out");
        };
        if ask.cursor.is_some() || !ask.is_alone() {
            return of_image("dihedral cannot be combined with cursor, min_similarity and min_containment");
        }
        let (image, limits) = (image.clone(), self.limits);
        let work = move |cancel: &Cancel| hashed(profile, &image, &limits, false, cancel);
        let Hashed { fingerprint, turns, .. } = self.pool.run(Patience::Interactive, work).await??;
        if turns.is_empty() {
            return of_image("dihedral needs a collection with the profile pdq");
        }
        ask.dihedral = false;
        let (mut best, mut found) = (BTreeMap::<DocumentId, Match>::new(), None);
        for hash in turns {
            ask.by = By::Content(Content::Hash(hash));
            let (query, _) = self.resolve(collection, &ask).await?;
            let answer = self.answer(collection, query.clone()).await?;
            let mut of_turn = self.counted(collection, &query, Some(fingerprint), answer);
            for near in of_turn.matches.drain(..) {
                let known = best.get(&near.id).is_some_and(|known| known.distance <= near.distance);
                if !known {
                    best.insert(near.id.clone(), near);
                }
            }
            found.get_or_insert(of_turn);
        }
        let mut matches: Vec<Match> = best.into_values().collect();
        matches.sort_by_key(|near| near.distance);
        matches.truncate(ask.matches(&self.limits));
        let found = found.expect("an image has eight turns");
        Ok(Found { matches, next: None, ..found })
    }
}
