//! How many neighbours each document has.

use super::documents::{Documents, Print};
use super::parts::{Bounds, each_near};

/// For each of these documents, by their names, the number of others among them that are near, as
/// `documents` says. The result does not depend on the bounds.
///
/// # Errors
/// The error of `print`, which reads what a document is compared by.
pub fn neighbour_counts<E>(
    documents: &Documents<'_>,
    names: &[u32],
    bounds: Bounds,
    mut print: impl FnMut(u32) -> Result<Print, E>,
) -> Result<Vec<u32>, E> {
    let mut counts = vec![0_u32; names.len()];
    each_near(documents, names, bounds, &mut print, |place, near| {
        counts[place] += near.iter().map(|(_, copies)| copies).sum::<u32>();
    })?;
    // Each document is near itself.
    counts.iter_mut().for_each(|count| *count -= 1);
    Ok(counts)
}
