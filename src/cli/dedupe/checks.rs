//! Finds, before the work of a run, everything that would make it fail, and reports all of it at once.
//!
//! The first records of each file are read, except for pipes, which can be read only once, and texts, which
//! are whole files. *Absent*: compressed archives behind what is read in a second, and what shows only at the
//! end: repeated ids, and records that are invalid further on.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{Failure, tell};
use super::inputs::{Input, Inputs};
use super::reader::Reader;
use super::record::Maker;
use super::{DedupeArguments, about, bench, estimate, folder, spans, target};
use lookalike_wording::counted;

/// The number of records of each file that are read.
const FIRST: u32 = 100;
/// How long members of archives are read.
const ARCHIVES: Duration = Duration::from_secs(1);
/// The most problems that are listed.
const LISTED: usize = 30;

/// Checks the inputs, the places of the output, and the free space. Of the inputs those in `read` are read.
///
/// # Errors
/// [`Failure`] with all that is wrong.
pub(super) fn check(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    read: Range<usize>,
    against: &Inputs,
    maker: &Maker,
) -> Result<(), Failure> {
    let mut problems = [&inputs.problems[..], &against.problems].concat();
    problems.extend(of_passes(arguments, inputs));
    problems.extend(about::problems(arguments, inputs));
    problems.extend(spans::problems(arguments, inputs));
    problems.extend(bench::problems(arguments));
    let plain = maker.of_against();
    for (files, maker) in [(&inputs.files[read], maker), (&against.files, &plain)] {
        problems.extend(of_records(files, maker, arguments.read.skip_invalid));
    }
    problems.extend(folder::problems(&arguments.output, &inputs.files, arguments.force));
    problems.extend(arguments.upload.iter().flat_map(|to| to.problems(&inputs.files, arguments.force)));
    let is_input =
        |path: &Path| inputs.files.iter().chain(&against.files).any(|input| input.path.is_named(path));
    problems.extend(target::problems(&arguments.targets(), &arguments.output, &is_input, arguments.force));
    if problems.is_empty() {
        problems.extend(estimate::problem(arguments, inputs, against, maker));
    }
    refuse(problems)
}

/// An error with all problems, if there are any.
pub(super) fn refuse(mut problems: Vec<String>) -> Result<(), Failure> {
    if problems.len() > LISTED {
        let more = problems.len() - LISTED;
        problems.truncate(LISTED);
        problems.push(format!("and {}", counted(more as u64, "further problem")));
    }
    if problems.is_empty() { Ok(()) } else { Err(lookalike_files::Failure::all(&problems).into()) }
}

/// Files that cannot be read as often as the rule needs, or have no fields.
fn of_passes(arguments: &DedupeArguments, inputs: &Inputs) -> Vec<String> {
    let mut problems = Vec::new();
    let field = arguments.keep.field().or(arguments.hash_field.as_deref());
    let text = inputs.files.iter().find(|input| input.format.is_whole());
    if let (Some(field), Some(text)) = (field, text) {
        problems.push(format!("{}: texts and images have no field {field:?}", text.shown));
    }
    problems
}

/// Files of which the first records cannot be read. With `skips`, files in which none can be read are
/// reported, and are no error.
pub(super) fn of_records(files: &[Input], maker: &Maker, skips: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut checked: Vec<Input> = Vec::new();
    for input in files.iter().filter(|input| !input.path.is_stream() && !input.format.is_whole()) {
        match maker.check_columns(input) {
            Ok(()) => checked.push(input.clone()),
            Err(error) => problems.push(error.message),
        }
    }
    let (known, passed) = (u32::MAX, Arc::default());
    let reader = Reader { inputs: &checked, from: 0, maker, known, threads: 1, passed };
    let start = Instant::now();
    // The file that is read, how many records of it, and how many cannot be read, with the reason of one.
    let (mut read, mut invalid, mut why) = (0, 0, String::new());
    reader.each_first(&mut |file, part| {
        let input = &checked[file as usize];
        if let Some((line, found)) = part {
            read += 1;
            if let Some(found) = found {
                invalid += 1;
                if why.is_empty() {
                    why = format!("{}:{line}: {found}", input.shown);
                }
            }
            return read < FIRST;
        }
        let of = std::mem::take(&mut read);
        let (bad, why) = (std::mem::take(&mut invalid), std::mem::take(&mut why));
        if bad > 0 && !skips {
            // The message about a field names the option for it.
            let way = if why.contains(" --") { "" } else { "; --skip-invalid leaves such records out" };
            let among = if of == 1 { String::new() } else { format!(" ({bad} of the first {of} records)") };
            problems.push(format!("{why}{among}{way}"));
        } else if bad == of && of > 0 {
            tell(&format!("warning: none of the first {} can be read: {why}", counted(of.into(), "record")));
        }
        input.member.is_none() || start.elapsed() < ARCHIVES
    });
    problems
}
