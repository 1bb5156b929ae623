//! Formats and compressions that the first bytes of a file show, whatever its name is.

use std::io;

use super::arrow::MARK;
use super::tar::APPLE_DOUBLE;
use super::{Format, Opens, Packing, Reading, wrong};

/// Files that are not read: their first bytes, what they are, and what helps.
const FOREIGN: [(&[u8], &str, &str); 21] = [
    (b"\x1f\x8b\x08", "gzip data that are packed twice", "unpack it once with gunzip"),
    (b"\x28\xb5\x2f\xfd", "zstd data that are packed twice", "unpack it once with unzstd"),
    (b"\xfd7zXZ\0", "xz data", "unpack it with unxz"),
    (b"PK\x03\x04", "a zip archive", "give it a name with .zip"),
    (b"PK\x05\x06", "an empty zip archive", "there is nothing in it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it with 7z x"),
    (b"Rar!\x1a\x07", "a rar archive", "unpack it with unrar x"),
    (b"\x04\x22\x4d\x18", "lz4 data", "unpack it with unlz4"),
    (b"\xff\x06\0\0sNaPpY", "snappy data", "unpack it with snzip -d"),
    (b"\x1f\x9d", "data of compress", "unpack it with uncompress"),
    (b"LZIP\x01", "lzip data", "unpack it with lzip -d"),
    (
        PARQUET,
        "Parquet",
        "it is read from a file of its own without --format, not in archives or from a pipe",
    ),
    (b"Obj\x01", "an Avro file", "write it as JSON lines"),
    (MARK, "Arrow", "it is read from a file of its own without --format, not in archives or from a pipe"),
    (b"FEA1", "Feather 1", "write it as Feather 2, which is Arrow, or as Parquet"),
    (b"SQLite format 3\0", "a SQLite database", "export its table as CSV"),
    (b"%PDF-", "a PDF", "extract its text with pdftotext"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of an old office program", "save it as text or CSV"),
    (b"{\\rtf", "an RTF document", "save it as text"),
    (b"filedesc://", "an ARC file", "convert it to WARC"),
    (&APPLE_DOUBLE, "the attributes that macOS keeps of a file", "remove the files that begin with ._"),
];
/// The bytes that show the compression of a file.
const FIRST: usize = 16;
/// How Parquet begins: its mark, and the first field of a header.
const PARQUET: &[u8] = b"PAR1\x15";
/// How bzip2 data begin, around a digit: a text may begin with three such letters.
const BZIP2: (&[u8], &[u8]) = (b"BZh", b"1AY&SY");
/// Where a tar archive has its mark.
const TAR: (usize, &[u8]) = (257, b"ustar");

impl Packing {
    /// The compression of which the first bytes are.
    fn of(first: &[u8]) -> Packing {
        match first {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            // A frame, and one that is skipped.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
            _ => Packing::None,
        }
    }

    /// The compression of data with these first bytes. The one that the name tells is believed of bytes that
    /// are no text: its reader says what is wrong with them.
    fn of_data(first: &[u8], named: Packing) -> Packing {
        let first = &first[..first.len().min(FIRST)];
        let is_text = first.iter().all(|byte| *byte >= b' ' || b"\t\r\n".contains(byte));
        match Packing::of(first) {
            Packing::None if is_text && !first.is_empty() => Packing::None,
            Packing::None => named,
            found => found,
        }
    }

    /// The packing of data that are read.
    pub fn of_read(read: &mut Reading<'_>, named: Packing) -> Packing {
        read.fill_buf().map_or(named, |first| Packing::of_data(first, named))
    }

    /// The packing of a file.
    pub fn of_file(from: &(impl Opens + ?Sized)) -> Packing {
        Packing::of_data(&from.beginning(FIRST as u64), Packing::named(from.name()))
    }
}

impl Format {
    /// The format of a file: the one that the user names, else Parquet or Arrow if it begins so, else the one
    /// that its name tells, else JSON lines.
    pub fn of_file(from: &(impl Opens + ?Sized), named: Option<Format>) -> Format {
        named.unwrap_or_else(|| {
            let first = from.beginning(FIRST as u64);
            match () {
                () if first.starts_with(PARQUET) => Format::Parquet,
                () if first.starts_with(MARK) => Format::Arrow,
                () => Format::named(from.name()).unwrap_or(Format::Jsonl),
            }
        })
    }
}

/// Refuses what is none of the formats, after decompression. A charset that the user names is believed.
///
/// # Errors
/// What it is, and what helps.
pub(super) fn refuse_foreign(read: &mut Reading<'_>, format: Format, is_named: bool) -> io::Result<()> {
    let first = read.fill_buf()?;
    let lines = format == Format::Jsonl;
    if lines && first.trim_ascii_start().starts_with(b"<") {
        return Err(wrong("it is HTML or XML, not JSON: --format text --html reads it as a page"));
    }
    let charset = match first {
        _ if is_named => None,
        [1..=255, 0, 1..=255, 0, ..] => Some("utf-16le"),
        [0, 1..=255, 0, 1..=255, ..] => Some("utf-16be"),
        _ => None,
    };
    if let Some(charset) = charset {
        return Err(wrong(format!("it is UTF-16 without a byte order mark: --charset {charset} names it")));
    }
    let is_at = |at: usize, mark: &[u8]| first.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let found = FOREIGN.iter().find(|(start, ..)| is_at(0, start)).map(|(_, what, help)| (*what, *help));
    let is_bzip2 = is_at(0, BZIP2.0) && is_at(4, BZIP2.1);
    let found = found
        .or(is_bzip2.then_some(("bzip2 data", "unpack it with bunzip2")))
        .or(is_at(TAR.0, TAR.1).then_some(("a tar archive", "give it a name with .tar")));
    match found {
        Some((what, help)) => Err(wrong(format!("it is {what}: {help}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(first: &[u8]) -> Option<String> {
        let mut read: Reading = Box::new(io::Cursor::new(first.to_vec()));
        refuse_foreign(&mut read, Format::Jsonl, false).err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_no_text_is_named_with_the_way_out() {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        archive.append_data(&mut header, "a.txt", &b"x"[..]).unwrap();
        for (first, expected) in [
            (&b"BZh91AY&SY\x12"[..], "it is bzip2 data: unpack it with bunzip2"),
            (b"\xfd7zXZ\0\0", "it is xz data: unpack it with unxz"),
            (b"PK\x03\x04\x14", "it is a zip archive: give it a name with .zip"),
            (b"PAR1\x15\x04", "it is Parquet: it is read from a file"),
            (b"{\0\"\0a\0", "it is UTF-16 without a byte order mark: --charset utf-16le names it"),
            (b"\0{\0\"", "it is UTF-16 without a byte order mark: --charset utf-16be names it"),
            (b"\n<html>", "it is HTML or XML, not JSON: --format text --html reads"),
            (b"\x1f\x8b\x08\0", "it is gzip data that are packed twice"),
            (&archive.into_inner().unwrap(), "it is a tar archive: give it a name with .tar"),
        ] {
            assert!(refused(first).is_some_and(|why| why.starts_with(expected)), "{first:?}");
        }
        for text in
            [&b"BZh is a text"[..], b"PAR1S", b"PK and more", b"LZIP", b"", b"{\"a\":1}", b"WARC/1.0\r\n"]
        {
            assert_eq!(refused(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_first_bytes_decide_about_the_compression() {
        for (first, named, expected) in [
            (&b"\x1f\x8b\x08"[..], Packing::None, Packing::Gzip),
            (b"\x1f\x8b\x08", Packing::Zstd, Packing::Gzip),
            (b"\x28\xb5\x2f\xfd", Packing::None, Packing::Zstd),
            (b"\x5a\x2a\x4d\x18", Packing::Gzip, Packing::Zstd),
            (b"{\"a\": 1}", Packing::Gzip, Packing::None),
            (b"", Packing::Gzip, Packing::Gzip),
            (b"\x1e\x8b\x08\0", Packing::Gzip, Packing::Gzip),
        ] {
            assert_eq!(Packing::of_data(first, named), expected, "{first:?}");
        }
    }
}
