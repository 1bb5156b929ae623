//! The elements of a JSON array, one after the other, without the array in memory, with all of its bytes.

use std::io::{self, BufRead, Cursor, ErrorKind, Read};

use super::{Reading, wrong};

/// The longest element, in bytes.
const LONGEST: usize = 256 << 20;
/// The most blanks before an array, in bytes.
const BLANKS: usize = 64 << 10;

/// Whether the file begins with an array, after blanks. Returns it from its beginning.
pub(in crate::cli) fn is_array(mut read: Reading<'_>) -> io::Result<(bool, Reading<'_>)> {
    let mut blanks = Vec::new();
    let next = loop {
        let next = after_blanks(&mut read, &mut blanks)?;
        if next.is_some() || blanks.len() > BLANKS || read.fill_buf()?.is_empty() {
            break next;
        }
    };
    let read = if blanks.is_empty() { read } else { Box::new(Cursor::new(blanks).chain(read)) };
    Ok((next == Some(b'['), read))
}

/// A part of an array. The bytes of all parts, with a comma between two elements, are those of the file.
#[derive(Debug)]
pub(in crate::cli) enum Part {
    /// The bracket that opens it, after blanks.
    Open(Vec<u8>),
    /// An element, with the blanks around it.
    Element(Element),
    /// The bracket that closes it, with blanks.
    Close(Vec<u8>),
}

/// An element of an array.
#[derive(Debug)]
pub(in crate::cli) struct Element {
    /// The line of the file in which it begins.
    pub(in crate::cli) line: u64,
    /// Its bytes. Whether they are JSON is not checked.
    pub(in crate::cli) bytes: Vec<u8>,
}

/// The parts of an array, with which the file begins after blanks; none follow an error.
pub(in crate::cli) fn parts(read: Reading<'_>) -> impl Iterator<Item = io::Result<Part>> {
    let mut array = Array { read, line: 1, at: At::Begin };
    std::iter::from_fn(move || {
        let next = array.next_part();
        if next.is_err() {
            array.at = At::End;
        }
        next.transpose()
    })
}

/// What was read last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Begin,
    Bracket,
    Comma,
    /// The last element, and the bracket after it.
    Last,
    End,
}

struct Array<'a> {
    read: Reading<'a>,
    line: u64,
    at: At,
}

impl Array<'_> {
    fn next_part(&mut self) -> io::Result<Option<Part>> {
        match self.at {
            At::Begin => {
                let mut bytes = Vec::new();
                while after_blanks(&mut self.read, &mut bytes)?.is_none() && !self.read.fill_buf()?.is_empty()
                {
                }
                self.pass(&bytes);
                bytes.push(b'[');
                self.read.consume(1);
                self.at = At::Bracket;
                Ok(Some(Part::Open(bytes)))
            }
            At::Bracket | At::Comma => {
                let (element, is_last) = self.element()?;
                let is_empty = element.bytes.iter().all(u8::is_ascii_whitespace);
                if is_last && is_empty && self.at == At::Bracket {
                    return self.close(element.bytes);
                }
                self.at = if is_last { At::Last } else { At::Comma };
                Ok(Some(Part::Element(element)))
            }
            At::Last => self.close(Vec::new()),
            At::End => Ok(None),
        }
    }

    /// The end of the array, whose bracket was read after these blanks: nothing but blanks follows.
    fn close(&mut self, mut bytes: Vec<u8>) -> io::Result<Option<Part>> {
        bytes.push(b']');
        let from = bytes.len();
        while !self.read.fill_buf()?.is_empty() {
            if after_blanks(&mut self.read, &mut bytes)?.is_some() {
                self.pass(&bytes[from..]);
                return Err(wrong(format!("line {}: there is more after the end of the array", self.line)));
            }
        }
        self.at = At::End;
        Ok(Some(Part::Close(bytes)))
    }

    /// Counts the lines of bytes that were read.
    fn pass(&mut self, bytes: &[u8]) {
        self.line += memchr::memchr_iter(b'\n', bytes).count() as u64;
    }

    /// Reads an element and the comma or bracket that ends it. Returns whether that is a bracket.
    fn element(&mut self) -> io::Result<(Element, bool)> {
        let (mut bytes, mut depth) = (Vec::new(), 0_u64);
        let (mut is_text, mut is_escaped) = (false, false);
        loop {
            let buffer = self.read.fill_buf()?;
            if buffer.is_empty() {
                self.pass(before(&bytes));
                let what = format!("the array has no end; the last element begins in line {}", self.line);
                return Err(io::Error::new(ErrorKind::UnexpectedEof, what));
            }
            let end = buffer.iter().position(|byte| {
                match (is_text, byte) {
                    (true, _) if is_escaped => is_escaped = false,
                    (true, b'\\') => is_escaped = true,
                    (_, b'"') => is_text = !is_text,
                    (false, b'{' | b'[') => depth += 1,
                    (false, b',' | b']') if depth == 0 => return true,
                    (false, b'}' | b']') => depth = depth.saturating_sub(1),
                    _ => {}
                }
                false
            });
            let taken = end.unwrap_or(buffer.len());
            bytes.extend_from_slice(&buffer[..taken]);
            let is_last = end.map(|end| buffer[end] == b']');
            self.read.consume(taken + usize::from(end.is_some()));
            if bytes.len() > LONGEST {
                self.pass(before(&bytes));
                return Err(wrong(format!("line {}: an element is longer than 256 MiB", self.line)));
            }
            if let Some(is_last) = is_last {
                let first = before(&bytes);
                self.pass(first);
                let line = self.line;
                self.pass(&bytes[first.len()..]);
                return Ok((Element { line, bytes }, is_last));
            }
        }
    }
}

/// The blanks at the beginning.
fn before(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count()]
}

/// Reads the blanks in the buffer. Returns the byte after them, which is not read; `None` if the buffer, or
/// the file, ends before.
fn after_blanks(read: &mut Reading<'_>, blanks: &mut Vec<u8>) -> io::Result<Option<u8>> {
    let buffer = read.fill_buf()?;
    let found = before(buffer).len();
    let next = buffer.get(found).copied();
    blanks.extend_from_slice(&buffer[..found]);
    read.consume(found);
    Ok(next)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use serde_json::Value;

    use super::*;

    fn read(text: &str, buffer: usize) -> Vec<io::Result<Part>> {
        let read: Reading = Box::new(BufReader::with_capacity(buffer, Cursor::new(text.to_owned())));
        let (is_array, read) = is_array(read).unwrap();
        assert!(is_array, "{text}");
        parts(read).take(100).collect()
    }

    fn elements(parts: Vec<io::Result<Part>>) -> Vec<Element> {
        let element = |part| if let Part::Element(element) = part { Some(element) } else { None };
        parts.into_iter().filter_map(|part| element(part.unwrap())).collect()
    }

    #[test]
    fn elements_are_those_of_the_whole_array() {
        for text in [
            "[]",
            " [ ] \n",
            r#"[{"a":"],[}{\"\\"},{"b":[1,[2,{"c":"\\\""}]]} , 7,"x,]",null]"#,
            "\n[\n  {\"a\": 1,\n \"b\": [\n2]},\r\n\n  {}\n]\n",
        ] {
            let whole: Vec<Value> = serde_json::from_str(text).unwrap();
            for buffer in [1, 2, 3, 7, 1024] {
                let found = elements(read(text, buffer));
                let found = found.iter().map(|element| serde_json::from_slice(&element.bytes).unwrap());
                assert_eq!(found.collect::<Vec<Value>>(), whole, "{text}");
                let bytes = read(text, buffer).into_iter().map(|part| match part.unwrap() {
                    Part::Open(bytes) | Part::Close(bytes) => (bytes, false),
                    Part::Element(element) => (element.bytes, true),
                });
                let (mut all, mut is_after) = (Vec::new(), false);
                for (bytes, is_element) in bytes {
                    all.extend(if is_element && is_after { &b","[..] } else { b"" });
                    all.extend(bytes);
                    is_after = is_element;
                }
                assert_eq!(String::from_utf8(all).unwrap(), text);
            }
        }
        let lines = elements(read("\n[1,\n\n 2,\n3]", 8)).into_iter().map(|element| element.line);
        assert_eq!(lines.collect::<Vec<_>>(), [2, 4, 5]);
        let (is_array, mut whole) = is_array(Box::new(Cursor::new(" \n{\"a\": [1]}"))).unwrap();
        let mut text = String::new();
        whole.read_to_string(&mut text).unwrap();
        assert!(!is_array && text == " \n{\"a\": [1]}");
    }

    #[test]
    fn a_broken_array_ends_with_an_error_after_its_whole_elements() {
        for (text, whole) in
            [("[1,2", 1), ("[{\"a\":1}", 0), ("[1,\"2]", 1), ("[1] 2", 1), ("[", 0), ("[1,", 1)]
        {
            let found = read(text, 16);
            assert!(found.last().unwrap().is_err(), "{text}: {found:?}");
            let are_whole = found.iter().filter(|part| matches!(part, Ok(Part::Element(_)))).count();
            assert_eq!(are_whole, whole, "{text}: {found:?}");
        }
    }
}
