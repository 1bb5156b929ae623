//! The weights of features that a run learns from its own input, so that phrases which many texts have say
//! little (ADR 57).
//!
//! A table is learned before the signatures are made: from the first records and a tenth of the others, the
//! same ones for any number of threads. There are no weights for input that can be read only once, for
//! signatures that a server made, and for profiles other than minima of shingles.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use foldhash::fast::RandomState;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::super::Failure;
use super::against::Against;
use super::inputs::Inputs;
use super::progress::{bar, check};
use super::reader::Reader;
use super::record::{Maker, Raw};
use super::target::Target;
use super::{DedupeArguments, threads};
use crate::cli::at;
use lookalike_files::About;
use lookalike_text::features::Frequencies;
use lookalike_wording::counted;

/// The first records that are all counted, so that few are enough for a table.
const FIRST: u32 = 1_000;
/// Of the others one in this many is counted.
const PART: u64 = 10;
/// The least number of different texts for a table.
const LEAST: u32 = 100;

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
/// there is none, unless the profile takes none or the texts are few.
pub(super) fn choose(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    against: &Against,
    maker: &Maker,
    stop: &AtomicU8,
) -> Result<(Option<Arc<Frequencies>>, Option<String>), Failure> {
    let wanted = &arguments.weights;
    if *wanted == Some(Weights::None) && arguments.save_weights.is_some() {
        return Err(Failure::new("--weights none leaves nothing for --save-weights to write: name only one"));
    }
    let is_given = wanted.is_some() || arguments.save_weights.is_some();
    if *wanted == Some(Weights::None) || !(is_given || maker.profile.takes_weights()) {
        return Ok((None, None));
    }
    if let Some(why) = refusal(wanted.as_ref(), inputs, against, maker) {
        return if is_given { Err(Failure::new(why)) } else { Ok((None, Some(why))) };
    }
    let (table, from) = match wanted {
        Some(Weights::File(path)) => (read(path)?, format!("of {}", path.display())),
        _ => (learn(arguments, inputs, maker, stop)?, "learned".to_owned()),
    };
    if table.documents() < LEAST {
        let why = format!(
            "weights: {} cannot teach any; at least {LEAST} are needed",
            counted(table.documents().into(), "different text")
        );
        return if is_given { Err(Failure::new(why)) } else { Ok((None, None)) };
    }
    if let Some(path) = &arguments.save_weights {
        let mut file = Target::create(path)?;
        file.write_all(&table.to_bytes()).map_err(|error| file.failed(&error))?;
        file.finish()?;
    }
    let texts = counted(table.documents().into(), "text");
    let note = format!("weights of features: {from}, {texts}, digest {:016x}", table.digest());
    Ok((Some(Arc::new(table)), Some(note)))
}

/// Why a run can have no weights.
fn refusal(wanted: Option<&Weights>, inputs: &Inputs, against: &Against, maker: &Maker) -> Option<String> {
    let profile = maker.profile.id();
    if !maker.profile.takes_weights() {
        return Some(format!(
            "weights: {profile} takes none; a profile of minima does, such as --profile minhash-copies"
        ));
    }
    if against.has_collections() {
        return Some("weights: none, because the signatures of a collection have none".to_owned());
    }
    let is_read = !matches!(wanted, Some(Weights::File(_)));
    (is_read && inputs.files.iter().any(|input| input.path.is_stream())).then(|| {
        "weights: none, because standard input and pipes can be read only once; write them to a file first"
            .to_owned()
    })
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

/// The table of the input. Texts of equal features count once.
fn learn(
    arguments: &DedupeArguments,
    inputs: &Inputs,
    maker: &Maker,
    stop: &AtomicU8,
) -> Result<Frequencies, Failure> {
    let threads = threads(arguments);
    let reader = Reader { inputs: &inputs.files, maker, known: 0, threads, passed: Arc::default() };
    let bar = bar("learn", inputs.bytes());
    let (mut table, mut seen) = (Frequencies::default(), HashSet::<u64, RandomState>::default());
    let features = |number: u32, raw: &Raw, about: &About| {
        let is_counted = number < FIRST || xxh3_64(&number.to_le_bytes()).is_multiple_of(PART);
        if is_counted && raw.content.is_record() { maker.features(raw, about) } else { Vec::new() }
    };
    let result = reader.each_of(&features, |records| {
        bar.set_position(reader.passed.load(Ordering::Relaxed));
        check(stop).map_err(End::Stopped)?;
        for (_, set) in records.iter().filter(|(_, set)| !set.is_empty()) {
            let digest = set.iter().fold(0, |sum, feature| xxh3_64_with_seed(&feature.to_le_bytes(), sum));
            if seen.insert(digest) {
                table.add(set);
            }
        }
        if table.documents() == Frequencies::MAX_DOCUMENTS { Err(End::Full) } else { Ok(()) }
    });
    bar.finish_and_clear();
    match result {
        Ok(()) | Err(End::Full) => Ok(table),
        Err(End::Stopped(failure)) => Err(failure),
    }
}
