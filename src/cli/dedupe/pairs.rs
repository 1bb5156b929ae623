//! The dropped documents of a run with those that replace them, in a working file, in the order of the input.

use std::path::Path;

use super::super::Failure;
use super::spool::Spool;

const BYTES: usize = 13;
/// The pairs that are read at a time.
const AT_ONCE: u64 = 4_096;
/// The most pairs that are sorted at a time.
const SORTED: u64 = 4 << 20;

/// A document that is dropped, and the one that replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) own: u32,
    pub(super) by: u32,
    pub(super) distance: u32,
    pub(super) is_exact: bool,
}

pub(super) struct Pairs(Spool);

impl Pairs {
    pub(super) fn create(path: &Path) -> Result<Pairs, Failure> {
        Spool::open(path, false).map(Pairs)
    }

    pub(super) fn push(&mut self, pair: Pair) -> Result<(), Failure> {
        let Pair { own, by, distance, is_exact } = pair;
        let [own, by, distance] = [own, by, distance].map(u32::to_be_bytes);
        self.0.append(&[&own, &by, &distance, &[u8::from(is_exact)]])
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() / BYTES as u64
    }

    /// Calls `each` with all pairs in order, some at a time.
    pub(super) fn each(&self, mut each: impl FnMut(&[Pair]) -> Result<(), Failure>) -> Result<(), Failure> {
        for first in (0..self.len()).step_by(AT_ONCE as usize) {
            let count = AT_ONCE.min(self.len() - first);
            let mut bytes = vec![0; count as usize * BYTES];
            self.0.read(first * BYTES as u64, &mut bytes)?;
            let word = |from: &[u8]| from.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
            let pair = |bytes: &[u8]| Pair {
                own: word(&bytes[..4]),
                by: word(&bytes[4..8]),
                distance: word(&bytes[8..12]),
                is_exact: bytes[12] == 1,
            };
            each(&bytes.chunks_exact(BYTES).map(pair).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Calls `each` with all pairs of each kept document, in the order of the kept ones, of which there are
    /// `documents` at most. Reads all pairs several times, so it needs little memory.
    pub(super) fn each_group(
        &self,
        documents: u32,
        mut each: impl FnMut(&[Pair]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let parts = self.len() / SORTED + 1;
        let part_of = |pair: &Pair| u64::from(pair.by) * parts / u64::from(documents.max(1));
        for part in 0..parts {
            let mut found: Vec<Pair> = Vec::new();
            self.each(|pairs| {
                found.extend(pairs.iter().filter(|pair| part_of(pair) == part));
                Ok(())
            })?;
            found.sort_unstable_by_key(|pair| (pair.by, pair.own));
            found.chunk_by(|a, b| a.by == b.by).try_for_each(&mut each)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn pairs_are_read_back_in_order_and_by_group() {
        let folder = tempfile::tempdir().unwrap();
        let mut pairs = Pairs::create(&folder.path().join("pairs")).unwrap();
        let mut random = fastrand::Rng::with_seed(5);
        let mut pair = |own| Pair { own, by: random.u32(..300), distance: own % 7, is_exact: own % 3 == 0 };
        let all: Vec<Pair> = (0..10_000).map(&mut pair).collect();
        all.iter().for_each(|pair| pairs.push(*pair).unwrap());
        let mut found = Vec::new();
        let gather = |pairs: &[Pair]| {
            found.extend_from_slice(pairs);
            Ok(())
        };
        pairs.each(gather).unwrap();
        assert!(found == all && pairs.len() == 10_000);
        let mut groups: BTreeMap<u32, Vec<Pair>> = BTreeMap::new();
        all.iter().for_each(|pair| groups.entry(pair.by).or_default().push(*pair));
        let mut found = Vec::new();
        let gather = |pairs: &[Pair]| {
            found.push(pairs.to_vec());
            Ok(())
        };
        pairs.each_group(300, gather).unwrap();
        assert_eq!(found, groups.into_values().collect::<Vec<_>>());
    }
}
