//! Conversion of traditional Chinese to simplified, including the vocabulary of Taiwan (軟體 becomes 软件,
//! not 软体).
//!
//! Guarantees: a clause without a traditional character is left unchanged, so simplified text costs one bit
//! test per character and is never rewritten. Not here: Japanese, whose characters only look like Chinese
//! ones.
//!
//! The dictionaries are those of `OpenCC` (Apache-2.0) as packaged by ferrous-opencc, configuration `tw2sp`.

use std::borrow::Cow;
use std::sync::LazyLock;

use ferrous_opencc::OpenCC;
use ferrous_opencc::config::BuiltinConfig;

use super::class::Class;

/// The blocks of Chinese characters in the basic plane: extension A to the last unified ideograph.
const FIRST: u32 = 0x3400;
const LAST: u32 = 0x9fff;

static CONVERTER: LazyLock<Converter> = LazyLock::new(Converter::load);

struct Converter {
    opencc: OpenCC,
    /// One bit for each character from `FIRST` to `LAST`: whether the conversion changes it.
    traditional: Vec<u64>,
}

impl Converter {
    fn load() -> Converter {
        let opencc = OpenCC::from_config(BuiltinConfig::Tw2sp).expect("the crate embeds this configuration");
        let mut traditional = vec![0; ((LAST - FIRST) / 64 + 1) as usize];
        for c in (FIRST..=LAST).filter_map(char::from_u32) {
            let text = c.to_string();
            if opencc.convert(&text) != text {
                let index = u32::from(c) - FIRST;
                traditional[(index / 64) as usize] |= 1 << (index % 64);
            }
        }
        Converter { opencc, traditional }
    }

    /// Whether a character is traditional. Characters beyond the basic plane are rare; all count as
    /// traditional.
    #[inline]
    fn is_traditional(&self, c: char) -> bool {
        match u32::from(c) {
            code @ FIRST..=LAST => {
                let index = code - FIRST;
                self.traditional[(index / 64) as usize] >> (index % 64) & 1 == 1
            }
            code => code > 0xffff,
        }
    }
}

/// A run of Chinese with its traditional clauses simplified. A clause is a maximal stretch of Chinese
/// characters: short, so that one traditional character causes the conversion of little else.
pub(super) fn simplify(text: &str) -> Cow<'_, str> {
    let converter = &*CONVERTER;
    if !text.chars().any(|c| converter.is_traditional(c)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    simplify_clauses(converter, text, &mut out);
    out.into()
}

fn simplify_clauses(converter: &Converter, text: &str, out: &mut String) {
    let mut copied = 0;
    let mut clause = 0;
    let mut found = false;
    for (at, c) in text.char_indices() {
        if Class::of(c) == Class::Han {
            found |= converter.is_traditional(c);
        } else {
            if found {
                out.push_str(&text[copied..clause]);
                out.push_str(&converter.opencc.convert(&text[clause..at]));
                copied = at;
                found = false;
            }
            clause = at + c.len_utf8();
        }
    }
    if found {
        out.push_str(&text[copied..clause]);
        out.push_str(&converter.opencc.convert(&text[clause..]));
    } else {
        out.push_str(&text[copied..]);
    }
}

/// A sentence in simplified characters. A sentence with kana is Japanese and is returned unchanged.
pub fn simplified(sentence: &str) -> String {
    if sentence.chars().any(|c| Class::of(c) == Class::Kana) {
        return sentence.to_owned();
    }
    simplify(sentence).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traditional_clauses_become_simplified_and_others_stay() {
        let cases = [
            ("", ""),
            ("臺灣的電腦軟體", "台湾的电脑软件"),
            ("台湾的电脑软件", "台湾的电脑软件"),
            ("計算機,乾坤,程式", "计算机,乾坤,程式"),
            ("3個問題", "3个问题"),
            ("乾隆皇帝很頭髮", "乾隆皇帝很头发"),
        ];
        for (text, expected) in cases {
            assert_eq!(simplify(text), expected, "{text}");
            assert_eq!(simplified(text), expected);
        }
        assert_eq!(simplified("臺灣の電腦"), "臺灣の電腦");
    }
}
