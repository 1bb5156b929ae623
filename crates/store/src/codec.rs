//! Keys and values as bytes. `docs/formats.md` documents the layouts, and later versions read all that were
//! released.
//!
//! Keys are big-endian, so that they sort in the order of their values. Values begin with the version of
//! their layout.
//!
//! *Absent*: which keys and values belong to a change (`batch`).

use std::ops::Bound;

use serde::{Deserialize, Serialize, Serializer};

use super::error::StoreError;
use super::records::{CollectionRecord, Expiry, Posting, PostingList, Row, RowHead};
use lookalike_hash::{CollectionId, DocumentId, Gram, Hash, Width};

/// Key of the number of the last durable change.
pub(super) const HIGH_WATER: &[u8] = b"high_water";
/// Key of the number up to which the history was trimmed.
pub(super) const TRIMMED: &[u8] = b"trimmed";
/// Key of the last time that a commit recorded.
pub(super) const CLOCK: &[u8] = b"clock";
/// Key of the last assigned collection number.
pub(super) const LAST_COLLECTION: &[u8] = b"last_collection";
/// Prefix of the keys of collections.
pub(super) const COLLECTION: &[u8] = b"collection/";
/// Prefix of the keys of deleted collections that still have rows.
pub(super) const GARBAGE: &[u8] = b"garbage/";
/// Prefix of the keys of document counts.
pub(super) const DOCUMENTS: &[u8] = b"documents/";
/// Prefix of the keys of the counts of marks.
pub(super) const MARKS: &[u8] = b"marks/";

/// Prefix of the keys of digests.
pub(super) const DIGEST: &[u8] = b"digest/";

/// The layout of all records. Readers refuse a later one.
const LAYOUT: u8 = 3;

/// Prefix of the copies of `meta` entries in the tree of rows. The copies ensure that no single file holds
/// everything known about a collection. No collection has this number.
pub(super) const COPY: [u8; 4] = u32::MAX.to_be_bytes();

fn numbered(prefix: &[u8], id: CollectionId) -> Vec<u8> {
    [prefix, &id.0.to_be_bytes()].concat()
}

pub(super) fn collection_key(id: CollectionId) -> Vec<u8> {
    numbered(COLLECTION, id)
}

pub(super) fn garbage_key(id: CollectionId) -> Vec<u8> {
    numbered(GARBAGE, id)
}

pub(super) fn documents_key(id: CollectionId) -> Vec<u8> {
    numbered(DOCUMENTS, id)
}

pub(super) fn mark_counts_key(id: CollectionId) -> Vec<u8> {
    numbered(MARKS, id)
}

pub(super) fn digest_key(id: CollectionId) -> Vec<u8> {
    numbered(DIGEST, id)
}

pub(super) fn read_garbage_key(key: &[u8]) -> Result<CollectionId, StoreError> {
    let number = key.strip_prefix(GARBAGE).and_then(|rest| rest.try_into().ok());
    number.map(|bytes| CollectionId(u32::from_be_bytes(bytes))).ok_or(StoreError::Damaged("collection key"))
}

/// The width of the hashes of a deleted collection, which is needed to read its postings.
pub(super) fn write_width(width: Width) -> [u8; 1] {
    [width.bytes() as u8]
}

pub(super) fn read_width(value: &[u8]) -> Result<Width, StoreError> {
    let width = match value {
        [bytes] => Width::from_bits(u32::from(*bytes) * 8),
        _ => None,
    };
    width.ok_or(StoreError::Damaged("deleted collection"))
}

pub(super) fn collection_prefix(collection: CollectionId) -> [u8; 4] {
    collection.0.to_be_bytes()
}

pub(super) fn row_key(collection: CollectionId, id: &DocumentId) -> Vec<u8> {
    [&collection_prefix(collection), id.as_str().as_bytes()].concat()
}

pub(super) fn posting_list_key(collection: CollectionId, hash: Hash) -> Vec<u8> {
    let mut key = collection_prefix(collection).to_vec();
    hash.write_bytes(&mut key);
    key
}

pub(super) fn posting_key(collection: CollectionId, hash: Hash, id: &DocumentId) -> Vec<u8> {
    let mut key = posting_list_key(collection, hash);
    key.extend_from_slice(id.as_str().as_bytes());
    key
}

/// The first byte of a posting list: one document has the hash, and its posting follows; or several have
/// it, and each posting has its own key.
const SOLE: u8 = 1;
const SHARED: u8 = 2;

/// Bits of the flags byte, which describes a posting so that its row need not be read.
const HAS_METADATA: u8 = 1;
const EXPIRES: u8 = 2;

/// The value of a posting, without its id: the flags byte, and the expiry if there is one.
pub(super) fn write_posting(posting: &Posting) -> Vec<u8> {
    let metadata = if posting.has_metadata { HAS_METADATA } else { 0 };
    match posting.expires_ms {
        None => vec![metadata],
        Some(at) => [&[metadata | EXPIRES][..], &at.to_be_bytes()].concat(),
    }
}

/// Reads the bytes of [`write_posting`]: whether the row has metadata, the expiry, and the remaining bytes.
fn read_flags(bytes: &[u8]) -> Result<(bool, Option<u64>, &[u8]), StoreError> {
    const DAMAGED: StoreError = StoreError::Damaged("posting list");
    let (flags, rest) = bytes.split_first().ok_or(DAMAGED)?;
    let has_metadata = flags & HAS_METADATA != 0;
    match flags & !HAS_METADATA {
        0 => Ok((has_metadata, None, rest)),
        EXPIRES => {
            let (at, rest) = rest.split_first_chunk().ok_or(DAMAGED)?;
            Ok((has_metadata, Some(u64::from_be_bytes(*at)), rest))
        }
        _ => Err(DAMAGED),
    }
}

/// A posting from its id and its value.
pub(super) fn read_posting(id: &[u8], value: &[u8]) -> Result<Posting, StoreError> {
    match read_flags(value)? {
        (has_metadata, expires_ms, []) => Ok(Posting { id: read_id(id)?, has_metadata, expires_ms }),
        _ => Err(StoreError::Damaged("posting list")),
    }
}

pub(super) fn write_posting_list(posting_list: &PostingList) -> Vec<u8> {
    match posting_list {
        PostingList::One(posting) => {
            [&[SOLE][..], &write_posting(posting), posting.id.as_str().as_bytes()].concat()
        }
        PostingList::Many(postings) => [&[SHARED][..], &postings.to_be_bytes()].concat(),
    }
}

pub(super) fn read_posting_list(value: &[u8]) -> Result<PostingList, StoreError> {
    match value {
        [SHARED, postings @ ..] => Ok(PostingList::Many(read_number(postings)?)),
        [SOLE, posting @ ..] => {
            let (has_metadata, expires_ms, id) = read_flags(posting)?;
            Ok(PostingList::One(Posting { id: read_id(id)?, has_metadata, expires_ms }))
        }
        _ => Err(StoreError::Damaged("posting list")),
    }
}

type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The keys that begin with `prefix`, followed by an id greater than `after`.
pub(super) fn after(prefix: &[u8], after: Option<&DocumentId>) -> Range {
    let start = match after {
        Some(id) => Bound::Excluded([prefix, id.as_str().as_bytes()].concat()),
        None => Bound::Included(prefix.to_vec()),
    };
    // No id contains the byte 0xff, which UTF-8 never uses, so this bound is after every key of the prefix.
    let end = Bound::Excluded([prefix, &[0xff]].concat());
    (start, end)
}

/// The keys of rows whose ids begin with `prefix`, after an id that does too.
pub(super) fn row_range(collection: CollectionId, prefix: &str, id: Option<&DocumentId>) -> Range {
    let (start, _) = after(&collection_prefix(collection), id);
    let (from_prefix, end) = after(&[&collection_prefix(collection), prefix.as_bytes()].concat(), None);
    (if id.is_some() { start } else { from_prefix }, end)
}

pub(super) fn read_id(bytes: &[u8]) -> Result<DocumentId, StoreError> {
    let text = std::str::from_utf8(bytes).map_err(|_| StoreError::Damaged("document id"))?;
    DocumentId::new(text).map_err(|_| StoreError::Damaged("document id"))
}

pub(super) fn read_row_key(key: &[u8]) -> Result<DocumentId, StoreError> {
    read_id(key.get(4..).ok_or(StoreError::Damaged("row key"))?)
}

pub(super) fn expiry_key(collection: CollectionId, at_ms: u64, id: &DocumentId) -> Vec<u8> {
    [&at_ms.to_be_bytes()[..], &collection_prefix(collection), id.as_str().as_bytes()].concat()
}

pub(super) fn read_expiry_key(key: &[u8]) -> Result<Expiry, StoreError> {
    const DAMAGED: StoreError = StoreError::Damaged("expiry");
    let (at, rest) = key.split_first_chunk().ok_or(DAMAGED)?;
    let (collection, id) = rest.split_first_chunk().ok_or(DAMAGED)?;
    Ok(Expiry {
        at_ms: u64::from_be_bytes(*at),
        collection: CollectionId(u32::from_be_bytes(*collection)),
        id: read_id(id)?,
    })
}

/// The document id in the key of a posting. The hashes of the collection have this width.
pub(super) fn read_posting_id(key: &[u8], width: Width) -> Result<&[u8], StoreError> {
    key.get(4 + width.bytes()..).ok_or(StoreError::Damaged("posting list"))
}

pub(super) fn read_posting_list_hash(key: &[u8], bytes: usize) -> Result<Hash, StoreError> {
    key.get(4..4 + bytes).and_then(Hash::from_bytes).ok_or(StoreError::Damaged("posting list"))
}

pub(super) fn read_number(bytes: &[u8]) -> Result<u64, StoreError> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| StoreError::Damaged("number"))
}

/// The grams of a row: each as its hash, the number of characters between its beginning and that of the gram
/// before, and its length in characters.
pub(super) mod grams {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use lookalike_hash::Gram;

    type Form = ([u8; 8], u32, u32);

    pub(in super::super) fn serialize<S: Serializer>(grams: &[Gram], to: S) -> Result<S::Ok, S::Error> {
        let mut before = 0;
        to.collect_seq(grams.iter().map(|gram| -> Form {
            let ahead = gram.from - std::mem::replace(&mut before, gram.from);
            (gram.hash.to_le_bytes(), ahead, gram.to - gram.from)
        }))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Gram>, D::Error> {
        let mut from_character = 0_u32;
        let gram = |(hash, ahead, length): Form| {
            let from = from_character.checked_add(ahead)?;
            from_character = from;
            Some(Gram { hash: u64::from_le_bytes(hash), from, to: from.checked_add(length)? })
        };
        let forms = Vec::<Form>::deserialize(from)?;
        let grams = forms.into_iter().map(gram).collect::<Option<_>>();
        grams.ok_or_else(|| D::Error::custom("grams beyond the largest text"))
    }
}

/// What a row has beside its text. Without a thumbnail these are the bytes of an optional sketch.
#[derive(Serialize, Deserialize)]
pub(super) enum Beside<Bytes = Vec<u8>> {
    Nothing,
    Sketch(Bytes),
    Thumbnail(Bytes),
}

impl<Bytes> Beside<Bytes> {
    fn into_parts(self) -> (Option<Bytes>, Option<Bytes>) {
        match self {
            Beside::Nothing => (None, None),
            Beside::Sketch(bytes) => (Some(bytes), None),
            Beside::Thumbnail(bytes) => (None, Some(bytes)),
        }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Grams<'a>(#[serde(serialize_with = "grams::serialize")] &'a [Gram]);

        let Row {
            hash, features, short, characters, place, written_ms, lifetime, metadata, grams, text, ..
        } = self;
        let beside = match (self.sketch.as_deref(), self.thumbnail.as_deref()) {
            (Some(sketch), _) => Beside::Sketch(sketch),
            (None, Some(thumbnail)) => Beside::Thumbnail(thumbnail),
            (None, None) => Beside::Nothing,
        };
        let head = (hash, features, short, characters, place, written_ms, lifetime, metadata, Grams(grams));
        (head, text, beside).serialize(to)
    }
}

impl From<(RowHead, Option<String>, Beside)> for Row {
    fn from((head, text, beside): (RowHead, Option<String>, Beside)) -> Row {
        let RowHead { hash, features, short, characters, place, written_ms, lifetime, metadata, grams } =
            head;
        let (sketch, thumbnail) = beside.into_parts();
        Row {
            hash,
            features,
            short,
            characters,
            place,
            written_ms,
            lifetime,
            metadata,
            grams,
            text,
            sketch,
            thumbnail,
        }
    }
}

pub(super) fn write<T: Serialize>(layout: &T) -> Vec<u8> {
    postcard::to_extend(layout, vec![LAYOUT]).expect("plain data in memory always serialises")
}

pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &'static str) -> Result<T, StoreError> {
    match bytes.split_first() {
        Some((&LAYOUT, rest)) => postcard::from_bytes(rest).map_err(|_| StoreError::Damaged(what)),
        Some((1, _)) => Err(StoreError::Earlier),
        _ => Err(StoreError::Damaged(what)),
    }
}

/// The fields of a row before its text.
pub(super) fn read_row_head(bytes: &[u8]) -> Result<RowHead, StoreError> {
    const DAMAGED: StoreError = StoreError::Damaged("document row");
    let fields = bytes.strip_prefix(&[LAYOUT]).ok_or(DAMAGED)?;
    postcard::take_from_bytes(fields).map(|(head, _text)| head).map_err(|_| DAMAGED)
}

/// The sketch of a row.
pub(super) fn read_row_sketch(bytes: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    let (_head, _text, beside): (RowHead, Option<&str>, Beside<&[u8]>) = read(bytes, "document row")?;
    Ok(beside.into_parts().0.map(<[u8]>::to_vec))
}

/// The bytes of the hash of a row.
pub(super) fn read_row_hash(bytes: &[u8]) -> Result<&[u8], StoreError> {
    match bytes {
        [LAYOUT, length, rest @ ..] => rest.get(..usize::from(*length)),
        _ => None,
    }
    .ok_or(StoreError::Damaged("document row"))
}

pub(super) fn read_collection(bytes: &[u8]) -> Result<CollectionRecord, StoreError> {
    let record: CollectionRecord = read(bytes, "collection")?;
    let is_valid = record.settings.threshold.is_none_or(|least| (0.0..=1.0).contains(&least));
    Some(record).filter(|_| is_valid).ok_or(StoreError::Damaged("collection"))
}
