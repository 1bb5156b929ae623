//! The decisions about many documents, in six bytes each.

/// The decision about a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is kept.
    Kept,
    /// A kept document is near.
    Dropped {
        /// The nearest kept document; of several, that with the smallest name.
        by: u32,
        /// The distance to it.
        distance: u32,
    },
}

/// The distance of a kept document.
const KEPT: u16 = u16::MAX;

/// Decisions by the numbers of the documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    by: Vec<u32>,
    distances: Vec<u16>,
}

impl Decisions {
    /// The bytes for each document.
    pub const BYTES: u64 = 6;

    /// So many documents, all of which are kept.
    pub fn kept(count: usize) -> Decisions {
        Decisions { by: vec![0; count], distances: vec![KEPT; count] }
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        self.by.len()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    /// The decision about a document.
    ///
    /// # Panics
    /// If there are fewer documents.
    pub fn get(&self, number: u32) -> Decision {
        match self.distances[number as usize] {
            KEPT => Decision::Kept,
            distance => Decision::Dropped { by: self.by[number as usize], distance: distance.into() },
        }
    }

    /// Drops a document for another one, unless it is dropped for a nearer one, or for one at the same
    /// distance with a smaller name.
    ///
    /// # Panics
    /// If there are fewer documents, or for a distance of 65,535 and more.
    pub fn drop_for(&mut self, number: u32, by: u32, distance: u32) {
        let at = number as usize;
        let distance = u16::try_from(distance).ok().filter(|distance| *distance < KEPT);
        let other = (distance.expect("distances are bits or cells"), by);
        (self.distances[at], self.by[at]) = other.min((self.distances[at], self.by[at]));
    }

    /// All decisions, in the order of the numbers.
    pub fn iter(&self) -> impl Iterator<Item = Decision> {
        (0..self.len() as u32).map(|number| self.get(number))
    }
}
