//! Clusters against their definition: after every write and every mark, whatever is reported is what the
//! rule says of the stored documents and marks, and when no task is left all of it is reported.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;

use lookalike_engine::{
    Admission, CheckpointPolicy, ClusterOrder, ClusterQuery, CollectionChange, Condition, Document, Engine,
    EngineSettings, Lifetime, Operation, Outcome, Placement, ProfileFacts, Progress, Represented, Row,
    SettingsChange, StoreSettings,
};
use lookalike_hash::{
    CollectionName, DocumentId, Gram, Hash, KeepRule, Mark, SignatureShape, SketchCheck, Width,
};
use lookalike_run::pool::{CpuPool, PoolLimits};

/// A document, as the definition sees it.
#[derive(Clone)]
struct Known {
    hash: Hash,
    sketch: Option<u64>,
    characters: u64,
    number: f64,
    place: u64,
}

/// A place before those of all documents that arrive.
const ARRIVED: u64 = 1 << 40;

/// The stored documents and the marks.
#[derive(Default)]
struct Twin {
    documents: BTreeMap<DocumentId, Known>,
    marks: BTreeSet<Mark>,
    arrived: u64,
    check: Option<SketchCheck>,
}

impl Twin {
    fn put(&mut self, id: &DocumentId, hash: Hash, characters: u64, number: f64) {
        self.put_at(id, hash, characters, number, 0);
    }

    fn put_sketch(&mut self, id: &DocumentId, sketch: Option<u64>) {
        self.documents.get_mut(id).unwrap().sketch = sketch;
    }

    /// Whether documents at this distance may be in one cluster.
    fn joins(&self, k: u32, distance: u32, sketches: [Option<u64>; 2]) -> bool {
        let (Some(check), [Some(a), Some(b)]) = (self.check, sketches) else { return distance <= k };
        // Of 64 bits, half differ by chance.
        distance <= check.k && 1.0 - f64::from((a ^ b).count_ones()) / 32.0 >= check.similarity
    }

    /// Stores a document with this place in the order of arrival, or with the next one if it is 0.
    fn put_at(&mut self, id: &DocumentId, hash: Hash, characters: u64, number: f64, given: u64) {
        self.arrived += 1;
        let place = if given == 0 { ARRIVED + self.arrived } else { given };
        let place = self.documents.get(id).map_or(place, |before| before.place);
        self.documents.insert(id.clone(), Known { hash, sketch: None, characters, number, place });
    }

    /// Whether a mark says that these are no duplicates.
    fn separates(&self, a: &DocumentId, b: &DocumentId) -> bool {
        let pair = Mark::pair(a.clone(), b.clone()).unwrap();
        [pair, Mark::of(a.clone()), Mark::of(b.clone())].iter().any(|mark| self.marks.contains(mark))
    }

    /// The documents in the order of their ranks.
    fn ranked(&self, keep: &KeepRule) -> Vec<(&DocumentId, &Known)> {
        let key = |known: &Known| match keep {
            KeepRule::Longest => -(known.characters as f64),
            KeepRule::Max(_) => -known.number,
            KeepRule::Min(_) => known.number,
            _ => 0.0,
        };
        let mut order: Vec<_> = self.documents.iter().collect();
        order.sort_by(|(_, a), (_, b)| key(a).total_cmp(&key(b)).then(a.place.cmp(&b.place)));
        order
    }

    /// The representative of each document, and the distance to it.
    fn representatives(&self, keep: &KeepRule, k: u32) -> BTreeMap<DocumentId, (DocumentId, u32)> {
        let (mut kept, mut found): (Vec<(&DocumentId, &Known)>, _) = (Vec::new(), BTreeMap::new());
        for (id, known) in self.ranked(keep) {
            let far = |other: &Known| other.hash.distance(known.hash).unwrap();
            let near = kept.iter().filter(|(other, _)| !self.separates(id, other));
            let near = near.filter(|(_, other)| self.joins(k, far(other), [known.sketch, other.sketch]));
            let nearest = near.map(|(id, other)| (far(other), other.place, *id)).min();
            let (distance, _, other) = nearest.unwrap_or_else(|| {
                kept.push((id, known));
                (0, known.place, id)
            });
            found.insert(id.clone(), (other.clone(), distance));
        }
        found
    }
}

fn settings() -> EngineSettings {
    EngineSettings {
        checkpoints: CheckpointPolicy { every_changes: 1 << 40, every: Duration::from_hours(1), keep: 1 },
        queue_operations: 10_000,
        queue_bytes: 1 << 24,
        store: StoreSettings { cache_bytes: 1 << 20, reserve_bytes: 0, journal_bytes: 1 << 20, verify: true },
        new_store: 1,
        wall_ms: || 1_700_000_000_000,
        memory_budget: None,
        posting_cache_bytes: 1 << 20,
        resident_bytes: || None,
    }
}

fn open(dir: &Path) -> Engine {
    let pool = CpuPool::new(PoolLimits { permits: 2, queue: 8, wait: Duration::from_secs(10) });
    Engine::open(dir, settings(), pool, &Progress::default(), None).unwrap()
}

fn name() -> CollectionName {
    CollectionName::new("news").unwrap()
}

fn id(number: u64) -> DocumentId {
    DocumentId::new(&format!("d{number}")).unwrap()
}

fn row(hash: Hash, characters: u64, number: f64) -> Row {
    Row {
        hash,
        features: None,
        short: false,
        characters: Some(characters as u32),
        place: 0,
        written_ms: 1,
        lifetime: Lifetime::Endless,
        metadata: Some(format!("{{\"a\":{{\"n\":{number}}}}}")),
        grams: Vec::<Gram>::new(),
        text: None,
        sketch: None,
        thumbnail: None,
    }
}

fn facts(signatures: Option<SignatureShape>) -> ProfileFacts {
    let width = if signatures.is_some() { Width::Bits128 } else { Width::Bits64 };
    ProfileFacts { id: "plain@1".into(), width, signatures, k: 4, sketch_bytes: None, check: None }
}

/// A check that finds farther documents than k, and not all within k.
const CHECK: SketchCheck = SketchCheck { k: 6, similarity: 0.5 };

/// A sketch that is similar to some others, and to others not.
fn sketch(random: &mut fastrand::Rng) -> Option<u64> {
    let base = random.u64(0..3).checked_sub(1)?.wrapping_mul(0x00ff_00ff_00ff_00ff);
    Some((0..random.usize(0..12)).fold(base, |sketch, _| sketch ^ 1 << random.u32(0..64)))
}

fn sketched(row: Row, sketch: Option<u64>) -> Row {
    Row { sketch: sketch.map(|sketch| sketch.to_be_bytes().into()), ..row }
}

fn create(runtime: &Runtime, engine: &Engine, clusters: Option<(KeepRule, Option<u32>)>) {
    create_checked(runtime, engine, clusters, None);
}

fn create_checked(
    runtime: &Runtime,
    engine: &Engine,
    clusters: Option<(KeepRule, Option<u32>)>,
    check: Option<SketchCheck>,
) {
    let change = CollectionChange {
        profile: None,
        default_profile: ProfileFacts { check, sketch_bytes: check.map(|_| 8), ..facts(None) },
        settings: SettingsChange { clusters, ..Default::default() },
    };
    runtime.block_on(engine.put_collection(&name(), change, Condition::None, 1)).unwrap();
}

fn write(runtime: &Runtime, engine: &Engine, operations: Vec<Operation>) -> Vec<Outcome> {
    runtime.block_on(async {
        engine.write(&name(), None, operations, Admission::Wait).await.unwrap().await.unwrap()
    })
}

/// A random mark of some documents. Few documents are marked themselves.
fn random_mark(random: &mut fastrand::Rng, documents: u64) -> Mark {
    let (a, b) = (id(random.u64(0..documents)), id(random.u64(0..documents)));
    Mark::pair(a.clone(), b).filter(|_| random.u8(0..4) > 0).unwrap_or_else(|| Mark::of(a))
}

/// Adds or removes random marks.
fn change_marks(runtime: &Runtime, engine: &Engine, twin: &mut Twin, random: &mut fastrand::Rng) {
    if random.u8(0..3) == 0 && !twin.marks.is_empty() {
        let mark = twin.marks.iter().nth(random.usize(0..twin.marks.len())).unwrap().clone();
        twin.marks.remove(&mark);
        assert!(runtime.block_on(engine.unmark(&name(), mark)).unwrap());
        return;
    }
    let marks: BTreeSet<Mark> = (0..random.usize(1..4)).map(|_| random_mark(random, 80)).collect();
    let expected = marks.difference(&twin.marks).count();
    twin.marks.extend(marks.iter().cloned());
    let marks = marks.into_iter().map(|mark| (mark, 7)).collect();
    assert_eq!(runtime.block_on(engine.mark(&name(), marks)).unwrap().added, expected);
}

fn put(document: u64, row: Row) -> Operation {
    Operation::Put { document: Document { id: id(document), row }, unless: None, condition: Condition::None }
}

fn delete(id: DocumentId) -> Operation {
    Operation::Delete { id, condition: Condition::None }
}

/// Compares what is reported with the definition. Returns the number of documents that are pending.
fn compare(engine: &Engine, twin: &Twin, keep: &KeepRule, k: u32) -> usize {
    let collection = engine.find(&name()).unwrap();
    let mut pending = 0;
    for (id, (other, far)) in twin.representatives(keep, k) {
        match engine.placement(&collection, &id).unwrap().unwrap() {
            Placement::Pending => pending += 1,
            Placement::In { representative, distance, .. } => {
                assert_eq!((&representative, distance), (&other, far), "{id:?} by {keep}");
            }
        }
    }
    pending
}

/// Waits until no task is left, and compares everything.
fn compare_settled(engine: &Engine, twin: &Twin, keep: &KeepRule, k: u32) {
    let collection = engine.find(&name()).unwrap();
    let all = ClusterQuery { order: ClusterOrder::Size, min_size: 1, after: None, limit: 1_000_000 };
    for _ in 0..10_000 {
        if engine.clusters(&collection, &all).unwrap().pending == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(compare(engine, twin, keep, k), 0, "nothing is pending");
    let mut members: BTreeMap<DocumentId, Vec<(DocumentId, u32)>> = BTreeMap::new();
    for (id, (other, distance)) in twin.representatives(keep, k) {
        members.entry(other).or_default().push((id, distance));
    }
    let page = engine.clusters(&collection, &all).unwrap();
    assert!(page.next.is_none());
    for cluster in &page.clusters {
        let found = engine.cluster(&collection, &cluster.representative, None, usize::MAX - 1).unwrap();
        let Some(Represented::Cluster(found)) = found else { panic!("{cluster:?}: {found:?}") };
        assert_eq!(&found.cluster, cluster);
        let of_twin = &members[&cluster.representative];
        assert_eq!(cluster.size as usize, of_twin.len());
        let mut own: Vec<_> =
            found.members.into_iter().map(|member| (member.rank.id, member.distance)).collect();
        own.push((cluster.representative.clone(), 0));
        own.sort();
        assert_eq!(&own, of_twin);
        for (id, _) in of_twin.iter().filter(|(id, _)| *id != cluster.representative) {
            let found = engine.cluster(&collection, id, None, 1).unwrap();
            let Some(Represented::None(Placement::In { representative, .. })) = found else {
                panic!("{id:?}: {found:?}")
            };
            assert_eq!(representative, cluster.representative);
        }
    }
    // Both orders follow from the documents alone, so that a cursor goes on at any server.
    let mut order: Vec<_> =
        twin.ranked(keep).into_iter().filter(|(id, _)| members.contains_key(*id)).collect();
    order.sort_by_key(|(id, _)| !members[*id].len());
    assert_eq!(listed(engine, ClusterOrder::Size), ids(&order));
    order.sort_by_key(|(id, known)| (!known.place, *id));
    assert_eq!(listed(engine, ClusterOrder::Newest), ids(&order));
}

fn ids(order: &[(&DocumentId, &Known)]) -> Vec<DocumentId> {
    order.iter().map(|(id, _)| (*id).clone()).collect()
}

/// The representatives in an order, page by page.
fn listed(engine: &Engine, order: ClusterOrder) -> Vec<DocumentId> {
    let mut query = ClusterQuery { order, min_size: 1, after: None, limit: 7 };
    let mut found = Vec::new();
    loop {
        let page = engine.clusters(&engine.find(&name()).unwrap(), &query).unwrap();
        found.extend(page.clusters.into_iter().map(|cluster| cluster.representative));
        query.after = page.next;
        if query.after.is_none() {
            return found;
        }
    }
}

/// A hash within a few bits of one of some centres.
fn near_a_centre(random: &mut fastrand::Rng, centres: u64) -> Hash {
    let centre = random.u64(0..centres).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let flips = (0..random.u32(0..5)).fold(0, |bits, _| bits | 1 << random.u32(0..12));
    Hash::from_u64(centre ^ flips)
}

#[test]
fn clusters_follow_from_the_stored_documents_and_marks() {
    let runtime = Runtime::new().unwrap();
    let plain = [("first", 1), ("longest", 2), ("max:a.n", 3), ("min:a.n", 4)];
    let checked = [("first", 5), ("longest", 6), ("max:a.n", 7)];
    let rules = plain.map(|rule| (rule, None)).into_iter().chain(checked.map(|rule| (rule, Some(CHECK))));
    for ((rule, seed), check) in rules {
        let keep: KeepRule = rule.parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut engine = open(dir.path());
        // An explicit k turns the check off.
        create_checked(
            &runtime,
            &engine,
            Some((keep.clone(), check.is_none().then_some(4))),
            check.or(Some(CHECK)),
        );
        let (mut twin, mut random) = (Twin { check, ..Twin::default() }, fastrand::Rng::with_seed(seed));
        for step in 0..300 {
            let mut operations = Vec::new();
            for _ in 0..random.usize(1..6) {
                let number = random.u64(0..80);
                if random.u8(0..4) == 0 {
                    twin.documents.remove(&id(number));
                    operations.push(delete(id(number)));
                } else {
                    let hash = near_a_centre(&mut random, 4);
                    let (characters, value) = (random.u64(0..6), f64::from(random.u8(0..6)));
                    // Some come from an export: before or after all others, several at one place.
                    let place = *random.choice(&[0, 0, 0, 7, ARRIVED - number % 9, u64::MAX - 1]).unwrap();
                    twin.put_at(&id(number), hash, characters, value, place);
                    let sketch = sketch(&mut random);
                    twin.put_sketch(&id(number), sketch);
                    let row = sketched(row(hash, characters, value), sketch);
                    operations.push(put(number, Row { place, ..row }));
                }
            }
            write(&runtime, &engine, operations);
            compare(&engine, &twin, &keep, 4);
            if random.bool() {
                change_marks(&runtime, &engine, &mut twin, &mut random);
                compare(&engine, &twin, &keep, 4);
            }
            if step % 100 == 99 {
                compare_settled(&engine, &twin, &keep, 4);
                runtime.block_on(engine.close(Duration::from_secs(1)));
                drop(engine);
                engine = open(dir.path());
                compare_settled(&engine, &twin, &keep, 4);
            }
        }
    }
}

#[test]
fn large_clusters_are_settled_in_steps_and_across_restarts() {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path());
    let (first, longest) = (KeepRule::First, KeepRule::Longest);
    create(&runtime, &engine, Some((first.clone(), None)));
    let (mut twin, mut random) = (Twin::default(), fastrand::Rng::with_seed(7));
    for part in 0..4 {
        let operations = (0..700).map(|at| {
            let (number, hash) = (part * 700 + at, near_a_centre(&mut random, 2));
            twin.put(&id(number), hash, number % 97, 0.0);
            put(number, row(hash, number % 97, 0.0))
        });
        let operations = operations.collect();
        write(&runtime, &engine, operations);
    }
    compare_settled(&engine, &twin, &first, 4);
    let mut pending = 0;
    for _ in 0..6 {
        // The representative of the largest cluster goes, and its members find others.
        let representatives = twin.representatives(&first, 4);
        let mut sizes: BTreeMap<&DocumentId, usize> = BTreeMap::new();
        representatives.values().for_each(|(other, _)| *sizes.entry(other).or_default() += 1);
        let largest = (*sizes.iter().max_by_key(|(_, size)| **size).unwrap().0).clone();
        twin.documents.remove(&largest);
        write(&runtime, &engine, vec![delete(largest)]);
        pending += compare(&engine, &twin, &first, 4);
        runtime.block_on(engine.close(Duration::from_secs(1)));
        drop(engine);
        engine = open(dir.path());
        compare(&engine, &twin, &first, 4);
        compare_settled(&engine, &twin, &first, 4);
    }
    assert!(pending > 0, "a large cluster is not settled at once");
    // The representative of a large cluster is marked, and the mark is removed again.
    let representatives = twin.representatives(&first, 4);
    let (representative, _) = representatives
        .values()
        .max_by_key(|(other, _)| representatives.values().filter(|(one, _)| one == other).count())
        .unwrap()
        .clone();
    for is_marked in [true, false] {
        let mark = Mark::of(representative.clone());
        if is_marked {
            twin.marks.insert(mark.clone());
            runtime.block_on(engine.mark(&name(), vec![(mark, 1)])).unwrap();
        } else {
            twin.marks.clear();
            runtime.block_on(engine.unmark(&name(), mark)).unwrap();
        }
        compare(&engine, &twin, &first, 4);
        compare_settled(&engine, &twin, &first, 4);
    }
    // Another rule, while documents come and go.
    runtime.block_on(engine.put_clusters(&name(), Some((longest.clone(), Some(3), None)))).unwrap();
    for number in 0..200 {
        let hash = near_a_centre(&mut random, 2);
        twin.put(&id(number * 7), hash, number, 0.0);
        twin.documents.remove(&id(number * 11 + 1));
        let gone = delete(id(number * 11 + 1));
        write(&runtime, &engine, vec![put(number * 7, row(hash, number, 0.0)), gone]);
        if number % 20 == 0 {
            compare(&engine, &twin, &longest, 3);
        }
    }
    compare_settled(&engine, &twin, &longest, 3);
    runtime.block_on(engine.put_clusters(&name(), None)).unwrap();
    assert_eq!(engine.placement(&engine.find(&name()).unwrap(), &id(5)).unwrap(), None);
}

/// Many copies of few hashes. Those of `x` are within k of two others that are farther apart than k, so they
/// are in different clusters by their ranks, and the borders move by more copies than one task reads.
#[test]
fn copies_are_decided_as_if_each_were_decided_alone() {
    let runtime = Runtime::new().unwrap();
    let (h, x, r) = (0, 0b1111, 0b1_1111);
    let pool = [h, x, x, r, 0b11_1111, u64::MAX].map(Hash::from_u64);
    // The two sketches of a checked collection are similar at .59, and both to .2 with the one of `far`.
    let sketches = [0, 0x1fff, u64::MAX >> 1];
    for (rule, seed, check) in
        [("first", 1, None), ("longest", 2, None), ("min:a.n", 3, None), ("first", 4, Some(CHECK))]
    {
        let keep: KeepRule = rule.parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut engine = open(dir.path());
        create_checked(&runtime, &engine, Some((keep.clone(), check.is_none().then_some(4))), check);
        let (mut twin, mut random) = (Twin { check, ..Twin::default() }, fastrand::Rng::with_seed(seed));
        let store = |twin: &mut Twin, engine: &Engine, hashes: Vec<(u64, Hash)>| {
            let operations = hashes.into_iter().map(|(number, hash)| {
                let (characters, value) = (number * 7 % 1_000, (number * 13 % 1_000) as f64);
                let sketch = check.map(|_| sketches[if number % 50 == 9 { 2 } else { number as usize % 2 }]);
                twin.put(&id(number), hash, characters, value);
                twin.put_sketch(&id(number), sketch);
                put(number, sketched(row(hash, characters, value), sketch))
            });
            write(&runtime, engine, operations.collect());
        };
        let far = |from: u64, hash: u64| (0..400).map(move |at| (from + at, Hash::from_u64(hash))).collect();
        store(&mut twin, &engine, vec![(5_000, Hash::from_u64(h))]);
        for (from, hash) in [(0, x), (400, r), (800, x)] {
            store(&mut twin, &engine, far(from, hash));
            compare(&engine, &twin, &keep, 4);
        }
        compare_settled(&engine, &twin, &keep, 4);
        // Most of the copies between go at once.
        let gone: Vec<u64> = (400..790).filter(|number| number % 40 != 7).collect();
        gone.iter().for_each(|number| _ = twin.documents.remove(&id(*number)));
        write(&runtime, &engine, gone.into_iter().map(|number| delete(id(number))).collect());
        compare(&engine, &twin, &keep, 4);
        compare_settled(&engine, &twin, &keep, 4);
        for step in 0..36 {
            let mut representatives: Vec<DocumentId> =
                twin.representatives(&keep, 4).into_values().map(|(id, _)| id).collect();
            representatives.sort();
            representatives.dedup();
            let number = match random.u8(0..3) {
                // A representative changes, or one of all.
                0 => random.choice(&representatives).unwrap().as_str()[1..].parse().unwrap(),
                _ => random.u64(0..1_250),
            };
            match random.u8(0..4) {
                0 => {
                    twin.documents.remove(&id(number));
                    write(&runtime, &engine, vec![delete(id(number))]);
                }
                1 => store(&mut twin, &engine, vec![(number, *random.choice(&pool).unwrap())]),
                2 => {
                    // Another rank for the same hash.
                    let Some(known) = twin.documents.get(&id(number)).cloned() else { continue };
                    let (characters, value) = (random.u64(0..1_200), f64::from(random.u16(0..1_200)));
                    twin.put(&id(number), known.hash, characters, value);
                    twin.put_sketch(&id(number), known.sketch);
                    let row = sketched(row(known.hash, characters, value), known.sketch);
                    write(&runtime, &engine, vec![put(number, row)]);
                }
                _ => change_marks(&runtime, &engine, &mut twin, &mut random),
            }
            compare(&engine, &twin, &keep, 4);
            if step % 12 == 11 {
                compare_settled(&engine, &twin, &keep, 4);
            }
            if step == 17 {
                runtime.block_on(engine.close(Duration::from_secs(1)));
                drop(engine);
                engine = open(dir.path());
            }
        }
    }
}
