//! Profiles: recipes from text to hash, each with a name and a version; the built-in ones, and those that a user
//! defines.
//!
//! Invariant 1: a fingerprint depends on the profile (name and version) and the text, on nothing else. A profile
//! that was released never changes; golden hashes in the tests hold each to that, and a change is a new version.
//! The id of a user's profile ends in the digest of its definition, so that a changed definition is another
//! profile, whatever version it claims. Hashes of different profiles are never compared, not even of versions of
//! one.

use std::fmt;
use std::sync::LazyLock;

use super::built_in;
use super::recipe::{Features, Recipe, Weights};
use super::{Explanation, Fingerprint, Signed};
use crate::ids::{SignatureShape, Width};

/// The name and version of a profile, written `copies-64@1`; that of a user's own ends in the digest of its
/// definition, `house@1+2f6c0ad5c4e71b83`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId {
    name: String,
    version: u32,
    digest: Option<u64>,
}

impl ProfileId {
    pub(super) fn new(name: impl Into<String>, version: u32, digest: Option<u64>) -> ProfileId {
        ProfileId { name: name.into(), version, digest }
    }

    /// The name without the version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version, from 1.
    pub fn version(&self) -> u32 {
        self.version
    }
}

/// The name and the digest in the id of a user's profile.
fn definition(id: &str) -> Option<(&str, &str)> {
    let (named, digest) = id.split_once('+')?;
    Some((named.split('@').next()?, digest))
}

/// Whether two ids are of profiles that make the same hashes: one of a user's own may have another version.
pub fn makes_the_same(a: &str, b: &str) -> bool {
    a == b || definition(a).is_some_and(|of_a| definition(b) == Some(of_a))
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)?;
        self.digest.map_or(Ok(()), |digest| write!(f, "+{digest:016x}"))
    }
}

/// A recipe from text to hash under a name and version.
///
/// ```
/// use lookalike::fingerprint::Profile;
/// let profile = Profile::default_profile();
/// let [a, b] = ["Fish and chips is served hot.", "Fish & chips are served hot!"].map(|text| profile.fingerprint(text));
/// assert!(a.hash.distance(b.hash) < Some(32));
/// ```
#[derive(Debug)]
pub struct Profile {
    pub(super) id: ProfileId,
    pub(super) summary: String,
    pub(super) recipe: Recipe,
}

/// The built-in profiles; the versions of one name in rising order. The first is the default.
static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(built_in::profiles);

impl Profile {
    /// Its name and version.
    pub fn id(&self) -> &ProfileId {
        &self.id
    }

    /// What it is for, in a sentence or two of English.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The bits of its fingerprints.
    pub fn width(&self) -> Width {
        self.recipe.width
    }

    /// The shape of the signatures that it makes; the hashes are their names then. `None` if hashes are all it makes.
    pub fn signatures(&self) -> Option<SignatureShape> {
        self.recipe.signature
    }

    /// The distance up to which two texts count as near-duplicates unless a question says otherwise: in bits, or in
    /// cells of signatures.
    pub fn default_k(&self) -> u32 {
        self.recipe.k
    }

    /// With fewer distinct features a fingerprint is [`super::Status::Short`]: one feature more or less may move
    /// it further than `default_k`.
    pub fn min_features(&self) -> usize {
        self.recipe.min_features
    }

    /// Whether its features are keywords, so that it finds texts on one topic and not copies.
    pub fn finds_topics(&self) -> bool {
        matches!((&self.recipe.features, &self.recipe.weights), (Features::Words(_), Weights::TfIdf { .. }))
    }

    /// Bytes of memory that making a fingerprint takes at most for each byte of a long text, as `tests/allocation.rs` measures.
    pub fn memory_per_byte(&self) -> usize {
        self.recipe.memory_per_byte()
    }

    /// The fingerprint of a text of any length, in any language, in time proportional to it but for a sort.
    pub fn fingerprint(&self, text: &str) -> Fingerprint {
        self.recipe.fingerprint(text)
    }

    /// The fingerprint of a text, with its signature if the profile makes signatures.
    pub fn sign(&self, text: &str) -> Signed {
        self.recipe.sign(text)
    }

    /// Bytes of memory that an explanation takes at most for each byte of a long text.
    pub const EXPLAINED_PER_BYTE: usize = 160;

    /// The fingerprint with its features and votes. It keeps the text of each occurrence of a feature: for people to read,
    /// not for loads.
    pub fn explain(&self, text: &str) -> Explanation {
        self.recipe.explain(text)
    }

    /// The distinct features as 64-bit hashes, in order, whatever hash the profile votes with: what the Jaccard
    /// similarity of two texts is taken of.
    pub fn feature_set(&self, text: &str) -> Vec<u64> {
        self.recipe.feature_set(text)
    }

    /// All built-in profiles.
    pub fn all() -> &'static [Profile] {
        &PROFILES
    }

    /// The built-in profile with this id (`copies-64@1`), or the newest version of this name (`copies-64`).
    pub fn named(name: &str) -> Option<&'static Profile> {
        Profiles::default().named(name)
    }

    /// The profile for those who do not choose: `copies-64`.
    ///
    /// # Panics
    /// Never: it is built in.
    pub fn default_profile() -> &'static Profile {
        Profile::named("copies-64").expect("it is among the built-in profiles")
    }
}

/// The profiles of a process: the built-in ones and those of the user. It is made once, and what is in it lives as
/// long as the process: collections, requests and jobs hold profiles without counting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profiles {
    own: &'static [Profile],
}

impl Profiles {
    /// The built-in profiles and these, whose names must differ. It keeps them for ever.
    pub fn with(own: Vec<Profile>) -> Profiles {
        Profiles { own: Vec::leak(own) }
    }

    /// All of them, the built-in ones first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = &'static Profile> {
        Profile::all().iter().chain(self.own)
    }

    /// The profile with this id (`copies-64@1`), or the newest version of this name (`copies-64`). The id of a
    /// user's own profile may be given without its digest.
    pub fn named(self, name: &str) -> Option<&'static Profile> {
        self.iter().rev().find(|profile| {
            let id = &profile.id;
            id.name == name
                || format!("{}@{}", id.name, id.version) == name
                || makes_the_same(&id.to_string(), name)
        })
    }

    /// Of the id of a user's profile that was stored and of which nothing with the same definition is here, what there is of its
    /// name now, for people: an id, or that there is none. `None` if it is no such id.
    pub fn changed(self, id: &str) -> Option<String> {
        let (name, _) = definition(id).filter(|_| self.named(id).is_none())?;
        let now = self.named(name);
        Some(now.map_or_else(|| "none".to_owned(), |now| now.id.to_string()))
    }

    /// Their ids, for people.
    pub fn listing(self) -> String {
        self.iter().map(|profile| profile.id.to_string()).collect::<Vec<_>>().join(", ")
    }
}
