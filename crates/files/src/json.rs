//! The records of a file of JSON that are no lines: the elements of an array, and objects over many lines.
//!
//! They are read one after the other, without the file in memory, with all of its bytes.

use std::io::{self, BufRead, Cursor, ErrorKind, Read};

use memchr::memchr;
use serde::de::IgnoredAny;

use super::{Reading, wrong};

/// The longest element, in bytes.
const LONGEST: usize = 256 << 20;
/// The most bytes that are read to see how a file begins.
const AHEAD: usize = 64 << 10;

/// How a file of JSON begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// With an array.
    Array,
    /// With an object over many lines, as `jq` writes it, or with several in one line.
    Objects,
    /// With anything else.
    Lines,
}

/// How the file begins, after blanks. Returns it from its beginning.
pub(super) fn begin(mut read: Reading<'_>) -> io::Result<(Begin, Reading<'_>)> {
    let mut before = Vec::new();
    let next = loop {
        let next = after_blanks(&mut read, &mut before)?;
        if next.is_some() || before.len() > AHEAD || read.fill_buf()?.is_empty() {
            break next;
        }
    };
    let begin = match next {
        Some(b'[') if is_ahead(&mut read, &mut before, is_followed)? => Begin::Lines,
        Some(b'[') => Begin::Array,
        Some(b'{') if is_ahead(&mut read, &mut before, is_spread)? => Begin::Objects,
        _ => Begin::Lines,
    };
    let read = if before.is_empty() { read } else { Box::new(Cursor::new(before).chain(read)) };
    Ok((begin, read))
}

/// What the bytes from here on tell; `false` if they do not. What is read is kept in `before`.
fn is_ahead(
    read: &mut Reading<'_>,
    before: &mut Vec<u8>,
    tell: impl Fn(&[u8]) -> Option<bool>,
) -> io::Result<bool> {
    let from = before.len();
    loop {
        let buffer = read.fill_buf()?;
        let is_last = buffer.is_empty();
        before.extend_from_slice(buffer);
        if let Some(told) = tell(&before[from..]) {
            before.truncate(before.len() - buffer.len());
            return Ok(told);
        }
        if is_last || before.len() > AHEAD {
            before.truncate(before.len() - buffer.len());
            return Ok(false);
        }
        let count = buffer.len();
        read.consume(count);
    }
}

/// Whether a line that is a whole array comes before another record; `None` if these bytes are too few.
fn is_followed(bytes: &[u8]) -> Option<bool> {
    let (first, rest) = bytes.split_at(memchr(b'\n', bytes)?);
    if serde_json::from_slice::<IgnoredAny>(first).is_err() {
        return Some(false);
    }
    rest.iter().find(|byte| !byte.is_ascii_whitespace()).map(|byte| matches!(byte, b'{' | b'['))
}

/// Whether an object goes on in the next line, or another one follows in its line; `None` if these bytes of
/// it are too few. A line that is damaged ends within a string, or the next one begins with another object.
fn is_spread(bytes: &[u8]) -> Option<bool> {
    let end = memchr(b'\n', bytes);
    let (first, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    let mut values = serde_json::Deserializer::from_slice(first).into_iter::<IgnoredAny>();
    match values.next()? {
        Ok(_) => match first[values.byte_offset()..].trim_ascii_start() {
            [] => end.map(|_| false),
            after => Some(after.starts_with(b"{")),
        },
        Err(error) if error.is_eof() => {
            end?;
            let next = rest.iter().find(|byte| !byte.is_ascii_whitespace())?;
            Some(!error.to_string().contains("string") && matches!(next, b'"' | b'}'))
        }
        Err(_) => Some(false),
    }
}

/// A part of an array. The bytes of all parts, with a comma between two elements, are those of the file.
#[derive(Debug)]
pub(super) enum Part {
    /// The bracket that opens it, after blanks.
    Open(Vec<u8>),
    /// An element, with the blanks around it.
    Element(Element),
    /// The bracket that closes it, with blanks.
    Close(Vec<u8>),
}

/// An element of an array.
#[derive(Debug)]
pub(super) struct Element {
    /// The line of the file in which it begins.
    pub(super) line: u64,
    /// Its bytes. Whether they are JSON is not checked.
    pub(super) bytes: Vec<u8>,
}

/// The objects of a file, one after the other over many lines, each with the blanks before it. An
/// object in which a line ends within a string is damaged, and goes on to the next line that begins with an
/// object.
pub(super) fn objects(mut read: Reading<'_>) -> impl Iterator<Item = io::Result<(Vec<u8>, Element)>> {
    let mut line = 1;
    std::iter::from_fn(move || object(&mut read, &mut line).transpose())
}

fn object(read: &mut Reading<'_>, line: &mut u64) -> io::Result<Option<(Vec<u8>, Element)>> {
    let mut blanks = Vec::new();
    while after_blanks(read, &mut blanks)?.is_none() {
        if read.fill_buf()?.is_empty() {
            return Ok(None);
        }
    }
    *line += breaks(&blanks);
    let own = *line;
    let (mut bytes, mut depth) = (Vec::new(), 0_u64);
    let (mut is_text, mut is_escaped, mut is_lost) = (false, false, false);
    loop {
        let buffer = read.fill_buf()?;
        let mut before = bytes.last().copied();
        let end = buffer.iter().position(|byte| {
            let is_object = before.replace(*byte) == Some(b'\n') && *byte == b'{';
            match byte {
                _ if is_lost => return is_object,
                b'\n' if is_text => is_lost = true,
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => is_text = !is_text,
                b'{' | b'[' if !is_text => depth += 1,
                b'}' | b']' if !is_text => {
                    depth = depth.saturating_sub(1);
                    return depth == 0;
                }
                _ => {}
            }
            // Something else than an object.
            is_lost |= depth == 0;
            false
        });
        // An object ends with its bracket, and damage before the next object.
        let taken = end.map_or(buffer.len(), |end| end + usize::from(!is_lost));
        let is_end = end.is_some() || buffer.is_empty();
        bytes.extend_from_slice(&buffer[..taken]);
        read.consume(taken);
        if bytes.len() > LONGEST {
            return Err(wrong(format!("line {own}: an object is longer than 256 MiB")));
        }
        if is_end {
            *line += breaks(&bytes);
            return Ok(Some((blanks, Element { line: own, bytes })));
        }
    }
}

/// The number of line breaks.
fn breaks(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// The parts of an array, with which the file begins after blanks; none follow an error.
pub(super) fn parts(read: Reading<'_>) -> impl Iterator<Item = io::Result<Part>> {
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
        self.line += breaks(bytes);
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
        let (begin, read) = begin(read).unwrap();
        assert_eq!(begin, Begin::Array, "{text}");
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
    }

    /// How a text begins, and its objects if they are over many lines.
    fn begun(text: &str, buffer: usize) -> (Begin, Vec<(u64, String)>) {
        let read: Reading = Box::new(BufReader::with_capacity(buffer, Cursor::new(text.to_owned())));
        let (found, mut read) = begin(read).unwrap();
        if found != Begin::Objects {
            let mut whole = String::new();
            read.read_to_string(&mut whole).unwrap();
            assert_eq!(whole, text);
            return (found, Vec::new());
        }
        let of = |object: io::Result<(Vec<u8>, Element)>| {
            let (_, Element { line, bytes }) = object.unwrap();
            (line, String::from_utf8(bytes).unwrap())
        };
        (found, objects(read).map(of).collect())
    }

    #[test]
    fn objects_over_many_lines_are_read_one_by_one() {
        let of = |value: &Value| serde_json::to_string_pretty(value).unwrap();
        let values = [
            serde_json::json!({"id": 1, "text": "a } { \" \\ b", "deep": [{"x": []}, {}]}),
            serde_json::json!({}),
            serde_json::json!({"text": "}\n{"}),
        ];
        let texts: Vec<String> = values.iter().map(of).collect();
        assert_eq!(
            begun("{\"a\":1}{\"b\":2}", 4).1,
            [(1, "{\"a\":1}".to_owned()), (1, "{\"b\":2}".to_owned())]
        );
        for between in ["\n", "\n\n", "", " ", "\r\n"] {
            let whole = format!("\n {}\n", texts.join(between));
            for buffer in [1, 3, 17, 4096] {
                let (begin, found) = begun(&whole, buffer);
                assert_eq!(begin, Begin::Objects, "{whole}");
                let expected = texts.iter().scan(0, |from, text| {
                    *from += whole[*from..].find(text.as_str()).unwrap();
                    let line = breaks(&whole.as_bytes()[..*from]) + 1;
                    *from += text.len();
                    Some((line, text.clone()))
                });
                assert_eq!(found, expected.collect::<Vec<_>>(), "{whole} {buffer}");
            }
        }
        for (text, expected) in [
            ("{\"a\":1}\n{\"b\":2}\n", Begin::Lines),
            ("{\"a\":1}", Begin::Lines),
            ("{\"a\":\"cut\n\"b\"", Begin::Lines),
            ("{\"a\":1,\n{\"b\":2}\n", Begin::Lines),
            ("{\n", Begin::Lines),
            ("oops\n{\n\"a\":1}", Begin::Lines),
            ("\n[{\n\"a\":1}]", Begin::Array),
            ("[{\"a\":1}]\n \n", Begin::Array),
            ("[{\"a\":1}]\nx", Begin::Array),
            ("[1]\n\n{\"a\":1}\n", Begin::Lines),
            ("[{\"a\":1}]\n[{\"b\":2}]\n", Begin::Lines),
            ("{\"a\":1,\n \"b\":2}", Begin::Objects),
            ("{\r\n\r\n}", Begin::Objects),
            ("{\"a\":1} {\"b\":2}\n", Begin::Objects),
            ("{\"a\":1}{\"b\":\"cut", Begin::Objects),
            ("{\"a\":1},\n{\"b\":2}", Begin::Lines),
            ("{\"a\":1} x\n{\"b\":2}", Begin::Lines),
        ] {
            for buffer in [1, 4096] {
                assert_eq!(begun(text, buffer).0, expected, "{text}");
            }
        }
    }

    #[test]
    fn a_damaged_object_takes_no_other_with_it() {
        let text = "{\n \"a\": 1\n}\n{\n \"a\": \"cut\n}\n{\n \"a\": 3\n}\n, {\n}\n{\n \"a\": [4\n}\n";
        for buffer in [1, 5, 4096] {
            let (_, found) = begun(text, buffer);
            let found: Vec<(u64, Option<Value>)> =
                found.iter().map(|(line, text)| (*line, serde_json::from_str(text).ok())).collect();
            let a = |number: u64| Some(serde_json::json!({"a": number}));
            assert_eq!(found, [(1, a(1)), (4, None), (7, a(3)), (10, None), (12, None)], "{buffer}");
        }
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
