//! The weights of features that a collection has learned, as its record holds them.
//!
//! They are a table of document frequencies ([`Frequencies`]), compressed. In JSON, such as the manifest of a
//! backup, the compressed bytes are base64.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use lookalike_hash::{Frequencies, WrongFrequencies};

/// The level of compression of zstd.
const LEVEL: i32 = 3;

/// The weights of the features of a collection. A copy shares the table.
#[derive(Clone)]
pub struct Weights(Arc<Held>);

struct Held {
    table: Frequencies,
    packed: Vec<u8>,
}

impl Weights {
    /// The weights of a table.
    ///
    /// # Panics
    /// If there is no memory for the compressed table.
    pub fn new(table: Frequencies) -> Weights {
        let packed = zstd::bulk::compress(&table.to_bytes(), LEVEL).expect("the memory for the result");
        Weights(Arc::new(Held { table, packed }))
    }

    /// The table.
    pub fn table(&self) -> &Frequencies {
        &self.0.table
    }

    /// The digest by which the table is named, as 16 hexadecimal digits.
    pub fn name(&self) -> String {
        format!("{:016x}", self.table().digest())
    }

    fn unpacked(packed: Vec<u8>) -> Result<Weights, WrongFrequencies> {
        let bytes = zstd::bulk::decompress(&packed, Frequencies::FILE_BYTES)
            .map_err(|_| WrongFrequencies::Damaged)?;
        Ok(Weights(Arc::new(Held { table: Frequencies::from_bytes(&bytes)?, packed })))
    }
}

/// The name of what makes signatures and sketches: the profile, and after `~` the digest of the weights if
/// there are any.
pub fn made_by(profile: &str, weights: Option<&Weights>) -> String {
    weights.map_or_else(|| profile.to_owned(), |weights| format!("{profile}~{}", weights.name()))
}

impl PartialEq for Weights {
    fn eq(&self, other: &Weights) -> bool {
        self.table() == other.table()
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Weights").field(&self.name()).finish()
    }
}

impl Serialize for Weights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.serialize_str(&BASE64_STANDARD.encode(&self.0.packed));
        }
        serializer.serialize_bytes(&self.0.packed)
    }
}

impl<'de> Deserialize<'de> for Weights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Weights, D::Error> {
        let packed = if deserializer.is_human_readable() {
            let text = Cow::<str>::deserialize(deserializer)?;
            BASE64_STANDARD.decode(text.as_bytes()).map_err(Error::custom)?
        } else {
            Vec::deserialize(deserializer)?
        };
        Weights::unpacked(packed).map_err(Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_again_in_both_forms() {
        let mut table = Frequencies::of_kind(5);
        (0..300_u64).for_each(|n| table.add(&[n, n / 2, 7]));
        let weights = Weights::new(table);
        let bytes = postcard::to_stdvec(&weights).unwrap();
        assert!(bytes.len() < 20_000, "{}", bytes.len());
        assert_eq!(postcard::from_bytes::<Weights>(&bytes).unwrap(), weights);
        let json = serde_json::to_string(&weights).unwrap();
        let read: Weights = serde_json::from_str(&json).unwrap();
        assert_eq!((read.table().documents(), read.name()), (300, weights.name()));
        // A record keeps its bytes, so that its checksum stays.
        assert_eq!(postcard::to_stdvec(&read).unwrap(), bytes);
        for wrong in [&bytes[..bytes.len() / 2], b"\x03abc"] {
            postcard::from_bytes::<Weights>(wrong).unwrap_err();
        }
        serde_json::from_str::<Weights>("\"abcd\"").unwrap_err();
    }
}
