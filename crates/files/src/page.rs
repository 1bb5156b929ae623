//! The page or text of a record in a web archive: whether it is whole, its codings, its type.
//!
//! Heads are often wrong about the body, because crawlers remove a coding and keep its name, and servers
//! write a charset in place of a coding. So the first bytes decide: a body that begins as gzip or zstd data
//! is decompressed, and one that is not what its head names is taken as it is if it is text. A body that is
//! shorter than its head or its chunks say is not taken. *Absent*: codings that need a dictionary.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use encoding_rs::Encoding;
use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};

use super::zstd::{self, WINDOW_OF_PAGE, Zstd};
use super::{Skipped, gzip};
use lookalike_text::{Decoded, WrongBytes, decode};

/// The largest page after decompression, in bytes.
pub(super) const PAGE_BYTES: u64 = 16 << 20;
/// The part of a body that shows whether it is text.
const SNIFFED: usize = 64 << 10;
/// The part of a text that shows whether it is a page.
const BEGINNING: usize = 1 << 10;
/// How pages begin, after blanks (MIME Sniffing Standard, 7.1). A blank or `>` follows.
const PAGES: [&[u8]; 19] = [
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<script",
    b"<iframe",
    b"<h1",
    b"<div",
    b"<font",
    b"<table",
    b"<a",
    b"<style",
    b"<title",
    b"<b",
    b"<body",
    b"<br",
    b"<p",
    b"<meta",
    b"<link",
    b"<!--",
];

/// The name of a document field, and its content.
pub(super) type Content = (&'static str, Decoded<'static>);

/// The first line of a head, and its fields. A line that begins with a blank continues the one before.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) first: String,
    fields: Vec<(String, String)>,
}

impl Head {
    /// The head that these lines are. Lines end with CR LF or LF (RFC 9112, 2.2); those without a colon mean
    /// nothing.
    pub(super) fn of(lines: &[u8]) -> Head {
        // The fields that matter are ASCII; a crawler may write others in any charset.
        let text = String::from_utf8_lossy(lines);
        let mut lines = text.lines();
        let mut head = Head { first: lines.next().unwrap_or_default().to_owned(), fields: Vec::new() };
        for line in lines {
            if line.starts_with([' ', '\t'])
                && let Some((_, value)) = head.fields.last_mut()
            {
                *value = [value.trim(), line.trim()].join(" ").trim().into();
            } else {
                let fields = line.split_once(':');
                head.fields.extend(fields.map(|(name, value)| (name.trim().into(), value.trim().into())));
            }
        }
        head
    }

    /// The value of a field, whatever the case of its name.
    pub(super) fn get(&self, wanted: &str) -> Option<&str> {
        self.values(wanted).next()
    }

    fn values(&self, wanted: &str) -> impl Iterator<Item = &str> {
        let fields = self.fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
        fields.map(|(_, value)| value.as_str())
    }

    /// The elements of a field that is a list, and may be there several times.
    fn list(&self, wanted: &str) -> Vec<String> {
        let elements = self.values(wanted).flat_map(|value| value.split(','));
        elements.map(|element| element.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect()
    }
}

/// The lines of a head and what follows it; `None` if it does not end.
pub(super) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let ends = memchr::memchr_iter(b'\n', bytes);
    ends.map(|end| end + 1).find_map(|end| {
        let rest = &bytes[end..];
        let body = rest.strip_prefix(b"\n").or_else(|| rest.strip_prefix(b"\r\n"))?;
        Some((&bytes[..end], body))
    })
}

/// Whether these bytes begin as an HTTP response does.
pub(super) fn is_answer(bytes: &[u8]) -> bool {
    bytes.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case(b"HTTP/"))
}

/// The page in an HTTP response as it was transferred, with its head.
pub(super) fn answer(bytes: &[u8]) -> Result<Content, Skipped> {
    if !is_answer(bytes) {
        return Err(Skipped::Type);
    }
    let (head, body) = split(bytes).ok_or(Skipped::Cut)?;
    let head = Head::of(head);
    let is_page = match head.first.split_ascii_whitespace().nth(1) {
        Some("200" | "203") => true,
        // A crawler that asks for a range may get all of it.
        Some("206") => head.get("content-range").is_some_and(is_whole),
        _ => false,
    };
    if !is_page {
        return Err(Skipped::Status);
    }
    let kind = head.values("content-type").collect::<Vec<_>>().join(",");
    // Checked before decompression, which would be wasted on an image.
    field(&kind)?;
    let (transfer, content) = (head.list("transfer-encoding"), head.list("content-encoding"));
    let length = head.get("content-length").and_then(|length| length.parse::<usize>().ok());
    // Of a body whose coding was removed, it is the length before that.
    let is_as_sent = transfer.is_empty() && (content.is_empty() || !is_text(body));
    if is_as_sent && length.is_some_and(|length| body.len() < length) {
        return Err(Skipped::Cut);
    }
    let mut body = Cow::Borrowed(body);
    // Codings are listed in the order in which they were applied: the last is removed first.
    for coding in content.iter().chain(&transfer).rev() {
        body = without_coding(coding, body)?;
    }
    contents(&body, &kind)
}

/// Whether a range, such as `bytes 0-9/10`, is everything.
fn is_whole(range: &str) -> bool {
    let (range, total) = range.trim_start_matches("bytes").split_once('/').unwrap_or_default();
    let last = range.trim().strip_prefix("0-").and_then(|last| last.parse::<u64>().ok());
    last.is_some_and(|last| total.trim().parse() == Ok(last + 1))
}

/// The document field for content of this type; `None` if the type says nothing.
fn field(content_type: &str) -> Result<Option<&'static str>, Skipped> {
    let types = content_type.split(',').filter_map(|one| one.split(';').next()).map(str::trim);
    // The last type is that of the page, as in browsers; a comma may be in a parameter.
    let kind = types.rev().find(|kind| kind.contains('/')).unwrap_or_default();
    match kind.to_ascii_lowercase().as_str() {
        "text/html" | "application/xhtml+xml" => Ok(Some("html")),
        "text/plain" => Ok(Some("text")),
        "" | "*/*" | "unknown/unknown" | "application/unknown" => Ok(None),
        _ => Err(Skipped::Type),
    }
}

/// The field that the content itself tells: a page, or a text.
fn sniffed(bytes: &[u8]) -> Result<&'static str, Skipped> {
    let begin = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let begin = begin[..begin.len().min(BEGINNING)].to_ascii_lowercase();
    let is_page = |tag: &&[u8]| {
        begin.strip_prefix(*tag).is_some_and(|rest| {
            *tag == b"<!--" || matches!(rest.first(), None | Some(b' ' | b'>' | b'\t' | b'\n' | b'\r' | b'/'))
        })
    };
    if PAGES.iter().any(is_page) || memchr::memmem::find(&begin, b"<html").is_some() {
        return Ok("html");
    }
    let is_other = [&b"<?xml"[..], b"%pdf-", b"%!ps-"].iter().any(|other| begin.starts_with(other));
    if is_other || !is_text(bytes) { Err(Skipped::Type) } else { Ok("text") }
}

/// The characters of a page or text of this type.
pub(super) fn contents(bytes: &[u8], content_type: &str) -> Result<Content, Skipped> {
    let declared = field(content_type)?;
    let bytes = match packed(bytes) {
        Some(unpacked) => Cow::Owned(unpacked?),
        None => Cow::Borrowed(bytes),
    };
    let field = declared.map_or_else(|| sniffed(&bytes), Ok)?;
    let parameters = content_type.split([';', ',']).filter_map(|parameter| parameter.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let label = charsets.next().map(|(_, value)| value.trim().trim_matches(['"', '\'']));
    // An unknown label is ignored, as in browsers.
    let encoding = label.and_then(|label| Encoding::for_label(label.as_bytes()));
    let is_wide = encoding.is_some_and(|encoding| !encoding.is_ascii_compatible());
    if !is_wide && !is_text(&bytes) {
        return Err(Skipped::Bytes);
    }
    let is_page = field == "html";
    let text = match decode(&bytes, label, is_page) {
        Err(WrongBytes::Label(_)) => decode(&bytes, None, is_page),
        decoded => decoded,
    };
    let Decoded { text, charset } = text.map_err(|_| Skipped::Bytes)?;
    Ok((field, Decoded { text: text.into_owned().into(), charset }))
}

/// Whether bytes may be characters of some charset: compressed data and images have a control character in
/// every ten bytes, and texts have hardly any.
fn is_text(bytes: &[u8]) -> bool {
    let part = &bytes[..bytes.len().min(SNIFFED)];
    let is_control = |byte: &&u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    let is_wide = [&b"\xff\xfe"[..], b"\xfe\xff"].iter().any(|mark| part.starts_with(mark));
    is_wide || part.iter().filter(is_control).count() * 32 <= part.len()
}

/// The body without one coding, or as it is if its head is wrong about it.
fn without_coding<'a>(coding: &str, body: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>, Skipped> {
    let unpacked = match coding {
        // The last ones are no codings of HTTP, but they change nothing.
        "identity" | "none" | "aws-chunked" | "7bit" | "8bit" | "binary" => return Ok(body),
        "chunked" => return unchunked(body),
        "gzip" | "x-gzip" | "zstd" => packed(&body).unwrap_or(Err(Skipped::Bytes)),
        "deflate" => packed(&body).unwrap_or_else(|| inflated(&body)),
        "br" => packed(&body).unwrap_or_else(|| without_brotli(&body)),
        charset if Encoding::for_label(charset.as_bytes()).is_some() => return Ok(body),
        _ => return Err(Skipped::Packing),
    };
    match unpacked {
        Err(Skipped::Bytes | Skipped::Cut) if is_text(&body) => Ok(body),
        unpacked => unpacked.map(Cow::Owned),
    }
}

/// The content of a body that begins as gzip or zstd data do; `None` of any other.
fn packed(body: &[u8]) -> Option<Result<Vec<u8>, Skipped>> {
    if body.starts_with(&gzip::MAGIC) {
        return Some(ungzipped(body));
    }
    body.starts_with(&zstd::MAGIC).then(|| unpacked(&mut Zstd::new(body, WINDOW_OF_PAGE), Vec::new()))
}

/// The content of all members. What follows the last one means nothing, as in browsers.
fn ungzipped(mut rest: &[u8]) -> Result<Vec<u8>, Skipped> {
    let mut whole = Vec::new();
    while rest.starts_with(&gzip::MAGIC) {
        let mut decoder = GzDecoder::new(rest);
        whole = unpacked(&mut decoder, whole)?;
        rest = decoder.into_inner();
    }
    Ok(whole)
}

/// The content of zlib data, which the standard means by deflate, or of raw deflate, which some servers have
/// always sent.
fn inflated(body: &[u8]) -> Result<Vec<u8>, Skipped> {
    let zlib = unpacked(&mut ZlibDecoder::new(body), Vec::new());
    let Err(reason @ (Skipped::Bytes | Skipped::Cut)) = zlib else { return zlib };
    let mut decoder = DeflateDecoder::new(body);
    let raw = unpacked(&mut decoder, Vec::new());
    // A text can begin as such data do.
    let is_all = decoder.into_inner().is_empty();
    match raw {
        Ok(_) if !is_all => Err(Skipped::Bytes),
        Err(Skipped::Bytes) => Err(reason),
        raw => raw,
    }
}

fn without_brotli(mut body: &[u8]) -> Result<Vec<u8>, Skipped> {
    let mut decoder = brotli::Decompressor::new(&mut body, 4096);
    let unpacked = unpacked(&mut decoder, Vec::new())?;
    // A text can begin as such data do. The decoder has an error if something follows in its buffer.
    let is_all = decoder.read(&mut [0]).is_ok_and(|count| count == 0) && decoder.into_inner().is_empty();
    if is_all { Ok(unpacked) } else { Err(Skipped::Bytes) }
}

/// All decompressed bytes, behind those that there are.
///
/// # Errors
/// [`Skipped::Size`] for more than [`PAGE_BYTES`], [`Skipped::Cut`] and [`Skipped::Bytes`] for damaged data.
fn unpacked(from: &mut impl Read, mut bytes: Vec<u8>) -> Result<Vec<u8>, Skipped> {
    let left = PAGE_BYTES + 1 - bytes.len() as u64;
    from.take(left).read_to_end(&mut bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Skipped::Cut,
        _ => Skipped::Bytes,
    })?;
    if bytes.len() as u64 > PAGE_BYTES { Err(Skipped::Size) } else { Ok(bytes) }
}

/// The content of a chunked body (RFC 9112, 7.1). One that does not begin with a chunk is returned as it is.
///
/// # Errors
/// [`Skipped::Cut`] if the last chunk is missing, [`Skipped::Bytes`] if a chunk has another length than it
/// says.
fn unchunked(body: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, Skipped> {
    let (mut rest, mut whole) = (&body[..], Vec::with_capacity(body.len()));
    loop {
        let chunk = chunk(rest);
        let Some((size, after)) = chunk else {
            return match (whole.is_empty(), memchr::memchr(b'\n', rest)) {
                (true, _) if !is_cut_size(rest) => Ok(body),
                (_, None) => Err(Skipped::Cut),
                _ => Err(Skipped::Bytes),
            };
        };
        if size == 0 {
            return Ok(Cow::Owned(whole));
        }
        let (Some(data), Some(next)) = (after.get(..size), after.get(size..)) else {
            return Err(Skipped::Cut);
        };
        rest = match next.strip_prefix(b"\r\n").or_else(|| next.strip_prefix(b"\n")) {
            Some(rest) => rest,
            None if matches!(next, [] | [b'\r']) => return Err(Skipped::Cut),
            // Its first line has a number, and it is no chunk.
            None if whole.is_empty() => return Ok(body),
            None => return Err(Skipped::Bytes),
        };
        whole.extend_from_slice(data);
    }
}

/// Whether a body ends within the line that says the size of its first chunk.
fn is_cut_size(body: &[u8]) -> bool {
    let digits = body.strip_suffix(b"\r").unwrap_or(body);
    digits.len() <= 16 && digits.iter().all(u8::is_ascii_hexdigit)
}

/// The size of the next chunk, and what follows the line that says it. Extensions mean nothing.
fn chunk(mut rest: &[u8]) -> Option<(usize, &[u8])> {
    let mut line = Vec::new();
    rest.by_ref().take(SNIFFED as u64).read_until(b'\n', &mut line).ok()?;
    let size = line.strip_suffix(b"\n")?.split(|byte| *byte == b';').next()?.trim_ascii();
    let is_size = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit);
    let size = std::str::from_utf8(size).ok().filter(|_| is_size)?;
    Some((usize::from_str_radix(size, 16).ok()?, rest))
}
