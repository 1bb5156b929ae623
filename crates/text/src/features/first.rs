//! The elements of the greatest weight, in the same order among equal weights as by C++'s `partial_sort`.
//!
//! A text of many unknown words has many keywords of equal weight, and cppjieba keeps only the first few of
//! them. The heap that the GNU library builds determines which ones and their order, so this module builds
//! the same heap. Not here: the selection of all other profiles, which sort equal weights by their bytes.

/// Sorts the `count` elements of the greatest weight, or all if there are fewer, to the front, the greatest
/// first. The result equals that of `std::partial_sort` with "greater" as the order.
pub(super) fn sort_first<T: Copy>(all: &mut [T], count: usize, weight: impl Fn(&T) -> f64) {
    let count = count.min(all.len());
    if count == 0 {
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
    for last in (1..count).rev() {
        let value = heap[last];
        heap[last] = heap[0];
        sink(&mut heap[..last], 0, value, &weight);
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

    /// The order of `std::partial_sort` of libstdc++ 12 for these weights.
    #[test]
    fn equal_weights_have_the_order_of_the_gnu_library() {
        let weights = [2_u8, 1, 2, 1, 1, 2, 1];
        let cases: [(usize, &[usize]); 3] =
            [(3, &[5, 0, 2]), (5, &[0, 5, 2, 3, 1]), (7, &[0, 5, 2, 3, 1, 4, 6])];
        for (count, expected) in cases {
            let mut all: Vec<usize> = (0..weights.len()).collect();
            sort_first(&mut all, count, |&at| f64::from(weights[at]));
            assert_eq!(&all[..expected.len()], expected, "{count}");
        }
    }

    proptest! {
        #[test]
        fn the_greatest_weights_are_sorted_to_the_front(weights in vec(0u8..20, 0..60), count in 0usize..70) {
            let mut all: Vec<(usize, u8)> = weights.iter().copied().enumerate().collect();
            sort_first(&mut all, count, |&(_, weight)| f64::from(weight));
            let mut sorted = weights.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let front: Vec<u8> = all.iter().take(count).map(|&(_, weight)| weight).collect();
            prop_assert_eq!(front, sorted.into_iter().take(count).collect::<Vec<_>>());
            all.sort_unstable();
            prop_assert_eq!(all, weights.into_iter().enumerate().collect::<Vec<_>>());
        }
    }
}
