//! The accountant: how much memory all requests together may hold, and how much of it one client.
//!
//! Requests hold memory for bodies, for what is parsed from them, for pages of documents, for answers that were not read
//! yet, and for jobs. All of it is reserved here before it is allocated. Without that a few peers could make the kernel
//! end the process, each within its own limits.
//!
//! One client may hold half of it. So whoever sends as much as it may leaves the other half to all others.
//!
//! *Absent*: bodies and answers of a few kilobytes, which the number of connections limits, and what the index, the
//! store and the queue of writes hold, each of which has a limit of its own.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Client;

/// Why memory was not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMemory {
    /// It is more than one client can have.
    #[error(
        "this takes {asked} bytes of memory, and one client can have {most} (half of memory.requests); send less at a \
         time, ask for less, or give the server more memory"
    )]
    TooLarge {
        /// Bytes that were asked for.
        asked: usize,
        /// Bytes that one client can have.
        most: usize,
    },
    /// Others hold it, or other requests of this client do.
    #[error(
        "the memory for requests is taken: {asked} bytes were asked for, {client} are held for this client and {all} of \
         {capacity} for all (memory.requests); try again in a moment, with fewer requests at a time"
    )]
    Taken {
        /// Bytes that were asked for.
        asked: usize,
        /// Bytes that this client holds.
        client: usize,
        /// Bytes that all clients hold.
        all: usize,
        /// Bytes that there are.
        capacity: usize,
    },
}

/// Counts the memory of requests.
#[derive(Debug)]
pub struct Accountant {
    capacity: usize,
    /// Held for one addition, never across an `.await`.
    books: Mutex<Books>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Books {
    all: usize,
    /// Clients that hold something.
    clients: HashMap<Client, usize>,
}

impl Accountant {
    /// An accountant of so many bytes.
    pub fn new(capacity: usize) -> Accountant {
        Accountant { capacity, books: Mutex::default(), released: Notify::new() }
    }

    /// Bytes that requests may hold together.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that requests hold.
    pub fn reserved(&self) -> usize {
        self.books.lock().all
    }

    /// Bytes that one client can have.
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
        let mut books = self.books.lock();
        let own = books.clients.get(&client).copied().unwrap_or_default();
        if own + asked > most || books.all + asked > self.capacity {
            metrics::counter!("lookalike_memory_refusals_total").increment(1);
            return Err(NoMemory::Taken { asked, client: own, all: books.all, capacity: self.capacity });
        }
        books.all += asked;
        books.clients.insert(client, own + asked);
        Ok(())
    }

    pub(super) fn release(&self, client: Client, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut books = self.books.lock();
        books.all -= bytes;
        if let Some(own) = books.clients.get_mut(&client) {
            *own -= bytes;
            if *own == 0 {
                books.clients.remove(&client);
            }
        }
        drop(books);
        self.released.notify_waiters();
    }

    /// Resolves when something is released after this call.
    pub(super) fn released(&self) -> Notified<'_> {
        self.released.notified()
    }
}

#[cfg(test)]
mod tests {
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
        assert!(accountant.books.lock().clients.is_empty());
    }

    proptest::proptest! {
        /// Against a dumb twin: a list of all that is held.
        #[test]
        fn the_books_are_the_sum_of_what_is_held(steps in proptest::collection::vec((0_u8..3, 1_usize..400, 0_usize..9), 0..60)) {
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
