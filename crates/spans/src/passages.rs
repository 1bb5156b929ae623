//! The passes that find passages which stand twice, each a sort on the disk.
//!
//! 1. [`Grams`]: the chosen grams of all documents. [`Places`]: where those stand that occur more than once.
//! 2. [`Windows`]: the digests of the windows that chose these. [`Hits`]: those that stand in the corpus
//!    before.
//!
//! Documents are added in their order, with the same tokens in each pass. Nothing is held for a document but
//! a bit. The digests have 128 bits, so two different windows are not taken for one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::sorter::{Sorted, Sorter};
use super::windows::chosen;

/// The bytes on the disk for a chosen gram, for a window that is compared, and for one that stands before.
const GRAM: u64 = 16;
const WINDOW: u64 = 24;
const HIT: u64 = 16;

/// A window of a document that stands in the corpus before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its first token.
    pub at: u32,
    /// The document where it stands first.
    pub first: u32,
}

/// The grams of a corpus.
pub struct Grams {
    length: usize,
    sorter: Sorter<16>,
    documents: u32,
}

/// The chosen grams of a document: hash and first token, each once.
pub fn chosen_grams(digests: &[u64], length: usize) -> Vec<(u64, u32)> {
    let mut found: Vec<(u64, u32)> = chosen(digests, length).collect();
    found.dedup();
    found
}

impl Grams {
    /// For windows of `length` tokens, 2 and more. All passes take `memory` bytes together, and write into
    /// `folder`.
    pub fn new(folder: &Path, length: usize, memory: usize) -> Grams {
        Grams { length, sorter: Sorter::new(folder, memory / 2), documents: 0 }
    }

    /// Adds the [`chosen_grams`] of a document, whose number is larger than those before.
    ///
    /// # Errors
    /// If the disk cannot be written.
    pub fn add(&mut self, document: u32, grams: &[(u64, u32)]) -> io::Result<()> {
        self.documents = document + 1;
        grams.iter().try_for_each(|(hash, at)| self.sorter.push(joined([*hash, pair(document, *at)])))
    }

    /// The places of the grams that occur more than once.
    ///
    /// # Errors
    /// If the disk cannot be written or read.
    pub fn places(self, folder: &Path, memory: usize) -> io::Result<Places> {
        let mut sorter = Sorter::<8>::new(folder, memory / 2);
        let mut documents = vec![0_u64; self.documents as usize / 64 + 1];
        each_group(self.sorter.sorted()?, 8, |first, record| {
            let mut push = |record: &[u8; 16]| {
                let (document, _) = unpair(word(record, 8));
                documents[document as usize / 64] |= 1 << (document % 64);
                sorter.push(word(record, 8).to_be_bytes())
            };
            if let Some(first) = first {
                push(first)?;
            }
            push(record)
        })?;
        let count = sorter.len();
        let documents = Documents(documents.into());
        Ok(Places { length: self.length, of: ByDocument::of(sorter)?, documents, count })
    }
}

/// The places of grams that occur more than once.
pub struct Places {
    length: usize,
    of: ByDocument<8>,
    documents: Documents,
    count: u64,
}

/// The documents that have such places; no other one need be added to [`Windows`].
#[derive(Clone)]
pub struct Documents(Arc<[u64]>);

impl Documents {
    /// Whether a document is one of them.
    pub fn have(&self, document: u32) -> bool {
        self.0.get(document as usize / 64).is_some_and(|word| word >> (document % 64) & 1 == 1)
    }
}

impl Places {
    /// The documents that have any.
    pub fn documents(&self) -> Documents {
        self.documents.clone()
    }

    /// About how many bytes are written for the windows around them, if all of these stand twice.
    pub fn disk_bytes(&self) -> u64 {
        (self.count as f64 / share_of_chosen(self.length)) as u64 * (WINDOW + HIT)
    }
}

/// The windows of a corpus around such places.
pub struct Windows {
    places: Places,
    sorter: Sorter<24>,
}

impl Windows {
    /// See [`Grams::new`].
    pub fn new(places: Places, folder: &Path, memory: usize) -> Windows {
        Windows { places, sorter: Sorter::new(folder, memory / 2) }
    }

    /// Adds the windows of a document, by the digests of its tokens.
    ///
    /// # Errors
    /// If the disk cannot be written or read.
    pub fn add(&mut self, document: u32, digests: &[u64]) -> io::Result<()> {
        let places = self.places.of.take(document)?;
        let mut places = places.iter().map(|record| unpair(word(record, 0)).1).peekable();
        let bytes: Vec<u8> = digests.iter().flat_map(|digest| digest.to_le_bytes()).collect();
        let length = self.places.length;
        for (at, (_, gram)) in chosen(digests, length).enumerate() {
            while places.next_if(|place| *place < gram).is_some() {}
            if places.peek() == Some(&gram) {
                let digest = xxh3_128(&bytes[8 * at..8 * (at + length)]);
                let words = [(digest >> 64) as u64, digest as u64, pair(document, at as u32)];
                self.sorter.push(joined(words))?;
            }
        }
        Ok(())
    }

    /// The windows that stand in the corpus before.
    ///
    /// # Errors
    /// If the disk cannot be written or read.
    pub fn hits(self, folder: &Path, memory: usize) -> io::Result<Hits> {
        let mut sorter = Sorter::<16>::new(folder, memory / 2);
        let mut first = 0;
        each_group(self.sorter.sorted()?, 16, |of_group, record| {
            if let Some(of_group) = of_group {
                first = word(of_group, 16);
            }
            sorter.push(joined([word(record, 16), first]))
        })?;
        Ok(Hits { of: ByDocument::of(sorter)? })
    }
}

/// The windows that stand in the corpus before.
pub struct Hits {
    of: ByDocument<16>,
}

impl Hits {
    /// Those of a document, in the order of their places. Documents are asked for in their order.
    ///
    /// # Errors
    /// If the disk cannot be read.
    pub fn of(&mut self, document: u32) -> io::Result<Vec<Hit>> {
        let hit = |record: &[u8; 16]| Hit { at: unpair(word(record, 0)).1, first: unpair(word(record, 8)).0 };
        Ok(self.of.take(document)?.iter().map(hit).collect())
    }
}

/// About how many bytes are written for the grams of a text with so many tokens, and for its windows if each
/// stands twice.
pub fn disk_bytes(tokens: f64, length: usize) -> (f64, f64) {
    let grams = tokens * share_of_chosen(length);
    (grams * (GRAM + 8) as f64, tokens * (WINDOW + HIT) as f64)
}

/// The share of the grams of random tokens that windows choose.
fn share_of_chosen(length: usize) -> f64 {
    2.0 / (length - length / 2 + 2) as f64
}

/// Sorted records that begin with the number of a document.
struct ByDocument<const W: usize> {
    sorted: Sorted<W>,
    next: Option<[u8; W]>,
}

impl<const W: usize> ByDocument<W> {
    fn of(sorter: Sorter<W>) -> io::Result<ByDocument<W>> {
        let mut sorted = sorter.sorted()?;
        Ok(ByDocument { next: sorted.next()?, sorted })
    }

    fn take(&mut self, document: u32) -> io::Result<Vec<[u8; W]>> {
        let mut found = Vec::new();
        while let Some(record) = self.next.filter(|record| unpair(word(record, 0)).0 <= document) {
            if unpair(word(&record, 0)).0 == document {
                found.push(record);
            }
            self.next = self.sorted.next()?;
        }
        Ok(found)
    }
}

/// Calls `each` with every record but the first of a group of those with equal first bytes, and with that
/// first one if the record is the second.
fn each_group<const W: usize>(
    mut sorted: Sorted<W>,
    key: usize,
    mut each: impl FnMut(Option<&[u8; W]>, &[u8; W]) -> io::Result<()>,
) -> io::Result<()> {
    let mut first: Option<([u8; W], bool)> = None;
    while let Some(record) = sorted.next()? {
        match &mut first {
            Some((of_group, is_told)) if of_group[..key] == record[..key] => {
                let told = std::mem::replace(is_told, true);
                each((!told).then_some(&*of_group), &record)?;
            }
            _ => first = Some((record, false)),
        }
    }
    Ok(())
}

fn pair(document: u32, at: u32) -> u64 {
    u64::from(document) << 32 | u64::from(at)
}

fn unpair(pair: u64) -> (u32, u32) {
    ((pair >> 32) as u32, pair as u32)
}

/// Words as bytes, whose order is that of the numbers.
fn joined<const N: usize, const W: usize>(words: [u64; N]) -> [u8; W] {
    let mut bytes = [0; W];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_be_bytes()));
    bytes
}

fn word(record: &[u8], at: usize) -> u64 {
    record[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
