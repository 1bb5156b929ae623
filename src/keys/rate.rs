//! How much a key may ask of the server in a second.
//!
//! A unit is one request, or one millisecond of answering it if it takes longer, or one document of a stream. A bucket
//! holds what may be asked at once: the units of two seconds. It is kept as the time at which it would be full again
//! (the generic cell rate algorithm), so that taking is one compare-and-swap.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many seconds' units may be asked for at once.
const BURST: Duration = Duration::from_secs(2);

/// The units of a key.
#[derive(Debug)]
pub struct Bucket {
    units_per_second: u64,
    begin: Instant,
    /// Nanoseconds after the begin at which it will be full again.
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
    /// How long it takes until they are there; nothing was taken then.
    pub fn take(&self, units: u64) -> Result<(), Duration> {
        self.take_at(units, self.now())
    }

    fn take_at(&self, units: u64, now: u64) -> Result<(), Duration> {
        let burst = u64::try_from(BURST.as_nanos()).unwrap_or(u64::MAX);
        // More than the bucket holds is taken when it is full; it then owes the rest.
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

    /// Takes units that were used already, even if they are not there: the next requests wait for them.
    pub fn owe(&self, units: u64) {
        let (now, cost) = (self.now(), self.nanoseconds(units));
        let owe = |full_at: u64| Some(full_at.max(now).saturating_add(cost));
        let _ = self.full_at.fetch_update(Ordering::AcqRel, Ordering::Relaxed, owe);
    }

    /// Takes units when they are there: for streams, which slow down in place of failing.
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
        assert_eq!(taken, 99, "ten a second from then on");
    }

    #[test]
    fn what_is_larger_than_the_bucket_is_taken_when_it_is_full_and_paid_off() {
        let bucket = Bucket::new(10);
        assert_eq!(bucket.take_at(100, 0), Ok(()));
        assert_eq!(bucket.take_at(1, 0), Err(Duration::from_millis(8_100)));
        assert_eq!(bucket.take_at(1, 8 * SECOND), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take_at(1, 9 * SECOND), Ok(()));
    }

    #[test]
    fn what_was_used_already_is_owed() {
        let bucket = Bucket::new(1_000);
        bucket.owe(4_000);
        let wait = bucket.take(1).unwrap_err();
        assert!(wait > Duration::from_millis(1_900) && wait < Duration::from_millis(2_100), "{wait:?}");
    }
}
