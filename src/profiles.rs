//! The file of users' profiles: a TOML table for each profile, with the key `like` for its base profile and
//! keys for the differences.
//!
//! Guarantees: an error names the file, the profile and the key. Files that a definition names
//! (`user_dictionary`, `stop_words`, `idf`) are relative to the directory of the file. Not here: the
//! meaning of the keys (`fingerprint::Definition`).

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value as Toml};

use crate::fingerprint::{Definition, DefinitionError, Profile, Profiles, Value};

/// The most bytes of the file, and of each file that a definition names.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The most profiles in a file.
const MAX_PROFILES: usize = 256;

/// The reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfilesError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The file is too large, is not TOML, or does not consist of tables.
    #[error("{}: {detail}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The fault.
        detail: String,
    },
    /// A definition is invalid.
    #[error("{}: profile {name}: {error}", path.display())]
    Definition {
        /// The file.
        path: PathBuf,
        /// The profile.
        name: String,
        /// The fault.
        error: DefinitionError,
    },
}

/// The built-in profiles, and those of the file if there is one.
///
/// # Errors
/// [`ProfilesError`] for the first fault.
pub fn load(file: Option<&Path>) -> Result<Profiles, ProfilesError> {
    let Some(path) = file else { return Ok(Profiles::default()) };
    let form = |detail: String| ProfilesError::Form { path: path.to_owned(), detail };
    let tables: Table = toml::from_str(&read(path)?).map_err(|error| form(error.to_string()))?;
    if tables.len() > MAX_PROFILES {
        return Err(form(format!("{} profiles; at most {MAX_PROFILES} are allowed", tables.len())));
    }
    let mut own = Vec::with_capacity(tables.len());
    for (name, table) in &tables {
        let Toml::Table(table) = table else {
            return Err(form(format!("{name:?} is not a table; write each profile as a table: [{name}]")));
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
        let detail = format!("the file has {bytes} bytes; at most {MAX_FILE_BYTES} are allowed");
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
             [pairs]\nwords = [2, 2]\nfeatures = \"words\"\nhash = \"md5\"\nbits = 128\nversion = 3\n\
             summary = \"x\"\n",
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
    fn errors_name_the_file_and_the_profile() {
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
