//! Records of many kinds of files as lines that `POST /documents` takes.
//!
//! A record that cannot be read fails alone and names its place; a file that cannot be read on is an error, and ends
//! there. A record that the server may not like is sent all the same, and fails alone with the server's words.

use std::io::{self, BufRead, Read};
use std::path::Path;

use ruzstd::decoding::StreamingDecoder;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::archive::Passed;
use crate::text::decode;

/// What stands at the place of a record.
#[derive(Debug)]
pub(super) enum Found {
    /// A line for the server, without its end.
    Line(Vec<u8>),
    /// Nothing that was meant to become a document.
    Nothing,
    /// Something that could have become a document.
    Passed(Passed),
    /// What should have become one, and why it does not.
    Bad(String),
}

/// The records of a file; after an error there are no more.
pub(super) type Records = Box<dyn Iterator<Item = io::Result<Found>> + Send>;

/// The longest id that the server takes, in bytes.
const ID_BYTES: usize = 256;

/// The columns of a table that count.
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

/// Lines that are documents already.
pub(super) fn lines(read: Box<dyn BufRead + Send>) -> Records {
    Box::new(read.split(b'\n').map(|line| line.map(Found::Line)))
}

/// A file that is one text, in UTF-8 or in what it looks like.
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
/// If it has no such column.
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

/// Why a row is none; an error if there can be no other after it.
fn bad_row(error: csv::Error) -> io::Result<Found> {
    let place = |position: &Option<csv::Position>| {
        position.as_ref().map_or_else(String::new, |at| format!("row {}, line {}: ", at.record(), at.line()))
    };
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            Ok(Found::Bad(format!("{}{len} cells in place of {expected_len}", place(pos))))
        }
        csv::ErrorKind::Utf8 { pos, err } => {
            Ok(Found::Bad(format!("{}cell {} is not UTF-8", place(pos), err.field() + 1)))
        }
        _ => Err(error.into()),
    }
}

/// The id, or its hash if it is too long to be one.
pub(super) fn fitting(id: &str) -> String {
    if id.len() <= ID_BYTES {
        return id.to_owned();
    }
    let digest: String = Sha256::digest(id.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256-{digest}")
}

/// Bytes packed by zstd, frame after frame.
pub(super) struct Zstd<R: Read> {
    /// Made at the first read: beginning a frame reads of it.
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
                StreamingDecoder::new(rest).map_err(|error| wrong(format!("not packed by zstd: {error}")))?;
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
    fn rows_become_documents_with_the_columns_that_were_named() {
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
            matches!(&found[0], Found::Bad(why) if why == "row 1, line 2: 2 cells in place of 3"),
            "{found:?}"
        );
        assert!(
            matches!(&found[1], Found::Bad(why) if why == "row 2, line 3: cell 3 is not UTF-8"),
            "{found:?}"
        );
        assert!(matches!(&found[2], Found::Line(_)) && found.len() == 3, "{found:?}");
    }

    #[test]
    fn a_text_is_read_in_the_charset_that_it_looks_like() {
        let words = "市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者可以在馆内阅读到晚上十点。";
        let found = values(text(read(&encoding_rs::GBK.encode(words).0), Path::new("a.txt")));
        assert_eq!(found, [json!({"id": "a.txt", "text": words})]);
        let mut unknown = text(read(b"ab\xff"), Path::new("b.txt"));
        assert!(matches!(unknown.next(), Some(Ok(Found::Bad(why))) if why.contains("byte 2")));
    }

    #[test]
    fn what_is_packed_in_several_frames_is_unpacked_whole() {
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
