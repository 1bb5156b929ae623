//! Snapshots of the data at a position, from which a server goes on with the entries after it; and the
//! removal of entries that no kept snapshot needs.
//!
//! | object | contents |
//! |---|---|
//! | `parts/POSITION-PROCESS/NUMBER` | a part of a snapshot |
//! | `snapshots/POSITION` | where its parts are, and how many; written last |
//!
//! *Guarantees*
//! - A snapshot that is listed is whole. Of several servers that write one at a position, one is listed.
//! - The last entry is never removed: the two newest snapshots stay, and only what is before them goes, in
//!   the order of the numbers. So an object whose predecessor is there was never removed.
//! - Ages are differences of times that the store has noted.
//!
//! *Absent*: what a snapshot has in it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};

use super::store::{Created, Listed, StoreError};
use super::{Inner, ObjectLog, object_of};
use crate::{LogError, Position};

const FOLDER: &str = "snapshots";
/// Snapshots that are never removed.
const KEPT: usize = 2;

impl ObjectLog {
    /// The position of the newest snapshot, or of the newest that was there at a time of the store.
    ///
    /// # Errors
    /// As [`crate::Log::last`], here and below.
    pub async fn newest_snapshot(&self, at: Option<SystemTime>) -> Result<Option<Position>, LogError> {
        let mut listed = self.inner.snapshots().await.map_err(|error| self.inner.error(error))?;
        listed.retain(|(_, one)| at.is_none_or(|at| one.changed <= at));
        Ok(listed.last().map(|(position, _)| Position(*position)))
    }

    /// The time since the newest snapshot was written, by the clock of the store.
    pub async fn age_of_snapshot(&self) -> Result<Option<Duration>, LogError> {
        let found = async {
            let listed = self.inner.snapshots().await?;
            let now = self.inner.store_time().await?;
            Ok(listed
                .last()
                .zip(now)
                .map(|((_, one), now)| now.duration_since(one.changed).unwrap_or_default()))
        };
        found.await.map_err(|error| self.inner.error(error))
    }

    /// Writes a snapshot that has the effect of all entries up to a position.
    pub async fn write_snapshot(
        &self,
        position: Position,
        mut parts: impl Stream<Item = Result<Bytes, LogError>> + Unpin + Send,
    ) -> Result<(), LogError> {
        let inner = &*self.inner;
        let folder = format!("parts/{position:020}-{:032x}", u128::from_be_bytes(inner.process));
        let mut count = 0_u64;
        while let Some(part) = parts.next().await {
            count += 1;
            inner.write_part(&format!("{folder}/{count:06}"), part?).await?;
        }
        let mark = format!("{FOLDER}/{:020}", position.0);
        inner.agree(&mark, format!("{folder}/{count}").into()).await.map(|_| ())
    }

    /// The parts of a snapshot.
    pub fn read_snapshot(&self, position: Position) -> BoxStream<'static, Result<Bytes, LogError>> {
        let log = self.clone();
        let mark = format!("{FOLDER}/{:020}", position.0);
        let parts = stream::once(async move {
            let inner = &*log.inner;
            let found = inner.object(&mark).await?;
            let text = String::from_utf8_lossy(&found).into_owned();
            let parts = text
                .rsplit_once('/')
                .and_then(|(folder, count)| Some((folder.to_owned(), count.parse::<u64>().ok()?)));
            let (folder, count) = parts.ok_or_else(|| LogError::Damaged(format!("{mark} is {text:?}")))?;
            let read = move |number| {
                let (log, name) = (log.clone(), format!("{folder}/{number:06}"));
                async move { log.inner.object(&name).await }
            };
            Ok(stream::iter(1..=count).then(read))
        });
        parts
            .flat_map(|parts: Result<_, LogError>| match parts {
                Ok(parts) => parts.boxed(),
                Err(error) => stream::iter([Err(error)]).boxed(),
            })
            .boxed()
    }

    /// Removes snapshots, and the entries before them, that are not needed to go back by `keep`. Returns how
    /// many entries were removed.
    pub async fn remove_old(&self, keep: Duration) -> Result<u64, LogError> {
        self.inner.remove_old(keep).await.map_err(|error| self.inner.error(error))
    }
}

impl Inner {
    /// The snapshots by position.
    pub(super) async fn snapshots(&self) -> Result<Vec<(u64, Listed)>, StoreError> {
        let listed = self.ask(FOLDER, self.store.list(FOLDER)).await?;
        let mut snapshots: Vec<(u64, Listed)> =
            listed.into_iter().filter_map(|one| Some((one.name.parse().ok()?, one))).collect();
        snapshots.sort_by_key(|(position, _)| *position);
        Ok(snapshots)
    }

    /// The time at which a server last told the others about itself: the present, if this one is alive.
    async fn store_time(&self) -> Result<Option<SystemTime>, StoreError> {
        let listed = self.ask("servers", self.store.list("servers")).await?;
        Ok(listed.into_iter().map(|one| one.changed).max())
    }

    async fn write_part(&self, name: &str, part: Bytes) -> Result<(), LogError> {
        for _ in 0..10 {
            match self.ask(name, self.store.create(name, part.clone())).await {
                // No other process writes this name.
                Ok(Created::New | Created::Taken) => return Ok(()),
                Err(error) => tracing::warn!(%error, "a part of a snapshot is written again"),
            }
            self.time.sleep(self.jittered(Duration::from_secs(1))).await;
        }
        let given_up = StoreError::unknown(name, "it cannot be written");
        Err(self.error(given_up))
    }

    async fn object(&self, name: &str) -> Result<Bytes, LogError> {
        let found = self.ask(name, self.store.read(name)).await.map_err(|error| self.error(error))?;
        found.ok_or_else(|| LogError::Damaged(format!("{name} is missing")))
    }

    async fn remove_old(&self, keep: Duration) -> Result<u64, StoreError> {
        let (snapshots, now) = (self.snapshots().await?, self.store_time().await?);
        let Some(cut) = now.and_then(|now| now.checked_sub(keep)) else { return Ok(0) };
        // One older snapshot stays, from which each moment since then can be reached.
        let old = snapshots.iter().filter(|(_, one)| one.changed <= cut).count().saturating_sub(1);
        let old = old.min(snapshots.len().saturating_sub(KEPT));
        let Some((first_kept, _)) = snapshots.get(old).filter(|_| old > 0) else { return Ok(0) };
        for (_, one) in &snapshots[..old] {
            let mark = format!("{FOLDER}/{}", one.name);
            let parts = self.ask(&mark, self.store.read(&mark)).await?;
            self.ask(&mark, self.store.remove(&mark)).await?;
            let parts = parts.map(|parts| String::from_utf8_lossy(&parts).into_owned());
            if let Some((folder, _)) = parts.as_deref().and_then(|parts| parts.rsplit_once('/')) {
                for part in self.ask(folder, self.store.list(folder)).await? {
                    let name = format!("{folder}/{}", part.name);
                    self.ask(&name, self.store.remove(&name)).await?;
                }
            }
        }
        // The entry of a snapshot stays: a reader that goes on after it finds that the log has it.
        let first = self.first_up_to(*first_kept).await?;
        for number in first..*first_kept {
            let name = object_of(number);
            self.ask(&name, self.store.remove(&name)).await?;
        }
        Ok(first_kept - first)
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

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::Log;

    const PATIENT: Duration = Duration::from_secs(10);

    async fn outcome(log: &ObjectLog, after: u64) -> Result<u64, LogError> {
        log.tail(Position(after)).next().await.unwrap().map(|entry| entry.number)
    }

    #[tokio::test]
    async fn what_no_kept_snapshot_needs_goes_and_nobody_goes_on_there() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", dir.path().display());
        let [log, late] =
            [1, 2].map(|process| ObjectLog::new(&url, &format!("s{process}"), process).unwrap());
        for number in 1..=20 {
            assert_eq!(log.append("a".into(), PATIENT).await.unwrap(), Position(number));
            if number == 4 {
                assert_eq!(late.end().await.unwrap(), Position(4));
            }
            if number % 5 == 0 {
                let part = Bytes::from(number.to_string());
                let parts = stream::iter([Ok(part.clone()), Ok(part)]);
                log.write_snapshot(Position(number), parts).await.unwrap();
            }
        }
        assert_eq!(log.remove_old(Duration::ZERO).await.unwrap(), 0, "no server has told its time");
        log.tell(b"t").await.unwrap();
        assert_eq!(log.remove_old(Duration::from_hours(1)).await.unwrap(), 0);
        assert_eq!(log.remove_old(Duration::ZERO).await.unwrap(), 14);
        assert_eq!(log.remove_old(Duration::ZERO).await.unwrap(), 0);
        assert_eq!(std::fs::read_dir(dir.path().join("snapshots")).unwrap().count(), 2);

        assert_eq!(log.newest_snapshot(None).await.unwrap(), Some(Position(20)));
        let parts: Vec<_> = log.read_snapshot(Position(20)).map(Result::unwrap).collect().await;
        assert_eq!(parts, ["20", "20"]);
        let gone: Vec<_> = log.read_snapshot(Position(5)).collect().await;
        assert!(matches!(&gone[..], [Err(LogError::Damaged(_))]));

        let new = ObjectLog::new(&url, "new", 3).unwrap();
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
}
