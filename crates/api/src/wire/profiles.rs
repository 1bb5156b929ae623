//! Profiles on the wire.

use serde::Serialize;
use utoipa::ToSchema;

use lookalike_service::Profile;

/// The profiles of the server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Profiles)]
pub struct ProfilesOut {
    /// The profiles, the built-in ones first.
    pub profiles: Vec<ProfileOut>,
}

/// A profile.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Profile)]
pub struct ProfileOut {
    /// Its id.
    #[schema(example = "copies-128@1")]
    profile: String,
    /// What it is for, in a few sentences.
    summary: String,
    /// The width of its hashes: 64, 128 or 256.
    bits: u32,
    /// Whether it makes hashes of texts, pages and features. If not, documents and queries are hashes that
    /// the client makes.
    takes_texts: bool,
    /// Whether its hashes are made from images.
    takes_images: bool,
    /// The distance up to which two documents are near-duplicates, unless a request or a collection has
    /// another one: in bits, or in cells of signatures.
    k: u32,
    /// The distance as a similarity, if it makes signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// The number of cells of its signatures, if it makes signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    cells: Option<u16>,
}

impl From<&Profile> for ProfileOut {
    fn from(profile: &Profile) -> ProfileOut {
        let shape = profile.signatures();
        ProfileOut {
            profile: profile.id().to_string(),
            summary: profile.summary().to_owned(),
            bits: profile.width().bits(),
            takes_texts: profile.takes_texts(),
            takes_images: profile.takes_images(),
            k: profile.default_k(),
            threshold: shape.map(|shape| shape.threshold_of(profile.default_k())),
            cells: shape.map(|shape| shape.cells),
        }
    }
}
