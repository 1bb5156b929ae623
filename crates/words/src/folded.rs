//! Folding: a second step after the normal form, for letters that writers exchange or disguise.
//!
//! - The digits of every script become those of ASCII, ё becomes е, and katakana becomes hiragana. The tone
//!   mark of a Thai or Lao vowel am comes before its ring, in whichever order they were typed.
//! - Marks that are piled upon letters ("Zalgo"): a word in which a letter has three or more marks that do
//!   not compose with it loses the marks of U+0300 to U+036F from all its letters, and so do the words after
//!   it, up to the first one without such marks.
//! - Letters of another script that look alike ("homoglyphs", Unicode Technical Standard 39): in a stretch of
//!   Latin letters and of Cyrillic or Greek ones, the latter become the Latin letters that look like them; if
//!   one has none, the Latin ones become letters of the other script, if each has one. No language mixes
//!   these scripts within a word.
//!
//! Guarantees: a folded text is in normal form, and folding twice changes nothing. ASCII is unchanged. Not
//! here: a word that has only letters of another script, which may be a word of that script; and the normal
//! form, which profiles that reproduce other programs use without this step (ADR 54).

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;

use super::class::Class;

const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();

/// The marks from which a letter has a pile.
const PILE: usize = 3;

/// A Latin letter, and the Cyrillic and Greek ones that look like it in lower case.
const ALIKE: [(char, &str); 17] = [
    ('a', "аα"),
    ('c', "с"),
    ('d', "ԁ"),
    ('e', "е"),
    ('h', "һ"),
    ('i', "іι"),
    ('j', "јϳ"),
    ('l', "ӏ"),
    ('o', "оο"),
    ('p', "рρ"),
    ('q', "ԛ"),
    ('s', "ѕ"),
    ('u', "υ"),
    ('v', "ѵν"),
    ('w', "ԝω"),
    ('x', "хχ"),
    ('y', "уγ"),
];

/// Those that look alike in upper case only: case is folded before.
const ALIKE_CAPITALS: [(char, &str); 6] =
    [('b', "вβ"), ('e', "ε"), ('h', "нη"), ('k', "кκ"), ('m', "м"), ('t', "тτ")];

/// A normalised text with letters and words folded.
///
/// ```
/// use lookalike_words::{folded, normalise};
/// assert_eq!(folded(normalise("Ёлка, ٤٢ カメラ, pаypаl")), "елка, 42 かめら, paypal");
/// ```
pub fn folded(normalised: String) -> String {
    if normalised.is_ascii() {
        return normalised;
    }
    words_folded(letters_folded(normalised))
}

/// The two dots of ё.
const DIAERESIS: char = '\u{308}';

fn letters_folded(text: String) -> String {
    let is_tone = |c: char| matches!(c, '\u{e48}'..='\u{e4b}' | '\u{ec8}'..='\u{ecb}');
    let Some(first) = text.find(|c| is_tone(c) || folded_letter(c) != c) else { return text };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    // Whether the marks that follow are those of a Cyrillic ie that had two dots.
    let mut is_ie = false;
    // Whether another mark follows, which may be one letter with the ie now.
    let mut composes = false;
    for c in text[first..].chars() {
        if is_tone(c) && out.ends_with(['\u{e4d}', '\u{ecd}']) {
            let ring = out.pop();
            out.push(c);
            out.extend(ring);
        } else if !(is_ie && c == DIAERESIS) {
            out.push(folded_letter(c));
        }
        let is_mark_of_ie = is_ie && Class::of(c) == Class::Mark;
        composes |= is_mark_of_ie;
        is_ie = c == 'ё' || is_mark_of_ie;
    }
    if composes { NFC.normalize(&out).into_owned() } else { out }
}

/// The letter that all spellings of a word share.
fn folded_letter(c: char) -> char {
    let shifted = |by: u32| char::from_u32(u32::from(c) - by).unwrap_or(c);
    match c {
        'ё' => 'е',
        'ァ'..='ヶ' | 'ヽ' | 'ヾ' => shifted(u32::from('ァ') - u32::from('ぁ')),
        // Most text is in these ranges, which have no other digits.
        '\0'..'\u{660}' | '\u{2000}'..'\u{a620}' | '\u{ac00}'..'\u{ff00}' => c,
        _ => ascii_digit(c),
    }
}

/// The ASCII digit of a decimal digit; another character itself. The digits of a script are ten code points
/// in a row, zero first (Unicode, section 4.6), and rows may adjoin.
fn ascii_digit(c: char) -> char {
    let categories = CodePointMapData::<GeneralCategory>::new();
    let is_digit = |c: char| categories.get(c) == GeneralCategory::DecimalNumber;
    if !is_digit(c) {
        return c;
    }
    let before = (1..=59).take_while(|by| char::from_u32(u32::from(c) - by).is_some_and(is_digit)).count();
    char::from_digit(before as u32 % 10, 10).unwrap_or(c)
}

fn words_folded(text: String) -> String {
    // The first bytes of combining marks, Greek and Cyrillic, U+0300 to U+052F.
    if !text.bytes().any(|byte| matches!(byte, 0xcc..=0xd4)) {
        return text;
    }
    let mut out = String::new();
    let (mut copied, mut start) = (0, 0);
    let mut is_piled = false;
    for word in text.split(' ') {
        let end = start + word.len();
        is_piled = word.contains(is_mark) && (is_piled || has_pile(word));
        if let Some(folded) = folded_word(word, is_piled) {
            out.push_str(&text[copied..start]);
            out.push_str(&folded);
            copied = end;
        }
        start = end + 1;
    }
    if copied == 0 {
        return text;
    }
    out.push_str(&text[copied..]);
    out
}

/// The form of a word, if it has another one.
fn folded_word(word: &str, is_piled: bool) -> Option<String> {
    let has = |is: fn(u8) -> bool| word.bytes().any(is);
    // Most words have one script.
    let is_mixed = has(|byte| matches!(byte, 0xcd..=0xd4))
        && has(|byte| byte.is_ascii_alphabetic() || matches!(byte, 0xc3..=0xc9));
    if !is_piled && !is_mixed {
        return None;
    }
    let bare = if is_piled { Cow::Owned(without_marks(word)) } else { Cow::Borrowed(word) };
    let folded = in_one_script(&bare);
    (folded != word).then_some(folded)
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

fn has_pile(word: &str) -> bool {
    let mut marks = 0;
    word.chars().any(|c| {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        marks >= PILE
    })
}

/// A normalised text without the marks of U+0300 to U+036F.
pub(super) fn without_marks(text: &str) -> String {
    const NFD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfd();
    let bare: String = NFD.normalize(text).chars().filter(|&c| !is_mark(c)).collect();
    NFC.normalize(&bare).into_owned()
}

/// A word in which each stretch of letters is in one script.
fn in_one_script(word: &str) -> String {
    let ends = |c: char| !matches!(Class::of(c), Class::Letter | Class::Mark);
    word.split_inclusive(ends).map(stretch_in_one_script).collect()
}

fn is_latin(c: char) -> bool {
    matches!(c, 'a'..='z' | '\u{df}'..='\u{24f}')
}

fn is_greek(c: char) -> bool {
    matches!(c, '\u{370}'..'\u{400}')
}

fn is_greek_or_cyrillic(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{52f}')
}

/// A stretch in which all Greek and Cyrillic letters are replaced by Latin ones that look like them, or all
/// Latin ones by those of the first other script; the stretch itself if neither can be.
fn stretch_in_one_script(stretch: &str) -> Cow<'_, str> {
    let other = stretch.chars().find(|&c| is_greek_or_cyrillic(c)).filter(|_| stretch.chars().any(is_latin));
    let Some(first) = other else { return stretch.into() };
    let pairs = || ALIKE.iter().chain(&ALIKE_CAPITALS);
    // First by letters that are alike in lower case, which are those that a writer of lower case has chosen.
    for count in [ALIKE.len(), ALIKE.len() + ALIKE_CAPITALS.len()] {
        let latin = |c: char| {
            let alike = || pairs().take(count).find(|(_, others)| others.contains(c));
            if is_greek_or_cyrillic(c) { alike().map(|(latin, _)| *latin) } else { Some(c) }
        };
        let other = |c: char| {
            let of_script = |others: &str| others.chars().find(|&c| is_greek(c) == is_greek(first));
            let mut alike = pairs().take(count).filter(|(latin, _)| *latin == c);
            if is_latin(c) { alike.find_map(|(_, others)| of_script(others)) } else { Some(c) }
        };
        let all = stretch.chars().map(latin).collect::<Option<String>>();
        if let Some(all) = all.or_else(|| stretch.chars().map(other).collect()) {
            return NFC.normalize(&all).into_owned().into();
        }
    }
    stretch.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalise;

    fn form(text: &str) -> String {
        folded(normalise(text))
    }

    #[test]
    fn spellings_have_one_form() {
        let pile = "\u{300}\u{316}\u{33d}\u{355}";
        let cases = [
            ("paypal", "pаураl"),
            ("scope", "sсоре"),
            ("молоко на столе", "мoлoкo на cтoлe"),
            ("ηλεκτρονιο", "ηλeκtρoνιo"),
            ("it-специалист", "it-специалист"),
            ("кот", "кoт"),
            ("bank", "ВАNК"),
            ("μm щg αβ", "µm щg αβ"),
            ("hello world", &format!("h{pile}e{pile}l{pile}lo{pile} wo{pile}rld{pile}")),
            ("cafe de la", &format!("caf\u{e9}{pile} d\u{301}e\u{323} la")),
            ("d\u{301}e la", "d\u{301}e la"),
            ("ẹ\u{301}kọ\u{301}", "ẹ\u{301}kọ\u{301}"),
            ("елка еж й", "Ёлка е\u{308}ж й"),
            ("42 42 42 42 42 42 42 42", "٤٢ ۴۲ ४२ ๔๒ ೪೨ ߄߂ 𝟺𝟸 ４２"),
            ("かめら がー ゔ", "カメラ ガー ｳﾞ"),
            ("น\u{e49}\u{e4d}า น\u{e49}\u{e4d}า", "น้ำ น\u{e4d}\u{e49}า"),
            ("ນ\u{ec9}\u{ecd}າ", "ນ\u{ecd}\u{ec9}າ"),
        ];
        for (expected, text) in cases {
            assert_eq!(form(text), expected, "{text}");
        }
    }

    #[test]
    fn every_digit_becomes_one_of_ascii() {
        let is_digit =
            |c: &char| CodePointMapData::<GeneralCategory>::new().get(*c) == GeneralCategory::DecimalNumber;
        let all: Vec<char> = ('\0'..=char::MAX).filter(is_digit).collect();
        assert!(all.len() > 700);
        for row in all.chunks(10) {
            let found: String = row.iter().map(|c| form(&c.to_string())).collect();
            assert_eq!(found, "0123456789", "U+{:04X}", u32::from(row[0]));
        }
    }

    #[test]
    fn no_letter_is_alike_to_two() {
        let all: Vec<char> =
            ALIKE.iter().chain(&ALIKE_CAPITALS).flat_map(|(_, others)| others.chars()).collect();
        let twice = all.iter().filter(|&c| all.iter().filter(|other| *other == c).count() > 1);
        assert_eq!(twice.count(), 0);
    }

    #[test]
    fn a_mark_of_an_ie_that_lost_its_dots_is_one_letter_with_it() {
        assert_eq!(form("ё\u{300}"), "\u{450}");
        assert_eq!(form("\u{450}"), "\u{450}");
    }

    proptest::proptest! {
        #[test]
        fn a_folded_text_does_not_change(
            text in "\\PC{0,40}|\
                [a-eoхуеёиαοé٤२ァ-ヾぁ-ん\
                \u{300}-\u{309}\u{3099}น\u{e48}-\u{e4d}\u{e33}า -]{0,30}"
        ) {
            let once = form(&text);
            proptest::prop_assert_eq!(form(&once), once);
        }
    }
}
