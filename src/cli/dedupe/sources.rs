//! How many documents of each source are read and kept, and which sources lose too many.
//!
//! A source is the value of the field that the user names, else the argument that a file comes from.

use std::collections::HashMap;
use std::path::Path;

use foldhash::fast::RandomState;

use super::super::Failure;
use super::spool::Spool;
use lookalike_files::shown_bytes;
use lookalike_wording::counted;

/// The most sources, so that their names fit into memory.
const SOURCES: usize = 100_000;
/// A source of fewer documents than this may lose all of them.
const FEWEST: u64 = 100;
/// The most sources that an error names.
const NAMED: usize = 5;
/// The source of a record that is no document.
const NONE: u32 = u32::MAX;

/// The counts of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) read: u64,
    pub(super) dropped: u64,
}

pub(super) struct Sources {
    all: Vec<Source>,
    numbers: HashMap<String, u32, RandomState>,
    of_records: Spool,
}

impl Sources {
    pub(super) fn create(path: &Path) -> Result<Sources, Failure> {
        let of_records = Spool::open(path, false)?;
        Ok(Sources { all: Vec::new(), numbers: HashMap::default(), of_records })
    }

    /// Counts the next record as read; `None` is no document.
    pub(super) fn read(&mut self, source: Option<&str>) -> Result<(), Failure> {
        let number = source.map_or(Ok(NONE), |name| self.number(name))?;
        if let Some(source) = self.all.get_mut(number as usize) {
            source.read += 1;
        }
        self.of_records.append(&[&number.to_be_bytes()])
    }

    fn number(&mut self, name: &str) -> Result<u32, Failure> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        if self.all.len() == SOURCES {
            return Err(Failure::new(format!(
                "--source-field has more than {SOURCES} values: name a field with fewer, such as a site in \
                 place of a page"
            )));
        }
        let number = self.all.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.all.push(Source { name: name.to_owned(), ..Source::default() });
        Ok(number)
    }

    /// The source of a record.
    pub(super) fn of(&self, record: u32) -> Result<Option<&str>, Failure> {
        Ok(self.all.get(self.place(record)?).map(|source| &*source.name))
    }

    fn place(&self, record: u32) -> Result<usize, Failure> {
        let mut bytes = [0; 4];
        self.of_records.read(u64::from(record) * 4, &mut bytes)?;
        Ok(u32::from_be_bytes(bytes) as usize)
    }

    /// Counts a record as dropped.
    pub(super) fn drop(&mut self, record: u32) -> Result<(), Failure> {
        let place = self.place(record)?;
        if let Some(source) = self.all.get_mut(place) {
            source.dropped += 1;
        }
        Ok(())
    }

    /// All sources, those that lose the largest share first.
    pub(super) fn all(&self) -> Vec<&Source> {
        let mut all: Vec<&Source> = self.all.iter().collect();
        all.sort_by(|a, b| b.share().total_cmp(&a.share()).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// An error that names the sources of at least [`FEWEST`] documents that lose more than this share.
    pub(super) fn check(&self, most: f64) -> Result<(), Failure> {
        let all = self.all();
        let losing: Vec<&Source> =
            all.into_iter().filter(|source| source.read >= FEWEST && source.share() > most).collect();
        if losing.is_empty() {
            return Ok(());
        }
        let mut named: Vec<String> = losing.iter().take(NAMED).map(|source| source.loss()).collect();
        if losing.len() > NAMED {
            named.push(format!("and {}", counted((losing.len() - NAMED) as u64, "further source")));
        }
        Err(Failure::new(format!(
            "{} would lose more than --max-loss {most}: {}; no output is written. Look at what is dropped \
             with --annotate, which drops nothing; if it is right, --force writes the output, or a larger \
             --max-loss (the same command with it goes on with what was read)",
            counted(losing.len() as u64, "source"),
            named.join("; ")
        )))
    }
}

impl Source {
    pub(super) fn share(&self) -> f64 {
        self.dropped as f64 / self.read.max(1) as f64
    }

    fn loss(&self) -> String {
        let name = shown_bytes(self.name.as_bytes());
        format!("{name} keeps {} of {}", self.read - self.dropped, self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_lose_more_than_the_share_are_named_with_their_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mut sources = Sources::create(&folder.path().join("sources")).unwrap();
        let name = |record: u32| ["news", "blog", "tiny"][(record as usize % 201) / 100];
        (0..201).for_each(|record| sources.read(Some(name(record))).unwrap());
        sources.read(None).unwrap();
        assert_eq!((sources.of(150).unwrap(), sources.of(201).unwrap()), (Some("blog"), None));
        (0..50).chain(105..201).for_each(|record| sources.drop(record).unwrap());
        sources.drop(201).unwrap();
        let error = sources.check(0.9).unwrap_err().message;
        assert!(error.starts_with("1 source would lose more than --max-loss 0.9: blog keeps 5 of 100; no"));
        assert!(sources.check(0.95).is_ok() && sources.check(0.5).is_err());
        let shares: Vec<(&str, u64)> = sources.all().iter().map(|one| (&*one.name, one.dropped)).collect();
        assert_eq!(shares, [("tiny", 1), ("blog", 95), ("news", 50)]);
    }
}
