//! The exact check: whether texts whose estimated similarity is near the limit are as similar as was asked
//! for.
//!
//! An estimate from 200 minima is off by .035 on average. Estimates that are above the limit by four standard
//! deviations are believed.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::overlap::FeatureSet;
use super::radius::Radius;
use lookalike_corpus::Judge;
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;

/// The standard deviations above the limit from which on an estimate is believed.
const DEVIATIONS: f64 = 4.0;
/// The sets that are held, and the most features of one of these.
const HELD: usize = 1 << 10;
const MOST_FEATURES: usize = 1 << 10;

/// The set of a document, if it is held.
type Place = Mutex<Option<(u32, Arc<FeatureSet>)>>;

/// The least similarity of near texts, which the texts themselves decide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exact {
    /// The least weighted Jaccard similarity, 0 to 1.
    pub least: f64,
    /// The largest distance of signatures at which the estimate is believed.
    pub sure: u32,
}

impl Exact {
    /// The check for a radius that is a similarity. There is none if it is a distance, as the caller then
    /// asks for that, and for profiles without estimates.
    ///
    /// ```
    /// use lookalike_dedupe::{Exact, Radius};
    /// use lookalike_text::fingerprint::Profile;
    ///
    /// let profile = Profile::named("minhash-copies").expect("it is built in");
    /// let exact = Exact::of(profile, Radius::OfProfile, true).expect("it estimates");
    /// assert!(exact.least == 0.4 && exact.sure < profile.weighted_k());
    /// assert_eq!(Exact::of(profile, Radius::Distance(99), true), None);
    /// ```
    pub fn of(profile: &Profile, radius: Radius, is_weighted: bool) -> Option<Exact> {
        let shape = profile.signatures().filter(|shape| !shape.is_set)?;
        let least = match radius {
            Radius::Distance(_) => return None,
            Radius::Similarity(least) => least,
            Radius::OfProfile => shape.threshold_of(radius.of(profile, is_weighted).ok()?),
        };
        let deviation = (least * (1.0 - least) / f64::from(shape.cells)).sqrt();
        Some(Exact { least, sure: shape.distance_for(least + DEVIATIONS * deviation) })
    }

    /// The judge of documents whose texts have these names. A document without a text is near by its
    /// estimate.
    pub fn judge<'a>(
        self,
        profile: &'static Profile,
        weights: Option<Arc<Frequencies>>,
        text: impl Fn(u32) -> Option<Cow<'a, str>> + Send + Sync + 'a,
    ) -> Judge<'a> {
        let held: Vec<Place> = (0..HELD).map(|_| Mutex::default()).collect();
        // A document is compared with several others, one after the other.
        let set = move |number: u32| {
            let place = &held[number as usize % HELD];
            let found = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some((_, set)) = found.filter(|(own, _)| *own == number) {
                return Some(set);
            }
            let set = Arc::new(FeatureSet::of(profile, weights.as_deref(), &text(number)?));
            if set.len() <= MOST_FEATURES {
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, Arc::clone(&set)));
            }
            Some(set)
        };
        let is_near = move |a: u32, b: u32| {
            let (Some(a), Some(b)) = (set(a), set(b)) else { return true };
            a.overlap(&b).similarity >= self.least
        };
        Judge { sure: self.sure, is_near: Arc::new(is_near) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_features_of_a_text_are_made_once_for_several_others() {
        let texts = ["Fish and chips and peas", "Fish and chips and more peas", "Boats on a lake in summer"];
        let made = AtomicUsize::new(0);
        let text = |number: u32| {
            made.fetch_add(1, Ordering::Relaxed);
            texts.get(number as usize % HELD).map(|text| Cow::Borrowed(*text))
        };
        let profile = Profile::named("minhash-copies").unwrap();
        let exact = Exact::of(profile, Radius::Similarity(0.5), false).unwrap();
        let is_near = exact.judge(profile, None, text).is_near;
        // Two that are so many numbers apart have one place.
        let names = [(0, 1), (0, 2), (0, 1), (1_024, 1), (0, 2), (0, 7)];
        let set = |number: u32| FeatureSet::of(profile, None, texts[number as usize % HELD]);
        for (a, b) in names {
            let expected = b == 7 || set(a).overlap(&set(b)).similarity >= 0.5;
            assert_eq!(is_near(a, b), expected, "{a} {b}");
        }
        assert_eq!(made.load(Ordering::Relaxed), 3 + 1 + 1 + 1);
    }
}
