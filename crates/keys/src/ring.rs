//! The key ring: the keys in use, read again when their file changes.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwapOption, Guard};

use super::{Bucket, Held, Key, KeyError, KeyFile, find};

/// The keys in use, shared by all requests. A change of the file replaces them atomically.
pub struct Keyring {
    file: KeyFile,
    /// `None` if requests need no key. Once they do, they need one until the process ends.
    keys: ArcSwapOption<Vec<Held>>,
}

/// The modification time and the size of a file; `None` if it does not exist.
type Stamp = Option<(SystemTime, u64)>;

impl Keyring {
    /// Reads the keys of this file. If it does not exist, requests need no key.
    ///
    /// # Errors
    /// [`KeyError`] if the file exists and cannot be read.
    pub fn open(file: KeyFile) -> Result<Keyring, KeyError> {
        let keys = file.read()?.map(|keys| Arc::new(with_buckets(keys, &[])));
        Ok(Keyring { file, keys: ArcSwapOption::new(keys) })
    }

    /// The keys, or `None` if requests need no key.
    pub fn keys(&self) -> Guard<Option<Arc<Vec<Held>>>> {
        self.keys.load()
    }

    /// The key with this secret.
    pub fn find(&self, secret: &[u8]) -> Option<Held> {
        find(self.keys().as_ref()?, secret).cloned()
    }

    /// Reads the file again. If that fails, or the file is gone, the keys do not change.
    ///
    /// # Errors
    /// [`KeyError`] if it cannot be read.
    fn read_again(&self) -> Result<(), KeyError> {
        if let Some(keys) = self.file.read()? {
            let held = self.keys();
            let keys = with_buckets(keys, held.as_ref().map_or(&[], |held| held.as_slice()));
            self.keys.store(Some(Arc::new(keys)));
        }
        Ok(())
    }

    fn stamp(&self) -> Stamp {
        let about = fs::metadata(self.file.path()).ok()?;
        Some((about.modified().ok()?, about.len()))
    }

    /// Reads the file again after each change, which it checks for at this interval. Never returns.
    pub async fn follow_file(self: Arc<Keyring>, every: Duration) {
        // The first check always reads the file, because it may have changed since it was opened.
        let mut known: Stamp = None;
        let mut tick = tokio::time::interval(every);
        loop {
            tick.tick().await;
            let found = self.stamp();
            if found == known {
                continue;
            }
            known = found;
            match self.read_again() {
                Ok(()) => {
                    let count = self.keys().as_ref().map_or(0, |keys| keys.len());
                    tracing::info!(keys = count, file = %self.file.path().display(), "keys were read");
                }
                Err(error) => tracing::error!(%error, "the changed file is not used; the previous keys are"),
            }
        }
    }
}

/// Adds buckets to the keys. An unchanged key keeps its bucket, so that a change of the file gives no key
/// new units.
fn with_buckets(keys: Vec<Key>, before: &[Held]) -> Vec<Held> {
    let held = keys.into_iter().map(|key| {
        let same = before.iter().find(|held| held.key == key).and_then(|held| held.bucket.clone());
        let bucket = key.rate.map(|rate| same.unwrap_or_else(|| Arc::new(Bucket::new(rate))));
        Held { key, bucket }
    });
    held.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, Scope};

    #[test]
    fn a_ring_follows_its_file_and_never_stops_requiring_keys() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::at(directory.path().join("keys.toml"));
        let ring = Keyring::open(file.clone()).unwrap();
        assert!(ring.keys().is_none());
        let (key, secret) = Key::new("a".to_owned(), Role::Read, Scope::All, None, "now".to_owned(), [1, 2]);
        file.add(key.clone()).unwrap();
        ring.read_again().unwrap();
        assert_eq!(ring.find(secret.as_bytes()).map(|held| held.key), Some(key));
        fs::write(file.path(), "damage").unwrap();
        assert!(ring.read_again().is_err());
        assert!(ring.find(secret.as_bytes()).is_some());
        fs::remove_file(file.path()).unwrap();
        ring.read_again().unwrap();
        assert!(ring.keys().is_some());
        assert!(Keyring::open(file).unwrap().keys().is_none());
    }
}
