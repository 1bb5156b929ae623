//! The settings file: reads it, and finds keys, values and line numbers in its TOML document.
//!
//! The document is walked, not deserialized, because only its spans give the line numbers for errors.

use std::fs::File;
use std::io::{self, Read};
use std::ops;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Given, Origin};
use super::keys;
use super::layers::Entry;

/// The maximum size of the file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The text of the file.
pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    let read = || {
        let mut text = String::new();
        // The path may name a device without an end.
        File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
        }
        Ok(text)
    };
    read().map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })
}

/// A document and the path that it was read from.
struct Document<'a> {
    path: &'a Path,
    text: &'a str,
}

/// The entries of the document.
pub(super) fn entries(path: &Path, text: &str) -> Result<Vec<Entry>, ConfigError> {
    let document = Document { path, text };
    let table = DeTable::parse(text).map_err(|source| ConfigError::NotToml {
        origin: document.origin(&source.span().unwrap_or_default()),
        what: source.message().to_owned(),
    })?;
    let mut entries = Vec::new();
    for (section, value) in table.get_ref() {
        document.section(section, value, &mut entries)?;
    }
    Ok(entries)
}

impl Document<'_> {
    /// The line where a span begins. A span may begin after the last character, but not outside the text.
    fn origin(&self, span: &ops::Range<usize>) -> Origin {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Origin::File { path: self.path.to_owned(), line }
    }

    fn section<T: AsRef<str>>(
        &self,
        section: &Spanned<T>,
        value: &Spanned<DeValue<'_>>,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ConfigError> {
        let origin = self.origin(&section.span());
        let section = keys::find_section(section.get_ref().as_ref(), &origin)?;
        let DeValue::Table(table) = value.get_ref() else {
            return Err(ConfigError::NotASection { origin, section, keys: keys::names(section) });
        };
        for (key, value) in table {
            entries.push(self.entry(section, key, value)?);
        }
        Ok(())
    }

    fn entry<T: AsRef<str>>(
        &self,
        section: &str,
        key: &Spanned<T>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Entry, ConfigError> {
        let origin = self.origin(&key.span());
        let key = keys::find(section, key.get_ref().as_ref(), &origin)?;
        let given = Given { key: key.path, written: self.written(value), origin };
        Entry::new(key, key.kind.read_toml(value.get_ref()), given)
    }

    /// A value on one line: as it was written, or its type if it may take several lines.
    fn written(&self, value: &Spanned<DeValue<'_>>) -> String {
        match value.get_ref() {
            DeValue::String(text) => format!("{text:?}"),
            DeValue::Array(_) => "an array".into(),
            DeValue::Table(_) => "a table".into(),
            _ => self.text.get(value.span()).unwrap_or_default().to_owned(),
        }
    }
}
