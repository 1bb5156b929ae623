//! The documents of a corpus, as far as their distances need them.

use super::column::Column;
use lookalike_hamming::Subject;
use lookalike_hash::{Hash, SignatureShape, Width};

/// The data by which a document is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Print {
    /// The hash, or the name of the signature.
    pub hash: Hash,
    /// The signature, if the profile makes signatures; otherwise empty.
    pub signature: Vec<u8>,
    /// The sketch that the second check compares; empty without one.
    pub sketch: Vec<u8>,
}

/// Whether the documents of two sketches are near.
pub(crate) type IsNear = Box<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// A second condition for two documents within k to be near: a comparison of their sketches.
pub struct Check {
    /// The number of bytes of a sketch.
    pub bytes: usize,
    /// Whether the documents of two sketches are near. It must be symmetric.
    pub is_near: IsNear,
}

/// The documents, numbered from 0 in the order in which they are added.
pub struct Documents {
    width: Width,
    shape: Option<SignatureShape>,
    k: u32,
    check: Option<Check>,
    len: u32,
    /// The names of the documents; `None` if they are the numbers.
    names: Option<Vec<u32>>,
    hashes: Column,
    signatures: Option<Column>,
    sketches: Option<Column>,
}

impl Documents {
    /// No documents yet. Two documents are near if their distance is at most `k`, in bits or in cells of
    /// signatures, and if they pass the check.
    pub fn new(width: Width, shape: Option<SignatureShape>, k: u32, check: Option<Check>) -> Documents {
        Documents {
            width,
            shape,
            k,
            len: 0,
            names: None,
            hashes: Column::of(width.bytes()),
            signatures: shape.map(|shape| Column::of(shape.bytes())),
            sketches: check.as_ref().map(|check| Column::of(check.bytes)),
            check,
        }
    }

    /// Adds a document under a name, by which decisions call it. All documents have names, or none has.
    pub(crate) fn push_named(&mut self, name: u32, print: &Print) -> u32 {
        self.names.get_or_insert_default().push(name);
        self.push(print)
    }

    /// Adds a document and returns its number.
    ///
    /// # Panics
    /// If the print has other widths, or for 2^32 documents.
    pub fn push(&mut self, print: &Print) -> u32 {
        let mut hash = Vec::with_capacity(self.width.bytes());
        print.hash.write_bytes(&mut hash);
        self.hashes.push(&hash);
        if let Some(signatures) = &mut self.signatures {
            signatures.push(&print.signature);
        }
        if let Some(sketches) = &mut self.sketches {
            sketches.push(&print.sketch);
        }
        let number = self.len;
        self.len = number.checked_add(1).expect("fewer than 2^32 documents");
        number
    }

    /// The number of documents.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The largest distance of near documents.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// The width of the hashes, and the shape of the signatures if there are any.
    pub(super) fn shape(&self) -> (Width, Option<SignatureShape>) {
        (self.width, self.shape)
    }

    /// The hash of a document.
    pub(super) fn hash(&self, number: u32) -> Hash {
        Hash::from_bytes(self.hashes.get(number)).expect("a hash was stored")
    }

    /// The document as the subject of a lookup.
    pub(super) fn subject(&self, number: u32) -> Subject<'_> {
        let signature = self.signatures.as_ref().map(|signatures| signatures.get(number));
        Subject { hash: self.hash(number), signature }
    }

    /// Whether two documents with equal hashes may not be near.
    pub(super) fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    /// Whether two documents pass the second check; without one they do.
    pub(super) fn passes(&self, a: u32, b: u32) -> bool {
        match (&self.check, &self.sketches) {
            (Some(check), Some(sketches)) => (check.is_near)(sketches.get(a), sketches.get(b)),
            _ => true,
        }
    }

    /// The distance of two documents.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        match (self.shape, &self.signatures) {
            (Some(shape), Some(signatures)) => shape.distance(signatures.get(a), signatures.get(b)),
            _ => self.hash(a).distance(self.hash(b)).unwrap_or(u32::MAX),
        }
    }

    /// The name of a document: its number, unless it was given another one.
    pub(super) fn name(&self, number: u32) -> u32 {
        self.names.as_ref().map_or(number, |names| names[number as usize])
    }

    /// Forgets all documents.
    pub fn clear(&mut self) {
        (self.len, self.names) = (0, None);
        self.hashes.clear();
        self.signatures.iter_mut().chain(&mut self.sketches).for_each(Column::clear);
    }

    /// Removes all documents from this number on.
    pub(super) fn truncate(&mut self, len: u32) {
        self.len = len;
        self.names.iter_mut().for_each(|names| names.truncate(len as usize));
        self.hashes.truncate(len);
        self.signatures.iter_mut().chain(&mut self.sketches).for_each(|column| column.truncate(len));
    }

    /// The bytes that the documents occupy.
    pub fn bytes(&self) -> usize {
        let optional = |column: &Option<Column>| column.as_ref().map_or(0, Column::bytes);
        let names = self.names.as_ref().map_or(0, |names| names.capacity() * size_of::<u32>());
        names + self.hashes.bytes() + optional(&self.signatures) + optional(&self.sketches)
    }
}
