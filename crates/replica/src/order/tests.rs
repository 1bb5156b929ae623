//! Servers that share a log in memory end in the same state, whatever they do when.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::future::ready;
use proptest::prelude::*;
use tempfile::TempDir;

use super::hidden_tests::{begin, discard_all, reindex, restore};
use super::in_tests::{
    SKIP, Server, TestLog, change, create, delete, id, mark, name, open, pool, put, reach, settings, state,
    write,
};
use super::*;
use lookalike_engine::{
    Condition, Digest, DuplicateRule, Engine, OpenError, Operation, Outcome, Progress, StateDigest,
};
use lookalike_hash::{DocumentId, Hash, KeepRule, SignatureShape, Width};
use lookalike_log::Position;
use lookalike_store::wait_until_closed;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_duplicates_that_servers_take_at_once_are_stored_once() {
    let (log, dirs) = (TestLog::default(), [(); 3].map(|()| TempDir::new().unwrap()));
    let servers: Vec<Engine> =
        dirs.iter().zip(1..).map(|(dir, n)| open(dir.path(), &log, n).unwrap()).collect();
    create(&servers[0], 1).await.unwrap();
    for server in &servers {
        reach(server, &log).await;
    }
    for round in 0..100_u64 {
        let hash = round << 20;
        let writes = servers.iter().zip(0_u8..).map(|(server, n)| {
            write(server, 1, vec![put(n * 64 + round as u8 % 64, hash ^ 1 << n, None, SKIP)])
        });
        let outcomes = futures::future::join_all(writes).await;
        let stored =
            outcomes.iter().filter(|outcome| matches!(outcome.as_deref(), Ok([Outcome::Created(_)])));
        let duplicates = outcomes
            .iter()
            .filter(|outcome| matches!(outcome.as_deref(), Ok([Outcome::Duplicate(of)]) if of.len() == 1));
        assert_eq!((stored.count(), duplicates.count()), (1, 2), "{outcomes:?}");
        let delete = (0..3).map(|n| delete(n * 64 + round as u8 % 64)).collect();
        write(&servers[round as usize % 3], 1, delete).await.unwrap();
    }
    for server in &servers {
        reach(server, &log).await;
        assert_eq!(state(server).await, state(&servers[0]).await);
        server.close(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_without_a_log_is_refused_and_one_without_an_answer_is_applied() {
    let (log, dir) = (TestLog::default(), TempDir::new().unwrap());
    let server = open(dir.path(), &log, 1).unwrap();
    create(&server, 1).await.unwrap();
    log.fails.store(true, Ordering::SeqCst);
    let refused = write(&server, 1, vec![put(1, 1, None, None)]).await;
    assert!(matches!(refused, Err(EngineError::LogUnavailable(_))), "{refused:?}");
    log.fails.store(false, Ordering::SeqCst);
    let stored = write(&server, 1, vec![put(2, 2, None, None)]).await.unwrap();
    assert!(matches!(stored[..], [Outcome::Created(_)]));
    log.loses_answers.store(true, Ordering::SeqCst);
    let lost = write(&server, 1, vec![put(3, 3, None, None)]).await;
    // The follower may read the entry before the append fails; then the outcome is known.
    assert!(matches!(lost, Err(EngineError::Unknown(_)) | Ok(_)), "{lost:?}");
    reach(&server, &log).await;
    let has = |number| server.get(&server.find(&name(1)).unwrap(), &id(number)).unwrap().is_some();
    assert_eq!([1, 2, 3].map(has), [false, true, true]);
    server.close(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_in_the_log_that_the_store_does_not_take_have_an_unknown_outcome() {
    let (log, dir) = (TestLog::default(), TempDir::new().unwrap());
    let mut origin = 0;
    let mut server = Server::start_in(dir, &log, &mut origin);
    create(&server.engine, 1).await.unwrap();
    let breaks = |server: &Server| *log.breaks.lock() = Some(Arc::clone(&server.engine));
    breaks(&server);
    let written = write(&server.engine, 1, vec![put(1, 1, None, None)]).await;
    assert!(matches!(written, Err(EngineError::Unknown(_))), "{written:?}");
    let refused = write(&server.engine, 1, vec![put(2, 2, None, None)]).await;
    assert!(matches!(refused, Err(EngineError::ReadOnly(_))), "{refused:?}");
    server = server.restart(&log, &mut origin).await;
    breaks(&server);
    let created = create(&server.engine, 2).await;
    assert!(matches!(created, Err(EngineError::Unknown(_))), "{created:?}");
    server = server.restart(&log, &mut origin).await;
    breaks(&server);
    let marked = server.engine.mark(&name(1), vec![(mark(1, 2), 9)]).await;
    assert!(matches!(marked, Err(EngineError::Unknown(_))), "{marked:?}");
    server = server.restart(&log, &mut origin).await;
    reach(&server.engine, &log).await;
    let first = server.engine.find(&name(1)).unwrap();
    let has = |number| server.engine.get(&first, &id(number)).unwrap().is_some();
    assert_eq!([1, 2].map(has), [true, false]);
    assert!(server.engine.find(&name(2)).is_ok());
    server.engine.close(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_of_a_single_server_and_of_a_replica_are_not_mixed() {
    let (log, dir) = (TestLog::default(), TempDir::new().unwrap());
    let server = open(dir.path(), &log, 1).unwrap();
    create(&server, 1).await.unwrap();
    server.close(Duration::from_secs(5)).await;
    drop(server);
    wait_until_closed(&dir.path().join("store")).unwrap();
    let alone = |dir: &Path| Engine::open(dir, settings(), pool(), &Progress::default(), None);
    assert!(matches!(alone(dir.path()), Err(OpenError::Replica { .. })));
    let dir = TempDir::new().unwrap();
    let single = alone(dir.path()).unwrap();
    create(&single, 1).await.unwrap();
    single.close(Duration::from_secs(5)).await;
    drop(single);
    wait_until_closed(&dir.path().join("store")).unwrap();
    assert!(matches!(open(dir.path(), &log, 2), Err(OpenError::Replica { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_larger_than_an_entry_is_divided_and_answered_as_one() {
    let (log, dir) = (TestLog::default(), TempDir::new().unwrap());
    let server = open(dir.path(), &log, 1).unwrap();
    create(&server, 1).await.unwrap();
    let operations: Vec<Operation> = (0..=200)
        .map(|number| {
            let Operation::Put { mut document, unless, condition } =
                put(number, u64::from(number), None, None)
            else {
                unreachable!("it is one")
            };
            document.row.text = Some("长".repeat(4_000));
            Operation::Put { document, unless, condition }
        })
        .collect();
    let outcomes = write(&server, 1, operations).await.unwrap();
    assert!(outcomes.len() == 201 && outcomes.iter().all(|done| matches!(done, Outcome::Created(_))));
    let Position(end) = log.end().await.unwrap();
    let entries = log.tail(Position(0)).take_while(|entry| ready(entry.as_ref().unwrap().position.0 < end));
    let sizes: Vec<usize> = entries.map(|entry| entry.unwrap().payload.len()).collect().await;
    assert!(sizes.len() > 4 && sizes.iter().all(|bytes| *bytes < log.max_payload()), "{sizes:?}");
    server.close(Duration::from_secs(5)).await;
}

/// Many signatures share elements, which are not compared beyond a number. Which ones these are must not
/// depend on the groups in which a server applies entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_duplicates_by_shared_elements_are_the_same_on_all_servers() {
    let shape = SignatureShape { cells: 3, cell_bytes: 8, bands: 3, rows: 1, is_set: true };
    let (log, mut origin, mut noted) = (TestLog::default(), 0, BTreeMap::new());
    let mut servers: Vec<Server> = (0..3).map(|_| Server::start(&log, &mut origin)).collect();
    let mut sets = change();
    (sets.default_profile.width, sets.default_profile.signatures) = (Width::Bits128, Some(shape));
    (sets.default_profile.sketch_bytes, sets.default_profile.k) = (None, 2);
    servers[0].engine.put_collection(&name(1), sets, Condition::None, 7).await.unwrap();
    for server in &servers {
        reach(&server.engine, &log).await;
    }
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..60_u64 {
        let works: Vec<Vec<Operation>> = (0..3)
            .map(|server| {
                let document = |n: u64| {
                    let number = (round * 3 + server) * 4 + n;
                    // One element of four, and two of its own.
                    let elements = [random.u64(1..5), 1_000 + number * 2, 1_001 + number * 2];
                    let signature: Vec<u8> = elements.iter().flat_map(|one| one.to_le_bytes()).collect();
                    let Operation::Put { mut document, unless, .. } = put(0, 0, None, SKIP) else {
                        unreachable!("it is one")
                    };
                    document.id = DocumentId::new(&format!("d{number}")).unwrap();
                    document.row.hash = Hash::from_u128(xxhash_rust::xxh3::xxh3_128(&signature));
                    document.row.sketch = Some(signature);
                    let unless = unless.map(|rule| DuplicateRule { k: 2, ..rule }).filter(|_| n != 1);
                    Operation::Put { document, unless, condition: Condition::None }
                };
                (0..4).map(document).collect()
            })
            .collect();
        let writes = servers.iter().zip(works).map(|(server, work)| write(&server.engine, 1, work));
        futures::future::join_all(writes).await;
        if round % 20 == 19 {
            servers[0].engine.pass_time();
            let _ = write(&servers[0].engine, 1, vec![delete(200)]).await;
            // The new server applies the log in other groups than those that were there.
            reach(&servers[2].engine, &log).await;
            compare(&servers[2].engine, &mut noted);
            servers.remove(2).engine.close(Duration::from_secs(5)).await;
            servers.push(Server::start(&log, &mut origin));
        }
    }
    for server in &servers {
        reach(&server.engine, &log).await;
        compare(&server.engine, &mut noted);
    }
    assert!(noted.len() >= 3, "{noted:?}");
    let documents = |server: &Server| server.engine.collections().unwrap()[0].documents;
    assert!((100..700).contains(&documents(&servers[0])), "{}", documents(&servers[0]));
}

/// What a server does.
#[derive(Clone, Debug)]
enum Step {
    Write(u8, Vec<(u8, u8, Option<u16>, bool)>),
    Delete(u8, u8),
    Create(u8),
    Drop(u8),
    Mark(u8, u8, u8),
    Unmark(u8, u8, u8),
    /// Build clusters, or remove them.
    Clusters(u8, bool),
    /// Restore a backup of a collection under another name.
    Restore(u8, u8),
    /// Make the hashes of a collection again.
    Reindex(u8),
    /// Begin both, and go on with neither.
    Begin(u8, u8),
    /// Note the digests of all servers.
    PassTime,
    /// Close the server and open it again.
    Restart,
    /// Close it, and continue with an empty directory.
    Replace,
}

fn step() -> impl Strategy<Value = Step> {
    let document = (0..12_u8, any::<u8>(), prop::option::of(0..4_u16), any::<bool>());
    prop_oneof![
        8 => (0..2_u8, prop::collection::vec(document, 1..6)).prop_map(|(c, all)| Step::Write(c, all)),
        2 => (0..2_u8, 0..12_u8).prop_map(|(c, id)| Step::Delete(c, id)),
        1 => (0..2_u8).prop_map(Step::Create),
        1 => (0..2_u8).prop_map(Step::Drop),
        1 => (0..2_u8, 0..12_u8, 0..12_u8).prop_map(|(c, a, b)| Step::Mark(c, a, b)),
        1 => (0..2_u8, 0..12_u8, 0..12_u8).prop_map(|(c, a, b)| Step::Unmark(c, a, b)),
        1 => (0..2_u8, any::<bool>()).prop_map(|(c, has)| Step::Clusters(c, has)),
        1 => (0..2_u8, 0..4_u8).prop_map(|(from, to)| Step::Restore(from, to)),
        2 => (0..2_u8).prop_map(Step::Reindex),
        1 => (0..2_u8, 0..4_u8).prop_map(|(source, to)| Step::Begin(source, to)),
        3 => Just(Step::PassTime),
        1 => Just(Step::Restart),
        1 => Just(Step::Replace),
    ]
}

async fn take(of: &Server, step: &Step) {
    let server = &of.engine;
    match step {
        Step::Write(collection, documents) => {
            let operations = documents.iter().map(|&(id, hash, expires, skips)| {
                // Times around that of the clock: some documents expire while the servers work.
                let expires_ms = expires.map(|after| 1_700_000_000_000 + 40 * u64::from(after));
                put(id, u64::from(hash) & 0b1011_0111, expires_ms, if skips { SKIP } else { None })
            });
            let _ = write(server, *collection, operations.collect()).await;
        }
        Step::Delete(collection, number) => {
            let _ = write(server, *collection, vec![delete(*number)]).await;
        }
        Step::Create(collection) => drop(create(server, *collection).await),
        Step::Drop(collection) => drop(server.delete_collection(&name(*collection), Condition::None).await),
        Step::Mark(collection, a, b) => drop(server.mark(&name(*collection), vec![(mark(*a, *b), 9)]).await),
        Step::Unmark(collection, a, b) => drop(server.unmark(&name(*collection), mark(*a, *b)).await),
        Step::Clusters(collection, has) => {
            let rule = has.then_some((KeepRule::First, None, None));
            let _ = server.put_clusters(&name(*collection), rule).await;
        }
        Step::Restore(from, to) => drop(restore(server, *from, *to).await),
        Step::Reindex(collection) => drop(reindex(server, *collection).await),
        Step::Begin(source, to) => begin(of, *source, *to).await,
        Step::PassTime => server.pass_time(),
        Step::Restart | Step::Replace => unreachable!("the caller does it"),
    }
}

/// Compares the digests of a server with those that others noted at the same positions, and adds them.
fn compare(engine: &Engine, noted: &mut BTreeMap<u64, Digest>) {
    for StateDigest { position, digest, .. } in &*engine.digests().borrow() {
        assert_eq!(noted.entry(*position).or_insert(*digest), digest, "at position {position}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Three servers take random steps at the same time, restart, and are replaced by empty ones. In the end
    /// all have the same documents, with the same places. At every position with a digest, all have the same
    /// one; at each start and in the end it is that of the rows. Nothing is left of what was begun and not
    /// ended.
    #[test]
    fn servers_end_in_the_same_state(steps in prop::collection::vec((0..3_usize, step()), 1..60)) {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async move {
            let (log, mut origin, mut noted) = (TestLog::default(), 0, BTreeMap::new());
            let mut servers: Vec<Server> = (0..3).map(|_| Server::start(&log, &mut origin)).collect();
            create(&servers[0].engine, 0).await.unwrap();
            for steps in steps.chunks(3) {
                let work = steps.iter().filter(|(_, step)| !matches!(step, Step::Restart | Step::Replace));
                let servers_now = &servers;
                futures::future::join_all(work.map(|(at, step)| take(&servers_now[*at], step))).await;
                for (at, step) in steps {
                    if matches!(step, Step::Restart | Step::Replace) {
                        compare(&servers[*at].engine, &mut noted);
                    }
                    let changed = match step {
                        Step::Restart => servers.remove(*at).restart(&log, &mut origin).await,
                        Step::Replace => {
                            servers.remove(*at).engine.close(Duration::from_secs(5)).await;
                            Server::start(&log, &mut origin)
                        }
                        _ => continue,
                    };
                    servers.insert(*at, changed);
                }
            }
            servers.iter().for_each(|server| compare(&server.engine, &mut noted));
            discard_all(&mut servers, &log, &mut origin).await;
            // An entry at a time when every document that expires has expired.
            tokio::time::sleep(Duration::from_millis(200)).await;
            servers[0].engine.pass_time();
            // It is answered when the entry before it is applied.
            assert!(!servers[0].engine.delete_collection(&name(9), Condition::None).await.unwrap());
            let mut common: Option<BTreeSet<u64>> = None;
            for server in &servers {
                reach(&server.engine, &log).await;
                compare(&server.engine, &mut noted);
                let own = server.engine.digests().borrow().iter().map(|one| one.position).collect();
                common = Some(common.map_or_else(|| BTreeSet::clone(&own), |common| &common & &own));
            }
            assert!(!common.unwrap().is_empty(), "all have noted the digest at the end");
            let expected = state(&servers[0].engine).await;
            for server in &servers[1..] {
                assert_eq!(state(&server.engine).await, expected);
            }
            for server in servers {
                assert_eq!(server.restart(&log, &mut origin).await.stop().await.1, 0);
            }
        });
    }
}
