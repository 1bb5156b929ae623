//! The files and settings that the prints of a run depend on. A later run uses the prints only if these are
//! the same, and shards are merged only if they are the same for all.

use std::fs;

use serde_json::{Value, json};

use super::super::Failure;
use super::DedupeArguments;
use super::folder::Folder;
use super::inputs::Inputs;
use super::record::Maker;
use super::spool::Prints;
use crate::cli::at;
use lookalike_dedupe::Keep;
use lookalike_hash::KeepRule;

/// The file with these files and settings.
const MANIFEST: &str = "manifest.json";
/// The names of two settings.
pub(super) const INPUTS: &str = "inputs";
pub(super) const WEIGHTS: &str = "--weights";
/// The file of prints.
const PRINTS: &str = "prints";

/// The prints of an earlier run with the same files and settings, or none.
pub(super) fn prints(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    maker: &Maker,
    folder: &Folder,
) -> Result<Prints, Failure> {
    let inputs_of = match arguments.shard {
        // Started again, it may run on another machine.
        Some(_) => json!(inputs.shared_states()),
        None => json!(inputs.states()),
    };
    let manifest = settings(arguments, &inputs_of, maker);
    let (path, text) = (folder.work(MANIFEST), manifest.to_string());
    let has_input = inputs.files.iter().any(|input| input.path.is_stream());
    let is_same = !has_input && fs::read_to_string(&path).is_ok_and(|earlier| earlier == text);
    if !is_same {
        forget(folder);
        fs::write(&path, text).map_err(|error| at(&path, &error))?;
    }
    Prints::open(&folder.work(PRINTS), maker.sizes, is_same)
}

/// The settings that prints depend on, under the names of their options, with the inputs as they are.
pub(super) fn settings(arguments: &DedupeArguments, inputs: &Value, maker: &Maker) -> Value {
    let key = match &arguments.keep {
        Keep::By(rule) => rule.to_string(),
        Keep::Source(_) | Keep::Central => KeepRule::First.to_string(),
    };
    json!({
        "the program": env!("CARGO_PKG_VERSION"), "--profile": maker.profile.id().to_string(),
        "--keep": key, "--text-field": maker.text_field,
        "--hash-field": maker.hash_field, "--hash-format": maker.hash_form.map(|form| form.to_string()),
        "--image-field": maker.image_field, "--min-quality": maker.min_quality,
        "--html": maker.is_page, "--page": format!("{:?}", maker.page), "--id-field": arguments.read.id_field,
        "--source-field": maker.source_field, "--annotate": maker.is_annotated,
        "--keep-ids": maker.needs_id, "--check": arguments.check.is_some(), INPUTS: inputs,
        WEIGHTS: maker.weights.as_ref().map(|table| format!("{:016x}", table.digest())),
        "--charset": maker.charset.map(encoding_rs::Encoding::name),
        "--format": arguments.read.format.map(|format| format!("{format:?}")),
    })
}

/// Lets no later run use the prints.
pub(super) fn forget(folder: &Folder) {
    // The prints go before the manifest that vouches for them.
    let _ = fs::remove_file(folder.work(PRINTS));
    let _ = fs::remove_file(folder.work(MANIFEST));
}
