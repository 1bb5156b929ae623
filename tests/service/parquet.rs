//! Parquet files through `dedupe` and `import`.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, Int96};
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::{Field, Row};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use serde_json::Value;

use crate::server::{Server, command, directory};

/// Columns that are required, optional, repeated and nested, among them types that other formats do not have.
const SCHEMA: &str = "message documents {
    required binary id (UTF8);
    optional binary text (UTF8);
    required int96 at;
    optional group tags (LIST) { repeated group list { optional binary element (UTF8); } }
    optional group meta { optional int64 score; required boolean good; }
    required fixed_len_byte_array(2) raw;
}";
/// The rows of a row group.
const GROUP: usize = 700;

/// A row: its text, its tags, and its score.
type Document = (Option<String>, Option<Vec<Option<&'static str>>>, Option<i64>);

/// Texts of random words, half of them copies of earlier ones with a changed word.
fn documents(count: usize) -> Vec<Document> {
    let mut random = fastrand::Rng::with_seed(9);
    let words: Vec<String> =
        (0..900).map(|_| (0..random.usize(3..9)).map(|_| random.lowercase()).collect()).collect();
    let mut texts: Vec<Vec<String>> = Vec::new();
    for _ in 0..count {
        let mut text: Vec<String> = (0..60).map(|_| random.choice(&words).unwrap().clone()).collect();
        if !texts.is_empty() && random.bool() {
            text.clone_from(random.choice(&texts).unwrap());
            "changed".clone_into(&mut text[random.usize(..60)]);
        }
        texts.push(text);
    }
    let tags = [None, Some(vec![]), Some(vec![Some("a")]), Some(vec![None, Some("b"), Some("c")])];
    let document = |(number, text): (usize, Vec<String>)| {
        (Some(text.join(" ")), tags[number % 4].clone(), (number % 3 > 0).then_some(number as i64 % 17))
    };
    texts.into_iter().enumerate().map(document).collect()
}

fn write(path: &Path, documents: &[Document]) {
    let of = |name: &str| ColumnPath::new(name.split('.').map(str::to_owned).collect());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_column_compression(of("text"), Compression::ZSTD(ZstdLevel::default()))
        .set_column_compression(of("meta.score"), Compression::GZIP(GzipLevel::default()))
        .set_column_compression(of("raw"), Compression::UNCOMPRESSED)
        .set_key_value_metadata(Some(vec![KeyValue::new("origin".to_owned(), "a test".to_owned())]));
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).unwrap();
    for (group, documents) in documents.chunks(GROUP).enumerate() {
        let bytes = |text: &str| ByteArray::from(text);
        let ids: Vec<ByteArray> =
            (0..documents.len()).map(|at| bytes(&format!("d{}", group * GROUP + at))).collect();
        let texts: Vec<ByteArray> = documents.iter().filter_map(|row| row.0.as_deref()).map(bytes).collect();
        let defined: Vec<i16> = documents.iter().map(|row| i16::from(row.0.is_some())).collect();
        let (mut tags, mut tags_defined, mut tags_repeated) = (Vec::new(), Vec::new(), Vec::new());
        for (_, of_row, _) in documents {
            let none: &[Option<&str>] = &[];
            let all = of_row.as_deref().unwrap_or(none);
            if all.is_empty() {
                tags_defined.push(i16::from(of_row.is_some()));
                tags_repeated.push(0);
            }
            for (at, tag) in all.iter().enumerate() {
                tags.extend(tag.map(bytes));
                tags_defined.push(2 + i16::from(tag.is_some()));
                tags_repeated.push(i16::from(at > 0));
            }
        }
        let scores: Vec<i64> = documents.iter().filter_map(|row| row.2).collect();
        // Of rows without a score, every second has no group.
        let meta = |(at, row): (usize, &Document)| match row.2 {
            Some(_) => 2,
            None => at as i16 % 2,
        };
        let meta: Vec<i16> = documents.iter().enumerate().map(meta).collect();
        let good: Vec<bool> = meta.iter().filter(|level| **level > 0).map(|level| *level == 2).collect();
        let good_defined: Vec<i16> = meta.iter().map(|level| i16::from(*level > 0)).collect();
        let mut out = writer.next_row_group().unwrap();
        let mut column = 0;
        while let Some(mut to) = out.next_column().unwrap() {
            let written = match (column, to.untyped()) {
                (0, ColumnWriter::ByteArrayColumnWriter(to)) => to.write_batch(&ids, None, None),
                (1, ColumnWriter::ByteArrayColumnWriter(to)) => to.write_batch(&texts, Some(&defined), None),
                (2, ColumnWriter::Int96ColumnWriter(to)) => {
                    to.write_batch(&vec![Int96::from(vec![1, 2, 2_460_000]); documents.len()], None, None)
                }
                (3, ColumnWriter::ByteArrayColumnWriter(to)) => {
                    to.write_batch(&tags, Some(&tags_defined), Some(&tags_repeated))
                }
                (4, ColumnWriter::Int64ColumnWriter(to)) => to.write_batch(&scores, Some(&meta), None),
                (5, ColumnWriter::BoolColumnWriter(to)) => to.write_batch(&good, Some(&good_defined), None),
                (6, ColumnWriter::FixedLenByteArrayColumnWriter(to)) => {
                    let raw = |at: usize| ByteArray::from(vec![at as u8, 7]).into();
                    to.write_batch(&(0..documents.len()).map(raw).collect::<Vec<_>>(), None, None)
                }
                _ => unreachable!(),
            };
            written.unwrap();
            to.close().unwrap();
            column += 1;
        }
        out.close().unwrap();
    }
    writer.close().unwrap();
}

fn read(path: &Path) -> (SerializedFileReader<File>, Vec<Row>) {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    (reader, rows)
}

fn id(row: &Row) -> String {
    match row.get_column_iter().next().unwrap().1 {
        Field::Str(id) => id.clone(),
        other => panic!("{other}"),
    }
}

fn dedupe(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = command(&[&["dedupe"], arguments].concat()).current_dir(folder).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

fn dropped(folder: &Path, name: &str) -> Vec<(String, String)> {
    let lines = fs::read_to_string(folder.join(name)).unwrap();
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
        (id(&line), id(&line["replaced_by"]))
    };
    lines.lines().map(line).collect()
}

#[test]
fn a_parquet_file_loses_what_the_same_json_lines_lose_and_keeps_all_else() {
    let (folder, documents) = (directory(), documents(3 * GROUP + 11));
    let folder = folder.path();
    write(&folder.join("a.parquet"), &documents);
    let lines = documents.iter().enumerate().map(|(number, (text, _, score))| {
        // No score comes after every score.
        format!(
            "{}\n",
            serde_json::json!({"id": format!("d{number}"), "text": text, "meta": {"score": score}})
        )
    });
    fs::write(folder.join("a.jsonl"), lines.collect::<String>()).unwrap();
    for keep in ["first", "longest"] {
        let run = |input: &str, to: &str| {
            let list = format!("{to}.jsonl");
            let (done, stderr) =
                dedupe(folder, &[input, "-o", to, "--duplicates", &list, "--keep", keep, "--force"]);
            assert!(done, "{stderr}");
            dropped(folder, &list)
        };
        let of_lines = run("a.jsonl", "out-lines");
        let of_rows = run("a.parquet", "out-rows");
        assert_eq!(of_rows, of_lines);
        assert!((200..documents.len() - 200).contains(&of_rows.len()), "{} dropped", of_rows.len());
        let (before, all) = read(&folder.join("a.parquet"));
        let (after, kept) = read(&folder.join("out-rows/a.parquet"));
        let is_dropped = |row: &Row| of_rows.iter().any(|(own, _)| *own == id(row));
        let expected: Vec<Row> = all.into_iter().filter(|row| !is_dropped(row)).collect();
        assert!(kept == expected, "other rows are kept");
        let (before, after) = (before.metadata(), after.metadata());
        assert_eq!(before.file_metadata().schema(), after.file_metadata().schema());
        assert_eq!(before.num_row_groups(), after.num_row_groups());
        let metadata = |of: &parquet::file::metadata::ParquetMetaData| {
            let values = of.file_metadata().key_value_metadata().cloned().unwrap();
            let compressions = of.row_group(0).columns().iter().map(ColumnChunkMetaData::compression);
            (values, compressions.collect::<Vec<_>>())
        };
        assert_eq!(metadata(before), metadata(after));
    }
}

#[test]
fn fields_of_groups_are_keys_and_invalid_files_are_refused() {
    let (folder, mut documents) = (directory(), documents(300));
    let folder = folder.path();
    documents.iter_mut().enumerate().for_each(|(number, row)| row.2 = Some(number as i64 % 17));
    write(&folder.join("a.parquet"), &documents);
    let arguments = ["-o", "out", "--duplicates", "d.jsonl", "--keep", "max:meta.score"];
    let (done, stderr) = dedupe(folder, &[&["a.parquet"], &arguments[..]].concat());
    assert!(done, "{stderr}");
    let score = |id: &str| documents[id[1..].parse::<usize>().unwrap()].2;
    let all = dropped(folder, "d.jsonl");
    assert!(all.len() > 50 && all.iter().all(|(own, by)| score(own) <= score(by)));
    fs::remove_dir_all(folder.join("out")).unwrap();
    fs::remove_file(folder.join("d.jsonl")).unwrap();
    documents[7].0 = None;
    write(&folder.join("missing.parquet"), &documents);
    let whole = fs::read(folder.join("a.parquet")).unwrap();
    fs::write(folder.join("cut.parquet"), &whole[..whole.len() / 2]).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 3..][..64].fill(0xff);
    fs::write(folder.join("damaged.parquet"), damaged).unwrap();
    for (arguments, expected) in [
        (&["missing.parquet"][..], "missing.parquet:8: there is no value in the column \"text\""),
        (&["cut.parquet"], "cut.parquet:1: the file cannot be read: "),
        (&["damaged.parquet"], "damaged.parquet:1: the file cannot be read: EOF"),
        (&["a.parquet", "--text-field", "body"], "there is no column \"body\"; there are id, text"),
        (&["-", "--format", "parquet"], "cannot be read from standard input"),
    ] {
        let arguments = [arguments, &["-o", "out", "--duplicates", "d.jsonl"]].concat();
        let (done, stderr) = dedupe(folder, &arguments);
        assert!(!done && stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(!folder.join("out").exists() && !folder.join("d.jsonl").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_imported_with_the_named_columns() {
    let folder = directory();
    let server = Server::start(&folder.path().join("data")).await;
    let mut documents = documents(40);
    documents[3].0 = None;
    write(&folder.path().join("a.parquet"), &documents);
    let arguments = ["import", "--url", &server.url, "a.parquet", "--id-field", "id"];
    let arguments = [&arguments[..], &["--metadata", "meta.score"]].concat();
    let output = command(&arguments).current_dir(folder.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("there is no value in the column \"text\""), "{stderr}");
    let stored = server.json("/documents/d4").await;
    assert_eq!(stored["metadata"]["meta.score"], Value::from("4"), "{stored}");
    assert!(stderr.contains("39 created") && stderr.contains("1 bad line"), "{stderr}");
    server.stop();
}
