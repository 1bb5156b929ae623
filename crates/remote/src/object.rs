//! An object in the version that was found, and its bytes from the beginning.
//!
//! The bytes are asked for in ranges, two at a time ahead of the reader. The first are small, so that a look
//! at the beginning costs little. A server that sends only whole files is read in one answer.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::mpsc::{self, sync_channel};
use std::sync::{Arc, OnceLock};

use bytes::{Buf, Bytes};
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetResult, ObjectMeta};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Error;
use super::address::{Address, Kind};
use super::cloud::{Cloud, Store};
use super::hugging_face::{DataSet, File};

/// The first range, and the largest.
const FIRST: u64 = 256 << 10;
const LARGEST: u64 = 8 << 20;
/// The ranges that are asked for at a time.
const AHEAD: usize = 2;

/// An object in one version.
#[derive(Clone, Debug)]
pub struct Object(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cloud: Cloud,
    store: Store,
    url: String,
    /// The path in its place, as the user sees it.
    path: String,
    location: Path,
    bytes: u64,
    tag: Option<String>,
    version: String,
    /// The first failure of a read.
    fault: OnceLock<String>,
}

impl Object {
    pub(super) fn new(
        cloud: &Cloud,
        store: &Store,
        address: &Address,
        path: &str,
        meta: ObjectMeta,
    ) -> Object {
        let ObjectMeta { location, last_modified, size: bytes, e_tag: tag, .. } = meta;
        // Azure lists tags without the quotation marks that a condition needs.
        let quoted = |tag: String| if tag.contains('"') { tag } else { format!("\"{tag}\"") };
        let tag = if address.kind == Kind::Azure { tag.map(quoted) } else { tag };
        let version = tag.clone().unwrap_or_else(|| last_modified.to_string());
        let (url, path, fault) = (address.with(path), path.to_owned(), OnceLock::new());
        let (cloud, store) = (cloud.clone(), store.clone());
        Object(Arc::new(Inner { cloud, store, url, path, location, bytes, tag, version, fault }))
    }

    /// A file of a commit, which never changes.
    pub(super) fn of_commit(
        cloud: &Cloud,
        store: &Store,
        address: &Address,
        set: &DataSet,
        file: File,
    ) -> Result<Object, Error> {
        let url = address.with(&file.path);
        let wrong =
            |why: object_store::path::Error| Error::Address { url: url.clone(), why: why.to_string() };
        let location = Path::parse(set.location(&file.path)).map_err(wrong)?;
        let (cloud, store, version) = (cloud.clone(), store.clone(), set.commit.clone());
        let (bytes, path, tag, fault) = (file.size, file.path, None, OnceLock::new());
        Ok(Object(Arc::new(Inner { cloud, store, url, path, location, bytes, tag, version, fault })))
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// The path in its bucket, container, data set or host.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// What names its version: an entity tag, a commit, or a time.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Why it could not be read, if a read failed.
    pub fn fault(&self) -> Option<&str> {
        self.0.fault.get().map(String::as_str)
    }

    /// Its bytes. The reader waits for them, so it is not for threads of a runtime.
    pub fn read(&self) -> Reader {
        let (send, parts) = channel(1);
        self.0.cloud.spawn(self.clone().send(send));
        Reader { object: self.clone(), parts, part: Bytes::new() }
    }

    /// At most so many bytes of its beginning.
    ///
    /// # Errors
    /// If the store does not send them.
    ///
    /// # Panics
    /// Never: requests do not panic.
    pub fn beginning(&self, bytes: u64) -> io::Result<Bytes> {
        let bytes = bytes.min(self.0.bytes);
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        match self.ask(0..bytes).recv().expect("requests do not panic") {
            Err(Error::Whole { .. }) => {
                let mut all = Vec::new();
                self.read().take(bytes).read_to_end(&mut all).map(|_| all.into())
            }
            found => Ok(found?),
        }
    }

    /// Asks for a range, which the receiver gets.
    pub(super) fn ask(&self, range: Range<u64>) -> mpsc::Receiver<Result<Bytes, Error>> {
        let (send, part) = sync_channel(1);
        let own = self.clone();
        self.0.cloud.spawn(async move { _ = send.send(own.part(range).await) });
        part
    }

    async fn send(self, send: Sender<Result<Bytes, Error>>) {
        let mut parts = stream::iter(ranges(self.0.bytes)).map(|range| self.part(range)).buffered(AHEAD);
        let mut is_first = true;
        loop {
            let part = tokio::select! {
                () = send.closed() => return,
                part = parts.next() => part,
            };
            match part {
                None => return,
                Some(Err(Error::Whole { .. })) if is_first => return self.send_whole(send).await,
                Some(part) => {
                    let is_last = part.is_err();
                    if send.send(part).await.is_err() || is_last {
                        return;
                    }
                }
            }
            is_first = false;
        }
    }

    async fn send_whole(&self, send: Sender<Result<Bytes, Error>>) {
        let mut left = self.0.bytes;
        let mut parts = match self.got(None).await {
            Ok(got) => got.into_stream(),
            Err(error) => {
                _ = send.send(Err(error)).await;
                return;
            }
        };
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| self.error(error));
            left = left.saturating_sub(part.as_ref().map_or(left, |part| part.len() as u64));
            if part.is_err() | send.send(part).await.is_err() {
                return;
            }
        }
        if left > 0 {
            _ = send.send(Err(self.too_short())).await;
        }
    }

    async fn part(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let length = range.end - range.start;
        let bytes = match self.got(Some(range)).await {
            Ok(got) => got.bytes().await.map_err(|error| self.error(error)),
            Err(error) => Err(error),
        };
        let is_whole = |bytes: Bytes| {
            if bytes.len() as u64 == length { Ok(bytes) } else { Err(self.too_short()) }
        };
        bytes.and_then(is_whole)
    }

    /// The answer to a request for a range, or for all; of the version that was found.
    async fn got(&self, range: Option<Range<u64>>) -> Result<GetResult, Error> {
        let own = &self.0;
        // A weak tag matches nothing.
        let if_match = own.tag.clone().filter(|tag| !tag.starts_with("W/"));
        let options = GetOptions { if_match, range: range.map(Into::into), ..GetOptions::default() };
        let got = own.store.own.get_opts(&own.location, options).await;
        let got = got.map_err(|error| self.error(error))?;
        let (tag, size) = (got.meta.e_tag.as_deref(), got.meta.size);
        let is_other = match own.tag.as_deref() {
            Some(own) => tag.is_some_and(|tag| plain(tag) != plain(own)),
            None => false,
        };
        if is_other || size != own.bytes { Err(Error::Changed { url: own.url.clone() }) } else { Ok(got) }
    }

    fn error(&self, error: object_store::Error) -> Error {
        match self.0.store.error(&self.0.url, error) {
            // It was there.
            Error::Missing { url } => Error::Changed { url },
            error => error,
        }
    }

    fn too_short(&self) -> Error {
        Error::Failed { url: self.0.url.clone(), source: "the server sent less than it announced".into() }
    }

    /// Keeps the first error that a reader has got; one of a request ahead may be of nobody.
    pub(super) fn noted(&self, error: Error) -> Error {
        _ = self.0.fault.set(error.to_string());
        error
    }
}

/// An entity tag without the signs that servers add.
fn plain(tag: &str) -> &str {
    tag.trim_start_matches("W/").trim_matches('"')
}

/// The ranges of an object, each twice as long as the one before it.
fn ranges(bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let (mut at, mut length) = (0, FIRST);
    std::iter::from_fn(move || {
        let range = at..(at + length).min(bytes);
        (at, length) = (range.end, (2 * length).min(LARGEST));
        (!range.is_empty()).then_some(range)
    })
}

/// The bytes of an object from its beginning.
pub struct Reader {
    object: Object,
    parts: Receiver<Result<Bytes, Error>>,
    part: Bytes,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.parts.blocking_recv() {
                Some(part) => self.part = part.map_err(|error| self.object.noted(error))?,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.part.len());
        self.part.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_an_object_once() {
        for bytes in [0, 1, FIRST - 1, FIRST, FIRST + 1, 3 * FIRST, 100 << 20] {
            let all: Vec<Range<u64>> = ranges(bytes).collect();
            assert!(all.iter().all(|range| !range.is_empty() && range.end - range.start <= LARGEST));
            let joined = all.iter().fold(0, |at, range| if range.start == at { range.end } else { u64::MAX });
            assert_eq!(joined, bytes);
        }
    }
}
