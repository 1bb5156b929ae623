//! `POST /compare`: two of text, page, stored document and hash side by side.

use axum::extract::{Request, State as From_};

use super::State;
use super::deadline::Deadline;
use super::error::{BodyRefused, NotFound, Problem, Refused, Unavailable};
use super::extract::{NoParams, Target, check_type, parse_aside, parse_object, read};
use super::json::Json;
use super::route::Route;
use super::wire::{CompareIn, ComparisonOut};

/// Compares two of text, page, stored document and hash, and says why they match or do not.
///
/// Features, their similarity and the word-by-word comparison are there if both texts are: a stored document has
/// its text if the collection keeps texts.
#[utoipa::path(
    post, path = Route::Compare.path(), tag = "fingerprints",
    request_body = CompareIn,
    responses(
        (status = 200, description = "Both side by side.", body = ComparisonOut),
        BodyRefused, NotFound, Refused, Unavailable,
    )
)]
pub(super) async fn compare(
    From_(state): From_<State>,
    _: NoParams,
    Target(collection): Target,
    deadline: Deadline,
    request: Request,
) -> Result<Json<ComparisonOut>, Problem> {
    check_type(request.headers(), &["application/json"])?;
    let bytes = read(request, 2 * state.service.limits().document_bytes + 4096).await?;
    let wanted: CompareIn = parse_aside(&state, bytes, |bytes| parse_object(bytes)).await?;
    let (profile, k) = (wanted.profile.clone(), wanted.k);
    let sides = wanted.sides(state.service.limits().document_bytes)?;
    let comparing = state.service.compare(&collection, sides, profile.as_deref(), k);
    Ok(Json(ComparisonOut::from(deadline.query(comparing).await?)))
}
