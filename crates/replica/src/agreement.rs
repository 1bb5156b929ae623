//! Whether the replicas agree: each publishes the digest of its state at some positions of the
//! log, and compares it with those of the others.
//!
//! *Guarantees*
//! - A server that differs from more servers than agree with it is outvoted. It cannot become a majority
//!   again by itself.
//! - If neither side has more servers, the standing is disputed on both: nobody knows which is right.
//! - A server that publishes no digest has no vote. One that has not published a
//!   position yet may delay the verdict for [`PATIENCE`].
//!
//! *Absent*: what follows from the standing (`standing`), and how the digests get here.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use lookalike_engine::{Digest, StateDigest};

/// How long the vote of a live server is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of digests of another server that are remembered.
const REMEMBERED: usize = 1_024;

/// The digests that another server has published.
#[derive(Clone, Debug)]
pub(super) struct Published {
    /// Its name.
    pub(super) server: String,
    /// Its start; digests of an earlier one say nothing about it.
    pub(super) start: String,
    pub(super) position: u64,
    pub(super) digest: Digest,
}

/// How this server stands to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is no position at which another one can be compared.
    Unknown,
    /// It agrees with the majority, or with all that are known, at this position.
    Agrees(u64),
    /// It differs from others, and the votes of further ones are missing.
    Open,
    /// It differs from as many servers as agree with it.
    Disputed(Difference),
    /// It differs from more servers than agree with it.
    Outvoted(Difference),
}

/// Where this server differs, and from whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) position: u64,
    pub(super) servers: Vec<String>,
}

/// The digests of the other servers.
#[derive(Default)]
pub(super) struct Agreement {
    others: BTreeMap<String, Other>,
    /// Since when votes are missing.
    open: Option<Instant>,
}

struct Other {
    start: String,
    digests: BTreeMap<u64, Digest>,
}

impl Agreement {
    /// Takes what all other live servers have published. Those that are not among them have no vote any
    /// more.
    pub(super) fn observe(&mut self, published: Vec<Published>) {
        self.others.retain(|name, _| published.iter().any(|one| one.server == *name));
        for Published { server, start, position, digest } in published {
            let new = || Other { start: start.clone(), digests: BTreeMap::new() };
            let other = self.others.entry(server).or_insert_with(new);
            if other.start != start {
                *other = new();
            }
            other.digests.insert(position, digest);
            if other.digests.len() > REMEMBERED {
                other.digests.pop_first();
            }
        }
    }

    /// Whether no other server publishes digests.
    pub(super) fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// The standing of a server with these digests.
    pub(super) fn standing(&mut self, own: &VecDeque<StateDigest>, now: Instant) -> Standing {
        let standing = self.worst(own, true);
        if standing != Standing::Open {
            self.open = None;
            return standing;
        }
        let since = *self.open.get_or_insert(now);
        if now.duration_since(since) < PATIENCE { standing } else { self.worst(own, false) }
    }

    /// The worst standing at any position, and the latest of equal ones.
    fn worst(&self, own: &VecDeque<StateDigest>, waits: bool) -> Standing {
        let standings = own.iter().map(|noted| self.at(noted.position, noted.digest, waits));
        standings
            .fold(Standing::Unknown, |worst, next| if next.rank() >= worst.rank() { next } else { worst })
    }

    /// The standing at a position. If it `waits`, servers whose votes are missing could be on either side.
    fn at(&self, position: u64, own: Digest, waits: bool) -> Standing {
        let (mut agreeing, mut missing) = (1, 0);
        let mut differing = BTreeMap::<Digest, Vec<&String>>::new();
        for (name, other) in &self.others {
            match other.digests.get(&position) {
                Some(digest) if *digest == own => agreeing += 1,
                Some(digest) => differing.entry(*digest).or_default().push(name),
                None => missing += usize::from(waits),
            }
        }
        let Some(most) = differing.values().map(Vec::len).max() else {
            return if agreeing > 1 { Standing::Agrees(position) } else { Standing::Unknown };
        };
        let servers = differing.into_values().flatten().cloned().collect();
        let difference = Difference { position, servers };
        match () {
            () if most > agreeing + missing => Standing::Outvoted(difference),
            () if agreeing > most + missing => Standing::Agrees(position),
            () if missing > 0 => Standing::Open,
            () => Standing::Disputed(difference),
        }
    }
}

impl Standing {
    /// The severity of the standing; a greater one is worse.
    fn rank(&self) -> u8 {
        match self {
            Standing::Unknown => 0,
            Standing::Agrees(_) => 1,
            Standing::Open => 2,
            Standing::Disputed(_) => 3,
            Standing::Outvoted(_) => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(value: u8) -> Digest {
        format!("{value:x}").parse().unwrap()
    }

    fn own(digests: &[(u64, u8)]) -> VecDeque<StateDigest> {
        let noted = Instant::now();
        digests
            .iter()
            .map(|&(position, value)| StateDigest { position, digest: digest(value), noted })
            .collect()
    }

    /// Each other server as name, start, position, digest.
    fn observe(agreement: &mut Agreement, others: &[(&str, u8, u64, u8)]) {
        let published = |&(server, start, position, value): &(&str, u8, u64, u8)| Published {
            server: server.to_owned(),
            start: start.to_string(),
            position,
            digest: digest(value),
        };
        agreement.observe(others.iter().map(published).collect());
    }

    fn differs(position: u64, servers: &[&str]) -> Difference {
        Difference { position, servers: servers.iter().map(|&name| name.to_owned()).collect() }
    }

    #[test]
    fn the_majority_decides_and_a_tie_does_not() {
        let now = Instant::now();
        let standing = |others: &[(&str, u8, u64, u8)]| {
            let mut agreement = Agreement::default();
            observe(&mut agreement, others);
            agreement.standing(&own(&[(5, 1), (9, 2)]), now)
        };
        assert_eq!(standing(&[]), Standing::Unknown);
        assert_eq!(standing(&[("b", 0, 7, 9)]), Standing::Unknown);
        assert_eq!(standing(&[("b", 0, 9, 2)]), Standing::Agrees(9));
        assert_eq!(standing(&[("b", 0, 5, 1), ("c", 0, 9, 2)]), Standing::Agrees(9));
        assert_eq!(standing(&[("b", 0, 9, 2), ("c", 0, 9, 3)]), Standing::Agrees(9));
        assert_eq!(standing(&[("b", 0, 9, 3)]), Standing::Disputed(differs(9, &["b"])));
        let both = [("b", 0, 9, 3), ("c", 0, 9, 3)];
        assert_eq!(standing(&both), Standing::Outvoted(differs(9, &["b", "c"])));
        // Three servers, three states.
        assert_eq!(standing(&[("b", 0, 9, 3), ("c", 0, 9, 4)]), Standing::Disputed(differs(9, &["b", "c"])));
        let two_to_two = [("b", 0, 9, 2), ("c", 0, 9, 4), ("d", 0, 9, 4)];
        assert_eq!(standing(&two_to_two), Standing::Disputed(differs(9, &["c", "d"])));
        // The vote of c is missing, and could decide.
        assert_eq!(standing(&[("b", 0, 9, 3), ("c", 0, 7, 4)]), Standing::Open);
    }

    #[test]
    fn a_missing_vote_is_waited_for_and_a_restart_begins_anew() {
        let (begun, own) = (Instant::now(), own(&[(9, 2)]));
        let mut agreement = Agreement::default();
        observe(&mut agreement, &[("b", 0, 9, 3), ("c", 0, 7, 4)]);
        assert_eq!(agreement.standing(&own, begun), Standing::Open);
        let later = begun + 2 * PATIENCE;
        assert_eq!(agreement.standing(&own, later), Standing::Disputed(differs(9, &["b"])));
        // What b published before is remembered while it goes on.
        observe(&mut agreement, &[("b", 0, 11, 3), ("c", 0, 9, 3)]);
        assert_eq!(agreement.standing(&own, later), Standing::Outvoted(differs(9, &["b", "c"])));
        observe(&mut agreement, &[("b", 1, 11, 3), ("c", 0, 9, 2)]);
        assert_eq!(agreement.standing(&own, later), Standing::Agrees(9));
        observe(&mut agreement, &[]);
        assert_eq!(agreement.standing(&own, later), Standing::Unknown);
    }
}
