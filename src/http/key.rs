//! `GET /key`: what the key of a request may do, so that a program can find out before it tries.

use axum::extract::Extension;

use super::access::RequestKey;
use super::extract::NoParams;
use super::body::Json;
use super::route::Route;
use super::wire::KeyOut;

/// Returns what the key of the request may do.
///
/// If the server requires no keys, every request may do everything.
#[utoipa::path(
    get, path = Route::Key.path(), tag = "operations", operation_id = "get_key",
    responses((status = 200, description = "What the key may do.", body = KeyOut))
)]
pub(super) async fn key(_: NoParams, key: Option<Extension<RequestKey>>) -> Json<KeyOut> {
    Json(KeyOut::new(key.as_ref().map(|Extension(RequestKey(held))| &held.key)))
}
