//! Content encodings of request bodies: gzip and zstd are decompressed as they arrive.
//!
//! The limits of a body count decompressed bytes. A part of at most 64 KiB is decompressed at a time, and
//! only when it is read, so a body that expands to more than its limit costs no more than one that is sent
//! so. A window of zstd has at most 8 MiB, as RFC 9659 demands of this encoding. The memory of a decoder is
//! reserved for the request.
//!
//! *Absent*: several encodings of one body, and the time in which a body must arrive, which counts the bytes
//! on the wire (`edge/body`).

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Buf;
use flate2::write::MultiGzDecoder;
use http_body::Frame;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::{Code, Problem};
use crate::call::{self, NoMemory, Reserved};

/// The encodings that are decompressed, as in the header `Accept-Encoding` of an answer.
pub(super) const KNOWN: &str = "gzip, zstd";
/// Maximum bytes that are decompressed at a time.
const PART: usize = 64 << 10;
/// Number of parts after which other tasks of the thread have their turn.
const PARTS_PER_TURN: u32 = 4;
/// Bytes by which a compressed body may exceed twice its content. Compression adds less than a hundredth.
const MAX_EXCESS: u64 = 512 << 10;
/// Maximum size of a window of zstd.
const MAX_WINDOW: u64 = 8 << 20;
/// Bytes of memory of a decoder, without the window of zstd.
const DECODER: usize = 256 << 10;
/// Maximum size of a block of zstd.
const MAX_BLOCK: usize = 128 << 10;

/// Why a body cannot be decompressed.
#[derive(Debug, thiserror::Error)]
enum DecodeError {
    #[error("the body is not valid {0}: {1}")]
    Damaged(&'static str, String),
    #[error(
        "the compressed body is much larger than its content; compress it in one piece, or send it unencoded"
    )]
    Empty,
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

/// The request with its body decompressed, if it has an encoding.
///
/// # Errors
/// [`Code::UnsupportedEncoding`] if the encoding is not known.
pub(super) fn decoded(mut request: Request) -> Result<Request, Problem> {
    let Some(decoder) = decoder(request.headers())? else { return Ok(request) };
    let headers = request.headers_mut();
    headers.remove(header::CONTENT_ENCODING);
    // It is that of the compressed body.
    headers.remove(header::CONTENT_LENGTH);
    Ok(request.map(|body| Body::new(Decoded::of(body, decoder))))
}

/// The decoder of the body; `None` if it has no encoding.
fn decoder(headers: &HeaderMap) -> Result<Option<Decoder>, Problem> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let name = value.to_str().unwrap_or_default().to_ascii_lowercase();
    match (name.as_str(), values.next()) {
        ("identity", None) => Ok(None),
        ("gzip" | "x-gzip", None) => Ok(Some(Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))))),
        ("zstd", None) => Ok(Some(Decoder::Zstd(Box::default()))),
        (_, more) => {
            let and_others = if more.is_some() { " and others" } else { "" };
            let detail = format!(
                "the body has the content encoding {value:?}{and_others}; send it with one of {KNOWN}, or \
                 unencoded"
            );
            Err(Problem::new(Code::UnsupportedEncoding, detail))
        }
    }
}

/// The error of a body that cannot be decompressed, if this error has one among its causes.
pub(super) fn problem(error: &(dyn std::error::Error + 'static)) -> Option<Problem> {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    let mut found = chain.filter_map(|error| error.downcast_ref::<DecodeError>());
    found.next().map(|error| match error {
        DecodeError::Damaged(..) | DecodeError::Empty => {
            Problem::new(Code::MalformedRequest, error.to_string())
        }
        DecodeError::NoMemory(error) => Problem::from(*error),
    })
}

/// A body that is decompressed as it is read.
struct Decoded {
    body: Body,
    decoder: Decoder,
    /// The received bytes that are not decompressed yet.
    input: Bytes,
    /// Whether anything was received, and whether that is all.
    has_begun: bool,
    is_all: bool,
    is_done: bool,
    parts: u32,
    /// The bytes that were received, and that were made of them.
    received: u64,
    made: u64,
    reserved: Option<Reserved>,
}

impl Decoded {
    fn of(body: Body, decoder: Decoder) -> Decoded {
        Decoded {
            body,
            decoder,
            input: Bytes::new(),
            has_begun: false,
            is_all: false,
            is_done: false,
            parts: 0,
            received: 0,
            made: 0,
            reserved: None,
        }
    }

    /// Decompresses some of the input. An empty part means that there is too little input.
    fn part(&mut self) -> Result<Vec<u8>, DecodeError> {
        // The limits count what is made, and empty members and frames make nothing.
        if self.received > 2 * self.made + MAX_EXCESS {
            return Err(DecodeError::Empty);
        }
        let needed = self.decoder.memory();
        match &mut self.reserved {
            Some(reserved) => reserved.grow_to(needed)?,
            None => self.reserved = Some(call::reserve(needed)?),
        }
        let mut part = Vec::new();
        self.decoder.step(&mut self.input, &mut part)?;
        self.made += part.len() as u64;
        Ok(part)
    }

    fn finish(&mut self) -> Result<Vec<u8>, DecodeError> {
        self.is_done = true;
        // A request without a body may have the header nevertheless.
        if self.has_begun { self.decoder.finish() } else { Ok(Vec::new()) }
    }
}

impl http_body::Body for Decoded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            if this.is_done {
                return Poll::Ready(None);
            }
            if this.parts >= PARTS_PER_TURN {
                this.parts = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if this.has_begun {
                let mut made = this.part();
                if this.is_all && made.as_ref().is_ok_and(Vec::is_empty) {
                    made = this.finish();
                }
                match made {
                    Ok(part) if part.is_empty() => {}
                    Ok(part) => {
                        this.parts += 1;
                        return Poll::Ready(Some(Ok(Frame::data(part.into()))));
                    }
                    Err(error) => {
                        this.is_done = true;
                        return Poll::Ready(Some(Err(axum::Error::new(error))));
                    }
                }
                if this.is_done || !this.input.is_empty() {
                    continue;
                }
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    // Trailers have no meaning here.
                    this.input = frame.into_data().unwrap_or_default();
                    this.received += this.input.len() as u64;
                    this.parts += 1;
                    this.has_begun |= !this.input.is_empty();
                }
                Some(Err(error)) => {
                    this.is_done = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.is_all = true;
                    this.is_done = !this.has_begun;
                }
            }
        }
    }
}

enum Decoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zstd(Box<Zstd>),
}

impl Decoder {
    /// The memory that the next step may need, in bytes.
    fn memory(&self) -> usize {
        match self {
            Decoder::Gzip(_) => DECODER,
            Decoder::Zstd(zstd) => DECODER + usize::try_from(zstd.window).unwrap_or(usize::MAX),
        }
    }

    /// Decompresses some of `input`, which it advances, and appends at most about [`PART`] bytes to `output`.
    fn step(&mut self, input: &mut Bytes, output: &mut Vec<u8>) -> Result<(), DecodeError> {
        match self {
            Decoder::Zstd(zstd) => zstd.step(input, output),
            Decoder::Gzip(gzip) => {
                while !input.is_empty() && output.len() < PART {
                    // It takes as much input as fits its buffer of 32 KiB.
                    let taken = gzip.write(input).map_err(|error| of_gzip(&error))?;
                    if taken == 0 {
                        return Err(DecodeError::Damaged("gzip", "there is something after its end".into()));
                    }
                    input.advance(taken);
                    output.append(gzip.get_mut());
                }
                Ok(())
            }
        }
    }

    /// Checks that the compressed data is complete, and returns the last of its content.
    fn finish(&mut self) -> Result<Vec<u8>, DecodeError> {
        match self {
            Decoder::Zstd(zstd) => zstd.finish().map(|()| Vec::new()),
            Decoder::Gzip(gzip) => {
                gzip.try_finish().map_err(|error| of_gzip(&error))?;
                Ok(std::mem::take(gzip.get_mut()))
            }
        }
    }
}

fn of_gzip(error: &io::Error) -> DecodeError {
    let is_short = error.kind() == io::ErrorKind::UnexpectedEof;
    let what = if is_short { "it ends too early".to_owned() } else { error.to_string() };
    DecodeError::Damaged("gzip", what)
}

/// Any number of frames of zstd. The decoder reads from a complete header or block, so these are collected
/// first.
#[derive(Default)]
struct Zstd {
    decoder: FrameDecoder,
    held: Vec<u8>,
    is_in_frame: bool,
    has_checksum: bool,
    /// The bytes of a skippable frame that are left.
    to_skip: usize,
    /// The largest window of all frames.
    window: u64,
}

impl Zstd {
    fn step(&mut self, input: &mut Bytes, output: &mut Vec<u8>) -> Result<(), DecodeError> {
        loop {
            if self.is_in_frame && self.decoder.can_collect() > 0 {
                output.resize(PART, 0);
                let read = self.decoder.read(output).map_err(|error| of_zstd(&error))?;
                output.truncate(read);
                return Ok(());
            }
            if self.is_in_frame && self.decoder.is_finished() {
                self.end_frame()?;
            }
            let skipped = self.to_skip.min(input.len());
            input.advance(skipped);
            self.to_skip -= skipped;
            let needed = self.needed()?;
            let taken = needed.saturating_sub(self.held.len()).min(input.len());
            self.held.extend_from_slice(&input.split_to(taken));
            if self.held.len() < needed || self.to_skip > 0 {
                return Ok(());
            }
            // The length of a header or a block may be known only now.
            if self.needed()? == needed && self.take_held()? {
                return Ok(());
            }
        }
    }

    /// The bytes that the header or the block must have, as far as that is known.
    fn needed(&self) -> Result<usize, DecodeError> {
        let held = &self.held[..];
        if self.is_in_frame {
            let Some(&[a, b, c]) = held.first_chunk::<3>() else { return Ok(3) };
            let header = u32::from_le_bytes([a, b, c, 0]);
            let (is_last, kind, size) = (header & 1 == 1, header >> 1 & 3, header as usize >> 3);
            if size > MAX_BLOCK {
                return Err(of_zstd(&"a block is too large"));
            }
            let content = if kind == 1 { 1 } else { size };
            return Ok(3 + content + if is_last && self.has_checksum { 4 } else { 0 });
        }
        let Some(head) = held.first_chunk::<5>() else { return Ok(5) };
        Ok(if is_skippable(head) { 8 } else { header_bytes(head[4]) })
    }

    /// Passes the header or the block to the decoder. Returns whether memory must be reserved before the next
    /// step.
    fn take_held(&mut self) -> Result<bool, DecodeError> {
        let held = std::mem::take(&mut self.held);
        if self.is_in_frame {
            let one = BlockDecodingStrategy::UptoBlocks(1);
            self.decoder.decode_blocks(&held[..], one).map_err(|error| of_zstd(&error))?;
            return Ok(false);
        }
        if is_skippable(&held) {
            let length = held.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
            self.to_skip = length.unwrap_or_default() as usize;
            return Ok(false);
        }
        let window = window(&held);
        if window > MAX_WINDOW {
            return Err(of_zstd(&format!("its window has {window} bytes, and at most 8 MiB are accepted")));
        }
        if window > self.window {
            // Again after the memory for it is reserved.
            (self.window, self.held) = (window, held);
            return Ok(true);
        }
        self.decoder.set_max_window_size(MAX_WINDOW);
        self.decoder.reset(&held[..]).map_err(|error| of_zstd(&error))?;
        (self.is_in_frame, self.has_checksum) = (true, held[4] & 4 != 0);
        Ok(false)
    }

    fn end_frame(&mut self) -> Result<(), DecodeError> {
        self.is_in_frame = false;
        let stored = self.decoder.get_checksum_from_data();
        if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
            return Err(of_zstd(&"its checksum is wrong"));
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), DecodeError> {
        if self.is_in_frame || !self.held.is_empty() || self.to_skip > 0 {
            return Err(of_zstd(&"it ends too early"));
        }
        Ok(())
    }
}

fn of_zstd(error: &dyn std::fmt::Display) -> DecodeError {
    DecodeError::Damaged("zstd", error.to_string())
}

/// Whether a frame has no content for a decoder: its magic number has sixteen values.
fn is_skippable(head: &[u8]) -> bool {
    head.first().is_some_and(|first| first & 0xf0 == 0x50) && head.get(1..4) == Some(&[0x2a, 0x4d, 0x18])
}

/// The bytes of a frame header whose descriptor this is, with the magic number.
fn header_bytes(descriptor: u8) -> usize {
    let is_single = descriptor & 0x20 != 0;
    let window = usize::from(!is_single);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = [usize::from(is_single), 2, 4, 8][usize::from(descriptor >> 6)];
    5 + window + dictionary + content
}

/// The size of the window that a complete frame header declares.
fn window(header: &[u8]) -> u64 {
    let descriptor = header[4];
    if descriptor & 0x20 == 0 {
        let (exponent, mantissa) = (header[5] >> 3, u64::from(header[5] & 7));
        let base = 1u64 << (10 + exponent);
        return base + base / 8 * mantissa;
    }
    // The whole content is the window.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = &header[5 + dictionary..];
    let value = content.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    if content.len() == 2 { value + 256 } else { value }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures::{StreamExt, stream};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;
    use crate::call::{Accountant, Call, Client};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    /// The content of a body that arrives in parts of this size, or the error.
    async fn read(name: &str, packed: &[u8], part: usize) -> Result<Vec<u8>, String> {
        let parts: Vec<_> =
            packed.chunks(part).map(|part| Ok::<_, io::Error>(Bytes::copy_from_slice(part))).collect();
        let request = Request::builder().header("content-encoding", name).header("content-length", "7");
        let request = decoded(request.body(Body::from_stream(stream::iter(parts))).unwrap()).unwrap();
        assert!(request.headers().is_empty());
        let (mut stream, mut all) = (request.into_body().into_data_stream(), Vec::new());
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| problem(&error).unwrap().body_text())?;
            assert!(part.len() <= PART + (64 << 10), "{}", part.len());
            all.extend_from_slice(&part);
        }
        Ok(all)
    }

    fn texts() -> Vec<Vec<u8>> {
        let mut rng = fastrand::Rng::with_seed(3);
        let random = |rng: &mut fastrand::Rng, bytes: usize| (0..bytes).map(|_| rng.u8(..)).collect();
        let mixed: Vec<u8> =
            (0..400_000).map(|at: u32| if at.is_multiple_of(5) { rng.u8(..) } else { b'x' }).collect();
        vec![Vec::new(), b"{}".to_vec(), vec![0; 1_000_000], mixed, random(&mut rng, 300_000)]
    }

    #[tokio::test]
    async fn a_body_is_the_same_whatever_its_encoding_and_its_parts() {
        for text in texts() {
            for (name, packed) in [("gzip", gzip(&text)), ("X-GZIP", gzip(&text)), ("zstd", zstd(&text))] {
                for part in [1, 7, 1_000, 1 << 20] {
                    if packed.len() / part < 20_000 {
                        assert!(read(name, &packed, part).await.unwrap() == text, "{name} {part}");
                    }
                }
            }
        }
        // Several members and frames, among them one to skip.
        let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let frames = [zstd(b"one "), skipped, zstd(b""), zstd(b"two")].concat();
        let members = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
        for part in [1, 5, 1_000] {
            assert_eq!(read("zstd", &frames, part).await.unwrap(), b"one two");
            assert_eq!(read("gzip", &members, part).await.unwrap(), b"one two");
        }
        for name in ["gzip", "zstd"] {
            assert_eq!(read(name, b"", 1).await.unwrap(), b"");
        }
    }

    #[tokio::test]
    async fn damaged_and_incomplete_bodies_are_refused() {
        let text = texts().swap_remove(3);
        for (name, packed) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
            for cut in [1, 3, 5, 9, 20, packed.len() / 2, packed.len() - 5, packed.len() - 1] {
                let error = read(name, &packed[..cut], 4_000).await.unwrap_err();
                assert!(error.starts_with("malformed_request: the body is not valid"), "{error}");
            }
            let longer = [&packed[..], b"garbage after the end"].concat();
            assert!(read(name, &longer, 4_000).await.is_err(), "{name}");
            let mut rng = fastrand::Rng::with_seed(5);
            for _ in 0..300 {
                let mut changed = packed.clone();
                changed[rng.usize(..packed.len())] ^= 1 << rng.u8(..8);
                // A change that is not found must have no effect: it is in an unused part of a header.
                if let Ok(found) = read(name, &changed, 4_000).await {
                    assert!(found == text, "{name}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_window_is_bounded_and_its_memory_reserved() {
        // A header with a window of 16 MiB; one of 8 MiB with an empty raw block that is the last.
        let header = |exponent: u8| vec![0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 1, 0, 0];
        let error = read("zstd", &header(14), 100).await.unwrap_err();
        assert!(error.contains("16777216 bytes, and at most 8 MiB"), "{error}");
        assert_eq!(read("zstd", &header(13), 100).await.unwrap(), b"");
        let accountant = Arc::new(Accountant::new(64 << 20));
        let call = Call::begin(Client::SERVER, &accountant);
        assert_eq!(call.surround(read("zstd", &header(13), 100)).await.unwrap(), b"");
        let small = Arc::new(Accountant::new(4 << 20));
        let call = Call::begin(Client::SERVER, &small);
        let error = call.surround(read("zstd", &header(13), 100)).await.unwrap_err();
        assert!(error.starts_with("memory_full"), "{error}");
        assert_eq!((small.reserved(), accountant.reserved()), (0, 0));
    }

    #[test]
    fn unknown_and_several_encodings_are_refused() {
        for value in ["br", "deflate", "gzip, zstd", "gzip,gzip", "", "compress"] {
            let request = Request::builder().header("content-encoding", value).body(Body::empty()).unwrap();
            let problem = decoded(request).err().unwrap();
            assert_eq!(problem.name(), "unsupported_encoding", "{value}");
        }
        let twice = Request::builder().header("content-encoding", "gzip").header("content-encoding", "gzip");
        assert!(decoded(twice.body(Body::empty()).unwrap()).is_err());
        let plain = Request::builder().header("content-encoding", "Identity").header("content-length", "0");
        assert_eq!(decoded(plain.body(Body::empty()).unwrap()).unwrap().headers().len(), 2);
    }
}
