//! `dedupe` that drops nothing and says what it would drop, its groups, and the ids that it keeps: with the
//! list of dropped documents.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use serde_json::{Value, json};

use crate::dedupe::{FERRY, done, generated_texts, json_lines, packed, refused};
use crate::server::directory;

/// The document that replaces each dropped one, and the estimated similarity, by ids.
fn replaced(folder: &Path) -> BTreeMap<String, (String, Value)> {
    let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
    let lines = json_lines(&folder.join("d.jsonl")).into_iter();
    lines.map(|line| (id(&line), (id(&line["replaced_by"]), line["similarity"].clone()))).collect()
}

/// Checks the fields of an annotated document.
fn check(
    replaced: &BTreeMap<String, (String, Value)>,
    id: &str,
    of: &Value,
    similarity: &Value,
    cluster: &str,
) {
    match replaced.get(id) {
        Some((by, estimated)) => {
            let is_same = match (similarity.as_f64(), estimated.as_f64()) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-12,
                (a, b) => a == b,
            };
            assert!(is_same, "{id}: {similarity}, {estimated}");
            assert_eq!((of.as_str(), cluster), (Some(&**by), &**by), "{id}");
        }
        None => assert_eq!((of, cluster, similarity), (&Value::Null, id, &Value::Null), "{id}"),
    }
}

#[test]
fn annotated_documents_keep_their_bytes_and_say_what_replaces_them() {
    let folder = directory();
    let texts = generated_texts();
    let line = |number: usize| format!("{{ \"id\": \"渡{number}\", \"text\" :{} }}", json!(texts[number]));
    let lines: String = (0..200).map(|number| format!("{}\r\n", line(number))).collect();
    fs::write(folder.path().join("a.jsonl.gz"), packed(lines.as_bytes())).unwrap();
    let array: Vec<String> = (200..300).map(line).collect();
    fs::write(folder.path().join("b.json"), format!("[ {}\n]", array.join(" ,\n"))).unwrap();
    let rows: String = (300..400).map(|number| format!("\"{}\";c;{number}\r\n", texts[number])).collect();
    fs::write(
        folder.path().join("c.csv"),
        format!("text;id;n\r\n{}", rows.replace(";c;", ";c").replace("\r\n", ";1\r\n")),
    )
    .unwrap();
    let inputs = ["a.jsonl.gz", "b.json", "c.csv", "-o", "out", "--force", "--duplicates", "d.jsonl"];
    for keep in ["first", "longest"] {
        let own = [&inputs[..], &["--keep", keep]].concat();
        let plain = done(folder.path(), &own);
        let expected = replaced(folder.path());
        assert!(expected.len() > 100);
        let annotated = done(folder.path(), &[&own[..], &["--annotate"]].concat());
        assert_eq!(plain, annotated);
        assert_eq!(replaced(folder.path()), expected);
        let read = |name: &str| fs::read(folder.path().join("out").join(name)).unwrap();
        let mut unpacked = String::new();
        MultiGzDecoder::new(&*read("a.jsonl.gz")).read_to_string(&mut unpacked).unwrap();
        let array: Vec<Value> = serde_json::from_slice(&read("b.json")).unwrap();
        assert_eq!((unpacked.lines().count(), array.len()), (200, 100));
        for (number, found) in unpacked.split_terminator("\r\n").enumerate() {
            let start = line(number);
            assert!(found.starts_with(&start[..start.len() - 1]), "{found}");
        }
        let lines = unpacked.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        for found in lines.chain(array) {
            let [id, cluster] = ["id", "cluster_id"].map(|name| found[name].as_str().unwrap());
            check(&expected, id, &found["duplicate_of"], &found["similarity"], cluster);
        }
        let table = String::from_utf8(read("c.csv")).unwrap();
        let mut rows = table.split_terminator("\r\n");
        assert_eq!(rows.next(), Some("text;id;n;duplicate_of;similarity;cluster_id"));
        assert_eq!(rows.clone().count(), 100);
        for row in rows {
            let cells: Vec<&str> = row.split(';').collect();
            let of = if cells[3].is_empty() { Value::Null } else { json!(cells[3]) };
            let similarity = cells[4].parse::<f64>().map_or(Value::Null, |number| json!(number));
            check(&expected, cells[1], &of, &similarity, cells[5]);
        }
    }
}

#[test]
fn parquet_gets_columns_and_keeps_its_own() {
    let folder = directory();
    let path = folder.path().join("a.parquet");
    let schema = "message m { required binary id (UTF8); optional group meta { optional int64 n; } \
                  required binary text (UTF8); }";
    let texts = generated_texts();
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::default()).unwrap();
    for (first, texts) in [(0, &texts[..300]), (300, &texts[300..])] {
        use parquet::column::writer::ColumnWriter;
        use parquet::data_type::ByteArray;
        let mut group = writer.next_row_group().unwrap();
        let mut column = 0;
        while let Some(mut to) = group.next_column().unwrap() {
            let ids = (0..texts.len()).map(|at| format!("d{}", first + at));
            match to.untyped() {
                ColumnWriter::ByteArrayColumnWriter(to) => {
                    let values: Vec<ByteArray> = match column {
                        0 => ids.map(|id| ByteArray::from(&*id)).collect(),
                        _ => texts.iter().map(|text| ByteArray::from(&**text)).collect(),
                    };
                    to.write_batch(&values, None, None).unwrap();
                }
                ColumnWriter::Int64ColumnWriter(to) => {
                    let defined: Vec<i16> = (0..texts.len()).map(|at| at as i16 % 3).collect();
                    let values: Vec<i64> = defined.iter().filter(|level| **level == 2).map(|_| 7).collect();
                    to.write_batch(&values, Some(&defined), None).unwrap();
                }
                _ => unreachable!(),
            }
            to.close().unwrap();
            column += 1;
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
    let own = ["a.parquet", "-o", "out", "--duplicates", "d.jsonl", "--annotate"];
    done(folder.path(), &own);
    let expected = replaced(folder.path());
    let open = |path: &Path| SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let (before, after) = (open(&path), open(&folder.path().join("out/a.parquet")));
    let mut count = 0;
    for (before, after) in before.get_row_iter(None).unwrap().zip(after.get_row_iter(None).unwrap()) {
        let (before, after) = (before.unwrap(), after.unwrap());
        let own: Vec<_> = after.get_column_iter().take(3).collect();
        assert_eq!(own, before.get_column_iter().collect::<Vec<_>>());
        let of = after.get_string(3).map_or(Value::Null, |text| json!(text));
        let similarity = after.get_double(4).map_or(Value::Null, |number| json!(number));
        check(&expected, after.get_string(0).unwrap(), &of, &similarity, after.get_string(5).unwrap());
        count += 1;
    }
    assert_eq!((count, after.metadata().num_row_groups()), (texts.len(), 2));
}

#[test]
fn groups_and_kept_ids_are_those_of_the_dropped_documents() {
    let folder = directory();
    let texts = generated_texts();
    let line =
        |(number, text): (usize, &String)| format!("{}\n", json!({"id": format!("d{number}"), "text": text}));
    fs::write(folder.path().join("a.jsonl"), texts.iter().enumerate().map(line).collect::<String>()).unwrap();
    for more in [&[][..], &["--keep", "longest", "--memory", "3MiB"], &["--clusters", "linked"]] {
        let own =
            ["a.jsonl", "-o", "out", "--force", "--duplicates", "d.jsonl", "--clusters-file", "c.jsonl"];
        done(folder.path(), &[&own[..], &["--keep-ids", "ids"], more].concat());
        let expected = replaced(folder.path());
        let mut found = BTreeMap::new();
        for group in json_lines(&folder.path().join("c.jsonl")) {
            for member in group["members"].as_array().unwrap() {
                let by = (group["kept"]["id"].as_str().unwrap().to_owned(), member["similarity"].clone());
                assert!(found.insert(member["id"].as_str().unwrap().to_owned(), by).is_none());
            }
        }
        assert_eq!(found, expected);
        let ids = fs::read_to_string(folder.path().join("ids")).unwrap();
        let kept: Vec<String> = (0..texts.len())
            .map(|number| format!("d{number}"))
            .filter(|id| !expected.contains_key(id))
            .collect();
        assert_eq!(ids.lines().collect::<Vec<_>>(), kept);
    }
}

#[test]
fn what_cannot_have_notes_or_ids_is_refused() {
    let folder = directory();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.jsonl", &format!("{}\n", json!({"text": FERRY})));
    write("taken.jsonl", &format!("{}\n", json!({"text": FERRY, "similarity": 1})));
    write("taken.csv", &format!("text,cluster_id\n\"{FERRY}\",1\n"));
    write("b.txt", FERRY);
    let mut wide: Vec<u8> = vec![0xff, 0xfe];
    wide.extend("text,id\n市图书馆昨天宣布,渡\n".encode_utf16().flat_map(u16::to_le_bytes));
    fs::write(folder.path().join("wide.csv"), wide).unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["taken.jsonl", "--annotate"], "taken.jsonl:1: there is a field \"similarity\" already"),
        (
            &["taken.csv", "--annotate"],
            "there is a column \"cluster_id\" already, which --annotate would write",
        ),
        (
            &["b.txt", "--annotate"],
            "b.txt: --annotate writes no fields into a text; --duplicates or --clusters-file",
        ),
        (&["b.txt", "--keep-ids", "ids"], "b.txt: texts and images have no ids for --keep-ids"),
        (
            &["a.jsonl", "--keep-ids", "ids"],
            "a.jsonl:1: there is no field \"id\"; there are text; --id-field",
        ),
        (&["wide.csv", "--annotate"], "in the charset of the table, UTF-16LE: make the table UTF-8"),
    ];
    for (arguments, expected) in cases {
        let stderr = refused(folder.path(), &[arguments, &["-o", "out"]].concat());
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(!folder.path().join("ids").exists());
    }
}
