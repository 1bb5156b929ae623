//! The records of files of many formats, as lines that `POST /documents` accepts.
//!
//! A record that cannot be read fails alone. A file that cannot be read further ends with an error. Records
//! are not checked against the rules of the server: a record that the server refuses is sent too, and fails
//! alone with the message of the server.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};
use std::path::Path;

use serde_json::json;

use super::super::files::{
    self, Element, Entry, Format, Part, Places, Reading, Record, Row, Skipped, Table, archive, in_utf8,
    is_array, parts, wrong,
};
use super::shape::{Field, Line, Shape, WarcId, fitting};
use crate::http::ExportHeader;
use crate::text::decode;

/// The result of reading one record.
#[derive(Debug)]
pub(super) enum Found {
    /// A document for the server.
    Line(Line),
    /// A record that is not meant to become a document.
    Nothing,
    /// A record that could have become a document, and why it is left out.
    Skipped(Skipped),
    /// A record that should have become a document, and what is wrong with it.
    Bad(String),
}

impl From<Result<Line, String>> for Found {
    fn from(made: Result<Line, String>) -> Found {
        made.map_or_else(Found::Bad, Found::Line)
    }
}

/// The records of a file, each with its line; in an archive and a Parquet file with its number. None follow
/// an error.
pub(super) type Records<'a> = Box<dyn Iterator<Item = io::Result<(u64, Found)>> + 'a>;

/// The records of a file of any format except Parquet. `name` is the id of a text.
pub(super) fn records<'a>(
    shape: &'a Shape,
    format: Format,
    name: &str,
    (read, places): (Reading<'a>, Places),
) -> io::Result<Records<'a>> {
    match format {
        Format::Jsonl => {
            let (is_array, read) = is_array(in_utf8(read, shape.charset)?)?;
            Ok(if is_array { array(shape, read) } else { lines(shape, read) })
        }
        Format::Text => Ok(text(shape, read, name)),
        Format::Csv | Format::Tsv => table(shape, in_utf8(read, shape.charset)?, format),
        Format::Warc => Ok(of_archive(shape, read, places)),
        Format::Parquet => Err(wrong("Parquet is read from files only, because its end comes first")),
    }
}

/// The lines of a file. Headers of exports are sent as they are.
fn lines<'a>(shape: &'a Shape, read: Reading<'a>) -> Records<'a> {
    let found = move |line: Vec<u8>| {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Found::Nothing;
        }
        match ExportHeader::of(&line) {
            Some(_) => Found::Line(Line { bytes: line, ..Line::default() }),
            None => shape.of_json(line).into(),
        }
    };
    Box::new((1..).zip(read.split(b'\n')).map(move |(number, line)| Ok((number, found(line?)))))
}

/// The elements of an array, with blanks in place of line breaks.
fn array<'a>(shape: &'a Shape, read: Reading<'a>) -> Records<'a> {
    let found = |mut bytes: Vec<u8>| {
        bytes.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        match serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
            Err(error) => Found::Bad(format!("the element is not JSON: {error}")),
            Ok(_) => shape.of_json(bytes.trim_ascii().to_vec()).into(),
        }
    };
    Box::new(parts(read).filter_map(move |part| match part {
        Ok(Part::Element(Element { line, bytes })) => Some(Ok((line, found(bytes)))),
        Ok(Part::Open(_) | Part::Close(_)) => None,
        Err(error) => Some(Err(error)),
    }))
}

/// A file that is one text.
fn text<'a>(shape: &'a Shape, read: Reading<'a>, name: &str) -> Records<'a> {
    let id = fitting(name);
    let whole = move || {
        let mut bytes = Vec::new();
        let mut read = read;
        read.read_to_end(&mut bytes)?;
        let found = match decode(&bytes, shape.charset.map(encoding_rs::Encoding::name), false) {
            Ok(text) => Found::Line(Line {
                bytes: json!({"id": id, "text": text}).to_string().into_bytes(),
                id: Some(id),
                is_mapped: false,
            }),
            Err(error) => Found::Bad(error.to_string()),
        };
        Ok((1, found))
    };
    Box::new(std::iter::once_with(whole))
}

/// A table whose first row names the columns.
///
/// # Errors
/// If the first row cannot be read, or has no such column.
fn table<'a>(shape: &'a Shape, read: Reading<'a>, format: Format) -> io::Result<Records<'a>> {
    let mut table = Table::open(read, shape.delimiter.or(format.delimiter()))?;
    let names: Vec<String> = table.names().map(str::to_owned).collect();
    let columns: Vec<&str> = names.iter().map(String::as_str).collect();
    shape.check_columns(&columns).map_err(wrong)?;
    let found = move |row: Row| match row.cells {
        Ok(cells) => {
            let fields = names.iter().zip(&cells).map(|(name, cell)| Field::text(name, cell));
            shape.of_row(&fields.collect::<Vec<_>>()).into()
        }
        Err(why) => Found::Bad(why),
    };
    let rows = std::iter::from_fn(move || table.next_row().transpose());
    Ok(Box::new(rows.map(move |row| row.map(|row| (row.line, found(row))))))
}

/// A Parquet file, with the columns that a table has.
///
/// # Errors
/// If the file cannot be read, or has no such column.
pub(super) fn parquet<'a>(shape: &'a Shape, path: &Path) -> io::Result<Records<'a>> {
    let all = files::parquet::columns(path)?;
    let names: Vec<String> = shape.needed(&all).into_iter().map(Cow::into_owned).collect();
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let rows = files::parquet::rows(path, &wanted)?;
    shape.check_columns(&wanted).map_err(wrong)?;
    let found = move |values: Vec<Option<String>>| {
        let fields = names.iter().zip(values).map(|(name, value)| match value {
            Some(value) => Field::text(name, &value),
            None => Field { name: name.into(), json: "null".into() },
        });
        shape.of_row(&fields.collect::<Vec<_>>()).into()
    };
    Ok(Box::new((1..).zip(rows).map(move |(number, row)| Ok((number, found(row?))))))
}

/// The pages and texts of an archive. Every record is returned, so that record numbers do not depend on what
/// is skipped.
fn of_archive<'a>(shape: &'a Shape, read: Reading<'a>, places: Places) -> Records<'a> {
    let found = |record: &Record| match record.entry() {
        Entry::Nothing => Found::Nothing,
        Entry::Skipped(reason) => Found::Skipped(reason),
        Entry::Document { field, content } => Found::Line(captured(shape, record, field, &content)),
    };
    Box::new((1..).zip(archive(read, places)).map(move |(number, record)| Ok((number, found(&record?)))))
}

/// The document of a record of an archive.
fn captured(shape: &Shape, record: &Record, field: &str, content: &str) -> Line {
    let (url, date) = (record.target(), record.date());
    let id = fitting(&match shape.warc_id {
        WarcId::Url => url.to_owned(),
        WarcId::UrlAndDate if date.is_empty() => url.to_owned(),
        WarcId::UrlAndDate => format!("{url}@{date}"),
        WarcId::Digest => record.digest(),
    });
    let mut document = json!({field: content});
    // A record without an address and a date gets an id of the server.
    let id = Some(id).filter(|id| !id.is_empty());
    if let Some(id) = &id {
        document["id"] = id.as_str().into();
    }
    if !shape.keeps_no_metadata() {
        let mut metadata = json!({"url": url});
        if !date.is_empty() {
            metadata["date"] = date.into();
        }
        if let Some(status) = record.status() {
            metadata["status"] = status.into();
        }
        if let Some(offset) = record.offset() {
            metadata["offset"] = offset.into();
        }
        document["metadata"] = metadata;
    }
    Line { bytes: document.to_string().into_bytes(), id, is_mapped: true }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use encoding_rs::GBK;
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        shape: Shape,
    }

    /// What is found in a file: documents, and why there is none.
    fn found(options: &[&str], format: Format, bytes: &[u8]) -> Vec<(u64, Result<Value, String>)> {
        let shape = Command::try_parse_from([&["test"], options].concat()).unwrap_or_else(|e| panic!("{e}"));
        let read = (Box::new(io::Cursor::new(bytes.to_vec())) as Reading, Places::default());
        let records = match records(&shape.shape, format, "a.txt", read) {
            Ok(records) => records,
            Err(error) => return vec![(0, Err(error.to_string()))],
        };
        let value = |record: io::Result<(u64, Found)>| match record {
            Ok((line, Found::Line(found))) => {
                Some((line, Ok(serde_json::from_slice(&found.bytes).unwrap_or(Value::Null))))
            }
            Ok((line, Found::Bad(why))) => Some((line, Err(why))),
            Ok(_) => None,
            Err(error) => Some((0, Err(error.to_string()))),
        };
        records.filter_map(value).collect()
    }

    #[test]
    fn rows_become_documents() {
        let options = ["--text-field", "body", "--id-field", "key", "--metadata", "date"];
        let rows = "\u{feff}key,date,body\n1,today,\"one, and\nmore\"\n2,,two\n";
        let expected = [
            (2, Ok(json!({"id": "1", "text": "one, and\nmore", "metadata": {"date": "today"}}))),
            (4, Ok(json!({"id": "2", "text": "two", "metadata": {"date": ""}}))),
        ];
        assert_eq!(found(&options, Format::Csv, rows.as_bytes()), expected);
        let semicolons = rows.replace(',', ";");
        let all = found(&options[..2], Format::Csv, semicolons.as_bytes());
        assert_eq!(all[1], (4, Ok(json!({"text": "two", "metadata": {"key": "2", "date": ""}}))));
        for (options, expected) in [
            (
                &[][..],
                "there is no column \"text\"; there are key, date, body; --text-field names another one",
            ),
            (
                &["--text-field", "body", "--id-field", "a"],
                "there is no column \"a\"; there are key, date, body",
            ),
            (
                &["--text-field", "body", "--metadata", "b"],
                "there is no column \"b\"; there are key, date, body",
            ),
        ] {
            assert_eq!(found(options, Format::Csv, rows.as_bytes()), [(0, Err(expected.to_owned()))]);
        }
        let rows = b"key,date,body\n1,2\n1,2,\xff\n3,,three\n";
        let found = found(&options, Format::Csv, rows);
        assert_eq!(found[0], (2, Err("2 cells instead of 3".to_owned())));
        assert!(found[1].1.as_ref().is_err_and(|why| why.starts_with("cell 3 is not UTF-8")), "{found:?}");
        assert!(found[2].1.is_ok() && found.len() == 3, "{found:?}");
        let hashes = super::tests::found(&["--hash-field", "h"], Format::Tsv, b"id\th\n1\t -5\n");
        assert_eq!(hashes, [(2, Ok(json!({"id": "1", "hash": "-5"})))]);
    }

    #[test]
    fn arrays_become_documents() {
        let text =
            "[\n {\"id\": 1,\n  \"text\": \"a\",\n  \"n\": 2},\n {\"text\": tru},\n {\"text\": \"b\"}\n]\n";
        let found = found(&[], Format::Jsonl, text.as_bytes());
        assert_eq!(found[0], (2, Ok(json!({"id": "1", "text": "a", "metadata": {"n": 2}}))));
        assert!(found[1].1.as_ref().is_err_and(|why| why.contains("not JSON")), "{found:?}");
        assert_eq!(found[2], (6, Ok(json!({"text": "b"}))));
    }

    #[test]
    fn files_are_read_in_their_charset() {
        let words = "市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者可以\
         在馆内阅读到晚上十点。";
        let gbk = |text: &str| GBK.encode(text).0.into_owned();
        let document = json!({"id": "a.txt", "text": words});
        assert_eq!(found(&[], Format::Text, &gbk(words)), [(1, Ok(document.clone()))]);
        assert_eq!(found(&["--charset", "gbk"], Format::Text, &gbk(words)), [(1, Ok(document.clone()))]);
        let unknown = found(&[], Format::Text, b"ab\xff");
        assert!(unknown[0].1.as_ref().is_err_and(|why| why.contains("byte 2")), "{unknown:?}");
        for options in [&[][..], &["--charset", "gb18030"]] {
            let rows = found(options, Format::Csv, &gbk(&format!("id,text\na.txt,{words}\n")));
            assert_eq!(rows, [(2, Ok(document.clone()))]);
        }
        let lines = found(&["--charset", "gbk"], Format::Jsonl, &gbk(&document.to_string()));
        assert_eq!(lines, [(1, Ok(document))]);
    }

    #[test]
    fn captures_of_one_page_stay_apart() {
        let record = |date: &str, body: &str| {
            let body = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{body}");
            format!(
                "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://e.org/\r\nWARC-Date: {date}\r\n\
                 Content-Length: {}\r\n\r\n{body}\r\n\r\n",
                body.len()
            )
        };
        let (one, two) = (record("2025-01-02T03:04:05Z", "a"), record("2026-01-02T03:04:05Z", "a"));
        let archive = format!("{one}{two}");
        let made = found(&[], Format::Warc, archive.as_bytes());
        let metadata = |date: &str, offset: usize| {
            let url = "http://e.org/";
            json!({"url": url, "date": date, "status": 200, "offset": offset})
        };
        let expected = [("2025-01-02T03:04:05Z", 0), ("2026-01-02T03:04:05Z", one.len())];
        for ((number, made), (date, offset)) in made.into_iter().zip(expected) {
            let id = format!("http://e.org/@{date}");
            let expected = json!({"id": id, "text": "a", "metadata": metadata(date, offset)});
            assert_eq!(made, Ok(expected), "{number}");
        }
        let ids = |id: &str| -> Vec<Value> {
            let made = found(&["--id", id, "--metadata", "none"], Format::Warc, archive.as_bytes());
            made.into_iter().map(|(_, made)| made.unwrap()["id"].clone()).collect()
        };
        assert_eq!(ids("url"), ["http://e.org/", "http://e.org/"]);
        let digests = ids("digest");
        assert!(
            digests[0] == digests[1] && digests[0].as_str().unwrap().starts_with("sha256:"),
            "{digests:?}"
        );
    }
}
