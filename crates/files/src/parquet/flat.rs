//! The rows of a Parquet file in memory as JSON objects, for a server that reads the file of a stranger.
//!
//! It guarantees that reading needs no more memory than it states before the first page is unpacked. Columns
//! with lists or maps are left out and named: a list of a few bytes may have a billion elements. *Absent*:
//! what becomes of the rows.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Repetition;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::{Map, Value};

use super::{failed, pages, shown, wrong};

/// The rows of a file, as many values of a column as are read at once, and bytes of the footer.
const ROWS: i64 = 10_000_000;
const AT_ONCE: usize = 256;
const FOOTER: u32 = 4 << 20;
/// Bytes of the values of a row, which are copied: a page of a few kilobytes may unpack to one of gigabytes.
const ROW: usize = 8 << 20;
/// Bytes of memory for each byte of the footer.
const MEMORY_PER_BYTE: usize = 16;

/// A file whose rows can be read.
pub struct Flat {
    reader: SerializedFileReader<Bytes>,
    schema: Type,
    /// The columns that are read.
    pub columns: Vec<String>,
    /// The columns that are left out, because they have lists or maps.
    pub left_out: Vec<String>,
    /// The number of rows.
    pub rows: u64,
    /// The bytes of memory that reading them needs besides the file.
    pub memory: usize,
}

impl Flat {
    /// Opens a file and checks the headers of its pages.
    ///
    /// # Errors
    /// If it is no Parquet file, or one that cannot be read within bounds.
    pub fn open(bytes: &Bytes) -> io::Result<Flat> {
        let footer = footer(bytes)?;
        let reader = SerializedFileReader::new(bytes.clone()).map_err(failed)?;
        let about = reader.metadata();
        let rows = about.row_groups().iter().map(RowGroupMetaData::num_rows);
        let rows = rows.fold(0_i64, |sum, rows| sum.saturating_add(rows.max(0)));
        if rows > ROWS {
            return Err(wrong(format!("it has {rows} rows; at most {ROWS} are read: split it")));
        }
        let schema = about.file_metadata().schema();
        let (flat, nested): (Vec<_>, Vec<_>) =
            schema.get_fields().iter().cloned().partition(|column| is_flat(column));
        let names = |columns: &[Arc<Type>]| columns.iter().map(|column| column.name().to_owned()).collect();
        let (columns, left_out): (Vec<String>, Vec<String>) = (names(&flat), names(&nested));
        if columns.is_empty() {
            return Err(wrong("every column has lists or maps, which are not read"));
        }
        let memory = pages::memory(bytes, about, |name| columns.iter().any(|column| column == name))?;
        // A value is copied from its page before the bytes of its row are known.
        let memory = memory.saturating_mul(2).saturating_add(footer * MEMORY_PER_BYTE);
        let schema = Type::group_type_builder(schema.name()).with_fields(flat).build().map_err(failed)?;
        Ok(Flat { reader, schema, columns, left_out, rows: rows.unsigned_abs(), memory })
    }

    /// Its rows, without values that are missing.
    ///
    /// # Errors
    /// If the file cannot be read, or a row has too many bytes. No row follows an error.
    pub fn into_rows(self) -> io::Result<impl Iterator<Item = io::Result<Value>> + Send + use<>> {
        let rows =
            RowIter::from_file_into(Box::new(self.reader)).project(Some(self.schema)).map_err(failed)?;
        let rows = rows.with_batch_size(AT_ONCE).take(usize::try_from(self.rows).unwrap_or(usize::MAX));
        Ok(rows.zip(1_u64..).map(|(row, number)| {
            let row = row.map_err(failed)?;
            let bytes = bytes_of(&row);
            if bytes > ROW {
                return Err(wrong(format!("row {number} has {bytes} bytes; at most {ROW} are read")));
            }
            Ok(object(&row))
        }))
    }
}

/// The bytes of the footer.
fn footer(bytes: &Bytes) -> io::Result<usize> {
    let end = bytes.last_chunk::<8>().filter(|end| end.ends_with(b"PAR1") && bytes.starts_with(b"PAR1"));
    let [a, b, c, d, ..] = end.ok_or_else(|| wrong("it is no Parquet file: PAR1 is not at both ends"))?;
    let footer = u32::from_le_bytes([*a, *b, *c, *d]);
    if footer > FOOTER {
        return Err(wrong(format!("its footer has {footer} bytes; at most {FOOTER} are read: split it")));
    }
    Ok(footer as usize)
}

/// Whether a column has at most one value in a row.
fn is_flat(column: &Type) -> bool {
    let info = column.get_basic_info();
    let is_repeated = info.has_repetition() && info.repetition() == Repetition::REPEATED;
    !is_repeated && (column.is_primitive() || column.get_fields().iter().all(|field| is_flat(field)))
}

/// The bytes of the values of a row of variable length.
fn bytes_of(row: &Row) -> usize {
    let of = |field: &Field| match field {
        Field::Str(text) => text.len(),
        Field::Bytes(bytes) => bytes.len(),
        Field::Group(row) => bytes_of(row),
        _ => 0,
    };
    row.get_column_iter().map(|(_, field)| of(field)).sum()
}

fn object(row: &Row) -> Value {
    let values = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
    Value::Object(values.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
}

/// A value: times as numbers in their own unit, as commands read them, and bytes that are no text as their
/// number.
fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(is) => Value::Bool(*is),
        Field::Byte(number) => (*number).into(),
        Field::Short(number) => (*number).into(),
        Field::Int(number) | Field::Date(number) | Field::TimeMillis(number) => (*number).into(),
        Field::Long(number)
        | Field::TimeMicros(number)
        | Field::TimestampMillis(number)
        | Field::TimestampMicros(number) => (*number).into(),
        Field::UByte(number) => (*number).into(),
        Field::UShort(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::ULong(number) => (*number).into(),
        Field::Float(number) => f64::from(*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Group(row) => object(row),
        Field::Bytes(bytes) if std::str::from_utf8(bytes.data()).is_err() => {
            format!("{} bytes", bytes.len()).into()
        }
        other => shown(other).map_or(Value::Null, Value::String),
    }
}
