//! The rows of a Parquet file that a client sends, piece by piece.
//!
//! The memory for its pages is reserved before the first one is read. *Absent*: storing them.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use super::Service;
use super::error::ServiceError;
use lookalike_engine::EngineError;
use lookalike_files::parquet::Flat;
use lookalike_run::call::{self, Reserved};
use lookalike_run::pool::{Patience, PoolError};

/// Bytes of values, and the time, after which a piece ends.
const PIECE_BYTES: usize = 256 << 10;
const PIECE_TIME: Duration = Duration::from_secs(1);

/// What a file has.
#[derive(Clone, Debug)]
pub struct ParquetFile {
    /// The columns that are read.
    pub columns: Vec<String>,
    /// The columns that are left out, because they have lists or maps.
    pub left_out: Vec<String>,
    /// The number of rows.
    pub rows: u64,
}

/// The rows of a file that were not read yet.
pub struct ParquetRows {
    rows: Box<dyn Iterator<Item = io::Result<Value>> + Send>,
    _memory: Reserved,
}

impl Service {
    /// Opens a file.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] if it cannot be read, and those of the pool and of memory.
    pub async fn open_parquet(&self, bytes: Bytes) -> Result<(ParquetFile, ParquetRows), ServiceError> {
        let file = self.reading(move || Flat::open(&bytes)).await?;
        let memory = call::reserve(file.memory)?;
        let (columns, left_out, rows) = (file.columns.clone(), file.left_out.clone(), file.rows);
        let read = self.reading(move || file.into_rows().map(Box::new)).await?;
        Ok((ParquetFile { columns, left_out, rows }, ParquetRows { rows: read, _memory: memory }))
    }

    /// The next rows of a file with their bytes as JSON, about; `None` at its end.
    ///
    /// # Errors
    /// As [`Service::open_parquet`].
    pub async fn next_rows(
        &self,
        mut from: ParquetRows,
    ) -> Result<Option<(Vec<Value>, ParquetRows)>, ServiceError> {
        let piece = move || {
            let (mut rows, mut bytes, began) = (Vec::new(), 0, Instant::now());
            while bytes < PIECE_BYTES && began.elapsed() < PIECE_TIME {
                let Some(row) = from.rows.next() else { break };
                let row = row?;
                bytes += bytes_of(&row);
                rows.push(row);
            }
            Ok((!rows.is_empty()).then_some((rows, from)))
        };
        self.reading(piece).await
    }

    /// Reads on the pool. The reader of the format may panic at a damaged file.
    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let damaged =
            |why: &str| ServiceError::invalid("body", format!("the Parquet file cannot be read: {why}"));
        match self.on_pool(Patience::Bulk, read).await {
            Ok(read) => read.map_err(|error| damaged(&error.to_string())),
            Err(ServiceError::Engine(EngineError::Pool(PoolError::Panicked))) => {
                Err(damaged("it is damaged"))
            }
            Err(error) => Err(error),
        }
    }
}

/// The bytes of a value, about.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 16,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + bytes_of(value)).sum(),
        _ => 16,
    }
}
