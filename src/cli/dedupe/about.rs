//! The options for what a run drops: on what each removal rests, and what each source loses.

use std::path::{Path, PathBuf};

use clap::Args;

use super::super::Failure;
use super::evidence::EvidenceFile;
use super::folder::Folder;
use super::inputs::Inputs;
use super::pairs::Pairs;
use super::{DedupeArguments, annotate};

#[derive(Debug, Args)]
pub(super) struct About {
    /// File for what each removal rests on, NAME.jsonl or NAME.parquet: the exact similarity of both texts,
    /// the share of each in the other one, and where they begin to differ
    #[arg(long, value_name = "FILE")]
    pub(super) evidence: Option<PathBuf>,
    /// File for a web page on which a person judges some of the pairs of a dropped and a kept document
    #[arg(long, value_name = "FILE")]
    pub(super) review: Option<PathBuf>,
    /// The pairs on the page of --review, evenly over similarity
    #[arg(long, value_name = "N", default_value = "100", requires = "review",
          value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(super) review_pairs: u32,
    /// Field or column with the source of a document; in archives a header. By default the source is the
    /// argument that the file comes from
    #[arg(long, value_name = "FIELD")]
    pub(super) source_field: Option<String>,
    /// The share of its documents that a source of 100 or more may lose, 0 to 1; if one loses more, no output
    /// is written without --force
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = share)]
    pub(super) max_loss: f64,
    #[allow(clippy::doc_markdown, reason = "the help of the command has no backticks")]
    /// Drop nothing: write all documents, with the fields duplicate_of, similarity and cluster_id
    #[arg(long)]
    pub(super) annotate: bool,
    /// File for the groups: one JSON object per line, with the kept document and those that it replaces
    #[arg(long, value_name = "FILE")]
    pub(super) clusters_file: Option<PathBuf>,
    /// File for the ids of kept documents, one a line; every document must then have an id
    #[arg(long, value_name = "FILE")]
    pub(super) keep_ids: Option<PathBuf>,
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1, such as 0.9".to_owned())
}

impl About {
    /// The files that are written, with the options that name them.
    pub(super) fn targets(&self) -> [(&'static str, Option<&Path>); 4] {
        [
            ("--evidence", self.evidence.as_deref()),
            ("--review", self.review.as_deref()),
            ("--clusters-file", self.clusters_file.as_deref()),
            ("--keep-ids", self.keep_ids.as_deref()),
        ]
    }

    /// The working file of the pairs, if they are wanted.
    pub(super) fn pairs(&self, folder: &Folder) -> Result<Option<Pairs>, Failure> {
        let is_wanted = self.needs_texts().is_some() || self.clusters_file.is_some();
        is_wanted.then(|| Pairs::create(&folder.work("pairs"))).transpose()
    }

    /// The option that needs texts.
    pub(super) fn needs_texts(&self) -> Option<&'static str> {
        self.targets()[..2].iter().find(|(_, path)| path.is_some()).map(|(option, _)| *option)
    }
}

/// Why these options cannot be used with the others, or with these files.
pub(super) fn problems(arguments: &DedupeArguments, inputs: &Inputs) -> Vec<String> {
    let about = &arguments.about;
    let mut problems = Vec::new();
    if let Some(option) = about.needs_texts().filter(|_| arguments.hash_field.is_some()) {
        problems.push(format!("{option} compares texts, and --hash-field does not read them"));
    }
    problems.extend(about.evidence.as_deref().and_then(|path| EvidenceFile::check(path).err()));
    if about.annotate {
        let refused = inputs.files.iter().find_map(|input| annotate::problem(input.format, &input.shown));
        problems.extend(refused);
    }
    let text = inputs.files.iter().find(|input| input.format.is_whole());
    if let (Some(_), Some(text)) = (&about.keep_ids, text) {
        problems.push(format!("{}: texts and images have no ids for --keep-ids", text.shown));
    }
    if let (Some(field), Some(text)) = (&about.source_field, text) {
        problems.push(format!("{}: texts and images have no field {field:?} for --source-field", text.shown));
    }
    problems
}
