//! The server as its users see it: routes, JSON, and what can go wrong on the way.
//!
//! A question that the server is too busy for is asked again when the server says so; how often that happened
//! is counted, because it belongs to the figures.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How often a question is repeated that the server is too busy for.
const TRIES: u32 = 20;
/// The wait before that, if the server names none.
const WAIT: Duration = Duration::from_secs(1);

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The transport failed.
    #[error("{request}: no answer from the server; is it running, and is --url right?")]
    Transport {
        /// Method and URL.
        request: String,
        /// What the transport says.
        source: reqwest::Error,
    },
    /// The server refused.
    #[error("{request}: {status}: {detail}")]
    Refused {
        /// Method and URL.
        request: String,
        /// Its status.
        status: StatusCode,
        /// What the problem says.
        detail: String,
    },
    /// The server's answer is not what the contract promises.
    #[error("{request}: {breach}")]
    Contract {
        /// Method and URL.
        request: String,
        /// What is wrong with the answer.
        breach: String,
    },
    /// A file of a set cannot be read.
    #[error("{}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The labels make no sense, or a set is not known.
    #[error("labels: {0}")]
    Labels(String),
}

impl Failure {
    /// A file that cannot be read.
    pub fn file(path: &Path, source: io::Error) -> Failure {
        Failure::File { path: path.to_owned(), source }
    }

    /// The message and all its causes in one line.
    pub fn with_causes(&self) -> String {
        let (mut message, mut cause) = (self.to_string(), self.source());
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        message
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    pub(super) client: Client,
    url: Url,
    busy: AtomicU64,
}

impl Server {
    /// The server at a URL; it is not asked anything yet.
    pub fn new(url: &str) -> Result<Server, Failure> {
        let parsed = Url::parse(url).ok().filter(|url| !url.cannot_be_a_base());
        let url = parsed.ok_or_else(|| Failure::Labels(format!("--url {url:?} is no URL")))?;
        // Without proxies: what it talks to is named on the command line.
        let client = Client::builder().no_proxy().build();
        let client =
            client.map_err(|source| Failure::Transport { request: "starting the client".into(), source })?;
        Ok(Server { client, url, busy: AtomicU64::new(0) })
    }

    /// Name and version.
    pub async fn version(&self) -> Result<String, Failure> {
        let version: Value = self.json(Method::GET, &["version"], &[], None).await?;
        Ok(format!(
            "{} {}",
            version["name"].as_str().unwrap_or("?"),
            version["version"].as_str().unwrap_or("?")
        ))
    }

    /// How often the server was too busy so far; each time the question was repeated later.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// The URL of a route; the segments are escaped, so that ids may hold any character.
    pub fn route(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// The answer to a question, in JSON; a question that the server is too busy for is asked again.
    pub async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        let url = self.route(segments, query);
        let name = format!("{method} {url}");
        let request = || {
            let request = self.client.request(method.clone(), url.clone());
            body.iter().fold(request, RequestBuilder::json)
        };
        let response = self.patiently(&name, request).await?;
        let bytes =
            response.bytes().await.map_err(|source| Failure::Transport { request: name.clone(), source })?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::Contract { request: name, breach: format!("the answer: {error}") })
    }

    /// A response that is no refusal, asked for again while the server is too busy.
    pub async fn patiently(
        &self,
        name: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Response, Failure> {
        for _ in 1..TRIES {
            let response = sent(name, request()).await?;
            let status = response.status();
            if status != StatusCode::SERVICE_UNAVAILABLE && status != StatusCode::TOO_MANY_REQUESTS {
                return accepted(name, response).await;
            }
            self.busy.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(wait(&response)).await;
        }
        accepted(name, sent(name, request()).await?).await
    }
}

/// The response, whatever its status.
pub async fn sent(name: &str, request: RequestBuilder) -> Result<Response, Failure> {
    request.send().await.map_err(|source| Failure::Transport { request: name.to_owned(), source })
}

/// The response, or the problem that it describes.
pub async fn accepted(name: &str, response: Response) -> Result<Response, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.text().await.unwrap_or_default();
    let problem: Value = serde_json::from_str(&body).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or(&body).to_owned();
    Err(Failure::Refused { request: name.to_owned(), status, detail })
}

/// How long the server asks to be left alone.
fn wait(response: &Response) -> Duration {
    let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    header.and_then(|seconds| seconds.parse().ok()).map_or(WAIT, Duration::from_secs)
}
