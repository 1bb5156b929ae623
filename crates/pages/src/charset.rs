//! From bytes to characters: finds the encoding of a page or a text file from its label and its bytes.
//!
//! Guarantees: a declaration is believed, and what is invalid in it becomes U+FFFD, as in browsers, unless so
//! much is invalid that it must be wrong (ADR 49). Valid UTF-8 is read as UTF-8 whatever the label says,
//! because labels are often wrong and text in other encodings is hardly ever valid UTF-8. The exceptions are
//! ISO-2022-JP and UTF-16, which are often valid UTF-8: these labels are believed if the bytes fit them. Not
//! here: the declaration of a page (`declared`); archives and other document formats.

mod declared;

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, REPLACEMENT, UTF_8};

use declared::declared;

use super::decoded::{Decoded, WrongBytes};

/// The part of a text from which its encoding is guessed: enough for a reliable guess in a few milliseconds.
/// It begins before the first character that is not ASCII.
const GUESS_BYTES: usize = 64 << 10;
const GUESS_BEFORE: usize = 1 << 10;
/// The faults that any text may have, and the bytes or characters for each further one.
const FEW: usize = 3;
const BYTES_PER_FAULT: usize = 2_000;
const CHARACTERS_PER_FAULT: usize = 50;
/// With more characters than this for each fault a text is likely UTF-8, and is UTF-8 whatever its label
/// says.
const LIKELY: usize = 2;
const CERTAIN: usize = 8;
/// The fewest bytes for each fault of a text that is likely UTF-8 because its faults are few.
const SHORT: usize = 200;
/// UTF-16 that is valid UTF-8 has a control character in every this many bytes: one of the two bytes of an
/// ASCII, Greek, Cyrillic, Hebrew, Arabic or Thai character is one.
const BYTES_PER_CONTROL: usize = 32;
/// The byte that begins an escape of ISO-2022-JP.
const ESCAPE: u8 = 0x1b;

/// The encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharsetOf {
    /// The encoding that the bytes were read in.
    pub encoding: &'static Encoding,
    /// Whether it is guessed: no encoding is named, or a wrong one.
    pub is_guessed: bool,
    /// The number of U+FFFD in place of invalid bytes.
    pub replaced: usize,
}

impl CharsetOf {
    /// Whether the characters may be others than those that were written.
    pub fn is_doubtful(&self) -> bool {
        self.is_guessed || self.replaced > 0
    }
}

/// The characters of a text or, if `is_page`, of an HTML page. `label` is the charset of its content type, if
/// there is one.
///
/// The first of these that applies decides: a byte order mark; ISO-2022-JP or UTF-16 if that is the label
/// and the bytes have escapes or control characters; UTF-8 if the bytes are valid UTF-8, or all but few; the
/// label; a page's own label; a guess. A declaration with too many invalid bytes does not apply. A guess of a
/// single-byte encoding, which any bytes would fit, is accepted for pages only, as in browsers.
///
/// # Errors
/// [`WrongBytes`]. A page fails only if the label is unknown: like browsers, this function decodes what it
/// can.
///
/// ```
/// use lookalike_pages::decode;
/// assert_eq!(decode(b"\xc4\xe3\xba\xc3", Some("gbk"), false).unwrap().text, "你好");
/// assert_eq!(decode("你好".as_bytes(), None, false).unwrap().text, "你好");
/// let cut = decode(b"cut here: \xe4\xbd, go on", Some("utf-8"), false).unwrap();
/// assert_eq!((&*cut.text, cut.charset.replaced), ("cut here: \u{fffd}, go on", 1));
/// assert!(decode(b"\xff", None, false).is_err());
/// ```
pub fn decode<'a>(bytes: &'a [u8], label: Option<&str>, is_page: bool) -> Result<Decoded<'a>, WrongBytes> {
    let labelled = match label {
        None => None,
        Some(label) => Some(named(label).ok_or_else(|| WrongBytes::Label(label.chars().take(40).collect()))?),
    };
    let (bytes, marked) = match Encoding::for_bom(bytes) {
        Some((encoding, length)) if bytes.len() > length => (&bytes[length..], Some(encoding)),
        _ => (bytes, None),
    };
    let own = || if is_page { declared(bytes) } else { None };
    // Of the encodings that are valid UTF-8 by accident, a page can only declare that with escapes.
    let escaped = || memchr::memchr(ESCAPE, bytes).and_then(|_| own());
    let fault = match std::str::from_utf8(bytes) {
        Ok(text) if marked.is_none_or(|encoding| encoding == UTF_8) => {
            let wide =
                labelled.or_else(escaped).filter(|encoding| marked.is_none() && is_wide(encoding, bytes));
            let wide = wide.map(|encoding| Attempt::of(bytes, encoding)).filter(Attempt::is_credible);
            return Ok(wide.map_or_else(|| valid(text), |wide| wide.decoded(false)));
        }
        Ok(_) => 0,
        Err(error) => error.valid_up_to(),
    };
    let utf8 = Utf8Share::of(bytes);
    if marked.is_none() && utf8.characters > CERTAIN * utf8.faults {
        return Ok(utf8.decoded(bytes));
    }
    let mut first_wrong: Option<Attempt<'a>> = None;
    for encoding in [marked, labelled, own()].into_iter().flatten() {
        if encoding == UTF_8 && utf8.is_credible() {
            return Ok(utf8.decoded(bytes));
        }
        let attempt = Attempt::of(bytes, encoding);
        if encoding != UTF_8 && attempt.is_credible() {
            return Ok(attempt.decoded(false));
        }
        first_wrong.get_or_insert(attempt);
    }
    if first_wrong.is_none() && utf8.is_likely(bytes) {
        return Ok(utf8.decoded(bytes));
    }
    let guessed = Attempt::of(bytes, guess(bytes, true));
    if is_page {
        let best = first_wrong.filter(|wrong| wrong.faults <= guessed.faults);
        return Ok(best.map_or_else(|| guessed.decoded(true), |wrong| wrong.decoded(false)));
    }
    match first_wrong {
        _ if guessed.is_credible() && !guessed.encoding.is_single_byte() => Ok(guessed.decoded(true)),
        Some(wrong) if wrong.encoding != UTF_8 => Err(WrongBytes::NotAsLabelled(wrong.encoding.name())),
        _ => Err(WrongBytes::Utf8(fault)),
    }
}

/// The encoding of a text without a byte order mark that begins with these bytes, which may end within a
/// character, and whether it is guessed. `named` is the one that the user names.
///
/// UTF-8 if they have a character of more than one byte and are valid UTF-8, or all but few; the named
/// encoding; UTF-8 if they have no other bytes than ASCII, or few invalid bytes; an encoding of several bytes
/// per character in which they are valid, if they look like it; else UTF-8. `UTF-16` and `ISO-2022-JP` are
/// believed as in [`decode`].
pub fn detect(first: &[u8], named: Option<&'static Encoding>) -> (&'static Encoding, bool) {
    if let Some(named) = named.filter(|named| is_wide(named, first)) {
        return (named, false);
    }
    let first = without_cut_end(first);
    let utf8 = Utf8Share::of(first);
    if utf8.characters > CERTAIN * utf8.faults {
        return (UTF_8, false);
    }
    if let Some(named) = named {
        return (named, false);
    }
    if utf8.is_likely(first) {
        return (UTF_8, false);
    }
    let encoding = guess(first, false);
    let is_read =
        !encoding.is_single_byte() && encoding != UTF_8 && Attempt::of(first, encoding).is_credible();
    if is_read { (encoding, true) } else { (UTF_8, false) }
}

/// The encoding of this name; `None` also for those that browsers do not read.
pub fn named(label: &str) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label.trim().trim_matches(['"', '\'']).as_bytes());
    encoding.filter(|encoding| *encoding != REPLACEMENT)
}

fn valid(text: &str) -> Decoded<'_> {
    let charset = CharsetOf { encoding: UTF_8, is_guessed: false, replaced: 0 };
    Decoded { text: text.into(), charset }
}

/// Whether bytes that may be valid UTF-8 are more likely in this encoding: true only for ISO-2022-JP with
/// escapes and for UTF-16 with control characters.
fn is_wide(encoding: &'static Encoding, bytes: &[u8]) -> bool {
    match encoding.name() {
        "ISO-2022-JP" => memchr::memchr(ESCAPE, bytes).is_some(),
        "UTF-16LE" | "UTF-16BE" => {
            let is_control = |byte: &&u8| matches!(**byte, 0..=8 | 0xe..=0x1f);
            let controls = bytes.iter().filter(is_control).count();
            controls > 0 && BYTES_PER_CONTROL * controls >= bytes.len()
        }
        _ => false,
    }
}

/// How much of a text is UTF-8.
struct Utf8Share {
    /// Characters of more than one byte. Surrogates are among these: programs that write them write UTF-8 in
    /// all else.
    characters: usize,
    /// Invalid sequences that are no surrogates.
    faults: usize,
    /// All invalid sequences.
    replaced: usize,
    bytes: usize,
}

impl Utf8Share {
    fn of(bytes: &[u8]) -> Utf8Share {
        let (mut characters, mut replaced) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            characters += chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
            replaced += usize::from(!chunk.invalid().is_empty());
        }
        let is_surrogate = |at: &usize| matches!(bytes.get(at + 1..at + 3), Some([0xa0..=0xbf, 0x80..=0xbf]));
        let surrogates = memchr::memchr_iter(0xed, bytes).filter(is_surrogate).count();
        let faults = replaced - (3 * surrogates).min(replaced);
        Utf8Share { characters: characters + surrogates, faults, replaced, bytes: bytes.len() }
    }

    /// Whether a text that is declared as UTF-8 is UTF-8.
    fn is_credible(&self) -> bool {
        self.faults <= self.characters.max(FEW + self.bytes / BYTES_PER_FAULT)
    }

    /// Whether a text without a declaration is UTF-8.
    fn is_likely(&self, bytes: &[u8]) -> bool {
        let is_few = self.faults <= 1 + bytes.len() / BYTES_PER_FAULT && SHORT * self.faults <= bytes.len();
        is_few || self.characters > LIKELY * self.faults
    }

    fn decoded(self, bytes: &[u8]) -> Decoded<'_> {
        let charset = CharsetOf { encoding: UTF_8, is_guessed: false, replaced: self.replaced };
        Decoded { text: String::from_utf8_lossy(bytes), charset }
    }
}

/// A text read in an encoding.
struct Attempt<'a> {
    encoding: &'static Encoding,
    text: Cow<'a, str>,
    faults: usize,
}

impl<'a> Attempt<'a> {
    fn of(bytes: &'a [u8], encoding: &'static Encoding) -> Attempt<'a> {
        let (text, has_faults) = encoding.decode_without_bom_handling(bytes);
        let faults = if has_faults { text.matches(char::REPLACEMENT_CHARACTER).count() } else { 0 };
        Attempt { encoding, text, faults }
    }

    /// Whether the text is in this encoding, which is not UTF-8.
    fn is_credible(&self) -> bool {
        let is_character = |c: &char| !c.is_ascii() || self.encoding.name().starts_with("UTF-16");
        let characters = || self.text.chars().filter(is_character).count();
        self.faults <= FEW || self.faults <= FEW + characters() / CHARACTERS_PER_FAULT
    }

    fn decoded(self, is_guessed: bool) -> Decoded<'a> {
        let Attempt { encoding, text, faults } = self;
        let charset = CharsetOf { encoding, is_guessed: is_guessed && encoding != UTF_8, replaced: faults };
        Decoded { text, charset }
    }
}

/// The bytes without a character that their end cuts.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    let tail = bytes.len().saturating_sub(3);
    let from = (tail..bytes.len()).find(|at| bytes[*at] >= 0xc0).unwrap_or(bytes.len());
    let is_cut = std::str::from_utf8(&bytes[from..]).is_err_and(|error| error.error_len().is_none());
    if is_cut { &bytes[..from] } else { bytes }
}

/// The encoding that these bytes look like; `is_whole` if no others follow.
fn guess(bytes: &[u8], is_whole: bool) -> &'static Encoding {
    let from = Encoding::ascii_valid_up_to(bytes).saturating_sub(GUESS_BEFORE);
    let looked_at = &bytes[from..bytes.len().min(from + GUESS_BYTES)];
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(looked_at, is_whole && from + looked_at.len() == bytes.len());
    detector.guess(None, Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{
        BIG5, EUC_JP, EUC_KR, GBK, SHIFT_JIS, UTF_16BE, UTF_16LE, WINDOWS_874, WINDOWS_1251, WINDOWS_1252,
    };

    const SIMPLIFIED: &str = "市图书馆昨天宣布，从下个月开始延长周末的\
         开放时间，读者可以在馆内阅读到晚上十点。";
    const TRADITIONAL: &str = "市圖書館昨天宣布，從下個月開始延長週末的\
         開放時間，讀者可以在館內閱讀到晚上十點。";
    const JAPANESE: &str = "東京タワーは、東京都港区芝公園にある\
                            総合電波塔である。観光名所として知られる。";

    fn read(bytes: &[u8], label: Option<&str>, is_page: bool) -> String {
        decode(bytes, label, is_page).unwrap().text.into_owned()
    }

    #[test]
    fn texts_are_decoded_by_label_and_by_guess() {
        for (encoding, text) in [(GBK, SIMPLIFIED), (BIG5, TRADITIONAL), (SHIFT_JIS, JAPANESE)] {
            let (bytes, _, has_faults) = encoding.encode(text);
            assert!(!has_faults);
            for is_page in [false, true] {
                for label in [None, Some(encoding.name())] {
                    assert_eq!(read(&bytes, label, is_page), text, "{} {label:?}", encoding.name());
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
            assert_eq!(read(&GBK.encode(&page).0, None, true), page);
        }
        let mislabelled = "<meta charset=gbk><p>你好，世界</p>";
        assert_eq!(read(mislabelled.as_bytes(), None, true), mislabelled);
        assert_eq!(read(b"<p>caf\xe9</p>", None, true), "<p>café</p>");
        assert_eq!(
            read(b"<meta charset=utf-16><p>caf\xe9</p>", None, true),
            "<meta charset=utf-16><p>café</p>"
        );
    }

    #[test]
    fn encodings_that_are_valid_utf8_by_accident_are_read_by_label() {
        let escaped = b"\x1b$B$3$s$K$A$O\x1b(B";
        for is_page in [false, true] {
            assert_eq!(read(escaped, Some("iso-2022-jp"), is_page), "こんにちは");
            assert_eq!(read(b"h\0i\0", Some("utf-16le"), is_page), "hi");
            assert_eq!(read(b"\0h\0i", Some("utf-16be"), is_page), "hi");
            assert_eq!(read("hi 你好".as_bytes(), Some("utf-16le"), is_page), "hi 你好");
            let greeting = "こんにちは";
            assert_eq!(read(greeting.as_bytes(), Some("iso-2022-jp"), is_page), greeting);
        }
        let page = [b"<meta charset=iso-2022-jp>", &escaped[..]].concat();
        assert_eq!(read(&page, None, true), "<meta charset=iso-2022-jp>こんにちは");
    }

    #[test]
    fn byte_order_marks_take_precedence() {
        assert_eq!(read(b"\xef\xbb\xbfhello", Some("gbk"), false), "hello");
        assert_eq!(read(b"\xff\xfeh\0i\0", None, false), "hi");
        assert_eq!(read(b"\xfe\xff\0h\0i", None, true), "hi");
    }

    #[test]
    fn bytes_of_unknown_encoding_are_refused() {
        assert_eq!(decode(b"\xff\xfe", None, false), Err(WrongBytes::Utf8(0)));
        assert_eq!(decode(b"ab\xff", None, false), Err(WrongBytes::Utf8(2)));
        let cyrillic = WINDOWS_1251.encode(LANGUAGES[0].2).0;
        assert_eq!(decode(&cyrillic, Some("utf-8"), false), Err(WrongBytes::Utf8(0)));
        assert_eq!(decode(&cyrillic, Some("shift_jis"), false), Err(WrongBytes::NotAsLabelled("Shift_JIS")));
        assert_eq!(
            decode(b"ab", Some("iso-2022-kr"), false),
            Err(WrongBytes::Label("iso-2022-kr".to_owned()))
        );
        assert_eq!(decode(b"ab", Some("klingon"), true), Err(WrongBytes::Label("klingon".to_owned())));
    }

    /// A page about a library in a language, with names and charsets of legacy pages in it.
    const LANGUAGES: [(&str, &Encoding, &str); 6] = [
        (
            "ru",
            WINDOWS_1251,
            "Городская библиотека вчера объявила, \
             что с будущего месяца продлит часы работы.",
        ),
        ("zh", GBK, SIMPLIFIED),
        ("tw", BIG5, TRADITIONAL),
        ("ja", SHIFT_JIS, JAPANESE),
        ("jp", EUC_JP, JAPANESE),
        (
            "ko",
            EUC_KR,
            "시립 도서관은 다음 달부터 주말 개관 시간을 \
             연장한다고 어제 발표했다.",
        ),
    ];

    fn page(head: &str, text: &str) -> String {
        format!("<html><head>{head}<title>{text}</title></head><body><p>{}</p></body></html>", text.repeat(9))
    }

    #[test]
    fn a_declaration_is_believed_and_its_invalid_bytes_are_replaced() {
        for (language, legacy, text) in LANGUAGES {
            for (encoding, label) in [(UTF_8, "utf-8"), (legacy, legacy.name())] {
                let page = page(&format!("<meta charset={label}>"), text);
                let bytes = encoding.encode(&page).0;
                for at in [0, bytes.len() / 3, bytes.len() / 2, bytes.len()] {
                    // No encoding of these has a character that begins with 0xff.
                    let at = (0..=at)
                        .rev()
                        .find(|at| {
                            encoding
                                .decode_without_bom_handling_and_without_replacement(&bytes[..*at])
                                .is_some()
                        })
                        .unwrap();
                    let with_stray = [&bytes[..at], b"\xff", &bytes[at..]].concat();
                    for (label, is_page) in [(None, true), (Some(label), true), (Some(label), false)] {
                        let read = decode(&with_stray, label, is_page).unwrap();
                        let expected = CharsetOf {
                            encoding,
                            is_guessed: false,
                            replaced: usize::from(legacy != WINDOWS_1251 || encoding == UTF_8),
                        };
                        assert_eq!(read.charset, expected, "{language} {label:?} {at}");
                        if expected.replaced > 0 {
                            assert_eq!(read.text.replace('\u{fffd}', ""), page, "{language} {label:?} {at}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_wrong_declaration_is_not_believed() {
        for (language, legacy, text) in LANGUAGES {
            let head = "<meta charset=utf-8>";
            let bytes = legacy.encode(&page(head, text)).0.into_owned();
            let read = decode(&bytes, None, true).unwrap();
            assert_eq!(read.text, page(head, text), "{language}");
            assert_eq!(read.charset, CharsetOf { encoding: legacy, is_guessed: true, replaced: 0 });
            // The page knows better than the server.
            let head =
                format!("<meta http-equiv=content-type content='text/html; charset={}'>", legacy.name());
            let bytes = legacy.encode(&page(&head, text)).0.into_owned();
            let read = decode(&bytes, Some("utf-8"), true).unwrap();
            assert_eq!((&*read.text, read.charset.is_guessed), (&*page(&head, text), false), "{language}");
            // UTF-8 with a cut character and another label stays UTF-8.
            for label in ["gbk", "windows-1252", "shift_jis", "euc-kr", "big5", "utf-16"] {
                let whole = page("", text);
                let cut = [whole.as_bytes(), &text.as_bytes()[..1], b" end"].concat();
                let read = decode(&cut, Some(label), true).unwrap();
                assert_eq!(read.charset, CharsetOf { encoding: UTF_8, is_guessed: false, replaced: 1 });
                assert_eq!(read.text, format!("{whole}\u{fffd} end"), "{language} {label}");
            }
        }
        let thai = "ห้องสมุดประกาศขยาย\
             เวลาเปิดทำการในวันหยุดสุดสัปดาห์"
            .repeat(9);
        let bytes = WINDOWS_874.encode(&thai).0.into_owned();
        assert_eq!(read(&bytes, Some("utf-8"), true), thai);
    }

    #[test]
    fn a_text_without_a_declaration_is_utf8_but_for_few_bytes() {
        for (_, _, text) in LANGUAGES {
            let cut = [text.as_bytes(), &text.as_bytes()[..1]].concat();
            for is_page in [false, true] {
                let read = decode(&cut, None, is_page).unwrap();
                assert_eq!(read.text, format!("{text}\u{fffd}"));
                assert_eq!(read.charset, CharsetOf { encoding: UTF_8, is_guessed: false, replaced: 1 });
            }
            assert_eq!(detect(&cut, None), (UTF_8, false));
            assert_eq!(detect(&cut, Some(GBK)), (UTF_8, false));
        }
        let english = "The library said yesterday that it opens until ten in the evening. ".repeat(20);
        // A stray byte, a cut quotation mark, and the surrogates of an emoji.
        for fault in [&b"\xff"[..], b"\xe2\x80", b"\xed\xa0\xbd\xed\xb8\x80"] {
            let text = [english.as_bytes(), fault, b" end"].concat();
            for is_page in [false, true] {
                let read = decode(&text, None, is_page).unwrap();
                assert_eq!(read.text.replace('\u{fffd}', ""), format!("{english} end"));
                assert!(read.charset.encoding == UTF_8 && read.charset.replaced > 0, "{:?}", read.charset);
            }
            assert_eq!(detect(&text, None), (UTF_8, false));
        }
        let german = "Die B\u{fc}cherei \u{f6}ffnet n\u{e4}chstes Jahr auch samstags.".repeat(9);
        let bytes = WINDOWS_1252.encode(&german).0.into_owned();
        assert_eq!(read(&bytes, None, true), german);
        assert!(decode(&bytes, None, false).is_err());
        // The bytes that show the charset come late.
        let late = format!("{}{}", "<p>ascii</p>".repeat(9_000), SIMPLIFIED.repeat(9));
        assert_eq!(read(&GBK.encode(&late).0, None, true), late);
    }

    #[test]
    fn utf16_with_a_fault_is_utf16() {
        let text = "Привет, hi 你好. ".repeat(9);
        for (encoding, mark) in [(UTF_16LE, b"\xff\xfe"), (UTF_16BE, b"\xfe\xff")] {
            let unit = |unit: u16| if encoding == UTF_16LE { unit.to_le_bytes() } else { unit.to_be_bytes() };
            let plain: Vec<u8> = text.encode_utf16().flat_map(unit).collect();
            let lone = [&unit(0xd83d)[..], &plain].concat();
            let odd = [&plain[..], b"x"].concat();
            for (bytes, expected) in [(lone, format!("\u{fffd}{text}")), (odd, format!("{text}\u{fffd}"))] {
                for is_page in [false, true] {
                    let marked = [&mark[..], &bytes].concat();
                    let found = decode(&marked, None, is_page).unwrap();
                    assert_eq!((&*found.text, found.charset.replaced), (&*expected, 1));
                    assert_eq!(decode(&bytes, Some(encoding.name()), is_page).unwrap(), found);
                }
            }
            // A stray zero makes no UTF-16 of a text.
            let zero = format!("{}\0", "The library opens until ten in the evening.".repeat(3));
            assert_eq!(read(zero.as_bytes(), Some(encoding.name()), true), zero);
        }
    }
}
