//! Backups in memory: a whole backup reads back unchanged, and any other one is refused.

use proptest::prelude::*;

use super::*;
use crate::{CollectionSettings, Lifetime, Row};
use lookalike_hash::{CollectionName, DocumentId, Gram, Hash, Mark, Width};

type Documents = Vec<(DocumentId, Row)>;
type Marks = Vec<(Mark, u64)>;

fn manifest() -> Manifest {
    let name = CollectionName::new("news").unwrap();
    let settings = CollectionSettings { k: 7, ..CollectionSettings::of("copies-64@1".into(), Width::Bits64) };
    Manifest { taken_ms: 1_700_000_000_000, ..Manifest::of(&name, settings) }
}

fn row(hash: u64) -> Row {
    Row {
        hash: Hash::from_u64(hash),
        features: Some(12),
        characters: Some(12),
        place: hash,
        short: hash.is_multiple_of(3),
        written_ms: hash,
        lifetime: match hash % 4 {
            0 => Lifetime::Until(hash),
            1 => Lifetime::Endless,
            2 => Lifetime::Until(hash).planned(hash / 2),
            _ => Lifetime::Endless.planned(hash),
        },
        metadata: hash.is_multiple_of(5).then(|| "{ \"a\":\n1 }".to_owned()),
        text: hash.is_multiple_of(7).then(|| "图书馆\n\u{0}".repeat(9)),
        grams: grams(hash),
        sketch: hash.is_multiple_of(4).then(|| vec![0, 255, hash as u8]),
        thumbnail: (hash % 4 == 1).then(|| vec![255, 0, hash as u8]),
    }
}

fn grams(hash: u64) -> Vec<Gram> {
    (0..hash as u32 % 3).map(|n| Gram { hash: hash << 40, from: n * 70, to: n * 70 + 21 }).collect()
}

fn written(documents: &Documents) -> Vec<u8> {
    written_with(documents, &[])
}

fn written_with(documents: &Documents, marks: &[(Mark, u64)]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), &manifest()).unwrap();
    for (id, row) in documents {
        writer.document(id, row).unwrap();
    }
    for (mark, marked_ms) in marks {
        writer.mark(mark, *marked_ms).unwrap();
    }
    writer.finish().unwrap()
}

fn read_back(bytes: &[u8]) -> Result<(Summary, Documents), BackupError> {
    read_with_marks(bytes).map(|(summary, documents, _)| (summary, documents))
}

fn read_with_marks(bytes: &[u8]) -> Result<(Summary, Documents, Marks), BackupError> {
    let (mut documents, mut marks) = (Documents::new(), Vec::new());
    let take = |item| {
        match item {
            Item::Document(id, row) => documents.push((id, row)),
            Item::Mark(mark, marked_ms) => marks.push((mark, marked_ms)),
        }
        Ok::<_, BackupError>(())
    };
    let summary = read(bytes, LINE_BYTES, |_| Ok(()), take)?;
    Ok((summary, documents, marks))
}

/// Marks in their order.
fn some_marks(count: u64) -> Marks {
    let id = |number: u64| DocumentId::new(&format!("页-{number:06}")).unwrap();
    let marks = (0..count).map(|n| {
        let mark = if n % 3 == 0 { Mark::of(id(n)) } else { Mark::pair(id(n), id(n + 9)).unwrap() };
        (mark, n)
    });
    marks.collect()
}

#[test]
fn marks_read_back_unchanged() {
    for (documents, count) in [(0, 1), (5, 2), (0, 200_000), (300, 1_000)] {
        let (documents, marks) = (some(documents), some_marks(count));
        let bytes = written_with(&documents, &marks);
        let (summary, documents_read, marks_read) = read_with_marks(&bytes).unwrap();
        assert_eq!((summary.documents, summary.marks), (documents.len() as u64, count));
        assert!(documents_read == documents && marks_read == marks);
        assert_eq!(bytes.windows(15).any(|part| part == b"marks/00000002."), count > 100_000);
    }
}

#[test]
fn flawed_marks_are_refused() {
    let bytes = written_with(&some(20), &some_marks(20));
    for end in (0..bytes.len() - 1_024).step_by(7) {
        assert!(read_back(&bytes[..end]).is_err(), "{end}");
    }
    let mut wrong = [some_marks(2), some_marks(1)].concat();
    assert!(read_back(&written_with(&some(1), &wrong)).unwrap_err().to_string().contains("out of order"));
    wrong.truncate(2);
    wrong.push(wrong[1].clone());
    assert!(read_back(&written_with(&some(1), &wrong)).is_err());
}

fn some(count: u64) -> Documents {
    (0..count).map(|i| (DocumentId::new(&format!("id-{i:06}")).unwrap(), row(i))).collect()
}

#[test]
fn documents_read_back_unchanged() {
    for count in [0, 1, 1_000] {
        let documents = some(count);
        let bytes = written(&documents);
        let (summary, read) = read_back(&bytes).unwrap();
        assert_eq!((summary.documents, summary.bytes), (count, bytes.len() as u64));
        assert_eq!(summary.manifest, manifest());
        assert_eq!(read, documents);
    }
}

#[test]
fn a_large_backup_has_several_parts() {
    let text = "0123456789abcdef".repeat(1 << 12);
    let documents: Documents =
        some(400).into_iter().map(|(id, row)| (id, Row { text: Some(text.clone()), ..row })).collect();
    let bytes = written(&documents);
    assert!(bytes.windows(9).filter(|window| window == b"00000003.").count() > 0);
    assert_eq!(read_back(&bytes).unwrap().1, documents);
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = written(&some(300));
    for end in (0..bytes.len() - 1_024).step_by(7) {
        let error = read_back(&bytes[..end]).expect_err("cut");
        assert!(!matches!(error, BackupError::Io(_)), "{end}: {error}");
    }
}

#[test]
fn every_changed_byte_is_refused_or_insignificant() {
    let documents = some(300);
    let bytes = written(&documents);
    let (mut refused, mut same) = (0, 0);
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        match read_back(&bad) {
            Err(BackupError::Io(error)) => panic!("{at}: {error}"),
            Err(_) => refused += 1,
            Ok((summary, read)) => {
                assert_eq!((summary.manifest, read), (manifest(), documents.clone()), "byte {at}");
                same += 1;
            }
        }
    }
    assert!(refused > same, "{refused} refused, {same} the same");
}

#[test]
fn foreign_and_newer_files_are_named() {
    let bytes = written(&some(3));
    let message = |bytes: &[u8]| read_back(bytes).unwrap_err().to_string();
    assert!(message(b"").contains("no backup made by lookalike: it is empty"));
    assert!(message(&[7; 4_096]).contains("it is no tar"));
    assert!(message(&[0; 4_096]).contains("it is empty"));
    let mut other = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    other.append_data(&mut header, "photo.jpg", &b"hi"[..]).unwrap();
    assert!(message(&other.into_inner().unwrap()).contains("begins with \"photo.jpg\""));
    let settings = CollectionSettings::of("x".into(), Width::Bits64);
    let newer = Manifest::of(&CollectionName::new("a").unwrap(), settings);
    let newer = serde_json::to_string(&newer).unwrap().replace("\"version\":1", "\"version\":2,\"extra\":0");
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(newer.len() as u64);
    tar.append_data(&mut header, "manifest.json", newer.as_bytes()).unwrap();
    assert!(message(&tar.into_inner().unwrap()).contains("has format 2; this version reads up to 1"));
    let twice = [bytes.clone(), bytes].concat();
    assert!(message(&twice).contains("other bytes follow it"));
}

#[test]
fn documents_out_of_order_are_refused() {
    let mut documents = some(3);
    documents.swap(0, 2);
    let error = read_back(&written(&documents)).unwrap_err().to_string();
    assert!(
        error.contains("documents/00000001.ndjson.gz at byte") && error.contains("out of order"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..4_000),
        at in 0usize..20_000,
    ) {
        let _ = read_back(&bytes);
        let mut good = written(&some(40));
        let at = at % good.len();
        let end = (at + bytes.len()).min(good.len());
        good[at..end].copy_from_slice(&bytes[..end - at]);
        if let Ok((summary, documents)) = read_back(&good) {
            prop_assert_eq!((summary.manifest, documents), (manifest(), some(40)));
        }
    }
}

/// A thumbnail is a third kind of what an optional sketch is: rows without one have the bytes that they had.
#[test]
fn rows_are_read_again_and_have_the_bytes_of_a_sketch_that_may_be_absent() {
    for hash in 0..30 {
        let row = row(hash);
        assert_eq!(Row::from_bytes(&row.to_bytes()).unwrap(), row);
        let bytes = row.to_bytes();
        match (&row.sketch, &row.thumbnail) {
            (Some(sketch), _) => assert!(bytes.ends_with(&[&[1, 3], &sketch[..]].concat())),
            (None, Some(thumbnail)) => assert!(bytes.ends_with(&[&[2, 3], &thumbnail[..]].concat())),
            (None, None) => assert!(bytes.ends_with(&[0])),
        }
    }
}
