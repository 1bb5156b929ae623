//! How long a document is stored: without an end, until it expires, or until a planned deletion.
//!
//! *Absent*: who removes a document whose time is over (the engine).

use serde::{Deserialize, Serialize};

/// How long a document is stored. Its bytes are those of an optional expiry time, with one more form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// It does not expire.
    #[default]
    Endless,
    /// It expires at this time, in milliseconds since 1970-01-01 UTC.
    Until(u64),
    /// Its deletion is planned for the time `at_ms`. If that is cancelled, it expires at `expires_ms`, or
    /// never.
    Planned {
        /// When it is deleted.
        at_ms: u64,
        /// When it expires otherwise.
        expires_ms: Option<u64>,
    },
}

impl From<Option<u64>> for Lifetime {
    fn from(expires_ms: Option<u64>) -> Lifetime {
        expires_ms.map_or(Lifetime::Endless, Lifetime::Until)
    }
}

impl Lifetime {
    /// The time from which the document is in no answer, if there is one.
    pub fn end_ms(self) -> Option<u64> {
        match self {
            Lifetime::Endless => None,
            Lifetime::Until(at_ms) | Lifetime::Planned { at_ms, .. } => Some(at_ms),
        }
    }

    /// The time of the planned deletion.
    pub fn deletion_ms(self) -> Option<u64> {
        if let Lifetime::Planned { at_ms, .. } = self { Some(at_ms) } else { None }
    }

    /// The lifetime with a planned deletion. An expiry, or an earlier plan, that comes first keeps its time.
    #[must_use]
    pub fn planned(self, at_ms: u64) -> Lifetime {
        let at_ms = self.end_ms().map_or(at_ms, |end_ms| end_ms.min(at_ms));
        Lifetime::Planned { at_ms, expires_ms: self.cancelled().end_ms() }
    }

    /// The lifetime without a planned deletion.
    #[must_use]
    pub fn cancelled(self) -> Lifetime {
        if let Lifetime::Planned { expires_ms, .. } = self { expires_ms.into() } else { self }
    }

    /// Whether it is over at this time.
    pub fn is_over(self, now_ms: u64) -> bool {
        self.end_ms().is_some_and(|at_ms| at_ms <= now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_plan_the_bytes_are_those_of_an_optional_time() {
        for expires_ms in [None, Some(0), Some(1_700_000_000_000), Some(u64::MAX)] {
            let bytes = postcard::to_stdvec(&expires_ms).unwrap();
            assert_eq!(postcard::to_stdvec(&Lifetime::from(expires_ms)).unwrap(), bytes);
            assert_eq!(postcard::from_bytes::<Lifetime>(&bytes).unwrap(), expires_ms.into());
        }
        let planned = postcard::to_stdvec(&Lifetime::Planned { at_ms: 5, expires_ms: Some(9) }).unwrap();
        assert_eq!(planned, [2, 5, 1, 9]);
    }

    #[test]
    fn a_plan_can_be_cancelled_and_moves_no_earlier_end() {
        for before in [Lifetime::Endless, Lifetime::Until(3), Lifetime::Until(30)] {
            let planned = before.planned(10);
            assert_eq!(planned.end_ms(), Some(before.end_ms().unwrap_or(10).min(10)));
            assert_eq!((planned.cancelled(), planned.planned(20)), (before, planned));
            assert_eq!(planned.planned(1).cancelled(), before);
            assert!(planned.is_over(10) && !planned.is_over(2) && before.deletion_ms().is_none());
        }
    }
}
