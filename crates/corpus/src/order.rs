//! The order in which documents are visited.

use std::ops::Range;

/// The numbers of the documents in the order of their keys; of equal keys, the smaller number first.
pub fn visiting_order(keys: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_unstable_by_key(|number| (keys[*number as usize], *number));
    order
}

/// The names of documents in the order in which they are visited.
#[derive(Clone, Debug)]
pub enum Order {
    /// Ascending numbers, which take no memory.
    Ascending(Range<u32>),
    /// Any order.
    Listed(Vec<u32>),
}

impl Order {
    /// The number of documents.
    pub fn len(&self) -> usize {
        match self {
            Order::Ascending(names) => names.len(),
            Order::Listed(names) => names.len(),
        }
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the document at a place.
    ///
    /// # Panics
    /// If there are fewer documents.
    pub(super) fn name(&self, place: usize) -> u32 {
        match self {
            Order::Ascending(names) => names.start + place as u32,
            Order::Listed(names) => names[place],
        }
    }
}
