//! A linearizability checker for histories of one id: it searches an order of all operations, each between
//! its start and its end, that explains every answer. The algorithm is Wing and Gong's search with Lowe's
//! cache of visited configurations.
//!
//! An operation without an answer took effect before the process died, or never.

use std::collections::HashSet;

/// An action on one id, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A write with this mark, and whether the answer was `updated` (the id existed); `None` without an
    /// answer.
    Put { mark: u64, was_there: Option<bool> },
    /// A deletion, and whether the answer was that the id existed; `None` without an answer.
    Delete { was_there: Option<bool> },
    /// A read, by id or in the answer of a query, with the mark that was returned, if any.
    Get(Option<u64>),
}

/// An operation and its interval, by a clock that all clients share.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub begun: u64,
    /// The time of its answer; without an answer, the time at which the process died.
    pub ended: u64,
    pub answered: bool,
    pub action: Action,
}

/// The state of an id: the mark of its document.
type State = Option<u64>;

impl Action {
    /// The state after the action, or `None` if its answer contradicts the state before it.
    fn apply(self, state: State) -> Option<State> {
        let is_consistent = |was_there: Option<bool>| was_there.is_none_or(|was| was == state.is_some());
        match self {
            Action::Put { mark, was_there } => is_consistent(was_there).then_some(Some(mark)),
            Action::Delete { was_there } => is_consistent(was_there).then_some(None),
            Action::Get(visited) => (visited == state).then_some(state),
        }
    }
}

/// Whether some order explains the history of an id that does not exist at first.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| operation.begun);
    let mut search = Search { operations, visited: HashSet::new() };
    let none = vec![false; search.operations.len()];
    search.from(none, None, 0)
}

struct Search {
    operations: Vec<Operation>,
    /// Visited configurations, from which no order was found.
    visited: HashSet<(Vec<bool>, State)>,
}

impl Search {
    /// Whether the operations that are not yet `done` can be ordered from here. `latest` is the latest
    /// start of an operation that is done.
    fn from(&mut self, done: Vec<bool>, state: State, latest: u64) -> bool {
        let open: Vec<usize> = (0..done.len()).filter(|&index| !done[index]).collect();
        let answered_ones = open.iter().filter(|&&index| self.operations[index].answered);
        // An operation that began after the end of another one must be ordered after it.
        let Some(first_end) = answered_ones.map(|&index| self.operations[index].ended).min() else {
            return true;
        };
        if !self.visited.insert((done.clone(), state)) {
            return false;
        }
        for index in open {
            let operation = self.operations[index];
            if operation.begun > first_end {
                break;
            }
            // An operation without an answer cannot take effect after the process died.
            if !operation.answered && operation.ended < latest {
                continue;
            }
            if let Some(next) = operation.action.apply(state) {
                let mut done = done.clone();
                done[index] = true;
                if self.from(done, next, latest.max(operation.begun)) {
                    return true;
                }
            }
        }
        false
    }
}

/// The outcome of one of several concurrent near-duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    Created(String),
    /// A duplicate of this id.
    Duplicate(String),
    /// The process died before the answer.
    Open(String),
}

/// Checks that exactly one offer is stored and that all others name it. `stored` has the ids found
/// afterwards.
pub fn has_one_winner(offers: &[Offer], stored: &[String]) -> Result<(), String> {
    let all_open = offers.iter().all(|offer| matches!(offer, Offer::Open(_)));
    let winner = match stored {
        [] if all_open => return Ok(()),
        [winner] => winner,
        _ => return Err(format!("{} are stored: {stored:?} of {offers:?}", stored.len())),
    };
    for offer in offers {
        match offer {
            Offer::Created(id) if id != winner => {
                return Err(format!("{id} was created and {winner} is stored"));
            }
            Offer::Duplicate(of) if of != winner => {
                return Err(format!("a duplicate of {of}, and {winner} is stored"));
            }
            _ => {}
        }
    }
    let names_winner = |offer: &&Offer| matches!(offer, Offer::Created(id) | Offer::Open(id) if id == winner);
    offers
        .iter()
        .any(|offer| names_winner(&offer))
        .then_some(())
        .ok_or_else(|| format!("{winner} was not offered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(begun: u64, ended: u64, action: Action) -> Operation {
        Operation { begun, ended, answered: true, action }
    }

    fn open(begun: u64, died: u64, action: Action) -> Operation {
        Operation { begun, ended: died, answered: false, action }
    }

    fn put(mark: u64) -> Action {
        Action::Put { mark, was_there: None }
    }

    const DELETE: Action = Action::Delete { was_there: Some(true) };

    #[test]
    fn linearizable_histories_are_accepted() {
        let good: &[&[Operation]] = &[
            &[],
            &[
                answered(1, 2, Action::Get(None)),
                answered(3, 4, put(1)),
                answered(5, 6, Action::Get(Some(1))),
            ],
            // Two concurrent writes: either may be the last.
            &[answered(1, 4, put(1)), answered(2, 3, put(2)), answered(5, 6, Action::Get(Some(1)))],
            &[answered(1, 4, put(1)), answered(2, 3, put(2)), answered(5, 6, Action::Get(Some(2)))],
            // Read before it is acknowledged by one reader, and not by another one that began earlier.
            &[
                answered(1, 9, put(1)),
                answered(2, 5, Action::Get(None)),
                answered(3, 4, Action::Get(Some(1))),
            ],
            // Without an answer: the write took effect, or it did not.
            &[open(1, 5, put(1)), answered(6, 7, Action::Get(Some(1)))],
            &[open(1, 5, put(1)), answered(6, 7, Action::Get(None))],
            &[
                answered(1, 2, put(1)),
                open(3, 5, Action::Delete { was_there: None }),
                answered(6, 7, Action::Put { mark: 2, was_there: Some(false) }),
            ],
        ];
        good.iter().for_each(|history| assert!(is_linearizable(history), "{history:?}"));
    }

    #[test]
    fn other_histories_are_refused() {
        let bad: &[&[Operation]] = &[
            // Acknowledged, and lost.
            &[answered(1, 2, put(1)), answered(3, 4, Action::Get(None))],
            // Deleted, and found again.
            &[answered(1, 2, put(1)), answered(3, 4, DELETE), answered(5, 6, Action::Get(Some(1)))],
            // Never written.
            &[answered(1, 2, Action::Get(Some(7)))],
            // Read before it was sent.
            &[answered(1, 2, Action::Get(Some(1))), answered(3, 4, put(1))],
            // Two sequential writes, and the older one is read.
            &[answered(1, 2, put(1)), answered(3, 4, put(2)), answered(5, 6, Action::Get(Some(1)))],
            // Read, and later not found, without a deletion.
            &[
                answered(1, 9, put(1)),
                answered(2, 3, Action::Get(Some(1))),
                answered(4, 5, Action::Get(None)),
            ],
            // The second write reports that the id did not exist.
            &[answered(1, 2, put(1)), answered(3, 4, Action::Put { mark: 2, was_there: Some(false) })],
            // Read before the crash, and lost by it.
            &[open(1, 5, put(1)), answered(2, 3, Action::Get(Some(1))), answered(6, 7, Action::Get(None))],
            // Without an answer, not found after the restart, and found later.
            &[open(1, 5, put(1)), answered(6, 7, Action::Get(None)), answered(8, 9, Action::Get(Some(1)))],
            // One deletion acknowledged twice.
            &[answered(1, 2, put(1)), answered(3, 5, DELETE), answered(4, 6, DELETE)],
        ];
        bad.iter().for_each(|history| assert!(!is_linearizable(history), "{history:?}"));
    }

    #[test]
    fn of_near_duplicates_one_is_stored_and_all_others_name_it() {
        let id = |name: &str| name.to_owned();
        let (won, lost) = (Offer::Created(id("a")), Offer::Duplicate(id("a")));
        assert!(has_one_winner(&[won.clone(), lost.clone()], &[id("a")]).is_ok());
        assert!(has_one_winner(&[Offer::Open(id("a")), lost.clone()], &[id("a")]).is_ok());
        assert!(has_one_winner(&[Offer::Open(id("a")), Offer::Open(id("b"))], &[]).is_ok());
        // Lost after it was acknowledged, or after another answer named it.
        assert!(has_one_winner(&[won.clone(), Offer::Open(id("b"))], &[]).is_err());
        assert!(has_one_winner(&[lost.clone(), Offer::Open(id("a"))], &[]).is_err());
        // Two winners; the wrong winner named; a winner that was not offered.
        assert!(has_one_winner(&[won.clone(), Offer::Created(id("b"))], &[id("a"), id("b")]).is_err());
        assert!(has_one_winner(&[won.clone(), Offer::Created(id("b"))], &[id("a")]).is_err());
        assert!(has_one_winner(&[won, Offer::Duplicate(id("b"))], &[id("a")]).is_err());
        assert!(has_one_winner(&[Offer::Open(id("b")), lost], &[id("a")]).is_err());
    }
}
