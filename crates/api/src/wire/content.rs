//! The content of a document, a query or a side of a comparison on the wire: one of text, html, hash and
//! signature.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::values::SignatureHex;
use crate::error::{Code, Problem};
use lookalike_hash::Hash;
use lookalike_service::{Content, Limits, PageText};

/// Which text of an HTML page is used.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = PageText)]
pub enum PageIn {
    /// The main text: the article without what surrounds it. If there is none, or it is a small part of the
    /// page, all visible text is used.
    Main,
    /// All visible text.
    Visible,
}

impl From<PageText> for PageIn {
    fn from(which: PageText) -> PageIn {
        match which {
            PageText::Main => PageIn::Main,
            PageText::Visible => PageIn::Visible,
        }
    }
}

/// A page, and which text of it is used.
pub fn page(html: Option<String>, which: Option<PageIn>) -> Result<Option<(String, PageText)>, Problem> {
    if html.is_none() && which.is_some() {
        let detail = "page says which text of html is used; add html or leave page out";
        return Err(Problem::field(Code::InvalidField, "/page", detail));
    }
    let which = match which {
        None | Some(PageIn::Main) => PageText::Main,
        Some(PageIn::Visible) => PageText::Visible,
    };
    Ok(html.map(|html| (html, which)))
}

/// Rejects a text or page that is too long.
pub fn check_size(name: &str, content: &Content, limits: &Limits) -> Result<(), Problem> {
    match limits.exceeded_by(content) {
        None => Ok(()),
        Some((bytes, setting, most)) => {
            let detail = format!(
                "{name} has {bytes} bytes; at most {most} are accepted ({setting}): shorten it, or raise the \
                 limit"
            );
            Err(Problem::new(Code::TooLarge, detail))
        }
    }
}

/// The content of the one field that is set.
pub(super) fn one_content(
    text: Option<String>,
    html: Option<(String, PageText)>,
    hash: Option<Hash>,
    signature: Option<SignatureHex>,
) -> Result<Content, Problem> {
    match (text, html, hash, signature) {
        (Some(text), None, None, None) => Ok(Content::Text(text)),
        (None, Some((html, which)), None, None) => Ok(Content::Html(html, which)),
        (None, None, Some(hash), None) => Ok(Content::Hash(hash)),
        (None, None, None, Some(signature)) => Ok(Content::Signature(signature.0)),
        _ => Err(Problem::new(
            Code::InvalidField,
            "exactly one of text, html, hash and signature is needed, or features of a document",
        )),
    }
}
