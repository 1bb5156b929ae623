//! Profiles: recipes from text to hash, each with a name and a version: the built-in ones and those that
//! users define.
//!
//! Invariant 1: a fingerprint depends only on the profile (name and version) and the text. A released
//! profile never changes; golden hashes in the tests enforce this, and a change is a new version. The id of
//! a user's profile ends in the digest of its definition, so a changed definition is another profile,
//! whatever version it declares. Hashes of different profiles are never compared, not even those of two
//! versions of one profile.
//!
//! Not here: the steps of a recipe (`recipe`), and the definitions of users (`profiles`).

#[cfg(feature = "zh")]
use std::convert::Infallible;
use std::fmt;
use std::sync::LazyLock;

#[cfg(feature = "zh")]
use xxhash_rust::xxh3::xxh3_64;

use super::built_in;
use super::recipe::{Features, Recipe, Weights};
use super::{Explanation, Fingerprint, Signed};
#[cfg(feature = "zh")]
use crate::features::{Frequencies, letters};
use crate::{NeedsFeature, needs};
use lookalike_hash::{SignatureShape, SketchCheck, Width};
#[cfg(feature = "zh")]
use lookalike_pages::stop::stoppable;

/// A text with words, digits, signs and several scripts, in which profiles find different features.
#[cfg(feature = "zh")]
const PROBE: &str = "The museum’s 42 oldest maps, and the atlas of 1911, were shown again. \
    昨天图书馆延长了开放时间，今天又来了很多人。 \
    ひらがなとカタカナ 오늘 도서관은 늦게까지 연다 ร้านหนังสือ";

/// The name and version of a profile, written `copies-64@1`. The id of a user's profile ends in the digest
/// of its definition: `house@1+2f6c0ad5c4e71b83`.
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

/// Whether the profiles of two ids make the same hashes: the ids are equal, or they are of user profiles
/// with the same name and definition, whatever their versions.
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
/// The functions whose names begin with `try_` are those of a build without the feature `zh`: they refuse
/// texts that need it. With the feature they never fail, and the others are there, too.
///
/// ```
/// use lookalike_text::fingerprint::Profile;
/// let profile = Profile::default_profile();
/// let a = profile.try_fingerprint("Fish and chips is served hot.")?;
/// let b = profile.try_fingerprint("Fish & chips are served hot!")?;
/// assert!(a.hash.distance(b.hash) < Some(64));
/// # Ok::<(), lookalike_text::NeedsFeature>(())
/// ```
#[derive(Debug)]
pub struct Profile {
    pub(super) id: ProfileId,
    pub(super) summary: String,
    pub(super) recipe: Recipe,
}

/// The built-in profiles; the versions of one name are in ascending order.
static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(built_in::profiles);

impl Profile {
    /// The name and version.
    pub fn id(&self) -> &ProfileId {
        &self.id
    }

    /// The steps from text to hash.
    pub(crate) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The purpose of the profile, in a few English sentences.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The width of its fingerprints.
    pub fn width(&self) -> Width {
        self.recipe.width
    }

    /// The shape of its signatures, whose names are its hashes. `None` if it makes only hashes.
    pub fn signatures(&self) -> Option<SignatureShape> {
        self.recipe.signature
    }

    /// The distance up to which two texts count as near-duplicates unless a request sets another one: in
    /// bits, or in cells of signatures. [`super::Fingerprint::k`] is that of a text.
    pub fn default_k(&self) -> u32 {
        self.recipe.k
    }

    /// The check that decides about duplicates where no distance is given: the texts of near documents must
    /// be similar, so they may be farther apart. `None` if the distance decides.
    pub fn check(&self) -> Option<SketchCheck> {
        let farther = match (&self.recipe.features, self.recipe.signature) {
            (Features::Shingles(_), None) => self.width().bits() / 16,
            (Features::ShortTexts, None) => 10,
            _ => return None,
        };
        Some(SketchCheck { k: self.default_k() + farther, similarity: 0.5 })
    }

    /// Whether it makes fingerprints of texts and features. Otherwise the client makes the hashes, and every
    /// text is empty.
    pub fn takes_texts(&self) -> bool {
        !matches!(self.recipe.features, Features::Supplied | Features::Images)
    }

    /// Whether its hashes are made from images: PDQ with 256 bits, and `phash-64` with 64.
    pub fn takes_images(&self) -> bool {
        matches!(self.recipe.features, Features::Images)
    }

    /// Whether its features are those of short texts. A second check then compares them as well, because
    /// one changed character changes fewer of them than of the pairs of words.
    pub fn is_for_short_texts(&self) -> bool {
        matches!(self.recipe.features, Features::ShortTexts)
    }

    /// [`Profile::default_k`] for signatures with weights ([`SignatureShape::weighted`]).
    pub fn weighted_k(&self) -> u32 {
        let k = self.default_k();
        self.signatures().map_or(k, |shape| shape.weighted(k))
    }

    /// Whether its signatures can have weights that a corpus teaches: they are minima of shingles.
    pub fn takes_weights(&self) -> bool {
        self.recipe.signature.is_some() && matches!(self.recipe.features, Features::Shingles(_))
    }

    /// The share of letters in one order, 0 to 1, that near texts must have besides near signatures. `None`
    /// if signatures or hashes alone decide. What has no texts, such as a collection, cannot use a profile
    /// with this share.
    pub fn alignment(&self) -> Option<f64> {
        self.recipe.alignment
    }

    /// The letters, digits and marks of a text, prepared as by the profile: what is aligned.
    #[cfg(feature = "zh")]
    pub fn letters(&self, text: &str) -> String {
        letters(&self.recipe.preparation.apply(text))
    }

    /// Whether its features are keywords, so that it finds texts on the same topic and not copies.
    pub fn finds_topics(&self) -> bool {
        matches!((&self.recipe.features, &self.recipe.weights), (Features::Words(_), Weights::TfIdf { .. }))
    }

    /// An upper bound of the bytes that a fingerprint allocates per byte of a long text;
    /// `tests/allocation.rs` checks it.
    pub fn memory_per_byte(&self) -> usize {
        self.recipe.memory_per_byte()
    }

    /// [`Profile::fingerprint`], unless the text needs a feature of the crate that is off.
    ///
    /// # Errors
    /// [`NeedsFeature`] without the feature `zh`, if the features of the text are Chinese.
    pub fn try_fingerprint(&self, text: &str) -> Result<Fingerprint, NeedsFeature> {
        Ok(self.try_sign(text)?.fingerprint)
    }

    /// [`Profile::sign`], unless the text needs a feature of the crate that is off.
    ///
    /// # Errors
    /// As of [`Profile::try_fingerprint`].
    pub fn try_sign(&self, text: &str) -> Result<Signed, NeedsFeature> {
        needs::check(&self.recipe, text)?;
        Ok(self.recipe.sign(text))
    }

    /// [`Profile::explain`], unless the text needs a feature of the crate that is off.
    ///
    /// # Errors
    /// As of [`Profile::try_fingerprint`].
    pub fn try_explain(&self, text: &str) -> Result<Explanation, NeedsFeature> {
        needs::check(&self.recipe, text)?;
        Ok(self.recipe.explain(text))
    }

    /// [`Profile::feature_set`], unless the text needs a feature of the crate that is off.
    ///
    /// # Errors
    /// As of [`Profile::try_fingerprint`].
    pub fn try_feature_set(&self, text: &str) -> Result<Vec<u64>, NeedsFeature> {
        needs::check(&self.recipe, text)?;
        Ok(self.recipe.feature_set(text))
    }

    /// The fingerprint of a text of any length, in any language. Takes time proportional to the length of
    /// the text; a few steps sort, which takes slightly more.
    #[cfg(feature = "zh")]
    pub fn fingerprint(&self, text: &str) -> Fingerprint {
        self.recipe.fingerprint(text)
    }

    /// The fingerprint of a text, with its signature if the profile makes signatures.
    #[cfg(feature = "zh")]
    pub fn sign(&self, text: &str) -> Signed {
        self.recipe.sign(text)
    }

    /// [`Profile::sign`] with the weights of a table. Such signatures are compared with those of the same
    /// table only. Without effect if [`Profile::takes_weights`] is `false`.
    #[cfg(feature = "zh")]
    pub fn sign_weighted(&self, table: &Frequencies, text: &str) -> Signed {
        let Ok(signed) = self.checked_sign(text, Some(table), || Ok::<_, Infallible>(()));
        signed
    }

    /// [`Profile::sign`], or [`Profile::sign_weighted`] with a table, that ends early if it is no longer
    /// needed.
    ///
    /// # Errors
    /// The error of `check`, which is called between the steps. The longest step takes a tenth of a second
    /// for a text of 1 MiB that was constructed to be slow.
    #[cfg(feature = "zh")]
    pub fn checked_sign<E>(
        &self,
        text: &str,
        table: Option<&Frequencies>,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<Signed, E> {
        let table = table.filter(|_| self.takes_weights());
        stoppable(check, |check| self.recipe.checked_sign(text, table, check))
    }

    /// [`Profile::checked_sign`] with the [`Profile::feature_set`] of another profile for the same text, in
    /// less time than one after the other.
    ///
    /// # Errors
    /// The error of `check`.
    #[cfg(feature = "zh")]
    pub fn sign_with_set<E>(
        &self,
        other: &Profile,
        text: &str,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(Signed, Vec<u64>), E> {
        stoppable(check, |check| self.recipe.sign_with_set(&other.recipe, text, check))
    }

    /// An upper bound of the bytes that an explanation allocates per byte of a long text.
    pub const EXPLAINED_PER_BYTE: usize = 176;

    /// The fingerprint with its features and votes. It stores the text of every occurrence of a feature,
    /// which is too expensive for bulk work.
    #[cfg(feature = "zh")]
    pub fn explain(&self, text: &str) -> Explanation {
        self.recipe.explain(text)
    }

    /// The distinct features as 64-bit `XXH3` hashes, sorted, whatever hash the profile votes with. The
    /// Jaccard similarity of two texts is that of these sets.
    #[cfg(feature = "zh")]
    pub fn feature_set(&self, text: &str) -> Vec<u64> {
        self.recipe.feature_set(text)
    }

    /// A number that tells the features of [`Profile::feature_set`] from those of other profiles: profiles
    /// that find the same features have the same number. It is that of a table of their frequencies.
    #[cfg(feature = "zh")]
    pub fn kind_of_features(&self) -> u64 {
        let features = self.feature_set(PROBE);
        xxh3_64(&features.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    }

    /// All built-in profiles.
    pub fn all() -> &'static [Profile] {
        &PROFILES
    }

    /// The built-in profile with this id (`copies-64@1`), or the newest version of this name (`copies-64`).
    pub fn named(name: &str) -> Option<&'static Profile> {
        Profiles::default().named(name)
    }

    /// The default profile: the newest version of `copies-128` (ADR 28).
    ///
    /// # Panics
    /// Never: it is built in.
    pub fn default_profile() -> &'static Profile {
        Profile::named("copies-128").expect("it is among the built-in profiles")
    }
}

/// Why a profile does not take a text, and which built-in ones do.
///
/// # Errors
/// With that reason, if the client makes the hashes of the profile.
pub fn check_takes_texts(profile: &Profile) -> Result<(), String> {
    if profile.takes_texts() {
        return Ok(());
    }
    let takes = if profile.takes_images() { "an image or" } else { "only" };
    Err(format!(
        "profile {} takes no text, page or features, {takes} a hash of {} hexadecimal digits that the client \
         makes; profiles that take texts are {}",
        profile.id,
        profile.width().digits(),
        listing(Profile::all().iter().filter(|profile| profile.takes_texts()))
    ))
}

/// Why a profile does not take an image, and which built-in ones do.
///
/// # Errors
/// With that reason, if its hashes are not made from images.
pub fn check_takes_images(profile: &Profile) -> Result<(), String> {
    if profile.takes_images() {
        return Ok(());
    }
    let known = listing(Profile::all().iter().filter(|profile| profile.takes_images()));
    Err(format!("profile {} takes no image; profiles that take images are {known}", profile.id))
}

fn listing<'a>(profiles: impl Iterator<Item = &'a Profile>) -> String {
    profiles.map(|profile| profile.id.to_string()).collect::<Vec<_>>().join(", ")
}

/// The profiles of a process: the built-in ones and those of the user. They are loaded once and live as
/// long as the process, so collections, requests and jobs hold `'static` references without reference
/// counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profiles {
    own: &'static [Profile],
}

impl Profiles {
    /// The built-in profiles and these, whose names must differ. The memory is never freed.
    pub fn with(own: Vec<Profile>) -> Profiles {
        Profiles { own: Vec::leak(own) }
    }

    /// All profiles, the built-in ones first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = &'static Profile> {
        Profile::all().iter().chain(self.own)
    }

    /// The profile with this id (`copies-64@1`), or the newest version of this name (`copies-64`). The id
    /// of a user's own profile may be given without its digest.
    pub fn named(self, name: &str) -> Option<&'static Profile> {
        self.iter().rev().find(|profile| {
            let id = &profile.id;
            id.name == name
                || format!("{}@{}", id.name, id.version) == name
                || makes_the_same(&id.to_string(), name)
        })
    }

    /// For the stored id of a user's profile whose definition no longer exists here: the id of the profile
    /// that now has this name, or `"none"`, for messages. `None` if the id is not of a user's profile, or
    /// its definition exists.
    pub fn changed(self, id: &str) -> Option<String> {
        let (name, _) = definition(id).filter(|_| self.named(id).is_none())?;
        let now = self.named(name);
        Some(now.map_or_else(|| "none".to_owned(), |now| now.id.to_string()))
    }

    /// The ids of all profiles, separated by commas, for messages.
    pub fn listing(self) -> String {
        listing(self.iter())
    }
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preparation;

    #[test]
    fn profiles_are_found_by_name_and_by_id() {
        for profile in Profile::all() {
            for name in [profile.id().name().to_owned(), profile.id().to_string()] {
                let newest =
                    Profile::all().iter().rev().find(|other| other.id().name() == profile.id().name());
                let expected = if name.contains('@') { profile } else { newest.unwrap() };
                assert_eq!(Profile::named(&name).unwrap().id(), expected.id());
            }
        }
        for unknown in ["", "copies", "copies-64@", "copies-64@9", "copies-64@01", "COPIES-64"] {
            assert!(Profile::named(unknown).is_none(), "{unknown:?}");
        }
        assert_eq!(Profile::default_profile().id().to_string(), "copies-128@1");
    }

    #[test]
    fn a_fingerprint_with_a_set_is_the_same_as_alone() {
        let mixed = "东京塔 Tokyo Tower 是一座塔。\
                     東京タワーは塔である。ไทย 12 電腦, and more words 好天气";
        for text in ["", "。", "word", "好", mixed, &mixed.repeat(4), "。2023年10月 的 rust 写 的"] {
            for profile in Profile::all() {
                for other in Profile::all() {
                    let Ok(found) =
                        profile.sign_with_set(other, text, || Ok::<_, std::convert::Infallible>(()));
                    let expected = (profile.sign(text), other.feature_set(text));
                    assert_eq!(found, expected, "{} and {}: {text}", profile.id(), other.id());
                }
            }
        }
    }

    #[test]
    fn spelling_variants_have_one_fingerprint() {
        let pairs = [
            ("臺灣的電腦軟體", "台湾的电脑软件"),
            ("Ｆｉｓｈ　ａｎｄ　ｃｈｉｐｓ", "fish and CHIPS"),
            ("Fish, and chips!", "fish and (chips)"),
            ("cafe\u{301} au lait", "CAFÉ au\u{200b} lait"),
            ("ガギグゲゴ", "ｶﾞｷﾞｸﾞｹﾞｺﾞ"),
        ];
        for (a, b) in pairs {
            // Profiles that reproduce other programs do not normalise.
            let normalises = |profile: &&Profile| {
                matches!(profile.recipe.preparation, Preparation::Normalise | Preparation::Folded)
            };
            for profile in Profile::all().iter().filter(normalises) {
                assert_eq!(profile.fingerprint(a), profile.fingerprint(b), "{} {a} {b}", profile.id());
            }
        }
    }
}
