//! What a shard remembers of its records besides their prints and texts: a line of JSON for each, compressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zstd::stream::{read::Decoder, write::Encoder};

use super::super::Failure;
use crate::cli::at;
use lookalike_files::Unread;

/// The level of zstd that takes least time.
const LEVEL: i32 = 1;

/// A record, as it is told again.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// The number of its file among all inputs.
    pub(super) file: u32,
    pub(super) line: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unread: Option<Unread>,
}

pub(super) struct Tape {
    path: PathBuf,
    to: Encoder<'static, File>,
    line: Vec<u8>,
}

impl Tape {
    pub(super) fn create(path: &Path) -> Result<Tape, Failure> {
        let encoder =
            File::create(path).and_then(|file| Encoder::new(file, LEVEL)).and_then(|mut encoder| {
                encoder.include_checksum(true)?;
                Ok(encoder)
            });
        let to = encoder.map_err(|error| at(path, &error))?;
        Ok(Tape { path: path.to_owned(), to, line: Vec::new() })
    }

    pub(super) fn push(&mut self, told: &Told) -> Result<(), Failure> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, told).map_err(|error| Failure::of(&error, 1))?;
        self.line.push(b'\n');
        self.to.write_all(&self.line).map_err(|error| at(&self.path, &error))
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        self.to.finish().map(drop).map_err(|error| at(&self.path, &error))
    }

    /// The records of a complete file.
    pub(super) fn told(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Told>>> {
        let lines = BufReader::with_capacity(1 << 20, Decoder::new(File::open(path)?)?).lines();
        Ok(lines.map(|line| Ok(serde_json::from_str(&line?)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike_files::{Reason, Skipped};

    #[test]
    fn what_is_told_is_read_back_and_damage_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let told = |line: u64| Told {
            file: line as u32 % 3,
            line,
            id: line.is_multiple_of(2).then(|| format!("第{line}\n")),
            source: line.is_multiple_of(5).then(String::new),
            unread: match line % 3 {
                0 => None,
                1 => Some(Skipped::Revisit.into()),
                _ => Some(Reason::Json.because("not JSON")),
            },
        };
        let mut tape = Tape::create(&path).unwrap();
        (0..1_000).for_each(|line| tape.push(&told(line)).unwrap());
        tape.finish().unwrap();
        let found: Vec<Told> = Tape::told(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, (0..1_000).map(told).collect::<Vec<_>>());
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(Tape::told(&path).unwrap().any(|told| told.is_err()));
    }
}
