//! A thin HTTP client of the service: its address, the key, and the errors that refusals become.
//!
//! It knows no routes: its callers name them. The command line, replicas and the tests use it. It uses no
//! proxy, because the user names the server explicitly, and it never retries, because only the caller knows
//! whether a request may be sent twice. Over TLS it trusts the certificates that the system trusts, or only
//! those of a given file.

#![deny(unreachable_pub)]

mod trust;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use reqwest::header::RETRY_AFTER;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tokio_rustls::rustls::crypto::ring;

/// Which certificates a client accepts over TLS.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those that the system trusts.
    System,
    /// Those in this file, and those signed by one in it.
    Authorities(&'a Path),
    /// The first one in this file, whatever its name and its dates: the certificate of a server on this
    /// machine, which is reached by its address.
    Own(&'a Path),
}

/// A server and the means to send it requests.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: Option<String>,
}

/// Leaves out the key, which must not reach a log.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The part of a refusal that programs act on.
#[derive(Clone, Debug, Deserialize)]
pub struct Refusal {
    /// The kind of error, as a stable code.
    pub code: String,
    /// What is wrong, and how to correct it.
    pub detail: String,
}

/// Why a request has no successful response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of certificates cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file holds no certificates.
    #[error("{} holds no certificate in PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
    },
    /// The address of the server is not a URL.
    #[error("{url:?} is not the URL of a server: give one such as http://127.0.0.1:8080")]
    Address {
        /// The address.
        url: String,
    },
    /// No client can be created.
    #[error(
        "no client can be created for {url}: is it a URL, and does the system have certificates \
         (--cacert names others)?"
    )]
    Unusable {
        /// The server.
        url: String,
        /// The error of the HTTP library.
        source: reqwest::Error,
    },
    /// The connection failed, or was never made.
    #[error("{}", broken_in_words(url, source))]
    Transport {
        /// The server.
        url: String,
        /// The error of the HTTP library.
        source: reqwest::Error,
    },
    /// The server refused.
    #[error("the server answered {status}: {}", refusal.detail)]
    Refused {
        /// The status.
        status: StatusCode,
        /// The reason.
        refusal: Refusal,
        /// How long to wait before the same request may succeed, if the server says so.
        retry_after: Option<Duration>,
    },
}

impl Client {
    /// A client of the server at this URL, which sends `key` with every request if there is one.
    ///
    /// # Errors
    /// [`ClientError::File`] and [`ClientError::Pem`] for the file; [`ClientError::Unusable`] if the system
    /// has no certificates or no memory.
    pub fn new(url: &str, key: Option<String>, trust: Trust<'_>) -> Result<Client, ClientError> {
        let url = url.trim_end_matches('/').to_owned();
        if reqwest::Url::parse(&url).is_err() || !url.starts_with("http") {
            return Err(ClientError::Address { url });
        }
        // This fails if the process has a default already, which is then used.
        let _ = ring::default_provider().install_default();
        let builder = reqwest::Client::builder().no_proxy();
        let builder = match trust {
            Trust::Authorities(path) => builder.tls_backend_preconfigured(trust::only(path)?),
            Trust::Own(path) => builder.tls_backend_preconfigured(trust::exactly(path)?),
            // Without TLS, a system without certificates is sufficient, such as a small container.
            Trust::System if !is_encrypted(&url) => builder.tls_certs_only([]),
            Trust::System => builder,
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
    /// [`ClientError::Transport`], or [`ClientError::Refused`] for every status except success.
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

    /// The error for a connection that breaks after the head of the response.
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

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
