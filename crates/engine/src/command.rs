//! Commands: what changes the data. The queue carries them, the log of replicas stores them, and the writer
//! applies them, one after another.
//!
//! *Absent*: their order (`order`), their effects (`writer`), the forms of values of other crates (`stored`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::intake::Permits;
use super::registry::{Collection, Registry};
use super::writer::{Message, Outcomes};
use super::{Changed, CollectionChange, Condition, EngineError, Operation};
use lookalike_hash::{CollectionId, CollectionName, KeepRule, Mark, SketchCheck};
use lookalike_store::HiddenRecord;

/// A change of the data. It has everything that its effect depends on besides the data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Command {
    /// Apply operations, in order.
    Write(Vec<Operations>),
    /// Create or change a collection.
    PutCollection { name: CollectionName, change: Box<CollectionChange>, condition: Condition, now_ms: u64 },
    /// Delete a collection.
    DeleteCollection { name: CollectionName, condition: Condition },
    /// Build the clusters of a collection by this rule, or remove them.
    PutClusters { name: CollectionName, rule: Option<(KeepRule, Option<u32>, Option<SketchCheck>)> },
    /// Add marks, each made at a time in milliseconds since 1970-01-01 UTC.
    AddMarks { collection: CollectionId, marks: Vec<(Mark, u64)> },
    /// Remove a mark.
    RemoveMark { collection: CollectionId, mark: Mark },
    /// Change a collection that is not visible.
    Hidden(HiddenWork),
    /// Nothing but the time, which lets documents expire.
    PassTime,
}

/// Operations on a collection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Operations {
    pub(super) collection: CollectionId,
    pub(super) operations: Vec<Operation>,
}

/// A step of filling a hidden collection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum HiddenWork {
    /// Create it, with the next number. From now on this server records what changes in the collection that
    /// it will replace.
    Begin(Box<HiddenRecord>),
    /// Apply operations to its documents.
    Fill(Operations),
    /// Add marks, each made at a time in milliseconds since 1970-01-01 UTC.
    Mark { target: CollectionId, marks: Vec<(Mark, u64)> },
    /// Remove marks.
    Unmark { target: CollectionId, marks: Vec<Mark> },
    /// Accept no writes to the collection that it will replace, or accept them again.
    Freeze { target: CollectionId, is_frozen: bool },
    /// Make it visible. If it replaces a collection, its settings are those of that one after this change.
    Finish { target: CollectionId, change: Option<Box<CollectionChange>> },
    /// Discard it, unless it is visible.
    Abandon { target: CollectionId },
}

impl Command {
    /// Whether it adds or changes records of collections, and not their content alone.
    pub(super) fn changes_records(&self) -> bool {
        use Command::{DeleteCollection, Hidden, PutClusters, PutCollection};
        use HiddenWork::{Fill, Mark, Unmark};
        match self {
            Hidden(work) => !matches!(work, Fill(_) | Mark { .. } | Unmark { .. }),
            other => {
                matches!(other, PutCollection { .. } | DeleteCollection { .. } | PutClusters { .. })
            }
        }
    }

    /// Sends it to the writer, and waits for its effect.
    pub(super) async fn send(
        self,
        to: &mpsc::UnboundedSender<Message>,
        permits: Permits,
    ) -> Result<Done, EngineError> {
        let (reply, answer) = oneshot::channel();
        let callers = Callers::of_one(reply, permits);
        to.send(Message::Do(self, callers)).map_err(|_| EngineError::Closed)?;
        answer.await.map_err(|_| EngineError::Closed)?
    }
}

/// A command as a log stores it: it can be written and read, and is otherwise opaque.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(pub(super) Command);

impl Payload {
    /// Whether it does more than to let time pass.
    pub fn has_work(&self) -> bool {
        !matches!(self.0, Command::PassTime)
    }

    /// A command that lets time pass, and does nothing else.
    pub fn of_time() -> Payload {
        Payload(Command::PassTime)
    }

    /// Adds the operations of another command. Both are writes.
    pub fn join(&mut self, other: Payload) {
        if let (Command::Write(parts), Command::Write(more)) = (&mut self.0, other.0) {
            parts.extend(more);
        }
    }
}

/// The result of a command other than [`Command::Write`].
pub(super) enum Done {
    /// A collection was created or changed.
    Collection(Box<Changed>),
    /// The number of deleted collections, or of changed marks.
    Count(usize),
    /// A hidden collection, which is to be filled.
    Begun(Arc<Collection>),
    /// The command has no result.
    Nothing,
    /// There is no such collection any more.
    Missing,
}

/// A caller that waits for operations on a collection.
pub(super) struct WriteReply {
    pub(super) collection: CollectionName,
    pub(super) reply: oneshot::Sender<Outcomes>,
    /// Its share of the write queue.
    pub(super) _permits: Permits,
}

/// The callers on this server that wait for a command; by default there are none.
#[derive(Default)]
pub struct Callers {
    /// One for each part of [`Command::Write`].
    writes: Vec<WriteReply>,
    /// The caller of another command, and its share of the write queue.
    other: Option<(oneshot::Sender<Result<Done, EngineError>>, Permits)>,
}

impl Callers {
    pub(super) fn of_writes(writes: Vec<WriteReply>) -> Callers {
        Callers { writes, other: None }
    }

    pub(super) fn of_one(reply: oneshot::Sender<Result<Done, EngineError>>, permits: Permits) -> Callers {
        Callers { writes: Vec::new(), other: Some((reply, permits)) }
    }

    /// Tells the caller what was done. Returns it if the caller does not wait any more.
    pub(super) fn answer(self, done: Result<Done, EngineError>) -> Option<Result<Done, EngineError>> {
        self.other.and_then(|(reply, _)| reply.send(done).err())
    }

    /// Passes the outcomes of operations to their callers; `None` if there is no such collection.
    pub(super) fn answer_writes(self, answers: Vec<Option<Outcomes>>, registry: &Registry) {
        for (WriteReply { collection, reply, .. }, answer) in self.writes.into_iter().zip(answers) {
            let _ = reply.send(answer.unwrap_or_else(|| Err(registry.missing(collection))));
        }
    }

    /// Tells every caller that the command failed.
    pub fn fail(self, error: impl Fn() -> EngineError) {
        self.writes.into_iter().for_each(|write| drop(write.reply.send(Err(error()))));
        if let Some((reply, _)) = self.other {
            let _ = reply.send(Err(error()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, DuplicateRule, ProfileFacts, Row, SettingsChange, Version};
    use lookalike_hash::{DocumentId, Hash, Passages, SignatureShape, SketchCheck, Width};
    use lookalike_store::{CollectionRecord, CollectionSettings, Lifetime};

    fn bytes(form: &impl Serialize) -> Vec<u8> {
        postcard::to_stdvec(form).unwrap()
    }

    fn change() -> CollectionChange {
        let facts = ProfileFacts {
            id: "plain@1".into(),
            width: Width::Bits128,
            signatures: SignatureShape::of_minima(25, 8),
            k: 7,
            sketch_bytes: None,
            check: Some(SketchCheck { k: 31, similarity: 0.5 }),
        };
        CollectionChange {
            profile: None,
            default_profile: facts,
            settings: SettingsChange {
                k: Some(300),
                threshold: Some(0.5),
                sketch_bytes: Some(16),
                passages: Some(Passages::Exact),
                source_field: Some(Some("site".into())),
                clusters: Some(("max:a.n".parse().unwrap(), Some(4))),
                keep_text: Some(false),
                expires_in: Some(None),
                ..Default::default()
            },
        }
    }

    fn row() -> Row {
        Row {
            hash: Hash::from_u64(9),
            features: None,
            short: true,
            characters: Some(3),
            place: 0,
            written_ms: 5,
            lifetime: Lifetime::Endless,
            metadata: Some("{}".into()),
            grams: Vec::new(),
            text: Some("abc".into()),
            sketch: None,
            thumbnail: None,
        }
    }

    fn hidden_record(name: &CollectionName) -> HiddenRecord {
        let settings = CollectionSettings { k: 3, ..CollectionSettings::of("plain@1".into(), Width::Bits64) };
        HiddenRecord {
            record: CollectionRecord { id: CollectionId(0), name: name.clone(), settings, created_ms: 1 },
            owner: 1 << 100,
            server: "s".into(),
            source: Some(CollectionId(4)),
            is_frozen: false,
        }
    }

    /// The bytes are those of plain values in the order of `docs/formats.md`: servers of other versions read
    /// the entries of a log.
    #[test]
    fn commands_have_the_documented_bytes_and_are_read_again() {
        let (id, name) = (|text: &str| DocumentId::new(text).unwrap(), CollectionName::new("news").unwrap());
        let (pair, one) = (Mark::pair(id("b"), id("a")).unwrap(), Mark::of(id("c")));
        let (row, record) = (row(), Box::new(hidden_record(&name)));
        let hash = [0_u8, 0, 0, 0, 0, 0, 0, 9].to_vec();
        let times = (0_u64, 5_u64, None::<u64>);
        let (no_grams, no_sketch) = (0_u8, 0_u8);
        let of_row =
            (hash, None::<u32>, true, Some(3_u32), times, Some("{}"), no_grams, Some("abc"), no_sketch);
        let put = bytes(&(
            0_u32,
            "a",
            of_row,
            Some((3_u32, Some((5_u32, 0.25)), Some(0.5), true)),
            (3_u32, [9_u64].to_vec()),
        ));
        let check = Some(SketchCheck { k: 5, similarity: 0.25 });
        let operations = vec![
            Operation::Put {
                document: Document { id: id("a"), row },
                unless: Some(DuplicateRule { k: 3, check, containment: Some(0.5), replaces: true }),
                condition: Condition::Version(vec![Version(9)]),
            },
            Operation::Delete { id: id("b"), condition: Condition::Repeats },
        ];
        let of_operations = [bytes(&(300_u32, 2_u32)), put, bytes(&(1_u32, "b", 4_u32))].concat();
        let operations = Operations { collection: CollectionId(300), operations };
        let shape = Some((200_u16, 1_u8, 25_u16, 8_u16, false));
        let facts = ("plain@1", 128_u32, shape, 7_u32, None::<u16>, Some((31_u32, 0.5_f64)));
        let of_change = bytes(&(
            (None::<()>, facts, Some(300_u32), Some(0.5), Some(16_u16), None::<()>, Some(2_u32), None::<u32>),
            (Some(Some("site")), Some(("max:a.n", Some(4_u32))), Some(false), Some(None::<u64>)),
        ));
        let no_weights = None::<()>;
        let grams_to_clusters = [0_u8; 3];
        let of_settings =
            ("plain@1", 64_u32, None::<()>, 3_u32, None::<f64>, None::<u16>, no_weights, grams_to_clusters);
        let of_record = bytes(&(
            (0_u32, "news", of_settings, false, None::<u64>, 1_u64),
            (1_u128 << 100, "s", Some(4_u32), false),
        ));
        let (target, collection) = (CollectionId(300), CollectionId(300));
        let hidden = Command::Hidden;
        let marks = || vec![(pair.clone(), 7), (one.clone(), 8)];
        let of_marks = ((("a", Some("b")), 7_u64), (("c", None::<&str>), 8_u64));
        let putting = Command::PutCollection {
            name: name.clone(),
            change: Box::new(change()),
            condition: Condition::Absent,
            now_ms: 300,
        };
        let finish = HiddenWork::Finish { target, change: Some(Box::new(change())) };
        let cases = [
            (
                Command::Write(vec![operations.clone()]),
                [bytes(&(0_u32, 1_u32)), of_operations.clone()].concat(),
            ),
            (putting, [bytes(&(1_u32, "news")), of_change.clone(), bytes(&(1_u32, 300_u32))].concat()),
            (
                Command::DeleteCollection { name: name.clone(), condition: Condition::Present },
                bytes(&(2_u32, "news", 2_u32)),
            ),
            (Command::PutClusters { name, rule: None }, bytes(&(3_u32, "news", None::<()>))),
            (Command::AddMarks { collection, marks: marks() }, bytes(&(4_u32, 300_u32, 2_u32, of_marks))),
            (Command::RemoveMark { collection, mark: one.clone() }, bytes(&(5_u32, 300_u32, of_marks.1.0))),
            (hidden(HiddenWork::Begin(record.clone())), [bytes(&(6_u32, 0_u32)), of_record].concat()),
            (hidden(HiddenWork::Fill(operations)), [bytes(&(6_u32, 1_u32)), of_operations].concat()),
            (
                hidden(HiddenWork::Mark { target, marks: marks() }),
                bytes(&(6_u32, 2_u32, 300_u32, 2_u32, of_marks)),
            ),
            (
                hidden(HiddenWork::Unmark { target, marks: vec![one] }),
                bytes(&(6_u32, 3_u32, 300_u32, 1_u32, of_marks.1.0)),
            ),
            (hidden(HiddenWork::Freeze { target, is_frozen: true }), bytes(&(6_u32, 4_u32, 300_u32, true))),
            (hidden(finish), [bytes(&(6_u32, 5_u32, 300_u32, 1_u32)), of_change].concat()),
            (hidden(HiddenWork::Abandon { target }), bytes(&(6_u32, 6_u32, 300_u32))),
            (Command::PassTime, bytes(&7_u32)),
        ];
        for (command, expected) in cases {
            assert_eq!(bytes(&command), expected, "{command:?}");
            let read: Command = postcard::from_bytes(&expected).unwrap();
            assert_eq!(format!("{read:?}"), format!("{command:?}"));
        }
    }
}
