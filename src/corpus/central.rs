//! How many neighbours each document has.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::documents::Documents;
use super::kept::Kept;

/// The number of documents that a thread takes at a time.
const SHARE: usize = 1 << 10;

/// For each of these documents, the number of others among them that are near. The result does not depend on
/// `threads` (at least one).
///
/// Costs: a lookup per distinct hash; with a second check, a comparison per near pair.
pub fn neighbour_counts(documents: &Documents, among: &[u32], threads: usize) -> Vec<u32> {
    let all = all_of(documents, among);
    let counts: Vec<AtomicU32> = (0..documents.len()).map(|_| AtomicU32::new(0)).collect();
    // Without a second check, equal hashes have the same neighbours: the first of them stands for all.
    let first: Vec<u32> = among.iter().map(|number| representative(&all, documents, *number)).collect();
    let mut copies = vec![0_u32; counts.len()];
    first.iter().for_each(|first| copies[*first as usize] += 1);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(share) = among.get(next.fetch_add(SHARE, Ordering::Relaxed)..) {
            for &number in &share[..share.len().min(SHARE)] {
                if representative(&all, documents, number) == number {
                    let mut near = 0_u32;
                    all.near(documents, number, |(_, other)| near += copies[other as usize]);
                    counts[number as usize].store(near - 1, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| _ = scope.spawn(work));
        work();
    });
    first.iter().map(|first| counts[*first as usize].load(Ordering::Relaxed)).collect()
}

/// These documents as kept ones; without a second check, one of each hash.
pub(super) fn all_of(documents: &Documents, among: &[u32]) -> Kept {
    let mut all = Kept::none_of(documents);
    among.iter().for_each(|number| all.keep(documents, *number));
    all
}

/// The document that stands for this one among all.
pub(super) fn representative(all: &Kept, documents: &Documents, number: u32) -> u32 {
    if documents.is_checked() { number } else { all.first_with_hash_of(documents, number) }
}
