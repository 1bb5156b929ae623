//! Rate limits: how many units a key may use per second.
//!
//! A unit is one request, or one millisecond of the time to answer it if that is more, or one document of a
//! stream. A bucket holds the units that may be used at once, which are those of two seconds. It is stored
//! as the time at which it is full again (the generic cell rate algorithm), so that taking units is one
//! compare-and-swap.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time whose units may be used at once.
const BURST: Duration = Duration::from_secs(2);

/// The token bucket of a key, which holds its units.
#[derive(Debug)]
pub struct Bucket {
    units_per_second: u64,
    begin: Instant,
    /// The time at which it is full again, in nanoseconds after `begin`.
    full_at: AtomicU64,
}

impl Bucket {
    /// A full bucket.
    pub fn new(units_per_second: u64) -> Bucket {
        Bucket {
            units_per_second: units_per_second.max(1),
            begin: Instant::now(),
            full_at: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn nanoseconds(&self, units: u64) -> u64 {
        units.saturating_mul(1_000_000_000) / self.units_per_second
    }

    /// Takes units.
    ///
    /// # Errors
    /// The time until there are enough units. Nothing is taken then.
    pub fn take(&self, units: u64) -> Result<(), Duration> {
        self.take_at(units, self.now())
    }

    fn take_at(&self, units: u64, now: u64) -> Result<(), Duration> {
        let burst = u64::try_from(BURST.as_nanos()).unwrap_or(u64::MAX);
        // A request for more than the bucket holds succeeds when the bucket is full, which then owes the
        // rest.
        let cost = self.nanoseconds(units);
        let needed = cost.min(burst);
        let taken = self.full_at.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |full_at| {
            let from = full_at.max(now);
            (from + needed <= now + burst).then(|| from.saturating_add(cost))
        });
        match taken {
            Ok(_) => Ok(()),
            Err(full_at) => Err(Duration::from_nanos((full_at + needed).saturating_sub(now + burst))),
        }
    }

    /// Takes units that were already used, even if there are not enough: later requests wait for the
    /// difference.
    pub fn owe(&self, units: u64) {
        let (now, cost) = (self.now(), self.nanoseconds(units));
        let owe = |full_at: u64| Some(full_at.max(now).saturating_add(cost));
        let _ = self.full_at.fetch_update(Ordering::AcqRel, Ordering::Relaxed, owe);
    }

    /// Takes units as soon as there are enough. Streams use it: they slow down instead of failing.
    pub async fn wait_for(&self, units: u64) {
        while let Err(wait) = self.take(units) {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_bucket_gives_two_seconds_units_at_once_and_then_its_rate() {
        let bucket = Bucket::new(10);
        for _ in 0..20 {
            assert_eq!(bucket.take_at(1, 0), Ok(()));
        }
        assert_eq!(bucket.take_at(1, 0), Err(Duration::from_millis(100)));
        let mut taken = 0;
        for now in (0..10 * SECOND).step_by(10_000_000) {
            taken += u64::from(bucket.take_at(1, now).is_ok());
        }
        assert_eq!(taken, 99, "ten per second after that");
    }

    #[test]
    fn a_request_larger_than_the_bucket_is_granted_when_it_is_full_and_owed() {
        let bucket = Bucket::new(10);
        assert_eq!(bucket.take_at(100, 0), Ok(()));
        assert_eq!(bucket.take_at(1, 0), Err(Duration::from_millis(8_100)));
        assert_eq!(bucket.take_at(1, 8 * SECOND), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take_at(1, 9 * SECOND), Ok(()));
    }

    #[test]
    fn units_already_used_are_owed() {
        let bucket = Bucket::new(1_000);
        bucket.owe(4_000);
        let wait = bucket.take(1).unwrap_err();
        assert!(wait > Duration::from_millis(1_900) && wait < Duration::from_millis(2_100), "{wait:?}");
    }
}
