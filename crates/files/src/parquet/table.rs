//! A Parquet file that is written row by row, from a schema without repeated fields.
//!
//! Costs: the cells of a row group are in memory.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::failed;

/// The rows of a row group.
const ROWS: usize = 32 << 10;

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// There is none.
    Null,
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Real(f64),
    /// Yes or no.
    Truth(bool),
}

/// A file that is written.
pub struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// The cells of the next row group, by columns.
    columns: Vec<Vec<Cell>>,
}

impl<W: Write + Send> Table<W> {
    /// Begins a file with this schema, in the language of Parquet.
    ///
    /// # Errors
    /// If the schema is none, or the file cannot be written.
    pub fn create(to: W, schema: &str) -> io::Result<Table<W>> {
        let schema = Arc::new(parse_message_type(schema).map_err(failed)?);
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let writer = SerializedFileWriter::new(to, schema, Arc::new(properties)).map_err(failed)?;
        let columns = vec![Vec::new(); writer.schema_descr().num_columns()];
        Ok(Table { writer, columns })
    }

    /// Adds a row, which has a cell for each column, in the order of the schema.
    ///
    /// # Errors
    /// If a row group cannot be written.
    pub fn push(&mut self, row: Vec<Cell>) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.push(cell);
        }
        if self.columns[0].len() < ROWS { Ok(()) } else { self.group() }
    }

    fn group(&mut self) -> io::Result<()> {
        let columns = self.columns.iter_mut().map(std::mem::take);
        let written = || -> Result<()> {
            let mut group = self.writer.next_row_group()?;
            for cells in columns {
                let Some(mut column) = group.next_column()? else { break };
                write_cells(column.untyped(), &cells)?;
                column.close()?;
            }
            group.close().map(drop)
        };
        written().map_err(failed)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.columns[0].is_empty() {
            self.group()?;
        }
        self.writer.into_inner().map_err(failed)
    }
}

/// Writes the cells of a column. A cell with a value has the largest definition level, and one without has
/// the level below it.
pub(super) fn write_cells(to: &mut ColumnWriter<'_>, cells: &[Cell]) -> Result<()> {
    macro_rules! write {
        ($to:expr, $cell:pat => $value:expr) => {{
            let most = $to.get_descriptor().max_def_level();
            let levels: Vec<i16> = cells.iter().map(|cell| most - i16::from(*cell == Cell::Null)).collect();
            let value = |cell: &Cell| match cell {
                $cell => Ok(Some($value)),
                Cell::Null if most > 0 => Ok(None),
                _ => Err(ParquetError::General("a cell has another type than its column".to_owned())),
            };
            let values =
                cells.iter().filter_map(|cell| value(cell).transpose()).collect::<Result<Vec<_>>>()?;
            $to.write_batch(&values, (most > 0).then_some(&levels), None).map(drop)
        }};
    }
    match to {
        ColumnWriter::ByteArrayColumnWriter(to) => {
            write!(to, Cell::Text(text) => ByteArray::from(text.as_str()))
        }
        ColumnWriter::Int64ColumnWriter(to) => write!(to, Cell::Whole(number) => *number),
        ColumnWriter::DoubleColumnWriter(to) => write!(to, Cell::Real(number) => *number),
        ColumnWriter::BoolColumnWriter(to) => write!(to, Cell::Truth(truth) => *truth),
        _ => Err(ParquetError::General("no cell has the type of the column".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, columnar::rows};

    #[test]
    fn rows_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let schema = "message m { optional binary name (UTF8); required group place { required int64 line; \
                      optional double share; } optional boolean exact; }";
        let mut table = Table::create(std::fs::File::create(&path).unwrap(), schema).unwrap();
        let row = |number: i64| {
            let name = if number % 3 == 0 { Cell::Null } else { Cell::Text(format!("名 {number}")) };
            let share = if number % 2 == 0 { Cell::Null } else { Cell::Real(0.5) };
            vec![name, Cell::Whole(number), share, Cell::Truth(number > 9)]
        };
        let count = ROWS as i64 + 100;
        (0..count).for_each(|number| table.push(row(number)).unwrap());
        table.finish().unwrap();
        let found =
            rows(&path, Format::Parquet, &["name", "place.line", "place.share", "exact"], None).unwrap();
        let mut number = 0;
        for row in found {
            let name = (number % 3 != 0).then(|| format!("名 {number}"));
            let share = (number % 2 != 0).then(|| "0.5".to_owned());
            let expected = [name, Some(number.to_string()), share, Some((number > 9).to_string())];
            assert_eq!(row.unwrap(), expected);
            number += 1;
        }
        assert_eq!(number, count);
        let mut table = Table::create(Vec::new(), schema).unwrap();
        table.push(vec![Cell::Null, Cell::Null, Cell::Null, Cell::Null]).unwrap();
        assert!(table.finish().is_err(), "a required column has no value");
    }
}
