//! `POST /compare`: compares any two of text, page, stored document and hash.

use axum::extract::{Request, State as From_};
use utoipa_axum::routes;

use super::State;
use super::body::Json;
use super::deadline::Deadline;
use super::error::Problem;
use super::extract::{Params, Target, check_type, parse_aside, read};
use super::parse::parse_object;
use super::responses::{BodyRefused, Mismatch, NotFound, Refused, Unavailable};
use super::route::{READ, Routes};
use super::wire::{CompareIn, ComparisonOut, FormParams};

/// The routes of this module.
pub(super) fn routes(all: Routes) -> Routes {
    all.of_optional_collection(READ.on_pool(), routes!(compare))
}

/// Compares any two of text, page, stored document and hash, and explains why they match or do not.
///
/// The answer has features, their similarity and a comparison by words if both texts are known. The text of
/// a stored document is known if the collection keeps texts.
#[utoipa::path(
    post, path = "/compare", tag = "fingerprints",
    params(FormParams), request_body = CompareIn,
    responses(
        (status = 200, description = "The comparison.", body = ComparisonOut),
        BodyRefused, NotFound, Mismatch, Refused, Unavailable,
    )
)]
async fn compare(
    From_(state): From_<State>,
    Params(params): Params<FormParams>,
    Target(collection): Target,
    deadline: Deadline,
    request: Request,
) -> Result<Json<ComparisonOut>, Problem> {
    check_type(request.headers(), &["application/json"])?;
    let bytes = read(request, 2 * state.service.limits().body_bytes() + 4096).await?;
    let wanted: CompareIn = parse_aside(&state, deadline, bytes, |bytes| parse_object(bytes)).await?;
    let (profile, k, is_whole) = (wanted.profile.clone(), wanted.k, wanted.whole_diff);
    let sides = wanted.sides(params.hash_format, state.service.limits())?;
    let comparing = state.service.compare(&collection, sides, profile.as_deref(), k);
    Ok(Json(ComparisonOut::new(deadline.query(comparing).await?, is_whole, params.hash_format)))
}
