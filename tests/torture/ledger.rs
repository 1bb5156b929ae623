//! The ledger: what was asked of the server and what it acknowledged, kept where no kill reaches.
//!
//! INTENT is written before a request is sent, ACK after the whole of its answer has come; REFUSED when the
//! server said that nothing was done. From the order of these alone follows in which states a document may be
//! found: those of attempts without an answer, and those of acknowledged ones that no later one replaced.
//! What is found at an audit is what is durable: later audits hold the server to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// A document as it was sent: its hash in hex, and a mark of its own that comes back in its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub hash: String,
    pub mark: u64,
}

/// What may be found under an id; `None` is nothing.
pub type State = Option<Version>;

/// Something with one state at a time, and the attempts to change it since it was last seen.
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
        // What ended before another acknowledged attempt began was replaced by it.
        let newest = self.attempts.iter().filter(|a| a.ended.is_some()).map(|a| a.begun).max().unwrap_or(0);
        self.attempts.retain(|attempt| attempt.ended.is_none_or(|ended| ended > newest));
    }

    fn drop_attempt(&mut self, begun: u64) {
        self.attempts.retain(|attempt| attempt.begun != begun);
    }

    /// The states in which it may be found.
    fn candidates(&self) -> Vec<T> {
        let untouched = self.attempts.iter().all(|attempt| attempt.ended.is_none());
        let first = untouched.then(|| self.settled.clone());
        first.into_iter().chain(self.attempts.iter().map(|attempt| attempt.state.clone())).collect()
    }
}

/// A collection: whether it is there and how wide its hashes are, and its documents.
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

/// A request that was intended and is still open.
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
    /// Whether acknowledgements do not count: the disk is known to forget.
    deaf: bool,
    collections: BTreeMap<String, Collection>,
    /// Every version ever sent: where to, and its hash.
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

/// What a collection may look like: each of the widths it may have, and each document's candidates.
pub struct Expected {
    pub bits: Vec<Option<u32>>,
    pub documents: BTreeMap<String, Vec<State>>,
}

impl Ledger {
    /// An empty ledger of a new server, which has the collection `default`, written to `path`.
    pub fn new(path: &Path) -> Ledger {
        let collections = BTreeMap::from([("default".to_owned(), Collection::of(Some(64)))]);
        Ledger(Mutex::new(Inner {
            clock: 0,
            acknowledged: 0,
            deaf: false,
            collections,
            sent: BTreeMap::new(),
            file: File::create(path).unwrap(),
        }))
    }

    /// The same knowledge in a ledger of its own, for a copy of the directory.
    pub fn fork(&self, path: &Path) -> Ledger {
        let inner = self.0.lock().unwrap();
        let inner = Inner {
            clock: inner.clock,
            acknowledged: inner.acknowledged,
            deaf: false,
            collections: inner.collections.clone(),
            sent: inner.sent.clone(),
            file: File::create(path).unwrap(),
        };
        Ledger(Mutex::new(inner))
    }

    /// A number that no other version bears.
    pub fn mark(&self) -> u64 {
        self.0.lock().unwrap().tick()
    }

    /// Before a request that gives a document this state.
    pub fn intend(&self, collection: &str, id: &str, state: State) -> Ticket {
        let mut inner = self.0.lock().unwrap();
        let begun = inner.tick();
        let told = state.as_ref().map_or_else(|| "nothing".to_owned(), |v| format!("{} #{}", v.hash, v.mark));
        inner.write(&format!("INTENT {begun} {collection}/{id} {told}\n"));
        if let Some(Version { hash, mark }) = &state {
            inner.sent.insert(*mark, (collection.to_owned(), id.to_owned(), hash.clone()));
        }
        let documents = &mut inner.collections.get_mut(collection).unwrap().documents;
        let register = documents.entry(id.to_owned()).or_insert_with(|| Register::of(None));
        register.attempts.push(Attempt { begun, ended: None, state });
        Ticket { collection: collection.to_owned(), id: Some(id.to_owned()), begun }
    }

    /// Before a request that makes a collection with hashes of this width, or deletes it.
    pub fn intend_collection(&self, collection: &str, bits: Option<u32>) -> Ticket {
        let mut inner = self.0.lock().unwrap();
        let begun = inner.tick();
        inner.write(&format!("INTENT {begun} {collection} {bits:?}\n"));
        let entry = inner.collections.entry(collection.to_owned()).or_insert_with(|| Collection::of(None));
        if bits.is_some() && entry.bits.attempts.iter().any(|attempt| attempt.state.is_none()) {
            // Made anew after a deletion that does not count as heard: it may be there without what was in it.
            for register in entry.documents.values_mut() {
                register.attempts.push(Attempt { begun, ended: None, state: None });
            }
        }
        entry.bits.attempts.push(Attempt { begun, ended: None, state: bits });
        Ticket { collection: collection.to_owned(), id: None, begun }
    }

    /// The whole answer came and says that it was done.
    pub fn acknowledge(&self, ticket: Ticket) {
        let mut inner = self.0.lock().unwrap();
        if inner.deaf {
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

    /// The answer came and says that nothing was done, or that nothing had to be (`duplicate`).
    pub fn refuse(&self, ticket: Ticket, why: &str) {
        let mut inner = self.0.lock().unwrap();
        inner.write(&format!("REFUSED {} {why}\n", ticket.begun));
        let collection = inner.collections.get_mut(&ticket.collection).unwrap();
        match &ticket.id {
            Some(id) => collection.documents.get_mut(id).unwrap().drop_attempt(ticket.begun),
            None => collection.bits.drop_attempt(ticket.begun),
        }
    }

    /// Whether a document was ever sent like this; without a mark, whether any was with its hash.
    pub fn was_sent(&self, collection: &str, id: &str, hash: &str, mark: Option<u64>) -> bool {
        let inner = self.0.lock().unwrap();
        let fits = |sent: &(String, String, String)| sent.0 == collection && sent.1 == id && sent.2 == hash;
        match mark {
            Some(mark) => inner.sent.get(&mark).is_some_and(fits),
            None => inner.sent.values().any(fits),
        }
    }

    /// How many requests for a change were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.0.lock().unwrap().acknowledged
    }

    /// What may be there.
    pub fn expected(&self) -> BTreeMap<String, Expected> {
        let inner = self.0.lock().unwrap();
        let expect = |collection: &Collection| Expected {
            bits: collection.bits.candidates(),
            documents: collection.documents.iter().map(|(id, r)| (id.clone(), r.candidates())).collect(),
        };
        inner.collections.iter().map(|(name, collection)| (name.clone(), expect(collection))).collect()
    }

    /// What was found is what is: nothing of what was intended before comes true any more.
    pub fn settle(&self, name: &str, bits: Option<u32>, found: &BTreeMap<String, Version>) {
        let mut inner = self.0.lock().unwrap();
        inner.write(&format!("SETTLED {name} {bits:?} with {} documents\n", found.len()));
        let collection = inner.collections.get_mut(name).unwrap();
        collection.bits = Register::of(bits);
        for (id, register) in &mut collection.documents {
            *register = Register::of(found.get(id).cloned());
        }
    }

    /// From now on, until all is settled, an acknowledgement may be given in vain: the intent stays open. So it is
    /// from the moment before the power is cut, of which a running kernel does not tell every caller.
    pub fn deafen(&self, line: &str) {
        self.note(line);
        self.0.lock().unwrap().deaf = true;
    }

    /// The disk remembers again.
    pub fn listen(&self) {
        self.0.lock().unwrap().deaf = false;
    }

    /// A line for whoever reads the file.
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
    fn an_acknowledged_state_replaces_those_before_and_an_intent_is_only_possible() {
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
    fn of_two_at_a_time_either_may_be_the_last_and_a_refused_one_neither() {
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
    fn a_collection_deleted_and_made_anew_unheard_may_be_empty() {
        let (_dir, ledger) = ledger();
        ledger.acknowledge(ledger.intend_collection("own", Some(128)));
        ledger.acknowledge(ledger.intend("own", "a", Some(version(1))));
        ledger.deafen("power loss");
        ledger.acknowledge(ledger.intend_collection("own", None));
        assert_eq!(ledger.expected()["own"].documents["a"], [Some(version(1))]);
        ledger.acknowledge(ledger.intend_collection("own", Some(128)));
        assert_eq!(ledger.expected()["own"].documents["a"], [Some(version(1)), None]);
    }

    #[test]
    fn with_a_collection_go_its_documents() {
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
