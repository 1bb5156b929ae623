//! The file of keys: TOML with one `[[key]]` table per key. It is always replaced as a whole, and only its
//! owner can read it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Key, NAME_BYTES, Role, Scope};
use lookalike_hash::CollectionName;

/// Why keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file exists but cannot be read, or it cannot be written.
    #[error("the file of keys {} cannot be {action}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The failed action.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not a valid file of keys.
    #[error("the file of keys {} is damaged: {detail}; correct it or restore a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, without the content of the file.
        detail: String,
    },
    /// A key with this name exists already.
    #[error("there is a key {0:?} already; revoke it first, or choose another name")]
    Taken(String),
    /// No key has this name.
    #[error("there is no key {0:?}; `lookalike keys list` shows the existing keys")]
    Unknown(String),
    /// A name with other characters, which would be hard to distinguish in a list.
    #[error("a key's name has 1 to {NAME_BYTES} characters of a-z, A-Z, 0-9, -, _ and .")]
    Name,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    #[serde(default)]
    key: Vec<Written>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    role: Role,
    /// Absent for all collections.
    #[serde(skip_serializing_if = "Option::is_none")]
    collections: Option<Vec<String>>,
    /// Absent for an unlimited rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    units_per_second: Option<u64>,
    made_at: String,
    sha256: String,
}

/// A file of keys, by its path.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at this path, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> KeyFile {
        KeyFile { path: path.into() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys in the file; `None` if it does not exist.
    ///
    /// # Errors
    /// [`KeyError`] if it cannot be read.
    pub fn read(&self) -> Result<Option<Vec<Key>>, KeyError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            // If the data directory is not a directory, the engine reports it.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(source) => return Err(self.failed("read", source)),
        };
        // The message of the parser would quote the file, which may hold secrets.
        let contents: Contents = toml::from_str(&text).map_err(|error: toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            self.damaged(format!("line {line}"))
        })?;
        contents.key.into_iter().map(|written| self.key(written)).collect::<Result<Vec<_>, _>>().map(Some)
    }

    fn key(&self, written: Written) -> Result<Key, KeyError> {
        let of_key = |what: &str| self.damaged(format!("{what} of key {:?}", written.name));
        let digest = digest(&written.sha256).ok_or_else(|| of_key("sha256"))?;
        let scope = match &written.collections {
            None => Scope::All,
            Some(names) => {
                let names =
                    names.iter().map(|name| CollectionName::new(name)).collect::<Result<BTreeSet<_>, _>>();
                Scope::Named(names.map_err(|_| of_key("collections"))?)
            }
        };
        let Written { name, role, units_per_second: rate, made_at, .. } = written;
        Ok(Key { name, role, scope, rate, made_at, digest })
    }

    /// Adds a key.
    ///
    /// # Errors
    /// [`KeyError::Name`], [`KeyError::Taken`], or [`KeyError`] if the file cannot be read or written.
    pub fn add(&self, key: Key) -> Result<(), KeyError> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if key.name.is_empty() || key.name.len() > NAME_BYTES || !key.name.chars().all(is_fit) {
            return Err(KeyError::Name);
        }
        let mut keys = self.read()?.unwrap_or_default();
        if keys.iter().any(|known| known.name == key.name) {
            return Err(KeyError::Taken(key.name));
        }
        keys.push(key);
        self.write(&keys)
    }

    /// Removes a key. The file remains even without keys, so that a server that required keys still does.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], or [`KeyError`] if the file cannot be read or written.
    pub fn revoke(&self, name: &str) -> Result<(), KeyError> {
        let mut keys = self.read()?.unwrap_or_default();
        let before = keys.len();
        keys.retain(|key| key.name != name);
        if keys.len() == before {
            return Err(KeyError::Unknown(name.to_owned()));
        }
        self.write(&keys)
    }

    fn write(&self, keys: &[Key]) -> Result<(), KeyError> {
        let written = |key: &Key| Written {
            name: key.name.clone(),
            role: key.role,
            collections: match &key.scope {
                Scope::All => None,
                Scope::Named(names) => Some(names.iter().map(ToString::to_string).collect()),
            },
            units_per_second: key.rate,
            made_at: key.made_at.clone(),
            sha256: key.digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let contents = Contents { key: keys.iter().map(written).collect() };
        let text = toml::to_string(&contents).map_err(|_| self.damaged("it cannot be written".to_owned()))?;
        self.replace(&text).map_err(|source| self.failed("written", source))
    }

    /// Replaces the file atomically: a concurrent reader sees the old or the new content as a whole.
    fn replace(&self, text: &str) -> io::Result<()> {
        let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let partial = self.path.with_added_extension("partial");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&partial)?;
        file.write_all(b"# Written by `lookalike keys`. Hashes of keys, not the keys.\n\n")?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, &self.path)?;
        File::open(directory)?.sync_all()
    }

    fn failed(&self, action: &'static str, source: io::Error) -> KeyError {
        KeyError::File { path: self.path.clone(), action, source }
    }

    fn damaged(&self, detail: String) -> KeyError {
        KeyError::Damaged { path: self.path.clone(), detail }
    }
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, digits) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, scope: Scope) -> Key {
        Key::new(name.to_owned(), Role::Write, scope, Some(7), "2026-11-21T09:30:00Z".to_owned(), [7, 8]).0
    }

    #[test]
    fn keys_are_read_back_as_they_were_written_and_can_be_revoked() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::at(directory.path().join("keys.toml"));
        assert_eq!(file.read().unwrap(), None);
        let names = ["news", "default"].map(|name| CollectionName::new(name).unwrap());
        let keys = [key("a", Scope::All), key("b", Scope::Named(names.into()))];
        keys.iter().for_each(|key| file.add(key.clone()).unwrap());
        assert_eq!(file.read().unwrap().unwrap(), keys);
        assert!(matches!(file.add(keys[0].clone()), Err(KeyError::Taken(_))));
        assert!(matches!(file.revoke("c"), Err(KeyError::Unknown(_))));
        file.revoke("a").unwrap();
        file.revoke("b").unwrap();
        assert_eq!(file.read().unwrap(), Some(vec![]), "the file remains");
        assert!(matches!(file.add(key("a b", Scope::All)), Err(KeyError::Name)));
    }

    #[test]
    fn a_damaged_file_is_named_by_its_line_and_not_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::at(directory.path().join("keys.toml"));
        file.add(key("a", Scope::All)).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        for (from, to) in
            [("role", "rule"), ("\"write\"", "\"any\""), ("sha256 = \"", "sha256 = \"x"), ("[[", "[")]
        {
            fs::write(file.path(), text.replace(from, to)).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains("keys.toml is damaged: ") && !error.contains("rule"), "{error}");
        }
    }
}
