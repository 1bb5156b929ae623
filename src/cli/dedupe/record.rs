//! From the bytes of a record to a document: its id, its text or hash, and the key of the keep rule.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use encoding_rs::Encoding;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::super::files::parquet::Values;
use super::super::files::{Entry, Record, Row, Skipped, fields_of, missing, string};
use super::keep::Keep;
use super::spool::{Kind, Sizes, Stored};
use crate::corpus::Print;
use crate::fingerprint::{Profile, Signature, Signed, Status, makes_the_same, signature_name};
use crate::http::ExportHeader;
use crate::ids::{FormError, Hash, HashError, HashForm, SignatureShape};
use crate::text::{decode, main_text};
use crate::wording;

/// The profile whose features the second check compares, as the server does.
const CHECKED: &str = "pairs-64";
/// The bytes of a sketch, one bit for each minimum.
pub(super) const SKETCH_BYTES: usize = 128;
/// The bits of each minimum in a sketch.
pub(super) const SKETCH_BITS: u32 = 1;

/// A record as it is in its file.
pub(super) struct Raw {
    /// The number of its file.
    pub(super) file: u32,
    /// Its line; in an archive the number of the record.
    pub(super) line: u64,
    pub(super) content: Content,
    /// The bytes of a line or an element in a file that is not in UTF-8.
    pub(super) original: Option<Bytes>,
}

impl Raw {
    pub(super) fn new(file: u32, line: u64, content: Content) -> Raw {
        Raw { file, line, content, original: None }
    }
}

/// The bytes of a record.
pub(super) enum Content {
    /// A line with a JSON object.
    Line(Bytes),
    /// An element of an array, with the blanks before it.
    Element(Vec<u8>),
    /// A row of a table.
    Row(Row),
    /// A whole file.
    Text(Vec<u8>),
    /// A record of an archive.
    Record(Record),
    /// The text or hash, the id and the key of a row of a Parquet file.
    Values(Values),
    /// The first row of a table, or the header of an export, which have no number.
    Header(Vec<u8>),
    /// The beginning of a file that is not in UTF-8, or has a byte order mark: its charset, and the mark.
    Charset(&'static Encoding, Vec<u8>),
    /// A bracket of an array, with the blanks around it.
    Bracket(Vec<u8>),
    /// Why the file cannot be read further.
    Broken(String),
}

impl Content {
    /// Whether it is a record, which has a number.
    pub(super) fn is_record(&self) -> bool {
        !matches!(self, Content::Header(_) | Content::Charset(..) | Content::Bracket(_))
    }
}

/// The columns of a table that are read, by their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    pub(super) text: Option<usize>,
    pub(super) id: Option<usize>,
    pub(super) key: Option<usize>,
}

/// What was made of a record.
pub(super) struct Made {
    pub(super) id: Option<String>,
    /// What is stored about it; `None` if an earlier run has stored it.
    pub(super) stored: Option<Stored>,
    /// Why it is invalid.
    pub(super) why: Option<String>,
}

/// The fields of a document.
struct Fields<'a> {
    id: Option<String>,
    /// `None` if the document is given as a hash or signature.
    text: Option<Cow<'a, str>>,
    is_page: bool,
    print: Option<Print>,
    key: Option<String>,
}

/// Makes documents of records.
#[derive(Clone)]
pub(super) struct Maker {
    pub(super) profile: &'static Profile,
    pub(super) keep: Keep,
    pub(super) text_field: String,
    pub(super) id_field: String,
    /// Whether the id field was named by the user, so that every document must have it.
    pub(super) needs_id: bool,
    pub(super) hash_field: Option<String>,
    /// The form of these hashes; `None` for all that need no name.
    pub(super) hash_form: Option<HashForm>,
    pub(super) is_page: bool,
    /// The charset of lines, tables and texts, as the user names it.
    pub(super) charset: Option<&'static Encoding>,
    /// Whether lines are those that a server exports: with a text, a hash or a signature.
    pub(super) is_exported: bool,
    pub(super) sizes: Sizes,
}

impl Maker {
    /// The sizes of prints of a profile.
    pub(super) fn sizes(profile: &Profile, is_checked: bool) -> Sizes {
        Sizes {
            hash: profile.width().bytes(),
            signature: profile.signatures().map_or(0, SignatureShape::bytes),
            sketch: if is_checked { SKETCH_BYTES } else { 0 },
        }
    }

    /// Makes a document of a record; without its print if that is known.
    pub(super) fn make(&self, raw: &Raw, columns: &Columns, is_known: bool) -> Made {
        let blank = |kind: Kind| Stored { kind, key: 0, digest: 0, print: self.sizes.blank() };
        match self.fields(raw, columns) {
            Ok(Some(fields)) if is_known => {
                let why = self.keep.key(fields.key.as_deref(), "").err();
                Made { id: fields.id, stored: None, why }
            }
            Ok(Some(fields)) => match self.stored(&fields) {
                Ok(stored) => Made { id: fields.id, stored: Some(stored), why: None },
                Err(why) => Made { id: fields.id, stored: Some(blank(Kind::Invalid)), why: Some(why) },
            },
            Ok(None) => Made { id: None, stored: Some(blank(Kind::Other)), why: None },
            Err(why) => Made { id: None, stored: Some(blank(Kind::Invalid)), why: Some(why) },
        }
    }

    /// The fields of a record; `None` if it is no document.
    fn fields<'a>(&self, raw: &'a Raw, columns: &Columns) -> Result<Option<Fields<'a>>, String> {
        match &raw.content {
            Content::Line(line) => self.of_line(line, raw.original.is_some()).map(Some),
            Content::Element(element) => self.of_line(element, raw.original.is_some()).map(Some),
            Content::Row(row) => {
                let cells = row.cells.as_ref().map_err(Clone::clone)?;
                let cell = |place: Option<usize>| place.map(|place| cells.get(place).unwrap_or_default());
                let (id, key) = (cell(columns.id).map(str::to_owned), cell(columns.key).map(str::to_owned));
                let fields = Fields { id, text: None, is_page: self.is_page, print: None, key };
                self.with_content(fields, cell(columns.text).unwrap_or_default().into()).map(Some)
            }
            Content::Text(bytes) => {
                let charset = self.charset.map(Encoding::name);
                let text = decode(bytes, charset, self.is_page).map_err(|error| error.to_string())?;
                let fields = Fields { id: None, text: None, is_page: self.is_page, print: None, key: None };
                self.with_content(fields, text).map(Some)
            }
            Content::Record(record) => self.of_record(record),
            Content::Values(values) => {
                let name = self.hash_field.as_ref().unwrap_or(&self.text_field);
                let missing = |name: &str| format!("there is no field {name:?}");
                let value = |at: usize| values.get(at).cloned().flatten();
                let text = values.first().and_then(Option::as_deref).ok_or_else(|| missing(name))?;
                let id = value(1);
                if id.is_none() && self.needs_id {
                    return Err(missing(&self.id_field));
                }
                let key = value(2);
                if let Some(name) = self.keep.field().filter(|_| key.is_none()) {
                    return Err(missing(name));
                }
                let fields = Fields { id, text: None, is_page: self.is_page, print: None, key };
                self.with_content(fields, text.into()).map(Some)
            }
            Content::Header(_) | Content::Charset(..) | Content::Bracket(_) => Ok(None),
            Content::Broken(why) => Err(why.clone()),
        }
    }

    fn of_line<'a>(&self, line: &'a [u8], is_transcoded: bool) -> Result<Fields<'a>, String> {
        let line = simdutf8::compat::from_utf8(line).map_err(|error| match error.valid_up_to() {
            _ if is_transcoded => "it has bytes that are invalid in the charset of the file".to_owned(),
            valid => format!("not UTF-8: byte {valid} is invalid"),
        })?;
        let line = line.trim_start_matches('\u{feff}');
        if self.is_exported {
            let object: BTreeMap<String, &RawValue> =
                serde_json::from_str(line).map_err(|error| not_an_object(line, &error))?;
            return self.of_exported(&object);
        }
        let name = self.hash_field.as_ref().unwrap_or(&self.text_field);
        let names = [&self.id_field, self.keep.field().unwrap_or(&self.id_field), name];
        let [id, key, content] = fields_of(line, names).map_err(|error| not_an_object(line, &error))?;
        let id = id.map(RawValue::get).filter(|id| *id != "null");
        if id.is_none() && self.needs_id {
            return Err(missing_in(&self.id_field, line));
        }
        let key = match self.keep.field() {
            Some(name) => Some(plain(key.ok_or_else(|| missing_in(name, line))?)),
            None => None,
        };
        let content = content.ok_or_else(|| missing_in(name, line))?;
        let id = id.map(|id| serde_json::from_str::<String>(id).unwrap_or_else(|_| id.to_owned()));
        let fields = Fields { id, text: None, is_page: self.is_page, print: None, key };
        match (string(content), content.get().parse::<i128>()) {
            (Some(content), _) => self.with_content(fields, content),
            (None, Ok(number)) if self.hash_field.is_some() => {
                self.with_hash(fields, HashForm::read_number(number, self.hash_form))
            }
            _ => Err(format!("the field {name:?} is not a string")),
        }
    }

    fn of_exported(&self, object: &BTreeMap<String, &RawValue>) -> Result<Fields<'static>, String> {
        let value = |name: &str| object.get(name).map(|value| plain(value));
        let text = value("text").map(Cow::Owned);
        let fields = Fields { id: value("id"), text, is_page: false, print: None, key: None };
        if fields.text.is_some() {
            return Ok(fields);
        }
        if self.sizes.sketch > 0 {
            return Err("the collection keeps no texts, which --check needs".to_owned());
        }
        let print = match (value("hash"), value("signature")) {
            (Some(hash), _) => {
                let hash: Hash = hash.parse().map_err(|error: HashError| error.to_string())?;
                Print { hash, ..self.sizes.blank() }
            }
            (None, Some(digits)) => {
                let signature = bytes(&digits).filter(|bytes| bytes.len() == self.sizes.signature);
                let signature = signature.ok_or("the signature has another length than the profile's")?;
                Print { hash: signature_name(&signature), signature, sketch: Vec::new() }
            }
            (None, None) => return Err("there is no text, hash or signature".to_owned()),
        };
        Ok(Fields { print: Some(print), ..fields })
    }

    fn of_record(&self, record: &Record) -> Result<Option<Fields<'static>>, String> {
        match record.entry() {
            Entry::Document { field, content } => {
                let key = match self.keep.field() {
                    Some(name) => {
                        Some(record.header(name).ok_or_else(|| format!("there is no header {name:?}"))?)
                    }
                    None => None,
                };
                let id = Some(record.target().to_owned()).filter(|target| !target.is_empty());
                let is_page = field == "html";
                Ok(Some(Fields { id, text: Some(content.into()), is_page, print: None, key }))
            }
            Entry::Skipped(Skipped::Size) => Err("the record is too large".to_owned()),
            Entry::Nothing | Entry::Skipped(_) => Ok(None),
        }
    }

    /// The fields with the text, or the hash that it is.
    fn with_content<'a>(&self, fields: Fields<'a>, content: Cow<'a, str>) -> Result<Fields<'a>, String> {
        if self.hash_field.is_none() {
            return Ok(Fields { text: Some(content), ..fields });
        }
        self.with_hash(fields, HashForm::read(content.trim(), self.hash_form))
    }

    fn with_hash<'a>(&self, fields: Fields<'a>, hash: Result<Hash, FormError>) -> Result<Fields<'a>, String> {
        let hash = hash.map_err(|error| error.to_string())?;
        let (wanted, found) = (self.profile.width().bits(), hash.width().bits());
        if wanted != found {
            return Err(format!("the hash has {found} bits; {} has {wanted}", self.profile.id()));
        }
        let print = Print { hash, ..self.sizes.blank() };
        Ok(Fields { print: Some(print), ..fields })
    }

    /// Why the hashes of an export are not read; `None` if they are, or if its texts are.
    pub(super) fn refuses(&self, header: &ExportHeader) -> Option<String> {
        self.hash_field.as_ref()?;
        let (own, form) = (self.profile.id().to_string(), header.form().unwrap_or_default());
        let theirs = &header.profile;
        if !makes_the_same(theirs, &own) {
            return Some(format!(
                "the hashes of this export are of the profile {theirs}, not {own}; --profile sets it, and \
                 hashes of two profiles cannot be compared"
            ));
        }
        let is_named = self.hash_form.is_some() || form == HashForm::Hex;
        (!is_named).then(|| format!("the hashes of this export are in another form: --hash-format {form}"))
    }

    fn stored(&self, fields: &Fields<'_>) -> Result<Stored, String> {
        let text = fields.text.as_deref().unwrap_or_default();
        let text: Cow<'_, str> = if fields.is_page { main_text(text).into() } else { text.into() };
        let key = self.keep.key(fields.key.as_deref(), &text)?;
        if let Some(print) = fields.print.clone() {
            return Ok(Stored { kind: Kind::Document, key, digest: print.hash.low(), print });
        }
        let (signed, sketch) = self.signed(&text);
        let signature = signed.signature.unwrap_or_default();
        let kind = if signed.fingerprint.status == Status::Empty { Kind::Empty } else { Kind::Document };
        let print = match kind {
            Kind::Document => Print { hash: signed.fingerprint.hash, signature, sketch },
            _ => self.sizes.blank(),
        };
        Ok(Stored { kind, key, digest: xxh3_64(text.as_bytes()), print })
    }

    /// The fingerprint of a text, and its sketch for the second check if there is one.
    fn signed(&self, text: &str) -> (Signed, Vec<u8>) {
        if self.sizes.sketch == 0 {
            return (self.profile.sign(text), Vec::new());
        }
        let compared = Profile::named(CHECKED).expect("a built-in profile");
        let Ok((signed, set)) = self.profile.sign_with_set(compared, text, || Ok::<_, Infallible>(()));
        let minima = SKETCH_BYTES * 8 / SKETCH_BITS as usize;
        (signed, Signature::of(&set, minima).sketch(SKETCH_BITS).bytes().to_vec())
    }
}

fn not_an_object(line: &str, error: &serde_json::Error) -> String {
    if line.trim_start().starts_with('[') {
        return "a JSON array in place of an object".into();
    }
    format!("not a JSON object: {}", wording::plain(&error.to_string()))
}

/// A value as text: a string without its quotes, anything else as it is.
fn plain(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

/// The bytes that hexadecimal digits spell.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The error of a field that the object of a line does not have.
fn missing_in(name: &str, line: &str) -> String {
    let object: BTreeMap<String, &RawValue> = serde_json::from_str(line).unwrap_or_default();
    missing("field", name, object.keys().map(String::as_str))
}
