//! Losses: unreadable parts of the files, and the rows that they may affect.
//!
//! *Absent*: finding them (`table`, and the journal).

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};

use crate::journal::Lost;
use lookalike_wording::counted;

/// Keys between two bounds.
pub(super) type Keys = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An unreadable part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The file.
    pub path: PathBuf,
    /// The places in the file: the first byte of each part, and the byte after its last one.
    pub places: Vec<(u64, u64)>,
    /// The lost content.
    pub part: LostPart,
    /// The keys of the rows that may be lost.
    pub(super) keys: Vec<Keys>,
    /// No row of a later batch than this is lost.
    pub(super) newest: u64,
}

/// The content of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostPart {
    /// Blocks of a table. Their entries are rows, older versions of rows, and deletions.
    Blocks {
        /// The number of blocks, if it is known.
        blocks: Option<u64>,
        /// The number of entries, exact or estimated, if it is known.
        entries: Option<u64>,
        /// The number of deletions among the entries, if it is known.
        deletions: Option<u64>,
        /// Whether `entries` is from the metadata of the table and not an estimate.
        is_exact: bool,
    },
    /// A whole table.
    Table,
    /// This many batches of the journal.
    Batches(u64),
}

impl Loss {
    pub(super) fn of_table(path: &Path) -> Loss {
        Loss {
            path: path.to_path_buf(),
            places: vec![],
            part: LostPart::Table,
            keys: vec![(Bound::Unbounded, Bound::Unbounded)],
            newest: u64::MAX,
        }
    }

    pub(super) fn of_journal(lost: Lost) -> Loss {
        Loss {
            path: lost.path,
            places: vec![(lost.from, lost.from)],
            part: LostPart::Batches(lost.records),
            keys: vec![(Bound::Unbounded, Bound::Unbounded)],
            newest: lost.before.saturating_sub(1),
        }
    }

    /// Whether the row of this key may be lost.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.keys.iter().any(|(from, to)| {
            let (from, to) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
            RangeBounds::<[u8]>::contains(&(from, to), key)
        })
    }

    /// Whether a later version of this row than `seqno` may be lost.
    pub(super) fn hides(&self, key: &[u8], seqno: u64) -> bool {
        seqno < self.newest && self.covers(key)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        for (place, (from, to)) in self.places.iter().enumerate() {
            let lead = if place == 0 { " at" } else { " and" };
            if from == to {
                write!(f, "{lead} byte {from}")?;
            } else {
                write!(f, "{lead} bytes {from} to {}", to - 1)?;
            }
        }
        write!(f, ": {}", self.part)?;
        for (place, keys) in self.keys.iter().enumerate() {
            let lead = if place == 0 { "; the rows there are" } else { " or" };
            match keys {
                (Bound::Unbounded, Bound::Unbounded) => {}
                (from, to) => write!(f, "{lead} {} {}", Edge(from, true), Edge(to, false))?,
            }
        }
        Ok(())
    }
}

/// One end of a range of row keys, in words.
struct Edge<'a>(&'a Bound<Vec<u8>>, bool);

impl fmt::Display for Edge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, key) = match (self.0, self.1) {
            (Bound::Included(key), true) => ("from", key),
            (Bound::Included(key), false) => ("up to", key),
            (Bound::Excluded(key), true) => ("after", key),
            (Bound::Excluded(key), false) => ("before", key),
            (Bound::Unbounded, true) => return write!(f, "from the first"),
            (Bound::Unbounded, false) => return write!(f, "up to the last"),
        };
        match key.split_first_chunk::<4>() {
            Some((&crate::codec::COPY, _)) => write!(f, "{word} the list of collections"),
            Some((number, id)) => {
                let number = u32::from_be_bytes(*number);
                write!(f, "{word} {:?} of collection {number}", String::from_utf8_lossy(id))
            }
            None => write!(f, "{word} an invalid key"),
        }
    }
}

impl fmt::Display for LostPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostPart::Blocks { blocks, entries, deletions, is_exact } = self else {
            return match self {
                LostPart::Batches(1) => f.write_str("1 batch of writes does not read back"),
                LostPart::Batches(number) => write!(f, "{number} batches of writes do not read back"),
                _ => f.write_str("the table is missing or is another file"),
            };
        };
        match blocks {
            Some(1) => f.write_str("1 block does not read back")?,
            Some(blocks) => write!(f, "{blocks} blocks do not read back")?,
            None => f.write_str("an unknown number of blocks do not read back")?,
        }
        match (entries, is_exact) {
            (Some(entries), true) => write!(f, ", with {}", counted(*entries, "entry"))?,
            (Some(entries), false) => write!(f, ", with about {}", counted(*entries, "entry"))?,
            (None, _) => f.write_str(", with an unknown number of entries")?,
        }
        deletions.map_or(Ok(()), |deletions| write!(f, ", {deletions} of them deletions"))
    }
}
