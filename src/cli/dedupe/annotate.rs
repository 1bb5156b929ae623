//! `--annotate`: documents are written with fields that say what a run would drop. All other bytes of a
//! record stay as they are.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use encoding_rs::{Encoding, UTF_8};
use serde::{Deserialize, Serialize};

use lookalike_files::parquet::Cell;
use lookalike_files::{Format, Reason, Unread, ascii_in, wrong};

/// The fields, in the order of [`Note`].
pub(super) const FIELDS: [&str; 3] = ["duplicate_of", "similarity", "cluster_id"];
/// The same as columns of Parquet.
pub(super) const SCHEMA: &str = "message notes { optional binary duplicate_of (UTF8); \
                                 optional double similarity; optional binary cluster_id (UTF8); }";

/// The note on a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The document that replaces it.
    pub(super) duplicate_of: Option<String>,
    /// The estimated similarity of both, by signatures.
    pub(super) similarity: Option<f64>,
    /// The document that is kept of its group.
    pub(super) cluster_id: String,
}

impl Note {
    /// The note as cells; what is missing is empty.
    pub(super) fn cells(&self) -> [String; 3] {
        let Note { duplicate_of, similarity, cluster_id } = self.clone();
        [duplicate_of.unwrap_or_default(), similarity.map_or_else(String::new, |s| s.to_string()), cluster_id]
    }
}

/// Why documents of a file cannot have notes.
pub(super) fn problem(format: Format, shown: &str) -> Option<String> {
    let what = match format {
        Format::Text => "a text",
        Format::Image => "an image",
        Format::Warc => "a web archive",
        Format::Arrow => "an Arrow file",
        Format::Jsonl | Format::Csv | Format::Tsv | Format::Parquet => return None,
    };
    Some(format!(
        "{shown}: --annotate writes no fields into {what}; --duplicates or --clusters-file write the same \
         beside the output"
    ))
}

/// Refuses a record, or a table, that has a field of a note already.
pub(super) fn check_names<'n>(what: &str, mut names: impl Iterator<Item = &'n str>) -> Result<(), Unread> {
    match names.find(|name| FIELDS.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Reason::Field.because(format!(
            "there is a {what} {name:?} already, which --annotate would write: rename it, or use \
             --clusters-file"
        ))),
    }
}

/// A JSON object with a note. The note is in ASCII.
pub(super) fn object(object: &[u8], encoding: &'static Encoding, note: &Note) -> io::Result<Vec<u8>> {
    let json = serde_json::to_string(note)?;
    let mut added = String::with_capacity(json.len());
    for unit in json.trim_start_matches('{').encode_utf16() {
        match u8::try_from(unit).ok().filter(u8::is_ascii) {
            Some(byte) => added.push(byte.into()),
            None => _ = write!(added, "\\u{unit:04x}"),
        }
    }
    let [end, comma] = [b"}", b","].map(|mark| ascii_in(encoding, mark));
    let mut own = object;
    while let Some(rest) =
        [b" ", b"\t", b"\r", b"\n"].iter().find_map(|blank| own.strip_suffix(&ascii_in(encoding, *blank)[..]))
    {
        own = rest;
    }
    let blanks = &object[own.len()..];
    let own = own.strip_suffix(&end[..]).ok_or_else(|| wrong("the record does not end as an object"))?;
    Ok([own, &comma, &ascii_in(encoding, added.as_bytes()), blanks].concat())
}

/// A row of a table with further cells.
pub(super) fn row(
    row: &[u8],
    encoding: &'static Encoding,
    delimiter: u8,
    cells: [&str; 3],
) -> io::Result<Vec<u8>> {
    let mut made = row.to_vec();
    for cell in cells {
        if encoding != UTF_8 && !cell.is_ascii() {
            let name = encoding.name();
            return Err(wrong(format!(
                "--annotate cannot write {cell:?} in the charset of the table, {name}: make the table UTF-8"
            )));
        }
        let needs_quotes = cell.contains([char::from(delimiter), '"', '\r', '\n']);
        let cell = if needs_quotes { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() };
        made.extend(ascii_in(encoding, &[delimiter]));
        made.extend(ascii_in(encoding, cell.as_bytes()));
    }
    Ok(made)
}

/// The notes on rows of a Parquet file, in a working file: columns are written after all rows were read.
pub(super) struct Notes(BufWriter<File>);

/// The same, read in their order.
pub(super) struct NotesRead(BufReader<File>);

impl Notes {
    pub(super) fn push(notes: &mut Option<Notes>, path: &Path, note: &Note) -> io::Result<()> {
        if notes.is_none() {
            let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
            *notes = Some(Notes(BufWriter::new(file)));
        }
        let Notes(file) = notes.as_mut().expect("it was opened");
        serde_json::to_writer(&mut *file, note)?;
        file.write_all(b"\n")
    }

    pub(super) fn finish(self) -> io::Result<NotesRead> {
        let mut file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        io::Seek::rewind(&mut file)?;
        Ok(NotesRead(BufReader::new(file)))
    }
}

impl NotesRead {
    pub(super) fn next(&mut self) -> io::Result<Vec<Cell>> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let Note { duplicate_of, similarity, cluster_id } = serde_json::from_str(&line)?;
        Ok(vec![
            duplicate_of.map_or(Cell::Null, Cell::Text),
            similarity.map_or(Cell::Null, Cell::Real),
            Cell::Text(cluster_id),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Note {
        Note {
            duplicate_of: Some("渡\"1,".to_owned()), similarity: Some(0.5), cluster_id: "𝄞".to_owned()
        }
    }

    #[test]
    fn an_object_keeps_its_bytes_and_gets_the_fields() {
        for name in ["utf-8", "gbk", "utf-16le", "utf-16be", "shift_jis"] {
            let encoding = Encoding::for_label(name.as_bytes()).unwrap();
            let text = "{ \"text\" : \"公園\" } \r";
            let bytes = match name {
                "utf-16le" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
                "utf-16be" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
                _ => encoding.encode(text).0.into_owned(),
            };
            let made = object(&bytes, encoding, &note()).unwrap();
            let (made, ..) = encoding.decode(&made);
            assert!(made.starts_with("{ \"text\" : \"公園\" ,\"duplicate_of\":") && made.ends_with("} \r"));
            let mut read: serde_json::Value = serde_json::from_str(&made).unwrap();
            read.as_object_mut().unwrap().remove("text");
            assert_eq!(read, serde_json::to_value(note()).unwrap(), "{name}");
        }
        assert!(object(b"[1]", UTF_8, &note()).is_err());
    }

    #[test]
    fn cells_are_quoted_if_they_must_be() {
        let cells = note().cells();
        let cells = cells.each_ref().map(|cell| &**cell);
        assert_eq!(row(b"a,b", UTF_8, b',', cells).unwrap(), "a,b,\"渡\"\"1,\",0.5,𝄞".as_bytes());
        assert_eq!(row(b"a;b", UTF_8, b';', ["", "1,5", "x;"]).unwrap(), b"a;b;;1,5;\"x;\"");
        let error = row(b"a", encoding_rs::GBK, b',', cells).unwrap_err().to_string();
        assert!(error.contains("GBK: make the table UTF-8"), "{error}");
    }
}
