//! The weights of features, as a recipe names them.
//!
//! Not here: how a weight is computed (`features`), and the weights that a collection teaches
//! ([`Frequencies`](crate::features::Frequencies)).

use crate::features::Idf;
#[cfg(doc)]
use crate::features::{ShinglePlan, weighs_less};

/// The weight of a feature.
#[derive(Clone, Debug)]
pub(crate) enum Weights {
    /// 1, whatever its count.
    One,
    /// Its count.
    Count,
    /// 1 + ln of its count; less for shingles of less weight ([`ShinglePlan`]) and, as with `One`, for the
    /// features of short texts that [`weighs_less`] names.
    Logarithm,
    /// Its count times its inverse document frequency. Only the features of the greatest weight are kept.
    TfIdf { idf: IdfChoice, top: Top },
}

/// The number of keywords that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Top {
    /// All.
    All,
    /// At most this many.
    First(usize),
    /// The default of yanyiwu/simhash since 2026: one for each 120 bytes of the text, at least 5 and at most
    /// 200.
    ByLength,
}

impl Top {
    pub(super) fn of(self, text: &str) -> usize {
        match self {
            Top::All => usize::MAX,
            Top::First(count) => count,
            Top::ByLength => (text.len() / 120).clamp(5, 200),
        }
    }
}

/// A table of inverse document frequencies; the built-in tables are loaded on first use.
#[derive(Clone, Debug)]
pub(crate) enum IdfChoice {
    /// [`Idf::built_in`].
    BuiltIn,
    /// [`Idf::built_in_words`].
    BuiltInWords,
    /// A user's table.
    Own(Idf),
}

impl IdfChoice {
    pub(super) fn table(&self) -> Idf {
        match self {
            IdfChoice::BuiltIn => Idf::built_in(),
            IdfChoice::BuiltInWords => Idf::built_in_words(),
            IdfChoice::Own(idf) => idf.clone(),
        }
    }
}
