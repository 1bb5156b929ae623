//! Content encodings of request bodies: gzip and zstd are decompressed as they arrive.
//!
//! The limits of a body count decompressed bytes. A part of at most 16 KiB is decompressed at a time, and
//! only when it is read, so a body that expands to more than its limit costs no more than one that is sent
//! uncompressed. A window of zstd has at most 8 MiB, as RFC 9659 demands of this encoding, and the memory of
//! a decoder is reserved for the request as it is used. Checksums are verified.
//!
//! *Absent*: several encodings of one body, and the time in which a body must arrive, which counts the bytes
//! on the wire (`edge/body`). The layer of `tower-http` uses the same decoders, but reads only the first of
//! several gzip members, and leaves out the others without an error.

use std::io;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use futures::{FutureExt, StreamExt, TryStreamExt};
use http_body::Body as _;
use tokio::io::AsyncRead;
use tokio_util::io::{ReaderStream, StreamReader};

use super::error::{Code, Problem};
use lookalike_run::call::{NoMemory, Reserved};
use lookalike_wording as wording;

/// The encodings that are decompressed, as in the header `Accept-Encoding` of an answer.
pub(crate) const KNOWN: &str = "gzip, zstd";
/// Maximum bytes that are decompressed at a time.
const PART: usize = 16 << 10;
/// Maximum size of a window of zstd, as a power of two: 8 MiB.
const MAX_WINDOW: u32 = 23;
/// Bytes of memory of a decoder, without the window of zstd.
const DECODER: usize = 256 << 10;

/// Why a body cannot be decompressed.
#[derive(Debug, thiserror::Error)]
enum DecodeError {
    #[error("the body is not valid {0}: {1}")]
    Damaged(&'static str, String),
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

/// An encoding that is decompressed.
enum Encoding {
    Gzip,
    Zstd,
}

/// The request with its body decompressed, if it has an encoding.
///
/// # Errors
/// [`Code::UnsupportedEncoding`] if the encoding is not known.
pub fn decoded(mut request: Request) -> Result<Request, Problem> {
    let Some(encoding) = encoding(request.headers())? else { return Ok(request) };
    let headers = request.headers_mut();
    headers.remove(header::CONTENT_ENCODING);
    // This is the length of the compressed body.
    headers.remove(header::CONTENT_LENGTH);
    // A request without a body may have the header nevertheless.
    if request.body().is_end_stream() {
        return Ok(request);
    }
    Ok(request.map(|body| {
        let read = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
        match encoding {
            Encoding::Gzip => {
                let mut decoder = GzipDecoder::new(read);
                decoder.multiple_members(true);
                made_by(decoder, "gzip", 0)
            }
            Encoding::Zstd => {
                let mut decoder = ZstdDecoder::with_params(read, &[DParameter::window_log_max(MAX_WINDOW)]);
                decoder.multiple_members(true);
                made_by(decoder, "zstd", 1 << MAX_WINDOW)
            }
        }
    }))
}

/// The encoding of the body; `None` if it has none.
fn encoding(headers: &HeaderMap) -> Result<Option<Encoding>, Problem> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let name = value.to_str().unwrap_or_default().to_ascii_lowercase();
    match (name.as_str(), values.next()) {
        ("identity", None) => Ok(None),
        ("gzip" | "x-gzip", None) => Ok(Some(Encoding::Gzip)),
        ("zstd", None) => Ok(Some(Encoding::Zstd)),
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

/// The body that a decoder makes, which keeps at most the last `window` bytes.
fn made_by(decoder: impl AsyncRead + Send + 'static, name: &'static str, window: usize) -> Body {
    let (mut made, mut reserved) = (0, Reserved::default());
    let mut checked = move |part: io::Result<Bytes>| -> Result<Bytes, axum::BoxError> {
        let part = part.map_err(|error| problem_of(name, error))?;
        made += part.len();
        reserved.grow_to(DECODER + made.min(window)).map_err(DecodeError::from)?;
        Ok(part)
    };
    let parts = ReaderStream::with_capacity(decoder, PART).then(move |part| {
        let part = checked(part);
        // A few bytes can make many parts: other tasks of the thread have their turn.
        tokio::task::consume_budget().map(|()| part)
    });
    Body::from_stream(parts)
}

/// The error of a decoder, or that of the body that it reads.
fn problem_of(name: &'static str, error: io::Error) -> axum::BoxError {
    if let Some(inner) = error.get_ref()
        && inner.is::<axum::Error>()
    {
        return error.into();
    }
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
        _ => wording::of_zstd(&error.to_string(), MAX_WINDOW),
    };
    DecodeError::Damaged(name, what).into()
}

/// The error of a compressed body that is sent without an encoding: no JSON and no text begins with these
/// bytes.
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
        DecodeError::Damaged(..) => Problem::new(Code::MalformedRequest, error.to_string()),
        DecodeError::NoMemory(error) => Problem::from(*error),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures::stream;

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
            assert!(part.len() <= PART, "{}", part.len());
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
        let bomb = zstd(&vec![0; 16 << 20]);
        let accountant = Arc::new(Accountant::new(64 << 20));
        let call = Call::begin(Client::SERVER, &accountant);
        assert_eq!(call.surround(read("zstd", &bomb, 100)).await.unwrap().len(), 16 << 20);
        let small = Arc::new(Accountant::new(4 << 20));
        let call = Call::begin(Client::SERVER, &small);
        let error = call.surround(read("zstd", &bomb, 100)).await.unwrap_err();
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
