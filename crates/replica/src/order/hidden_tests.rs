//! Restores and reindexes on servers that share a log in memory: what is finished is the same everywhere, and
//! what is not finished leaves nothing.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc as sync_mpsc;

use bytes::Bytes;
use futures::StreamExt;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::in_tests::{Server, TestLog, change, create, id, mark, name, put, reach, settings, state, write};
use super::*;
use lookalike_engine::{
    CollectionSettings, Condition, Document, Engine, Listing, Operation, Outcome, Reindex, RestoreRules,
    Restored, replace_data,
};
use lookalike_hash::{DocumentId, Hash};

/// What a server has begun and does not end. The restore ends with an error when this is dropped.
#[derive(Default)]
pub(super) struct Begun {
    _restore: Option<sync_mpsc::Sender<()>>,
    _reindex: Option<Reindex>,
}

/// Admits all, and stops a restore between its beginning and its first document.
struct Stopped {
    asked: AtomicUsize,
    begun: mpsc::Sender<()>,
    end: Mutex<sync_mpsc::Receiver<()>>,
}

impl RestoreRules for Stopped {
    fn line_bytes(&self) -> usize {
        // It is asked before the backup is verified, and before it is read again.
        if self.asked.fetch_add(1, Ordering::SeqCst) == 1 {
            let _ = self.begun.blocking_send(());
            let _ = self.end.lock().recv();
            std::panic::resume_unwind(Box::new("a test asked for it"));
        }
        AllAdmitted.line_bytes()
    }

    fn settings(&self, _: &CollectionSettings) -> Result<(), EngineError> {
        Ok(())
    }

    fn document(&self, _: &Document, _: u64) -> Result<(), EngineError> {
        Ok(())
    }
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
    restore_by(server, from, to, Arc::new(AllAdmitted)).await
}

async fn restore_by(
    server: &Engine,
    from: u8,
    to: u8,
    rules: Arc<dyn RestoreRules>,
) -> Result<Restored, EngineError> {
    let backup = server.backup(&name(from), server.now_ms())?;
    let tar = backup.map(|piece| piece.map_err(|error| std::io::Error::other(error.to_string())));
    server.restore(&name(to), tar.boxed(), rules).await
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
    let (end, ended) = sync_mpsc::channel();
    let (begun, mut has_begun) = mpsc::channel(1);
    let rules = Stopped { asked: AtomicUsize::new(0), begun, end: Mutex::new(ended) };
    let restoring = Arc::clone(engine);
    // It ends when `end` is dropped, or before it has begun, which drops the rules.
    tokio::spawn(async move { restore_by(&restoring, source, to, Arc::new(rules)).await.map(drop) });
    let restore = has_begun.recv().await.map(|()| end);
    let reindex = engine.begin_reindex(&name(source), change()).await.ok();
    if let Some(job) = &reindex {
        let _ = fill(job).await;
        let _ = follow(job, source == 1).await;
    }
    server.begun.lock().push(Begun { _restore: restore, _reindex: reindex });
}

/// Restarts servers until nothing is left of what they have begun and not ended, when each that runs drops it
/// and knows that the starts before those that run are gone.
pub(super) async fn discard_all(servers: &mut Vec<Server>, log: &TestLog, origin: &mut u128) {
    let begun = Instant::now();
    let mut later = begun;
    loop {
        servers.iter().for_each(|server| server.begun.lock().clear());
        let live: Vec<u128> = servers.iter().map(|server| server.origin).collect();
        // The first absence of a server is not believed.
        for _ in 0..3 {
            later += Duration::from_secs(10);
            for server in &*servers {
                reach(&server.engine, log).await;
                server.engine.discard_of_absent(&live, later);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut left = 0;
        for _ in 0..servers.len() {
            let (dir, of_server) = servers.remove(0).stop().await;
            left += of_server;
            servers.push(Server::start_in(dir, log, origin));
        }
        if left == 0 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{left} are left");
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
    let mut servers = three(&log, &mut origin).await;
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
    // A mark for the old collection that comes into the log after the end.
    let slow = log.of_one();
    let late = Server::start(&slow, &mut origin);
    reach(&late.engine, &log).await;
    slow.holds.send_replace(true);
    job.finish().await.unwrap();
    let of = name(0);
    let marked = late.engine.mark(&of, vec![(mark(3, 4), 9)]);
    let end = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        slow.holds.send_replace(false);
    };
    let (marked, ()) = futures::future::join(marked, end).await;
    assert!(matches!(marked, Err(EngineError::Switching(_))), "{marked:?}");
    servers.push(late);
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
    }
    discard_all(&mut servers, &log, &mut origin).await;
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
    let restarted = servers.remove(0).restart(&log, &mut origin).await;
    servers.push(restarted);
    servers.push(Server::start(&log, &mut origin));
    let copied = copy_of(&servers[0], &log, &mut origin).await;
    servers.push(copied);
    for _ in 0..servers.len() {
        let server = servers.remove(0);
        reach(&server.engine, &log).await;
        assert_eq!(hashes(&server.engine, 1).await, hashes(&server.engine, 0).await);
        let (dir, left) = server.stop().await;
        assert_eq!(left, 2, "every server has the beginning of a restore and of a reindex");
        servers.push(Server::start_in(dir, &log, &mut origin));
    }
    discard_all(&mut servers, &log, &mut origin).await;
    restore(&servers[3].engine, 1, 3).await.unwrap();
    reindex(&servers[2].engine, 0).await.unwrap();
    for server in &servers {
        reach(&server.engine, &log).await;
        assert_eq!(server.engine.collections().unwrap().len(), 3);
        assert_eq!(state(&server.engine).await, state(&servers[0].engine).await);
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
    create(&servers[0].engine, 1).await.unwrap();
    log.loses_answers.store(true, Ordering::SeqCst);
    let unknown = servers[0].engine.begin_reindex(&name(0), change()).await;
    log.loses_answers.store(false, Ordering::SeqCst);
    drop(unknown);
    let begun = servers[0].engine.begin_reindex(&name(1), change()).await.unwrap();
    log.fails.store(true, Ordering::SeqCst);
    drop(begun);
    tokio::time::sleep(Duration::from_millis(100)).await;
    log.fails.store(false, Ordering::SeqCst);
    let since = Instant::now();
    for server in &servers[1..] {
        for known in server.engine.collections().unwrap() {
            while server.engine.reindexed_by(known.id).is_some() {
                assert!(since.elapsed() < Duration::from_secs(30), "it is tried again every five seconds");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    for server in servers {
        reach(&server.engine, &log).await;
        assert_eq!(server.stop().await.1, 0);
    }
}
