//! Arrow IPC of many types: the values that are read, and copies against row by row.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder, StructBuilder};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    FixedSizeListArray, Float64Array, Int64Array, LargeStringArray, NullArray, RecordBatch, RunArray,
    StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use lookalike_files::{Format, columnar};

/// The rows of a batch.
const ROWS: usize = 50;

/// The text of a row; some rows have none.
fn text(row: usize) -> Option<String> {
    (!row.is_multiple_of(7)).then(|| format!("text {row}"))
}

fn turns(from: usize) -> ArrayRef {
    let fields = vec![Field::new("role", DataType::Utf8, true), Field::new("content", DataType::Utf8, true)];
    let mut turns = ListBuilder::new(StructBuilder::from_fields(fields, 0));
    for row in from..from + ROWS {
        for turn in 0..row % 4 {
            let values = turns.values();
            values.field_builder::<StringBuilder>(0).unwrap().append_value("user");
            let content = (turn != 1).then(|| format!("turn {row}.{turn}"));
            values.field_builder::<StringBuilder>(1).unwrap().append_option(content);
            values.append(true);
        }
        turns.append(row % 5 > 0);
    }
    Arc::new(turns.finish())
}

fn counts(from: usize) -> ArrayRef {
    let mut counts = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in from..from + ROWS {
        counts.keys().append_value("n");
        counts.values().append_value(row as i32);
        counts.append(row % 3 > 0).unwrap();
    }
    Arc::new(counts.finish())
}

fn batch(from: usize) -> RecordBatch {
    let rows = from..from + ROWS;
    let texts = || rows.clone().map(text);
    let numbers = || rows.clone().map(|row| (row % 6 > 0).then_some(row as i64 - 60));
    let sources = ["web", "books", "code"];
    let keys = rows.clone().map(|row| (row % 9 > 0).then_some((row % 3) as i8)).collect();
    let source = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(sources.to_vec())));
    let shard: RunArray<Int32Type> = rows.clone().map(|row| ["a", "b"][row / 20 % 2]).collect();
    let vector = FixedSizeListArray::from_iter_primitive::<arrow_array::types::Float32Type, _, _>(
        rows.clone().map(|row| (row % 8 > 0).then_some([Some(row as f32), None])),
        2,
    );
    let prices = numbers().map(|n| n.map(i128::from)).collect::<Decimal128Array>();
    let times = numbers().collect::<TimestampMicrosecondArray>().with_timezone("Europe/Berlin");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(texts().collect::<StringArray>())),
        ("large", Arc::new(texts().collect::<LargeStringArray>())),
        ("view", Arc::new(texts().collect::<StringViewArray>())),
        ("bytes", Arc::new(texts().map(|t| t.map(String::into_bytes)).collect::<BinaryArray>())),
        ("number", Arc::new(numbers().collect::<Int64Array>())),
        ("float", Arc::new(numbers().map(|n| n.map(|n| n as f64 / 4.0)).collect::<Float64Array>())),
        ("price", Arc::new(prices.with_precision_and_scale(9, 2).unwrap())),
        ("time", Arc::new(times)),
        ("day", Arc::new(numbers().map(|n| n.map(|n| n as i32)).collect::<Date32Array>())),
        ("good", Arc::new(numbers().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>())),
        ("source", Arc::new(source)),
        ("shard", Arc::new(shard)),
        ("vector", Arc::new(vector)),
        ("nothing", Arc::new(NullArray::new(ROWS))),
        ("turns", turns(from)),
        ("counts", counts(from)),
    ];
    let field = |(name, column): &(&str, ArrayRef)| {
        let about = HashMap::from([("origin".to_owned(), format!("the field {name}"))]);
        Field::new(*name, column.data_type().clone(), true).with_metadata(about)
    };
    let fields: Vec<Field> = columns.iter().map(field).collect();
    let about = HashMap::from([("huggingface".to_owned(), "{}".to_owned())]);
    let schema = Arc::new(Schema::new_with_metadata(fields, about));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

fn batches() -> Vec<RecordBatch> {
    (0..4).map(|number| batch(number * ROWS)).collect()
}

fn write(path: &Path, is_stream: bool, compression: Option<CompressionType>) {
    let (batches, file) = (batches(), File::create(path).unwrap());
    let schema = batches[0].schema();
    let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5).unwrap();
    let options = options.try_with_compression(compression).unwrap();
    if is_stream {
        let mut writer = StreamWriter::try_new_with_options(file, &schema, options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = FileWriter::try_new_with_options(file, &schema, options).unwrap();
        writer.write_metadata("footer", "kept");
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }
}

fn read(path: &Path, is_stream: bool) -> Vec<RecordBatch> {
    let file = File::open(path).unwrap();
    if is_stream {
        return StreamReader::try_new(file, None).unwrap().map(Result::unwrap).collect();
    }
    let reader = FileReader::try_new(file, None).unwrap();
    assert_eq!(reader.custom_metadata()["footer"], "kept");
    reader.map(Result::unwrap).collect()
}

const FORMS: [(bool, Option<CompressionType>); 6] = [
    (false, None),
    (false, Some(CompressionType::LZ4_FRAME)),
    (false, Some(CompressionType::ZSTD)),
    (true, None),
    (true, Some(CompressionType::LZ4_FRAME)),
    (true, Some(CompressionType::ZSTD)),
];

#[test]
fn copies_have_the_kept_rows_with_all_columns_and_types() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("a.arrow"), folder.path().join("b.arrow"));
    let all = concat_batches(&batches()[0].schema(), &batches()).unwrap();
    // The second batch loses all rows, and the last rows are not named at all.
    let kept: Vec<bool> =
        (0..4 * ROWS - 5).map(|row| row % 3 != 1 && !(ROWS..2 * ROWS).contains(&row)).collect();
    let rows = kept.iter().enumerate().filter(|(_, kept)| **kept).map(|(row, _)| all.slice(row, 1));
    let rows: Vec<RecordBatch> = rows.collect();
    let expected = concat_batches(&all.schema(), &rows).unwrap();
    let mut sizes = Vec::new();
    for (is_stream, compression) in FORMS {
        write(&from, is_stream, compression);
        assert_eq!(columnar::count(&from, Format::Arrow).unwrap(), 4 * ROWS as u64);
        columnar::copy(&from, Format::Arrow, File::create(&to).unwrap(), &kept, None, None).unwrap();
        let copied = read(&to, is_stream);
        assert_eq!(copied.len(), 3);
        let copied = concat_batches(&copied[0].schema(), &copied).unwrap();
        assert_eq!(copied.schema(), all.schema());
        for (number, field) in all.schema().fields().iter().enumerate() {
            let (own, expected) = (copied.column(number), expected.column(number));
            assert_eq!(own.to_data(), expected.to_data(), "{}", field.name());
        }
        sizes.push(fs::metadata(&to).unwrap().len());
        let more = vec![true; 4 * ROWS + 1];
        let error =
            columnar::copy(&from, Format::Arrow, File::create(&to).unwrap(), &more, None, None).unwrap_err();
        assert!(error.to_string().contains("changed during the run"), "{error}");
    }
    // The bodies are compressed as those of the original.
    assert!(sizes[1] < sizes[0] && sizes[2] < sizes[0] && sizes[1] != sizes[2], "{sizes:?}");
}

#[test]
fn a_copy_can_have_other_texts() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("a.arrow"), folder.path().join("b.arrow"));
    let kept: Vec<bool> = (0..4 * ROWS).map(|row| row % 3 != 1).collect();
    let other = |row: u64| row.is_multiple_of(4).then(|| format!("other {row}"));
    for ((is_stream, compression), column) in FORMS.into_iter().zip(["text", "large", "view"].repeat(2)) {
        write(&from, is_stream, compression);
        columnar::check_replaced(&from, Format::Arrow, column).unwrap();
        let replaced = columnar::Replaced { column, text: &mut |row| Ok(other(row)) };
        let file = File::create(&to).unwrap();
        columnar::copy(&from, Format::Arrow, file, &kept, None, Some(replaced)).unwrap();
        let all = concat_batches(&batches()[0].schema(), &batches()).unwrap();
        assert_eq!(read(&to, is_stream)[0].schema(), all.schema());
        let rows = columnar::rows(&to, Format::Arrow, &[column, "number", "text"], None).unwrap();
        let rows: Vec<_> = rows.map(Result::unwrap).collect();
        let numbers = (0..4 * ROWS).filter(|row| kept[*row]);
        for (row, found) in numbers.zip(&rows) {
            assert_eq!(found[0], other(row as u64).or_else(|| text(row)), "{column}");
            assert_eq!(found[1], (row % 6 > 0).then(|| (row as i64 - 60).to_string()));
            assert!(column == "text" || found[2] == text(row));
        }
        assert_eq!(rows.len(), kept.iter().filter(|kept| **kept).count());
        for other in ["bytes", "source", "turns", "none"] {
            let error = columnar::check_replaced(&from, Format::Arrow, other).unwrap_err().to_string();
            assert!(error.contains("is no column of plain texts"), "{error}");
        }
    }
}

#[test]
fn values_are_read_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let names = ["text", "large", "view", "bytes", "number", "price", "time", "good", "source", "shard"];
    let names = [&names[..], &["vector", "nothing", "counts", "turns[].content", "float"]].concat();
    for (is_stream, compression) in FORMS {
        write(&path, is_stream, compression);
        let rows: Vec<_> =
            columnar::rows(&path, Format::Arrow, &names, None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 4 * ROWS);
        for (row, values) in rows.iter().enumerate() {
            let number = (row % 6 > 0).then_some(row as i64 - 60);
            let hundredths =
                |n: i64| format!("{}{}.{:02}", if n < 0 { "-" } else { "" }, n.abs() / 100, n.abs() % 100);
            let turns = (0..row % 4).filter(|turn| *turn != 1).map(|turn| format!("turn {row}.{turn}"));
            let turns = turns.collect::<Vec<_>>().join("\n");
            let expected = [
                text(row),
                text(row),
                text(row),
                text(row),
                number.map(|n| n.to_string()),
                number.map(hundredths),
                number.map(|n| n.to_string()),
                number.map(|n| (n % 2 == 0).to_string()),
                (row % 9 > 0).then(|| ["web", "books", "code"][row % 3].to_owned()),
                Some(["a", "b"][row / 20 % 2].to_owned()),
                (row % 8 > 0).then(|| format!("[\"{row}.0\",null]")),
                None,
                (row % 3 > 0).then(|| format!("[{{\"key\":\"n\",\"value\":\"{row}\"}}]")),
                (row % 5 > 0 && !turns.is_empty()).then_some(turns),
                number.map(|n| format!("{:?}", n as f64 / 4.0)),
            ];
            assert_eq!(values[..], expected, "row {row}");
        }
    }
    for (name, expected) in [
        ("body", "there is no column \"body\"; there are text, large"),
        ("turns[].said", "there is no field \"said\"; there are role, content"),
        ("turns.content", "no error"),
        ("vector[]", "vector[0] is a number or a time, and not a string"),
    ] {
        let rows = columnar::rows(&path, Format::Arrow, &[name], None);
        let error = rows.and_then(Iterator::collect::<std::io::Result<Vec<_>>>).err();
        let error = error.map_or("no error".to_owned(), |error| error.to_string());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn damaged_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let mut random = fastrand::Rng::with_seed(11);
    for (is_stream, compression) in FORMS {
        write(&path, is_stream, compression);
        let whole = fs::read(&path).unwrap();
        let read = || {
            let rows = columnar::rows(&path, Format::Arrow, &["text", "turns[].content", "source"], None)?;
            rows.collect::<std::io::Result<Vec<_>>>()
        };
        for cut in [0, 4, 9, whole.len() / 3, whole.len() / 2] {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(read().is_err(), "{cut} bytes of {}", whole.len());
        }
        for _ in 0..60 {
            let mut changed = whole.clone();
            (0..4).for_each(|_| changed[random.usize(..whole.len())] ^= 1 << random.u8(..8));
            fs::write(&path, &changed).unwrap();
            // Data without checksums: other values, or an error, but an end.
            _ = read();
        }
    }
}
