//! The rows of a Parquet file on the wire.

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{Body, Problem};
use lookalike_service::ParquetFile;

/// A line of the answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ParquetLine)]
#[serde(rename_all = "lowercase")]
pub enum ParquetLineOut {
    /// What the file has.
    File(ParquetFileOut),
    /// A row: its values by their columns.
    #[schema(value_type = Object)]
    Row(serde_json::Value),
    /// Why no row follows.
    Error(Box<Body>),
}

impl ParquetLineOut {
    /// The last line of a file that breaks off.
    pub fn error(problem: &Problem) -> ParquetLineOut {
        ParquetLineOut::Error(Box::new(problem.body()))
    }
}

/// What a Parquet file has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ParquetFile)]
pub struct ParquetFileOut {
    /// The number of rows.
    rows: u64,
    /// The columns that are read.
    columns: Vec<String>,
    /// The columns that are left out, because they have lists or maps.
    left_out: Vec<String>,
}

impl From<ParquetFile> for ParquetFileOut {
    fn from(file: ParquetFile) -> ParquetFileOut {
        let ParquetFile { rows, columns, left_out } = file;
        ParquetFileOut { rows, columns, left_out }
    }
}
