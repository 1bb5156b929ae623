//! A thin client of the service: where it is, which key it is sent, and what it says when it refuses.
//!
//! It knows no route: whoever uses it names them, as the contract does. The command line and the tests stand on it.
//! It goes through no proxy, because what it talks to is named by whoever runs it, and it does not try again: only the
//! caller knows whether a request may be sent twice. Over TLS it trusts whom the system trusts, or the certificates of
//! one file and nobody else.

mod trust;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use reqwest::header::RETRY_AFTER;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tokio_rustls::rustls::crypto::ring;

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
    /// The file of certificates cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file holds no certificates.
    #[error("{} holds no certificate in PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to talk with.
    #[error(
        "there is no client for {url}: is it a URL, and does the system have certificates (--cacert names others)?"
    )]
    Unusable {
        /// The server.
        url: String,
        /// What happened.
        source: reqwest::Error,
    },
    /// There is no connection, or it broke.
    #[error("{}", broken_in_words(url, source))]
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
        /// After how long the same request may be taken, if the server says so.
        retry_after: Option<Duration>,
    },
}

impl Client {
    /// A client of the server at this URL, with the key if it asks for one. Of a URL of HTTPS the certificate has to
    /// be signed by one of this file, or to be one of them, if a file is named.
    ///
    /// # Errors
    /// [`ClientError::File`] and [`ClientError::Pem`] that name the file; [`ClientError::Unusable`] if the system has
    /// no certificates, or no room.
    pub fn new(url: &str, key: Option<String>, trusted: Option<&Path>) -> Result<Client, ClientError> {
        let url = url.trim_end_matches('/').to_owned();
        // Another part of the process may have named one before: then that one is used.
        let _ = ring::default_provider().install_default();
        let builder = reqwest::Client::builder().no_proxy();
        let builder = match trusted {
            Some(path) => builder.tls_backend_preconfigured(trust::only(path)?),
            // A system without certificates, such as a small container, can talk without TLS all the same.
            None if !is_encrypted(&url) => builder.tls_certs_only([]),
            None => builder,
        };
        let http = builder.build().map_err(|source| ClientError::Unusable { url: url.clone(), source })?;
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
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        let text = response.text().await.unwrap_or_default();
        let refusal = serde_json::from_str(&text)
            .unwrap_or_else(|_| Refusal { code: String::new(), detail: text.chars().take(1_000).collect() });
        Err(ClientError::Refused { status, refusal, retry_after })
    }

    /// The error of a connection that broke later.
    pub fn broken(&self, source: reqwest::Error) -> ClientError {
        ClientError::Transport { url: self.url.clone(), source }
    }
}

fn is_encrypted(url: &str) -> bool {
    url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}

fn broken_in_words(url: &str, error: &reqwest::Error) -> String {
    match (error.is_connect(), is_encrypted(url)) {
        (true, true) => {
            format!("no TLS with {url}: is it running, and is its certificate trusted (--cacert FILE)?")
        }
        (true, false) => format!("no server answers at {url}: is it running?"),
        (false, _) => format!("the connection to {url} failed"),
    }
}
