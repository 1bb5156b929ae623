//! The records of web archives (WARC 0.17 to 1.1; WET).
//!
//! It guarantees that every whole page or text that was answered with status 200 or 203 becomes a document if
//! its bytes can be decoded, whatever their charset, transfer encoding and content encoding. Everything else
//! that could have become one is counted by its reason; requests, metadata and the crawler's own records are
//! not. A record takes at most a few times [`RECORD_BYTES`] of memory: the body of a larger one is passed on
//! in pieces, so that it can be copied. *Absent*: records in several WARC segments.

use std::io::{self, BufRead, Read};

use super::gzip::{Consumed, Places};
use super::page::{self, Content, Head};
use super::{Reading, Skipped, sha256, wrong};
use lookalike_text::Decoded;

/// The largest record that is read, in bytes.
const RECORD_BYTES: u64 = page::PAGE_BYTES;
/// The bytes of a piece of a larger one.
const PIECE_BYTES: u64 = 1 << 20;
/// The longest header line of a record, and the longest header, in bytes.
const LINE_BYTES: u64 = 64 << 10;
const HEADER_BYTES: usize = 1 << 20;

/// The parts of an archive; none follow an error. `places` are those of its file.
pub fn archive(read: Reading<'_>, places: Places) -> impl Iterator<Item = io::Result<Part>> {
    let (mut number, mut left) = (0u64, 0);
    let mut read = Consumed(read, 0);
    std::iter::from_fn(move || {
        number += u64::from(left == 0);
        match part(&mut read, &places, &mut left) {
            Ok(part) => part.map(Ok),
            Err(error) => Some(Err(io::Error::new(error.kind(), format!("record {number}: {error}")))),
        }
    })
}

/// A part of an archive.
pub enum Part {
    /// A record of a known size.
    Record(Record),
    /// A piece of the body of the record before it, which is too large to be read.
    Piece(Piece),
}

/// A piece of a large body.
pub struct Piece {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the body ends here.
    pub is_last: bool,
}

/// A record.
pub struct Record {
    head: Head,
    kind: String,
    /// Where it begins in its file: in a compressed one, where its gzip member begins, if it has its own.
    offset: Option<u64>,
    /// The header and the body as they are in the archive.
    bytes: Vec<u8>,
    /// Where the body begins in `bytes`; `None` if it is larger than [`RECORD_BYTES`], and follows in pieces.
    body: Option<usize>,
}

/// The document in a record, if there is one.
#[derive(Debug)]
pub(crate) enum Holds {
    /// A document: the name of its field, `html` or `text`, and the content.
    Document {
        /// The name of the field.
        field: &'static str,
        /// The content.
        content: Decoded<'static>,
    },
    /// A record that is not meant to become a document.
    Nothing,
    /// A response that could have become a document, and why it is left out.
    Skipped(Skipped),
}

/// The next part; `None` at the end. `left` are the bytes of the body that are still to be passed on.
fn part(read: &mut Consumed<Reading<'_>>, places: &Places, left: &mut u64) -> io::Result<Option<Part>> {
    if *left == 0 {
        return record(read, places, left).map(|record| record.map(Part::Record));
    }
    let mut bytes = Vec::new();
    let wanted = (*left).min(PIECE_BYTES);
    *left -= wanted;
    if (read.take(wanted).read_to_end(&mut bytes)? as u64) < wanted {
        return Err(truncated());
    }
    Ok(Some(Part::Piece(Piece { bytes, is_last: *left == 0 })))
}

fn truncated() -> io::Error {
    wrong("it is truncated")
}

/// The next record; `None` at the end. `left` gets the bytes of its body that are not read.
fn record(read: &mut Consumed<Reading<'_>>, places: &Places, left: &mut u64) -> io::Result<Option<Record>> {
    let (mut bytes, mut offset) = (Vec::new(), None);
    while bytes.trim_ascii().is_empty() {
        bytes.clear();
        // The place is known when the buffer has the first byte.
        read.fill_buf()?;
        offset = places.of(read.1);
        if read.take(LINE_BYTES).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
    }
    if !bytes.starts_with(b"WARC/") {
        return Err(wrong("it does not begin with WARC/"));
    }
    let mut line = 0..bytes.len();
    while !bytes[line].trim_ascii().is_empty() {
        let from = bytes.len();
        if read.take(LINE_BYTES).read_until(b'\n', &mut bytes)? == 0 {
            return Err(wrong("it ends within its headers"));
        }
        if bytes.len() > HEADER_BYTES {
            return Err(wrong("its headers are longer than 1 MiB"));
        }
        line = from..bytes.len();
    }
    let head = Head::of(&bytes);
    let length = head.get("content-length").and_then(|length| length.parse::<u64>().ok());
    let length = length.ok_or_else(|| wrong("it has no Content-Length"))?;
    let body = (length <= RECORD_BYTES).then_some(bytes.len());
    if body.is_none() {
        *left = length;
    } else if (read.take(length).read_to_end(&mut bytes)? as u64) < length {
        return Err(truncated());
    }
    let kind = head.get("warc-type").unwrap_or_default().to_ascii_lowercase();
    Ok(Some(Record { head, kind, offset, bytes, body }))
}

impl Record {
    /// The address of the page; empty if it has none.
    pub fn target(&self) -> &str {
        self.head.get("warc-target-uri").unwrap_or_default().trim_matches(['<', '>'])
    }

    /// When the page was captured, as the archive writes it; empty if it does not.
    pub fn date(&self) -> &str {
        self.head.get("warc-date").unwrap_or_default()
    }

    /// The digest of the page as the archive states it, or the SHA-256 of the body of the record.
    pub fn digest(&self) -> String {
        match self.head.get("warc-payload-digest").filter(|digest| !digest.is_empty()) {
            Some(digest) => digest.to_owned(),
            None => format!("sha256:{}", sha256(&self.bytes[self.body.unwrap_or(self.bytes.len())..])),
        }
    }

    /// Where the record begins in its file; `None` if it is in the middle of compressed data.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The status of the answer; `None` of a record that is no answer.
    pub fn status(&self) -> Option<u16> {
        let body = &self.bytes[self.body.filter(|_| self.kind == "response")?..];
        let head = String::from_utf8_lossy(&body[..body.len().min(64)]);
        head.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// The header and the body as they are in the archive; the header alone if the body follows in pieces.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the body is there.
    pub fn is_whole(&self) -> bool {
        self.body.is_some()
    }

    /// The value of a header, whatever the case of its name.
    pub fn header(&self, wanted: &str) -> Option<String> {
        self.head.get(wanted).map(str::to_owned)
    }

    /// The document in the record.
    pub(crate) fn holds(&self) -> Holds {
        let content = match self.kind.as_str() {
            "warcinfo" | "request" | "metadata" => return Holds::Nothing,
            "response" | "resource" | "conversion" | "continuation" => self.content(),
            "revisit" => Err(Skipped::Revisit),
            _ => Err(Skipped::Record),
        };
        match content {
            Ok((field, content)) => Holds::Document { field, content },
            Err(reason) => Holds::Skipped(reason),
        }
    }

    fn content(&self) -> Result<Content, Skipped> {
        if self.kind == "continuation" || self.head.get("warc-segment-number").is_some() {
            return Err(Skipped::Segment);
        }
        let body = &self.bytes[self.body.ok_or(Skipped::Size)?..];
        let content = match (self.kind.as_str(), self.head.get("content-type").unwrap_or_default()) {
            ("response", content_type) if content_type.is_empty() || page::is_answer(body) => {
                page::answer(body)
            }
            // A conversion is a text.
            ("conversion", "") => page::contents(body, "text/plain"),
            (_, content_type) => page::contents(body, content_type),
        }?;
        // The crawler says that it did not keep all of it.
        if self.head.get("warc-truncated").is_some() { Err(Skipped::Cut) } else { Ok(content) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use encoding_rs::GBK;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn warc(kind: &str, target: &str, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {target}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body, b"\r\n\r\n"].concat()
    }

    fn found(bytes: &[u8]) -> Vec<io::Result<Holds>> {
        let holds = |part| match part {
            Ok(Part::Record(record)) => Some(Ok(record.holds())),
            Ok(Part::Piece(_)) => None,
            Err(error) => Some(Err(error)),
        };
        archive(Box::new(io::Cursor::new(bytes.to_vec())), Places::default())
            .take(100)
            .filter_map(holds)
            .collect()
    }

    /// The records of a whole archive, each with all of its bytes.
    fn whole(bytes: &[u8]) -> Vec<(Record, Vec<u8>)> {
        let mut all: Vec<(Record, Vec<u8>)> = Vec::new();
        for part in archive(Box::new(io::Cursor::new(bytes.to_vec())), Places::default()) {
            match part.unwrap() {
                Part::Record(record) => {
                    let bytes = record.bytes().to_vec();
                    all.push((record, bytes));
                }
                Part::Piece(piece) => {
                    assert!(piece.bytes.len() as u64 <= PIECE_BYTES);
                    let (record, bytes) = all.last_mut().unwrap();
                    bytes.extend(piece.bytes);
                    let length: usize = record.header("content-length").unwrap().parse().unwrap();
                    assert_eq!(piece.is_last, bytes.len() - record.bytes().len() == length);
                    assert!(!record.is_whole());
                }
            }
        }
        all
    }

    /// The name of the field and the content of a document.
    fn document(found: &io::Result<Holds>) -> (&str, &str) {
        match found {
            Ok(Holds::Document { field, content }) => (field, &content.text),
            other => panic!("{other:?}"),
        }
    }

    /// The result for a response with these headers and this body.
    fn of_answer(headers: &str, body: &[u8]) -> io::Result<Holds> {
        let head = format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n");
        found(&warc("response", "http://e.org/", &[head.as_bytes(), body].concat())).remove(0)
    }

    #[test]
    fn pages_and_texts_of_an_archive_become_documents() {
        let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>页</p>";
        let image = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\nx";
        let moved = "HTTP/1.1 301 Moved\r\nContent-Type: text/html\r\n\r\nx";
        let long = format!("http://e.org/{}", "x".repeat(300));
        let bytes = [
            warc("warcinfo", "", b"software: x"),
            warc("response", "http://e.org/a", html.as_bytes()),
            warc("response", "http://e.org/b", image.as_bytes()),
            warc("response", "http://e.org/c", moved.as_bytes()),
            warc("conversion", "http://e.org/d", "文本".as_bytes()),
            warc("conversion", &long, b"more"),
            warc("response", "http://e.org/e", &vec![b'x'; RECORD_BYTES as usize + 1]),
        ]
        .concat();
        let records = found(&bytes);
        assert!(matches!(records[0], Ok(Holds::Nothing)));
        assert_eq!(document(&records[1]), ("html", "<p>页</p>"));
        assert!(matches!(records[2], Ok(Holds::Skipped(Skipped::Type))));
        assert!(matches!(records[3], Ok(Holds::Skipped(Skipped::Status))));
        assert_eq!(document(&records[4]), ("text", "文本"));
        assert_eq!(document(&records[5]), ("text", "more"));
        let all = whole(&bytes);
        assert_eq!((all[5].0.target(), all[5].0.is_whole(), all[6].0.is_whole()), (&*long, true, false));
        assert_eq!(all[4].0.header("warc-target-uri").as_deref(), Some("http://e.org/d"));
        let written: Vec<u8> = all.iter().flat_map(|(_, own)| [&own[..], b"\r\n\r\n"].concat()).collect();
        assert!(bytes == written);
        assert!(matches!(records[6], Ok(Holds::Skipped(Skipped::Size))));
        assert_eq!(records.len(), 7);
        for cut in [&bytes[..bytes.len() - 5], b"HTTP/1.1 200 OK\r\n\r\n", b"WARC/1.0\r\nX: y"] {
            assert!(found(cut).iter().any(Result::is_err));
        }
    }

    fn gzip_of(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn transfer_and_content_codings_are_removed() {
        const PAGE: &[u8] = "<p>一页 of the library, and what it says about the harbour</p>".as_bytes();
        let (mut zlib, mut bare) = (
            ZlibEncoder::new(Vec::new(), Compression::fast()),
            DeflateEncoder::new(Vec::new(), Compression::fast()),
        );
        zlib.write_all(PAGE).unwrap();
        bare.write_all(PAGE).unwrap();
        let (gzip, zlib, bare) = (gzip_of(PAGE), zlib.finish().unwrap(), bare.finish().unwrap());
        let zstd = ::zstd::bulk::compress(PAGE, 1).unwrap();
        let mut br = Vec::new();
        brotli::BrotliCompress(&mut &*PAGE, &mut br, &brotli::enc::BrotliEncoderParams::default()).unwrap();
        let (one, two) = (gzip_of(&PAGE[..9]), gzip_of(&PAGE[9..]));
        let chunked = |bytes: &[u8]| {
            let (one, two) = bytes.split_at(3);
            [b"3;x=y\r\n", one, format!("\r\n{:X}\r\n", two.len()).as_bytes(), two, b"\r\n0\r\n\r\n"].concat()
        };
        let cases: [(&str, &[u8]); 33] = [
            ("Content-Encoding: identity", PAGE),
            ("content-encoding:gzip", &gzip),
            ("Content-Encoding: x-gzip", &gzip),
            ("Content-Encoding: gzip", PAGE),
            ("Content-Encoding: deflate", &zlib),
            ("Content-Encoding: deflate", &bare),
            ("Content-Encoding: deflate", PAGE),
            ("Content-Encoding: zstd", &zstd),
            ("Transfer-Encoding: chunked", &chunked(PAGE)),
            ("Transfer-Encoding: chunked", PAGE),
            ("Transfer-Encoding: gzip, chunked", &chunked(&gzip)),
            ("Transfer-Encoding: chunked\r\nContent-Encoding: gzip", &chunked(&gzip)),
            ("Content-Encoding: deflate, gzip", &gzip),
            ("Content-Encoding: br", &br),
            ("Content-Encoding: br", PAGE),
            ("Content-Encoding: zstd", PAGE),
            ("Content-Encoding: br", &gzip),
            ("Content-Encoding: deflate", &gzip),
            ("Content-Encoding: gzip", &[&one[..], &two].concat()),
            ("Content-Encoding: gzip", &[&gzip[..], b"garbage"].concat()),
            ("X: the head does not say that the body is", &gzip),
            ("X: the head does not say that the body is", &zstd),
            ("Content-Encoding: utf-8", PAGE),
            ("Content-Encoding: UTF-8, gzip", &gzip),
            ("Content-Encoding: none", PAGE),
            ("Content-Encoding:", PAGE),
            ("Content-Encoding: gzip,\r\n identity", &gzip),
            ("Content-Encoding: gzip, aws-chunked", &gzip),
            ("Transfer-Encoding: chunked\r\nContent-Length: 999", &chunked(PAGE)),
            ("Transfer-Encoding: chunked", &chunked(PAGE).replace_all(b"\r\n", b"\n")),
            ("Transfer-Encoding: chunked", &chunked(PAGE).replace_all(b"0\r\n", b"0\r\nX: trailer\r\n")),
            ("Content-Encoding: gzip\r\nContent-Length: 999", PAGE),
            ("Content-Length: 5", PAGE),
        ];
        for (headers, body) in cases {
            let found = of_answer(&format!("Content-Type: text/html\r\n{headers}"), body);
            assert_eq!(document(&found).1.as_bytes(), PAGE, "{headers}");
        }
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        io::copy(&mut io::repeat(b'a').take(8 * RECORD_BYTES), &mut bomb).unwrap();
        let mut large = Vec::new();
        let mut zeros = io::repeat(b'a').take(8 * RECORD_BYTES);
        brotli::BrotliCompress(&mut zeros, &mut large, &brotli::enc::BrotliEncoderParams::default()).unwrap();
        let (noise, image) =
            ([&b"\x1b\x00\x07\xff"[..], &br].concat(), &b"\x89PNG\x0d\x0a\x1a\x0a\0\0\0\x0dIHDR"[..]);
        let chunks = chunked(PAGE);
        let cases: [(&str, &[u8], Skipped); 20] = [
            ("Content-Encoding: gzip", &bomb.finish().unwrap(), Skipped::Size),
            ("Content-Encoding: br", &large, Skipped::Size),
            ("Content-Encoding: gzip", &gzip[..gzip.len() - 9], Skipped::Cut),
            ("Content-Encoding: deflate", &zlib[..zlib.len() - 9], Skipped::Cut),
            ("Content-Encoding: deflate", &bare[..bare.len() - 9], Skipped::Cut),
            ("Content-Encoding: zstd", &zstd[..zstd.len() - 9], Skipped::Cut),
            ("Content-Encoding: br", &br[..br.len() - 9], Skipped::Bytes),
            ("Content-Encoding: br", &noise, Skipped::Bytes),
            ("Content-Encoding: gzip", image, Skipped::Bytes),
            ("X: y", image, Skipped::Bytes),
            ("Content-Encoding: compress", b"x", Skipped::Packing),
            ("Content-Encoding: gzip, x-unknown", PAGE, Skipped::Packing),
            ("Transfer-Encoding: chunked", &chunks[..chunks.len() - 5], Skipped::Cut),
            ("Transfer-Encoding: chunked", &chunks[..chunks.len() - 8], Skipped::Cut),
            ("Transfer-Encoding: chunked", &chunks[..9], Skipped::Cut),
            ("Transfer-Encoding: chunked", b"", Skipped::Cut),
            ("Transfer-Encoding: chunked", b"1f4", Skipped::Cut),
            ("Transfer-Encoding: chunked", b"1F4\r", Skipped::Cut),
            ("Content-Length: 100", PAGE, Skipped::Cut),
            ("Content-Encoding: gzip\r\nContent-Length: 100", &gzip[..gzip.len() - 1], Skipped::Cut),
        ];
        for (headers, body, expected) in cases {
            let found = of_answer(&format!("Content-Type: text/html\r\n{headers}"), body);
            assert!(
                matches!(found, Ok(Holds::Skipped(reason)) if reason == expected),
                "{headers}: {found:?}"
            );
        }
    }

    /// Bytes with all places of one part replaced by another.
    trait Replaced {
        fn replace_all(&self, from: &[u8], to: &[u8]) -> Vec<u8>;
    }

    impl Replaced for Vec<u8> {
        fn replace_all(&self, from: &[u8], to: &[u8]) -> Vec<u8> {
            let (mut whole, mut rest) = (Vec::new(), &self[..]);
            while let Some(at) = memchr::memmem::find(rest, from) {
                whole.extend_from_slice(&rest[..at]);
                whole.extend_from_slice(to);
                rest = &rest[at + from.len()..];
            }
            whole.extend_from_slice(rest);
            whole
        }
    }

    #[test]
    fn heads_are_read_in_the_forms_that_writers_use() {
        let page = "<p>page</p>";
        let record = |end: &str, more: &str, http: &str| {
            let body = format!("{http}{page}");
            let lines = [
                "WARC/0.18",
                "warc-type: Response",
                "WARC-Target-URI: <http://e.org/a>",
                more,
                "X-Folded: one,",
                " two: three",
                "\tfour",
                "a line that is no field",
                &format!("Content-Length: {}", body.len()),
                "",
            ];
            format!("{}{body}{end}{end}", lines.map(|line| format!("{line}{end}")).concat())
        };
        for end in ["\r\n", "\n"] {
            for (more, http) in [
                ("X: y", "HTTP/1.1 200 OK\nContent-Type: text/html\n\n"),
                ("X: y", "HTTP/1.1 200 OK\r\nContent-Type:\r\n text/html;\r\n\tcharset=utf-8\r\n\r\n"),
                ("X: y", "HTTP/1.1 200 OK\r\nContent-Type: text/html\n\r\n"),
                ("X: y", "http/1.0 203 Other\nContent-Type: image/png, text/html\n\n"),
                ("X: y", "HTTP/2 200\r\ncontent-type: text/html\r\n\r\n"),
                ("X: y", "HTTP/1.1 206 X\nContent-Type: text/html\nContent-Range: bytes 0-10/11\n\n"),
                ("X: y", "HTTP/1.1 200 OK\r\n\r\n"),
                ("X: y", "HTTP/1.1 200 OK\r\nContent-Type: unknown/unknown\r\n\r\n\n "),
                ("Content-Type: text/html", ""),
            ] {
                let bytes = record(end, more, http).into_bytes();
                let all = whole(&bytes);
                let record = &all[0].0;
                assert_eq!((all.len(), record.target()), (1, "http://e.org/a"), "{http:?}");
                assert_eq!(record.header("x-folded").as_deref(), Some("one, two: three four"));
                let found = Ok(record.holds());
                let (field, content) = document(&found);
                assert_eq!((field, content.trim()), ("html", page), "{end:?} {http:?}");
            }
        }
    }

    #[test]
    fn records_that_are_no_whole_pages_are_passed_over_with_a_reason() {
        let ok = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>page</p>";
        let of = |status: &str| ok.replace("200 OK", status);
        let partial = of("206 Partial").replace("\r\n\r\n", "\r\nContent-Range: bytes 0-10/99\r\n\r\n");
        for (head, body, expected) in [
            ("response\r\nWARC-Segment-Number: 1", ok, Skipped::Segment),
            ("continuation\r\nWARC-Segment-Number: 2", "page</p>", Skipped::Segment),
            ("response\r\nWARC-Truncated: length", ok, Skipped::Cut),
            ("response", "HTTP/1.1 200 OK\r\nContent-Type: text/html", Skipped::Cut),
            ("response", &of("404 Not Found"), Skipped::Status),
            ("response", &of("206 Partial"), Skipped::Status),
            ("response", &partial, Skipped::Status),
            ("response", "e.org. 300 IN A 127.0.0.1", Skipped::Type),
            ("response\r\nContent-Type: text/dns", "e.org. 300 IN A 127.0.0.1", Skipped::Type),
            ("response", "HTTP/1.1 200 OK\r\n\r\n%PDF-1.7", Skipped::Type),
            ("response", "HTTP/1.1 200 OK\r\n\r\n<?xml version='1.0'?><rss>", Skipped::Type),
            ("conversion\r\nContent-Type: image/png", "x", Skipped::Type),
            ("revisit", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", Skipped::Revisit),
            ("screenshot", "x", Skipped::Record),
        ] {
            let found = found(&warc(head, "http://e.org/", body.as_bytes())).remove(0);
            assert!(
                matches!(found, Ok(Holds::Skipped(reason)) if reason == expected),
                "{head} {body}: {found:?}"
            );
        }
        for (head, body, field) in [
            ("resource", "<!DOCTYPE html><p>x", "html"),
            ("resource", "\u{feff} <?xml version='1.0'?>\n<html xmlns='x'>", "html"),
            ("resource", "only a text", "text"),
            ("resource\r\nContent-Type: text/html", "x", "html"),
            ("response\r\nContent-Type: text/plain", "from another protocol", "text"),
            ("conversion\r\nContent-Type: text/html", "<p>x", "html"),
            ("response", "HTTP/1.1 200 OK\r\n\r\n<a href='x'>y</a>", "html"),
            ("response", "HTTP/1.1 200 OK\r\n\r\n<abbr> is no page at its beginning", "text"),
        ] {
            let found = found(&warc(head, "http://e.org/", body.as_bytes())).remove(0);
            assert_eq!(document(&found).0, field, "{head} {body}");
        }
    }

    #[test]
    fn pages_and_texts_are_decoded_from_their_charset() {
        let gbk = |text: &str| GBK.encode(text).0.into_owned();
        let cases = [
            ("text/html; charset=gbk", gbk("<p>你好</p>"), "html", "<p>你好</p>"),
            ("text/html;charset=\"GB2312\"", gbk("<p>你好</p>"), "html", "<p>你好</p>"),
            ("TEXT/HTML", gbk("<meta charset=gbk>你好"), "html", "<meta charset=gbk>你好"),
            ("text/html; charset=klingon", b"caf\xe9".to_vec(), "html", "café"),
            ("application/xhtml+xml", b"<p>x</p>".to_vec(), "html", "<p>x</p>"),
            ("text/plain; format=flowed; charset=gbk", gbk("你好"), "text", "你好"),
        ];
        for (kind, body, field, expected) in cases {
            let found = of_answer(&format!("Content-Type: {kind}"), &body);
            assert_eq!(document(&found), (field, expected), "{kind}");
        }
        let unknown = of_answer("Content-Type: text/plain", b"ab\xff");
        assert!(matches!(unknown, Ok(Holds::Skipped(Skipped::Bytes))), "{unknown:?}");
    }
}
