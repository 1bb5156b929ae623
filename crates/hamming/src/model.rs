//! A model of the index: a scheduler interleaves the steps of readers and writers in random orders.
//!
//! One scheduler selects each next thread at random. The other runs one thread as long as possible, with a
//! few interruptions; it finds faults that need many events between two steps. A step is a load or a store
//! before which another thread may run ([`step`]). Answers are checked against a record of what was stored
//! when.
//!
//! Some events are too rare in random orders. For these, one thread causes the event itself, at each step of
//! a query in turn ([`at_every_step`]).
//!
//! *Absent*: reordering of memory accesses by the processor, and memory that is freed too early for another
//! thread of the system. The tests with threads check those.

#![cfg(test)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::AtomicBool;
use shuttle::{Config, Runner, thread};

use super::memory::pin;
use super::{Filed, Index, Neighbour, Plan, U256};

thread_local! {
    /// If this thread runs a model: the value that the threads of the model read at every step, so that the
    /// scheduler can switch. They all run on this thread of the system.
    static YIELD_POINT: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
    /// The number of racks that were replaced in models that this thread ran.
    static REPLACED: Cell<u64> = const { Cell::new(0) };
    /// A number of steps and the action that this thread performs after them, as if another thread ran.
    static INTERRUPTION: Cell<Option<(u64, Interruption)>> = const { Cell::new(None) };
}

type Interruption = Box<dyn FnOnce()>;

/// Whether this thread runs a model.
pub(super) fn is_running() -> bool {
    YIELD_POINT.with_borrow(Option::is_some)
}

/// Lets another thread of the model run, or performs the planned action if it is due.
#[inline]
pub(super) fn step() {
    match INTERRUPTION.take() {
        Some((0, act)) => act(),
        Some((more, act)) => INTERRUPTION.set(Some((more - 1, act))),
        None => {}
    }
    if let Some(yield_point) = YIELD_POINT.with_borrow(Clone::clone) {
        yield_point.load(Ordering::SeqCst);
    }
}

/// Counts a replaced rack, if this thread runs a model.
pub(super) fn replaced() {
    if is_running() {
        REPLACED.set(REPLACED.get() + 1);
    }
}

/// Lets the other threads of a model run.
pub(super) fn wait() {
    thread::yield_now();
}

/// The state of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Inserting,
    Present,
    Removing,
}

/// The changes of state in order, each with the number of the hash. No step happens while it is locked.
type Record = Mutex<Vec<(u64, State)>>;

/// Hashes that belong to one bin of nearly every table and share most blocks, so that threads access the same
/// planes.
fn hash<W: From<u64>>(number: u64) -> W {
    W::from(0xc000_c000_c000_c000 | number << (16 * (number % 4)))
}

/// The number of hashes that each writer inserts and removes.
const CHURNING: u64 = 4;

struct Model<W: Filed> {
    index: Index<W>,
    /// The number of hashes that are never removed. The hashes that writers insert and remove have the next
    /// numbers.
    stable: u64,
    record: Record,
}

impl<W: Filed + From<u64>> Model<W> {
    /// An index of `stable` hashes, in which the hashes of `before` were then inserted and removed.
    fn new(limit: usize, stable: u64, before: impl Iterator<Item = u64>) -> Model<W> {
        let index = Index::with_limit(limit);
        index.insert_all((0..stable).map(hash));
        for other in before.map(W::from) {
            assert!(index.insert(other) && index.remove(other));
        }
        Model { index, stable, record: Mutex::default() }
    }

    fn note(&self, number: u64, state: State) {
        self.record.lock().unwrap().push((number, state));
    }

    /// Inserts and removes hashes that no other writer changes.
    fn write(&self, writer: u64) {
        let mut is_in = [false; CHURNING as usize];
        for _ in 0..8 {
            let at = thread_rng().gen_range(0..is_in.len());
            let number = self.stable + CHURNING * writer + at as u64;
            if is_in[at] {
                self.note(number, State::Removing);
                assert!(self.index.remove(hash(number)));
                self.note(number, State::Absent);
            } else {
                self.note(number, State::Inserting);
                if thread_rng().gen_bool(0.5) {
                    assert!(self.index.insert(hash(number)));
                } else {
                    assert_eq!(self.index.insert_all([hash(number), hash(number), hash(0)]), 1);
                }
                self.note(number, State::Present);
            }
            is_in[at] = !is_in[at];
        }
    }

    /// Runs queries, and checks their answers against the states of the hashes during the query.
    fn read(&self) {
        let all = self.stable + 2 * CHURNING;
        for _ in 0..4 {
            let (query, mut k): (W, _) =
                (hash(thread_rng().gen_range(0..all)), [0, 1, 3, 64][thread_rng().gen_range(0..4)]);
            let begun = self.record.lock().unwrap().len();
            let mut found = Vec::new();
            match thread_rng().gen_range(0..5) {
                0 => drop(self.index.scan(query, k, &mut found)),
                1 => drop(self.index.within(query, k, &mut found)),
                2 => {
                    k = 0;
                    found
                        .extend(self.index.contains(query).then_some(Neighbour { distance: 0, hash: query }));
                }
                3 => self.probe_many(query, k, &mut found),
                _ => self.probe(query, k, &mut found),
            }
            let record = self.record.lock().unwrap().clone();
            for near in &found {
                assert!((0..all).any(|number| hash::<W>(number) == near.hash), "{near:x?} was never stored");
                assert_eq!(near.distance, (near.hash ^ query).ones());
            }
            for number in 0..all {
                let distance = (hash::<W>(number) ^ query).ones();
                let times = found.iter().filter(|near| near.hash == hash(number)).count();
                let mut states = record[..begun].iter().rev().filter(|(of, _)| *of == number);
                let first = if number < self.stable { State::Present } else { State::Absent };
                let before = states.next().map_or(first, |(_, state)| *state);
                let stays = !record[begun..].iter().any(|(of, _)| *of == number);
                assert!(times <= 1, "{number} was found {times} times; {record:?}");
                match before {
                    State::Present if stays && distance <= k => {
                        assert_eq!(times, 1, "{number} was missed, k = {k}, from {begun}; {record:?}");
                    }
                    State::Absent if stays => {
                        assert_eq!(times, 0, "{number} was absent, k = {k}, from {begun}; {record:?}");
                    }
                    _ => assert!(times == 0 || distance <= k),
                }
            }
        }
    }

    /// Queries by the tables, which a query among so few hashes would not use.
    fn probe(&self, query: W, k: u32, found: &mut Vec<Neighbour<W>>) {
        if k > 3 {
            self.index.scan(query, k, found);
            return;
        }
        assert!(self.index.within_radii(&radii::<W>(), query, k, found).is_some());
    }

    /// As [`Model::probe`], together with another query, and by a scan for both if `k` is large.
    fn probe_many(&self, query: W, k: u32, found: &mut Vec<Neighbour<W>>) {
        let plan = Plan::chosen::<W>(k, &radii::<W>(), self.index.len());
        let answers = self.index.together(&[query ^ W::from(u64::MAX), query], k, plan.as_ref());
        assert!(answers.alone.is_empty());
        found.extend(answers.near.iter().filter(|(number, _)| *number == 1).map(|(_, near)| *near));
    }
}

/// Radii by which a query reads the blocks in which the hashes of the model differ.
fn radii<W: Filed>() -> Vec<i8> {
    (0..W::BLOCKS.len()).map(|block| if block < 4 { 0 } else { -1 }).collect()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("the setting is a whole number"))
}

/// Runs two writers and two readers in `orders` orders of each scheduler.
fn explore<W: Filed + From<u64>>(orders: u64, make: fn() -> Model<W>) {
    let orders = usize::try_from(setting("LOOKALIKE_MODEL_ORDERS", orders)).expect("the number fits");
    let seed = setting("LOOKALIKE_MODEL_SEED", 1);
    run(RandomScheduler::new_from_seed(seed, orders), make);
    for interruptions in [2, 4] {
        run(PctScheduler::new_from_seed(seed, interruptions, orders), make);
    }
}

fn run<W: Filed + From<u64>>(scheduler: impl Scheduler + 'static, make: fn() -> Model<W>) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    let done = Runner::new(scheduler, config).run(move || {
        // No other thread runs yet, so these accesses need no steps.
        let model = Arc::new(make());
        let yield_point = Arc::new(AtomicBool::new(true));
        YIELD_POINT.set(Some(yield_point));
        let writers = [0, 1].map(|writer| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.write(writer))
        });
        let readers = [(); 2].map(|()| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.read())
        });
        writers.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
        YIELD_POINT.set(None);
    });
    eprintln!("{done} orders");
    assert!(done > 0);
}

/// A limit at which racks are not replaced.
const NEVER: usize = 1 << 20;

/// The same hash `count` times. Inserting and removing it leaves `count` removed entries in the bins of the
/// model.
fn repeated_hash(count: usize) -> impl Iterator<Item = u64> {
    std::iter::repeat_n(hash::<u64>(0) | 0x3fff, count)
}

#[test]
fn every_order_is_correct_while_bins_grow() {
    explore(600, || Model::<u64>::new(NEVER, 12, repeated_hash(0)));
    explore(100, || Model::<U256>::new(NEVER, 12, repeated_hash(0)));
}

#[test]
fn every_order_is_correct_when_a_hash_returns_in_another_place() {
    explore(600, || Model::<u64>::new(NEVER, 20, repeated_hash(0)));
    explore(100, || Model::<U256>::new(NEVER, 20, repeated_hash(0)));
}

#[test]
fn every_order_is_correct_while_bins_lose_their_removed_entries() {
    explore(300, || Model::<u64>::new(NEVER, 12, repeated_hash(29)));
    explore(100, || Model::<U256>::new(NEVER, 12, repeated_hash(29)));
}

#[test]
fn every_order_is_correct_while_racks_are_replaced() {
    // A rack has 24 hashes before it distinguishes another bit, and the models add and remove some more.
    explore(300, || Model::<u64>::new(12, 22, repeated_hash(0)));
    explore(100, || Model::<U256>::new(12, 22, repeated_hash(0)));
    assert!(REPLACED.get() > 100, "{} racks were replaced", REPLACED.get());
}

/// The depth of the rack of [`neighbours`] in the first table.
fn depth(index: &Index<u64>) -> u32 {
    index.tables().all[0].rack(0, &pin()).depth()
}

/// The query and a hash near it. At the smaller depth they share a bin; at the larger depth each has its own.
fn neighbours() -> [u64; 2] {
    let query = 1 << 40 | 0x0a00;
    [query, query ^ 0x0800]
}

/// Other hashes of their rack in the first table.
fn others() -> impl Iterator<Item = u64> {
    (0..).map(|number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) << 16) | (number % 0x1000))
}

const LIMIT: usize = 8;

/// An index in which the next of the other hashes deepens the rack of the neighbours, and that hash.
fn about_to_grow() -> (Rc<Index<u64>>, u64) {
    let index = Index::with_limit(LIMIT);
    assert_eq!(index.insert_all(neighbours()), 2);
    assert_eq!(index.insert_all(others().take(2 * LIMIT - 2)), 2 * LIMIT - 2);
    (Rc::new(index), others().nth(2 * LIMIT - 2).unwrap())
}

/// An index in which the removal of a hash flattens the rack of the neighbours, and that hash.
fn about_to_shrink() -> (Rc<Index<u64>>, u64) {
    let (index, next) = about_to_grow();
    index.insert(next);
    let mut left: Vec<u64> = others().take(2 * LIMIT - 1).collect();
    // Below an eighth of 4 x LIMIT hashes the rack is flattened: the neighbours and two others stay.
    left.drain(2..).for_each(|hash| assert!(index.remove(hash)));
    (index, left[0])
}

/// Performs `act` at each step of a query in turn. The query must find each hash that stays exactly once.
fn at_every_step(make: fn() -> (Rc<Index<u64>>, u64), act: fn(&Index<u64>, u64), [before, after]: [u32; 2]) {
    for at in 0.. {
        let (index, other) = make();
        let [query, near] = neighbours();
        assert_eq!(depth(&index), before);
        let acting = Rc::clone(&index);
        INTERRUPTION.set(Some((at, Box::new(move || act(&acting, other)))));
        let mut found = Vec::new();
        let report = index.within_radii(&[1, -1, -1, -1], query, 1, &mut found);
        assert!(report.is_some());
        if INTERRUPTION.take().is_some() {
            assert!(at > 20, "a query has only {at} steps");
            return;
        }
        assert_eq!(depth(&index), after, "at step {at}");
        let mut found: Vec<u64> = found.into_iter().map(|near| near.hash).collect();
        found.sort_unstable();
        assert_eq!(found, [query.min(near), query.max(near)], "at step {at}");
    }
}

#[test]
fn a_rack_that_is_deepened_at_any_step_of_a_query_changes_no_answer() {
    at_every_step(about_to_grow, |index, other| assert!(index.insert(other)), [5, 6]);
}

#[test]
fn a_rack_that_is_flattened_at_any_step_of_a_query_changes_no_answer() {
    at_every_step(about_to_shrink, |index, other| assert!(index.remove(other)), [6, 5]);
}

/// Removed hashes are in front of those that stay, so that these move when the removed ones are dropped. The
/// query reads one end of the bin, as far as the numbers of its slot say.
#[test]
fn a_query_at_any_step_of_a_removal_that_moves_entries_finds_what_stays() {
    const QUERY: u64 = 0xc000_c000_c000_c000;
    let of_bin = |number: u64| QUERY | number << 20;
    for at in 0.. {
        let index = Rc::new(Index::<u64>::with_limit(1 << 10));
        (1..=42).for_each(|number| assert!(index.insert(of_bin(number))));
        (1..32).for_each(|number| assert!(index.remove(of_bin(number))));
        let reader = Rc::clone(&index);
        let query = move || {
            let mut found = Vec::new();
            assert!(reader.within_radii(&[0; 4], QUERY, 3, &mut found).is_some());
            found.retain(|near| near.hash != of_bin(32));
            found.sort_unstable_by_key(|near| near.hash);
            let found: Vec<u64> = found.iter().map(|near| near.hash).collect();
            let stays = (33..=42).filter(|number: &u64| number.count_ones() <= 3).map(of_bin);
            assert_eq!(found, stays.collect::<Vec<_>>(), "at step {at}");
        };
        INTERRUPTION.set(Some((at, Box::new(query))));
        assert!(index.remove(of_bin(32)));
        if INTERRUPTION.take().is_some() {
            assert!(at > 20, "a removal has only {at} steps");
            return;
        }
    }
}
