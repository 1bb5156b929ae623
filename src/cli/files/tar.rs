//! The files in a tar archive, compressed or not, one after the other in the order of the archive.
//!
//! Nothing is written to the disk. *Absent*: archives in archives, links.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::Reading;

/// Whether the name is that of a tar archive.
pub(in crate::cli) fn is_tar(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    [".tar", ".tar.gz", ".tgz", ".tar.zst"].iter().any(|ending| name.ends_with(ending))
}

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Member {
    pub(in crate::cli) path: PathBuf,
    /// Its number among the entries of the archive.
    number: usize,
    pub(in crate::cli) bytes: u64,
    mode: u32,
    /// The time of its last change, in seconds since 1970.
    modified: u64,
}

impl Member {
    /// The header of a file in its place, with another size. The path is still to be set.
    pub(in crate::cli) fn header(&self, bytes: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(self.mode);
        header.set_mtime(self.modified);
        header
    }
}

/// Calls `each` with every file in the archive, and its bytes, until it returns `false`.
pub(in crate::cli) fn each_file(
    read: Reading<'_>,
    each: &mut dyn FnMut(&Member, Reading<'_>) -> bool,
) -> io::Result<()> {
    let mut archive = tar::Archive::new(read);
    for (number, entry) in archive.entries()?.enumerate() {
        let entry = entry?;
        let header = entry.header();
        if !header.entry_type().is_file() {
            continue;
        }
        let (mode, modified) = (header.mode()?, header.mtime()?);
        let member = Member { path: entry.path()?.into_owned(), number, bytes: entry.size(), mode, modified };
        if !each(&member, Box::new(BufReader::with_capacity(64 << 10, entry))) {
            break;
        }
    }
    Ok(())
}
