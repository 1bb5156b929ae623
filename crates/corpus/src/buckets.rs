//! Near documents without an index: the keys of the buckets in which they meet, for programs that gather
//! buckets on many machines.
//!
//! Two signatures are near if they agree in a band and differ in at most k cells. So documents that share no
//! key are not near, and within a bucket only the cells need comparing. The keys are those of the index
//! (`lookalike_hamming::Bands`): a test compares both, also for different bands with equal hashes.
//!
//! *Absent*: hashes, whose buckets would be too many, and sets, whose distances depend on what is kept.

use super::documents::Documents;
use lookalike_hamming::band_hash;
use lookalike_hash::SignatureShape;

/// The keys of a signature, one for each band: the number of the band and, below it, 32 bits of a hash.
///
/// ```
/// use lookalike_corpus::bucket_keys;
/// use lookalike_hash::SignatureShape;
///
/// let shape = SignatureShape::of_minima(2, 2).unwrap();
/// let [a, b] = [[1, 2, 3, 4], [1, 2, 3, 5]].map(|cells| bucket_keys(shape, &cells).collect::<Vec<_>>());
/// assert!(a[0] == b[0] && a[1] != b[1]);
/// ```
pub fn bucket_keys(shape: SignatureShape, signature: &[u8]) -> impl Iterator<Item = u64> {
    let band = usize::from(shape.cell_bytes) * usize::from(shape.rows);
    let bands = signature.chunks_exact(band).take(usize::from(shape.bands));
    bands.zip(0..).map(|(band, number): (&[u8], u64)| number << 32 | u64::from(band_hash(band)))
}

/// Marks the documents of a bucket that are near another document of it, by their numbers. Returns the number
/// of comparisons: a document that is marked is compared with no further one, so that equal or nearly equal
/// documents take one comparison each, and only documents without neighbours are compared with all.
pub fn mark_near(documents: &Documents<'_>, bucket: &[u32], marks: &mut [bool]) -> u64 {
    let mut comparisons = 0;
    for (place, own) in bucket.iter().enumerate() {
        if marks[*own as usize] {
            continue;
        }
        // Those before it are compared, too: a marked one was not compared with this one.
        for (at, other) in bucket.iter().enumerate() {
            let was_compared = at < place && !marks[*other as usize];
            if at == place || was_compared {
                continue;
            }
            comparisons += 1;
            let is_near = documents.distance(*own, *other) <= documents.k();
            if is_near && documents.both_pass(*own, *other) {
                (marks[*own as usize], marks[*other as usize]) = (true, true);
                break;
            }
        }
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::documents::{Check, Print};
    use super::*;
    use lookalike_hamming::Bands;
    use lookalike_hash::{Hash, Width};

    /// Some 80,000 values of 32 bits have collisions, which show that both hashes are the same.
    #[test]
    fn keys_are_those_of_the_index() {
        let shape = SignatureShape::of_minima(1, 4).unwrap();
        let index = Bands::new(shape);
        let mut by_key: BTreeMap<u64, Vec<u128>> = BTreeMap::new();
        let mut random = fastrand::Rng::with_seed(61);
        let bands: BTreeSet<[u8; 4]> = (0..200_000).map(|_| random.u32(..).to_le_bytes()).collect();
        let bands: Vec<[u8; 4]> = bands.into_iter().collect();
        for (number, band) in (0..).zip(&bands) {
            index.insert(Hash::from_u128(number), band);
            by_key.entry(bucket_keys(shape, band).next().unwrap()).or_default().push(number);
        }
        let collisions = by_key.values().filter(|numbers| numbers.len() > 1).count();
        assert!(collisions > 1, "{collisions}");
        let others = by_key.values().filter(|numbers| numbers.len() == 1).take(500);
        for numbers in by_key.values().filter(|numbers| numbers.len() > 1).chain(others) {
            let mut found = Vec::new();
            index.within(&bands[numbers[0] as usize], 4, &mut found);
            let mut names: Vec<u128> = found.iter().map(|near| near.hash.value().low_128()).collect();
            names.sort_unstable();
            assert_eq!(&names, numbers);
        }
    }

    #[test]
    fn keys_are_of_whole_bands_with_cells_of_any_size() {
        let shape = SignatureShape { cells: 7, cell_bytes: 2, bands: 3, rows: 2, is_set: false };
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let a: Vec<u8> = (0..14).map(|_| random.u8(..2)).collect();
            let b: Vec<u8> = (0..14).map(|_| random.u8(..2)).collect();
            let keys = |cells: &[u8]| bucket_keys(shape, cells).collect::<Vec<_>>();
            let agree: Vec<bool> = (0..3).map(|band| a[band * 4..][..4] == b[band * 4..][..4]).collect();
            let same: Vec<bool> = keys(&a).iter().zip(keys(&b)).map(|(a, b)| *a == b).collect();
            assert_eq!(same, agree);
            let index = Bands::new(shape);
            index.insert(Hash::from_u128(1), &a);
            let mut found = Vec::new();
            index.within(&b, 7, &mut found);
            assert_eq!(found.len(), usize::from(agree.contains(&true)));
        }
    }

    #[test]
    fn marks_are_those_of_all_pairs() {
        let shape = SignatureShape::of_minima(2, 4).unwrap();
        let mut random = fastrand::Rng::with_seed(2);
        for round in 0..300 {
            let is_near = std::sync::Arc::new(|a: &[u8], b: &[u8]| a == b);
            let check = (round % 2 == 0).then_some(Check { bytes: 1, is_near });
            let mut documents = Documents::new(Width::Bits128, Some(shape), 3, check);
            for number in 0..random.u128(1..40) {
                let signature = (0..8).map(|_| random.u8(..3)).collect();
                let sketch = vec![random.u8(..3)];
                documents.push(&Print { hash: Hash::from_u128(number), signature, sketch });
            }
            let bucket: Vec<u32> = (0..documents.len()).collect();
            let near = |a: u32, b: u32| documents.distance(a, b) <= 3 && documents.both_pass(a, b);
            let expected: Vec<bool> =
                bucket.iter().map(|a| bucket.iter().any(|b| a != b && near(*a, *b))).collect();
            let mut marks = vec![false; bucket.len()];
            mark_near(&documents, &bucket, &mut marks);
            assert_eq!(marks, expected);
        }
    }

    #[test]
    fn equal_documents_take_one_comparison_each() {
        let shape = SignatureShape::of_minima(2, 4).unwrap();
        let mut documents = Documents::new(Width::Bits128, Some(shape), 3, None);
        for number in 0..20_000 {
            let print = Print { hash: Hash::from_u128(number), signature: vec![7; 8], sketch: Vec::new() };
            documents.push(&print);
        }
        let bucket: Vec<u32> = (0..documents.len()).collect();
        let mut marks = vec![false; bucket.len()];
        assert_eq!(mark_near(&documents, &bucket, &mut marks), 19_999);
        assert!(marks.into_iter().all(|is_near| is_near));
    }
}
