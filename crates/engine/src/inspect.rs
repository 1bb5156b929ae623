//! Verification of a data directory without a server: reports the damage and changes nothing.

use std::path::Path;

use super::directory::Directory;
use crate::OpenError;
use lookalike_hamming::Progress;
use lookalike_hamming::snapshot::{self, SnapshotError};
use lookalike_store::{Store, StoreError, Verified};

/// A flaw of a data directory.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// The store is damaged: the server does not start on it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A snapshot is damaged: the next start skips it and takes longer.
    #[error("{0} (a snapshot: no document depends on it)")]
    Snapshot(SnapshotError),
    /// The directory is damaged or too new.
    #[error(transparent)]
    Directory(#[from] OpenError),
}

impl Flaw {
    /// Whether a file is not readable for lack of permission, so that nothing is known about it.
    pub fn is_refused(&self) -> bool {
        matches!(self, Flaw::Store(error) | Flaw::Directory(OpenError::Store(error)) if error.is_refused())
    }

    /// Whether documents may be missing. If so, the server does not start.
    pub fn is_grave(&self) -> bool {
        !matches!(self, Flaw::Snapshot(_))
    }
}

/// Verifies the data directory `path` without changing it, and passes every flaw to `found`.
///
/// # Errors
/// [`OpenError`] if it cannot be read: it does not exist, or a server uses it.
pub fn verify(path: &Path, found: &mut dyn FnMut(Flaw)) -> Result<Verified, OpenError> {
    let (store, snapshots) = match Directory::open_existing(path) {
        Ok(directory) => (directory.store, directory.snapshots),
        Err(error @ OpenError::Directory { .. }) => return Err(error),
        Err(error) => {
            found(error.into());
            (path.join("store"), path.join("snapshots"))
        }
    };
    let verified = Store::verify(&store, &mut |flaw| found(flaw.into()))?;
    // A missing directory of snapshots is not a flaw: the server creates it.
    if snapshots.exists() {
        match snapshot::list(&snapshots) {
            Ok(files) => {
                let loaded = files.iter().map(|file| snapshot::load(&file.path, &Progress::default()));
                loaded.filter_map(Result::err).for_each(|error| found(Flaw::Snapshot(error)));
            }
            Err(error) => found(Flaw::Snapshot(error)),
        }
    }
    Ok(verified)
}
