//! Fingerprints of texts and of given features. Nothing is stored.

use axum::extract::{Request, State as From_};
use utoipa_axum::routes;

use super::State;
use super::body::Json;
use super::deadline::Deadline;
use super::error::{Code, Problem};
use super::extract::{Params, charset, check_type, parse_aside, read};
use super::image_body::{self, WithImage};
use super::parse::parse_object;
use super::responses::{BodyRefused, Refused, Unavailable};
use super::route::{Need, Routes};
use super::wire::{
    Few, FingerprintIn, FingerprintOut, FingerprintsOut, FormParams, HashFormat, TextsIn, check_size, page,
};
use lookalike_keys::Role;
use lookalike_service::{Content, Decoded, Given, Limits};

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    let need = Need::Any(Role::Read).on_pool();
    all.of_server(need, routes!(fingerprint)).of_server(need, routes!(batch))
}

/// Computes the fingerprint of a text, a page, or given features.
///
/// A `text/plain` or `text/html` body is the same as `{"text"}` or `{"html"}`. Its charset is the one in the
/// content type, the one that the page declares, or a detected one (UTF-8, GBK, Big5 and others);
/// `charset` of the answer says which, whether it is guessed, and how many invalid bytes became U+FFFD.
///
/// An image can also be the body itself, as `image/jpeg`, `image/png`, `image/webp` or `image/gif`, or the
/// part `image` of a form (`multipart/form-data`) whose other parts are the members.
#[utoipa::path(
    post, path = "/fingerprint", tag = "fingerprints", params(FormParams),
    request_body(content(
        (FingerprintIn = "application/json"), (String = "text/plain"), (String = "text/html")
    )),
    responses(
        (status = 200, description = "The fingerprint.", body = FingerprintOut),
        BodyRefused, Refused, Unavailable,
    )
)]
async fn fingerprint(
    From_(state): From_<State>,
    Params(params): Params<FormParams>,
    deadline: Deadline,
    request: Request,
) -> Result<Json<FingerprintOut>, Problem> {
    let limits = *state.service.limits();
    if image_body::is_declared(request.headers()) {
        let WithImage { image, members } = image_body::read(request, &limits).await?;
        let wanted = FingerprintIn { image: Some(image), ..parse_object(&members)? };
        return of_image(&state, deadline, wanted, params.hash_format).await;
    }
    let kind = check_type(request.headers(), &["application/json", "text/plain", "text/html"])?;
    let limit = match kind {
        "application/json" => limits.body_bytes(),
        "text/plain" => limits.document_bytes,
        _ => limits.page_bytes,
    };
    let charset = charset(request.headers()).map(str::to_owned);
    let bytes = read(request, limit).await?;
    let wanted = parse_aside(&state, deadline, bytes, move |bytes| {
        if kind == "application/json" {
            return Ok((parse_object(bytes)?, None));
        }
        let is_page = kind == "text/html";
        let Decoded { text, charset } = decode(bytes, charset.as_deref(), is_page)?;
        let content = Some(text.into_owned());
        let (text, html) = if is_page { (None, content) } else { (content, None) };
        Ok((FingerprintIn { text, html, ..FingerprintIn::default() }, Some(charset)))
    });
    let (mut wanted, charset): (FingerprintIn, _) = wanted.await?;
    if wanted.image.is_some() {
        return of_image(&state, deadline, wanted, params.hash_format).await;
    }
    let profile = state.service.profile(wanted.profile.as_deref())?;
    let (explain, form) = (wanted.explain, params.hash_format);
    if let Some(given) = given(&mut wanted)? {
        let counted = deadline.query(state.service.count_given(profile, given)).await?;
        return Ok(Json(FingerprintOut::counted(counted, explain, form)));
    }
    let content = content(wanted, &limits)?;
    if explain {
        let explained = deadline.query(state.service.explain(profile, content)).await?;
        return Ok(Json(FingerprintOut::explained(explained, form).read_in(charset)));
    }
    let computed = deadline.query(state.service.fingerprint(profile, None, vec![content])).await?;
    let mut fingerprints = computed.into_iter();
    let fingerprint = fingerprints.next().expect("there is a fingerprint for each content");
    Ok(Json(FingerprintOut::new(fingerprint, form).read_in(charset)))
}

/// The fingerprint of an image.
async fn of_image(
    state: &State,
    deadline: Deadline,
    wanted: FingerprintIn,
    form: Option<HashFormat>,
) -> Result<Json<FingerprintOut>, Problem> {
    let FingerprintIn { image, text, html, features, sums, profile, explain, .. } = wanted;
    if text.is_some() || html.is_some() || features.is_some() || sums.is_some() {
        let detail = "exactly one of text, html, image, features and sums is needed";
        return Err(Problem::new(Code::InvalidField, detail));
    }
    if explain {
        let detail = "explain is for texts; POST /compare says in which bits two images differ";
        return Err(Problem::field(Code::InvalidField, "/explain", detail));
    }
    let profile = state.service.profile_of_images(profile.as_deref())?;
    let contents = image.map(|image| Content::Image(image.0)).into_iter().collect();
    let computed = deadline.query(state.service.fingerprint(profile, None, contents)).await?;
    let fingerprint = computed.into_iter().next().expect("there is a fingerprint for each image");
    Ok(Json(FingerprintOut::new(fingerprint, form)))
}

/// Computes the fingerprints of several texts, or of several images.
#[utoipa::path(
    post, path = "/batch/fingerprint", tag = "fingerprints", operation_id = "batch_fingerprint",
    params(FormParams), request_body = TextsIn,
    responses(
        (status = 200, description = "The fingerprints, in the order of the texts.", body = FingerprintsOut),
        BodyRefused, Refused, Unavailable,
    )
)]
async fn batch(
    From_(state): From_<State>,
    Params(params): Params<FormParams>,
    deadline: Deadline,
    request: Request,
) -> Result<Json<FingerprintsOut>, Problem> {
    let limits = *state.service.limits();
    check_type(request.headers(), &["application/json"])?;
    let bytes = read(request, limits.batch_bytes).await?;
    let wanted: TextsIn = parse_aside(&state, deadline, bytes, |bytes| parse_object(bytes)).await?;
    let (profile, name) =
        (wanted.profile.as_deref(), if wanted.images.is_some() { "images" } else { "texts" });
    let (profile, contents) = match (wanted.texts, wanted.images) {
        (Some(Few(texts)), None) => {
            (state.service.profile(profile)?, texts.into_iter().map(Content::Text).collect::<Vec<_>>())
        }
        (None, Some(Few(images))) => {
            let contents = images.into_iter().map(|image| Content::Image(image.0)).collect();
            (state.service.profile_of_images(profile)?, contents)
        }
        _ => return Err(Problem::new(Code::InvalidField, "exactly one of texts and images is needed")),
    };
    let (count, most) = (contents.len(), limits.batch_items);
    if count > most {
        let detail = format!(
            "there are {count} {name}; at most {most} are accepted in one request (limits.batch_items)"
        );
        return Err(Problem::field(Code::InvalidField, format!("/{name}"), detail));
    }
    contents.iter().try_for_each(|content| check_size("a text", content, &limits))?;
    let computed = deadline.query(state.service.fingerprint(profile, None, contents)).await?;
    let out = |made| FingerprintOut::new(made, params.hash_format);
    Ok(Json(FingerprintsOut { fingerprints: computed.into_iter().map(out).collect() }))
}

/// The features or sums of a request, if it has any.
fn given(wanted: &mut FingerprintIn) -> Result<Option<Given>, Problem> {
    let (features, sums) = (wanted.features.take(), wanted.sums.take());
    let (bits, function, tie) = (wanted.bits.take(), wanted.function.take(), wanted.tie.take());
    if features.is_none() && sums.is_none() {
        let misplaced =
            [("/bits", bits.is_some()), ("/function", function.is_some()), ("/tie", tie.is_some())];
        return match misplaced.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(None),
            Some((field, _)) => {
                let detail = "bits, function and tie can be combined with features or sums; a text is \
                              fingerprinted by a profile";
                Err(Problem::field(Code::InvalidField, field, detail))
            }
        };
    }
    let has_text = wanted.text.is_some() || wanted.html.is_some();
    if has_text || (features.is_some() && sums.is_some()) {
        let detail = "exactly one of text, html, features and sums is needed";
        return Err(Problem::new(Code::InvalidField, detail));
    }
    let features = features.map(Few::given).unwrap_or_default();
    Ok(Some(Given { features, sums: sums.map(|sums| sums.0), bits, function, tie }))
}

fn content(wanted: FingerprintIn, limits: &Limits) -> Result<Content, Problem> {
    let content = match (wanted.text, page(wanted.html, wanted.page)?) {
        (Some(text), None) => Content::Text(text),
        (None, Some((html, which))) => Content::Html(html, which),
        _ => {
            let detail = "exactly one of text, html, features and sums is needed; POST \
                          /batch/fingerprint takes several texts";
            return Err(Problem::new(Code::InvalidField, detail));
        }
    };
    check_size("a text", &content, limits)?;
    Ok(content)
}

fn decode<'a>(bytes: &'a [u8], charset: Option<&str>, is_page: bool) -> Result<Decoded<'a>, Problem> {
    lookalike_service::decode(bytes, charset, is_page)
        .map_err(|error| Problem::new(Code::MalformedRequest, format!("the body cannot be read: {error}")))
}
