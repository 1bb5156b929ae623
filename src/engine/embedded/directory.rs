//! The data directory: what is in it, and whether this version may use it.
//!
//! ```text
//! DIR/FORMAT       "lookalike 1\n": written first, read before anything else is opened
//! DIR/store/       documents, postings, the change log (see `store`)
//! DIR/snapshots/   the index (see `snapshot`)
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::engine::OpenError;

/// The format of the directory as a whole. Raised when an older version could not read what this one writes.
const FORMAT: u32 = 1;
const NAME: &str = "lookalike";

/// The paths of a data directory that this version may use.
pub(super) struct Directory {
    pub(super) store: PathBuf,
    pub(super) snapshots: PathBuf,
}

impl Directory {
    /// Opens a data directory, or makes one.
    pub(super) fn open(path: &Path) -> Result<Directory, OpenError> {
        let directory = Directory { store: path.join("store"), snapshots: path.join("snapshots") };
        make(path)?;
        let marker = path.join("FORMAT");
        match fs::read_to_string(&marker) {
            Ok(text) => check(path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_whole(path, &marker, format!("{NAME} {FORMAT}\n").as_bytes())
                    .map_err(|source| failed(path, "written to", source))?;
            }
            Err(error) => return Err(failed(&marker, "read", error)),
        }
        make(&directory.snapshots)?;
        Ok(directory)
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
