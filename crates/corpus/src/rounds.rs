//! The decisions of `kept` in bounded memory: the kept documents are held in parts, one after the other.
//!
//! A round holds kept documents until they take the memory that is allowed. The documents that follow are
//! compared with them: a document that is near is dropped, and the others are decided in the next round,
//! whose kept documents come later in the order. A dropped document takes part in the later rounds, because a
//! kept document there may be nearer. So each document is compared with every kept document before it in the
//! order, as without rounds.
//!
//! Costs: a lookup for each document and round, and its print is read again in each round.

use super::documents::{Documents, Print};
use super::kept::{BATCH, Decision, Kept};
use super::parts::Bounds;

/// Decides about the documents of `order`, by their names; the first `always` of them are kept whatever is
/// near, and are in the order of their names. `documents` is empty; each round keeps at least one document if
/// one is left. `decisions` has a place for every name, and all are `Kept`. Returns the number of rounds.
///
/// # Errors
/// The error of `print`, which reads what a document is compared by.
pub fn decide_in_rounds<E>(
    documents: &mut Documents,
    (order, always): (&[u32], usize),
    bounds: Bounds,
    mut print: impl FnMut(u32) -> Result<Print, E>,
    decisions: &mut [Decision],
) -> Result<u32, E> {
    let mut decided = 0;
    let mut rounds = 0;
    // Documents before this place in the order are kept in an earlier round, or dropped.
    while decided < order.len() {
        rounds += 1;
        documents.clear();
        let mut kept = Kept::none_of(documents);
        let (mut is_full, mut place) = (false, decided);
        let (mut held, mut measured_at) = (0_usize, 1);
        while place < order.len() {
            let names = &order[place..order.len().min(place + BATCH)];
            let prints = names.iter().map(|name| print(*name)).collect::<Result<Vec<_>, E>>()?;
            let from = documents.len();
            names.iter().zip(&prints).for_each(|(name, print)| _ = documents.push_named(*name, print));
            let numbers: Vec<u32> = (from..documents.len()).collect();
            let mut is_kept = vec![false; names.len()];
            let nearest = kept.visit_batch(documents, &numbers, bounds.threads, |at, nearest| {
                let is_near = place + at >= always && nearest.is_some();
                let was_dropped = matches!(decisions[names[at] as usize], Decision::Dropped { .. });
                is_kept[at] = !is_near && !was_dropped && !is_full;
                is_kept[at]
            });
            documents.truncate(from);
            for (at, name) in names.iter().enumerate() {
                if is_kept[at] {
                    let number = documents.push_named(*name, &prints[at]);
                    kept.keep(documents, number);
                    held += 1;
                } else if let Some((distance, by)) = nearest[at].filter(|_| place + at >= always) {
                    let best = match decisions[*name as usize] {
                        Decision::Dropped { by: other, distance: least } => {
                            (least, other).min((distance, by))
                        }
                        Decision::Kept => (distance, by),
                    };
                    decisions[*name as usize] = Decision::Dropped { by: best.1, distance: best.0 };
                }
            }
            place += names.len();
            if !is_full {
                decided = place;
                // Measuring reads the whole index, so it is done after each growth by a part.
                if held >= measured_at {
                    is_full = documents.bytes() + kept.bytes() > bounds.bytes;
                    measured_at = held + held.div_ceil(32);
                }
            }
        }
    }
    Ok(rounds)
}
