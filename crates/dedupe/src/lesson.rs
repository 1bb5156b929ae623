//! Which texts of a corpus teach the weights of features, so that phrases which many texts have say little
//! (ADR 57).
//!
//! The first texts are all counted, so that few are enough, and a tenth of the others: the same ones for any
//! number of threads. Texts of equal features count once.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::parallel::{Stopped, Watch, in_parallel};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;

/// The first texts that are all counted, so that few are enough for a table.
const FIRST: u32 = 1_000;
/// Of the others one in this many is counted.
const TENTH: u64 = 10;
/// The texts whose features are found before any of them is counted.
const PART: usize = 8_192;

/// A table of document frequencies that is being learned.
///
/// ```
/// use lookalike_dedupe::Lesson;
/// use lookalike_text::fingerprint::Profile;
///
/// let profile = Profile::named("minhash-copies").expect("it is built in");
/// let mut lesson = Lesson::of(profile);
/// for (number, text) in (0..).zip(["fish and chips", "fish and chips", "bread and butter"]) {
///     if Lesson::counts(number) {
///         lesson.add(&profile.feature_set(text));
///     }
/// }
/// assert_eq!(lesson.documents(), 2, "equal texts count once");
/// assert!(lesson.table().is_none(), "fewer than 100 different texts teach nothing");
/// ```
pub struct Lesson {
    table: Frequencies,
    seen: HashSet<u64, RandomState>,
}

impl Lesson {
    /// The least number of different texts for a table.
    pub const LEAST: u32 = 100;

    /// A lesson about the features of this profile.
    pub fn of(profile: &Profile) -> Lesson {
        Lesson { table: Frequencies::of_kind(profile.kind_of_features()), seen: HashSet::default() }
    }

    /// Whether the text with this number, from 0, is counted.
    pub fn counts(number: u32) -> bool {
        number < FIRST || xxh3_64(&number.to_le_bytes()).is_multiple_of(TENTH)
    }

    /// Counts a text by its distinct features, unless they are none or those of a counted text.
    pub fn add(&mut self, set: &[u64]) {
        if set.is_empty() {
            return;
        }
        let digest = set.iter().fold(0, |sum, feature| xxh3_64_with_seed(&feature.to_le_bytes(), sum));
        if self.seen.insert(digest) {
            self.table.add(set);
        }
    }

    /// Counts texts by their features in the sets of a profile, on `threads` threads (at least one). The
    /// caller has chosen those whose number [`counts`](Lesson::counts).
    ///
    /// # Errors
    /// [`Stopped`] if the watch is stopped. The progress of the watch does not count these texts.
    pub fn add_texts(
        &mut self,
        profile: &Profile,
        texts: &[&str],
        threads: usize,
        watch: &Watch,
    ) -> Result<(), Stopped> {
        let own = Watch::default();
        for texts in texts.chunks(PART) {
            let sets = in_parallel(texts.len(), threads, &own, |at| {
                let is_wanted = watch.add(0).is_ok();
                if is_wanted { profile.feature_set(texts[at]) } else { Vec::new() }
            })?;
            watch.add(0)?;
            sets.iter().for_each(|set| self.add(set));
            if self.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Whether further texts would change nothing.
    pub fn is_full(&self) -> bool {
        self.documents() == Frequencies::MAX_DOCUMENTS
    }

    /// The number of different texts that were counted.
    pub fn documents(&self) -> u32 {
        self.table.documents()
    }

    /// The table; `None` if the texts are too few to teach any.
    pub fn table(self) -> Option<Frequencies> {
        (self.documents() >= Lesson::LEAST).then_some(self.table)
    }
}
