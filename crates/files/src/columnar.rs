//! Files whose records are rows of typed columns: Parquet and Arrow IPC.
//!
//! The values of a few columns are read as text; a copy has all columns and types. Both need the whole file,
//! so neither is read from a pipe.

use std::fs::File;
use std::io;

use super::parquet::Added;
use super::{Format, Opens, arrow, parquet, wrong};

/// The values of columns in one row, as text; `None` for a value that is missing.
pub type Values = Vec<Option<String>>;

/// The rows of a file.
pub type Rows = Box<dyn Iterator<Item = io::Result<Values>> + Send>;

impl Format {
    /// Whether its records are rows of typed columns.
    pub fn is_columnar(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow)
    }
}

/// The rows of a file with these columns, in order; `a.b` is the column of this name, or the field `b` of the
/// group `a`; `a[].b` are the texts in all elements of the list `a`. The bytes of the column `bytes`, or of
/// the field `bytes` in it, become base64.
///
/// # Errors
/// If the file cannot be read, or has no such column. No row follows an error.
pub fn rows(
    from: &(impl Opens + ?Sized),
    format: Format,
    names: &[&str],
    bytes: Option<&str>,
) -> io::Result<Rows> {
    match format {
        Format::Arrow => Ok(Box::new(arrow::rows(&from.chunks()?, names, bytes)?)),
        _ => Ok(Box::new(parquet::rows(from.chunks()?, names, bytes)?)),
    }
}

/// The names of the columns.
pub fn columns(from: &(impl Opens + ?Sized), format: Format) -> io::Result<Vec<String>> {
    let from = from.chunks()?;
    if format == Format::Arrow { arrow::columns(&from) } else { parquet::columns(from) }
}

/// The number of rows.
pub fn count(from: &(impl Opens + ?Sized), format: Format) -> io::Result<u64> {
    let from = from.chunks()?;
    if format == Format::Arrow { arrow::count(&from) } else { parquet::count(from) }
}

/// Other texts for some rows of a copy.
pub struct Replaced<'a> {
    /// Their column.
    pub column: &'a str,
    /// The text of a row, by its number in the original, if it is another one. Rows are asked for in order.
    pub text: &'a mut dyn FnMut(u64) -> io::Result<Option<String>>,
}

/// Checks that a copy can have other texts in this column.
///
/// # Errors
/// Why it cannot.
pub fn check_replaced(from: &(impl Opens + ?Sized), format: Format, column: &str) -> io::Result<()> {
    let from = from.chunks()?;
    let is_text = match format {
        Format::Arrow => arrow::has_texts(&from, column)?,
        _ => parquet::has_texts(from, column)?,
    };
    if is_text { Ok(()) } else { Err(wrong(format!("the column {column:?} is no column of plain texts"))) }
}

/// Writes a copy of a file with the rows for which `kept` says so; rows behind its end are left out. Only
/// Parquet gets more columns.
///
/// # Errors
/// If the file cannot be read, or has fewer rows.
pub fn copy(
    from: &(impl Opens + ?Sized),
    format: Format,
    to: File,
    kept: &[bool],
    added: Option<Added<'_>>,
    replaced: Option<Replaced<'_>>,
) -> io::Result<()> {
    let from = from.chunks()?;
    match format {
        Format::Arrow => arrow::copy(&from, to, kept, replaced),
        _ => parquet::copy(from, to, kept, added, replaced),
    }
}

/// The size of a copy of all rows, about.
///
/// # Errors
/// If the file cannot be read.
pub fn copied_bytes(from: &(impl Opens + ?Sized), format: Format) -> io::Result<u64> {
    let from = from.chunks()?;
    if format == Format::Arrow { Ok(arrow::copied_bytes(&from)) } else { parquet::copied_bytes(from) }
}
