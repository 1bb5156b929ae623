//! Documents and fingerprints on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::few::Few;
use super::found::MatchOut;
use super::values::{ExpiresIn, Hex, Id, Metadata, SignatureHex, StatusOut, Timestamp, present};
use crate::http::error::{Body, Code, Problem};
use crate::service::Outcome;
use crate::service::{Added, Content, Expires, Explained, Fingerprinted, Match, Offered, status};

/// A document to be stored: exactly one of text, html, hash and signature.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDocument)]
pub(in crate::http) struct DocumentIn {
    /// Its id; the server makes a UUID (version 7) if there is none.
    #[schema(value_type = Option<Id>)]
    id: Option<Id>,
    /// Its text.
    text: Option<String>,
    /// Its page, whose main text counts.
    html: Option<String>,
    /// Its hash, made elsewhere by the profile of the collection.
    #[schema(value_type = Option<Hex>)]
    hash: Option<Hex>,
    /// Its signature, made elsewhere by the profile of the collection, if that makes signatures.
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
    /// What is to be given back with it, 16 KiB at most.
    #[schema(value_type = Option<Metadata>)]
    metadata: Option<Metadata>,
    /// After how long it expires; `null` is never. The collection's setting if it is left out.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<ExpiresIn>)]
    #[allow(clippy::option_option, reason = "absent, null and a value are three things")]
    expires_in: Option<Option<ExpiresIn>>,
    /// When it expires, in place of `expires_in`: what an export says.
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
}

impl DocumentIn {
    /// The document as the service takes it.
    pub(in crate::http) fn offered(self) -> Result<Offered, Problem> {
        let content = one_content(self.text, self.html, self.hash, self.signature)?;
        let id = self.id.map(|id| id.0);
        let expires = match (self.expires_in, self.expires_at) {
            (Some(_), Some(_)) => {
                let detail = "expires_in and expires_at both say when the document expires; leave one out";
                return Err(Problem::field(Code::InvalidField, "/expires_at", detail));
            }
            (Some(Some(span)), None) => Expires::In(span.0),
            (Some(None), None) => Expires::Never,
            (None, Some(at)) => Expires::At(at.0),
            (None, None) => Expires::Default,
        };
        Ok(Offered { id, content, metadata: self.metadata.map(Metadata::into_string), expires })
    }

    /// The same for a route that names the id.
    pub(in crate::http) fn offered_as(self, id: &crate::ids::DocumentId) -> Result<Offered, Problem> {
        let mut offered = self.offered()?;
        if offered.id.as_ref().is_some_and(|named| named != id) {
            let detail = "the id in the body differs from the id in the path; leave it out";
            return Err(Problem::field(Code::InvalidField, "/id", detail));
        }
        offered.id = Some(id.clone());
        Ok(offered)
    }
}

/// The one content among four fields.
pub(super) fn one_content(
    text: Option<String>,
    html: Option<String>,
    hash: Option<Hex>,
    signature: Option<SignatureHex>,
) -> Result<Content, Problem> {
    match (text, html, hash, signature) {
        (Some(text), None, None, None) => Ok(Content::Text(text)),
        (None, Some(html), None, None) => Ok(Content::Html(html)),
        (None, None, Some(hash), None) => Ok(Content::Hash(hash.0)),
        (None, None, None, Some(signature)) => Ok(Content::Signature(signature.0)),
        _ => Err(Problem::new(Code::InvalidField, "exactly one of text, html, hash and signature is needed")),
    }
}

/// What became of a document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AddedDocument)]
pub(in crate::http) struct AddedOut {
    /// Its id; absent if it was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    id: Option<Id>,
    /// Its hash.
    #[schema(value_type = Hex)]
    hash: Hex,
    /// What was done: `created`, `updated`, or `duplicate`, when nothing was stored.
    outcome: OutcomeOut,
    /// Whether its fingerprint is to be trusted; absent if it came as a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// When it expires, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
    /// Of a stored document: its neighbours within the collection's k, none if it is empty. Of a duplicate:
    /// what it duplicates. The nearest first, at most ten. `null` if the document is stored and its
    /// neighbours are not known: `similar_unknown` says why.
    #[schema(required = true)]
    similar: Option<Vec<MatchOut>>,
    /// Why the neighbours are not known: the code of an error, such as `busy`, a colon, and what to do.
    /// Absent if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "busy: the processors are busy; try again in a moment. The document is stored; GET \
                   /documents/{id}/similar returns its neighbours")]
    similar_unknown: Option<String>,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Outcome)]
pub(in crate::http) enum OutcomeOut {
    /// A new document was stored.
    Created,
    /// A document took the place of the one with its id.
    Updated,
    /// Nothing was stored: it duplicates a stored one.
    Duplicate,
}

impl From<&Outcome> for OutcomeOut {
    fn from(outcome: &Outcome) -> OutcomeOut {
        match outcome {
            Outcome::Created => OutcomeOut::Created,
            Outcome::Duplicate(_) => OutcomeOut::Duplicate,
            Outcome::Updated | Outcome::Deleted | Outcome::Absent => OutcomeOut::Updated,
        }
    }
}

impl AddedOut {
    /// A document that was added, and what is similar to it.
    pub(in crate::http) fn new(added: Added, similar: Result<Vec<Match>, Problem>) -> AddedOut {
        let outcome = OutcomeOut::from(&added.outcome);
        let (id, expires_ms) = match added.outcome {
            Outcome::Duplicate(_) => (None, None),
            _ => (Some(Id(added.id)), added.expires_ms),
        };
        let (similar, similar_unknown) = match similar {
            Ok(similar) => (Some(similar.into_iter().map(MatchOut::from).collect()), None),
            Err(problem) => (None, Some(unknown_neighbours(&problem))),
        };
        AddedOut {
            id,
            hash: Hex(added.hash),
            outcome,
            status: added.status.map(StatusOut::from),
            expires_at: expires_ms.map(Timestamp),
            similar,
            similar_unknown,
        }
    }
}

/// Why a stored document's neighbours are not known, and what to do.
fn unknown_neighbours(problem: &Problem) -> String {
    format!(
        "{}. The document is stored; GET /documents/{{id}}/similar tells its neighbours",
        problem.body_text()
    )
}

/// A stored document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Document)]
pub(in crate::http) struct DocumentOut {
    /// Its id.
    #[schema(value_type = Id)]
    id: Id,
    /// Its hash.
    #[schema(value_type = Hex)]
    hash: Hex,
    /// Its signature, of which the hash is the name, if the collection has signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
    /// How many distinct features it was made from; absent if it came as a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<u32>,
    /// Whether its fingerprint is to be trusted; absent if it came as a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// When it was last written.
    #[schema(value_type = Timestamp)]
    written_at: Timestamp,
    /// When it expires, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
    /// What came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Metadata>)]
    metadata: Option<Metadata>,
    /// Its text, if the collection keeps texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl DocumentOut {
    /// A document of a collection, which may be one of signatures.
    pub(in crate::http) fn new(document: crate::service::Document, is_signed: bool) -> DocumentOut {
        let status = status(&document.row).map(StatusOut::from);
        let row = document.row;
        DocumentOut {
            id: Id(document.id),
            hash: Hex(row.hash),
            signature: row.sketch.filter(|_| is_signed).map(SignatureHex),
            features: row.features,
            status,
            written_at: Timestamp(row.written_ms),
            expires_at: row.expires_ms.map(Timestamp),
            metadata: row.metadata.and_then(Metadata::stored),
            text: row.text,
        }
    }
}

/// A line of an export: a document as `POST /documents` takes it. Its text if the collection keeps
/// texts, else its hash or signature.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ExportOut {
    id: Id,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<SignatureHex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

impl ExportOut {
    /// A document of a collection, which may be one of signatures.
    pub(in crate::http) fn new(document: crate::service::Document, is_signed: bool) -> ExportOut {
        let row = document.row;
        let has_no_text = row.text.is_none();
        ExportOut {
            id: Id(document.id),
            hash: (has_no_text && !is_signed).then_some(Hex(row.hash)),
            signature: row.sketch.filter(|_| has_no_text && is_signed).map(SignatureHex),
            text: row.text,
            metadata: row.metadata.and_then(Metadata::stored),
            expires_at: row.expires_ms.map(Timestamp),
        }
    }
}

/// What became of one line of a stream or one element of an array.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LineResult)]
pub(in crate::http) struct LineOut {
    /// Which line or element, from 0; empty lines count and get no result.
    pub(in crate::http) index: u64,
    /// The document's id; absent if the line could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub(in crate::http) id: Option<Id>,
    /// What was done; absent if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) outcome: Option<OutcomeOut>,
    /// Why nothing was done; absent if something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) error: Option<Box<Body>>,
    /// Of a duplicate: what it duplicates, the nearest first, at most ten.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    similar: Vec<MatchOut>,
}

impl LineOut {
    pub(in crate::http) fn added(index: u64, added: Added) -> LineOut {
        let outcome = Some(OutcomeOut::from(&added.outcome));
        let similar = match added.outcome {
            Outcome::Duplicate(matches) => matches.into_iter().map(MatchOut::from).collect(),
            _ => Vec::new(),
        };
        LineOut { index, id: Some(Id(added.id)), outcome, error: None, similar }
    }

    pub(in crate::http) fn failed(index: u64, problem: &Problem) -> LineOut {
        LineOut { index, id: None, outcome: None, error: Some(Box::new(problem.body())), similar: Vec::new() }
    }

    /// Leaves out what only a person reads, if it is an error.
    pub(in crate::http) fn shorten_error(&mut self) {
        if let Some(error) = &mut self.error {
            error.shorten("errors are told in full 100 times an answer; the summary counts all of them");
        }
    }
}

/// The last line of a stream's answer.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = SummaryLine)]
pub(in crate::http) struct SummaryOut {
    /// The counts.
    pub(in crate::http) summary: Summary,
}

/// How many documents had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(in crate::http) struct Summary {
    /// Stored as new.
    created: u64,
    /// Stored in place of another.
    updated: u64,
    /// Not stored, because near-duplicates were.
    duplicates: u64,
    /// Not stored, because something was wrong with them.
    errors: u64,
}

impl Summary {
    pub(in crate::http) fn errors(&self) -> u64 {
        self.errors
    }

    pub(in crate::http) fn count(&mut self, line: &LineOut) {
        match line.outcome {
            Some(OutcomeOut::Created) => self.created += 1,
            Some(OutcomeOut::Updated) => self.updated += 1,
            Some(OutcomeOut::Duplicate) => self.duplicates += 1,
            None => self.errors += 1,
        }
    }
}

/// The answer to an array of documents.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BulkResult)]
#[allow(dead_code, reason = "the shape of what is streamed, for the contract")]
pub(in crate::http) struct BulkOut {
    /// A result for each element, in order.
    results: Vec<LineOut>,
    /// The counts.
    summary: Summary,
}

/// The answer to one document, or to an array of them.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = AddedDocumentOrBulkResult)]
#[allow(dead_code, reason = "a shape for the contract")]
pub(in crate::http) enum AddedOneOrSeveral {
    One(AddedOut),
    Several(BulkOut),
}

/// The answer to one text, or to several.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = FingerprintOrFingerprints)]
#[allow(dead_code, reason = "a shape for the contract")]
pub(in crate::http) enum FingerprintedOneOrSeveral {
    One(FingerprintOut),
    Several(FingerprintsOut),
}

/// What to fingerprint: one of text and html, or several texts.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FingerprintRequest)]
pub(in crate::http) struct FingerprintIn {
    /// A text.
    pub(in crate::http) text: Option<String>,
    /// A page, whose main text counts.
    pub(in crate::http) html: Option<String>,
    /// Several texts.
    #[schema(value_type = Option<Vec<String>>)]
    pub(in crate::http) texts: Option<Few<String>>,
    /// The profile, with or without version; that of the default collection if there is none.
    #[schema(example = "copies-128")]
    pub(in crate::http) profile: Option<String>,
    /// Add the weighted features and the vote of each bit. Not with `texts`.
    #[serde(default)]
    pub(in crate::http) explain: bool,
}

/// A fingerprint.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fingerprint)]
pub(in crate::http) struct FingerprintOut {
    /// The hash.
    #[schema(value_type = Hex)]
    hash: Hex,
    /// The signature, of which the hash is the name, if the profile makes signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
    /// Its width: 64 or 128.
    bits: u32,
    /// The profile it was made by.
    #[schema(example = "copies-64@1")]
    profile: String,
    /// How many distinct features it was made from.
    features: usize,
    /// Whether it is to be trusted.
    status: StatusOut,
    /// The features and votes, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplainedOut>,
}

/// Fingerprints, in the order of the texts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fingerprints)]
pub(in crate::http) struct FingerprintsOut {
    /// One for each text.
    pub(in crate::http) fingerprints: Vec<FingerprintOut>,
}

/// What a fingerprint was made from.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(in crate::http) struct ExplainedOut {
    /// The distinct features, the heaviest first, at most 10,000; `features` is how many there are.
    features: Vec<FeatureOut>,
    /// The sum of the votes on each bit, the least significant bit first. Above 0 the bit is set, below 0 it
    /// is not, and at 0 it is as the profile has it for ties: the bit of the smallest of the features'
    /// hashes, unless it says `zero` or `one`. None for a signature.
    votes: Vec<f64>,
}

/// A feature.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Feature)]
pub(in crate::http) struct FeatureOut {
    /// Its normalised text.
    text: String,
    /// Its weight in the vote.
    weight: f64,
    /// Its hash.
    #[schema(value_type = Hex)]
    hash: Hex,
}

impl From<Fingerprinted> for FingerprintOut {
    fn from(made: Fingerprinted) -> FingerprintOut {
        FingerprintOut {
            hash: Hex(made.fingerprint.hash),
            signature: made.signature.map(SignatureHex),
            bits: made.profile.width().bits(),
            profile: made.profile.id().to_string(),
            features: made.fingerprint.features,
            status: made.fingerprint.status.into(),
            explanation: None,
        }
    }
}

impl From<Explained> for FingerprintOut {
    fn from(explained: Explained) -> FingerprintOut {
        let Explained { profile, explanation } = explained;
        let (fingerprint, signature) = (explanation.fingerprint, explanation.signature);
        let features = explanation.features.into_iter().map(|feature| FeatureOut {
            text: feature.text,
            weight: feature.weight,
            hash: Hex(feature.hash),
        });
        let explanation = ExplainedOut { features: features.collect(), votes: explanation.votes };
        let made = Fingerprinted { profile, fingerprint, signature };
        FingerprintOut { explanation: Some(explanation), ..FingerprintOut::from(made) }
    }
}
