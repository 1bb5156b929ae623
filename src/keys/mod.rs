//! Keys: who may do what. A file of them, and the ring of those in use.
//!
//! A key is 64 hexadecimal digits behind `lk_`, 244 bits of them random. The file holds its SHA-256 and never the key: with so much
//! randomness in it nothing slower is needed to keep it from being guessed. A key that is presented is hashed and
//! compared with every stored hash, each in constant time, so that how long it takes tells nothing about any.
//!
//! *Absent*: routes and what they need (`http` knows them), the clock, and any log of a key.

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

use crate::ids::CollectionName;

/// What every key begins with, so that people and scanners of leaked secrets know one when they see it.
const PREFIX: &str = "lk_";
/// Digits after that.
const DIGITS: usize = 64;
/// The longest name of a key, in bytes.
const NAME_BYTES: usize = 64;

/// What a key allows; each allows what those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look up, fingerprint, read documents and numbers.
    Read,
    /// Store and delete documents.
    Write,
    /// Make, change and delete collections; take snapshots.
    Admin,
}

impl Role {
    /// The role as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        }
    }
}

/// The collections for which a key is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All that there are and will be, and what belongs to none.
    All,
    /// These alone.
    Named(BTreeSet<CollectionName>),
}

impl Scope {
    /// Whether it holds this collection.
    pub fn holds(&self, name: &CollectionName) -> bool {
        match self {
            Scope::All => true,
            Scope::Named(names) => names.contains(name),
        }
    }
}

/// A key as it is kept: what it allows, and the hash by which it is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What it is called in lists, logs and metrics.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// Where.
    pub scope: Scope,
    /// Units a second that may be asked for with it, see [`Bucket`]; `None` for as many as there are.
    pub rate: Option<u64>,
    /// When it was made, as the clock of the one who made it had it.
    pub made_at: String,
    digest: [u8; 32],
}

impl Key {
    /// A key of these random bits, and the text to be handed out once.
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

/// A key in use, with its units.
#[derive(Clone, Debug)]
pub struct Held {
    /// The key.
    pub key: Key,
    /// Its units, if they are limited.
    pub bucket: Option<Arc<Bucket>>,
}

fn digest_of(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// The key among these whose secret this is. Takes as long for one that is there as for one that is not.
pub fn find<'a>(keys: &'a [Held], secret: &[u8]) -> Option<&'a Held> {
    // What cannot be a key is not hashed: its length is no secret, and a peer chooses it.
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
    fn a_key_is_known_by_its_secret_alone() {
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
    fn a_role_allows_what_lesser_ones_do() {
        assert!(Role::Admin > Role::Write && Role::Write > Role::Read);
    }
}
