//! Records of JSON: the elements of an array, and lines, which are slices of the blocks in which they were
//! read.
//!
//! With each record come the bytes that it has in a file of another charset than UTF-8.

use std::io::{self, Read};

use bytes::Bytes;
use memchr::{memchr_iter, memrchr};

use super::super::files::{Element, InUtf8, Originals, Part, Reading, ascii_in, is_array, parts, wrong};
use super::reader::{BATCH_BYTES, Event, LONGEST};
use super::record::{Columns, Content, Maker, Raw};
use crate::http::ExportHeader;

/// Calls `each` with the records of a file of JSON until it returns `false`. `line` is that of the last
/// record.
pub(super) fn records_of_json(
    begun: InUtf8<'_>,
    file: u32,
    line: &mut u64,
    maker: &Maker,
    each: &mut dyn FnMut(Event) -> bool,
) -> io::Result<()> {
    let InUtf8 { read, originals, encoding, .. } = begun;
    let (is_array, read) = is_array(read)?;
    let mut of = Transcoded { originals, line_break: ascii_in(encoding, b"\n") };
    if is_array {
        array(read, file, line, &mut of, each)
    } else {
        lines((read, &mut of), file, line, maker, each)
    }
}

/// The bytes of a file that is read as UTF-8, if it is in another charset.
struct Transcoded {
    originals: Option<Originals>,
    /// A line break in its charset.
    line_break: Vec<u8>,
}

impl Transcoded {
    /// Takes the bytes of the next part, of which these are in UTF-8. `None` if it is in UTF-8.
    fn take(&mut self, part: &[u8]) -> Option<Bytes> {
        self.originals.as_mut().map(|originals| originals.take(part.len()))
    }

    /// The same for a line, whose line break is left out.
    fn take_line(&mut self, line: &[u8]) -> Option<Bytes> {
        let mut line = self.take(line)?;
        if line.ends_with(&self.line_break) {
            line.truncate(line.len() - self.line_break.len());
        }
        Some(line)
    }
}

/// Calls `each` with the brackets and elements of an array until it returns `false`. `line` is that of the
/// last element.
fn array(
    read: Reading<'_>,
    file: u32,
    line: &mut u64,
    of: &mut Transcoded,
    each: &mut dyn FnMut(Event) -> bool,
) -> io::Result<()> {
    let none = Columns::default();
    // The blanks after the last element belong to the bracket that closes the array.
    let (mut blanks, mut is_first) = (Vec::new(), true);
    for part in parts(read) {
        let raw = match part? {
            Part::Open(bytes) => Raw::new(file, 1, Content::Bracket(own(of.take(&bytes), &bytes))),
            Part::Close(bytes) => {
                blanks.extend(own(of.take(&bytes), &bytes));
                Raw::new(file, *line, Content::Bracket(std::mem::take(&mut blanks)))
            }
            Part::Element(Element { line: at, mut bytes }) => {
                if !std::mem::replace(&mut is_first, false) {
                    of.take(b",");
                }
                let after = bytes.split_off(bytes.trim_ascii_end().len());
                let original = of.take(&bytes);
                blanks = own(of.take(&after), &after);
                *line = at;
                Raw { original, ..Raw::new(file, at, Content::Element(bytes)) }
            }
        };
        if !each(Event::Record(raw, &none)) {
            break;
        }
    }
    Ok(())
}

/// The bytes in the file.
fn own(original: Option<Bytes>, in_utf8: &[u8]) -> Vec<u8> {
    original.map_or_else(|| in_utf8.to_vec(), Vec::from)
}

/// Calls `each` with every line that is not blank, until it returns `false`, and at the end of each block.
/// `line` is the number of the last line that was read.
fn lines(
    (mut read, of): (Reading<'_>, &mut Transcoded),
    file: u32,
    line: &mut u64,
    maker: &Maker,
    each: &mut dyn FnMut(Event) -> bool,
) -> io::Result<()> {
    let none = Columns::default();
    let mut bytes = Vec::new();
    loop {
        let (end, read) = block(&mut read, &mut bytes);
        let (rest, is_last) = (bytes[end..].to_vec(), end == 0);
        bytes.truncate(end);
        let block = Bytes::from(std::mem::take(&mut bytes));
        let mut from = 0;
        let is_open = !block.is_empty() && !block.ends_with(b"\n");
        for end in memchr_iter(b'\n', &block).chain(is_open.then_some(block.len())) {
            let text = block.slice(from..end);
            let original = of.take_line(&block[from..block.len().min(end + 1)]);
            (from, *line) = (end + 1, *line + 1);
            let is_blank = text.iter().all(u8::is_ascii_whitespace);
            let content = match ExportHeader::of(&text) {
                Some(Ok(header)) => match header.and_then(|header| maker.refuses(&header)) {
                    Some(why) => return Err(wrong(why)),
                    None => Content::Header(own(original.clone(), &text)),
                },
                _ => Content::Line(text),
            };
            let raw = Raw { original, ..Raw::new(file, *line, content) };
            if !is_blank && !each(Event::Record(raw, &none)) {
                return Ok(());
            }
        }
        read?;
        if is_last || !each(Event::End(&block, &mut bytes)) {
            return Ok(());
        }
        if block.is_unique() && bytes.capacity() == 0 {
            bytes = block.into();
        }
        bytes.clear();
        bytes.extend_from_slice(&rest);
    }
}

/// Reads a block behind the `bytes` that belong to it. Returns where its last line ends; 0 at the end of the
/// file. What follows in the same memory is the beginning of the next block.
///
/// An error is returned with the lines before the damage.
fn block(read: &mut impl Read, bytes: &mut Vec<u8>) -> (usize, io::Result<()>) {
    loop {
        if bytes.len() >= BATCH_BYTES
            && let Some(end) = memrchr(b'\n', bytes)
        {
            return (end + 1, Ok(()));
        }
        if bytes.len() > LONGEST {
            return (0, Err(wrong("a line is longer than 256 MiB")));
        }
        let more = bytes.len().max(BATCH_BYTES).min(LONGEST + 1 - bytes.len());
        bytes.reserve(more);
        match read.by_ref().take(more as u64).read_to_end(bytes) {
            Ok(0) => return (bytes.len(), Ok(())),
            Ok(_) => {}
            Err(error) => return (memrchr(b'\n', bytes).map_or(0, |end| end + 1), Err(error)),
        }
    }
}
