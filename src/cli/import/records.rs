//! Records of many file formats, as lines that `POST /documents` accepts.
//!
//! A record that cannot be read fails alone, and the error names its position. A file that cannot be read
//! further ends with an error. Records are not checked against the rules of the server: a record that the
//! server refuses is sent too, and fails alone with the message of the server.

use std::io::{self, BufRead};
use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::super::files::{self, Entry, Record, Row, Skipped, Table, archive};
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

/// The column of the content of documents.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(String),
    /// A hash, and the profile that made it, if the user says so.
    Hash(String, Option<String>),
}

impl Content {
    /// The name of the column.
    fn column(&self) -> &String {
        match self {
            Content::Text(column) | Content::Hash(column, _) => column,
        }
    }

    /// A document with this content.
    fn document(&self, value: &str) -> Map<String, Value> {
        let member = |name: &str, value: &str| (name.to_owned(), value.into());
        match self {
            Content::Text(_) => Map::from_iter([member("text", value)]),
            Content::Hash(_, profile) => {
                let profile = profile.iter().map(|profile| member("profile", profile));
                profile.chain([member("hash", value.trim())]).collect()
            }
        }
    }
}

/// The columns of a table that are used.
pub(super) struct Columns {
    pub(super) delimiter: u8,
    pub(super) content: Content,
    pub(super) id: Option<String>,
    pub(super) metadata: Vec<String>,
}

fn line(document: &Value) -> Vec<u8> {
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
    let mut table = Table::open(read, columns.delimiter)?;
    let content = table.place(columns.content.column())?;
    let kind = columns.content.clone();
    let id = columns.id.as_deref().map(|name| table.place(name)).transpose()?;
    let metadata = columns.metadata.iter().map(|name| Ok((name.clone(), table.place(name)?)));
    let metadata: Vec<(String, usize)> = metadata.collect::<io::Result<_>>()?;
    let document = move |row: Row| {
        let row = match row.cells {
            Ok(row) => row,
            Err(why) => return Found::Bad(why),
        };
        let cell = |place: usize| row.get(place).unwrap_or_default();
        let mut document = kind.document(cell(content));
        if let Some(id) = id {
            document.insert("id".to_owned(), cell(id).into());
        }
        if !metadata.is_empty() {
            let fields = metadata.iter().map(|(name, place)| (name.clone(), cell(*place).into()));
            document.insert("metadata".to_owned(), Value::Object(fields.collect()));
        }
        Found::Line(line(&Value::Object(document)))
    };
    let rows = std::iter::from_fn(move || table.next_row().transpose());
    Ok(Box::new(rows.map(move |row| row.map(&document))))
}

/// A Parquet file, with the columns that a table has. Rows without a text or hash are bad.
///
/// # Errors
/// If the file cannot be read, or has no such column.
pub(super) fn parquet(path: &Path, columns: &Columns) -> io::Result<Records> {
    let names: Vec<&str> = std::iter::once(columns.content.column())
        .chain(&columns.id)
        .chain(&columns.metadata)
        .map(String::as_str)
        .collect();
    let rows = files::parquet::rows(path, &names)?;
    let (kind, has_id, metadata) = (columns.content.clone(), columns.id.is_some(), columns.metadata.clone());
    let document = move |values: Vec<Option<String>>| {
        let mut values = values.into_iter();
        let Some(content) = values.next().flatten() else {
            return Found::Bad(format!("there is no value in the column {:?}", kind.column()));
        };
        let mut document = kind.document(&content);
        if has_id {
            document.insert("id".to_owned(), values.next().flatten().unwrap_or_default().into());
        }
        if !metadata.is_empty() {
            let fields = metadata.iter().zip(values).map(|(name, value)| (name.clone(), value.into()));
            document.insert("metadata".to_owned(), Value::Object(fields.collect()));
        }
        Found::Line(line(&Value::Object(document)))
    };
    Ok(Box::new(rows.map(move |row| row.map(&document))))
}

/// The pages and texts of an archive. Every record is returned, so that record numbers do not depend on what
/// is skipped.
pub(super) fn of_archive(read: Box<dyn BufRead + Send>) -> Records {
    let found = |record: Record| match record.entry() {
        Entry::Nothing => Found::Nothing,
        Entry::Skipped(reason) => Found::Skipped(reason),
        Entry::Document { field, content } => {
            let (id, metadata) = (fitting(record.target()), json!({"url": record.target()}));
            Found::Line(line(&json!({"id": id, field: content, "metadata": metadata})))
        }
    };
    Box::new(archive(read).map(move |record| record.map(found)))
}

/// The id, or its SHA-256 if it is longer than [`ID_BYTES`].
fn fitting(id: &str) -> String {
    if id.len() <= ID_BYTES {
        return id.to_owned();
    }
    let digest: String = Sha256::digest(id.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256-{digest}")
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
            content: Content::Text("body".to_owned()),
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
    fn rows_become_documents_with_hashes() {
        let columns = |profile: Option<&str>| Columns {
            delimiter: b'\t',
            content: Content::Hash("simhash".to_owned(), profile.map(str::to_owned)),
            id: Some("key".to_owned()),
            metadata: Vec::new(),
        };
        let rows = b"key\tsimhash\n1\t -5\n";
        let found = values(table(read(rows), &columns(None)).unwrap());
        assert_eq!(found, [json!({"id": "1", "hash": "-5"})]);
        let found = values(table(read(rows), &columns(Some("simhash@1"))).unwrap());
        assert_eq!(found, [json!({"id": "1", "hash": "-5", "profile": "simhash@1"})]);
    }

    #[test]
    fn a_text_is_decoded_from_its_detected_charset() {
        let words = "市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者可以\
         在馆内阅读到晚上十点。";
        let found = values(text(read(&encoding_rs::GBK.encode(words).0), Path::new("a.txt")));
        assert_eq!(found, [json!({"id": "a.txt", "text": words})]);
        let mut unknown = text(read(b"ab\xff"), Path::new("b.txt"));
        assert!(matches!(unknown.next(), Some(Ok(Found::Bad(why))) if why.contains("byte 2")));
    }
}
