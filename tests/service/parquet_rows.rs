//! Parquet files that a client sends: their rows as lines, and files of strangers that would take more than
//! they may.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory};

const TYPE: &str = "application/vnd.apache.parquet";

fn zstd() -> WriterProperties {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build()
}

/// A file with the texts and their numbers; each third text is missing, and each row has a list.
fn file(texts: &[ByteArray], properties: WriterProperties) -> Vec<u8> {
    let schema = "message m { optional binary text (UTF8); required int64 n; repeated int32 several; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    for part in texts.chunks(400) {
        let mut group = writer.next_row_group().unwrap();
        let levels: Vec<i16> = (0..part.len()).map(|at| i16::from(at % 3 != 2)).collect();
        let given: Vec<_> = part
            .iter()
            .zip(&levels)
            .filter(|(_, level)| **level == 1)
            .map(|(text, _)| text.clone())
            .collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&given, Some(&levels), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let numbers: Vec<i64> = (0..part.len() as i64).collect();
        column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let (ones, zeros) = (vec![1; part.len()], vec![0; part.len()]);
        column.typed::<Int32Type>().write_batch(&vec![7; part.len()], Some(&ones), Some(&zeros)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

fn texts(count: usize) -> Vec<ByteArray> {
    (0..count).map(|at| ByteArray::from(format!("text 文 {at}").as_str())).collect()
}

async fn send(server: &Server, body: Vec<u8>) -> (StatusCode, Vec<Value>) {
    let request = server.client.post(format!("{}/preview/parquet", server.url)).header("content-type", TYPE);
    let response = request.body(body).send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[tokio::test]
async fn the_rows_of_a_file_are_lines_and_lists_are_named() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];
    for properties in versions.map(|version| {
        let plain = WriterProperties::builder().set_writer_version(version);
        plain.set_column_encoding("text".into(), Encoding::PLAIN).build()
    }) {
        let (status, lines) = send(&server, file(&texts(1_000), properties)).await;
        assert_eq!(status, StatusCode::OK, "{lines:?}");
        let about = json!({"rows": 1000, "columns": ["text", "n"], "left_out": ["several"]});
        assert_eq!(lines[0]["file"], about);
        assert_eq!(lines.len(), 1_001);
        for (at, line) in lines[1..].iter().enumerate() {
            let place = at % 400;
            let mut expected = json!({"n": place});
            if place % 3 != 2 {
                expected["text"] = format!("text 文 {at}").into();
            }
            assert_eq!(line["row"], expected, "{at}");
        }
    }
}

#[tokio::test]
async fn files_that_are_damaged_or_too_large_are_refused_by_name() {
    let data = directory();
    let limits = [("LOOKALIKE_LIMITS__FILE_BYTES", "1 MiB"), ("LOOKALIKE_MEMORY__REQUESTS", "64 MiB")];
    let server = Server::start_with(data.path(), &limits).await;
    // One page of 300 MB in some kilobytes.
    let bomb = file(&[ByteArray::from(vec![b'a'; 300 << 20])], zstd());
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let delta = WriterProperties::builder().set_dictionary_enabled(false);
    let delta = delta.set_column_encoding("text".into(), Encoding::DELTA_BYTE_ARRAY).build();
    let good = file(&texts(50), zstd());
    let cut = [&good[..40], &good[good.len() - 300..]].concat();
    for (body, status, words) in [
        (bomb, StatusCode::INSUFFICIENT_STORAGE, "memory"),
        (file(&texts(50), delta), StatusCode::UNPROCESSABLE_ENTITY, "encoding with delta lengths"),
        (b"id,text\n1,a".to_vec(), StatusCode::UNPROCESSABLE_ENTITY, "PAR1"),
        (b"PAR1\xff\xff\xff\xffPAR1".to_vec(), StatusCode::UNPROCESSABLE_ENTITY, "footer"),
        (cut, StatusCode::UNPROCESSABLE_ENTITY, "cannot be read"),
        (vec![0; 2 << 20], StatusCode::PAYLOAD_TOO_LARGE, "limits.file_bytes"),
    ] {
        let (found, lines) = send(&server, body).await;
        let detail = lines[0]["detail"].as_str().unwrap();
        assert!(found == status && detail.contains(words), "{found}: {detail}");
    }
    let (status, lines) = send(&server, good).await;
    assert_eq!((status, lines.len()), (StatusCode::OK, 51), "{lines:?}");
    let (_, lines) = send(&server, file(&[ByteArray::from(vec![b'a'; 9 << 20])], zstd())).await;
    let refused = lines.last().unwrap().to_string();
    assert!(refused.contains("row 1 has 9437184 bytes; at most 8388608 are read"), "{refused:.300}");
}

#[tokio::test]
async fn changed_bytes_never_end_the_server() {
    let data = directory();
    let server = Server::start_with(data.path(), &[("LOOKALIKE_MEMORY__REQUESTS", "64 MiB")]).await;
    let (good, mut random) = (file(&texts(200), zstd()), fastrand::Rng::with_seed(7));
    let mut refused = 0;
    for _ in 0..300 {
        let mut body = good.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(4..body.len() - 8);
            body[at] = random.u8(..);
        }
        let (status, lines) = send(&server, body).await;
        assert!(!status.is_server_error() || status == StatusCode::INSUFFICIENT_STORAGE, "{lines:?}");
        refused += usize::from(!status.is_success() || lines.last().unwrap().get("error").is_some());
    }
    assert!(refused > 30, "{refused}");
    assert_eq!(send(&server, good).await.0, StatusCode::OK);
}
