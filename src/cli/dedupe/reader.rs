//! Reads the files in order and makes documents of their records on several threads.
//!
//! One thread reads and cuts the files into records, the others make documents, and the caller gets all of
//! them in the order of the input, whatever the number of threads. At most a few batches per thread exist at
//! a time, so a caller that is slow stops the reader.
//!
//! A block of lines is used again after its batch, since new memory costs the system as much as reading the
//! file.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::super::Failure;
use super::super::files::{
    Format, InUtf8, Places, Reading, Table, archive, counted, each_file, in_utf8, is_input, parquet, unpack,
    unpacked, with_originals, wrong,
};
use super::inputs::Input;
use super::json::records_of_json;
use super::record::{Columns, Content, Made, Maker, Raw};

/// The records and bytes of a batch, about; the lines of a block are one batch.
const BATCH: usize = 256;
pub(super) const BATCH_BYTES: usize = 256 << 10;
/// The batches that exist at a time, for each thread.
const AHEAD: usize = 4;
/// The longest line or text, in bytes.
pub(super) const LONGEST: usize = 256 << 20;

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
#[allow(clippy::large_enum_variant, reason = "it is passed on, and none is kept")]
pub(super) enum Event<'e> {
    /// A record.
    Record(Raw, &'e Columns),
    /// The end of a block; the next one is to be read into these bytes.
    End(&'e Bytes, &'e mut Vec<u8>),
}

/// The bytes of a file in an archive, or the error that ends the archive before it; of any other file,
/// nothing.
type Begun<'r> = io::Result<Option<Reading<'r>>>;

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
        let mut result = Ok(());
        self.each_input(&mut |file, input, read| {
            self.records(file, input, read, &mut |event| {
                if let Event::Record(raw, _) = event {
                    result = each(raw);
                }
                result.is_ok()
            });
            result.is_ok()
        });
        result
    }

    /// Calls `each` with every file in order until it returns `false`.
    fn each_input(&self, each: &mut dyn FnMut(u32, &Input, Begun<'_>) -> bool) {
        let mut at = 0;
        while let Some(input) = self.inputs.get(at) {
            let is_wanted = if input.member.is_none() {
                at += 1;
                each(at as u32 - 1, input, Ok(None))
            } else {
                self.each_member(&mut at, each)
            };
            if !is_wanted {
                return;
            }
        }
    }

    /// The same for the files of the archive of which the next input is one.
    fn each_member(&self, at: &mut usize, each: &mut dyn FnMut(u32, &Input, Begun<'_>) -> bool) -> bool {
        let first = &self.inputs[*at];
        let is_own =
            |input: &Input| input.member.is_some() && input.path == first.path && input.to == first.to;
        let end = *at + self.inputs[*at..].iter().take_while(|input| is_own(input)).count();
        let mut is_wanted = true;
        let read = unpacked(&first.path, &Arc::default()).and_then(|read| {
            each_file(read, &mut |member, read| {
                let input = &self.inputs[*at];
                if input.member.as_ref() == Some(member) {
                    let read = unpack(counted(read, &self.passed), input.packing).0;
                    is_wanted = each(*at as u32, input, Ok(Some(read)));
                    *at += 1;
                }
                is_wanted && *at < end
            })
        });
        if is_wanted && *at < end {
            let error = read.err().unwrap_or_else(|| wrong("the archive has changed"));
            is_wanted = each(*at as u32, &self.inputs[*at], Err(error));
            *at = end;
        }
        is_wanted
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
            let numbered = records.iter().filter(|raw| raw.content.is_record()).count();
            let (number, first) = (next.number, next.first);
            next.number += 1;
            next.first = first.checked_add(numbered as u32).expect("fewer than 2^32 records");
            let batch = Batch { number, first, columns: columns.clone(), records, block };
            let memory = take.recv().ok();
            memory.filter(|_| send.send(batch).is_ok())
        };
        self.each_input(&mut |file, input, read| {
            let mut records = Vec::new();
            let (mut bytes, mut of_table, mut is_gone) = (0, Columns::default(), false);
            self.records(file, input, read, &mut |event| {
                match event {
                    Event::Record(raw, columns) => {
                        bytes += raw.content.len();
                        let is_of_block = matches!(raw.content, Content::Line(_));
                        records.push(raw);
                        if columns.text.is_some() && of_table.text.is_none() {
                            of_table = columns.clone();
                        }
                        if !is_of_block && (records.len() >= BATCH || bytes >= BATCH_BYTES) {
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
            !is_gone && (records.is_empty() || flush(&mut records, &of_table, Bytes::new()).is_some())
        });
    }

    fn make(&self, batches: &Mutex<Receiver<Batch>>, done: &SyncSender<(u64, Done)>) {
        loop {
            let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Batch { number, first, columns, records, block }) = batch else { return };
            let mut record = first;
            let made = records.into_iter().map(|raw| {
                let is_known = record < self.known;
                record += u32::from(raw.content.is_record());
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
    fn records(&self, file: u32, input: &Input, read: Begun<'_>, each: &mut dyn FnMut(Event) -> bool) {
        let mut line = 0;
        let read = read.and_then(|read| self.try_records(file, input, read, &mut line, each));
        if let Err(error) = read {
            let content = Content::Broken(format!("the file cannot be read further: {error}"));
            each(Event::Record(Raw::new(file, line + 1, content), &Columns::default()));
        }
    }

    fn try_records(
        &self,
        file: u32,
        input: &Input,
        read: Option<Reading<'_>>,
        line: &mut u64,
        each: &mut dyn FnMut(Event) -> bool,
    ) -> io::Result<()> {
        if input.format == Format::Parquet {
            return self.rows(file, input, line, each);
        }
        let read = match read {
            Some(read) => read,
            None => unpacked(&input.path, &self.passed)?,
        };
        let none = Columns::default();
        match input.format {
            Format::Jsonl => {
                let Some(begun) = self.begun(file, read, each)? else { return Ok(()) };
                records_of_json(begun, file, line, self.maker, each)
            }
            Format::Text => {
                let mut bytes = Vec::new();
                if read.take(LONGEST as u64 + 1).read_to_end(&mut bytes)? > LONGEST {
                    return Err(wrong("a text is longer than 256 MiB"));
                }
                each(Event::Record(Raw::new(file, 1, Content::Text(bytes)), &none));
                Ok(())
            }
            Format::Csv | Format::Tsv => {
                let Some(InUtf8 { read, originals, .. }) = self.begun(file, read, each)? else {
                    return Ok(());
                };
                let table = Table::open(read, input.format.delimiter())?;
                let mut table = table.with_originals(originals);
                let mut each_of = |line: u64, content: Content, columns: &Columns| {
                    each(Event::Record(Raw::new(file, line, content), columns))
                };
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
                    if !each(Event::Record(Raw::new(file, *line, content), &none)) {
                        break;
                    }
                }
                Ok(())
            }
            Format::Parquet => Ok(()),
        }
    }

    /// The file in UTF-8, after `each` was called with its charset if that is another one; `None` if it
    /// returned `false`.
    fn begun<'r>(
        &self,
        file: u32,
        read: Reading<'r>,
        each: &mut dyn FnMut(Event) -> bool,
    ) -> io::Result<Option<InUtf8<'r>>> {
        let begun = with_originals(read, self.maker.charset)?;
        let content = Content::Charset(begun.encoding, begun.mark.clone());
        let is_plain = begun.originals.is_none() && begun.mark.is_empty();
        let is_wanted = is_plain || each(Event::Record(Raw::new(file, 1, content), &Columns::default()));
        Ok(is_wanted.then_some(begun))
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
            if !each(Event::Record(Raw::new(file, *line, Content::Values(values)), &none)) {
                return Ok(());
            }
        }
        self.passed.fetch_add(input.state.bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Content {
    /// The number of bytes.
    fn len(&self) -> usize {
        match self {
            Content::Line(bytes) => bytes.len(),
            Content::Text(bytes)
            | Content::Header(bytes)
            | Content::Element(bytes)
            | Content::Charset(_, bytes)
            | Content::Bracket(bytes) => bytes.len(),
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
    /// [`Failure`] with the columns that it has. A file that cannot be read is reported when it is read, and
    /// so is one in an archive.
    pub(super) fn check_columns(&self, input: &Input) -> Result<(), Failure> {
        let named = |error: std::io::Error| {
            let options = "--text-field, --id-field, --hash-field and --keep name columns";
            Failure::new(format!("{}: {error}; {options}", input.shown))
        };
        match input.format {
            _ if input.member.is_some() => Ok(()),
            Format::Csv | Format::Tsv if !is_input(&input.path) => {
                let read = unpacked(&input.path, &Arc::default());
                let read = read.and_then(|read| in_utf8(read, self.charset));
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
