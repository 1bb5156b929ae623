//! Thumbnails: a collection of images keeps them as others keep texts, with the same setting on the disk.

use super::collections::WantedCollection;
use super::{Service, ServiceError};
use lookalike_engine::CollectionSettings;
use lookalike_hash::{CollectionName, DocumentId};
use lookalike_text::fingerprint::Profile;

/// The most bytes of a thumbnail.
pub const THUMBNAIL_BYTES: usize = 4096;
#[cfg(feature = "images")]
const _: () = assert!(THUMBNAIL_BYTES == lookalike_images::THUMBNAIL_BYTES);

/// Whether the documents of a collection keep their texts.
pub fn keeps_texts(settings: &CollectionSettings) -> bool {
    settings.keep_text && !takes_images(settings)
}

/// Whether the images of a collection keep thumbnails; `None` if its profile takes no images.
pub fn keeps_thumbnails(settings: &CollectionSettings) -> Option<bool> {
    takes_images(settings).then_some(settings.keep_text)
}

fn takes_images(settings: &CollectionSettings) -> bool {
    Profile::named(&settings.profile).is_some_and(Profile::takes_images)
}

impl WantedCollection {
    /// What a request says about texts or thumbnails, for a collection with this profile.
    pub(super) fn keeps(&self, profile: &Profile) -> Result<Option<bool>, ServiceError> {
        let refused = |field, detail| Err(ServiceError::invalid(field, detail));
        let id = profile.id();
        match (profile.takes_images(), self.settings.keep_text, self.keep_thumbnail) {
            (true, Some(true), _) => refused(
                "keep_text",
                format!("profile {id} takes images and no texts: keep_thumbnail keeps a small image of each"),
            ),
            (false, _, Some(true)) => refused(
                "keep_thumbnail",
                format!("profile {id} takes no images; pdq and phash-64 do: leave keep_thumbnail out"),
            ),
            (true, _, thumbnail) => Ok(thumbnail),
            (false, text, _) => Ok(text),
        }
    }
}

/// Checks a thumbnail that a client or a backup has.
pub(super) fn check_thumbnail(bytes: &[u8]) -> Result<(), ServiceError> {
    if bytes.len() <= THUMBNAIL_BYTES && bytes.starts_with(b"\xff\xd8\xff") {
        return Ok(());
    }
    let detail = format!(
        "the thumbnail has {} bytes; it is a JPEG of at most {THUMBNAIL_BYTES}: leave it out, or send the \
         image",
        bytes.len()
    );
    Err(ServiceError::invalid("thumbnail", detail))
}

impl Service {
    /// The thumbnail of a document, a JPEG.
    ///
    /// # Errors
    /// [`ServiceError::NoDocument`], [`ServiceError::NoThumbnail`].
    pub async fn thumbnail(
        &self,
        collection: &CollectionName,
        id: &DocumentId,
    ) -> Result<Vec<u8>, ServiceError> {
        let found = self.engine()?.find(collection)?;
        let thumbnail = self.document_in(&found, id).await?.row.thumbnail;
        thumbnail.ok_or_else(|| {
            let why = match keeps_thumbnails(&found.settings()) {
                None => "its profile takes no images",
                Some(false) => "keep_thumbnail is false; PUT of the collection sets it for later documents",
                Some(true) => {
                    "it was stored as a hash, or before keep_thumbnail was set: send the image again"
                }
            };
            ServiceError::NoThumbnail { collection: collection.clone(), id: id.clone(), why }
        })
    }
}
