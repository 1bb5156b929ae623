//! The second check: returns those documents within k whose text is similar, most similar first.
//!
//! A distance between hashes only indicates how likely two texts are similar; this compares the texts. The
//! measure is the Jaccard similarity of their pairs of adjacent words, or, in a collection with a profile for
//! short texts, of the features of that profile. Or it is the cosine of the counts of all their words. It is
//! exact if the collection keeps texts. Otherwise it is estimated by sketches, which are `MinHash` signatures
//! of a few bits per minimum (Li and König, "b-Bit minwise hashing", WWW 2010). With a large k it increases
//! F1 on every labelled set that was measured (docs/quality.md).

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::ask::{Ask, By};
use super::fingerprints::{Content, reserve_for_text};
use super::lookup::Found;
use super::{Service, ServiceError};
use lookalike_engine::{
    Answer, Collection, CollectionSettings, DuplicateRule, EngineError, Judge, Query, Row, Weights,
    WorkBudget,
};
use lookalike_hash::{CollectionName, sketch_similarity};
use lookalike_run::pool::{Cancel, Patience};
use lookalike_text::features::{Frequencies, WordCounts};
use lookalike_text::fingerprint::{
    Containment, Fingerprint, Profile, Signature, TextRelation, jaccard, weighted_jaccard,
};

/// Maximum number of documents within k that are compared for one query, nearest first.
const CANDIDATES: usize = 1_000;
/// The profile whose features are compared, except in collections with a profile for short texts.
const FEATURES: &str = "pairs-64";
/// The range of sizes of a sketch in bytes.
pub const SKETCH_BYTES: RangeInclusive<u16> = 8..=1_024;
/// The size of the sketch of a new collection. A smaller one finds less among documents of which few are
/// copies, and with a larger one F1 grows by less than 0.015 on any set (docs/figures/quality.md).
pub const DEFAULT_SKETCH: u16 = 32;

/// The sketch of a text, `bytes` bytes long, in a collection with this profile.
pub(super) fn sketch_of(
    text: &str,
    bytes: u16,
    profile: &'static Profile,
    table: Option<&Frequencies>,
) -> Vec<u8> {
    sketch_of_set(&features(profile).feature_set(text), bytes, table)
}

/// The sketch of a text by its features. For a given size, more minima of one bit each are the most accurate
/// (docs/quality.md).
fn sketch_of_set(features: &[u64], bytes: u16, table: Option<&Frequencies>) -> Vec<u8> {
    let minima = usize::from(bytes) * 8;
    let signature = match table {
        Some(table) => Signature::weighted(features, &table.weights(features), minima),
        None => Signature::of(features, minima),
    };
    signature.sketch(1).bytes().to_vec()
}

/// The fingerprint of a text, and its sketch of `bytes` bytes.
///
/// # Errors
/// Those of `check`, which is called from time to time.
pub(super) fn fingerprint_with_sketch<E>(
    text: &str,
    bytes: u16,
    profile: &'static Profile,
    table: Option<&Frequencies>,
    check: impl Fn() -> Result<(), E>,
) -> Result<(Fingerprint, Vec<u8>), E> {
    let (signed, set) = profile.sign_with_set(features(profile), text, check)?;
    Ok((signed.fingerprint, sketch_of_set(&set, bytes, table)))
}

impl Service {
    /// Checks whether sketches of this size, if there are any, fit a collection.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] if they do not, [`EngineError::NoCollection`].
    pub fn check_sketches_of(
        &self,
        collection: &CollectionName,
        bytes: Option<u16>,
    ) -> Result<(), ServiceError> {
        let settings = self.engine()?.settings(collection)?;
        bytes.map_or(Ok(()), |bytes| check_sketch_bytes("sketch_bytes", bytes.into(), &settings))
    }
}

/// Checks that a sketch of this many bytes fits a collection: sketches of two sizes cannot be compared.
pub(super) fn check_sketch_bytes(
    field: &'static str,
    bytes: usize,
    settings: &CollectionSettings,
) -> Result<(), ServiceError> {
    let own = settings.sketch_bytes.map_or(0, usize::from);
    if bytes == own {
        return Ok(());
    }
    let keeps = if own == 0 { "no sketches".to_owned() } else { format!("sketches of {own} bytes") };
    let detail = format!(
        "the sketch has {bytes} bytes, {} digits; this collection keeps {keeps} (sketch_bytes): make one \
         with \"sketch_bytes\": {bytes}, or leave {field} out",
        2 * bytes
    );
    Err(ServiceError::invalid(field, detail))
}

/// The profile whose features are compared, in signatures or in sketches, in a collection with this profile:
/// those that weights are of. `None` if neither can have weights.
pub(super) fn weighed_features(
    profile: &'static Profile,
    settings: &CollectionSettings,
) -> Option<&'static Profile> {
    if settings.signatures.is_some() {
        return Some(profile).filter(|profile| profile.takes_weights());
    }
    settings.sketch_bytes.map(|_| features(profile))
}

/// The profile whose features the second check compares in a collection with this profile.
fn features(profile: &'static Profile) -> &'static Profile {
    if profile.is_for_short_texts() {
        return profile;
    }
    Profile::named(FEATURES).expect("a built-in profile")
}

/// The similarity of two texts by weights, if they are those of sketches.
pub(super) fn weighed(
    profile: &'static Profile,
    table: Option<&Frequencies>,
    texts: [&String; 2],
) -> Option<f64> {
    let table = table.filter(|_| profile.signatures().is_none())?;
    let [a, b] = texts.map(|text| features(profile).feature_set(text));
    Some(weighted_jaccard(&a, &b, table))
}

/// The measure of the similarity of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// The Jaccard similarity of their pairs of adjacent words.
    #[default]
    Jaccard,
    /// The cosine of the angle between the counts of all their words.
    Cosine,
}

/// The data by which the subject of a query is compared: a sketch with the number of characters of its text.
enum Compared {
    Text(String),
    Sketch(Vec<u8>, Option<u32>),
}

/// The subject of a query, prepared for comparisons.
struct Prepared {
    /// The number of its characters, if it is known.
    characters: Option<u32>,
    exact: Option<Exact>,
    sketch: Option<Vec<u8>>,
}

/// A similarity, and if it is one of sets without weights, how much of each text is in the other one.
type Similarity = (f64, Option<Containment>);

/// A text, prepared for comparisons.
enum Exact {
    Set(Vec<u64>),
    Counts(WordCounts),
}

/// How the texts of a collection are compared.
#[derive(Clone)]
struct Comparison {
    measure: Measure,
    /// The profile of the collection.
    profile: &'static Profile,
    /// The size of the collection's sketches.
    sketch_bytes: Option<u16>,
    /// The weights of the features that are compared.
    weights: Option<Weights>,
}

impl Comparison {
    fn table(&self) -> Option<&Frequencies> {
        self.weights.as_ref().map(Weights::table)
    }
}

impl Exact {
    fn of(text: &str, by: &Comparison) -> Exact {
        match by.measure {
            Measure::Jaccard => Exact::Set(features(by.profile).feature_set(text)),
            Measure::Cosine => Exact::Counts(WordCounts::of(text)),
        }
    }

    fn similarity(&self, text: &str, by: &Comparison) -> Similarity {
        match self {
            Exact::Set(set) => {
                let other = features(by.profile).feature_set(text);
                let [own, len] = [set, &other].map(|set| u32::try_from(set.len()).unwrap_or(u32::MAX));
                let similarity = jaccard(set, &other);
                let weighted = by.table().map(|table| weighted_jaccard(set, &other, table));
                let shares = Containment::estimated(similarity, own, len);
                (weighted.unwrap_or(similarity), Some(shares))
            }
            Exact::Counts(own) => (own.cosine(&WordCounts::of(text)), None),
        }
    }
}

/// Bytes of memory per byte of a text that is compared: counts of words take less than sets of features.
fn memory_per_byte(by: &Comparison) -> usize {
    features(by.profile).memory_per_byte()
}

impl Prepared {
    fn of(compared: Compared, by: &Comparison) -> Prepared {
        match compared {
            Compared::Text(text) => Prepared {
                characters: u32::try_from(text.chars().count()).ok(),
                exact: Some(Exact::of(&text, by)),
                sketch: by.sketch_bytes.map(|bytes| sketch_of(&text, bytes, by.profile, by.table())),
            },
            Compared::Sketch(bytes, characters) => Prepared { characters, exact: None, sketch: Some(bytes) },
        }
    }

    /// The similarity to a stored document: by texts if both have one, otherwise by sketches; `None` if that
    /// is not possible.
    fn similarity(&self, row: &Row, by: &Comparison) -> Option<Similarity> {
        if let (Some(own), Some(text)) = (&self.exact, &row.text) {
            return Some(own.similarity(text, by));
        }
        let similarity = sketch_similarity(self.sketch.as_ref()?, row.sketch.as_ref()?);
        let lengths = self.characters.zip(row.characters).filter(|_| by.weights.is_none());
        Some((similarity, lengths.map(|(own, other)| Containment::estimated(similarity, own, other))))
    }
}

/// A judge that processes one row at a time. It prepares the subject at the first row.
fn judge(compared: Compared, by: Comparison, least: f64, rule: DuplicateRule) -> Judge {
    let mut compared = Some(compared);
    let mut prepared = None;
    Box::new(move |near, row, _| {
        if let Some(compared) = compared.take() {
            if let Compared::Text(text) = &compared {
                reserve_for_text(text.len(), memory_per_byte(&by))?.keep();
            }
            prepared = Some(Prepared::of(compared, &by));
        }
        let _working = reserve_for_text(row.text.as_ref().map_or(0, String::len), memory_per_byte(&by))?;
        let similarity = prepared.as_ref().and_then(|own| own.similarity(&row, &by));
        let Some((similarity, shares)) = similarity.filter(|(similarity, _)| *similarity >= least) else {
            return Ok(false);
        };
        near.similarity = Some(similarity);
        let is_duplicate = rule.check.map_or(near.distance <= rule.k, |check| similarity >= check.similarity);
        let otherwise = is_duplicate.then_some(TextRelation::Duplicate);
        near.relation = shares.and_then(|shares| shares.relation().or(otherwise));
        Ok(true)
    })
}

impl Service {
    /// Answers a query with the documents of similarity `least` or more. Only the nearest [`CANDIDATES`]
    /// documents within k are compared; if there are more, `next` is the position after them.
    pub(super) async fn similar_checked(
        &self,
        collection: &Arc<Collection>,
        mut ask: Ask,
        least: f64,
    ) -> Result<Found, ServiceError> {
        if !(0.0..=1.0).contains(&least) {
            let detail = format!("min_similarity is {least}; it ranges from 0 to 1");
            return Err(ServiceError::invalid("min_similarity", detail));
        }
        let settings = collection.settings();
        let sketch_bytes = settings.sketch_bytes.filter(|_| settings.signatures.is_none());
        if !settings.keep_text && sketch_bytes.is_none() {
            let detail = if settings.signatures.is_some() {
                "min_similarity compares texts, and this collection keeps none; use threshold, which \
                 compares signatures"
            } else {
                "min_similarity compares texts or sketches of them, and this collection keeps neither; make \
                 one without \"sketch_bytes\": 0 and store the documents there"
            };
            return Err(ServiceError::invalid("min_similarity", detail));
        }
        if ask.measure == Measure::Cosine && !settings.keep_text {
            let detail = "measure is cosine, which compares texts, and this collection keeps none; leave it \
                          out to compare sketches";
            return Err(ServiceError::invalid("measure", detail));
        }
        // Those of signatures are of other features.
        let weights = settings.weights.clone().filter(|_| settings.signatures.is_none());
        let profile = self.profile_in(collection)?;
        let by = Comparison { measure: ask.measure, profile, sketch_bytes, weights };
        let limit = ask.matches(self.limits());
        let compared = self.compared(collection, &ask.by, sketch_bytes.is_some()).await?;
        ask.limit = Some(CANDIDATES.min(self.limits().matches));
        let (query, made) = self.resolve(collection, &ask).await?;
        let judge = judge(compared, by, least, self.rule_of(&settings)?);
        let answer = self.judged(collection, query.clone(), judge).await?;
        let mut found = self.counted(collection, &query, made, answer);
        // The sort is stable: equally similar documents remain in the order of distance, then id.
        found.matches.sort_by(|a, b| b.similarity.unwrap_or(0.0).total_cmp(&a.similarity.unwrap_or(0.0)));
        found.matches.truncate(limit);
        Ok(found)
    }

    /// Answers a query with the documents for which `judge` returns a similarity.
    async fn judged(
        &self,
        collection: &Arc<Collection>,
        query: Query,
        judge: Judge,
    ) -> Result<Answer, ServiceError> {
        let (engine, collection) = (Arc::clone(self.engine()?), Arc::clone(collection));
        let work = move |cancel: &Cancel| {
            let mut found = Answer::default();
            let mut budget = WorkBudget::unlimited(cancel);
            engine.answer(&collection, &[query], &mut budget, &mut |answer| found = answer)?;
            engine.judge(&collection, &mut found.matches, judge, cancel)?;
            Ok::<_, EngineError>(found)
        };
        Ok(self.pool.run(Patience::Interactive, work).await??)
    }

    async fn compared(
        &self,
        collection: &Arc<Collection>,
        by: &By,
        has_sketches: bool,
    ) -> Result<Compared, ServiceError> {
        let compared = match by {
            By::Content(Content::Text(text)) => Some(Compared::Text(text.clone())),
            By::Content(_) => None,
            By::Id(id) => {
                let row = self.document_in(collection, id).await?.row;
                let sketch = row.sketch.filter(|_| has_sketches);
                row.text.map(Compared::Text).or(sketch.map(|sketch| Compared::Sketch(sketch, row.characters)))
            }
        };
        compared.ok_or_else(|| {
            let detail = "min_similarity compares texts or sketches of them, and the subject of the query \
                          has neither: give a text, a page or a document that was stored as one";
            ServiceError::invalid("min_similarity", detail)
        })
    }
}
