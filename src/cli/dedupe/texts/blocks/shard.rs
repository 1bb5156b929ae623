//! The entries of a shard: a file of blocks that is complete, and another one with their ends.

use std::fs::{self, File};
use std::path::Path;

use super::{Blocks, Failure, at};

/// The bytes for each block: the number after its last entry, and where it ends in the file.
const END: usize = 4 + 8;

impl Blocks {
    /// Completes the file, and writes where its blocks end.
    pub(in super::super) fn save(&mut self, ends: &Path) -> Result<(), Failure> {
        if !self.next.ends.is_empty() {
            self.flush()?;
        }
        let end = |(number, at): &(u32, u64)| [&number.to_be_bytes()[..], &at.to_be_bytes()].concat();
        let bytes: Vec<u8> = self.places.iter().flat_map(end).collect();
        fs::write(ends, bytes).map_err(|error| at(ends, &error))
    }

    /// The entries of complete files.
    pub(in super::super) fn of_files(path: &Path, ends: &Path) -> Result<Blocks, Failure> {
        let bytes = fs::read(ends).map_err(|error| at(ends, &error))?;
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let end = |end: &[u8; END]| (word(&end[..4]) as u32, word(&end[4..]));
        let places = bytes.as_chunks().0.iter().map(end).collect();
        Ok(Blocks { places, ..Blocks::over(path, File::open(path))? })
    }

    /// Adds those of a shard, which follow all others. No entry can be pushed then.
    pub(in super::super) fn join(&mut self, shard: Blocks) {
        let first = self.shards.last().map_or(self.own(), |(end, _)| *end);
        self.shards.push((first + shard.own(), shard));
    }

    /// The number of entries without those of shards.
    fn own(&self) -> u32 {
        self.first() + self.next.ends.len() as u32
    }

    /// An entry of a shard.
    pub(super) fn of_shard(&mut self, number: u32) -> Result<Option<&[u8]>, Failure> {
        let (own, next) = (self.own(), self.shards.partition_point(|(end, _)| *end <= number));
        let first = next.checked_sub(1).map_or(own, |before| self.shards[before].0);
        self.shards.get_mut(next).map_or(Ok(None), |(_, shard)| shard.get(number - first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_shards_follow_the_own_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: String| folder.path().join(name);
        let entry = |number: u32| (!number.is_multiple_of(7)).then(|| format!("{number} ").repeat(900));
        let push = |blocks: &mut Blocks, number: u32| {
            let entry = entry(number);
            let parts = entry.as_ref().map(|entry| [entry.as_bytes()]);
            blocks.push(parts.as_ref().map(<[_; 1]>::as_slice)).unwrap();
        };
        let mut own = Blocks::create(&path("own".to_owned())).unwrap();
        (0..5).for_each(|number| push(&mut own, number));
        let mut first = 5;
        for count in [60, 0, 1, 80] {
            let [file, ends] = ["file", "ends"].map(|name| path(format!("{name}-{count}")));
            let mut shard = Blocks::create(&file).unwrap();
            (first..first + count).for_each(|number| push(&mut shard, number));
            shard.save(&ends).unwrap();
            own.join(Blocks::of_files(&file, &ends).unwrap());
            first += count;
        }
        for number in 0..first {
            assert_eq!(own.get(number).unwrap(), entry(number).as_deref().map(str::as_bytes), "{number}");
        }
        assert!(own.get(first).unwrap().is_none());
    }
}
