//! What the pages of a Parquet file need before one is unpacked, from their headers.
//!
//! The reader unpacks a page whole, into as many bytes as its header says, and takes lengths in a header as
//! they are. So the headers of a file that a stranger sends are read here first: Thrift's compact protocol,
//! of which only sizes, counts and encodings are kept. *Absent*: the contents of pages.

use std::io;

use bytes::Bytes;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::wrong;

/// Bytes of memory for a value of a dictionary besides its own bytes.
const VALUE: usize = 48;
/// Nesting of a header; those that are written have three levels.
const DEPTH: u32 = 8;
/// Encodings whose values take as much memory as the page, with their numbers in the format. In the others
/// (delta lengths and delta byte arrays) a page of a few bytes may hold gigabytes.
const BOUNDED: [i32; 6] = [0, 2, 3, 5, 8, 9];

/// The memory that reading these columns needs at a time: that of the row group that needs most.
///
/// # Errors
/// If a header is not as the format has it, or a page has an encoding without a bound.
pub(super) fn memory(
    bytes: &Bytes,
    about: &ParquetMetaData,
    is_read: impl Fn(&str) -> bool,
) -> io::Result<usize> {
    let mut most = 0;
    for group in about.row_groups() {
        let mut sum = 0_usize;
        for column in group.columns() {
            let path = column.column_path();
            if path.parts().first().is_some_and(|name| is_read(name)) {
                sum = sum.saturating_add(of_column(bytes, column)?);
            }
        }
        most = most.max(sum);
    }
    Ok(most)
}

fn of_column(bytes: &Bytes, column: &ColumnChunkMetaData) -> io::Result<usize> {
    let name = column.column_path().string();
    let broken = || wrong(format!("the column {name:?} has a page that does not fit its file"));
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let start = usize::try_from(start).map_err(|_| broken())?;
    let length = usize::try_from(column.compressed_size()).map_err(|_| broken())?;
    let end = start.checked_add(length).ok_or_else(broken)?;
    let mut rest = bytes.get(start..end).ok_or_else(broken)?;
    let (mut dictionary, mut largest) = (0, 0);
    while !rest.is_empty() {
        let header = Header::read(&mut rest).ok_or_else(broken)?;
        let [packed, unpacked, values] = [header.packed, header.unpacked, header.values]
            .map(|size| usize::try_from(size).map_err(|_| broken()));
        let (unpacked, values) = (unpacked?, values?);
        if header.encoding.is_some_and(|encoding| !BOUNDED.contains(&encoding)) {
            return Err(wrong(format!(
                "the column {name:?} has an encoding with delta lengths: write the file without it"
            )));
        }
        if header.is_dictionary {
            dictionary = dictionary.max(unpacked.saturating_add(values.saturating_mul(VALUE)));
        } else {
            largest = largest.max(unpacked);
        }
        rest = rest.get(packed?..).ok_or_else(broken)?;
    }
    // A page is unpacked while values of the one before it are held.
    Ok(dictionary + 2 * largest)
}

/// What matters of the header of a page.
#[derive(Debug, Default, PartialEq)]
struct Header {
    packed: i32,
    unpacked: i32,
    values: i32,
    encoding: Option<i32>,
    is_dictionary: bool,
}

const BOOLS: [u8; 2] = [1, 2];
const BYTE: u8 = 3;
const SHORT: u8 = 4;
const INT: u8 = 5;
const LONG: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

impl Header {
    /// Reads a header and moves behind it.
    fn read(from: &mut &[u8]) -> Option<Header> {
        let (mut header, mut id) = (Header::default(), 0);
        while let Some(kind) = field(from, &mut id)? {
            match (id, kind) {
                (2, INT) => header.unpacked = int(from)?,
                (3, INT) => header.packed = int(from)?,
                (5 | 7 | 8, STRUCT) => header.read_inner(from, id)?,
                // The reader takes these fields without a look at their types.
                (2 | 3 | 5 | 7 | 8, _) => return None,
                _ => skip(from, kind, DEPTH)?,
            }
        }
        Some(header)
    }

    /// Reads the part about a data page (5), a dictionary (7) or a data page of version 2 (8).
    fn read_inner(&mut self, from: &mut &[u8], of: i16) -> Option<()> {
        let (encoding, mut id) = (if of == 8 { 4 } else { 2 }, 0);
        self.is_dictionary |= of == 7;
        while let Some(kind) = field(from, &mut id)? {
            match (id, kind) {
                (1, INT) => self.values = int(from)?,
                (at, INT) if at == encoding => self.encoding = Some(int(from)?),
                (1, _) => return None,
                (at, _) if at == encoding => return None,
                _ => skip(from, kind, DEPTH)?,
            }
        }
        Some(())
    }
}

/// The type of the next field, whose number becomes `id`; `Some(None)` at the end of the structure.
#[allow(clippy::option_option, reason = "broken, the end, or a type")]
fn field(from: &mut &[u8], id: &mut i16) -> Option<Option<u8>> {
    let head = byte(from)?;
    if head == 0 {
        return Some(None);
    }
    *id = match i16::from(head >> 4) {
        0 => i16::try_from(int(from)?).ok()?,
        step => id.checked_add(step)?,
    };
    Some(Some(head & 15))
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    from.split_off_first().copied()
}

fn number(from: &mut &[u8]) -> Option<u64> {
    let mut all = 0;
    for shift in (0..64).step_by(7) {
        let part = byte(from)?;
        all |= u64::from(part & 127) << shift;
        if part < 128 {
            return Some(all);
        }
    }
    None
}

fn int(from: &mut &[u8]) -> Option<i32> {
    let number = number(from)?;
    i32::try_from((number >> 1) as i64 ^ -((number & 1) as i64)).ok()
}

fn pass(from: &mut &[u8], bytes: u64) -> Option<()> {
    *from = from.get(usize::try_from(bytes).ok()?..)?;
    Some(())
}

/// Moves behind a value of a structure.
fn skip(from: &mut &[u8], kind: u8, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match kind {
        kind if BOOLS.contains(&kind) => Some(()),
        BYTE => pass(from, 1),
        SHORT | INT | LONG => number(from).map(drop),
        DOUBLE => pass(from, 8),
        BINARY => number(from).and_then(|length| pass(from, length)),
        LIST | SET => {
            let head = byte(from)?;
            let length = if head >> 4 == 15 { number(from)? } else { u64::from(head >> 4) };
            elements(from, &[head & 15], length, depth)
        }
        MAP => {
            let length = number(from)?;
            let kinds = if length == 0 { 0 } else { byte(from)? };
            elements(from, &[kinds >> 4, kinds & 15], length, depth)
        }
        STRUCT => {
            let mut id = 0;
            while let Some(kind) = field(from, &mut id)? {
                skip(from, kind, depth)?;
            }
            Some(())
        }
        _ => None,
    }
}

/// Moves behind the elements of a list or a map, in which each takes at least a byte.
fn elements(from: &mut &[u8], kinds: &[u8], length: u64, depth: u32) -> Option<()> {
    for _ in 0..length {
        for kind in kinds {
            if BOOLS.contains(kind) { byte(from).map(drop)? } else { skip(from, *kind, depth)? }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header: a data page of 300 bytes packed and 1,000 unpacked, with statistics, of 7 values.
    const PAGE: [u8; 21] = [
        0x15, 0, 0x15, 0xd0, 0x0f, 0x15, 0xd8, 4, 0x2c, 0x15, 14, 0x15, 16, 0x15, 6, 0x15, 6, 0x1c, 0x18, 0,
        0,
    ];

    #[test]
    fn a_header_has_its_sizes_values_and_encoding() {
        let bytes = [&PAGE[..], &[0, 0, 9]].concat();
        let mut from = &bytes[..];
        let header = Header::read(&mut from).unwrap();
        let expected =
            Header { packed: 300, unpacked: 1_000, values: 7, encoding: Some(8), is_dictionary: false };
        assert_eq!((header, from), (expected, &[9][..]));
    }

    #[test]
    fn lengths_beyond_the_file_wrong_types_and_deep_nesting_are_refused() {
        let long = [&PAGE[..19], &[0xff, 0xff, 0xff, 0xff, 0x7f]].concat();
        let lists = [0x99].repeat(64);
        for bytes in
            [&[][..], &PAGE[..10], &long, &[0x28, 1, 5], &[0x25, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &lists]
        {
            assert_eq!(Header::read(&mut &bytes[..]), None, "{bytes:?}");
        }
    }
}
