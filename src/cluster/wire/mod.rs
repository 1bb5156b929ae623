//! Questions and answers between servers of one version, in postcard.
//!
//! *Guarantees*: what is read is what was written, for every question and answer; other bytes are refused.
//!
//! *Absent*: compatibility. Servers of another version have agreed on another format of the cluster.

mod filter;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{
    Answer, Document, Listing, Match, Outcome, Page, PartAnswer, PartAsk, PartFound, Position, Query, Row,
    Version, Work,
};
use crate::ids::{CollectionName, DocumentId, Hash};
use filter::{FilterLayout, read_filter};

/// The type of the bodies.
pub(super) const MEDIA_TYPE: &str = "application/octet-stream";

/// The bytes of a question.
pub(super) fn write_question(ask: &PartAsk, partitions: &BTreeSet<u32>, at_least: u64) -> Vec<u8> {
    let ask = match ask {
        PartAsk::Near(name, queries) => {
            AskLayout::Near(name.to_string(), queries.iter().map(QueryLayout::from).collect())
        }
        PartAsk::Get(name, id) => AskLayout::Get(name.to_string(), id.as_str().to_owned()),
        PartAsk::List(name, wanted) => AskLayout::List(name.to_string(), ListingLayout::from(wanted)),
        PartAsk::Count(names) => AskLayout::Count(names.iter().map(CollectionName::to_string).collect()),
        PartAsk::Outcomes(entry, operations) => AskLayout::Outcomes(*entry, operations.clone()),
    };
    written(&Question { partitions: partitions.iter().copied().collect(), at_least, ask })
}

/// A question, the partitions, and the position; `None` if the bytes are not a question.
pub(super) fn read_question(bytes: &[u8]) -> Option<(PartAsk, BTreeSet<u32>, u64)> {
    let Question { partitions, at_least, ask } = read(bytes)?;
    let ask = match ask {
        AskLayout::Near(name, queries) => {
            let queries: Option<Vec<Query>> = queries.into_iter().map(QueryLayout::read).collect();
            PartAsk::Near(CollectionName::new(&name).ok()?, queries?.into())
        }
        AskLayout::Get(name, id) => {
            PartAsk::Get(CollectionName::new(&name).ok()?, DocumentId::new(&id).ok()?)
        }
        AskLayout::List(name, wanted) => PartAsk::List(CollectionName::new(&name).ok()?, wanted.read()?),
        AskLayout::Count(names) => {
            let names: Result<_, _> = names.iter().map(|name| CollectionName::new(name)).collect();
            PartAsk::Count(names.ok()?)
        }
        AskLayout::Outcomes(entry, operations) => PartAsk::Outcomes(entry, operations),
    };
    Some((ask, partitions.into_iter().collect(), at_least))
}

/// The bytes of an answer.
pub(super) fn write_answer(PartAnswer { applied, visible, found }: PartAnswer) -> Vec<u8> {
    let document = |document: Document| (document.id.as_str().to_owned(), document.row.into_bytes());
    let found = match found {
        PartFound::Near(answers) => FoundLayout::Near(answers.into_iter().map(AnswerLayout::from).collect()),
        PartFound::Document(found) => FoundLayout::Document(found.map(document)),
        PartFound::Page(Page { documents, examined, next }) => {
            let next = next.map(|id| id.as_str().to_owned());
            FoundLayout::Page(documents.into_iter().map(document).collect(), examined, next)
        }
        PartFound::Counts(counts) => {
            let count =
                |(name, documents, hashes): (CollectionName, u64, u64)| (name.to_string(), documents, hashes);
            FoundLayout::Counts(counts.into_iter().map(count).collect())
        }
        PartFound::Outcomes(outcomes) => {
            let outcome = |(number, outcome)| (number, OutcomeLayout::from(outcome));
            FoundLayout::Outcomes(outcomes.into_iter().map(outcome).collect())
        }
    };
    written(&AnswerOf { applied, visible, found })
}

/// An answer; `None` if the bytes are none.
pub(super) fn read_answer(bytes: &[u8]) -> Option<PartAnswer> {
    let AnswerOf { applied, visible, found } = read(bytes)?;
    let found = match found {
        FoundLayout::Near(answers) => {
            PartFound::Near(answers.into_iter().map(AnswerLayout::read).collect::<Option<_>>()?)
        }
        FoundLayout::Document(None) => PartFound::Document(None),
        FoundLayout::Document(Some(found)) => PartFound::Document(Some(read_document(found)?)),
        FoundLayout::Page(documents, examined, next) => {
            let documents = documents.into_iter().map(read_document).collect::<Option<_>>()?;
            let next = next.map(|id| DocumentId::new(&id)).transpose().ok()?;
            PartFound::Page(Page { documents, examined, next })
        }
        FoundLayout::Counts(counts) => {
            let count = |(name, documents, hashes): (String, u64, u64)| {
                Some((CollectionName::new(&name).ok()?, documents, hashes))
            };
            PartFound::Counts(counts.into_iter().map(count).collect::<Option<_>>()?)
        }
        FoundLayout::Outcomes(outcomes) => {
            PartFound::Outcomes(outcomes.into_iter().map(|(number, one)| (number, one.into())).collect())
        }
    };
    Some(PartAnswer { applied, visible, found })
}

fn written(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("every part of a question or an answer has a form in postcard")
}

/// A value of which no byte is left over.
fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

fn read_document((id, row): (String, Vec<u8>)) -> Option<Document> {
    Some(Document { id: DocumentId::new(&id).ok()?, row: Row::from_bytes(&row).ok()? })
}

#[derive(Serialize, Deserialize)]
struct Question {
    partitions: Vec<u32>,
    at_least: u64,
    ask: AskLayout,
}

#[derive(Serialize, Deserialize)]
enum AskLayout {
    Near(String, Vec<QueryLayout>),
    Get(String, String),
    List(String, ListingLayout),
    Count(Vec<String>),
    Outcomes(u64, Vec<(u32, u32)>),
}

#[derive(Serialize, Deserialize)]
struct QueryLayout {
    hash: Vec<u8>,
    k: u32,
    limit: usize,
    after: Option<(u32, String)>,
    filter: Option<FilterLayout>,
    scan: bool,
    document: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ListingLayout {
    after: Option<String>,
    filter: Option<FilterLayout>,
    has_texts: bool,
    limit: usize,
    bytes: usize,
    time_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct AnswerOf {
    applied: u64,
    visible: u64,
    found: FoundLayout,
}

type DocumentLayout = (String, Vec<u8>);

#[derive(Serialize, Deserialize)]
enum FoundLayout {
    Near(Vec<AnswerLayout>),
    Document(Option<DocumentLayout>),
    Page(Vec<DocumentLayout>, u64, Option<String>),
    Counts(Vec<(String, u64, u64)>),
    Outcomes(Vec<(u32, OutcomeLayout)>),
}

#[derive(Serialize, Deserialize)]
struct AnswerLayout {
    matches: Vec<MatchLayout>,
    next: Option<(u32, String)>,
    work: (bool, u64, u64, u64, u64),
}

#[derive(Serialize, Deserialize)]
struct MatchLayout {
    id: String,
    hash: Vec<u8>,
    distance: u32,
    expires_ms: Option<u64>,
    metadata: Option<String>,
}

#[derive(Serialize, Deserialize)]
enum OutcomeLayout {
    Created(u64),
    Updated(u64),
    Deleted,
    Absent,
    Refused(Option<u64>),
    Repeated(u64, Option<u64>),
}

fn bytes_of(hash: Hash) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    hash.write_bytes(&mut bytes);
    bytes
}

fn write_position(position: &Position) -> (u32, String) {
    (position.distance, position.id.as_str().to_owned())
}

fn read_position((distance, id): (u32, String)) -> Option<Position> {
    Some(Position { distance, id: DocumentId::new(&id).ok()? })
}

impl From<&Query> for QueryLayout {
    fn from(query: &Query) -> QueryLayout {
        QueryLayout {
            hash: bytes_of(query.hash),
            k: query.k,
            limit: query.limit,
            after: query.after.as_ref().map(write_position),
            filter: query.filter.as_deref().map(FilterLayout::from),
            scan: query.scan,
            document: query.document.as_ref().map(|id| id.as_str().to_owned()),
        }
    }
}

impl QueryLayout {
    fn read(self) -> Option<Query> {
        let after = match self.after {
            Some(after) => Some(read_position(after)?),
            None => None,
        };
        let filter = match self.filter {
            Some(filter) => Some(read_filter(filter)?),
            None => None,
        };
        Some(Query {
            hash: Hash::from_bytes(&self.hash)?,
            signature: None,
            k: self.k,
            limit: self.limit,
            after,
            filter,
            scan: self.scan,
            document: self.document.map(|id| DocumentId::new(&id)).transpose().ok()?,
        })
    }
}

impl From<&Listing> for ListingLayout {
    fn from(wanted: &Listing) -> ListingLayout {
        ListingLayout {
            after: wanted.after.as_ref().map(|id| id.as_str().to_owned()),
            filter: wanted.filter.as_deref().map(FilterLayout::from),
            has_texts: wanted.has_texts,
            limit: wanted.limit,
            bytes: wanted.bytes,
            time_ms: u64::try_from(wanted.time.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl ListingLayout {
    fn read(self) -> Option<Listing> {
        let filter = match self.filter {
            Some(filter) => Some(read_filter(filter)?),
            None => None,
        };
        Some(Listing {
            after: self.after.map(|id| DocumentId::new(&id)).transpose().ok()?,
            filter,
            representatives: false,
            has_texts: self.has_texts,
            limit: self.limit,
            bytes: self.bytes,
            time: Duration::from_millis(self.time_ms),
        })
    }
}

impl From<Answer> for AnswerLayout {
    fn from(Answer { matches, next, work, .. }: Answer) -> AnswerLayout {
        let near = |near: Match| MatchLayout {
            id: near.id.as_str().to_owned(),
            hash: bytes_of(near.hash),
            distance: near.distance,
            expires_ms: near.expires_ms,
            metadata: near.metadata,
        };
        let Work { scanned, probes, candidates, verified, elapsed, .. } = work;
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        AnswerLayout {
            matches: matches.into_iter().map(near).collect(),
            next: next.as_ref().map(write_position),
            work: (scanned, probes, candidates, verified, elapsed_ns),
        }
    }
}

impl AnswerLayout {
    fn read(self) -> Option<Answer> {
        let near = |near: MatchLayout| {
            Some(Match {
                id: DocumentId::new(&near.id).ok()?,
                hash: Hash::from_bytes(&near.hash)?,
                distance: near.distance,
                similarity: None,
                shared: None,
                expires_ms: near.expires_ms,
                metadata: near.metadata,
                cluster: None,
            })
        };
        let next = match self.next {
            Some(next) => Some(read_position(next)?),
            None => None,
        };
        let (scanned, probes, candidates, verified, elapsed_ns) = self.work;
        let elapsed = Duration::from_nanos(elapsed_ns);
        Some(Answer {
            matches: self.matches.into_iter().map(near).collect::<Option<_>>()?,
            next,
            marked: 0,
            work: Work { scanned, plan: None, probes, candidates, verified, elapsed },
        })
    }
}

impl From<Outcome> for OutcomeLayout {
    fn from(outcome: Outcome) -> OutcomeLayout {
        match outcome {
            Outcome::Created(version) => OutcomeLayout::Created(version.0),
            Outcome::Updated(version) => OutcomeLayout::Updated(version.0),
            Outcome::Deleted => OutcomeLayout::Deleted,
            Outcome::Refused(version) => OutcomeLayout::Refused(version.map(|version| version.0)),
            Outcome::Repeated(version, expires_ms) => OutcomeLayout::Repeated(version.0, expires_ms),
            // A server with a part of the documents neither finds duplicates nor replaces them.
            Outcome::Absent
            | Outcome::Replaced(..)
            | Outcome::TooManyNear
            | Outcome::Duplicate(_)
            | Outcome::Elsewhere { .. }
            | Outcome::Retry { .. } => OutcomeLayout::Absent,
        }
    }
}

impl From<OutcomeLayout> for Outcome {
    fn from(outcome: OutcomeLayout) -> Outcome {
        match outcome {
            OutcomeLayout::Created(version) => Outcome::Created(Version(version)),
            OutcomeLayout::Updated(version) => Outcome::Updated(Version(version)),
            OutcomeLayout::Deleted => Outcome::Deleted,
            OutcomeLayout::Absent => Outcome::Absent,
            OutcomeLayout::Refused(version) => Outcome::Refused(version.map(Version)),
            OutcomeLayout::Repeated(version, expires_ms) => Outcome::Repeated(Version(version), expires_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Number, json};

    use super::*;
    use crate::engine::{AnyOf, Bound, FieldCondition, Filter, Relation};

    fn id(text: &str) -> DocumentId {
        DocumentId::new(text).unwrap()
    }

    #[test]
    fn questions_are_read_as_they_were_written() {
        let values =
            vec![json!("a"), json!(7), json!(-7), json!(0.1), json!(u64::MAX), json!(null), json!(true)];
        let times = FieldCondition::Than(Relation::AtMost, Bound::Time(1.5e9));
        let numbers = FieldCondition::Than(Relation::Greater, Bound::Number(Number::from_f64(0.3).unwrap()));
        let conditions = [
            ("any", FieldCondition::AnyOf(AnyOf::from(values))),
            ("not", FieldCondition::Not(Box::new(FieldCondition::Exists(true)))),
            ("all", FieldCondition::All(vec![times, numbers])),
        ];
        let filter = Filter {
            exclude: BTreeSet::from([id("新闻/1"), id("b")]),
            metadata: conditions.map(|(name, condition)| (name.to_owned(), condition)).into(),
            written_from_ms: Some(3),
            written_before_ms: None,
            partitions: None,
        };
        let query = Query {
            hash: Hash::from_u64(0xff),
            signature: None,
            k: 5,
            limit: 10,
            after: Some(Position { distance: 3, id: id("c") }),
            filter: Some(Box::new(filter.clone())),
            scan: true,
            document: Some(id("d")),
        };
        let listing = Listing { after: Some(id("e")), filter: Some(Box::new(filter)), ..Listing::default() };
        let name = CollectionName::new("news").unwrap();
        let questions = [
            PartAsk::Near(name.clone(), [query.clone(), query].into()),
            PartAsk::Get(name.clone(), id("a")),
            PartAsk::List(name, Listing { time: Duration::from_millis(250), ..listing }),
            PartAsk::Count(vec![CollectionName::new("all").unwrap()]),
            PartAsk::Outcomes(9, vec![(0, 1), (7, 2)]),
        ];
        for ask in questions {
            let bytes = write_question(&ask, &BTreeSet::from([1, 3]), 12);
            let (read, partitions, at_least) = read_question(&bytes).unwrap();
            assert_eq!(format!("{read:?}"), format!("{ask:?}"));
            assert_eq!((partitions, at_least), (BTreeSet::from([1, 3]), 12));
            assert!(read_question(&bytes[..bytes.len() - 1]).is_none());
            assert!(read_question(&[&bytes[..], &[0]].concat()).is_none());
        }
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let near = Match {
            id: id("a"),
            hash: Hash::from_u64(7),
            distance: 2,
            similarity: None,
            shared: None,
            expires_ms: Some(5),
            metadata: Some("{}".into()),
            cluster: None,
        };
        let next = Some(Position { distance: 2, id: id("a") });
        let answer = Answer { matches: vec![near], next, marked: 0, work: Work::default() };
        let name = CollectionName::new("news").unwrap();
        let versions = [Outcome::Created(Version(1)), Outcome::Updated(Version(2)), Outcome::Deleted];
        let more = [Outcome::Absent, Outcome::Refused(None), Outcome::Refused(Some(Version(3)))];
        let all = [
            PartFound::Near(vec![answer, Answer::default()]),
            PartFound::Document(None),
            PartFound::Page(Page { documents: Vec::new(), examined: 3, next: Some(id("z")) }),
            PartFound::Counts(vec![(name, 5, 4)]),
            PartFound::Outcomes((0..).zip(versions.into_iter().chain(more)).collect()),
        ];
        for found in all {
            let answer = PartAnswer { applied: 4, visible: 5, found };
            let read = read_answer(&write_answer(answer.clone())).unwrap();
            assert_eq!(format!("{read:?}"), format!("{answer:?}"));
        }
        assert!(read_answer(b"").is_none());
    }
}
