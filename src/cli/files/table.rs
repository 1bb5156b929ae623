//! The rows of a table (CSV, TSV), with the bytes that each had in the file.

use std::io::{self, BufRead, Read};

use csv::StringRecord;
use memchr::memchr_iter;

use super::{Reading, missing, wrong};
use crate::wording::counted;

/// The separators of cells that are detected, the most common one first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// A row.
#[derive(Debug)]
pub(in crate::cli) struct Row {
    /// Its bytes without the line break.
    pub(in crate::cli) raw: Vec<u8>,
    /// The line of the file in which it begins.
    pub(in crate::cli) line: u64,
    /// Its cells, or what is wrong with it.
    pub(in crate::cli) cells: Result<StringRecord, String>,
}

/// A table whose first row names the columns.
pub(in crate::cli) struct Table<'a> {
    rows: csv::Reader<Tee<'a>>,
    names: StringRecord,
    header: Vec<u8>,
}

/// Keeps the bytes that the reader of rows has taken and that belong to no row yet.
struct Tee<'a> {
    read: Reading<'a>,
    kept: Vec<u8>,
    /// The position in the file of the first byte in `kept`.
    from: u64,
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read.read(buffer)?;
        self.kept.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

impl<'a> Table<'a> {
    /// Reads the first row. Without a delimiter, it is detected.
    pub(in crate::cli) fn open(mut read: Reading<'a>, delimiter: Option<u8>) -> io::Result<Table<'a>> {
        let delimiter = match delimiter {
            Some(delimiter) => delimiter,
            None => detected(read.fill_buf()?),
        };
        let tee = Tee { read, kept: Vec::new(), from: 0 };
        let mut rows = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(tee);
        let names = rows.headers()?.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned());
        let names: StringRecord = names.collect::<Vec<_>>().into();
        let header = taken(&mut rows);
        Ok(Table { rows, names, header })
    }

    /// The bytes of the first row with its line break.
    pub(in crate::cli) fn header(&self) -> &[u8] {
        &self.header
    }

    /// The names of the columns.
    pub(in crate::cli) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }

    /// The place of a column.
    ///
    /// # Errors
    /// If there is none of this name.
    pub(in crate::cli) fn place(&self, wanted: &str) -> io::Result<usize> {
        let place = self.names.iter().position(|name| name == wanted);
        place.ok_or_else(|| wrong(missing("column", wanted, self.names())))
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// If no row can follow.
    pub(in crate::cli) fn next_row(&mut self) -> io::Result<Option<Row>> {
        let line = self.rows.position().line();
        let mut cells = StringRecord::new();
        let read = self.rows.read_record(&mut cells);
        let raw = taken(&mut self.rows);
        let cells = match read {
            Ok(false) => return Ok(None),
            Ok(true) if ends_in_quotes(&raw) => Err("the row ends within a quoted cell".to_owned()),
            Ok(true) => Ok(cells),
            Err(error) => Err(why_bad(error)?),
        };
        // Line breaks before the row are empty lines, or the end of the row before.
        let breaks = raw.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let line = line + memchr_iter(b'\n', &raw[..breaks]).count() as u64;
        let end = raw.len() - raw.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        Ok(Some(Row { raw: raw[breaks.min(end)..end].to_vec(), line, cells }))
    }
}

/// The delimiter that is most frequent in the first row, outside quotes; of equally frequent ones, the most
/// common one.
fn detected(bytes: &[u8]) -> u8 {
    let (mut counts, mut is_quoted) = ([0_usize; DELIMITERS.len()], false);
    for byte in bytes {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\r' | b'\n' if !is_quoted && counts != [0; DELIMITERS.len()] => break,
            _ if is_quoted => {}
            _ => {
                if let Some(at) = DELIMITERS.iter().position(|delimiter| delimiter == byte) {
                    counts[at] += 1;
                }
            }
        }
    }
    let most = counts.iter().copied().max().unwrap_or_default();
    let at = counts.iter().position(|count| *count == most).unwrap_or_default();
    DELIMITERS[at]
}

/// Takes the bytes up to the position of the reader.
fn taken(rows: &mut csv::Reader<Tee>) -> Vec<u8> {
    let end = rows.position().byte();
    let tee = rows.get_mut();
    let count = (end - tee.from) as usize;
    tee.from = end;
    let rest = tee.kept.split_off(count.min(tee.kept.len()));
    std::mem::replace(&mut tee.kept, rest)
}

/// Whether a row without a line break, which is the last one, ends in a cell whose quote is not closed.
fn ends_in_quotes(raw: &[u8]) -> bool {
    !raw.ends_with(b"\n") && !raw.ends_with(b"\r") && memchr_iter(b'"', raw).count() % 2 == 1
}

/// Why a row is bad; an error if no row can follow it.
fn why_bad(error: csv::Error) -> io::Result<String> {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Ok(format!("{} instead of {expected_len}", counted(*len, "cell")))
        }
        csv::ErrorKind::Utf8 { err, .. } => Ok(format!(
            "cell {} is not UTF-8, or has bytes that are invalid in the charset of the file",
            err.field() + 1
        )),
        _ => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: &[u8]) -> (Vec<u8>, Vec<Row>) {
        let mut table = Table::open(Box::new(io::Cursor::new(bytes.to_vec())), None).unwrap();
        let header = table.header().to_vec();
        (header, std::iter::from_fn(|| table.next_row().unwrap()).collect())
    }

    #[test]
    fn rows_keep_their_bytes_whatever_the_line_breaks() {
        for end in ["\n", "\r\n", "\r"] {
            let lines = ["\u{feff}a,b", "1,\"x\ny\"", " 2 ,'z'", "3,\"\"\"q\""];
            let (header, rows) = rows((lines.join(end) + end).as_bytes());
            assert!(header.starts_with(lines[0].as_bytes()));
            let raw: Vec<&[u8]> = rows.iter().map(|row| &row.raw[..]).collect();
            assert_eq!(raw, lines[1..].iter().map(|line| line.as_bytes()).collect::<Vec<_>>(), "{end:?}");
            assert_eq!(&rows[2].cells.as_ref().unwrap()[1], "\"q");
        }
        let (_, rows) = rows(b"a,b\n\n1,2\n\n\n3,4");
        assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), [3, 6]);
        assert_eq!(rows[1].raw, b"3,4");
    }

    #[test]
    fn the_delimiter_is_that_of_the_first_row() {
        for (first, expected) in [
            ("id,text", b','),
            ("id;text;\"a,b,c,d\"", b';'),
            ("id\ttext, long\tday", b'\t'),
            ("id|text", b'|'),
            ("text", b','),
            ("id;text, long", b','),
        ] {
            let rest = "\n1,2,3,4,5,6;7\n";
            assert_eq!(detected([first, rest].concat().as_bytes()), expected, "{first}");
        }
    }

    #[test]
    fn a_row_that_ends_within_quotes_is_bad() {
        let (_, rows) = rows(b"a,b\n1,2\n3,\"the text ends he");
        assert!(rows[0].cells.is_ok() && rows[1].cells.is_err(), "{rows:?}");
    }
}
