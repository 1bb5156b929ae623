//! Histories and their judge: is there an order of all operations on an id, each within its time, that explains
//! every answer? (Wing and Gong's search, with Lowe's memory of configurations seen.)
//!
//! An operation whose answer never came took effect before the process died, or never.

use std::collections::HashSet;

/// What was done to one id, and what the answer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Written with this mark; whether the answer was `updated` (the id was there).
    Put { mark: u64, was_there: Option<bool> },
    /// Deleted; whether the answer was that it had been there.
    Delete { was_there: Option<bool> },
    /// Read, by id or in the answer of a query: the mark that was seen, if any.
    Get(Option<u64>),
}

/// An operation and when it was under way, by a clock that all clients share.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub begun: u64,
    /// When its answer came; for one without an answer, when the process died.
    pub ended: u64,
    pub answered: bool,
    pub action: Action,
}

/// The state of an id: the mark of its document.
type State = Option<u64>;

impl Action {
    /// The state after it, or `None` if its answer does not fit the state before it.
    fn apply(self, state: State) -> Option<State> {
        let fits = |was_there: Option<bool>| was_there.is_none_or(|was| was == state.is_some());
        match self {
            Action::Put { mark, was_there } => fits(was_there).then_some(Some(mark)),
            Action::Delete { was_there } => fits(was_there).then_some(None),
            Action::Get(seen) => (seen == state).then_some(state),
        }
    }
}

/// Whether some order explains the history of an id that is not there at first.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| operation.begun);
    let mut search = Search { operations, seen: HashSet::new() };
    let none = vec![false; search.operations.len()];
    search.from(none, None, 0)
}

struct Search {
    operations: Vec<Operation>,
    /// Configurations that lead nowhere.
    seen: HashSet<(Vec<bool>, State)>,
}

impl Search {
    /// Whether the operations not yet `done` can be ordered from here; `latest`: when the last of those done began.
    fn from(&mut self, done: Vec<bool>, state: State, latest: u64) -> bool {
        let open: Vec<usize> = (0..done.len()).filter(|&place| !done[place]).collect();
        let must = open.iter().filter(|&&place| self.operations[place].answered);
        // Nothing that began after another one ended may come before it.
        let Some(first_end) = must.map(|&place| self.operations[place].ended).min() else {
            return true;
        };
        if !self.seen.insert((done.clone(), state)) {
            return false;
        }
        for place in open {
            let operation = self.operations[place];
            if operation.begun > first_end {
                break;
            }
            // What had no answer when the process died does not take effect after that.
            if !operation.answered && operation.ended < latest {
                continue;
            }
            if let Some(next) = operation.action.apply(state) {
                let mut done = done.clone();
                done[place] = true;
                if self.from(done, next, latest.max(operation.begun)) {
                    return true;
                }
            }
        }
        false
    }
}

/// What became of one of several near-duplicates offered at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    Created(String),
    /// It duplicates this one.
    Duplicate(String),
    /// The process died before the answer.
    Open(String),
}

/// Whether one offer has won and all others know it; `stored`: the ids found afterwards.
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
    let own = |offer: &&Offer| matches!(offer, Offer::Created(id) | Offer::Open(id) if id == winner);
    offers.iter().any(|offer| own(&offer)).then_some(()).ok_or_else(|| format!("{winner} was not offered"))
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
    fn histories_that_can_be_explained_are() {
        let good: &[&[Operation]] = &[
            &[],
            &[
                answered(1, 2, Action::Get(None)),
                answered(3, 4, put(1)),
                answered(5, 6, Action::Get(Some(1))),
            ],
            // Two at a time: either may be the last.
            &[answered(1, 4, put(1)), answered(2, 3, put(2)), answered(5, 6, Action::Get(Some(1)))],
            &[answered(1, 4, put(1)), answered(2, 3, put(2)), answered(5, 6, Action::Get(Some(2)))],
            // Seen before it is acknowledged, by one reader, and not by another that began before.
            &[
                answered(1, 9, put(1)),
                answered(2, 5, Action::Get(None)),
                answered(3, 4, Action::Get(Some(1))),
            ],
            // Without an answer: it took effect, or it did not.
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
    fn histories_that_cannot_be_are_refused() {
        let bad: &[&[Operation]] = &[
            // Acknowledged, and lost.
            &[answered(1, 2, put(1)), answered(3, 4, Action::Get(None))],
            // Deleted, and there again.
            &[answered(1, 2, put(1)), answered(3, 4, DELETE), answered(5, 6, Action::Get(Some(1)))],
            // Never written.
            &[answered(1, 2, Action::Get(Some(7)))],
            // Read before it was sent.
            &[answered(1, 2, Action::Get(Some(1))), answered(3, 4, put(1))],
            // The older of two, one after the other.
            &[answered(1, 2, put(1)), answered(3, 4, put(2)), answered(5, 6, Action::Get(Some(1)))],
            // Seen, and then not seen any more, while nobody deletes.
            &[
                answered(1, 9, put(1)),
                answered(2, 3, Action::Get(Some(1))),
                answered(4, 5, Action::Get(None)),
            ],
            // Two see each other's write as the older one.
            &[answered(1, 2, put(1)), answered(3, 4, Action::Put { mark: 2, was_there: Some(false) })],
            // Shown before the crash, taken back by it.
            &[open(1, 5, put(1)), answered(2, 3, Action::Get(Some(1))), answered(6, 7, Action::Get(None))],
            // Without an answer, not there after the start, and there later.
            &[open(1, 5, put(1)), answered(6, 7, Action::Get(None)), answered(8, 9, Action::Get(Some(1)))],
            // One deletion acknowledged twice.
            &[answered(1, 2, put(1)), answered(3, 5, DELETE), answered(4, 6, DELETE)],
        ];
        bad.iter().for_each(|history| assert!(!is_linearizable(history), "{history:?}"));
    }

    #[test]
    fn of_near_duplicates_one_wins_and_all_others_name_it() {
        let id = |name: &str| name.to_owned();
        let (won, lost) = (Offer::Created(id("a")), Offer::Duplicate(id("a")));
        assert!(has_one_winner(&[won.clone(), lost.clone()], &[id("a")]).is_ok());
        assert!(has_one_winner(&[Offer::Open(id("a")), lost.clone()], &[id("a")]).is_ok());
        assert!(has_one_winner(&[Offer::Open(id("a")), Offer::Open(id("b"))], &[]).is_ok());
        // Lost after it was acknowledged, or after another was told of it.
        assert!(has_one_winner(&[won.clone(), Offer::Open(id("b"))], &[]).is_err());
        assert!(has_one_winner(&[lost.clone(), Offer::Open(id("a"))], &[]).is_err());
        // Two winners; the wrong one named; one that nobody offered.
        assert!(has_one_winner(&[won.clone(), Offer::Created(id("b"))], &[id("a"), id("b")]).is_err());
        assert!(has_one_winner(&[won.clone(), Offer::Created(id("b"))], &[id("a")]).is_err());
        assert!(has_one_winner(&[won, Offer::Duplicate(id("b"))], &[id("a")]).is_err());
        assert!(has_one_winner(&[Offer::Open(id("b")), lost], &[id("a")]).is_err());
    }
}
