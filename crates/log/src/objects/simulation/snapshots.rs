//! Servers that write, read and remove snapshots in a world that fails: what is listed is whole, and what no
//! snapshot needs goes.
//!
//! The data are eight pieces that change at different rates, and have earlier contents again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::super::parts::number_of;
use super::super::world::{World, each_seed};
use super::super::{LogError, ObjectLog};
use super::SERVERS;
use crate::Position;

const STORM: Duration = Duration::from_secs(90);
const END: Duration = Duration::from_secs(150);
/// Longer than a request takes effect after its caller has given up.
const KEEP: Duration = Duration::from_secs(30);

/// The data at a position, in milliseconds.
fn data(position: u64) -> Vec<Bytes> {
    (0..8).map(|piece| format!("{piece}: {}", position / (4_000 << piece) % 3).into()).collect()
}

struct Scenario {
    world: World,
    written: AtomicUsize,
    read: AtomicUsize,
}

impl Scenario {
    async fn serve(self: Arc<Self>, server: usize) {
        let mut process = (server as u128 + 1) << 64;
        while self.world.now() < END {
            process += 1;
            let log = self.world.log(&format!("{server}-{process}"), process);
            let handles = [
                self.world.start(Arc::clone(&self).write(log.clone())),
                self.world.start(Arc::clone(&self).look(log)),
            ];
            let life = self.world.number(1_000..40_000);
            self.world.sleep(Duration::from_millis(life)).await;
            handles.iter().for_each(futures::future::AbortHandle::abort);
        }
    }

    async fn write(self: Arc<Self>, log: ObjectLog) {
        loop {
            self.world.pause(4_000).await;
            let position = self.world.now().as_millis() as u64;
            let world = self.world.clone();
            let pieces = stream::iter(data(position)).then(move |piece| {
                let pause = world.number(0..500);
                world.sleep(Duration::from_millis(pause)).map(|()| Ok(piece))
            });
            if let Ok(Some(_)) = log.write_snapshot(Position(position), pieces.boxed()).await {
                self.written.fetch_add(1, Ordering::Relaxed);
            }
            let _ = log.tell(b"").await;
            if let Err(error @ LogError::Damaged(_)) = log.remove_old(KEEP).await {
                panic!("{error}");
            }
        }
    }

    async fn look(self: Arc<Self>, log: ObjectLog) {
        loop {
            self.world.pause(5_000).await;
            let ago = Duration::from_millis(self.world.number(0..60_000));
            let at = SystemTime::UNIX_EPOCH + self.world.now().saturating_sub(ago);
            let Ok(Some(snapshot)) = log.newest_snapshot(Some(at)).await else { continue };
            match log.read_snapshot(&snapshot).try_collect::<Vec<_>>().await {
                Ok(pieces) => {
                    assert_eq!(pieces, data(snapshot.position.0));
                    self.read.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => assert!(!matches!(error, LogError::Damaged(_)), "{error}"),
            }
        }
    }
}

fn run(seed: u64) -> usize {
    let world = World::new(seed, false);
    let scenario =
        Arc::new(Scenario { world: world.clone(), written: AtomicUsize::new(0), read: AtomicUsize::new(0) });
    for server in 0..SERVERS {
        world.spawn(Arc::clone(&scenario).serve(server));
    }
    world.run_through(STORM, END);
    let [read, written] = [&scenario.read, &scenario.written].map(|count| count.load(Ordering::Relaxed));
    assert!(read > 0);
    // What the first one does not need, and a removal that was cut off.
    let kept = world.names("snapshots/");
    let first: u64 = kept[0].parse().unwrap();
    let before = world.names("parts/").into_iter().filter(|name| number_of(name).unwrap() < first);
    assert!(before.count() <= 3 * (8 + 1), "parts of older snapshots are left");
    written
}

#[test]
fn a_snapshot_that_is_listed_is_whole_and_what_none_needs_goes() {
    each_seed(run);
}
