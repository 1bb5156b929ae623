//! Documents that contain items of evaluation sets: they are dropped, and replace no others.

use super::super::super::Failure;
use super::super::bench::{ContaminatedLine, InText};
use super::super::spool::{Kind, Stored};
use super::Run;
use lookalike_dedupe::{Watch, in_parallel};

/// The texts of shards that are searched together.
const TOGETHER: u32 = 1 << 12;

impl Run<'_> {
    /// Finds items in the stored texts of all records, which are not read for prints.
    pub(super) fn find_items(&mut self) -> Result<(), Failure> {
        let (Some(items), Some(texts)) = (self.maker.bench.clone(), self.texts.clone()) else {
            return Ok(());
        };
        let (first, all) = (self.against_prints.len(), self.prints.len());
        for from in (0..all).step_by(TOGETHER as usize) {
            self.check_stop()?;
            let count = TOGETHER.min(all - from) as usize;
            let found = in_parallel(count, self.threads, &Watch::default(), |at| {
                texts.get(first + from + at as u32).and_then(|text| InText::of(&items, &text))
            });
            for (number, contained) in (from..).zip(found.expect("nobody stops this watch")) {
                if contained.is_some() {
                    self.without_items(number, contained, self.prints.get(number)?)?;
                }
            }
        }
        texts.check()
    }

    /// What is stored about a record for this run, and the line of one that contains an item.
    pub(super) fn without_items(
        &mut self,
        number: u32,
        contained: Option<InText>,
        stored: Stored,
    ) -> Result<Stored, Failure> {
        let Some(contained) = contained else { return Ok(stored) };
        self.contaminated.push(number);
        *self.summary.also.entry("dropped with items of --decontaminate").or_default() += 1;
        if let (Some(items), Some(mut lines)) = (&self.maker.bench, self.contaminated_file.take()) {
            let own = self.shown(self.against_prints.len() + number)?;
            let item = items.shown(contained.item);
            lines.write(&ContaminatedLine::of(own, item, &contained))?;
            self.contaminated_file = Some(lines);
        }
        Ok(Stored { kind: Kind::Contaminated, ..stored })
    }

    pub(super) fn is_contaminated(&self, number: u32) -> bool {
        self.contaminated.binary_search(&number).is_ok()
    }

    /// The kind of a record in this run, which its print says but for items that it contains.
    pub(super) fn kind(&self, number: u32, stored: Kind) -> Kind {
        if self.is_contaminated(number) { Kind::Contaminated } else { stored }
    }
}
