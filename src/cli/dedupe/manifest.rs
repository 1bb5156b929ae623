//! The files and settings that the prints of a run depend on. A later run uses the prints only if these are
//! the same.

use std::fs;

use serde_json::json;

use super::super::Failure;
use super::DedupeArguments;
use super::folder::Folder;
use super::inputs::Inputs;
use super::record::Maker;
use super::spool::Prints;
use crate::cli::at;
use lookalike_dedupe::Keep;

/// The file with these files and settings.
const MANIFEST: &str = "manifest.json";
/// The file of prints.
const PRINTS: &str = "prints";

/// The prints of an earlier run with the same files and settings, or none.
pub(super) fn prints(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    maker: &Maker,
    folder: &Folder,
) -> Result<Prints, Failure> {
    let key = match &arguments.keep {
        Keep::Source(_) | Keep::Central => Keep::FIRST,
        keep @ Keep::By(_) => keep.clone(),
    };
    let manifest = json!({
        "program": env!("CARGO_PKG_VERSION"), "profile": maker.profile.id().to_string(),
        "key": format!("{key:?}"), "text": maker.text_field, "hash": maker.hash_field,
        "form": maker.hash_form.map(|form| form.to_string()), "html": maker.is_page,
        "page": format!("{:?}", maker.page),
        "id": arguments.read.id_field, "source": maker.source_field, "annotate": maker.is_annotated,
        "needs_id": maker.needs_id, "check": arguments.check.is_some(), "inputs": inputs.states(),
        "weights": maker.weights.as_ref().map(|table| format!("{:016x}", table.digest())),
        "charset": maker.charset.map(encoding_rs::Encoding::name),
        "format": format!("{:?}", arguments.read.format),
    });
    let (path, text) = (folder.work(MANIFEST), manifest.to_string());
    let has_input = inputs.files.iter().any(|input| input.path.is_stream());
    let is_same = !has_input && fs::read_to_string(&path).is_ok_and(|earlier| earlier == text);
    if !is_same {
        forget(folder);
        fs::write(&path, text).map_err(|error| at(&path, &error))?;
    }
    Prints::open(&folder.work(PRINTS), maker.sizes, is_same)
}

/// Lets no later run use the prints.
pub(super) fn forget(folder: &Folder) {
    // The prints go before the manifest that vouches for them.
    let _ = fs::remove_file(folder.work(PRINTS));
    let _ = fs::remove_file(folder.work(MANIFEST));
}
