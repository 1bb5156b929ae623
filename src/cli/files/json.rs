//! The elements of a JSON array, one after the other, without the array in memory.

use std::io::{self, BufRead, ErrorKind};

use super::{Reading, wrong};

/// The longest element, in bytes.
const LONGEST: usize = 256 << 20;

/// Whether the file begins with an array. Blanks before it are read.
pub(in crate::cli) fn is_array(read: &mut Reading<'_>) -> io::Result<bool> {
    Ok(after_blanks(read, &mut 0)? == Some(b'['))
}

/// An element of an array.
#[derive(Debug)]
pub(in crate::cli) struct Element {
    /// The line of the file in which it begins.
    pub(in crate::cli) line: u64,
    /// Its bytes, with blanks in place of line breaks. Whether they are JSON is not checked.
    pub(in crate::cli) bytes: Vec<u8>,
}

/// The elements of an array at the beginning of `read`; none follow an error.
pub(in crate::cli) fn elements(read: Reading<'_>) -> impl Iterator<Item = io::Result<Element>> {
    let mut array = Array { read, line: 1, is_open: false };
    let mut is_broken = false;
    std::iter::from_fn(move || {
        let next = if is_broken { None } else { array.next_element().transpose() };
        is_broken |= matches!(next, Some(Err(_)));
        next
    })
}

struct Array<'a> {
    read: Reading<'a>,
    line: u64,
    /// Whether the bracket was read.
    is_open: bool,
}

impl Array<'_> {
    fn next_element(&mut self) -> io::Result<Option<Element>> {
        let is_first = !std::mem::replace(&mut self.is_open, true);
        if is_first {
            after_blanks(&mut self.read, &mut self.line)?;
            self.read.consume(1);
        }
        match after_blanks(&mut self.read, &mut self.line)? {
            Some(b']') => {
                self.read.consume(1);
                return self.end();
            }
            Some(_) if is_first => {}
            Some(b',') => {
                self.read.consume(1);
                after_blanks(&mut self.read, &mut self.line)?;
            }
            Some(_) => return Err(wrong(format!("line {}: there is no comma after the element", self.line))),
            None => return Err(cut(self.line)),
        }
        self.element().map(Some)
    }

    /// Nothing but blanks follows the array.
    fn end(&mut self) -> io::Result<Option<Element>> {
        match after_blanks(&mut self.read, &mut self.line)? {
            None => Ok(None),
            Some(_) => Err(wrong(format!("line {}: there is more after the end of the array", self.line))),
        }
    }

    /// Reads up to the comma or bracket that ends the element.
    fn element(&mut self) -> io::Result<Element> {
        let line = self.line;
        let (mut bytes, mut depth) = (Vec::new(), 0_u64);
        let (mut is_text, mut is_escaped) = (false, false);
        loop {
            let buffer = self.read.fill_buf()?;
            if buffer.is_empty() {
                return Err(cut(line));
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
            if bytes.len() + taken > LONGEST {
                return Err(wrong(format!("line {line}: an element is longer than 256 MiB")));
            }
            let from = bytes.len();
            bytes.extend_from_slice(&buffer[..taken]);
            self.read.consume(taken);
            for byte in &mut bytes[from..] {
                if *byte == b'\n' {
                    self.line += 1;
                    *byte = b' ';
                }
            }
            if end.is_some() {
                return Ok(Element { line, bytes });
            }
        }
    }
}

fn cut(line: u64) -> io::Error {
    let what = format!("the array has no end; the last element begins in line {line}");
    io::Error::new(ErrorKind::UnexpectedEof, what)
}

/// Reads blanks, counting lines. Returns the byte after them, which is not read; `None` at the end.
fn after_blanks(read: &mut Reading<'_>, line: &mut u64) -> io::Result<Option<u8>> {
    loop {
        let buffer = read.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let blanks = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        *line += memchr::memchr_iter(b'\n', &buffer[..blanks]).count() as u64;
        let next = buffer.get(blanks).copied();
        read.consume(blanks);
        if next.is_some() {
            return Ok(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use serde_json::Value;

    use super::*;

    fn read(text: &str, buffer: usize) -> Vec<io::Result<Element>> {
        let mut read: Reading = Box::new(BufReader::with_capacity(buffer, io::Cursor::new(text.to_owned())));
        assert!(is_array(&mut read).unwrap(), "{text}");
        elements(read).take(100).collect()
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
                let found = read(text, buffer).into_iter().map(|element| {
                    let bytes = element.unwrap().bytes;
                    assert!(!bytes.contains(&b'\n'));
                    serde_json::from_slice::<Value>(&bytes).unwrap()
                });
                assert_eq!(found.collect::<Vec<_>>(), whole, "{text}");
            }
        }
        let lines = read("[1,\n\n 2,\n3]", 8).into_iter().map(|element| element.unwrap().line);
        assert_eq!(lines.collect::<Vec<_>>(), [1, 3, 4]);
    }

    #[test]
    fn a_broken_array_ends_with_an_error_after_its_whole_elements() {
        for (text, whole) in
            [("[1,2", 1), ("[{\"a\":1}", 0), ("[1,\"2]", 1), ("[1] 2", 1), ("[", 0), ("[1,", 1)]
        {
            let found = read(text, 16);
            assert!(found.last().unwrap().is_err(), "{text}: {found:?}");
            assert_eq!(found.iter().filter(|element| element.is_ok()).count(), whole, "{text}: {found:?}");
        }
    }
}
