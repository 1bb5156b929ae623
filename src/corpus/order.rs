//! The order in which documents are visited.

/// The numbers of the documents in the order of their keys; of equal keys, the smaller number first.
pub fn visiting_order(keys: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_unstable_by_key(|number| (keys[*number as usize], *number));
    order
}

/// A key by which smaller values come first. Values are not NaN.
pub fn ascending(value: f64) -> u64 {
    // -0 and 0 are equal.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// A key by which larger values come first. Values are not NaN.
pub fn descending(value: f64) -> u64 {
    !ascending(value)
}
