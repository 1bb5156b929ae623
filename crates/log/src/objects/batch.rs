//! An object of the log: `u8 layout, id of the append, payload`. The payload has a checksum of its own.

use bytes::{Bytes, BytesMut};

use crate::LogError;

/// The layout that is written. Readers refuse others.
const LAYOUT: u8 = 1;
const HEAD: usize = 1 + size_of::<Id>();

/// Identifies an append among all of all processes: a server recognises its own object.
pub(super) type Id = [u8; 24];

/// Makes the ids of one process: its random number, and a count.
pub(super) struct Ids {
    process: u128,
    count: u64,
}

impl Ids {
    pub(super) fn new(process: u128) -> Ids {
        Ids { process, count: 0 }
    }

    pub(super) fn next(&mut self) -> Id {
        self.count += 1;
        let mut id = [0; 24];
        id[..16].copy_from_slice(&self.process.to_be_bytes());
        id[16..].copy_from_slice(&self.count.to_be_bytes());
        id
    }
}

/// The object of a payload.
pub(super) fn pack(id: Id, payload: &[u8]) -> Bytes {
    let mut object = BytesMut::with_capacity(HEAD + payload.len());
    object.extend_from_slice(&[LAYOUT]);
    object.extend_from_slice(&id);
    object.extend_from_slice(payload);
    object.freeze()
}

/// The id and the payload of an object.
///
/// # Errors
/// [`LogError::Damaged`] with its name.
pub(super) fn unpack(name: &str, object: &Bytes) -> Result<(Id, Bytes), LogError> {
    let head = object.first_chunk::<HEAD>();
    let head = head.ok_or_else(|| LogError::Damaged(format!("{name} has {} bytes", object.len())))?;
    let (layout, id) = head.split_first().expect("a head is not empty");
    if *layout != LAYOUT {
        let what = format!("{name} has layout {layout}, and this version of lookalike reads {LAYOUT}");
        return Err(LogError::Damaged(what));
    }
    Ok((id.try_into().expect("the rest of a head is an id"), object.slice(HEAD..)))
}
