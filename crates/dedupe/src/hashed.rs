//! Deduplication of documents that are hashes, such as those of images.

use super::decide::{Plan, decide};
use super::texts::{DedupeError, Deduped, Dropped, Options};
use lookalike_corpus::{Bounds, Decision, Documents, Print};
use lookalike_hash::Hash;

/// A document that is compared by a hash which is made elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Hashed {
    /// The hash, of the width of the profile.
    pub hash: Hash,
    /// Whether it is compared; others are kept, and are near nothing.
    pub is_compared: bool,
    /// A name of its content: two documents of one digest and one hash are equal.
    pub digest: u64,
}

/// [`dedupe`](super::dedupe()) of hashes: the options about texts are not read.
///
/// ```
/// use lookalike_dedupe::{Hashed, Options, dedupe_hashes};
/// use lookalike_hash::Hash;
/// use lookalike_text::fingerprint::Profile;
///
/// let profile = Profile::named("phash-64").expect("it is built in");
/// let of = |value| Hashed { hash: Hash::from_u64(value), is_compared: true, digest: value };
/// let options = Options { profile, ..Options::default() };
/// let result = dedupe_hashes(&[of(0b1), of(0b11), of(u64::MAX)], &[], &options)?;
/// assert_eq!((result.kept, result.dropped[0].distance), (vec![0, 2], 1));
/// # Ok::<(), lookalike_dedupe::DedupeError>(())
/// ```
///
/// # Errors
/// [`DedupeError`] if the radius does not suit the profile, or there are too many documents.
///
/// # Panics
/// If there are keys, and not one for each document.
pub fn dedupe_hashes(all: &[Hashed], keys: &[u64], options: &Options) -> Result<Deduped, DedupeError> {
    assert!(keys.is_empty() || keys.len() == all.len(), "there is a key for each document");
    let count = u32::try_from(all.len()).map_err(|_| DedupeError::TooMany(all.len()))?;
    let k = options.radius.reach(options.profile, false, options.contained_in)?;
    let plan = Plan {
        all: count,
        always: 0,
        keys: keys.to_vec(),
        is_central: options.is_central,
        groups: options.groups,
        before: None,
        bounds: Bounds { bytes: usize::MAX, threads: options.threads },
    };
    let of = |number: u32| all[number as usize];
    let print = |number| {
        Ok::<_, DedupeError>(Print { hash: of(number).hash, signature: Vec::new(), sketch: Vec::new() })
    };
    let documents = Documents::new(options.profile.width(), None, k, None);
    let (decisions, _) = decide(&documents, plan, |number| Ok(of(number).is_compared), print)?;
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    for (number, decision) in (0..).zip(decisions.iter()) {
        match decision {
            Decision::Kept => kept.push(number),
            Decision::Dropped { by, distance } => {
                let is_exact = distance == 0 && of(number).digest == of(by).digest;
                dropped.push(Dropped { number, by, distance, similarity: None, is_exact, contained: None });
            }
        }
    }
    let without_features = all.iter().filter(|own| !own.is_compared).count() as u32;
    Ok(Deduped { kept, dropped, without_features, short: without_features, k, weights: None })
}
