//! From the fields of a record to a document of `POST /documents`.
//!
//! An object that is a document already is sent as it is. Of any other record one field is the text and one
//! the id, as the user names them or by their usual names, and the other fields become metadata, as values
//! that are not changed. Nothing is left out silently: a record without the text, or with two values for one
//! name of the metadata, fails, and the message says what helps.
//!
//! The limits of metadata are those of the server, which refuses what exceeds them.

use std::borrow::Cow;

use clap::{Args, ValueEnum};
use encoding_rs::Encoding;

use super::super::Failure;
use super::super::fingerprint::OfPage;
use super::pictures::Pictures;
use super::seen::Seen;
use lookalike_files::{
    Content, Fields, Format, How, Raw, Reason, Unread, Value, Wants, charset, check_characters, members,
    outer_of_path, quoted,
};
use lookalike_http::{DOCUMENT_MEMBERS, ExportHeader};
use lookalike_text::CharsetOf;

/// Members of which a document has one.
const CONTENT: [&str; 6] = ["text", "html", "image", "hash", "signature", "features"];
/// Members of a document that keep their meaning among fields of others.
const LIFETIME: [&str; 2] = ["expires_in", "expires_at"];

/// The format of the files, and the fields that are used.
#[derive(Clone, Debug, Args)]
pub(super) struct Shape {
    /// Format of the files; by default from their names, without .gz and .zst
    #[arg(long, value_enum)]
    pub(super) format: Option<Format>,
    /// Field or column with the text; a.b is the field b of the object a, a[].b are those of all elements of
    /// the array a. By default "text", or "html" for a page
    #[arg(long, value_name = "FIELD")]
    text_field: Option<String>,
    /// Texts are HTML pages
    #[arg(long, conflicts_with = "hash_field")]
    html: bool,
    /// Which text of pages is compared; a document with a member "page" keeps it
    #[arg(long, value_name = "WHICH", default_value = "main")]
    page: OfPage,
    /// Field or column with a hash made elsewhere in place of the text
    #[arg(long, value_name = "FIELD", conflicts_with = "text_field")]
    hash_field: Option<String>,
    /// Profile that made the hashes of --hash-field: they are refused if that of the collection is another
    #[arg(long, value_name = "PROFILE", requires = "hash_field")]
    hash_profile: Option<String>,
    #[command(flatten)]
    pub(super) images: Pictures,
    /// Field or column with the id, a text or an integer, which every document must then have; by default
    /// "id" if there is one. The server makes ids for documents without one
    #[arg(long, value_name = "FIELD")]
    id_field: Option<String>,
    /// Other fields that become metadata: all, none, or a list such as lang,meta.url; by default all
    #[arg(long, value_name = "FIELDS")]
    metadata: Option<Wanted>,
    /// Charset of JSON lines, tables and texts, such as gbk; by default UTF-8, else a detected one
    #[arg(long, value_parser = charset)]
    pub(super) charset: Option<&'static Encoding>,
    /// Delimiter of tables, one character; by default , ; tab or | as detected in the first row
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    pub(super) delimiter: Option<u8>,
    /// What the id of a record of a WARC file is: url, url+date (captures of one page stay apart), or digest
    /// (equal pages have one id)
    #[arg(long = "id", value_name = "WHAT", value_enum, default_value = "url+date")]
    pub(super) warc_id: WarcId,
    /// The fields that lines have had.
    #[arg(skip)]
    seen: Seen,
}

/// The id of a record of a WARC file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WarcId {
    Url,
    #[value(name = "url+date")]
    UrlAndDate,
    Digest,
}

/// The fields that become metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    None,
    Fields(Vec<String>),
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        match text {
            "all" => Ok(Wanted::All),
            "none" => Ok(Wanted::None),
            _ if text.split(',').any(|name| name.trim().is_empty()) => {
                Err("name fields, as in lang,meta.url, or all, or none".to_owned())
            }
            _ => Ok(Wanted::Fields(text.split(',').map(|name| name.trim().to_owned()).collect())),
        }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        _ if text.len() == 1 => Ok(text.as_bytes()[0]),
        _ => Err("a delimiter is one ASCII character, or tab".to_owned()),
    }
}

/// A document as a line, without its line break.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) bytes: Vec<u8>,
    /// Its id, if it has one.
    pub(super) id: Option<String>,
    /// Whether its metadata come from the fields of a record.
    pub(super) is_mapped: bool,
    /// Its charset, if that is doubtful.
    pub(super) charset: Option<CharsetOf>,
}

/// A field of the metadata: its name, and its value as JSON.
#[derive(Clone, Debug)]
struct Field<'a> {
    name: Cow<'a, str>,
    json: Cow<'a, str>,
}

/// The content of a document.
struct Text<'a> {
    /// The member of a document that it becomes.
    member: &'static str,
    /// The name of its field.
    name: &'a str,
    json: Cow<'a, str>,
    /// The thumbnail of an image, in base64.
    thumbnail: Option<String>,
}

impl Wants for Shape {
    fn how(&self) -> How {
        let (charset, delimiter) = (self.charset, self.delimiter);
        How { charset, delimiter, is_page: self.html, block: 1, keeps_originals: false }
    }

    fn columns(&self, row: &Fields<'_>) -> Result<Vec<String>, Unread> {
        let content = match self.images.column() {
            Some(name) => row.needed(name, "--image-field").map(|_| name)?,
            None => self.content(row)?.name,
        };
        let quality = self.images.quality_column(row)?;
        let id = self.id_field.as_deref().unwrap_or("id");
        let named = self.id_field.iter().map(|id| (id, "--id-field"));
        for (name, option) in named.chain(self.listed().iter().map(|name| (name, "--metadata"))) {
            row.needed(name, option)?;
        }
        let is_metadata = |name: &&str| self.takes_all() && ![content, id].contains(name);
        let is_twice = |name: &&str| row.names().filter(|other| other == name).count() > 1;
        if let Some(name) = row.names().filter(is_metadata).find(is_twice) {
            return Err(Reason::Repeated.because(format!(
                "two columns have the name {name:?}, and both would become metadata; --metadata names those \
                 to store, and --metadata none leaves all out"
            )));
        }
        let is_used = |name: &&str| self.takes_all() || [content, id].contains(name);
        let listed = self.listed().iter().chain(&self.id_field).map(String::as_str);
        let listed = listed.chain(quality);
        let mut used: Vec<String> = Vec::new();
        for name in row.names().filter(is_used).chain([content]).chain(listed) {
            if !used.iter().any(|other| other == name) {
                used.push(name.to_owned());
            }
        }
        Ok(used)
    }

    fn image(&self) -> Option<&str> {
        self.images.column()
    }

    fn header(&self, line: &[u8]) -> Option<Result<(), String>> {
        ExportHeader::of(line)?.ok().map(|_| Ok(()))
    }
}

impl Shape {
    /// The document of an object or a row.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn of_fields(&self, fields: &Fields<'_>, raw: &Raw) -> Result<Line, Unread> {
        let is_document = fields.what == "field"
            && self.content_field().is_none()
            && !self.images.are_read()
            && !self.html
            && self.id_field.as_ref().is_none_or(|name| name == "id")
            && fields.names().all(|name| DOCUMENT_MEMBERS.contains(&name));
        let adds_page = self.page().is_some() && fields.get("html").is_some() && fields.get("page").is_none();
        if !is_document || !self.takes_all() || adds_page || self.images.are_read() {
            return self.document(fields, is_document);
        }
        for name in ["text", "html"] {
            if fields.get(name).is_some_and(|value| !value.is_null()) {
                fields.text(name, "--text-field")?;
            }
        }
        let is_there = |name: &&str| fields.get(name).is_some_and(|value| !value.is_null());
        if fields.get("text").is_some() && !CONTENT.iter().any(is_there) {
            fields.needed("text", "--text-field")?;
        }
        let id = self.id(fields)?;
        fields.all.iter().try_for_each(|(name, value)| check_characters(name, *value))?;
        let own = fields.get("id").and_then(|value| value.string().ok());
        match &raw.content {
            Content::Line(bytes) if own.as_deref() == id.as_deref() => Ok(sent_as_it_is(bytes, id)),
            Content::Element(bytes) if own.as_deref() == id.as_deref() => Ok(sent_as_it_is(bytes, id)),
            _ => self.document(fields, is_document),
        }
    }

    /// Refuses options that do not suit each other.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.images.check(self.hash_field.is_some())
    }

    /// The names of `--metadata`.
    fn listed(&self) -> &[String] {
        match &self.metadata {
            Some(Wanted::Fields(listed)) => listed,
            _ => &[],
        }
    }

    /// Whether all fields become metadata.
    fn takes_all(&self) -> bool {
        matches!(self.metadata, None | Some(Wanted::All))
    }

    /// The warning about fields that `--metadata` lists and no line had; `None` without lines.
    pub(super) fn missing_metadata(&self) -> Option<String> {
        match &self.metadata {
            Some(Wanted::Fields(listed)) => self.seen.missing(listed),
            _ => None,
        }
    }

    /// The text of pages that the server is to use, if it is not the one that it uses by default.
    pub(super) fn page(&self) -> Option<&'static str> {
        match self.page {
            OfPage::Main => None,
            OfPage::Visible => Some("visible"),
        }
    }

    /// The member of a document for a text that is a whole file.
    pub(super) fn member(&self) -> &'static str {
        if self.html { "html" } else { "text" }
    }

    /// Whether documents have no metadata.
    pub(super) fn keeps_no_metadata(&self) -> bool {
        self.metadata == Some(Wanted::None)
    }

    fn content_field(&self) -> Option<&String> {
        self.hash_field.as_ref().or(self.text_field.as_ref())
    }

    fn document(&self, fields: &Fields<'_>, is_document: bool) -> Result<Line, Unread> {
        let content = if is_document { None } else { Some(self.content(fields)?) };
        let id = self.id(fields)?;
        let mut document = Object::default();
        if let Some(id) = &id {
            document.add("id", &quoted(id));
        }
        for (name, value) in &fields.all {
            let is_own = is_document && !["id", "metadata"].contains(&&**name);
            if is_own || (fields.what == "field" && self.keeps_lifetime(name)) {
                document.add(name, &value.json());
            }
        }
        if let Some(Text { member, json, thumbnail, .. }) = &content {
            document.add(member, json);
            thumbnail.iter().for_each(|jpeg| document.add("thumbnail", &quoted(jpeg)));
            let profile = self.images.profile().or_else(|| self.hash_profile.clone());
            profile.iter().for_each(|profile| document.add("profile", &quoted(profile)));
        }
        let is_page = match &content {
            Some(content) => content.member == "html",
            None => fields.get("html").is_some() && fields.get("page").is_none(),
        };
        self.page().filter(|_| is_page).iter().for_each(|page| document.add("page", &quoted(page)));
        let metadata = self.metadata(fields, content.as_ref(), is_document)?;
        if !metadata.is_empty() {
            let mut object = Object::default();
            for Field { name, json } in &metadata {
                check_characters(name, Value::Json(json))?;
                object.add(name, json);
            }
            document.add("metadata", &object.end());
        }
        Ok(Line { bytes: document.end().into_bytes(), id, is_mapped: true, charset: None })
    }

    fn id(&self, fields: &Fields<'_>) -> Result<Option<String>, Unread> {
        fields.id(self.id_field.as_deref().unwrap_or("id"), self.id_field.is_some())
    }

    /// Whether a field of a line is the lifetime of the document: it is if the user names no fields.
    fn keeps_lifetime(&self, name: &str) -> bool {
        LIFETIME.contains(&name)
            && self.content_field().is_none()
            && self.id_field.is_none()
            && self.metadata.is_none()
    }

    fn content<'a>(&'a self, fields: &Fields<'a>) -> Result<Text<'a>, Unread> {
        if let Some(name) = self.images.column() {
            let (hash, thumbnail) = self.images.hash(&fields.image(name, "--image-field")?)?;
            return Ok(Text { member: "hash", name, json: quoted(&hash).into(), thumbnail });
        }
        if let Some(name) = &self.hash_field {
            self.images.check_quality_of(fields)?;
            let value = fields.needed(name, "--hash-field")?;
            // Databases write integers with blanks before them.
            let json = value.string().map_or_else(|_| value.json(), |text| quoted(text.trim()).into());
            return Ok(Text { member: "hash", name, json, thumbnail: None });
        }
        let is_there = |name: &&str| fields.get(name).is_some_and(|value| !value.is_null());
        let name = match &self.text_field {
            Some(name) => name.as_str(),
            None => ["text", "html"].into_iter().find(is_there).unwrap_or("text"),
        };
        let text = fields.text(name, "--text-field")?;
        let is_page = self.html || (self.text_field.is_none() && name == "html");
        let json = fields.get(name).map_or_else(|| quoted(&text).into(), Value::json);
        Ok(Text { member: if is_page { "html" } else { "text" }, name, json, thumbnail: None })
    }

    /// The fields of the metadata.
    fn metadata<'a>(
        &'a self,
        fields: &'a Fields<'a>,
        content: Option<&Text<'_>>,
        is_document: bool,
    ) -> Result<Vec<Field<'a>>, Unread> {
        let wanted = self.metadata.as_ref().unwrap_or(&Wanted::All);
        if *wanted == Wanted::None {
            return Ok(Vec::new());
        }
        let all = self.others(fields, content, is_document)?;
        if let Wanted::Fields(names) = wanted {
            let others = all.iter().map(|field| (Cow::Borrowed(&*field.name), Value::Json(&field.json)));
            let others = Fields { what: fields.what, all: others.collect() };
            let found = |name: &'a String| {
                let json = others.get(name).or_else(|| fields.get(name))?.json();
                Some(Field { name: name.into(), json: json.into_owned().into() })
            };
            let found: Vec<Field<'_>> = names.iter().filter_map(found).collect();
            self.seen.note(names, found.iter().map(|field| &*field.name), others.names());
            return Ok(found);
        }
        match twice(&all) {
            Some(name) => Err(Reason::Repeated.because(format!(
                "two values of the field {name:?} would become metadata; --metadata names those to store, \
                 and --metadata none leaves all out"
            ))),
            None => Ok(all),
        }
    }

    /// The fields that can become metadata: those of an object `metadata`, and all others that are not used.
    fn others<'a>(
        &self,
        fields: &'a Fields<'a>,
        content: Option<&Text<'_>>,
        is_document: bool,
    ) -> Result<Vec<Field<'a>>, Unread> {
        let id = self.id_field.as_deref().unwrap_or("id");
        let text = content.map(|content| content.name);
        let is_own = fields.names().any(|name| Some(name) == text);
        let is_line = fields.what == "field";
        let mut all: Vec<Field<'a>> = Vec::new();
        for (name, value) in &fields.all {
            let inner =
                text.filter(|_| !is_own).and_then(|text| text.strip_prefix(&**name)?.strip_prefix('.'));
            let json = value.json();
            let json = inner.and_then(|inner| without(&json, inner)).map_or(json, Cow::Owned);
            let is_metadata = name == "metadata" && is_line;
            if let Some(object) = members(&json).ok().filter(|_| is_metadata) {
                all.extend(object.into_iter().map(|(name, value)| Field {
                    name: name.into_owned().into(),
                    json: value.json().into_owned().into(),
                }));
                continue;
            }
            if is_document && is_metadata && json != "null" {
                let why = "the field \"metadata\" is no object; --metadata none leaves it out";
                return Err(Reason::Value.because(why));
            }
            // The texts of a path are not stored twice.
            let outer = text.filter(|_| !is_own || !is_line).and_then(outer_of_path);
            let is_used = [text, outer].contains(&Some(&**name))
                || name == id
                || (is_line && self.keeps_lifetime(name));
            if !is_used && !is_document {
                all.push(Field { name: Cow::Borrowed(name), json });
            }
        }
        Ok(all)
    }
}

/// The line of an object that is a document already.
fn sent_as_it_is(mut object: &[u8], id: Option<String>) -> Line {
    while let Some(rest) = object.strip_prefix(b"\xef\xbb\xbf") {
        object = rest;
    }
    let mut bytes = object.trim_ascii().to_vec();
    // A line break within an element would end the line.
    bytes.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    Line { bytes, id, ..Line::default() }
}

/// A name that two fields have.
fn twice<'a>(fields: &'a [Field<'_>]) -> Option<&'a str> {
    let mut names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// An object without one of its fields; `None` if it is no object.
fn without(json: &str, name: &str) -> Option<String> {
    let fields = members(json).ok()?;
    let has_own = fields.iter().any(|(own, _)| own == name);
    let mut object = Object::default();
    for (own, value) in fields {
        let inner = name.strip_prefix(&*own).and_then(|rest| rest.strip_prefix('.')).filter(|_| !has_own);
        match inner.and_then(|inner| without(&value.json(), inner)) {
            Some(rest) => object.add(&own, &rest),
            None if own == name => {}
            None => object.add(&own, &value.json()),
        }
    }
    Some(object.end())
}

/// A JSON object in the making.
#[derive(Default)]
struct Object(String);

impl Object {
    fn add(&mut self, name: &str, json: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self.0.push_str(json);
    }

    fn end(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        // A line break within a value would end the line.
        self.0.replace('\n', " ")
    }
}

#[cfg(test)]
mod tests;
