//! `lookalike vote`: prints the fingerprint of features with weights, and how it comes about; needs no
//! server.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::fingerprint::profile;
use lookalike_hash::HashForm;
use lookalike_text::fingerprint::{Ballot, GivenFeature, Voted};

#[derive(Debug, Args)]
pub(super) struct VoteArguments {
    /// Features: TEXT=WEIGHT, or TEXT=WEIGHT:HASH with a hash of binary or hexadecimal digits
    #[arg(required_unless_present = "sums", value_name = "FEATURE", value_parser = feature)]
    features: Vec<GivenFeature>,
    /// Sums of votes in place of features, the most significant bit first, with commas between them
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, conflicts_with = "features")]
    sums: Option<Vec<f64>>,
    /// Width of the fingerprint, 4 to 160; by default that of the profile
    #[arg(long)]
    bits: Option<u32>,
    /// Hash function of the features, such as md5; by default that of the profile
    #[arg(long)]
    function: Option<String>,
    /// Value of a bit whose votes are even: smallest, zero or one; by default that of the profile
    #[arg(long)]
    tie: Option<String>,
    /// Profile, with or without version
    #[arg(long, default_value = "copies-128")]
    profile: String,
    /// TOML file that defines your own profiles
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// Form of the fingerprint: hex, 0x, decimal, signed, base64
    #[arg(long, value_name = "FORM", default_value = "hex")]
    hash_format: HashForm,
    /// Print the hash and votes of each feature, and the sums
    #[arg(long)]
    explain: bool,
}

fn feature(argument: &str) -> Result<GivenFeature, String> {
    let (text, rest) = argument.rsplit_once('=').ok_or("a feature is TEXT=WEIGHT or TEXT=WEIGHT:HASH")?;
    let (weight, hash) = match rest.split_once(':') {
        Some((weight, hash)) => (weight, Some(hash.to_owned())),
        None => (rest, None),
    };
    let weight = weight.parse().map_err(|_| format!("{weight:?} is not a number"))?;
    Ok(GivenFeature { text: text.to_owned(), weight, hash })
}

pub(super) fn run(arguments: &VoteArguments) -> Result<(), Failure> {
    let profile = profile(arguments.profiles.as_deref(), &arguments.profile)?;
    let bits = arguments.bits.or(arguments.sums.as_ref().and_then(|sums| u32::try_from(sums.len()).ok()));
    let wrong = |error| Failure::of(&error, 2);
    let ballot = Ballot::of(profile, bits, arguments.function.as_deref(), arguments.tie.as_deref());
    let ballot = ballot.map_err(wrong)?;
    let voted = match &arguments.sums {
        Some(sums) => ballot.decide(sums.clone()),
        None => ballot.count(&arguments.features),
    };
    Ok(print(arguments, &voted.map_err(wrong)?)?)
}

fn print(arguments: &VoteArguments, voted: &Voted) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.explain {
        for (feature, hash) in arguments.features.iter().zip(&voted.features) {
            let GivenFeature { text, weight, .. } = feature;
            let votes = hash.bits().map(|bit| if bit { *weight } else { -weight });
            writeln!(out, "{text}\t{weight}\t{}\t{}", hash.to_binary(), listed(votes))?;
        }
        writeln!(out, "sums\t\t\t{}", listed(voted.sums.iter().copied()))?;
    }
    writeln!(out, "{}  {}", arguments.hash_format.write_wide(voted.hash), voted.hash.to_binary())
}

fn listed(numbers: impl Iterator<Item = f64>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_a_text_a_weight_and_perhaps_a_hash() {
        let of = |text: &str, weight, hash: Option<&str>| GivenFeature {
            text: text.to_owned(),
            weight,
            hash: hash.map(str::to_owned),
        };
        assert_eq!(feature("美国=5"), Ok(of("美国", 5.0, None)));
        assert_eq!(feature("a=b=0.5:101"), Ok(of("a=b", 0.5, Some("101"))));
        assert_eq!(feature("=1:ff"), Ok(of("", 1.0, Some("ff"))));
        assert!(feature("a").is_err() && feature("a=x").is_err());
    }
}
