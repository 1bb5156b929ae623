//! Inverse document frequencies, which measure how rare a word is: those of jieba-rs (see
//! `assets/README.md`) or a table of the user.
//!
//! The numbers have double precision, and their mean is added in the order of the table: cppjieba adds
//! weights in floating point, so the last bit can decide a bit of a fingerprint. In memory a word is its
//! 64-bit `XXH3`. No two words of the built-in table share a hash; a word outside the table has the hash of a
//! word inside it with a probability of 10⁻¹⁴. Not here: counting a table (the command `idf`).

use std::sync::{Arc, LazyLock};

use xxhash_rust::xxh3::xxh3_64;

use crate::normalise;

static BUILT_IN: LazyLock<BuiltIn> = LazyLock::new(BuiltIn::load);

/// A table of inverse document frequencies. A clone shares the table.
#[derive(Clone, Debug)]
pub struct Idf {
    table: Arc<Table>,
    /// The value of a word that is not in the table.
    unknown: f64,
}

/// An invalid line of a table.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the idf table, {text:?}, is not a word, a space and a number above 0 and up to 64")]
pub struct WrongIdf {
    line: usize,
    text: String,
}

impl Idf {
    /// jieba's table for Chinese. A word outside the table gets the mean of all its values.
    pub fn built_in() -> Idf {
        BUILT_IN.all.clone()
    }

    /// jieba's table for Chinese. A word outside the table gets the mean of its words of two characters or
    /// more: cppjieba's table has no shorter words, so this is its mean.
    pub fn built_in_words() -> Idf {
        BUILT_IN.words.clone()
    }

    /// Reads a table. Each line has a word, a space or tab, and a number above 0 and up to 64. Words are
    /// normalised as texts are. A line with the word `*` gives the value of words outside the table;
    /// without it, that value is the mean of the table. Empty lines and lines that begin with `#` are
    /// ignored.
    ///
    /// # Errors
    /// [`WrongIdf`] with the first invalid line.
    pub fn parse(lines: &str) -> Result<Idf, WrongIdf> {
        let mut entries = Vec::new();
        let mut unknown = None;
        for (line, text) in (1..).zip(lines.lines()) {
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            let (word, idf) = text.trim_end().rsplit_once([' ', '\t']).unwrap_or_default();
            match idf.parse() {
                Ok(idf) if idf > 0.0 && idf <= 64.0 && word == "*" => unknown = Some(idf),
                Ok(idf) if idf > 0.0 && idf <= 64.0 => {
                    entries.push((xxh3_64(normalise(word).as_bytes()), idf));
                }
                _ => return Err(WrongIdf { line, text: text.chars().take(40).collect() }),
            }
        }
        let unknown = unknown.unwrap_or_else(|| mean(entries.iter().map(|&(_, idf)| idf)));
        Ok(Idf { table: Arc::new(Table::of(entries)), unknown })
    }

    /// The inverse document frequency of a normalised word, a natural logarithm above 0.
    #[inline]
    pub fn of(&self, word: &str) -> f64 {
        self.of_hash(xxh3_64(word.as_bytes()))
    }

    /// As [`Idf::of`], for the 64-bit `XXH3` of the word.
    #[inline]
    pub(super) fn of_hash(&self, hash: u64) -> f64 {
        self.table.get(hash).unwrap_or(self.unknown)
    }
}

struct BuiltIn {
    all: Idf,
    words: Idf,
}

impl BuiltIn {
    fn load() -> BuiltIn {
        let text = unpacked();
        let lines: Vec<(&str, f64)> = text.lines().filter_map(entry).collect();
        let is_word = |word: &str| word.chars().nth(1).is_some();
        let unknown = mean(lines.iter().map(|&(_, idf)| idf));
        let of_words = mean(lines.iter().filter(|(word, _)| is_word(word)).map(|&(_, idf)| idf));
        let entries =
            lines.into_iter().map(|(word, idf)| (xxh3_64(normalise(word).as_bytes()), idf)).collect();
        let table = Arc::new(Table::of(entries));
        BuiltIn { all: Idf { table: Arc::clone(&table), unknown }, words: Idf { table, unknown: of_words } }
    }
}

/// The built-in table.
#[cfg(feature = "zh")]
fn unpacked() -> String {
    use std::io::Read;

    static PACKED: &[u8] = include_bytes!("../../assets/idf.txt.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(PACKED).read_to_string(&mut text).expect("the embedded table is readable");
    text
}

/// No profile without the feature has the built-in table.
#[cfg(not(feature = "zh"))]
fn unpacked() -> String {
    unreachable!("{}", crate::needs::ZH)
}

fn entry(line: &str) -> Option<(&str, f64)> {
    let (word, idf) = line.split_once(' ')?;
    Some((word, idf.parse().ok()?))
}

/// The mean; 1 if there are no values.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 1.0 } else { sum / f64::from(count) }
}

/// Open addressing with a power of two of slots, at least half of them empty. An attacker who chooses a
/// text does not choose the table, so chains stay short.
#[derive(Debug)]
struct Table {
    /// The hash of a word and its frequency; a frequency of 0 marks an empty slot.
    slots: Box<[(u64, f64)]>,
}

impl Table {
    fn of(entries: Vec<(u64, f64)>) -> Table {
        let size = (entries.len() * 2).next_power_of_two();
        let mut table = Table { slots: vec![(0, 0.0); size].into_boxed_slice() };
        for (hash, idf) in entries {
            let at = table.find(hash);
            // Normalisation may make two words equal; the first one counts.
            if table.slots[at].1 == 0.0 {
                table.slots[at] = (hash, idf);
            }
        }
        table
    }

    /// The slot of this hash, or the empty slot where it belongs.
    #[inline]
    fn find(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].1 != 0.0 && self.slots[at].0 != hash {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn get(&self, hash: u64) -> Option<f64> {
        let (_, idf) = self.slots[self.find(hash)];
        (idf != 0.0).then_some(idf)
    }
}

#[cfg(feature = "zh")]
#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the values are read as they are written")]
mod tests {
    use super::*;

    #[test]
    fn rare_words_have_large_values_and_unknown_words_the_mean() {
        let idf = Idf::built_in();
        assert!((idf.of("劳动防护") - 13.900_678).abs() < 1e-5);
        assert!(idf.of("中国") < idf.of("飞碟"));
        assert!((idf.of("zzzzzz") - 11.675_544).abs() < 1e-5);
        assert_eq!(Idf::built_in_words().of("zzzzzz"), 11.739_204_307_083_542);
        assert!(BUILT_IN.all.table.slots.iter().all(|(_, idf)| *idf >= 0.0 && *idf < 16.0));
    }

    #[test]
    fn no_two_words_share_a_hash() {
        let text = unpacked();
        let words: std::collections::HashSet<_> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(word, _)| normalise(word)).collect();
        let slots = BUILT_IN.all.table.slots.iter().filter(|(_, idf)| *idf > 0.0).count();
        assert_eq!(words.len(), slots);
    }

    #[test]
    fn a_user_table_is_read() {
        let idf = Idf::parse("# counted\nＦish 2.5\nmushy peas\t4\n\n* 9\n").unwrap();
        assert_eq!(["fish", "mushy peas", "chips"].map(|word| idf.of(word)), [2.5, 4.0, 9.0]);
        assert_eq!(Idf::parse("a 1\nb 3").unwrap().of("c"), 2.0);
        assert_eq!(Idf::parse("").unwrap().of("c"), 1.0);
        for wrong in ["a", "a -1", "a 65", "a NaN", "a 1 x"] {
            assert!(Idf::parse(&format!("b 1\n{wrong}")).unwrap_err().to_string().starts_with("line 2 "));
        }
    }
}
