//! Documents on the wire.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::clusters::PlacementOut;
use super::content::{ImageIn, PageIn, check_size, one_content, page};
use super::exported::ExportedIn;
use super::features::FeatureIn;
use super::few::Few;
use super::found::{MatchOut, left_out};
use super::hashes::{HashFormat, HashIn, HashOut};
use super::outcome::{ContainedOut, OutcomeOut};
use super::values::{
    Arrival, ExpiresIn, Id, Metadata, SignatureHex, SketchHex, StatusOut, Timestamp, present,
};
use crate::error::{Body, Code, Problem};
use lookalike_hash::DocumentId;
use lookalike_service::{
    Added, Content, Expires, Limits, Match, Neighbours, Offered, Outcome, Placement, status,
};

/// The members of a document to store, in the order of the contract.
pub const DOCUMENT_MEMBERS: [&str; 17] = [
    "id",
    "text",
    "html",
    "page",
    "image",
    "hash",
    "signature",
    "features",
    "profile",
    "characters",
    "sketch",
    "thumbnail",
    "metadata",
    "expires_in",
    "expires_at",
    "arrival",
    "exported",
];

/// A document to store: exactly one of text, html, image, hash, signature and features.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDocument)]
pub struct DocumentIn {
    /// Its id. Default: a UUID (version 7) made by the server.
    #[schema(value_type = Option<Id>)]
    id: Option<Id>,
    /// Its text.
    text: Option<String>,
    /// Its HTML page.
    html: Option<String>,
    /// Which text of the page is used. Default: `main`.
    page: Option<PageIn>,
    /// The bytes of a JPEG, PNG, WebP or GIF file in base64, for profiles of images.
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    pub image: Option<ImageIn>,
    /// Its hash, computed elsewhere with the profile of the collection.
    #[schema(value_type = Option<HashIn>)]
    hash: Option<HashIn>,
    /// Its signature, computed elsewhere with the profile of the collection, if that makes signatures.
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
    /// Its features with their weights, hashed by the rules of the profile of the collection: `[text,
    /// weight]`, `[text, weight, hash]` or `[{"hash": hash}, weight]`, at most 10,000.
    #[schema(value_type = Option<Vec<Vec<Value>>>, example = json!([["美国", 5], ["51区", 2]]))]
    features: Option<Few<FeatureIn>>,
    /// The profile that made its hash or signature, with or without version. If it is not that of the
    /// collection, the document is refused (409).
    #[schema(example = "copies-64@1")]
    profile: Option<String>,
    /// The number of characters of its text, if the text is not sent: the keep rule `longest` uses it. An
    /// export has this field.
    characters: Option<u32>,
    /// The sketch of its text, if its hash is sent in place of the text: `min_similarity` and `POST /compare`
    /// use it. It has the `sketch_bytes` of the collection, and the profile must be named here or by the
    /// header of an export. An export has this field.
    #[schema(value_type = Option<SketchHex>)]
    sketch: Option<SketchHex>,
    /// The thumbnail of its image, if its hash is sent in place of the image: a JPEG of at most 4 KB, in
    /// base64. It is stored if the collection keeps thumbnails. An export has this field.
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    thumbnail: Option<ImageIn>,
    /// A JSON object that is returned with it, at most 16 KiB.
    #[schema(value_type = Option<Metadata>)]
    metadata: Option<Metadata>,
    /// Its lifetime; `null` for no expiry. Default: the setting of the collection.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<ExpiresIn>)]
    #[allow(clippy::option_option, reason = "absent, null and a value are three things")]
    expires_in: Option<Option<ExpiresIn>>,
    /// When it expires, in place of `expires_in`. An export has this field.
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
    /// Its place in the order of arrival, by which clusters rank documents. The export of a collection with
    /// clusters has this field. Default: after all documents so far. A stored document keeps its own.
    #[schema(value_type = Option<Arrival>)]
    arrival: Option<Arrival>,
    /// What else an export has of it.
    exported: Option<ExportedIn>,
}

impl DocumentIn {
    /// Converts it for the service; its hash is in this form.
    pub fn offered(self, form: Option<HashFormat>, limits: &Limits) -> Result<Offered, Problem> {
        let html = page(self.html, self.page)?;
        let hash = self.hash.map(|hash| hash.read(form)).transpose()?;
        let has_other = self.text.is_some()
            || html.is_some()
            || self.image.is_some()
            || hash.is_some()
            || self.signature.is_some();
        let content = match self.features {
            None => one_content(self.text, html, hash, self.signature, self.image)?,
            Some(features) if !has_other => Content::Features(features.given()),
            Some(_) => {
                let detail = "exactly one of text, html, image, hash, signature and features is needed";
                return Err(Problem::new(Code::InvalidField, detail));
            }
        };
        check_size("the document", &content, limits)?;
        if self.characters.is_some()
            && matches!(content, Content::Text(_) | Content::Html(..) | Content::Image(_))
        {
            let detail = "characters is for a document without its text, which is counted; leave it out";
            return Err(Problem::field(Code::InvalidField, "/characters", detail));
        }
        if self.sketch.is_some() && !matches!(content, Content::Hash(_)) {
            let detail = "sketch is for a document with a hash in place of its text; leave it out";
            return Err(Problem::field(Code::InvalidField, "/sketch", detail));
        }
        if self.thumbnail.is_some() && (!matches!(content, Content::Hash(_)) || self.sketch.is_some()) {
            let detail = "thumbnail is for a document with a hash in place of its image, without a sketch; \
                          leave it out";
            return Err(Problem::field(Code::InvalidField, "/thumbnail", detail));
        }
        let id = self.id.map(|id| id.0);
        let expires = match (self.expires_in, self.expires_at) {
            (Some(_), Some(_)) => {
                let detail = "expires_in and expires_at both set when the document expires; leave one out";
                return Err(Problem::field(Code::InvalidField, "/expires_at", detail));
            }
            (Some(Some(span)), None) => Expires::In(span.0),
            (Some(None), None) => Expires::Never,
            (None, Some(at)) => Expires::At(at.0),
            (None, None) => Expires::Default,
        };
        let (profile, characters) = (self.profile.map(Arc::from), self.characters);
        let metadata = self.metadata.map(Metadata::into_string);
        let (sketch, place) = (self.sketch.map(|sketch| sketch.0), self.arrival.map(|arrival| arrival.0));
        let exported = self.exported.map(ExportedIn::exported).transpose()?;
        Ok(Offered {
            id,
            content,
            profile,
            characters,
            sketch,
            thumbnail: self.thumbnail.map(|image| image.0),
            metadata,
            expires,
            place,
            exported,
            is_keyed: false,
        })
    }

    /// The document of a route with the id in the path.
    pub fn offered_as(
        self,
        id: &DocumentId,
        form: Option<HashFormat>,
        limits: &Limits,
    ) -> Result<Offered, Problem> {
        let mut offered = self.offered(form, limits)?;
        if offered.id.as_ref().is_some_and(|named| named != id) {
            let detail = "the id in the body differs from the id in the path; leave it out";
            return Err(Problem::field(Code::InvalidField, "/id", detail));
        }
        offered.id = Some(id.clone());
        Ok(offered)
    }
}

/// The result for a document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AddedDocument)]
pub struct AddedOut {
    /// Its id; absent if it was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    id: Option<Id>,
    /// Its hash.
    #[schema(value_type = HashOut)]
    hash: HashOut,
    /// What was done: `created`, `updated`, `replaced` if it was stored in place of near-duplicates, or
    /// `duplicate` or `contained_in` if it was not stored.
    outcome: OutcomeOut,
    /// Whether its fingerprint is reliable; absent if it was sent as a hash, a signature or features.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// `true` if its text is too short to be found by its passages, in a collection that keeps passages.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = Option<bool>)]
    without_passages: bool,
    /// Which text of the page was used, if it was sent as `html`.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<PageIn>,
    /// Its cluster, if it was stored in a collection with clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<PlacementOut>,
    /// When it expires, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
    /// For a stored document: its neighbours within the collection's k; `[]` if there are none. For a
    /// duplicate: the documents that it duplicates; if it replaced some, these. Nearest first, at most ten,
    /// or as many as the parameter `similar`; absent if that is 0. `null` if the document is stored and its
    /// neighbours could not be looked up; `similar_unknown` has the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<MatchOut>>)]
    #[allow(clippy::option_option, reason = "absent, null and a list are three things")]
    similar: Option<Option<Vec<MatchOut>>>,
    /// The number of neighbours that were left out because of marks, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<u64>,
    /// If it was stored, and `similar` was looked up: the document that contains most of it, of those beyond
    /// k that contain .8 of it or more, in a collection that keeps passages.
    #[serde(skip_serializing_if = "Option::is_none")]
    contained_in: Option<ContainedOut>,
    /// Why the neighbours could not be looked up: the code of an error such as `busy`, a colon, and the
    /// remedy. Absent if `similar` has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "busy: the processors are busy; try again in a moment. The document is stored; GET \
                   /documents/{id}/similar returns its neighbours")]
    similar_unknown: Option<String>,
}

impl AddedOut {
    /// The result for an added document, with its neighbours if they were looked up.
    pub fn new(
        added: Added,
        similar: Option<Result<Neighbours, Problem>>,
        form: Option<HashFormat>,
    ) -> AddedOut {
        let outcome = OutcomeOut::from(&added.outcome);
        let (named, id, expires_ms) = match added.outcome {
            Outcome::Duplicate(of) => (Some(of), None, None),
            Outcome::Replaced(_, of) => (Some(of), Some(Id(added.id)), added.expires_ms),
            _ => (None, Some(Id(added.id)), added.expires_ms),
        };
        let out = |found: Match| MatchOut::new(found, form);
        let out = |matches: Vec<Match>| Some(matches.into_iter().map(out).collect());
        let (similar, marked, contained_in, similar_unknown) = match similar {
            Some(Ok(Neighbours { matches, marked, contained_in })) => {
                (Some(out(matches)), left_out(marked), contained_in.map(ContainedOut::from), None)
            }
            Some(Err(problem)) => (Some(None), None, None, Some(unknown_neighbours(&problem))),
            None => (named.map(out), None, None, None),
        };
        AddedOut {
            id,
            hash: HashOut::new(added.hash, form),
            outcome,
            status: added.status.map(StatusOut::from),
            without_passages: added.is_without_passages,
            page: added.page.map(PageIn::from),
            cluster: added.placement.map(PlacementOut::from),
            expires_at: expires_ms.map(Timestamp),
            similar,
            marked,
            contained_in,
            similar_unknown,
        }
    }
}

/// Why the neighbours of a stored document could not be looked up, and the remedy.
fn unknown_neighbours(problem: &Problem) -> String {
    format!(
        "{}. The document is stored; GET /documents/{{id}}/similar returns its neighbours",
        problem.body_text()
    )
}

/// A stored document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Document)]
pub struct DocumentOut {
    /// Its id.
    #[schema(value_type = Id)]
    id: Id,
    /// Its hash.
    #[schema(value_type = HashOut)]
    hash: HashOut,
    /// Its signature, if the collection has signatures. The hash is the name of the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
    /// The number of distinct features of its text; absent if it was sent as a hash or a signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<u32>,
    /// Whether its fingerprint is reliable; absent if it was sent as a hash or a signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// When it was last written.
    #[schema(value_type = Timestamp)]
    written_at: Timestamp,
    /// When it expires, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
    /// When it is deleted, if that is planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    deletion_at: Option<Timestamp>,
    /// Its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Metadata>)]
    metadata: Option<Metadata>,
    /// Its text, if the collection stores texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Its cluster, in a collection with clusters. The document represents the cluster if `representative` is
    /// its own id.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<PlacementOut>,
}

impl DocumentOut {
    /// A document of a collection, which may be one of signatures.
    pub fn new(
        document: lookalike_service::Document,
        is_signed: bool,
        cluster: Option<Placement>,
        form: Option<HashFormat>,
    ) -> DocumentOut {
        let status = status(&document.row).map(StatusOut::from);
        let row = document.row;
        DocumentOut {
            id: Id(document.id),
            hash: HashOut::new(row.hash, form),
            signature: row.sketch.filter(|_| is_signed).map(SignatureHex),
            features: row.features,
            status,
            written_at: Timestamp(row.written_ms),
            expires_at: row.lifetime.end_ms().map(Timestamp),
            deletion_at: row.lifetime.deletion_ms().map(Timestamp),
            metadata: row.metadata.and_then(Metadata::stored),
            text: row.text,
            cluster: cluster.map(PlacementOut::from),
        }
    }
}

/// The result for one line of a stream or one element of an array: the same as for a single document, or an
/// error. An answer lists at most 100 errors, among them the first of each code. Lines and elements without a
/// result were not stored; the summary counts them.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = LineResult)]
pub struct LineOut {
    /// The number of the line or element, from 0. Blank lines are numbered and get no result.
    pub index: u64,
    /// The id of the document; absent if there is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    id: Option<Id>,
    /// Its hash; absent if there is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HashOut>)]
    hash: Option<HashOut>,
    /// What was done; absent if there is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<OutcomeOut>,
    /// Whether its fingerprint is reliable; absent if it was sent as a hash, a signature or features.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// `true` if its text is too short to be found by its passages, in a collection that keeps passages.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = Option<bool>)]
    without_passages: bool,
    /// Which text of the page was used, if it was sent as `html`.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<PageIn>,
    /// Its cluster, if it was stored in a collection with clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<PlacementOut>,
    /// When it expires, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Timestamp>,
    /// Its neighbours within the collection's k, nearest first, if the parameter `similar` is above 0; they
    /// may be documents of later lines. For a duplicate, the documents that it duplicates, and for
    /// `replaced`, those that it replaced: at most ten, and without metadata unless `similar` is above 0.
    /// `null` if they could not be looked up; `similar_unknown` has the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<MatchOut>>)]
    #[allow(clippy::option_option, reason = "absent, null and a list are three things")]
    similar: Option<Option<Vec<MatchOut>>>,
    /// The number of neighbours that were left out because of marks, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<u64>,
    /// If it was stored, and `similar` is above 0: the document that contains most of it, of those beyond k
    /// that contain .8 of it or more, in a collection that keeps passages.
    #[serde(skip_serializing_if = "Option::is_none")]
    contained_in: Option<ContainedOut>,
    /// Why the neighbours could not be looked up. Absent if `similar` has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    similar_unknown: Option<String>,
    /// Why the document was not stored; absent if there is an outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<Body>>,
}

impl LineOut {
    /// The result for an added document, with its neighbours if they were looked up.
    pub fn added(
        index: u64,
        added: Added,
        similar: Option<Result<Neighbours, Problem>>,
        form: Option<HashFormat>,
    ) -> LineOut {
        let id = Some(Id(added.id.clone()));
        let AddedOut {
            id: _,
            hash,
            outcome,
            status,
            without_passages,
            page,
            cluster,
            expires_at,
            similar,
            marked,
            contained_in,
            similar_unknown,
        } = AddedOut::new(added, similar, form);
        LineOut {
            index,
            id,
            hash: Some(hash),
            outcome: Some(outcome),
            status,
            without_passages,
            page,
            cluster,
            expires_at,
            similar,
            marked,
            contained_in,
            similar_unknown,
            error: None,
        }
    }

    /// The line of a document that was refused.
    pub fn failed(index: u64, problem: &Problem) -> LineOut {
        LineOut { index, error: Some(Box::new(problem.body())), ..LineOut::default() }
    }

    /// The code of the error, if there is one.
    pub fn error_code(&self) -> Option<&'static str> {
        self.error.as_ref().map(|error| error.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_of_a_document_are_known() {
        let error = serde_json::from_str::<DocumentIn>(r#"{"other": 1}"#).unwrap_err().to_string();
        let members: Vec<String> = DOCUMENT_MEMBERS.iter().map(|name| format!("`{name}`")).collect();
        assert!(error.contains(&format!("expected one of {} at", members.join(", "))), "{error}");
    }
}
