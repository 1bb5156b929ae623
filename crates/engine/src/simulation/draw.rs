//! Random commands of few collections and documents, so that they meet each other. What is named is mostly in
//! the store of the server that asks, and no more when the command is applied.

use xxhash_rust::xxh3::xxh3_128;

use super::Server;
use crate::command::{Command, HiddenWork, Operations};
use crate::{
    CollectionChange, CollectionSettings, Condition, Document, DuplicateRule, Operation, ProfileFacts, Row,
    SettingsChange, Version,
};
use lookalike_hash::{
    CollectionId, CollectionName, DocumentId, Gram, Hash, KeepRule, Mark, Passages, SignatureShape,
    SketchCheck, Width,
};
use lookalike_store::{CollectionRecord, HiddenRecord, StoreError};

const SKETCH: u16 = 8;
const SETS: SignatureShape = SignatureShape { cells: 3, cell_bytes: 8, bands: 3, rows: 1, is_set: true };

pub(super) struct Draw<'a> {
    pub(super) server: &'a Server,
    pub(super) now_ms: u64,
    pub(super) number: &'a mut dyn FnMut(u64) -> u64,
}

impl Draw<'_> {
    fn below(&mut self, end: usize) -> usize {
        (self.number)(end as u64) as usize
    }

    fn one_in(&mut self, times: u64) -> bool {
        (self.number)(times) == 0
    }

    pub(super) fn command(&mut self) -> Result<Command, StoreError> {
        let Some(collection) = self.collection() else { return Ok(self.put_collection()) };
        let name = self.name();
        Ok(match self.below(40) {
            0..=19 => {
                let mut parts = vec![self.operations(&collection)?];
                if self.one_in(4) {
                    let other = self.collection().unwrap_or(collection);
                    parts.push(self.operations(&other)?);
                }
                Command::Write(parts)
            }
            20..=22 => self.put_collection(),
            23 => Command::DeleteCollection { name, condition: Condition::None },
            24..=25 => Command::PutClusters { name, rule: self.rule() },
            26..=28 => Command::AddMarks { collection: collection.0, marks: self.marks() },
            29 => Command::RemoveMark { collection: collection.0, mark: self.mark() },
            30 => Command::PassTime,
            _ => Command::Hidden(self.hidden(&collection)?),
        })
    }

    /// A collection, or one that was there before.
    fn collection(&mut self) -> Option<(CollectionId, CollectionSettings)> {
        let shared = &self.server.shared;
        let all = shared.registry.all();
        let at = self.below(all.len().max(1));
        let known = all.get(at)?;
        let before = CollectionId(known.id.0 - 1);
        let is_gone = shared.registry.with_id(before).is_none() && !shared.hidden.has(before);
        let id = if is_gone && self.one_in(8) { before } else { known.id };
        Some((id, CollectionSettings::clone(&known.settings())))
    }

    fn name(&mut self) -> CollectionName {
        CollectionName::new(&format!("c{}", self.below(4))).expect("it is a name")
    }

    fn id(&mut self) -> DocumentId {
        DocumentId::new(&format!("d{}", self.below(10))).expect("it is an id")
    }

    fn mark(&mut self) -> Mark {
        let (one, other) = (self.id(), self.id());
        Mark::pair(one.clone(), other).unwrap_or(Mark::of(one))
    }

    fn marks(&mut self) -> Vec<(Mark, u64)> {
        (0..=self.below(2)).map(|_| (self.mark(), self.now_ms)).collect()
    }

    fn rule(&mut self) -> Option<(KeepRule, Option<u32>, Option<SketchCheck>)> {
        let keep = [KeepRule::First, KeepRule::Longest, KeepRule::Max("n".to_owned())];
        let at = self.below(4);
        Some((keep.get(at)?.clone(), None, None))
    }

    /// The third collection has signatures of sets, the second one grams.
    fn change_of(&mut self, name: &CollectionName) -> CollectionChange {
        let is_of_sets = name.as_str() == "c2";
        let default_profile = ProfileFacts {
            // The engine has no such profile; a `+` says that a user has defined it.
            id: "plain+1@1".to_owned(),
            width: if is_of_sets { Width::Bits128 } else { Width::Bits64 },
            signatures: is_of_sets.then_some(SETS),
            k: 2,
            sketch_bytes: (!is_of_sets).then_some(SKETCH),
            check: None,
        };
        let settings = SettingsChange {
            k: self.one_in(2).then_some(3),
            keep_text: self.one_in(2).then_some(true),
            passages: (name.as_str() == "c1").then_some(Passages::Exact),
            clusters: self.one_in(2).then_some((KeepRule::First, None)),
            ..SettingsChange::default()
        };
        CollectionChange { profile: None, default_profile, settings }
    }

    fn put_collection(&mut self) -> Command {
        let name = self.name();
        let change = Box::new(self.change_of(&name));
        let condition = if self.one_in(4) { Condition::Absent } else { Condition::None };
        Command::PutCollection { name, change, condition, now_ms: self.now_ms }
    }

    fn operations(&mut self, of: &(CollectionId, CollectionSettings)) -> Result<Operations, StoreError> {
        let operations = (0..=self.below(3)).map(|_| self.operation(of)).collect::<Result<_, _>>()?;
        Ok(Operations { collection: of.0, operations })
    }

    fn operation(&mut self, of: &(CollectionId, CollectionSettings)) -> Result<Operation, StoreError> {
        let id = self.id();
        let condition = match self.below(10) {
            0 => Condition::Absent,
            1 => Condition::Present,
            2 => Condition::Repeats,
            3 | 4 => {
                let row = self.server.shared.store.view().row_head(of.0, &id)?;
                let version = row.map(|row| Version::of_document(row.place, row.written_ms, row.hash));
                Condition::Version(version.into_iter().collect())
            }
            _ => Condition::None,
        };
        if self.one_in(5) {
            return Ok(Operation::Delete { id, condition });
        }
        let mut row = self.row(&of.1);
        if condition == Condition::Repeats
            && let Some(stored) = self.server.shared.store.view().row(of.0, &id)?
        {
            row = Row { text: if self.one_in(2) { row.text } else { stored.text.clone() }, ..stored };
        }
        let unless = self.one_in(3).then(|| DuplicateRule {
            k: self.below(4) as u32,
            check: self.one_in(3).then_some(SketchCheck { k: 20, similarity: 0.75 }),
            containment: (of.1.grams.is_some() && self.one_in(2)).then_some(0.5),
            replaces: of.1.clusters.is_some() && self.one_in(2),
        });
        Ok(Operation::Put { document: Document { id, row }, unless, condition })
    }

    fn row(&mut self, settings: &CollectionSettings) -> Row {
        // One element of four, and two of eight.
        let elements = [self.below(4), 4 + self.below(8), 12 + self.below(8)];
        let (hash, sketch) = if settings.signatures.is_some() {
            let signature: Vec<u8> = elements.iter().flat_map(|one| (*one as u64).to_le_bytes()).collect();
            (Hash::from_u128(xxh3_128(&signature)), Some(signature))
        } else {
            let sketch = self.one_in(3).then(|| vec![1 << self.below(8); usize::from(SKETCH)]);
            (Hash::from_u64(self.below(256) as u64 & 0b1011_0111), sketch)
        };
        let lasts = self.one_in(4).then(|| self.now_ms + self.below(8_000) as u64);
        let grams = elements.iter().zip(0..).filter(|_| settings.grams.is_some());
        Row {
            hash,
            features: None,
            short: false,
            characters: self.one_in(2).then(|| self.below(50) as u32),
            place: if self.one_in(8) { 1 + self.below(20) as u64 } else { 0 },
            written_ms: self.now_ms,
            lifetime: lasts.into(),
            metadata: self.one_in(2).then(|| format!("{{\"n\":{}}}", self.below(5))),
            grams: grams
                .map(|(gram, at)| Gram { hash: *gram as u64, from: 20 * at, to: 20 * at + 16 })
                .collect(),
            text: self.one_in(4).then(|| format!("text {}", self.below(3))),
            sketch,
            thumbnail: None,
        }
    }

    fn hidden(&mut self, visible: &(CollectionId, CollectionSettings)) -> Result<HiddenWork, StoreError> {
        let all = self.server.shared.store.hidden()?;
        let at = self.below(all.len() + 1);
        let Some(HiddenRecord { record, source, .. }) = all.get(at) else { return Ok(self.begin(visible)) };
        let target = record.id;
        Ok(match self.below(9) {
            0..=2 => {
                let put = |draw: &mut Self| {
                    let document = Document { id: draw.id(), row: draw.row(&record.settings) };
                    Operation::Put { document, unless: None, condition: Condition::None }
                };
                let operations = (0..=self.below(3)).map(|_| put(self)).collect();
                HiddenWork::Fill(Operations { collection: target, operations })
            }
            3 => HiddenWork::Mark { target, marks: self.marks() },
            4 => HiddenWork::Unmark { target, marks: vec![self.mark()] },
            5..=6 => HiddenWork::Freeze { target, is_frozen: !self.one_in(4) },
            7 => {
                let change = source.map(|_| Box::new(self.change_of(&record.name)));
                HiddenWork::Finish { target, change }
            }
            _ => HiddenWork::Abandon { target },
        })
    }

    /// Begins to fill a collection, in place of this one or as a new one.
    fn begin(&mut self, (id, settings): &(CollectionId, CollectionSettings)) -> HiddenWork {
        let source = self.one_in(2).then_some(*id);
        let name = if source.is_some() { self.server.name_of(*id) } else { self.name() };
        let fresh = self.change_of(&name).merge(&name, None).ok();
        let settings = fresh.filter(|_| source.is_none()).unwrap_or_else(|| settings.clone());
        let record = CollectionRecord { id: CollectionId(0), name, settings, created_ms: self.now_ms };
        let (owner, server) = (self.server.membership.origin, self.server.membership.server.clone());
        HiddenWork::Begin(Box::new(HiddenRecord { record, owner, server, source, is_frozen: false }))
    }
}
