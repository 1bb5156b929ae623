//! A thin client of the service: where it is, which key it is sent, and what it says when it refuses.
//!
//! It knows no route: whoever uses it names them, as the contract does. The command line and the tests stand on it.
//! It goes through no proxy, because what it talks to is named by whoever runs it, and it does not try again: only the
//! caller knows whether a request may be sent twice. *Absent*: TLS; the client library would bring a second cryptography.

use std::fmt;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;

/// A server, and how it is talked to.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: Option<String>,
}

/// Its key stays out of every log.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What a refusal says, as far as programs act on it.
#[derive(Clone, Debug, Deserialize)]
pub struct Refusal {
    /// The kind of error; never changes.
    pub code: String,
    /// What is wrong, and the way out.
    pub detail: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL asks for TLS.
    #[error(
        "{url} asks for TLS, which this program speaks as a server alone: use curl, or an address on this machine without TLS"
    )]
    Encrypted {
        /// The server.
        url: String,
    },
    /// There is no connection, or it broke.
    #[error("{}", if source.is_connect() { format!("no server answers at {url}: is it running?") } else { format!("the connection to {url} failed") })]
    Transport {
        /// The server.
        url: String,
        /// What happened.
        source: reqwest::Error,
    },
    /// The server refused.
    #[error("the server answered {status}: {}", refusal.detail)]
    Refused {
        /// The status.
        status: StatusCode,
        /// Why.
        refusal: Refusal,
    },
}

impl Client {
    /// A client of the server at this URL, with the key if it asks for one.
    ///
    /// # Errors
    /// [`ClientError::Encrypted`] for a URL of HTTPS; [`ClientError::Transport`] if the system has no room.
    pub fn new(url: &str, key: Option<String>) -> Result<Client, ClientError> {
        let url = url.trim_end_matches('/').to_owned();
        if url.starts_with("https:") {
            return Err(ClientError::Encrypted { url });
        }
        let http = reqwest::Client::builder().no_proxy().build();
        let http = http.map_err(|source| ClientError::Transport { url: url.clone(), source })?;
        Ok(Client { http, url, key })
    }

    /// The URL of a route, which begins with a slash.
    pub fn url(&self, route: &str) -> String {
        format!("{}{route}", self.url)
    }

    /// A request to a route.
    pub fn request(&self, method: Method, route: &str) -> RequestBuilder {
        let request = self.http.request(method, self.url(route));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`ClientError::Transport`], or [`ClientError::Refused`] for every status that is no success.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|source| self.broken(source))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        let refusal = serde_json::from_str(&text)
            .unwrap_or_else(|_| Refusal { code: String::new(), detail: text.chars().take(1_000).collect() });
        Err(ClientError::Refused { status, refusal })
    }

    /// The error of a connection that broke later.
    pub fn broken(&self, source: reqwest::Error) -> ClientError {
        ClientError::Transport { url: self.url.clone(), source }
    }
}
