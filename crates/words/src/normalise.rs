//! Normalisation: one form for all texts that a reader regards as the same letters.
//!
//! The steps are: control characters, default-ignorable characters (zero-width characters, bidi marks,
//! variation selectors) and U+FFFD, which stands for bytes that are no character, are removed; then NFKC
//! (Unicode's compatibility composition), full case folding, and NFKC again (Unicode Standard Annex 15 and
//! section 3.13).
//!
//! Between the folding and the second NFKC, Arabic and Hebrew lose what their writers leave out or exchange
//! freely: vowel marks and other marks, and the tatweel, which only stretches a word; alef with hamza or
//! madda becomes alef, teh marbuta heh, alef maksura and the Persian yeh become yeh, the Persian keheh kaf.
//!
//! Then every run of white space becomes one space, and white space at both ends is removed. A single line
//! break between two characters of scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese)
//! disappears, and so does one after a hyphen between letters, with the hyphen.
//!
//! Guarantees: canonically or compatibility equivalent texts give the same string, and normalising twice
//! changes nothing. Not here: conversion of traditional to simplified Chinese, which the Chinese segmenter
//! does; removal of accents (é stays é), which a profile can have (`prepare`); folding of letters that look
//! alike across scripts.
//!
//! Some characters expand to several (U+FDFA to eighteen), so a text can become eleven times as long. The
//! normal form is therefore cut off at 5/4 of the bytes of the text, or at 64 KiB if that is more. The
//! longest expansion measured in nine languages is 1.026 times the text (Thai).
//!
//! Costs: characters of a few ranges that normalise to themselves, or by one subtraction, are copied in
//! stretches; every other stretch goes through ICU and costs three allocations.

use std::fmt::{self, Write};

use super::bytes::ideographs;
use super::class::Class;
use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, Script};
use icu_properties::{CodePointMapData, CodePointSetData};

/// A normal form may always have this many bytes, however short the text is.
const ALWAYS_ALLOWED: usize = 64 << 10;

/// The normal form of a text, cut off as the module documentation says.
///
/// ```
/// use lookalike_words::normalise;
/// assert_eq!(normalise("  Ｃａｆｅ\u{301}\r\n\tSTRASSE\u{200b} "), "café strasse");
/// assert_eq!(normalise("Straße"), "strasse");
/// ```
pub fn normalise(text: &str) -> String {
    let most = ALWAYS_ALLOWED.max(text.len() + text.len() / 4);
    let capacity = if text.len() > ALWAYS_ALLOWED { most } else { text.len() };
    let mut out = Spaced { text: String::with_capacity(capacity), ..Spaced::default() };
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

/// Collects text and collapses its white space, which is written only when another character follows it.
#[derive(Default)]
struct Spaced {
    text: String,
    pending: White,
}

/// The white space after the collected text.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum White {
    #[default]
    Nothing,
    Space,
    /// White space with one line break.
    Line,
    /// White space with several line breaks.
    Lines,
}

impl Spaced {
    #[inline]
    fn space(&mut self) {
        if self.pending == White::Nothing && !self.text.is_empty() {
            self.pending = White::Space;
        }
    }

    fn line_break(&mut self) {
        self.pending = match self.pending {
            White::Nothing if self.text.is_empty() => White::Nothing,
            White::Nothing | White::Space => White::Line,
            White::Line | White::Lines => White::Lines,
        };
    }

    /// Writes the pending white space before this character.
    #[cold]
    fn write_pending(&mut self, next: char) {
        let pending = std::mem::take(&mut self.pending);
        if pending == White::Line {
            let mut before = self.text.chars().rev();
            let (last, last_but_one) = (before.next(), before.next());
            if is_without_spaces(next) && last.is_some_and(is_without_spaces) {
                return;
            }
            let is_letter = |c: char| Class::of(c) == Class::Letter;
            if matches!(last, Some('-' | HYPHEN)) && is_letter(next) && last_but_one.is_some_and(is_letter) {
                self.text.pop();
                return;
            }
        }
        self.text.push(' ');
    }

    /// Writes text that is in normal form except for capital ASCII letters.
    #[inline]
    fn push_folded(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.pending != White::Nothing
            && let Some(next) = text.chars().next()
        {
            self.write_pending(next);
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
            match c {
                '\n' | '\u{2028}' => self.line_break(),
                c if c.is_whitespace() => self.space(),
                c => self.push(c),
            }
        }
    }
}

/// The normal form of a single character. No variant but `Intricate` composes with the character before it.
enum Plain {
    /// The character is unchanged, or is a capital ASCII letter.
    Same,
    /// It becomes this character.
    Letter(char),
    /// It is white space without a line break.
    Space,
    /// It is a line break.
    LineBreak,
    /// Only ICU knows the result.
    Intricate,
}

/// The ranges here are an optimisation, not a definition: the tests compare every character of them with ICU.
/// All plain characters are starters that do not compose with the character before them, so a stretch can be
/// cut before each of them.
#[inline]
fn plain(c: char) -> Plain {
    let shifted = |by: u32| char::from_u32(u32::from(c) - by).map_or(Plain::Intricate, Plain::Letter);
    match c {
        '\n' => Plain::LineBreak,
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
        // Full-width ASCII; capital letters are folded in the same step.
        '\u{ff21}'..='\u{ff3a}' => shifted(0xfee0 - 0x20),
        '\u{ff01}'..='\u{ff5e}' => shifted(0xfee0),
        'ة' => Plain::Letter('ه'),
        'ى' => Plain::Letter('ي'),
        // Small letters of Latin-1, Cyrillic letters, and Arabic letters without a decomposition.
        'à'..='ö' | 'ø'..='ÿ' | 'а'..='ѿ' | 'ء' | 'ب'..='غ' | 'ف'..='ي' => cyrillic_or_self(c),
        'А'..='Я' => Plain::Letter(char::from_u32(u32::from(c) + 0x20).unwrap_or(c)),
        _ => Plain::Intricate,
    }
}

/// From U+0460 to ѿ, letters come in pairs of which the even one is the capital; ICU folds the capitals.
#[inline]
fn cyrillic_or_self(c: char) -> Plain {
    if ('ѐ'..='џ').contains(&c) || !('\u{460}'..='ѿ').contains(&c) || u32::from(c) % 2 == 1 {
        Plain::Same
    } else {
        Plain::Intricate
    }
}

/// Copies plain characters and returns where the first stretch for ICU begins: at the character before the
/// first intricate one, because a combining mark may change its base. `None` if all characters are plain.
fn copy_plain(text: &str, out: &mut Spaced) -> Option<usize> {
    // Unchanged characters are copied in stretches; the current one is `from..at`.
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
            Plain::LineBreak => {
                out.push_folded(&text[from..at]);
                out.line_break();
            }
            Plain::Intricate => {
                let base = if from < at { text.floor_char_boundary(at - 1) } else { at };
                copy_before_base(&text[from..base], out);
                return Some(base);
            }
        }
        (from, at) = (after, after);
    }
    out.push_folded(&text[from..]);
    None
}

/// Copies the text before a base. A trailing space stays pending, since nothing may follow it.
fn copy_before_base(text: &str, out: &mut Spaced) {
    let words = text.trim_end_matches(' ');
    out.push_folded(words);
    if words.len() < text.len() {
        out.space();
    }
}

/// The length of the ASCII words at the beginning of `bytes`, with the single spaces between them. `inside`
/// is whether the current stretch already has a character before `bytes`, so that a space may come first.
#[inline]
fn ascii_words(bytes: &[u8], mut inside: bool) -> usize {
    let is_graphic = |byte: u8| byte.is_ascii_graphic();
    // A space ends the words unless a graphic ASCII character follows it; the caller then handles that space.
    let goes_on = |byte: u8, next: u8| is_graphic(byte) | ((byte == b' ') & is_graphic(next));
    let mut at = 0;
    // Sixteen bytes at a time without a branch between them; the seventeenth is the look-ahead of the last.
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

/// Where a stretch for ICU ends: before the second of two adjacent plain characters after its first
/// character, or at the end of the text. A single plain character, as in a word of accented letters, does
/// not end it.
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

/// The definition of the normal form: removal of dropped characters, NFKC, case folding, folding of Arabic
/// and Hebrew, NFKC. Removal comes first, because a zero-width character may separate a letter from its
/// accent. Returns at most `limit` bytes, and whether that is the whole result.
fn through_icu(text: &str, limit: usize) -> (String, bool) {
    const NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfkc();
    let visible: String = text.chars().filter(|&c| !is_dropped(c)).collect();
    let (composed, is_whole) = within(limit, visible.len(), |sink| NFKC.normalize_to(&visible, sink));
    let folded = CaseMapper::new().fold_string(&composed);
    let folded: String = folded.chars().filter_map(fold_semitic).collect();
    let (normal, fits) = within(limit, folded.len(), |sink| NFKC.normalize_to(&folded, sink));
    (normal, is_whole && fits)
}

/// The first `limit` bytes of what `write` writes, and whether that is everything. `usual` is the size
/// expected.
fn within(limit: usize, usual: usize, write: impl FnOnce(&mut Within) -> fmt::Result) -> (String, bool) {
    let mut within = Within { text: String::with_capacity(usual.min(limit)), limit };
    // The only possible error is that the limit is reached.
    let is_whole = write(&mut within).is_ok();
    (within.text, is_whole)
}

struct Within {
    text: String,
    limit: usize,
}

impl Write for Within {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(self.limit - self.text.len());
        self.text.push_str(&text[..fits]);
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The hyphen that is not also a minus.
const HYPHEN: char = '\u{2010}';
/// The Arabic character that only stretches a word.
const TATWEEL: char = '\u{640}';

/// The form of an Arabic or Hebrew character that all spellings of a word share; `None` if some leave it out.
fn fold_semitic(c: char) -> Option<char> {
    match c {
        '\0'..'\u{591}' | '\u{700}'.. => Some(c),
        TATWEEL => None,
        'آ' | 'أ' | 'إ' | 'ٱ' => Some('ا'),
        'ة' => Some('ه'),
        'ى' | 'ی' => Some('ي'),
        'ک' => Some('ك'),
        _ => {
            let category = CodePointMapData::<GeneralCategory>::new().get(c);
            (category != GeneralCategory::NonspacingMark).then_some(c)
        }
    }
}

/// Whether a character belongs to a script that separates words by nothing.
fn is_without_spaces(c: char) -> bool {
    match Class::of(c) {
        Class::Han | Class::Kana | Class::SouthEastAsian => true,
        Class::Mark => {
            let script = CodePointMapData::<Script>::new().get(c);
            matches!(script, Script::Thai | Script::Lao | Script::Khmer | Script::Myanmar)
        }
        _ => false,
    }
}

/// Control characters other than white space, default-ignorable characters, and U+FFFD: a stray byte in a
/// word must not make two words of it.
fn is_dropped(c: char) -> bool {
    (c.is_control() && !c.is_whitespace())
        || c == char::REPLACEMENT_CHARACTER
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icu_normalizer::DecomposingNormalizerBorrowed;
    use proptest::prelude::*;

    /// The normal form by the definition, without the shortcut for plain characters.
    fn slow(text: &str) -> String {
        let mut out = Spaced::default();
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
    fn a_mark_combines_with_its_base_across_the_shortcut() {
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
    fn a_normal_form_is_cut_at_five_quarters_of_the_text_or_64_kib() {
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
            (
                "图\u{fffd}书 cut\u{fffd}\u{fffd} w\u{fffd}ord \
                 \u{fffd} e\u{fffd}\u{301}",
                "图书 cut word é",
            ),
            ("e\u{200d}\u{301}", "é"),
            ("ｶﾞｷﾞ", "ガギ"),
            ("한국어", "한국어"),
            ("❤\u{fe0f}", "❤"),
            ("ПРИВЕТ Ёлка", "привет ёлка"),
            ("İstanbul ΣΑΣ", "i\u{307}stanbul σασ"),
            ("line\u{2028}para\u{2029}end\u{85}", "line para end"),
            ("سـلامٌ عَلَيْكُم", "سلام عليكم"),
            ("أإآٱ مدرسة على کتاب ی", "اااا مدرسه علي كتاب ي"),
            ("שָׁלוֹם", "שלום"),
            ("今天天\n气很好\r\n。\n\n下一\n\n段", "今天天气很好 。 下一 段"),
            ("東京タワ\nーは", "東京タワーは"),
            ("กรุง\nเทพ", "กรุงเทพ"),
            ("exam-\n  ple and well-known - one\ntwo 3-\n4", "example and well-known - one two 3- 4"),
            ("用 Rust\n写", "用 rust 写"),
        ];
        for (text, normal) in cases {
            assert_eq!(normalise(text), normal, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn equivalent_texts_have_one_form(
            text in "\\PC{0,40}|[a-zéüßА-ё가-힣ぁ-ん\u{300}-\u{345}\u{3099} \u{200d}]{0,40}\
                |[\u{5d0}-\u{5d4}\u{5b0}-\u{5c7}\u{620}-\u{66f}\u{6cc}ก-ู中a\n\r -]{0,40}"
        ) {
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
