//! The content of a document, a query or a side of a comparison on the wire: one of text, html, image, hash
//! and signature.

use axum::body::Bytes;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::values::SignatureHex;
use crate::error::{Code, Problem};
use lookalike_hash::Hash;
use lookalike_service::{Content, Limits, PageText};

/// The bytes of an image file, on the wire in base64.
#[derive(Clone, Debug)]
pub struct ImageIn(pub Bytes);

impl<'de> Deserialize<'de> for ImageIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ImageIn, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        // A URL of data, as browsers make it.
        let digits = text.split_once(";base64,").map_or(&*text, |(_, digits)| digits);
        let bytes = BASE64_STANDARD.decode(digits);
        bytes.map(|bytes| ImageIn(bytes.into())).map_err(|error| {
            serde::de::Error::custom(format!("image takes the bytes of a file in base64: {error}"))
        })
    }
}

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
    image: Option<ImageIn>,
) -> Result<Content, Problem> {
    match (text, html, hash, signature, image) {
        (Some(text), None, None, None, None) => Ok(Content::Text(text)),
        (None, Some((html, which)), None, None, None) => Ok(Content::Html(html, which)),
        (None, None, Some(hash), None, None) => Ok(Content::Hash(hash)),
        (None, None, None, Some(signature), None) => Ok(Content::Signature(signature.0)),
        (None, None, None, None, Some(image)) => Ok(Content::Image(image.0)),
        _ => Err(Problem::new(
            Code::InvalidField,
            "exactly one of text, html, image, hash and signature is needed, or features of a document",
        )),
    }
}
