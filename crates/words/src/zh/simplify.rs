//! Conversion of traditional Chinese to simplified, including characters and words of Taiwan and Hong Kong
//! that the mainland does not use (軟體 becomes 软件, not 软体).
//!
//! Guarantees: a clause without a traditional character is left unchanged, so simplified text costs one bit
//! test per character and is never rewritten. Not here: Japanese, whose characters only look like Chinese
//! ones.
//!
//! The conversion is that of `OpenCC`, configuration `t2s`, by its dictionaries (`assets/README.md`): the
//! longest of its words at each place, else the character. Its configuration `tw2sp` would also replace words
//! that both sides use with different meanings, such as 程序: a traditional copy of a simplified text would
//! lose them.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::class::Class;

/// The characters that may be traditional: extension A to the last unified ideograph, and the two planes of
/// rare ideographs.
const BLOCKS: [(u32, u32); 2] = [(0x3400, 0x9fff), (0x2_0000, 0x3_23af)];

/// Characters outside GB 2312 that simplified texts have too, although the conversion changes them: names
/// and terms in the list of standard characters of 2013, and those that OpenCC itself takes for simplified.
const ALSO_SIMPLIFIED: &str = "剋昇濛緼苧藴輼醖";

/// Characters that simplified texts have in a few words only, which `OpenCC` knows: 乾坤 and 瞭望 stay,
/// 乾燥 and 瞭解 are traditional.
const SIMPLIFIED_IN_WORDS: &str = "乾瞭";

/// Traditional words and characters, and their simplified forms.
const SIMPLIFIED: &str = include_str!("../../assets/simplified.tsv");

/// Characters and words of Taiwan and Hong Kong after the conversion to simplified characters, and what the
/// mainland writes: `assets/README.md`.
const REGIONAL: &str = include_str!("../../assets/regional.tsv");

static CONVERTER: LazyLock<Converter> = LazyLock::new(Converter::load);

struct Converter {
    simplified: Table,
    /// The forms of Taiwan and Hong Kong, and those of the mainland.
    regional: Table,
    /// One bit for each character of `BLOCKS`: whether it occurs only in traditional text.
    traditional: [Vec<u64>; 2],
}

/// Words and their replacements. Of the words at one place, the longest is replaced.
struct Table {
    words: AhoCorasick,
    replacements: Vec<&'static str>,
}

impl Table {
    /// The table of lines with a word, a tab and its replacement.
    fn of(lines: &'static str) -> Table {
        let (words, replacements): (Vec<_>, _) =
            lines.lines().filter_map(|line| line.split_once('\t')).unzip();
        let words = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(words);
        Table { words: words.expect("a few thousand words"), replacements }
    }

    fn replace(&self, text: &str) -> String {
        self.words.replace_all(text, &self.replacements)
    }
}

impl Converter {
    fn load() -> Converter {
        let mut converter = Converter {
            simplified: Table::of(SIMPLIFIED),
            regional: Table::of(REGIONAL),
            traditional: BLOCKS.map(|_| Vec::new()),
        };
        converter.traditional = BLOCKS.map(|(first, last)| {
            let mut bits = vec![0; ((last - first) / 64 + 1) as usize];
            for c in (first..=last).filter_map(char::from_u32).filter(|c| !is_simplified(*c)) {
                let mut buffer = [0; 4];
                let text = c.encode_utf8(&mut buffer);
                if converter.convert(text) != *text || SIMPLIFIED_IN_WORDS.contains(c) {
                    let index = u32::from(c) - first;
                    bits[(index / 64) as usize] |= 1 << (index % 64);
                }
            }
            bits
        });
        converter
    }

    /// Whether a character occurs only in traditional text.
    #[inline]
    fn is_traditional(&self, c: char) -> bool {
        let code = u32::from(c);
        let is_set = |((first, last), bits): ((u32, u32), &Vec<u64>)| {
            let index = code.wrapping_sub(first);
            index <= last - first && bits[(index / 64) as usize] >> (index % 64) & 1 == 1
        };
        let [basic, rare] = &self.traditional;
        if code <= BLOCKS[0].1 { is_set((BLOCKS[0], basic)) } else { is_set((BLOCKS[1], rare)) }
    }

    /// A clause in the characters and words of the mainland.
    fn convert(&self, clause: &str) -> String {
        self.regional.replace(&self.simplified.replace(clause))
    }
}

/// Whether simplified texts have this character: the ideographs of GB 2312 are simplified, but for 後, which
/// is too rare there to matter, and for [`SIMPLIFIED_IN_WORDS`].
fn is_simplified(c: char) -> bool {
    let mut buffer = [0; 4];
    let (bytes, _, is_unknown) = encoding_rs::GBK.encode(c.encode_utf8(&mut buffer));
    let is_gb2312 = !is_unknown && matches!(*bytes, [0xb0..=0xf7, 0xa1..=0xfe]);
    (is_gb2312 && !SIMPLIFIED_IN_WORDS.contains(c)) || ALSO_SIMPLIFIED.contains(c)
}

/// A run of Chinese with its traditional clauses simplified. A clause is a maximal stretch of Chinese
/// characters: short, so that one traditional character causes the conversion of little else.
pub fn simplify(text: &str) -> Cow<'_, str> {
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
                out.push_str(&converter.convert(&text[clause..at]));
                copied = at;
                found = false;
            }
            clause = at + c.len_utf8();
        }
    }
    if found {
        out.push_str(&text[copied..clause]);
        out.push_str(&converter.convert(&text[clause..]));
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
    use super::super::ranked::unpacked;
    use super::*;

    #[test]
    fn traditional_clauses_become_simplified_and_others_stay() {
        let cases = [
            ("", ""),
            ("臺灣的電腦軟體", "台湾的电脑软件"),
            ("台湾的电脑软件", "台湾的电脑软件"),
            ("計算機,乾坤,程式", "计算机,乾坤,程式"),
            ("這個程序由於網路", "这个程序由于网络"),
            ("什麼", "什么"),
            ("許多工程師看著顯著的衞星", "许多工程师看着显著的卫星"),
            ("那么显著抬头,由於乾隆", "那么显著抬头,由于乾隆"),
            ("3個問題", "3个问题"),
            ("乾隆皇帝很頭髮", "乾隆皇帝很头发"),
            ("乾燥,瞭解,乾坤,瞭望", "干燥,了解,乾坤,瞭望"),
        ];
        for (text, expected) in cases {
            assert_eq!(simplify(text), expected, "{text}");
            assert_eq!(simplified(text), expected);
        }
        assert_eq!(simplified("臺灣の電腦"), "臺灣の電腦");
    }

    /// The digest of what `OpenCC` makes of every character, every word of its dictionaries, and these words
    /// in a row, by ferrous-opencc 0.4.0.
    #[test]
    fn the_conversion_is_that_of_opencc() {
        let characters =
            BLOCKS.into_iter().flat_map(|(first, last)| (first..=last).filter_map(char::from_u32));
        let words = || SIMPLIFIED.lines().filter_map(|line| line.split_once('\t')).map(|(word, _)| word);
        let in_a_row = words().collect::<String>() + &words().rev().collect::<String>();
        let texts = characters.map(String::from).chain(words().map(str::to_owned)).chain([in_a_row]);
        let found: Vec<String> = texts.map(|text| CONVERTER.simplified.replace(&text)).collect();
        assert_eq!(xxhash_rust::xxh3::xxh3_64(found.join("\n").as_bytes()), 0x521b_95ed_8a9b_4082);
    }

    #[test]
    fn simplified_characters_and_words_never_change() {
        let characters =
            || BLOCKS.into_iter().flat_map(|(first, last)| (first..=last).filter_map(char::from_u32));
        let mut simplified_ones = 0;
        for c in characters() {
            let text = c.to_string();
            if is_simplified(c) {
                assert_eq!(simplify(&text), text);
                simplified_ones += 1;
            }
            // What the conversion has made does not change again.
            let once = simplify(&text).into_owned();
            assert_eq!(simplify(&once), once, "{text}");
        }
        assert!(simplified_ones > 6_763, "{simplified_ones}");
        let words = unpacked();
        let mut checked = 0;
        for word in words.lines().filter_map(|line| line.split(' ').next()) {
            if word.chars().all(is_simplified) {
                assert_eq!(simplify(word), word);
                checked += 1;
            }
        }
        assert!(checked > 300_000, "only {checked} words");
        for (regional, mainland) in REGIONAL.lines().map(|line| line.split_once('\t').unwrap()) {
            for word in [regional, mainland].into_iter().filter(|word| word.chars().all(is_simplified)) {
                assert_eq!(simplify(word), word, "without a traditional character");
            }
            assert_eq!(simplify(&format!("這{regional}")), format!("这{mainland}"));
        }
    }
}
