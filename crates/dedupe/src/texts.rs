//! Deduplication of texts in memory, step by step: the weights of features, the prints, the decisions.
//!
//! Costs: 220 to 500 bytes for each text besides the text itself, and those of the index of kept ones.

use std::sync::Arc;

use super::decide::{Groups, Plan, decide};
use super::kernel::Kernel;
use super::lesson::Lesson;
use super::overlap::contained;
use super::parallel::{Stopped, Watch, in_parallel};
use super::printer::Printer;
use super::radius::{Radius, RadiusError};
use lookalike_corpus::{Bounds, Decision, Documents, Kept, Named, Print};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::{Profile, Status};

/// The texts whose prints are made before any of them is decided.
const PART: usize = 8_192;

/// What is done with texts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recipe by which they are compared.
    pub profile: &'static Profile,
    /// How near is near.
    pub radius: Radius,
    /// A second condition: the least similarity of the pairs of words of two texts, 0 to 1.
    pub check: Option<f64>,
    /// Texts are also near if the one with fewer characters stands in the other one to this share of its
    /// features, 0 to 1. The order must put longer texts first, or parts are kept; groups must be greedy.
    pub contained_in: Option<f64>,
    /// The weights of features.
    pub weights: Weights,
    /// What a group is.
    pub groups: Groups,
    /// Whether texts with more neighbours come first, whatever their keys.
    pub is_central: bool,
    /// Whether to tell of each dropped text how much of it the other one has, which takes longer.
    pub is_contained_told: bool,
    /// The number of threads, at least one.
    pub threads: usize,
}

impl Default for Options {
    /// Those of the command: `minhash-copies` with learned weights, the first of near texts is kept. One
    /// thread.
    ///
    /// # Panics
    /// Never: the profile is built in.
    fn default() -> Options {
        Options {
            profile: Profile::named("minhash-copies").expect("it is among the built-in profiles"),
            radius: Radius::OfProfile,
            check: None,
            contained_in: None,
            weights: Weights::IfTaught,
            groups: Groups::Greedy,
            is_central: false,
            is_contained_told: false,
            threads: 1,
        }
    }
}

/// Where the weights of features come from.
#[derive(Clone, Debug)]
pub enum Weights {
    /// From the texts, if the profile takes weights and the texts are enough to teach any.
    IfTaught,
    /// From the texts. It is an error if they teach none.
    Learned,
    /// Every feature weighs the same.
    None,
    /// From a table, such as one of an earlier run.
    Table(Arc<Frequencies>),
}

/// Texts that were decided.
#[derive(Clone, Debug)]
pub struct Deduped {
    /// The numbers of the texts that are kept, from 0, ascending.
    pub kept: Vec<u32>,
    /// The texts that are dropped, by ascending number.
    pub dropped: Vec<Dropped>,
    /// How many of the kept texts have no features, so that they were compared with nothing.
    pub without_features: u32,
    /// How many texts are so short for the profile that a copy with one changed word may be missed.
    pub short: u32,
    /// The largest distance of near texts.
    pub k: u32,
    /// The weights that were used.
    pub weights: Option<Arc<Frequencies>>,
}

/// A text that is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropped {
    /// Its number, from 0.
    pub number: u32,
    /// The number of the text that replaces it: the nearest kept one.
    pub by: u32,
    /// Their distance, in bits or in cells of signatures.
    pub distance: u32,
    /// Their estimated Jaccard similarity, 0 to 1, if the profile makes signatures.
    pub similarity: Option<f64>,
    /// Whether the texts are equal.
    pub is_exact: bool,
    /// The share of its features that the other text has, 0 to 1; `None` if it was not asked for.
    pub contained: Option<f64>,
}

/// Why texts are not deduplicated.
#[derive(Debug, thiserror::Error)]
pub enum DedupeError {
    /// The caller stopped the work.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The radius does not suit the profile.
    #[error(transparent)]
    Radius(#[from] RadiusError),
    /// The profile takes hashes only.
    #[error("{0}")]
    TakesNoTexts(String),
    /// The check is not a similarity.
    #[error("the similarity of the check is a number from 0 to 1")]
    Check,
    /// Parts of texts are to be dropped, and a group is not all that is near its kept text.
    #[error("contained_in needs greedy clusters: in a chain of texts none need stand in the kept one")]
    PartsOfGroups,
    /// Weights are wanted of a profile that takes none.
    #[error("{profile} takes no weights; a profile of minima does, such as minhash-copies")]
    TakesNoWeights {
        /// The profile.
        profile: String,
    },
    /// The table counts what the profile does not compare.
    #[error("the table of weights counts other features than {profile} compares; learn one with it")]
    OtherFeatures {
        /// The profile.
        profile: String,
    },
    /// Weights are wanted of too few texts.
    #[error("{documents} different texts cannot teach weights; at least {} are needed", Lesson::LEAST)]
    TooFew {
        /// How many different texts there are.
        documents: u32,
    },
    /// There are 2^32 texts or more.
    #[error("{0} texts are too many for one call; at most 4294967295 are possible")]
    TooMany(usize),
}

/// Decides which of the texts are kept: each is kept unless a kept one lies within the radius. They are
/// visited in the order of their `keys`, which [`Keep::key`](super::Keep::key) makes; of equal keys, and
/// without keys, the smaller number first.
///
/// # Errors
/// [`DedupeError`] if the options do not suit each other or the texts, or the watch is stopped.
///
/// # Panics
/// If there are keys, and not one for each text.
pub fn dedupe(
    texts: &[&str],
    keys: &[u64],
    options: &Options,
    watch: &Watch,
) -> Result<Deduped, DedupeError> {
    assert!(keys.is_empty() || keys.len() == texts.len(), "there is a key for each text");
    u32::try_from(texts.len()).map_err(|_| DedupeError::TooMany(texts.len()))?;
    // A radius that does not suit is refused before the work.
    Kernel::new(options, None)?;
    let weights = weights(texts, options, watch)?;
    let kernel = Kernel::new(options, weights.clone())?;
    let documents = kernel.documents(|number| texts[number as usize]);
    let (printer, k) = (kernel.printer(), kernel.k());
    let mut run = Run { texts, options, printer, watch, without_features: 0, short: 0 };
    let is_streamed = keys.is_empty() && options.groups == Groups::Greedy && !options.is_central;
    let decisions = if is_streamed { run.streamed(&documents)? } else { run.planned(&documents, keys)? };
    let (kept, mut dropped) = sorted_out(texts, &decisions, options.profile);
    if options.is_contained_told {
        tell_contained(texts, &mut dropped, options, watch)?;
    }
    let (without_features, short) = (run.without_features, run.short);
    Ok(Deduped { kept, dropped, without_features, short, k, weights })
}

/// The weights that the options ask for.
fn weights(
    texts: &[&str],
    options: &Options,
    watch: &Watch,
) -> Result<Option<Arc<Frequencies>>, DedupeError> {
    let profile = options.profile;
    let takes_none = || DedupeError::TakesNoWeights { profile: profile.id().to_string() };
    match &options.weights {
        Weights::None => Ok(None),
        Weights::IfTaught if !profile.takes_weights() => Ok(None),
        _ if !profile.takes_weights() => Err(takes_none()),
        Weights::Table(table) => checked_weights(profile, table).map(Some),
        Weights::IfTaught | Weights::Learned => {
            let lesson = lesson(texts, options, watch)?;
            let documents = lesson.documents();
            match (lesson.table(), &options.weights) {
                (None, Weights::Learned) => Err(DedupeError::TooFew { documents }),
                (table, _) => Ok(table.map(Arc::new)),
            }
        }
    }
}

/// A table, if it counts what the profile compares.
///
/// # Errors
/// [`DedupeError::OtherFeatures`].
pub(crate) fn checked_weights(
    profile: &Profile,
    table: &Arc<Frequencies>,
) -> Result<Arc<Frequencies>, DedupeError> {
    if table.kind() == profile.kind_of_features() {
        return Ok(Arc::clone(table));
    }
    Err(DedupeError::OtherFeatures { profile: profile.id().to_string() })
}

/// The frequencies of features in the texts.
fn lesson(texts: &[&str], options: &Options, watch: &Watch) -> Result<Lesson, Stopped> {
    let mut lesson = Lesson::of(options.profile);
    let counted: Vec<&str> =
        (0..).zip(texts).filter(|(number, _)| Lesson::counts(*number)).map(|(_, text)| *text).collect();
    // The progress of a caller counts texts, and each of these comes again.
    lesson.add_texts(options.profile, &counted, options.threads, watch)?;
    Ok(lesson)
}

/// A run over all texts.
struct Run<'a> {
    texts: &'a [&'a str],
    options: &'a Options,
    printer: Printer<'a>,
    watch: &'a Watch,
    without_features: u32,
    short: u32,
}

impl Run<'_> {
    /// The prints of some texts, and whether each is compared.
    fn prints(&mut self, texts: &[&str]) -> Result<Vec<(bool, Print)>, Stopped> {
        let made =
            in_parallel(texts.len(), self.options.threads, self.watch, |at| self.printer.print(texts[at]))?;
        let of_one = |(fingerprint, print): (lookalike_text::fingerprint::Fingerprint, Print)| {
            self.without_features += u32::from(fingerprint.status == Status::Empty);
            self.short += u32::from(fingerprint.status == Status::Short);
            (fingerprint.status != Status::Empty, print)
        };
        Ok(made.into_iter().map(of_one).collect())
    }

    /// The decisions in the order of the texts, each after the prints of its part are made.
    fn streamed(&mut self, documents: &Documents<'_>) -> Result<Vec<Decision>, Stopped> {
        let mut kept = Kept::like(documents);
        let mut decisions = vec![Decision::Kept; self.texts.len()];
        for (part, texts) in self.texts.chunks(PART).enumerate() {
            let prints = self.prints(texts)?;
            let named = (part as u32 * PART as u32..).zip(&prints);
            let compared: Vec<Named<'_>> = named
                .filter(|(_, (is_compared, _))| *is_compared)
                .map(|(number, (_, print))| (number, print))
                .collect();
            let decided = kept.visit_all(&compared, self.options.threads);
            for ((number, _), decision) in compared.iter().zip(decided) {
                decisions[*number as usize] = decision;
            }
            self.watch.add(0)?;
        }
        Ok(decisions)
    }

    /// The decisions in the order of the keys, after all prints are made.
    fn planned(&mut self, documents: &Documents<'_>, keys: &[u64]) -> Result<Vec<Decision>, Stopped> {
        let mut prints = Vec::with_capacity(self.texts.len());
        for texts in self.texts.chunks(PART) {
            prints.extend(self.prints(texts)?);
        }
        let plan = Plan {
            all: self.texts.len() as u32,
            always: 0,
            keys: keys.to_vec(),
            is_central: self.options.is_central,
            groups: self.options.groups,
            before: None,
            bounds: Bounds { bytes: usize::MAX, threads: self.options.threads },
        };
        let print = |number: u32| self.watch.add(0).map(|()| prints[number as usize].1.clone());
        let (decisions, _) = decide(documents, plan, |number| Ok(prints[number as usize].0), print)?;
        Ok(decisions.iter().collect())
    }
}

/// The kept texts, and the dropped ones with what is told about each.
fn sorted_out(texts: &[&str], decisions: &[Decision], profile: &Profile) -> (Vec<u32>, Vec<Dropped>) {
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    for (number, decision) in (0..).zip(decisions) {
        match *decision {
            Decision::Kept => kept.push(number),
            Decision::Dropped { by, distance } => {
                let similarity = profile.signatures().map(|shape| shape.similarity(distance));
                let is_exact = distance == 0 && texts[number as usize] == texts[by as usize];
                dropped.push(Dropped { number, by, distance, similarity, is_exact, contained: None });
            }
        }
    }
    (kept, dropped)
}

/// Tells of each dropped text how much of it the other one has. The features of a kept text are found once
/// for all that it replaces, if these are next to each other in the order of the kept ones.
fn tell_contained(
    texts: &[&str],
    dropped: &mut [Dropped],
    options: &Options,
    watch: &Watch,
) -> Result<(), Stopped> {
    let mut order: Vec<u32> = (0..dropped.len() as u32).collect();
    order.sort_unstable_by_key(|place| dropped[*place as usize].by);
    let of = |place: u32| dropped[place as usize];
    let groups: Vec<&[u32]> = order.chunk_by(|a, b| of(*a).by == of(*b).by).collect();
    let own = Watch::default();
    let told = in_parallel(groups.len(), options.threads, &own, |at| {
        let text = |number: u32| texts[number as usize];
        let is_wanted = watch.add(0).is_ok();
        let pairs = groups[at].iter().take_while(|_| is_wanted).map(|place| of(*place));
        contained(options.profile, text(of(groups[at][0]).by), pairs.map(|own| text(own.number)))
    })?;
    watch.add(0)?;
    for (place, share) in groups.concat().into_iter().zip(told.into_iter().flatten()) {
        dropped[place as usize].contained = Some(share);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
