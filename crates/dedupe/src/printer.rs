//! From a text to what it is compared by: its hash or signature, and its sketch for a second check.

use std::convert::Infallible;
use std::sync::Arc;

use lookalike_corpus::{Check, Print};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::{Fingerprint, Profile, Signature, Sketch};

/// The profile whose features the second check compares, as the server does.
const CHECKED: &str = "pairs-64";
/// The bytes of a sketch, one bit for each minimum.
pub const SKETCH_BYTES: usize = 128;
/// The bits of each minimum in a sketch.
const SKETCH_BITS: u32 = 1;

/// Makes the prints of texts.
///
/// ```
/// use lookalike_dedupe::Printer;
/// use lookalike_text::fingerprint::Profile;
///
/// let profile = Profile::named("copies-64").expect("it is built in");
/// let (fingerprint, print) = Printer { profile, weights: None, is_checked: false }.print("Fish and chips");
/// assert_eq!(print.hash, fingerprint.hash);
/// assert!(print.signature.is_empty() && print.sketch.is_empty());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printer<'a> {
    /// The recipe of the hash or signature.
    pub profile: &'static Profile,
    /// The weights of the features of signatures, if they have any.
    pub weights: Option<&'a Frequencies>,
    /// Whether there is a second check, which needs a sketch of each text.
    pub is_checked: bool,
}

impl Printer<'_> {
    /// The fingerprint of a text, and its print. The print of a text without features says nothing.
    ///
    /// # Panics
    /// Never: the profile of the check is built in.
    pub fn print(&self, text: &str) -> (Fingerprint, Print) {
        let compared = || Profile::named(CHECKED).expect("a built-in profile");
        let minima = SKETCH_BYTES * 8 / SKETCH_BITS as usize;
        let sketch = |set: Vec<u64>| Signature::of(&set, minima).sketch(SKETCH_BITS).bytes().to_vec();
        let (signed, sketch) = match (self.weights, self.is_checked) {
            (None, false) => (self.profile.sign(text), Vec::new()),
            (None, true) => {
                let Ok((signed, set)) =
                    self.profile.sign_with_set(compared(), text, || Ok::<_, Infallible>(()));
                (signed, sketch(set))
            }
            (Some(table), is_checked) => {
                let sketch = is_checked.then(|| sketch(compared().feature_set(text)));
                (self.profile.sign_weighted(table, text), sketch.unwrap_or_default())
            }
        };
        let signature = signed.signature.unwrap_or_default();
        (signed.fingerprint, Print { hash: signed.fingerprint.hash, signature, sketch })
    }
}

/// A check that near documents also have this similarity of the pairs of words of their texts, 0 to 1,
/// estimated by their sketches.
pub fn second_check(least: f64) -> Check {
    let sketch = |bytes: &[u8]| Sketch::from_bytes(SKETCH_BITS, bytes.to_vec());
    let is_near = move |a: &[u8], b: &[u8]| sketch(a).similarity(&sketch(b)) >= least;
    Check { bytes: SKETCH_BYTES, is_near: Arc::new(is_near) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_is_the_same_with_and_without_weights() {
        let text = "Boats have been hired from a neighbouring town, and tickets stay valid on all of them.";
        let profile = Profile::named("minhash-copies").unwrap();
        let plain = Printer { profile, weights: None, is_checked: true };
        let mut table = Frequencies::of_kind(0);
        table.add(&profile.feature_set(text));
        let weighted = Printer { weights: Some(&table), ..plain };
        let (a, b) = (plain.print(text).1, weighted.print(text).1);
        assert_eq!((a.sketch.len(), &a.sketch), (SKETCH_BYTES, &b.sketch));
        let check = second_check(0.9);
        assert!((check.is_near)(&a.sketch, &b.sketch));
        let text = "市图书馆昨天宣布，从下个月开始延长周末的开放时间。";
        let other = plain.print(text).1;
        assert!(!(check.is_near)(&a.sketch, &other.sketch));
    }
}
