//! The two ends of a bin, and how many entries were inserted at each: the number of its slot.

/// The bits of the front in the number of entries.
const FRONT_BITS: u32 = 32;

/// The end of a bin at which a hash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

impl End {
    /// The end of the hashes whose value has this last bit.
    #[inline(always)]
    pub(super) fn of(bit: u32) -> End {
        if bit & 1 == 0 { End::Front } else { End::Back }
    }

    /// The last bit of the values at this end.
    #[inline(always)]
    pub(super) fn bit(self) -> u32 {
        self as u32
    }
}

/// The numbers of entries that were inserted at both ends.
#[derive(Clone, Copy, Default)]
pub(super) struct Ends {
    front: u32,
    back: u32,
}

impl Ends {
    /// Those of the number of a slot.
    #[inline(always)]
    pub(super) fn of(number: u64) -> Ends {
        Ends { front: number as u32, back: (number >> FRONT_BITS) as u32 }
    }

    /// The number of a slot.
    pub(super) fn number(self) -> u64 {
        u64::from(self.front) | u64::from(self.back) << FRONT_BITS
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.front as usize + self.back as usize
    }

    /// The number of entries at one end.
    #[inline(always)]
    pub(super) fn at(self, end: End) -> usize {
        match end {
            End::Front => self.front as usize,
            End::Back => self.back as usize,
        }
    }

    /// Those after one more insertion at an end.
    pub(super) fn with_one_more(self, end: End) -> Ends {
        match end {
            End::Front => Ends { front: self.front + 1, ..self },
            End::Back => Ends { back: self.back + 1, ..self },
        }
    }
}
