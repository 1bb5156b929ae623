//! A [`NearMap`] of strings as bytes: to be saved, and read again by the same or a later version.
//!
//! All numbers are little-endian. The name `looknear` and the version; the id of the profile; the radius, or
//! 2^32 − 1 for that of each text; the number of texts, and each text: its id, whether it has a print, the
//! hash and the signature. Strings have their length before them. The digest (XXH3, 64 bits) of all bytes
//! before it ends the file. A reader trusts no byte before the digest is compared.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::xxh3_64;

use super::NearMap;
use lookalike_corpus::Print;
use lookalike_hash::{Hash, SignatureShape};
use lookalike_text::fingerprint::Profile;

/// What the bytes begin with: a name, and the version of the form.
const MAGIC: [u8; 8] = *b"looknear";
const VERSION: u32 = 1;
/// The radius of each text.
const OF_TEXT: u32 = u32::MAX;

impl NearMap<String> {
    /// Writes the map. The bytes depend on its texts and the order in which those of one hash came.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        put(&mut bytes, self.profile.id().to_string().as_bytes());
        bytes.extend(self.k.unwrap_or(OF_TEXT).to_le_bytes());
        bytes.extend((self.entries.len() as u64).to_le_bytes());
        let is_empty = |id: &&String| self.entries.get(*id).is_some_and(|entry| entry.print.is_none());
        let mut empty: Vec<&String> = self.entries.keys().filter(is_empty).collect();
        empty.sort_unstable();
        for id in empty {
            put(&mut bytes, id.as_bytes());
            bytes.push(0);
        }
        let mut groups: Vec<(&Hash, &Vec<String>)> = self.ids.iter().collect();
        groups.sort_unstable_by_key(|(hash, _)| **hash);
        for (hash, id) in groups.into_iter().flat_map(|(hash, ids)| ids.iter().map(move |id| (hash, id))) {
            put(&mut bytes, id.as_bytes());
            bytes.push(1);
            hash.write_bytes(&mut bytes);
            let print = self.entries.get(id).and_then(|entry| entry.print.as_ref());
            bytes.extend(print.into_iter().flat_map(|print| &print.signature));
        }
        let digest = xxh3_64(&bytes);
        out.write_all(&bytes)?;
        out.write_all(&digest.to_le_bytes())
    }

    /// Reads a map that was written.
    ///
    /// # Errors
    /// If the bytes cannot be read, are not those of a map, or name a profile that this program has not.
    pub fn read_from(mut read: impl Read) -> io::Result<NearMap<String>> {
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes)?;
        let body = bytes.strip_prefix(&MAGIC).ok_or_else(|| wrong("it is no saved map of texts"))?;
        let damaged = || wrong("the saved map is incomplete or damaged: its digest does not match");
        let (rest, digest) = body.split_last_chunk::<8>().ok_or_else(damaged)?;
        if xxh3_64(&bytes[..bytes.len() - 8]) != u64::from_le_bytes(*digest) {
            return Err(damaged());
        }
        map(rest).ok_or_else(damaged)?
    }
}

/// The map of the bytes after the name; `None` if they end early or are too many.
fn map(mut rest: &[u8]) -> Option<io::Result<NearMap<String>>> {
    let rest = &mut rest;
    let version = u32::from_le_bytes(*take(rest)?);
    if version != VERSION {
        let message = format!("the saved map has version {version}; this program reads version {VERSION}");
        return Some(Err(wrong(&message)));
    }
    let name = string(rest)?;
    let Some(profile) = Profile::named(&name) else {
        return Some(Err(wrong(&format!("the saved map has the profile {name}, which is not built in"))));
    };
    let k = Some(u32::from_le_bytes(*take(rest)?)).filter(|k| *k != OF_TEXT);
    let mut map = match NearMap::new(profile, k) {
        Ok(map) => map,
        Err(error) => return Some(Err(io::Error::new(io::ErrorKind::InvalidData, error))),
    };
    let signature = profile.signatures().map_or(0, SignatureShape::bytes);
    for _ in 0..u64::from_le_bytes(*take(rest)?) {
        let id = string(rest)?;
        let mut print = None;
        if *take(rest)? != [0] {
            let hash = Hash::from_bytes(rest.split_off(..profile.width().bytes())?)?;
            let signature = rest.split_off(..signature)?.to_vec();
            print = Some(Print { hash, signature, sketch: Vec::new() });
        }
        if map.entries.contains_key(&id) {
            return None;
        }
        map.insert(id, print, ());
    }
    rest.is_empty().then_some(Ok(map))
}

fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text);
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    rest.split_off(..N)?.first_chunk()
}

fn string(rest: &mut &[u8]) -> Option<String> {
    let length = u32::from_le_bytes(*take(rest)?) as usize;
    String::from_utf8(rest.split_off(..length)?.to_vec()).ok()
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
