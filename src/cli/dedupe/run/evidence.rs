//! The evidence for what a run drops, after its decisions: the texts of the pairs are read once more, and
//! compared on all threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;
use indicatif::ProgressBar;

use super::super::super::{Failure, tell};
use super::super::evidence::{Difference, Evidence, EvidenceFile, Facts};
use super::super::folder::Folder;
use super::super::inputs::Input;
use super::super::pairs::Pair;
use super::super::progress::{bar, check};
use super::super::reader::Reader;
use super::super::record::{Maker, Raw};
use super::super::review::{self, Reviewed, Sample, Whole};
use super::super::texts::Texts;
use super::{Run, source, unchanged};
use lookalike_dedupe::{Watch, in_parallel};
use lookalike_files::About;
use lookalike_wording::counted;

/// The documents whose texts are wanted, a bit for each.
struct Wanted(Vec<u64>);

impl Wanted {
    fn add(&mut self, pair: &Pair) {
        for number in [pair.own, pair.by] {
            let place = number as usize / 64;
            self.0.resize(self.0.len().max(place + 1), 0);
            self.0[place] |= 1 << (number % 64);
        }
    }

    fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|bits| bits >> (number % 64) & 1 == 1)
    }
}

/// What finds the number and the packed text of a record that a pair needs.
type FindsText<'a> = dyn Fn(u32, &Raw, &About) -> Option<(u32, Vec<u8>)> + Sync + 'a;

impl Run<'_> {
    /// Writes the evidence and the page for a review, if they are wanted.
    pub(super) fn write_evidence(&self, folder: &Folder) -> Result<(), Failure> {
        let about = &self.arguments.about;
        let Some(pairs) = &self.pairs else { return Ok(()) };
        if !about.reads_again() {
            return Ok(());
        }
        let mut sample = Sample::of(about.review.as_ref().map_or(0, |_| about.review_pairs));
        let mut wanted = Wanted(Vec::new());
        pairs.each(|pairs| {
            let near = pairs.iter().filter(|pair| !pair.is_exact && !self.of_indexes.contains(&pair.by));
            near.for_each(|pair| sample.offer(self.summary.class(pair.distance), *pair));
            pairs.iter().filter(|_| about.evidence.is_some()).for_each(|pair| wanted.add(pair));
            Ok(())
        })?;
        let (sampled, sizes) = sample.finish();
        sampled.iter().for_each(|one| wanted.add(&one.pair));
        let texts = self.collect(&wanted, folder)?;
        if let Some(path) = &about.evidence {
            let mut file = EvidenceFile::create(path)?;
            let mut without = 0;
            pairs.each(|pairs| {
                for (pair, facts) in pairs.iter().zip(self.facts(pairs, &texts)?) {
                    without += u64::from(facts.is_none());
                    file.write(self.evidence(pair, facts)?)?;
                }
                Ok(())
            })?;
            file.finish()?;
            tell_without("--evidence has nulls", without);
        }
        let Some(path) = &about.review else { return Ok(()) };
        let of_sample: Vec<Pair> = sampled.iter().map(|one| one.pair).collect();
        let (mut found, mut without) = (Vec::new(), 0);
        for (one, facts) in sampled.iter().zip(self.facts(&of_sample, &texts)?) {
            let Pair { own, by, .. } = one.pair;
            let (Some(facts), Some(dropped), Some(kept)) = (facts, texts.get(own)?, texts.get(by)?) else {
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
            let both = texts.get(pairs[at].own)?.zip(texts.get(pairs[at].by)?);
            Ok(both.map(|(own, by)| Facts::of(maker.profile, maker.weights.as_deref(), &own, &by)))
        });
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

    /// Reads the texts that are wanted.
    fn collect(&self, wanted: &Wanted, folder: &Folder) -> Result<Texts, Failure> {
        let mut texts = Texts::create(&folder.work(""))?;
        let bar = bar("compare", self.inputs.bytes() + self.against.inputs.bytes());
        let first = self.against_prints.len();
        let mut places: HashMap<(u32, u64), u32, RandomState> = HashMap::default();
        for number in (0..first).filter(|number| wanted.has(*number)) {
            let name = self.names.get(number)?;
            places.insert((name.file, name.line), number);
        }
        let mut before = 0;
        for (files, maker) in self.against_files() {
            let found = |_: u32, raw: &Raw, about: &About| {
                let number = places.get(&(before + raw.file, raw.line))?;
                Some((*number, Texts::packed(&maker.text(raw, about)?)))
            };
            self.collect_from(files, &maker, &bar, &found, &mut texts)?;
            before += files.len() as u32;
        }
        let maker = self.maker;
        let found = |record: u32, raw: &Raw, about: &About| {
            let number = first + record;
            let text = wanted.has(number).then(|| maker.text(raw, about))??;
            Some((number, Texts::packed(&text)))
        };
        self.collect_from(&self.inputs.files, maker, &bar, &found, &mut texts)?;
        bar.finish_and_clear();
        Ok(texts)
    }

    fn collect_from(
        &self,
        files: &[Input],
        maker: &Maker,
        bar: &ProgressBar,
        found: &FindsText<'_>,
        texts: &mut Texts,
    ) -> Result<(), Failure> {
        let reader = Reader { inputs: files, maker, known: 0, threads: self.threads, passed: Arc::default() };
        reader.each_of(found, |records| {
            bar.set_position(reader.passed.load(Ordering::Relaxed));
            self.check_stop()?;
            for (raw, found) in records {
                let Some((number, packed)) = found else { continue };
                // Evidence is about the bytes that were decided about.
                if let Some(record) = number.checked_sub(self.against_prints.len())
                    && self.prints.head(record)?.source != source(&raw)
                {
                    return Err(self.changed(&raw));
                }
                texts.push(number, &packed)?;
            }
            Ok(())
        })?;
        unchanged(files)
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
