//! How rare a Chinese word is: the inverse document frequencies that jieba-rs carries (see `assets/README.md`).
//!
//! In memory a word is its 64-bit `XXH3`: 3 MiB for 270,000 words. Two words of the table share no hash; a word that is not in it has one of the table's with a
//! chance of 10⁻¹⁴. Leaves out: languages other than Chinese, whose words all have the mean.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use xxhash_rust::xxh3::xxh3_64;

use crate::text::normalise;

static PACKED: &[u8] = include_bytes!("../../assets/idf.txt.gz");
static TABLE: LazyLock<Table> = LazyLock::new(Table::load);

/// The inverse document frequency of a word, a natural logarithm above 0 and below 16; the mean of the table if the word
/// is not in it.
pub(super) fn idf(word: &str) -> f32 {
    TABLE.get(word)
}

struct Table {
    /// Sorted.
    words: Vec<u64>,
    /// As long as `words` and in the same order.
    frequencies: Vec<f32>,
    mean: f32,
}

impl Table {
    fn load() -> Table {
        let mut text = String::new();
        GzDecoder::new(PACKED)
            .read_to_string(&mut text)
            .expect("the program contains the table it was built with");
        let mut entries: Vec<(u64, f32)> = text.lines().filter_map(entry).collect();
        let sum: f64 = entries.iter().map(|&(_, idf)| f64::from(idf)).sum();
        let mean = (sum / entries.len() as f64) as f32;
        // Case folding may make two words one; the first in the file counts, and the sort is stable.
        entries.sort_by_key(|&(word, _)| word);
        entries.dedup_by_key(|&mut (word, _)| word);
        let (words, frequencies) = entries.into_iter().unzip();
        Table { words, frequencies, mean }
    }

    fn get(&self, word: &str) -> f32 {
        self.words.binary_search(&xxh3_64(word.as_bytes())).map_or(self.mean, |at| self.frequencies[at])
    }
}

fn entry(line: &str) -> Option<(u64, f32)> {
    let (word, idf) = line.split_once(' ')?;
    Some((xxh3_64(normalise(word).as_bytes()), idf.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_stand_out_and_unknown_ones_do_not() {
        assert!((idf("劳动防护") - 13.900_678).abs() < 1e-5);
        assert!(idf("中国") < idf("飞碟"));
        assert!((idf("zzzzzz") - TABLE.mean).abs() < f32::EPSILON);
        assert!(TABLE.frequencies.iter().all(|idf| *idf > 0.0 && *idf < 16.0));
    }

    #[test]
    fn no_two_words_share_a_hash() {
        let mut text = String::new();
        GzDecoder::new(PACKED).read_to_string(&mut text).unwrap();
        let words: std::collections::HashSet<_> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(word, _)| normalise(word)).collect();
        assert_eq!(words.len(), TABLE.words.len());
    }
}
