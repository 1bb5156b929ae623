//! Connected components: documents that are linked by a chain of near documents.
//!
//! The ends of a chain may differ in every bit. Therefore components are not the default.

use super::documents::{Documents, Print};
use super::parts::{Bounds, each_near};

/// For each document in `order`, by their names, the member of its component that comes first in `order`. The
/// documents are those in `order`, each once, and are near as those of `documents` are. The result does not
/// depend on the bounds.
///
/// # Errors
/// The error of `print`, which reads what a document is compared by.
pub fn linked<E>(
    documents: &Documents<'_>,
    order: &[u32],
    bounds: Bounds,
    mut print: impl FnMut(u32) -> Result<Print, E>,
) -> Result<Vec<u32>, E> {
    let mut parents: Vec<u32> = (0..order.iter().max().map_or(0, |last| last + 1)).collect();
    each_near(documents, order, bounds, &mut print, |place, near| {
        near.iter().for_each(|(other, _)| join(&mut parents, order[place], *other));
    })?;
    let mut names: Vec<Option<u32>> = vec![None; parents.len()];
    let named = order.iter().map(|number| {
        let root = root(&mut parents, *number);
        *names[root as usize].get_or_insert(*number)
    });
    Ok(named.collect())
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
