//! A rack that distinguishes another bit, which the writer builds in steps while the rack that it replaces is
//! in use. So no insertion waits until all hashes of a rack are copied.
//!
//! *Invariant*: its bins are those that the rack in use would have, as far as they are built: bins are built
//! in their order, and what is inserted or removed afterwards is inserted and removed here, too.
//!
//! *Absent*: when it is begun, and its use by readers (`bins`).

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::bin::Bin;
use super::bins::{Find, Place, Rack, add, empty};
use super::block::Filed;
use super::ends::{End, Ends};
use super::memory::{Array, Pin};

/// The bins of the rack in use that a step copies.
const STEP: usize = 2;

/// See the module.
pub(super) struct Deeper<W> {
    /// The number of the rack.
    number: usize,
    depth: u32,
    bins: Vec<(Array<W>, Ends)>,
}

impl<W: Filed> Deeper<W> {
    fn new(number: usize, rack: &Rack<W>) -> Deeper<W> {
        Deeper { number, depth: rack.depth() + 1, bins: Vec::with_capacity(2 * rack.bins()) }
    }

    /// Builds the next bins from those of the rack in use: the two ends of each become two bins. Returns
    /// whether all are built.
    fn step(&mut self, rack: &Rack<W>, pin: &Pin) -> bool {
        let first = self.bins.len() / 2;
        for at in first..(first + STEP).min(rack.bins()) {
            let bin = rack.bin(at, pin);
            let mut parts =
                [End::Front, End::Back].map(|end| (empty(bin.ends().at(end), self.depth), Ends::default()));
            bin.for_each(|entry, extra, end| {
                let filed = rack.filed((self.number, at, end), (entry, extra));
                let place = Rack::<W>::place_of(self.depth, filed);
                add(&mut parts[end.bit() as usize], filed, place.end, pin);
            });
            self.bins.extend(parts);
        }
        self.bins.len() == 2 * rack.bins()
    }

    /// The bin and the end of an entry of the rack, with its block in front of it, if the bin is built.
    fn built(&mut self, filed: W) -> Option<(&mut (Array<W>, Ends), End)> {
        let Place { bin, end } = Rack::<W>::place_of(self.depth, filed);
        self.bins.get_mut(bin).map(|bin| (bin, end))
    }
}

/// The deeper rack of a table; one at a time.
pub(super) struct Next<W> {
    /// The number of the rack, plus one; 0 if there is none. Only the writer uses it.
    number: AtomicUsize,
    deeper: Mutex<Option<Deeper<W>>>,
}

impl<W: Filed> Next<W> {
    pub(super) fn new() -> Next<W> {
        Next { number: AtomicUsize::new(0), deeper: Mutex::new(None) }
    }

    /// The number of the rack that is built.
    #[inline(always)]
    pub(super) fn number(&self) -> Option<usize> {
        self.number.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Begins to build a rack.
    pub(super) fn begin(&self, number: usize, rack: &Rack<W>) {
        *self.deeper.lock() = Some(Deeper::new(number, rack));
        self.number.store(number + 1, Ordering::Relaxed);
    }

    /// Drops what is built.
    pub(super) fn end(&self) {
        *self.deeper.lock() = None;
        self.number.store(0, Ordering::Relaxed);
    }

    /// Builds further from the rack in use. Returns the new rack if it is complete.
    pub(super) fn step(&self, rack: &Rack<W>, pin: &Pin) -> Option<Rack<W>> {
        let mut next = self.deeper.lock();
        if !next.as_mut()?.step(rack, pin) {
            return None;
        }
        self.number.store(0, Ordering::Relaxed);
        next.take().map(|Deeper { depth, bins, .. }| Rack::of(depth, bins, rack.len()))
    }

    /// Inserts an entry, with its block in front of it, that was inserted into the rack in use.
    pub(super) fn insert(&self, filed: W, pin: &Pin) {
        if let Some((bin, end)) = self.deeper.lock().as_mut().and_then(|deeper| deeper.built(filed)) {
            add(bin, filed, end, pin);
        }
    }

    /// Removes a hash that was removed from the rack in use.
    pub(super) fn remove(&self, find: &Find<'_, W>) {
        let mut deeper = self.deeper.lock();
        let built = deeper.as_mut().and_then(|deeper| deeper.built(find.filed));
        if let Some(((array, ends), end)) = built {
            let bin = Bin::of_array(array, *ends, find.pin);
            if let Some(place) = find.place(bin, end) {
                bin.remove(place, end);
            }
        }
    }

    /// The bytes of what is built.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        let bytes = |deeper: &Deeper<W>| {
            let arrays: usize = deeper.bins.iter().map(|(array, _)| array.bytes(pin)).sum();
            arrays + deeper.bins.capacity() * size_of::<(Array<W>, Ends)>()
        };
        self.deeper.lock().as_ref().map_or(0, bytes)
    }
}
