//! Work on hidden collections in entries, and who discards those whose servers are gone.

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::super::hidden::HiddenWork;
use super::super::writer::Command;
use super::entry::{ChangeLayout, EntryError, MarkLayout, OperationLayout, read_mark, write_mark};
use crate::Engine;
use lookalike_hash::{CollectionId, Mark};
use lookalike_store::HiddenRecord;

#[derive(Serialize, Deserialize)]
pub(super) enum HiddenLayout {
    Begin(Vec<u8>),
    Fill { target: u32, operations: Vec<OperationLayout> },
    Mark { target: u32, marks: Vec<(MarkLayout, u64)> },
    Unmark { target: u32, marks: Vec<MarkLayout> },
    Freeze { target: u32, is_frozen: bool },
    Finish { target: u32, change: Option<Box<ChangeLayout>> },
    Abandon { target: u32 },
}

impl From<HiddenWork> for HiddenLayout {
    fn from(work: HiddenWork) -> HiddenLayout {
        match work {
            HiddenWork::Begin(record) => HiddenLayout::Begin(record.to_bytes()),
            HiddenWork::Fill { target: CollectionId(target), operations } => {
                let operations = operations.into_iter().map(OperationLayout::from).collect();
                HiddenLayout::Fill { target, operations }
            }
            HiddenWork::Mark { target: CollectionId(target), marks } => {
                let marks = marks.iter().map(|(mark, marked_ms)| (write_mark(mark), *marked_ms)).collect();
                HiddenLayout::Mark { target, marks }
            }
            HiddenWork::Unmark { target: CollectionId(target), marks } => {
                HiddenLayout::Unmark { target, marks: marks.iter().map(write_mark).collect() }
            }
            HiddenWork::Freeze { target: CollectionId(target), is_frozen } => {
                HiddenLayout::Freeze { target, is_frozen }
            }
            HiddenWork::Finish { target: CollectionId(target), change } => {
                let change = change.map(|change| Box::new(Arc::unwrap_or_clone(change).into()));
                HiddenLayout::Finish { target, change }
            }
            HiddenWork::Abandon { target: CollectionId(target) } => HiddenLayout::Abandon { target },
        }
    }
}

impl HiddenLayout {
    pub(super) fn read(self) -> Result<HiddenWork, EntryError> {
        let target = CollectionId;
        Ok(match self {
            HiddenLayout::Begin(bytes) => {
                let record = HiddenRecord::from_bytes(&bytes);
                HiddenWork::Begin(Box::new(record.map_err(|_| EntryError::Damaged("a hidden collection"))?))
            }
            HiddenLayout::Fill { target: number, operations } => {
                let operations = operations.into_iter().map(OperationLayout::read);
                HiddenWork::Fill { target: target(number), operations: operations.collect::<Result<_, _>>()? }
            }
            HiddenLayout::Mark { target: number, marks } => {
                let read = |(mark, marked_ms)| Ok::<(Mark, u64), EntryError>((read_mark(mark)?, marked_ms));
                let marks = marks.into_iter().map(read).collect::<Result<_, _>>()?;
                HiddenWork::Mark { target: target(number), marks }
            }
            HiddenLayout::Unmark { target: number, marks } => {
                let marks = marks.into_iter().map(read_mark).collect::<Result<_, _>>()?;
                HiddenWork::Unmark { target: target(number), marks }
            }
            HiddenLayout::Freeze { target: number, is_frozen } => {
                HiddenWork::Freeze { target: target(number), is_frozen }
            }
            HiddenLayout::Finish { target: number, change } => {
                let change = change.map(|change| change.read()).transpose()?.map(Arc::new);
                HiddenWork::Finish { target: target(number), change }
            }
            HiddenLayout::Abandon { target: number } => HiddenWork::Abandon { target: target(number) },
        })
    }
}

impl Engine {
    /// Discards the hidden collections of servers whose starts are not among these, the list of those that
    /// live. One that is absent for a moment is not taken for gone. A single server does nothing.
    pub fn discard_of_absent(&self, live: &[u128]) {
        self.discard_orphans(live, Instant::now());
    }

    pub(super) fn discard_orphans(&self, live: &[u128], now: Instant) {
        let Some(following) = &self.following else { return };
        for target in self.shared.hidden.orphaned(following.origin, live, now) {
            tracing::info!(collection = target.0, "a restore or reindex is discarded: its server is gone");
            let work = HiddenWork::Abandon { target };
            let _ = self.commands.send(Command::Hidden { work, reply: None });
        }
    }
}
