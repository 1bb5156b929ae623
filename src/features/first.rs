//! The first few of many by weight, with the choice among equals that C++'s `partial_sort` makes.
//!
//! A text of many unknown words has many keywords of one weight, and cppjieba takes as many of them as there is
//! room for: which ones follows from the heap that the GNU library builds. So the heap is built here just like
//! that. For every other profile equals are taken in the order of their bytes.

/// Moves the `count` elements of the greatest weight to the front, in no order; what stays behind is what would
/// with `std::partial_sort` and "greater" as the order.
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

/// Puts `value` in place of the element at `hole` of a heap whose root is the lightest: the hole goes down to a
/// leaf along the lighter children, the right one if they are equal, then the value rises.
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
        fn the_weightiest_come_to_the_front(weights in vec(0u8..20, 0..60), count in 0usize..70) {
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
