//! Comparison of two texts, documents or hashes: their distance, its reasons, and a summary.
//!
//! *Absent*: the format on the wire.

use std::fmt::Write;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::fingerprints::{Content, check_profile, checked_signature, reserve_for_explanation, takes_texts};
use super::given::hash_of;
use super::{By, Service, ServiceError};
use crate::call::Reserved;
use crate::fingerprint::{
    Containment, Explanation, FeatureComparison, HashComparison, Profile, SharedPassage, Status,
    signature_name,
};
use crate::ids::{CollectionName, Hash, SignatureShape};
use crate::pool::{Cancel, Patience};
use crate::text::tokens;

/// Maximum number of tokens of a text for the word-by-word comparison. The cost grows with the product of
/// both lengths.
const DIFF_TOKENS: usize = 5_000;

/// Maximum number of shared passages whose texts are kept.
const PASSAGES: usize = 100;

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
}

/// The comparison of two sides.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The profile of the hashes.
    pub profile: &'static Profile,
    /// Both sides.
    pub sides: [Side; 2],
    /// The comparison of the hashes. For signatures: the number of cells that differ, no bits, and bands in
    /// place of blocks.
    pub hashes: HashComparison,
    /// The similarity of the texts as estimated by signatures, 0 to 1, if the profile makes signatures.
    pub similarity: Option<f64>,
    /// The comparison of the features, if both texts are available.
    pub features: Option<FeatureComparison>,
    /// The word-by-word comparison, if both texts are available and neither has more than 5,000 tokens.
    pub diff: Option<Vec<Change>>,
    /// How much of each text is in the other one, if both texts are available.
    pub containment: Option<ComparedPassages>,
    /// The distance up to which the sides match.
    pub k: u32,
    /// The result in one or two sentences.
    pub summary: String,
}

impl Comparison {
    /// Whether they lie within k.
    pub fn matches(&self) -> bool {
        self.hashes.distance <= self.k
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

/// A segment of a word-by-word comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is in both texts.
    Equal(String),
    /// It is only in the first text.
    Removed(String),
    /// It is only in the second text.
    Added(String),
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
        let settings = self.engine()?.settings(collection)?;
        let (profile, default_k) = match profile {
            Some(name) => {
                let profile = self.profile(Some(name))?;
                (profile, profile.default_k())
            }
            None => (self.profile_of(collection)?, settings.k),
        };
        let k = k.unwrap_or(default_k);
        let most = profile.signatures().map_or(profile.width().bits(), |shape| u32::from(shape.cells));
        if k > most {
            let detail = format!("k is {k}; with profile {} it ranges from 0 to {most}", profile.id());
            return Err(ServiceError::invalid("k", detail));
        }
        let is_other = self.profiles().named(&settings.profile).is_none_or(|own| own.id() != profile.id());
        for (side, field) in sides.iter().zip(["a/profile", "b/profile"]) {
            if let Some(given) = &side.profile {
                check_profile(self.profiles(), given, &profile.id().to_string(), field)?;
            }
        }
        let [a, b] = sides.map(|side| side.by);
        let a = self.side(collection, a, is_other, "a").await?;
        let sides = [a, self.side(collection, b, is_other, "b").await?];
        let most = self.limits.document_bytes;
        let work = move |cancel: &Cancel| {
            sides.iter().try_for_each(|side| reserve_for_explanation(side, most).map(Reserved::keep))?;
            compare(profile, sides, k, most, cancel)
        };
        self.pool.run(Patience::Interactive, work).await?
    }

    async fn side(
        &self,
        collection: &CollectionName,
        by: By,
        is_other: bool,
        field: &'static str,
    ) -> Result<Content, ServiceError> {
        Ok(match by {
            By::Content(content) => content,
            By::Id(id) => {
                let row = self.document(collection, &id).await?.row;
                match row.text {
                    Some(text) => Content::Text(text),
                    None if is_other => {
                        let detail = format!(
                            "document {:?} has no text, since the collection does not keep texts, and its \
                             hash is of another profile; leave profile out or give the text",
                            id.as_str()
                        );
                        return Err(ServiceError::invalid(field, detail));
                    }
                    None => match (row.sketch, self.has_signatures(collection)?) {
                        (Some(signature), true) => Content::Signature(signature),
                        _ => Content::Hash(row.hash),
                    },
                }
            }
        })
    }
}

fn compare(
    profile: &'static Profile,
    sides: [Content; 2],
    k: u32,
    most: usize,
    cancel: &Cancel,
) -> Result<Comparison, ServiceError> {
    let mut texts: Vec<String> = Vec::with_capacity(2);
    let mut known = Vec::with_capacity(2);
    let mut signatures = Vec::with_capacity(2);
    for (side, field) in sides.into_iter().zip(["a", "b"]) {
        match side {
            Content::Hash(_) if profile.signatures().is_some() => {
                let detail = format!(
                    "{field} is the name of a signature and cannot be compared; give a text, html, id or the \
                     signature"
                );
                return Err(ServiceError::invalid(field, detail));
            }
            Content::Hash(hash) => known.push(Side { hash, explanation: None }),
            Content::Features(features) => {
                known.push(Side { hash: hash_of(profile, &features)?, explanation: None });
            }
            Content::Signature(bytes) => {
                let signature = checked_signature(profile, bytes)?;
                known.push(Side { hash: signature_name(&signature), explanation: None });
                signatures.push(signature);
            }
            Content::Text(_) | Content::Html(..) => {
                takes_texts(profile, field)?;
                cancel.check()?;
                let text = side.into_text(most, cancel)?.unwrap_or_default();
                cancel.check()?;
                let mut explanation = profile.explain(&text);
                if explanation.fingerprint.status == Status::Empty {
                    let detail = format!("{field} has no word or character to make a fingerprint from");
                    return Err(ServiceError::invalid(field, detail));
                }
                texts.push(text);
                signatures.extend(explanation.signature.take());
                known.push(Side { hash: explanation.fingerprint.hash, explanation: Some(explanation) });
            }
        }
    }
    let Ok([a, b]) = <[Side; 2]>::try_from(known) else { unreachable!("one of each side") };
    let signed = match (profile.signatures(), &signatures[..]) {
        (Some(shape), [a, b]) => Some((shape, signature_comparison(shape, a, b))),
        _ => None,
    };
    let similarity = signed.as_ref().map(|(shape, hashes)| shape.similarity(hashes.distance));
    let hashes = signed.map(|(_, hashes)| hashes).or_else(|| HashComparison::of(a.hash, b.hash));
    let Some(hashes) = hashes else {
        let widths = [a.hash, b.hash].map(|hash| hash.width().bits());
        let detail = format!(
            "a has {} bits and b has {}; only hashes of one profile can be compared",
            widths[0], widths[1]
        );
        return Err(ServiceError::invalid("b", detail));
    };
    cancel.check()?;
    let features = match (&a.explanation, &b.explanation) {
        (Some(a), Some(b)) => Some(FeatureComparison::of(a, b)),
        _ => None,
    };
    let (diff, containment) = match &texts[..] {
        [a, b] => (diff(a, b), Some(compared_passages([a, b], cancel)?)),
        _ => (None, None),
    };
    let parts = match profile.signatures() {
        Some(shape) => ("signatures", u32::from(shape.cells), "cells"),
        None => ("hashes", profile.width().bits(), "bits"),
    };
    let mut summary = summary(&hashes, parts, features.as_ref(), [&a, &b], k);
    if let Some(ComparedPassages { found, .. }) = containment.as_ref().filter(|_| hashes.distance > k) {
        summary += &contained(found);
    }
    let sides = [a, b];
    Ok(Comparison { profile, sides, hashes, similarity, features, diff, containment, k, summary })
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

/// Compares both texts word by word; `None` if one of them is too long.
fn diff(a: &str, b: &str) -> Option<Vec<Change>> {
    let [a, b] = [a, b].map(tokens);
    if a.len().max(b.len()) > DIFF_TOKENS {
        return None;
    }
    let mut changes = Vec::new();
    for change in capture_diff_slices(Algorithm::Myers, &a, &b) {
        match change {
            DiffOp::Equal { old_index, len, .. } => {
                changes.push(Change::Equal(a[old_index..old_index + len].concat()));
            }
            DiffOp::Delete { old_index, old_len, .. } => {
                changes.push(Change::Removed(a[old_index..old_index + old_len].concat()));
            }
            DiffOp::Insert { new_index, new_len, .. } => {
                changes.push(Change::Added(b[new_index..new_index + new_len].concat()));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                changes.push(Change::Removed(a[old_index..old_index + old_len].concat()));
                changes.push(Change::Added(b[new_index..new_index + new_len].concat()));
            }
        }
    }
    Some(changes)
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
    let mut text = match distance {
        0 => format!("The {what} are equal in all {count} {parts}, so these match at any k"),
        near if near <= k => format!("{near} of {count} {parts} differ, no more than k={k}, so these match"),
        far => format!("{far} of {count} {parts} differ, more than k={k}, so these do not match"),
    };
    if let Some(features) = features {
        let union = features.distinct;
        // 100 % is reported only if all features are shared.
        let percent =
            (features.jaccard * 100.0).round().min(if features.shared == union { 100.0 } else { 99.0 });
        let _ = write!(text, ": {} of {union} features are in both ({percent:.0} %)", features.shared);
        let close = features.flips.iter().filter(|flip| flip.is_held_by_one).count();
        if close > 0 && distance > 0 {
            let _ = write!(text, ", and {close} of the {distance} bits depended on a single feature");
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

    fn texts(a: &str, b: &str) -> Comparison {
        let sides = [a, b].map(|text| Content::Text(text.to_owned()));
        compare(Profile::named("copies-64").unwrap(), sides, 7, 1 << 20, &Cancel::default()).unwrap()
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
            let compared =
                compare(profile, both.clone().map(Content::Text), 3, 1 << 20, &Cancel::default()).unwrap();
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
        let sides = [0_u64, 5].map(|hash| Content::Hash(Hash::from_u64(hash)));
        let compared =
            compare(Profile::named("copies-64").unwrap(), sides, 1, 1 << 20, &Cancel::default()).unwrap();
        assert!(compared.features.is_none() && compared.diff.is_none() && !compared.matches());
        let sides = [Content::Hash(Hash::from_u64(0)), Content::Hash(Hash::from_u128(0))];
        assert!(
            compare(Profile::named("copies-64").unwrap(), sides, 1, 1 << 20, &Cancel::default()).is_err()
        );
    }

    #[test]
    fn texts_that_are_too_long_are_not_compared_word_by_word() {
        let long = "a b ".repeat(DIFF_TOKENS);
        assert!(diff(&long, "a").is_none());
        assert_eq!(diff("", ""), Some(vec![]));
    }
}
