//! A folder for the output: the objects below an address.
//!
//! It guarantees that each object is whole when it appears, and that the mark, an empty object `_SUCCESS`, is
//! there only while all others are those of one run.

use std::path::Path;

use futures::TryStreamExt;
use object_store::buffered::BufWriter;
use object_store::{ObjectMeta, ObjectStoreExt, PutPayload};
use tokio::io::AsyncWriteExt;

use super::address::{Address, Kind};
use super::cloud::{Cloud, Store};
use super::{Error, Object};

/// The object that is written last.
const MARK: &str = "_SUCCESS";
/// The least bytes of a part of a long object, and the most parts.
const PART: u64 = 16 << 20;
const PARTS: u64 = 9_000;

/// The objects below an address.
#[derive(Clone, Debug)]
pub struct Folder {
    cloud: Cloud,
    store: Store,
    address: Address,
}

impl Folder {
    /// # Errors
    /// If nothing can be written to such an address.
    pub fn at(cloud: &Cloud, url: &str) -> Result<Folder, Error> {
        let address = Address::parse(url)?;
        if matches!(address.kind, Kind::Web | Kind::HuggingFace) {
            let why = "output goes to a folder, or to s3://, gs:// or az://".to_owned();
            return Err(Error::Address { url: url.to_owned(), why });
        }
        Ok(Folder { cloud: cloud.clone(), store: cloud.store(&address)?, address })
    }

    /// Its address, with a slash at the end.
    pub fn url(&self) -> String {
        self.url_of("")
    }

    /// The address of a name in it.
    pub fn url_of(&self, name: &str) -> String {
        self.address.with(&self.path_of(name))
    }

    fn path_of(&self, name: &str) -> String {
        if self.address.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.address.path) }
    }

    fn location(&self, name: &str) -> Result<object_store::path::Path, Error> {
        Address { path: self.path_of(name), ..self.address.clone() }.location()
    }

    /// Whether an object is in it.
    pub fn has(&self, object: &Object) -> bool {
        object.url().starts_with(&self.url())
    }

    /// The names of the objects, without the mark.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let (own, prefix) = (self.clone(), self.location("")?);
        let metas: Vec<ObjectMeta> = self.cloud.wait(async move {
            let listed = own.store.own.list(Some(&prefix)).try_collect().await;
            listed.map_err(|error| own.store.error(&own.url(), error))
        })?;
        let name = |meta: ObjectMeta| {
            let path = meta.location.as_ref();
            let name = path.strip_prefix(&self.address.path)?.trim_start_matches('/');
            (!name.is_empty() && name != MARK).then(|| name.to_owned())
        };
        Ok(metas.into_iter().filter_map(name).collect())
    }

    /// Writes a file under a name, which appears when it is whole.
    ///
    /// # Errors
    /// If the file cannot be read, or the store does not take it.
    pub fn put(&self, name: &str, from: &Path) -> Result<(), Error> {
        let (own, to, from, url) = (self.clone(), self.location(name)?, from.to_owned(), self.url_of(name));
        self.cloud.wait(async move {
            let failed = |error: std::io::Error| Error::Failed { url: url.clone(), source: Box::new(error) };
            let mut file = tokio::fs::File::open(&from).await.map_err(failed)?;
            let bytes = file.metadata().await.map_err(failed)?.len();
            let part = PART.max(bytes.div_ceil(PARTS));
            let mut writer = BufWriter::with_capacity(own.store.own.clone(), to, part as usize);
            let copied = match tokio::io::copy(&mut file, &mut writer).await {
                Ok(_) => writer.shutdown().await,
                Err(error) => Err(error),
            };
            if let Err(error) = copied {
                _ = writer.abort().await;
                return Err(failed(error));
            }
            Ok(())
        })
    }

    /// Writes the mark.
    ///
    /// # Errors
    /// If the store does not take it.
    pub fn mark(&self) -> Result<(), Error> {
        let (own, to) = (self.clone(), self.location(MARK)?);
        self.cloud.wait(async move {
            let put = own.store.own.put(&to, PutPayload::new()).await;
            put.map(drop).map_err(|error| own.store.error(&own.url_of(MARK), error))
        })
    }

    /// Removes the mark, if it is there.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn unmark(&self) -> Result<(), Error> {
        self.remove(MARK)
    }

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let (own, to, url) = (self.clone(), self.location(name)?, self.url_of(name));
        self.cloud.wait(async move {
            match own.store.own.delete(&to).await {
                Err(object_store::Error::NotFound { .. }) | Ok(()) => Ok(()),
                Err(error) => Err(own.store.error(&url, error)),
            }
        })
    }
}
