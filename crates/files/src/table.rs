//! The rows of a table (CSV, TSV), with the bytes that each had in the file.

use std::io::{self, BufRead, Read};

use csv::StringRecord;
use memchr::{memchr, memchr_iter};

use super::fields::NAME_THE_CHARSET;
use super::{Originals, Reading, Reason, Unread, wrong};
use lookalike_wording::counted;

/// The separators of cells that are detected, the most common one first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// The most bytes of a row. A quote that is not closed makes a row of the rest of the file.
const ROW_BYTES: usize = 64 << 20;
/// What to do about a quote that is not closed.
const CLOSE: &str = "close it, or double a quote that is a part of a quoted text";

/// A row.
#[derive(Debug)]
pub struct Row {
    /// Its bytes in the file without the line break.
    pub raw: Vec<u8>,
    /// The line of the file in which it begins.
    pub line: u64,
    /// Its cells, or what is wrong with it.
    pub cells: Result<StringRecord, Unread>,
}

/// A table whose first row names the columns.
pub struct Table<'a> {
    rows: csv::Reader<Tee<'a>>,
    delimiter: u8,
    names: StringRecord,
    header: Vec<u8>,
    /// The lines before the first row.
    lines_before: u64,
    /// The bytes of the file, if it is not in UTF-8.
    originals: Option<Originals>,
}

/// Keeps the bytes that the reader of rows has taken and that belong to no row yet.
struct Tee<'a> {
    read: Reading<'a>,
    kept: Vec<u8>,
    /// The position in the file of the first byte in `kept`.
    from: u64,
    /// The most bytes to keep.
    most: usize,
    /// Whether a row has more.
    is_over: bool,
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.kept.len() > self.most {
            self.is_over = true;
            return Err(wrong("the row is too long"));
        }
        let count = self.read.read(buffer)?;
        self.kept.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

impl<'a> Table<'a> {
    /// Reads the first row. The delimiter is the one that is `named`, else that of a line `sep=;` before the
    /// first row, as Excel writes it, else `usual`, else it is detected.
    pub fn open(read: Reading<'a>, named: Option<u8>, usual: Option<u8>) -> io::Result<Table<'a>> {
        Table::of_rows(read, (named, usual), ROW_BYTES)
    }

    /// [`Table::open`] with another limit on the bytes of a row; the buffer that is read ahead may exceed it.
    fn of_rows(
        mut read: Reading<'a>,
        (named, usual): (Option<u8>, Option<u8>),
        most: usize,
    ) -> io::Result<Table<'a>> {
        let stated = stated(read.fill_buf()?);
        let (stated, before) = stated.map_or((None, Vec::new()), |(stated, line)| (Some(stated), line));
        read.consume(before.len());
        let delimiter = match named.or(stated).or(usual) {
            Some(delimiter) => delimiter,
            None => detected(read.fill_buf()?),
        };
        let tee = Tee { read, kept: Vec::new(), from: 0, most, is_over: false };
        let mut rows = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(tee);
        let names = rows.headers().map_err(|error| match error.kind() {
            csv::ErrorKind::Utf8 { .. } => wrong(format!(
                "the names of the columns are not UTF-8, or not of the file's charset; {NAME_THE_CHARSET}"
            )),
            _ => error.into(),
        })?;
        let names = names.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned());
        let names: StringRecord = names.collect::<Vec<_>>().into();
        let lines_before = memchr_iter(b'\n', &before).count() as u64;
        let header = [before, taken(&mut rows)].concat();
        Ok(Table { rows, delimiter, names, header, lines_before, originals: None })
    }

    /// The table with rows that have these bytes of the file.
    #[must_use]
    pub(crate) fn with_originals(mut self, mut originals: Option<Originals>) -> Table<'a> {
        if let Some(originals) = &mut originals {
            self.header = originals.take(self.header.len()).to_vec();
        }
        Table { originals, ..self }
    }

    /// The bytes of the first row with its line break, and of the line that states the delimiter.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// What separates cells.
    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.names.iter().map(str::to_owned).collect()
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// If no row can follow.
    pub(crate) fn next_row(&mut self) -> io::Result<Option<Row>> {
        let line = self.rows.position().line() + self.lines_before;
        let mut cells = StringRecord::new();
        let read = self.rows.read_record(&mut cells);
        let raw = taken(&mut self.rows);
        // Line breaks before the row are empty lines, or the end of the row before.
        let breaks = raw.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let line_of = |at: usize| line + memchr_iter(b'\n', &raw[..at]).count() as u64;
        let quoted = || quoted_cells(&raw, self.delimiter);
        let open = quoted().into_iter().find(|(_, end)| end.is_none()).map(|(at, _)| line_of(at));
        let cells = match read {
            Ok(false) => return Ok(None),
            Err(_) if self.rows.get_ref().is_over => {
                let most = self.rows.get_ref().most;
                let why = match open {
                    Some(opens) => {
                        format!("the quote that opens in line {opens} is not closed within {most}")
                    }
                    None => format!("the row that begins in line {} has more than {most}", line_of(breaks)),
                };
                return Err(wrong(format!("{why} bytes; {CLOSE}")));
            }
            Err(error) if error.is_io_error() => return Err(error.into()),
            read => match (read, open) {
                (_, Some(opens)) => Err(Reason::Row.because(format!(
                    "the quote that opens in line {opens} is not closed, and the rest of the file is one \
                     row; {CLOSE}"
                ))),
                (Ok(_), None) => Ok(cells),
                (Err(error), None) => {
                    let Unread { reason, detail } = why_bad(error)?;
                    let is_long = |(from, end): &(usize, Option<usize>)| {
                        end.is_some_and(|end| line_of(*from) < line_of(end))
                    };
                    Err(reason.because(match quoted().into_iter().find(is_long) {
                        Some((from, _)) => format!(
                            "{detail}; the quoted cell that opens in line {} has line breaks: {CLOSE}",
                            line_of(from)
                        ),
                        None => detail,
                    }))
                }
            },
        };
        let line = line_of(breaks);
        let end = raw.len() - raw.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let from = breaks.min(end);
        let own = match &mut self.originals {
            None => raw[from..end].to_vec(),
            Some(originals) => {
                originals.take(from);
                let own = originals.take(end - from).to_vec();
                originals.take(raw.len() - end);
                own
            }
        };
        Ok(Some(Row { raw: own, line, cells }))
    }
}

/// The delimiter that the first line states, and this line.
fn stated(bytes: &[u8]) -> Option<(u8, Vec<u8>)> {
    let end = memchr(b'\n', bytes)? + 1;
    let line = bytes[..end].trim_ascii_start();
    let line = line.strip_suffix(b"\n")?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let bare = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match bare.strip_prefix(b"sep=").or_else(|| bare.strip_prefix(b"SEP=")) {
        Some([delimiter]) if delimiter.is_ascii() => Some((*delimiter, bytes[..end].to_vec())),
        _ => None,
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

/// The quoted cells of a row: the place of the quote that opens each, and of the one that closes it. A quote
/// within a cell that does not begin with one is a part of its text.
fn quoted_cells(raw: &[u8], delimiter: u8) -> Vec<(usize, Option<usize>)> {
    if memchr(b'"', raw).is_none() {
        return Vec::new();
    }
    let (mut cells, mut at, mut is_begin) = (Vec::new(), 0, true);
    while at < raw.len() {
        if is_begin && raw[at] == b'"' {
            let end = closing(raw, at);
            cells.push((at, end));
            let Some(end) = end else { break };
            at = end;
        }
        is_begin = raw[at] == delimiter || matches!(raw[at], b'\r' | b'\n');
        at += 1;
    }
    cells
}

/// The place of the quote that closes the cell which another one opens. Two in a row are one of the text.
fn closing(raw: &[u8], opens: usize) -> Option<usize> {
    let mut at = opens + 1;
    loop {
        at += memchr(b'"', raw.get(at..)?)?;
        if raw.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// Why a row is bad; an error if no row can follow it.
fn why_bad(error: csv::Error) -> io::Result<Unread> {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Ok(Reason::Row.because(format!("{} instead of {expected_len}", counted(*len, "cell"))))
        }
        csv::ErrorKind::Utf8 { err, .. } => Ok(Reason::Bytes.because(format!(
            "cell {} is not UTF-8, or not in the charset of the file; {NAME_THE_CHARSET}",
            err.field() + 1
        ))),
        _ => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: &[u8]) -> (Vec<u8>, Vec<Row>) {
        let mut table = Table::open(Box::new(io::Cursor::new(bytes.to_vec())), None, None).unwrap();
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
    fn a_line_that_states_the_delimiter_is_no_row() {
        for (first, delimiter) in
            [("sep=;\r\n", ";"), ("sep=,\n", ","), ("SEP=\t\r\n", "\t"), ("\"sep=|\"\n", "|")]
        {
            let row = |cells: [&str; 2]| cells.join(delimiter) + "\n";
            let table = format!("{first}{}{}{}", row(["id", "a,b;c"]), row(["1", "x,y;z"]), row(["2", "t"]));
            let table = table.replace("a,b;c", "text").replace("x,y;z", "y z");
            let read = Box::new(io::Cursor::new(table.clone().into_bytes()));
            let mut table = Table::open(read, None, Some(b'\t')).unwrap();
            assert_eq!(table.names(), ["id", "text"], "{first}");
            assert_eq!(table.header(), format!("{first}{}", row(["id", "text"])).as_bytes());
            let found = table.next_row().unwrap().unwrap();
            assert_eq!((found.line, &found.cells.unwrap()[1]), (3, "y z"), "{first}");
        }
        // A column of this name, and a delimiter that the user names.
        let (header, found) = rows(b"sep=;,text\n1,2\n");
        assert_eq!((&header[..], found.len()), (&b"sep=;,text\n"[..], 1));
        let read = Box::new(io::Cursor::new(b"sep=;\na,b;c\n".to_vec()));
        assert_eq!(Table::open(read, Some(b','), None).unwrap().names(), ["a", "b;c"]);
    }

    #[test]
    fn the_line_in_which_an_open_quote_begins_is_named() {
        let why = |found: &[Row], at: usize| found[at].cells.as_ref().unwrap_err().detail.clone();
        for end in ["", "\n", "\nmore,text\nand more\n"] {
            let table = format!("a,b\n1,2\n\n3,\"one \"\"line\nand another\n4,five{end}");
            let (_, found) = rows(table.as_bytes());
            assert!(found[0].cells.is_ok() && found.len() == 2, "{found:?}");
            let why = why(&found, 1);
            assert!(why.contains("opens in line 4 ") && why.contains(CLOSE), "{why}");
        }
        let (_, found) = rows(b"a,b,c\n1,2,3\n4,\"5\n6,7,8\n");
        assert!(why(&found, 1).contains("opens in line 3 is not closed"), "{found:?}");
        // A later quote closes it.
        let (_, found) = rows(b"a,b\n1,\"2\n3,4\n5,\",six\"\n7,8\n");
        assert!(why(&found, 0).contains("opens in line 2 has line breaks"), "{found:?}");
        assert_eq!(&found[1].cells.as_ref().unwrap()[0], "7");
        // Quotes within a cell that does not begin with one are text.
        let (_, found) = rows(b"a,b\n1,5\" disk\n2,say \"x\n");
        assert!(found.iter().all(|row| row.cells.is_ok()) && found.len() == 2, "{found:?}");
    }

    #[test]
    fn a_quote_that_is_not_closed_does_not_take_the_whole_file() {
        let table = "a,b\n1,2\n3,\"open\n".to_owned() + &"4,5\n".repeat(200_000);
        let read = Box::new(io::Cursor::new(table.into_bytes()));
        let mut table = Table::of_rows(read, (None, None), 10_000).unwrap();
        assert!(table.next_row().unwrap().unwrap().cells.is_ok());
        let why = table.next_row().unwrap_err().to_string();
        assert!(why.contains("opens in line 3 is not closed within 10000 bytes"), "{why}");
        assert!(table.rows.get_ref().kept.len() < 100_000);
    }
}
