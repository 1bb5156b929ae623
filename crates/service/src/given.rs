//! Fingerprints of features that the client gives with their weights.

use super::Service;
use super::error::ServiceError;

use lookalike_hash::Hash;
use lookalike_run::pool::{Cancel, Patience};
use lookalike_text::fingerprint::{Ballot, GivenFeature, Profile, Voted, WrongBallot};

/// Features or sums for a vote, and choices in place of those of the profile.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The features.
    pub features: Vec<GivenFeature>,
    /// The sums of the votes, the most significant bit first, in place of features.
    pub sums: Option<Vec<f64>>,
    /// The width of the fingerprint.
    pub bits: Option<u32>,
    /// The name of the hash function.
    pub function: Option<String>,
    /// The name of the rule for ties.
    pub tie: Option<String>,
}

/// A fingerprint of given features, with its steps.
#[derive(Debug)]
pub struct Counted {
    /// The profile, if the fingerprint is one of its fingerprints.
    pub profile: Option<&'static Profile>,
    /// The way in which the votes were counted.
    pub ballot: Ballot,
    /// The features as they were given.
    pub features: Vec<GivenFeature>,
    /// The result.
    pub voted: Voted,
}

impl Service {
    /// Counts the votes of given features, by the rules of a profile unless others are given.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] with the field that is wrong; [`ServiceError::Engine`] if the pool is full.
    pub async fn count_given(
        &self,
        profile: &'static Profile,
        given: Given,
    ) -> Result<Counted, ServiceError> {
        self.pool.run(Patience::Interactive, move |_: &Cancel| counted(profile, given)).await?
    }
}

fn counted(profile: &'static Profile, given: Given) -> Result<Counted, ServiceError> {
    let Given { features, sums, bits, function, tie } = given;
    let bits = sums.as_ref().map_or(bits, |sums| bits.or(u32::try_from(sums.len()).ok()));
    let ballot =
        Ballot::of(profile, bits, function.as_deref(), tie.as_deref()).map_err(|error| wrong(&error))?;
    let is_of_profile = bits.is_none() && function.is_none() && tie.is_none();
    let voted = match sums {
        Some(sums) => ballot.decide(sums),
        None => ballot.count(&features),
    };
    let voted = voted.map_err(|error| wrong(&error))?;
    Ok(Counted { profile: is_of_profile.then_some(profile), ballot, features, voted })
}

/// The hash of given features by a profile.
pub(super) fn hash_of(profile: &Profile, features: &[GivenFeature]) -> Result<Hash, ServiceError> {
    let voted = Ballot::of(profile, None, None, None).and_then(|ballot| ballot.count(features));
    let hash = voted.map_err(|error| wrong(&error))?.hash;
    Ok(hash.to_hash().expect("a profile that votes has 64 or 128 bits"))
}

fn wrong(error: &WrongBallot) -> ServiceError {
    let field = match error {
        WrongBallot::Width => "bits",
        WrongBallot::Signature => "profile",
        WrongBallot::Narrow { .. } => "function",
        WrongBallot::Choice { key, .. } => key,
        WrongBallot::Sum(_) => "sums",
        WrongBallot::Count | WrongBallot::Weight(_) | WrongBallot::Hash { .. } | WrongBallot::Supplied(_) => {
            "features"
        }
    };
    ServiceError::invalid(field, error.to_string())
}
