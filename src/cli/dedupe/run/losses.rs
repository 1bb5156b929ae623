//! What each source loses, and the end of a run in which one loses too much.

use super::super::super::Failure;
use super::super::spool::Kind;
use super::Run;
use lookalike_corpus::{Decision, Decisions};
use lookalike_files::shown;

impl Run<'_> {
    /// Counts the next record, of this file, for its source, which is its argument if no field names it.
    pub(super) fn count_source(
        &mut self,
        file: u32,
        kind: Kind,
        named: Option<String>,
    ) -> Result<(), Failure> {
        if matches!(kind, Kind::Other | Kind::Invalid) {
            return self.sources.read(None);
        }
        let named = named.unwrap_or_else(|| shown(&self.inputs.files[file as usize].argument));
        self.sources.read(Some(&named))
    }

    /// Counts the decision about a document.
    pub(super) fn count_loss(&mut self, number: u32, decision: Decision) -> Result<(), Failure> {
        let is_near = matches!(decision, Decision::Dropped { .. });
        let Some(own) = number.checked_sub(self.against_prints.len()) else { return Ok(()) };
        if is_near || self.is_contaminated(own) { self.sources.drop(own) } else { Ok(()) }
    }

    /// Ends the run if a source loses too much by what was counted, and by these decisions about the records
    /// that are not written.
    pub(super) fn refuse_losses(&mut self, decisions: Option<&Decisions>) -> Result<(), Failure> {
        let first = self.against_prints.len() + self.streamed.records;
        for number in first..decisions.map_or(first, |decisions| decisions.len() as u32) {
            self.count_loss(number, decisions.map_or(Decision::Kept, |decisions| decisions.get(number)))?;
        }
        // A run that annotates drops nothing.
        let is_free = self.arguments.force || self.arguments.about.annotate;
        if is_free { Ok(()) } else { self.sources.check(self.arguments.about.max_loss) }
    }
}
