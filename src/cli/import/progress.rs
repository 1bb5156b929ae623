//! The progress of an import on disk, next to its first file, so that the same command goes on there.
//!
//! It belongs to one server, collection and set of files: for others the import starts with the first line.
//! Standard input has none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use lookalike_files::shown;

/// The ending of its name.
const ENDING: &str = "import-progress";

/// Whether a file is the progress of an import, and no file of documents.
pub(super) fn is_progress(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

/// The saved progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// The URL of the route.
    pub(super) target: String,
    /// The total size of the files.
    pub(super) bytes: u64,
    /// Records that are answered.
    pub(super) lines: u64,
    /// The length of the report about these records.
    #[serde(default)]
    pub(super) reported: u64,
}

/// The progress, and where it is saved.
pub(super) struct Saved {
    path: Option<PathBuf>,
    pub(super) progress: Progress,
    has_failed: bool,
}

impl Saved {
    /// The progress of an earlier run; none if `restarts`.
    pub(super) fn of(first: Option<&Path>, target: String, bytes: u64, restarts: bool) -> Saved {
        let path = first.map(|file| file.with_added_extension(ENDING));
        let own = Progress { target, bytes, ..Progress::default() };
        let earlier = || -> Option<Progress> {
            let earlier: Progress = serde_json::from_slice(&fs::read(path.as_ref()?).ok()?).ok()?;
            (earlier.target == own.target && earlier.bytes == own.bytes).then_some(earlier)
        };
        let progress = if restarts { None } else { earlier() };
        Saved { progress: progress.unwrap_or(own), path, has_failed: false }
    }

    /// Whether the progress is on the disk after it was saved.
    pub(super) fn is_kept(&self) -> bool {
        self.path.is_some() && !self.has_failed
    }

    pub(super) fn save(&mut self) {
        let Some(path) = &self.path else {
            return;
        };
        let written = serde_json::to_vec(&self.progress)
            .map_err(io::Error::from)
            .and_then(|bytes| write_whole(path, &bytes));
        if let Err(error) = written
            && !std::mem::replace(&mut self.has_failed, true)
        {
            eprintln!("lookalike: progress cannot be written to {}: {error}", shown(path));
        }
    }

    pub(super) fn forget(&self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_added_extension("partial");
    fs::write(&partial, bytes)?;
    fs::rename(partial, path)
}
