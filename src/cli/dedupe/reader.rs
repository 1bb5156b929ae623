//! Reads the files in order and makes documents of their records on several threads.
//!
//! One thread reads and cuts the files into records, the others make documents, and the caller gets all of
//! them in the order of the input, whatever the number of threads. At most a few batches per thread exist at
//! a time, so a caller that is slow stops the reader.
//!
//! Lines are slices of the blocks in which they were read. A block is used again after its batch, since new
//! memory costs the system as much as reading the file.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use memchr::{memchr_iter, memrchr};

use super::super::Failure;
use super::super::files::{Format, Places, Table, archive, is_input, parquet, unpacked, wrong};
use super::inputs::Input;
use super::record::{Columns, Content, Made, Maker, Raw};
use crate::http::ExportHeader;

/// The records and bytes of a batch, about; the lines of a block are one batch.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 256 << 10;
/// The batches that exist at a time, for each thread.
const AHEAD: usize = 4;
/// The longest line or text, in bytes.
const LONGEST: usize = 256 << 20;

/// Records of one file, with the columns of its table.
struct Batch {
    number: u64,
    /// The number of the first record that has one.
    first: u32,
    columns: Columns,
    records: Vec<Raw>,
    /// The block that the lines are slices of.
    block: Bytes,
}

/// The documents of a batch, and its block.
type Done = (Vec<(Raw, Made)>, Bytes);

/// What happens at a place of a file.
enum Event<'e> {
    /// A record.
    Record(Raw, &'e Columns),
    /// The end of a block; the next one is to be read into these bytes.
    End(&'e Bytes, &'e mut Vec<u8>),
}

/// How the records of files are read.
pub(super) struct Reader<'a> {
    pub(super) inputs: &'a [Input],
    pub(super) maker: &'a Maker,
    /// Records before this number have prints already.
    pub(super) known: u32,
    pub(super) threads: usize,
    /// Bytes read from the files so far, before decompression.
    pub(super) passed: Arc<AtomicU64>,
}

impl Reader<'_> {
    /// Calls `each` with all records in order, some at a time.
    ///
    /// # Errors
    /// The first error of `each`. Files that cannot be read are records with [`Content::Broken`].
    pub(super) fn each(
        &self,
        mut each: impl FnMut(Vec<(Raw, Made)>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let ahead = self.threads * AHEAD;
        std::thread::scope(|scope| {
            let (send, batches) = sync_channel::<Batch>(ahead);
            let (send_done, done) = sync_channel::<(u64, Done)>(ahead);
            // Memory for each batch that may exist.
            let (give_back, take) = sync_channel::<Vec<u8>>(ahead);
            (0..ahead).for_each(|_| _ = give_back.send(Vec::new()));
            scope.spawn(move || self.cut(&send, &take));
            let batches = Arc::new(Mutex::new(batches));
            for _ in 0..self.threads {
                let (batches, send_done) = (Arc::clone(&batches), send_done.clone());
                scope.spawn(move || self.make(&batches, &send_done));
            }
            drop((send_done, batches));
            let mut waiting: BTreeMap<u64, Done> = BTreeMap::new();
            let mut next = 0;
            for (number, done) in done {
                waiting.insert(number, done);
                while let Some((made, block)) = waiting.remove(&next) {
                    next += 1;
                    each(made)?;
                    let block = if block.is_unique() { block.into() } else { Vec::new() };
                    let _ = give_back.send(block);
                }
            }
            Ok(())
        })
    }

    /// Calls `each` with every record in order, without making documents.
    ///
    /// # Errors
    /// The first error of `each`.
    pub(super) fn each_raw(&self, mut each: impl FnMut(Raw) -> Result<(), Failure>) -> Result<(), Failure> {
        (0_u32..).zip(self.inputs).try_for_each(|(file, input)| {
            let mut result = Ok(());
            self.records(file, input, &mut |event| {
                if let Event::Record(raw, _) = event {
                    result = each(raw);
                }
                result.is_ok()
            });
            result
        })
    }

    /// Cuts the files into batches until the receiver is gone.
    fn cut(&self, send: &SyncSender<Batch>, take: &Receiver<Vec<u8>>) {
        let mut next = Batch {
            number: 0,
            first: 0,
            columns: Columns::default(),
            records: Vec::new(),
            block: Bytes::new(),
        };
        let mut flush = |records: &mut Vec<Raw>, columns: &Columns, block: Bytes| {
            let records = std::mem::take(records);
            let numbered = records.iter().filter(|raw| !matches!(raw.content, Content::Header(_))).count();
            let (number, first) = (next.number, next.first);
            next.number += 1;
            next.first = first.checked_add(numbered as u32).expect("fewer than 2^32 records");
            let batch = Batch { number, first, columns: columns.clone(), records, block };
            let memory = take.recv().ok();
            memory.filter(|_| send.send(batch).is_ok())
        };
        for (file, input) in (0_u32..).zip(self.inputs) {
            let mut records = Vec::new();
            let (mut bytes, mut of_table, mut is_gone) = (0, Columns::default(), false);
            self.records(file, input, &mut |event| {
                match event {
                    Event::Record(raw, columns) => {
                        bytes += raw.content.len();
                        records.push(raw);
                        if columns.text.is_some() && of_table.text.is_none() {
                            of_table = columns.clone();
                        }
                        if input.format != Format::Jsonl && (records.len() >= BATCH || bytes >= BATCH_BYTES) {
                            bytes = 0;
                            is_gone = flush(&mut records, &of_table, Bytes::new()).is_none();
                        }
                    }
                    Event::End(block, next) => match flush(&mut records, &of_table, block.clone()) {
                        Some(memory) => *next = memory,
                        None => is_gone = true,
                    },
                }
                !is_gone
            });
            if is_gone || (!records.is_empty() && flush(&mut records, &of_table, Bytes::new()).is_none()) {
                return;
            }
        }
    }

    fn make(&self, batches: &Mutex<Receiver<Batch>>, done: &SyncSender<(u64, Done)>) {
        loop {
            let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Batch { number, first, columns, records, block }) = batch else { return };
            let mut record = first;
            let made = records.into_iter().map(|raw| {
                let is_known = record < self.known;
                record += u32::from(!matches!(raw.content, Content::Header(_)));
                let made = self.maker.make(&raw, &columns, is_known);
                (raw, made)
            });
            if done.send((number, (made.collect(), block))).is_err() {
                return;
            }
        }
    }

    /// Calls `each` with the records of a file until it returns `false`. An error ends the file with a
    /// record that says so.
    fn records(&self, file: u32, input: &Input, each: &mut dyn FnMut(Event) -> bool) {
        let mut line = 0;
        if let Err(error) = self.try_records(file, input, &mut line, each) {
            let content = Content::Broken(format!("the file cannot be read further: {error}"));
            each(Event::Record(Raw { file, line: line + 1, content }, &Columns::default()));
        }
    }

    fn try_records(
        &self,
        file: u32,
        input: &Input,
        line: &mut u64,
        each: &mut dyn FnMut(Event) -> bool,
    ) -> io::Result<()> {
        if input.format == Format::Parquet {
            return self.rows(file, input, line, each);
        }
        let read = unpacked(&input.path, &self.passed)?;
        let none = Columns::default();
        let mut each_of = |line: u64, content: Content, columns: &Columns| {
            each(Event::Record(Raw { file, line, content }, columns))
        };
        match input.format {
            Format::Jsonl => lines(read, file, line, self.maker, each),
            Format::Text => {
                let mut bytes = Vec::new();
                if read.take(LONGEST as u64 + 1).read_to_end(&mut bytes)? > LONGEST {
                    return Err(wrong("a text is longer than 256 MiB"));
                }
                each_of(1, Content::Text(bytes), &none);
                Ok(())
            }
            Format::Csv | Format::Tsv => {
                let mut table = Table::open(read, input.format.delimiter())?;
                let columns = self.maker.columns(&table)?;
                let header = Content::Header(table.header().to_vec());
                let mut is_wanted = each_of(1, header, &columns);
                while is_wanted && let Some(row) = table.next_row()? {
                    *line = row.line;
                    is_wanted = each_of(row.line, Content::Row(row), &columns);
                }
                Ok(())
            }
            Format::Warc => {
                for record in archive(read, Places::default()) {
                    let content = Content::Record(record?);
                    *line += 1;
                    if !each_of(*line, content, &none) {
                        break;
                    }
                }
                Ok(())
            }
            Format::Parquet => Ok(()),
        }
    }

    /// Calls `each` with the rows of a Parquet file until it returns `false`.
    fn rows(
        &self,
        file: u32,
        input: &Input,
        line: &mut u64,
        each: &mut dyn FnMut(Event) -> bool,
    ) -> io::Result<()> {
        let id = self.maker.id_field.as_str();
        let has_id = self.maker.needs_id || parquet::columns(&input.path)?.iter().any(|name| name == id);
        // A column that is not there is asked for a second time in its place.
        let text = self.maker.hash_field.as_ref().unwrap_or(&self.maker.text_field).as_str();
        let names = [text, if has_id { id } else { text }, self.maker.keep.field().unwrap_or(text)];
        let none = Columns::default();
        for values in parquet::rows(&input.path, &names)? {
            let mut values = values?;
            if !has_id {
                values[1] = None;
            }
            *line += 1;
            if !each(Event::Record(Raw { file, line: *line, content: Content::Values(values) }, &none)) {
                return Ok(());
            }
        }
        self.passed.fetch_add(input.state.bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Calls `each` with every line that is not blank, until it returns `false`, and at the end of each block.
/// `line` is the number of the last line that was read.
fn lines(
    mut read: impl Read,
    file: u32,
    line: &mut u64,
    maker: &Maker,
    each: &mut dyn FnMut(Event) -> bool,
) -> io::Result<()> {
    let none = Columns::default();
    let mut bytes = Vec::new();
    loop {
        let (end, read) = block(&mut read, &mut bytes);
        let (rest, is_last) = (bytes[end..].to_vec(), end == 0);
        bytes.truncate(end);
        let block = Bytes::from(std::mem::take(&mut bytes));
        let mut from = 0;
        let is_open = !block.is_empty() && !block.ends_with(b"\n");
        for end in memchr_iter(b'\n', &block).chain(is_open.then_some(block.len())) {
            let text = block.slice(from..end);
            (from, *line) = (end + 1, *line + 1);
            let is_blank = text.iter().all(u8::is_ascii_whitespace);
            let content = match ExportHeader::of(&text) {
                Some(Ok(header)) => match header.and_then(|header| maker.refuses(&header)) {
                    Some(why) => return Err(wrong(why)),
                    None => Content::Header(text.to_vec()),
                },
                _ => Content::Line(text),
            };
            if !is_blank && !each(Event::Record(Raw { file, line: *line, content }, &none)) {
                return Ok(());
            }
        }
        read?;
        if is_last || !each(Event::End(&block, &mut bytes)) {
            return Ok(());
        }
        if block.is_unique() && bytes.capacity() == 0 {
            bytes = block.into();
        }
        bytes.clear();
        bytes.extend_from_slice(&rest);
    }
}

/// Reads a block behind the `bytes` that belong to it. Returns where its last line ends; 0 at the end of the
/// file. What follows in the same memory is the beginning of the next block.
///
/// An error is returned with the lines before the damage.
fn block(read: &mut impl Read, bytes: &mut Vec<u8>) -> (usize, io::Result<()>) {
    loop {
        if bytes.len() >= BATCH_BYTES
            && let Some(end) = memrchr(b'\n', bytes)
        {
            return (end + 1, Ok(()));
        }
        if bytes.len() > LONGEST {
            return (0, Err(wrong("a line is longer than 256 MiB")));
        }
        let more = bytes.len().max(BATCH_BYTES).min(LONGEST + 1 - bytes.len());
        bytes.reserve(more);
        match read.by_ref().take(more as u64).read_to_end(bytes) {
            Ok(0) => return (bytes.len(), Ok(())),
            Ok(_) => {}
            Err(error) => return (memrchr(b'\n', bytes).map_or(0, |end| end + 1), Err(error)),
        }
    }
}

impl Content {
    /// The number of bytes.
    fn len(&self) -> usize {
        match self {
            Content::Line(bytes) => bytes.len(),
            Content::Text(bytes) | Content::Header(bytes) => bytes.len(),
            Content::Row(row) => row.raw.len(),
            Content::Record(record) => record.bytes().map_or(0, <[u8]>::len),
            Content::Values(values) => values.iter().flatten().map(String::len).sum(),
            Content::Broken(why) => why.len(),
        }
    }
}

impl Maker {
    /// Checks that a table has the columns that the options name: no record of it could be read otherwise.
    ///
    /// # Errors
    /// [`Failure`] with the columns that it has. A file that cannot be read is reported when it is read.
    pub(super) fn check_columns(&self, input: &Input) -> Result<(), Failure> {
        let named = |error: std::io::Error| {
            let options = "--text-field, --id-field, --hash-field and --keep name columns";
            Failure::new(format!("{}: {error}; {options}", input.shown))
        };
        match input.format {
            Format::Csv | Format::Tsv if !is_input(&input.path) => {
                let read = unpacked(&input.path, &Arc::default());
                let Ok(table) = read.and_then(|read| Table::open(read, input.format.delimiter())) else {
                    return Ok(());
                };
                self.columns(&table).map(drop).map_err(named)
            }
            Format::Parquet => {
                let text = self.hash_field.as_ref().unwrap_or(&self.text_field).as_str();
                let id = self.needs_id.then_some(self.id_field.as_str());
                let wanted: Vec<&str> = [Some(text), id, self.keep.field()].into_iter().flatten().collect();
                if parquet::columns(&input.path).is_err() {
                    return Ok(());
                }
                parquet::rows(&input.path, &wanted).map(drop).map_err(named)
            }
            _ => Ok(()),
        }
    }

    /// The places of the columns in a table.
    fn columns(&self, table: &Table) -> std::io::Result<Columns> {
        let text = table.place(self.hash_field.as_ref().unwrap_or(&self.text_field))?;
        let id = table.place(&self.id_field);
        let id = if self.needs_id { Some(id?) } else { id.ok() };
        let key = self.keep.field().map(|name| table.place(name)).transpose()?;
        Ok(Columns { text: Some(text), id, key })
    }
}
