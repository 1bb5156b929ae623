//! Objects of S3, Google Cloud Storage and Azure. The credentials come from the environment.
//!
//! The library repeats no request: the log does, and settles what became of the one before.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use super::store::{Answer, Created, Fate, Listed, Objects, StoreError};
use crate::LogError;

pub(super) struct Cloud {
    url: String,
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl Cloud {
    pub(super) fn new(url: &str) -> Result<Cloud, LogError> {
        let url = url.trim_end_matches('/');
        let opened = lookalike_remote::open(url).map_err(|error| LogError::Place(Box::new(error)));
        let (store, prefix) = opened?;
        Ok(Cloud { url: url.to_owned(), store, prefix })
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), Path::join)
    }
}

impl Objects for Cloud {
    fn place(&self) -> &str {
        &self.url
    }

    fn polls(&self) -> (Duration, Duration) {
        (Duration::from_millis(100), Duration::from_secs(1))
    }

    fn create<'a>(&'a self, name: &'a str, bytes: Bytes) -> Answer<'a, Created> {
        async move {
            let options = PutOptions::from(PutMode::Create);
            match self.store.put_opts(&self.path(name), bytes.into(), options).await {
                Ok(_) => Ok(Created::New),
                // Also the answer that another request is about to create it.
                Err(object_store::Error::AlreadyExists { .. }) => Ok(Created::Taken),
                Err(error) => Err(failed(name, error)),
            }
        }
        .boxed()
    }

    fn read<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Bytes>> {
        let got = async move { self.store.get(&self.path(name)).await?.bytes().await };
        got.map(|got| if_found(name, got)).boxed()
    }

    fn exists<'a>(&'a self, name: &'a str) -> Answer<'a, bool> {
        let got = async move { self.store.head(&self.path(name)).await };
        got.map(|got| if_found(name, got).map(|found| found.is_some())).boxed()
    }

    fn replace<'a>(&'a self, name: &'a str, bytes: Bytes) -> Answer<'a, ()> {
        let put = async move { self.store.put(&self.path(name), bytes.into()).await };
        put.map(|put| put.map(|_| ()).map_err(|error| failed(name, error))).boxed()
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Listed>> {
        async move {
            let path = self.path(folder);
            let mut objects = self.store.list(Some(&path));
            let mut listed = Vec::new();
            while let Some(meta) = objects.try_next().await.map_err(|error| failed(folder, error))? {
                let name = meta.location.filename().unwrap_or_default().to_owned();
                if meta.location == path.clone().join(name.as_str()) {
                    listed.push(Listed { name, changed: meta.last_modified.into() });
                }
            }
            Ok(listed)
        }
        .boxed()
    }

    fn remove<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        let removed = async move { self.store.delete(&self.path(name)).await };
        removed.map(|removed| if_found(name, removed).map(|_| ())).boxed()
    }
}

fn if_found<T>(name: &str, got: object_store::Result<T>) -> Result<Option<T>, StoreError> {
    match got {
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        got => got.map(Some).map_err(|error| failed(name, error)),
    }
}

fn failed(name: &str, error: object_store::Error) -> StoreError {
    use object_store::Error as E;
    let fate = match &error {
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => Fate::Refused,
        error if was_never_sent(error) => Fate::Undone,
        _ => Fate::Unknown,
    };
    StoreError { object: name.to_owned(), fate, source: Box::new(error) }
}

/// Whether no connection was made.
fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}
