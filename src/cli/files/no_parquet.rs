//! Stands for `parquet` in a program that is built without that feature: every call fails and says so.

use std::fs::File;
use std::io;
use std::path::Path;

use super::wrong;

/// The values of columns in one row.
pub(in crate::cli) type Values = Vec<Option<String>>;

/// The rows of a file.
pub(in crate::cli) fn rows(_: &Path, _: &[&str]) -> io::Result<std::iter::Empty<io::Result<Values>>> {
    Err(unknown())
}

/// The names of the columns.
pub(in crate::cli) fn columns(_: &Path) -> io::Result<Vec<String>> {
    Err(unknown())
}

/// Writes a copy of a file.
pub(in crate::cli) fn copy(_: &Path, _: File, _: &[bool]) -> io::Result<()> {
    Err(unknown())
}

fn unknown() -> io::Error {
    wrong("this program is built without Parquet: build it with --features parquet")
}
