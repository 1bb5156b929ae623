//! An entry of the shared log: commands of one server, and everything that their effect depends on besides
//! the state before them.
//!
//! ```text
//! u8 layout   u64 XXH3 of the rest   (u32 length, LZ4 block of the body in postcard)
//! ```
//!
//! The body has the origin (the start of a server that appended the entry), the number that the origin gave
//! to it, the time of the origin, and the work. Documents are rows as in the store.
//!
//! *Absent*: the order of entries and where they are kept (`Log`), and their effect (`apply`).

use bytes::Bytes;
use lz4_flex::block::{compress_prepend_size, decompress, uncompressed_size};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::super::hidden::HiddenWork;
use super::super::marks::MarkChange;
use super::hidden::HiddenLayout;
use crate::{CollectionChange, Condition, Document, DuplicateRule, Operation, ProfileFacts, Version};
use lookalike_hash::{CollectionId, CollectionName, DocumentId, KeepRule, Mark, SignatureShape, Width};
use lookalike_store::Row;

/// The layout that is written. Readers refuse a later one.
const LAYOUT: u8 = 1;
/// Maximum bytes of a body without compression. A damaged length must not take all memory.
const MAX_BODY: usize = 1 << 30;

/// An entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The start of a server that appended it.
    pub(super) origin: u128,
    /// Its number among the entries of the origin.
    pub(super) number: u64,
    /// The time of the origin, in milliseconds since 1970-01-01 UTC.
    pub(super) time_ms: u64,
    pub(super) work: Work,
}

/// The work of an entry, which is done in one commit.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Operations on collections, in order.
    Writes(Vec<(CollectionId, Vec<Operation>)>),
    /// Create or change a collection.
    PutCollection { name: CollectionName, change: Box<CollectionChange>, condition: Condition, now_ms: u64 },
    /// Delete a collection.
    DeleteCollection { name: CollectionName, condition: Condition },
    /// Build the clusters of a collection by this rule, or remove them.
    PutClusters { name: CollectionName, rule: Option<(KeepRule, Option<u32>)> },
    /// Change the marks of a collection.
    ChangeMarks { collection: CollectionId, change: MarkChange },
    /// Change a collection that is not visible.
    Hidden(HiddenWork),
    /// Nothing but the time, which lets documents expire.
    Time,
}

/// Why bytes are not an entry.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    /// A later version of lookalike wrote it.
    #[error(
        "it has layout {0}, and this version reads layout {LAYOUT}: use the version of the other servers"
    )]
    Newer(u8),
    /// It does not have the form of an entry.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

impl Entry {
    /// Its bytes.
    pub(super) fn into_bytes(self) -> Bytes {
        let body = Body {
            origin: self.origin.to_be_bytes(),
            number: self.number,
            time_ms: self.time_ms,
            work: self.work.into(),
        };
        let body = postcard::to_stdvec(&body).expect("every part of an entry has a form in postcard");
        let packed = compress_prepend_size(&body);
        let checksum = xxh3_64(&packed).to_le_bytes();
        [&[LAYOUT][..], &checksum, &packed].concat().into()
    }

    /// Reads the bytes of [`Entry::into_bytes`].
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Entry, EntryError> {
        let (layout, rest) = bytes.split_first().ok_or(EntryError::Damaged("it is empty"))?;
        if *layout != LAYOUT {
            return Err(EntryError::Newer(*layout));
        }
        let (checksum, packed) = rest.split_first_chunk().ok_or(EntryError::Damaged("it is short"))?;
        if u64::from_le_bytes(*checksum) != xxh3_64(packed) {
            return Err(EntryError::Damaged("its checksum differs"));
        }
        let unpacked = uncompressed_size(packed).ok().filter(|(length, _)| *length <= MAX_BODY);
        let (length, packed) = unpacked.ok_or(EntryError::Damaged("its length"))?;
        let body = decompress(packed, length).map_err(|_| EntryError::Damaged("its compression"))?;
        let body: Body = postcard::from_bytes(&body).map_err(|_| EntryError::Damaged("its body"))?;
        Ok(Entry {
            origin: u128::from_be_bytes(body.origin),
            number: body.number,
            time_ms: body.time_ms,
            work: body.work.read()?,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Body {
    origin: [u8; 16],
    number: u64,
    time_ms: u64,
    work: WorkLayout,
}

#[derive(Serialize, Deserialize)]
enum WorkLayout {
    Writes(Vec<(u32, Vec<OperationLayout>)>),
    PutCollection { name: String, change: Box<ChangeLayout>, condition: ConditionLayout, now_ms: u64 },
    DeleteCollection { name: String, condition: ConditionLayout },
    PutClusters { name: String, rule: Option<RuleLayout> },
    AddMarks { collection: u32, marks: Vec<(MarkLayout, u64)> },
    RemoveMark { collection: u32, mark: MarkLayout },
    Hidden(HiddenLayout),
    Time,
}

/// A distance, a containment, and whether it replaces.
type RuleOfDuplicates = (u32, Option<f64>, bool);
/// A keep rule, and a distance.
type RuleLayout = (String, Option<u32>);
/// A document, and the other document of a pair.
pub(super) type MarkLayout = (String, Option<String>);
/// Cells, bytes of a cell, bands, rows, and whether the cells are a set.
type ShapeLayout = (u16, u8, u16, u16, bool);

#[derive(Serialize, Deserialize)]
pub(super) enum OperationLayout {
    Put { id: String, row: Vec<u8>, unless: Option<RuleOfDuplicates>, condition: ConditionLayout },
    Delete { id: String, condition: ConditionLayout },
}

#[derive(Serialize, Deserialize)]
struct FactsLayout {
    id: String,
    bits: u32,
    signatures: Option<ShapeLayout>,
    k: u32,
    sketch_bytes: Option<u16>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ChangeLayout {
    profile: Option<FactsLayout>,
    default_profile: FactsLayout,
    k: Option<u32>,
    threshold: Option<f64>,
    sketch_bytes: Option<u16>,
    passages: Option<bool>,
    boilerplate: Option<u32>,
    clusters: Option<RuleLayout>,
    keep_text: Option<bool>,
    /// Whether the change names a lifetime, and which.
    expires_in: (bool, Option<u64>),
}

#[derive(Serialize, Deserialize)]
pub(super) enum ConditionLayout {
    None,
    Absent,
    Present,
    Version(Vec<u64>),
    Repeats,
}

impl From<Work> for WorkLayout {
    fn from(work: Work) -> WorkLayout {
        match work {
            Work::Writes(writes) => {
                let of_collection = |(collection, operations): (CollectionId, Vec<Operation>)| {
                    (collection.0, operations.into_iter().map(OperationLayout::from).collect())
                };
                WorkLayout::Writes(writes.into_iter().map(of_collection).collect())
            }
            Work::PutCollection { name, change, condition, now_ms } => WorkLayout::PutCollection {
                name: name.to_string(),
                change: Box::new((*change).into()),
                condition: condition.into(),
                now_ms,
            },
            Work::DeleteCollection { name, condition } => {
                WorkLayout::DeleteCollection { name: name.to_string(), condition: condition.into() }
            }
            Work::PutClusters { name, rule } => {
                WorkLayout::PutClusters { name: name.to_string(), rule: rule.map(write_rule) }
            }
            Work::ChangeMarks { collection: CollectionId(collection), change: MarkChange::Add(marks) } => {
                let marks = marks.iter().map(|(mark, marked_ms)| (write_mark(mark), *marked_ms)).collect();
                WorkLayout::AddMarks { collection, marks }
            }
            Work::ChangeMarks { collection: CollectionId(collection), change: MarkChange::Remove(mark) } => {
                WorkLayout::RemoveMark { collection, mark: write_mark(&mark) }
            }
            Work::Hidden(work) => WorkLayout::Hidden(work.into()),
            Work::Time => WorkLayout::Time,
        }
    }
}

impl WorkLayout {
    fn read(self) -> Result<Work, EntryError> {
        Ok(match self {
            WorkLayout::Writes(writes) => {
                let of_collection = |(collection, operations): (u32, Vec<OperationLayout>)| {
                    let operations =
                        operations.into_iter().map(OperationLayout::read).collect::<Result<_, _>>();
                    Ok((CollectionId(collection), operations?))
                };
                Work::Writes(writes.into_iter().map(of_collection).collect::<Result<_, _>>()?)
            }
            WorkLayout::PutCollection { name, change, condition, now_ms } => Work::PutCollection {
                name: read_name(&name)?,
                change: Box::new(change.read()?),
                condition: condition.into(),
                now_ms,
            },
            WorkLayout::DeleteCollection { name, condition } => {
                Work::DeleteCollection { name: read_name(&name)?, condition: condition.into() }
            }
            WorkLayout::PutClusters { name, rule } => {
                Work::PutClusters { name: read_name(&name)?, rule: rule.map(read_rule).transpose()? }
            }
            WorkLayout::AddMarks { collection, marks } => {
                let read = |(mark, marked_ms)| Ok((read_mark(mark)?, marked_ms));
                let marks = marks.into_iter().map(read).collect::<Result<_, EntryError>>()?;
                Work::ChangeMarks { collection: CollectionId(collection), change: MarkChange::Add(marks) }
            }
            WorkLayout::RemoveMark { collection, mark } => {
                let change = MarkChange::Remove(read_mark(mark)?);
                Work::ChangeMarks { collection: CollectionId(collection), change }
            }
            WorkLayout::Hidden(work) => Work::Hidden(work.read()?),
            WorkLayout::Time => Work::Time,
        })
    }
}

impl From<Operation> for OperationLayout {
    fn from(operation: Operation) -> OperationLayout {
        match operation {
            Operation::Put { document: Document { id, row }, unless, condition } => OperationLayout::Put {
                id: id.as_str().to_owned(),
                row: row.into_bytes(),
                unless: unless.map(|rule| (rule.k, rule.containment, rule.replaces)),
                condition: condition.into(),
            },
            Operation::Delete { id, condition } => {
                OperationLayout::Delete { id: id.as_str().to_owned(), condition: condition.into() }
            }
        }
    }
}

impl OperationLayout {
    pub(super) fn read(self) -> Result<Operation, EntryError> {
        match self {
            OperationLayout::Put { id, row, unless, condition } => {
                let row = Row::from_bytes(&row).map_err(|_| EntryError::Damaged("a document"))?;
                let rule = |(k, containment, replaces)| DuplicateRule { k, containment, replaces };
                let document = Document { id: read_id(&id)?, row };
                let (unless, condition) = (unless.map(rule), condition.into());
                Ok(Operation::Put { document, unless, condition })
            }
            OperationLayout::Delete { id, condition } => {
                Ok(Operation::Delete { id: read_id(&id)?, condition: condition.into() })
            }
        }
    }
}

impl From<ProfileFacts> for FactsLayout {
    fn from(facts: ProfileFacts) -> FactsLayout {
        let shape = |SignatureShape { cells, cell_bytes, bands, rows, is_set }| {
            (cells, cell_bytes, bands, rows, is_set)
        };
        FactsLayout {
            id: facts.id,
            bits: facts.width.bits(),
            signatures: facts.signatures.map(shape),
            k: facts.k,
            sketch_bytes: facts.sketch_bytes,
        }
    }
}

impl FactsLayout {
    fn read(self) -> Result<ProfileFacts, EntryError> {
        let width = Width::from_bits(self.bits).ok_or(EntryError::Damaged("the width of a profile"))?;
        let shape = |(cells, cell_bytes, bands, rows, is_set)| {
            let shape = SignatureShape { cells, cell_bytes, bands, rows, is_set }.checked();
            shape.ok_or(EntryError::Damaged("the shape of signatures"))
        };
        let signatures = self.signatures.map(shape).transpose()?;
        Ok(ProfileFacts { id: self.id, width, signatures, k: self.k, sketch_bytes: self.sketch_bytes })
    }
}

impl From<CollectionChange> for ChangeLayout {
    fn from(change: CollectionChange) -> ChangeLayout {
        ChangeLayout {
            profile: change.profile.map(FactsLayout::from),
            default_profile: change.default_profile.into(),
            k: change.k,
            threshold: change.threshold,
            sketch_bytes: change.sketch_bytes,
            passages: change.passages,
            boilerplate: change.boilerplate,
            clusters: change.clusters.map(write_rule),
            keep_text: change.keep_text,
            expires_in: (change.expires_in.is_some(), change.expires_in.flatten()),
        }
    }
}

impl ChangeLayout {
    pub(super) fn read(self) -> Result<CollectionChange, EntryError> {
        Ok(CollectionChange {
            profile: self.profile.map(FactsLayout::read).transpose()?,
            default_profile: self.default_profile.read()?,
            k: self.k,
            threshold: self.threshold,
            sketch_bytes: self.sketch_bytes,
            passages: self.passages,
            boilerplate: self.boilerplate,
            clusters: self.clusters.map(read_rule).transpose()?,
            keep_text: self.keep_text,
            expires_in: self.expires_in.0.then_some(self.expires_in.1),
        })
    }
}

impl From<Condition> for ConditionLayout {
    fn from(condition: Condition) -> ConditionLayout {
        match condition {
            Condition::None => ConditionLayout::None,
            Condition::Absent => ConditionLayout::Absent,
            Condition::Present => ConditionLayout::Present,
            Condition::Repeats => ConditionLayout::Repeats,
            Condition::Version(versions) => {
                ConditionLayout::Version(versions.iter().map(|version| version.0).collect())
            }
        }
    }
}

impl From<ConditionLayout> for Condition {
    fn from(condition: ConditionLayout) -> Condition {
        match condition {
            ConditionLayout::None => Condition::None,
            ConditionLayout::Absent => Condition::Absent,
            ConditionLayout::Present => Condition::Present,
            ConditionLayout::Repeats => Condition::Repeats,
            ConditionLayout::Version(versions) => {
                Condition::Version(versions.into_iter().map(Version).collect())
            }
        }
    }
}

fn read_name(name: &str) -> Result<CollectionName, EntryError> {
    CollectionName::new(name).map_err(|_| EntryError::Damaged("the name of a collection"))
}

fn read_id(id: &str) -> Result<DocumentId, EntryError> {
    DocumentId::new(id).map_err(|_| EntryError::Damaged("an id"))
}

fn write_rule((keep, k): (KeepRule, Option<u32>)) -> RuleLayout {
    (keep.to_string(), k)
}

fn read_rule((keep, k): RuleLayout) -> Result<(KeepRule, Option<u32>), EntryError> {
    Ok((keep.parse().map_err(|_| EntryError::Damaged("a keep rule"))?, k))
}

pub(super) fn write_mark(mark: &Mark) -> MarkLayout {
    (mark.id().as_str().to_owned(), mark.other().map(|other| other.as_str().to_owned()))
}

pub(super) fn read_mark((id, other): MarkLayout) -> Result<Mark, EntryError> {
    let id = read_id(&id)?;
    match other {
        None => Ok(Mark::of(id)),
        Some(other) => Mark::pair(id, read_id(&other)?).ok_or(EntryError::Damaged("a mark of one id twice")),
    }
}
