//! The values of Arrow arrays, as text: times as numbers in their own unit, lists and structs as JSON.

use std::io;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Decimal256Type, DecimalType, Int16Type, Int32Type, Int64Type, RunEndIndexType,
};
use arrow_array::{Array, ArrayRef, RecordBatch, downcast_primitive_array};
use arrow_schema::DataType;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

use super::nested::{Node, Opened, Path};

/// A value of an array.
struct Cell(ArrayRef, usize);

/// The value of a column in a row, of a field of a struct, or the texts of a path.
///
/// # Errors
/// If the path leads to something else than texts.
pub(super) fn value(
    batch: &RecordBatch,
    row: usize,
    name: &str,
    is_bytes: bool,
) -> io::Result<Option<String>> {
    let column = |name: &str| batch.column_by_name(name).map(|column| Cell(Arc::clone(column), row));
    if let Some(cell) = column(name) {
        return Ok(if is_bytes { cell.encoded() } else { cell.shown() });
    }
    if let Some(path) = Path::of(name) {
        return column(path.outer).map_or(Ok(None), |cell| path.value(cell));
    }
    let Some((outer, inner)) = name.split_once('.') else { return Ok(None) };
    Ok(column(outer).and_then(|cell| cell.field(inner)))
}

impl Cell {
    fn field(self, name: &str) -> Option<String> {
        let Opened::Object(fields) = self.open() else { return None };
        let at = |name: &str| fields.iter().position(|(own, _)| own == name);
        if let Some(at) = at(name) {
            return fields.into_iter().nth(at)?.1.shown();
        }
        let (outer, inner) = name.split_once('.')?;
        let at = at(outer)?;
        fields.into_iter().nth(at)?.1.field(inner)
    }

    /// The value as text; `None` if it is missing, or bytes that are no text.
    fn shown(self) -> Option<String> {
        match self.json()? {
            Json::Null => None,
            Json::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }

    /// Bytes in base64, of a struct those of its field `bytes`; anything else as it is shown.
    fn encoded(self) -> Option<String> {
        let Cell(array, at) = &self;
        let at = *at;
        if array.is_null(at) {
            return None;
        }
        let bytes = match array.data_type() {
            DataType::Binary => array.as_binary::<i32>().value(at),
            DataType::LargeBinary => array.as_binary::<i64>().value(at),
            DataType::BinaryView => array.as_binary_view().value(at),
            DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(at),
            DataType::Struct(_) => {
                let bytes = array.as_struct().column_by_name("bytes")?;
                return Cell(Arc::clone(bytes), at).encoded();
            }
            _ => return self.shown(),
        };
        Some(BASE64_STANDARD.encode(bytes))
    }

    fn json(self) -> Option<Json> {
        let scalar = self.scalar();
        Some(match self.open() {
            Opened::Null => Json::Null,
            Opened::Text(text) => Json::String(text),
            Opened::Elements(all) => all.into_iter().map(|one| one.json().unwrap_or_default()).collect(),
            Opened::Object(fields) => Json::Object(
                fields.into_iter().map(|(name, one)| (name, one.json().unwrap_or_default())).collect(),
            ),
            Opened::Other(_) => Json::String(scalar?),
        })
    }

    /// A number, a time, or true or false.
    fn scalar(&self) -> Option<String> {
        let Cell(array, at) = self;
        let at = *at;
        let array: &dyn Array = array;
        match array.data_type() {
            DataType::Boolean => Some(array.as_boolean().value(at).to_string()),
            DataType::Decimal128(precision, scale) => {
                let value = array.as_primitive::<Decimal128Type>().value(at);
                Some(Decimal128Type::format_decimal(value, *precision, *scale))
            }
            DataType::Decimal256(precision, scale) => {
                let value = array.as_primitive::<Decimal256Type>().value(at);
                Some(Decimal256Type::format_decimal(value, *precision, *scale))
            }
            _ => downcast_primitive_array!(
                array => Some(format!("{:?}", array.value(at))),
                _ => None
            ),
        }
    }
}

impl Node for Cell {
    fn open(self) -> Opened<Cell> {
        let Cell(array, at) = self;
        if array.is_null(at) {
            return Opened::Null;
        }
        let elements =
            |all: ArrayRef| Opened::Elements((0..all.len()).map(|at| Cell(all.clone(), at)).collect());
        let of_bytes = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Opened::Text(text.to_owned()),
            Err(_) => Opened::Other("bytes".to_owned()),
        };
        match array.data_type() {
            DataType::Null => Opened::Null,
            DataType::Utf8 => Opened::Text(array.as_string::<i32>().value(at).to_owned()),
            DataType::LargeUtf8 => Opened::Text(array.as_string::<i64>().value(at).to_owned()),
            DataType::Utf8View => Opened::Text(array.as_string_view().value(at).to_owned()),
            DataType::Binary => of_bytes(array.as_binary::<i32>().value(at)),
            DataType::LargeBinary => of_bytes(array.as_binary::<i64>().value(at)),
            DataType::BinaryView => of_bytes(array.as_binary_view().value(at)),
            DataType::FixedSizeBinary(_) => of_bytes(array.as_fixed_size_binary().value(at)),
            DataType::List(_) => elements(array.as_list::<i32>().value(at)),
            DataType::LargeList(_) => elements(array.as_list::<i64>().value(at)),
            DataType::ListView(_) => elements(array.as_list_view::<i32>().value(at)),
            DataType::LargeListView(_) => elements(array.as_list_view::<i64>().value(at)),
            DataType::FixedSizeList(_, _) => elements(array.as_fixed_size_list().value(at)),
            DataType::Map(_, _) => elements(Arc::new(array.as_map().value(at))),
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let cell = |(field, column): (&Arc<arrow_schema::Field>, &ArrayRef)| {
                    (field.name().clone(), Cell(column.clone(), at))
                };
                Opened::Object(columns.map(cell).collect())
            }
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                Cell(dictionary.values().clone(), key(dictionary.keys(), at)).open()
            }
            DataType::RunEndEncoded(ends, _) => match ends.data_type() {
                DataType::Int16 => run::<Int16Type>(&array, at),
                DataType::Int32 => run::<Int32Type>(&array, at),
                _ => run::<Int64Type>(&array, at),
            },
            DataType::Union(_, _) => Cell(array.as_union().value(at), 0).open(),
            _ => Opened::Other("a number or a time".to_owned()),
        }
    }
}

/// A key of a dictionary, which the reader has checked.
fn key(keys: &dyn Array, at: usize) -> usize {
    let text = Cell(keys.slice(at, 1), 0).scalar().unwrap_or_default();
    text.parse().unwrap_or_default()
}

fn run<E: RunEndIndexType>(array: &ArrayRef, at: usize) -> Opened<Cell> {
    let runs = array.as_run::<E>();
    Cell(runs.values().clone(), runs.get_physical_index(at)).open()
}
