//! How near is near: a distance, or the similarity that a distance of signatures stands for.

use lookalike_text::fingerprint::Profile;

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
    }
}
