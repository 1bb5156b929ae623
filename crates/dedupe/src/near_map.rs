//! A map from ids to texts in which near-duplicates are found: of texts that arrive one after the other.
//!
//! It holds the print of each text and not the text: 100 bytes for a hash and some 500 for a signature,
//! besides the id and the value. *Absent*: a second check, groups, time limits.

mod file;

use std::collections::HashMap;
use std::hash::Hash as Key;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::printer::Printer;
use super::radius::{Radius, RadiusError};
use lookalike_corpus::Print;
use lookalike_hamming::{HashIndex, Subject, index_for};
use lookalike_hash::Hash;
use lookalike_text::fingerprint::{Fingerprint, Profile, Status, check_takes_texts};

/// Texts by their ids, with a value each. [`NearMap::insert_if_novel`] refuses a text that is near a stored
/// one.
///
/// ```
/// use lookalike_dedupe::NearMap;
/// use lookalike_text::fingerprint::Profile;
///
/// let mut news = NearMap::new(Profile::default_profile(), None)?;
/// let text = "The harbour ferry will run every twenty minutes during the summer festival, the city council \
///     said on Tuesday. Extra boats have been hired from a neighbouring town.";
/// assert!(news.insert_if_novel(1, text, "front page")?.is_none());
/// let near = news.insert_if_novel(2, &text.replace("Tuesday", "Friday"), "sports")?.expect("it is a copy");
/// assert_eq!((near.id, news.get(&1), news.get(&2)), (1, Some(&"front page"), None));
/// # Ok::<(), lookalike_dedupe::NearMapError>(())
/// ```
pub struct NearMap<K, V = ()> {
    profile: &'static Profile,
    /// The largest distance of near texts; `None` means that of each text.
    k: Option<u32>,
    index: Arc<dyn HashIndex>,
    entries: HashMap<K, Entry<V>, RandomState>,
    /// The ids of each hash, in the order in which they came.
    ids: HashMap<Hash, Vec<K>, RandomState>,
}

/// What is stored of a text.
#[derive(Clone, Debug)]
struct Entry<V> {
    /// `None` of a text without features, which is near nothing.
    print: Option<Print>,
    value: V,
}

/// A stored text that is near another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Near<K> {
    /// Its id.
    pub id: K,
    /// The distance, in bits or in cells of signatures.
    pub distance: u32,
    /// The estimated Jaccard similarity, 0 to 1, if the profile makes signatures.
    pub similarity: Option<f64>,
}

/// Why a map cannot be made, or a text cannot be inserted.
#[derive(Debug, thiserror::Error)]
pub enum NearMapError {
    /// The profile takes hashes only.
    #[error("{0}")]
    TakesNoTexts(String),
    /// The distance does not suit the profile.
    #[error(transparent)]
    Radius(#[from] RadiusError),
    /// The profile aligns the letters of texts, and a map has none.
    #[error(
        "{profile} aligns the letters of two texts, and texts are not stored: take minhash-copies, or dedupe"
    )]
    Aligns {
        /// The profile.
        profile: String,
    },
    /// The id is stored.
    #[error("a text is stored under this id: remove it first, or give another id")]
    Taken,
}

impl<K: Clone + Eq + Key, V> NearMap<K, V> {
    /// An empty map of texts that are compared by this profile. Texts are near if their distance is at most
    /// `k`; by default at most that of each text, which for most profiles is [`Profile::default_k`].
    pub fn new(profile: &'static Profile, k: Option<u32>) -> Result<NearMap<K, V>, NearMapError> {
        if !profile.takes_images() {
            check_takes_texts(profile).map_err(NearMapError::TakesNoTexts)?;
        }
        if profile.alignment().is_some() {
            return Err(NearMapError::Aligns { profile: profile.id().to_string() });
        }
        k.map(|k| Radius::Distance(k).of(profile, false)).transpose()?;
        let index = index_for(profile.width(), profile.signatures());
        let (entries, ids) = (HashMap::default(), HashMap::default());
        Ok(NearMap { profile, k, index, entries, ids })
    }

    /// The profile.
    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// The largest distance of near texts, if it is the same for all.
    pub fn k(&self) -> Option<u32> {
        self.k
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of an id; `None` if it is not stored.
    pub fn get(&self, id: &K) -> Option<&V> {
        self.entries.get(id).map(|entry| &entry.value)
    }

    /// Stores a text, unless a stored one is near: then returns the nearest, and stores nothing. A text
    /// without features is near nothing.
    ///
    /// # Errors
    /// [`NearMapError::Taken`] if the id is stored.
    pub fn insert_if_novel(&mut self, id: K, text: &str, value: V) -> Result<Option<Near<K>>, NearMapError> {
        let made = printed(self.profile, text)?;
        self.insert_made(id, made, value)
    }

    /// [`NearMap::insert_if_novel`] of an image, whose fingerprint is made elsewhere.
    ///
    /// # Errors
    /// [`NearMapError::Taken`] if the id is stored.
    pub fn insert_image_if_novel(
        &mut self,
        id: K,
        made: Fingerprint,
        value: V,
    ) -> Result<Option<Near<K>>, NearMapError> {
        self.insert_made(id, of_image(made), value)
    }

    fn insert_made(
        &mut self,
        id: K,
        made: (Fingerprint, Print),
        value: V,
    ) -> Result<Option<Near<K>>, NearMapError> {
        if self.entries.contains_key(&id) {
            return Err(NearMapError::Taken);
        }
        let near = self.near(&made, None).into_iter().next();
        if near.is_none() {
            let (fingerprint, print) = made;
            self.insert(id, (fingerprint.status != Status::Empty).then_some(print), value);
        }
        Ok(near)
    }

    /// Stores a print under an id that is not stored.
    fn insert(&mut self, id: K, print: Option<Print>, value: V) {
        if let Some(print) = &print {
            if self.profile.signatures().is_some() {
                self.index.announce(print.hash, &print.signature);
            }
            self.index.insert(print.hash);
            self.ids.entry(print.hash).or_default().push(id.clone());
        }
        self.entries.insert(id, Entry { print, value });
    }

    /// The stored texts that are near, the nearest first; of those at one distance, the oldest of each hash
    /// first, and smaller hashes before larger ones.
    ///
    /// # Errors
    /// [`NearMapError::Radius`] if `k`, which replaces that of the map, does not suit the profile.
    pub fn find(&self, text: &str, k: Option<u32>) -> Result<Vec<Near<K>>, NearMapError> {
        self.find_made(&printed(self.profile, text)?, k)
    }

    /// [`NearMap::find`] of an image, whose fingerprint is made elsewhere.
    ///
    /// # Errors
    /// [`NearMapError::Radius`] if `k` does not suit the profile.
    pub fn find_image(&self, made: Fingerprint, k: Option<u32>) -> Result<Vec<Near<K>>, NearMapError> {
        self.find_made(&of_image(made), k)
    }

    fn find_made(&self, made: &(Fingerprint, Print), k: Option<u32>) -> Result<Vec<Near<K>>, NearMapError> {
        k.map(|k| Radius::Distance(k).of(self.profile, false)).transpose()?;
        Ok(self.near(made, k))
    }

    fn near(&self, (fingerprint, print): &(Fingerprint, Print), k: Option<u32>) -> Vec<Near<K>> {
        if fingerprint.status == Status::Empty {
            return Vec::new();
        }
        let shape = self.profile.signatures();
        let k = k.or(self.k).unwrap_or(fingerprint.k);
        let subject = Subject { hash: print.hash, signature: shape.is_some().then_some(&print.signature) };
        let mut found = Vec::new();
        self.index.within(subject, k, &mut found);
        found.sort_unstable_by_key(|near| (near.distance, near.hash));
        let ids = |hash: &Hash| self.ids.get(hash).into_iter().flatten();
        let near = found.iter().flat_map(|near| ids(&near.hash).map(|id| (id, near.distance)));
        let similarity = |distance| shape.map(|shape| shape.similarity(distance));
        near.map(|(id, distance)| Near { id: id.clone(), distance, similarity: similarity(distance) })
            .collect()
    }

    /// Removes a text and returns its value; `None` if the id is not stored.
    pub fn remove(&mut self, id: &K) -> Option<V> {
        let Entry { print, value } = self.entries.remove(id)?;
        if let Some(print) = print
            && let Some(ids) = self.ids.get_mut(&print.hash)
        {
            ids.retain(|own| own != id);
            if ids.is_empty() {
                self.ids.remove(&print.hash);
                self.index.remove(print.hash);
            }
        }
        Some(value)
    }
}

/// What a map compares of a text.
fn printed(profile: &'static Profile, text: &str) -> Result<(Fingerprint, Print), NearMapError> {
    check_takes_texts(profile).map_err(NearMapError::TakesNoTexts)?;
    Ok(Printer { profile, weights: None, is_checked: false }.print(text))
}

fn of_image(made: Fingerprint) -> (Fingerprint, Print) {
    (made, Print { hash: made.hash, signature: Vec::new(), sketch: Vec::new() })
}

#[cfg(test)]
mod tests;
