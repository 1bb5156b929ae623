//! What a run remembers of a record besides its print: its name, its source, and its place in the counts.

use indicatif::ProgressBar;

use super::super::super::Failure;
use super::super::record::Maker;
use super::super::spool::{Kind, Stored};
use super::super::tape::Told;
use super::{Keep, Run, show_invalid};

/// What is told of documents in which there is too little to compare.
fn too_little(maker: &Maker) -> &'static str {
    if maker.profile.takes_images() {
        "kept without comparison, of a quality below --min-quality"
    } else {
        "kept with too little text to compare"
    }
}

impl Run<'_> {
    /// Takes the name of the next record, and its place in the counts.
    pub(super) fn tell(&mut self, told: Told, stored: &Stored, bar: &ProgressBar) -> Result<(), Failure> {
        let Told { file: own, line, id, source, unread } = told;
        let file = own + self.against.names.len() as u32;
        let id = id.filter(|_| matches!(stored.kind, Kind::Document | Kind::Empty | Kind::Little));
        self.names.push(file, line, id.as_deref(), true)?;
        self.count_source(own, stored.kind, source)?;
        for remark in stored.remarks.names() {
            *self.summary.also.entry(remark).or_default() += 1;
        }
        match stored.kind {
            Kind::Document => self.summary.read += 1,
            Kind::Empty => {
                self.summary.read += 1;
                *self.summary.also.entry("kept without features").or_default() += 1;
            }
            Kind::Little => {
                self.summary.read += 1;
                *self.summary.also.entry(too_little(self.maker)).or_default() += 1;
            }
            Kind::Contaminated => {}
            Kind::Other => *self.summary.also.entry("copied without comparison").or_default() += 1,
            Kind::Invalid => {
                self.summary.read += 1;
                self.summary.invalid += 1;
                let (count, file) = (self.summary.invalid, &self.inputs.files[own as usize].shown);
                let why = unread.as_ref().map_or("", |unread| &unread.detail);
                bar.suspend(|| show_invalid(file, line, why, count));
            }
        }
        if let Some(unread) = unread {
            self.summary.unread.add(unread.reason);
        }
        if self.arguments.keep != Keep::FIRST {
            self.keys.push(self.preferences.get(own as usize).copied().unwrap_or(stored.key));
        }
        Ok(())
    }
}
