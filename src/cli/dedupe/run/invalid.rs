//! Records that cannot be read, and ids that are repeated: each ends a run.

use super::super::super::{Failure, tell};
use super::super::spool::Name;
use super::{PARTS, Run};
use lookalike_wording::counted;

/// The most records of a kind that are printed; further ones are only counted.
pub(super) const SHOWN: u64 = 20;

impl Run<'_> {
    /// Ends the run if records are invalid, or ids are repeated.
    pub(super) fn refuse_invalid(&self) -> Result<(), Failure> {
        if self.summary.invalid > 0 && !self.arguments.read.skip_invalid {
            return Err(refusal(self.summary.invalid, ""));
        }
        let Some((a, b)) = self.names.repeated(self.memory / PARTS)? else { return Ok(()) };
        let place = |name: &Name| {
            let file = &self.inputs.files[name.file as usize - self.against.names.len()].shown;
            format!("{file}:{}", name.line)
        };
        Err(Failure::new(format!(
            "the id {:?} is repeated, at {} and {}; name another --id-field, or one that no document has to \
             name documents by file and line; no output is written",
            a.id.as_deref().unwrap_or_default(),
            place(&a),
            place(&b)
        )))
    }
}

pub(super) fn refusal(invalid: u64, of: &str) -> Failure {
    Failure::new(format!(
        "{}{of}, and no output is written; --skip-invalid leaves such records out (the same command with it \
         goes on with what was read)",
        counted(invalid, "invalid record")
    ))
}

/// Prints why a record is not read, if few are.
pub(super) fn show_invalid(file: &str, line: u64, why: &str, count: u64) {
    if count <= SHOWN {
        tell(&format!("{file}:{line}: {why}"));
    }
}
