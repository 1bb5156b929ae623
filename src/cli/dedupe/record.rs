//! From the bytes of a record to a document: its id, its text or hash, and the key of the keep rule.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use encoding_rs::Encoding;
use xxhash_rust::xxh3::xxh3_64;

use super::super::images::hashed;
use super::annotate::check_names;
use super::bench::{InText, Items};
use super::reader::BATCH_BYTES;
use super::remarks::Remarks;
use super::spool::{Kind, Sizes, Stored};
use lookalike_corpus::Print;
use lookalike_dedupe::{Keep, Printer, SKETCH_BYTES};
use lookalike_files::{About, Fields, How, QUALITY, Reason, Record, Said, Unread, Value, Wants};
pub(super) use lookalike_files::{Content, Raw};
use lookalike_hash::{FormError, Hash, HashError, HashForm, SignatureShape};
use lookalike_http::ExportHeader;
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::{Profile, Status, has_too_little, makes_the_same, signature_name};
use lookalike_text::{PageText, page_text};

/// The result of making a document of a record.
pub(super) struct Made {
    pub(super) id: Option<String>,
    /// The value of the field that names its source.
    pub(super) source: Option<String>,
    /// The facts to store about it; `None` if an earlier run has stored them.
    pub(super) stored: Option<Stored>,
    /// The text that is compared, if the run wants it.
    pub(super) text: Option<String>,
    /// What it contains of evaluation sets.
    pub(super) contained: Option<InText>,
    /// Why it is not read.
    pub(super) unread: Option<Unread>,
}

/// The document of a record.
struct Document<'a> {
    id: Option<String>,
    /// `None` if the document is given as a hash or signature.
    text: Option<Cow<'a, str>>,
    is_page: bool,
    print: Option<Print>,
    /// How much there is to see in its image.
    quality: Option<u8>,
    key: Option<String>,
    source: Option<String>,
    remarks: Remarks,
}

/// Makes documents of records.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of the run")]
pub(super) struct Maker {
    pub(super) profile: &'static Profile,
    pub(super) keep: Keep,
    pub(super) text_field: String,
    pub(super) id_field: String,
    /// Whether the id field was named by the user, so that every document must have it.
    pub(super) needs_id: bool,
    /// Whether documents are written with notes.
    pub(super) is_annotated: bool,
    pub(super) source_field: Option<String>,
    pub(super) hash_field: Option<String>,
    /// The form of these hashes; `None` for all that need no name.
    pub(super) hash_form: Option<HashForm>,
    /// The field with the image; `None` if texts or hashes are read.
    pub(super) image_field: Option<String>,
    /// Images in which there is less to see are compared with nothing.
    pub(super) min_quality: u8,
    pub(super) is_page: bool,
    /// Which text of pages is compared.
    pub(super) page: PageText,
    /// The charset of lines, tables and texts, as the user names it.
    pub(super) charset: Option<&'static Encoding>,
    /// Whether lines are those that a server exports: with a text, a hash or a signature.
    pub(super) is_exported: bool,
    pub(super) sizes: Sizes,
    /// The weights of the features of signatures, if they have any.
    pub(super) weights: Option<Arc<Frequencies>>,
    /// Whether the run wants the texts.
    pub(super) gives_texts: bool,
    /// The evaluation sets that no document may contain.
    pub(super) bench: Option<Arc<Items>>,
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
    pub(super) fn make(&self, raw: &Raw, about: &About, is_known: bool) -> Made {
        let made = self.made(raw, about, is_known);
        let contained = self.bench.as_ref().zip(made.text.as_deref());
        Made { contained: contained.and_then(|(bench, text)| InText::of(bench, text)), ..made }
    }

    fn made(&self, raw: &Raw, about: &About, is_known: bool) -> Made {
        let without_print = |kind: Kind, unread: Option<Unread>| {
            let (remarks, print) = (Remarks::default(), self.sizes.blank());
            let stored = Stored { kind, key: 0, digest: 0, remarks, print };
            Made { id: None, source: None, stored: Some(stored), text: None, contained: None, unread }
        };
        match self.document(raw, about) {
            Ok(Some(document)) if is_known => {
                let unread = self.key(&document, "").err();
                let text = document.text.as_ref().filter(|_| self.gives_texts);
                let text = text.map(|text| self.compared(text, document.is_page).into_owned());
                let (id, source) = (document.id, document.source);
                Made { id, source, stored: None, text, contained: None, unread }
            }
            Ok(Some(document)) => match self.stored(&document) {
                Ok((stored, text)) => {
                    let (id, source) = (document.id, document.source);
                    Made { id, source, stored: Some(stored), text, contained: None, unread: None }
                }
                Err(unread) => Made { id: document.id, ..without_print(Kind::Invalid, Some(unread)) },
            },
            Ok(None) => without_print(Kind::Other, None),
            Err(unread) if unread.reason.is_passed_over() => without_print(Kind::Other, Some(unread)),
            Err(unread) => without_print(Kind::Invalid, Some(unread)),
        }
    }

    /// The document of a record; `None` if it is none.
    fn document<'a>(&self, raw: &'a Raw, about: &'a About) -> Result<Option<Document<'a>>, Unread> {
        let said = raw.said(about, self.how())?;
        let of = |text: Cow<'a, str>| Document {
            id: None,
            text: Some(text),
            is_page: self.is_page,
            print: None,
            quality: None,
            key: None,
            source: None,
            remarks: Remarks::default(),
        };
        let remarks = said.doubtful_charset(about).map(|charset| Remarks::of(&charset)).unwrap_or_default();
        let document = match said {
            Said::Nothing => Ok(None),
            Said::Fields(fields) if self.is_exported => self.of_exported(&fields).map(Some),
            Said::Fields(fields) => self.of_fields(&fields).map(Some),
            Said::Text(text) => Ok(Some(of(text.text))),
            Said::Image(image) => {
                let document = Document { text: None, is_page: false, ..of("".into()) };
                self.of_image(image, document).map(Some)
            }
            Said::Capture(record, field, content) => {
                let key = self.keep.field().map(|name| header(record, name)).transpose()?;
                let id = Some(record.target().to_owned()).filter(|target| !target.is_empty());
                let source = self.source_field.as_ref().map(|name| header(record, name)).transpose()?;
                Ok(Some(Document { id, key, source, is_page: field == "html", ..of(content.text) }))
            }
        };
        document.map(|document| document.map(|document| Document { remarks, ..document }))
    }

    fn of_fields<'a>(&self, fields: &Fields<'a>) -> Result<Document<'a>, Unread> {
        if self.is_annotated {
            check_names(fields.what, fields.names())?;
        }
        let id = fields.id(&self.id_field, self.needs_id)?;
        let key =
            self.keep.field().map(|name| fields.needed(name, "--keep").map(Value::plain)).transpose()?;
        let source = self.source_field.as_ref();
        let source =
            source.map(|name| fields.needed(name, "--source-field").map(Value::plain)).transpose()?;
        let (is_page, remarks) = (self.is_page, Remarks::default());
        let document = Document { id, text: None, is_page, print: None, quality: None, key, source, remarks };
        if let Some(name) = &self.image_field {
            return self.of_image(&fields.image(name, "--image-field")?, document);
        }
        let Some(name) = &self.hash_field else {
            let text = fields.text(&self.text_field, "--text-field")?;
            return Ok(Document { text: Some(text), ..document });
        };
        let value = fields.needed(name, "--hash-field")?;
        let hash = match (value.string(), value.json().parse::<i128>()) {
            (Ok(text), _) => HashForm::read(text.trim(), self.hash_form),
            (Err(_), Ok(number)) => HashForm::read_number(number, self.hash_form),
            _ => return Err(Reason::Value.because(format!("the {} {name:?} is not a hash", fields.what))),
        };
        let quality = if self.min_quality > 0 { fields.quality()? } else { None };
        Ok(Document { print: Some(self.print(hash)?), quality, ..document })
    }

    /// The document of an image.
    fn of_image<'a>(&self, image: &[u8], document: Document<'a>) -> Result<Document<'a>, Unread> {
        if self.image_field.is_none() {
            return Err(Reason::Image.because("it is an image: --profile pdq compares images"));
        }
        let made = hashed(self.profile, image, false).map_err(|why| Reason::Image.because(why))?;
        let print = Print { hash: made.hash, ..self.sizes.blank() };
        Ok(Document { print: Some(print), quality: Some(made.quality), ..document })
    }

    fn of_exported<'a>(&self, fields: &Fields<'a>) -> Result<Document<'a>, Unread> {
        let value = |name: &str| fields.get(name).map(Value::plain);
        let text = value("text").map(Cow::Owned);
        let (id, remarks) = (value("id"), Remarks::default());
        let (print, quality, key, source) = (None, None, None, None);
        let document = Document { id, text, is_page: false, print, quality, key, source, remarks };
        if document.text.is_some() {
            return Ok(document);
        }
        if self.sizes.sketch > 0 {
            return Err(Reason::Field.because("the collection keeps no texts, which --check needs"));
        }
        let print = match (value("hash"), value("signature")) {
            (Some(hash), _) => {
                let hash: Hash =
                    hash.parse().map_err(|error: HashError| Reason::Hash.because(error.to_string()))?;
                Print { hash, ..self.sizes.blank() }
            }
            (None, Some(digits)) => {
                let signature = bytes(&digits).filter(|bytes| bytes.len() == self.sizes.signature);
                let signature = signature.ok_or_else(|| {
                    Reason::Hash.because("the signature has another length than the profile's")
                })?;
                Print { hash: signature_name(&signature), signature, sketch: Vec::new() }
            }
            (None, None) => return Err(Reason::Field.because("there is no text, hash or signature")),
        };
        Ok(Document { print: Some(print), ..document })
    }

    /// The print that is a hash made earlier.
    fn print(&self, hash: Result<Hash, FormError>) -> Result<Print, Unread> {
        let hash = hash.map_err(|error| Reason::Hash.because(error.to_string()))?;
        let (wanted, found) = (self.profile.width().bits(), hash.width().bits());
        if wanted != found {
            let profile = self.profile.id();
            return Err(Reason::Hash.because(format!("the hash has {found} bits; {profile} has {wanted}")));
        }
        Ok(Print { hash, ..self.sizes.blank() })
    }

    /// The key of the keep rule.
    fn key(&self, document: &Document<'_>, text: &str) -> Result<u64, Unread> {
        self.keep.key(document.key.as_deref(), text).map_err(|why| Reason::Value.because(why))
    }

    /// What is stored about a document, and its text if the run wants it.
    fn stored(&self, document: &Document<'_>) -> Result<(Stored, Option<String>), Unread> {
        let text = document.text.as_deref().unwrap_or_default();
        let page = document.is_page.then(|| page_text(text, self.page));
        let (mut remarks, mut is_little, mut digest) = (document.remarks, false, xxh3_64(text.as_bytes()));
        let mut text = Cow::Borrowed(text);
        if let Some(page) = page {
            remarks = remarks.with(Remarks::of_page(page.which));
            let Ok(has_too_little) = has_too_little(&text, &page, || Ok::<_, Infallible>(()));
            (is_little, digest, text) = (has_too_little, page.digest, page.text.into());
        }
        let key = self.key(document, &text)?;
        if let Some(print) = document.print.clone() {
            let is_flat = document.quality.is_some_and(|quality| quality < self.min_quality);
            let kind = if is_flat { Kind::Little } else { Kind::Document };
            let print = if is_flat { self.sizes.blank() } else { print };
            let digest = print.hash.low();
            return Ok((Stored { kind, key, digest, remarks, print }, None));
        }
        let (profile, weights) = (self.profile, self.weights.as_deref());
        let (made, print) = Printer { profile, weights, is_checked: self.sizes.sketch > 0 }.print(&text);
        let kind = match made.status {
            Status::Empty => Kind::Empty,
            _ if is_little => Kind::Little,
            _ => Kind::Document,
        };
        if kind == Kind::Document && made.status == Status::Short {
            remarks = remarks.with(Remarks::of_short(self.profile));
        }
        let print = match kind {
            Kind::Document => print,
            _ => self.sizes.blank(),
        };
        let given = self.gives_texts.then(|| text.into_owned());
        Ok((Stored { kind, key, digest, remarks, print }, given))
    }

    /// The text that is compared.
    fn compared<'a>(&self, text: &'a str, is_page: bool) -> Cow<'a, str> {
        if is_page { page_text(text, self.page).text.into() } else { text.into() }
    }

    /// The text of a record that is compared, if it has one.
    pub(super) fn text(&self, raw: &Raw, about: &About) -> Option<String> {
        let document = self.document(raw, about).ok()??;
        document.text.map(|text| self.compared(&text, document.is_page).into_owned())
    }

    /// The features of a record with a text; empty if it has none.
    pub(super) fn features(&self, raw: &Raw, about: &About) -> Vec<u64> {
        self.text(raw, about).map_or_else(Vec::new, |text| self.profile.feature_set(&text))
    }

    /// The one for files of `--against`.
    pub(super) fn of_against(&self) -> Maker {
        let keep = Keep::FIRST;
        let maker = self.clone();
        Maker { keep, needs_id: false, is_annotated: false, source_field: None, bench: None, ..maker }
    }
}

impl Wants for Maker {
    fn how(&self) -> How {
        let (charset, is_page) = (self.charset, self.is_page);
        How { charset, delimiter: None, is_page, block: BATCH_BYTES, keeps_originals: true }
    }

    fn columns(&self, row: &Fields<'_>) -> Result<Vec<String>, Unread> {
        if self.is_annotated {
            check_names(row.what, row.names())?;
        }
        let (content, option) = self.content_field();
        let id = Some(&*self.id_field).filter(|id| self.needs_id || row.get(id).is_some());
        let key = self.keep.field().map(|key| (key, "--keep"));
        let source = self.source_field.as_deref().map(|source| (source, "--source-field"));
        let has_quality = self.hash_field.is_some() && self.min_quality > 0 && row.get(QUALITY).is_some();
        let quality = has_quality.then_some((QUALITY, ""));
        let used = [Some((content, option)), quality, id.map(|id| (id, "--id-field")), key, source];
        let name = |(name, option): (&str, &str)| row.needed(name, option).map(|_| name.to_owned());
        used.into_iter().flatten().map(name).collect()
    }

    fn image(&self) -> Option<&str> {
        self.image_field.as_deref()
    }

    fn header(&self, line: &[u8]) -> Option<Result<(), String>> {
        let header = ExportHeader::of(line)?.ok()?;
        Some(header.and_then(|header| self.refuses(&header)).map_or(Ok(()), Err))
    }
}

impl Maker {
    /// The field that is compared, and the option that names it.
    pub(super) fn content_field(&self) -> (&str, &'static str) {
        match (&self.hash_field, &self.image_field) {
            (Some(name), _) => (name, "--hash-field"),
            (None, Some(name)) => (name, "--image-field"),
            (None, None) => (&self.text_field, "--text-field"),
        }
    }

    /// Why hashes of an export with this header are not read; `None` if they are.
    fn refuses(&self, header: &ExportHeader) -> Option<String> {
        self.hash_field.as_ref()?;
        let (own, form) =
            (self.profile.id().to_string(), header.hash_format.map_or(HashForm::Hex, |format| format.0));
        let theirs = &header.profile;
        // Weights change no hash.
        if !makes_the_same(theirs.split('~').next().unwrap_or(theirs), &own) {
            return Some(format!(
                "the hashes of this export are of the profile {theirs}, not {own}; --profile sets it, and \
                 hashes of two profiles cannot be compared"
            ));
        }
        let is_named = self.hash_form.is_some() || form == HashForm::Hex;
        (!is_named).then(|| format!("the hashes of this export are in another form: --hash-format {form}"))
    }
}

/// The value of a header of a record.
fn header(record: &Record, name: &str) -> Result<String, Unread> {
    record.header(name).ok_or_else(|| Reason::Field.because(format!("there is no header {name:?}")))
}

/// The bytes that hexadecimal digits spell.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
