//! The texts of some documents, compressed, in working files, by the numbers of the documents.

use std::path::Path;

use super::super::Failure;
use super::spool::Spool;
use crate::cli::at;

/// The level of zstd.
const LEVEL: i32 = 1;

pub(super) struct Texts {
    ends: Spool,
    bytes: Spool,
}

impl Texts {
    /// Empty files in a directory.
    pub(super) fn create(directory: &Path) -> Result<Texts, Failure> {
        let open = |name: &str| Spool::open(&directory.join(name), false);
        let mut texts = Texts { ends: open("texts-ends")?, bytes: open("texts")? };
        texts.ends.append(&[&[0; 8]])?;
        Ok(texts)
    }

    /// A text as it is stored.
    pub(super) fn packed(text: &str) -> Vec<u8> {
        zstd::encode_all(text.as_bytes(), LEVEL).expect("memory is written without errors")
    }

    /// Stores the text of a document, whose number is greater than those before.
    pub(super) fn push(&mut self, number: u32, packed: &[u8]) -> Result<(), Failure> {
        self.fill(number)?;
        self.bytes.append(&[packed])?;
        self.fill(number + 1)
    }

    /// Ends the documents before this number.
    fn fill(&mut self, number: u32) -> Result<(), Failure> {
        let end = self.bytes.len().to_be_bytes();
        while self.ends.len() / 8 <= u64::from(number) {
            self.ends.append(&[&end])?;
        }
        Ok(())
    }

    /// The text of a document; `None` if it was not stored.
    pub(super) fn get(&self, number: u32) -> Result<Option<String>, Failure> {
        let mut ends = [0; 16];
        let place = u64::from(number) * 8;
        if place + 16 > self.ends.len() {
            return Ok(None);
        }
        self.ends.read(place, &mut ends)?;
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let (from, end) = (word(&ends[..8]), word(&ends[8..]));
        if from == end {
            return Ok(None);
        }
        let mut packed = vec![0; (end - from) as usize];
        self.bytes.read(from, &mut packed)?;
        let text = zstd::decode_all(&*packed).map_err(|error| at(&self.bytes.path, &error))?;
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_by_the_numbers_of_their_documents() {
        let folder = tempfile::tempdir().unwrap();
        let mut texts = Texts::create(folder.path()).unwrap();
        let text = |number: u32| format!("{number} 渡轮 ").repeat(number as usize % 50);
        let is_stored = |number: u32| number % 3 == 1 || number == 900;
        let stored = (0..1_000).filter(|number| is_stored(*number));
        stored.for_each(|number| texts.push(number, &Texts::packed(&text(number))).unwrap());
        for number in 0..1_100 {
            let expected = (number < 1_000 && is_stored(number)).then(|| text(number));
            assert_eq!(texts.get(number).unwrap(), expected);
        }
    }
}
