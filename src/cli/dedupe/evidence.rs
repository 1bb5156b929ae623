//! What each removal rests on: the two texts, compared exactly.

use std::path::Path;

use serde::Serialize;

use super::super::Failure;
use super::dropped::{Lines, Shown};
use super::passage::first_difference;
use super::target::Target;
use lookalike_dedupe::{FeatureSet, Overlap};
use lookalike_files::parquet::{Cell, Table};
use lookalike_files::{Format, shown};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::Profile;

/// What the texts of a pair say, compared without an estimate.
pub(super) struct Facts {
    pub(super) overlap: Overlap,
    /// Where they begin to differ; `None` if they are equal.
    pub(super) passages: Option<[String; 2]>,
}

impl Facts {
    pub(super) fn of(profile: &Profile, table: Option<&Frequencies>, own: &str, by: &str) -> Facts {
        let [a, b] = [own, by].map(|text| FeatureSet::of(profile, table, text));
        let passages = first_difference(own, by).map(|passages| passages.map(str::to_owned));
        Facts { overlap: a.overlap(&b), passages }
    }
}

/// The evidence for one removal. What only texts tell is `None` if one of them is not known.
#[derive(Serialize)]
pub(super) struct Evidence<'a> {
    #[serde(flatten)]
    pub(super) own: Shown<'a>,
    pub(super) source: Option<&'a str>,
    pub(super) replaced_by: Shown<'a>,
    pub(super) distance: u32,
    /// By signatures; `None` of hashes.
    pub(super) estimated_similarity: Option<f64>,
    pub(super) exact_similarity: Option<f64>,
    pub(super) contained_in: Option<f64>,
    pub(super) contains: Option<f64>,
    pub(super) first_difference: Option<Difference>,
    pub(super) exact: bool,
}

#[derive(Serialize)]
pub(super) struct Difference {
    pub(super) dropped: String,
    pub(super) kept: String,
}

/// The columns of a Parquet file, in the order of [`Evidence::cells`].
const SCHEMA: &str = "message evidence {
    optional binary id (UTF8);
    required binary file (UTF8);
    required int64 line;
    optional binary source (UTF8);
    required group replaced_by {
        optional binary id (UTF8);
        required binary file (UTF8);
        required int64 line;
    }
    required int64 distance;
    optional double estimated_similarity;
    optional double exact_similarity;
    optional double contained_in;
    optional double contains;
    optional group first_difference {
        required binary dropped (UTF8);
        required binary kept (UTF8);
    }
    required boolean exact;
}";

impl Evidence<'_> {
    fn cells(self) -> Vec<Cell> {
        let text = |text: &str| Cell::Text(text.to_owned());
        let number = |number: Option<f64>| number.map_or(Cell::Null, Cell::Real);
        let name = |of: Shown<'_>| {
            [of.id.map_or(Cell::Null, Cell::Text), text(of.file), Cell::Whole(of.line as i64)]
        };
        let passages = self.first_difference.map(|both| [both.dropped, both.kept].map(Cell::Text));
        let mut cells = Vec::from(name(self.own));
        cells.push(self.source.map_or(Cell::Null, text));
        cells.extend(name(self.replaced_by));
        cells.push(Cell::Whole(self.distance.into()));
        let shares =
            [self.estimated_similarity, self.exact_similarity, self.contained_in, self.contains].map(number);
        cells.extend(shares);
        cells.extend(passages.unwrap_or([Cell::Null, Cell::Null]));
        cells.push(Cell::Truth(self.exact));
        cells
    }
}

/// The file of the evidence.
pub(super) enum EvidenceFile {
    Lines(Lines),
    Table(Table<Target>),
}

impl EvidenceFile {
    /// Checks that the name tells a format that is written.
    pub(super) fn check(path: &Path) -> Result<Format, String> {
        let is_plain = !path.extension().is_some_and(|ending| ending == "gz" || ending == "zst");
        match Format::named(path).filter(|_| is_plain) {
            Some(format @ (Format::Jsonl | Format::Parquet)) => Ok(format),
            _ => Err(format!("--evidence {}: name a file that ends in .jsonl or .parquet", shown(path))),
        }
    }

    pub(super) fn create(path: &Path) -> Result<EvidenceFile, Failure> {
        Ok(match EvidenceFile::check(path).map_err(Failure::new)? {
            Format::Parquet => EvidenceFile::Table(Table::create(Target::create(path)?, SCHEMA)?),
            _ => EvidenceFile::Lines(Lines::create(path)?),
        })
    }

    pub(super) fn write(&mut self, evidence: Evidence<'_>) -> Result<(), Failure> {
        match self {
            EvidenceFile::Lines(lines) => lines.write(&evidence),
            EvidenceFile::Table(table) => Ok(table.push(evidence.cells())?),
        }
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            EvidenceFile::Lines(lines) => lines.finish(),
            EvidenceFile::Table(table) => table.finish()?.finish(),
        }
    }
}
