//! The order in which documents are visited.

/// The numbers of the documents in the order of their keys; of equal keys, the smaller number first.
pub fn visiting_order(keys: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_unstable_by_key(|number| (keys[*number as usize], *number));
    order
}
