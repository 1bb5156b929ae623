//! A folder that all servers reach, such as one of a network file system.
//!
//! An object is written to a file of its own, synced, linked to its name, which fails if there is one, and
//! then the folder is synced. A reader syncs the folder too before it believes in a file: the server that
//! linked it may not have come so far, and a loss of power would take back what readers have applied.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;

use super::store::{Answer, Created, Fate, Listed, Objects, StoreError};

/// The folder of files that have no name yet.
const PARTIAL: &str = "partial";
/// A file there that is older was left by a crash.
const LEFT: Duration = Duration::from_hours(1);

pub(super) struct Folder {
    url: String,
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    /// Makes the names of files in `partial` differ: a random number, and a count.
    process: u128,
    count: AtomicU64,
}

impl Folder {
    pub(super) fn new(path: &str, process: u128) -> Folder {
        let inner = Inner { root: PathBuf::from(path), process, count: AtomicU64::new(0) };
        Folder { url: format!("file://{path}"), inner: Arc::new(inner) }
    }

    /// Does something on a thread that may block.
    fn run<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Inner, &Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'static, T> {
        let (inner, name) = (Arc::clone(&self.inner), name.to_owned());
        async move {
            let path = inner.root.join(&name);
            let done = tokio::task::spawn_blocking(move || work(&inner, &path)).await;
            done.unwrap_or_else(|panic| Err(StoreError::unknown(&name, panic)))
        }
        .boxed()
    }
}

impl Inner {
    /// A synced file without a name of an object.
    fn partial(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        let folder = self.root.join(PARTIAL);
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        make_folder(&folder)?;
        if count == 0 {
            remove_left(&folder)?;
        }
        let path = folder.join(format!("{:032x}-{count}", self.process));
        let mut file = File::create(&path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(path)
    }

    fn create(&self, path: &Path, bytes: &[u8]) -> Result<Created, StoreError> {
        let undone = |error| failed(path, Fate::Undone, error);
        let folder = path.parent().unwrap_or(&self.root);
        make_folder(folder).map_err(undone)?;
        let partial = self.partial(bytes).map_err(undone)?;
        let linked = fs::hard_link(&partial, path);
        // Otherwise the next start of a server removes it.
        let _ = fs::remove_file(&partial);
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Created::Taken),
            linked => linked.and_then(|()| sync(folder)),
        }
        .map_err(|error| failed(path, Fate::Unknown, error))?;
        Ok(Created::New)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        make_folder(path.parent().unwrap_or(&self.root))?;
        fs::rename(self.partial(bytes)?, path)
    }
}

impl Objects for Folder {
    fn place(&self) -> &str {
        &self.url
    }

    fn polls(&self) -> (Duration, Duration) {
        (Duration::from_millis(10), Duration::from_secs(1))
    }

    fn create<'a>(&'a self, name: &'a str, bytes: Bytes) -> Answer<'a, Created> {
        self.run(name, move |inner, path| inner.create(path, &bytes))
    }

    fn read<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Bytes>> {
        self.run(name, |inner, path| {
            let read = || {
                let bytes = fs::read(path)?;
                sync(path.parent().unwrap_or(&inner.root))?;
                Ok(bytes.into())
            };
            if_found(read()).map_err(|error| failed(path, Fate::Undone, error))
        })
    }

    fn exists<'a>(&'a self, name: &'a str) -> Answer<'a, bool> {
        self.run(name, |_, path| path.try_exists().map_err(|error| failed(path, Fate::Undone, error)))
    }

    fn replace<'a>(&'a self, name: &'a str, bytes: Bytes) -> Answer<'a, ()> {
        self.run(name, move |inner, path| {
            inner.replace(path, &bytes).map_err(|error| failed(path, Fate::Unknown, error))
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Listed>> {
        self.run(folder, |_, path| {
            let listed = if_found(list(path)).map_err(|error| failed(path, Fate::Undone, error))?;
            Ok(listed.unwrap_or_default())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.run(name, |_, path| {
            let removed = if_found(fs::remove_file(path));
            removed.map(|_| ()).map_err(|error| failed(path, Fate::Unknown, error))
        })
    }
}

fn list(folder: &Path) -> io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // One that is replaced at this moment has no metadata.
        let Some(meta) = if_found(entry.metadata())?.filter(fs::Metadata::is_file) else { continue };
        listed.push(Listed {
            name: entry.file_name().to_string_lossy().into_owned(),
            changed: meta.modified()?,
        });
    }
    Ok(listed)
}

/// Makes a folder that survives a loss of power, and those above it.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folder(parent)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => sync(parent)?,
        }
    }
    Ok(())
}

fn remove_left(folder: &Path) -> io::Result<()> {
    let old = SystemTime::now() - LEFT;
    for left in list(folder)?.into_iter().filter(|left| left.changed < old) {
        if_found(fs::remove_file(folder.join(left.name)))?;
    }
    Ok(())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn if_found<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn failed(path: &Path, fate: Fate, error: io::Error) -> StoreError {
    let fate = if error.kind() == ErrorKind::PermissionDenied { Fate::Refused } else { fate };
    StoreError { object: path.display().to_string(), fate, source: Box::new(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_many_who_create_an_object_one_does() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let name = format!("log/a/{round}");
            let tries = (0..8_u8).map(|process| {
                let folder = Folder::new(dir.path().to_str().unwrap(), process.into());
                let name = name.clone();
                tokio::spawn(async move { folder.create(&name, vec![process; 9].into()).await.unwrap() })
            });
            let mut winner = None;
            for (process, tried) in futures::future::join_all(tries).await.into_iter().enumerate() {
                if tried.unwrap() == Created::New {
                    assert_eq!(winner.replace(process), None);
                }
            }
            let folder = Folder::new(dir.path().to_str().unwrap(), 9);
            let found = folder.read(&name).await.unwrap().unwrap();
            assert_eq!(found, vec![winner.unwrap() as u8; 9]);
        }
        assert_eq!(fs::read_dir(dir.path().join(PARTIAL)).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_is_not_there_is_no_error_and_what_is_forbidden_is() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().to_str().unwrap(), 1);
        assert_eq!(folder.read("log/a").await.unwrap(), None);
        assert!(!folder.exists("log/a").await.unwrap());
        assert_eq!(folder.list("servers").await.unwrap(), []);
        folder.remove("servers/a").await.unwrap();
        folder.replace("servers/a", "1".into()).await.unwrap();
        folder.replace("servers/a", "2".into()).await.unwrap();
        assert_eq!(folder.read("servers/a").await.unwrap().unwrap(), "2");
        assert_eq!(folder.list("servers").await.unwrap()[0].name, "a");
        fs::write(dir.path().join("file"), "").unwrap();
        let error = folder.create("file/a", Bytes::new()).await.unwrap_err();
        assert!(error.to_string().contains("file/a: Not a directory"), "{error}");
    }
}
