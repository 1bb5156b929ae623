//! Parquet files: the values of a few columns, copies with some of the rows, and new files.
//!
//! A copy is made column by column, with the levels of nested values, so that no type is converted: it has
//! the schema, the metadata, the row groups and the compression of the original. Row groups without a row are
//! left out. Memory: the pages of one column of one row group, and 1,024 of its rows; the cells of one row
//! group in added columns.
//!
//! *Absent*: encryption; the compression LZO.

mod flat;
mod pages;
mod table;

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescPtr, Type};

use super::columnar::{Replaced, Values};
use super::nested::{self, Node, Opened, Path};
use super::original::Chunks;
use super::{Counted, missing, wrong};

pub use flat::Flat;
use table::write_cells;
pub use table::{Cell, Table};

/// The rows that are copied at a time.
const AT_ONCE: usize = 1024;

/// The bytes of row groups that are copied to know the size of a copy.
const COPIED: i64 = 32 << 20;

pub(super) fn rows(
    from: Chunks,
    names: &[&str],
    bytes: Option<&str>,
) -> io::Result<impl Iterator<Item = io::Result<Values>> + Send + use<>> {
    let reader = SerializedFileReader::new(from).map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema();
    let columns = schema.get_fields();
    let mut wanted: Vec<Arc<Type>> = Vec::new();
    for name in names {
        let of_name = |name: &str| columns.iter().find(|column| column.name() == name);
        let column = of_name(name)
            .or_else(|| of_name(nested::outer(name)))
            .ok_or_else(|| wrong(missing("column", name, columns.iter().map(|column| column.name()))))?;
        if !wanted.iter().any(|other| other.name() == column.name()) {
            wanted.push(Arc::clone(column));
        }
    }
    let schema = Type::group_type_builder(schema.name()).with_fields(wanted).build().map_err(failed)?;
    let rows = RowIter::from_file_into(Box::new(reader)).project(Some(schema)).map_err(failed)?;
    let names: Vec<(String, bool)> =
        names.iter().map(|name| ((*name).to_owned(), bytes == Some(name))).collect();
    Ok(rows.map(move |row| {
        let row = row.map_err(failed)?;
        let cell = |(name, is_bytes): &(String, bool)| {
            let found = row.get_column_iter().find(|(column, _)| *is_bytes && *column == name);
            found.map_or_else(|| value(&row, name), |(_, field)| Ok(encoded(field)))
        };
        names.iter().map(cell).collect()
    }))
}

pub(super) fn columns(from: Chunks) -> io::Result<Vec<String>> {
    let reader = SerializedFileReader::new(from).map_err(failed)?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    Ok(fields.iter().map(|column| column.name().to_owned()).collect())
}

pub(super) fn count(from: Chunks) -> io::Result<u64> {
    let reader = SerializedFileReader::new(from).map_err(failed)?;
    Ok(reader.metadata().file_metadata().num_rows() as u64)
}

/// Columns that a copy has besides those of its original.
pub struct Added<'a> {
    /// Their schema, in the language of Parquet: a message with optional fields that have no fields.
    pub schema: &'a str,
    /// The cells of the next row that is kept.
    pub next: &'a mut dyn FnMut() -> io::Result<Vec<Cell>>,
}

/// Writes a copy of a file with the rows for which `kept` says so; rows behind its end are left out.
pub(super) fn copy(
    from: Chunks,
    to: File,
    kept: &[bool],
    added: Option<Added<'_>>,
    replaced: Option<Replaced<'_>>,
) -> io::Result<()> {
    let reader = SerializedFileReader::new(from).map_err(failed)?;
    if reader.metadata().file_metadata().num_rows() < kept.len() as i64 {
        return Err(wrong("the file changed during the run"));
    }
    copied(&reader, to, kept, added, replaced).map_err(failed)
}

/// The size of a copy of all rows. Of a long file some row groups are copied, and the others count alike.
pub(super) fn copied_bytes(from: Chunks) -> io::Result<u64> {
    let reader = SerializedFileReader::new(from).map_err(failed)?;
    let (mut rows, mut bytes, mut all) = (0, 0, 0);
    for group in reader.metadata().row_groups() {
        if all < COPIED {
            rows += group.num_rows() as usize;
            bytes += group.compressed_size();
        }
        all += group.compressed_size();
    }
    let mut to = Counted(io::sink(), Arc::default());
    copied(&reader, &mut to, &vec![true; rows], None, None).map_err(failed)?;
    let copied = to.1.load(Ordering::Relaxed);
    Ok((copied as f64 * all.max(1) as f64 / bytes.max(1) as f64) as u64)
}

fn copied<W: Write + Send>(
    reader: &SerializedFileReader<Chunks>,
    to: W,
    kept: &[bool],
    mut added: Option<Added<'_>>,
    mut replaced: Option<Replaced<'_>>,
) -> Result<()> {
    let metadata = reader.metadata();
    let mut schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    let own = metadata.file_metadata().schema_descr().num_columns();
    if let Some(added) = &added {
        let more = parse_message_type(added.schema)?;
        let fields = [schema.get_fields(), more.get_fields()].concat();
        schema = Arc::new(Type::group_type_builder(schema.name()).with_fields(fields).build()?);
    }
    let mut writer = SerializedFileWriter::new(to, schema, Arc::new(properties(metadata)))?;
    let (mut rest, mut first) = (kept, 0);
    for number in 0..metadata.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let rows = group.metadata().num_rows() as usize;
        let (of_group, after) = rest.split_at(rows.min(rest.len()));
        rest = after;
        let first_of_group = first;
        first += rows as u64;
        if !of_group.contains(&true) {
            continue;
        }
        let mut cells: Vec<Vec<Cell>> = Vec::new();
        for _ in of_group.iter().filter(|kept| **kept) {
            let Some(added) = &mut added else { break };
            let row = (added.next)().map_err(|error| ParquetError::External(Box::new(error)))?;
            cells.resize(row.len(), Vec::new());
            cells.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        }
        let mut out = writer.next_row_group()?;
        let mut column = 0_usize;
        while let Some(mut to) = out.next_column()? {
            match column.checked_sub(own) {
                None => {
                    let mut replaced =
                        replaced.as_mut().filter(|replaced| is_column(metadata, column, replaced.column));
                    let mut text = |row: usize| match &mut replaced {
                        Some(replaced) => (replaced.text)(first_of_group + row as u64)
                            .map_err(|error| ParquetError::External(Box::new(error))),
                        None => Ok(None),
                    };
                    copy_column(group.get_column_reader(column)?, to.untyped(), of_group, &mut text)?;
                }
                Some(added) => write_cells(to.untyped(), &cells[added])?,
            }
            to.close()?;
            column += 1;
        }
        out.close()?;
    }
    writer.close().map(drop)
}

/// The metadata, version and compression of a file.
fn properties(metadata: &ParquetMetaData) -> WriterProperties {
    let file = metadata.file_metadata();
    let version = if file.version() == 1 { WriterVersion::PARQUET_1_0 } else { WriterVersion::PARQUET_2_0 };
    let mut properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_key_value_metadata(file.key_value_metadata().cloned());
    for column in metadata.row_groups().first().map_or(&[][..], |group| group.columns()) {
        properties = properties.set_column_compression(column.column_path().clone(), column.compression());
    }
    properties.build()
}

/// Whether the values of a column are texts in no list or group.
pub(super) fn has_texts(from: Chunks, column: &str) -> io::Result<bool> {
    let reader = SerializedFileReader::new(from).map_err(failed)?;
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let is_text = |own: &ColumnDescPtr| {
        own.path().parts() == [column]
            && own.max_rep_level() == 0
            && own.physical_type() == PhysicalType::BYTE_ARRAY
    };
    Ok(columns.iter().any(is_text))
}

/// Whether the column of this number has this name, and is in no group.
fn is_column(metadata: &ParquetMetaData, number: usize, name: &str) -> bool {
    metadata.file_metadata().schema_descr().column(number).path().parts() == [name]
}

/// Copies a column; `text` is another text for a row, in a column of texts.
fn copy_column(
    from: ColumnReader,
    to: &mut ColumnWriter<'_>,
    kept: &[bool],
    text: &mut dyn FnMut(usize) -> Result<Option<String>>,
) -> Result<()> {
    use ColumnReader as R;
    use ColumnWriter as W;
    match (from, to) {
        (R::BoolColumnReader(from), W::BoolColumnWriter(to)) => copy_values(from, to, kept, same),
        (R::Int32ColumnReader(from), W::Int32ColumnWriter(to)) => copy_values(from, to, kept, same),
        (R::Int64ColumnReader(from), W::Int64ColumnWriter(to)) => copy_values(from, to, kept, same),
        (R::Int96ColumnReader(from), W::Int96ColumnWriter(to)) => copy_values(from, to, kept, same),
        (R::FloatColumnReader(from), W::FloatColumnWriter(to)) => copy_values(from, to, kept, same),
        (R::DoubleColumnReader(from), W::DoubleColumnWriter(to)) => copy_values(from, to, kept, same),
        (R::ByteArrayColumnReader(from), W::ByteArrayColumnWriter(to)) => {
            let other = |row, own| Ok(text(row)?.map_or(own, |text| ByteArray::from(text.into_bytes())));
            copy_values(from, to, kept, other)
        }
        (R::FixedLenByteArrayColumnReader(from), W::FixedLenByteArrayColumnWriter(to)) => {
            copy_values(from, to, kept, same)
        }
        _ => Err(ParquetError::General("a column was written with another type".to_owned())),
    }
}

/// The value of a row.
#[expect(clippy::unnecessary_wraps, reason = "another text may be unreadable")]
fn same<T>(_: usize, own: T) -> Result<T> {
    Ok(own)
}

/// Copies the values of the rows that are kept, with their levels, as `change` changes them.
///
/// A row begins at a level with repetition 0. A level has a value if its definition is the largest one.
fn copy_values<T: DataType>(
    mut from: ColumnReaderImpl<T>,
    to: &mut ColumnWriterImpl<'_, T>,
    kept: &[bool],
    mut change: impl FnMut(usize, T::T) -> Result<T::T>,
) -> Result<()> {
    let descriptor = to.get_descriptor();
    let (most_defined, is_repeated) = (descriptor.max_def_level(), descriptor.max_rep_level() > 0);
    let is_optional = most_defined > 0;
    let mut next = kept.iter();
    while !next.as_slice().is_empty() {
        let (mut defined, mut repeated, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let wanted = next.as_slice().len().min(AT_ONCE);
        let (rows, _, levels) = from.read_records(
            wanted,
            is_optional.then_some(&mut defined),
            is_repeated.then_some(&mut repeated),
            &mut values,
        )?;
        if rows == 0 {
            return Err(ParquetError::General("a column has fewer rows than the file".to_owned()));
        }
        let (mut kept_defined, mut kept_repeated, mut kept_values) = (Vec::new(), Vec::new(), Vec::new());
        let (mut values, mut is_kept) = (values.into_iter(), false);
        for level in 0..levels {
            if !is_repeated || repeated[level] == 0 {
                is_kept = next.next().is_some_and(|kept| *kept);
            }
            let value = if !is_optional || defined[level] == most_defined { values.next() } else { None };
            if is_kept {
                kept_defined.extend(defined.get(level));
                kept_repeated.extend(repeated.get(level));
                let row = kept.len() - next.as_slice().len() - 1;
                kept_values.extend(value.map(|own| change(row, own)).transpose()?);
            }
        }
        let defined = is_optional.then_some(&kept_defined[..]);
        let repeated = is_repeated.then_some(&kept_repeated[..]);
        to.write_batch(&kept_values, defined, repeated)?;
    }
    Ok(())
}

/// The value of a column, of a field of a group, or the texts of a path.
///
/// # Errors
/// If the path leads to something else than texts.
fn value(row: &Row, name: &str) -> io::Result<Option<String>> {
    let field =
        |wanted: &str| row.get_column_iter().find(|(column, _)| *column == wanted).map(|(_, field)| field);
    if let Some(field) = field(name) {
        return Ok(shown(field));
    }
    if let Some(path) = Path::of(name) {
        return field(path.outer).map_or(Ok(None), |field| path.value(field));
    }
    match name.split_once('.').and_then(|(outer, inner)| Some((field(outer)?, inner))) {
        Some((Field::Group(row), inner)) => value(row, inner),
        _ => Ok(None),
    }
}

impl Node for &Field {
    fn open(self) -> Opened<Self> {
        match self {
            Field::Null => Opened::Null,
            Field::Str(text) => Opened::Text(text.clone()),
            Field::Bytes(_) => shown(self).map_or(Opened::Other("bytes".to_owned()), Opened::Text),
            Field::ListInternal(list) => Opened::Elements(list.elements().iter().collect()),
            Field::Group(row) => {
                let fields = row.get_column_iter().map(|(name, field)| (name.clone(), field));
                Opened::Object(fields.collect())
            }
            Field::MapInternal(_) => Opened::Other("a map".to_owned()),
            _ => Opened::Other("a number or a time".to_owned()),
        }
    }
}

/// Bytes in base64, of a group those of its field `bytes`; anything else as text.
fn encoded(field: &Field) -> Option<String> {
    match field {
        Field::Bytes(bytes) => Some(BASE64_STANDARD.encode(bytes.data())),
        Field::Group(row) => encoded(row.get_column_iter().find(|(name, _)| *name == "bytes")?.1),
        _ => shown(field),
    }
}

/// A value as text: times as numbers, in their own unit.
fn shown(field: &Field) -> Option<String> {
    match field {
        Field::Null => None,
        Field::Str(text) => Some(text.clone()),
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data()).ok().map(str::to_owned),
        Field::Date(number) | Field::TimeMillis(number) => Some(number.to_string()),
        Field::TimeMicros(number) | Field::TimestampMillis(number) | Field::TimestampMicros(number) => {
            Some(number.to_string())
        }
        other => Some(other.to_string()),
    }
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use parquet::schema::parser::parse_message_type;

    use super::super::Opens;
    use super::*;

    /// Two rows: a list of three turns, of which one says nothing, and an empty list.
    fn write(path: &std::path::Path) {
        let schema = "message m { optional group turns (LIST) { repeated group list {
            optional group element { optional binary say (UTF8); required int32 n; } } } }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut writer =
            SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let (says, numbers) = ([4, 3, 4, 1], [3, 3, 3, 1]);
        let repeated = [0, 1, 1, 0];
        let texts = ["one", "two"].map(ByteArray::from);
        while let Some(mut to) = group.next_column().unwrap() {
            match to.untyped() {
                ColumnWriter::ByteArrayColumnWriter(to) => {
                    to.write_batch(&texts, Some(&says), Some(&repeated))
                }
                ColumnWriter::Int32ColumnWriter(to) => {
                    to.write_batch(&[1, 2, 3], Some(&numbers), Some(&repeated))
                }
                _ => unreachable!(),
            }
            .unwrap();
            to.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn the_texts_of_a_list_of_groups_are_one_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        write(&path);
        let values = |name: &str| {
            rows(path.as_path().chunks().unwrap(), &[name], None)
                .unwrap()
                .collect::<io::Result<Vec<Values>>>()
        };
        let found = values("turns[].say").unwrap();
        assert_eq!(found, [[Some("one\ntwo".to_owned())], [None]]);
        for (name, expected) in [
            ("turns[].n", "the column \"turns[].n\": turns[0].n is a number or a time, and not a string"),
            ("turns[].said", "in turns[2], there is no field \"said\"; there are say, n"),
            ("turns.say[]", "turns is an array, and not an object"),
        ] {
            let error = values(name).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
