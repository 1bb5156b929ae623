//! The elements of the greatest weight, with the same choice among equal weights as C++'s `partial_sort`.
//!
//! A text of many unknown words has many keywords of equal weight, and cppjieba keeps only the first few of
//! them. The heap that the GNU library builds determines which ones, so this module builds the same heap.
//! Not here: the selection of all other profiles, which sort equal weights by their bytes.

/// Moves the `count` elements of the greatest weight to the front, in no order. The selection equals that of
/// `std::partial_sort` with "greater" as the order.
pub(super) fn move_first_to_front<T: Copy>(all: &mut [T], count: usize, weight: impl Fn(&T) -> f64) {
    if count == 0 || count >= all.len() {
        return;
    }
    let (heap, rest) = all.split_at_mut(count);
    for parent in (0..count / 2).rev() {
        sink(heap, parent, heap[parent], &weight);
    }
    for other in rest {
        if weight(other) > weight(&heap[0]) {
            let newcomer = std::mem::replace(other, heap[0]);
            sink(heap, 0, newcomer, &weight);
        }
    }
}

/// Puts `value` in place of the element at `hole` of a heap whose root has the least weight: the hole moves
/// down to a leaf along the lighter children (the right one if they are equal), then the value moves up.
fn sink<T: Copy>(heap: &mut [T], mut hole: usize, value: T, weight: &impl Fn(&T) -> f64) {
    let top = hole;
    while 2 * hole + 2 < heap.len() {
        let (left, right) = (2 * hole + 1, 2 * hole + 2);
        let lighter = if weight(&heap[right]) > weight(&heap[left]) { left } else { right };
        heap[hole] = heap[lighter];
        hole = lighter;
    }
    if 2 * hole + 2 == heap.len() {
        heap[hole] = heap[2 * hole + 1];
        hole = 2 * hole + 1;
    }
    while hole > top {
        let parent = (hole - 1) / 2;
        if weight(&heap[parent]) <= weight(&value) {
            break;
        }
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = value;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_greatest_weights_move_to_the_front(weights in vec(0u8..20, 0..60), count in 0usize..70) {
            let mut all: Vec<(usize, u8)> = weights.iter().copied().enumerate().collect();
            move_first_to_front(&mut all, count, |&(_, weight)| f64::from(weight));
            let mut sorted = weights.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let mut front: Vec<u8> = all.iter().take(count).map(|&(_, weight)| weight).collect();
            front.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(front, sorted.into_iter().take(count).collect::<Vec<_>>());
            all.sort_unstable();
            prop_assert_eq!(all, weights.into_iter().enumerate().collect::<Vec<_>>());
        }
    }
}
