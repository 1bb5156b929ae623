//! `lookalike eval --kinds`: the recall of profiles by the kind of edit, a column for each set.

use std::io::Write;

use super::Failure;
use super::eval::{EvalArguments, documents_of, name_of, named, read_documents};
use crate::eval::{by_kind, kinds_table};
use crate::fingerprint::Profiles;

/// The profiles that are measured if the command line names none.
const BY_DEFAULT: [&str; 3] = ["copies-64", "copies-128", "minhash-copies"];
/// The profile whose features show which texts of a set are similar before the edits.
const ALIKE_BY: &str = "shingles-64";

pub(super) fn run(known: Profiles, arguments: &EvalArguments) -> Result<(), Failure> {
    let names: Vec<&str> = if arguments.profile.is_empty() {
        BY_DEFAULT.to_vec()
    } else {
        arguments.profile.iter().map(String::as_str).collect()
    };
    let profiles = names.iter().map(|name| named(known, name)).collect::<Result<Vec<_>, _>>()?;
    let mut sets = Vec::new();
    for path in &arguments.sets {
        let file = if path.is_dir() { documents_of(path)? } else { path.to_owned() };
        let (_, texts) = read_documents(&file, arguments.texts)?;
        let name = name_of(path);
        let name = name.split('.').next().unwrap_or_default();
        eprintln!("{name}: kinds of edits");
        let uninterrupted = || Ok::<(), std::convert::Infallible>(());
        let Ok(set) = by_kind(&profiles, named(known, ALIKE_BY)?, name, texts, arguments.seed, uninterrupted);
        sets.push(set);
    }
    std::io::stdout().lock().write_all(kinds_table(&profiles, &sets).as_bytes())?;
    Ok(())
}
