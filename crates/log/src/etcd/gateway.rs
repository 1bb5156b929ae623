//! Requests to etcd's HTTP gateway: endpoints, retries, the token, and the identity of the etcd cluster.
//!
//! *Invariants*
//! - Every request asks for a server that has a leader. A server that is cut off from the majority then
//!   refuses at once, and the next one is tried.
//! - Every answer comes from the etcd cluster that answered first, or that the settings name.
//! - A call reports whether any of its tries may have had an effect.
//!
//! *Absent*: the meaning of requests; whether a request can be repeated is decided by the caller.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::refusal::Kind;
use super::settings::{Credentials, EtcdSettings};
use super::wire::{Authenticate, Headed, Header, Line, RefusalBody, StreamError, Token};
use crate::{Failure, LogError};

/// The pause after all endpoints have failed once. It doubles after every round.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause: an election takes one to two seconds, and the requests are small.
const LAST_PAUSE: Duration = Duration::from_millis(250);
/// The header by which the gateway passes "require a leader" to etcd.
const REQUIRE_LEADER: (&str, &str) = ("Grpc-Metadata-hasleader", "true");

/// A token; `None` if etcd does not ask for one.
pub(super) type AuthToken = Option<Arc<str>>;

/// The servers of an etcd cluster.
pub(super) struct Gateway {
    http: reqwest::Client,
    endpoints: Vec<String>,
    /// The endpoint that answered last. All requests use it.
    preferred: AtomicUsize,
    credentials: Option<Credentials>,
    /// `None` before the first request. Locked while a new token is requested, so that many requests with an
    /// expired token cause one.
    token: Mutex<Option<AuthToken>>,
    etcd_cluster: OnceLock<u64>,
    first_try: Duration,
    /// The prefix of all keys, for advice.
    prefix: String,
}

/// The answer to a call.
pub(super) struct Answered<T> {
    pub(super) answer: T,
    /// The failure of an earlier try of this call that may have had an effect.
    pub(super) unclear: Option<Failure>,
}

/// A call without an answer.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) failure: Failure,
    pub(super) kind: Kind,
    /// Whether any try may have had, or may still have, an effect.
    pub(super) is_unclear: bool,
}

impl Lost {
    /// One failed try whose effect does not matter.
    pub(super) fn of(failure: Failure) -> Lost {
        Lost { kind: failure.kind(), failure, is_unclear: false }
    }
}

impl Gateway {
    pub(super) fn new(settings: &EtcdSettings, prefix: &str) -> Result<Gateway, LogError> {
        let etcd_cluster = OnceLock::new();
        if let Some(expected) = settings.etcd_cluster {
            let _ = etcd_cluster.set(expected);
        }
        Ok(Gateway {
            endpoints: settings.checked_endpoints()?,
            http: settings.http_client()?,
            preferred: AtomicUsize::new(0),
            credentials: settings.credentials.clone(),
            token: Mutex::default(),
            etcd_cluster,
            first_try: settings.first_try,
            prefix: prefix.to_owned(),
        })
    }

    /// The number of endpoints.
    pub(super) fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// How long one try of a small request may take.
    pub(super) fn first_try(&self) -> Duration {
        self.first_try
    }

    /// The URL of an endpoint.
    pub(super) fn url(&self, at: usize) -> &str {
        &self.endpoints[at]
    }

    /// The identity of the etcd cluster; 0 before the first answer.
    pub(super) fn etcd_cluster(&self) -> u64 {
        self.etcd_cluster.get().copied().unwrap_or_default()
    }

    /// The endpoint to use now.
    pub(super) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed)
    }

    /// Uses the next endpoint, unless another request has already left this one.
    pub(super) fn leave(&self, at: usize) {
        let next = (at + 1) % self.endpoints.len();
        let _ = self.preferred.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Sends a request until a server answers, for at most `within`.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        route: &str,
        request: &impl Serialize,
        within: Duration,
    ) -> Result<T, Lost> {
        self.call_once(route, request, within).await.map(|answered| answered.answer)
    }

    /// As [`Gateway::call`], for a request that must have its effect once: the caller learns what is unclear.
    pub(super) async fn call_once<T: DeserializeOwned>(
        &self,
        route: &str,
        request: &impl Serialize,
        within: Duration,
    ) -> Result<Answered<T>, Lost> {
        let body = encode(request);
        let deadline = Instant::now() + within;
        let (mut patience, mut pause, mut unclear) = (self.first_try, FIRST_PAUSE, None);
        for tries in 1_usize.. {
            let at = self.preferred();
            let left = deadline.saturating_duration_since(Instant::now());
            let failure = match self.attempt(at, route, body.clone(), patience.min(left)).await {
                Ok(answer) => return Ok(Answered { answer, unclear }),
                Err(failure) => failure,
            };
            let kind = failure.kind();
            if !kind.is_transient() || Instant::now() + pause >= deadline {
                let is_unclear = kind == Kind::Unclear || unclear.is_some();
                return Err(Lost { failure, kind, is_unclear });
            }
            tracing::debug!(route, %failure, "a request to etcd failed and is retried");
            self.leave(at);
            if matches!(failure, Failure::Elapsed { .. }) {
                patience *= 2;
            }
            if kind == Kind::Unclear {
                unclear = Some(failure);
            }
            if tries.is_multiple_of(self.endpoints.len()) {
                sleep(pause).await;
                pause = LAST_PAUSE.min(pause * 2);
            }
        }
        unreachable!("the loop above has no end")
    }

    /// Sends a request to one server, for at most `patience`. If the token has expired, it requests a new
    /// one and sends the request once more.
    pub(super) async fn attempt<T: DeserializeOwned>(
        &self,
        at: usize,
        route: &str,
        body: Bytes,
        patience: Duration,
    ) -> Result<T, Failure> {
        let answered = async {
            let token = self.token(at, None).await?;
            match self.exchange(at, route, body.clone(), token.clone()).await {
                Err(failure) if failure.kind() == Kind::TokenExpired && self.credentials.is_some() => {
                    let token = self.token(at, Some(token)).await?;
                    self.exchange(at, route, body, token).await
                }
                other => other,
            }
        };
        timeout(patience, answered).await.unwrap_or_else(|_| {
            Err(Failure::Elapsed { url: self.url(at).to_owned(), millis: patience.as_millis() })
        })
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        at: usize,
        route: &str,
        body: Bytes,
        token: AuthToken,
    ) -> Result<T, Failure> {
        let response = self.open(at, route, body, token).await?;
        let text = response.bytes().await.map_err(|source| self.broken(at, source))?;
        let headed: Headed = self.decode(at, &text)?;
        self.verify(at, &headed.header)?;
        self.decode(at, &text)
    }

    /// Sends a request to one server, and returns when it begins to answer.
    pub(super) async fn open(
        &self,
        at: usize,
        route: &str,
        body: Bytes,
        token: AuthToken,
    ) -> Result<Response, Failure> {
        let url = format!("{}{route}", self.url(at));
        let (name, value) = REQUIRE_LEADER;
        let mut request = self.http.post(url).header(name, value).header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, &*token);
        }
        let response = request.body(body).send().await.map_err(|source| self.broken(at, source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.bytes().await.unwrap_or_default();
        Err(self.refused(at, &text).unwrap_or_else(|| self.malformed(at, format!("HTTP status {status}"))))
    }

    /// The page of metrics of one server.
    pub(super) async fn metrics(&self, at: usize) -> Result<String, Failure> {
        let request = self.http.get(format!("{}/metrics", self.url(at))).timeout(self.first_try);
        let response = request.send().await.map_err(|source| self.broken(at, source))?;
        response.text().await.map_err(|source| self.broken(at, source))
    }

    /// The token for a request; a new one if there is none or if it is the expired one.
    pub(super) async fn token(&self, at: usize, expired: Option<AuthToken>) -> Result<AuthToken, Failure> {
        let Some(Credentials { user, password }) = &self.credentials else {
            return Ok(None);
        };
        let mut known = self.token.lock().await;
        if let Some(token) = known.as_ref().filter(|token| expired.as_ref() != Some(*token)) {
            return Ok(token.clone());
        }
        let body = encode(&Authenticate { name: user, password });
        // Boxed, because the types of the two functions contain each other otherwise.
        let token = match Box::pin(self.exchange::<Token>(at, "/v3/auth/authenticate", body, None)).await {
            Ok(fresh) => Some(fresh.token.into()),
            // As etcd's own clients do: access can be restricted later without a restart here.
            Err(failure) if failure.is_without_authentication() => None,
            Err(failure) => return Err(failure),
        };
        *known = Some(token.clone());
        Ok(token)
    }

    /// Checks that an answer comes from the expected etcd cluster. Some answers have no header.
    pub(super) fn verify(&self, at: usize, header: &Header) -> Result<(), Failure> {
        let found = header.cluster_id;
        let expected = if found == 0 { 0 } else { *self.etcd_cluster.get_or_init(|| found) };
        if found == expected {
            return Ok(());
        }
        Err(Failure::Foreign { url: self.url(at).to_owned(), expected, found })
    }

    /// The error for a call that has no effect, or whose effect does not matter.
    pub(super) fn error(&self, lost: Lost) -> LogError {
        match (lost.kind, lost.failure) {
            (Kind::Foreign, Failure::Foreign { url, expected, found }) => {
                LogError::OtherEtcd { endpoint: url, expected, found }
            }
            (Kind::Full, _) => LogError::Full,
            (Kind::Unauthorized | Kind::TokenExpired, failure) => {
                LogError::Unauthorized(failure, self.prefix.clone())
            }
            (Kind::NotDone | Kind::Unclear, source) => {
                LogError::Unavailable { endpoints: self.endpoints.join(", "), source }
            }
            (_, failure) => LogError::Refused(failure),
        }
    }

    pub(super) fn broken(&self, at: usize, source: reqwest::Error) -> Failure {
        Failure::Transport { url: self.url(at).to_owned(), source: source.without_url() }
    }

    pub(super) fn malformed(&self, at: usize, what: String) -> Failure {
        Failure::Malformed { url: self.url(at).to_owned(), what }
    }

    pub(super) fn decode<T: DeserializeOwned>(&self, at: usize, text: &[u8]) -> Result<T, Failure> {
        serde_json::from_slice(text).map_err(|error| self.malformed(at, error.to_string()))
    }

    /// The answer in one line of a stream.
    pub(super) fn decode_line<T: DeserializeOwned>(&self, at: usize, line: &[u8]) -> Result<T, Failure> {
        match self.decode::<Line<T>>(at, line)? {
            Line { error: Some(StreamError { grpc_code, message }), .. } => {
                Err(Failure::Refused { url: self.url(at).to_owned(), code: grpc_code, message })
            }
            Line { result: Some(result), .. } => Ok(result),
            Line { .. } => Err(self.malformed(at, "a line has neither a result nor an error".to_owned())),
        }
    }

    /// The refusal in the body of an answer, unless the body is not etcd's.
    fn refused(&self, at: usize, text: &[u8]) -> Option<Failure> {
        let body: RefusalBody = serde_json::from_slice(text).ok()?;
        let message = body.message.or(body.error)?;
        Some(Failure::Refused { url: self.url(at).to_owned(), code: body.code.unwrap_or(2), message })
    }
}

/// A request as JSON.
pub(super) fn encode(request: &impl Serialize) -> Bytes {
    serde_json::to_vec(request).expect("a request has only strings and numbers").into()
}
