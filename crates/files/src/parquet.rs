//! Parquet files: the values of a few columns, and copies with some of the rows.
//!
//! A copy is made column by column, with the levels of nested values, so that no type is converted: it has
//! the schema, the metadata, the row groups and the compression of the original. Row groups without a row are
//! left out. Memory: the pages of one column of one row group, and 1,024 of its rows.
//!
//! *Absent*: encryption; the compression LZO.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

use super::original::Chunks;
use super::{Counted, Opens, missing, wrong};

/// The rows that are copied at a time.
const AT_ONCE: usize = 1024;

/// The bytes of row groups that are copied to know the size of a copy.
const COPIED: i64 = 32 << 20;

/// The values of columns in one row, as text; `None` for a value that is missing.
pub type Values = Vec<Option<String>>;

/// The rows of a file with these columns, in order; `a.b` is the column of this name, or the field `b` of the
/// group `a`.
///
/// # Errors
/// If the file cannot be read, or has no such column. No row follows an error.
pub fn rows<F: Opens + ?Sized>(
    from: &F,
    names: &[&str],
) -> io::Result<impl Iterator<Item = io::Result<Values>> + Send + use<F>> {
    let reader = SerializedFileReader::new(from.chunks()?).map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema();
    let columns = schema.get_fields();
    let mut wanted: Vec<Arc<Type>> = Vec::new();
    for name in names {
        let outer = name.split_once('.').map_or(*name, |(outer, _)| outer);
        let of_name = |name: &str| columns.iter().find(|column| column.name() == name);
        let column = of_name(name)
            .or_else(|| of_name(outer))
            .ok_or_else(|| wrong(missing("column", name, columns.iter().map(|column| column.name()))))?;
        if !wanted.iter().any(|other| other.name() == column.name()) {
            wanted.push(Arc::clone(column));
        }
    }
    let schema = Type::group_type_builder(schema.name()).with_fields(wanted).build().map_err(failed)?;
    let rows = RowIter::from_file_into(Box::new(reader)).project(Some(schema)).map_err(failed)?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Ok(rows.map(move |row| {
        let row = row.map_err(failed)?;
        Ok(names.iter().map(|name| value(&row, name)).collect())
    }))
}

/// The names of the columns.
pub fn columns(from: &(impl Opens + ?Sized)) -> io::Result<Vec<String>> {
    let reader = SerializedFileReader::new(from.chunks()?).map_err(failed)?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    Ok(fields.iter().map(|column| column.name().to_owned()).collect())
}

/// The number of rows.
pub fn count(from: &(impl Opens + ?Sized)) -> io::Result<u64> {
    let reader = SerializedFileReader::new(from.chunks()?).map_err(failed)?;
    Ok(reader.metadata().file_metadata().num_rows() as u64)
}

/// Writes a copy of a file with the rows for which `kept` says so; rows behind its end are left out.
pub fn copy(from: &(impl Opens + ?Sized), to: File, kept: &[bool]) -> io::Result<()> {
    let reader = SerializedFileReader::new(from.chunks()?).map_err(failed)?;
    if reader.metadata().file_metadata().num_rows() < kept.len() as i64 {
        return Err(wrong("the file changed during the run"));
    }
    copied(&reader, to, kept).map_err(failed)
}

/// The size of a copy of all rows. Of a long file some row groups are copied, and the others count alike.
pub fn copied_bytes(from: &(impl Opens + ?Sized)) -> io::Result<u64> {
    let reader = SerializedFileReader::new(from.chunks()?).map_err(failed)?;
    let (mut rows, mut bytes, mut all) = (0, 0, 0);
    for group in reader.metadata().row_groups() {
        if all < COPIED {
            rows += group.num_rows() as usize;
            bytes += group.compressed_size();
        }
        all += group.compressed_size();
    }
    let mut to = Counted(io::sink(), Arc::default());
    copied(&reader, &mut to, &vec![true; rows]).map_err(failed)?;
    let copied = to.1.load(Ordering::Relaxed);
    Ok((copied as f64 * all.max(1) as f64 / bytes.max(1) as f64) as u64)
}

fn copied<W: Write + Send>(reader: &SerializedFileReader<Chunks>, to: W, kept: &[bool]) -> Result<()> {
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    let mut writer = SerializedFileWriter::new(to, schema, Arc::new(properties(metadata)))?;
    let mut rest = kept;
    for number in 0..metadata.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let rows = group.metadata().num_rows() as usize;
        let (of_group, after) = rest.split_at(rows.min(rest.len()));
        rest = after;
        if !of_group.contains(&true) {
            continue;
        }
        let mut out = writer.next_row_group()?;
        let mut column = 0;
        while let Some(mut to) = out.next_column()? {
            copy_column(group.get_column_reader(column)?, to.untyped(), of_group)?;
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

fn copy_column(from: ColumnReader, to: &mut ColumnWriter<'_>, kept: &[bool]) -> Result<()> {
    use ColumnReader as R;
    use ColumnWriter as W;
    match (from, to) {
        (R::BoolColumnReader(from), W::BoolColumnWriter(to)) => copy_values(from, to, kept),
        (R::Int32ColumnReader(from), W::Int32ColumnWriter(to)) => copy_values(from, to, kept),
        (R::Int64ColumnReader(from), W::Int64ColumnWriter(to)) => copy_values(from, to, kept),
        (R::Int96ColumnReader(from), W::Int96ColumnWriter(to)) => copy_values(from, to, kept),
        (R::FloatColumnReader(from), W::FloatColumnWriter(to)) => copy_values(from, to, kept),
        (R::DoubleColumnReader(from), W::DoubleColumnWriter(to)) => copy_values(from, to, kept),
        (R::ByteArrayColumnReader(from), W::ByteArrayColumnWriter(to)) => copy_values(from, to, kept),
        (R::FixedLenByteArrayColumnReader(from), W::FixedLenByteArrayColumnWriter(to)) => {
            copy_values(from, to, kept)
        }
        _ => Err(ParquetError::General("a column was written with another type".to_owned())),
    }
}

/// Copies the values of the rows that are kept, with their levels.
///
/// A row begins at a level with repetition 0. A level has a value if its definition is the largest one.
fn copy_values<T: DataType>(
    mut from: ColumnReaderImpl<T>,
    to: &mut ColumnWriterImpl<'_, T>,
    kept: &[bool],
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
                kept_values.extend(value);
            }
        }
        let defined = is_optional.then_some(&kept_defined[..]);
        let repeated = is_repeated.then_some(&kept_repeated[..]);
        to.write_batch(&kept_values, defined, repeated)?;
    }
    Ok(())
}

/// The value of a column, or of a field of a group.
fn value(row: &Row, name: &str) -> Option<String> {
    let field =
        |wanted: &str| row.get_column_iter().find(|(column, _)| *column == wanted).map(|(_, field)| field);
    if let Some(field) = field(name) {
        return shown(field);
    }
    let (outer, inner) = name.split_once('.')?;
    match field(outer)? {
        Field::Group(row) => value(row, inner),
        _ => None,
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
