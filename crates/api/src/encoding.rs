//! Content encodings of request bodies: gzip and zstd are decompressed as they arrive.
//!
//! The limits of a body count decompressed bytes. A part of at most 64 KiB is decompressed at a time, and
//! only when it is read, so a body that expands to more than its limit costs no more than one that is sent
//! so. A window of zstd has at most 8 MiB, as RFC 9659 demands of this encoding. The memory of a decoder is
//! reserved for the request: what a frame needs is known when its header is read, and the request fails then
//! if there is not enough. Checksums are verified.
//!
//! *Absent*: several encodings of one body, and the time in which a body must arrive, which counts the bytes
//! on the wire (`edge/body`).

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Buf;
use flate2::write::MultiGzDecoder;
use http_body::Frame;
use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer};

use super::error::{Code, Problem};
use lookalike_run::call::{self, NoMemory, Reserved};
use lookalike_wording as wording;

/// The encodings that are decompressed, as in the header `Accept-Encoding` of an answer.
pub(crate) const KNOWN: &str = "gzip, zstd";
/// Maximum bytes that are decompressed at a time.
const PART: usize = 64 << 10;
/// Number of parts after which other tasks of the thread have their turn.
const PARTS_PER_TURN: u32 = 4;
/// Bytes by which a compressed body may exceed twice its content. Compression adds less than a hundredth.
const MAX_EXCESS: u64 = 512 << 10;
/// Maximum size of a window of zstd, as a power of two: 8 MiB.
const MAX_WINDOW: u32 = 23;
/// Bytes of memory of a decoder, without the window of zstd.
const DECODER: usize = 256 << 10;

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
pub fn decoded(mut request: Request) -> Result<Request, Problem> {
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

/// Why bytes that a request sends without an encoding are refused, if they are compressed: no JSON and no
/// text begins so.
pub fn undeclared(bytes: &[u8]) -> Option<Problem> {
    let name = match bytes {
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        _ => return None,
    };
    let detail = format!(
        "the body is compressed with {name}, and the request does not say so; send it with the header \
         Content-Encoding: {name}, with curl as -H 'content-encoding: {name}'"
    );
    Some(Problem::new(Code::MalformedRequest, detail))
}

/// The error of a body that cannot be decompressed, if this error has one among its causes.
pub fn problem(error: &(dyn std::error::Error + 'static)) -> Option<Problem> {
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
        self.reserve()?;
        let mut part = Vec::new();
        self.decoder.step(&mut self.input, &mut part)?;
        // The decoder has a window since it read the header of a frame.
        self.reserve()?;
        self.made += part.len() as u64;
        Ok(part)
    }

    fn reserve(&mut self) -> Result<(), NoMemory> {
        let needed = self.decoder.memory();
        match &mut self.reserved {
            Some(reserved) => reserved.grow_to(needed)?,
            None => self.reserved = Some(call::reserve(needed)?),
        }
        Ok(())
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
    /// The memory of the decoder and of the next part, in bytes.
    fn memory(&self) -> usize {
        match self {
            Decoder::Gzip(_) => DECODER,
            Decoder::Zstd(zstd) => PART + zstd.context.as_ref().map_or(DECODER, DCtx::sizeof),
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

/// Any number of frames of zstd.
#[derive(Default)]
struct Zstd {
    /// Created for the first part.
    context: Option<DCtx<'static>>,
    is_in_frame: bool,
    /// Whether there may be more content of the input that was taken.
    has_more: bool,
}

impl Zstd {
    fn step(&mut self, input: &mut Bytes, output: &mut Vec<u8>) -> Result<(), DecodeError> {
        output.reserve_exact(PART);
        while (self.has_more || !input.is_empty()) && output.len() < PART {
            let (mut from, made) = (InBuffer::around(&input[..]), output.len());
            let mut to = OutBuffer::around_pos(output, made);
            let left = self.context()?.decompress_stream(&mut to, &mut from).map_err(of_zstd)?;
            let taken = from.pos();
            input.advance(taken);
            self.is_in_frame = left > 0;
            self.has_more = self.is_in_frame && output.len() >= PART;
        }
        Ok(())
    }

    fn context(&mut self) -> Result<&mut DCtx<'static>, DecodeError> {
        if self.context.is_none() {
            let mut context = DCtx::create();
            context.set_parameter(DParameter::WindowLogMax(MAX_WINDOW)).map_err(of_zstd)?;
            self.context = Some(context);
        }
        Ok(self.context.as_mut().expect("it was created"))
    }

    fn finish(&self) -> Result<(), DecodeError> {
        if self.is_in_frame {
            return Err(DecodeError::Damaged("zstd", "it ends too early".to_owned()));
        }
        Ok(())
    }
}

fn of_zstd(code: zstd_safe::ErrorCode) -> DecodeError {
    DecodeError::Damaged("zstd", wording::of_zstd(zstd_safe::get_error_name(code), MAX_WINDOW))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures::{StreamExt, stream};

    use super::*;
    use lookalike_run::call::{Accountant, Call, Client};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
        compressor.include_checksum(true).unwrap();
        compressor.compress(bytes).unwrap()
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
        assert!(error.contains("its window is larger than 8 MiB"), "{error}");
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
