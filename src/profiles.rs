//! The file of users' profiles: a TOML table for each, the key `like` first, then what differs.
//!
//! Promises: an error names the file, the profile and the key. Files that a definition names (`user_dictionary`,
//! `stop_words`, `idf`) are read relative to the file of the definitions. Leaves out: what keys mean, which is
//! `fingerprint::Definition`'s.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value as Toml};

use crate::fingerprint::{Definition, DefinitionError, Profile, Profiles, Value};

/// The most bytes of a file that a definition names: a dictionary or a table of words.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The most profiles in a file.
const MAX_PROFILES: usize = 256;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfilesError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// It is not TOML, or not tables.
    #[error("{}: {detail}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// A definition is wrong.
    #[error("{}: profile {name}: {error}", path.display())]
    Definition {
        /// The file.
        path: PathBuf,
        /// The profile.
        name: String,
        /// What is wrong.
        error: DefinitionError,
    },
}

/// The built-in profiles and those of the file, if one is named.
///
/// # Errors
/// [`ProfilesError`] for the first fault found.
pub fn load(file: Option<&Path>) -> Result<Profiles, ProfilesError> {
    let Some(path) = file else { return Ok(Profiles::default()) };
    let form = |detail: String| ProfilesError::Form { path: path.to_owned(), detail };
    let tables: Table = toml::from_str(&read(path)?).map_err(|error| form(error.to_string()))?;
    if tables.len() > MAX_PROFILES {
        return Err(form(format!("{} profiles; at most {MAX_PROFILES} are taken", tables.len())));
    }
    let mut own = Vec::with_capacity(tables.len());
    for (name, table) in &tables {
        let Toml::Table(table) = table else {
            return Err(form(format!("{name:?} is not a table; each profile is one: [{name}]")));
        };
        own.push(define(path, name, table)?);
    }
    Ok(Profiles::with(own))
}

fn define(path: &Path, name: &str, table: &Table) -> Result<Profile, ProfilesError> {
    let wrong = |error| ProfilesError::Definition { path: path.to_owned(), name: name.to_owned(), error };
    let like = match table.get("like") {
        None => None,
        Some(Toml::String(like)) => Some(like.as_str()),
        Some(_) => {
            let takes = "the name of a built-in profile".to_owned();
            return Err(wrong(DefinitionError::Value { key: "like", takes }));
        }
    };
    let mut definition = Definition::new(name, like).map_err(wrong)?;
    let mut keys: Vec<(&String, &Toml)> = table.iter().filter(|(key, _)| *key != "like").collect();
    keys.sort_by_key(|(key, _)| Definition::order(key));
    for (key, value) in keys {
        definition.set(key, value_of(path, key, value)?).map_err(wrong)?;
    }
    definition.finish().map_err(wrong)
}

fn value_of(path: &Path, key: &str, value: &Toml) -> Result<Value, ProfilesError> {
    Ok(match value {
        Toml::String(file) if Definition::takes_file(key, file) => {
            Value::File(read(&path.parent().unwrap_or(Path::new("")).join(file))?)
        }
        Toml::String(text) => Value::Text(text.clone()),
        Toml::Integer(number) => Value::Number(*number),
        Toml::Array(items) => match items[..] {
            [Toml::Integer(least), Toml::Integer(most)] => Value::Span(least, most),
            _ => Value::Text("an array of something else".to_owned()),
        },
        _ => Value::Text("a value of another kind".to_owned()),
    })
}

fn read(path: &Path) -> Result<String, ProfilesError> {
    let wrong = |error| ProfilesError::Read { path: path.to_owned(), error };
    let bytes = fs::metadata(path).map_err(wrong)?.len();
    if bytes > MAX_FILE_BYTES {
        let detail = format!("{bytes} bytes; at most {MAX_FILE_BYTES} are read");
        return Err(ProfilesError::Form { path: path.to_owned(), detail });
    }
    fs::read_to_string(path).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<Profiles, String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("words.txt"), "江大桥\n").unwrap();
        let path = dir.path().join("profiles.toml");
        fs::write(&path, text).unwrap();
        load(Some(&path)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_defines_profiles() {
        let profiles = loaded(
            "[house]\nlike = \"copies-64\"\nk = 5\nuser_dictionary = \"words.txt\"\n\
             [pairs]\nwords = [2, 2]\nfeatures = \"words\"\nhash = \"md5\"\nbits = 128\nversion = 3\nsummary = \"x\"\n",
        )
        .unwrap();
        let house = profiles.named("house").unwrap();
        assert_eq!((house.default_k(), house.width().bits()), (5, 64));
        let explained = house.explain("江大桥讲话。");
        assert!(explained.features.iter().any(|feature| feature.text == "江大桥"));
        let pairs = profiles.named("pairs@3").unwrap();
        assert_eq!(pairs.explain("a b c").features.len(), 2);
        assert_eq!(pairs.summary(), "x");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let cases = [
            ("house = 1", "\"house\" is not a table"),
            ("[house", "TOML"),
            ("[house]\nlike = 5", "profile house: like takes"),
            ("[house]\nlike = \"x\"", "profile house: like: there is no built-in profile \"x\""),
            ("[house]\nk = \"7\"", "profile house: k takes a number from 0 to 128"),
            ("[house]\nuser_dictionary = \"none.txt\"", "none.txt: No such file"),
            ("[house]\ncolour = 1.5", "there is no key \"colour\""),
            ("[Copies]\n", "profile Copies: a profile cannot be called"),
        ];
        for (text, expected) in cases {
            let error = loaded(text).unwrap_err();
            assert!(
                error.contains(expected) && error.contains("profiles.toml") || error.contains("none.txt"),
                "{error}"
            );
        }
    }
}
