//! Comparison of two texts, documents or hashes: their distance, its reasons, and a summary.
//!
//! *Absent*: the format on the wire.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use super::fingerprints::{
    Content, check_profile, check_signed_by, checked_signature, explanation, reserve_for_explanation,
    takes_texts,
};
use super::given::hash_of;
use super::images::{Hashed, hashed};
use super::second_check::{sketch_of, weighed};
use super::{By, Limits, Service, ServiceError};
use lookalike_engine::{Collection, Row, Weights, made_by};
use lookalike_hash::{CollectionName, Hash, SignatureShape, sketch_similarity};
use lookalike_run::pool::{Cancel, Patience};
use lookalike_text::features::{Frequencies, WordCounts};
use lookalike_text::fingerprint::{
    Containment, Explanation, FeatureComparison, HashComparison, Profile, SharedPassage, Status,
    TextRelation, signature_name,
};
use lookalike_text::{Change, word_diff};
use lookalike_wording::{agreeing, counted};

/// Maximum number of shared passages whose texts are kept.
const PASSAGES: usize = 100;
/// The most bytes that two texts have together whose words are counted, which takes a second for 2 MiB.
const COSINE_BYTES: usize = 1 << 20;

/// One side of a comparison, as the client sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedSide {
    /// The subject.
    pub by: By,
    /// The profile that made its hash or signature, as the client says.
    pub profile: Option<String>,
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// Its hash.
    pub hash: Hash,
    /// Its features, if its text is available.
    pub explanation: Option<Explanation>,
    /// The quality of its image, 0 to 100, if it is one.
    pub quality: Option<u8>,
}

/// The comparison of two sides.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The profile of the hashes, and after `~` the digest of the weights of signatures and sketches.
    pub profile: String,
    /// Both sides.
    pub sides: [Side; 2],
    /// The comparison of the hashes. For signatures: the number of cells that differ, no bits, and bands in
    /// place of blocks.
    pub hashes: HashComparison,
    /// What was compared.
    pub compared: Compared,
    /// The similarity of the texts as estimated by signatures or sketches, 0 to 1, if both sides have one; of
    /// two texts by the weights of the collection, if its sketches have weights.
    pub similarity: Option<f64>,
    /// The cosine of the angle between the counts of all words, 0 to 1, if both texts are available and have
    /// together at most 1 MiB.
    pub cosine: Option<f64>,
    /// The comparison of the features, if both texts are available.
    pub features: Option<FeatureComparison>,
    /// The word-by-word comparison, if both texts are available.
    pub diff: Option<Vec<Change>>,
    /// How much of each text is in the other one, if both texts are available.
    pub containment: Option<ComparedPassages>,
    /// The distance up to which the sides match.
    pub k: u32,
    /// The result in one or two sentences.
    pub summary: String,
}

/// The data that a comparison uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Both texts, besides their hashes or signatures.
    Texts,
    /// Two signatures.
    Signatures,
    /// Two sketches of texts, besides their hashes.
    Sketches,
    /// Two images.
    Images,
    /// Two hashes alone.
    Hashes,
}

impl Compared {
    /// The sentence of the summary about a comparison without texts.
    fn sentence(self, similarity: Option<f64>) -> String {
        match (self, similarity) {
            (Compared::Sketches, Some(similarity)) => {
                let percent = (similarity * 100.0).round();
                format!(
                    " At least one text is not stored: by sketches, about {percent} % of their word pairs \
                     are in both."
                )
            }
            _ => String::new(),
        }
    }
}

impl Comparison {
    /// Whether they lie within k.
    pub fn matches(&self) -> bool {
        self.hashes.distance <= self.k
    }

    /// What the first is to the second; `None` if they are unlike, as far as can be told without texts.
    pub fn relation(&self) -> Option<TextRelation> {
        let by_letters = self.containment.as_ref().and_then(|both| both.found.relation());
        by_letters.or(self.matches().then_some(TextRelation::Duplicate))
    }
}

/// The passages that two texts share, and their texts.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedPassages {
    /// The containment in both directions.
    pub found: Containment,
    /// The text of each shared passage in the first and in the second text, of the first 100 passages.
    pub texts: Vec<[String; 2]>,
}

impl Service {
    /// Compares two sides, each a text, page, stored document, hash or signature. The default profile is the
    /// collection's. The default k is the collection's, or the profile's if a profile is named.
    ///
    /// # Errors
    /// [`ServiceError`] if a side cannot be found or has no feature, or if the widths differ.
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn compare(
        &self,
        collection: &CollectionName,
        sides: [AskedSide; 2],
        profile: Option<&str>,
        k: Option<u32>,
    ) -> Result<Comparison, ServiceError> {
        let collection = self.engine()?.find(collection)?;
        let settings = collection.settings();
        let (profile, default_k) = match profile {
            Some(name) => {
                let profile = self.profile(Some(name))?;
                (profile, if settings.weights.is_some() { profile.weighted_k() } else { profile.default_k() })
            }
            None => (self.profile_in(&collection)?, settings.k),
        };
        let k = k.unwrap_or(default_k);
        let most = profile.signatures().map_or(profile.width().bits(), |shape| u32::from(shape.cells));
        if k > most {
            let detail = format!("k is {k}; with profile {} it ranges from 0 to {most}", profile.id());
            return Err(ServiceError::invalid("k", detail));
        }
        let is_other = self.profiles().named(&settings.profile).is_none_or(|own| own.id() != profile.id());
        let weights = settings.weights.clone().filter(|_| !is_other);
        let made_by = made_by(&profile.id().to_string(), weights.as_ref());
        for (side, field) in sides.iter().zip(["a/profile", "b/profile"]) {
            if weights.is_some() && matches!(side.by, By::Content(Content::Signature(_))) {
                check_signed_by(side.profile.as_deref(), &settings)?;
            }
            if let Some(given) = &side.profile {
                check_profile(self.profiles(), given, &made_by, field)?;
            }
        }
        let [a, b] = sides.map(|side| side.by);
        let a = self.subject(&collection, a, is_other, "a").await?;
        let sides = [a, self.subject(&collection, b, is_other, "b").await?];
        let limits = self.limits;
        let work = move |cancel: &Cancel| {
            let by = Recipe { profile, table: weights.as_ref().map(Weights::table) };
            for side in &sides {
                reserve_for_explanation(&side.content, limits.document_bytes)?.keep();
            }
            Ok(Comparison { profile: made_by, ..compare(&by, sides, k, &limits, cancel)? })
        };
        self.pool.run(Patience::Interactive, work).await?
    }

    async fn subject(
        &self,
        collection: &Arc<Collection>,
        by: By,
        is_other: bool,
        field: &'static str,
    ) -> Result<Subject, ServiceError> {
        let id = match by {
            By::Content(content) => return Ok(Subject { content, sketch: None }),
            By::Id(id) => id,
        };
        let Row { hash, text, sketch, .. } = self.document_in(collection, &id).await?.row;
        let is_signed = collection.signatures().is_some();
        let content = match (text, &sketch) {
            (Some(text), _) => Content::Text(text),
            (None, _) if is_other => {
                let detail = format!(
                    "document {:?} has no text, since the collection does not keep texts, and its hash is of \
                     another profile; leave profile out or give the text",
                    id.as_str()
                );
                return Err(ServiceError::invalid(field, detail));
            }
            (None, Some(signature)) if is_signed => Content::Signature(signature.clone()),
            (None, _) => Content::Hash(hash),
        };
        Ok(Subject { content, sketch: sketch.filter(|_| !is_signed && !is_other) })
    }
}

/// What makes the hashes, signatures and sketches of both sides.
struct Recipe<'a> {
    profile: &'static Profile,
    table: Option<&'a Frequencies>,
}

/// A side of a comparison, and the sketch of its text, if one is stored.
struct Subject {
    content: Content,
    sketch: Option<Vec<u8>>,
}

/// A side, with what is known of its text.
struct Known {
    side: Side,
    text: Option<String>,
    signature: Option<Vec<u8>>,
    sketch: Option<Vec<u8>>,
}

fn known(
    by: &Recipe<'_>,
    subject: Subject,
    limits: &Limits,
    field: &'static str,
    cancel: &Cancel,
) -> Result<Known, ServiceError> {
    let (Subject { content, sketch }, profile) = (subject, by.profile);
    let of = |hash| {
        let side = Side { hash, explanation: None, quality: None };
        Known { side, text: None, signature: None, sketch: None }
    };
    match content {
        Content::Hash(_) if profile.signatures().is_some() => {
            let detail = format!(
                "{field} is the name of a signature and cannot be compared; give a text, html, id or the \
                 signature"
            );
            Err(ServiceError::invalid(field, detail))
        }
        Content::Hash(hash) => Ok(Known { sketch, ..of(hash) }),
        Content::Features(features) => Ok(of(hash_of(profile, &features)?)),
        Content::Signature(bytes) => {
            let signature = checked_signature(profile, bytes)?;
            let hash = signature_name(&signature);
            Ok(Known { signature: Some(signature), ..of(hash) })
        }
        Content::Image(image) => {
            let Hashed { fingerprint, quality, .. } = hashed(profile, &image, limits, false, cancel)?;
            let side = Side { quality: Some(quality), ..of(fingerprint.hash).side };
            Ok(Known { side, ..of(fingerprint.hash) })
        }
        Content::Text(_) | Content::Html(..) => {
            takes_texts(profile, field)?;
            cancel.check()?;
            let text = content.into_text(limits.document_bytes, cancel)?.unwrap_or_default().text;
            cancel.check()?;
            let mut explanation = explanation(profile, by.table, &text);
            if explanation.fingerprint.status == Status::Empty {
                let detail = format!("{field} has no word or character to make a fingerprint from");
                return Err(ServiceError::invalid(field, detail));
            }
            let signature = explanation.signature.take();
            let side =
                Side { hash: explanation.fingerprint.hash, explanation: Some(explanation), quality: None };
            Ok(Known { side, text: Some(text), signature, sketch })
        }
    }
}

/// The similarity of two texts by their sketches, if one is stored of one of them and the other one has a
/// sketch or a text.
fn sketched(by: &Recipe<'_>, a: &Known, b: &Known) -> Option<f64> {
    let bytes = u16::try_from(a.sketch.as_ref().or(b.sketch.as_ref())?.len()).ok()?;
    let sketch = |known: &Known| {
        let made = || Some(sketch_of(known.text.as_deref()?, bytes, by.profile, by.table));
        known.sketch.clone().or_else(made)
    };
    Some(sketch_similarity(&sketch(a)?, &sketch(b)?))
}

fn compare(
    by: &Recipe<'_>,
    [a, b]: [Subject; 2],
    k: u32,
    limits: &Limits,
    cancel: &Cancel,
) -> Result<Comparison, ServiceError> {
    let profile = by.profile;
    let a = known(by, a, limits, "a", cancel)?;
    let b = known(by, b, limits, "b", cancel)?;
    let signed = match (profile.signatures(), &a.signature, &b.signature) {
        (Some(shape), Some(a), Some(b)) => Some((shape, signature_comparison(shape, a, b))),
        _ => None,
    };
    let similarity = signed.as_ref().map(|(shape, hashes)| shape.similarity(hashes.distance));
    let hashes = signed.map(|(_, hashes)| hashes).or_else(|| HashComparison::of(a.side.hash, b.side.hash));
    let Some(hashes) = hashes else {
        let widths = [&a, &b].map(|known| known.side.hash.width().bits());
        let detail = format!(
            "a has {} bits and b has {}; only hashes of one profile can be compared",
            widths[0], widths[1]
        );
        return Err(ServiceError::invalid("b", detail));
    };
    cancel.check()?;
    let features = match (&a.side.explanation, &b.side.explanation) {
        (Some(a), Some(b)) => Some(FeatureComparison::of(a, b)),
        _ => None,
    };
    let (diff, containment, cosine) = match (&a.text, &b.text) {
        (Some(a), Some(b)) => {
            let is_short = a.len() + b.len() <= COSINE_BYTES;
            let cosine = is_short.then(|| WordCounts::of(a).cosine(&WordCounts::of(b)));
            cancel.check()?;
            (Some(word_diff(a, b)), Some(compared_passages([a, b], cancel)?), cosine)
        }
        _ => (None, None, None),
    };
    let of_sketches = if features.is_none() { sketched(by, &a, &b) } else { None };
    let compared = match (&features, similarity, of_sketches) {
        (Some(_), ..) => Compared::Texts,
        (None, Some(_), _) => Compared::Signatures,
        (None, None, Some(_)) => Compared::Sketches,
        (None, None, None) if a.side.quality.is_some() && b.side.quality.is_some() => Compared::Images,
        (None, None, None) => Compared::Hashes,
    };
    let similarity = similarity
        .or(of_sketches)
        .or_else(|| weighed(profile, by.table, [a.text.as_ref()?, b.text.as_ref()?]));
    let sides = [a.side, b.side];
    let parts = match profile.signatures() {
        Some(shape) => ("signatures", u32::from(shape.cells), "cells"),
        None => ("hashes", profile.width().bits(), "bits"),
    };
    let mut summary = summary(&hashes, parts, features.as_ref(), [&sides[0], &sides[1]], k);
    if let Some(ComparedPassages { found, .. }) = containment.as_ref().filter(|_| hashes.distance > k) {
        summary += &contained(found);
    }
    summary += &compared.sentence(similarity);
    Ok(Comparison {
        profile: profile.id().to_string(),
        sides,
        hashes,
        compared,
        similarity,
        cosine,
        features,
        diff,
        containment,
        k,
        summary,
    })
}

/// The passages that two texts share.
fn compared_passages(sides: [&str; 2], cancel: &Cancel) -> Result<ComparedPassages, ServiceError> {
    let found = Containment::of(sides[0], sides[1], || cancel.check())?;
    let [a, b] = sides.map(byte_positions);
    let part =
        |side: &str, at: &[usize], chars: &Range<usize>| side[at[chars.start]..at[chars.end]].to_owned();
    let of = |shared: &SharedPassage| [part(sides[0], &a, &shared.a), part(sides[1], &b, &shared.b)];
    let texts = found.shared.iter().take(PASSAGES).map(of).collect();
    Ok(ComparedPassages { found, texts })
}

/// The byte at which each character begins, and the end of the text.
fn byte_positions(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

/// The sentence about texts that do not match as a whole, but share passages.
fn contained(found: &Containment) -> String {
    if found.shared.is_empty() {
        return String::new();
    }
    let percent = |share: f64| (share * 100.0).round();
    format!(
        " But they share passages: {} % of a is in b, and {} % of b is in a.",
        percent(found.a_in_b),
        percent(found.b_in_a)
    )
}

/// Compares two signatures, with bands in place of blocks.
fn signature_comparison(shape: SignatureShape, a: &[u8], b: &[u8]) -> HashComparison {
    let band = usize::from(shape.cell_bytes) * usize::from(shape.rows);
    let bands = a.chunks_exact(band).zip(b.chunks_exact(band)).take(usize::from(shape.bands));
    HashComparison {
        distance: shape.distance(a, b),
        bits: Vec::new(),
        blocks: bands.map(|(a, b)| a == b).collect(),
    }
}

/// The summary for people.
fn summary(
    hashes: &HashComparison,
    (what, count, parts): (&str, u32, &str),
    features: Option<&FeatureComparison>,
    sides: [&Side; 2],
    k: u32,
) -> String {
    let distance = hashes.distance;
    let differ = agreeing(distance.into(), "differs", "differ");
    let mut text = match distance {
        0 => format!("The {what} are equal in all {count} {parts}, so these match at any k"),
        near if near <= k => {
            format!("{near} of {count} {parts} {differ}, no more than k={k}, so these match")
        }
        far => format!("{far} of {count} {parts} {differ}, more than k={k}, so these do not match"),
    };
    if let Some(features) = features {
        let union = features.distinct;
        // 100 % is reported only if all features are shared.
        let percent =
            (features.jaccard * 100.0).round().min(if features.shared == union { 100.0 } else { 99.0 });
        let _ = write!(
            text,
            ": {} of {} {} in both ({percent:.0} %)",
            features.shared,
            counted(union as u64, "feature"),
            agreeing(features.shared as u64, "is", "are")
        );
        let close = features.flips.iter().filter(|flip| flip.is_held_by_one).count();
        if close > 0 && distance > 0 {
            let bits = counted(distance.into(), "bit");
            let _ = write!(text, ", and {close} of the {bits} depended on a single feature");
        }
    }
    text.push('.');
    let is_short = |side: &&Side| {
        side.explanation.as_ref().is_some_and(|explanation| explanation.fingerprint.status == Status::Short)
    };
    if sides.iter().any(is_short) {
        text += " At least one text is short: one changed word may move its hash by more than the k of the \
                 profile.";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "市图书馆昨天宣布,从下个月开始延长周\
        末的开放时间,读者可以在馆内阅读到晚上十点。";

    fn of(content: Content) -> Subject {
        Subject { content, sketch: None }
    }

    fn texts(a: &str, b: &str) -> Comparison {
        let sides = [a, b].map(|text| of(Content::Text(text.to_owned())));
        compare(&unweighted("copies-64"), sides, 7, &Limits::default(), &Cancel::default()).unwrap()
    }

    fn unweighted(profile: &str) -> Recipe<'static> {
        Recipe { profile: Profile::named(profile).unwrap(), table: None }
    }

    #[test]
    fn a_comparison_reports_its_reasons() {
        let same = texts(LONG, LONG);
        assert!(same.matches() && same.summary.starts_with("The hashes are equal in all 64 bits"));
        assert_eq!(same.diff, Some(vec![Change::Equal(LONG.to_owned())]));
        let edited = texts(LONG, &LONG.replace("周末", "夏天"));
        assert!(edited.summary.contains("features are in both"), "{}", edited.summary);
        let changes = edited.diff.unwrap();
        assert!(changes.contains(&Change::Removed("周末".to_owned())), "{changes:?}");
        assert!(changes.contains(&Change::Added("夏天".to_owned())));
        let far = texts(LONG, "Fish and chips is a hot dish of fried fish in batter, served with chips.");
        assert!(!far.matches() && far.summary.contains("do not match"));
        assert!(far.containment.unwrap().found.shared.is_empty());
        assert!(texts("two words", "two words").summary.contains("is short"));
    }

    #[test]
    fn a_text_inside_another_one_is_reported_with_its_passages() {
        let article = "市图书馆昨天宣布,从下个月开始延长周末的开放时间。\
            读者可以在馆内阅读到晚上十点,自习室也同时开放。\
            渡轮将在夏季期间每二十分钟开一班,乘客可以提前在售\
            票处购买车票。去年买的旧车票有效,儿童不需要买票。\
            老城区的桥梁从周一起封闭维修,公共汽车会绕行南\
            边的大街。居民担心噪音,施工队答应夜里不工作。\
            博物馆新收到一批古代的陶器,专家正在修复其中最大的三件。\
            明年春天它们将和其他展品一起向公众展出。\
            气象台预报,本周末有大风和暴雨,港口的小船要系好缆绳。\
            渔民们已经把渔网收了起来,等天气好转再出海。\
            新学期开始以后,三所小学增加了游泳课。教练说,\
            所有孩子在毕业之前都应该学会游泳和急救。";
        let page: String = (0..60)
            .map(|number| {
                format!(
                    "{number}号仓库的管理员{}年报告说,\
                    货物{}已经运到码头。",
                    1_900 + number,
                    number * 37
                )
            })
            .collect();
        let compared = texts(article, &(page.clone() + article + &page));
        let ComparedPassages { found, texts } = compared.containment.as_ref().unwrap();
        assert!(!compared.matches() && found.a_in_b > 0.5 && found.b_in_a < 0.2, "{found:?}");
        assert!(texts.iter().all(|[a, _]| article.contains(a.as_str())) && texts.iter().any(|[a, b]| a == b));
        assert!(compared.summary.contains("But they share passages"), "{}", compared.summary);
    }

    #[test]
    fn bits_that_depend_on_one_feature_are_reported_for_all_kinds_of_weights() {
        let both = [LONG.to_owned(), LONG.replace("周末", "夏天").replace("图书馆", "体育馆")];
        for profile in ["cppjieba", "fnv-zh", "keywords-zh", "copies-64"] {
            let profile = Profile::named(profile).unwrap();
            let compared = compare(
                &Recipe { profile, table: None },
                both.clone().map(|text| of(Content::Text(text))),
                3,
                &Limits::default(),
                &Cancel::default(),
            )
            .unwrap();
            // For each bit that differs, the sum of the votes without each feature in turn.
            let is_held = |side: usize, bit: u32| {
                let Explanation { features, votes, .. } = compared.sides[side].explanation.as_ref().unwrap();
                let one = compared.sides[side].hash.bit(bit);
                features.iter().any(|feature| {
                    let vote = if feature.hash.bit(bit) { feature.weight } else { -feature.weight };
                    let left = votes[bit as usize] - vote;
                    if one { left <= 0.0 && vote > 0.0 } else { left >= 0.0 && vote < 0.0 }
                })
            };
            let held =
                compared.hashes.bits.iter().filter(|bit| is_held(0, **bit) || is_held(1, **bit)).count();
            let expected =
                format!("{held} of the {} bits depended on a single feature", compared.hashes.distance);
            assert_ne!(compared.hashes.distance, 1);
            assert!(
                held > 0 && compared.summary.contains(&expected),
                "{}: {expected}; {}",
                profile.id(),
                compared.summary
            );
        }
    }

    #[test]
    fn hashes_alone_are_compared_without_features() {
        let by = unweighted("copies-64");
        let compare = |sides| compare(&by, sides, 1, &Limits::default(), &Cancel::default());
        let compared = compare([0_u64, 5].map(|hash| of(Content::Hash(Hash::from_u64(hash))))).unwrap();
        assert!(compared.features.is_none() && compared.diff.is_none() && !compared.matches());
        assert_eq!((compared.compared, compared.similarity), (Compared::Hashes, None));
        let sides = [Hash::from_u64(0), Hash::from_u128(0)].map(|hash| of(Content::Hash(hash)));
        assert!(compare(sides).is_err());
    }

    #[test]
    fn a_stored_sketch_is_compared_with_a_sketch_or_a_text() {
        let profile = Profile::named("copies-64").unwrap();
        let other = LONG.replace("周末", "夏天");
        let stored = |text: &str| Subject {
            content: Content::Hash(profile.fingerprint(text).hash),
            sketch: Some(sketch_of(text, 32, profile, None)),
        };
        let compare = |sides| {
            compare(&unweighted("copies-64"), sides, 7, &Limits::default(), &Cancel::default()).unwrap()
        };
        let both = compare([stored(LONG), stored(&other)]);
        let mixed = compare([stored(LONG), of(Content::Text(other.clone()))]);
        assert_eq!((both.compared, mixed.compared), (Compared::Sketches, Compared::Sketches));
        assert_eq!(both.similarity, mixed.similarity);
        let exact = Profile::named("pairs-64").unwrap();
        let exact =
            lookalike_text::fingerprint::jaccard(&exact.feature_set(LONG), &exact.feature_set(&other));
        assert!((both.similarity.unwrap() - exact).abs() < 0.2, "{both:?} {exact}");
        assert!(both.summary.contains("by sketches, about"), "{}", both.summary);
        let alone = compare([stored(LONG), of(Content::Hash(Hash::from_u64(1)))]);
        assert_eq!((alone.compared, alone.similarity), (Compared::Hashes, None));
    }
}
