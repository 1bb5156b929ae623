//! How much of a text another one has: of a dropped text, whether anything of it is lost.

use lookalike_text::fingerprint::Profile;

/// For each of these texts, the share of its distinct features that `by` has, 0 to 1; 1 if it has none.
/// Features are those of the profile, without weights. Of a text that was copied into a longer one all are
/// there but those at its ends, whatever the similarity is.
///
/// ```
/// use lookalike_dedupe::contained;
/// use lookalike_text::fingerprint::Profile;
///
/// let profile = Profile::named("minhash-copies").expect("it is built in");
/// let page = "The ferry runs every hour until noon. Extra boats have been hired from a town nearby.";
/// let shares = contained(profile, page, ["The ferry runs every hour", page, "Fish and chips"]);
/// assert_eq!(shares, [6.0 / 7.0, 1.0, 0.0]); // "every hour" ends the one text and goes on in the other
/// ```
pub fn contained<'a>(profile: &Profile, by: &str, texts: impl IntoIterator<Item = &'a str>) -> Vec<f64> {
    let mut of_by: Option<Vec<u64>> = None;
    let share = |text: &str| {
        if text == by {
            return 1.0;
        }
        let by = of_by.get_or_insert_with(|| profile.feature_set(by));
        let own = profile.feature_set(text);
        let shared = own.iter().filter(|feature| by.binary_search(feature).is_ok()).count();
        if own.is_empty() { 1.0 } else { shared as f64 / own.len() as f64 }
    };
    texts.into_iter().map(share).collect()
}
