//! Which replicas a data directory is one of: the file `REPLICAS` in it.
//!
//! Without it, a server that is started with the URL of another shared log would apply the entries of that
//! log to its own documents.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The name of the file.
const FILE: &str = "REPLICAS";

/// The shared log of a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    /// Its URL.
    pub(super) url: String,
    /// The identity of the log, in hexadecimal digits.
    pub(super) log: String,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It cannot be read or written.
    #[error("{} cannot be {action}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// It is not such a file.
    #[error("{} is damaged: {source}. Restore it, or start with an empty data directory", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<toml::de::Error>,
    },
    /// It names another shared log.
    #[error(
        "{} belongs to the shared log {found:?}, not to {wanted:?}: correct shared_log.url, or start with an \
         empty data directory (--data DIR)",
        path.display()
    )]
    OtherLog {
        /// The data directory.
        path: PathBuf,
        /// The URL in the file.
        found: String,
        /// The URL in the settings.
        wanted: String,
    },
}

impl Identity {
    /// Reads the file of a data directory, and checks the URL. `None` if there is no file.
    pub(super) fn read(dir: &Path, url: &str) -> Result<Option<Identity>, IdentityError> {
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(IdentityError::Io { path, action: "read", source }),
        };
        let identity: Identity = toml::from_str(&text)
            .map_err(|source| IdentityError::Damaged { path, source: Box::new(source) })?;
        if identity.url == url {
            return Ok(Some(identity));
        }
        let (path, found, wanted) = (dir.to_path_buf(), identity.url, url.to_owned());
        Err(IdentityError::OtherLog { path, found, wanted })
    }

    /// Writes the file durably.
    pub(super) fn write(&self, dir: &Path) -> Result<(), IdentityError> {
        let path = dir.join(FILE);
        let text = toml::to_string(self).expect("names have a form in TOML");
        let write = || {
            fs::create_dir_all(dir)?;
            let partial = path.with_extension("partial");
            let mut file = File::create(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            File::open(dir)?.sync_all()
        };
        write().map_err(|source| IdentityError::Io { path: path.clone(), action: "written", source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_shared_log() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Identity::read(dir.path(), "news").unwrap(), None);
        let identity = Identity { url: "news".into(), log: format!("{:x}", u64::MAX) };
        identity.write(dir.path()).unwrap();
        assert_eq!(Identity::read(dir.path(), "news").unwrap(), Some(identity.clone()));
        let error = Identity::read(dir.path(), "mail").unwrap_err();
        assert!(matches!(&error, IdentityError::OtherLog { found, .. } if found == "news"), "{error}");
        fs::write(dir.path().join(FILE), "name = 1").unwrap();
        assert!(matches!(Identity::read(dir.path(), "news"), Err(IdentityError::Damaged { .. })));
    }
}
