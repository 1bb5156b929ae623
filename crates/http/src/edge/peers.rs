//! The open connections, their phases, and which one is closed at a limit.
//!
//! The task of a connection writes its phase to an atomic byte. A clock ticks four times a second, and each
//! tick checks all connections. So reading the time is one load, and no connection needs a timer.
//!
//! # Which connection is closed at a limit
//! A connection is not closed while it works on a request. The others are closed in this order: those that
//! have not sent a complete head, those between two requests, those whose body arrives at less than 16 KiB a
//! second. Among equals, the address with the most connections comes first, then the connection that has
//! waited longest. So an address with many idle connections loses its own ones.
//!
//! # Slots
//! `connections_per_address` limits the slots of an address. A connection gets a slot with the head of its
//! first request. Until then it is pending. For its first second, no connection of its own address displaces
//! it, unless the server is at its limit of connections. So a new connection has the time to send a request,
//! even if its address opens silent connections as fast as it can. Silent connections do not exclude another
//! address: at the limit of the server, the address with the most connections loses one first. If all slots
//! are taken, a request that has arrived completely displaces one that waits for its body.
//!
//! # Order
//! A connection is closed by a compare-and-swap of its phase to `ENDED`, before its task is aborted. The task
//! begins a request by another compare-and-swap. Exactly one of them succeeds, so a request is either not
//! begun or not aborted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::counter;
use tokio::task::AbortHandle;

use super::EdgeLimits;

/// The time between two ticks of the clock.
pub(super) const TICK: Duration = Duration::from_millis(250);
const TICKS_PER_SECOND: u32 = 4;
/// Ticks for which a pending connection may exceed the limit of its address.
const PENDING_TICKS: u32 = TICKS_PER_SECOND;
/// Ticks after which the body of a request can count as slow.
const SLOW_BODY_TICKS: u32 = TICKS_PER_SECOND;
/// Minimum bytes per tick of a body that is not slow.
const MIN_BODY_BYTES: u64 = (16 << 10) / TICKS_PER_SECOND as u64;

/// No byte of the next request has arrived.
const IDLE: u8 = 0;
/// A part of a head has arrived.
const HEAD: u8 = 1;
/// A request is being handled.
const ANSWERING: u8 = 2;
/// A request is being handled and waits for more of its body.
const BODY: u8 = 3;
/// The connection is being closed. No request begins on it.
const ENDED: u8 = 4;

/// A connection.
pub(super) struct Peer {
    number: u64,
    /// The number of connections of its address.
    of_address: Arc<AtomicUsize>,
    clock: Arc<AtomicU32>,
    phase: AtomicU8,
    /// The tick at which the idle time, the head or the request began.
    since: AtomicU32,
    /// Bytes received of the request's body.
    body_bytes: AtomicU64,
    /// Whether it has sent a complete head, and so has one of the slots of its address.
    has_slot: AtomicBool,
    /// Whether the request's body was dropped before its end.
    has_unread_body: AtomicBool,
    /// Whether the last write is waiting for the peer to read.
    is_blocked: AtomicBool,
    /// Bytes written to the peer.
    written: AtomicU64,
}

impl Peer {
    fn now(&self) -> u32 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Changes the phase if it is `from`. Returns whether it was.
    fn change(&self, from: u8, to: u8) -> bool {
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Changes the phase if it is `from`, and restarts its time. Returns whether it was.
    fn begin(&self, from: u8, to: u8) -> bool {
        let is_changed = self.change(from, to);
        if is_changed {
            self.since.store(self.now(), Ordering::Relaxed);
        }
        is_changed
    }

    /// Records that bytes have arrived.
    pub(super) fn received(&self) {
        if self.phase.load(Ordering::Relaxed) == IDLE {
            self.begin(IDLE, HEAD);
        }
    }

    /// Records a complete head. Returns whether the request may begin.
    pub(super) fn begins_request(&self) -> bool {
        self.body_bytes.store(0, Ordering::Relaxed);
        self.has_unread_body.store(false, Ordering::Relaxed);
        self.begin(HEAD, ANSWERING) || self.begin(IDLE, ANSWERING)
    }

    /// Records that the answer is written or dropped.
    pub(super) fn ends_request(&self) {
        if !self.begin(ANSWERING, IDLE) {
            self.begin(BODY, IDLE);
        }
    }

    /// Records that the body is dropped before its end.
    pub(super) fn abandons_body(&self) {
        self.has_unread_body.store(true, Ordering::Relaxed);
    }

    /// Whether the rest of the body will not be read.
    pub(super) fn has_unread_body(&self) -> bool {
        self.has_unread_body.load(Ordering::Relaxed)
    }

    /// Records that the request waits for its body.
    pub(super) fn awaits_body(&self) {
        self.change(ANSWERING, BODY);
    }

    /// Records bytes of the body.
    pub(super) fn receives_body(&self, bytes: usize) {
        self.body_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.change(BODY, ANSWERING);
    }

    /// Records the bytes of a write, and whether it is blocked until the peer reads.
    pub(super) fn record_write(&self, bytes: usize, is_blocked: bool) {
        if bytes > 0 {
            self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        if self.is_blocked.load(Ordering::Relaxed) != is_blocked {
            self.is_blocked.store(is_blocked, Ordering::Relaxed);
        }
    }

    /// The rank among the connections that may be closed; the lowest is closed first. `None` if it may not be
    /// closed. If `is_whole`, the new request has arrived completely: then a request whose body has hardly
    /// arrived may be closed for it before its body counts as slow.
    fn rank(&self, now: u32, is_whole: bool) -> Option<(u8, usize, u32, u64)> {
        let since = self.since.load(Ordering::Relaxed);
        let class = match self.phase.load(Ordering::Relaxed) {
            IDLE | HEAD if self.is_blocked.load(Ordering::Relaxed) => return None,
            // `IDLE` does not precede `HEAD`: a connection that was just accepted is idle, too.
            IDLE | HEAD => u8::from(self.has_slot()),
            BODY if self.is_slow(now.wrapping_sub(since)) => 2,
            BODY if is_whole && now != since && self.body_bytes.load(Ordering::Relaxed) < MIN_BODY_BYTES => 3,
            _ => return None,
        };
        let most_connections_first = usize::MAX - self.of_address.load(Ordering::Relaxed);
        Some((class, most_connections_first, since, self.number))
    }

    fn has_slot(&self) -> bool {
        self.has_slot.load(Ordering::Relaxed)
    }

    /// Whether it has been pending for longer than it may exceed the limit of its address.
    fn is_long_pending(&self, now: u32) -> bool {
        !self.has_slot() && now.wrapping_sub(self.since.load(Ordering::Relaxed)) > PENDING_TICKS
    }

    /// Whether its body is slow, this number of ticks after the request began.
    fn is_slow(&self, ticks: u32) -> bool {
        let least = MIN_BODY_BYTES.saturating_mul(ticks.into());
        ticks >= SLOW_BODY_TICKS && self.body_bytes.load(Ordering::Relaxed) < least
    }

    /// Ends it if it has no request. Returns whether it did.
    fn end_idle(&self) -> bool {
        self.change(IDLE, ENDED) || self.change(HEAD, ENDED)
    }

    /// Ends it if its phase allows that. Returns whether it did.
    fn end(&self) -> bool {
        [IDLE, HEAD, BODY].into_iter().any(|phase| self.change(phase, ENDED))
    }
}

struct Entry {
    peer: Arc<Peer>,
    address: IpAddr,
    /// Aborts the task; `None` until it is started.
    task: Option<AbortHandle>,
    /// While a write is blocked: the bytes written at the start of the present interval, and its tick.
    stalled: Option<(u64, u32)>,
}

/// The connections of an address.
#[derive(Default)]
struct Address {
    all: Arc<AtomicUsize>,
    /// The number of slots in use.
    slots: usize,
    /// The pending connections, the oldest first.
    pending: BTreeSet<u64>,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<u64, Entry>,
    addresses: HashMap<IpAddr, Address>,
    next: u64,
}

/// All connections.
pub(super) struct Peers {
    limits: EdgeLimits,
    clock: Arc<AtomicU32>,
    /// Locked for one read or change, never across an `.await`.
    table: Mutex<Table>,
}

/// An admitted connection. It is removed from the table when this is dropped.
pub(super) struct Admitted {
    pub(super) peer: Arc<Peer>,
    peers: Arc<Peers>,
}

impl Admitted {
    /// Takes a slot of the address at the first request. Returns whether the connection has one.
    pub(super) fn takes_slot(&self, is_whole: bool) -> bool {
        self.peer.has_slot() || self.peers.take_slot(&self.peer, is_whole)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.peers.table().remove(self.peer.number);
    }
}

impl Address {
    fn count(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// The oldest pending connections, as many as the address has above `most`.
    fn excess(&self, most: usize) -> impl Iterator<Item = u64> {
        self.pending.iter().copied().take(self.count().saturating_sub(most))
    }
}

impl Table {
    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        if entry.peer.of_address.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.addresses.remove(&entry.address);
        } else if let Some(address) = self.addresses.get_mut(&entry.address) {
            address.pending.remove(&number);
            address.slots -= usize::from(entry.peer.has_slot());
        }
        metrics::gauge!("lookalike_http_connections").set(self.entries.len() as f64);
        Some(entry)
    }

    /// Closes the oldest pending connection of the address with the most connections among these addresses,
    /// if `may_end` allows that. Returns whether it did.
    fn end_pending(&mut self, among: impl Fn(&IpAddr) -> bool, may_end: impl Fn(&Peer) -> bool) -> bool {
        loop {
            let chosen = self.addresses.iter().filter(|(at, _)| among(at));
            let first = chosen.filter_map(|(_, address)| Some((address.count(), *address.pending.first()?)));
            let Some((_, number)) = first.max_by_key(|(all, number)| (*all, Reverse(*number))) else {
                return false;
            };
            let Some(entry) = self.entries.get(&number).filter(|entry| may_end(&entry.peer)) else {
                return false;
            };
            if entry.peer.end_idle() {
                self.close(number, "made_room");
                return true;
            }
            // Its first request has begun, and its task will take a slot.
            let at = entry.address;
            self.addresses.get_mut(&at).map(|address| address.pending.remove(&number));
        }
    }

    /// Closes the connection with the lowest rank among these. Returns whether there was one.
    fn make_room(&mut self, now: u32, is_whole: bool, among: impl Fn(&Entry) -> bool) -> bool {
        loop {
            let ranked = self.entries.values().filter(|entry| among(entry));
            let first = ranked.filter_map(|entry| entry.peer.rank(now, is_whole)).min();
            let Some((.., number)) = first else {
                return false;
            };
            // If it has begun a request since it was ranked, the next one is tried.
            if self.entries.get(&number).is_some_and(|entry| entry.peer.end()) {
                self.close(number, "made_room");
                return true;
            }
        }
    }

    fn close(&mut self, number: u64, reason: &'static str) {
        if let Some(task) = self.remove(number).and_then(|entry| entry.task) {
            task.abort();
        }
        counter!("lookalike_http_connections_ended_total", "reason" => reason).increment(1);
        tracing::debug!(reason, "a connection was ended");
    }
}

impl Peers {
    pub(super) fn new(limits: EdgeLimits) -> Peers {
        Peers { limits, clock: Arc::default(), table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection of this address; `None` at the limit if all connections have running requests.
    pub(super) fn admit(self: &Arc<Peers>, address: IpAddr) -> Option<Admitted> {
        let now = self.clock.load(Ordering::Relaxed);
        let mut table = self.table();
        if table.addresses.get(&address).map_or(0, Address::count) >= self.limits.connections_per_address {
            table.end_pending(|at| *at == address, |peer| peer.is_long_pending(now));
        }
        let is_full = table.entries.len() >= self.limits.connections;
        if is_full && !table.end_pending(|_| true, |_| true) && !table.make_room(now, false, |_| true) {
            return None;
        }
        let number = table.next;
        table.next += 1;
        let at = table.addresses.entry(address).or_default();
        at.pending.insert(number);
        let of_address = Arc::clone(&at.all);
        of_address.fetch_add(1, Ordering::Relaxed);
        let peer = Arc::new(Peer {
            number,
            of_address,
            clock: Arc::clone(&self.clock),
            phase: AtomicU8::new(IDLE),
            since: AtomicU32::new(now),
            body_bytes: AtomicU64::new(0),
            has_slot: AtomicBool::new(false),
            has_unread_body: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            written: AtomicU64::new(0),
        });
        let entry = Entry { peer: Arc::clone(&peer), address, task: None, stalled: None };
        table.entries.insert(number, entry);
        metrics::gauge!("lookalike_http_connections").set(table.entries.len() as f64);
        counter!("lookalike_http_connections_accepted_total").increment(1);
        Some(Admitted { peer, peers: Arc::clone(self) })
    }

    /// Takes a slot of the address for a connection that begins its first request. Returns whether there was
    /// one.
    fn take_slot(&self, peer: &Peer, is_whole: bool) -> bool {
        let now = self.clock.load(Ordering::Relaxed);
        let mut table = self.table();
        // A connection that is no longer in the table is being closed, and needs no slot.
        let Some(address) = table.entries.get(&peer.number).map(|entry| entry.address) else {
            return true;
        };
        let slots = table.addresses.get(&address).map_or(0, |address| address.slots);
        if slots >= self.limits.connections_per_address
            && !table.make_room(now, is_whole, |entry| entry.address == address && entry.peer.has_slot())
        {
            return false;
        }
        if let Some(address) = table.addresses.get_mut(&address) {
            address.slots += 1;
            address.pending.remove(&peer.number);
            peer.has_slot.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Sets the task of a connection, so that it can be aborted.
    pub(super) fn set_task(&self, peer: &Peer, task: AbortHandle) {
        if let Some(entry) = self.table().entries.get_mut(&peer.number) {
            entry.task = Some(task);
        }
    }

    /// Advances the clock, and closes connections that are too slow or exceed the limit of their address.
    pub(super) fn tick(&self) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut table = self.table();
        let limits = &self.limits;
        let late: Vec<(u64, &'static str)> = table
            .entries
            .iter_mut()
            .filter_map(|(number, entry)| Some((*number, entry.lateness(now, limits)?)))
            .collect();
        for (number, reason) in late {
            table.close(number, reason);
        }
        let most = limits.connections_per_address;
        let excess = table.addresses.values().flat_map(|address| address.excess(most));
        let may_end = |number: &u64| {
            let peer = table.entries.get(number).map(|entry| &entry.peer);
            peer.is_some_and(|peer| peer.is_long_pending(now) && peer.end_idle())
        };
        let ended: Vec<u64> = excess.filter(may_end).collect();
        for number in ended {
            table.close(number, "made_room");
        }
    }

    /// Closes all connections without a request.
    pub(super) fn end_idle(&self) {
        let mut table = self.table();
        let ended = table.entries.iter().filter(|(_, entry)| entry.peer.end_idle());
        let ended: Vec<u64> = ended.map(|(number, _)| *number).collect();
        for number in ended {
            table.close(number, "shutting_down");
        }
    }
}

fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

impl Entry {
    /// The reason to close it now, if there is one.
    fn lateness(&mut self, now: u32, limits: &EdgeLimits) -> Option<&'static str> {
        if self.is_stalled(now, limits) {
            self.peer.phase.store(ENDED, Ordering::Release);
            return Some("answer_not_read");
        }
        let waited = now.wrapping_sub(self.peer.since.load(Ordering::Relaxed));
        let (phase, longest, reason) = match self.peer.phase.load(Ordering::Relaxed) {
            HEAD => (HEAD, limits.header, "head_too_slow"),
            IDLE if !self.peer.has_slot() => (IDLE, limits.header, "silent"),
            IDLE => (IDLE, limits.idle, "idle"),
            _ => return None,
        };
        (waited > ticks(longest) && self.peer.change(phase, ENDED)).then_some(reason)
    }

    /// Whether the peer reads its answer below the minimum rate.
    fn is_stalled(&mut self, now: u32, limits: &EdgeLimits) -> bool {
        if !self.peer.is_blocked.load(Ordering::Relaxed) {
            self.stalled = None;
            return false;
        }
        let written = self.peer.written.load(Ordering::Relaxed);
        let (before, since) = *self.stalled.get_or_insert((written, now));
        if now.wrapping_sub(since) < ticks(limits.stall) {
            return false;
        }
        self.stalled = Some((written, now));
        written - before <= limits.bytes_per_second.saturating_mul(limits.stall.as_secs())
    }
}

#[cfg(test)]
mod tests;
