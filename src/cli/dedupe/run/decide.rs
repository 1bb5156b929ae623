//! The decisions between the two passes of a run, within the memory that is allowed.

use std::time::Duration;

use indicatif::ProgressBar;

use super::super::super::{Failure, tell};
use super::super::Clusters;
use super::super::progress::check;
use super::super::spool::Kind;
use super::{Run, print_of};
use lookalike_corpus::{Bounds, Decision};
use lookalike_dedupe::{Keep, Plan, decide};
use lookalike_wording::counted;

/// The bytes that a run with `--memory` holds for each record: its kind, its key, its decision, and twice its
/// place in the order; with `--clusters linked` instead of the key its parent, and two names.
pub(in super::super) const FIXED_BYTES: u64 = 1 + 8 + 12 + 8;
const LINKED_BYTES: u64 = 1 + 4 + 8 + 4 + 12 + 8;
/// The least memory for prints and the index of a round.
const LEAST_BYTES: u64 = 1 << 20;

impl Run<'_> {
    /// The decision about each record that was read, within the memory that is allowed.
    pub(super) fn decisions(&mut self) -> Result<Vec<Decision>, Failure> {
        let spinner = ProgressBar::new_spinner().with_message("deciding");
        spinner.enable_steady_tick(Duration::from_millis(200));
        let (first, bounds) = (self.against_prints.len(), self.bounds()?);
        let is_compared = |number: u32| self.kinds[(number - first) as usize] == Kind::Document;
        let print = |number| {
            check(&self.stop)?;
            Ok::<_, Failure>(print_of(&self.against_prints, &self.prints, number)?.print)
        };
        let plan = Plan {
            always: first,
            is_central: self.arguments.keep == Keep::Central,
            groups: self.arguments.clusters.into(),
            bounds,
        };
        let keys = std::mem::take(&mut self.keys);
        let (decisions, rounds) = decide(&mut self.documents, plan, keys, is_compared, print)?;
        if rounds > 1 {
            tell(&format!("decided in {rounds} rounds, because of --memory"));
        }
        spinner.finish_and_clear();
        Ok(decisions)
    }

    /// The memory for prints and the index, after what is held for each record.
    fn bounds(&self) -> Result<Bounds, Failure> {
        let (first, records) = (u64::from(self.against_prints.len()), self.kinds.len() as u64);
        let fixed = if self.arguments.clusters == Clusters::Linked { LINKED_BYTES } else { FIXED_BYTES };
        let fixed = (records + first) * fixed;
        let rest = self.arguments.memory.unwrap_or(u64::MAX).checked_sub(fixed);
        let bytes = rest.filter(|rest| *rest >= LEAST_BYTES).ok_or_else(|| {
            let least = (fixed + LEAST_BYTES).div_ceil(1 << 20);
            Failure::new(format!("--memory must be {least}MiB or more for {}", counted(records, "record")))
        })?;
        Ok(Bounds { bytes: bytes as usize, threads: self.threads })
    }
}
