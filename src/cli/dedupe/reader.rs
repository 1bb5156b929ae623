//! Reads the files in order and makes documents of their records on several threads.
//!
//! One thread reads and cuts the files into records, the others make documents, and the caller gets all of
//! them in the order of the input, whatever the number of threads. At most a few batches per thread exist at
//! a time, so a caller that is slow stops the reader.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::Failure;
use super::super::files::{Format, Table, archive, unpacked, wrong};
use super::inputs::Input;
use super::record::{Columns, Content, Made, Maker, Raw};

/// The records and bytes of a batch.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 256 << 10;
/// The batches that exist at a time, for each thread.
const AHEAD: usize = 4;
/// The longest line or text, in bytes.
const LONGEST: u64 = 256 << 20;

/// Records of one file, with the columns of its table.
struct Batch {
    number: u64,
    /// The number of the first record that has one.
    first: u32,
    columns: Columns,
    records: Vec<Raw>,
}

/// A batch whose records were made into documents.
type Done = (u64, Vec<(Raw, Made)>);

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
    /// Calls `each` with every record in order.
    ///
    /// # Errors
    /// The first error of `each`. Files that cannot be read are records with [`Content::Broken`].
    pub(super) fn each(&self, mut each: impl FnMut(Raw, Made) -> Result<(), Failure>) -> Result<(), Failure> {
        let ahead = self.threads * AHEAD;
        std::thread::scope(|scope| {
            let (send, batches) = sync_channel::<Batch>(ahead);
            let (send_done, done) = sync_channel::<Done>(ahead);
            // A token for each batch that exists.
            let (take, give_back) = sync_channel::<()>(ahead);
            scope.spawn(move || self.cut(&send, &take));
            let batches = Arc::new(Mutex::new(batches));
            for _ in 0..self.threads {
                let (batches, send_done) = (Arc::clone(&batches), send_done.clone());
                scope.spawn(move || self.make(&batches, &send_done));
            }
            drop((send_done, batches));
            let mut waiting: BTreeMap<u64, Vec<(Raw, Made)>> = BTreeMap::new();
            let mut next = 0;
            for (number, made) in done {
                waiting.insert(number, made);
                while let Some(made) = waiting.remove(&next) {
                    next += 1;
                    let _ = give_back.recv();
                    made.into_iter().try_for_each(|(raw, made)| each(raw, made))?;
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
            self.records(file, input, &mut |raw, _| {
                result = each(raw);
                result.is_ok()
            });
            result
        })
    }

    /// Cuts the files into batches until the receiver is gone.
    fn cut(&self, send: &SyncSender<Batch>, take: &SyncSender<()>) {
        let (mut batch_number, mut record_number) = (0, 0_u32);
        for (file, input) in (0_u32..).zip(self.inputs) {
            let mut records = Vec::new();
            let (mut bytes, mut of_table, mut is_gone) = (0, Columns::default(), false);
            let mut flush = |records: &mut Vec<Raw>, columns: &Columns| {
                let numbered =
                    records.iter().filter(|raw| !matches!(raw.content, Content::Header(_))).count();
                let first = record_number;
                record_number = record_number.checked_add(numbered as u32).expect("fewer than 2^32 records");
                let records = std::mem::take(records);
                let batch = Batch { number: batch_number, first, columns: columns.clone(), records };
                batch_number += 1;
                take.send(()).is_ok() && send.send(batch).is_ok()
            };
            self.records(file, input, &mut |raw, columns| {
                bytes += raw.content.len();
                records.push(raw);
                if columns.text.is_some() && of_table.text.is_none() {
                    of_table = columns.clone();
                }
                if records.len() >= BATCH || bytes >= BATCH_BYTES {
                    bytes = 0;
                    is_gone = !flush(&mut records, &of_table);
                }
                !is_gone
            });
            if is_gone || (!records.is_empty() && !flush(&mut records, &of_table)) {
                return;
            }
        }
    }

    fn make(&self, batches: &Mutex<Receiver<Batch>>, done: &SyncSender<Done>) {
        loop {
            let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Batch { number, first, columns, records }) = batch else { return };
            let mut record = first;
            let made = records.into_iter().map(|raw| {
                let is_known = record < self.known;
                record += u32::from(!matches!(raw.content, Content::Header(_)));
                let made = self.maker.make(&raw, &columns, is_known);
                (raw, made)
            });
            if done.send((number, made.collect())).is_err() {
                return;
            }
        }
    }

    /// Calls `each` with the records of a file until it returns `false`. An error ends the file with a
    /// record that says so.
    fn records(&self, file: u32, input: &Input, each: &mut dyn FnMut(Raw, &Columns) -> bool) {
        let mut line = 0;
        if let Err(error) = self.try_records(file, input, &mut line, each) {
            let content = Content::Broken(format!("the file cannot be read further: {error}"));
            each(Raw { file, line: line + 1, content }, &Columns::default());
        }
    }

    fn try_records(
        &self,
        file: u32,
        input: &Input,
        line: &mut u64,
        each: &mut dyn FnMut(Raw, &Columns) -> bool,
    ) -> std::io::Result<()> {
        let mut read = unpacked(&input.path, &self.passed)?;
        let none = Columns::default();
        match input.format {
            Format::Jsonl => loop {
                let mut bytes = Vec::new();
                if read.by_ref().take(LONGEST + 1).read_until(b'\n', &mut bytes)? == 0 {
                    return Ok(());
                }
                if bytes.len() as u64 > LONGEST {
                    return Err(wrong("a line is longer than 256 MiB"));
                }
                *line += 1;
                let end = bytes.len() - usize::from(bytes.ends_with(b"\n"));
                bytes.truncate(end);
                let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
                if !is_blank && !each(Raw { file, line: *line, content: Content::Line(bytes) }, &none) {
                    return Ok(());
                }
            },
            Format::Text => {
                let mut bytes = Vec::new();
                if read.take(LONGEST + 1).read_to_end(&mut bytes)? as u64 > LONGEST {
                    return Err(wrong("a text is longer than 256 MiB"));
                }
                each(Raw { file, line: 1, content: Content::Text(bytes) }, &none);
                Ok(())
            }
            Format::Csv | Format::Tsv => {
                let mut table = Table::open(read, input.format.delimiter())?;
                let columns = self.maker.columns(&table)?;
                let header = Content::Header(table.header().to_vec());
                let mut is_wanted = each(Raw { file, line: 1, content: header }, &columns);
                while is_wanted && let Some(row) = table.next_row()? {
                    *line = row.line;
                    is_wanted = each(Raw { file, line: row.line, content: Content::Row(row) }, &columns);
                }
                Ok(())
            }
            Format::Warc => {
                for record in archive(read) {
                    let content = Content::Record(record?);
                    *line += 1;
                    if !each(Raw { file, line: *line, content }, &none) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Content {
    /// The number of bytes.
    fn len(&self) -> usize {
        match self {
            Content::Line(bytes) | Content::Text(bytes) | Content::Header(bytes) => bytes.len(),
            Content::Row(row) => row.raw.len(),
            Content::Record(record) => record.bytes().map_or(0, <[u8]>::len),
            Content::Broken(why) => why.len(),
        }
    }
}

impl Maker {
    /// The places of the columns in a table.
    fn columns(&self, table: &Table) -> std::io::Result<Columns> {
        let text = table.place(self.hash_field.as_ref().unwrap_or(&self.text_field))?;
        let id = table.place(&self.id_field);
        let id = if self.needs_id { Some(id?) } else { id.ok() };
        let key = self.keep.field().map(|name| table.place(name)).transpose()?;
        Ok(Columns { text: Some(text), id, key })
    }
}
