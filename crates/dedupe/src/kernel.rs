//! The steps of [`dedupe()`](super::dedupe) as functions of some texts each, for programs that run each step
//! on many machines and carry the results between them (ADR 61).
//!
//! 1. [`Kernel::printer`] makes the prints of texts, and [`Kernel::group`] says which are compared alike.
//!    Documents of one group have the same neighbours: the first of them in the order stands for all.
//! 2. [`Kernel::bucket_keys`] are the keys under which near documents meet, and [`Kernel::mark_near`] finds
//!    those of a bucket that are near another one. Groups that are near no other one are decided: the first
//!    document is kept, and replaces the others.
//! 3. [`Kernel::decide`] decides about the documents of all other groups, with the code of one machine.
//!
//! The decision about a document depends only on the documents that are near it, and on those that are near
//! them in turn. So it is the same with the documents of step 3 alone as with all.
//!
//! *Absent*: who carries what where, and the ids of documents.

use std::borrow::Cow;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::decide::{Groups, Plan, decide};
use super::exact::Exact;
use super::parallel::{Stopped, Watch};
use super::printer::{Printer, second_check};
use super::texts::{DedupeError, Options, checked_weights};
use lookalike_corpus::{Bounds, Decision, Documents, Print, bucket_keys, mark_near};
use lookalike_hash::{Hash, SignatureShape};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::{Profile, check_takes_texts};

/// What is compared how, after the weights are known.
///
/// ```
/// use lookalike_dedupe::{Kernel, Options, Watch};
///
/// let kernel = Kernel::new(&Options::default(), None)?;
/// let prints = ["Please call me", "please call me!"].map(|text| (text, kernel.printer().print(text).1));
/// let [a, b] = prints.each_ref().map(|(text, print)| kernel.group(text, print));
/// assert_eq!(a, b);
/// let decisions = kernel.decide(vec![0, 0], &[0, 0], &prints[..1], 1, &Watch::default())?;
/// assert!(decisions[0] != decisions[1]);
/// # Ok::<(), lookalike_dedupe::DedupeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    profile: &'static Profile,
    k: u32,
    check: Option<f64>,
    weights: Option<Arc<Frequencies>>,
    groups: Groups,
    is_central: bool,
    exact: Option<Exact>,
}

impl Kernel {
    /// The kernel of these options and weights. [`Options::weights`] and [`Options::threads`] are not read.
    ///
    /// # Errors
    /// If the options do not suit each other.
    pub fn new(options: &Options, weights: Option<Arc<Frequencies>>) -> Result<Kernel, DedupeError> {
        let Options { profile, radius, check, contained_in, groups, is_central, .. } = *options;
        check_takes_texts(profile).map_err(DedupeError::TakesNoTexts)?;
        if check.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
            return Err(DedupeError::Check);
        }
        weights.as_ref().map(|table| checked_weights(profile, table)).transpose()?;
        let is_greedy = groups == Groups::Greedy && !is_central;
        if contained_in.is_some() && !is_greedy {
            return Err(DedupeError::PartsOfGroups);
        }
        let k = radius.reach(profile, weights.is_some(), contained_in)?;
        let exact = Exact::of(profile, radius, weights.is_some());
        let exact = exact.map(|exact| exact.or_contained_in(contained_in));
        Ok(Kernel { profile, k, check, weights, groups, is_central, exact })
    }

    /// The largest distance of near texts.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// The recipe by which texts are compared.
    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// The weights of features.
    pub fn weights(&self) -> Option<&Arc<Frequencies>> {
        self.weights.as_ref()
    }

    /// Whether the texts themselves decide about those near the limit.
    pub fn reads_texts(&self) -> bool {
        self.exact.is_some()
    }

    /// What makes the prints of texts.
    pub fn printer(&self) -> Printer<'_> {
        let is_checked = self.check.is_some();
        Printer { profile: self.profile, weights: self.weights.as_deref(), is_checked }
    }

    /// No documents, which are near as the options say, apart from the exact check.
    fn estimated(&self) -> Documents<'static> {
        let check = self.check.map(second_check);
        Documents::new(self.profile.width(), self.profile.signatures(), self.k, check)
    }

    /// No documents, which are near as the options say; `text` is that of a number.
    pub fn documents<'a>(&self, text: impl Fn(u32) -> &'a str + Send + Sync + 'a) -> Documents<'a> {
        let judge = |exact: Exact| {
            let text = move |number| Some(Cow::Borrowed(text(number)));
            exact.comparison(self.profile, self.weights.clone(), text).judge()
        };
        self.estimated().with_judge(self.exact.map(judge))
    }

    /// The name of all texts that are compared alike: their hash, and digests of their sketch and their
    /// features or letters, as far as these are compared.
    pub fn group(&self, text: &str, print: &Print) -> Vec<u8> {
        let mut name = Vec::new();
        print.hash.write_bytes(&mut name);
        if self.check.is_some() {
            name.extend(xxh3_128(&print.sketch).to_be_bytes());
        }
        if self.profile.alignment().is_some() {
            name.extend(xxh3_128(self.profile.letters(text).as_bytes()).to_be_bytes());
        } else if self.exact.is_some() {
            let features = self.profile.feature_set(text);
            let bytes: Vec<u8> = features.iter().flat_map(|feature| feature.to_be_bytes()).collect();
            name.extend(xxh3_128(&bytes).to_be_bytes());
        }
        name
    }

    /// The shape of signatures that are near only if they share a key. `None` if step 2 is left out, and all
    /// documents are decided in step 3: hashes would need too many keys, and the distance of sets depends on
    /// which documents are kept.
    pub fn meets(&self) -> Option<SignatureShape> {
        self.profile.signatures().filter(|shape| !shape.is_set)
    }

    /// The keys of a signature; none if signatures do not meet.
    pub fn bucket_keys(&self, signature: &[u8]) -> impl Iterator<Item = u64> {
        self.meets().into_iter().flat_map(|shape| bucket_keys(shape, signature))
    }

    /// For each of these signatures and sketches, each with a key, whether it is near another one with that
    /// key; and the number of comparisons.
    ///
    /// # Panics
    /// If a signature or a sketch has another size than the options say.
    pub fn mark_near(&self, met: &[(u64, &[u8], &[u8])]) -> (Vec<bool>, u64) {
        let mut documents = self.estimated();
        // The distance of signatures does not read their names.
        let hash = Hash::from_u128(0);
        for (_, signature, sketch) in met {
            documents.push(&Print { hash, signature: signature.to_vec(), sketch: sketch.to_vec() });
        }
        let mut order: Vec<u32> = (0..documents.len()).collect();
        order.sort_unstable_by_key(|number| (met[*number as usize].0, *number));
        let mut marks = vec![false; met.len()];
        let buckets = order.chunk_by(|a, b| met[*a as usize].0 == met[*b as usize].0);
        let comparisons = buckets.map(|bucket| mark_near(&documents, bucket, &mut marks)).sum();
        (marks, comparisons)
    }

    /// The decisions about documents in the order of their `keys`; of equal keys, the first comes first. The
    /// print of the document with number `n` is `prints[print_of[n]]`, and its text is one of that group.
    ///
    /// # Errors
    /// If the watch is stopped.
    ///
    /// # Panics
    /// If there are not as many keys as numbers of prints, or a print has other sizes than the options say.
    pub fn decide(
        &self,
        keys: Vec<u64>,
        print_of: &[u32],
        prints: &[(&str, Print)],
        threads: usize,
        watch: &Watch,
    ) -> Result<Vec<Decision>, Stopped> {
        assert_eq!(keys.len(), print_of.len(), "each document has a key and a print");
        let bounds = Bounds { bytes: usize::MAX, threads };
        let (all, is_central, groups) = (print_of.len() as u32, self.is_central, self.groups);
        let plan = Plan { all, always: 0, keys, is_central, groups, before: None, bounds };
        let print = |number: u32| watch.add(0).map(|()| prints[print_of[number as usize] as usize].1.clone());
        let documents = self.documents(|number| prints[print_of[number as usize] as usize].0);
        Ok(decide(&documents, plan, |_| Ok(true), print)?.0.iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::texts::tests::texts;
    use super::super::texts::{Weights, dedupe};
    use super::*;
    use lookalike_text::fingerprint::Status;

    /// The three steps on one machine, and how many documents the last one decides.
    fn in_steps(texts: &[&str], keys: &[u64], options: &Options) -> (Vec<u32>, usize) {
        let kernel = Kernel::new(options, None).unwrap();
        let made: Vec<_> = texts.iter().map(|text| kernel.printer().print(text)).collect();
        let mut kept: Vec<u32> = Vec::new();
        let mut groups: BTreeMap<Vec<u8>, Vec<u32>> = BTreeMap::new();
        for (number, (fingerprint, print)) in (0_u32..).zip(&made) {
            if fingerprint.status == Status::Empty {
                kept.push(number);
            } else {
                let group = kernel.group(texts[number as usize], print);
                groups.entry(group).or_default().push(number);
            }
        }
        let groups: Vec<Vec<u32>> = groups.into_values().collect();
        let print_of = |number: u32| (texts[number as usize], made[number as usize].1.clone());
        let prints: Vec<(&str, Print)> = groups.iter().map(|group| print_of(group[0])).collect();
        let mut met = Vec::new();
        let mut of_met = Vec::new();
        for (number, (_, print)) in prints.iter().enumerate() {
            for key in kernel.bucket_keys(&print.signature) {
                met.push((key, &print.signature[..], &print.sketch[..]));
                of_met.push(number);
            }
        }
        let (marks, _) = kernel.mark_near(&met);
        let mut near: BTreeSet<usize> =
            of_met.iter().zip(marks).filter(|(_, near)| *near).map(|(number, _)| *number).collect();
        if kernel.meets().is_none() {
            near.extend(0..groups.len());
        }
        let mut left: Vec<(u32, u32)> = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            if near.contains(&number) {
                left.extend(group.iter().map(|own| (*own, number as u32)));
            } else {
                kept.extend(group.iter().min_by_key(|own| (keys[**own as usize], **own)));
            }
        }
        left.sort_unstable();
        let print_of: Vec<u32> = left.iter().map(|(_, group)| *group).collect();
        let keys = left.iter().map(|(own, _)| keys[*own as usize]).collect();
        let decisions = kernel.decide(keys, &print_of, &prints, 2, &Watch::default()).unwrap();
        let decided = left.iter().zip(decisions).filter(|(_, decision)| *decision == Decision::Kept);
        kept.extend(decided.map(|((own, _), _)| *own));
        kept.sort_unstable();
        (kept, left.len())
    }

    #[test]
    fn the_steps_keep_what_one_machine_keeps() {
        let texts = texts(700);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut random = fastrand::Rng::with_seed(61);
        let keys: Vec<u64> = texts.iter().map(|_| random.u64(..90)).collect();
        for name in ["minhash-copies", "minhash", "copies-64", "longest-sentences"] {
            for (groups, is_central, check) in [
                (Groups::Greedy, false, None),
                (Groups::Greedy, true, None),
                (Groups::Linked, false, None),
                (Groups::Greedy, false, Some(0.4)),
            ] {
                let options = Options {
                    profile: Profile::named(name).unwrap(),
                    weights: Weights::None,
                    check,
                    groups,
                    is_central,
                    ..Options::default()
                };
                let keys = if is_central { vec![0; texts.len()] } else { keys.clone() };
                let expected = dedupe(&texts, &keys, &options, &Watch::default()).unwrap().kept;
                let (kept, decided) = in_steps(&texts, &keys, &options);
                assert_eq!(kept, expected, "{name} {groups:?} {is_central} {check:?}");
                assert!(name != "minhash" || decided < texts.len() / 2, "{decided} are decided");
            }
        }
    }
}
