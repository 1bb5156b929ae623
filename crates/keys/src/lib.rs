//! Access keys: a file of keys, and the ring of the keys in use.
//!
//! A key is 64 hexadecimal digits after `lk_`; 244 bits of them are random. The file stores the SHA-256 of
//! a key and never the key itself. With that much randomness, no slower hash is needed to prevent guessing.
//! The hash of a presented key is compared with every stored hash, each in constant time, so that the time
//! reveals nothing about any key.
//!
//! *Absent*: routes and the roles that they require (`http` has them), the clock, and any log of a key.

#![deny(unreachable_pub)]

mod file;
mod rate;
mod ring;

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use file::{KeyError, KeyFile};
pub use rate::Bucket;
pub use ring::Keyring;

use lookalike_hash::CollectionName;

/// The prefix of every key, by which people and scanners for leaked secrets recognise one.
const PREFIX: &str = "lk_";
/// Hexadecimal digits after the prefix.
const DIGITS: usize = 64;
/// The longest name of a key, in bytes.
const NAME_BYTES: usize = 64;

/// What a key allows; each role includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look up, fingerprint, read documents and statistics.
    Read,
    /// Store and delete documents.
    Write,
    /// Create, change and delete collections; take snapshots.
    Admin,
}

impl Role {
    /// The name of the role, as in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        }
    }
}

/// The collections that a key gives access to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All present and future collections, and what belongs to no collection.
    All,
    /// Only these.
    Named(BTreeSet<CollectionName>),
}

impl Scope {
    /// Whether the scope includes this collection.
    pub fn holds(&self, name: &CollectionName) -> bool {
        match self {
            Scope::All => true,
            Scope::Named(names) => names.contains(name),
        }
    }
}

/// A key as it is stored: what it allows, and the hash of its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name in lists, logs and metrics.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The collections.
    pub scope: Scope,
    /// Units per second that it may use, see [`Bucket`]; `None` for an unlimited rate.
    pub rate: Option<u64>,
    /// The time of its creation, by the clock of the machine where it was created.
    pub made_at: String,
    digest: [u8; 32],
}

impl Key {
    /// A key with these random bits, and its secret text, which is given out only once.
    pub fn new(
        name: String,
        role: Role,
        scope: Scope,
        rate: Option<u64>,
        made_at: String,
        random: [u128; 2],
    ) -> (Key, String) {
        let secret = format!("{PREFIX}{:032x}{:032x}", random[0], random[1]);
        let digest = digest_of(secret.as_bytes());
        (Key { name, role, scope, rate, made_at, digest }, secret)
    }
}

/// A key in use, with its bucket of units.
#[derive(Clone, Debug)]
pub struct Held {
    /// The key.
    pub key: Key,
    /// Its units, if its rate is limited.
    pub bucket: Option<Arc<Bucket>>,
}

fn digest_of(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// The key with this secret. A search takes the same time whether the key exists or not.
pub fn find<'a>(keys: &'a [Held], secret: &[u8]) -> Option<&'a Held> {
    // A text that cannot be a key is not hashed: the length of a key is not secret, and the peer chooses
    // the text.
    if secret.len() != PREFIX.len() + DIGITS {
        return None;
    }
    let digest = digest_of(secret);
    let mut found = None;
    for held in keys {
        if bool::from(held.key.digest.ct_eq(&digest)) {
            found = Some(held);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_secret_only() {
        let made = |name: &str, random| {
            Key::new(name.to_owned(), Role::Read, Scope::All, None, "now".to_owned(), random)
        };
        let (one, first) = made("one", [1, 2]);
        let (two, second) = made("two", [1, 3]);
        let keys = [one, two].map(|key| Held { key, bucket: None });
        assert_eq!(first.len(), 67);
        assert_eq!(find(&keys, first.as_bytes()).map(|held| held.key.name.as_str()), Some("one"));
        assert_eq!(find(&keys, second.as_bytes()).map(|held| held.key.name.as_str()), Some("two"));
        for wrong in ["", "lk_", &first[1..], &first.to_uppercase(), &format!("{first}0"), &"0".repeat(67)] {
            assert!(find(&keys, wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(!format!("{keys:?}").contains(&first[3..]));
    }

    #[test]
    fn a_role_includes_the_lesser_ones() {
        assert!(Role::Admin > Role::Write && Role::Write > Role::Read);
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
