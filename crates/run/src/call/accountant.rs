//! The accountant: limits the memory that all requests together hold, and the share of one client.
//!
//! Requests hold memory for bodies, for data parsed from them, for pages of documents, for answers that
//! have not been read yet, and for jobs. All of it is reserved here before it is allocated. Without this, a
//! few peers, each within its limits, could make the kernel end the process.
//!
//! One client may hold half of the memory, so that a client at its limit leaves the other half to all
//! others.
//!
//! A [`Ceiling`] limits the memory of requests and the rest of the process together: right after a large
//! import, or with full caches, requests get less than the capacity.
//!
//! *Absent*: bodies and answers of a few kilobytes, which the number of connections limits; and the memory
//! of the index, the store and the write queue, each of which has a separate limit.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Client;

/// Why memory was not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMemory {
    /// The request is larger than the share of one client.
    #[error(
        "this takes {asked} bytes of memory, and one client can have {most} (half of memory.requests); send \
         less at a time, request less, or give the server more memory"
    )]
    TooLarge {
        /// The requested bytes.
        asked: usize,
        /// Bytes that one client can have.
        most: usize,
    },
    /// Other clients hold the memory, or other requests of this client do.
    #[error(
        "the memory for requests is taken: {asked} bytes were requested, {client} are held for this client \
         and {all} of {capacity} for all (memory.requests); try again in a moment, with fewer requests at a \
         time"
    )]
    Taken {
        /// The requested bytes.
        asked: usize,
        /// Bytes that this client holds.
        client: usize,
        /// Bytes that all clients hold.
        all: usize,
        /// The capacity in bytes.
        capacity: usize,
    },
}

/// The bytes that the whole process should not exceed, and how to measure it.
#[derive(Clone, Copy, Debug)]
pub struct Ceiling {
    /// The bytes.
    pub bytes: u64,
    /// Measures the resident memory of the process; `None` where that is not possible.
    pub resident: fn() -> Option<u64>,
}

/// How long a measurement of resident memory is valid.
const VALID: Duration = Duration::from_millis(50);
/// Requests may always hold the capacity divided by this, however much the rest of the process holds: the
/// server must be able to answer.
const MIN_SHARE_DIVISOR: usize = 8;

/// Counts the memory that requests hold.
#[derive(Debug)]
pub struct Accountant {
    capacity: usize,
    ceiling: Option<Ceiling>,
    /// Locked for one addition, never across an `.await`.
    totals: Mutex<Totals>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Totals {
    all: usize,
    /// The bytes that the ceiling leaves to requests, and when that was measured.
    left: Option<(usize, Instant)>,
    /// The bytes of each client that holds any.
    clients: HashMap<Client, usize>,
}

impl Accountant {
    /// An accountant with this capacity in bytes.
    pub fn new(capacity: usize) -> Accountant {
        Accountant { capacity, ceiling: None, totals: Mutex::default(), released: Notify::new() }
    }

    /// The accountant with a ceiling.
    #[must_use]
    pub fn with_ceiling(self, ceiling: Option<Ceiling>) -> Accountant {
        Accountant { ceiling, ..self }
    }

    /// The bytes that all requests together may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes that all requests hold.
    pub fn reserved(&self) -> usize {
        self.totals.lock().all
    }

    /// The bytes that one client can have.
    pub(super) fn most(&self) -> usize {
        self.capacity / 2
    }

    pub(super) fn reserve(&self, client: Client, asked: usize) -> Result<(), NoMemory> {
        let most = self.most();
        if asked > most {
            return Err(NoMemory::TooLarge { asked, most });
        }
        if asked == 0 {
            return Ok(());
        }
        let mut totals = self.totals.lock();
        let capacity = self.available(&mut totals);
        let own = totals.clients.get(&client).copied().unwrap_or_default();
        if own + asked > most || totals.all + asked > capacity {
            metrics::counter!("lookalike_memory_refusals_total").increment(1);
            return Err(NoMemory::Taken { asked, client: own, all: totals.all, capacity });
        }
        totals.all += asked;
        totals.clients.insert(client, own + asked);
        Ok(())
    }

    /// The bytes that requests may hold now: the capacity, or less if less is left below the ceiling.
    fn available(&self, totals: &mut Totals) -> usize {
        let Some(Ceiling { bytes, resident }) = self.ceiling else {
            return self.capacity;
        };
        match totals.left {
            Some((left, measured)) if measured.elapsed() < VALID => left,
            _ => {
                let others = resident().unwrap_or_default().saturating_sub(totals.all as u64);
                let left = usize::try_from(bytes.saturating_sub(others)).unwrap_or(usize::MAX);
                let left = left.clamp(self.capacity / MIN_SHARE_DIVISOR, self.capacity);
                totals.left = Some((left, Instant::now()));
                left
            }
        }
    }

    pub(super) fn release(&self, client: Client, bytes: usize) {
        let mut totals = self.totals.lock();
        totals.all -= bytes;
        if let Some(own) = totals.clients.get_mut(&client) {
            *own -= bytes;
            if *own == 0 {
                totals.clients.remove(&client);
            }
        }
        drop(totals);
        self.released.notify_waiters();
    }

    /// Resolves at the next release after this call.
    pub(super) fn released(&self) -> Notified<'_> {
        self.released.notified()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn one_client_leaves_half_to_the_others() {
        let accountant = Accountant::new(1_000);
        let [one, two, three] = ["one", "two", "three"].map(|name| Client::of(&name));
        accountant.reserve(one, 500).unwrap();
        let taken = NoMemory::Taken { asked: 1, client: 500, all: 500, capacity: 1_000 };
        assert_eq!(accountant.reserve(one, 1), Err(taken));
        assert_eq!(accountant.reserve(one, 501), Err(NoMemory::TooLarge { asked: 501, most: 500 }));
        accountant.reserve(two, 400).unwrap();
        accountant.reserve(three, 100).unwrap();
        assert!(matches!(accountant.reserve(three, 1), Err(NoMemory::Taken { all: 1_000, .. })));
        accountant.release(one, 500);
        accountant.reserve(three, 400).unwrap();
        accountant.release(two, 400);
        accountant.release(three, 500);
        assert_eq!(accountant.reserved(), 0);
        assert!(accountant.totals.lock().clients.is_empty());
    }

    #[test]
    fn requests_get_the_memory_that_the_rest_of_the_process_leaves() {
        static RESIDENT: AtomicU64 = AtomicU64::new(0);
        let ceiling = Ceiling { bytes: 10_000, resident: || Some(RESIDENT.load(Ordering::Relaxed)) };
        for (resident, most) in [(0, 800), (9_200, 800), (9_600, 400), (9_950, 100), (20_000, 100)] {
            RESIDENT.store(resident, Ordering::Relaxed);
            let accountant = Accountant::new(800).with_ceiling(Some(ceiling));
            let [one, two] = ["one", "two"].map(|name| Client::of(&name));
            accountant.reserve(one, most / 2).unwrap();
            assert!(matches!(
                accountant.reserve(two, most / 2 + 1),
                Err(NoMemory::Taken { .. } | NoMemory::TooLarge { .. })
            ));
            accountant.reserve(two, most / 2).unwrap();
        }
        // The memory of requests is part of the resident memory, and is not counted twice.
        RESIDENT.store(9_600, Ordering::Relaxed);
        let accountant = Accountant::new(800).with_ceiling(Some(ceiling));
        let client = Client::of(&"one");
        accountant.reserve(client, 300).unwrap();
        RESIDENT.store(9_900, Ordering::Relaxed);
        std::thread::sleep(VALID);
        accountant.reserve(client, 100).unwrap();
    }

    proptest::proptest! {
        /// Compares the accountant with a model: a list of all reservations.
        #[test]
        fn the_totals_are_the_sum_of_all_reservations(
            steps in proptest::collection::vec((0_u8..3, 1_usize..400, 0_usize..9), 0..60),
        ) {
            let accountant = Accountant::new(1_000);
            let mut held: Vec<(Client, usize)> = Vec::new();
            for (name, bytes, which) in steps {
                let client = Client::of(&name);
                let of = |held: &[(Client, usize)], client| -> usize {
                    held.iter().filter(|(other, _)| *other == client).map(|(_, bytes)| bytes).sum()
                };
                if which < held.len() {
                    let (client, bytes) = held.swap_remove(which);
                    accountant.release(client, bytes);
                } else {
                    let all: usize = held.iter().map(|(_, bytes)| bytes).sum();
                    let fits = all + bytes <= 1_000 && of(&held, client) + bytes <= 500;
                    proptest::prop_assert_eq!(accountant.reserve(client, bytes).is_ok(), fits);
                    if fits {
                        held.push((client, bytes));
                    }
                }
                let all: usize = held.iter().map(|(_, bytes)| bytes).sum();
                proptest::prop_assert_eq!(accountant.reserved(), all);
            }
        }
    }
}
