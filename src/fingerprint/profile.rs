//! Profiles: the built-in recipes from text to hash, each with a name and a version.
//!
//! Invariant 1: a fingerprint depends on the profile (name and version) and the text, on nothing else. A profile
//! that was released never changes; golden hashes in the tests hold each to that, and a change is a new version.
//! Hashes of different profiles are never compared, not even of versions of one.

use std::fmt;

use super::recipe::{Features, Recipe};
use super::{Explanation, Fingerprint};
use crate::ids::Width;

/// The name and version of a profile, written `copies-64@1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId {
    name: &'static str,
    version: u32,
}

impl ProfileId {
    /// The name without the version.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The version, from 1.
    pub fn version(&self) -> u32 {
        self.version
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
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
    id: ProfileId,
    summary: &'static str,
    recipe: Recipe,
}

/// All profiles; the versions of one name in rising order. The first is the default.
static PROFILES: [Profile; 3] = [
    Profile {
        id: ProfileId { name: "copies-64", version: 1 },
        summary: "Finds copies and edited copies in any language, fast: words and pairs of words where words must be \
                  found by dictionary, 5-character grams elsewhere, weight 1 + ln count, 64 bits.",
        recipe: Recipe { features: Features::Shingles, width: Width::Bits64, k: 7, min_features: 20 },
    },
    Profile {
        id: ProfileId { name: "copies-128", version: 1 },
        summary: "Like copies-64 with 128 bits: finds more heavily edited copies at the same precision, for twice \
                  the memory.",
        recipe: Recipe { features: Features::Shingles, width: Width::Bits128, k: 23, min_features: 20 },
    },
    Profile {
        id: ProfileId { name: "keywords-zh", version: 1 },
        summary: "The classic recipe for Chinese: the 20 words of the greatest TF-IDF. It finds texts on the same \
                  topic and not copies: many of its hits are other texts about the same thing.",
        recipe: Recipe {
            features: Features::Keywords { top: 20 },
            width: Width::Bits64,
            k: 3,
            min_features: 8,
        },
    },
];

impl Profile {
    /// Its name and version.
    pub fn id(&self) -> &ProfileId {
        &self.id
    }

    /// What it is for, in a sentence or two of English.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// The bits of its fingerprints.
    pub fn width(&self) -> Width {
        self.recipe.width
    }

    /// The Hamming distance up to which two texts count as near-duplicates unless a question says otherwise.
    pub fn default_k(&self) -> u32 {
        self.recipe.k
    }

    /// With fewer distinct features a fingerprint is [`super::Status::Short`]: one feature more or less may move
    /// it further than `default_k`.
    pub fn min_features(&self) -> usize {
        self.recipe.min_features
    }

    /// The fingerprint of a text of any length, in any language, in time proportional to it but for a sort.
    pub fn fingerprint(&self, text: &str) -> Fingerprint {
        self.recipe.fingerprint(text)
    }

    /// The fingerprint with all features and votes. It allocates a string for each occurrence of a feature: for
    /// people to read, not for loads.
    pub fn explain(&self, text: &str) -> Explanation {
        self.recipe.explain(text)
    }

    /// All built-in profiles.
    pub fn all() -> &'static [Profile] {
        &PROFILES
    }

    /// The profile with this id (`copies-64@1`), or the newest version of this name (`copies-64`).
    pub fn named(name: &str) -> Option<&'static Profile> {
        Profile::all().iter().rev().find(|profile| profile.id.name == name || profile.id.to_string() == name)
    }

    /// The profile for those who do not choose: `copies-64`.
    pub fn default_profile() -> &'static Profile {
        &PROFILES[0]
    }
}
