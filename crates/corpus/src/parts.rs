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
/// are near it: the name of a document, and how many documents of the part it stands for. `documents` is
/// empty.
pub(super) fn each_near<E>(
    documents: &mut Documents,
    names: &[u32],
    bounds: Bounds,
    print: &mut impl FnMut(u32) -> Result<Print, E>,
    mut each: impl FnMut(usize, &[(u32, u32)]),
) -> Result<(), E> {
    let mut place = 0;
    while place < names.len() {
        documents.clear();
        let mut kept = Kept::none_of(documents);
        let (mut copies, mut measured_at): (Vec<u32>, _) = (Vec::new(), 1);
        while place < names.len() {
            let number = documents.push_named(names[place], &print(names[place])?);
            place += 1;
            kept.keep(documents, number);
            match kept.representative(documents, number) {
                first if first == number => copies.push(1),
                first => {
                    copies[first as usize] += 1;
                    documents.truncate(number);
                }
            }
            // Measuring reads the whole index, so it is done after each growth by a part.
            if copies.len() >= measured_at {
                if documents.bytes() + kept.bytes() > bounds.bytes {
                    break;
                }
                measured_at = copies.len() + copies.len().div_ceil(32);
            }
        }
        for (batch, names) in names.chunks(BATCH).enumerate() {
            let from = documents.len();
            for name in names {
                documents.push_named(*name, &print(*name)?);
            }
            let numbers: Vec<u32> = (from..documents.len()).collect();
            let found = kept.near_all(documents, &numbers, bounds.threads);
            for (at, near) in found.into_iter().enumerate() {
                let named = near.iter().map(|number| (documents.name(*number), copies[*number as usize]));
                each(batch * BATCH + at, &named.collect::<Vec<_>>());
            }
            documents.truncate(from);
        }
    }
    Ok(())
}
