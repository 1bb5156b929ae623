//! Fingerprints of features that a caller gives with their weights: the vote without a text.
//!
//! Any tokenizer or domain can supply the features: keywords, n-grams, identifiers, or hashes computed
//! elsewhere. The fingerprint has 4 to 160 bits. With the hash function, width and tie rule of a profile, it
//! is a fingerprint of that profile. Not here: texts (`recipe`).

use super::profile::{Profile, check_takes_texts};
use super::vote::Tie;
use crate::features::{HashFunction, ONE, fixed, low_bytes};
use lookalike_hash::WideHash;

/// A feature that a caller gives.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenFeature {
    /// Its text, which is hashed unchanged unless `hash` is given.
    pub text: String,
    /// The weight of its vote, in [`GivenFeature::WEIGHTS`], to the nearest 1/65,536.
    pub weight: f64,
    /// The digits of its hash, if that is given ([`WideHash::parse`]).
    pub hash: Option<String>,
}

impl GivenFeature {
    /// The weights of a feature.
    pub const WEIGHTS: std::ops::RangeInclusive<f64> = 1.0 / ONE as f64..=1_000_000.0;
    /// The most features of a fingerprint.
    pub const MOST: usize = 10_000;
}

/// The way in which given features are hashed and their votes are decided.
#[derive(Clone, Copy, Debug)]
pub struct Ballot {
    width: u32,
    function: HashFunction,
    tie: Tie,
}

/// The result of a vote, with its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Voted {
    /// The fingerprint.
    pub hash: WideHash,
    /// The hash of each feature.
    pub features: Vec<WideHash>,
    /// The sum of the votes on each bit, the most significant first.
    pub sums: Vec<f64>,
}

/// The reason why features cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum WrongBallot {
    /// The profile does not vote.
    #[error("the profile makes signatures: features need a profile that votes")]
    Signature,
    /// The profile takes only hashes.
    #[error("{0}")]
    Supplied(String),
    /// The width is out of range.
    #[error(
        "bits takes {} to {}: leave it out for the width of the profile",
        WideHash::WIDTHS.start(),
        WideHash::WIDTHS.end()
    )]
    Width,
    /// The hash function has fewer bits.
    #[error("{function} has {bits} bits at most: choose another function or fewer bits")]
    Narrow {
        /// The function.
        function: &'static str,
        /// Its bits.
        bits: u32,
    },
    /// There is no such choice.
    #[error("{key} takes one of {known}")]
    Choice {
        /// The key.
        key: &'static str,
        /// The choices.
        known: String,
    },
    /// The number of features is out of range.
    #[error("1 to {} features are needed", GivenFeature::MOST)]
    Count,
    /// A weight is out of range.
    #[error("feature {0} has a wrong weight: weights are numbers from 1/65536 to 1000000")]
    Weight(usize),
    /// A sum is out of range.
    #[error("sum {0} is wrong: sums are numbers from -10000000000 to 10000000000")]
    Sum(usize),
    /// A given hash is wrong.
    #[error(
        "feature {place} has a wrong hash: {width} binary digits or {} hexadecimal ones are needed",
        width.div_ceil(4)
    )]
    Hash {
        /// The number of the feature, from 0.
        place: usize,
        /// The width.
        width: u32,
    },
}

impl Ballot {
    /// The ballot of a profile, in which some choices are replaced: the width in bits, and the names of a
    /// hash function and a tie rule as in profile definitions.
    ///
    /// # Errors
    /// [`WrongBallot`] if a choice is unknown, or the function has fewer bits.
    pub fn of(
        profile: &Profile,
        width: Option<u32>,
        function: Option<&str>,
        tie: Option<&str>,
    ) -> Result<Ballot, WrongBallot> {
        if profile.signatures().is_some() {
            return Err(WrongBallot::Signature);
        }
        check_takes_texts(profile).map_err(WrongBallot::Supplied)?;
        let recipe = profile.recipe();
        let function = function.map(|name| choice("function", &HashFunction::NAMES, name)).transpose()?;
        let tie = tie.map(|name| choice("tie", &Tie::NAMES, name)).transpose()?;
        let ballot = Ballot {
            width: width.unwrap_or(recipe.width.bits()),
            function: function.unwrap_or(recipe.hash),
            tie: tie.unwrap_or(recipe.tie),
        };
        if !WideHash::WIDTHS.contains(&ballot.width) {
            return Err(WrongBallot::Width);
        }
        Ok(ballot)
    }

    /// The number of bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The name of the hash function.
    pub fn function(&self) -> &'static str {
        name_of(&HashFunction::NAMES, &self.function)
    }

    /// The name of the tie rule.
    pub fn tie(&self) -> &'static str {
        name_of(&Tie::NAMES, &self.tie)
    }

    /// Counts the votes of features. Equal features add up.
    ///
    /// # Errors
    /// [`WrongBallot`] with the first fault.
    pub fn count(&self, features: &[GivenFeature]) -> Result<Voted, WrongBallot> {
        if features.is_empty() || features.len() > GivenFeature::MOST {
            return Err(WrongBallot::Count);
        }
        let hash = |(place, feature)| self.hash_of(place, feature);
        let hashes = features.iter().enumerate().map(hash).collect::<Result<Vec<_>, _>>()?;
        let mut sums = vec![0_i64; self.width as usize];
        for (place, (feature, hash)) in features.iter().zip(&hashes).enumerate() {
            if !GivenFeature::WEIGHTS.contains(&feature.weight) {
                return Err(WrongBallot::Weight(place));
            }
            let weight = fixed(feature.weight).cast_signed();
            let votes = hash.bits().map(|bit| if bit { weight } else { -weight });
            sums.iter_mut().zip(votes).for_each(|(sum, vote)| *sum += vote);
        }
        let sums: Vec<f64> = sums.into_iter().map(crate::features::to_number).collect();
        Ok(self.decided(hashes, sums))
    }

    /// Decides the bits of given sums, the most significant first. There is one sum for each bit.
    ///
    /// # Errors
    /// [`WrongBallot`] with the first fault.
    pub fn decide(&self, sums: Vec<f64>) -> Result<Voted, WrongBallot> {
        const MOST: f64 = 1e10;
        if sums.len() != self.width as usize {
            return Err(WrongBallot::Width);
        }
        match sums.iter().position(|sum| !(-MOST..=MOST).contains(sum)) {
            Some(place) => Err(WrongBallot::Sum(place)),
            None => Ok(self.decided(Vec::new(), sums)),
        }
    }

    fn hash_of(self, place: usize, feature: &GivenFeature) -> Result<WideHash, WrongBallot> {
        let width = self.width;
        if let Some(digits) = &feature.hash {
            return WideHash::parse(digits, width).ok_or(WrongBallot::Hash { place, width });
        }
        if width > self.function.bits() {
            return Err(WrongBallot::Narrow { function: self.function(), bits: self.function.bits() });
        }
        Ok(WideHash::of_low_bits(width, &low_bytes(self.function, width, &feature.text)))
    }

    fn decided(self, features: Vec<WideHash>, sums: Vec<f64>) -> Voted {
        let zeros = || WideHash::of_low_bits(self.width, &[]);
        let even = match self.tie {
            Tie::Smallest => features.iter().min().copied().unwrap_or_else(zeros),
            Tie::Zero => zeros(),
            Tie::One => WideHash::of_low_bits(self.width, &[0xff; 20]),
        };
        let bit = |(sum, even): (&f64, bool)| if *sum == 0.0 { even } else { *sum > 0.0 };
        Voted { hash: WideHash::of_bits(sums.iter().zip(even.bits()).map(bit)), features, sums }
    }
}

fn choice<T: Copy>(key: &'static str, names: &[(&'static str, T)], name: &str) -> Result<T, WrongBallot> {
    let known = || names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = names.iter().find(|(other, _)| *other == name);
    found.map(|(_, value)| *value).ok_or_else(|| WrongBallot::Choice { key, known: known() })
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, other)| other == value).map_or("", |(name, _)| name)
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(profile: &str, width: Option<u32>, function: Option<&str>) -> Ballot {
        Ballot::of(Profile::named(profile).unwrap(), width, function, None).unwrap()
    }

    fn features(list: &[(&str, f64, Option<&str>)]) -> Vec<GivenFeature> {
        let feature = |&(text, weight, hash): &(&str, f64, Option<&str>)| GivenFeature {
            text: text.to_owned(),
            weight,
            hash: hash.map(str::to_owned),
        };
        list.iter().map(feature).collect()
    }

    #[test]
    fn the_worked_examples_have_their_steps() {
        let five = features(&[
            ("美国", 5.0, Some("100101")),
            ("51区", 2.0, Some("101011")),
            ("飞碟", 3.0, Some("100111")),
            ("灰色", 1.0, Some("101111")),
            ("外星人", 4.0, Some("111011")),
        ]);
        let six = ballot("copies-64", Some(6), None);
        let voted = six.count(&five).unwrap();
        assert_eq!(voted.sums, [15.0, -7.0, -1.0, 3.0, 5.0, 15.0]);
        assert_eq!((voted.hash.to_binary().as_str(), voted.hash.to_string().as_str()), ("100111", "27"));
        let two = features(&[("美国", 4.0, Some("100101")), ("51区", 5.0, Some("101011"))]);
        assert_eq!(six.count(&two).unwrap().hash.to_binary(), "101011");
        let signs = six.decide(vec![13.0, 108.0, -22.0, -5.0, -32.0, 55.0]).unwrap();
        assert_eq!(signs.hash.to_binary(), "110001");
    }

    /// The features of a text with their weights give the hash of the text.
    #[test]
    fn features_of_a_profile_give_its_hash() {
        for profile in ["cppjieba", "fnv-zh", "keywords-zh"] {
            let text = "飞碟专家认为飞碟是气球 balloon";
            let explained = Profile::named(profile).unwrap().explain(text);
            let list: Vec<_> = explained.features.iter().map(|f| (f.text.as_str(), f.weight, None)).collect();
            let voted = ballot(profile, None, None).count(&features(&list)).unwrap();
            assert_eq!(voted.hash.to_hash(), Some(explained.fingerprint.hash), "{profile}");
        }
    }

    /// Published values of the functions for "abc", "foobar" and no bytes.
    #[test]
    fn functions_have_their_published_values() {
        let cases = [
            ("md5", 32, "abc", "28e17f72"),
            ("md5", 128, "abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha-1", 160, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("sha-1", 64, "abc", "7850c26c9cd0d89d"),
            ("sha-256", 160, "abc", "5dae2223b00361a396177a9cb410ff61f20015ad"),
            ("fnv-1a", 32, "foobar", "bf9cf968"),
            ("fnv-1a", 64, "foobar", "85944171f73967e8"),
            ("lookup3", 32, "", "deadbeef"),
            ("lookup3", 64, "Four score and seven years ago", "17770551ce7226e6"),
        ];
        for (function, width, text, hash) in cases {
            let one = features(&[(text, 1.0, None)]);
            let found =
                ballot("copies-64", Some(width), Some(function)).count(&one).unwrap().hash.to_string();
            assert_eq!(found, hash, "{function} {width}");
        }
        let one = features(&[("abc", 1.0, None)]);
        let of = |width| ballot("copies-64", Some(width), Some("xxh3")).count(&one).unwrap().hash;
        assert!(
            of(128).to_string() != of(64).to_string() && of(64).to_string().ends_with(&of(32).to_string())
        );
    }

    #[test]
    fn wrong_ballots_are_refused() {
        let profile = Profile::named("copies-64").unwrap();
        let of = |width, function, tie| Ballot::of(profile, width, function, tie).unwrap_err().to_string();
        assert_eq!(of(Some(3), None, None), "bits takes 4 to 160: leave it out for the width of the profile");
        assert_eq!(
            of(Some(161), None, None),
            "bits takes 4 to 160: leave it out for the width of the profile"
        );
        assert!(of(None, Some("crc"), None).starts_with("function takes one of xxh3, md5"));
        assert!(of(None, None, Some("both")).starts_with("tie takes one of smallest"));
        assert!(Ballot::of(Profile::named("minhash").unwrap(), None, None, None).is_err());
        let wide = ballot("copies-64", Some(160), Some("md5"));
        let count = |list: &[(&str, f64, Option<&str>)]| wide.count(&features(list)).unwrap_err().to_string();
        assert!(count(&[("a", 1.0, None)]).starts_with("md5 has 128 bits at most"));
        assert!(count(&[]).starts_with("1 to 10000 features"));
        assert!(count(&[("a", 1.0, Some("1"))]).starts_with("feature 0 has a wrong hash: 160 binary digits"));
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e6] {
            let error = ballot("copies-64", None, None).count(&features(&[("a", weight, None)])).unwrap_err();
            assert!(error.to_string().starts_with("feature 0 has a wrong weight"));
        }
        assert!(wide.decide(vec![1.0]).is_err());
    }

    #[test]
    fn ties_follow_their_rule() {
        let even = features(&[("", 1.0, Some("1100")), ("", 1.0, Some("1010"))]);
        let of = |tie| {
            let ballot = Ballot::of(Profile::named("copies-64").unwrap(), Some(4), None, Some(tie)).unwrap();
            ballot.count(&even).unwrap().hash.to_binary()
        };
        assert_eq!(["smallest", "zero", "one"].map(of), ["1010", "1000", "1110"]);
    }
}
