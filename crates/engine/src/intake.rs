//! Admission to the write queue: the checks of an operation, and the back-pressure of a full queue.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::change::differing;
use super::lookup::INLINE_COST;
use super::near_duplicates::{Checked, NEAREST};
use super::nearest::nearest;
use super::registry::Collection;
use super::shared::Shared;
use super::writer::{Message, Outcomes, Write};
use super::{Admission, CollectionSettings, Document, Engine, EngineError, Operation, Outcome, Receipt, Row};
use lookalike_hamming::Subject;
use lookalike_hash::{CollectionName, SignatureShape};
use lookalike_run::pool::{Cancel, Patience, driven};

/// The unit in which bytes of queued writes are counted.
const BYTES_PER_PERMIT: usize = 1_024;

/// The capacity of the write queue. Each write holds its share, in operations and in bytes, until it is
/// answered.
///
/// Writes that wait for capacity, which are parts of streams, hold at most half of it. A waiting write gets
/// every permit that is returned, so without this a few streams would keep out all single writes.
#[derive(Clone)]
pub(super) struct WriteQueue {
    all: Capacity,
    waiting: Capacity,
}

/// The share of a write in the queue.
pub(super) type Permits = Vec<OwnedSemaphorePermit>;

/// A capacity in operations and in units of bytes.
#[derive(Clone)]
struct Capacity {
    permits: [Arc<Semaphore>; 2],
    limits: [usize; 2],
}

impl Capacity {
    fn new(limits: [usize; 2]) -> Capacity {
        Capacity { permits: limits.map(|permits| Arc::new(Semaphore::new(permits))), limits }
    }

    /// Adds the permits for this many operations and bytes to `taken`. A write larger than the capacity
    /// takes all of it, and so waits for every write before it.
    async fn take(
        &self,
        wanted: [usize; 2],
        admission: Admission,
        taken: &mut Permits,
    ) -> Result<(), EngineError> {
        for ((permits, wanted), limit) in self.permits.iter().zip(wanted).zip(self.limits) {
            let wanted = u32::try_from(wanted.min(limit)).unwrap_or(u32::MAX);
            let permits = Arc::clone(permits);
            taken.push(match admission {
                Admission::Shed => permits
                    .try_acquire_many_owned(wanted)
                    .map_err(|_| EngineError::Busy("the write queue"))?,
                Admission::Wait => {
                    permits.acquire_many_owned(wanted).await.map_err(|_| EngineError::Closed)?
                }
            });
        }
        Ok(())
    }
}

impl WriteQueue {
    /// A queue with a capacity of `operations` operations and `bytes` bytes.
    pub(super) fn new(operations: usize, bytes: usize) -> WriteQueue {
        let limits = [operations, bytes.div_ceil(BYTES_PER_PERMIT)];
        WriteQueue {
            all: Capacity::new(limits),
            waiting: Capacity::new(limits.map(|limit| limit.div_ceil(2))),
        }
    }

    /// The number of operations that wait or are being written.
    pub(super) fn len(&self) -> usize {
        self.all.limits[0] - self.all.permits[0].available_permits()
    }

    /// Reserves capacity for this many operations with this many bytes.
    pub(super) async fn take_for(
        &self,
        operations: usize,
        bytes: usize,
        admission: Admission,
    ) -> Result<Permits, EngineError> {
        let mut wanted = [operations, bytes.div_ceil(BYTES_PER_PERMIT)];
        let mut taken = Permits::with_capacity(4);
        if admission == Admission::Wait {
            self.waiting.take(wanted, admission, &mut taken).await?;
            wanted = [0, 1].map(|unit| wanted[unit].min(self.waiting.limits[unit]));
        }
        self.all.take(wanted, admission, &mut taken).await?;
        Ok(taken)
    }
}

impl Engine {
    /// Queues operations, at most [`super::MAX_OPERATIONS`]. `made_for` are the settings by which the
    /// documents among them were made; `None` if there are none.
    ///
    /// # Errors
    /// [`EngineError::SettingsConflict`] if the documents do not fit the collection,
    /// [`EngineError::Switching`] if that is so because of a reindex.
    pub async fn write(
        &self,
        collection: &CollectionName,
        made_for: Option<&CollectionSettings>,
        operations: Vec<Operation>,
        admission: Admission,
    ) -> Result<Receipt, EngineError> {
        let collection = self.shared.registry.get(collection)?;
        let settings = collection.settings();
        if let Some(wanted) = made_for.filter(|wanted| !std::ptr::eq(*wanted, Arc::as_ptr(&settings))) {
            is_of(&collection, &settings, wanted)?;
        }
        if let Some(reason) = self.shared.read_only() {
            return Err(EngineError::ReadOnly(reason));
        }
        self.shared.check_space()?;
        if operations.iter().any(|operation| matches!(operation, Operation::Put { .. })) {
            // A caller that waits for capacity sends bulk data.
            self.admit(admission == Admission::Wait)?;
        }
        if let Some(membership) = &self.membership
            && operations.iter().any(Operation::expires)
        {
            membership.order.admit_expiry()?;
        }
        operations.iter().try_for_each(|operation| fits(&collection.name, &settings, operation))?;
        // Before the write takes its share of the queue: waiting for the CPU pool must not block the queue
        // for others.
        let mut checks = Vec::with_capacity(operations.len());
        for operation in &operations {
            checks.push(self.check(&collection, operation).await);
        }
        let work = operations.into_iter().zip(checks).collect();
        let answers = self.enqueue(collection, work, admission).await?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::pin(async move { outcomes(answers, &shared).await }))
    }

    /// Queues operations, on a replica as parts of the size of a command. Returns the receiver of the answer
    /// to each part.
    async fn enqueue(
        &self,
        collection: Arc<Collection>,
        operations: Vec<(Operation, Option<Checked>)>,
        admission: Admission,
    ) -> Result<Vec<oneshot::Receiver<Outcomes>>, EngineError> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        let most = self.membership.as_ref().map_or(usize::MAX, |membership| membership.order.command_bytes());
        let (queue, commands) = (self.queue.clone(), self.commands.clone());
        let queued = driven(async move {
            let bytes = operations.iter().map(|(operation, _)| size(operation)).sum();
            let mut permits = queue.take_for(operations.len(), bytes, admission).await?;
            let mut answers = Vec::with_capacity(1);
            let size_of = |(operation, _): &(Operation, _)| logged(operation);
            let mut parts = parts(operations, most, size_of).into_iter().peekable();
            while let Some(operations) = parts.next() {
                let (reply, answer) = oneshot::channel();
                // The last part is done last, so it holds the share of all.
                let permits = if parts.peek().is_none() { std::mem::take(&mut permits) } else { Vec::new() };
                let collection = Arc::clone(&collection);
                let write = Write { collection, operations, reply, permits, at_ms: None };
                commands.send(Message::Write(write)).map_err(|_| EngineError::Closed)?;
                answers.push(answer);
            }
            Ok(answers)
        });
        queued.await.unwrap_or(Err(EngineError::Closed))
    }

    /// Searches for near-duplicates outside the writer thread if that is expensive; see `recent`.
    async fn check(&self, collection: &Arc<Collection>, operation: &Operation) -> Option<Checked> {
        let Operation::Put { document, unless: Some(rule), .. } = operation else { return None };
        let k = rule.reach(&document.row);
        // Every replica decides when it applies the entry.
        if rule.replaces || self.membership.is_some() || collection.index.cost(k) <= INLINE_COST {
            return None;
        }
        let (collection, hash) = (Arc::clone(collection), document.row.hash);
        let signature = collection.signature_of(&document.row).map(Arc::<[u8]>::from);
        let seen = self.shared.applied();
        let search = move |cancel: &Cancel| {
            let subject = Subject { hash, signature: signature.as_deref() };
            let check = || cancel.check();
            let found = nearest(&*collection.index, subject, k, NEAREST, check)?;
            let nearest = found.iter().map(|near| near.hash).take(NEAREST).collect();
            Ok::<_, EngineError>(Checked { seen, nearest })
        };
        self.pool.run(Patience::Bulk, search).await.ok()?.ok()
    }
}

/// Waits for the outcomes of queued operations.
async fn outcomes(
    answers: Vec<oneshot::Receiver<Outcomes>>,
    shared: &Shared,
) -> Result<Vec<Outcome>, EngineError> {
    let mut outcomes = Vec::new();
    for answer in answers {
        // On close, the writer drops writes that have not started. If it failed, the result of the write is
        // unknown.
        let answer = answer.await.unwrap_or_else(|_| match shared.read_only() {
            Some(reason) => Err(EngineError::Unknown(reason)),
            None => Err(EngineError::Closed),
        });
        match answer {
            Ok(some) if outcomes.is_empty() => outcomes = some,
            Ok(some) => outcomes.extend(some),
            Err(error) if outcomes.is_empty() => return Err(error),
            Err(error) => {
                return Err(EngineError::Unknown(format!("a part of it is, then: {error}")));
            }
        }
    }
    Ok(outcomes)
}

/// Divides operations into parts of at most this many bytes, or of one operation.
pub(super) fn parts<T>(operations: Vec<T>, most: usize, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut bytes) = (Vec::with_capacity(1), 0);
    if most == usize::MAX {
        return vec![operations];
    }
    for operation in operations {
        let own = size(&operation);
        if parts.is_empty() || bytes + own > most {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += own;
        if let Some(part) = parts.last_mut() {
            part.push(operation);
        }
    }
    parts
}

/// Checks the settings again: the name may belong to another collection than the one for which the documents
/// were made.
fn is_of(
    collection: &Collection,
    settings: &CollectionSettings,
    made_for: &CollectionSettings,
) -> Result<(), EngineError> {
    let Some((setting, stored, wanted)) = differing(settings, made_for) else {
        return Ok(());
    };
    Err(collection.not_for_this(|name| EngineError::SettingsConflict { name, setting, stored, wanted }))
}

/// Checks that a document fits its collection: it may have been made for another collection of the same
/// name.
fn fits(
    name: &CollectionName,
    settings: &CollectionSettings,
    operation: &Operation,
) -> Result<(), EngineError> {
    let Operation::Put { document, .. } = operation else {
        return Ok(());
    };
    let (expected, found) = (settings.width, document.row.hash.width());
    if expected != found {
        return Err(EngineError::Width { name: name.clone(), expected, found });
    }
    has_sketch_and_grams(name, settings, &document.row)
}

/// Checks the signature or the sketch of a row, and its grams. A collection of signatures requires one of its
/// shape. In other collections a sketch must have the collection's length: sketches of different lengths
/// cannot be compared.
pub(super) fn has_sketch_and_grams(
    name: &CollectionName,
    settings: &CollectionSettings,
    row: &Row,
) -> Result<(), EngineError> {
    if settings.grams.is_none() && !row.grams.is_empty() {
        return Err(EngineError::SettingsConflict {
            name: name.clone(),
            setting: "passages",
            stored: "false".to_owned(),
            wanted: "true".to_owned(),
        });
    }
    match (settings.signatures, row.sketch.as_deref()) {
        (Some(shape), sketch) => check_shape(name, shape, sketch),
        (None, Some(sketch)) if settings.sketch_bytes.map(usize::from) != Some(sketch.len()) => {
            Err(EngineError::SettingsConflict {
                name: name.clone(),
                setting: "sketch_bytes",
                stored: settings.sketch_bytes.unwrap_or(0).to_string(),
                wanted: sketch.len().to_string(),
            })
        }
        (None, _) => Ok(()),
    }
}

/// In a collection of signatures, a query needs a signature too.
pub(super) fn has_signature(collection: &Collection, signature: Option<&[u8]>) -> Result<(), EngineError> {
    collection.signatures.map_or(Ok(()), |shape| check_shape(&collection.name, shape, signature))
}

fn check_shape(
    name: &CollectionName,
    shape: SignatureShape,
    signature: Option<&[u8]>,
) -> Result<(), EngineError> {
    let (expected, found) = (shape.bytes(), signature.map_or(0, <[u8]>::len));
    if expected == found {
        return Ok(());
    }
    Err(EngineError::Signature { name: name.clone(), expected, found })
}

/// The approximate memory of a queued operation in bytes.
fn size(operation: &Operation) -> usize {
    256 + variable(operation)
}

/// The approximate bytes of an operation in an entry of a log.
pub(super) fn logged(operation: &Operation) -> usize {
    40 + variable(operation)
}

/// The bytes of the parts of variable length.
fn variable(operation: &Operation) -> usize {
    match operation {
        Operation::Delete { id, .. } => id.as_str().len(),
        Operation::Put { document: Document { id, row }, .. } => id.as_str().len() + row.held_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::Condition;
    use lookalike_hash::DocumentId;

    async fn take(queue: &WriteQueue, count: usize, admission: Admission) -> Result<Permits, EngineError> {
        let id = DocumentId::new("a").unwrap();
        let bytes = count * size(&Operation::Delete { id, condition: Condition::None });
        queue.take_for(count, bytes, admission).await
    }

    #[test]
    fn writes_that_wait_leave_half_of_the_queue_to_others() {
        let queue = WriteQueue::new(100, 1 << 20);
        let waiting = |count| {
            let queue = queue.clone();
            async move { take(&queue, count, Admission::Wait).await }.boxed()
        };
        let first = waiting(40).now_or_never().unwrap().unwrap();
        // Larger than the half: it takes all of the half as soon as that is free.
        let mut second = waiting(1_000);
        assert!(second.as_mut().now_or_never().is_none());
        let single = || take(&queue, 10, Admission::Shed).now_or_never().unwrap();
        let singles: Vec<Permits> = (0..5).map(|_| single().unwrap()).collect();
        drop(first);
        let second = second.now_or_never().unwrap().unwrap();
        assert_eq!(queue.len(), 100);
        assert!(matches!(single(), Err(EngineError::Busy(_))));
        drop((singles, second));
        assert_eq!(queue.len(), 0);
        assert!(single().is_ok());
    }
}
