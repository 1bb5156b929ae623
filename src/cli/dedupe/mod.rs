//! `lookalike dedupe`: copies files of documents without near-duplicates, without a server.
//!
//! The result is defined in ADR 32 and computed by `corpus`. Here are the files (`inputs`, `reader`,
//! `output`), the documents in them (`record`), the keep rules (`keep`), and the course of a run (`run`).
//! Errors that can be foreseen are found before the work (`checks`). The prints of an interrupted run are
//! used again (`spool`).

mod about;
mod against;
mod annotate;
mod bench;
mod checks;
mod dropped;
mod estimate;
mod evidence;
mod folder;
mod index;
mod inputs;
mod joined;
mod kept_ids;
mod manifest;
mod merge;
mod output;
mod page;
mod pairs;
mod passage;
mod piped;
mod progress;
mod reader;
mod record;
mod remarks;
mod replaced;
mod report;
mod review;
mod run;
mod shards;
mod sources;
mod spans;
mod spool;
mod summary;
mod tape;
mod target;
mod texts;
mod upload;
mod weights;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use encoding_rs::Encoding;

use super::client::Access;
use super::fingerprint::{OfPage, profile};
use super::{Failure, tell};
use about::About;
use against::Against;
use bench::BenchOptions;
use inputs::Inputs;
use lookalike_dedupe::{Exact, Groups, Keep, Radius, RadiusError};
use lookalike_files::{Format, charset, shown};
use lookalike_hash::{HashForm, KeepRule};
use lookalike_remote::is_address;
use lookalike_text::fingerprint::Profile;
use record::Maker;
use shards::{Shard, Shards};
use spans::SpanOptions;
use upload::Upload;
use weights::Weights;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub(super) struct DedupeArguments {
    /// Files and folders of documents: JSON lines, JSON arrays, CSV, TSV, text, WARC, WET, Parquet, Arrow;
    /// .gz and .zst; tar archives; patterns; s3://, gs://, az://, https:// and hf:// addresses; - is
    /// standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Folder for the output, or an s3://, gs:// or az:// address; it has one file for each input file
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
    /// File for the dropped documents: one JSON object per line, with the document that replaces each one
    #[arg(long, value_name = "FILE")]
    duplicates: Option<PathBuf>,
    /// File for the summary as a web page with plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Which of near-duplicates is kept: first, longest, newest:FIELD, oldest:FIELD, max:FIELD, min:FIELD,
    /// source:a,b,c (names of inputs in the order of preference), central (most neighbours)
    #[arg(long, value_name = "RULE", default_value = "first")]
    keep: Keep,
    /// What a group is: greedy (each dropped document is within k of the kept one) or linked (connected
    /// components: a chain of near documents is one group)
    #[arg(long, value_enum, default_value = "greedy")]
    clusters: Clusters,
    /// Also drop documents that have a near-duplicate in this file, folder, or collection of a server
    /// (http://HOST:PORT/collections/NAME); may be given several times
    #[arg(long, value_name = "INPUT")]
    against: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    spans: SpanOptions,
    #[command(flatten)]
    bench: BenchOptions,
    #[command(flatten)]
    access: Access,
    /// Largest distance of near-duplicates; by default that of the profile
    #[arg(long)]
    k: Option<u32>,
    /// For profiles with signatures: least similarity of near-duplicates, 0 to 1
    #[arg(long, conflicts_with = "k", value_name = "SIMILARITY")]
    threshold: Option<f64>,
    /// Second condition for near-duplicates: least similarity of the pairs of words of their texts, 0 to 1,
    /// estimated from 128 bytes per document
    #[arg(long, value_name = "SIMILARITY")]
    check: Option<f64>,
    /// Also drop texts that stand in a longer one to this share of their features, 0 to 1, if they have a
    /// quarter of it. Needs --keep longest
    #[arg(long, conflicts_with_all = ["k", "hash_field", "against"], value_name = "SHARE")]
    contained_in: Option<f64>,
    /// File for the weights, so that runs over other parts of a corpus use the same ones
    #[arg(long, value_name = "FILE")]
    save_weights: Option<PathBuf>,
    /// Field or column with a hash made earlier; the text is not read
    #[arg(long, conflicts_with_all = ["check", "html"], value_name = "FIELD")]
    hash_field: Option<String>,
    /// Form of the hashes of --hash-field: hex, 0x, decimal, signed, base64; by default any that cannot be
    /// mistaken for another one
    #[arg(long, requires = "hash_field", value_name = "FORM")]
    hash_format: Option<HashForm>,
    /// Make only the prints of one of N parts of the files, on one of the machines that share them;
    /// lookalike merge makes the output of all parts
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Replace output of an earlier run; write output although a source loses more than --max-loss
    #[arg(long)]
    force: bool,
    /// Estimate documents, memory and disk space from the beginnings of the files; writes nothing
    #[arg(long)]
    dry_run: bool,
    /// Memory for the prints and the index of kept documents, such as 512MiB; by default half of what is
    /// free. What does not fit is decided in rounds, after a second reading. The result is the same
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// The place of the output in a store; `output` is then the name of the working folder.
    #[arg(skip)]
    upload: Option<Upload>,
}

/// Which files are read how, and compared by what.
#[derive(Clone, Debug, Args)]
struct ReadArguments {
    /// Profile, with or without version
    #[arg(long, default_value = "minhash-copies")]
    profile: String,
    /// TOML file that defines your own profiles
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// For profiles of minima: weights of features by how many texts have them: learned (from the first 1,000
    /// records and a tenth of the others, if these have 100 different texts), none, or a file that
    /// --save-weights wrote
    #[arg(long, value_name = "WHICH")]
    weights: Option<Weights>,
    /// Format of the files; by default from their names
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Charset of JSON lines, tables and texts, such as gbk; by default UTF-8, else a detected one
    #[arg(long, value_name = "CHARSET", value_parser = charset)]
    charset: Option<&'static Encoding>,
    /// Field or column with the text; a.b is the field b of the object a, a[].b are those of all elements of
    /// the array a
    #[arg(long, default_value = "text", value_name = "FIELD")]
    text_field: String,
    /// For profiles of images: field or column with the image, in base64, or as bytes, also in a member
    /// "bytes" as in data sets of Hugging Face
    #[arg(long, default_value = "image", value_name = "FIELD")]
    image_field: String,
    /// For profiles of images: images in which there is less to see, 0 to 100, are kept and compared with
    /// nothing; with --hash-field, by the field "quality"
    #[arg(long, default_value = "50", value_name = "QUALITY",
          value_parser = clap::value_parser!(u8).range(..=100))]
    min_quality: u8,
    /// Field or column with the id, which every document must then have; by default "id" if there is one
    #[arg(long, value_name = "FIELD")]
    id_field: Option<String>,
    /// The texts are HTML pages: compare their main text. Pages of WARC files always are
    #[arg(long)]
    html: bool,
    /// Which text of pages is compared
    #[arg(long, value_name = "WHICH", default_value = "main")]
    page: OfPage,
    /// Leave out records that cannot be read, instead of ending without a result
    #[arg(long)]
    skip_invalid: bool,
    /// Threads; by default one for each processor
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// [`Groups`] as the user names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Clusters {
    Greedy,
    Linked,
}

impl From<Clusters> for Groups {
    fn from(clusters: Clusters) -> Groups {
        match clusters {
            Clusters::Greedy => Groups::Greedy,
            Clusters::Linked => Groups::Linked,
        }
    }
}

pub(super) use merge::{MergeArguments, run as run_merge};
pub(super) use run::index::{IndexArguments, run as run_index};

pub(super) fn run(arguments: DedupeArguments) -> Result<(), Failure> {
    start(arguments, None)
}

/// Starts a run, or that of a shard; with `shards`, their prints are used.
fn start(mut arguments: DedupeArguments, shards: Option<&Shards>) -> Result<(), Failure> {
    if let Some((upload, folder)) = Upload::of(&arguments.output)? {
        (arguments.upload, arguments.output) = (Some(upload), folder);
    }
    let arguments = &mut arguments;
    if let Some((option, path)) = arguments.targets().iter().find(|(_, path)| is_address(&shown(path))) {
        return Err(Failure::new(format!("{option} {} is no path: name a file here", shown(path))));
    }
    let profile = profile(arguments.read.profiles.as_deref(), &arguments.read.profile)?;
    let radius = radius(arguments)?;
    distance(arguments, radius, profile, false)?;
    if arguments.contained_in.is_some()
        && (arguments.keep != Keep::By(KeepRule::Longest) || arguments.clusters == Clusters::Linked)
    {
        return Err(Failure::new(
            "--contained-in needs --keep longest and no --clusters linked: otherwise a longer text could be \
             dropped for a part of it",
        ));
    }
    if arguments.hash_field.is_some() && profile.signatures().is_some() {
        return Err(Failure::new(format!(
            "{} makes signatures, which --hash-field cannot give: name a profile of hashes, such as \
             --profile copies-64",
            profile.id()
        )));
    }
    let images = profile.takes_images();
    if images && arguments.hash_field.is_none() {
        arguments.refuse_texts()?;
    } else if arguments.hash_field.is_none() && !profile.takes_texts() {
        return Err(Failure::new(format!(
            "{} takes only hashes that were made earlier: name their field with --hash-field, or another \
             profile for texts",
            profile.id()
        )));
    }
    if arguments.hash_field.is_some() && arguments.keep == Keep::By(KeepRule::Longest) {
        return Err(Failure::new("--keep longest needs texts, and --hash-field does not read them"));
    }
    let mut inputs = Inputs::of(&arguments.inputs, arguments.read.format, images);
    let mut against = Against::of(&arguments.against, arguments.read.format, images);
    for files in [&inputs, &against.inputs] {
        files.passed_over().iter().chain(&files.notes).for_each(|note| tell(note));
    }
    let bench = arguments.bench.read()?;
    let gives_texts = Exact::of(profile, radius, false).is_some()
        || arguments.about.needs_texts().is_some()
        || bench.is_some();
    let maker = Maker { bench, ..Maker::of(arguments, profile, gives_texts) };
    let part = arguments.shard.map_or_else(|| Ok(0..inputs.files.len()), |shard| shard.part(&inputs));
    let part = part.unwrap_or_else(|problem| {
        inputs.problems.push(problem);
        0..inputs.files.len()
    });
    checks::check(arguments, &inputs, part.clone(), &against.inputs, &maker)?;
    if arguments.dry_run {
        return estimate::print(arguments, &inputs, &against.inputs, &maker);
    }
    if let Some(shard) = arguments.shard {
        return run::shard::run(arguments, shard, (&inputs, part), &against, maker, radius);
    }
    if arguments.clusters == Clusters::Linked {
        tell(
            "warning: linked groups are chains of near documents; the ends of a chain may have nothing in \
             common, and only one document of a chain is kept",
        );
    }
    if arguments.about.annotate {
        tell("--annotate drops nothing: the counts are those of a run without it");
    }
    run::run(arguments, &mut inputs, &mut against, maker, radius, shards)
}

impl DedupeArguments {
    /// The files besides the output, with the options that name them.
    fn targets(&self) -> Vec<(&'static str, &Path)> {
        let targets = [
            ("--duplicates", &self.duplicates),
            ("--report", &self.report),
            ("--save-weights", &self.save_weights),
            ("--spans-file", &self.spans.spans_file),
            ("--contaminated", &self.bench.contaminated),
        ];
        let targets = targets.into_iter().map(|(option, path)| (option, path.as_deref()));
        targets.chain(self.about.targets()).filter_map(|(option, path)| Some((option, path?))).collect()
    }

    /// Refuses options that need texts, with a profile of images.
    fn refuse_texts(&self) -> Result<(), Failure> {
        let options = [
            ("--keep longest", self.keep == Keep::By(KeepRule::Longest)),
            ("--check", self.check.is_some()),
            ("--html", self.read.html),
            ("--spans", self.spans.spans.is_some()),
            ("--decontaminate", !self.bench.decontaminate.is_empty()),
        ];
        let given = options.into_iter().find_map(|(option, is_given)| is_given.then_some(option));
        given.or(self.about.needs_texts()).map_or(Ok(()), |option| {
            let profile = &self.read.profile;
            Err(Failure::new(format!("{option} needs texts, and the profile {profile} reads images")))
        })
    }

    /// Whether each record can be decided and written as soon as it is read.
    fn is_streamed(&self) -> bool {
        self.keep == Keep::FIRST && self.clusters == Clusters::Greedy && self.spans.spans.is_none()
    }
}

impl Maker {
    /// What makes documents as the options say. There are no weights yet.
    fn of(arguments: &DedupeArguments, profile: &'static Profile, gives_texts: bool) -> Maker {
        Maker {
            profile,
            keep: arguments.keep.clone(),
            text_field: arguments.read.text_field.clone(),
            id_field: arguments.read.id_field.clone().unwrap_or_else(|| "id".to_owned()),
            needs_id: arguments.read.id_field.is_some() || arguments.about.keep_ids.is_some(),
            is_annotated: arguments.about.annotate,
            source_field: arguments.about.source_field.clone(),
            hash_field: arguments.hash_field.clone(),
            hash_form: arguments.hash_format,
            image_field: (profile.takes_images() && arguments.hash_field.is_none())
                .then(|| arguments.read.image_field.clone()),
            min_quality: if profile.takes_images() { arguments.read.min_quality } else { 0 },
            is_page: arguments.read.html,
            page: arguments.read.page.into(),
            charset: arguments.read.charset,
            is_exported: false,
            sizes: Maker::sizes(profile, arguments.check.is_some()),
            weights: None,
            gives_texts,
            bench: None,
        }
    }
}

/// The number of threads.
fn threads(arguments: &DedupeArguments) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    arguments.read.threads.map_or_else(all, usize::from)
}

/// The radius that the options name.
fn radius(arguments: &DedupeArguments) -> Result<Radius, Failure> {
    let shares = [
        ("--threshold", arguments.threshold),
        ("--check", arguments.check),
        ("--contained-in", arguments.contained_in),
    ];
    if let Some((name, _)) = shares.iter().find(|(_, share)| share.is_some_and(|s| !(0.0..=1.0).contains(&s)))
    {
        return Err(Failure::new(format!("{name} is a similarity from 0 to 1")));
    }
    let given = arguments.threshold.map(Radius::Similarity).or(arguments.k.map(Radius::Distance));
    Ok(given.unwrap_or_default())
}

/// The largest distance of near-duplicates.
fn distance(
    arguments: &DedupeArguments,
    radius: Radius,
    profile: &Profile,
    is_weighted: bool,
) -> Result<u32, Failure> {
    radius.reach(profile, is_weighted, arguments.contained_in).map_err(|error| {
        Failure::new(match error {
            RadiusError::NoSimilarity => "--threshold is a similarity from 0 to 1".to_owned(),
            RadiusError::MakesHashes { profile } => {
                format!("{profile} makes hashes: give --k instead of --threshold")
            }
            RadiusError::FindsNoParts { profile } => {
                format!("--contained-in needs a profile of minima, such as minhash-copies; this is {profile}")
            }
            RadiusError::TooFar { profile, most } => format!("--k is at most {most} for {profile}"),
        })
    })
}

/// Parses a number of bytes, alone or with KiB, MiB or GiB.
fn size(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match text[end..].trim() {
        "" => Some(0),
        "KiB" => Some(10),
        "MiB" => Some(20),
        "GiB" => Some(30),
        _ => None,
    };
    let bytes = text[..end].parse::<u64>().ok().zip(shift);
    let bytes = bytes.and_then(|(number, shift)| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "a size is a number of bytes, or a number with KiB, MiB or GiB".to_owned())
}
