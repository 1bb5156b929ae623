//! Images of an import: their hashes are made here, and sent in place of the images.

use std::thread;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Args;
use serde_json::json;

use super::super::Failure;
use super::super::images::hashed;
use super::shape::Line;
use lookalike_files::{Fields, QUALITY, Reason, Skipped, Unread};
use lookalike_text::fingerprint::{Profile, check_takes_images};

/// Which images are sent.
#[derive(Clone, Debug, Args)]
pub(super) struct Pictures {
    /// The files are images, or have them in fields: their hashes by this profile are sent, and not the
    /// images. Of folders and archives, images are read in place of texts
    #[arg(long, value_name = "PROFILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "pdq", value_parser = profile_of_images,
          conflicts_with_all = ["text_field", "hash_field", "html"])]
    images: Option<&'static Profile>,
    /// Field or column with the image, in base64, or as bytes, also in a member "bytes" as in data sets of
    /// Hugging Face
    #[arg(long, value_name = "FIELD", default_value = "image", requires = "images")]
    image_field: String,
    /// Leave out images in which there is less to see, 0 to 100; with --hash-field, by the field "quality"
    #[arg(long, value_name = "QUALITY", value_parser = clap::value_parser!(u8).range(..=100))]
    min_quality: Option<u8>,
    /// Send a thumbnail with each hash, a JPEG of at most 4 KB, for a collection that keeps thumbnails
    #[arg(long, requires = "images")]
    thumbnails: bool,
    /// Threads that make the hashes of images; by default one for each processor. The lines are the same for
    /// every number
    #[arg(long, value_name = "N", requires = "images", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

fn profile_of_images(name: &str) -> Result<&'static Profile, String> {
    let profile = Profile::named(name).ok_or_else(|| format!("there is no profile {name:?}"))?;
    check_takes_images(profile).map(|()| profile)
}

impl Pictures {
    /// Refuses a quality of texts.
    pub(super) fn check(&self, has_hashes: bool) -> Result<(), Failure> {
        if self.min_quality.is_some() && self.images.is_none() && !has_hashes {
            return Err(Failure::new(
                "--min-quality is for images and hashes: give --images or --hash-field",
            ));
        }
        Ok(())
    }

    /// Whether images are read in place of texts.
    pub(super) fn are_read(&self) -> bool {
        self.images.is_some()
    }

    /// The threads that make lines; one for texts, which the server reads.
    pub(super) fn threads(&self) -> usize {
        let all = || thread::available_parallelism().map_or(1, usize::from);
        self.images.map_or(1, |_| self.threads.map_or_else(all, usize::from))
    }

    /// The field or column with the image, if images are read.
    pub(super) fn column(&self) -> Option<&str> {
        self.images.map(|_| self.image_field.as_str())
    }

    /// The id of the profile.
    pub(super) fn profile(&self) -> Option<String> {
        self.images.map(|profile| profile.id().to_string())
    }

    /// The column with the quality, if hashes are left out by it.
    pub(super) fn quality_column(&self, row: &Fields<'_>) -> Result<Option<&'static str>, Unread> {
        let is_read = self.min_quality.is_some() && self.images.is_none();
        is_read.then(|| row.needed(QUALITY, "--min-quality").map(|_| QUALITY)).transpose()
    }

    /// The document of a file that is an image.
    pub(super) fn document(&self, image: &[u8], id: String) -> Result<Line, Unread> {
        let (hash, thumbnail) = self.hash(image)?;
        let mut document = json!({"id": id, "hash": hash, "profile": self.profile()});
        if let Some(thumbnail) = thumbnail {
            document["thumbnail"] = thumbnail.into();
        }
        Ok(Line { bytes: document.to_string().into_bytes(), id: Some(id), ..Line::default() })
    }

    /// The hash of an image in which there is enough to see, and its thumbnail in base64 if it is wanted.
    pub(super) fn hash(&self, image: &[u8]) -> Result<(String, Option<String>), Unread> {
        let none = || Reason::Image.because("it is an image: --images sends its hash");
        let made = hashed(self.images.ok_or_else(none)?, image, self.thumbnails);
        let made = made.map_err(|why| Reason::Image.because(why))?;
        self.check_quality(made.quality)?;
        Ok((made.hash.to_string(), made.thumbnail.map(|jpeg| BASE64_STANDARD.encode(jpeg))))
    }

    /// Checks the quality of a record with a hash.
    pub(super) fn check_quality_of(&self, fields: &Fields<'_>) -> Result<(), Unread> {
        if self.min_quality.is_none() {
            return Ok(());
        }
        fields.needed(QUALITY, "--min-quality")?;
        fields.quality()?.map_or(Ok(()), |quality| self.check_quality(quality))
    }

    fn check_quality(&self, quality: u8) -> Result<(), Unread> {
        let is_low = self.min_quality.is_some_and(|least| quality < least);
        if is_low { Err(Skipped::Quality.into()) } else { Ok(()) }
    }
}
