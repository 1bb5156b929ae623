//! The ledger: the requests to the server and their acknowledgements, kept in the process of the test,
//! which is never killed.
//!
//! INTENT is written before a request is sent, ACK after its whole answer has arrived, and REFUSED when the
//! server reports that nothing was applied. The order of these events alone determines the possible states
//! of a document: the states of attempts without an answer, and the states of acknowledged attempts that no
//! later acknowledged attempt replaced. The state that an audit finds is durable: later audits accept no
//! earlier state.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// A document as it was sent: its hash in hex, and a unique mark that is stored in its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub hash: String,
    pub mark: u64,
}

/// A possible state of an id; `None` if there is no document.
pub type State = Option<Version>;

/// A value with one state at a time, and the attempts to change it since the last audit.
#[derive(Clone, Debug)]
struct Register<T> {
    settled: T,
    attempts: Vec<Attempt<T>>,
}

#[derive(Clone, Debug)]
struct Attempt<T> {
    begun: u64,
    ended: Option<u64>,
    state: T,
}

impl<T: Clone + PartialEq> Register<T> {
    fn of(settled: T) -> Register<T> {
        Register { settled, attempts: Vec::new() }
    }

    fn end(&mut self, begun: u64, now: u64) {
        if let Some(attempt) = self.attempts.iter_mut().find(|attempt| attempt.begun == begun) {
            attempt.ended = Some(now);
        }
        // An attempt that ended before another acknowledged attempt began was replaced by the latter.
        let newest = self.attempts.iter().filter(|a| a.ended.is_some()).map(|a| a.begun).max().unwrap_or(0);
        self.attempts.retain(|attempt| attempt.ended.is_none_or(|ended| ended > newest));
    }

    fn drop_attempt(&mut self, begun: u64) {
        self.attempts.retain(|attempt| attempt.begun != begun);
    }

    /// The possible states.
    fn candidates(&self) -> Vec<T> {
        let none_acknowledged = self.attempts.iter().all(|attempt| attempt.ended.is_none());
        let first = none_acknowledged.then(|| self.settled.clone());
        first.into_iter().chain(self.attempts.iter().map(|attempt| attempt.state.clone())).collect()
    }
}

/// A collection: the width of its hashes (`None` if it does not exist), and its documents.
#[derive(Clone)]
struct Collection {
    bits: Register<Option<u32>>,
    documents: BTreeMap<String, Register<State>>,
}

impl Collection {
    fn of(bits: Option<u32>) -> Collection {
        Collection { bits: Register::of(bits), documents: BTreeMap::new() }
    }
}

/// A request whose intent is recorded and whose outcome is still open.
#[must_use = "an attempt is acknowledged, refused or left open on purpose"]
#[derive(Clone, Debug)]
pub struct Ticket {
    collection: String,
    /// The document; `None` for the collection itself.
    id: Option<String>,
    begun: u64,
}

pub struct Ledger(Mutex<Inner>);

struct Inner {
    clock: u64,
    acknowledged: u64,
    /// Whether acknowledgements do not count, because the disk may lose durable writes.
    ignores_acknowledgements: bool,
    collections: BTreeMap<String, Collection>,
    /// Every version that was sent, by mark: collection, id and hash.
    sent: BTreeMap<u64, (String, String, String)>,
    file: File,
}

impl Inner {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn write(&mut self, line: &str) {
        self.file.write_all(line.as_bytes()).unwrap();
    }
}

/// The possible states of a collection: its possible widths, and the possible states of each document.
pub struct Expected {
    pub bits: Vec<Option<u32>>,
    pub documents: BTreeMap<String, Vec<State>>,
}

impl Ledger {
    /// An empty ledger for a new server, which has the collection `default`. The events are written to
    /// `path`.
    pub fn new(path: &Path) -> Ledger {
        let collections = BTreeMap::from([("default".to_owned(), Collection::of(Some(64)))]);
        Ledger(Mutex::new(Inner {
            clock: 0,
            acknowledged: 0,
            ignores_acknowledgements: false,
            collections,
            sent: BTreeMap::new(),
            file: File::create(path).unwrap(),
        }))
    }

    /// A copy of the ledger, for a copy of the data directory.
    pub fn fork(&self, path: &Path) -> Ledger {
        let inner = self.0.lock().unwrap();
        let inner = Inner {
            clock: inner.clock,
            acknowledged: inner.acknowledged,
            ignores_acknowledgements: false,
            collections: inner.collections.clone(),
            sent: inner.sent.clone(),
            file: File::create(path).unwrap(),
        };
        Ledger(Mutex::new(inner))
    }

    /// A unique number for a version.
    pub fn mark(&self) -> u64 {
        self.0.lock().unwrap().tick()
    }

    /// Records the intent to give a document this state. Call before the request is sent.
    pub fn intend(&self, collection: &str, id: &str, state: State) -> Ticket {
        let mut inner = self.0.lock().unwrap();
        let begun = inner.tick();
        let state_text =
            state.as_ref().map_or_else(|| "nothing".to_owned(), |v| format!("{} #{}", v.hash, v.mark));
        inner.write(&format!("INTENT {begun} {collection}/{id} {state_text}\n"));
        if let Some(Version { hash, mark }) = &state {
            inner.sent.insert(*mark, (collection.to_owned(), id.to_owned(), hash.clone()));
        }
        let documents = &mut inner.collections.get_mut(collection).unwrap().documents;
        let register = documents.entry(id.to_owned()).or_insert_with(|| Register::of(None));
        register.attempts.push(Attempt { begun, ended: None, state });
        Ticket { collection: collection.to_owned(), id: Some(id.to_owned()), begun }
    }

    /// Records the intent to create a collection with hashes of this width, or to delete it. Call before
    /// the request is sent.
    pub fn intend_collection(&self, collection: &str, bits: Option<u32>) -> Ticket {
        let mut inner = self.0.lock().unwrap();
        let begun = inner.tick();
        inner.write(&format!("INTENT {begun} {collection} {bits:?}\n"));
        let entry = inner.collections.entry(collection.to_owned()).or_insert_with(|| Collection::of(None));
        if bits.is_some() && entry.bits.attempts.iter().any(|attempt| attempt.state.is_none()) {
            // Created again after a deletion that is not acknowledged: the collection may exist without its
            // former documents.
            for register in entry.documents.values_mut() {
                register.attempts.push(Attempt { begun, ended: None, state: None });
            }
        }
        entry.bits.attempts.push(Attempt { begun, ended: None, state: bits });
        Ticket { collection: collection.to_owned(), id: None, begun }
    }

    /// Records that the whole answer has arrived and reports success.
    pub fn acknowledge(&self, ticket: Ticket) {
        let mut inner = self.0.lock().unwrap();
        if inner.ignores_acknowledgements {
            return;
        }
        let now = inner.tick();
        inner.acknowledged += 1;
        inner.write(&format!("ACK {} {now}\n", ticket.begun));
        let collection = inner.collections.get_mut(&ticket.collection).unwrap();
        match &ticket.id {
            Some(id) => collection.documents.get_mut(id).unwrap().end(ticket.begun, now),
            None => {
                let deleted = |a: &Attempt<Option<u32>>| a.begun == ticket.begun && a.state.is_none();
                if collection.bits.attempts.iter().any(deleted) {
                    collection.documents.values_mut().for_each(|register| *register = Register::of(None));
                }
                collection.bits.end(ticket.begun, now);
            }
        }
    }

    /// Records that the answer reports that nothing was applied, or that nothing had to be (`duplicate`).
    pub fn refuse(&self, ticket: Ticket, reason: &str) {
        let mut inner = self.0.lock().unwrap();
        inner.write(&format!("REFUSED {} {reason}\n", ticket.begun));
        let collection = inner.collections.get_mut(&ticket.collection).unwrap();
        match &ticket.id {
            Some(id) => collection.documents.get_mut(id).unwrap().drop_attempt(ticket.begun),
            None => collection.bits.drop_attempt(ticket.begun),
        }
    }

    /// Whether a document was sent with this hash and mark; without a mark, whether any was sent with this
    /// hash.
    pub fn was_sent(&self, collection: &str, id: &str, hash: &str, mark: Option<u64>) -> bool {
        let inner = self.0.lock().unwrap();
        let is_same =
            |sent: &(String, String, String)| sent.0 == collection && sent.1 == id && sent.2 == hash;
        match mark {
            Some(mark) => inner.sent.get(&mark).is_some_and(is_same),
            None => inner.sent.values().any(is_same),
        }
    }

    /// The number of acknowledged changes.
    pub fn acknowledged(&self) -> u64 {
        self.0.lock().unwrap().acknowledged
    }

    /// The possible states of all collections.
    pub fn expected(&self) -> BTreeMap<String, Expected> {
        let inner = self.0.lock().unwrap();
        let expect = |collection: &Collection| Expected {
            bits: collection.bits.candidates(),
            documents: collection.documents.iter().map(|(id, r)| (id.clone(), r.candidates())).collect(),
        };
        inner.collections.iter().map(|(name, collection)| (name.clone(), expect(collection))).collect()
    }

    /// Sets the state of a collection to the state found by an audit. No earlier intent can take effect
    /// after this.
    pub fn settle(&self, name: &str, bits: Option<u32>, found: &BTreeMap<String, Version>) {
        let mut inner = self.0.lock().unwrap();
        inner.write(&format!("SETTLED {name} {bits:?} with {} documents\n", found.len()));
        let collection = inner.collections.get_mut(name).unwrap();
        collection.bits = Register::of(bits);
        for (id, register) in &mut collection.documents {
            *register = Register::of(found.get(id).cloned());
        }
    }

    /// Ignores acknowledgements from now on: the intents stay open. Call before a simulated power loss,
    /// after which the running kernel does not report an error to every caller.
    pub fn ignore_acknowledgements(&self, line: &str) {
        self.note(line);
        self.0.lock().unwrap().ignores_acknowledgements = true;
    }

    /// Counts acknowledgements again. Call after the power loss.
    pub fn count_acknowledgements(&self) {
        self.0.lock().unwrap().ignores_acknowledgements = false;
    }

    /// Writes a comment line to the file, for a reader of the ledger.
    pub fn note(&self, line: &str) {
        self.0.lock().unwrap().write(&format!("NOTE {line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(mark: u64) -> Version {
        Version { hash: String::new(), mark }
    }

    fn ledger() -> (tempfile::TempDir, Ledger) {
        let dir = crate::server::directory();
        let ledger = Ledger::new(&dir.path().join("ledger"));
        (dir, ledger)
    }

    fn marks(ledger: &Ledger) -> Vec<Option<u64>> {
        let states = ledger.expected()["default"].documents["a"].clone();
        states.into_iter().map(|state| state.map(|version| version.mark)).collect()
    }

    #[test]
    fn an_acknowledged_state_replaces_earlier_ones_and_an_intent_is_only_possible() {
        let (_dir, ledger) = ledger();
        let first = ledger.intend("default", "a", Some(version(1)));
        assert_eq!(marks(&ledger), [None, Some(1)]);
        ledger.acknowledge(first);
        assert_eq!(marks(&ledger), [Some(1)]);
        let _open = ledger.intend("default", "a", None);
        assert_eq!(marks(&ledger), [Some(1), None]);
        ledger.settle("default", Some(64), &BTreeMap::new());
        assert_eq!(marks(&ledger), [None]);
    }

    #[test]
    fn of_two_overlapping_attempts_either_may_be_last_and_a_refused_one_is_not() {
        let (_dir, ledger) = ledger();
        let (one, two) = (
            ledger.intend("default", "a", Some(version(1))),
            ledger.intend("default", "a", Some(version(2))),
        );
        let three = ledger.intend("default", "a", Some(version(3)));
        ledger.acknowledge(two);
        ledger.refuse(three, "busy");
        ledger.acknowledge(one);
        assert_eq!(marks(&ledger), [Some(1), Some(2)]);
        ledger.acknowledge(ledger.intend("default", "a", Some(version(4))));
        assert_eq!(marks(&ledger), [Some(4)]);
    }

    #[test]
    fn a_collection_recreated_without_acknowledgement_may_be_empty() {
        let (_dir, ledger) = ledger();
        ledger.acknowledge(ledger.intend_collection("own", Some(128)));
        ledger.acknowledge(ledger.intend("own", "a", Some(version(1))));
        ledger.ignore_acknowledgements("power loss");
        ledger.acknowledge(ledger.intend_collection("own", None));
        assert_eq!(ledger.expected()["own"].documents["a"], [Some(version(1))]);
        ledger.acknowledge(ledger.intend_collection("own", Some(128)));
        assert_eq!(ledger.expected()["own"].documents["a"], [Some(version(1)), None]);
    }

    #[test]
    fn deletion_of_a_collection_deletes_its_documents() {
        let (_dir, ledger) = ledger();
        ledger.acknowledge(ledger.intend_collection("own", Some(128)));
        ledger.acknowledge(ledger.intend("own", "a", Some(version(1))));
        let deletion = ledger.intend_collection("own", None);
        assert_eq!(ledger.expected()["own"].bits, [Some(128), None]);
        ledger.acknowledge(deletion);
        assert_eq!(ledger.expected()["own"].bits, [None]);
        assert_eq!(ledger.expected()["own"].documents["a"], [None]);
    }
}
