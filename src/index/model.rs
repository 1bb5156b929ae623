//! A model of the index: readers and writers take turns step by step, in orders that a scheduler draws: all
//! threads alike, or one as long as it can but for a few interruptions, which finds what needs much to happen
//! between two steps.
//!
//! A step is a load or a store that another thread may come before ([`step`]); what the index promises is
//! held against a record of what was stored when. Orders of memory that a processor may see otherwise are not
//! part of it, and of the memory that is freed only that it is not freed too early for one thread: that is
//! for the tests with threads.
//!
//! Where what matters would come about too seldom by chance, one thread does it itself at each step of a
//! query in turn ([`at_every_step`]).

#![cfg(test)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::AtomicBool;
use shuttle::{Config, Runner, thread};

use super::layout::Tables;
use super::memory::pin;
use super::{Index, Neighbour};

thread_local! {
    /// What the threads of a model read at every step, if this thread runs one. They are one thread of the
    /// system.
    static MODELLED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
    /// How many shards were replaced in models that this thread ran.
    static REPLACED: Cell<u64> = const { Cell::new(0) };
    /// What this thread does after so many steps more, as if another one came in between.
    static MEANWHILE: Cell<Option<(u64, Meanwhile)>> = const { Cell::new(None) };
}

type Meanwhile = Box<dyn FnOnce()>;

/// Whether a model runs.
pub(super) fn is_running() -> bool {
    MODELLED.with_borrow(Option::is_some)
}

/// Lets another thread come in between, if a model runs, or what is to happen meanwhile.
#[inline]
pub(super) fn step() {
    match MEANWHILE.take() {
        Some((0, act)) => act(),
        Some((more, act)) => MEANWHILE.set(Some((more - 1, act))),
        None => {}
    }
    if let Some(modelled) = MODELLED.with_borrow(Clone::clone) {
        modelled.load(Ordering::SeqCst);
    }
}

/// Counts a shard that was replaced, if a model runs.
pub(super) fn replaced() {
    if is_running() {
        REPLACED.set(REPLACED.get() + 1);
    }
}

/// Waits for the others, in a model.
pub(super) fn wait() {
    thread::yield_now();
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

/// Hashes that fall into one segment of nearly every table and share most blocks, so that threads meet in the
/// same lines.
fn hash(number: u64) -> u64 {
    // Those of the last share of a move, and of one that was moved before.
    let share = if number.is_multiple_of(2) { 0xfff0 } else { 0x8000 };
    share << 48 | 0xc000_c000_c000 | number << (16 * (number % 3))
}

/// Hashes that come and go, of each writer.
const COMING: u64 = 4;

struct Model {
    index: Index<u64>,
    /// Hashes that stay from the beginning to the end; those that come and go have the next numbers.
    staying: u64,
    record: Record,
}

impl Model {
    /// An index with the hashes that stay and, after them, those that came and went.
    fn new((buckets, three): (usize, usize), staying: u64, before: impl Iterator<Item = u64>) -> Model {
        let index = Index::with_layouts_from(buckets, three);
        index.insert_all((0..staying).map(hash));
        for other in before {
            assert!(index.insert(other) && index.remove(other));
        }
        Model { index, staying, record: Mutex::default() }
    }

    fn note(&self, number: u64, state: State) {
        self.record.lock().unwrap().push((number, state));
    }

    /// Inserts and removes some of the hashes, which no other writer touches.
    fn write(&self, writer: u64) {
        let mut is_in = [false; COMING as usize];
        for _ in 0..8 {
            let at = thread_rng().gen_range(0..is_in.len());
            let number = self.staying + COMING * writer + at as u64;
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
        let all = self.staying + 2 * COMING;
        for _ in 0..4 {
            let (query, mut k) =
                (hash(thread_rng().gen_range(0..all)), [0, 1, 3, 64][thread_rng().gen_range(0..4)]);
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
            for near in &found {
                assert!((0..all).any(|number| hash(number) == near.hash), "{near:x?} was never there");
                assert_eq!(near.distance, (near.hash ^ query).count_ones());
            }
            for number in 0..all {
                let distance = (hash(number) ^ query).count_ones();
                let times = found.iter().filter(|near| near.hash == hash(number)).count();
                let mut states = record[..begun].iter().rev().filter(|(of, _)| *of == number);
                let first = if number < self.staying { State::In } else { State::Out };
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
        if k > 3 {
            self.index.scan(query, k, found);
            return;
        }
        let mut by = |radii| self.index.within_radii(radii, query, k, found).is_some();
        assert!(by(four) || by(three), "neither four tables nor three");
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a whole number"))
}

/// Draws so many orders of two writers and two readers.
fn draw(orders: u64, make: fn() -> Model) {
    let orders = usize::try_from(number("LOOKALIKE_MODEL_ORDERS", orders)).expect("so many");
    let seed = number("LOOKALIKE_MODEL_SEED", 1);
    run(RandomScheduler::new_from_seed(seed, orders), make);
    for interruptions in [2, 4] {
        run(PctScheduler::new_from_seed(seed, interruptions, orders), make);
    }
}

fn run(scheduler: impl Scheduler + 'static, make: fn() -> Model) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    let done = Runner::new(scheduler, config).run(move || {
        // Nobody else is there yet.
        let model = Arc::new(make());
        let modelled = Arc::new(AtomicBool::new(true));
        MODELLED.set(Some(modelled));
        let writers = [0, 1].map(|writer| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.write(writer))
        });
        let readers = [(); 2].map(|()| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.read())
        });
        writers.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
        MODELLED.set(None);
    });
    eprintln!("{done} orders");
    assert!(done > 0);
}

const NEVER: usize = usize::MAX;
/// So many insertions move everything to another layout.
const MOVED: u64 = 520;

/// So many hashes of all kinds.
fn others(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|other| other.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1)
}

/// One hash again and again, which leaves so many given up entries in the buckets of the model.
fn one_again(count: usize) -> impl Iterator<Item = u64> {
    std::iter::repeat_n(hash(0) | 0x3fff, count)
}

#[test]
fn every_order_of_steps_keeps_the_promise_while_segments_are_built_anew() {
    draw(1_000, || Model::new((NEVER, NEVER), 12, others(0)));
}

#[test]
fn every_order_of_steps_keeps_it_where_a_hash_comes_back_in_another_line() {
    draw(1_000, || Model::new((NEVER, NEVER), 20, others(0)));
}

#[test]
fn every_order_of_steps_keeps_it_while_another_layout_takes_over() {
    // All shares but the last forty are moved; the rest go with the insertions of the model.
    draw(500, || Model::new((NEVER, 13), 12, others(508)));
}

#[test]
fn every_order_of_steps_keeps_it_while_buckets_get_extents() {
    draw(150, || Model::new((1, NEVER), 20, others(MOVED)));
}

#[test]
fn every_order_of_steps_keeps_it_while_shards_are_built_anew() {
    // Ten entries of a bucket and 310 of its extents, nearly all used; the next extent would be of 32 lines,
    // for which there is no room.
    draw(150, || Model::new((1, NEVER), 12, others(MOVED).chain(one_again(305))));
    assert!(REPLACED.get() > 100, "{} shards were built anew", REPLACED.get());
}

/// A hash whose first block is this one.
fn with_first_block(block: u64, number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) << 21 | block
}

/// The hashes of one shard of the first of three tables, in the order in which they come: first some in every
/// bucket, at the end those of one bucket whose extents no shard has room for.
fn one_shard() -> impl Iterator<Item = u64> {
    let spread = (0..3_700).map(|i| with_first_block(((i * 37 % 1_024) << 5) + i * 11 % 32, i));
    spread.chain((0..).map(|i| with_first_block((1_000 << 5) + i % 32, 10_000 + i)))
}

/// How many bits of its block the first shard of the first table tells apart.
fn depth(index: &Index<u64>) -> u32 {
    let pin = pin();
    let Tables::Buckets(tables) = &index.layout(&pin).tables else { return 0 };
    tables[0].shard(0, &pin).depth()
}

/// What is asked for and a hash near it: at the lesser depth they have one bucket, at the greater depth each
/// has its own.
fn neighbours() -> [u64; 2] {
    let query = with_first_block(5 << 5, 99_999);
    [query, query ^ 1 << 4]
}

/// Three tables with these neighbours.
fn three_tables() -> Index<u64> {
    let index = Index::with_layouts_from(1, 1);
    others(2 * MOVED).for_each(|other| assert!(index.insert(other) && index.remove(other)));
    assert_eq!(index.insert_all(neighbours()), 2);
    assert_eq!(depth(&index), 16);
    index
}

/// The same with so many hashes of [`one_shard`] that the next one makes the shard tell one bit more apart,
/// and that one.
fn about_to_grow() -> (Rc<Index<u64>>, u64) {
    let index = three_tables();
    // A shard can grow without telling more apart.
    let last = one_shard().position(|next| index.insert(next) && depth(&index) > 16).unwrap();
    let index = three_tables();
    assert_eq!(index.insert_all(one_shard().take(last)), last);
    (Rc::new(index), one_shard().nth(last).unwrap())
}

/// The same after it grew, with only so many left that the removal of one more makes it tell one bit less
/// apart.
fn about_to_shrink() -> (Rc<Index<u64>>, u64) {
    let remove = |stop: usize| {
        let (index, next) = about_to_grow();
        index.insert(next);
        let all: Vec<u64> = one_shard().take(index.len() - 2).collect();
        for (removed, hash) in all.iter().rev().enumerate() {
            if depth(&index) == 16 || removed == stop {
                return (index, removed, *hash);
            }
            index.remove(*hash);
        }
        panic!("it does not shrink");
    };
    let (_, removed, _) = remove(NEVER);
    let (index, _, next) = remove(removed - 1);
    (index, next)
}

/// At each step of a query the same happens; what stays must be found once.
fn at_every_step(make: fn() -> (Rc<Index<u64>>, u64), act: fn(&Index<u64>, u64), after: u32) {
    for at in 0.. {
        let (index, other) = make();
        let [query, near] = neighbours();
        let before = depth(&index);
        let acting = Rc::clone(&index);
        MEANWHILE.set(Some((at, Box::new(move || act(&acting, other)))));
        let mut found = Vec::new();
        let plan = (&[1i8, -1, -1][..], &[17u8, 21, 22][..]);
        let report = index.within_radii(plan, query, 1, &mut found);
        assert!(report.is_some());
        if MEANWHILE.take().is_some() {
            assert!(at > 20, "a query has only {at} steps");
            return;
        }
        assert_eq!((before, depth(&index)), (33 - after, after), "what happens at step {at}");
        let mut found: Vec<u64> = found.into_iter().map(|near| near.hash).collect();
        found.sort_unstable();
        assert_eq!(found, [query.min(near), query.max(near)], "at step {at}");
    }
}

#[test]
fn a_shard_that_grows_at_any_step_of_a_query_changes_no_answer() {
    at_every_step(about_to_grow, |index, other| assert!(index.insert(other)), 17);
}

#[test]
fn a_shard_that_shrinks_at_any_step_of_a_query_changes_no_answer() {
    at_every_step(about_to_shrink, |index, other| assert!(index.remove(other)), 16);
}
