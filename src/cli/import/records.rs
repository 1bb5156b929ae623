//! From the records of files of many formats to lines that `POST /documents` accepts.
//!
//! A record that cannot be read fails alone. Records are not checked against the rules of the server: a
//! record that the server refuses is sent too, and fails alone with the message of the server.

use serde_json::{Value, json};

use super::shape::{Line, Shape, WarcId};
use lookalike_files::{About, Content, Raw, Record, Said, Unread, Wants, fitting};

impl Shape {
    /// The line of a record; a blank one if it is not meant to become a document, and `None` for a part of a
    /// file that is no record. `name` is the id of a text.
    pub(super) fn line(&self, raw: &Raw, about: &About, name: &str) -> Option<Result<Line, Unread>> {
        match &raw.content {
            // The header of an export is sent as it is. That of a table is no line.
            Content::Charset(..) | Content::Bracket(_) | Content::Piece(_) | Content::Columns(..) => {
                return None;
            }
            Content::Header(line) => return Some(Ok(Line { bytes: line.clone(), ..Line::default() })),
            _ => {}
        }
        let said = raw.said(about, self.how());
        let charset = said.as_ref().ok().and_then(|said| said.doubtful_charset(about));
        let line = said.and_then(|said| match said {
            Said::Nothing => Ok(Line::default()),
            Said::Fields(fields) => self.of_fields(&fields, raw),
            Said::Text(text) => {
                let id = fitting(name);
                let mut document = of_content(self, self.member(), &text.text);
                document["id"] = id.as_str().into();
                Ok(Line { bytes: document.to_string().into_bytes(), id: Some(id), ..Line::default() })
            }
            Said::Image(image) => self.images.document(image, fitting(name)),
            Said::Capture(record, field, content) => Ok(captured(self, record, field, &content.text)),
        });
        Some(line.map(|line| Line { charset, ..line }))
    }
}

/// A document with a text or page.
fn of_content(shape: &Shape, field: &str, content: &str) -> Value {
    let mut document = json!({field: content});
    if let Some(page) = shape.page().filter(|_| field == "html") {
        document["page"] = page.into();
    }
    document
}

/// The document of a record of an archive.
fn captured(shape: &Shape, record: &Record, field: &str, content: &str) -> Line {
    let (url, date) = (record.target(), record.date());
    let id = fitting(&match shape.warc_id {
        WarcId::Url => url.to_owned(),
        WarcId::UrlAndDate if date.is_empty() || url.is_empty() => url.to_owned(),
        WarcId::UrlAndDate => format!("{url}@{date}"),
        WarcId::Digest => record.digest(),
    });
    let mut document = of_content(shape, field, content);
    // A record without an address gets an id of the server.
    let id = Some(id).filter(|id| !id.is_empty());
    if let Some(id) = &id {
        document["id"] = id.as_str().into();
    }
    if !shape.keeps_no_metadata() {
        let mut metadata = json!({});
        if !url.is_empty() {
            metadata["url"] = url.into();
        }
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
    Line { bytes: document.to_string().into_bytes(), id, is_mapped: true, charset: None }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use encoding_rs::GBK;

    use std::io;

    use super::*;
    use lookalike_files::{Cut, Event, Format, Places, Reading};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        shape: Shape,
    }

    /// What is found in a file: documents, and why there is none.
    fn found(options: &[&str], format: Format, bytes: &[u8]) -> Vec<(u64, Result<Value, String>)> {
        let shape = Command::try_parse_from([&["test"], options].concat()).unwrap_or_else(|e| panic!("{e}"));
        let read = (Box::new(io::Cursor::new(bytes.to_vec())) as Reading, Places::default());
        let (mut all, mut line) = (Vec::new(), 0);
        let mut each = |event: Event| {
            if let Event::Record(raw, about) = event {
                let made = shape
                    .shape
                    .line(&raw, about, "a.txt")
                    .map(|made| made.map(|line| line.bytes).map_err(|unread| unread.detail));
                let value = |bytes: Vec<u8>| serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                all.extend(
                    made.filter(|made| *made != Ok(Vec::new())).map(|made| (raw.line, made.map(value))),
                );
            }
            true
        };
        let mut cut = Cut { file: 0, format, wants: &shape.shape, line: &mut line, each: &mut each };
        if let Err(error) = cut.records(read) {
            all.push((0, Err(error.to_string())));
        }
        all
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
                "there is no column \"a\"; there are key, date, body; --id-field names another one",
            ),
            (
                &["--text-field", "body", "--metadata", "b"],
                "there is no column \"b\"; there are key, date, body; --metadata names another one",
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
        assert_eq!(found(&["--charset", "gbk"], Format::Text, &gbk(words)), [(1, Ok(document))]);
        let page = format!("<meta charset=gbk><p>{words}");
        let document = json!({"id": "a.txt", "html": page});
        assert_eq!(found(&["--html"], Format::Text, &gbk(&page)), [(1, Ok(document))]);
        let visible = found(&["--html", "--page", "visible"], Format::Text, page.as_bytes());
        assert_eq!(visible, [(1, Ok(json!({"id": "a.txt", "html": page, "page": "visible"})))]);
        let lines = found(&["--html"], Format::Jsonl, br#"{"id":1,"text":"<p>x"}"#);
        assert_eq!(lines, [(1, Ok(json!({"id": "1", "html": "<p>x"})))]);
        let document = json!({"id": "a.txt", "text": words});
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
