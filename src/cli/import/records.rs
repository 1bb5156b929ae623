//! Records of many file formats, as lines that `POST /documents` accepts.
//!
//! A record that cannot be read fails alone, and the error names its position. A file that cannot be read
//! further ends with an error. Records are not checked against the rules of the server: a record that the
//! server refuses is sent too, and fails alone with the message of the server.

use std::io::{self, BufRead, Read};
use std::path::Path;

use ruzstd::decoding::StreamingDecoder;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::archive::Skipped;
use crate::text::decode;

/// The result of reading one record.
#[derive(Debug)]
pub(super) enum Found {
    /// A line for the server, without its line break.
    Line(Vec<u8>),
    /// A record that is not meant to become a document.
    Nothing,
    /// A record that could have become a document, and why it is left out.
    Skipped(Skipped),
    /// A record that should have become a document, and what is wrong with it.
    Bad(String),
}

/// The records of a file; none follow an error.
pub(super) type Records = Box<dyn Iterator<Item = io::Result<Found>> + Send>;

/// The longest id that the server takes, in bytes.
const ID_BYTES: usize = 256;

/// The columns of a table that are used.
pub(super) struct Columns {
    pub(super) delimiter: u8,
    pub(super) text: String,
    pub(super) id: Option<String>,
    pub(super) metadata: Vec<String>,
}

pub(super) fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

pub(super) fn line(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

/// The lines of a file, which are documents already.
pub(super) fn lines(read: Box<dyn BufRead + Send>) -> Records {
    Box::new(read.split(b'\n').map(|line| line.map(Found::Line)))
}

/// A file that is one text, in UTF-8 or in its detected charset.
pub(super) fn text(mut read: Box<dyn BufRead + Send>, path: &Path) -> Records {
    let id = path.display().to_string();
    let whole = move || {
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes)?;
        Ok(match decode(&bytes, None, false) {
            Ok(text) => Found::Line(line(&json!({"id": fitting(&id), "text": text}))),
            Err(error) => Found::Bad(error.to_string()),
        })
    };
    Box::new(std::iter::once_with(whole))
}

/// A table whose first row names the columns.
///
/// # Errors
/// If the first row cannot be read, or has no such column.
pub(super) fn table(read: Box<dyn BufRead + Send>, columns: &Columns) -> io::Result<Records> {
    let mut table = csv::ReaderBuilder::new().delimiter(columns.delimiter).from_reader(read);
    let names = table.headers()?.clone();
    let place = |wanted: &str| {
        names.iter().position(|name| name.trim_start_matches('\u{feff}') == wanted).ok_or_else(|| {
            wrong(format!(
                "there is no column {wanted:?}; there are {}",
                names.iter().collect::<Vec<_>>().join(", ")
            ))
        })
    };
    let text = place(&columns.text)?;
    let id = columns.id.as_deref().map(place).transpose()?;
    let metadata = columns.metadata.iter().map(|name| Ok((name.clone(), place(name)?)));
    let metadata: Vec<(String, usize)> = metadata.collect::<io::Result<_>>()?;
    let document = move |row: csv::Result<csv::StringRecord>| {
        let row = match row {
            Ok(row) => row,
            Err(error) => return bad_row(error),
        };
        let cell = |place: usize| row.get(place).unwrap_or_default();
        let mut document = Map::from_iter([("text".to_owned(), cell(text).into())]);
        if let Some(id) = id {
            document.insert("id".to_owned(), cell(id).into());
        }
        if !metadata.is_empty() {
            let fields = metadata.iter().map(|(name, place)| (name.clone(), cell(*place).into()));
            document.insert("metadata".to_owned(), Value::Object(fields.collect()));
        }
        Ok(Found::Line(line(&Value::Object(document))))
    };
    Ok(Box::new(table.into_records().map(document)))
}

/// Why a row is bad; an error if no row can follow it.
fn bad_row(error: csv::Error) -> io::Result<Found> {
    let place = |position: &Option<csv::Position>| {
        position.as_ref().map_or_else(String::new, |at| format!("row {}, line {}: ", at.record(), at.line()))
    };
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            Ok(Found::Bad(format!("{}{len} cells instead of {expected_len}", place(pos))))
        }
        csv::ErrorKind::Utf8 { pos, err } => {
            Ok(Found::Bad(format!("{}cell {} is not UTF-8", place(pos), err.field() + 1)))
        }
        _ => Err(error.into()),
    }
}

/// The id, or its SHA-256 if it is longer than [`ID_BYTES`].
pub(super) fn fitting(id: &str) -> String {
    if id.len() <= ID_BYTES {
        return id.to_owned();
    }
    let digest: String = Sha256::digest(id.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256-{digest}")
}

/// Decompresses zstd data of any number of frames.
pub(super) struct Zstd<R: Read> {
    /// Created at the first read, because it reads the frame header.
    decoder: Option<Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>>,
    rest: Option<R>,
}

impl<R: BufRead> Zstd<R> {
    pub(super) fn new(read: R) -> Zstd<R> {
        Zstd { decoder: None, rest: Some(read) }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                let count = decoder.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
            }
            if let Some(decoder) = self.decoder.take() {
                self.rest = Some(decoder.into_inner());
            }
            let Some(mut rest) = self.rest.take() else { return Ok(0) };
            if rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let decoder =
                StreamingDecoder::new(rest).map_err(|error| wrong(format!("not zstd data: {error}")))?;
            self.decoder = Some(Box::new(decoder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Box<dyn BufRead + Send> {
        Box::new(io::Cursor::new(bytes.to_vec()))
    }

    fn values(records: Records) -> Vec<Value> {
        let value = |found| match found {
            Ok(Found::Line(line)) => serde_json::from_slice(&line).unwrap(),
            other => panic!("{other:?}"),
        };
        records.map(value).collect()
    }

    #[test]
    fn rows_become_documents_with_the_named_columns() {
        let columns = Columns {
            delimiter: b',',
            text: "body".to_owned(),
            id: Some("key".to_owned()),
            metadata: vec!["date".to_owned()],
        };
        let rows = "\u{feff}key,date,body\n1,today,\"one, and\nmore\"\n2,,two\n";
        let found = values(table(read(rows.as_bytes()), &columns).unwrap());
        let expected = [
            json!({"id": "1", "text": "one, and\nmore", "metadata": {"date": "today"}}),
            json!({"id": "2", "text": "two", "metadata": {"date": ""}}),
        ];
        assert_eq!(found, expected);
        let missing = table(read(b"a,b\n"), &columns).err().unwrap().to_string();
        assert_eq!(missing, "there is no column \"body\"; there are a, b");
        let rows = b"key,date,body\n1,2\n1,2,\xff\n3,,three\n";
        let found: Vec<_> = table(read(rows), &columns).unwrap().map(Result::unwrap).collect();
        assert!(
            matches!(&found[0], Found::Bad(why) if why == "row 1, line 2: 2 cells instead of 3"),
            "{found:?}"
        );
        assert!(
            matches!(&found[1], Found::Bad(why) if why == "row 2, line 3: cell 3 is not UTF-8"),
            "{found:?}"
        );
        assert!(matches!(&found[2], Found::Line(_)) && found.len() == 3, "{found:?}");
    }

    #[test]
    fn a_text_is_decoded_from_its_detected_charset() {
        let words = "市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者可以在馆内阅读到晚上十点。";
        let found = values(text(read(&encoding_rs::GBK.encode(words).0), Path::new("a.txt")));
        assert_eq!(found, [json!({"id": "a.txt", "text": words})]);
        let mut unknown = text(read(b"ab\xff"), Path::new("b.txt"));
        assert!(matches!(unknown.next(), Some(Ok(Found::Bad(why))) if why.contains("byte 2")));
    }

    #[test]
    fn all_frames_are_decompressed() {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        let frames = [&b"one\n"[..], b"two\n", b"", b"three"];
        let packed: Vec<u8> =
            frames.iter().flat_map(|frame| compress_to_vec(*frame, CompressionLevel::Fastest)).collect();
        let mut text = String::new();
        Zstd::new(io::Cursor::new(packed.clone())).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\nthree");
        for bad in [&packed[..packed.len() - 3], b"no zstd at all"] {
            assert!(Zstd::new(io::Cursor::new(bad.to_vec())).read_to_end(&mut Vec::new()).is_err());
        }
    }
}
