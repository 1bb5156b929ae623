//! The exact check: whether texts whose estimated similarity is near the limit are as similar as was asked
//! for.
//!
//! An estimate from 200 minima is off by .035 on average. Estimates that are above the limit by four standard
//! deviations are believed. If the profile aligns letters, only equal signatures are.

use std::borrow::Cow;
use std::cmp::Ordering;
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

/// How two texts are near.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Unlike,
    Similar,
    /// The text with fewer characters stands in the other one to this share.
    Contained(f64),
}

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
    /// Texts are also near if the one with fewer characters stands in the other one to this share of its
    /// features, 0 to 1, if there is one.
    pub contained_in: Option<f64>,
}

/// What is compared of a text.
enum Compared {
    /// The features, and the number of characters.
    Features(FeatureSet, usize),
    Letters(Aligned),
}

impl Compared {
    fn parts(&self) -> usize {
        match self {
            Compared::Features(set, _) => set.len(),
            Compared::Letters(letters) => letters.len(),
        }
    }

    fn relation(&self, other: &Compared, exact: &Exact) -> Relation {
        match (self, other) {
            (Compared::Features(a, of_a), Compared::Features(b, of_b)) => {
                let overlap = a.overlap(b);
                let share = match of_a.cmp(of_b) {
                    Ordering::Less => overlap.contained_in,
                    Ordering::Greater => overlap.contains,
                    // Each of them may be the one that is dropped.
                    Ordering::Equal => overlap.contained_in.min(overlap.contains),
                };
                match exact.contained_in {
                    _ if overlap.similarity >= exact.least => Relation::Similar,
                    Some(least) if share >= least => Relation::Contained(share),
                    _ => Relation::Unlike,
                }
            }
            (Compared::Letters(a), Compared::Letters(b)) if a.is_near(b, exact.least) => Relation::Similar,
            // One check compares all texts in one way.
            _ => Relation::Unlike,
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
                return Some(Exact { least, sure: 0, is_aligned: true, contained_in: None });
            }
            (Radius::Similarity(least), None) => least,
            (Radius::OfProfile, None) => shape.threshold_of(radius.of(profile, is_weighted).ok()?),
        };
        let deviation = (least * (1.0 - least) / f64::from(shape.cells)).sqrt();
        let sure = shape.distance_for(least + DEVIATIONS * deviation);
        Some(Exact { least, sure, is_aligned: false, contained_in: None })
    }

    /// The same, and texts are also near of which the one with fewer characters stands in the other one to
    /// this share, if there is one.
    #[must_use]
    pub fn or_contained_in(self, share: Option<f64>) -> Exact {
        Exact { contained_in: share, ..self }
    }

    /// The comparison of documents whose texts have these names. A document without a text is near by its
    /// estimate.
    pub fn comparison<'a>(
        self,
        profile: &'static Profile,
        weights: Option<Arc<Frequencies>>,
        text: impl Fn(u32) -> Option<Cow<'a, str>> + Send + Sync + 'a,
    ) -> Comparison<'a> {
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
                let characters = self.contained_in.map_or(0, |_| text.chars().count());
                Compared::Features(FeatureSet::of(profile, weights.as_deref(), &text), characters)
            });
            if compared.parts() <= MOST_PARTS {
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, Arc::clone(&compared)));
            }
            Some(compared)
        };
        let relation = move |a: u32, b: u32| {
            let (Some(a), Some(b)) = (compared(a), compared(b)) else { return Relation::Similar };
            a.relation(&b, &self)
        };
        Comparison { sure: self.sure, relation: Arc::new(relation) }
    }
}

/// The comparison of the texts of documents, by their names.
#[derive(Clone)]
pub struct Comparison<'a> {
    sure: u32,
    relation: Arc<dyn Fn(u32, u32) -> Relation + Send + Sync + 'a>,
}

impl<'a> Comparison<'a> {
    /// The judge that takes similar texts for near, and those of which one stands in the other one.
    pub fn judge(&self) -> Judge<'a> {
        let relation = Arc::clone(&self.relation);
        Judge { sure: self.sure, is_near: Arc::new(move |a, b| relation(a, b) != Relation::Unlike) }
    }

    /// The share to which one of two near documents at this distance stands in the other one, 0 to 1, if they
    /// are not similar.
    pub fn contained_in(&self, a: u32, b: u32, distance: u32) -> Option<f64> {
        match (distance > self.sure).then(|| (self.relation)(a, b)) {
            Some(Relation::Contained(share)) => Some(share),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn the_features_of_a_text_are_made_once_for_several_others() {
        let texts = ["Fish and chips and peas", "Fish and chips and more peas", "Boats on a lake in summer"];
        let made = AtomicUsize::new(0);
        let text = |number: u32| {
            made.fetch_add(1, Relaxed);
            texts.get(number as usize % HELD).map(|text| Cow::Borrowed(*text))
        };
        let profile = Profile::named("minhash-copies").unwrap();
        let exact = Exact::of(profile, Radius::Similarity(0.5), false).unwrap();
        let is_near = exact.comparison(profile, None, text).judge().is_near;
        // Two that are so many numbers apart have one place.
        let names = [(0, 1), (0, 2), (0, 1), (1_024, 1), (0, 2), (0, 7)];
        let set = |number: u32| FeatureSet::of(profile, None, texts[number as usize % HELD]);
        for (a, b) in names {
            let expected = b == 7 || set(a).overlap(&set(b)).similarity >= 0.5;
            assert_eq!(is_near(a, b), expected, "{a} {b}");
        }
        assert_eq!(made.load(Relaxed), 3 + 1 + 1 + 1);
    }

    #[test]
    fn a_part_is_near_the_text_that_it_stands_in_and_says_to_which_share() {
        let part = "The ferry runs every hour until noon, and extra boats have been hired";
        let page =
            format!("{part} from a town nearby. Tickets are sold at the landing and on board, as before.");
        let texts = [part.to_owned(), page, part.replace("noon", "two"), "Boats on a lake".to_owned()];
        let profile = Profile::named("minhash-copies").unwrap();
        let exact = Exact::of(profile, Radius::Similarity(0.6), false).unwrap();
        let of = |share| {
            let text = |number: u32| texts.get(number as usize).map(|text| Cow::Borrowed(text.as_str()));
            exact.or_contained_in(share).comparison(profile, None, text)
        };
        let (with, without) = (of(Some(0.8)), of(None));
        for (a, b) in [(0, 1), (1, 0)] {
            assert!((with.judge().is_near)(a, b) && !(without.judge().is_near)(a, b));
            let share = with.contained_in(a, b, exact.sure + 1);
            assert!(share > Some(0.8) && without.contained_in(a, b, exact.sure + 1).is_none(), "{share:?}");
        }
        // Similar texts need no share, and of two with equal lengths none is dropped for a part.
        assert!((with.judge().is_near)(0, 2) && with.contained_in(0, 2, exact.sure + 1).is_none());
        assert!(!(with.judge().is_near)(1, 3) && with.contained_in(0, 1, exact.sure).is_none());
    }
}
