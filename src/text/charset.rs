//! From bytes to characters: finds the encoding of a page or a text file from its label and its bytes.
//!
//! Guarantees: valid UTF-8 is read as UTF-8 whatever the label says, because labels are often wrong and
//! text in other encodings is hardly ever valid UTF-8. The exceptions are ISO-2022-JP and UTF-16, which are
//! often valid UTF-8: these labels are believed if the bytes fit them. Not here: archives and other
//! document formats.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{DecoderResult, Encoding, UTF_8};

/// The part of a page that is searched for its own label, as in browsers (HTML Standard, 13.2.3.2).
const META_BYTES: usize = 1024;
/// The part of a text from which its encoding is guessed: enough for a reliable guess in a few milliseconds.
const GUESS_BYTES: usize = 64 << 10;

/// Bytes whose encoding cannot be determined.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongBytes {
    /// There is no such encoding.
    #[error(
        "there is no encoding {0:?}; examples: utf-8, gbk, gb18030, big5, shift_jis, euc-kr, windows-1251"
    )]
    Label(String),
    /// The bytes are not UTF-8, and no label names another encoding. The value is the offset of the first
    /// invalid byte.
    #[error("not UTF-8: byte {0} is invalid; name the encoding as charset, for example gbk")]
    Utf8(usize),
    /// The bytes are invalid in the encoding that their label or byte order mark names.
    #[error("the bytes are not valid {0}, the encoding that their label or byte order mark names")]
    NotAsLabelled(&'static str),
}

/// The characters of a text or, if `is_page`, of an HTML page. `label` is the charset of its content type, if
/// there is one.
///
/// The first of these that applies decides: a byte order mark; ISO-2022-JP or UTF-16 if that is the label
/// and the bytes have escapes or zeros; UTF-8 if the bytes are valid UTF-8; the label; a page's own label;
/// a guess. A guess of a single-byte encoding, which any bytes would fit, is accepted for pages only, as in
/// browsers.
///
/// # Errors
/// [`WrongBytes`]. A page fails only if the label is unknown: like browsers, this function decodes what it
/// can.
///
/// ```
/// use lookalike::text::decode;
/// assert_eq!(decode(b"\xc4\xe3\xba\xc3", Some("gbk"), false).unwrap(), "你好");
/// assert_eq!(decode("你好".as_bytes(), None, false).unwrap(), "你好");
/// assert!(decode(b"\xff", None, false).is_err());
/// ```
pub fn decode<'a>(bytes: &'a [u8], label: Option<&str>, is_page: bool) -> Result<Cow<'a, str>, WrongBytes> {
    let labelled = match label {
        None => None,
        Some(label) => Some(named(label).ok_or_else(|| WrongBytes::Label(label.chars().take(40).collect()))?),
    };
    let (without_mark, marked) = match Encoding::for_bom(bytes) {
        Some((encoding, length)) if bytes.len() > length => (&bytes[length..], Some(encoding)),
        _ => (bytes, None),
    };
    let believed = labelled
        .or_else(|| is_page.then(|| meta(bytes)).flatten())
        .filter(|encoding| looks_like(encoding, bytes));
    if let Some(text) =
        believed.and_then(|encoding| encoding.decode_without_bom_handling_and_without_replacement(bytes))
        && marked.is_none()
    {
        return Ok(text);
    }
    let fault = match std::str::from_utf8(without_mark) {
        Ok(text) if marked.is_none_or(|encoding| encoding.name() == "UTF-8") => {
            return Ok(Cow::Borrowed(text));
        }
        Ok(_) => 0,
        Err(error) => error.valid_up_to(),
    };
    let Some(encoding) = marked.or(labelled).or_else(|| is_page.then(|| meta(bytes)).flatten()) else {
        return guessed(bytes, is_page, fault);
    };
    let (text, has_faults) = encoding.decode_without_bom_handling(without_mark);
    match has_faults {
        true if is_page => guessed(bytes, is_page, fault),
        true if labelled.is_none_or(|label| label.name() == "UTF-8") => Err(WrongBytes::Utf8(fault)),
        true => Err(WrongBytes::NotAsLabelled(encoding.name())),
        false => Ok(text),
    }
}

/// The encoding of a text without a byte order mark that begins with these bytes, which may end within a
/// character. `named` is the one that the user names.
///
/// UTF-8 if they have a character of more than one byte and are valid UTF-8; the named encoding; UTF-8 if
/// they have no other bytes than ASCII, or more characters of UTF-8 than invalid bytes; an encoding of
/// several bytes per character in which they are valid, if they look like it; else UTF-8. `UTF-16` and
/// `ISO-2022-JP` are believed as in [`decode`].
pub fn detect(first: &[u8], named: Option<&'static Encoding>) -> &'static Encoding {
    if let Some(named) = named.filter(|named| looks_like(named, first)) {
        return named;
    }
    let is_utf8 = std::str::from_utf8(first).map_or_else(|error| error.error_len().is_none(), |_| true);
    match named {
        Some(named) if !is_utf8 || first.is_ascii() => return named,
        _ if is_utf8 => return UTF_8,
        _ => {}
    }
    let lossy = String::from_utf8_lossy(first);
    let invalid = lossy.matches(char::REPLACEMENT_CHARACTER).count();
    if lossy.chars().filter(|character| !character.is_ascii()).count() > 2 * invalid {
        return UTF_8;
    }
    let looked_at = &first[..first.len().min(GUESS_BYTES)];
    let encoding = guess(looked_at, false);
    let is_valid = || {
        let mut decoder = encoding.new_decoder_without_bom_handling();
        let length = decoder.max_utf8_buffer_length_without_replacement(looked_at.len());
        let mut text = String::with_capacity(length.unwrap_or_default());
        let (result, _) = decoder.decode_to_string_without_replacement(looked_at, &mut text, false);
        result == DecoderResult::InputEmpty
    };
    if !encoding.is_single_byte() && is_valid() { encoding } else { UTF_8 }
}

/// Whether bytes that may be valid UTF-8 are more likely in this encoding: true only for ISO-2022-JP with
/// escapes and for UTF-16 with zero bytes.
fn looks_like(encoding: &'static Encoding, bytes: &[u8]) -> bool {
    let needed = match encoding.name() {
        "ISO-2022-JP" => 0x1b,
        "UTF-16LE" | "UTF-16BE" => 0,
        _ => return false,
    };
    bytes.contains(&needed)
}

/// The encoding that these bytes look like; `is_whole` if no others follow.
fn guess(bytes: &[u8], is_whole: bool) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, is_whole);
    detector.guess(None, Utf8Detection::Allow)
}

fn guessed(bytes: &[u8], is_page: bool, fault: usize) -> Result<Cow<'_, str>, WrongBytes> {
    let looked_at = &bytes[..bytes.len().min(GUESS_BYTES)];
    let encoding = guess(looked_at, looked_at.len() == bytes.len());
    let (text, has_faults) = encoding.decode_without_bom_handling(bytes);
    if is_page || (!has_faults && !encoding.is_single_byte()) {
        Ok(text)
    } else {
        Err(WrongBytes::Utf8(fault))
    }
}

fn named(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label(label.trim().trim_matches(['"', '\'']).as_bytes())
}

/// The encoding that a page declares in its own text.
fn meta(page: &[u8]) -> Option<&'static Encoding> {
    let start = &page[..page.len().min(META_BYTES)];
    let text: String = start.iter().map(|&byte| char::from(byte).to_ascii_lowercase()).collect();
    text.match_indices("charset=").find_map(|(at, name)| {
        let rest = text[at + name.len()..].trim_start_matches(['"', '\'', ' ']);
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c)));
        let label = &rest[..end.unwrap_or(rest.len())];
        // A page whose label is readable as ASCII is not in UTF-16, whatever the label says.
        named(label).filter(|encoding| !encoding.name().starts_with("UTF-16"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{BIG5, GBK, SHIFT_JIS};

    const SIMPLIFIED: &str = "市图书馆昨天宣布，从下个月开始延长周末的\
         开放时间，读者可以在馆内阅读到晚上十点。";
    const TRADITIONAL: &str = "市圖書館昨天宣布，從下個月開始延長週末的\
         開放時間，讀者可以在館內閱讀到晚上十點。";
    const JAPANESE: &str = "東京タワーは、東京都港区芝公園にある\
                            総合電波塔である。観光名所として知られる。";

    #[test]
    fn texts_are_decoded_by_label_and_by_guess() {
        for (encoding, text) in [(GBK, SIMPLIFIED), (BIG5, TRADITIONAL), (SHIFT_JIS, JAPANESE)] {
            let (bytes, _, has_faults) = encoding.encode(text);
            assert!(!has_faults);
            for is_page in [false, true] {
                for label in [None, Some(encoding.name())] {
                    assert_eq!(
                        decode(&bytes, label, is_page).unwrap(),
                        text,
                        "{} {label:?}",
                        encoding.name()
                    );
                }
            }
        }
    }

    #[test]
    fn a_page_declares_its_encoding() {
        for head in
            ["<meta charset=gbk>", "<META CHARSET=\"GB2312\">", "<meta content='text/html; charset=gb18030'>"]
        {
            let page = format!("{head}<p>你好</p>");
            assert_eq!(decode(&GBK.encode(&page).0, None, true).unwrap(), page);
        }
        let mislabelled = "<meta charset=gbk><p>你好，世界</p>";
        assert_eq!(decode(mislabelled.as_bytes(), None, true).unwrap(), mislabelled);
        assert_eq!(decode(b"<p>caf\xe9</p>", None, true).unwrap(), "<p>café</p>");
        assert_eq!(
            decode(b"<meta charset=utf-16><p>caf\xe9</p>", None, true).unwrap(),
            "<meta charset=utf-16><p>café</p>"
        );
    }

    #[test]
    fn encodings_that_are_valid_utf8_by_accident_are_read_by_label() {
        let escaped = b"\x1b$B$3$s$K$A$O\x1b(B";
        for is_page in [false, true] {
            assert_eq!(decode(escaped, Some("iso-2022-jp"), is_page).unwrap(), "こんにちは");
            assert_eq!(decode(b"h\0i\0", Some("utf-16le"), is_page).unwrap(), "hi");
            assert_eq!(decode(b"\0h\0i", Some("utf-16be"), is_page).unwrap(), "hi");
            assert_eq!(decode("hi 你好".as_bytes(), Some("utf-16le"), is_page).unwrap(), "hi 你好");
            let greeting = "こんにちは";
            assert_eq!(decode(greeting.as_bytes(), Some("iso-2022-jp"), is_page).unwrap(), greeting);
        }
        let page = [b"<meta charset=iso-2022-jp>", &escaped[..]].concat();
        assert_eq!(decode(&page, None, true).unwrap(), "<meta charset=iso-2022-jp>こんにちは");
    }

    #[test]
    fn byte_order_marks_take_precedence() {
        assert_eq!(decode(b"\xef\xbb\xbfhello", Some("gbk"), false).unwrap(), "hello");
        assert_eq!(decode(b"\xff\xfeh\0i\0", None, false).unwrap(), "hi");
        assert_eq!(decode(b"\xfe\xff\0h\0i", None, true).unwrap(), "hi");
    }

    #[test]
    fn bytes_of_unknown_encoding_are_refused() {
        assert_eq!(decode(b"\xff\xfe", None, false), Err(WrongBytes::Utf8(0)));
        assert_eq!(decode(b"ab\xff", None, false), Err(WrongBytes::Utf8(2)));
        assert_eq!(decode(b"ab\xff", Some("utf-8"), false), Err(WrongBytes::Utf8(2)));
        assert_eq!(decode(b"ab\xff", Some("gbk"), false), Err(WrongBytes::NotAsLabelled("GBK")));
        assert_eq!(decode(b"ab", Some("klingon"), true), Err(WrongBytes::Label("klingon".to_owned())));
    }
}
