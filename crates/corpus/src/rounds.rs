//! The decisions of `kept` in bounded memory: the kept documents are held in parts, one after the other.
//!
//! A round holds kept documents until they take the memory that is allowed. The documents that follow are
//! compared with them: a document that is near is dropped, and the others are decided in the next round,
//! whose kept documents come later in the order. A dropped document takes part in the later rounds, because a
//! kept document there may be nearer, unless its distance is 0. So each document is compared with every kept
//! document before it in the order, as without rounds.
//!
//! Costs: a lookup for each document and round, and its print is read again in each round.

use super::decisions::{Decision, Decisions};
use super::documents::{Documents, Print};
use super::kept::{BATCH, Kept};
use super::order::Order;
use super::parts::Bounds;

/// The documents that are decided.
pub struct Visit<'a> {
    /// Their names.
    pub order: Order,
    /// How many of the first are kept whatever is near. They are in the order of their names.
    pub always: usize,
    /// Documents that were kept before, which come first in the first round.
    pub before: Option<Kept<'a>>,
}

/// Decides about documents, whose nearness is that of `documents`; each round keeps at least one document if
/// one is left. `decisions` has a place for every name. A document without a print is compared with nothing.
/// Returns the number of rounds.
///
/// # Errors
/// The error of `print`, which reads what a document is compared by.
pub fn decide_in_rounds<'a, E>(
    documents: &Documents<'a>,
    visit: Visit<'a>,
    bounds: Bounds,
    mut print: impl FnMut(u32) -> Result<Option<Print>, E>,
    decisions: &mut Decisions,
) -> Result<u32, E> {
    let Visit { order, always, mut before } = visit;
    let (mut decided, mut rounds) = (0, 0);
    // Documents before this place in the order are kept in an earlier round, or dropped.
    while decided < order.len() {
        rounds += 1;
        let mut kept = before.take().unwrap_or_else(|| Kept::like(documents));
        let mut is_full = kept.is_full(bounds.bytes);
        let mut place = decided;
        while place < order.len() {
            let mut batch = Vec::with_capacity(BATCH);
            while place < order.len() && batch.len() < BATCH {
                let name = order.name(place);
                let is_settled = !documents.is_checked()
                    && matches!(decisions.get(name), Decision::Dropped { distance: 0, .. });
                if !is_settled && let Some(print) = print(name)? {
                    batch.push((place, name, print));
                }
                place += 1;
            }
            let named: Vec<(u32, &Print)> = batch.iter().map(|(_, name, print)| (*name, print)).collect();
            let nearest = kept.visit_batch(&named, bounds.threads, |at, nearest| {
                let is_near = batch[at].0 >= always && nearest.is_some();
                !is_near && !is_full && decisions.get(batch[at].1) == Decision::Kept
            });
            for ((place, name, _), nearest) in batch.iter().zip(nearest) {
                if let Some((distance, by)) = nearest.filter(|_| *place >= always) {
                    decisions.drop_for(*name, by, distance);
                }
            }
            if !is_full {
                decided = place;
                is_full = kept.is_full(bounds.bytes);
            }
        }
    }
    Ok(rounds)
}
