//! Prints the fingerprints of two texts and whether they are near-duplicates. It also works without the
//! features of the crate, for texts that need none:
//!
//! ```sh
//! cargo run -p lookalike-text --no-default-features --example distance -- "A text." "Another text."
//! ```

use std::error::Error;

use lookalike_text::fingerprint::Profile;

fn main() -> Result<(), Box<dyn Error>> {
    let texts: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = &texts[..] else { return Err("Usage: distance TEXT TEXT".into()) };
    println!("{}", verdict(Profile::default_profile(), a, b)?);
    Ok(())
}

/// Both fingerprints, their distance, and what the `k` of the profile says about it.
fn verdict(profile: &Profile, a: &str, b: &str) -> Result<String, Box<dyn Error>> {
    let (a, b) = (profile.try_fingerprint(a)?.hash, profile.try_fingerprint(b)?.hash);
    let distance = a.distance(b).ok_or("the profile makes signatures, which have no distance")?;
    let word = if distance <= profile.default_k() { "near-duplicates" } else { "different" };
    Ok(format!("{a}\n{b}\n{distance} bits differ: {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_word_is_near_and_another_text_is_not() {
        let ferry = "The harbour ferry will run every twenty minutes during the summer festival, the city \
                     council said on Tuesday. Extra boats have been hired from a neighbouring town.";
        let says = |other: &str| verdict(Profile::default_profile(), ferry, other).unwrap();
        assert!(says(&ferry.replace("Tuesday", "Friday")).ends_with(": near-duplicates"));
        assert!(says("The library is open until ten in the evening.").ends_with(": different"));
    }
}
