//! The units of a text that a change of one word replaces: words where spaces separate them, single
//! characters elsewhere.
//!
//! The counts are estimates: only the beginning of a long text is read, and characters are classified by
//! ranges of code points, which is faster than the tables and right for all but rare characters. Not here:
//! the features that a unit is part of (`fingerprint`).

/// The bytes of a text that are read.
const READ: usize = 256;

/// The numbers of units of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Units {
    /// Words of scripts with spaces.
    pub words: f64,
    /// The letters of these words.
    pub letters: f64,
    /// Those of the letters that are Hangul syllables.
    pub syllables: f64,
    /// Chinese characters and kana.
    pub ideographs: f64,
    /// Characters of Thai, Lao, Khmer and Burmese.
    pub south_east_asian: f64,
}

/// The unit that a character is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Letter,
    Syllable,
    Ideograph,
    SouthEastAsian,
    Nothing,
}

impl Unit {
    #[inline]
    fn of(c: char) -> Unit {
        match c {
            '\u{3041}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' => Unit::Ideograph,
            '\0'..='\x7f' if c.is_ascii_alphanumeric() => Unit::Letter,
            '\0'..='\u{bf}'
            | '\u{2000}'..='\u{206f}'
            | '\u{2190}'..='\u{2bff}'
            | '\u{2e80}'..='\u{3040}'
            | '\u{ff00}'..='\u{ff65}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{fe00}'..='\u{fe6f}'
            | '\u{1f000}'..='\u{1ffff}' => Unit::Nothing,
            '\u{ac00}'..='\u{d7a3}' => Unit::Syllable,
            '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => Unit::SouthEastAsian,
            _ => Unit::Letter,
        }
    }
}

impl Units {
    /// The units of a text; of a longer one, by its first 256 bytes.
    pub fn of(text: &str) -> Units {
        let end = text.floor_char_boundary(READ);
        let mut rest = &text[..end];
        let mut counts = [0_u32; 5];
        let (mut letters, mut words, mut is_in_word) = (0_u32, 0_u32, false);
        loop {
            // ASCII is counted without a branch, because a processor cannot predict where words end.
            let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
            for byte in rest[..ascii].bytes() {
                let is_letter = byte.is_ascii_alphanumeric();
                letters += u32::from(is_letter);
                words += u32::from(is_letter && !is_in_word);
                is_in_word = is_letter;
            }
            rest = &rest[ascii..];
            if rest.is_empty() {
                break;
            }
            let mut read = 0;
            for c in rest.chars().take_while(|c| !c.is_ascii()) {
                let unit = Unit::of(c);
                let is_letter = matches!(unit, Unit::Letter | Unit::Syllable);
                words += u32::from(is_letter && !is_in_word);
                is_in_word = is_letter;
                counts[unit as usize] += 1;
                read += c.len_utf8();
            }
            rest = &rest[read..];
        }
        counts[Unit::Letter as usize] += letters;
        let scale = text.len() as f64 / end.max(1) as f64;
        let count = |unit: Unit| f64::from(counts[unit as usize]) * scale;
        Units {
            words: f64::from(words) * scale,
            letters: count(Unit::Letter) + count(Unit::Syllable),
            syllables: count(Unit::Syllable),
            ideographs: count(Unit::Ideograph),
            south_east_asian: count(Unit::SouthEastAsian),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_counted_by_script() {
        let counts = |text: &str| {
            let of = Units::of(text);
            [of.words, of.letters, of.syllables, of.ideographs, of.south_east_asian]
                .map(|n| n.round() as usize)
        };
        assert_eq!(counts(""), [0; 5]);
        assert_eq!(counts("it's 5 – “días”, привет!"), [5, 14, 0, 0, 0]);
        assert_eq!(counts("좋은 날"), [2, 3, 3, 0, 0]);
        assert_eq!(counts("用rust写、カナ。🙂"), [1, 4, 0, 4, 0]);
        assert_eq!(counts("ภาษา"), [0, 0, 0, 0, 4]);
        assert_eq!(counts(&"word ".repeat(1_000))[0], 1_016);
    }
}
