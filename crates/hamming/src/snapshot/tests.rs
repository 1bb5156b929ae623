//! Snapshots read back as they were written; changed bytes yield an error with a place; there are golden
//! files of every format.

use std::collections::HashSet;
use std::f64::consts::LOG2_E;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::gaps::{CHUNK, Number, Packed, most_bytes};
use super::{Content, Loaded, Section, SnapshotError, load, write};
use crate::{HashIndex, Progress, of_width};
use lookalike_hash::{CollectionId, Hash, Sequence, U256, Width};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/format-1.snapshot");
/// Made by this test with `LOOKALIKE_MAKE_GOLDEN=1`, only for a new format.
static GOLDEN: LazyLock<Vec<u8>> = LazyLock::new(|| fs::read(PATH).unwrap());

fn spread(i: u64) -> u64 {
    let mixed = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The hashes of the golden files.
fn narrow() -> Vec<Hash> {
    let hash = |i: u64| if i.is_multiple_of(4) { 0xbeef << 48 | (i * 3) } else { spread(i) };
    (1..=600).map(hash).chain([0, u64::MAX]).map(Hash::from_u64).collect()
}

fn wide() -> Vec<Hash> {
    let hash = |i: u64| u128::from(spread(i)) << 64 | u128::from(spread(i << 32));
    (1..=300).map(hash).chain([0, u128::MAX]).map(Hash::from_u128).collect()
}

fn wider() -> Vec<Hash> {
    let hash = |i: u64| U256::from_words([spread(i), spread(i << 32), i, spread(i + 7)]);
    (1..=200).map(hash).chain([U256::default(), U256::MAX]).map(Hash::from_u256).collect()
}

fn golden_sections() -> [(u32, Width, &'static str, Vec<Hash>); 4] {
    [
        (1, Width::Bits64, "copies-64@1", narrow()),
        (2, Width::Bits64, "keywords-zh@1", vec![]),
        (7, Width::Bits128, "copies-128@1", wide()),
        (8, Width::Bits256, "hashes-256@1", wider()),
    ]
}

fn content(number: u32, width: Width, profile: &str, hashes: &[Hash]) -> Content {
    let index = of_width(width);
    index.insert_all(&mut hashes.iter().copied());
    let section = Section { collection: CollectionId(number), width, profile: profile.into() };
    Content { section, index, without: HashSet::new() }
}

fn hashes(index: &Arc<dyn HashIndex>) -> Vec<Hash> {
    let mut all = Vec::new();
    index.for_each_sorted_run(&mut |run| all.extend(run));
    all
}

/// Loads bytes as a snapshot.
fn loaded(bytes: &[u8]) -> Result<Loaded, SnapshotError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.snapshot");
    fs::write(&path, bytes).unwrap();
    load(&path, &Progress::default())
}

fn is_golden(loaded: &Loaded) {
    assert_eq!((loaded.from, loaded.through), (Sequence(41), Sequence(43)));
    assert_eq!(loaded.sections.len(), 4);
    for ((section, index), (number, width, profile, mut expected)) in
        loaded.sections.iter().zip(golden_sections())
    {
        assert_eq!((section.collection.0, section.width, &*section.profile), (number, width, profile));
        expected.sort_unstable();
        assert_eq!(hashes(index), expected);
    }
}

#[test]
fn a_snapshot_is_written_and_read_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let sections =
        golden_sections().map(|(number, width, profile, all)| content(number, width, profile, &all));
    let file = write(dir.path(), Sequence(41), &sections, &|| Ok(()), || Ok(Sequence(43))).unwrap();
    if std::env::var_os("LOOKALIKE_MAKE_GOLDEN").is_some() {
        fs::copy(&file.path, PATH).unwrap();
    }
    is_golden(&loaded(&GOLDEN).unwrap());
    assert!(fs::read(file.path).unwrap() == *GOLDEN);
}

/// Flips bits throughout the golden file, one at a time, and truncates or extends the file.
#[test]
fn damage_anywhere_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.snapshot");
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        match load(&path, &Progress::default()).err() {
            Some(SnapshotError::Damaged { path: named, offset, .. }) => {
                assert!(named == path && offset <= bytes.len() as u64);
            }
            Some(SnapshotError::Newer { path: named, .. }) => assert_eq!(named, path),
            Some(error) => panic!("{error}"),
            None => panic!("it was loaded"),
        }
    };
    let mut bytes = GOLDEN.to_vec();
    for bit in (0..GOLDEN.len() * 8).step_by(23) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        refused(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    for length in (0..GOLDEN.len()).step_by(31).chain([GOLDEN.len() - 1]) {
        refused(&GOLDEN[..length]);
    }
    refused(&[&GOLDEN[..], &[0]].concat());
}

fn pack<W: Number>(mut hashes: Vec<W>) -> (Vec<W>, Packed) {
    hashes.sort_unstable();
    hashes.dedup();
    hashes.truncate(CHUNK);
    let packed = Packed::of(&hashes).unwrap();
    (hashes, packed)
}

fn unpacked<W: Number>(packed: &Packed) -> Option<Vec<W>> {
    let mut hashes = Vec::new();
    packed.unpack(&mut hashes).then_some(hashes)
}

/// Packed hashes unpack unchanged, in at most the bounded number of bytes. Returns the bits for each hash.
fn round_trip<W: Number>(hashes: Vec<W>) -> f64 {
    let (hashes, packed) = pack(hashes);
    assert_eq!(unpacked::<W>(&packed).as_deref(), Some(&hashes[..]));
    assert!(packed.bytes().len() <= most_bytes(packed.count, W::WIDTH));
    packed.bytes().len() as f64 * 8.0 / hashes.len() as f64
}

#[test]
fn all_distributions_of_hashes_unpack_and_have_bounded_size() {
    let all = 0..CHUNK as u64;
    // Uniformly distributed: at most 0.12 bits above the information, 64 - log2(16,384) + log2(e).
    assert!(round_trip::<u64>(all.clone().map(spread).collect()) < 64.0 - 14.0 + LOG2_E + 0.12);
    let wide = |i: u64| u128::from(spread(i)) << 64 | u128::from(spread(i << 32));
    assert!(round_trip::<u128>(all.clone().map(wide).collect()) < 128.0 - 14.0 + LOG2_E + 0.12);
    // Consecutive: one bit each.
    assert!(round_trip::<u64>(all.clone().collect()) < 1.01);
    // Consecutive, and one hash at the other end: the worst case for the mean.
    assert!(round_trip::<u64>(all.clone().chain([u64::MAX]).skip(1).collect()) < 64.0);
    assert!(round_trip::<u128>(all.clone().map(u128::from).skip(1).chain([u128::MAX]).collect()) < 128.0);
    for number in [0, 1, u64::MAX] {
        round_trip::<u64>(vec![number]);
        round_trip::<u64>(vec![number, 5]);
        round_trip::<u128>(vec![number.into(), u128::MAX]);
    }
    // Hashes that differ in one bit, at every scale.
    round_trip::<u64>((0..64).map(|bit| 1 << bit).collect());
    round_trip::<u128>((0..128).map(|bit| 1 << bit).collect());
    round_trip::<u128>((0..128).map(|bit| u128::MAX >> bit).collect());
    round_trip::<U256>((0..256).map(|bit| U256::from(1) << bit).collect());
    round_trip::<U256>((0..256).map(|bit| U256::MAX >> bit).collect());
    let wider = |i: u64| U256::from_words([spread(i), spread(i << 32), i, i]);
    assert!(round_trip::<U256>(all.clone().map(wider).collect()) < 256.0 - 14.0 + LOG2_E + 0.12);
    round_trip::<U256>(vec![U256::default(), U256::MAX]);
}

#[test]
fn hashes_that_do_not_ascend_are_not_packed() {
    assert_eq!(Packed::of::<u64>(&[]), None);
    assert_eq!(Packed::of::<u64>(&[2, 2]), None);
    assert_eq!(Packed::of::<u64>(&[3, 2]), None);
}

/// Hashes in clusters of all sizes.
fn clusters() -> impl Strategy<Value = Vec<u128>> {
    let cluster = (any::<u128>(), 0..128u32, prop::collection::vec(any::<u128>(), 1..40));
    prop::collection::vec(cluster, 1..12).prop_map(|clusters| {
        let each = |(centre, bits, members): (u128, u32, Vec<u128>)| {
            members.into_iter().map(move |member| centre ^ (member >> bits))
        };
        clusters.into_iter().flat_map(each).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn packed_hashes_unpack_unchanged(hashes in clusters()) {
        round_trip::<u128>(hashes.clone());
        round_trip::<u64>(hashes.iter().map(|hash| (hash >> 64) as u64).collect());
        let wider = |hash: &u128| U256::from(*hash) << 90 | U256::from(!*hash);
        round_trip::<U256>(hashes.iter().map(wider).collect());
    }

    /// Arbitrary bits yield ascending hashes or a refusal: never a panic, never more hashes than `count`.
    #[test]
    fn any_bits_unpack_or_are_refused(
        count in 1..2_000u32,
        rice in 0..=255u8,
        first in any::<u128>(),
        mut bits in prop::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..4_000),
    ) {
        bits.resize(bits.len() + super::gaps::PAD, 0);
        let wider = Hash::from_u256(U256::from(first) << 128 | U256::from(first));
        for first in [Hash::from_u64(first as u64), Hash::from_u128(first), wider] {
            let packed = Packed { count, rice, first, bits: bits.clone() };
            if let Some(hashes) = unpacked::<u64>(&packed) {
                prop_assert!(hashes.len() == count as usize && hashes.is_sorted_by(|a, b| a < b));
            }
            if let Some(hashes) = unpacked::<u128>(&packed) {
                prop_assert!(hashes.len() == count as usize && hashes.is_sorted_by(|a, b| a < b));
            }
            if let Some(hashes) = unpacked::<U256>(&packed) {
                prop_assert!(hashes.len() == count as usize && hashes.is_sorted_by(|a, b| a < b));
            }
        }
    }

    /// Whole files with bytes changed, removed, inserted and repeated.
    #[test]
    fn a_changed_file_is_refused_or_the_same(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..5u8), 1..6),
    ) {
        let mut bytes = GOLDEN.to_vec();
        for (place, value, how) in changes {
            let at = place.index(bytes.len().max(1));
            match how {
                _ if bytes.is_empty() => bytes.push(value),
                0 => bytes[at] = value,
                1 => bytes.truncate(at),
                2 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
                3 => bytes.insert(at, value),
                _ => bytes.extend_from_within(at..(at + usize::from(value)).min(bytes.len())),
            }
        }
        match loaded(&bytes) {
            Ok(loaded) => {
                is_golden(&loaded);
                prop_assert!(bytes == *GOLDEN);
            }
            Err(SnapshotError::Damaged { offset, .. }) => prop_assert!(offset <= bytes.len() as u64),
            Err(SnapshotError::Newer { .. }) => {}
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
}

/// More hashes than a chunk, in several sections, with hashes left out; and the reported progress.
#[test]
fn many_chunks_are_loaded_and_progress_is_reported() {
    let dir: tempfile::TempDir = tempfile::tempdir().unwrap();
    let narrow: Vec<Hash> = (0..40_000).map(|i| Hash::from_u64(spread(i))).collect();
    let wide: Vec<Hash> = (0..20_000).map(|i| Hash::from_u128(u128::from(spread(i)) << 50)).collect();
    let mut sections = [content(1, Width::Bits64, "a@1", &narrow), content(2, Width::Bits128, "b@1", &wide)];
    sections[0].without = narrow[..10].iter().copied().collect();
    let file = write(dir.path(), Sequence(1), &sections, &|| Ok(()), || Ok(Sequence(2))).unwrap();
    let progress = Progress::default();
    let loaded = load(&file.path, &progress).unwrap();
    assert_eq!(progress.hashes(), (59_990, 59_990));
    for ((_, index), mut expected) in loaded.sections.iter().zip([narrow[10..].to_vec(), wide]) {
        expected.sort_unstable();
        assert_eq!(hashes(index), expected);
    }
    let left: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [file.path]);
}
