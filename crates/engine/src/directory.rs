//! The data directory: its layout, and whether this version may use it.
//!
//! ```text
//! DIR/FORMAT       "lookalike 4\n": read before anything else is opened, written when the store is complete
//! DIR/store/       documents, posting lists, the history (see `store`)
//! DIR/snapshots/   the index (see `snapshot`)
//! DIR/incoming/    backups while they are uploaded; emptied at the start
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::OpenError;
use lookalike_store::StoreError;

/// The format of the whole directory. Increment it when an older version could not read the files of this
/// one.
const FORMAT: u32 = 4;
const NAME: &str = "lookalike";

/// The paths of a data directory that this version may use.
pub(super) struct Directory {
    path: PathBuf,
    pub(super) store: PathBuf,
    pub(super) snapshots: PathBuf,
    pub(super) incoming: PathBuf,
    /// Whether it never held a complete store, so that a new one may be created.
    pub(super) is_new: bool,
}

impl Directory {
    /// Opens a data directory, or creates it.
    pub(super) fn open(path: &Path) -> Result<Directory, OpenError> {
        make(path)?;
        Directory::open_existing(path)
    }

    /// Opens an existing data directory.
    pub(super) fn open_existing(path: &Path) -> Result<Directory, OpenError> {
        fs::read_dir(path).map_err(|source| failed(path, "read", source))?;
        let marker = path.join("FORMAT");
        let is_new = match fs::read(&marker) {
            Ok(bytes) => check(&marker, &bytes).map(|()| false)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(failed(&marker, "read", error));
            }
            Err(error) => {
                let what = format!("it cannot be read: {error}");
                return Err(OpenError::Damaged { path: marker, what });
            }
        };
        let [store, snapshots, incoming] = ["store", "snapshots", "incoming"].map(|name| path.join(name));
        Ok(Directory { path: path.to_path_buf(), store, snapshots, incoming, is_new })
    }

    /// Opens a data directory, or creates it, and deletes the data in it. A crash meanwhile leaves a
    /// directory without a complete store.
    pub(super) fn emptied(path: &Path) -> Result<Directory, OpenError> {
        let directory = Directory { is_new: true, ..Directory::open(path)? };
        let marker = path.join("FORMAT");
        let deleted = |result: io::Result<()>| match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|source| failed(path, "emptied", source)),
        };
        deleted(fs::remove_file(&marker))?;
        deleted(File::open(path).and_then(|dir| dir.sync_all()))?;
        for inner in [&directory.store, &directory.snapshots, &directory.incoming] {
            deleted(fs::remove_dir_all(inner))?;
        }
        make(&directory.store)?;
        Ok(directory)
    }

    /// Records that the directory holds a complete store.
    pub(super) fn seal(&self) -> Result<(), OpenError> {
        if self.is_new {
            let text = format!("{NAME} {FORMAT}\n");
            write_atomically(&self.path, &self.path.join("FORMAT"), text.as_bytes())
                .map_err(|source| failed(&self.path, "written to", source))?;
        }
        make(&self.snapshots)
    }
}

/// The error of a store that could not be opened. A read-only file system is reported as such.
pub(super) fn open_error(path: &Path, error: StoreError) -> OpenError {
    match error {
        StoreError::Io { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            failed(path, "written to", source)
        }
        error => OpenError::Store(error),
    }
}

fn make(path: &Path) -> Result<(), OpenError> {
    fs::create_dir_all(path).map_err(|source| failed(path, "made", source))
}

/// Checks whether this version reads the recorded format.
fn check(marker: &Path, bytes: &[u8]) -> Result<(), OpenError> {
    let text = std::str::from_utf8(bytes).ok();
    let number = text.and_then(|text| text.strip_prefix(NAME)?.strip_prefix(' ')?.strip_suffix('\n'));
    match number.and_then(|digits| digits.parse::<u32>().ok()) {
        Some(FORMAT) => Ok(()),
        Some(found) if found > FORMAT => {
            Err(OpenError::Newer { path: marker.to_path_buf(), found: found.to_string(), known: FORMAT })
        }
        Some(_) => Err(OpenError::Store(StoreError::Earlier)),
        None => {
            let what = "it does not name the format of the directory".to_owned();
            Err(OpenError::Damaged { path: marker.to_path_buf(), what })
        }
    }
}

/// Writes a file atomically.
fn write_atomically(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = File::create(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    File::open(dir)?.sync_all()
}

fn failed(path: &Path, action: &'static str, source: io::Error) -> OpenError {
    OpenError::Directory { path: path.to_path_buf(), action, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_file_system_is_not_reported_as_damage() {
        let refused = |kind: io::ErrorKind| {
            let error = StoreError::Io { path: "d/store/LOCK".into(), action: "opened", source: kind.into() };
            open_error(Path::new("d"), error)
        };
        let error = refused(io::ErrorKind::ReadOnlyFilesystem);
        assert!(matches!(error, OpenError::Directory { .. }));
        assert_eq!(
            error.to_string(),
            "the data directory d cannot be written to; choose one that can with --data DIR"
        );
        assert!(matches!(refused(io::ErrorKind::PermissionDenied), OpenError::Store(_)));
    }
}
