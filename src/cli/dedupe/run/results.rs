//! What a run writes besides the decisions: notes on documents, ids, groups, the report and the summary.

use std::io::{self, Write};

use serde::Serialize;

use super::super::super::{Failure, printable};
use super::super::annotate::Note;
use super::super::dropped::{Lines, Shown};
use super::super::folder::Folder;
use super::super::report::report;
use super::super::spool::Name;
use super::super::target::Target;
use super::{Raw, Run, unchanged};
use lookalike_corpus::Decision;

/// A line of `--clusters-file`.
#[derive(Serialize)]
struct Group<'a> {
    kept: Shown<'a>,
    members: Vec<Member<'a>>,
}

#[derive(Serialize)]
struct Member<'a> {
    #[serde(flatten)]
    own: Shown<'a>,
    distance: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
}

impl<'a> Run<'a> {
    /// Writes a document that is kept.
    pub(super) fn keep(&mut self, raw: &Raw, number: u32) -> Result<(), Failure> {
        if let Some(mut ids) = self.kept_ids.take() {
            ids.write(&self.shown(number)?)?;
            self.kept_ids = Some(ids);
        }
        if self.arguments.about.annotate {
            return self.annotate(raw, number, Decision::Kept);
        }
        self.outputs.write(raw)
    }

    /// Writes a document with a note.
    pub(super) fn annotate(&mut self, raw: &Raw, number: u32, decision: Decision) -> Result<(), Failure> {
        let name = |number: u32| {
            let shown = self.shown(number)?;
            Ok::<_, Failure>(shown.id.unwrap_or_else(|| format!("{}:{}", shown.file, shown.line)))
        };
        let note = match decision {
            Decision::Kept => Note { duplicate_of: None, similarity: None, cluster_id: name(number)? },
            Decision::Dropped { by, distance } => Note {
                duplicate_of: Some(name(by)?),
                similarity: self.summary.shape.map(|shape| shape.similarity(distance)),
                cluster_id: name(by)?,
            },
        };
        self.outputs.annotate(raw, &note)
    }

    /// Writes the groups of more than one document.
    pub(super) fn write_groups(&self) -> Result<(), Failure> {
        let (Some(path), Some(pairs)) = (&self.arguments.about.clusters_file, &self.pairs) else {
            return Ok(());
        };
        let mut lines = Lines::create(path)?;
        let documents = self.against_prints.len() + self.prints.len();
        pairs.each_group(documents, |pairs| {
            self.check_stop()?;
            let members = pairs.iter().map(|pair| {
                let similarity = self.summary.shape.map(|shape| shape.similarity(pair.distance));
                Ok(Member { own: self.shown(pair.own)?, distance: pair.distance, similarity })
            });
            let members = members.collect::<Result<_, Failure>>()?;
            lines.write(&Group { kept: self.shown(pairs[0].by)?, members })
        })?;
        lines.finish()
    }

    /// The name of a document, for the user.
    pub(super) fn shown(&self, number: u32) -> Result<Shown<'a>, Failure> {
        let Name { file, line, id } = self.names.get(number)?;
        let file = match self.against.names.get(file as usize) {
            Some(name) => name,
            None => &self.inputs.files[file as usize - self.against.names.len()].shown,
        };
        Ok(Shown { id, file, line })
    }

    /// Gives everything its name, and prints the summary.
    pub(super) fn finish(mut self, folder: Folder) -> Result<(), Failure> {
        self.outputs.finish()?;
        self.finish_spans()?;
        self.contaminated_file.take().map_or(Ok(()), Lines::finish)?;
        unchanged(&self.inputs.files)?;
        if let Some(upload) = &self.arguments.upload {
            upload.send(&folder.work("output"), &self.inputs.files, &self.stop)?;
        }
        let name = |(number, count): (u32, u64)| Ok((self.shown(number)?.to_string(), count));
        let groups: Vec<(String, u64)> =
            self.summary.largest().into_iter().map(name).collect::<Result<_, Failure>>()?;
        let notes = &self.inputs.notes;
        if let Some(path) = &self.arguments.report {
            let profile = self.maker.profile.id().to_string();
            let page = report(&self.summary, &self.sources, notes, &groups, &profile, self.documents.k());
            let mut file = Target::create(path)?;
            file.write_all(page.as_bytes()).map_err(|error| file.failed(&error))?;
            file.finish()?;
        }
        if let Some(dropped) = self.dropped.take() {
            dropped.finish()?;
        }
        if let Some(ids) = self.kept_ids.take() {
            ids.finish()?;
        }
        match self.arguments.upload {
            Some(_) => folder.remove()?,
            None => folder.finish(&self.inputs.files)?,
        }
        // The work is done, even if nobody reads the summary.
        let text = self.summary.text(notes, &groups);
        Ok(io::stdout().write_all(printable(&text).as_bytes())?)
    }
}
