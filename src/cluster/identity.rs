//! Which cluster a data directory belongs to: the file `CLUSTER` in it.
//!
//! Without it, a server that is started with the settings of another cluster would apply the entries of that
//! cluster to its own documents.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::Partitions;

/// The name of the file.
const FILE: &str = "CLUSTER";

/// The cluster of a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    /// The name of the cluster.
    pub(super) name: String,
    /// The identity of its etcd, in hexadecimal digits.
    pub(super) etcd: String,
    /// The partitions of which it has the documents; `None` if the cluster has one partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holds: Option<BTreeSet<u32>>,
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
    /// It names another cluster.
    #[error(
        "{} belongs to the cluster {found:?}, not to {wanted:?}: correct cluster.name, or start with an \
         empty data directory (--data DIR)",
        path.display()
    )]
    OtherName {
        /// The data directory.
        path: PathBuf,
        /// The cluster in the file.
        found: String,
        /// The cluster in the settings.
        wanted: String,
    },
    /// It has the documents of other partitions.
    #[error(
        "{} has the documents of {}, and the server is to hold {}: correct cluster.holds, or start with an \
         empty data directory (--data DIR)",
        path.display(),
        listed(found.as_ref()),
        listed(wanted.as_ref())
    )]
    OtherPartitions {
        /// The data directory.
        path: PathBuf,
        /// The partitions in the file.
        found: Option<BTreeSet<u32>>,
        /// The partitions in the settings.
        wanted: Option<BTreeSet<u32>>,
    },
}

/// Partitions in a message.
fn listed(partitions: Option<&BTreeSet<u32>>) -> String {
    match partitions {
        None => "a cluster without partitions".to_owned(),
        Some(all) => {
            let all: Vec<String> = all.iter().map(u32::to_string).collect();
            format!("the partitions {}", all.join(", "))
        }
    }
}

/// The partitions in the file: none if there is only one.
fn held(partitions: &Partitions) -> Option<BTreeSet<u32>> {
    (partitions.count() > 1).then(|| partitions.held().clone())
}

impl Identity {
    /// The identity of a server of a cluster that follows the log in this etcd.
    pub(super) fn of(name: &str, etcd: String, partitions: &Partitions) -> Identity {
        Identity { name: name.to_owned(), etcd, holds: held(partitions) }
    }

    /// The identity of etcd as a number; `None` if the file has something else.
    pub(super) fn etcd_cluster(&self) -> Option<u64> {
        u64::from_str_radix(&self.etcd, 16).ok()
    }

    /// Reads the file of a data directory, and checks the name of the cluster and the partitions. `None` if
    /// there is no file.
    pub(super) fn read(
        dir: &Path,
        name: &str,
        partitions: &Partitions,
    ) -> Result<Option<Identity>, IdentityError> {
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(IdentityError::Io { path, action: "read", source }),
        };
        let identity: Identity = toml::from_str(&text)
            .map_err(|source| IdentityError::Damaged { path, source: Box::new(source) })?;
        let path = dir.to_path_buf();
        if identity.name != name {
            let (found, wanted) = (identity.name, name.to_owned());
            return Err(IdentityError::OtherName { path, found, wanted });
        }
        let wanted = held(partitions);
        if identity.holds != wanted {
            return Err(IdentityError::OtherPartitions { path, found: identity.holds, wanted });
        }
        Ok(Some(identity))
    }

    /// Writes the file durably.
    pub(super) fn write(&self, dir: &Path) -> Result<(), IdentityError> {
        let path = dir.join(FILE);
        let text = toml::to_string(self).expect("names and numbers have a form in TOML");
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
    fn a_directory_keeps_its_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let whole = Partitions::new(1, [0]).unwrap();
        let read = |name: &str, partitions: &Partitions| Identity::read(dir.path(), name, partitions);
        assert_eq!(read("news", &whole).unwrap(), None);
        let identity = Identity::of("news", format!("{:x}", u64::MAX), &whole);
        identity.write(dir.path()).unwrap();
        assert_eq!(read("news", &whole).unwrap(), Some(identity.clone()));
        assert_eq!(identity.etcd_cluster(), Some(u64::MAX));
        let error = read("mail", &whole).unwrap_err();
        assert!(matches!(&error, IdentityError::OtherName { found, .. } if found == "news"), "{error}");
        let part = Partitions::new(4, [1, 2]).unwrap();
        let error = read("news", &part).unwrap_err().to_string();
        assert!(
            error.contains("a cluster without partitions, and the server is to hold the partitions 1, 2")
        );
        Identity::of("news", "7".into(), &part).write(dir.path()).unwrap();
        assert_eq!(read("news", &part).unwrap(), Some(Identity::of("news", "7".into(), &part)));
        let error = read("news", &Partitions::new(4, [1]).unwrap()).unwrap_err();
        assert!(matches!(error, IdentityError::OtherPartitions { .. }), "{error}");
        fs::write(dir.path().join(FILE), "name = 1").unwrap();
        assert!(matches!(read("news", &whole), Err(IdentityError::Damaged { .. })));
    }
}
