//! Keys and values as bytes. `docs/formats.md` documents the layout, and later versions must read it for
//! ever.
//!
//! Keys are big-endian, so that they sort in the order of their values. Values begin with the version of
//! their layout.
//!
//! *Absent*: which keys and values belong to a change (`batch`).

use std::borrow::Cow;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::records::{Change, CollectionRecord, Expiry, Posting, PostingList, Row, RowHead};
use lookalike_hash::{
    ClusterRule, CollectionId, CollectionName, DocumentId, Gram, Hash, SignatureShape, Width,
};

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

/// The layout of rows, collections and the history. Readers refuse a later one.
const LAYOUT: u8 = 1;

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

pub(super) fn row_range(collection: CollectionId, id: Option<&DocumentId>) -> Range {
    after(&collection_prefix(collection), id)
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

/// A hash inside a value, as bytes; their number gives the width.
#[derive(Serialize, Deserialize)]
struct HashBytes(Vec<u8>);

impl From<Hash> for HashBytes {
    fn from(hash: Hash) -> HashBytes {
        let mut bytes = Vec::with_capacity(16);
        hash.write_bytes(&mut bytes);
        HashBytes(bytes)
    }
}

impl HashBytes {
    fn read(&self) -> Result<Hash, StoreError> {
        Hash::from_bytes(&self.0).ok_or(StoreError::Damaged("hash"))
    }
}

#[derive(Serialize, Deserialize)]
struct RowLayout<'a> {
    hash: HashBytes,
    features: Option<u32>,
    short: bool,
    characters: Option<u32>,
    place: u64,
    written_ms: u64,
    expires_ms: Option<u64>,
    metadata: Option<Cow<'a, str>>,
    grams: Vec<GramLayout>,
    text: Option<Cow<'a, str>>,
    sketch: Option<Cow<'a, [u8]>>,
}

/// A gram: its hash, the number of characters between its beginning and that of the gram before, and its
/// length in characters.
#[derive(Serialize, Deserialize)]
struct GramLayout([u8; 8], u32, u32);

fn write_grams(grams: &[Gram]) -> Vec<GramLayout> {
    let mut before = 0;
    let layout = |gram: &Gram| {
        let ahead = gram.from - std::mem::replace(&mut before, gram.from);
        GramLayout(gram.hash.to_le_bytes(), ahead, gram.to - gram.from)
    };
    grams.iter().map(layout).collect()
}

fn read_grams(layouts: Vec<GramLayout>) -> Result<Vec<Gram>, StoreError> {
    let mut from = 0_u32;
    let gram = |GramLayout(hash, ahead, length)| {
        from = from.checked_add(ahead)?;
        Some(Gram { hash: u64::from_le_bytes(hash), from, to: from.checked_add(length)? })
    };
    layouts.into_iter().map(gram).collect::<Option<_>>().ok_or(StoreError::Damaged("document row"))
}

#[derive(Serialize, Deserialize)]
struct CollectionLayout {
    id: u32,
    name: String,
    profile: String,
    bits: u32,
    k: u32,
    keep_text: bool,
    expires_in: Option<u64>,
    created_ms: u64,
    shape: Option<ShapeLayout>,
    sketch_bytes: Option<u16>,
    boilerplate: Option<u32>,
    clusters: Option<(String, u32)>,
}

#[derive(Serialize, Deserialize)]
struct ShapeLayout {
    cells: u16,
    cell_bytes: u8,
    bands: u16,
    rows: u16,
    is_set: bool,
}

#[derive(Serialize, Deserialize)]
enum ChangeLayout {
    Document { collection: u32, added: Option<HashBytes>, removed: Option<HashBytes> },
    CollectionCreated(u32),
    CollectionChanged(u32),
    CollectionDeleted(u32),
}

pub(super) fn write<T: Serialize>(layout: &T) -> Vec<u8> {
    postcard::to_extend(layout, vec![LAYOUT]).expect("plain data in memory always serialises")
}

pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &'static str) -> Result<T, StoreError> {
    match bytes.split_first() {
        Some((&LAYOUT, rest)) => postcard::from_bytes(rest).map_err(|_| StoreError::Damaged(what)),
        _ => Err(StoreError::Damaged(what)),
    }
}

pub(super) fn write_row(row: &Row) -> Vec<u8> {
    write(&RowLayout {
        hash: row.hash.into(),
        features: row.features,
        short: row.short,
        characters: row.characters,
        place: row.place,
        written_ms: row.written_ms,
        expires_ms: row.expires_ms,
        metadata: row.metadata.as_deref().map(Cow::Borrowed),
        grams: write_grams(&row.grams),
        text: row.text.as_deref().map(Cow::Borrowed),
        sketch: row.sketch.as_deref().map(Cow::Borrowed),
    })
}

/// The fields of [`RowLayout`] before the text.
#[derive(Deserialize)]
struct RowHeadLayout {
    hash: HashBytes,
    _features: Option<u32>,
    _short: bool,
    characters: Option<u32>,
    place: u64,
    written_ms: u64,
    expires_ms: Option<u64>,
    metadata: Option<String>,
    grams: Vec<GramLayout>,
}

pub(super) fn read_row_head(bytes: &[u8]) -> Result<RowHead, StoreError> {
    const DAMAGED: StoreError = StoreError::Damaged("document row");
    let fields = bytes.strip_prefix(&[LAYOUT]).ok_or(DAMAGED)?;
    let (row, _text) = postcard::take_from_bytes::<RowHeadLayout>(fields).map_err(|_| DAMAGED)?;
    Ok(RowHead {
        hash: row.hash.read()?,
        characters: row.characters,
        place: row.place,
        written_ms: row.written_ms,
        expires_ms: row.expires_ms,
        metadata: row.metadata,
        grams: read_grams(row.grams)?,
    })
}

/// The bytes of the hash of a row.
pub(super) fn read_row_hash(bytes: &[u8]) -> Result<&[u8], StoreError> {
    match bytes {
        [LAYOUT, length, rest @ ..] => rest.get(..usize::from(*length)),
        _ => None,
    }
    .ok_or(StoreError::Damaged("document row"))
}

pub(super) fn read_row(bytes: &[u8]) -> Result<Row, StoreError> {
    let row: RowLayout<'_> = read(bytes, "document row")?;
    Ok(Row {
        hash: row.hash.read()?,
        features: row.features,
        short: row.short,
        characters: row.characters,
        place: row.place,
        written_ms: row.written_ms,
        expires_ms: row.expires_ms,
        metadata: row.metadata.map(Cow::into_owned),
        grams: read_grams(row.grams)?,
        text: row.text.map(Cow::into_owned),
        sketch: row.sketch.map(Cow::into_owned),
    })
}

pub(super) fn write_collection(record: &CollectionRecord) -> Vec<u8> {
    let shape = |SignatureShape { cells, cell_bytes, bands, rows, is_set }| ShapeLayout {
        cells,
        cell_bytes,
        bands,
        rows,
        is_set,
    };
    let mut bytes = write(&CollectionLayout {
        id: record.id.0,
        name: record.name.to_string(),
        profile: record.profile.clone(),
        bits: record.width.bits(),
        k: record.k,
        keep_text: record.keep_text,
        expires_in: record.expires_in,
        created_ms: record.created_ms,
        shape: record.signatures.map(shape),
        sketch_bytes: record.sketch_bytes,
        boilerplate: record.boilerplate,
        clusters: record.clusters.as_ref().map(|rule| (rule.keep.to_string(), rule.k)),
    });
    // Behind the other fields, so that records without a threshold are those of versions that had none.
    bytes.extend(record.threshold.map(f64::to_le_bytes).into_iter().flatten());
    bytes
}

pub(super) fn read_collection(bytes: &[u8]) -> Result<CollectionRecord, StoreError> {
    const DAMAGED: StoreError = StoreError::Damaged("collection");
    let fields = bytes.strip_prefix(&[LAYOUT]).ok_or(DAMAGED)?;
    let (record, rest) = postcard::take_from_bytes::<CollectionLayout>(fields).map_err(|_| DAMAGED)?;
    let threshold = match rest {
        [] => None,
        bytes => Some(f64::from_le_bytes(bytes.try_into().map_err(|_| DAMAGED)?)),
    };
    if threshold.is_some_and(|threshold| !(0.0..=1.0).contains(&threshold)) {
        return Err(DAMAGED);
    }
    let shape = |ShapeLayout { cells, cell_bytes, bands, rows, is_set }| {
        SignatureShape { cells, cell_bytes, bands, rows, is_set }.checked().ok_or(DAMAGED)
    };
    let clusters = |(keep, k): (String, u32)| {
        let keep = keep.parse().map_err(|_| DAMAGED)?;
        Ok::<_, StoreError>(ClusterRule { keep, k })
    };
    Ok(CollectionRecord {
        id: CollectionId(record.id),
        name: CollectionName::new(&record.name).map_err(|_| DAMAGED)?,
        profile: record.profile,
        width: Width::from_bits(record.bits).ok_or(DAMAGED)?,
        signatures: record.shape.map(shape).transpose()?,
        sketch_bytes: record.sketch_bytes,
        boilerplate: record.boilerplate,
        clusters: record.clusters.map(clusters).transpose()?,
        k: record.k,
        threshold,
        keep_text: record.keep_text,
        expires_in: record.expires_in,
        created_ms: record.created_ms,
    })
}

pub(super) fn write_changes(changes: &[Change]) -> Vec<u8> {
    let layouts: Vec<ChangeLayout> = changes
        .iter()
        .map(|change| match change {
            Change::Document { collection, added, removed } => ChangeLayout::Document {
                collection: collection.0,
                added: added.map(HashBytes::from),
                removed: removed.map(HashBytes::from),
            },
            Change::CollectionCreated(id) => ChangeLayout::CollectionCreated(id.0),
            Change::CollectionChanged(id) => ChangeLayout::CollectionChanged(id.0),
            Change::CollectionDeleted(id) => ChangeLayout::CollectionDeleted(id.0),
        })
        .collect();
    write(&layouts)
}

pub(super) fn read_changes(bytes: &[u8]) -> Result<Vec<Change>, StoreError> {
    let layouts: Vec<ChangeLayout> = read(bytes, "history")?;
    let hash = |bytes: Option<HashBytes>| bytes.map(|bytes| bytes.read()).transpose();
    let change = |layout| {
        Ok(match layout {
            ChangeLayout::Document { collection, added, removed } => Change::Document {
                collection: CollectionId(collection),
                added: hash(added)?,
                removed: hash(removed)?,
            },
            ChangeLayout::CollectionCreated(id) => Change::CollectionCreated(CollectionId(id)),
            ChangeLayout::CollectionChanged(id) => Change::CollectionChanged(CollectionId(id)),
            ChangeLayout::CollectionDeleted(id) => Change::CollectionDeleted(CollectionId(id)),
        })
    };
    layouts.into_iter().map(change).collect()
}
