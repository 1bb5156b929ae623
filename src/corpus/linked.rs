//! Connected components: documents that are linked by a chain of near documents.
//!
//! The ends of a chain may differ in every bit. Therefore components are not the default.

use super::central::{all_of, representative};
use super::documents::Documents;

/// For each document in `order`, the member of its component that comes first in `order`. The documents are
/// those in `order`, each once.
pub fn linked(documents: &Documents, order: &[u32]) -> Vec<u32> {
    let all = all_of(documents, order);
    let mut parents: Vec<u32> = (0..documents.len()).collect();
    for &number in order {
        let first = representative(&all, documents, number);
        join(&mut parents, number, first);
        if first == number {
            all.near(documents, number, |(_, other)| join(&mut parents, number, other));
        }
    }
    let mut names: Vec<Option<u32>> = vec![None; parents.len()];
    let named = order.iter().map(|number| {
        let root = root(&mut parents, *number);
        *names[root as usize].get_or_insert(*number)
    });
    named.collect()
}

fn root(parents: &mut [u32], mut number: u32) -> u32 {
    while parents[number as usize] != number {
        let above = parents[parents[number as usize] as usize];
        parents[number as usize] = above;
        number = above;
    }
    number
}

fn join(parents: &mut [u32], a: u32, b: u32) {
    let (a, b) = (root(parents, a), root(parents, b));
    parents[a.max(b) as usize] = a.min(b);
}
