//! Files in any charset, read as UTF-8.
//!
//! The charset is that of a byte order mark, else UTF-8 if the file begins like UTF-8, else the named one,
//! else one that can be detected reliably, else UTF-8. Records of such files are data of programs, so their
//! invalid bytes are not replaced as those of pages and texts: they become bytes that are invalid in UTF-8,
//! and the record around them fails and no other one. The bytes of the file from which
//! a part of the UTF-8 was made can be taken beside it ([`Originals`]), valid or not.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};

use super::Reading;
use lookalike_text::{CharsetOf, detect, named};
use lookalike_wording::counted;

/// A byte that UTF-8 never has.
const INVALID: u8 = 0xff;
/// The bytes that are decoded at a time.
const AT_ONCE: usize = 64 << 10;
/// More bytes of UTF-8 than any decoder writes for a character.
const CHARACTER: usize = 32;

/// The charset of this name.
///
/// # Errors
/// If there is none.
pub fn charset(name: &str) -> Result<&'static Encoding, String> {
    named(name).ok_or_else(|| {
        format!("there is no charset {name:?}; examples: utf-8, gbk, gb18030, big5, shift_jis, windows-1251")
    })
}

/// What a user should know about the charset of a text: that it is guessed, that bytes were replaced.
pub fn doubts(charset: &CharsetOf) -> String {
    let name = charset.encoding.name();
    let replaced = counted(charset.replaced as u64, "invalid byte sequence");
    match (charset.is_guessed, charset.replaced) {
        (true, 0) => format!("the charset {name} is guessed"),
        (true, _) => format!("the charset {name} is guessed, and {replaced} became U+FFFD"),
        (false, _) => format!("{replaced} of {name} became U+FFFD"),
    }
}

/// The bytes of a file in UTF-8, without a byte order mark. Only what the reader has in its buffer is looked
/// at, so that a slow standard input is not waited for.
pub(crate) fn in_utf8<'a>(read: Reading<'a>, named: Option<&'static Encoding>) -> io::Result<Reading<'a>> {
    let (read, (encoding, _), _) = begun(read, named)?;
    Ok(decoded(read, encoding, None))
}

/// A file read as UTF-8, with the bytes that it has.
pub(crate) struct InUtf8<'a> {
    /// The file in UTF-8, without its byte order mark.
    pub read: Reading<'a>,
    /// The charset of the file.
    pub encoding: &'static Encoding,
    /// Whether it is guessed.
    pub is_guessed: bool,
    /// Its byte order mark.
    pub mark: Vec<u8>,
    /// The bytes of the file; `None` if they are those in UTF-8, or not kept.
    pub originals: Option<Originals>,
}

/// [`in_utf8`] with the bytes of the file if they are kept.
pub(crate) fn with_originals<'a>(
    read: Reading<'a>,
    named: Option<&'static Encoding>,
    are_kept: bool,
) -> io::Result<InUtf8<'a>> {
    let (read, (encoding, is_guessed), mark) = begun(read, named)?;
    if encoding == UTF_8 || !are_kept {
        let read = decoded(read, encoding, None);
        return Ok(InUtf8 { read, encoding, is_guessed, mark, originals: None });
    }
    let kept: Rc<RefCell<BytesMut>> = Rc::default();
    let decoder = encoding.new_decoder_without_bom_handling();
    let originals = Some(Originals { kept: Rc::clone(&kept), decoder });
    Ok(InUtf8 { read: decoded(read, encoding, Some(kept)), encoding, is_guessed, mark, originals })
}

/// Reads the byte order mark. Returns the charset, whether it is guessed, and the mark.
fn begun<'a>(
    mut read: Reading<'a>,
    named: Option<&'static Encoding>,
) -> io::Result<(Reading<'a>, (&'static Encoding, bool), Vec<u8>)> {
    let first = read.fill_buf()?;
    let (charset, length) = match Encoding::for_bom(first) {
        Some((encoding, length)) => ((encoding, false), length),
        None => (detect(first, named), 0),
    };
    let mark = first[..length].to_vec();
    read.consume(length);
    Ok((read, charset, mark))
}

fn decoded<'a>(
    read: Reading<'a>,
    encoding: &'static Encoding,
    kept: Option<Rc<RefCell<BytesMut>>>,
) -> Reading<'a> {
    if encoding == UTF_8 {
        return read;
    }
    let decoder = encoding.new_decoder_without_bom_handling();
    let decoded = Decoded { read, decoder, kept, text: Vec::new(), from: 0, has_ended: false };
    Box::new(BufReader::with_capacity(AT_ONCE, decoded))
}

/// ASCII characters in a charset.
pub fn ascii_in(encoding: &'static Encoding, text: &[u8]) -> Vec<u8> {
    match encoding.name() {
        "UTF-16LE" => text.iter().flat_map(|byte| [*byte, 0]).collect(),
        "UTF-16BE" => text.iter().flat_map(|byte| [0, *byte]).collect(),
        _ => text.to_vec(),
    }
}

/// The bytes of a file that is read as UTF-8, in their order.
pub(crate) struct Originals {
    /// Those that were read and not taken.
    kept: Rc<RefCell<BytesMut>>,
    /// Decodes what is taken, a second time.
    decoder: Decoder,
}

impl Originals {
    /// These bytes, which this decoder decodes.
    pub(crate) fn of(bytes: BytesMut, decoder: Decoder) -> Originals {
        Originals { kept: Rc::new(RefCell::new(bytes)), decoder }
    }

    /// Takes the bytes that became the next `count` bytes of UTF-8, which end with a character.
    pub(crate) fn take(&mut self, count: usize) -> Bytes {
        let mut kept = self.kept.borrow_mut();
        let (mut end, mut rest, mut text) = (0, count, [0; 4 << 10]);
        while rest > 0 && end < kept.len() {
            // The decoder must not go on behind the last character: at the end it gets one byte at a time.
            let (bytes, room) = if rest < 2 * CHARACTER {
                (&kept[end..=end], text.len())
            } else {
                (&kept[end..], text.len().min(rest - CHARACTER))
            };
            let (result, read, written) =
                self.decoder.decode_to_utf8_without_replacement(bytes, &mut text[..room], false);
            let is_malformed = matches!(result, DecoderResult::Malformed(..));
            end += read;
            rest = rest.saturating_sub(written + usize::from(is_malformed));
        }
        kept.split_to(end).freeze()
    }
}

/// Decodes what it reads.
struct Decoded<'a> {
    read: Reading<'a>,
    decoder: Decoder,
    /// Gets the bytes that are decoded.
    kept: Option<Rc<RefCell<BytesMut>>>,
    /// What was decoded, and how much of it was read.
    text: Vec<u8>,
    from: usize,
    has_ended: bool,
}

impl Decoded<'_> {
    /// Decodes the bytes in the buffer.
    fn decode(&mut self) -> io::Result<()> {
        self.text.resize(AT_ONCE, 0);
        let bytes = self.read.fill_buf()?;
        let is_last = bytes.is_empty();
        let (result, read, written) =
            self.decoder.decode_to_utf8_without_replacement(bytes, &mut self.text[..AT_ONCE - 1], is_last);
        self.text.truncate(written);
        self.from = 0;
        match result {
            DecoderResult::Malformed(..) => self.text.push(INVALID),
            DecoderResult::InputEmpty => self.has_ended = is_last,
            DecoderResult::OutputFull => {}
        }
        if let Some(kept) = &self.kept {
            kept.borrow_mut().extend_from_slice(&bytes[..read]);
        }
        self.read.consume(read);
        Ok(())
    }
}

impl Read for Decoded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.from == self.text.len() && !self.has_ended {
            self.decode()?;
        }
        let rest = &self.text[self.from..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.from += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::{BIG5, GB18030, GBK, SHIFT_JIS, UTF_16LE};

    use super::*;

    const TEXT: &str = "市图书馆昨天宣布，从下个月开始延长周末的\
        开放时间，读者可以在馆内阅读到晚上十点。\n";

    fn read(bytes: &[u8], named: Option<&'static Encoding>) -> Vec<u8> {
        let mut found = Vec::new();
        // A buffer that ends within characters.
        let reader = BufReader::with_capacity(1021, io::Cursor::new(bytes.to_vec()));
        in_utf8(Box::new(reader), named).unwrap().read_to_end(&mut found).unwrap();
        found
    }

    #[test]
    fn texts_are_read_in_their_named_or_detected_charset() {
        let long = TEXT.repeat(3_000);
        let japanese = "図書館は来月から週末の開館時間を延長すると\
            発表しました。\n"
            .repeat(3_000);
        for (encoding, text) in [(GBK, &long), (GB18030, &long), (SHIFT_JIS, &japanese)] {
            let bytes = encoding.encode(text).0;
            assert!(read(&bytes, None) == text.as_bytes(), "{}", encoding.name());
            assert!(read(&bytes, Some(encoding)) == text.as_bytes(), "{}", encoding.name());
        }
        let traditional = "市圖書館昨天宣布，從下個月開始延長\
            週末的開放時間。\n"
            .repeat(3_000);
        assert!(read(&BIG5.encode(&traditional).0, None) == traditional.as_bytes());
        assert!(
            read(long.as_bytes(), Some(GBK)) == long.as_bytes(),
            "UTF-8 is never read as another charset"
        );
        let marked = ["\u{feff}", &long].concat();
        assert!(read(marked.as_bytes(), None) == long.as_bytes());
        let wide: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(read(&wide, None) == long.as_bytes());
        assert!(read(&wide[2..], Some(UTF_16LE)) == long.as_bytes());
    }

    #[test]
    fn invalid_bytes_stay_invalid_and_damage_nothing_else() {
        let mut bytes = GBK.encode(TEXT).0.into_owned();
        bytes.extend_from_slice(b"a\xff\nb\n");
        bytes.extend_from_slice(&GBK.encode(TEXT).0);
        let found = read(&bytes, Some(GBK));
        let lines: Vec<&[u8]> = found.split(|byte| *byte == b'\n').collect();
        assert_eq!((lines[0], lines[3]), (TEXT.trim_end().as_bytes(), TEXT.trim_end().as_bytes()));
        assert!(std::str::from_utf8(lines[1]).is_err() && lines[2] == b"b", "{lines:?}");
        // Mostly UTF-8 with a damaged character is no other charset.
        let damaged = [TEXT.as_bytes(), &TEXT.as_bytes()[1..]].concat();
        assert_eq!(read(&damaged, None), damaged);
        assert_eq!(read(b"caf\xe9\n", None), b"caf\xe9\n");
    }

    #[test]
    fn the_bytes_of_each_part_are_those_of_the_file() {
        let mut random = fastrand::Rng::with_seed(3);
        for encoding in [GBK, GB18030, BIG5, SHIFT_JIS, UTF_16LE] {
            for round in 0..30 {
                // Lines of text, with bytes that no text has.
                let length = if round == 0 { 200_000 } else { random.usize(..3_000) };
                let mut bytes: Vec<u8> = Vec::new();
                while bytes.len() < length {
                    let text = *random.choice(&["市图", "a", "図", "書\\", "\n", "|"]).unwrap();
                    let is_valid = encoding != UTF_16LE && random.u8(..20) > 0;
                    let encoded = match (encoding == UTF_16LE, is_valid) {
                        (true, _) => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
                        (false, true) => encoding.encode(text).0.into_owned(),
                        (false, false) => vec![random.u8(0x80..), random.u8(..)],
                    };
                    bytes.extend(encoded);
                }
                let kept: Rc<RefCell<BytesMut>> = Rc::default();
                let file = BufReader::with_capacity(random.usize(1..2_000), io::Cursor::new(bytes.clone()));
                let mut read = decoded(Box::new(file), encoding, Some(Rc::clone(&kept)));
                let mut originals = Originals { kept, decoder: encoding.new_decoder_without_bom_handling() };
                let (mut all, mut line) = (Vec::new(), Vec::new());
                while read.read_until(b'\n', &mut line).unwrap() > 0 {
                    let own = originals.take(line.len());
                    let text = read_in(&own, encoding);
                    // What follows a lead byte at the end of a part may belong to it.
                    assert!(text == line || !line.ends_with(b"\n"), "{}: {line:?}", encoding.name());
                    all.extend_from_slice(&own);
                    line.clear();
                }
                assert!(all == bytes, "{}: {} of {}", encoding.name(), all.len(), bytes.len());
            }
        }
    }

    /// Bytes of this charset in UTF-8.
    fn read_in(bytes: &[u8], encoding: &'static Encoding) -> Vec<u8> {
        let mut found = Vec::new();
        let file = Box::new(io::Cursor::new(bytes.to_vec()));
        decoded(file, encoding, None).read_to_end(&mut found).unwrap();
        found
    }
}
