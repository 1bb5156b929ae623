//! Bodies with an image: its bytes alone, or a form (`multipart/form-data`) with other members beside it.
//!
//! In a form the part `image` has the bytes. Every other part is a member of the JSON body of the route:
//! `id`, `profile` and `cursor` are texts, the others are written as in JSON.

use std::convert::Infallible;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use futures::stream;

use super::error::{Code, Problem};
use super::extract::{check_type, read_sized};
use super::parse::parse_object;
use super::wire::{DocumentIn, ImageIn};
use lookalike_service::Limits;

/// The types of these bodies.
const TYPES: [&str; 5] = ["image/jpeg", "image/png", "image/webp", "image/gif", FORM];
const FORM: &str = "multipart/form-data";
/// The parts whose value is a text, not JSON.
const TEXTS: [&str; 3] = ["id", "profile", "cursor"];

/// An image and the members beside it.
pub(super) struct WithImage {
    /// The image.
    pub(super) image: ImageIn,
    /// The members, as a JSON object.
    pub(super) members: Vec<u8>,
}

/// Whether the type of the body is that of an image or a form.
pub(super) fn is_declared(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = text.trim_start().to_ascii_lowercase();
    text.starts_with("image/") || text.starts_with(FORM)
}

/// Reads such a body.
pub(super) async fn read(request: Request, limits: &Limits) -> Result<WithImage, Problem> {
    let is_form = check_type(request.headers(), &TYPES)? == FORM;
    if is_form {
        refuse_unknown_pages(request.headers())?;
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = kind.map(multer::parse_boundary);
    let bytes = read_sized(request, limits.batch_bytes, "scale the image down, or raise the limit").await?;
    match boundary {
        Some(boundary) if is_form => {
            let boundary = boundary.map_err(|error| wrong(&error))?;
            form(multer::Multipart::new(stream::iter([Ok::<_, Infallible>(bytes)]), boundary)).await
        }
        _ => Ok(WithImage { image: ImageIn(bytes), members: b"{}".to_vec() }),
    }
}

/// Refuses the form of a browser that does not say which page sent it. `browser` has refused those of others.
/// Only browsers before 2020 send a form without `Origin`; a page cannot change these headers of a form, and
/// its reader may change `User-Agent`.
fn refuse_unknown_pages(headers: &HeaderMap) -> Result<(), Problem> {
    let of_pages = [header::REFERER, header::COOKIE, header::UPGRADE_INSECURE_REQUESTS];
    let is_browser = of_pages.iter().any(|name| headers.contains_key(name))
        || headers.get(header::USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"Mozilla/"));
    if !is_browser || headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let detail = "a form of a browser needs the header Origin, which says what page sent it: send the image \
                  as a body of its type";
    Err(Problem::new(Code::UnsupportedMediaType, detail))
}

/// The document of such a body.
pub(super) async fn document(request: Request, limits: &Limits) -> Result<DocumentIn, Problem> {
    let WithImage { image, members } = read(request, limits).await?;
    let mut document: DocumentIn = parse_object(&members)?;
    document.image = Some(image);
    Ok(document)
}

async fn form(mut parts: multer::Multipart<'_>) -> Result<WithImage, Problem> {
    let (mut image, mut members) = (None::<Bytes>, serde_json::Map::new());
    while let Some(part) = parts.next_field().await.map_err(|error| wrong(&error))? {
        let name = part.name().unwrap_or_default().to_owned();
        if name == "image" {
            if image.replace(part.bytes().await.map_err(|error| wrong(&error))?).is_some() {
                return Err(Problem::field(Code::InvalidField, "/image", "a form has one part image"));
            }
            continue;
        }
        let text = part.text().await.map_err(|error| wrong(&error))?;
        let value = if TEXTS.contains(&name.as_str()) {
            text.into()
        } else {
            serde_json::from_str(&text).map_err(|error| {
                let detail =
                    format!("the part is not JSON, such as {{\"a\": 1}}, 7, true or \"text\": {error}");
                Problem::field(Code::InvalidField, format!("/{name}"), detail)
            })?
        };
        members.insert(name, value);
    }
    let detail = "the form has no part image with the bytes of a file, with curl as -F image=@photo.jpg";
    let image = image.ok_or_else(|| Problem::field(Code::InvalidField, "/image", detail))?;
    let members = serde_json::Value::Object(members).to_string().into_bytes();
    Ok(WithImage { image: ImageIn(image), members })
}

fn wrong(error: &multer::Error) -> Problem {
    Problem::new(Code::MalformedRequest, format!("the form cannot be read: {error}"))
}
