//! The headers of exports among the documents of a request.
//!
//! A header states the profile and the form of the hashes after it, up to the next header, so that files can
//! be concatenated. It is no document and gets no result. Hashes and signatures of another profile, sketches
//! of another size, and grams where the collection keeps none are refused. Texts are not: the collection
//! fingerprints them itself. If the header states that the export has no texts, all documents after it are
//! refused without being parsed. So are the lines of a compressed body that does not declare its encoding.

use std::sync::Arc;

use super::super::encoding::undeclared;
use super::super::error::{Code, Problem};
use super::super::parse::parse_object;
use super::super::wire::{DocumentIn, ExportHeader, HashFormat};
use lookalike_hash::CollectionName;
use lookalike_service::{Content, Limits, Offered, Service};

/// Returns the section that a line begins; `None` if it is no header.
pub(crate) type Headers = Box<dyn Fn(&[u8]) -> Option<Result<Section, Problem>> + Send>;

/// The documents from one header to the next.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(super) profile: Option<Arc<str>>,
    pub(super) form: Option<HashFormat>,
    /// Why all of them are refused.
    pub(super) refused: Option<Problem>,
    /// Whether the line that begins the section is no header, but the first of its documents.
    pub(super) has_first_line: bool,
}

/// The headers of documents for a collection.
pub(crate) fn headers(service: &Arc<Service>, collection: &CollectionName) -> Headers {
    let (service, collection) = (Arc::clone(service), collection.clone());
    Box::new(move |line| {
        if let Some(problem) = undeclared(line) {
            return Some(Ok(Section { refused: Some(problem), has_first_line: true, ..Section::default() }));
        }
        let header = ExportHeader::of(line)?.map_err(|error| {
            let detail = format!(
                "the header of the export cannot be read: {error}. It is the first line of an export, such \
                 as {{\"export\": {{\"profile\": \"copies-64@1\"}}}}"
            );
            Problem::field(Code::InvalidField, format!("/{}", ExportHeader::MEMBER), detail)
        });
        Some(header.map(|header| {
            let Some(header) = header else { return Section::default() };
            let checked = service
                .check_profile_of(&collection, &header.profile)
                .and_then(|()| service.check_sketches_of(&collection, header.sketch_bytes))
                .and_then(|()| service.check_passages_of(&collection, header.passages.into()));
            let refused = checked.err().filter(|_| !header.may_have_texts());
            Section {
                form: header.hash_format,
                profile: Some(Arc::from(header.profile)),
                refused: refused
                    .map(|error| Problem::from(error).within(&format!("/{}", ExportHeader::MEMBER))),
                ..Section::default()
            }
        }))
    })
}

impl Section {
    /// The document of a line. `form` is the form that the request names for all hashes.
    pub(super) fn document(
        &self,
        line: &[u8],
        form: Option<HashFormat>,
        limits: &Limits,
    ) -> Result<Offered, Problem> {
        if let Some(problem) = &self.refused {
            return Err(problem.clone());
        }
        let mut offered = parse_object::<DocumentIn>(line)?.offered(form.or(self.form), limits)?;
        if matches!(offered.content, Content::Hash(_) | Content::Signature(_)) {
            offered.profile = offered.profile.or_else(|| self.profile.clone());
        }
        Ok(offered)
    }
}
