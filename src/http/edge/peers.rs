//! Who is connected, what each connection is at, and who makes room when all places are taken.
//!
//! A connection tells where it is by a byte that its task changes and the others read. Time comes from a
//! clock that ticks four times a second, so that telling it costs nothing: no timer is set for any
//! connection.
//!
//! # Who makes room
//! Connections at work on a request never do. Of the others, first those that never sent a whole request,
//! then those between two requests, then those whose body comes at less than 16 KiB a second; among equals
//! first those of the address with the most connections, then the longest silent. So a peer with many idle
//! connections harms itself.
//!
//! # Seats
//! The places of one address are for those that ask: a connection takes its seat with its first whole
//! request. Until then it stands, and for its first second no other of its address makes it leave while there
//! is a place anywhere. Who comes thus has the time to ask, although others come from the same address as
//! fast as they can and say nothing; and they cannot keep a place from another address, because the most
//! crowded one makes room first. Where all seats are taken, a request that is there whole is heard before one
//! whose body lets itself be waited for.
//!
//! # Subtle order
//! Whoever ends a connection first changes its phase to `ENDED` by one compare-and-swap, and the task begins
//! a request by another: exactly one of them wins, so a request is either not begun or not cut.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::counter;
use tokio::task::AbortHandle;

use super::EdgeLimits;

/// How often the clock ticks.
pub(super) const TICK: Duration = Duration::from_millis(250);
const TICKS_A_SECOND: u32 = 4;
/// How long a connection may stand beyond the places of its address.
const STANDING: u32 = TICKS_A_SECOND;
/// From when on a body that comes slowly can be made to end.
const MISSING: u32 = TICKS_A_SECOND;
/// Bytes a tick that a body must have brought so as not to count as slow.
const BROUGHT: u64 = (16 << 10) / TICKS_A_SECOND as u64;

/// Nothing of a request's head is there.
const IDLE: u8 = 0;
/// A part of a head is there.
const HEAD: u8 = 1;
/// A request is being answered.
const ANSWERING: u8 = 2;
/// A request is being answered, and more of its body is needed.
const BODY: u8 = 3;
/// The connection is being ended; nothing begins on it any more.
const ENDED: u8 = 4;

/// A connection.
pub(super) struct Peer {
    number: u64,
    /// How many connections its address has.
    of_address: Arc<AtomicUsize>,
    clock: Arc<AtomicU32>,
    phase: AtomicU8,
    /// The tick at which it began to be idle, a head, or a request.
    since: AtomicU32,
    /// Bytes of the request's body.
    brought: AtomicU64,
    /// Whether it ever sent a whole request, and so has one of the places of its address.
    is_seated: AtomicBool,
    /// Whether the request's body was given up before its end.
    has_rest: AtomicBool,
    /// Whether it has not taken what was written.
    is_blocked: AtomicBool,
    /// Bytes that it took.
    taken: AtomicU64,
}

impl Peer {
    fn now(&self) -> u32 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Changes the phase, unless the connection was ended meanwhile; whether it was not.
    fn change(&self, from: u8, to: u8) -> bool {
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The same, and from now on time counts anew.
    fn begin(&self, from: u8, to: u8) -> bool {
        let changed = self.change(from, to);
        if changed {
            self.since.store(self.now(), Ordering::Relaxed);
        }
        changed
    }

    /// Bytes came.
    pub(super) fn received(&self) {
        if self.phase.load(Ordering::Relaxed) == IDLE {
            self.begin(IDLE, HEAD);
        }
    }

    /// A head is there; whether the request may begin.
    pub(super) fn begins_request(&self) -> bool {
        self.brought.store(0, Ordering::Relaxed);
        self.has_rest.store(false, Ordering::Relaxed);
        self.begin(HEAD, ANSWERING) || self.begin(IDLE, ANSWERING)
    }

    /// The answer is written, or lost.
    pub(super) fn ends_request(&self) {
        if !self.begin(ANSWERING, IDLE) {
            self.begin(BODY, IDLE);
        }
    }

    /// Whether a request is at work, or its body being waited for.
    pub(super) fn is_in_request(&self) -> bool {
        matches!(self.phase.load(Ordering::Relaxed), ANSWERING | BODY)
    }

    /// The body is given up before its end.
    pub(super) fn leaves_body(&self) {
        self.has_rest.store(true, Ordering::Relaxed);
    }

    /// Whether a part of the body is left that nobody reads.
    pub(super) fn has_rest(&self) -> bool {
        self.has_rest.load(Ordering::Relaxed)
    }

    /// More of the body is needed.
    pub(super) fn awaits_body(&self) {
        self.change(ANSWERING, BODY);
    }

    /// So many bytes more of the body are there.
    pub(super) fn has_body(&self, bytes: usize) {
        self.brought.fetch_add(bytes as u64, Ordering::Relaxed);
        self.change(BODY, ANSWERING);
    }

    /// What was written was taken, so many bytes of it, and whether it is ready to take more.
    pub(super) fn took(&self, bytes: usize, is_blocked: bool) {
        if bytes > 0 {
            self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        if self.is_blocked.load(Ordering::Relaxed) != is_blocked {
            self.is_blocked.store(is_blocked, Ordering::Relaxed);
        }
    }

    /// The rank among those that can make room, the first the lowest; `None` if it cannot. A body of which
    /// nearly nothing came makes room for a request that is there whole before it counts as slow.
    fn rank(&self, now: u32, is_whole: bool) -> Option<(u8, usize, u32, u64)> {
        let since = self.since.load(Ordering::Relaxed);
        let class = match self.phase.load(Ordering::Relaxed) {
            IDLE | HEAD if self.is_blocked.load(Ordering::Relaxed) => return None,
            // Not the silent before the slow: one that was accepted a moment ago has said nothing either.
            IDLE | HEAD => u8::from(self.is_seated()),
            BODY if self.is_slow(now.wrapping_sub(since)) => 2,
            BODY if is_whole && now != since && self.brought.load(Ordering::Relaxed) < BROUGHT => 3,
            _ => return None,
        };
        let crowd = usize::MAX - self.of_address.load(Ordering::Relaxed);
        Some((class, crowd, since, self.number))
    }

    fn is_seated(&self) -> bool {
        self.is_seated.load(Ordering::Relaxed)
    }

    /// Whether it has stood for longer than it may where others want the place.
    fn stands_long(&self, now: u32) -> bool {
        !self.is_seated() && now.wrapping_sub(self.since.load(Ordering::Relaxed)) > STANDING
    }

    /// Whether its body comes slowly, so many ticks after the request began.
    fn is_slow(&self, ticks: u32) -> bool {
        ticks >= MISSING && self.brought.load(Ordering::Relaxed) < BROUGHT.saturating_mul(ticks.into())
    }

    /// Ends it if it has not asked anything yet.
    fn end_standing(&self) -> bool {
        self.change(IDLE, ENDED) || self.change(HEAD, ENDED)
    }

    /// Ends it if it is still in a phase in which it may be ended.
    fn end(&self) -> bool {
        [IDLE, HEAD, BODY].into_iter().any(|phase| self.change(phase, ENDED))
    }
}

struct Entry {
    peer: Arc<Peer>,
    address: IpAddr,
    /// Ends the task; there from the moment it was started.
    task: Option<AbortHandle>,
    /// The bytes taken when they were last looked at while it was blocked, and the tick.
    stalled: Option<(u64, u32)>,
}

/// The connections of an address.
#[derive(Default)]
struct Address {
    all: Arc<AtomicUsize>,
    seated: usize,
    /// Those that stand, the longest here first.
    standing: BTreeSet<u64>,
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
    /// Held for one look or one change, never across an `.await`.
    table: Mutex<Table>,
}

/// A place among the connections, given back when it is dropped.
pub(super) struct Admitted {
    pub(super) peer: Arc<Peer>,
    peers: Arc<Peers>,
}

impl Admitted {
    /// Whether there is a place for a connection that asks something; the first time it is looked for.
    pub(super) fn takes_seat(&self, is_whole: bool) -> bool {
        self.peer.is_seated() || self.peers.seat(&self.peer, is_whole)
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

    /// Those that make room when there are more than so many.
    fn excess(&self, most: usize) -> impl Iterator<Item = u64> {
        self.standing.iter().copied().take(self.count().saturating_sub(most))
    }
}

impl Table {
    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        if entry.peer.of_address.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.addresses.remove(&entry.address);
        } else if let Some(address) = self.addresses.get_mut(&entry.address) {
            address.standing.remove(&number);
            address.seated -= usize::from(entry.peer.is_seated());
        }
        metrics::gauge!("lookalike_http_connections").set(self.entries.len() as f64);
        Some(entry)
    }

    /// Ends the one that has stood longest at the most crowded of these addresses, if there is one.
    fn end_standing(&mut self, among: impl Fn(&IpAddr) -> bool, may_end: impl Fn(&Peer) -> bool) -> bool {
        loop {
            let here = self.addresses.iter().filter(|(at, _)| among(at));
            let first = here.filter_map(|(_, address)| Some((address.count(), *address.standing.first()?)));
            let Some((_, number)) = first.max_by_key(|(all, number)| (*all, Reverse(*number))) else {
                return false;
            };
            let Some(entry) = self.entries.get(&number).filter(|entry| may_end(&entry.peer)) else {
                return false;
            };
            if entry.peer.end_standing() {
                self.cut(number, "made_room");
                return true;
            }
            // Its first request has come, and it asks for a seat in this moment.
            let at = entry.address;
            self.addresses.get_mut(&at).map(|address| address.standing.remove(&number));
        }
    }

    /// Ends the first of these that may be ended, if there is one.
    fn make_room(&mut self, now: u32, is_whole: bool, among: impl Fn(&Entry) -> bool) -> bool {
        loop {
            let ranked = self.entries.values().filter(|entry| among(entry));
            let first = ranked.filter_map(|entry| entry.peer.rank(now, is_whole)).min();
            let Some((.., number)) = first else {
                return false;
            };
            // It may have begun a request since it was ranked: then it is the next one's turn.
            if self.entries.get(&number).is_some_and(|entry| entry.peer.end()) {
                self.cut(number, "made_room");
                return true;
            }
        }
    }

    fn cut(&mut self, number: u64, reason: &'static str) {
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

    /// Gives a connection of this address a place; `None` if all are at work on requests.
    pub(super) fn admit(self: &Arc<Peers>, address: IpAddr) -> Option<Admitted> {
        let now = self.clock.load(Ordering::Relaxed);
        let mut table = self.table();
        if table.addresses.get(&address).map_or(0, Address::count) >= self.limits.connections_per_address {
            table.end_standing(|at| *at == address, |peer| peer.stands_long(now));
        }
        let is_full = table.entries.len() >= self.limits.connections;
        if is_full && !table.end_standing(|_| true, |_| true) && !table.make_room(now, false, |_| true) {
            return None;
        }
        let number = table.next;
        table.next += 1;
        let at = table.addresses.entry(address).or_default();
        at.standing.insert(number);
        let of_address = Arc::clone(&at.all);
        of_address.fetch_add(1, Ordering::Relaxed);
        let peer = Arc::new(Peer {
            number,
            of_address,
            clock: Arc::clone(&self.clock),
            phase: AtomicU8::new(IDLE),
            since: AtomicU32::new(now),
            brought: AtomicU64::new(0),
            is_seated: AtomicBool::new(false),
            has_rest: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            taken: AtomicU64::new(0),
        });
        let entry = Entry { peer: Arc::clone(&peer), address, task: None, stalled: None };
        table.entries.insert(number, entry);
        metrics::gauge!("lookalike_http_connections").set(table.entries.len() as f64);
        counter!("lookalike_http_connections_accepted_total").increment(1);
        Some(Admitted { peer, peers: Arc::clone(self) })
    }

    /// Gives a connection that begins its first request one of the places of its address; whether there was
    /// one.
    fn seat(&self, peer: &Peer, is_whole: bool) -> bool {
        let now = self.clock.load(Ordering::Relaxed);
        let mut table = self.table();
        // Who is not there any more is being ended, and takes no place.
        let Some(address) = table.entries.get(&peer.number).map(|entry| entry.address) else {
            return true;
        };
        let seated = |table: &Table| table.addresses.get(&address).map_or(0, |address| address.seated);
        if seated(&table) >= self.limits.connections_per_address
            && !table.make_room(now, is_whole, |entry| entry.address == address && entry.peer.is_seated())
        {
            return false;
        }
        if let Some(address) = table.addresses.get_mut(&address) {
            address.seated += 1;
            address.standing.remove(&peer.number);
            peer.is_seated.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Names the task of a connection, so that it can be ended.
    pub(super) fn may_end(&self, peer: &Peer, task: AbortHandle) {
        if let Some(entry) = self.table().entries.get_mut(&peer.number) {
            entry.task = Some(task);
        }
    }

    /// Advances the clock and ends who is too slow.
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
            table.cut(number, reason);
        }
        let most = limits.connections_per_address;
        let over = table.addresses.values().flat_map(|address| address.excess(most));
        let may_end = |number: &u64| {
            let peer = table.entries.get(number).map(|entry| &entry.peer);
            peer.is_some_and(|peer| peer.stands_long(now) && peer.end_standing())
        };
        let standing: Vec<u64> = over.filter(may_end).collect();
        for number in standing {
            table.cut(number, "made_room");
        }
    }

    /// Ends all that are at no request.
    pub(super) fn end_silent(&self) {
        let mut table = self.table();
        let silent = table.entries.iter().filter(|(_, entry)| entry.peer.end_standing());
        let silent: Vec<u64> = silent.map(|(number, _)| *number).collect();
        for number in silent {
            table.cut(number, "shutting_down");
        }
    }
}

fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

impl Entry {
    /// Why it is to be ended now, if it is.
    fn lateness(&mut self, now: u32, limits: &EdgeLimits) -> Option<&'static str> {
        if self.is_stalled(now, limits) {
            self.peer.phase.store(ENDED, Ordering::Release);
            return Some("answer_not_read");
        }
        let waited = now.wrapping_sub(self.peer.since.load(Ordering::Relaxed));
        let (phase, longest, reason) = match self.peer.phase.load(Ordering::Relaxed) {
            HEAD => (HEAD, limits.header, "head_too_slow"),
            IDLE if !self.peer.is_seated() => (IDLE, limits.header, "silent"),
            IDLE => (IDLE, limits.idle, "idle"),
            _ => return None,
        };
        (waited > ticks(longest) && self.peer.change(phase, ENDED)).then_some(reason)
    }

    /// Whether the peer reads what it asked for more slowly than it must.
    fn is_stalled(&mut self, now: u32, limits: &EdgeLimits) -> bool {
        if !self.peer.is_blocked.load(Ordering::Relaxed) {
            self.stalled = None;
            return false;
        }
        let taken = self.peer.taken.load(Ordering::Relaxed);
        let (before, since) = *self.stalled.get_or_insert((taken, now));
        if now.wrapping_sub(since) < ticks(limits.stall) {
            return false;
        }
        self.stalled = Some((taken, now));
        taken - before <= limits.bytes_per_second.saturating_mul(limits.stall.as_secs())
    }
}

#[cfg(test)]
mod tests;
