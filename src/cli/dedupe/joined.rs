//! Files that are read one after the other as if they were one, such as the prints of all shards.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::super::Failure;
use crate::cli::at;

pub(super) struct Joined {
    /// The files, each with its path and where it begins.
    files: Vec<(u64, PathBuf, File)>,
    len: u64,
}

impl Joined {
    pub(super) fn open(paths: &[PathBuf]) -> Result<Joined, Failure> {
        let mut joined = Joined { files: Vec::new(), len: 0 };
        for path in paths {
            let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
            let (bytes, file) = opened.map_err(|error| at(path, &error))?;
            joined.files.push((joined.len, path.clone(), file));
            joined.len += bytes;
        }
        Ok(joined)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `bytes` with those from a place on.
    pub(super) fn read_exact_at(&self, mut bytes: &mut [u8], mut from: u64) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let next = self.files.partition_point(|(begin, ..)| *begin <= from);
            let (begin, path, file) = &self.files[next - 1];
            let end = self.files.get(next).map_or(self.len, |(begin, ..)| *begin);
            let here = bytes.len().min(end.saturating_sub(from) as usize).max(1);
            let (part, rest) = bytes.split_at_mut(here);
            file.read_exact_at(part, from - begin).map_err(|error| at(path, &error))?;
            (bytes, from) = (rest, from + here as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_one_at_any_place() {
        let folder = tempfile::tempdir().unwrap();
        let mut all: Vec<u8> = Vec::new();
        let mut paths = Vec::new();
        for (number, bytes) in [7, 0, 1, 300, 0].into_iter().enumerate() {
            let part: Vec<u8> = (0..bytes).map(|byte| (byte + number * 50) as u8).collect();
            paths.push(folder.path().join(number.to_string()));
            std::fs::write(&paths[number], &part).unwrap();
            all.extend(part);
        }
        let joined = Joined::open(&paths).unwrap();
        assert_eq!(joined.len(), 308);
        for (from, bytes) in [(0, 308), (0, 1), (6, 3), (7, 1), (8, 300), (307, 1), (5, 100)] {
            let mut found = vec![0; bytes];
            joined.read_exact_at(&mut found, from as u64).unwrap();
            assert_eq!(found, all[from..from + bytes], "{from}");
        }
        assert!(joined.read_exact_at(&mut [0; 2], 307).is_err());
    }
}
