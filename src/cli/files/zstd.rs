//! Zstandard: any number of frames in one file.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::StreamingDecoder;

use super::wrong;

/// The error of data that do not begin as a frame does. The library has numbers of headers, which tell less.
const NOT_ZSTD: &str = "not zstd data; compress the file with zstd, or give it its name without .zst";

/// Decompresses zstd data of any number of frames.
pub(super) struct Zstd<R: Read> {
    /// Created at the first read, because it reads the frame header.
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
            let decoder = StreamingDecoder::new(rest).map_err(|_| wrong(NOT_ZSTD))?;
            self.decoder = Some(Box::new(decoder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_frames_are_decompressed() {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        let frames = [&b"one\n"[..], b"two\n", b"", b"three"];
        let packed: Vec<u8> =
            frames.iter().flat_map(|frame| compress_to_vec(*frame, CompressionLevel::Fastest)).collect();
        let mut text = String::new();
        Zstd::new(io::Cursor::new(packed.clone())).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\nthree");
        for bad in [&packed[..packed.len() - 3], b"no zstd at all"] {
            let error = Zstd::new(io::Cursor::new(bad.to_vec())).read_to_end(&mut Vec::new()).unwrap_err();
            assert!(!error.to_string().contains("BadMagic"), "{error}");
        }
    }
}
