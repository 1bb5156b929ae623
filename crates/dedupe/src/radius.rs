//! How near is near: a distance, or the similarity that a distance of signatures stands for.

use lookalike_text::fingerprint::Profile;

/// The similarity of a text and a part of it from which on the part is looked for: it has a quarter of the
/// text.
const PART: f64 = 0.25;

/// The largest distance of near-duplicates, as a user gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Radius {
    /// That of the profile: [`Profile::default_k`], or with learned weights [`Profile::weighted_k`].
    #[default]
    OfProfile,
    /// A number of bits, or of cells of signatures.
    Distance(u32),
    /// The least similarity of signatures, 0 to 1; or of letters, if the profile aligns them
    /// ([`Profile::alignment`]).
    Similarity(f64),
}

/// Why a radius does not suit a profile. Callers name their own options.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RadiusError {
    /// It is not between 0 and 1.
    #[error("a similarity is a number from 0 to 1")]
    NoSimilarity,
    /// A similarity, and the profile makes hashes.
    #[error("{profile} makes hashes, which have a distance and no similarity: give a distance")]
    MakesHashes {
        /// The profile.
        profile: String,
    },
    /// Parts of texts, and the profile or the radius has nothing that would find them.
    #[error("parts of texts need a profile of minima, such as minhash-copies, and no distance; {profile}")]
    FindsNoParts {
        /// The profile.
        profile: String,
    },
    /// The distance is larger than any.
    #[error("the largest distance of {profile} is {most}")]
    TooFar {
        /// The profile.
        profile: String,
        /// The largest distance.
        most: u32,
    },
}

impl Radius {
    /// The distance for a profile, whose signatures are weighted or not.
    ///
    /// ```
    /// use lookalike_dedupe::Radius;
    /// use lookalike_text::fingerprint::Profile;
    ///
    /// let profile = Profile::named("minhash-copies").expect("it is built in");
    /// assert_eq!(Radius::Similarity(0.5).of(profile, false)?, 99);
    /// assert!(Radius::OfProfile.of(profile, true)? > Radius::OfProfile.of(profile, false)?);
    /// # Ok::<(), lookalike_dedupe::RadiusError>(())
    /// ```
    pub fn of(self, profile: &Profile, is_weighted: bool) -> Result<u32, RadiusError> {
        let most = profile.signatures().map_or(profile.width().bits(), |shape| u32::from(shape.cells));
        let name = || profile.id().to_string();
        match (self, profile.signatures()) {
            (Radius::OfProfile, _) if is_weighted => Ok(profile.weighted_k()),
            (Radius::OfProfile, _) => Ok(profile.default_k()),
            (Radius::Distance(k), _) if k <= most => Ok(k),
            (Radius::Distance(_), _) => Err(RadiusError::TooFar { profile: name(), most }),
            (Radius::Similarity(least), _) if !(0.0..=1.0).contains(&least) => Err(RadiusError::NoSimilarity),
            // The texts decide: signatures say which ones.
            (Radius::Similarity(_), Some(_)) if profile.alignment().is_some() => Ok(profile.default_k()),
            (Radius::Similarity(least), Some(shape)) => Ok(shape.distance_for(least)),
            (Radius::Similarity(_), None) => Err(RadiusError::MakesHashes { profile: name() }),
        }
    }

    /// The distance within which texts are compared, if texts are also near of which one stands in the other
    /// one to this share. A part of less than a quarter is not looked for.
    ///
    /// # Errors
    /// As [`Radius::of`], and if this profile or radius finds no parts.
    pub fn reach(
        self,
        profile: &Profile,
        is_weighted: bool,
        contained_in: Option<f64>,
    ) -> Result<u32, RadiusError> {
        let k = self.of(profile, is_weighted)?;
        let Some(share) = contained_in else { return Ok(k) };
        let shape = profile.signatures().filter(|shape| !shape.is_set && profile.alignment().is_none());
        match (self, shape) {
            _ if !(0.0..=1.0).contains(&share) => Err(RadiusError::NoSimilarity),
            (Radius::Distance(_), _) | (_, None) => {
                Err(RadiusError::FindsNoParts { profile: profile.id().to_string() })
            }
            (_, Some(shape)) => Ok(k.max(shape.distance_for(PART))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_radius_that_does_not_suit_is_refused_with_the_limit() {
        let (hashes, cells) = ("copies-64", "minhash-copies");
        let of = |name: &str, radius: Radius| {
            radius.of(Profile::named(name).unwrap(), false).map_err(|error| error.to_string())
        };
        assert_eq!(of(hashes, Radius::Distance(64)), Ok(64));
        assert_eq!(
            of(hashes, Radius::Distance(65)).unwrap_err(),
            "the largest distance of copies-64@1 is 64"
        );
        assert!(of(hashes, Radius::Similarity(0.5)).unwrap_err().contains("give a distance"));
        assert!(
            of(cells, Radius::Similarity(f64::NAN)).is_err() && of(cells, Radius::Similarity(1.1)).is_err()
        );
        assert_eq!(of(cells, Radius::Similarity(1.0)), Ok(0));
        let reach = |name: &str, radius: Radius, share: f64| {
            radius.reach(Profile::named(name).unwrap(), false, Some(share)).ok()
        };
        assert!(reach(cells, Radius::Similarity(0.5), 0.8) > of(cells, Radius::Similarity(0.5)).ok());
        assert_eq!(reach(cells, Radius::Similarity(0.1), 0.8), of(cells, Radius::Similarity(0.1)).ok());
        let refused = [
            (cells, Radius::Distance(9), 0.8),
            (cells, Radius::OfProfile, 1.1),
            (hashes, Radius::OfProfile, 0.8),
            ("noisy", Radius::OfProfile, 0.8),
            ("longest-sentences", Radius::OfProfile, 0.8),
        ];
        for (name, radius, share) in refused {
            assert_eq!(reach(name, radius, share), None, "{name} {radius:?} {share}");
        }
    }
}
