//! Restores and reindexes on servers that share a log in memory: what is finished is the same everywhere, and
//! what is not finished leaves nothing.

use std::time::Instant;

use bytes::Bytes;
use futures::StreamExt;
use tempfile::TempDir;

use super::super::cluster_tests::settings;
use super::super::filler::Filler;
use super::super::registry::record_of;
use super::in_tests::{Server, TestLog, change, create, id, mark, name, put, reach, state, write};
use super::*;
use crate::{
    CollectionSettings, Condition, Document, Listing, Operation, Outcome, Reindex, RestoreRules, Restored,
};
use lookalike_hash::{CollectionId, DocumentId, Hash};

/// What a server has begun and does not end.
#[derive(Default)]
pub(super) struct Begun {
    restore: Option<Filler>,
    reindex: Option<Reindex>,
}

struct AllAdmitted;

impl RestoreRules for AllAdmitted {
    fn line_bytes(&self) -> usize {
        1 << 20
    }

    fn settings(&self, _: &CollectionSettings) -> Result<(), EngineError> {
        Ok(())
    }

    fn document(&self, _: &Document, _: u64) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Restores a backup of a collection under another name.
pub(super) async fn restore(server: &Engine, from: u8, to: u8) -> Result<Restored, EngineError> {
    let backup = server.backup(&name(from), server.now_ms())?;
    let tar = backup.map(|piece| piece.map_err(|error| std::io::Error::other(error.to_string())));
    server.restore(&name(to), tar.boxed(), Arc::new(AllAdmitted)).await
}

/// The hash that a reindex makes of one that was stored.
fn made_again(hash: u64) -> Hash {
    Hash::from_u64(hash ^ 0xffff_0000_0000)
}

fn renewed(mut document: Document) -> Document {
    document.row.hash = made_again(document.row.hash.low());
    document
}

/// Makes all hashes of a collection again, and follows what changes, as the service does.
pub(super) async fn reindex(server: &Engine, collection: u8) -> Result<(), EngineError> {
    let job = server.begin_reindex(&name(collection), change()).await?;
    fill(&job).await?;
    for freeze in [false, true] {
        follow(&job, freeze).await?;
    }
    job.finish().await.map(drop)
}

async fn fill(job: &Reindex) -> Result<(), EngineError> {
    let mut after = None;
    loop {
        let page = job.page(after).await?;
        job.fill(page.documents.into_iter().map(renewed).collect()).await?;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut after = None;
    while let Some(last) = job.copy_marks(after).await? {
        after = Some(last);
    }
    Ok(())
}

async fn follow(job: &Reindex, freeze: bool) -> Result<(), EngineError> {
    let changes = job.changes(freeze).await?;
    let mut ids: Vec<DocumentId> = changes.documents.into_iter().collect();
    while !ids.is_empty() {
        let present = job.present(ids.clone()).await?;
        let count = present.len();
        let present = present.into_iter().map(|(id, document)| (id, document.map(renewed)));
        job.follow(present.collect()).await?;
        ids.drain(..count);
    }
    job.follow_marks(changes.marks).await
}

/// Begins a restore and a reindex, both in place of those that the server has begun before.
pub(super) async fn begin(server: &Server, source: u8, to: u8) {
    server.begun.lock().clear();
    let engine = &server.engine;
    let mut begun = Begun::default();
    if let Ok(known) = engine.find(&name(source)) {
        let record = record_of(CollectionId(0), &name(to), &known.settings(), 7);
        begun.restore = engine.access().begin(record, None).await.ok();
    }
    if let Some(filler) = &begun.restore {
        let _ = filler.fill(vec![put(1, 5, None, None), put(2, 9, Some(1_700_000_000_100), None)]).await;
        let _ = filler.mark(vec![(mark(1, 2), 7)]).await;
    }
    begun.reindex = engine.begin_reindex(&name(source), change()).await.ok();
    if let Some(job) = &begun.reindex {
        let _ = fill(job).await;
        let _ = follow(job, source == 1).await;
    }
    server.begun.lock().push(begun);
}

/// Waits until nothing is left of what servers have begun and not ended, when each that runs drops it and
/// knows that the starts before those that run are gone.
pub(super) async fn discard_all(servers: &[Server], log: &TestLog) {
    servers.iter().for_each(|server| server.begun.lock().clear());
    let live: Vec<u128> = servers.iter().map(|server| server.origin).collect();
    let begun = Instant::now();
    for round in 1.. {
        let mut left = Vec::new();
        for server in servers {
            reach(&server.engine, log).await;
            // Their first absence is not believed.
            server.engine.discard_orphans(&live, begun + round * Duration::from_secs(10));
            let store = &server.engine.shared.store;
            left.push((store.hidden().unwrap(), store.garbage().unwrap()));
        }
        if left.iter().all(|(hidden, garbage)| hidden.is_empty() && garbage.is_empty()) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{left:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A server that begins with a copy of the data of another one.
async fn copy_of(other: &Server, log: &TestLog, origin: &mut u128) -> Server {
    let pieces: Vec<Bytes> = other.engine.copy().unwrap().map(Result::unwrap).collect().await;
    let dir = TempDir::new().unwrap();
    replace_data(dir.path(), &settings(), &mut &pieces.concat()[..]).unwrap();
    Server::start_in(dir, log, origin)
}

async fn three(log: &TestLog, origin: &mut u128) -> Vec<Server> {
    let servers: Vec<Server> = (0..3).map(|_| Server::start(log, origin)).collect();
    create(&servers[0].engine, 0).await.unwrap();
    let documents = (0..200).map(|number| put(number, u64::from(number) << 9, None, None)).collect();
    write(&servers[0].engine, 0, documents).await.unwrap();
    for server in &servers {
        reach(&server.engine, log).await;
    }
    servers
}

/// The hashes of a collection, by id.
async fn hashes(server: &Engine, collection: u8) -> Vec<(DocumentId, Hash)> {
    let opened = server.find(&name(collection)).unwrap();
    let page = server.list(&opened, Listing::default()).await.unwrap();
    page.documents.into_iter().map(|document| (document.id, document.row.hash)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_through_other_servers_are_not_lost_by_a_reindex() {
    let (log, mut origin) = (TestLog::default(), 0);
    let servers = three(&log, &mut origin).await;
    let job = servers[0].engine.begin_reindex(&name(0), change()).await.unwrap();
    let again = servers[1].engine.begin_reindex(&name(0), change()).await.err();
    assert!(matches!(&again, Some(EngineError::ReindexedBy { server, .. }) if server == "s1"), "{again:?}");
    write(&servers[1].engine, 0, vec![put(7, 1 << 40, None, None)]).await.unwrap();
    fill(&job).await.unwrap();
    let changes =
        vec![put(8, 2 << 40, None, None), Operation::Delete { id: id(9), condition: Condition::None }];
    write(&servers[2].engine, 0, changes).await.unwrap();
    servers[2].engine.mark(&name(0), vec![(mark(1, 2), 9)]).await.unwrap();
    follow(&job, true).await.unwrap();
    // In the last step no server takes writes to the collection, and none is lost.
    for server in &servers {
        let refused = write(&server.engine, 0, vec![put(10, 5, None, None)]).await;
        assert!(matches!(refused, Err(EngineError::Switching(_))), "{refused:?}");
        let refused = server.engine.mark(&name(0), vec![(mark(3, 4), 9)]).await;
        assert!(matches!(refused, Err(EngineError::Switching(_))), "{refused:?}");
    }
    // A write for the old collection that comes into the log after the end.
    let old = servers[2].engine.find(&name(0)).unwrap();
    job.finish().await.unwrap();
    let late = servers[2].engine.command(|reply| Command::ChangeMarks {
        collection: old,
        change: super::super::marks::MarkChange::Add(vec![(mark(3, 4), 9)]),
        reply,
        permits: Vec::new(),
    });
    let late = late.await;
    assert!(matches!(late, Err(EngineError::Switching(_))), "{late:?}");
    // A server that has not applied the end would write to the old collection.
    reach(&servers[1].engine, &log).await;
    let stored = write(&servers[1].engine, 0, vec![put(201, 77, None, None)]).await.unwrap();
    assert!(matches!(stored[..], [Outcome::Created(_)]));
    let mut expected: Vec<(DocumentId, Hash)> = (0..200_u8)
        .filter(|number| *number != 9)
        .map(|number| {
            let hash = match number {
                7 => 1 << 40,
                8 => 2 << 40,
                other => u64::from(other) << 9,
            };
            (id(number), made_again(hash))
        })
        .chain([(id(201), Hash::from_u64(77))])
        .collect();
    expected.sort();
    for server in &servers {
        reach(&server.engine, &log).await;
        assert_eq!(hashes(&server.engine, 0).await, expected);
        assert_eq!(state(&server.engine).await, state(&servers[0].engine).await);
        digests::check(&server.engine.shared.store).unwrap();
    }
    discard_all(&servers, &log).await;
    for server in servers {
        server.engine.close(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_restores_of_a_name_wins_and_the_other_leaves_nothing() {
    let (log, mut origin) = (TestLog::default(), 0);
    let mut servers = three(&log, &mut origin).await;
    let both = futures::future::join(restore(&servers[0].engine, 0, 1), restore(&servers[1].engine, 0, 1));
    let (one, other) = both.await;
    let exists = |done: &Result<Restored, _>| matches!(done, Err(EngineError::CollectionExists(_)));
    assert!(one.is_ok() != other.is_ok() && (exists(&one) || exists(&other)), "{one:?} {other:?}");
    let refused = restore(&servers[2].engine, 0, 1).await;
    assert!(exists(&refused), "{refused:?}");
    // In the middle of the work of a server it restarts, another one reads the whole log, and one copies.
    begin(&servers[0], 0, 3).await;
    reach(&servers[1].engine, &log).await;
    assert_eq!(servers[1].engine.shared.store.hidden().unwrap().len(), 2);
    let restarted = servers.remove(0).restart(&log, &mut origin).await;
    servers.push(restarted);
    servers.push(Server::start(&log, &mut origin));
    let copied = copy_of(&servers[0], &log, &mut origin).await;
    servers.push(copied);
    for server in &servers {
        reach(&server.engine, &log).await;
        assert_eq!(server.engine.shared.store.hidden().unwrap().len(), 2);
        assert_eq!(hashes(&server.engine, 1).await, hashes(&server.engine, 0).await);
    }
    discard_all(&servers, &log).await;
    restore(&servers[3].engine, 1, 3).await.unwrap();
    reindex(&servers[2].engine, 0).await.unwrap();
    for server in &servers {
        reach(&server.engine, &log).await;
        assert_eq!(server.engine.collections().unwrap().len(), 3);
        assert_eq!(state(&server.engine).await, state(&servers[0].engine).await);
        digests::check(&server.engine.shared.store).unwrap();
    }
    for server in servers {
        server.engine.close(Duration::from_secs(5)).await;
    }
}

/// Both the entry that begins and the one that discards fail once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_log_did_not_take_is_discarded_later() {
    let (log, mut origin) = (TestLog::default(), 0);
    let servers = three(&log, &mut origin).await;
    log.loses_answers.store(true, Ordering::SeqCst);
    let known = servers[0].engine.find(&name(0)).unwrap();
    let record = record_of(CollectionId(0), &name(3), &known.settings(), 7);
    let unknown = servers[0].engine.access().begin(record.clone(), None).await;
    log.loses_answers.store(false, Ordering::SeqCst);
    drop(unknown);
    let begun = servers[0].engine.access().begin(record, None).await.unwrap();
    log.fails.store(true, Ordering::SeqCst);
    drop(begun);
    tokio::time::sleep(Duration::from_millis(100)).await;
    log.fails.store(false, Ordering::SeqCst);
    let since = Instant::now();
    for server in &servers {
        while !server.engine.shared.store.hidden().unwrap().is_empty() {
            assert!(since.elapsed() < Duration::from_secs(30), "the appender tries again every five seconds");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    for server in servers {
        server.engine.close(Duration::from_secs(5)).await;
    }
}
