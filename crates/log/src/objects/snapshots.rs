//! Snapshots of the data at a position, from which a server goes on with the entries after it; and the
//! removal of what no kept snapshot needs.
//!
//! | object | contents |
//! |---|---|
//! | `snapshots/NUMBER` | its position, and the part with the names of its parts; written last |
//! | `parts/…` | pieces of data, and such lists (`parts`) |
//!
//! A snapshot has the number after that of the newest one, and takes over the parts that both have. So it has
//! only parts of the one before, and parts that were written for its own number.
//!
//! *Guarantees*
//! - A snapshot that is listed is whole. Of several servers that write one with a number, one is listed.
//! - The last entry is never removed: the two newest snapshots stay, and only what is before them goes, in
//!   the order of the numbers. So an object whose predecessor is there was never removed.
//! - Ages are differences of times that the store has noted.
//!
//! *Why no part goes that a snapshot needs*, even one that is being written meanwhile, without a clock:
//! - Let `k` be the oldest snapshot that is kept. Parts go that are not of `k` and were written for a number
//!   up to `k`. By the rule above, no later snapshot has taken over one of them.
//! - A snapshot that becomes `n` is made only if there is no `n`. Until then `n - 1` is the newest, so its
//!   parts stay, and those that were written for `n` are above `k`.
//! - If there is an `n`, all who write another one fail. What they have written for `n` goes when `k` is `n`.
//! - A process that was stopped for days could make an `n` again that was removed. It sees later ones, and
//!   removes it.
//!
//! *Absent*: what a snapshot has in it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::TryFutureExt;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::parts::{self, digest_of, number_of};
use super::store::StoreError;
use super::{Inner, ObjectLog, object_of};
use crate::{LogError, Position};

const FOLDER: &str = "snapshots";
/// Snapshots that are never removed.
const KEPT: usize = 2;
/// Parts that are written or read at a time.
const AHEAD: usize = 4;

/// A snapshot that the log has.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// It has the effect of all entries up to this one.
    pub position: Position,
    number: u64,
    /// The part with the names of the others.
    list: String,
}

/// What a new snapshot has, and what it took to write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its parts.
    pub parts: u64,
    /// The bytes of the data in them.
    pub bytes: u64,
    /// Parts that the snapshot before does not have.
    pub new_parts: u64,
    /// Their bytes in the store.
    pub new_bytes: u64,
}

impl ObjectLog {
    /// The newest snapshot, or the newest that was there at a time of the store.
    ///
    /// # Errors
    /// As [`crate::Log::last`], here and below.
    pub async fn newest_snapshot(&self, at: Option<SystemTime>) -> Result<Option<Snapshot>, LogError> {
        self.inner.newest(at).await.map_err(|error| self.inner.error(error))
    }

    /// The time since the newest snapshot was written, by the clock of the store.
    pub async fn age_of_snapshot(&self) -> Result<Option<Duration>, LogError> {
        let found = async {
            let (listed, now) = (self.inner.snapshots().await?, self.inner.store_time().await?);
            let newest = listed.last().zip(now);
            Ok(newest.map(|((_, changed), now)| now.duration_since(*changed).unwrap_or_default()))
        };
        found.await.map_err(|error| self.inner.error(error))
    }

    /// Writes a snapshot that has the effect of all entries up to a position. `None` if another server has
    /// written one meanwhile.
    pub async fn write_snapshot(
        &self,
        position: Position,
        pieces: BoxStream<'static, Result<Bytes, LogError>>,
    ) -> Result<Option<Written>, LogError> {
        let inner = &*self.inner;
        let before = inner.newest(None).await.map_err(|error| inner.error(error))?;
        if before.as_ref().is_some_and(|before| before.position >= position) {
            return Ok(None);
        }
        let number = before.as_ref().map_or(0, |before| before.number) + 1;
        let known = Arc::new(inner.known_parts(before.as_ref()).await?);
        let log = self.clone();
        let keep = move |piece: Result<Bytes, LogError>| {
            let (log, known) = (log.clone(), Arc::clone(&known));
            async move { log.inner.keep(number, piece?, |digest| known.get(digest).cloned()).await }
        };
        let mut kept = pieces.map(keep).buffered(AHEAD);
        let (mut written, mut names) = (Written::default(), Vec::new());
        while let Some(part) = kept.try_next().await? {
            written.parts += 1;
            written.bytes += part.bytes;
            written.new_parts += u64::from(part.written.is_some());
            written.new_bytes += part.written.unwrap_or_default();
            names.push(part.name);
        }
        let list = inner.keep(number, names.join("\n").into(), |_| None).await?.name;
        let mark = Bytes::from(format!("{position} {list}"));
        let is_own = inner.agree(&mark_of(number), mark.clone()).await? == mark;
        let all = inner.snapshots().await.map_err(|error| inner.error(error))?;
        if is_own && all.last().is_some_and(|last| last.0 > number) {
            inner.remove(&mark_of(number)).await?;
            return Ok(None);
        }
        Ok(is_own.then_some(written))
    }

    /// The pieces of a snapshot. An error ends them.
    pub fn read_snapshot(&self, snapshot: &Snapshot) -> BoxStream<'static, Result<Bytes, LogError>> {
        let (inner, snapshot) = (Arc::clone(&self.inner), Arc::new(snapshot.clone()));
        let pieces = async move {
            let names = inner.parts_of(&snapshot).await?;
            let read = move |name: String| {
                let (inner, snapshot) = (Arc::clone(&inner), Arc::clone(&snapshot));
                async move { inner.piece_of(&snapshot, &name).await }
            };
            Ok(stream::iter(names).map(read).buffered(AHEAD))
        };
        pieces.try_flatten_stream().boxed()
    }

    /// Removes snapshots, and the entries before them, that are not needed to go back by `keep`. Returns how
    /// many entries were removed.
    pub async fn remove_old(&self, keep: Duration) -> Result<u64, LogError> {
        self.inner.remove_old(keep).await
    }
}

impl Inner {
    /// The numbers of the snapshots in their order, and when the store has got them.
    pub(super) async fn snapshots(&self) -> Result<Vec<(u64, SystemTime)>, StoreError> {
        let listed = self.ask(FOLDER, self.store.list(FOLDER)).await?;
        let numbered = listed.into_iter().filter_map(|one| Some((one.name.parse().ok()?, one.changed)));
        let mut snapshots: Vec<_> = numbered.collect();
        snapshots.sort_unstable();
        Ok(snapshots)
    }

    pub(super) async fn newest(&self, at: Option<SystemTime>) -> Result<Option<Snapshot>, StoreError> {
        let mut listed = self.snapshots().await?;
        listed.retain(|(_, changed)| at.is_none_or(|at| *changed <= at));
        let Some((number, _)) = listed.last() else { return Ok(None) };
        let missing = || StoreError::unknown(&mark_of(*number), "it is listed, and cannot be read");
        self.snapshot(*number).await?.ok_or_else(missing).map(Some)
    }

    /// The snapshot with a number; `None` if it is not there.
    async fn snapshot(&self, number: u64) -> Result<Option<Snapshot>, StoreError> {
        let mark = mark_of(number);
        let Some(found) = self.ask(&mark, self.store.read(&mark)).await? else { return Ok(None) };
        let text = String::from_utf8_lossy(&found);
        let parsed = text.split_once(' ').and_then(|(position, list)| {
            Some(Snapshot { position: Position(position.parse().ok()?), number, list: list.to_owned() })
        });
        parsed.ok_or_else(|| StoreError::unknown(&mark, format!("it is {text:?}"))).map(Some)
    }

    /// The names of the parts of a snapshot.
    async fn parts_of(&self, snapshot: &Snapshot) -> Result<Vec<String>, LogError> {
        let list = self.piece_of(snapshot, &snapshot.list).await?;
        Ok(String::from_utf8_lossy(&list).lines().map(str::to_owned).collect())
    }

    /// A piece of a snapshot.
    async fn piece_of(&self, snapshot: &Snapshot, name: &str) -> Result<Bytes, LogError> {
        if let Some(piece) = self.piece(name).await? {
            return Ok(piece);
        }
        let error = match self.snapshot(snapshot.number).await.map_err(|error| self.error(error))? {
            None => LogError::SnapshotRemoved { position: snapshot.position },
            Some(_) => LogError::Damaged(format!("{}/{name} is missing", parts::FOLDER)),
        };
        Err(error)
    }

    /// The parts of the newest snapshot by the digests of their pieces, without those that somebody has
    /// removed: so a new snapshot has them again. None if their list is damaged.
    async fn known_parts(&self, newest: Option<&Snapshot>) -> Result<HashMap<String, String>, LogError> {
        let Some(newest) = newest else { return Ok(HashMap::new()) };
        let names: HashSet<String> = match self.parts_of(newest).await {
            Err(error @ LogError::Damaged(_)) => {
                tracing::warn!(%error, "the next snapshot of the shared log has all parts anew");
                return Ok(HashMap::new());
            }
            names => names?.into_iter().collect(),
        };
        let there = self.listed_parts().await?.into_iter().filter(|name| names.contains(name));
        Ok(there.map(|name| (digest_of(&name).to_owned(), name)).collect())
    }

    async fn listed_parts(&self) -> Result<Vec<String>, LogError> {
        let listed = self.ask(parts::FOLDER, self.store.list(parts::FOLDER)).await;
        Ok(listed.map_err(|error| self.error(error))?.into_iter().map(|one| one.name).collect())
    }

    /// The time at which a server last told the others about itself: the present, if this one is alive.
    async fn store_time(&self) -> Result<Option<SystemTime>, StoreError> {
        let listed = self.ask("servers", self.store.list("servers")).await?;
        Ok(listed.into_iter().map(|one| one.changed).max())
    }

    async fn remove_old(&self, keep: Duration) -> Result<u64, LogError> {
        let Some((old, first)) = self.old(keep).await.map_err(|error| self.error(error))? else {
            return Ok(0);
        };
        // If they cannot be read, nothing goes.
        let needed: HashSet<String> = self.parts_of(&first).await?.into_iter().collect();
        for number in old {
            self.remove(&mark_of(number)).await?;
        }
        for part in self.listed_parts().await? {
            let is_before = number_of(&part).is_some_and(|number| number <= first.number);
            if is_before && part != first.list && !needed.contains(&part) {
                self.remove(&format!("{}/{part}", parts::FOLDER)).await?;
            }
        }
        // The entry of a snapshot stays: a reader that goes on after it finds that the log has it.
        let Position(end) = first.position;
        let begin = self.first_up_to(end).await.map_err(|error| self.error(error))?;
        for number in begin..end {
            self.remove(&object_of(number)).await?;
        }
        Ok(end - begin)
    }

    /// The numbers of the snapshots that are not needed any more, and the first one that is.
    async fn old(&self, keep: Duration) -> Result<Option<(Vec<u64>, Snapshot)>, StoreError> {
        let (all, now) = (self.snapshots().await?, self.store_time().await?);
        // One that is younger than a later one was made again by a process that was stopped for long.
        let mut later = None;
        let is_in_order = |(_, changed): &&(u64, SystemTime)| {
            let is_in_order = later.is_none_or(|later| *changed <= later);
            later = if is_in_order { Some(*changed) } else { later };
            is_in_order
        };
        let mut snapshots: Vec<_> = all.iter().rev().filter(is_in_order).copied().collect();
        snapshots.reverse();
        let Some(cut) = now.and_then(|now| now.checked_sub(keep)) else { return Ok(None) };
        // One older snapshot stays, from which each moment since then can be reached.
        let old = snapshots.iter().filter(|(_, changed)| *changed <= cut).count().saturating_sub(1);
        let old = old.min(snapshots.len().saturating_sub(KEPT));
        let Some((first, _)) = snapshots.get(old).filter(|_| old > 0) else { return Ok(None) };
        let numbers = all.iter().map(|(number, _)| *number).filter(|number| number < first).collect();
        Ok(self.snapshot(*first).await?.map(|first| (numbers, first)))
    }

    async fn remove(&self, name: &str) -> Result<(), LogError> {
        self.ask(name, self.store.remove(name)).await.map_err(|error| self.error(error))
    }

    /// The first number that has an object, of which `last` is one.
    async fn first_up_to(&self, last: u64) -> Result<u64, StoreError> {
        let (mut low, mut high) = (1, last);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.has(middle).await? { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }
}

fn mark_of(number: u64) -> String {
    format!("{FOLDER}/{number:010}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::channel::mpsc;

    use super::*;
    use crate::Log;

    const PATIENT: Duration = Duration::from_secs(10);

    fn logs<const N: usize>(dir: &tempfile::TempDir) -> [ObjectLog; N] {
        let url = format!("file://{}", dir.path().display());
        std::array::from_fn(|at| ObjectLog::new(&url, &format!("s{at}"), at as u128).unwrap())
    }

    async fn outcome(log: &ObjectLog, after: u64) -> Result<u64, LogError> {
        log.tail(Position(after)).next().await.unwrap().map(|entry| entry.number)
    }

    fn stream_of(pieces: &str) -> BoxStream<'static, Result<Bytes, LogError>> {
        stream::iter(pieces.split(' ').map(|piece| Ok(piece.to_owned().into())).collect::<Vec<_>>()).boxed()
    }

    /// Writes a snapshot. Returns how many parts are new.
    async fn write(log: &ObjectLog, position: u64, pieces: &str) -> Option<u64> {
        let written = log.write_snapshot(Position(position), stream_of(pieces)).await.unwrap();
        written.map(|written| written.new_parts)
    }

    async fn read(log: &ObjectLog, snapshot: &Snapshot) -> Result<String, LogError> {
        let pieces: Vec<Bytes> = log.read_snapshot(snapshot).try_collect().await?;
        Ok(pieces.iter().map(|piece| std::str::from_utf8(piece).unwrap()).collect::<Vec<_>>().join(" "))
    }

    async fn newest(log: &ObjectLog) -> Snapshot {
        log.newest_snapshot(None).await.unwrap().unwrap()
    }

    /// Removes what can go now.
    async fn remove(log: &ObjectLog) -> u64 {
        log.tell(b"t").await.unwrap();
        log.remove_old(Duration::ZERO).await.unwrap()
    }

    fn parts(dir: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(dir.path().join(parts::FOLDER)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn what_no_kept_snapshot_needs_goes_and_nobody_goes_on_there() {
        let dir = tempfile::tempdir().unwrap();
        let [log, late, new] = logs(&dir);
        for number in 1..=20 {
            assert_eq!(log.append("a".into(), PATIENT).await.unwrap(), Position(number));
            if number == 4 {
                assert_eq!(late.end().await.unwrap(), Position(4));
            }
            if number % 5 == 0 {
                assert_eq!(
                    write(&log, number, &format!("same {number}")).await,
                    Some(1 + u64::from(number == 5))
                );
            }
        }
        let first = log.inner.snapshot(1).await.unwrap().unwrap();
        assert_eq!(read(&log, &first).await.unwrap(), "same 5");
        assert_eq!(log.remove_old(Duration::ZERO).await.unwrap(), 0, "no server has told its time");
        log.tell(b"t").await.unwrap();
        assert_eq!(log.remove_old(Duration::from_hours(1)).await.unwrap(), 0);
        assert_eq!(remove(&log).await, 14);
        assert_eq!(remove(&log).await, 0);
        assert_eq!(fs::read_dir(dir.path().join("snapshots")).unwrap().count(), 2);
        assert_eq!(parts(&dir).len(), 5, "one that all have, and of each its own one and the list");

        assert_eq!(newest(&new).await.position, Position(20));
        assert_eq!(read(&new, &newest(&new).await).await.unwrap(), "same 20");
        let gone = read(&log, &first).await.unwrap_err();
        assert!(matches!(gone, LogError::SnapshotRemoved { position: Position(5) }), "{gone}");

        assert_eq!(new.end().await.unwrap(), Position(20));
        for after in [0, 4, 14] {
            let error = outcome(&new, after).await.unwrap_err();
            assert!(matches!(error, LogError::Trimmed { .. }), "{after}: {error}");
        }
        assert_eq!(outcome(&new, 15).await.unwrap(), 16);
        assert!(matches!(outcome(&new, 21).await.unwrap_err(), LogError::Rewound { .. }));
        // One that has seen nothing since entry 4 would make an entry that nobody reads.
        late.inner.known.forget_for_test();
        let error = late.append("lost".into(), PATIENT).await.unwrap_err();
        assert!(matches!(error, LogError::Trimmed { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_damaged_part_is_named_and_one_that_is_missing_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let [log] = logs(&dir);
        write(&log, 1, "a b").await;
        let name = log.inner.parts_of(&newest(&log).await).await.unwrap().remove(0);
        let path = dir.path().join(parts::FOLDER).join(&name);
        for damage in [zstd::bulk::compress(b"c", 3).unwrap(), b"?".to_vec()] {
            fs::write(&path, damage).unwrap();
            let error = read(&log, &newest(&log).await).await.unwrap_err();
            assert!(matches!(&error, LogError::Damaged(what) if what.contains(&name)), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let error = read(&log, &newest(&log).await).await.unwrap_err();
        assert!(error.to_string().contains(&format!("{name} is missing")), "{error}");
        assert_eq!(write(&log, 2, "a b").await, Some(1));
        assert_eq!(read(&log, &newest(&log).await).await.unwrap(), "a b");
        // Without the list nobody knows which parts there are.
        fs::remove_file(dir.path().join(parts::FOLDER).join(newest(&log).await.list)).unwrap();
        assert!(matches!(read(&log, &newest(&log).await).await, Err(LogError::Damaged(_))));
        assert_eq!(write(&log, 3, "a b").await, Some(2));
        write(&log, 4, "a b").await;
        remove(&log).await;
        assert_eq!(read(&log, &newest(&log).await).await.unwrap(), "a b");
    }

    /// Processes that were stopped before their last step go on when their snapshots were removed long ago.
    #[tokio::test]
    async fn snapshots_that_are_made_again_take_no_parts_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let [log] = logs(&dir);
        for number in 1..=6 {
            write(&log, number, &format!("same {number}")).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if number == 4 {
                remove(&log).await;
            }
        }
        for number in 1..=2 {
            let list = log.inner.keep(number, format!("torn {number}").into(), |_| None).await.unwrap().name;
            log.inner.agree(&mark_of(number), format!("{number} {list}").into()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        remove(&log).await;
        let left: Vec<u64> = log.inner.snapshots().await.unwrap().into_iter().map(|one| one.0).collect();
        assert_eq!(left, [5, 6]);
        for number in left {
            let snapshot = log.inner.snapshot(number).await.unwrap().unwrap();
            assert_eq!(read(&log, &snapshot).await.unwrap(), format!("same {number}"));
        }
    }

    #[tokio::test]
    async fn what_a_writer_leaves_that_was_killed_is_used_by_the_next_or_goes() {
        let dir = tempfile::tempdir().unwrap();
        let [log, other] = logs(&dir);
        let failing = stream_of("a b").chain(stream::iter([Err(LogError::Busy)])).boxed();
        assert!(log.write_snapshot(Position(1), failing).await.is_err());
        assert!(log.newest_snapshot(None).await.unwrap().is_none());
        let made =
            |name: &String| fs::metadata(dir.path().join(parts::FOLDER).join(name)).unwrap().modified();
        let left: HashMap<_, _> =
            parts(&dir).into_iter().map(|name| (name.clone(), made(&name).unwrap())).collect();
        assert_eq!(left.len(), 2);
        assert_eq!(write(&other, 1, "a c").await, Some(2));
        let again = parts(&dir).into_iter().filter(|name| left.get(name) == Some(&made(name).unwrap()));
        assert_eq!(again.count(), 2, "neither was replaced");
        write(&other, 2, "a c").await;
        write(&other, 3, "a c").await;
        remove(&log).await;
        assert_eq!(parts(&dir).len(), 2 + 2, "b has gone");
        assert_eq!(read(&log, &newest(&log).await).await.unwrap(), "a c");
    }

    /// A snapshot that is being written while others are, and while what is old is removed.
    #[tokio::test]
    async fn no_part_goes_that_a_snapshot_takes_over() {
        for others in 0..4 {
            let dir = tempfile::tempdir().unwrap();
            let [slow, quick] = logs(&dir);
            write(&quick, 1, "a b c").await;
            write(&quick, 2, "b c").await;
            let (send, pieces) = mpsc::unbounded();
            let writing =
                tokio::spawn(async move { slow.write_snapshot(Position(10), pieces.boxed()).await });
            let piece = |piece: &'static str| send.unbounded_send(Ok(Bytes::from(piece))).unwrap();
            piece("b");
            piece("new");
            while parts(&dir).len() < 3 + 2 + 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            for at in 0..others {
                write(&quick, 3 + at, &format!("c {at}")).await;
                remove(&quick).await;
            }
            piece("c");
            drop(send);
            let written = writing.await.unwrap().unwrap();
            let expected = Written { parts: 3, bytes: 5, new_parts: 1, ..Written::default() };
            let counted = written.map(|written| Written { new_bytes: 0, ..written });
            assert_eq!(counted, (others == 0).then_some(expected));
            write(&quick, 11, "d").await;
            remove(&quick).await;
            for (number, _) in quick.inner.snapshots().await.unwrap() {
                let snapshot = quick.inner.snapshot(number).await.unwrap().unwrap();
                read(&quick, &snapshot).await.unwrap();
            }
        }
    }
}
