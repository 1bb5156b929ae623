//! A record as it is in its file, and the step from there to its content, which all commands share.

use bytes::Bytes;
use encoding_rs::{Encoding, UTF_8};

use super::archive::Holds;
use super::columnar::Values;
use super::fields::{Value, not_utf8};
use super::{Fields, How, Piece, Reason, Record, Row, Unread};
use lookalike_text::{CharsetOf, Decoded, WrongBytes, decode};

/// A record as it is in its file.
pub struct Raw {
    /// The number of its file.
    pub file: u32,
    /// Its line; in an archive and of columns the number of the record.
    pub line: u64,
    /// Its bytes.
    pub content: Content,
    /// The bytes of a line or an element in a file that is not in UTF-8, if they are kept.
    pub original: Option<Bytes>,
    /// Where a line stands in its file, in decompressed bytes behind a byte order mark. It is not known if
    /// the file is not in UTF-8.
    pub place: Option<u64>,
}

/// The bytes of a record.
pub enum Content {
    /// A line with a JSON object, or a blank one.
    Line(Bytes),
    /// An element of an array, with the blanks before it.
    Element(Vec<u8>),
    /// A row of a table.
    Row(Row),
    /// A whole file.
    Text(Vec<u8>),
    /// A whole file that is an image.
    Image(Vec<u8>),
    /// A record of an archive.
    Record(Record),
    /// A piece of the body of the record before it.
    Piece(Piece),
    /// The columns of a row of a file of columns that are read.
    Values(Values),
    /// The first row of a table, which names the columns, and what separates cells.
    Columns(Vec<u8>, u8),
    /// The header of an export.
    Header(Vec<u8>),
    /// The beginning of a file that is not in UTF-8, or has a byte order mark: its charset, and the mark.
    Charset(&'static Encoding, Vec<u8>),
    /// A bracket of an array, with the blanks around it.
    Bracket(Vec<u8>),
    /// Why the file cannot be read further.
    Broken(String),
}

/// The facts that the records of a file share.
#[derive(Clone, Debug)]
pub struct About {
    /// The charset of a file that is read as UTF-8.
    pub encoding: &'static Encoding,
    /// Whether it is guessed.
    pub is_guessed: bool,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// What separates the cells of a table.
    pub delimiter: u8,
}

/// The content of a record.
pub enum Said<'a> {
    /// An object, or a row.
    Fields(Fields<'a>),
    /// A whole file.
    Text(Decoded<'a>),
    /// A whole file that is an image.
    Image(&'a [u8]),
    /// A page or text of a web archive: the name of its field, `html` or `text`, and the content.
    Capture(&'a Record, &'static str, Decoded<'static>),
    /// It is not meant to become a document.
    Nothing,
}

impl Default for About {
    /// That of a file whose records have their own charsets.
    fn default() -> About {
        About { encoding: UTF_8, is_guessed: false, columns: Vec::new(), delimiter: b',' }
    }
}

impl Said<'_> {
    /// The charset that it was read in, if that is doubtful.
    pub fn doubtful_charset(&self, about: &About) -> Option<CharsetOf> {
        let charset = match self {
            Said::Text(text) | Said::Capture(_, _, text) => text.charset,
            Said::Fields(_) | Said::Image(_) | Said::Nothing => {
                CharsetOf { encoding: about.encoding, is_guessed: about.is_guessed, replaced: 0 }
            }
        };
        Some(charset).filter(CharsetOf::is_doubtful)
    }
}

impl Raw {
    /// A record as it stands in a file.
    pub fn new(file: u32, line: u64, content: Content) -> Raw {
        Raw { file, line, content, original: None, place: None }
    }

    /// The content of the record.
    ///
    /// # Errors
    /// Why it is not read.
    pub fn said<'a>(&'a self, about: &'a About, how: How) -> Result<Said<'a>, Unread> {
        let of_json = |bytes: &'a [u8]| Fields::of_json(bytes, about.encoding).map(Said::Fields);
        let of_row = |cells: &mut dyn Iterator<Item = Value<'a>>| {
            Ok(Said::Fields(Fields::of_row(&about.columns, cells)))
        };
        match &self.content {
            Content::Line(_) if self.content.is_blank() => Ok(Said::Nothing),
            Content::Line(line) => of_json(line),
            Content::Element(element) => of_json(element),
            Content::Row(row) => {
                let cells = row.cells.as_ref().map_err(Unread::clone)?;
                of_row(&mut cells.iter().map(Value::Text))
            }
            Content::Values(values) => {
                let value = |value: &'a Option<String>| value.as_deref().map_or(Value::Null, Value::Text);
                of_row(&mut values.iter().map(value))
            }
            Content::Text(bytes) => {
                let text = decode(bytes, how.charset.map(Encoding::name), how.is_page);
                text.map(Said::Text).map_err(|error| match error {
                    WrongBytes::Utf8(at) => not_utf8(at),
                    other => Reason::Bytes.because(other.to_string()),
                })
            }
            Content::Image(bytes) => Ok(Said::Image(bytes)),
            Content::Record(record) => match record.holds() {
                Holds::Document { field, content } => Ok(Said::Capture(record, field, content)),
                Holds::Skipped(reason) => Err(reason.into()),
                Holds::Nothing => Ok(Said::Nothing),
            },
            Content::Columns(..)
            | Content::Header(_)
            | Content::Charset(..)
            | Content::Bracket(_)
            | Content::Piece(_) => Ok(Said::Nothing),
            Content::Broken(why) => Err(Reason::Cut.because(why)),
        }
    }
}

impl Content {
    /// Whether it is a record, which has a number.
    pub fn is_record(&self) -> bool {
        !matches!(
            self,
            Content::Columns(..)
                | Content::Header(_)
                | Content::Charset(..)
                | Content::Bracket(_)
                | Content::Piece(_)
        )
    }

    /// Whether it is a line of blanks.
    pub fn is_blank(&self) -> bool {
        matches!(self, Content::Line(line) if line.iter().all(u8::is_ascii_whitespace))
    }

    /// The bytes in a file in UTF-8; none of a row of columns.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Content::Line(bytes) => bytes,
            Content::Text(bytes)
            | Content::Image(bytes)
            | Content::Columns(bytes, _)
            | Content::Header(bytes)
            | Content::Element(bytes)
            | Content::Charset(_, bytes)
            | Content::Bracket(bytes) => bytes,
            Content::Row(row) => &row.raw,
            Content::Record(record) => record.bytes(),
            Content::Piece(piece) => &piece.bytes,
            Content::Values(_) => &[],
            Content::Broken(why) => why.as_bytes(),
        }
    }

    /// The number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "a size in bytes, of any content")]
    pub fn len(&self) -> usize {
        match self {
            Content::Values(values) => values.iter().flatten().map(String::len).sum(),
            _ => self.bytes().len(),
        }
    }
}
