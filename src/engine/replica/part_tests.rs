//! Servers with partitions that share a log in memory, and ask each other directly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tempfile::TempDir;

use super::in_tests::{TestLog, change, id, name, pool, put, reach, write};
use super::*;
use crate::engine::cluster_tests::settings;
use crate::engine::{Condition, DuplicateRule, Listing, Operation, Outcome, PartAnswer, PartAsk, Query};
use crate::ids::{DocumentId, Hash};
use crate::index::Progress;
use crate::pool::Patience;
use crate::store::wait_until_closed;

const COUNT: u32 = 4;
/// Each partition is on two servers, and no two servers hold the same ones.
const HOLDS: [[u32; 2]; 4] = [[0, 1], [1, 2], [2, 3], [3, 0]];
const WITHIN: Duration = Duration::from_secs(30);
const SKIP: Option<DuplicateRule> =
    Some(DuplicateRule { k: 2, containment: None, replaces: false, seen: None });

/// The servers that run.
#[derive(Clone, Default)]
struct Direct(Arc<Mutex<BTreeMap<usize, Weak<Engine>>>>);

impl Elsewhere for Direct {
    fn ask(
        &self,
        ask: PartAsk,
        partitions: BTreeSet<u32>,
        at_least: u64,
    ) -> BoxFuture<'static, Result<Vec<PartAnswer>, EngineError>> {
        let running = self.0.lock().clone();
        async move {
            let mut answers = Vec::new();
            for partition in partitions {
                let holders = running.iter().filter(|(at, _)| HOLDS[**at].contains(&partition));
                let holders: Vec<_> = holders.filter_map(|(_, engine)| engine.upgrade()).collect();
                let wanted = BTreeSet::from([partition]);
                let holder = &holders[fastrand::usize(..holders.len())];
                answers.push(holder.answer_part(ask.clone(), wanted, (at_least, WITHIN)).await?);
            }
            Ok(answers)
        }
        .boxed()
    }

    fn check(&self, _: BTreeSet<u32>) -> BoxFuture<'static, Result<(), EngineError>> {
        futures::future::ready(Ok(())).boxed()
    }
}

fn open(dir: &Path, log: &TestLog, others: &Direct, at: usize, origin: u128) -> Arc<Engine> {
    let partitions = Arc::new(Partitions::new(COUNT, HOLDS[at]).unwrap());
    let part: Option<(_, Arc<dyn Elsewhere>)> = Some((partitions, Arc::new(others.clone())));
    let membership = Membership { log: Arc::new(log.clone()), origin, server: format!("s{origin}"), part };
    let engine = Engine::open(dir, settings(), pool(), &Progress::default(), Some(membership)).unwrap();
    let engine = Arc::new(engine);
    others.0.lock().insert(at, Arc::downgrade(&engine));
    engine
}

/// The documents that a server itself has, by partition, each with everything that is stored of it.
fn own(engine: &Engine) -> BTreeMap<u32, Vec<String>> {
    let collection = engine.find(&name(1)).unwrap();
    let mut documents = BTreeMap::<u32, Vec<String>>::new();
    let partitions = engine.partitions().unwrap();
    for row in engine.shared.store.view().stored_rows_after(collection.id, None) {
        let (id, row) = row.unwrap();
        documents.entry(partitions.of(&id)).or_default().push(format!("{id:?} {:?}", row.row().unwrap()));
    }
    documents
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_with_partitions_agree_and_store_near_duplicates_once() {
    let (log, others) = (TestLog::default(), Direct::default());
    let dirs = [(); 4].map(|()| TempDir::new().unwrap());
    let mut origin = 0;
    let mut start = |at: usize| {
        origin += 1;
        open(dirs[at].path(), &log, &others, at, origin)
    };
    let mut servers: Vec<Arc<Engine>> = (0..4).map(&mut start).collect();
    servers[0].put_collection(&name(1), change(), Condition::None, 7).await.unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..30 {
        for server in &servers {
            reach(server, &log).await;
        }
        // Hashes of 12 bits, so that many are near to each other; deletions make room again.
        let writes = servers.iter().map(|server| {
            let mut operations: Vec<Operation> =
                (0..6).map(|_| put(random.u8(..), random.u64(..1 << 12), None, SKIP)).collect();
            if random.bool() {
                operations.push(Operation::Delete { id: id(random.u8(..)), condition: Condition::None });
            }
            let server = Arc::clone(server);
            async move { write(&server, 1, operations).await.unwrap() }
        });
        for outcome in join_all(writes.collect::<Vec<_>>()).await.into_iter().flatten() {
            let is_internal = matches!(outcome, Outcome::Elsewhere { .. } | Outcome::Retry { .. });
            assert!(!is_internal, "{outcome:?}");
        }
        if round % 7 == 6 {
            let at = random.usize(0..4);
            others.0.lock().remove(&at);
            let server = servers.remove(at);
            server.close(Duration::from_secs(5)).await;
            drop(server);
            wait_until_closed(&dirs[at].path().join("store")).unwrap();
            servers.insert(at, start(at));
        }
    }
    for server in &servers {
        reach(server, &log).await;
    }
    // Both holders of a partition have the same rows, with places and times.
    let all: Vec<BTreeMap<u32, Vec<String>>> = servers.iter().map(|server| own(server)).collect();
    for partition in 0..COUNT {
        let holders: Vec<_> = (0..4).filter(|at| HOLDS[*at].contains(&partition)).collect();
        assert_eq!(all[holders[0]].get(&partition), all[holders[1]].get(&partition), "{partition}");
    }
    // No two documents are near-duplicates, and every server finds and lists all.
    let collection = servers[1].find(&name(1)).unwrap();
    let documents = servers[1].list(&collection, Listing::default()).await.unwrap().documents;
    let count: usize = (0..COUNT).map(|of| all[of as usize][&of].len()).sum();
    assert!(documents.len() == count && count > 50, "{count} documents, {} are listed", documents.len());
    for (at, one) in documents.iter().enumerate() {
        for other in &documents[..at] {
            assert!(one.row.hash.distance(other.row.hash).unwrap() > 2, "{one:?} {other:?}");
        }
    }
    for k in [0, 3, 12, 64] {
        let hash = Hash::from_u64(random.u64(..1 << 12));
        let query = Query {
            hash,
            signature: None,
            k,
            limit: 1_000,
            after: None,
            filter: None,
            scan: false,
            document: None,
        };
        let near = documents.iter().map(|one| (one.row.hash.distance(hash).unwrap(), one.id.clone()));
        let expected: BTreeSet<(u32, DocumentId)> = near.filter(|(distance, _)| *distance <= k).collect();
        let queries: Arc<[Query]> = [query].into();
        for server in &servers {
            let collection = server.find(&name(1)).unwrap();
            let found = server.answer_everywhere(Patience::Bulk, &collection, &queries).await.unwrap();
            let found = found[0].matches.iter().map(|near| (near.distance, near.id.clone()));
            assert!(found.eq(expected.iter().cloned()), "k {k}");
        }
    }
}
