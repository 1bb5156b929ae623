//! A record with a changed text: parts of it are replaced, and all other bytes of the record stay, escapes
//! and quotation marks included.
//!
//! *Absent*: rows of columns, which `columnar` copies with other values; pages and archives.

use std::ops::Range;

use bytes::BytesMut;
use encoding_rs::{Encoding, UTF_8};

use super::charset::{Originals, ascii_in};
use super::{About, Content, Fields, How, Raw, Row, Said, Value};

/// A range of the bytes of a text, and what stands in its place: ASCII without quotation marks, backslashes
/// and what separates cells.
pub type Edit = (Range<usize>, &'static str);

/// Bytes in a charset.
struct Bare<'b> {
    bytes: &'b [u8],
    encoding: &'static Encoding,
}

impl Raw {
    /// The record with these changes, in their order, of the text in a field; of a text file, of the text.
    ///
    /// # Errors
    /// Why it cannot have them.
    pub fn edited(&self, about: &About, how: How, field: &str, edits: &[Edit]) -> Result<Raw, String> {
        let content = match &self.content {
            Content::Line(line) => {
                let (original, edits) = self.of_json(line, about, field, edits)?;
                Content::Line(original.edited(&edits)?.into())
            }
            Content::Element(element) => {
                let (original, edits) = self.of_json(element, about, field, edits)?;
                Content::Element(original.edited(&edits)?)
            }
            Content::Row(row) => Content::Row(of_row(row, about, field, edits)?),
            Content::Text(bytes) => Content::Text(self.of_text(bytes, about, how, edits)?),
            _ => return Err("this format has no text that can be changed".to_owned()),
        };
        Ok(Raw::new(self.file, self.line, content))
    }

    fn of_json<'a>(
        &'a self,
        object: &'a [u8],
        about: &About,
        field: &str,
        edits: &[Edit],
    ) -> Result<(Bare<'a>, Vec<Edit>), String> {
        let fields = Fields::of_json(object, about.encoding).map_err(|unread| unread.detail)?;
        let Some(Value::Json(json)) = fields.get(field) else { return Err(gone(field)) };
        let moved =
            moved(edits, &json_places(json).ok_or_else(|| gone(field))?, within(object, json.as_bytes()))?;
        let bare = match &self.original {
            Some(original) => Bare { bytes: original, encoding: about.encoding },
            None => Bare { bytes: object, encoding: UTF_8 },
        };
        Ok((bare, moved))
    }

    fn of_text(&self, bytes: &[u8], about: &About, how: How, edits: &[Edit]) -> Result<Vec<u8>, String> {
        let Ok(Said::Text(text)) = self.said(about, how) else { return Err(gone("text")) };
        if text.charset.replaced > 0 {
            return Err("the text has bytes that are no characters: make it UTF-8".to_owned());
        }
        let mark = Encoding::for_bom(bytes).map_or(0, |(_, length)| length);
        let own = Bare { bytes: &bytes[mark..], encoding: text.charset.encoding }.edited(edits)?;
        Ok([&bytes[..mark], &own].concat())
    }
}

fn gone(field: &str) -> String {
    format!("the text of {field:?} was not found in the bytes of the record")
}

/// Where a part of a slice begins in it.
fn within(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// The changes at these places of the bytes of a text, which begin at `from`.
fn moved(edits: &[Edit], places: &[usize], from: usize) -> Result<Vec<Edit>, String> {
    let place = |at: usize| places.get(at).map(|place| place + from);
    let of = |(range, by): &Edit| Some((place(range.start)?..place(range.end)?, *by));
    edits.iter().map(of).collect::<Option<_>>().ok_or_else(|| gone("the record"))
}

impl Bare<'_> {
    /// The bytes with changes at these places of them in UTF-8.
    fn edited(&self, edits: &[Edit]) -> Result<Vec<u8>, String> {
        if self.encoding == UTF_8 {
            return Ok(spliced(self.bytes, edits));
        }
        let decoder = self.encoding.new_decoder_without_bom_handling();
        let mut from = Originals::of(BytesMut::from(self.bytes), decoder);
        let (mut made, mut at) = (Vec::with_capacity(self.bytes.len()), 0);
        for (range, by) in edits {
            made.extend_from_slice(&from.take(range.start - at));
            made.extend(ascii_in(self.encoding, by.as_bytes()));
            from.take(range.end - range.start);
            at = range.end;
        }
        made.extend_from_slice(&from.take(usize::MAX));
        // Some charsets have states, which a cut may confuse.
        let decoded = |bytes: &[u8]| self.encoding.decode_without_bom_handling(bytes).0.into_owned();
        if decoded(&made).as_bytes() == spliced(decoded(self.bytes).as_bytes(), edits) {
            return Ok(made);
        }
        Err(format!("nothing can be cut out of the charset {}: make the file UTF-8", self.encoding.name()))
    }
}

fn spliced(bytes: &[u8], edits: &[Edit]) -> Vec<u8> {
    let (mut made, mut at) = (Vec::with_capacity(bytes.len()), 0);
    for (range, by) in edits {
        made.extend_from_slice(&bytes[at..range.start]);
        made.extend_from_slice(by.as_bytes());
        at = range.end;
    }
    made.extend_from_slice(&bytes[at..]);
    made
}

/// The place in a JSON string of each byte of the text, and of the quotation mark at the end.
fn json_places(json: &str) -> Option<Vec<usize>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    let code = |at: usize| u32::from_str_radix(inner.get(at + 2..at + 6)?, 16).ok();
    let (mut places, mut at) = (Vec::with_capacity(json.len()), 0);
    while let Some(byte) = inner.as_bytes().get(at) {
        let (taken, count) = match (byte, inner.as_bytes().get(at + 1)) {
            (b'\\', Some(b'u')) => match code(at)? {
                0xd800..0xdc00 => (12, 4),
                code => (6, char::from_u32(code)?.len_utf8()),
            },
            (b'\\', _) => (2, 1),
            _ => (1, 1),
        };
        places.extend(std::iter::repeat_n(at + 1, count));
        at += taken;
    }
    places.push(json.len() - 1);
    Some(places)
}

fn of_row(row: &Row, about: &About, field: &str, edits: &[Edit]) -> Result<Row, String> {
    let column = about.columns.iter().position(|name| name == field).ok_or_else(|| gone(field))?;
    let cell = row.cells.as_ref().ok().and_then(|cells| cells.get(column)).ok_or_else(|| gone(field))?;
    let decoded = about.encoding.decode_without_bom_handling(&row.raw).0;
    let places = cell_places(&decoded, about.delimiter, column, cell).ok_or_else(|| gone(field))?;
    let moved = moved(edits, &places, 0)?;
    let mut raw = Bare { bytes: &row.raw, encoding: about.encoding }.edited(&moved)?;
    let is_open = |places: &[usize]| {
        let opens = places[0].checked_sub(1).is_none_or(|before| decoded.as_bytes()[before] != b'"');
        let rest = spliced(cell.as_bytes(), edits);
        opens && rest.first() == Some(&b'"')
    };
    if is_open(&places) {
        return Err(format!("what is left of {field:?} would begin with a quotation mark"));
    }
    if raw.is_empty() {
        // An empty line is no row.
        raw = ascii_in(about.encoding, b"\"\"");
    }
    Ok(Row { raw, line: row.line, cells: row.cells.clone() })
}

/// The place in a row of each byte of the text of a cell, and of its end.
fn cell_places(row: &str, delimiter: u8, column: usize, text: &str) -> Option<Vec<usize>> {
    let bytes = row.as_bytes();
    let mut at = 0;
    for cell in 0..=column {
        let mut places = Vec::new();
        let mut end = None;
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                match (bytes.get(at)?, bytes.get(at + 1)) {
                    (b'"', Some(b'"')) => {
                        places.push(at);
                        at += 2;
                    }
                    (b'"', _) => break,
                    _ => {
                        places.push(at);
                        at += 1;
                    }
                }
            }
            end = Some(at);
            at += 1;
        }
        while bytes.get(at).is_some_and(|byte| *byte != delimiter) {
            places.push(at);
            at += 1;
            end = None;
        }
        if cell == column {
            let is_same = places.iter().map(|place| bytes[*place]).eq(text.bytes());
            places.push(end.unwrap_or(at));
            return is_same.then_some(places);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use csv::StringRecord;

    use super::*;

    fn how() -> How {
        How { charset: None, delimiter: None, is_page: false, block: 1, keeps_originals: true }
    }

    fn about(encoding: &'static Encoding) -> About {
        About {
            encoding,
            is_guessed: false,
            columns: vec!["id".to_owned(), "text".to_owned()],
            delimiter: b';',
        }
    }

    /// What a text becomes without the bytes from the first `<` to the next `>`.
    fn edit(text: &str) -> (Vec<Edit>, String) {
        let range = text.find('<').unwrap()..text.find('>').unwrap() + 1;
        let expected = [&text[..range.start], "[...]", &text[range.end..]].concat();
        (vec![(range, "[...]")], expected)
    }

    const TEXTS: [&str; 6] = [
        "a <b> c",
        "<>",
        "“渡轮”<每天>两\n班",
        "é\"<\\\"> \t\u{1d11e}<",
        "\u{1}<x;\"y\">;z",
        "\u{1d11e}<\u{1d11e}\u{1d11e}>\u{7f}\r\n",
    ];

    #[test]
    fn only_the_text_of_an_object_changes() {
        for text in TEXTS {
            let (edits, expected) = edit(text);
            let plain = serde_json::to_string(text).unwrap();
            let escaped: String =
                plain
                    .encode_utf16()
                    .map(|unit| {
                        if unit < 128 { char::from(unit as u8).to_string() } else { format!("\\u{unit:04X}") }
                    })
                    .collect();
            for json in [plain, escaped] {
                let object =
                    |json: &str| format!("{{ \"a\" : {{\"text\":{json}, \"n\": 1e2}},\"text\" :{json} }} \r");
                for field in ["text", "a.text"] {
                    let raw = Raw::new(0, 3, Content::Line(object(&json).into()));
                    let made = raw.edited(&about(UTF_8), how(), field, &edits).unwrap();
                    let made = String::from_utf8(made.content.bytes().to_vec()).unwrap();
                    let read: serde_json::Value = serde_json::from_str(&made).unwrap();
                    let of =
                        |name: &str| read.pointer(&format!("/{}", name.replace('.', "/"))).unwrap().clone();
                    assert_eq!(of(field), expected);
                    assert_eq!(of(if field == "text" { "a.text" } else { "text" }), *text);
                    let from = json.find('<').unwrap();
                    assert!(
                        made.contains(&json[..from])
                            && made.starts_with("{ \"a\" : {\"text\":")
                            && made.ends_with("} \r")
                    );
                    assert!(made.len() < object(&json).len() + 6);
                }
            }
        }
    }

    #[test]
    fn a_file_of_another_charset_keeps_it() {
        for name in ["gbk", "shift_jis", "utf-16le", "utf-16be", "big5"] {
            let encoding = Encoding::for_label(name.as_bytes()).unwrap();
            let encoded = |text: &str| match name {
                "utf-16le" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
                "utf-16be" => text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>(),
                _ => encoding.encode(text).0.into_owned(),
            };
            let text = "中文<表示> 日";
            let (edits, expected) = edit(text);
            let object = |text: &str| format!("{{\"text\": \"{text}\", \"m\": \"表\"}}");
            let original = Some(encoded(&object(text)).into());
            let raw = Raw { original, ..Raw::new(0, 1, Content::Line(object(text).into())) };
            let made = raw.edited(&about(encoding), how(), "text", &edits).unwrap();
            assert_eq!(made.content.bytes(), encoded(&object(&expected)), "{name}");
            let row = |text: &str| format!("日;\"{text}\"");
            let cells = Ok(StringRecord::from(vec!["日", text]));
            let raw = Raw::new(0, 1, Content::Row(Row { raw: encoded(&row(text)), line: 1, cells }));
            let made = raw.edited(&about(encoding), how(), "text", &edits).unwrap();
            assert_eq!(made.content.bytes(), encoded(&row(&expected)), "{name}");
        }
        let jis = encoding_rs::ISO_2022_JP;
        let text = "{\"text\": \"日<表示>日\"}";
        let raw = Raw::new(0, 1, Content::Line(text.into()));
        let raw = Raw { original: Some(jis.encode(text).0.into_owned().into()), ..raw };
        let made = raw.edited(&about(jis), how(), "text", &edit("日<表示>日").0);
        assert!(made.err().unwrap().contains("charset ISO-2022-JP: make the file UTF-8"));
        let bytes: Vec<u8> = "\u{feff}中<文> a".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let made =
            Raw::new(0, 1, Content::Text(bytes)).edited(&About::default(), how(), "", &edit("中<文> a").0);
        let expected: Vec<u8> = "\u{feff}中[...] a".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(made.unwrap().content.bytes(), expected);
    }

    #[test]
    fn only_the_cell_of_a_row_changes() {
        let row = |raw: &str| {
            let mut read =
                csv::ReaderBuilder::new().has_headers(false).delimiter(b';').from_reader(raw.as_bytes());
            let cells = Ok(read.records().next().unwrap().unwrap());
            Raw::new(0, 1, Content::Row(Row { raw: raw.into(), line: 1, cells }))
        };
        let made = |raw: &str, edits: &[Edit]| {
            let made = row(raw).edited(&about(UTF_8), how(), "text", edits);
            made.map(|made| String::from_utf8(made.content.bytes().to_vec()).unwrap())
        };
        for text in TEXTS {
            let (edits, expected) = edit(text);
            let quoted = |text: &str| format!("\"a;\"\"b\";\"{}\";<c>", text.replace('"', "\"\""));
            assert_eq!(made(&quoted(text), &edits).unwrap(), quoted(&expected));
        }
        assert_eq!(made("1;a <b> c", &edit("a <b> c").0).unwrap(), "1;a [...] c");
        assert_eq!(made("1;a\"<b> c;", &edit("a\"<b> c").0).unwrap(), "1;a\"[...] c;");
        assert_eq!(made("1;\"a\"\"<b>\"<c", &edit("a\"<b><c").0).unwrap(), "1;\"a\"\"[...]<c");
        assert!(made("1;x\"y", &[(0..1, "")]).unwrap_err().contains("begin with a quotation mark"));
        let only = About { columns: vec!["text".to_owned()], ..about(UTF_8) };
        let raw = row("a b").edited(&only, how(), "text", &[(0..3, "")]).unwrap();
        assert_eq!(raw.content.bytes(), b"\"\"");
    }
}
