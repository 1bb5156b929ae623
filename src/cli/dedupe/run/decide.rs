//! The decisions between the two passes of a run, within the memory that is allowed.

use std::time::Duration;

use indicatif::ProgressBar;

use super::super::super::{Failure, tell};
use super::super::progress::check;
use super::super::spool::Kind;
use super::super::{Clusters, DedupeArguments};
use super::{Run, print_of};
use lookalike_corpus::{Bounds, Decisions};
use lookalike_dedupe::{Keep, Plan, decide};
use lookalike_run::machine::free_memory;
use lookalike_wording::counted;

/// The least memory for the prints and the index of a round.
const LEAST_BYTES: u64 = 1 << 20;
/// The memory of a run on a machine that does not say what is free.
const UNKNOWN: u64 = 1 << 30;

/// The memory for prints, the index, and what is held for each record: what the user names, or half of what
/// is free.
pub(in super::super) fn memory(arguments: &DedupeArguments) -> u64 {
    arguments.memory.unwrap_or_else(|| free_memory().map_or(UNKNOWN, |bytes| bytes / 2))
}

/// The bytes that are held for each record while all are decided: its decision, and with a key its place in
/// the order; before them its key. Components have a parent and two names for each.
pub(in super::super) fn fixed_bytes(arguments: &DedupeArguments) -> u64 {
    match (arguments.clusters, &arguments.keep) {
        (Clusters::Linked, _) => 4 + 4 + 8 + 4 + Decisions::BYTES,
        (Clusters::Greedy, Keep::By(lookalike_hash::KeepRule::First)) => Decisions::BYTES,
        (Clusters::Greedy, _) => 8 + 4,
    }
}

impl Run<'_> {
    /// The decision about each record that was not decided when it was read, within the memory that is
    /// allowed.
    pub(super) fn decisions(&mut self) -> Result<Decisions, Failure> {
        let spinner = ProgressBar::new_spinner().with_message("deciding");
        spinner.enable_steady_tick(Duration::from_millis(200));
        let always = self.against_prints.len();
        let all = always + self.prints.len();
        let bounds = self.bounds(all)?;
        let decided = always + self.streamed.records;
        // Kept documents that leave too little memory for the decisions are found again in smaller parts.
        let before = self.kept.take().filter(|kept| kept.bytes() <= bounds.bytes).map(|kept| (kept, decided));
        let plan = Plan {
            all,
            always,
            keys: std::mem::take(&mut self.keys),
            is_central: self.arguments.keep == Keep::Central,
            groups: self.arguments.clusters.into(),
            before,
            bounds,
        };
        let is_compared = |number: u32| {
            let kind = self.prints.head(number - always)?.kind;
            Ok(self.kind(number - always, kind) == Kind::Document)
        };
        let print = |number| {
            check(&self.stop)?;
            Ok::<_, Failure>(print_of(&self.against_prints, &self.prints, number)?.print)
        };
        let (decisions, rounds) = decide(&self.documents, plan, is_compared, print)?;
        self.texts.as_ref().map_or(Ok(()), |texts| texts.check())?;
        if rounds > 1 {
            tell(&format!("decided in {rounds} rounds, because of the memory"));
        }
        spinner.finish_and_clear();
        Ok(decisions)
    }

    /// The memory for prints and the index, after what is held for each record.
    fn bounds(&self, records: u32) -> Result<Bounds, Failure> {
        let fixed = u64::from(records) * fixed_bytes(self.arguments);
        let rest = self.memory.checked_sub(fixed);
        let bytes = rest.filter(|rest| *rest >= LEAST_BYTES).ok_or_else(|| {
            let least = (fixed + LEAST_BYTES).div_ceil(1 << 20);
            let records = counted(records.into(), "record");
            Failure::new(format!("--memory must be {least}MiB or more for {records}"))
        })?;
        Ok(Bounds { bytes: bytes as usize, threads: self.threads })
    }
}
