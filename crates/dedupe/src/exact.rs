//! The exact check: whether texts whose estimated similarity is near the limit are as similar as was asked
//! for.
//!
//! An estimate from 200 minima is off by .035 on average. Estimates that are above the limit by four standard
//! deviations are believed. If the profile aligns letters, only equal signatures are.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::alignment::Aligned;
use super::overlap::FeatureSet;
use super::radius::Radius;
use lookalike_corpus::Judge;
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;

/// The standard deviations above the limit from which on an estimate is believed.
const DEVIATIONS: f64 = 4.0;
/// The texts that are held, and the most features or letters of one of these.
const HELD: usize = 1 << 10;
const MOST_PARTS: usize = 1 << 10;

/// What is compared of a document, if it is held.
type Place = Mutex<Option<(u32, Arc<Compared>)>>;

/// The least similarity of near texts, which the texts themselves decide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exact {
    /// The least similarity, 0 to 1: the weighted Jaccard similarity, or that of aligned letters.
    pub least: f64,
    /// The largest distance of signatures at which the estimate is believed.
    pub sure: u32,
    /// Whether letters are aligned.
    pub is_aligned: bool,
}

/// What is compared of a text.
enum Compared {
    Features(FeatureSet),
    Letters(Aligned),
}

impl Compared {
    fn parts(&self) -> usize {
        match self {
            Compared::Features(set) => set.len(),
            Compared::Letters(letters) => letters.len(),
        }
    }

    fn is_near(&self, other: &Compared, least: f64) -> bool {
        match (self, other) {
            (Compared::Features(a), Compared::Features(b)) => a.overlap(b).similarity >= least,
            (Compared::Letters(a), Compared::Letters(b)) => a.is_near(b, least),
            // One check compares all texts in one way.
            _ => false,
        }
    }
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
        let least = match (radius, profile.alignment()) {
            (Radius::Distance(_), _) => return None,
            (Radius::OfProfile, Some(least)) | (Radius::Similarity(least), Some(_)) => {
                return Some(Exact { least, sure: 0, is_aligned: true });
            }
            (Radius::Similarity(least), None) => least,
            (Radius::OfProfile, None) => shape.threshold_of(radius.of(profile, is_weighted).ok()?),
        };
        let deviation = (least * (1.0 - least) / f64::from(shape.cells)).sqrt();
        let sure = shape.distance_for(least + DEVIATIONS * deviation);
        Some(Exact { least, sure, is_aligned: false })
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
        let compared = move |number: u32| {
            let place = &held[number as usize % HELD];
            let found = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some((_, compared)) = found.filter(|(own, _)| *own == number) {
                return Some(compared);
            }
            let text = text(number)?;
            let compared = Arc::new(if self.is_aligned {
                Compared::Letters(Aligned::of(profile, &text))
            } else {
                Compared::Features(FeatureSet::of(profile, weights.as_deref(), &text))
            });
            if compared.parts() <= MOST_PARTS {
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, Arc::clone(&compared)));
            }
            Some(compared)
        };
        let is_near = move |a: u32, b: u32| {
            let (Some(a), Some(b)) = (compared(a), compared(b)) else { return true };
            a.is_near(&b, self.least)
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
