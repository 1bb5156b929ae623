//! The evidence for what a run drops, after its decisions: the texts of the pairs are compared on all
//! threads.

use super::super::super::{Failure, tell};
use super::super::evidence::{Difference, Evidence, EvidenceFile, Facts};
use super::super::pairs::Pair;
use super::super::progress::check;
use super::super::review::{self, Reviewed, Sample, Whole};
use super::super::texts::Texts;
use super::Run;
use lookalike_dedupe::{Watch, in_parallel};
use lookalike_wording::counted;

impl Run<'_> {
    /// Writes the evidence and the page for a review, if they are wanted.
    pub(super) fn write_evidence(&self) -> Result<(), Failure> {
        let about = &self.arguments.about;
        let (Some(pairs), Some(texts)) = (&self.pairs, &self.texts) else { return Ok(()) };
        if let Some(path) = &about.evidence {
            let mut file = EvidenceFile::create(path)?;
            let mut without = 0;
            pairs.each(|pairs| {
                for (pair, facts) in pairs.iter().zip(self.facts(pairs, texts)?) {
                    without += u64::from(facts.is_none());
                    file.write(self.evidence(pair, facts)?)?;
                }
                Ok(())
            })?;
            file.finish()?;
            tell_without("--evidence has nulls", without);
        }
        let Some(path) = &about.review else { return Ok(()) };
        let mut sample = Sample::of(about.review_pairs);
        pairs.each(|pairs| {
            let near = pairs.iter().filter(|pair| !pair.is_exact && !self.of_indexes.contains(&pair.by));
            near.for_each(|pair| sample.offer(self.summary.class(pair.distance), *pair));
            Ok(())
        })?;
        let (sampled, sizes) = sample.finish();
        let of_sample: Vec<Pair> = sampled.iter().map(|one| one.pair).collect();
        let (mut found, mut without) = (Vec::new(), 0);
        for (one, facts) in sampled.iter().zip(self.facts(&of_sample, texts)?) {
            let Pair { own, by, .. } = one.pair;
            let (Some(facts), Some(dropped), Some(kept)) = (facts, texts.get(own), texts.get(by)) else {
                without += 1;
                continue;
            };
            let names = [self.shown(own)?.to_string(), self.shown(by)?.to_string()];
            found.push(Reviewed { names, texts: [dropped, kept], class: one.class, facts });
        }
        tell_without("--review leaves out some pairs", without);
        let named = |(class, size)| (class, (self.summary.label(class), size));
        let classes = sizes.into_iter().map(named).collect();
        review::write(path, found, &Whole { classes, exact: self.summary.exact })
    }

    /// What the texts of each pair say; `None` if one of them is not known.
    fn facts(&self, pairs: &[Pair], texts: &Texts) -> Result<Vec<Option<Facts>>, Failure> {
        let (maker, stop) = (self.maker, &self.stop);
        let made = in_parallel(pairs.len(), self.threads, &Watch::default(), |at| {
            check(stop)?;
            let both = texts.get(pairs[at].own).zip(texts.get(pairs[at].by));
            Ok(both.map(|(own, by)| Facts::of(maker.profile, maker.weights.as_deref(), &own, &by)))
        });
        texts.check()?;
        made.expect("nobody stops this watch").into_iter().collect()
    }

    fn evidence(&self, pair: &Pair, facts: Option<Facts>) -> Result<Evidence<'_>, Failure> {
        let overlap = facts.as_ref().map(|facts| facts.overlap);
        let passages = facts.and_then(|facts| facts.passages);
        Ok(Evidence {
            own: self.shown(pair.own)?,
            source: self.sources.of(pair.own - self.against_prints.len())?,
            replaced_by: self.shown(pair.by)?,
            distance: pair.distance,
            estimated_similarity: self.summary.shape.map(|shape| shape.similarity(pair.distance)),
            exact_similarity: overlap.map(|overlap| overlap.similarity),
            contained_in: overlap.map(|overlap| overlap.contained_in),
            contains: overlap.map(|overlap| overlap.contains),
            first_difference: passages.map(|[dropped, kept]| Difference { dropped, kept }),
            exact: pair.is_exact,
        })
    }
}

/// Tells of removals whose texts are not known.
fn tell_without(what: &str, count: u64) {
    if count > 0 {
        let removals = counted(count, "removal");
        tell(&format!(
            "{what}, for {removals}: the text of the kept one is in a collection or an index, which has none"
        ));
    }
}
