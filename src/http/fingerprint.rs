//! `POST /fingerprint`: computes the fingerprints of texts. It stores nothing.

use std::borrow::Cow;

use axum::extract::{Request, State as From_};
use axum::response::{IntoResponse, Response};

use super::State;
use super::deadline::Deadline;
use super::error::{Code, Problem};
use super::extract::{Params, charset, check_type, parse_aside, parse_object, read};
use super::json::Json;
use super::responses::{BodyRefused, Refused, Unavailable};
use super::route::Route;
use super::wire::{
    CountedOut, Few, FingerprintIn, FingerprintOut, FingerprintedOneOrSeveral, FingerprintsOut, FormParams,
    check_size, in_form, page,
};
use crate::service::{Content, Given, Limits};

/// Computes the fingerprint of a text or a page, or the fingerprints of several texts.
///
/// A `text/plain` or `text/html` body is the same as `{"text"}` or `{"html"}`. Its charset is the one in the
/// content type, the one that the page declares, or a detected one (UTF-8, GBK, Big5 and others).
#[utoipa::path(
    post, path = Route::Fingerprint.path(), tag = "fingerprints", params(FormParams),
    request_body(content(
        (FingerprintIn = "application/json"), (String = "text/plain"), (String = "text/html")
    )),
    responses(
        (status = 200, description = "The fingerprint; with `texts`, an object with all `fingerprints`.",
            body = FingerprintedOneOrSeveral),
        BodyRefused, Refused, Unavailable,
    )
)]
pub(super) async fn fingerprint(
    From_(state): From_<State>,
    Params(params): Params<FormParams>,
    deadline: Deadline,
    request: Request,
) -> Result<Response, Problem> {
    let limits = *state.service.limits();
    let kind = check_type(request.headers(), &["application/json", "text/plain", "text/html"])?;
    let limit = match kind {
        "application/json" => limits.batch_bytes.max(limits.body_bytes()),
        "text/plain" => limits.document_bytes,
        _ => limits.page_bytes,
    };
    let charset = charset(request.headers()).map(str::to_owned);
    let bytes = read(request, limit).await?;
    let wanted = parse_aside(&state, deadline, bytes, move |bytes| {
        let decoded = |is_page| decode(bytes, charset.as_deref(), is_page);
        Ok(match kind {
            "application/json" => parse_object(bytes)?,
            "text/plain" => FingerprintIn { text: Some(decoded(false)?), ..FingerprintIn::default() },
            _ => FingerprintIn { html: Some(decoded(true)?), ..FingerprintIn::default() },
        })
    });
    let mut wanted: FingerprintIn = wanted.await?;
    let profile = state.service.profile(wanted.profile.as_deref())?;
    let (explain, form) = (wanted.explain, params.form());
    if let Some(given) = given(&mut wanted)? {
        let counted = deadline.query(state.service.count_given(profile, given)).await?;
        return Ok(in_form(form, || Json(CountedOut::new(counted, explain)).into_response()));
    }
    let is_list = wanted.texts.is_some();
    let contents = contents(wanted, &limits)?;
    if explain {
        let content = contents.into_iter().next().unwrap_or(Content::Text(String::new()));
        let explained = deadline.query(state.service.explain(profile, content)).await?;
        return Ok(in_form(form, || Json(FingerprintOut::from(explained)).into_response()));
    }
    let computed = deadline.query(state.service.fingerprint(profile, contents)).await?;
    let mut fingerprints: Vec<FingerprintOut> = computed.into_iter().map(FingerprintOut::from).collect();
    Ok(in_form(form, || match fingerprints.pop() {
        Some(one) if !is_list => Json(one).into_response(),
        last => {
            fingerprints.extend(last);
            Json(FingerprintsOut { fingerprints }).into_response()
        }
    }))
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
    let has_text = wanted.text.is_some() || wanted.html.is_some() || wanted.texts.is_some();
    if has_text || (features.is_some() && sums.is_some()) {
        let detail = "exactly one of text, html, texts, features and sums is needed";
        return Err(Problem::new(Code::InvalidField, detail));
    }
    let features = features.map(Few::given).unwrap_or_default();
    Ok(Some(Given { features, sums: sums.map(|sums| sums.0), bits, function, tie }))
}

fn contents(wanted: FingerprintIn, limits: &Limits) -> Result<Vec<Content>, Problem> {
    let most = limits.batch_items;
    let html = page(wanted.html, wanted.page)?;
    let contents: Vec<Content> = match (wanted.text, html, wanted.texts) {
        (Some(text), None, None) => vec![Content::Text(text)],
        (None, Some((html, which)), None) => vec![Content::Html(html, which)],
        (None, None, Some(_)) if wanted.explain => {
            let detail = "explain can be combined with text or html, not with texts; send one text at a time";
            return Err(Problem::field(Code::InvalidField, "/explain", detail));
        }
        (None, None, Some(Few(texts))) if texts.len() > most => {
            let detail = format!(
                "there are {} texts; at most {most} are accepted in one request (limits.batch_items)",
                texts.len()
            );
            return Err(Problem::field(Code::InvalidField, "/texts", detail));
        }
        (None, None, Some(Few(texts))) => texts.into_iter().map(Content::Text).collect(),
        _ => return Err(Problem::new(Code::InvalidField, "exactly one of text, html and texts is needed")),
    };
    contents.iter().try_for_each(|content| check_size("a text", content, limits))?;
    Ok(contents)
}

fn decode(bytes: &[u8], charset: Option<&str>, is_page: bool) -> Result<String, Problem> {
    let text = crate::service::decode(bytes, charset, is_page);
    text.map(Cow::into_owned)
        .map_err(|error| Problem::new(Code::MalformedRequest, format!("the body cannot be read: {error}")))
}
