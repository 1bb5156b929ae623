//! A model of the index: readers and writers take turns step by step, in orders that a scheduler draws.
//!
//! A step is a load or a store that another thread may come before ([`step`]); what the index promises is held against a
//! record of what was stored when. Orders of memory that a processor may see otherwise are not part of it, and of the
//! memory that is freed only that it is not freed too early for one thread: that is for the tests with threads.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner, thread};

use super::memory::pin;
use super::{Index, Neighbour};

thread_local! {
    /// Whether this thread runs a model. All threads of a model are one thread of the system.
    static MODELLED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a model runs.
pub(super) fn is_running() -> bool {
    MODELLED.get()
}

/// Lets another thread come in between, if a model runs.
#[inline]
pub(super) fn step() {
    if is_running() {
        thread::yield_now();
    }
}

/// What a hash is about to become or has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    Coming,
    In,
    Going,
}

/// What happened to which hash, in order. Nobody steps while it is locked.
type Record = Mutex<Vec<(u64, State)>>;

/// Hashes that fall into one segment of every table and share most blocks, so that threads meet in the same lines.
fn hash(number: u64) -> u64 {
    // The last share of a move.
    0xfff0_c000_c000_c000 | number << (16 * (number % 3))
}

/// Hashes that stay from the beginning to the end, and those that come and go.
const STAYING: u64 = 9;
const ALL: u64 = 17;

struct Model {
    index: Index<u64>,
    record: Record,
}

impl Model {
    /// An index with the hashes that stay and, before them, so many that came and went.
    fn new(three_from: usize, before: u64) -> Model {
        let index = Index::with_three_tables_from(three_from);
        index.insert_all((0..STAYING).map(hash));
        for other in 0..before {
            let other = other.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
            assert!(index.insert(other) && index.remove(other));
        }
        Model { index, record: Mutex::default() }
    }

    fn note(&self, number: u64, state: State) {
        self.record.lock().unwrap().push((number, state));
    }

    /// Inserts and removes some of the hashes, which no other writer touches.
    fn write(&self, own: &[u64]) {
        let mut is_in = vec![false; own.len()];
        for _ in 0..6 {
            let at = thread_rng().gen_range(0..own.len());
            let number = own[at];
            if is_in[at] {
                self.note(number, State::Going);
                assert!(self.index.remove(hash(number)));
                self.note(number, State::Out);
            } else {
                self.note(number, State::Coming);
                if thread_rng().gen_bool(0.5) {
                    assert!(self.index.insert(hash(number)));
                } else {
                    assert_eq!(self.index.insert_all([hash(number), hash(number), hash(0)]), 1);
                }
                self.note(number, State::In);
            }
            is_in[at] = !is_in[at];
        }
    }

    /// Asks, and holds the answer against what was stored from before until after.
    fn read(&self) {
        for _ in 0..2 {
            let (query, mut k) = (hash(thread_rng().gen_range(0..ALL)), thread_rng().gen_range(0..4));
            let begun = self.record.lock().unwrap().len();
            let mut found = Vec::new();
            match thread_rng().gen_range(0..4) {
                0 => drop(self.index.scan(query, k, &mut found)),
                1 => drop(self.index.within(query, k, &mut found)),
                2 => {
                    k = 0;
                    found
                        .extend(self.index.contains(query).then_some(Neighbour { distance: 0, hash: query }));
                }
                _ => self.probe(query, k, &mut found),
            }
            let record = self.record.lock().unwrap().clone();
            for number in 0..ALL {
                let distance = (hash(number) ^ query).count_ones();
                let times = found.iter().filter(|near| near.hash == hash(number)).count();
                let mut states = record[..begun].iter().rev().filter(|(of, _)| *of == number);
                let first = if number < STAYING { State::In } else { State::Out };
                let before = states.next().map_or(first, |(_, state)| *state);
                let stays = !record[begun..].iter().any(|(of, _)| *of == number);
                assert!(times <= 1, "{number} was found {times} times; {record:?}");
                match before {
                    State::In if stays && distance <= k => {
                        assert_eq!(times, 1, "{number} was missed, k = {k}, from {begun}; {record:?}");
                    }
                    State::Out if stays => {
                        assert_eq!(times, 0, "{number} was not there, k = {k}, from {begun}; {record:?}");
                    }
                    _ => assert!(times == 0 || distance <= k),
                }
            }
        }
    }

    /// By the tables, which so few hashes would not be worth.
    fn probe(&self, query: u64, k: u32, found: &mut Vec<Neighbour<u64>>) {
        let four = (&[0i8, 0, 0, 0][..], &[16u8, 16, 16, 16][..]);
        let three = (&[0i8, 1, 0][..], &[21u8, 21, 22][..]);
        let probed = self.index.within_radii(four, query, k, found);
        if probed.is_none() && self.index.within_radii(three, query, k, found).is_none() {
            panic!("neither four tables nor three");
        }
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a whole number"))
}

/// Draws so many orders of two writers and two readers.
fn draw(orders: u64, make: fn() -> Model) {
    let orders = usize::try_from(number("LOOKALIKE_MODEL_ORDERS", orders)).expect("so many");
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    let scheduler = RandomScheduler::new_from_seed(number("LOOKALIKE_MODEL_SEED", 1), orders);
    let done = Runner::new(scheduler, config).run(move || {
        MODELLED.set(false);
        let model = Arc::new(make());
        MODELLED.set(true);
        let own = [[9, 10, 11, 12], [13, 14, 15, 16]];
        let writers = own.map(|own| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.write(&own))
        });
        let readers = [(); 2].map(|()| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.read())
        });
        writers.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
        MODELLED.set(false);
    });
    MODELLED.set(false);
    drop(pin());
    eprintln!("{done} orders");
    assert_eq!(done, orders);
}

#[test]
fn every_order_of_steps_keeps_the_promise() {
    draw(3_000, || Model::new(usize::MAX, 0));
}

#[test]
fn every_order_of_steps_keeps_it_while_another_layout_takes_over() {
    // Two thirds of the shares are moved, and the rest goes with the insertions of the model.
    draw(1_500, || Model::new(10, 508));
}
