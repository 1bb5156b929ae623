//! Facts of a document in an export besides its content: when it was written, and, if its text is not kept,
//! what was made from the text.
//!
//! A client states it, so it is checked as far as that is possible without the text. The time of writing is
//! never in the future: a later one counts as now. A document that is stored already is written again, so
//! its time becomes later than before, whatever the export says (`engine/planning`).

use std::collections::HashSet;

use super::Service;
use super::error::ServiceError;
use lookalike_engine::{CollectionSettings, Row};
use lookalike_hash::{CollectionName, Gram, GramRule, Passages};
use lookalike_text::features::{MAX_EXACT, MAX_SAMPLED, is_sampled};

/// Facts that the exporting server had stored of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// When it was last written, in milliseconds since 1970-01-01 UTC.
    pub written_ms: Option<u64>,
    /// The number of distinct features of its text, which is not kept.
    pub features: Option<u32>,
    /// Whether a copy of that text with one changed word may be missed.
    pub is_short: bool,
    /// The sampled grams of that text.
    pub grams: Vec<Gram>,
}

impl Exported {
    /// Takes these facts from a row. Those that are made from a text are left out if the text is kept: an
    /// import makes them again.
    pub fn of(row: &mut Row) -> Exported {
        let written_ms = Some(row.written_ms);
        if row.text.is_some() {
            return Exported { written_ms, ..Exported::default() };
        }
        let grams = std::mem::take(&mut row.grams);
        Exported { written_ms, features: row.features, is_short: row.short, grams }
    }

    /// Adds it to a row that is made at this time from the same line.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] if it does not fit the row or the collection.
    pub(super) fn add_to(
        self,
        row: &mut Row,
        settings: &CollectionSettings,
        now_ms: u64,
    ) -> Result<(), ServiceError> {
        let Exported { written_ms, features, is_short, grams } = self;
        row.written_ms = written_ms.map_or(now_ms, |written| written.min(now_ms));
        if features.is_none() && grams.is_empty() {
            return Ok(());
        }
        if row.features.is_some() {
            let detail = "features, status and grams are made from the text of the line; leave them out";
            return Err(ServiceError::invalid("exported", detail));
        }
        (row.features, row.short) = (features, is_short);
        if !grams.is_empty() {
            let Some(rule) = settings.grams else { return Err(other_passages("exported/grams")) };
            check_grams(rule, &grams, row.characters)?;
            row.grams = grams;
        }
        Ok(())
    }
}

impl Service {
    /// Checks whether documents with these grams of their texts fit a collection.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] if they do not, and if there is no such collection.
    pub fn check_passages_of(&self, collection: &CollectionName, kept: Passages) -> Result<(), ServiceError> {
        let settings = self.engine()?.settings(collection)?;
        let fits = kept == Passages::No || kept == Passages::of(settings.grams);
        if fits { Ok(()) } else { Err(other_passages("passages")) }
    }
}

fn other_passages(field: &'static str) -> ServiceError {
    let detail = "the export has grams by which passages are found, and this collection does not keep these: \
                  make one with \"passages\": true, or \"exact\" if the header says so, or, to do without \
                  passages, leave \"passages\" out of the header and \"grams\" out of the lines";
    ServiceError::invalid(field, detail)
}

/// Checks that these may be the grams of one text of so many characters.
fn check_grams(rule: GramRule, grams: &[Gram], characters: Option<u32>) -> Result<(), ServiceError> {
    let most = if rule.is_exact { MAX_EXACT } else { MAX_SAMPLED };
    let mut seen = HashSet::with_capacity(grams.len().min(most));
    let is_good = |gram: &Gram| gram.from < gram.to && (rule.is_exact || is_sampled(gram.hash));
    let wrong = if grams.len() > most {
        "there are more than a text has"
    } else if !grams.iter().all(is_good) || !grams.is_sorted_by_key(|gram| gram.from) {
        "they are not such grams in the order of a text"
    } else if !grams.iter().all(|gram| seen.insert(gram.hash)) {
        "one is there twice"
    } else if grams.iter().any(|gram| characters.is_some_and(|characters| gram.to > characters)) {
        "one ends after the characters of the text"
    } else {
        return Ok(());
    };
    let detail = format!("grams are those of GET /export, unchanged: {wrong}");
    Err(ServiceError::invalid("exported/grams", detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike_text::features::sampled_grams;

    #[test]
    fn only_the_grams_of_a_text_are_accepted() {
        let text: String = (0..900_u32).map(|n| format!("{:x} ", n.wrapping_mul(0x9e37_79b9))).collect();
        let (rule, grams) = (GramRule { is_exact: false, boilerplate: 5 }, sampled_grams(&text));
        assert!(grams.len() > 40);
        let characters = text.chars().count() as u32;
        let wrong = |change: &dyn Fn(&mut Vec<Gram>)| {
            let mut changed = grams.clone();
            change(&mut changed);
            check_grams(rule, &changed, Some(characters))
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert_eq!(wrong(&|_| ()), "");
        assert!(check_grams(rule, &grams, None).is_ok());
        for (change, expected) in [
            (&(|grams: &mut Vec<Gram>| grams[3].hash += 40) as &dyn Fn(&mut Vec<Gram>), "not such grams"),
            (&|grams| grams.swap(3, 4), "in the order of a text"),
            (&|grams| grams[3].to = grams[3].from, "in the order of a text"),
            (&|grams| grams[4].hash = grams[3].hash, "twice"),
            (&|grams| grams.last_mut().unwrap().to = u32::MAX, "after the characters"),
            (&|grams| *grams = grams.repeat(MAX_SAMPLED / 40), "more than a text has"),
        ] {
            assert!(wrong(change).contains(expected), "{expected}: {}", wrong(change));
        }
    }
}
