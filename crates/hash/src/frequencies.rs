//! Document frequencies: in how many texts of a corpus each feature occurs, and weights by rarity that
//! follow from it.
//!
//! Features that many texts of a corpus have, such as the standing phrases of laws or the name of a site,
//! say little about whether one was copied from the other. Their weight is the square of their inverse
//! document frequency, as a whole number, for weighted minima (`lookalike-text`).
//!
//! The counts are a sketch of fixed size: a count-min sketch (Cormode and Muthukrishnan, "An improved data
//! stream summary", 2005) of two rows. A count is never too low, and too high by about the number of counted
//! features over the size of a row, which matters for rare features only, and little there.
//!
//! Guarantees: the same texts, at most 65,535, make the same table in any order, with the same digest and the
//! same weights on every machine. Not here: which texts are counted, and where a table is kept.

use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64;

/// The counters of a row, a power of two.
const ROW: usize = 1 << 20;
/// The rows.
const ROWS: usize = 2;
/// What a file begins with: a name, and the version of the form.
const MAGIC: [u8; 8] = *b"lookidf2";

/// The number of texts that have each feature, of the texts that were counted. Takes 4 MiB.
#[derive(Clone)]
pub struct Frequencies {
    /// What is counted: the features of a profile.
    kind: u64,
    documents: u32,
    counts: Vec<u16>,
    /// What follows from the counts ([`Frequencies::of_cells`]).
    weights: OnceLock<Vec<u8>>,
    digest: OnceLock<u64>,
}

/// The reason why bytes are no table.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongFrequencies {
    /// Another file, or one of another version.
    #[error("this is no table of document frequencies of version 2, which begins with lookidf2")]
    Form,
    /// Bytes are missing or were changed.
    #[error("the table of document frequencies is incomplete or damaged: its digest does not match")]
    Damaged,
}

/// Tables are equal if they give the same weights to the same features.
impl PartialEq for Frequencies {
    fn eq(&self, other: &Frequencies) -> bool {
        self.digest() == other.digest()
    }
}

impl Eq for Frequencies {}

impl std::fmt::Debug for Frequencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frequencies").field("documents", &self.documents).finish_non_exhaustive()
    }
}

impl Frequencies {
    /// The most texts that a table can count: counters have 16 bits. A sample of a larger corpus is as
    /// good.
    pub const MAX_DOCUMENTS: u32 = u16::MAX as u32;
    /// The size of a file.
    pub const FILE_BYTES: usize = MAGIC.len() + 8 + 4 + 2 * ROW * ROWS + 8;
    /// The greatest weight of a feature.
    const MAX_WEIGHT: u32 = 16;

    /// An empty table for features of this kind, a number that tells the features of one profile from those
    /// of another.
    pub fn of_kind(kind: u64) -> Frequencies {
        let counts = vec![0; ROW * ROWS];
        Frequencies { kind, documents: 0, counts, weights: OnceLock::new(), digest: OnceLock::new() }
    }

    /// The kind of the features that are counted.
    pub fn kind(&self) -> u64 {
        self.kind
    }

    /// Counts a text by its distinct features as 64-bit hashes. Does nothing once
    /// [`Frequencies::MAX_DOCUMENTS`] texts are counted.
    pub fn add(&mut self, set: &[u64]) {
        if self.documents == Frequencies::MAX_DOCUMENTS {
            return;
        }
        self.documents += 1;
        (self.weights, self.digest) = (OnceLock::new(), OnceLock::new());
        for place in set.iter().flat_map(|feature| places(*feature)) {
            self.counts[place] = self.counts[place].saturating_add(1);
        }
    }

    /// The number of texts that were counted.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// The weight that follows from each counter, less 1, in four bits: a quarter of the memory of the
    /// counters, so that more of it is in the caches of a processor.
    fn of_cells(&self) -> Vec<u8> {
        let of_counts: Vec<u8> = (0..=self.documents).map(|with| self.weighs(with) - 1).collect();
        let weight = |count: u16| of_counts[u32::from(count).min(self.documents) as usize];
        self.counts.chunks_exact(2).map(|two| weight(two[0]) | weight(two[1]) << 4).collect()
    }

    /// The weight of a feature that `f` of `n` texts have, 1 to [`Frequencies::MAX_WEIGHT`]: that number
    /// times (ln((n + 1) ÷ (f + 1)) ÷ ln(n + 1))², to the nearest, but 1 at least, so that a text of
    /// nothing but standing phrases still resembles its copies.
    fn weighs(&self, with: u32) -> u8 {
        let [all, with] = [self.documents, with].map(|count| libm::log(f64::from(count) + 1.0));
        let rarity = if self.documents == 0 { 1.0 } else { (all - with) / all };
        libm::round(rarity * rarity * f64::from(Frequencies::MAX_WEIGHT)).max(1.0) as u8
    }

    /// The weight of each of these features, 1 to 16.
    pub fn weights(&self, set: &[u64]) -> Vec<u8> {
        let cells = self.weights.get_or_init(|| self.of_cells());
        let weight = |place: usize| (cells[place / 2] >> (place % 2 * 4) & 0xf) + 1;
        // The lesser count has the greater weight.
        set.iter().map(|feature| places(*feature).map(weight).into_iter().fold(1, u8::max)).collect()
    }

    /// The digest of the table, as in its file. Tables of one digest give the same weights.
    pub fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| xxh3_64(&self.body()))
    }

    /// The table as a file: a name and version, the kind, the number of texts, the counters, and the digest
    /// of these three, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = self.body();
        [&MAGIC[..], &body, &xxh3_64(&body).to_le_bytes()].concat()
    }

    fn body(&self) -> Vec<u8> {
        let counts = self.counts.iter().flat_map(|count| count.to_le_bytes());
        let head = self.kind.to_le_bytes().into_iter().chain(self.documents.to_le_bytes());
        head.chain(counts).collect()
    }

    /// The table of a file.
    ///
    /// # Errors
    /// [`WrongFrequencies`] if the bytes are not those of a table, as they were written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Frequencies, WrongFrequencies> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(WrongFrequencies::Form)?;
        let (body, digest) = rest.split_last_chunk::<8>().ok_or(WrongFrequencies::Damaged)?;
        let (kind, counted) = body.split_first_chunk::<8>().ok_or(WrongFrequencies::Damaged)?;
        let (documents, counts) = counted.split_first_chunk::<4>().ok_or(WrongFrequencies::Damaged)?;
        if counts.len() != 2 * ROW * ROWS || xxh3_64(body) != u64::from_le_bytes(*digest) {
            return Err(WrongFrequencies::Damaged);
        }
        let counts = counts.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let documents = u32::from_le_bytes(*documents);
        if documents > Frequencies::MAX_DOCUMENTS {
            return Err(WrongFrequencies::Damaged);
        }
        let kind = u64::from_le_bytes(*kind);
        Ok(Frequencies { documents, counts, ..Frequencies::of_kind(kind) })
    }
}

/// The counters of a feature, one of each row, by different bits of its hash.
fn places(feature: u64) -> [usize; ROWS] {
    [feature as usize % ROW, ROW + (feature >> 32) as usize % ROW]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets with one standing part and own features.
    fn sets(count: u64) -> Vec<Vec<u64>> {
        let own = |n: u64| (0..30).map(move |at| xxh3_64(&(n * 100 + at).to_le_bytes()));
        let standing = || (0..60).map(|at: u64| xxh3_64(&(at + 1_000_000).to_le_bytes()));
        (0..count)
            .map(|n| {
                let mut set: Vec<u64> = standing().chain(own(n)).collect();
                set.sort_unstable();
                set
            })
            .collect()
    }

    fn table(sets: &[Vec<u64>]) -> Frequencies {
        let mut table = Frequencies::of_kind(7);
        sets.iter().for_each(|set| table.add(set));
        table
    }

    fn weight(table: &Frequencies, feature: u64) -> u32 {
        u32::from(table.weights(&[feature])[0])
    }

    /// The number of counted texts that have a feature, or slightly more.
    fn count(table: &Frequencies, feature: u64) -> u32 {
        places(feature).map(|place| u32::from(table.counts[place])).into_iter().min().unwrap_or(0)
    }

    #[test]
    fn a_table_does_not_depend_on_order() {
        let mut sets = sets(90);
        let whole = table(&sets);
        sets.reverse();
        assert_eq!((whole.digest(), whole.documents()), (table(&sets).digest(), 90));
        assert_ne!(whole.digest(), table(&sets[1..]).digest());
    }

    #[test]
    fn a_file_is_read_or_refused() {
        let table = table(&sets(9));
        let bytes = table.to_bytes();
        assert!(Frequencies::from_bytes(&bytes).unwrap().to_bytes() == bytes);
        assert_eq!(bytes.len(), Frequencies::FILE_BYTES);
        for at in [8, 16, 20, 5_000, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Frequencies::from_bytes(&damaged).unwrap_err(), WrongFrequencies::Damaged, "{at}");
        }
        assert_eq!(Frequencies::from_bytes(&bytes[..9]).unwrap_err(), WrongFrequencies::Damaged);
        assert_eq!(Frequencies::from_bytes(b"idf").unwrap_err(), WrongFrequencies::Form);
        // An empty table gives every feature the greatest weight.
        assert_eq!(Frequencies::of_kind(7).weights(&[7]), [16]);
        // These values never change: files and the signatures of other runs depend on them.
        assert_eq!(table.digest(), 5_493_197_703_851_128_842);
    }

    #[test]
    fn a_weight_is_that_of_the_count() {
        let sets = sets(400);
        let table = table(&sets);
        let expected = |feature: &u64| table.weighs(count(&table, *feature).min(400));
        for set in &sets {
            assert_eq!(table.weights(set), set.iter().map(expected).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn a_count_never_overflows() {
        let mut table = Frequencies::of_kind(7);
        (0..70_000).for_each(|_| table.add(&[7]));
        assert_eq!((table.documents(), count(&table, 7)), (65_535, 65_535));
        assert_eq!((weight(&table, 7), weight(&table, 8)), (1, Frequencies::MAX_WEIGHT));
    }
}
