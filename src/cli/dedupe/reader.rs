//! Reads the files in order and makes documents of their records on several threads.
//!
//! One thread reads and cuts the files into records, the others make documents, and the caller gets all of
//! them in the order of the input, whatever the number of threads. At most a few batches per thread exist at
//! a time, so a caller that is slow stops the reader.
//!
//! A block of lines is used again after its batch, since new memory costs the system as much as reading the
//! file.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::super::Failure;
use super::inputs::Input;
use super::record::{Content, Made, Maker, Raw};
use lookalike_files::{
    About, Cut, Event, Places, Reading, broken, check_columns, counted, each_member, unpack, unpacked, wrong,
};

/// The approximate number of records and of bytes in a batch. The lines of a block are one batch.
const BATCH: usize = 256;
pub(super) const BATCH_BYTES: usize = 256 << 10;
/// The most batches that exist at a time, for each thread.
const AHEAD: usize = 4;

/// Records of one file, with what they share.
struct Batch {
    number: u64,
    /// The number of the first record that has one.
    first: u32,
    about: Option<Arc<About>>,
    records: Vec<Raw>,
    /// The block that the lines are slices of.
    block: Bytes,
}

/// What is made of the records of a batch, and its block.
type Done<T> = (Vec<(Raw, T)>, Bytes);

/// The bytes of a file in an archive, or the error that ends the archive before it; of any other file,
/// nothing.
type Begun<'r> = io::Result<Option<Reading<'r>>>;

/// How the records of files are read.
pub(super) struct Reader<'a> {
    pub(super) inputs: &'a [Input],
    /// The number of the first one that is read.
    pub(super) from: usize,
    pub(super) maker: &'a Maker,
    /// Records before this number have prints already.
    pub(super) known: u32,
    pub(super) threads: usize,
    /// Bytes read from the files so far, before decompression.
    pub(super) passed: Arc<AtomicU64>,
}

impl Reader<'_> {
    /// Calls `each` with all records and their documents in order, some at a time.
    ///
    /// # Errors
    /// The first error of `each`. Files that cannot be read are records with [`Content::Broken`].
    pub(super) fn each(
        &self,
        each: impl FnMut(Vec<(Raw, Made)>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.each_of(&|number, raw, about| self.maker.make(raw, about, number < self.known), each)
    }

    /// Calls `each` with all records in order, some at a time, and what `make` makes of each and its number.
    ///
    /// # Errors
    /// The first error of `each`, after which no record is read.
    pub(super) fn each_of<T: Send, E>(
        &self,
        make: &(dyn Fn(u32, &Raw, &About) -> T + Sync),
        mut each: impl FnMut(Vec<(Raw, T)>) -> Result<(), E>,
    ) -> Result<(), E> {
        let ahead = self.threads * AHEAD;
        std::thread::scope(|scope| {
            let (send, batches) = sync_channel::<Batch>(ahead);
            let (send_done, done) = sync_channel::<(u64, Done<T>)>(ahead);
            // Memory for each batch that may exist.
            let (give_back, take) = sync_channel::<Vec<u8>>(ahead);
            (0..ahead).for_each(|_| _ = give_back.send(Vec::new()));
            scope.spawn(move || self.cut(&send, &take));
            let batches = Arc::new(Mutex::new(batches));
            for _ in 0..self.threads {
                let (batches, send_done) = (Arc::clone(&batches), send_done.clone());
                scope.spawn(move || make_all(make, &batches, &send_done));
            }
            drop((send_done, batches));
            let mut waiting: BTreeMap<u64, Done<T>> = BTreeMap::new();
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
    pub(super) fn each_raw(
        &self,
        mut each: impl FnMut(Raw, &About) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut result = Ok(());
        self.each_input(&mut |file, input, read| {
            self.records(file, input, read, &mut |event| {
                if let Event::Record(raw, about) = event {
                    result = each(raw, about);
                }
                result.is_ok()
            });
            result.is_ok()
        });
        result
    }

    /// Calls `each` with the line of each record of a file, and why it is invalid if it is, until `each`
    /// returns `false`. Then calls it with `None`, which ends the file; if it returns `false` again, no file
    /// follows.
    pub(super) fn each_first(&self, each: &mut dyn FnMut(u32, Option<(u64, Option<String>)>) -> bool) {
        self.each_input(&mut |file, input, read| {
            self.records(file, input, read, &mut |event| match event {
                Event::Record(raw, about) if raw.content.is_record() => {
                    let made = self.maker.make(&raw, about, true);
                    let unread = made.unread.filter(|unread| !unread.reason.is_passed_over());
                    each(file, Some((raw.line, unread.map(|unread| unread.detail))))
                }
                _ => true,
            });
            each(file, None)
        });
    }

    /// Calls `each` with every file in order until it returns `false`.
    fn each_input(&self, each: &mut dyn FnMut(u32, &Input, Begun<'_>) -> bool) {
        let mut at = self.from;
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

    /// Passes the files of an archive to `each`, from the next input on.
    fn each_member(&self, at: &mut usize, each: &mut dyn FnMut(u32, &Input, Begun<'_>) -> bool) -> bool {
        let first = &self.inputs[*at];
        let is_own =
            |input: &Input| input.member.is_some() && input.path == first.path && input.to == first.to;
        let end = *at + self.inputs[*at..].iter().take_while(|input| is_own(input)).count();
        let mut is_wanted = true;
        let read = each_member(&first.path, &Arc::default(), &mut |member, read| {
            let input = &self.inputs[*at];
            if let (true, Ok(read)) = (input.member.as_ref() == Some(member), read) {
                let read = unpack(counted(read, &self.passed), input.packing).0;
                is_wanted = each(*at as u32, input, Ok(Some(read)));
                *at += 1;
            }
            is_wanted && *at < end
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
        let (mut next, mut next_first) = (0, 0_u32);
        let mut flush = |records: &mut Vec<Raw>, about: &Option<Arc<About>>, block: Bytes| {
            let records = std::mem::take(records);
            let numbered = records.iter().filter(|raw| raw.content.is_record()).count();
            let (number, first) = (next, next_first);
            next += 1;
            next_first = first.checked_add(numbered as u32).expect("fewer than 2^32 records");
            let batch = Batch { number, first, about: about.clone(), records, block };
            let memory = take.recv().ok();
            memory.filter(|_| send.send(batch).is_ok())
        };
        self.each_input(&mut |file, input, read| {
            let mut records = Vec::new();
            let (mut bytes, mut about_file, mut is_gone) = (0, None, false);
            self.records(file, input, read, &mut |event| {
                match event {
                    Event::Record(raw, about) => {
                        bytes += raw.content.len();
                        let is_of_block = matches!(raw.content, Content::Line(_));
                        records.push(raw);
                        if about_file.as_ref().is_none_or(|own| !Arc::ptr_eq(own, about)) {
                            about_file = Some(Arc::clone(about));
                        }
                        if !is_of_block && (records.len() >= BATCH || bytes >= BATCH_BYTES) {
                            bytes = 0;
                            is_gone = flush(&mut records, &about_file, Bytes::new()).is_none();
                        }
                    }
                    Event::End(block, next) => match flush(&mut records, &about_file, block.clone()) {
                        Some(memory) => *next = memory,
                        None => is_gone = true,
                    },
                }
                !is_gone
            });
            !is_gone && (records.is_empty() || flush(&mut records, &about_file, Bytes::new()).is_some())
        });
    }

    /// Calls `each` with the records of a file until it returns `false`. An error ends the file with a
    /// record that says so.
    fn records(&self, file: u32, input: &Input, read: Begun<'_>, each: &mut dyn FnMut(Event) -> bool) {
        let (mut line, is_wanted) = (0, Cell::new(true));
        let mut each = |event: Event| {
            let is_blank = matches!(&event, Event::Record(raw, _) if raw.content.is_blank());
            is_wanted.set(is_blank || each(event));
            is_wanted.get()
        };
        let wants = self.maker;
        let mut cut = Cut { file, format: input.format, wants, line: &mut line, each: &mut each };
        let read = read.and_then(|read| match read {
            _ if input.format.is_columnar() => {
                cut.rows(&input.path)?;
                let passed = if is_wanted.get() { input.state.bytes } else { 0 };
                self.passed.fetch_add(passed, Ordering::Relaxed);
                Ok(())
            }
            Some(read) => cut.records((read, Places::default())),
            None => cut.records((unpacked(&input.path, &self.passed)?, Places::default())),
        });
        if let Err(error) = read {
            let content = Content::Broken(broken(&error, line));
            each(Event::Record(Raw::new(file, line + 1, content), &Arc::default()));
        }
    }
}

/// Makes what is wanted of the records of all batches.
fn make_all<T>(
    make: &(dyn Fn(u32, &Raw, &About) -> T + Sync),
    batches: &Mutex<Receiver<Batch>>,
    done: &SyncSender<(u64, Done<T>)>,
) {
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Batch { number, first, about, records, block }) = batch else { return };
        let about = about.unwrap_or_default();
        let mut record = first;
        let made = records.into_iter().map(|raw| {
            let made = make(record, &raw, &about);
            record += u32::from(raw.content.is_record());
            (raw, made)
        });
        if done.send((number, (made.collect(), block))).is_err() {
            return;
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
        if input.member.is_some() || input.path.is_stream() {
            return Ok(());
        }
        check_columns(&input.path, input.format, self)
            .map_err(|error| Failure::new(format!("{}: {error}", input.shown)))
    }
}
