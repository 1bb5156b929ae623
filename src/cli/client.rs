//! What the commands that talk to a server share: its address, a runtime, errors in words.

use std::future::Future;

use clap::Args;
use reqwest::{Client, Response};
use serde_json::Value;

use super::Failure;
use crate::ids::CollectionName;

#[derive(Clone, Debug, Args)]
pub(super) struct Server {
    /// The server
    #[arg(long, default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,
}

impl Server {
    /// The server at this URL.
    pub(super) fn at(url: String) -> Server {
        Server { url }
    }

    /// The URL of a route, which begins with a slash.
    pub(super) fn route(&self, route: &str) -> String {
        format!("{}{route}", self.url.trim_end_matches('/'))
    }

    /// The URL of a route of a collection.
    pub(super) fn collection_route(&self, collection: &CollectionName, route: &str) -> String {
        self.route(&format!("/collections/{collection}{route}"))
    }

    /// An error of the transport, with what to do about the commonest.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut failure = Failure::of(error, 1);
        if error.is_connect() {
            failure.message =
                format!("no server answers at {}: is it running? ({})", self.url, failure.message);
        }
        failure
    }
}

/// A client without proxies: what it talks to is named on the command line.
pub(super) fn client() -> Result<Client, Failure> {
    Client::builder().no_proxy().build().map_err(|error| Failure::of(&error, 1))
}

/// Parses a collection's name on the command line.
pub(super) fn collection_name(text: &str) -> Result<CollectionName, String> {
    CollectionName::new(text).map_err(|error| error.to_string())
}

/// The response, or the problem that it describes.
pub(super) async fn checked(response: Response) -> Result<Response, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.text().await.unwrap_or_default();
    let problem: Option<Value> = serde_json::from_str(&body).ok();
    let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str()).unwrap_or(&body);
    Err(Failure::new(format!("the server answered {status}: {detail}")))
}

pub(super) fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
