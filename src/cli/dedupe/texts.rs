//! The texts of all documents: the exact check reads those that are near the limit, and the evidence those of
//! pairs. A text in a line of a plain file is read there; the others are stored in a file of the run.

mod blocks;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::Failure;
use super::inputs::Input;
use super::record::{Content, Maker, Raw};
use blocks::Blocks;
pub(super) use blocks::stored_bytes;
use lookalike_files::{About, Opens, Original, shown};

/// The first byte of what is stored: a text follows, or the place of a line.
const TEXT: &[u8] = &[0];
const LINE: &[u8] = &[1];

/// The bytes that are stored for a line: the number of its file, its place, and its length.
pub(super) const LINE_BYTES: u64 = 1 + 4 + 8 + 4;

/// Texts by the numbers of documents, some of which have none.
pub(super) struct Texts {
    inner: Mutex<Inner>,
    /// Makes texts of lines.
    maker: Maker,
}

struct Inner {
    stored: Blocks,
    /// The files of which a line was seen; one whose lines are not where they seem to stand is none.
    plain: BTreeMap<u32, Option<Original>>,
    /// Why a text could not be read.
    failure: Option<Failure>,
}

/// What is known of a text.
enum Found {
    Text(String),
    Line { file: Original, place: u64, length: usize },
}

impl Texts {
    /// Texts that are stored under this path, or are in lines that `maker` reads.
    pub(super) fn create(path: &Path, maker: Maker) -> Result<Texts, Failure> {
        let inner = Inner { stored: Blocks::create(path)?, plain: BTreeMap::new(), failure: None };
        Ok(Texts { inner: Mutex::new(inner), maker })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes the file, and writes where its blocks end.
    pub(super) fn save(&self, ends: &Path) -> Result<(), Failure> {
        self.inner().stored.save(ends)
    }

    /// Adds the texts of a shard, which follow all others, with the files that it has lines of.
    pub(super) fn join(&self, path: &Path, ends: &Path, inputs: &[Input]) -> Result<(), Failure> {
        let plain = (0..).zip(inputs).filter(|(_, input)| input.is_plain_file());
        let mut inner = self.inner();
        inner.plain.extend(plain.map(|(file, input)| (file, Some(input.path.clone()))));
        inner.stored.join(Blocks::of_files(path, ends)?);
        Ok(())
    }

    /// Appends the text of the next document.
    pub(super) fn push(&self, text: Option<&str>) -> Result<(), Failure> {
        let entry = text.map(|text| [TEXT, text.as_bytes()]);
        self.inner().stored.push(entry.as_ref().map(<[_; 2]>::as_slice))
    }

    /// Appends the text of the next document, which is this record.
    pub(super) fn push_of(&self, raw: &Raw, input: &Input, text: Option<&str>) -> Result<(), Failure> {
        let place = text.and(raw.place).filter(|place| self.inner().is_plain(raw, *place, input));
        let Some(place) = place else { return self.push(text) };
        let (file, length) = (raw.file.to_be_bytes(), (raw.content.len() as u32).to_be_bytes());
        self.inner().stored.push(Some(&[LINE, &file, &place.to_be_bytes(), &length]))
    }

    /// The text of a document, if it has one.
    pub(super) fn get(&self, number: u32) -> Option<String> {
        let found = self.inner().find(number);
        let text = found.and_then(|found| match found {
            Some(Found::Text(text)) => Ok(Some(text)),
            Some(Found::Line { file, place, length }) => self.read(&file, place, length).map(Some),
            None => Ok(None),
        });
        text.unwrap_or_else(|failure| {
            self.inner().failure.get_or_insert(failure);
            None
        })
    }

    /// The text of a line.
    fn read(&self, file: &Original, place: u64, length: usize) -> Result<String, Failure> {
        let line = line_of(file, place, length).ok();
        let text = line
            .and_then(|line| self.maker.text(&Raw::new(0, 0, Content::Line(line.into())), &About::default()));
        text.ok_or_else(|| {
            let changed = || Failure::new(format!("{}: the file changed during the run", shown(file)));
            file.check().err().map_or_else(changed, Failure::from)
        })
    }

    /// Checks that every text was read.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.inner().failure.take().map_or(Ok(()), Err)
    }
}

impl Inner {
    /// Whether the lines of a file stand where they seem to: its first one tells. Behind a byte order mark
    /// they do not.
    fn is_plain(&mut self, raw: &Raw, place: u64, input: &Input) -> bool {
        let plain = self.plain.entry(raw.file).or_insert_with(|| {
            let line = input.is_plain_file().then(|| line_of(&input.path, place, raw.content.len()))?;
            line.is_ok_and(|line| line == raw.content.bytes()).then(|| input.path.clone())
        });
        plain.is_some()
    }

    fn find(&mut self, number: u32) -> Result<Option<Found>, Failure> {
        let Some((kind, entry)) = self.stored.get(number)?.and_then(<[u8]>::split_first) else {
            return Ok(None);
        };
        if [*kind] == TEXT {
            return Ok(Some(Found::Text(String::from_utf8_lossy(entry).into_owned())));
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (file, place, length) = (number(&entry[..4]), number(&entry[4..12]), number(&entry[12..]));
        let file = self.plain.get(&(file as u32)).cloned().flatten();
        Ok(file.map(|file| Found::Line { file, place, length: length as usize }))
    }
}

/// The bytes of a line.
fn line_of(file: &Original, place: u64, length: usize) -> std::io::Result<Vec<u8>> {
    let mut line = vec![0; length];
    file.chunks()?.from(place).read_exact(&mut line)?;
    Ok(line)
}
