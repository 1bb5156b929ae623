//! `Layers`: for each key, the value of the last layer that sets it, and where it was written.
//!
//! A layer replaces the values of earlier layers; values are checked after the last layer. This module does
//! no I/O: callers supply the layers.

use std::collections::BTreeMap;
use std::ffi::OsString;

use toml::{Table, Value};

use super::error::{ConfigError, Given, Origin};
use super::keys::{self, KEYS, Key};
use super::redact::redacted;
use super::settings::Settings;

/// A value of the type that its key requires.
pub(super) struct Entry {
    key: &'static Key,
    value: Value,
    given: Given,
}

impl Entry {
    /// A value as it was read; `None` means that it has another type than the key.
    pub(super) fn new(
        key: &'static Key,
        value: Option<Value>,
        mut given: Given,
    ) -> Result<Entry, ConfigError> {
        if let Some(list @ Value::Array(_)) = &value {
            // Variables and files write lists differently, and a file may use several lines.
            given.written = list.to_string();
        }
        given.written = redacted(&given.written);
        match value {
            Some(value) => Ok(Entry { key, value, given }),
            None => Err(ConfigError::WrongType { given, expected: key.kind.expected() }),
        }
    }

    fn from_text(key: &'static Key, text: &str, origin: Origin) -> Result<Entry, ConfigError> {
        let given = Given { key: key.path, written: format!("{text:?}"), origin };
        Entry::new(key, key.kind.read_text(text), given)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let given = || self.given.clone();
        if self.value.as_str().is_some_and(|text| text.trim().is_empty()) {
            return Err(ConfigError::Empty { given: given() });
        }
        match (self.key.kind.range(), self.value.as_integer()) {
            (Some(range), Some(number)) if !range.contains(number) => {
                Err(ConfigError::OutOfRange { given: given(), range })
            }
            _ => Ok(()),
        }
    }
}

/// The entries of the variables.
pub(super) fn variable_entries(
    variables: impl Iterator<Item = (String, OsString)>,
) -> Result<Vec<Entry>, ConfigError> {
    variables
        .filter(|(name, _)| keys::concerns(name))
        .map(|(name, value)| variable_entry(name, value))
        .collect()
}

fn variable_entry(name: String, value: OsString) -> Result<Entry, ConfigError> {
    let parts = keys::parts(&name);
    let origin = Origin::Variable(name);
    let Ok(text) = value.into_string() else { return Err(ConfigError::NotUtf8 { origin }) };
    match parts {
        Some((section, name)) => Entry::from_text(keys::find(&section, &name, &origin)?, &text, origin),
        None => Err(ConfigError::VariableForm { origin, sections: keys::sections() }),
    }
}

/// The entries of the flags.
pub(super) fn flag_entries(flags: &[(&'static str, String)]) -> Result<Vec<Entry>, ConfigError> {
    flags.iter().map(|(path, text)| flag_entry(path, text)).collect()
}

fn flag_entry(path: &str, text: &str) -> Result<Entry, ConfigError> {
    let (section, name) = path.split_once('.').unwrap_or((path, ""));
    Entry::from_text(keys::find(section, name, &Origin::Flag)?, text, Origin::Flag)
}

/// The merged layers, by the path of the key.
pub(super) struct Layers(BTreeMap<&'static str, Entry>);

impl Layers {
    /// The built-in defaults.
    pub(super) fn built_in() -> Layers {
        let defaults =
            Table::try_from(Settings::default()).expect("numbers, words and UTF-8 paths fit into TOML");
        let entry = |key: &'static Key| {
            let value = defaults.get(key.section())?.get(key.name())?.clone();
            let given = Given { key: key.path, written: value.to_string(), origin: Origin::BuiltIn };
            Some((key.path, Entry { key, value, given }))
        };
        Layers(KEYS.iter().filter_map(entry).collect())
    }

    /// Adds a layer, which overrides the earlier ones.
    pub(super) fn add(&mut self, layer: Vec<Entry>) {
        self.0.extend(layer.into_iter().map(|entry| (entry.key.path, entry)));
    }

    /// Checks each value alone, and then those with a lower bound. So if the bound itself is out of range,
    /// the error names the bound.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.in_order().try_for_each(Entry::check)?;
        self.in_order().try_for_each(|entry| self.check_floor(entry))
    }

    /// Entries in the order of the table, so that of several errors the same one is always reported.
    fn in_order(&self) -> impl Iterator<Item = &Entry> {
        KEYS.iter().filter_map(|key| self.0.get(key.path))
    }

    fn check_floor(&self, entry: &Entry) -> Result<(), ConfigError> {
        let Some(floor) = entry.key.floor.and_then(|path| self.0.get(path)) else { return Ok(()) };
        if entry.value.as_integer() >= floor.value.as_integer() {
            return Ok(());
        }
        Err(ConfigError::BelowFloor { given: entry.given.clone(), floor: Box::new(floor.given.clone()) })
    }

    /// The value of each key as it was written, and where, in the order of the table.
    pub(super) fn given(&self) -> Vec<Given> {
        self.in_order().map(|entry| entry.given.clone()).collect()
    }

    /// Converts the values, which must have been checked.
    pub(super) fn into_settings(self) -> Settings {
        let mut settings = Table::new();
        for entry in self.0.into_values() {
            let section = settings.entry(entry.key.section()).or_insert_with(|| Table::new().into());
            if let Value::Table(section) = section {
                section.insert(entry.key.name().into(), entry.value);
            }
        }
        settings.try_into().expect("the kinds and ranges of the key table are those of the fields")
    }
}
