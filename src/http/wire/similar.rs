//! Questions about neighbours on the wire.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::documents::one_content;
use super::few::{Few, MOST};
use super::values::{Bits, Count, Hex, Id, SignatureHex, Timestamp};
use crate::http::error::{Code, Problem};
use crate::http::extract::Object;
use crate::ids::DocumentId;
use crate::service::{Ask, By, Filter, Measure, Strict, told};

/// Questions of one batch that are kept, at most: `limits.batch_items` admits no more.
pub(super) const KEPT: usize = MOST;
/// Bytes of the fields of a filter.
const FILTER_BYTES: usize = 64 << 10;

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
            /// The distance in bits, 0 to the width, or in cells of signatures; the collection's if there is
            /// none.
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
                /// Compare the texts of the nearest 1,000 within k, or sketches of them, and answer with
                /// those whose words are similar by so much or more, 0 to 1, the most similar first. The
                /// collection must keep texts or sketches.
                min_similarity: Option<f64>,
                /// By what `min_similarity` compares texts; `jaccard` if it is left out. `cosine` takes the
                /// texts themselves.
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
    #[derive(Debug, Default, Deserialize, IntoParams)]
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

/// Several questions, each made what the service takes as soon as it is read: a batch is one pass over its
/// text.
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
            Err(problem) => self.wrong = Some(problem.of_question(number)),
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
    exclude: Few<Id>,
    /// Written at this time or later.
    #[schema(value_type = Option<Timestamp>)]
    written_from: Option<Timestamp>,
    /// Written before this time.
    #[schema(value_type = Option<Timestamp>)]
    written_before: Option<Timestamp>,
}

/// Fields that are told apart by their names, with values that can be compared.
fn unambiguous<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Value>, D::Error> {
    // Its length before its values: a value may take many times the bytes that it has here.
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    if raw.get().len() > FILTER_BYTES {
        let detail = format!(
            "the fields of a filter have {} bytes; at most {FILTER_BYTES} are taken",
            raw.get().len()
        );
        return Err(D::Error::custom(detail));
    }
    let Strict(value) = serde_json::from_str(raw.get()).map_err(|error| D::Error::custom(told(&error).0))?;
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
            exclude: filter.exclude.0.into_iter().map(|id| id.0).collect(),
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
    /// Reads a query string of hash, k and limit alone that stand in it as they are, as most do: `None` if
    /// there is anything else to it, be it a fault. That is for the usual way, which takes five times as
    /// long.
    pub(in crate::http) fn plain(query: &str) -> Option<SimilarParams> {
        let mut plain = SimilarParams::default();
        for pair in query.split('&') {
            match pair.split_once('=')? {
                ("hash", hash) if plain.hash.is_none() => plain.hash = Some(Hex(hash.parse().ok()?)),
                ("k", k) if plain.k.is_none() => plain.k = Some(Bits(decimal(k)?)),
                ("limit", limit) if plain.limit.is_none() => {
                    plain.limit = Some(Count(usize::try_from(decimal(limit)?).ok()?));
                }
                _ => return None,
            }
        }
        Some(plain)
    }

    /// The question as the service takes it.
    pub(in crate::http) fn ask(mut self) -> Result<Ask, Problem> {
        let by = subject(self.id.take(), self.text.take(), None, self.hash.take(), self.signature.take());
        // A page is too long for a query string: here there is no `html`.
        let by = by.map_err(|_| {
            let detail =
                "exactly one of hash, signature, text and id is needed; POST /similar takes html too";
            Problem::new(Code::InvalidField, detail)
        })?;
        Ok(self.about(by))
    }
}

/// The number that these digits are.
pub(super) fn decimal(digits: &str) -> Option<u32> {
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What query strings are made of, right and wrong.
    fn pairs() -> impl Strategy<Value = String> {
        let hash = "(0x)?[0-9a-fA-F]{15,16}";
        let names =
            prop_oneof![Just("hash="), Just("k="), Just("limit="), Just("stats="), Just("%6b="), Just("k")];
        let values = prop_oneof![
            hash.prop_map(String::from),
            any::<u64>().prop_map(|number| (number >> (number % 64)).to_string()),
            "[-+ 0]?[0-9]{0,2}".prop_map(String::from),
            Just("true".to_owned()),
        ];
        (names, values).prop_map(|(name, value)| format!("{name}{value}"))
    }

    proptest! {
        #[test]
        fn a_plain_query_string_is_read_as_serde_reads_it(
            hash in any::<u64>(),
            pairs in proptest::collection::vec(pairs(), 0..3),
        ) {
            let own = format!("hash={hash:016x}");
            for query in [own.clone(), pairs.join("&"), format!("{own}&{}", pairs.join("&"))] {
                let read: Option<SimilarParams> = serde_urlencoded::from_str(&query).ok();
                if let Some(plain) = SimilarParams::plain(&query) {
                    prop_assert_eq!(format!("{:?}", Some(plain)), format!("{read:?}"), "{}", query);
                }
            }
        }
    }

    #[test]
    fn most_query_strings_are_plain() {
        for query in
            ["hash=00000000000000ff", "hash=0x00000000000000ff&k=3", "k=3&limit=5&hash=00000000000000FF"]
        {
            assert!(SimilarParams::plain(query).is_some(), "{query}");
        }
        for query in ["", "&", "hash=00000000000000ff&", "k=3&k=3", "hash=00000000000000ff&k=+3", "text=a"] {
            assert!(SimilarParams::plain(query).is_none(), "{query}");
        }
    }
}
