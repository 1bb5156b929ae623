//! Queries for near documents on the wire.

use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::content::{ImageIn, PageIn, one_content, page};
use super::few::Few;
use super::filter::{FilterIn, FilterParam};
use super::hashes::{HashFormat, HashIn, HashOut};
use super::values::{Bits, Count, Id, SignatureHex};
use crate::error::{Code, Problem};
use crate::parse::parse_object;
use lookalike_hash::{DocumentId, Hash};
use lookalike_service::{Ask, By, Filter, Measure, PageText};

/// Another way to find the answer.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verify {
    /// Compare every stored hash, to verify the index.
    Scan,
}

/// The measure of similarity between texts.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Measure)]
pub(super) enum MeasureIn {
    /// The Jaccard similarity of their pairs of adjacent words: common pairs ÷ all pairs.
    Jaccard,
    /// The cosine of the angle between the counts of all their words.
    Cosine,
}

/// Defines a query: its own fields, then the fields that every query has.
macro_rules! query {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// The distance in bits, 0 to the width, or in cells of signatures. Default: that of the
            /// collection.
            k: Option<Bits>,
            /// In place of k, in a collection of signatures: the minimum similarity, 0 to 1.
            threshold: Option<f64>,
            /// Maximum number of matches, 1 to 1,000. Default: 10.
            limit: Option<Count>,
            /// The `next` of the previous page.
            cursor: Option<String>,
            /// Whether to add how the answer was found.
            stats: Option<bool>,
            /// `scan` answers by linear scan.
            verify: Option<Verify>,
        }

        impl $name {
            /// Whether the answer has its `stats`.
            pub fn wants_stats(&self) -> bool {
                self.stats.unwrap_or(false)
            }

            /// Converts it for the service, with this subject.
            fn with_subject(self, by: By) -> Ask {
                let (k, limit) = (self.k.map(|k| k.0), self.limit.map(|limit| limit.0));
                let cursor = self.cursor;
                Ask {
                    by,
                    profile: None,
                    k,
                    threshold: self.threshold,
                    limit,
                    cursor,
                    filter: None,
                    scan: self.verify.is_some(),
                    min_similarity: None,
                    measure: Measure::default(),
                    min_containment: None,
                    dihedral: false,
                }
            }
        }
    };
}

/// Declares a query in a body.
macro_rules! body_query {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        query! {
            $(#[$about])*
            $name {
                $($own)*
                /// The subject is a hash.
                #[schema(value_type = Option<HashIn>)]
                hash: Option<HashIn>,
                /// The profile that made the hash or signature, with or without version. If it is not that of
                /// the collection, the query is refused (409).
                #[schema(example = "copies-64@1")]
                profile: Option<String>,
                /// The subject is a signature, in a collection of signatures.
                #[schema(value_type = Option<SignatureHex>)]
                signature: Option<SignatureHex>,
                /// The subject is a text.
                text: Option<String>,
                /// The subject is the text of an HTML page.
                html: Option<String>,
                /// Which text of the page. Default: `main`.
                page: Option<PageIn>,
                /// The subject is an image: the bytes of a file in base64, for profiles of images.
                #[schema(value_type = Option<String>, content_encoding = "base64")]
                pub image: Option<ImageIn>,
                /// Whether an image is looked up in its eight turns and mirrors, with profile pdq.
                #[serde(default)]
                dihedral: bool,
                /// The subject is a stored document, which is excluded from the answer.
                #[schema(value_type = Option<Id>)]
                id: Option<Id>,
                /// Only documents that pass this filter match.
                filter: Option<Box<FilterIn>>,
                /// Compares the texts or the sketches of the nearest 1,000 documents within k, and returns
                /// those with at least this similarity, 0 to 1, most similar first. The collection must
                /// store texts or sketches.
                min_similarity: Option<f64>,
                /// The measure of `min_similarity`. Default: `jaccard`. `cosine` needs stored texts.
                measure: Option<MeasureIn>,
                /// For documents that share passages: the minimum share of the text that is in the document,
                /// or of the document that is in the text, above 0 to 1. Default: 0.4. The collection must
                /// keep passages.
                min_containment: Option<f64>,
            }
        }

        impl $name {
            /// Converts it for the service; its hash is in this form.
            pub fn ask(mut self, form: Option<HashFormat>) -> Result<Ask, Problem> {
                let hash = self.hash.take().map(|hash| hash.read(form)).transpose()?;
                let (text, html) = (self.text.take(), self.html.take());
                let html = page(html, self.page.take())?;
                let (signature, image) = (self.signature.take(), self.image.take());
                let by = subject(self.id.take(), text, html, hash, signature, image)?;
                let filter = self.filter.take().map(|filter| Box::new(Filter::from(*filter)));
                let (min_similarity, min_containment) = (self.min_similarity, self.min_containment);
                let measure = match self.measure {
                    Some(_) if min_similarity.is_none() => {
                        let detail = "measure needs min_similarity; add min_similarity or leave measure out";
                        return Err(Problem::field(Code::InvalidField, "/measure", detail));
                    }
                    Some(MeasureIn::Cosine) => Measure::Cosine,
                    _ => Measure::Jaccard,
                };
                let dihedral = self.dihedral;
                let profile = self.profile.take().map(String::into_boxed_str);
                let ask = self.with_subject(by);
                Ok(Ask { profile, filter, min_similarity, measure, min_containment, dihedral, ..ask })
            }
        }
    };
}

query! {
    /// A query in the query string: exactly one of hash, signature, text and id.
    #[derive(Debug, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    SimilarParams {
        /// The subject is a hash.
        #[param(value_type = Option<HashOut>)]
        hash: Option<HashIn>,
        /// The subject is a signature, in a collection of signatures.
        #[param(value_type = Option<SignatureHex>)]
        signature: Option<SignatureHex>,
        /// The subject is a text.
        text: Option<String>,
        /// The subject is a stored document, which is excluded from the answer.
        #[param(value_type = Option<Id>)]
        id: Option<Id>,
        /// The profile that made the hash or signature, with or without version. If it is not that of the
        /// collection, the query is refused (409).
        #[param(example = "copies-64@1")]
        profile: Option<String>,
        /// The form of every hash in the request and in the answer. Default: `hex`, and every form that needs
        /// no name in the request.
        pub hash_format: Option<HashFormat>,
        /// Only documents that pass this filter match, as JSON: `{"metadata": {"source": "rss"}}`.
        #[param(value_type = Option<String>, example = "{}")]
        filter: Option<FilterParam>,
    }
}

query! {
    /// A query for the neighbours of a stored document.
    #[derive(Debug, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    NearIdParams {
        /// The form of every hash in the answer. Default: `hex`.
        pub hash_format: Option<HashFormat>,
        /// Only documents that pass this filter match, as JSON: `{"metadata": {"source": "rss"}}`.
        #[param(value_type = Option<String>, example = "{}")]
        filter: Option<FilterParam>,
    }
}

body_query! {
    /// A query: exactly one of hash, signature, text, html, image and id.
    #[derive(Debug, Deserialize, ToSchema)]
    #[schema(as = Query)]
    AskIn {}
}

/// Several queries.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueryBatch)]
pub struct QueriesIn<'a> {
    /// The queries, 1 to 1,000. One that is invalid, or that names an unknown document, fails alone.
    #[serde(borrow)]
    #[schema(value_type = Vec<AskIn>)]
    queries: Few<&'a RawValue>,
}

/// Several queries, converted for the service.
#[derive(Debug, Default)]
pub struct Several {
    /// The queries that can be asked.
    pub asks: Vec<Ask>,
    /// For each query: whether its answer has its `stats`, or its error.
    pub each: Vec<Result<bool, Problem>>,
}

impl Several {
    pub(super) fn push(&mut self, ask: Ask, stats: bool) {
        self.asks.push(ask);
        self.each.push(Ok(stats));
    }

    /// The queries of a body, at most `most`, with hashes in this form.
    pub fn of(body: &QueriesIn<'_>, most: usize, form: Option<HashFormat>) -> Result<Several, Problem> {
        let Few(queries) = &body.queries;
        if queries.len() > most {
            let detail = format!(
                "there are {} queries; at most {most} are accepted in one request (limits.batch_items)",
                queries.len()
            );
            return Err(Problem::field(Code::InvalidField, "/queries", detail));
        }
        let mut several = Several::default();
        for (number, raw) in queries.iter().enumerate() {
            let query = parse_object::<AskIn>(raw.get().as_bytes());
            let asked = query.and_then(|query| Ok((query.wants_stats(), query.ask(form)?)));
            match asked {
                Ok((stats, ask)) => several.push(ask, stats),
                Err(problem) => several.each.push(Err(problem.of_query(number))),
            }
        }
        Ok(several)
    }
}

/// What to do with near-duplicates of stored documents.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NearParams {
    /// What happens with a near-duplicate of a stored document. Default: `store`.
    on_duplicate: Option<OnDuplicate>,
    /// The distance of near-duplicates for `on_duplicate`, 0 to the width. Default: the check of the profile,
    /// or the distance of the collection.
    pub k: Option<Bits>,
    /// In place of k, in a collection of signatures: the minimum similarity, 0 to 1.
    pub threshold: Option<f64>,
    /// `skip`, and `replace` where there is no near-duplicate, do not store a document either if a stored
    /// document contains at least this share of it, above 0 to 1; the outcome is `contained_in`. The
    /// collection must keep passages.
    pub min_containment: Option<f64>,
    /// How many neighbours of a stored document are in its result, 0 to 1,000. Default: 10 for one document,
    /// 0 for each of several.
    #[param(value_type = Option<u32>, minimum = 0, maximum = 1000)]
    similar: Option<Count>,
    /// Which errors the answer to several documents lists. Default: `first`.
    errors: Option<ErrorsListed>,
    /// The form of every hash in the request and in the answer. Default: `hex`, and every form that needs no
    /// name in the request.
    pub hash_format: Option<HashFormat>,
}

/// Which errors of several documents an answer lists. Its summary counts all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorsListed {
    /// At most 100, among them the first of each code.
    First,
    /// All.
    All,
}

/// What to do with a near-duplicate of a stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDuplicate {
    /// Store it.
    Store,
    /// Store it in a collection with clusters; `cluster` in the answer names the document that represents it.
    Link,
    /// Do not store it.
    Skip,
    /// In a collection with clusters: store it in place of all near-duplicates if it ranks before all of them
    /// by the rule of the clusters; otherwise do not store it. Refused if more than 1,000 are replaced.
    Replace,
}

impl NearParams {
    /// Whether the answer to several documents lists all errors.
    pub fn lists_all_errors(&self) -> bool {
        self.errors == Some(ErrorsListed::All)
    }

    /// The number of neighbours in a result; `default` unless the client gives another one.
    pub fn neighbours(&self, default: usize, most: usize) -> Result<usize, Problem> {
        let wanted = self.similar.as_ref().map_or(default, |count| count.0);
        if wanted > most {
            let detail = format!(
                "similar is {wanted}; it ranges from 0 to {most} (limits.matches), and GET \
                 /documents/{{id}}/similar returns more in pages"
            );
            return Err(Problem::parameter(Code::InvalidField, "similar", detail));
        }
        Ok(wanted)
    }

    /// What to do with near-duplicates.
    pub fn on_duplicate(&self) -> Result<OnDuplicate, Problem> {
        let wanted = self.on_duplicate.unwrap_or(OnDuplicate::Store);
        let within = self.k.map(|_| "k").or(self.threshold.map(|_| "threshold"));
        let share = self.min_containment.map(|_| "min_containment");
        let is_stored = matches!(wanted, OnDuplicate::Store | OnDuplicate::Link);
        if let Some(name) = within.or(share).filter(|_| is_stored) {
            let detail =
                format!("{name} goes with on_duplicate=skip or replace; add one or leave {name} out");
            return Err(Problem::parameter(Code::InvalidField, name, detail));
        }
        Ok(wanted)
    }
}

impl SimilarParams {
    /// Parses a query string that has a hash, and perhaps k and limit, without percent-encoding. `None` for
    /// any other query string, also an invalid one: serde parses it, which takes five times as long.
    pub fn plain(query: &str) -> Option<Ask> {
        let (mut of, mut k, mut limit) = (None::<Hash>, None, None);
        for pair in query.split('&') {
            match pair.split_once('=')? {
                ("hash", hash) if of.is_none() => of = Some(hash.parse().ok()?),
                ("k", bits) if k.is_none() => k = Some(decimal(bits)?),
                ("limit", most) if limit.is_none() => limit = Some(usize::try_from(decimal(most)?).ok()?),
                _ => return None,
            }
        }
        Some(Ask::of_hash(of?, k, limit))
    }

    /// Converts it for the service.
    pub fn ask(mut self) -> Result<Ask, Problem> {
        let hash = self.hash.take().map(|hash| hash.read(self.hash_format)).transpose()?;
        let by = subject(self.id.take(), self.text.take(), None, hash, self.signature.take(), None);
        // There is no `html` here, because a page is too long for a query string.
        let by = by.map_err(|_| {
            let detail =
                "exactly one of hash, signature, text and id is needed; POST /similar also accepts html";
            Problem::new(Code::InvalidField, detail)
        });
        let profile = self.profile.take().map(String::into_boxed_str);
        let filter = self.filter.take().map(|filter| filter.0);
        Ok(Ask { profile, filter, ..self.with_subject(by?) })
    }
}

/// Parses a number of decimal digits only.
pub(super) fn decimal(digits: &str) -> Option<u32> {
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

impl NearIdParams {
    /// Converts it for the service, with this document as the subject.
    pub fn ask(mut self, id: DocumentId) -> Ask {
        let filter = self.filter.take().map(|filter| filter.0);
        Ask { filter, ..self.with_subject(By::Id(id)) }
    }
}

/// The subject of a query: exactly one of these.
pub(super) fn subject(
    id: Option<Id>,
    text: Option<String>,
    html: Option<(String, PageText)>,
    hash: Option<Hash>,
    signature: Option<SignatureHex>,
    image: Option<ImageIn>,
) -> Result<By, Problem> {
    let has_content =
        hash.is_some() || signature.is_some() || text.is_some() || html.is_some() || image.is_some();
    match id {
        Some(id) if !has_content => Ok(By::Id(id.0)),
        None if has_content => one_content(text, html, hash, signature, image).map(By::Content),
        _ => Err(Problem::new(
            Code::InvalidField,
            "exactly one of hash, signature, text, html, image and id is needed",
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parts of query strings, valid and invalid.
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
        fn a_plain_query_string_is_parsed_as_serde_parses_it(
            hash in any::<u64>(),
            pairs in proptest::collection::vec(pairs(), 0..3),
        ) {
            let own = format!("hash={hash:016x}");
            for query in [own.clone(), pairs.join("&"), format!("{own}&{}", pairs.join("&"))] {
                let read: Option<SimilarParams> = serde_urlencoded::from_str(&query).ok();
                let read = read.and_then(|read| read.ask().ok());
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
