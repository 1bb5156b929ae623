//! The pages and texts of web archives (WARC 1.1; WET).
//!
//! It guarantees that every page or text that was answered with status 200 becomes a document if its bytes
//! can be decoded, whatever their charset, transfer encoding and content encoding. Everything left out is
//! counted by its reason. A record takes at most a few times [`RECORD_BYTES`] of memory. *Absent*: brotli.

use std::fmt;
use std::io::{self, BufRead, Read};

use flate2::read::{DeflateDecoder, GzDecoder, ZlibDecoder};

use super::gzip::{Consumed, Places};
use super::zstd::Zstd;
use super::{Reading, sha256, wrong};
use crate::text::{WrongBytes, decode};

/// The largest record that is read, and the largest page after decompression, in bytes.
const RECORD_BYTES: u64 = 16 << 20;
/// The longest header line of a record, in bytes.
const HEADER_BYTES: u64 = 64 << 10;

/// Why a response in an archive does not become a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Skipped {
    Type,
    Status,
    Size,
    Brotli,
    Packing,
    Bytes,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skipped::Type => "not pages",
            Skipped::Status => "of another status",
            Skipped::Size => "too large",
            Skipped::Brotli => "packed with br",
            Skipped::Packing => "packed with an unknown coding",
            Skipped::Bytes => "damaged, or in an unknown charset",
        })
    }
}

/// The records of an archive; none follow an error. `places` are those of its file.
pub(in crate::cli) fn archive(read: Reading<'_>, places: Places) -> impl Iterator<Item = io::Result<Record>> {
    let mut number = 0u64;
    let mut read = Consumed(read, 0);
    std::iter::from_fn(move || {
        number += 1;
        match record(&mut read, &places) {
            Ok(record) => record.map(Ok),
            Err(error) => Some(Err(io::Error::new(error.kind(), format!("record {number}: {error}")))),
        }
    })
}

/// A record.
#[derive(Default)]
pub(in crate::cli) struct Record {
    kind: String,
    target: String,
    date: String,
    digest: String,
    content_type: String,
    /// Where it begins in its file: in a compressed one, where its gzip member begins, if it has its own.
    offset: Option<u64>,
    /// The header and the body as they are in the archive.
    bytes: Vec<u8>,
    /// Where the body begins in `bytes`; `None` if it is larger than [`RECORD_BYTES`], and left out.
    body: Option<usize>,
}

/// What a record is for a corpus.
#[derive(Debug)]
pub(in crate::cli) enum Entry {
    /// A document: the name of its field, `html` or `text`, and the content.
    Document {
        /// The name of the field.
        field: &'static str,
        /// The content.
        content: String,
    },
    /// A record that is not meant to become a document.
    Nothing,
    /// A response that could have become a document, and why it is left out.
    Skipped(Skipped),
}

/// The next record; `None` at the end.
fn record(read: &mut Consumed<Reading<'_>>, places: &Places) -> io::Result<Option<Record>> {
    let (mut first, mut offset) = (String::new(), None);
    while first.trim().is_empty() {
        first.clear();
        // The place is known when the buffer has the first byte.
        read.fill_buf()?;
        offset = places.of(read.1);
        if read.take(HEADER_BYTES).read_line(&mut first)? == 0 {
            return Ok(None);
        }
    }
    if !first.starts_with("WARC/") {
        return Err(wrong("it does not begin with WARC/"));
    }
    let mut record = Record { bytes: first.into_bytes(), offset, ..Record::default() };
    let length = headers(read, &mut record)?.ok_or_else(|| wrong("it has no Content-Length"))?;
    let mut body = read.take(length);
    if length <= RECORD_BYTES {
        record.body = Some(record.bytes.len());
        body.read_to_end(&mut record.bytes)?;
    } else {
        io::copy(&mut body, &mut io::sink())?;
    }
    if body.limit() > 0 {
        return Err(wrong("it is truncated"));
    }
    Ok(Some(record))
}

/// Reads the headers of a record. Returns the length of its body.
fn headers(read: &mut impl BufRead, record: &mut Record) -> io::Result<Option<u64>> {
    let mut length = None;
    loop {
        let from = record.bytes.len();
        if read.take(HEADER_BYTES).read_until(b'\n', &mut record.bytes)? == 0 {
            return Err(wrong("it ends within its headers"));
        }
        // The headers that matter are ASCII; a crawler may write others in any charset.
        let header = String::from_utf8_lossy(&record.bytes[from..]).into_owned();
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "warc-type" => value.clone_into(&mut record.kind),
            "warc-target-uri" => value.trim_matches(['<', '>']).clone_into(&mut record.target),
            "warc-date" => value.clone_into(&mut record.date),
            "warc-payload-digest" => value.clone_into(&mut record.digest),
            "content-type" => value.clone_into(&mut record.content_type),
            "content-length" => length = value.parse::<u64>().ok(),
            _ => {}
        }
    }
    Ok(length)
}

impl Record {
    /// The address of the page.
    pub(in crate::cli) fn target(&self) -> &str {
        &self.target
    }

    /// When the page was captured, as the archive writes it; empty if it does not.
    pub(in crate::cli) fn date(&self) -> &str {
        &self.date
    }

    /// The digest of the page as the archive states it, or the SHA-256 of the body of the record.
    pub(in crate::cli) fn digest(&self) -> String {
        if !self.digest.is_empty() {
            return self.digest.clone();
        }
        let body = &self.bytes[self.body.unwrap_or(self.bytes.len())..];
        format!("sha256:{}", sha256(body))
    }

    /// Where the record begins in its file; `None` if it is in the middle of compressed data.
    pub(in crate::cli) fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The status of the answer; `None` of a record that is no answer.
    pub(in crate::cli) fn status(&self) -> Option<u16> {
        let body = &self.bytes[self.body.filter(|_| self.kind == "response")?..];
        let head = String::from_utf8_lossy(&body[..body.len().min(64)]);
        head.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// The header and the body as they are in the archive; `None` if the body is too large.
    pub(in crate::cli) fn bytes(&self) -> Option<&[u8]> {
        self.body.map(|_| &self.bytes[..])
    }

    /// The value of a header, whatever the case of its name.
    pub(in crate::cli) fn header(&self, wanted: &str) -> Option<String> {
        let head = String::from_utf8_lossy(&self.bytes[..self.body.unwrap_or(self.bytes.len())]);
        let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim().to_owned())
    }

    /// What the record is.
    pub(in crate::cli) fn entry(&self) -> Entry {
        // Requests, metadata and the crawler's own records are not responses: they are not counted as
        // skipped.
        if !["conversion", "response", "resource"].contains(&self.kind.as_str()) {
            return Entry::Nothing;
        }
        match self.content() {
            Ok((field, content)) => Entry::Document { field, content },
            Err(reason) => Entry::Skipped(reason),
        }
    }

    /// The name of the document field, and its content.
    fn content(&self) -> Result<(&'static str, String), Skipped> {
        let body = &self.bytes[self.body.ok_or(Skipped::Size)?..];
        match self.kind.as_str() {
            "conversion" => Ok(("text", characters(body, &self.content_type, false)?)),
            // A resource without a type may be a page, but its charset is not guessed.
            "resource" if self.content_type.is_empty() => {
                Ok(("html", String::from_utf8(body.to_vec()).map_err(|_| Skipped::Bytes)?))
            }
            "resource" => contents(body, &self.content_type),
            _ => answer(body),
        }
    }
}

/// The page in an HTTP response as it was transferred, with its head.
fn answer(bytes: &[u8]) -> Result<(&'static str, String), Skipped> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n").ok_or(Skipped::Bytes)?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut status = head.split_ascii_whitespace();
    if !status.next().is_some_and(|protocol| protocol.to_ascii_uppercase().starts_with("HTTP/")) {
        return Err(Skipped::Type);
    }
    if status.next() != Some("200") {
        return Err(Skipped::Status);
    }
    let of = |wanted: &str| {
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let values = fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
        values.map(|(_, value)| value.trim()).collect::<Vec<_>>().join(",")
    };
    let kind = of("content-type");
    // Checked before decompression, which would be wasted on an image.
    field(&kind)?;
    let mut body = bytes[end + 4..].to_vec();
    // Codings are listed in the order in which they were applied: the last is removed first.
    for codings in [of("transfer-encoding"), of("content-encoding")] {
        for coding in codings.split(',').rev() {
            body = without_coding(coding.trim(), body)?;
        }
    }
    contents(&body, &kind)
}

/// The document field for content of this type.
fn field(content_type: &str) -> Result<&'static str, Skipped> {
    let kind = content_type.split([';', ',']).next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        "text/html" | "application/xhtml+xml" => Ok("html"),
        "text/plain" => Ok("text"),
        _ => Err(Skipped::Type),
    }
}

fn contents(bytes: &[u8], content_type: &str) -> Result<(&'static str, String), Skipped> {
    let field = field(content_type)?;
    Ok((field, characters(bytes, content_type, field == "html")?))
}

fn characters(bytes: &[u8], content_type: &str, is_page: bool) -> Result<String, Skipped> {
    let parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let label = charsets.next().map(|(_, value)| value.trim());
    let text = match decode(bytes, label, is_page) {
        // An unknown label is ignored, as in browsers.
        Err(WrongBytes::Label(_)) => decode(bytes, None, is_page),
        decoded => decoded,
    };
    text.map(String::from).map_err(|_| Skipped::Bytes)
}

/// The body without one coding. Crawlers often remove a coding and keep its name in the head, so a body
/// that does not begin like that coding is returned unchanged.
fn without_coding(coding: &str, body: Vec<u8>) -> Result<Vec<u8>, Skipped> {
    match coding.to_ascii_lowercase().as_str() {
        "chunked" => Ok(unchunked(&body).unwrap_or(body)),
        "gzip" | "x-gzip" if body.starts_with(b"\x1f\x8b") => unpacked(GzDecoder::new(&*body)),
        "zstd" if body.starts_with(b"\x28\xb5\x2f\xfd") => unpacked(Zstd::new(&*body)),
        "" | "identity" | "gzip" | "x-gzip" | "zstd" => Ok(body),
        // The standard means zlib; some servers have always sent raw deflate.
        "deflate" => match unpacked(ZlibDecoder::new(&*body)) {
            Err(Skipped::Bytes) => unpacked(DeflateDecoder::new(&*body))
                .or_else(|reason| if std::str::from_utf8(&body).is_ok() { Ok(body) } else { Err(reason) }),
            unpacked => unpacked,
        },
        "br" => Err(Skipped::Brotli),
        _ => Err(Skipped::Packing),
    }
}

/// All decompressed bytes.
///
/// # Errors
/// [`Skipped::Size`] for more than [`RECORD_BYTES`], [`Skipped::Bytes`] for damaged data.
fn unpacked(from: impl Read) -> Result<Vec<u8>, Skipped> {
    let mut bytes = Vec::new();
    from.take(RECORD_BYTES + 1).read_to_end(&mut bytes).map_err(|_| Skipped::Bytes)?;
    if bytes.len() as u64 > RECORD_BYTES { Err(Skipped::Size) } else { Ok(bytes) }
}

/// The content of a chunked body (RFC 9112, 7.1), or `None` if it is not well-formed.
fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::with_capacity(rest.len());
    loop {
        let end = memchr::memmem::find(rest, b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use encoding_rs::GBK;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn warc(kind: &str, target: &str, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {target}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body, b"\r\n\r\n"].concat()
    }

    fn found(bytes: &[u8]) -> Vec<io::Result<Entry>> {
        let records = archive(Box::new(io::Cursor::new(bytes.to_vec())), Places::default()).take(100);
        records.map(|record| record.map(|record| record.entry())).collect()
    }

    /// The name of the field and the content of a document.
    fn document(found: &io::Result<Entry>) -> (&str, &str) {
        match found {
            Ok(Entry::Document { field, content }) => (field, content),
            other => panic!("{other:?}"),
        }
    }

    /// The result for a response with these headers and this body.
    fn of_answer(headers: &str, body: &[u8]) -> io::Result<Entry> {
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
        assert!(matches!(records[0], Ok(Entry::Nothing)));
        assert_eq!(document(&records[1]), ("html", "<p>页</p>"));
        assert!(matches!(records[2], Ok(Entry::Skipped(Skipped::Type))));
        assert!(matches!(records[3], Ok(Entry::Skipped(Skipped::Status))));
        assert_eq!(document(&records[4]), ("text", "文本"));
        assert_eq!(document(&records[5]), ("text", "more"));
        let all: Vec<Record> = archive(Box::new(io::Cursor::new(bytes.clone())), Places::default())
            .map(Result::unwrap)
            .collect();
        assert_eq!((all[5].target(), all[6].bytes()), (&*long, None));
        assert_eq!(all[4].header("warc-target-uri").as_deref(), Some("http://e.org/d"));
        let written: Vec<u8> =
            all[..6].iter().flat_map(|record| [record.bytes().unwrap(), b"\r\n\r\n"].concat()).collect();
        assert!(bytes.starts_with(&written));
        assert!(matches!(records[6], Ok(Entry::Skipped(Skipped::Size))));
        assert_eq!(records.len(), 7);
        for cut in [&bytes[..bytes.len() - 6], b"HTTP/1.1 200 OK\r\n\r\n", b"WARC/1.0\r\nX: y"] {
            assert!(found(cut).iter().any(Result::is_err));
        }
    }

    #[test]
    fn transfer_and_content_codings_are_removed() {
        const PAGE: &[u8] = "<p>一页</p>".as_bytes();
        let (mut gzip, mut zlib, mut bare) = (
            GzEncoder::new(Vec::new(), Compression::fast()),
            ZlibEncoder::new(Vec::new(), Compression::fast()),
            DeflateEncoder::new(Vec::new(), Compression::fast()),
        );
        gzip.write_all(PAGE).unwrap();
        zlib.write_all(PAGE).unwrap();
        bare.write_all(PAGE).unwrap();
        let (gzip, zlib, bare) = (gzip.finish().unwrap(), zlib.finish().unwrap(), bare.finish().unwrap());
        let zstd = compress_to_vec(PAGE, CompressionLevel::Fastest);
        let chunked = |bytes: &[u8]| {
            let (one, two) = bytes.split_at(3);
            [b"3;x=y\r\n", one, format!("\r\n{:X}\r\n", two.len()).as_bytes(), two, b"\r\n0\r\n\r\n"].concat()
        };
        let cases: [(&str, &[u8]); 13] = [
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
        ];
        for (headers, body) in cases {
            let found = of_answer(&format!("Content-Type: text/html\r\n{headers}"), body);
            assert_eq!(document(&found).1.as_bytes(), PAGE, "{headers}");
        }
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        io::copy(&mut io::repeat(b'a').take(8 * RECORD_BYTES), &mut bomb).unwrap();
        let cases: [(&str, &[u8], Skipped); 4] = [
            ("gzip", &bomb.finish().unwrap(), Skipped::Size),
            ("gzip", &gzip[..gzip.len() - 9], Skipped::Bytes),
            ("br", b"x", Skipped::Brotli),
            ("compress", b"x", Skipped::Packing),
        ];
        for (coding, body, expected) in cases {
            let found = of_answer(&format!("Content-Type: text/html\r\nContent-Encoding: {coding}"), body);
            assert!(matches!(found, Ok(Entry::Skipped(reason)) if reason == expected), "{coding}: {found:?}");
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
        assert!(matches!(unknown, Ok(Entry::Skipped(Skipped::Bytes))), "{unknown:?}");
    }
}
