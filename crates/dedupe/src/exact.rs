//! The exact check: whether texts whose estimated similarity is near the limit are as similar as was asked
//! for.
//!
//! An estimate from 200 minima is off by .035 on average. Estimates that are above the limit by four standard
//! deviations are believed.

use std::borrow::Cow;
use std::sync::Arc;

use super::overlap::FeatureSet;
use super::radius::Radius;
use lookalike_corpus::Judge;
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;

/// The standard deviations above the limit from which on an estimate is believed.
const DEVIATIONS: f64 = 4.0;

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
        let is_near = move |a: u32, b: u32| {
            let (Some(a), Some(b)) = (text(a), text(b)) else { return true };
            let [a, b] = [a, b].map(|text| FeatureSet::of(profile, weights.as_deref(), &text));
            a.overlap(&b).similarity >= self.least
        };
        Judge { sure: self.sure, is_near: Arc::new(is_near) }
    }
}
