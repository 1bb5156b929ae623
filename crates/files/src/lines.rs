//! Records of JSON: the elements of an array, objects over many lines, and lines, which are slices of the
//! blocks in which they were read.
//!
//! With each record come the bytes that it has in a file of another charset than UTF-8.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use memchr::{memchr_iter, memrchr};

use super::cut::{Cut, Event, LONGEST};
use super::json::{Begin, Element, Part, begin, objects, parts};
use super::{About, Content, InUtf8, Originals, Raw, Reading, ascii_in, wrong};

/// Passes the records of a file of JSON on.
pub(super) fn records_of_json(cut: &mut Cut<'_>, begun: InUtf8<'_>, about: &Arc<About>) -> io::Result<()> {
    let InUtf8 { read, originals, encoding, .. } = begun;
    let (begin, read) = begin(read)?;
    let of = Transcoded { originals, line_break: ascii_in(encoding, b"\n") };
    match begin {
        Begin::Array => array(cut, read, of, about),
        Begin::Objects => spread(cut, read, of, about),
        Begin::Lines => lines(cut, read, of, about),
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

    /// Takes the bytes of a line, without its line break.
    fn take_line(&mut self, line: &[u8]) -> Option<Bytes> {
        let mut line = self.take(line)?;
        if line.ends_with(&self.line_break) {
            line.truncate(line.len() - self.line_break.len());
        }
        Some(line)
    }
}

/// Passes the brackets and elements of an array on.
fn array(cut: &mut Cut<'_>, read: Reading<'_>, mut of: Transcoded, about: &Arc<About>) -> io::Result<()> {
    // The blanks after the last element belong to the bracket that closes the array.
    let (mut blanks, mut is_first) = (Vec::new(), true);
    for part in parts(read) {
        let raw = |line: u64, content: Content| Raw::new(cut.file, line, content);
        let raw = match part? {
            Part::Open(bytes) => raw(0, Content::Bracket(own(of.take(&bytes), &bytes))),
            Part::Close(bytes) => {
                blanks.extend(own(of.take(&bytes), &bytes));
                raw(*cut.line, Content::Bracket(std::mem::take(&mut blanks)))
            }
            Part::Element(Element { line: at, mut bytes }) => {
                if !std::mem::replace(&mut is_first, false) {
                    of.take(b",");
                }
                let after = bytes.split_off(bytes.trim_ascii_end().len());
                let original = of.take(&bytes);
                blanks = own(of.take(&after), &after);
                Raw { original, ..raw(at, Content::Element(bytes)) }
            }
        };
        if !cut.pass_raw(raw, about) {
            break;
        }
    }
    Ok(())
}

/// Passes objects over many lines on, which are lines with line breaks.
fn spread(cut: &mut Cut<'_>, read: Reading<'_>, mut of: Transcoded, about: &Arc<About>) -> io::Result<()> {
    let least = cut.wants.how().block;
    let mut bytes_passed = 0;
    for found in objects(read) {
        let (blanks, Element { line, bytes }) = found?;
        of.take(&blanks);
        let original = of.take(&bytes);
        bytes_passed += bytes.len();
        let raw = Raw { original, ..Raw::new(cut.file, line, Content::Line(bytes.into())) };
        if !object(cut, raw, about)? {
            break;
        }
        if bytes_passed >= least {
            bytes_passed = 0;
            if !(cut.each)(Event::End(&Bytes::new(), &mut Vec::new())) {
                break;
            }
        }
    }
    Ok(())
}

/// Passes an object on, or the header of an export. Returns whether more is wanted.
fn object(cut: &mut Cut<'_>, mut raw: Raw, about: &Arc<About>) -> io::Result<bool> {
    match cut.wants.header(raw.content.bytes()) {
        Some(Ok(())) => raw.content = Content::Header(own(raw.original.clone(), raw.content.bytes())),
        Some(Err(why)) => return Err(wrong(why)),
        None => {}
    }
    Ok(cut.pass_raw(raw, about))
}

/// The bytes in the file.
fn own(original: Option<Bytes>, in_utf8: &[u8]) -> Vec<u8> {
    original.map_or_else(|| in_utf8.to_vec(), Vec::from)
}

/// Passes all lines on, and the end of each block.
fn lines(cut: &mut Cut<'_>, mut read: Reading<'_>, mut of: Transcoded, about: &Arc<About>) -> io::Result<()> {
    let least = cut.wants.how().block;
    let (mut bytes, mut before) = (Vec::new(), 0);
    loop {
        let (end, read) = block(&mut read, &mut bytes, least);
        let (rest, is_last) = (bytes[end..].to_vec(), end == 0);
        bytes.truncate(end);
        let block = Bytes::from(std::mem::take(&mut bytes));
        let mut from = 0;
        let is_open = !block.is_empty() && !block.ends_with(b"\n");
        for end in memchr_iter(b'\n', &block).chain(is_open.then_some(block.len())) {
            let text = block.slice(from..end);
            let original = of.take_line(&block[from..block.len().min(end + 1)]);
            let place = original.is_none().then_some(before + from as u64);
            from = end + 1;
            let raw = Raw { original, place, ..Raw::new(cut.file, *cut.line + 1, Content::Line(text)) };
            if !object(cut, raw, about)? {
                return Ok(());
            }
        }
        before += block.len() as u64;
        read?;
        if is_last || !(cut.each)(Event::End(&block, &mut bytes)) {
            return Ok(());
        }
        if block.is_unique() && bytes.capacity() == 0 {
            bytes = block.into();
        }
        bytes.clear();
        bytes.extend_from_slice(&rest);
    }
}

/// Reads a block of at least `least` bytes behind the `bytes` that belong to it. Returns where its last line
/// ends; 0 at the end of the file. What follows in the same memory is the beginning of the next block.
///
/// An error is returned with the lines before the damage.
fn block(read: &mut Reading<'_>, bytes: &mut Vec<u8>, least: usize) -> (usize, io::Result<()>) {
    bytes.reserve(least);
    let mut end = memrchr(b'\n', bytes);
    loop {
        match end {
            Some(end) if bytes.len() >= least => return (end + 1, Ok(())),
            _ if bytes.len() > LONGEST => return (0, Err(wrong("a line is longer than 256 MiB"))),
            _ => {}
        }
        match read.fill_buf() {
            Ok([]) => return (bytes.len(), Ok(())),
            Ok(more) => {
                end = memrchr(b'\n', more).map(|at| bytes.len() + at).or(end);
                bytes.extend_from_slice(more);
                let count = more.len();
                read.consume(count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (end.map_or(0, |end| end + 1), Err(error)),
        }
    }
}
