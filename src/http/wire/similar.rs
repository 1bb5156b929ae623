//! Questions and answers about neighbours on the wire.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::documents::one_content;
use super::values::{Bits, Count, Hex, Id, Metadata, SignatureHex, StatusOut, Timestamp};
use crate::http::error::{Code, Problem};
use crate::http::extract::Object;
use crate::http::json;
use crate::ids::{DocumentId, SignatureShape};
use crate::service::{Ask, By, Found, Measure};
use crate::service::{Filter, Match, Strict, Work};

/// Questions of one batch that are kept, at most: `limits.batch_items` admits no more.
const KEPT: usize = 100_000;

/// How an answer is to be found.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum Verify {
    /// Compare every stored hash, so that anyone can check the index.
    Scan,
}

/// By what texts are compared.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Measure)]
pub(in crate::http) enum MeasureIn {
    /// The Jaccard similarity of their pairs of adjacent words: common ÷ all.
    Jaccard,
    /// The cosine of the angle between the TF-IDF weights of their words.
    Cosine,
}

/// Defines a question: the fields of its own, then those that say how it is to be answered.
macro_rules! question {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[serde(deny_unknown_fields)]
        pub(in crate::http) struct $name {
            $($own)*
            /// The distance in bits, 0 to the width, or in cells of signatures; the collection's if there is none.
            k: Option<Bits>,
            /// In place of k, in a collection of signatures: the least similarity, 0 to 1.
            threshold: Option<f64>,
            /// How many matches to answer with, 1 to 1,000; 10 if there is none.
            limit: Option<Count>,
            /// `next` of the page before.
            cursor: Option<String>,
            /// Add how the answer was found.
            stats: Option<bool>,
            /// `scan` answers by linear scan.
            verify: Option<Verify>,
        }

        impl $name {
            /// Whether to say how the answer was found.
            pub(in crate::http) fn wants_stats(&self) -> bool {
                self.stats.unwrap_or(false)
            }

            /// The question as the service takes it, about every document near `by`.
            fn about(self, by: By) -> Ask {
                let (k, limit) = (self.k.map(|k| k.0), self.limit.map(|limit| limit.0));
                let cursor = self.cursor;
                Ask {
                    by,
                    k,
                    threshold: self.threshold,
                    limit,
                    cursor,
                    filter: None,
                    scan: self.verify.is_some(),
                    min_similarity: None,
                    measure: Measure::default(),
                }
            }
        }
    };
}

/// The same for a question in a body.
macro_rules! question_in_body {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        question! {
            $(#[$about])*
            $name {
                $($own)*
                /// The hash to look around.
                #[schema(value_type = Option<Hex>)]
                hash: Option<Hex>,
                /// The signature to look around, in a collection of signatures.
                #[schema(value_type = Option<SignatureHex>)]
                signature: Option<SignatureHex>,
                /// A text to look around.
                text: Option<String>,
                /// A page to look around.
                html: Option<String>,
                /// A stored document to look around; itself is left out.
                #[schema(value_type = Option<Id>)]
                id: Option<Id>,
                /// Which documents count.
                filter: Option<Box<FilterIn>>,
                /// Compare the texts of the nearest 1,000 within k, or sketches of them, and answer with those whose words
                /// are similar by so much or more, 0 to 1, the most similar first. The collection must keep texts or
                /// sketches.
                min_similarity: Option<f64>,
                /// By what `min_similarity` compares texts; `jaccard` if it is left out. `cosine` takes the texts themselves.
                measure: Option<MeasureIn>,
            }
        }

        impl $name {
            /// The question as the service takes it.
            pub(in crate::http) fn ask(mut self) -> Result<Ask, Problem> {
                let (hash, text, html) = (self.hash.take(), self.text.take(), self.html.take());
                let by = subject(self.id.take(), text, html, hash, self.signature.take())?;
                let filter = self.filter.take().map(|filter| Box::new(Filter::from(*filter)));
                let min_similarity = self.min_similarity;
                let measure = match self.measure {
                    Some(_) if min_similarity.is_none() => {
                        let detail = "measure says how min_similarity compares, which is not there";
                        return Err(Problem::field(Code::InvalidField, "/measure", detail));
                    }
                    Some(MeasureIn::Cosine) => Measure::Cosine,
                    _ => Measure::Jaccard,
                };
                Ok(Ask { filter, min_similarity, measure, ..self.about(by) })
            }
        }
    };
}

question! {
    /// A question in the query string: exactly one of hash, signature, text and id.
    #[derive(Debug, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    SimilarParams {
        /// The hash to look around.
        #[param(value_type = Option<Hex>)]
        hash: Option<Hex>,
        /// The signature to look around, in a collection of signatures.
        #[param(value_type = Option<SignatureHex>)]
        signature: Option<SignatureHex>,
        /// A text to look around.
        text: Option<String>,
        /// A stored document to look around; itself is left out.
        #[param(value_type = Option<Id>)]
        id: Option<Id>,
    }
}

question! {
    /// A question about a stored document.
    #[derive(Debug, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    NearIdParams {}
}

question_in_body! {
    /// A question: exactly one of hash, signature, text, html and id.
    #[derive(Debug, Deserialize, ToSchema)]
    #[schema(as = Query)]
    AskIn {}
}

question_in_body! {
    /// One question, or several in `queries`.
    #[derive(Debug, Deserialize, ToSchema)]
    #[schema(as = SimilarRequest)]
    SimilarIn {
        /// Several questions, at most 1,000; then nothing else.
        #[schema(value_type = Option<Vec<AskIn>>)]
        pub(in crate::http) queries: Option<SeveralIn>,
    }
}

/// Several questions, each made what the service takes as soon as it is read: a batch is one pass over its text.
#[derive(Debug, Default)]
pub(in crate::http) struct SeveralIn {
    /// How many there are.
    pub(in crate::http) count: usize,
    /// They themselves, as long as they are right.
    pub(in crate::http) asks: Vec<Ask>,
    /// Whether to say how each was answered.
    pub(in crate::http) stats: Vec<bool>,
    /// What is wrong with the first that is.
    pub(in crate::http) wrong: Option<Problem>,
}

impl SeveralIn {
    fn push(&mut self, ask: AskIn) {
        let (number, stats) = (self.count, ask.wants_stats());
        self.count += 1;
        if self.wrong.is_some() || number >= KEPT {
            return;
        }
        match ask.ask() {
            Ok(ask) => {
                self.asks.push(ask);
                self.stats.push(stats);
            }
            Err(problem) => self.wrong = Some(problem.within(&format!("/queries/{number}"))),
        }
    }
}

impl<'de> Deserialize<'de> for SeveralIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SeveralIn, D::Error> {
        struct Elements;

        impl<'de> Visitor<'de> for Elements {
            type Value = SeveralIn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<SeveralIn, A::Error> {
                let mut several = SeveralIn::default();
                while let Some(Object(ask)) = elements.next_element::<Object<AskIn>>()? {
                    several.push(ask);
                }
                Ok(several)
            }
        }

        deserializer.deserialize_seq(Elements)
    }
}

/// What goes with writing documents.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct NearParams {
    /// `skip` stores nothing if a stored document lies within k.
    on_duplicate: Option<OnDuplicate>,
    /// The distance for `on_duplicate=skip`, 0 to the width; the collection's if there is none.
    pub(in crate::http) k: Option<Bits>,
    /// The same in a collection of signatures as a similarity, 0 to 1.
    pub(in crate::http) threshold: Option<f64>,
}

/// What to do with a near-duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum OnDuplicate {
    /// Store it, as if there were no other.
    Store,
    /// Do not store it.
    Skip,
}

impl NearParams {
    /// Whether near-duplicates are to be left out.
    pub(in crate::http) fn skips(&self) -> Result<bool, Problem> {
        let skips = self.on_duplicate == Some(OnDuplicate::Skip);
        let named = self.k.map(|_| "k").or(self.threshold.map(|_| "threshold"));
        if let Some(name) = named.filter(|_| !skips) {
            let detail = format!("{name} goes with on_duplicate=skip, which is not there");
            return Err(Problem::parameter(Code::InvalidField, name, detail));
        }
        Ok(skips)
    }
}

/// Which documents count.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
pub(in crate::http) struct FilterIn {
    /// Fields of the metadata and the values they must have.
    #[serde(default, deserialize_with = "unambiguous")]
    metadata: BTreeMap<String, Value>,
    /// Ids that do not count.
    #[serde(default)]
    #[schema(value_type = Vec<Id>)]
    exclude: Vec<Id>,
    /// Written at this time or later.
    #[schema(value_type = Option<Timestamp>)]
    written_from: Option<Timestamp>,
    /// Written before this time.
    #[schema(value_type = Option<Timestamp>)]
    written_before: Option<Timestamp>,
}

/// Fields that are told apart by their names, with values that can be compared.
fn unambiguous<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Value>, D::Error> {
    let Strict(value) = Strict::deserialize(deserializer)?;
    if Strict::has_huge_number(&value) {
        let detail = "a number past 2^64 cannot be compared digit by digit; store and ask for it as a string";
        return Err(D::Error::custom(detail));
    }
    match value {
        Value::Object(members) => Ok(members.into_iter().collect()),
        _ => Err(D::Error::custom("expected an object of fields and values")),
    }
}

impl From<FilterIn> for Filter {
    fn from(filter: FilterIn) -> Filter {
        Filter {
            exclude: filter.exclude.into_iter().map(|id| id.0).collect(),
            metadata: filter.metadata,
            written_from_ms: filter.written_from.map(|time| time.0),
            written_before_ms: filter.written_before.map(|time| time.0),
        }
    }
}

impl SimilarIn {
    /// Whether a field beside `queries` is there.
    pub(in crate::http) fn has_single(&self) -> bool {
        let made = self.hash.is_some() || self.signature.is_some();
        let by = made || self.text.is_some() || self.html.is_some() || self.id.is_some();
        let near = self.k.is_some() || self.threshold.is_some();
        let how = near || self.limit.is_some() || self.cursor.is_some();
        let check = self.min_similarity.is_some() || self.measure.is_some();
        by || how || check || self.filter.is_some() || self.stats.is_some() || self.verify.is_some()
    }
}

impl SimilarParams {
    /// The question as the service takes it.
    pub(in crate::http) fn ask(mut self) -> Result<Ask, Problem> {
        let by = subject(self.id.take(), self.text.take(), None, self.hash.take(), self.signature.take())?;
        Ok(self.about(by))
    }
}

impl NearIdParams {
    /// The question about this document.
    pub(in crate::http) fn ask(self, id: DocumentId) -> Ask {
        self.about(By::Id(id))
    }
}

/// What a question is about: exactly one of these.
pub(super) fn subject(
    id: Option<Id>,
    text: Option<String>,
    html: Option<String>,
    hash: Option<Hex>,
    signature: Option<SignatureHex>,
) -> Result<By, Problem> {
    let has_content = hash.is_some() || signature.is_some() || text.is_some() || html.is_some();
    match id {
        Some(id) if !has_content => Ok(By::Id(id.0)),
        None if has_content => one_content(text, html, hash, signature).map(By::Content),
        _ => Err(Problem::new(
            Code::InvalidField,
            "exactly one of hash, signature, text, html and id is needed",
        )),
    }
}

/// A document within k.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Match)]
pub(in crate::http) struct MatchOut {
    /// Its id.
    #[schema(value_type = Id)]
    id: Id,
    /// Its hash.
    #[schema(value_type = Hex)]
    hash: Hex,
    /// The bits in which the hashes differ, or the cells of the signatures.
    distance: u32,
    /// How similar the texts are, 0 to 1: as their signatures say, or the Jaccard similarity of their pairs of adjacent
    /// words if `min_similarity` asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// When it expires, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
    /// What came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Metadata>)]
    metadata: Option<Metadata>,
}

impl From<Match> for MatchOut {
    fn from(found: Match) -> MatchOut {
        MatchOut {
            id: Id(found.id),
            hash: Hex(found.hash),
            distance: found.distance,
            similarity: found.similarity,
            expires_at: found.expires_ms.map(Timestamp),
            metadata: found.metadata.and_then(Metadata::stored),
        }
    }
}

/// An answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Similar)]
pub(in crate::http) struct SimilarOut {
    /// The hash that was looked around.
    #[schema(value_type = Hex)]
    hash: Hex,
    /// How far.
    k: u32,
    /// The same as a similarity, where signatures were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// Whether the hash is to be trusted, if it was made from a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// The documents within k, by distance, then id.
    similar: Vec<MatchOut>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// How the answer was found, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<Box<StatsOut>>,
}

/// How an answer was found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LookupStats)]
pub(in crate::http) struct StatsOut {
    /// `index`, `bands` or `scan`.
    method: &'static str,
    /// The radius around each block of the hash, the least significant first; -1 for a block that was not
    /// probed. How many blocks there are depends on the width and the number of hashes. Empty after a scan.
    radii: Vec<i8>,
    /// How many first bits of each block were told apart: fewer mean fewer and longer runs of hashes.
    bits: Vec<u8>,
    /// By `bands`: the share of documents just as similar as `threshold` that agree in one, and so are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    caught: Option<f64>,
    /// Runs of hashes read.
    probes: u64,
    /// Places for hashes compared in them, free ones included.
    candidates: u64,
    /// Distinct hashes found within the distance.
    verified: u64,
    /// The time it took in the engine, in microseconds.
    microseconds: u64,
}

impl StatsOut {
    fn new(work: &Work, signatures: Option<SignatureShape>, k: u32) -> StatsOut {
        StatsOut {
            method: match signatures {
                _ if work.scanned => "scan",
                Some(_) => "bands",
                None => "index",
            },
            caught: signatures.filter(|_| !work.scanned).map(|shape| shape.caught(shape.similarity(k))),
            radii: work.plan.as_ref().map(|plan| plan.radii().to_vec()).unwrap_or_default(),
            bits: work.plan.as_ref().map(|plan| plan.bits().to_vec()).unwrap_or_default(),
            probes: work.probes,
            candidates: work.candidates,
            verified: work.verified,
            microseconds: u64::try_from(work.elapsed.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl SimilarOut {
    pub(in crate::http) fn new(found: Found, stats: bool) -> SimilarOut {
        SimilarOut {
            hash: Hex(found.hash),
            k: found.k,
            threshold: found.signatures.map(|shape| shape.similarity(found.k)),
            status: found.status.map(StatusOut::from),
            similar: found.matches.into_iter().map(MatchOut::from).collect(),
            next: found.next,
            stats: stats.then(|| Box::new(StatsOut::new(&found.work, found.signatures, found.k))),
        }
    }
}

impl SimilarOut {
    /// Appends it as JSON, to the byte what serde makes of it. Most answers are a hash and a few matches of which nothing but
    /// id, hash and distance is known: of these the names of the fields need not be looked through for what to escape.
    pub(in crate::http) fn write(&self, text: &mut Vec<u8>) {
        if !self.is_plain() {
            return json::write(text, self);
        }
        let mut number = itoa::Buffer::new();
        text.extend(b"{\"hash\":\"");
        self.hash.write(text);
        text.extend(b"\",\"k\":");
        text.extend(number.format(self.k).as_bytes());
        text.extend(b",\"similar\":[");
        for (at, found) in self.similar.iter().enumerate() {
            text.extend(if at == 0 { &b"{\"id\":\""[..] } else { b",{\"id\":\"" });
            text.extend(found.id.0.as_str().as_bytes());
            text.extend(b"\",\"hash\":\"");
            found.hash.write(text);
            text.extend(b"\",\"distance\":");
            text.extend(number.format(found.distance).as_bytes());
            text.push(b'}');
        }
        text.extend(b"]}");
    }

    /// Whether nothing is known but ids that stand as they are, hashes and distances.
    fn is_plain(&self) -> bool {
        let SimilarOut { hash: _, k: _, threshold, status, similar, next, stats } = self;
        let beside = threshold.is_some() || status.is_some() || next.is_some() || stats.is_some();
        !beside && similar.iter().all(MatchOut::is_plain)
    }
}

impl MatchOut {
    fn is_plain(&self) -> bool {
        let MatchOut { id, hash: _, distance: _, similarity, expires_at, metadata } = self;
        let beside = similarity.is_some() || expires_at.is_some() || metadata.is_some();
        // An id has no control characters.
        !beside && !id.0.as_str().bytes().any(|byte| matches!(byte, b'"' | b'\\'))
    }
}

/// The answer to one question, or to several.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = SimilarOrBatch)]
#[allow(dead_code, reason = "a shape for the contract")]
pub(in crate::http) enum AnsweredOneOrSeveral {
    One(SimilarOut),
    Several(BatchOut),
}

/// Answers, in the order of the questions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SimilarBatch)]
#[allow(dead_code, reason = "a shape for the contract: answers are written one by one")]
pub(in crate::http) struct BatchOut {
    /// One for each question.
    pub(in crate::http) results: Vec<SimilarOut>,
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::weighted;
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Hash;

    fn hashes() -> impl Strategy<Value = Hash> {
        prop_oneof![any::<u64>().prop_map(Hash::from_u64), any::<u128>().prop_map(Hash::from_u128)]
    }

    fn matches() -> impl Strategy<Value = Match> {
        let ids = "[ -~àß中文🦀]{1,40}".prop_map(|id| DocumentId::new(&id).unwrap());
        let metadata = weighted(0.1, Just(r#"{"a":[1,"\\"]}"#.to_owned()));
        let known = (weighted(0.1, 0.0..1.0), weighted(0.1, 0..u64::MAX), metadata);
        (ids, hashes(), 0..=128u32, known).prop_map(|(id, hash, distance, known)| {
            let (similarity, expires_ms, metadata) = known;
            Match { id, hash, distance, similarity, expires_ms, metadata }
        })
    }

    proptest! {
        #[test]
        fn an_answer_is_written_as_serde_writes_it(
            (hash, k, matches) in (hashes(), 0..=128u32, vec(matches(), 0..5)),
            next in weighted(0.1, "[a-z]{1,9}"),
            stats in weighted(0.1, Just(())),
        ) {
            let work = Work::default();
            let found = Found { hash, status: None, k, signatures: None, matches, next, work };
            let answer = SimilarOut::new(found, stats.is_some());
            let mut written = Vec::new();
            answer.write(&mut written);
            prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&answer).unwrap());
        }
    }
}
