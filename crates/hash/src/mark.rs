//! Marks of documents as no duplicates.

use super::names::DocumentId;

/// What a user marks as "not a duplicate": a pair of documents that are no duplicates of each other, or a
/// document that is no duplicate of any other. Marks of pairs have no order.
///
/// Marks are ordered by the smaller id, then by the other one; the mark of the document itself comes first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    id: DocumentId,
    other: Option<DocumentId>,
}

impl Mark {
    /// The mark of one document.
    pub fn of(id: DocumentId) -> Mark {
        Mark { id, other: None }
    }

    /// The mark of a pair; `None` if both are the same document.
    pub fn pair(a: DocumentId, b: DocumentId) -> Option<Mark> {
        let (id, other) = if a < b { (a, b) } else { (b, a) };
        (id != other).then_some(Mark { id, other: Some(other) })
    }

    /// The document, or that of the pair with the smaller id.
    pub fn id(&self) -> &DocumentId {
        &self.id
    }

    /// The document of the pair with the greater id; `None` for the mark of one document.
    pub fn other(&self) -> Option<&DocumentId> {
        self.other.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_no_order_and_two_documents() {
        let id = |text: &str| DocumentId::new(text).unwrap();
        let pair = Mark::pair(id("b"), id("a")).unwrap();
        assert_eq!(Some(pair.clone()), Mark::pair(id("a"), id("b")));
        assert_eq!((pair.id(), pair.other()), (&id("a"), Some(&id("b"))));
        assert_eq!(Mark::pair(id("a"), id("a")), None);
        assert!(Mark::of(id("a")) < pair && pair < Mark::of(id("ab")));
    }
}
