//! The weights of features that a run learns from its own input, so that phrases which many texts have say
//! little (ADR 57).
//!
//! A table is learned before the signatures are made: from the first records and a tenth of the others, the
//! same ones for any number of threads. There are no weights for signatures that a server made, and for
//! profiles other than minima of shingles.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use uuid::Uuid;

use super::super::Failure;
use super::against::Against;
use super::inputs::{Inputs, unchanged};
use super::progress::{bar, check};
use super::reader::Reader;
use super::record::{Maker, Raw};
use super::target::Target;
use super::{DedupeArguments, threads};
use crate::cli::at;
use lookalike_dedupe::Lesson;
use lookalike_files::About;
use lookalike_text::features::Frequencies;
use lookalike_wording::counted;

/// Where weights come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Weights {
    /// The input.
    Learned,
    /// Every feature weighs the same.
    None,
    /// A table that an earlier run wrote.
    File(PathBuf),
}

impl From<&str> for Weights {
    fn from(value: &str) -> Weights {
        match value {
            "learned" => Weights::Learned,
            "none" => Weights::None,
            path => Weights::File(path.into()),
        }
    }
}

/// The table of a run, and a sentence about it for the summary; without the option also a sentence on why
/// there is none, unless the profile takes none or the texts are few. A table that was learned already is
/// read from the file `learned`, and one that is learned now is written there.
pub(super) fn choose(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    against: &Against,
    maker: &Maker,
    learned: Option<&Path>,
    stop: &AtomicU8,
) -> Result<(Option<Arc<Frequencies>>, Option<String>), Failure> {
    if arguments.read.weights.is_some() && against.has_weighted() {
        return Err(Failure::new("--weights are those of the collection of --against: leave it out"));
    }
    let wanted = &arguments.read.weights.clone().or_else(|| against.weights());
    if *wanted == Some(Weights::None) && arguments.save_weights.is_some() {
        return Err(Failure::new("--weights none leaves nothing for --save-weights to write: name only one"));
    }
    let is_given = wanted.is_some() || arguments.save_weights.is_some();
    if *wanted == Some(Weights::None) || !(is_given || maker.profile.takes_weights()) {
        return Ok((None, None));
    }
    if let Some(why) = refusal(against, maker) {
        return if is_given { Err(Failure::new(why)) } else { Ok((None, Some(why))) };
    }
    let (table, documents, from) = if let Some(Weights::File(path)) = wanted {
        let table = read(path)?;
        if table.kind() != maker.profile.kind_of_features() {
            let (path, profile) = (path.display(), maker.profile.id());
            return Err(Failure::new(format!(
                "--weights {path}: the table counts other features than {profile} compares; learn one with \
                 it, by --save-weights"
            )));
        }
        let documents = table.documents();
        (Some(table).filter(|_| documents >= Lesson::LEAST), documents, format!("of {}", path.display()))
    } else if let Some(table) = learned.and_then(|path| read(path).ok()) {
        let documents = table.documents();
        (Some(table), documents, "learned".to_owned())
    } else {
        let lesson = learn(arguments, inputs, maker, stop)?;
        let documents = lesson.documents();
        let table = lesson.table();
        table.iter().zip(learned).try_for_each(|(table, path)| share(table, path))?;
        (table, documents, "learned".to_owned())
    };
    let Some(table) = table else {
        let why = format!(
            "weights: {} cannot teach any; at least {} are needed",
            counted(documents.into(), "different text"),
            Lesson::LEAST
        );
        return if is_given { Err(Failure::new(why)) } else { Ok((None, None)) };
    };
    if let Some(path) = arguments.save_weights.as_deref().filter(|_| arguments.shard.is_none()) {
        write(&table, path)?;
    }
    let texts = counted(table.documents().into(), "text");
    let note = format!("weights of features: {from}, {texts}, digest {:016x}", table.digest());
    Ok((Some(Arc::new(table)), Some(note)))
}

/// Whether the files are read for weights.
pub(super) fn are_learned(arguments: &DedupeArguments, against: &Against, maker: &Maker) -> bool {
    let wanted = arguments.read.weights.clone().or_else(|| against.weights());
    matches!(wanted, None | Some(Weights::Learned)) && refusal(against, maker).is_none()
}

fn write(table: &Frequencies, path: &Path) -> Result<(), Failure> {
    let mut file = Target::create(path)?;
    file.write_all(&table.to_bytes()).map_err(|error| file.failed(&error))?;
    file.finish()
}

/// Writes a table that other machines write at the same time.
fn share(table: &Frequencies, path: &Path) -> Result<(), Failure> {
    let own = path.with_added_extension(Uuid::new_v4().to_string());
    write(table, &own)?;
    fs::rename(&own, path).map_err(|error| at(path, &error))
}

/// Why a run can have no weights.
fn refusal(against: &Against, maker: &Maker) -> Option<String> {
    let profile = maker.profile.id();
    if !maker.profile.takes_weights() {
        return Some(format!(
            "weights: {profile} takes none; a profile of minima does, such as --profile minhash-copies"
        ));
    }
    if against.has_unweighted() {
        return Some("weights: none, because the collection of --against has none".to_owned());
    }
    None
}

fn read(path: &Path) -> Result<Frequencies, Failure> {
    let bytes = fs::read(path).map_err(|error| at(path, &error))?;
    Frequencies::from_bytes(&bytes)
        .map_err(|error| Failure::new(format!("--weights {}: {error}", path.display())))
}

/// Why learning ends before the input.
enum End {
    Full,
    Stopped(Failure),
}

/// What the input teaches.
fn learn(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    maker: &Maker,
    stop: &AtomicU8,
) -> Result<Lesson, Failure> {
    let threads = threads(arguments);
    let reader = Reader { inputs: &inputs.files, from: 0, maker, known: 0, threads, passed: Arc::default() };
    let bar = bar("learn", inputs.bytes());
    let mut lesson = Lesson::of(maker.profile);
    let features = |number: u32, raw: &Raw, about: &About| {
        if Lesson::counts(number) && raw.content.is_record() {
            maker.features(raw, about)
        } else {
            Vec::new()
        }
    };
    let result = reader.each_of(&features, |records| {
        bar.set_position(reader.passed.load(Ordering::Relaxed));
        check(stop).map_err(End::Stopped)?;
        records.iter().for_each(|(_, set)| lesson.add(set));
        if lesson.is_full() { Err(End::Full) } else { Ok(()) }
    });
    bar.finish_and_clear();
    match result {
        // A store that stops answering would teach less.
        Ok(()) | Err(End::Full) => unchanged(&inputs.files).map(|()| lesson),
        Err(End::Stopped(failure)) => Err(failure),
    }
}
