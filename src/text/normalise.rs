//! Normalisation: one form for all texts that a reader would call the same letters.
//!
//! The form is Unicode's compatibility composition (NFKC), full case folding, and NFKC again, without
//! control characters and default-ignorable ones (zero-width, bidi marks, variation selectors), every run of
//! white space being one space and none standing at either end (Unicode Standard Annex 15 and section 3.13).
//!
//! Promises: canonically or compatibly equivalent texts give the same string, and normalising twice changes
//! nothing. Leaves out: traditional to simplified Chinese, which is for the segmenter of Han, accents (é stays
//! é), and the folding of look-alikes across scripts.
//!
//! Some characters stand for several, U+FDFA for eighteen, so that a text may become eleven times as long. Of a normal form
//! only five quarters of the bytes of the text are read, or 64 KiB if that is more. Of nine languages the most was 1.026
//! of the text, in Thai.
//!
//! Costs: characters in a few ranges that normalise to themselves or by one subtraction are copied straight
//! in stretches; all others go through ICU, each stretch of them with three allocations.

use std::fmt::{self, Write};

use super::bytes::ideographs;
use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;

/// How many bytes any normal form may have.
const ROOM: usize = 64 << 10;

/// The normal form of a text.
///
/// ```
/// use lookalike::text::normalise;
/// assert_eq!(normalise("  Ｃａｆｅ\u{301}\r\n\tSTRASSE\u{200b} "), "café strasse");
/// assert_eq!(normalise("Straße"), "strasse");
/// ```
pub fn normalise(text: &str) -> String {
    let most = ROOM.max(text.len() + text.len() / 4);
    let usual = if text.len() > ROOM { most } else { text.len() };
    let mut out = Spaced { text: String::with_capacity(usual), pending: false };
    let mut rest = text;
    while let Some(at) = copy_plain(rest, &mut out) {
        let stretch = &rest[at..];
        let end = end_of_intricate(stretch);
        let (normal, is_whole) = through_icu(&stretch[..end], most.saturating_sub(out.text.len()));
        out.push_all(&normal);
        if !is_whole {
            break;
        }
        rest = &stretch[end..];
    }
    out.text
}

/// Writes text with its white space collapsed: a space is written only when something follows it.
struct Spaced {
    text: String,
    pending: bool,
}

impl Spaced {
    #[inline]
    fn space(&mut self) {
        self.pending = !self.text.is_empty();
    }

    /// Writes text that is in normal form but for capital letters of ASCII.
    #[inline]
    fn push_folded(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.pending {
            self.pending = false;
            self.text.push(' ');
        }
        let start = self.text.len();
        self.text.push_str(text);
        self.text[start..].make_ascii_lowercase();
    }

    fn push(&mut self, c: char) {
        self.push_folded(c.encode_utf8(&mut [0; 4]));
    }

    fn push_all(&mut self, text: &str) {
        for c in text.chars() {
            if c.is_whitespace() { self.space() } else { self.push(c) }
        }
    }
}

/// What normalisation makes of one character that never takes part in a composition with what stands before it.
enum Plain {
    /// It stays as it is, or is a capital letter of ASCII.
    Same,
    /// It becomes this character.
    Letter(char),
    /// It is white space.
    Space,
    /// Only ICU can say.
    Intricate,
}

/// The ranges here are an optimisation and not a definition: the tests hold every one of their characters
/// against ICU. All are starters that do not compose backwards, so that a stretch may be cut before each.
#[inline]
fn plain(c: char) -> Plain {
    let shifted = |by: u32| char::from_u32(u32::from(c) - by).map_or(Plain::Intricate, Plain::Letter);
    match c {
        ' ' | '\t'..='\r' | '\u{3000}' => Plain::Space,
        // ASCII, CJK ideographs, CJK punctuation, kana, Hangul syllables, quotation marks and dashes.
        '!'..='~'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{3001}'..='\u{3029}'
        | '\u{3041}'..='\u{3096}'
        | '\u{30a1}'..='\u{30fe}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{2012}'..='\u{2016}'
        | '\u{2018}'..='\u{2023}' => Plain::Same,
        // Full-width ASCII, its capital letters being folded on the way.
        '\u{ff21}'..='\u{ff3a}' => shifted(0xfee0 - 0x20),
        '\u{ff01}'..='\u{ff5e}' => shifted(0xfee0),
        // Small letters of Latin-1, Cyrillic letters, and Arabic ones that decompose to nothing.
        'à'..='ö' | 'ø'..='ÿ' | 'а'..='ѿ' | 'ء' | 'ب'..='غ' | 'ف'..='ي' => cyrillic_or_self(c),
        'А'..='Я' => Plain::Letter(char::from_u32(u32::from(c) + 0x20).unwrap_or(c)),
        _ => Plain::Intricate,
    }
}

/// Of the letters from а to ѿ those past џ come in pairs, the even one being the capital.
#[inline]
fn cyrillic_or_self(c: char) -> Plain {
    if ('ѐ'..='џ').contains(&c) || !('\u{460}'..='ѿ').contains(&c) || u32::from(c) % 2 == 1 {
        Plain::Same
    } else {
        Plain::Intricate
    }
}

/// Copies plain characters and returns where the first stretch for ICU begins: at the character before the
/// first intricate one, because a combining mark may change its base. `None` if all was plain.
fn copy_plain(text: &str, out: &mut Spaced) -> Option<usize> {
    // What stays the same is copied in stretches; this one goes from `from` to `at`.
    let (mut from, mut at) = (0, 0);
    while at < text.len() {
        at += ascii_words(&text.as_bytes()[at..], from < at);
        at += ideographs(&text.as_bytes()[at..]);
        let Some(c) = text[at..].chars().next() else { break };
        let after = at + c.len_utf8();
        match plain(c) {
            Plain::Same => {
                at = after;
                continue;
            }
            Plain::Letter(letter) => {
                out.push_folded(&text[from..at]);
                if text[after..].chars().next().is_some_and(is_intricate) {
                    return Some(at);
                }
                out.push(letter);
            }
            Plain::Space => {
                out.push_folded(&text[from..at]);
                out.space();
            }
            Plain::Intricate => {
                let base = if from < at { text.floor_char_boundary(at - 1) } else { at };
                copy_base_excluded(&text[from..base], out);
                return Some(base);
            }
        }
        (from, at) = (after, after);
    }
    out.push_folded(&text[from..]);
    None
}

/// Copies what stands before a base; the space at its end, if any, is not yet known to be needed.
fn copy_base_excluded(text: &str, out: &mut Spaced) {
    let words = text.trim_end_matches(' ');
    out.push_folded(words);
    if words.len() < text.len() {
        out.space();
    }
}

/// The length of the ASCII words at the beginning, with the single spaces between them. `inside` says whether
/// something stands before them that a space may follow.
#[inline]
fn ascii_words(bytes: &[u8], mut inside: bool) -> usize {
    let is_graphic = |byte: u8| byte.is_ascii_graphic();
    // A space before another, before a control character or before what is not ASCII is looked at alone.
    let goes_on = |byte: u8, next: u8| is_graphic(byte) | ((byte == b' ') & is_graphic(next));
    let mut at = 0;
    // Sixteen at a time without a branch among them, and the byte that stands behind.
    while let Some(block) = bytes[at..].first_chunk::<17>()
        && (inside || block[0] != b' ')
        && block.iter().zip(&block[1..]).fold(true, |all, (&byte, &next)| all & goes_on(byte, next))
    {
        at += 16;
        inside = true;
    }
    while let Some(&byte) = bytes.get(at)
        && (inside || byte != b' ')
        && goes_on(byte, bytes.get(at + 1).copied().unwrap_or(0))
    {
        at += 1;
        inside = true;
    }
    at
}

fn is_intricate(c: char) -> bool {
    matches!(plain(c), Plain::Intricate)
}

/// Where a stretch for ICU ends: at the second of two plain characters, or at the end. Its first character is
/// plain or not. One plain character alone, as in a word of accented letters, does not end it.
fn end_of_intricate(stretch: &str) -> usize {
    let mut before_plain = false;
    for (at, c) in stretch.char_indices().skip(1) {
        let is_plain = !is_intricate(c);
        if is_plain && before_plain {
            return at;
        }
        before_plain = is_plain;
    }
    stretch.len()
}

/// The definition: what is dropped, then NFKC, case folding, NFKC. Dropping comes first, since a zero-width
/// character may stand between a letter and its accent. It ends where there is no more room, and says whether it is whole.
fn through_icu(text: &str, room: usize) -> (String, bool) {
    const NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfkc();
    let visible: String = text.chars().filter(|&c| !is_dropped(c)).collect();
    let (composed, is_whole) = within(room, visible.len(), |sink| NFKC.normalize_to(&visible, sink));
    let folded = CaseMapper::new().fold_string(&composed);
    let (normal, fits) = within(room, folded.len(), |sink| NFKC.normalize_to(&folded, sink));
    (normal, is_whole && fits)
}

/// What is written, as far as there is room for it, and whether it is all. `usual` is the room that it mostly takes.
fn within(room: usize, usual: usize, write: impl FnOnce(&mut Within) -> fmt::Result) -> (String, bool) {
    let mut within = Within { text: String::with_capacity(usual.min(room)), room };
    // The only error is that there is no more room.
    let is_whole = write(&mut within).is_ok();
    (within.text, is_whole)
}

struct Within {
    text: String,
    room: usize,
}

impl Write for Within {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(self.room - self.text.len());
        self.text.push_str(&text[..fits]);
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Control characters but white space, and default-ignorable characters.
fn is_dropped(c: char) -> bool {
    (c.is_control() && !c.is_whitespace()) || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icu_normalizer::DecomposingNormalizerBorrowed;
    use proptest::prelude::*;

    /// The definition, without the shortcut for plain characters.
    fn slow(text: &str) -> String {
        let mut out = Spaced { text: String::new(), pending: false };
        out.push_all(&through_icu(text, usize::MAX).0);
        out.text
    }

    #[test]
    fn every_character_takes_the_same_form_with_and_without_the_shortcut() {
        for c in '\0'..=char::MAX {
            let text = c.to_string();
            let once = normalise(&text);
            assert_eq!(once, slow(&text), "U+{:04X}", u32::from(c));
            assert_eq!(normalise(&once), once, "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn a_mark_meets_its_base_across_the_shortcut() {
        let marks =
            ['\u{301}', '\u{308}', '\u{3099}', '\u{309a}', '\u{11a8}', '\u{653}', '\u{345}', '\u{338}'];
        for base in ('\0'..='\u{30ff}').chain('\u{ac00}'..='\u{ac20}').chain('\u{ff01}'..='\u{ff5e}') {
            for mark in marks {
                let text = format!("x{base}{mark}x");
                assert_eq!(
                    normalise(&text),
                    slow(&text),
                    "U+{:04X} U+{:04X}",
                    u32::from(base),
                    u32::from(mark)
                );
            }
        }
    }

    #[test]
    fn a_normal_form_is_read_up_to_five_quarters_of_the_text_or_64_kib() {
        let phrase = normalise("\u{fdfa}");
        assert_eq!((phrase.chars().count(), phrase.len()), (18, 33));
        for (count, tail) in [(1_000, ""), (3_000, ""), (30_000, ""), (30_000, " and more"), (350_000, "")] {
            let text = "\u{fdfa}".repeat(count) + tail;
            let whole = phrase.repeat(count) + tail;
            let most = (64 << 10).max(text.len() + text.len() / 4);
            let normal = normalise(&text);
            assert!(whole.starts_with(&normal), "{count}");
            assert!(
                normal.len() <= most && normal.len() > whole.len().min(most) - 4,
                "{count}: {}",
                normal.len()
            );
            assert_eq!(normalise(&normal), normal);
        }
    }

    #[test]
    fn texts_take_their_normal_form() {
        let cases = [
            ("", ""),
            (" \t\r\n\u{3000}\u{a0}", ""),
            ("ＡＢＣ　１２３！", "abc 123!"),
            ("ﬁne №5 ㎏", "fine no5 kg"),
            ("STRASSE Straße", "strasse strasse"),
            ("a\u{200b}b\u{ad}c\u{feff}d\u{0}e", "abcde"),
            ("e\u{200d}\u{301}", "é"),
            ("ｶﾞｷﾞ", "ガギ"),
            ("한국어", "한국어"),
            ("❤\u{fe0f}", "❤"),
            ("ПРИВЕТ Ёлка", "привет ёлка"),
            ("İstanbul ΣΑΣ", "i\u{307}stanbul σασ"),
            ("line\u{2028}para\u{2029}end\u{85}", "line para end"),
        ];
        for (text, normal) in cases {
            assert_eq!(normalise(text), normal, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn equivalent_texts_have_one_form(text in "\\PC{0,40}|[a-zéüßА-ё가-힣ぁ-ん\u{300}-\u{345}\u{3099} \u{200d}]{0,40}") {
            let normal = normalise(&text);
            prop_assert_eq!(&normal, &slow(&text));
            prop_assert_eq!(&normalise(&normal), &normal);
            for equivalent in [
                ComposingNormalizerBorrowed::new_nfc().normalize(&text),
                ComposingNormalizerBorrowed::new_nfkc().normalize(&text),
                DecomposingNormalizerBorrowed::new_nfd().normalize(&text),
                DecomposingNormalizerBorrowed::new_nfkd().normalize(&text),
            ] {
                prop_assert_eq!(&normalise(&equivalent), &normal);
            }
        }
    }
}
