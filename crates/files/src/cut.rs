//! Cuts the files of all formats into records, as they are in the file.
//!
//! Records that cannot be read are found later, one by one ([`Raw::said`](super::Raw::said)). An error here
//! means that the file cannot be read further.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use encoding_rs::{Encoding, UTF_8};

use super::lines::records_of_json;
use super::magic::refuse_foreign;
use super::{
    About, Content, Fields, Format, InUtf8, Opens, Part, Places, Raw, Reading, Table, Unread, Value, archive,
    columnar, in_utf8, unpacked, with_originals, wrong,
};

/// The longest line, element or text, in bytes.
pub(super) const LONGEST: usize = 256 << 20;

/// A part of a file that is passed on.
#[allow(clippy::large_enum_variant, reason = "it is passed on, and none is kept")]
pub enum Event<'e> {
    /// A record, or another part of the file.
    Record(Raw, &'e Arc<About>),
    /// The end of a block of lines; the next one is to be read into these bytes.
    End(&'e Bytes, &'e mut Vec<u8>),
}

/// How files are read.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The charset of lines, tables and texts, as the user names it.
    pub charset: Option<&'static Encoding>,
    /// The delimiter of tables, as the user names it.
    pub delimiter: Option<u8>,
    /// Whether texts are HTML pages.
    pub is_page: bool,
    /// The approximate bytes of a block of lines; with 1, each line is passed on when it arrives.
    pub block: usize,
    /// Whether records of other charsets have their original bytes.
    pub keeps_originals: bool,
}

/// The choices of a command about the records.
pub trait Wants {
    /// How the files are read.
    fn how(&self) -> How;

    /// The columns that are used of a table with those of this row, which has no values yet.
    ///
    /// # Errors
    /// If one is missing.
    fn columns(&self, row: &Fields<'_>) -> Result<Vec<String>, Unread>;

    /// The column whose bytes are read as base64: it has images.
    fn image(&self) -> Option<&str> {
        None
    }

    /// Whether a line is the header of an export, which is no record; `None` for any other line.
    ///
    /// # Errors
    /// Why an export with this header is not read.
    fn header(&self, line: &[u8]) -> Option<Result<(), String>>;
}

/// Cuts one file into records.
pub struct Cut<'a> {
    /// The number of the file.
    pub file: u32,
    /// Its format.
    pub format: Format,
    /// The choices of the command.
    pub wants: &'a dyn Wants,
    /// Gets the line of the record that was read last.
    pub line: &'a mut u64,
    /// Is called with all parts of the file until it returns `false`.
    pub each: &'a mut dyn FnMut(Event) -> bool,
}

impl Cut<'_> {
    /// The records of a file of any format without columns.
    pub fn records(&mut self, (mut read, places): (Reading<'_>, Places)) -> io::Result<()> {
        if self.format != Format::Image {
            refuse_foreign(&mut read, self.format, self.wants.how().charset.is_some())?;
        }
        match self.format {
            Format::Jsonl => {
                let Some((begun, about)) = self.begun(read)? else { return Ok(()) };
                records_of_json(self, begun, &about)
            }
            Format::Text | Format::Image => {
                let mut bytes = Vec::new();
                if read.take(LONGEST as u64 + 1).read_to_end(&mut bytes)? > LONGEST {
                    return Err(wrong("a text or an image is longer than 256 MiB"));
                }
                let of = if self.format == Format::Image { Content::Image } else { Content::Text };
                self.pass(1, of(bytes), &Arc::default());
                Ok(())
            }
            Format::Csv | Format::Tsv => self.table(read),
            Format::Warc => {
                let about = Arc::default();
                for part in archive(read, places) {
                    let is_wanted = match part? {
                        Part::Record(record) => self.pass(*self.line + 1, Content::Record(record), &about),
                        Part::Piece(piece) => self.pass(*self.line, Content::Piece(piece), &about),
                    };
                    if !is_wanted {
                        break;
                    }
                }
                Ok(())
            }
            Format::Parquet | Format::Arrow => {
                Err(wrong("Parquet and Arrow are read from files only, because they are read twice"))
            }
        }
    }

    fn table(&mut self, read: Reading<'_>) -> io::Result<()> {
        let Some((InUtf8 { read, originals, encoding, is_guessed, .. }, _)) = self.begun(read)? else {
            return Ok(());
        };
        let mut table = opened(read, self.format, self.wants)?.with_originals(originals);
        let columns = table.names();
        used(&columns, Value::Text(""), self.wants).map_err(wrong)?;
        let about = Arc::new(About { encoding, is_guessed, columns, delimiter: table.delimiter() });
        let header = Content::Columns(table.header().to_vec(), table.delimiter());
        let mut is_wanted = self.pass(0, header, &about);
        while is_wanted && let Some(row) = table.next_row()? {
            is_wanted = self.pass(row.line, Content::Row(row), &about);
        }
        Ok(())
    }

    /// The rows of a file of columns.
    pub fn rows<F: Opens + ?Sized>(&mut self, path: &F) -> io::Result<()> {
        let columns =
            used(&columnar::columns(path, self.format)?, Value::Column, self.wants).map_err(wrong)?;
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let rows = columnar::rows(path, self.format, &names, self.wants.image())?;
        let about = Arc::new(About { columns, ..About::default() });
        for values in rows {
            if !self.pass(*self.line + 1, Content::Values(values?), &about) {
                break;
            }
        }
        Ok(())
    }

    /// The file in UTF-8, after its charset was passed on if that is another one; `None` if no more is
    /// wanted.
    fn begun<'r>(&mut self, read: Reading<'r>) -> io::Result<Option<(InUtf8<'r>, Arc<About>)>> {
        let How { charset, keeps_originals, .. } = self.wants.how();
        let begun = with_originals(read, charset, keeps_originals)?;
        let (encoding, is_guessed) = (begun.encoding, begun.is_guessed);
        let about = Arc::new(About { encoding, is_guessed, ..About::default() });
        let content = Content::Charset(begun.encoding, begun.mark.clone());
        let is_plain = begun.encoding == UTF_8 && begun.mark.is_empty();
        let is_wanted = is_plain || self.pass(0, content, &about);
        Ok(is_wanted.then_some((begun, about)))
    }

    /// Passes a part of the file on. Returns whether more is wanted.
    pub(super) fn pass(&mut self, line: u64, content: Content, about: &Arc<About>) -> bool {
        self.pass_raw(Raw::new(self.file, line, content), about)
    }

    pub(super) fn pass_raw(&mut self, raw: Raw, about: &Arc<About>) -> bool {
        *self.line = raw.line;
        (self.each)(Event::Record(raw, about))
    }
}

/// Why a file cannot be read behind this line; 0 if nothing of it was read.
pub fn broken(error: &io::Error, line: u64) -> String {
    let further = if line == 0 { "" } else { " further" };
    format!("the file cannot be read{further}: {error}")
}

/// A table, whose delimiter the user names, or its format.
fn opened<'r>(read: Reading<'r>, format: Format, wants: &dyn Wants) -> io::Result<Table<'r>> {
    Table::open(read, wants.how().delimiter, format.delimiter())
}

/// The columns that are used of a table with these.
///
/// # Errors
/// If one is missing, or two have its name.
fn used(names: &[String], value: Value<'_>, wants: &dyn Wants) -> Result<Vec<String>, String> {
    let row = Fields::of_row(names, names.iter().map(|_| value));
    let used = wants.columns(&row).map_err(|unread| unread.detail)?;
    match used.iter().find(|wanted| names.iter().filter(|name| name == wanted).count() > 1) {
        Some(name) => Err(format!(
            "two columns have the name {name:?}, and which one is meant is unknown: rename one of them"
        )),
        None => Ok(used),
    }
}

/// Checks that a table has the columns that are wanted: no record of it could be read otherwise. A file that
/// cannot be read is reported when it is read.
///
/// # Errors
/// If one is missing.
pub fn check_columns<F: Opens + ?Sized>(path: &F, format: Format, wants: &dyn Wants) -> Result<(), String> {
    let names = match format {
        Format::Csv | Format::Tsv => unpacked(path, &Arc::default())
            .and_then(|mut read| {
                refuse_foreign(&mut read, format, wants.how().charset.is_some())?;
                in_utf8(read, wants.how().charset)
            })
            .and_then(|read| opened(read, format, wants))
            .map(|table| table.names()),
        format if format.is_columnar() => columnar::columns(path, format),
        _ => return Ok(()),
    };
    let value = if format.is_columnar() { Value::Column } else { Value::Text("") };
    names.map_or(Ok(()), |names| used(&names, value, wants).map(drop))
}
