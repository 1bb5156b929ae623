//! Tests of the pool: turns, patience, cancellation, and demoted tasks.

use std::sync::mpsc as sync_mpsc;
use std::sync::{Mutex, PoisonError};

use tokio::task::JoinHandle;

use super::*;
use crate::call::Accountant;

fn pool(permits: usize, queue: usize, wait_ms: u64) -> CpuPool {
    CpuPool::new(PoolLimits { permits, queue, wait: Duration::from_millis(wait_ms) })
}

/// Starts work that occupies a thread of a lane; sending on the channel ends it.
async fn occupied(
    pool: &CpuPool,
    patience: Patience,
) -> (JoinHandle<Result<(), PoolError>>, sync_mpsc::Sender<()>) {
    let (begin, begun) = oneshot::channel();
    let (release, held) = sync_mpsc::channel();
    let work = move |_: &Cancel| {
        begin.send(()).unwrap();
        held.recv().unwrap();
    };
    let pool = pool.clone();
    let slow = tokio::spawn(async move { pool.run(patience, work).await });
    begun.await.unwrap();
    (slow, release)
}

/// Runs `work` for the client of this name.
fn run_as<T: Send + 'static>(
    pool: &CpuPool,
    name: &str,
    patience: Patience,
    work: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> JoinHandle<Result<T, PoolError>> {
    let call = Call::begin(Client::of(&name), &Arc::new(Accountant::new(0)));
    let pool = pool.clone();
    tokio::spawn(call.surround(async move { pool.run(patience, work).await }))
}

async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wait).await.expect("the condition holds eventually");
}

#[tokio::test]
async fn a_long_task_is_demoted_for_those_that_wait() {
    let pool = pool(1, 4, 60_000);
    let (slow, release) = occupied(&pool, Patience::Interactive).await;
    assert_eq!(pool.run(Patience::Interactive, |_| 1).await, Ok(1));
    assert_eq!(pool.run(Patience::Bulk, |_| 2).await, Ok(2));
    release.send(()).unwrap();
    slow.await.unwrap().unwrap();
    assert_eq!(pool.run(Patience::Interactive, |_| 3).await, Ok(3));
    assert_eq!(pool.waiting(), 0);
}

#[tokio::test]
async fn a_client_with_many_long_tasks_delays_only_itself() {
    let pool = pool(1, 200, 60_000);
    let (release, held) = sync_mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let mut long = Vec::new();
    for _ in 0..DEMOTED {
        let held = Arc::clone(&held);
        let work = move |_: &Cancel| held.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap();
        long.push(run_as(&pool, "many", Patience::Interactive, work));
    }
    // Half of the tasks that may run demoted; the others wait although a thread is idle.
    until(|| pool.waiting() == DEMOTED / 2).await;
    for _ in 0..3 {
        assert_eq!(run_as(&pool, "few", Patience::Interactive, |_| 1).await.unwrap(), Ok(1));
    }
    assert_eq!(pool.waiting(), DEMOTED / 2);
    (0..DEMOTED).for_each(|_| release.send(()).unwrap());
    for task in long {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn clients_take_turns() {
    let pool = pool(1, 100, 60_000);
    let (slow, release) = occupied(&pool, Patience::Bulk).await;
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for name in std::iter::repeat_n("many", 50).chain(["few", "few"]) {
        let done = Arc::clone(&done);
        tasks.push(run_as(&pool, name, Patience::Bulk, move |_| done.lock().unwrap().push(name)));
    }
    until(|| pool.bulk.waiting() == 52).await;
    release.send(()).unwrap();
    slow.await.unwrap().unwrap();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let done = done.lock().unwrap();
    assert!(done.iter().rposition(|name| *name == "few").unwrap() <= 3, "{done:?}");
}

#[test]
fn a_full_queue_accepts_a_client_with_fewer_tasks_in_it() {
    let lane = Lane::new(Rules { name: "test", permits: 0, queue: 3, demoted: 0, is_bulk: false });
    let [one, two] = ["one", "two"].map(|name| Client::of(&name));
    let numbers: Vec<u64> = (0..3).map(|_| lane.push(one, Box::new(|| Box::new(|| ()))).unwrap()).collect();
    assert!(lane.is_full_for(one) && !lane.is_full_for(two));
    assert_eq!(lane.push(one, Box::new(|| Box::new(|| ()))), Err(PoolError::Busy));
    lane.push(two, Box::new(|| Box::new(|| ()))).unwrap();
    assert_eq!(numbers.iter().filter(|number| lane.is_waiting(one, **number)).count(), 2);
    assert!(!lane.is_waiting(one, numbers[2]), "the newest is displaced");
    assert!(lane.is_full_for(two), "two and one: no client has too many");
    assert_eq!(lane.waiting(), 3);
    assert!(lane.withdraw(one, numbers[0]) && !lane.withdraw(one, numbers[0]));
    assert_eq!(lane.waiting(), 2);
}

#[tokio::test]
async fn work_without_a_caller_is_cancelled_or_never_started() {
    let pool = pool(1, 4, 60_000);
    let (saw, seen) = oneshot::channel();
    let (begin, begun) = oneshot::channel();
    let work = move |cancel: &Cancel| {
        begin.send(()).unwrap();
        while cancel.check().is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        saw.send(cancel.check()).unwrap();
    };
    let gone = run_as(&pool, "gone", Patience::Interactive, work);
    begun.await.unwrap();
    gone.abort();
    assert_eq!(seen.await, Ok(Err(PoolError::Cancelled)));

    let (slow, release) = occupied(&pool, Patience::Bulk).await;
    let (done, was_done) = sync_mpsc::channel();
    let gone = run_as(&pool, "gone", Patience::Bulk, move |_| done.send(()));
    until(|| pool.bulk.waiting() == 1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    assert!(was_done.recv().is_err(), "the task is dropped and not leaked");
    assert_eq!(pool.bulk.waiting(), 0);
    release.send(()).unwrap();
    slow.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_that_is_not_polled_blocks_no_other() {
    let pool = pool(1, 0, 20);
    let (slow, release) = occupied(&pool, Patience::Bulk).await;
    let mut stalled = [1, 2].map(|number| Box::pin(pool.run(Patience::Bulk, move |_| number)));
    for waiting in &mut stalled {
        assert!(futures::poll!(waiting).is_pending());
    }
    release.send(()).unwrap();
    slow.await.unwrap().unwrap();
    let more = tokio::time::timeout(Duration::from_mins(1), pool.run(Patience::Bulk, |_| 3)).await;
    assert_eq!(more, Ok(Ok(3)));
    for waiting in stalled {
        assert!(waiting.await.is_ok());
    }
}

#[tokio::test]
async fn a_panic_is_an_error_and_releases_the_permit() {
    let pool = pool(1, 1, 60_000);
    let work = |_: &Cancel| -> u8 { panic!("on purpose") };
    for patience in [Patience::Interactive, Patience::Bulk] {
        assert_eq!(pool.run(patience, work).await, Err(PoolError::Panicked));
        assert_eq!(pool.run(patience, |_| 3).await, Ok(3));
    }
}

#[tokio::test]
async fn an_interactive_caller_gets_busy_in_time() {
    let pool = CpuPool {
        interactive: Lane::new(Rules { name: "test", permits: 1, queue: 2, demoted: 0, is_bulk: false }),
        ..pool(1, 2, 20)
    };
    let (slow, release) = occupied(&pool, Patience::Interactive).await;
    assert_eq!(pool.run(Patience::Interactive, |_| 1).await, Err(PoolError::Busy));
    assert_eq!(pool.waiting(), 0);
    release.send(()).unwrap();
    slow.await.unwrap().unwrap();
}

#[tokio::test]
async fn only_the_work_of_others_counts_as_a_wait() {
    // No thread serves this lane, as if other programs had all processors.
    let lane = Lane::new(Rules { name: "test", permits: 0, queue: 2, demoted: 0, is_bulk: false });
    let pool = CpuPool { interactive: lane.clone(), ..pool(2, 2, 20) };
    let alone = run_as(&pool, "alone", Patience::Interactive, |_| 1);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((alone.is_finished(), pool.waiting()), (false, 1));
    // Two threads share the work of others.
    lane.add_work(Duration::from_millis(39));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((alone.is_finished(), pool.waiting()), (false, 1));
    lane.add_work(Duration::from_millis(1));
    assert_eq!(alone.await.unwrap(), Err(PoolError::Busy));
    assert_eq!(pool.waiting(), 0);
}

#[tokio::test]
async fn the_work_of_a_task_is_its_processor_time() {
    let pool = pool(1, 4, 60_000);
    let work = |_: &Cancel| {
        std::thread::sleep(Duration::from_millis(50));
        let begin = crate::machine::thread_time();
        while crate::machine::thread_time() < begin + Duration::from_millis(3) {}
    };
    pool.run(Patience::Interactive, work).await.unwrap();
    let worked = pool.interactive.worked();
    assert!((Duration::from_millis(3)..Duration::from_millis(40)).contains(&worked), "{worked:?}");
}
