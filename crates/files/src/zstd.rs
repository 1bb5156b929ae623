//! Zstandard: any number of frames in one file, with windows of up to 2 GiB (`zstd --long=31`).
//!
//! Checksums are verified, and skippable frames are skipped. One of these is read: a dictionary at the
//! beginning, as in web archives (`.warc.zst`), is that of all frames. *Absent*: other dictionaries, and the
//! formats before zstd 0.8.

use std::io::{self, BufRead, Chain, Cursor, Read};

use ::zstd::stream::read::Decoder;

use super::wrong;
use lookalike_wording as wording;

/// The largest window of a file, as a power of two.
pub(super) const WINDOW_OF_FILE: u32 = 31;
/// The largest window of a page; its content is limited to less.
pub(super) const WINDOW_OF_PAGE: u32 = 27;
/// The error of a file that does not begin as a frame does.
const NOT_ZSTD: &str = "not zstd data; compress the file with zstd, or give it its name without .zst";
/// The largest dictionary, in bytes.
const DICTIONARY_BYTES: u64 = 16 << 20;
/// How a frame begins.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// How the skippable frame of a dictionary begins, and a dictionary.
const FRAME_OF_DICTIONARY: [u8; 4] = [0x5d, 0x2a, 0x4d, 0x18];
const DICTIONARY: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// Decompresses zstd data of any number of frames.
pub(super) struct Zstd<R: BufRead> {
    /// Created at the first read, because it reads the first bytes.
    decoder: Option<Decoder<'static, Chain<Cursor<Vec<u8>>, R>>>,
    rest: Option<R>,
    window: u32,
    has_content: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Refuses frames with a window of more than 2 to the power of `window` bytes.
    pub(super) fn new(read: R, window: u32) -> Zstd<R> {
        Zstd { decoder: None, rest: Some(read), window, has_content: false }
    }

    /// The error of the library in plain words.
    fn plain(&self, error: &io::Error) -> io::Error {
        let name = error.to_string();
        if !self.has_content && name == "Unknown frame descriptor" {
            return wrong(NOT_ZSTD);
        }
        let why = wording::of_zstd(&name, self.window);
        io::Error::new(error.kind(), format!("not valid zstd data: {why}"))
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(rest) = self.rest.take() {
            self.decoder = begun(rest)?;
            if let Some(decoder) = &mut self.decoder {
                decoder.window_log_max(self.window)?;
            }
        }
        let Some(decoder) = &mut self.decoder else { return Ok(0) };
        let count = decoder.read(buffer).map_err(|error| self.plain(&error))?;
        self.has_content |= count > 0;
        Ok(count)
    }
}

/// The decoder, with the dictionary at the beginning; `None` of an empty file.
#[allow(clippy::type_complexity, reason = "the type is named once")]
fn begun<R: BufRead>(mut read: R) -> io::Result<Option<Decoder<'static, Chain<Cursor<Vec<u8>>, R>>>> {
    let mut head = Vec::new();
    read.by_ref().take(4).read_to_end(&mut head)?;
    let mut dictionary = Vec::new();
    match head[..] {
        [] => return Ok(None),
        [0x1e | 0x22..=0x27, 0xb5, 0x2f, 0xfd] => {
            return Err(wrong("the file was made by zstd before 0.8; decompress it with the zstd program"));
        }
        _ if head == FRAME_OF_DICTIONARY => {
            read.by_ref().take(4).read_to_end(&mut head)?;
            let length = head.get(4..8).and_then(|length| length.try_into().ok()).map(u32::from_le_bytes);
            let length = u64::from(length.unwrap_or_default());
            if length <= DICTIONARY_BYTES {
                read.by_ref().take(length).read_to_end(&mut head)?;
                dictionary = dictionary_in(head.get(8..).unwrap_or_default())?;
            }
        }
        _ => {}
    }
    Decoder::with_dictionary(Cursor::new(head).chain(read), &dictionary).map(Some)
}

/// The dictionary that a skippable frame has, compressed or not; empty if it has something else.
fn dictionary_in(frame: &[u8]) -> io::Result<Vec<u8>> {
    let mut dictionary = frame.to_vec();
    if frame.starts_with(&MAGIC) {
        dictionary.clear();
        Decoder::with_buffer(frame)?.take(DICTIONARY_BYTES).read_to_end(&mut dictionary)?;
    }
    Ok(if dictionary.starts_with(&DICTIONARY) { dictionary } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use ::zstd::bulk::Compressor;
    use base64::prelude::{BASE64_STANDARD, Engine};

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(3).unwrap();
        compressor.include_checksum(true).unwrap();
        compressor.compress(text).unwrap()
    }

    fn read(bytes: &[u8]) -> Result<String, String> {
        let mut text = String::new();
        let mut zstd = Zstd::new(io::Cursor::new(bytes.to_vec()), WINDOW_OF_FILE);
        zstd.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
    }

    fn skippable(number: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_le_bytes();
        [&[0x50 | number, 0x2a, 0x4d, 0x18], &length[..], content].concat()
    }

    #[test]
    fn all_frames_are_decompressed() {
        let frames = [&b"one\n"[..], b"two\n", b"", b"three"];
        let frames = frames.map(packed);
        let skipped = [skippable(0, b"abc"), frames.concat(), skippable(13, b"no dictionary")].concat();
        for bytes in [frames.concat(), skipped.clone(), [skippable(13, b""), skipped].concat()] {
            assert_eq!(read(&bytes).as_deref(), Ok("one\ntwo\nthree"));
        }
        assert_eq!(read(b"").as_deref(), Ok(""));
        assert_eq!(read(&packed(b"")).as_deref(), Ok(""));
        // The size of the content is not in the header of a stream.
        let stream = ::zstd::encode_all(&b"text"[..], 1).unwrap();
        assert_eq!(read(&stream).as_deref(), Ok("text"));
    }

    #[test]
    fn windows_of_two_gibibytes_are_read() {
        // An empty last block after a header with a window of 2 GiB, and of twice that.
        let header = |exponent: u8| [&MAGIC[..], &[0, exponent << 3, 1, 0, 0]].concat();
        assert_eq!(read(&header(21)).as_deref(), Ok(""));
        // The same header, and a block with bytes as they are.
        let text = "{\"text\":\"a\"}\n";
        let block = [&header(21)[..6], &((text.len() as u32) << 3 | 1).to_le_bytes()[..3], text.as_bytes()];
        assert_eq!(read(&block.concat()).as_deref(), Ok(text));
        let error = read(&header(22)).unwrap_err();
        assert_eq!(error, "not valid zstd data: its window is larger than 2 GiB");
        let error = Zstd::new(&header(21)[..], WINDOW_OF_PAGE).read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().ends_with("larger than 128 MiB"), "{error}");
    }

    #[test]
    fn damage_is_found_and_named() {
        let whole = packed(&b"some text ".repeat(1000));
        let mut changed = whole.clone();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        let (text, garbage) = (packed(b"text"), [&whole[..], b"garbage"].concat());
        for (bytes, expected) in [
            (&changed[..], "its checksum is wrong"),
            (&whole[..whole.len() - 1], "it ends within a frame"),
            (&text[..2], "it ends within a frame"),
            (&garbage, "it has something that is no frame"),
            (b"no zstd at all", "compress the file with zstd, or give it its name without .zst"),
            (&[0x26, 0xb5, 0x2f, 0xfd, 0, 0], "made by zstd before 0.8"),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn dictionaries_are_those_of_the_beginning() {
        // Made by `zstd --train` of 2,000 such texts.
        let dictionary = BASE64_STANDARD
            .decode(concat!(
                "N6Qw7CuaekEWEOgK0wEAAABRUoAWt5RSSinDyeGEkNMCAAAakKo6AAAABAAAACtXwBjkEAAAAEDl1AwAAAAAAAAA",
                "AAAAAAAAAAAA1BI0RgMAAAAAAAAAAAAAAAAAAAEAAAAEAAAACAAAAGFyYm91ciA4NDMzNzM1In17ImlkIjoxMjMx",
                "LCJ0ZXh0IjoiaGFyYm91ciA5NzQ4Mjg5aWQiOjMyNSwidGV4dCI6ImhhcmJvdXIgMjU3MzY3NSJ9eyJpZCI6MTk2",
                "NiwidGV4dCJ7ImlkIjo4MywidGV4dCI6ImhhcmJvdXIgNjU3Mjc3In17ImlkIjoxMTEyLCJ0ZXh0Ig=="
            ))
            .unwrap();
        let samples = [&b"{\"id\":0,\"text\":\"harbour 0\"}"[..], b"{\"id\":1,\"text\":\"harbour 1\"}"];
        let pack = |text: &[u8]| Compressor::with_dictionary(3, &dictionary).unwrap().compress(text).unwrap();
        let frames = samples.map(pack).concat();
        let error = read(&frames).unwrap_err();
        assert!(error.contains("with a dictionary"), "{error}");
        let text = String::from_utf8(samples.concat()).unwrap();
        for dictionary in [dictionary.clone(), packed(&dictionary)] {
            assert_eq!(read(&[skippable(13, &dictionary), frames.clone()].concat()).as_ref(), Ok(&text));
        }
    }
}
