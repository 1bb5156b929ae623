//! Arrow IPC, as files and as streams: the values of a few columns, and copies with some of the rows.
//!
//! A copy has the form, the schema, the metadata and the compression (LZ4, Zstandard or none) of the
//! original; its dictionaries stay dictionaries. Record batches without a row are left out. Memory: one
//! record batch and the dictionaries. *Absent*: Feather 1; metadata of single messages.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeStringArray, RecordBatch, StringArray, StringViewArray,
};
use arrow_ipc::reader::{FileReader, FileReaderBuilder, StreamReader};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::filter::filter_record_batch;
use parquet::file::reader::Length;

use super::cell::value;
use super::columnar::{Replaced, Values};
use super::original::{Chunk, Chunks};
use super::{missing, nested, wrong};

/// How the file form begins; its messages follow.
pub(super) const MARK: &[u8] = b"ARROW1\0\0";
/// The longest schema or header of a batch, in bytes.
const HEADER: usize = 64 << 20;

/// The record batches of a file.
enum Batches {
    File(Box<FileReader<BufReader<Chunk>>>),
    Stream(Box<StreamReader<BufReader<Chunk>>>),
}

impl Batches {
    fn open(from: &Chunks, columns: Option<Vec<usize>>) -> io::Result<Batches> {
        let mut read = BufReader::new(from.from(0));
        let mut mark = Vec::new();
        read.by_ref().take(MARK.len() as u64).read_to_end(&mut mark)?;
        let read = BufReader::with_capacity(64 << 10, from.from(0));
        if mark != MARK {
            return checked(|| StreamReader::try_new(read, columns))
                .map(|all| Batches::Stream(Box::new(all)));
        }
        let builder = FileReaderBuilder::new();
        let builder = columns.into_iter().fold(builder, FileReaderBuilder::with_projection);
        checked(|| builder.build(read)).map(|all| Batches::File(Box::new(all)))
    }

    /// With the columns that are read.
    fn schema(&self) -> SchemaRef {
        match self {
            Batches::File(file) => file.schema(),
            Batches::Stream(stream) => stream.schema(),
        }
    }
}

impl Iterator for Batches {
    type Item = io::Result<RecordBatch>;

    fn next(&mut self) -> Option<io::Result<RecordBatch>> {
        let next = checked(|| match self {
            Batches::File(file) => file.next().transpose(),
            Batches::Stream(stream) => stream.next().transpose(),
        });
        next.transpose()
    }
}

pub(super) fn rows(
    from: &Chunks,
    names: &[&str],
    bytes: Option<&str>,
) -> io::Result<impl Iterator<Item = io::Result<Values>> + Send + use<>> {
    let all = columns(from)?;
    let mut wanted: Vec<usize> = Vec::new();
    for name in names {
        let of_name = |name: &str| all.iter().position(|column| column == name);
        let found = of_name(name).or_else(|| of_name(nested::outer(name)));
        wanted.push(found.ok_or_else(|| wrong(missing("column", name, all.iter().map(String::as_str))))?);
    }
    let names: Vec<(String, bool)> =
        names.iter().map(|name| ((*name).to_owned(), bytes == Some(name))).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let batches = Batches::open(from, Some(wanted))?;
    let mut is_over = false;
    let rows = batches.flat_map(move |batch| {
        let (batch, error) = match batch {
            Ok(batch) => (Some(batch), None),
            Err(error) => (None, Some(Err(error))),
        };
        let names = names.clone();
        let count = batch.as_ref().map_or(0, RecordBatch::num_rows);
        let row = move |row| {
            let batch = batch.as_ref().expect("it has rows");
            names
                .iter()
                .map(|(name, is_bytes)| value(batch, row, name, *is_bytes))
                .collect::<io::Result<Values>>()
        };
        (0..count).map(row).chain(error)
    });
    Ok(rows.take_while(move |row| !std::mem::replace(&mut is_over, row.is_err())))
}

pub(super) fn columns(from: &Chunks) -> io::Result<Vec<String>> {
    let schema = Batches::open(from, None)?.schema();
    Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
}

pub(super) fn count(from: &Chunks) -> io::Result<u64> {
    Batches::open(from, Some(Vec::new()))?.map(|batch| Ok(batch?.num_rows() as u64)).sum()
}

/// That of the file: the same batches are compressed alike.
pub(super) fn copied_bytes(from: &Chunks) -> u64 {
    from.len()
}

/// Whether a column has plain texts.
pub(super) fn has_texts(from: &Chunks, column: &str) -> io::Result<bool> {
    let schema = Batches::open(from, None)?.schema();
    let types = [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];
    Ok(schema.field_with_name(column).is_ok_and(|field| types.contains(field.data_type())))
}

pub(super) fn copy(
    from: &Chunks,
    to: File,
    kept: &[bool],
    mut replaced: Option<Replaced<'_>>,
) -> io::Result<()> {
    let batches = Batches::open(from, None)?;
    let (schema, to) = (batches.schema(), BufWriter::with_capacity(1 << 20, to));
    let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5);
    let options = options.and_then(|options| options.try_with_compression(compression(from)?));
    let options = options.map_err(failed)?;
    match &batches {
        Batches::File(file) => {
            let mut metadata: Vec<_> = file.custom_metadata().clone().into_iter().collect();
            metadata.sort();
            let mut writer = FileWriter::try_new_with_options(to, &schema, options).map_err(failed)?;
            metadata.into_iter().for_each(|(key, value)| writer.write_metadata(key, value));
            each_kept(batches, kept, replaced.as_mut(), &mut |batch| writer.write(batch))?;
            writer.into_inner().map_err(failed)?.into_inner()?;
        }
        Batches::Stream(_) => {
            let mut writer = StreamWriter::try_new_with_options(to, &schema, options).map_err(failed)?;
            each_kept(batches, kept, replaced.as_mut(), &mut |batch| writer.write(batch))?;
            writer.into_inner().map_err(failed)?.into_inner()?;
        }
    }
    Ok(())
}

fn each_kept(
    batches: Batches,
    mut kept: &[bool],
    mut replaced: Option<&mut Replaced<'_>>,
    each: &mut dyn FnMut(&RecordBatch) -> Result<(), ArrowError>,
) -> io::Result<()> {
    let mut first = 0;
    for batch in batches {
        let batch = batch?;
        let rows = first..first + batch.num_rows() as u64;
        first = rows.end;
        let (of_batch, rest) = kept.split_at(batch.num_rows().min(kept.len()));
        kept = rest;
        if !of_batch.contains(&true) {
            continue;
        }
        let mut of_batch = of_batch.to_vec();
        of_batch.resize(batch.num_rows(), false);
        let kept_rows = rows.zip(&of_batch).filter(|(_, kept)| **kept).map(|(row, _)| row);
        let kept_rows: Vec<u64> = kept_rows.collect();
        let mut batch = filter_record_batch(&batch, &BooleanArray::from(of_batch)).map_err(failed)?;
        if let Some(replaced) = &mut replaced {
            batch = with_texts(&batch, replaced, &kept_rows)?;
        }
        each(&batch).map_err(failed)?;
    }
    if kept.is_empty() { Ok(()) } else { Err(wrong("the file changed during the run")) }
}

/// A batch of these rows of the file with other texts.
fn with_texts(batch: &RecordBatch, replaced: &mut Replaced<'_>, rows: &[u64]) -> io::Result<RecordBatch> {
    let texts = rows.iter().map(|row| (replaced.text)(*row)).collect::<io::Result<Vec<Option<String>>>>()?;
    let schema = batch.schema();
    let at = schema.index_of(replaced.column).map_err(failed)?;
    if texts.iter().all(Option::is_none) {
        return Ok(batch.clone());
    }
    let column = batch.column(at);
    let changed: ArrayRef = match column.data_type() {
        DataType::Utf8 => Arc::new(merged(column.as_string::<i32>().iter(), &texts).collect::<StringArray>()),
        DataType::LargeUtf8 => {
            Arc::new(merged(column.as_string::<i64>().iter(), &texts).collect::<LargeStringArray>())
        }
        _ => Arc::new(merged(column.as_string_view().iter(), &texts).collect::<StringViewArray>()),
    };
    let mut columns = batch.columns().to_vec();
    columns[at] = changed;
    RecordBatch::try_new(schema, columns).map_err(failed)
}

/// The texts of rows, of which some are others.
fn merged<'a>(
    own: impl Iterator<Item = Option<&'a str>>,
    others: &'a [Option<String>],
) -> impl Iterator<Item = Option<&'a str>> {
    own.zip(others).map(|(own, other)| other.as_deref().or(own))
}

/// The compression of the first batch.
fn compression(from: &Chunks) -> Result<Option<CompressionType>, ArrowError> {
    let mut at = 0;
    let word = |at: &mut u64| -> io::Result<Option<u32>> {
        let mut bytes = Vec::new();
        from.from(*at).take(4).read_to_end(&mut bytes)?;
        *at += 4;
        Ok(bytes.try_into().ok().map(u32::from_le_bytes))
    };
    let mut mark = Vec::new();
    from.from(0).take(MARK.len() as u64).read_to_end(&mut mark)?;
    if mark == MARK {
        // Zeros to a multiple of 8 bytes, or of 64.
        at = MARK.len() as u64;
        while at < 64 && word(&mut at.clone())? == Some(0) {
            at += 4;
        }
    }
    loop {
        let mut length = word(&mut at)?;
        // A mark before the length, since Arrow 0.15.
        if length == Some(u32::MAX) {
            length = word(&mut at)?;
        }
        let length = length.unwrap_or_default() as usize;
        if length == 0 || length > HEADER {
            return Ok(None);
        }
        let mut header = Vec::new();
        from.from(at).take(length as u64).read_to_end(&mut header)?;
        let message = root_as_message(&header).map_err(|error| ArrowError::ParseError(error.to_string()))?;
        let batch = message.header_as_record_batch();
        let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data());
        if let Some(batch) = batch {
            return Ok(batch.compression().map(|compression| compression.codec()));
        }
        at += length as u64 + message.bodyLength().max(0) as u64;
    }
}

/// What a reader returns. On some damage it panics, which is an error of the file.
fn checked<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> io::Result<T> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err(ArrowError::IpcError("the file is damaged".to_owned()))).map_err(failed)
}

fn failed(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}
