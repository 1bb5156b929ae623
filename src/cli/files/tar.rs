//! The files in a tar archive, compressed or not, one after the other in the order of the archive.
//!
//! Nothing is written to the disk. *Absent*: archives in archives, links.

use std::io::{self, BufReader};
use std::path::Path;

use super::Reading;

/// Whether the name is that of a tar archive.
pub(in crate::cli) fn is_tar(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    [".tar", ".tar.gz", ".tgz", ".tar.zst"].iter().any(|ending| name.ends_with(ending))
}

/// Calls `each` with the name and the bytes of every file in the archive, until it returns `false`.
pub(in crate::cli) fn each_file(
    read: Reading<'_>,
    each: &mut dyn FnMut(&Path, Reading<'_>) -> bool,
) -> io::Result<()> {
    let mut archive = tar::Archive::new(read);
    for entry in archive.entries()? {
        let entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path()?.into_owned();
        if !each(&name, Box::new(BufReader::with_capacity(64 << 10, entry))) {
            break;
        }
    }
    Ok(())
}
