//! Records of many kinds of files as lines that `POST /documents` takes.
//!
//! What cannot be read as a record is an error that names its place; a record that the server may not like is sent all
//! the same, and fails alone with the server's words.

use std::io::{self, BufRead, Read};
use std::path::Path;

use ruzstd::decoding::StreamingDecoder;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Lines without their ends.
pub(super) type Records = Box<dyn Iterator<Item = io::Result<Vec<u8>>> + Send>;

/// The longest id that the server takes, in bytes.
const ID_BYTES: usize = 256;
/// The largest record of an archive that is read; larger ones are passed over.
const RECORD_BYTES: u64 = 16 << 20;

/// The columns of a table that count.
pub(super) struct Columns {
    pub(super) delimiter: u8,
    pub(super) text: String,
    pub(super) id: Option<String>,
    pub(super) metadata: Vec<String>,
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn line(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

/// Lines that are documents already.
pub(super) fn lines(read: Box<dyn BufRead + Send>) -> Records {
    Box::new(read.split(b'\n'))
}

/// A file that is one text.
pub(super) fn text(mut read: Box<dyn BufRead + Send>, path: &Path) -> Records {
    let id = path.display().to_string();
    let whole = move || {
        let mut text = String::new();
        read.read_to_string(&mut text)?;
        Ok(line(&json!({"id": fitting(&id), "text": text})))
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
        let row = row?;
        let cell = |place: usize| row.get(place).unwrap_or_default();
        let mut document = Map::from_iter([("text".to_owned(), cell(text).into())]);
        if let Some(id) = id {
            document.insert("id".to_owned(), cell(id).into());
        }
        if !metadata.is_empty() {
            let fields = metadata.iter().map(|(name, place)| (name.clone(), cell(*place).into()));
            document.insert("metadata".to_owned(), Value::Object(fields.collect()));
        }
        Ok(line(&Value::Object(document)))
    };
    Ok(Box::new(table.into_records().map(document)))
}

/// The pages and texts of a web archive. Records of other kinds, of other types than HTML and text, and in other
/// encodings than UTF-8 are passed over.
pub(super) fn archive(mut read: Box<dyn BufRead + Send>) -> Records {
    let mut number = 0u64;
    Box::new(std::iter::from_fn(move || {
        loop {
            number += 1;
            match record(&mut read) {
                Ok(None) => return None,
                Ok(Some(record)) => {
                    if let Some(document) = record.document() {
                        return Some(Ok(line(&document)));
                    }
                }
                Err(error) => {
                    return Some(Err(io::Error::new(error.kind(), format!("record {number}: {error}"))));
                }
            }
        }
    }))
}

struct Record {
    kind: String,
    target: String,
    body: Vec<u8>,
}

/// The next record; `None` at the end.
fn record(read: &mut impl BufRead) -> io::Result<Option<Record>> {
    let mut first = String::new();
    while first.trim().is_empty() {
        first.clear();
        if read.read_line(&mut first)? == 0 {
            return Ok(None);
        }
    }
    if !first.starts_with("WARC/") {
        return Err(wrong("it does not begin with WARC/"));
    }
    let (mut record, mut length) =
        (Record { kind: String::new(), target: String::new(), body: Vec::new() }, None);
    loop {
        let mut header = String::new();
        if read.take(64 << 10).read_line(&mut header)? == 0 {
            return Err(wrong("it ends within its headers"));
        }
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "warc-type" => value.clone_into(&mut record.kind),
            "warc-target-uri" => value.trim_matches(['<', '>']).clone_into(&mut record.target),
            "content-length" => length = value.parse::<u64>().ok(),
            _ => {}
        }
    }
    let length = length.ok_or_else(|| wrong("it has no Content-Length"))?;
    let mut body = read.take(length);
    if length <= RECORD_BYTES {
        body.read_to_end(&mut record.body)?;
    } else {
        io::copy(&mut body, &mut io::sink())?;
        record.kind.clear();
    }
    if body.limit() > 0 {
        return Err(wrong("it is cut"));
    }
    Ok(Some(record))
}

impl Record {
    fn document(self) -> Option<Value> {
        let id = fitting(&self.target);
        let metadata = json!({"url": self.target});
        match self.kind.as_str() {
            "conversion" => {
                let text = String::from_utf8(self.body).ok()?;
                Some(json!({"id": id, "text": text, "metadata": metadata}))
            }
            "response" | "resource" => {
                let html = page(&self.kind, &self.body)?;
                Some(json!({"id": id, "html": html, "metadata": metadata}))
            }
            _ => None,
        }
    }
}

/// The page in an answer, if it is one.
fn page(kind: &str, body: &[u8]) -> Option<String> {
    if kind == "resource" {
        return String::from_utf8(body.to_vec()).ok();
    }
    let end = body.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&body[..end]).to_ascii_lowercase();
    let of = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    let is_page = head.starts_with("http/") && head.split(' ').nth(1) == Some("200");
    let is_plain = of("content-encoding:").is_empty() && of("transfer-encoding:").is_empty();
    if !is_page || !is_plain || !of("content-type:").contains("html") {
        return None;
    }
    String::from_utf8(body[end + 4..].to_vec()).ok()
}

/// The id, or its hash if it is too long to be one.
fn fitting(id: &str) -> String {
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
        records.map(|line| serde_json::from_slice(&line.unwrap()).unwrap()).collect()
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
        let uneven: Vec<_> = table(read(b"key,date,body\n1,2\n"), &columns).unwrap().collect();
        assert!(uneven[0].as_ref().unwrap_err().to_string().contains("line: 2"), "{uneven:?}");
    }

    fn warc(kind: &str, target: &str, body: &str) -> String {
        format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {target}\r\nContent-Length: {}\r\n\r\n{body}\r\n\r\n",
            body.len()
        )
    }

    #[test]
    fn pages_and_texts_of_an_archive_become_documents() {
        let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>页</p>";
        let image = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\nx";
        let moved = "HTTP/1.1 301 Moved\r\nContent-Type: text/html\r\n\r\nx";
        let long = format!("http://e.org/{}", "x".repeat(300));
        let archive_text = [
            warc("warcinfo", "", "software: x"),
            warc("response", "http://e.org/a", html),
            warc("response", "http://e.org/b", image),
            warc("response", "http://e.org/c", moved),
            warc("conversion", "http://e.org/d", "文本"),
            warc("conversion", &long, "more"),
        ]
        .concat();
        let found = values(archive(read(archive_text.as_bytes())));
        assert_eq!(
            found[0],
            json!({"id": "http://e.org/a", "html": "<p>页</p>", "metadata": {"url": "http://e.org/a"}})
        );
        assert_eq!(found[1]["text"], "文本");
        assert_eq!(found[2]["id"].as_str().unwrap().len(), 71);
        assert_eq!(found[2]["metadata"]["url"], long);
        assert_eq!(found.len(), 3);
        for cut in [
            &archive_text.as_bytes()[..archive_text.len() - 6],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"WARC/1.0\r\nX: y",
        ] {
            assert!(archive(read(cut)).any(|record| record.is_err()));
        }
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
