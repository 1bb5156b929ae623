//! The data directory: what is in it, and whether this version may use it.
//!
//! ```text
//! DIR/FORMAT       "lookalike 2\n": read before anything else is opened, written when the store is whole
//! DIR/store/       documents, postings, the change log (see `store`)
//! DIR/snapshots/   the index (see `snapshot`)
//! DIR/incoming/    backups while they are uploaded; emptied at the start
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::engine::OpenError;

/// The format of the directory as a whole. Raised when an older version could not read what this one writes.
const FORMAT: u32 = 2;
const NAME: &str = "lookalike";

/// The paths of a data directory that this version may use.
pub(super) struct Directory {
    path: PathBuf,
    pub(super) store: PathBuf,
    pub(super) snapshots: PathBuf,
    pub(super) incoming: PathBuf,
    /// Whether it never held a whole store, so that one may be made.
    pub(super) is_new: bool,
}

impl Directory {
    /// Opens a data directory, or makes one.
    pub(super) fn open(path: &Path) -> Result<Directory, OpenError> {
        make(path)?;
        let marker = path.join("FORMAT");
        let is_new = match fs::read_to_string(&marker) {
            Ok(text) => check(path, &text).map(|()| false)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(failed(&marker, "read", error)),
        };
        let [store, snapshots, incoming] = ["store", "snapshots", "incoming"].map(|name| path.join(name));
        Ok(Directory { path: path.to_path_buf(), store, snapshots, incoming, is_new })
    }

    /// Says that the directory holds a whole store.
    pub(super) fn seal(&self) -> Result<(), OpenError> {
        if self.is_new {
            let text = format!("{NAME} {FORMAT}\n");
            write_whole(&self.path, &self.path.join("FORMAT"), text.as_bytes())
                .map_err(|source| failed(&self.path, "written to", source))?;
        }
        make(&self.snapshots)
    }
}

fn make(path: &Path) -> Result<(), OpenError> {
    fs::create_dir_all(path).map_err(|source| failed(path, "made", source))
}

fn check(path: &Path, text: &str) -> Result<(), OpenError> {
    let found = text.strip_prefix(NAME).map(str::trim);
    match found {
        Some(number) if number == FORMAT.to_string() => Ok(()),
        _ => Err(OpenError::Newer {
            path: path.to_path_buf(),
            found: format!("{:?}", found.unwrap_or(text).chars().take(40).collect::<String>()),
            known: FORMAT,
        }),
    }
}

/// Writes a file that is there whole or not at all.
fn write_whole(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
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
