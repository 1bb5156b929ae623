//! Copies of everything that a server has: a server without data, or with data that are too old for the log,
//! takes them over.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::super::backup::{io_error, pieces};
use super::super::directory::Directory;
use crate::{Engine, EngineError, EngineSettings, OpenError, Pieces, permit};
use lookalike_store::{CopyError, Store, wait_until_closed};

/// Pieces of some MiB that wait for the reader of a copy.
const QUEUED: usize = 2;

/// Why a server has no copy.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The copy cannot be read or written.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

impl Engine {
    /// Streams a copy of everything that this server has at one moment, for [`replace_data`]. Pieces are cut
    /// where their content decides: most are those of an earlier copy, if little has changed.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if other copies or backups are in progress.
    pub fn copy(&self) -> Result<Pieces, EngineError> {
        let permit = permit(&self.backups, "the capacity for backups")?;
        let shared = Arc::clone(&self.shared);
        Ok(pieces("all collections".to_owned(), QUEUED, permit, move |mut out| {
            shared.store.view().copy_to(&mut out).map_err(|error| match error {
                CopyError::Store(error) => EngineError::Store(error),
                CopyError::Stream(error) => io_error(error),
                error @ CopyError::Damaged(_) => io_error(std::io::Error::other(error.to_string())),
            })?;
            out.finish()
        }))
    }
}

/// Removes the data in a directory whose engine is closed.
///
/// # Errors
/// [`JoinError::Directory`].
pub fn remove_data(path: &Path) -> Result<(), JoinError> {
    emptied(path).map(drop)
}

/// Replaces the data in a directory whose engine is closed by a copy of those of a server. If it fails, the
/// directory has no data.
///
/// # Errors
/// [`JoinError`].
pub fn replace_data(path: &Path, settings: &EngineSettings, copy: &mut impl Read) -> Result<(), JoinError> {
    let directory = emptied(path)?;
    Store::receive(&directory.store, settings.store, settings.new_store, copy)?;
    directory.seal()?;
    Ok(())
}

fn emptied(path: &Path) -> Result<Directory, JoinError> {
    // Otherwise a thread of the store before could write a file into the new one.
    wait_until_closed(&Directory::open(path)?.store).map_err(OpenError::from)?;
    Ok(Directory::emptied(path)?)
}
