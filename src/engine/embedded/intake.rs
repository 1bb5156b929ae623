//! What may join the queue of writes, and how much of it may wait there.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::registry::Collection;
use crate::engine::{Admission, CollectionSettings, Document, EngineError, Operation};
use crate::fingerprint::makes_the_same;
use crate::ids::{CollectionName, SignatureShape};

/// The unit in which bytes of queued writes are counted.
const ROOM_UNIT: usize = 1_024;

/// The room of the queue: each write holds its share, in operations and in bytes, until it is answered.
#[derive(Clone)]
pub(super) struct WriteQueue {
    room: [Arc<Semaphore>; 2],
    limits: [usize; 2],
}

impl WriteQueue {
    /// Room for so many operations and bytes.
    pub(super) fn new(operations: usize, bytes: usize) -> WriteQueue {
        let limits = [operations, bytes.div_ceil(ROOM_UNIT)];
        WriteQueue { room: limits.map(|permits| Arc::new(Semaphore::new(permits))), limits }
    }

    /// Operations that wait or are being written.
    pub(super) fn len(&self) -> usize {
        self.limits[0] - self.room[0].available_permits()
    }

    /// Takes a share of the queue for these operations.
    pub(super) async fn take(
        &self,
        operations: &[Operation],
        admission: Admission,
    ) -> Result<[OwnedSemaphorePermit; 2], EngineError> {
        let bytes: usize = operations.iter().map(size).sum();
        let wanted = [operations.len(), bytes.div_ceil(ROOM_UNIT)];
        let mut taken = Vec::with_capacity(2);
        for ((room, wanted), limit) in self.room.iter().zip(wanted).zip(self.limits) {
            // What is larger than the whole queue gets all of it, and so waits for all before it.
            let wanted = u32::try_from(wanted.min(limit)).unwrap_or(u32::MAX);
            let room = Arc::clone(room);
            let permit = match admission {
                Admission::Shed => {
                    room.try_acquire_many_owned(wanted).map_err(|_| EngineError::Busy("the write queue"))?
                }
                Admission::Wait => room.acquire_many_owned(wanted).await.map_err(|_| EngineError::Closed)?,
            };
            taken.push(permit);
        }
        taken.try_into().map_err(|_| EngineError::Closed)
    }
}

/// Documents that were fingerprinted for a collection may find another one under its name.
pub(super) fn has_profile(collection: &Collection, wanted: &str) -> Result<(), EngineError> {
    let settings = collection.settings();
    if makes_the_same(&settings.profile, wanted) {
        return Ok(());
    }
    Err(EngineError::SettingsConflict {
        name: collection.name.clone(),
        setting: "profile",
        stored: settings.profile.clone(),
        wanted: wanted.to_owned(),
    })
}

/// Whether a document has what its collection stores: it may have been made for another one of the same name.
pub(super) fn fits(
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
    has_sketch(name, settings, document.row.sketch.as_deref())
}

/// Where hashes are names of signatures, what is stored has to have one; elsewhere sketches are as long as the
/// collection says, or they could not be compared.
pub(super) fn has_sketch(
    name: &CollectionName,
    settings: &CollectionSettings,
    sketch: Option<&[u8]>,
) -> Result<(), EngineError> {
    match (settings.signatures, sketch) {
        (Some(shape), sketch) => is_of_shape(name, shape, sketch),
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

/// Where hashes are names of signatures, what is looked for has to have one.
pub(super) fn has_signature(collection: &Collection, signature: Option<&[u8]>) -> Result<(), EngineError> {
    collection.signatures.map_or(Ok(()), |shape| is_of_shape(&collection.name, shape, signature))
}

fn is_of_shape(
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

/// The bytes that an operation keeps in the queue, about.
fn size(operation: &Operation) -> usize {
    let fixed = 256;
    match operation {
        Operation::Delete(id) => fixed + id.as_str().len(),
        Operation::Put { document: Document { id, row }, .. } => fixed + id.as_str().len() + row.held_bytes(),
    }
}
