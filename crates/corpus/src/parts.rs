//! All near documents in bounded memory: the documents are held in parts, one after the other, and every
//! document is compared with each part.
//!
//! Without a second check, documents with equal hashes have the same neighbours: a part holds one of them,
//! and their number.
//!
//! Costs: a lookup for each document and part, and its print is read for each part; with a second check, a
//! comparison per near pair.

use super::documents::{Documents, Print};
use super::kept::{BATCH, Kept};

/// The limits of a computation.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The approximate bytes of the documents and the index that are held at a time.
    pub bytes: usize,
    /// The number of threads, at least one.
    pub threads: usize,
}

/// Calls `each` with the place of every document in `names`, once per part, and with those of the part that
/// are near it: the name of a document, and how many documents of the part it stands for. The nearness is
/// that of `documents`.
pub(super) fn each_near<E>(
    documents: &Documents<'_>,
    names: &[u32],
    bounds: Bounds,
    print: &mut impl FnMut(u32) -> Result<Print, E>,
    mut each: impl FnMut(usize, &[(u32, u32)]),
) -> Result<(), E> {
    let mut place = 0;
    while place < names.len() {
        let mut kept = Kept::like(documents);
        let mut copies: Vec<u32> = Vec::new();
        while place < names.len() && !kept.is_full(bounds.bytes) {
            let own = print(names[place])?;
            if let Some(first) = kept.representative(&own) {
                copies[first as usize] += 1;
            } else {
                kept.add((names[place], &own));
                copies.push(1);
            }
            place += 1;
        }
        for (batch, names) in names.chunks(BATCH).enumerate() {
            let prints = names.iter().map(|name| print(*name)).collect::<Result<Vec<_>, E>>()?;
            let named: Vec<(u32, &Print)> = names.iter().copied().zip(&prints).collect();
            for (at, near) in kept.near_all(&named, bounds.threads).into_iter().enumerate() {
                let near = near.iter().map(|number| (kept.name(*number), copies[*number as usize]));
                each(batch * BATCH + at, &near.collect::<Vec<_>>());
            }
        }
    }
    Ok(())
}
