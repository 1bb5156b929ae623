//! The documents of a corpus, as far as their distances need them.

use std::sync::Arc;

use super::column::Column;
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
pub(crate) type IsNear = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// A second condition for two documents within k to be near: a comparison of their sketches.
#[derive(Clone)]
pub struct Check {
    /// The number of bytes of a sketch.
    pub bytes: usize,
    /// Whether the documents of two sketches are near. It must be symmetric.
    pub is_near: IsNear,
}

/// A comparison of texts, which decides about two documents whose distance is an estimate near the limit.
#[derive(Clone)]
pub struct Judge<'a> {
    /// The largest distance that needs no judge.
    pub sure: u32,
    /// Whether the documents of two names are near. It must be symmetric.
    pub is_near: Arc<dyn Fn(u32, u32) -> bool + Send + Sync + 'a>,
}

/// The documents, numbered from 0 in the order in which they are added.
pub struct Documents<'a> {
    width: Width,
    shape: Option<SignatureShape>,
    k: u32,
    check: Option<Check>,
    judge: Option<Judge<'a>>,
    len: u32,
    /// The names of the documents; `None` if they are the numbers.
    names: Option<Vec<u32>>,
    /// Hashes are compared, or signatures.
    hashes: Option<Column>,
    signatures: Option<Column>,
    sketches: Option<Column>,
}

impl Documents<'_> {
    /// No documents yet. Two documents are near if their distance is at most `k`, in bits or in cells of
    /// signatures, and if they pass the check.
    pub fn new(width: Width, shape: Option<SignatureShape>, k: u32, check: Option<Check>) -> Self {
        Documents {
            width,
            shape,
            k,
            len: 0,
            names: None,
            hashes: shape.is_none().then(|| Column::of(width.bytes())),
            signatures: shape.map(|shape| Column::of(shape.bytes())),
            sketches: check.as_ref().map(|check| Column::of(check.bytes)),
            check,
            judge: None,
        }
    }

    /// The same with a judge.
    #[must_use]
    pub fn with_judge(self, judge: Option<Judge<'_>>) -> Documents<'_> {
        let Documents { width, shape, k, check, len, names, hashes, signatures, sketches, .. } = self;
        Documents { width, shape, k, check, judge, len, names, hashes, signatures, sketches }
    }

    /// No documents, which are near as these are.
    pub(super) fn like(&self) -> Self {
        Documents::new(self.width, self.shape, self.k, self.check.clone()).with_judge(self.judge.clone())
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
        if let Some(hashes) = &mut self.hashes {
            let mut hash = Vec::with_capacity(self.width.bytes());
            print.hash.write_bytes(&mut hash);
            hashes.push(&hash);
        }
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
    ///
    /// # Panics
    /// If signatures are compared.
    pub(super) fn hash(&self, number: u32) -> Hash {
        let hashes = self.hashes.as_ref().expect("hashes are compared");
        Hash::from_bytes(hashes.get(number)).expect("a hash was stored")
    }

    /// The signature of a document; empty if hashes are compared.
    pub(super) fn signature(&self, number: u32) -> &[u8] {
        self.signatures.as_ref().map_or(&[], |signatures| signatures.get(number))
    }

    /// Whether two documents with equal hashes may not be near.
    pub(super) fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    /// Whether a document at this distance from one of these passes the second check and the judge.
    pub(super) fn passes(&self, (name, print): (u32, &Print), distance: u32, number: u32) -> bool {
        let is_checked = match (&self.check, &self.sketches) {
            (Some(check), Some(sketches)) => (check.is_near)(&print.sketch, sketches.get(number)),
            _ => true,
        };
        let judge = self.judge.as_ref().filter(|judge| is_checked && distance > judge.sure);
        judge.map_or(is_checked, |judge| (judge.is_near)(name, self.name(number)))
    }

    /// Whether two of these pass the second check.
    pub(super) fn both_pass(&self, a: u32, b: u32) -> bool {
        match (&self.check, &self.sketches) {
            (Some(check), Some(sketches)) => (check.is_near)(sketches.get(a), sketches.get(b)),
            _ => true,
        }
    }

    /// The distance of two documents that are not among these.
    pub fn distance_of(&self, a: &Print, b: &Print) -> u32 {
        match self.shape {
            Some(shape) => shape.distance(&a.signature, &b.signature),
            None => a.hash.distance(b.hash).unwrap_or(u32::MAX),
        }
    }

    /// The distance of two documents.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        match self.shape {
            Some(shape) => shape.distance(self.signature(a), self.signature(b)),
            None => self.hash(a).distance(self.hash(b)).unwrap_or(u32::MAX),
        }
    }

    /// The name of a document: its number, unless it was given another one.
    pub(super) fn name(&self, number: u32) -> u32 {
        self.names.as_ref().map_or(number, |names| names[number as usize])
    }

    /// The bytes that the documents occupy.
    pub fn bytes(&self) -> usize {
        let optional = |column: &Option<Column>| column.as_ref().map_or(0, Column::bytes);
        let names = self.names.as_ref().map_or(0, |names| names.capacity() * size_of::<u32>());
        names + optional(&self.hashes) + optional(&self.signatures) + optional(&self.sketches)
    }
}
