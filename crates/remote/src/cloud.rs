//! The connections to stores, made when they are needed, and the runtime on which their requests run.
//!
//! Callers are threads without a runtime, or with another one: they wait for an answer on a channel.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig,
};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use super::address::{Address, Kind, is_plain_loopback};
use super::hugging_face::{self, DataSet};
use super::{Error, Object};

/// A store, and what to check if it refuses.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) own: Arc<dyn ObjectStore>,
    pub(super) kind: Kind,
}

/// The connections to stores.
#[derive(Clone)]
pub struct Cloud(Arc<Inner>);

struct Inner {
    /// `None` while it ends.
    runtime: Option<Runtime>,
    stores: Mutex<HashMap<String, Store>>,
}

/// What an address means.
pub struct Found {
    /// The objects, in the order of their names, part by part.
    pub objects: Vec<Object>,
    /// Whether they are below the address.
    pub is_folder: bool,
}

impl Cloud {
    /// # Errors
    /// If no thread can be started.
    pub fn new() -> std::io::Result<Cloud> {
        // The same provider as everywhere; a second installation is none.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Cloud(Arc::new(Inner { runtime: Some(runtime), stores: Mutex::default() })))
    }

    /// The object at an address, or those below it.
    ///
    /// # Errors
    /// If there is none, or the store does not answer.
    pub fn find(&self, url: &str) -> Result<Found, Error> {
        let address = Address::parse(url)?;
        if address.kind == Kind::Web && address.is_folder {
            return Err(Error::Address {
                url: url.to_owned(),
                why: "a web server does not list its files: name each of them".to_owned(),
            });
        }
        let cloud = self.clone();
        let own = address.clone();
        let mut objects = self.wait(async move {
            match own.kind {
                Kind::HuggingFace => cloud.of_data_set(&own).await,
                _ => cloud.of_store(&own).await,
            }
        })?;
        if objects.is_empty() {
            return Err(Error::Missing { url: url.to_owned() });
        }
        let is_folder = address.is_folder || objects.iter().all(|object| object.path() != address.path);
        objects.sort_by(|a, b| a.path().split('/').cmp(b.path().split('/')));
        Ok(Found { objects, is_folder })
    }

    async fn of_store(&self, address: &Address) -> Result<Vec<Object>, Error> {
        let store = self.store(address)?;
        let failed = |error| store.error(&address.with(&address.path), error);
        let path = address.location()?;
        let object = |meta: ObjectMeta| {
            let shown = match address.kind {
                Kind::Web => address.path.clone(),
                _ => meta.location.to_string(),
            };
            Object::new(self, &store, address, &shown, meta)
        };
        if !address.is_folder {
            match store.own.head(&path).await {
                Ok(meta) => return Ok(vec![object(meta)]),
                Err(object_store::Error::NotFound { .. }) if address.kind == Kind::Web => {
                    return Ok(Vec::new());
                }
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        // The object of a folder itself is no file.
        let metas: Vec<ObjectMeta> = store.own.list(Some(&path)).try_collect().await.map_err(failed)?;
        Ok(metas.into_iter().filter(|meta| meta.location != path).map(object).collect())
    }

    async fn of_data_set(&self, address: &Address) -> Result<Vec<Object>, Error> {
        let set = DataSet::find(address).await?;
        let store = self.store(address)?;
        let files = set.files(address).await?;
        files.into_iter().map(|file| Object::of_commit(self, &store, address, &set, file)).collect()
    }

    /// The store of an address.
    pub(super) fn store(&self, address: &Address) -> Result<Store, Error> {
        if let Some(store) = self.0.stores.lock().get(&address.root) {
            return Ok(store.clone());
        }
        let failed = |source| Error::Failed { url: address.root.clone(), source: Box::new(source) };
        let own = connect(address, retries()).map_err(failed)?;
        let store = Store { own, kind: address.kind };
        self.0.stores.lock().insert(address.root.clone(), store.clone());
        Ok(store)
    }

    /// Uses a store for all addresses of a root.
    #[cfg(test)]
    pub(super) fn with(self, root: &str, own: Arc<dyn ObjectStore>) -> Cloud {
        self.0.stores.lock().insert(root.to_owned(), Store { own, kind: Kind::S3 });
        self
    }

    /// Runs a request, and waits for its answer.
    pub(super) fn wait<T: Send + 'static>(&self, request: impl Future<Output = T> + Send + 'static) -> T {
        let (send, answer) = sync_channel(1);
        self.spawn(async move { _ = send.send(request.await) });
        answer.recv().expect("requests do not panic")
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.runtime.as_ref().expect("it ends with the last use").spawn(work);
    }
}

impl Drop for Inner {
    /// Waits for nothing: the last use may end within another runtime.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cloud")
    }
}

impl Store {
    /// The error of a request about an address.
    pub(super) fn error(&self, url: &str, error: object_store::Error) -> Error {
        use object_store::Error as E;
        let url = url.to_owned();
        match error {
            E::NotFound { .. } => Error::Missing { url },
            E::Precondition { .. } | E::NotModified { .. } => Error::Changed { url },
            E::NotSupported { .. } => Error::Whole { url },
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                Error::Refused { url, help: self.kind.help(), source: Box::new(error) }
            }
            error => Error::Failed { url, source: Box::new(error) },
        }
    }
}

impl Kind {
    pub(super) fn help(self) -> &'static str {
        match self {
            Kind::S3 => {
                "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, or AWS_SKIP_SIGNATURE=true for \
                 a public bucket"
            }
            Kind::Google => "set GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true",
            Kind::Azure => "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
            Kind::Web => "the file must be public",
            Kind::HuggingFace => "set HF_TOKEN, and accept the terms of the data set",
        }
    }
}

/// The store of S3, Google Cloud Storage or Azure at an address, and the path in it. Its requests run on the
/// runtime of the caller, and none is repeated.
///
/// # Errors
/// [`Error::Address`], or [`Error::Failed`] if the environment lacks what the store needs.
pub fn open(url: &str) -> Result<(Arc<dyn ObjectStore>, Path), Error> {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let address = Address::parse(url)?;
    if matches!(address.kind, Kind::Web | Kind::HuggingFace) {
        let why = "it begins with s3://, gs:// or az://".to_owned();
        return Err(Error::Address { url: url.to_owned(), why });
    }
    let once = RetryConfig { max_retries: 0, ..retries() };
    let failed = |source| Error::Failed { url: url.to_owned(), source: Box::new(source) };
    Ok((connect(&address, once).map_err(failed)?, address.location()?))
}

/// The time for a request, with its answer of at most some MiB.
pub(super) const REQUEST: &str = "120s";

fn connect(address: &Address, retries: RetryConfig) -> object_store::Result<Arc<dyn ObjectStore>> {
    Ok(match address.kind {
        #[cfg(feature = "clouds")]
        kind @ (Kind::S3 | Kind::Google | Kind::Azure) => {
            super::clouds::connect(kind, &address.place, retries)?
        }
        #[cfg(not(feature = "clouds"))]
        Kind::S3 | Kind::Google | Kind::Azure => {
            let source = "this program was built without the feature clouds".into();
            return Err(object_store::Error::NotSupported { source });
        }
        Kind::Web => web(&address.root, ClientOptions::new(), retries)?,
        Kind::HuggingFace => web(
            &hugging_face::endpoint(),
            ClientOptions::new().with_default_headers(hugging_face::headers()),
            retries,
        )?,
    })
}

fn web(
    root: &str,
    options: ClientOptions,
    retries: RetryConfig,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let options =
        options.with_config(ClientConfigKey::Timeout, REQUEST).with_allow_http(is_plain_loopback(root));
    let builder = HttpBuilder::new().with_url(root).with_retry(retries).with_client_options(options);
    Ok(Arc::new(builder.build()?))
}

/// Until 30 seconds are over: a restart of a server, or a pause that it asks for. The waits are drawn up to
/// `base` times the last one, so they grow twofold.
fn retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(200),
        max_backoff: Duration::from_secs(5),
        base: 4.0,
    };
    RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: Duration::from_secs(30) }
}
