//! The shards of a run, which machines with a common file system make at the same time: which files each has,
//! and where its prints are.
//!
//! Shard 3 of 16 of the output `out` is the folder `out.shards/3-of-16`, which has its name when it is
//! complete. It guarantees that what is merged was made by one program, with the same settings, of the same
//! inputs. *Absent*: who makes which shard when; a shard that is made twice at a time is refused by its lock.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::{self, Display};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::super::Failure;
use super::DedupeArguments;
use super::checks::refuse;
use super::folder::partial_of;
use super::inputs::{Input, Inputs, State};
use super::manifest::{INPUTS, WEIGHTS, settings};
use super::record::Maker;
use super::spool::{Prints, Sizes};
use super::tape::{Tape, Told};
use super::texts::Texts;
use crate::cli::at;
use lookalike_files::shown;
use lookalike_wording::counted;

/// The file that makes a folder a shard.
pub(super) const ABOUT: &str = "shard.json";
/// The version of the files.
const VERSION: u32 = 1;
/// The most shards of a run.
const MOST: u32 = 10_000;
/// The other files of a shard.
const PRINTS: &str = "prints";
pub(super) const TAPE: &str = "records";
pub(super) const TEXTS: &str = "texts";
pub(super) const BLOCKS: &str = "texts-blocks";
pub(super) const FILES: [&str; 4] = [PRINTS, TAPE, TEXTS, BLOCKS];

/// One of several shards, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    number: u32,
    of: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(number, of)| number.parse().ok().zip(of.parse().ok()));
        let shard = parts.map(|(number, of)| Shard { number, of });
        let is_one = |shard: &Shard| (1..=shard.of).contains(&shard.number) && shard.of <= MOST;
        shard.filter(is_one).ok_or_else(|| format!("a shard is I/N, from 1/N to N/N, with N up to {MOST}"))
    }
}

impl Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Its folder.
    pub(super) fn place(self, output: &Path) -> PathBuf {
        folder_of(output).join(format!("{}-of-{}", self.number, self.of))
    }

    fn of_name(name: &str) -> Option<Shard> {
        let name = name.strip_suffix(".partial").unwrap_or(name);
        let (number, of) = name.split_once("-of-")?;
        format!("{number}/{of}").parse().ok()
    }

    /// The files that it has: those of all shards follow each other, and have about as many bytes. An archive
    /// stays whole.
    ///
    /// # Errors
    /// Why the files cannot be shared out.
    pub(super) fn part(self, inputs: &Inputs) -> Result<Range<usize>, String> {
        if let Some(stream) = inputs.files.iter().find(|input| input.path.is_stream()) {
            let name = &stream.shown;
            return Err(format!(
                "{name}: a pipe is read by one run, and not by shards: store it as files first"
            ));
        }
        let is_one = |a: &Input, b: &Input| a.member.is_some() && a.path == b.path && a.to == b.to;
        let whole: Vec<&[Input]> = inputs.files.chunk_by(is_one).collect();
        if whole.len() < self.of as usize {
            let count = counted(whole.len() as u64, "shard");
            return Err(format!(
                "--shard {self}: there are fewer files than shards: take {count} at most, or split files"
            ));
        }
        let bytes = |files: &&[Input]| files.iter().map(|input| input.state.bytes).sum();
        let ends = ends(&whole.iter().map(bytes).collect::<Vec<u64>>(), self.of as usize);
        let files = |end: usize| whole[..end].iter().map(|files| files.len()).sum::<usize>();
        let before = if self.number == 1 { 0 } else { ends[self.number as usize - 2] };
        Ok(files(before)..files(ends[self.number as usize - 1]))
    }
}

/// Where each of `of` groups of files ends, none of which is empty. A file belongs to the group in which its
/// middle lies.
fn ends(bytes: &[u64], of: usize) -> Vec<usize> {
    let all: u128 = bytes.iter().map(|bytes| u128::from(*bytes)).sum();
    let (mut end, mut before, mut ends) = (0, 0_u128, Vec::new());
    for group in 1..=of {
        let (least, most) = (end + 1, bytes.len() - (of - group));
        let is_within = |middle: u128| middle * of as u128 <= 2 * all * group as u128;
        while end < least || (end < most && is_within(2 * before + u128::from(bytes[end]))) {
            before += u128::from(bytes[end]);
            end += 1;
        }
        ends.push(if group == of { bytes.len() } else { end });
    }
    ends
}

/// The folder of all shards.
pub(super) fn folder_of(output: &Path) -> PathBuf {
    output.components().as_path().with_added_extension("shards")
}

/// The file with the weights that the first shard learned for all.
pub(super) fn learned(arguments: &DedupeArguments, inputs: &Inputs, maker: &Maker) -> PathBuf {
    let settings = without_weights(arguments, inputs, maker).to_string();
    folder_of(&arguments.output).join(format!("weights-{:016x}", xxh3_64(settings.as_bytes())))
}

/// What [`ABOUT`] says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AboutShard {
    /// The version of the files.
    lookalike_shard: u32,
    /// The command that makes it, without the option for the shard.
    command: Vec<String>,
    settings: Value,
    /// Its files, as every machine sees them.
    files: Vec<Value>,
    records: u32,
    has_texts: bool,
    /// The sizes of [`FILES`].
    bytes: BTreeMap<String, u64>,
}

impl AboutShard {
    pub(super) fn of(
        settings: Value,
        files: &[State],
        records: u32,
        has_texts: bool,
    ) -> Result<AboutShard, Failure> {
        Ok(AboutShard {
            lookalike_shard: VERSION,
            command: own_command()?,
            settings,
            files: files.iter().map(|file| json!(file)).collect(),
            records,
            has_texts,
            bytes: BTreeMap::new(),
        })
    }

    /// Writes it beside the complete files.
    pub(super) fn write(self, folder: &Path) -> Result<(), Failure> {
        let (path, about) = (folder.join(ABOUT), AboutShard { bytes: sizes(folder)?, ..self });
        let text = serde_json::to_string(&about).map_err(|error| Failure::of(&error, 1))?;
        fs::write(&path, text).map_err(|error| at(&path, &error))
    }

    /// That of a folder; `None` if this program has not completed it.
    pub(super) fn read(folder: &Path) -> Option<AboutShard> {
        let about = fs::read_to_string(folder.join(ABOUT)).ok()?;
        let about: AboutShard = serde_json::from_str(&about).ok()?;
        let is_own = about.lookalike_shard == VERSION && sizes(folder).is_ok_and(|own| own == about.bytes);
        is_own.then_some(about)
    }

    /// How the settings and the files of which it was made differ from these.
    pub(super) fn difference(&self, settings: &Value, inputs: &Inputs) -> Option<String> {
        if self.settings[INPUTS] == settings[INPUTS] {
            let mut own = settings.as_object()?.iter();
            let (name, value) = own.find(|(name, value)| self.settings[&***name] != **value)?;
            let made = &self.settings[name];
            let [made, value] = [made, value].map(|value| match value {
                Value::Null => "unset".to_owned(),
                value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            });
            return Some(format!("was made with {name} {made}, and not {value}"));
        }
        let now: HashSet<String> =
            inputs.shared_states().iter().map(|state| json!(state).to_string()).collect();
        let changed = self.files.iter().find(|file| !now.contains(&file.to_string()));
        Some(match changed {
            Some(file) => format!("has another {} than there is now", file["shown"]),
            None => "was made of other inputs".to_owned(),
        })
    }
}

/// The settings of shards, which are the same for all of a run.
pub(super) fn settings_of(arguments: &DedupeArguments, inputs: &Inputs, maker: &Maker) -> Value {
    let states = json!(inputs.shared_states()).to_string();
    settings(arguments, &json!(format!("{:016x}", xxh3_64(states.as_bytes()))), maker)
}

/// The settings on which the weights depend that are learned.
fn without_weights(arguments: &DedupeArguments, inputs: &Inputs, maker: &Maker) -> Value {
    let mut settings = settings_of(arguments, inputs, maker);
    settings.as_object_mut().and_then(|settings| settings.remove(WEIGHTS));
    settings
}

/// The words of this command behind its name, without the options that are for one shard.
fn own_command() -> Result<Vec<String>, Failure> {
    let (mut command, mut words) = (Vec::new(), std::env::args_os().skip(2));
    while let Some(word) = words.next() {
        let word = word.into_string().map_err(|word| {
            let word = shown(Path::new(&word));
            Failure::new(format!(
                "--shard: {word} is not UTF-8, and cannot be stored for the merge: rename it"
            ))
        })?;
        if word == "--shard" {
            words.next();
        } else if !word.starts_with("--shard=") && word != "--force" {
            command.push(word);
        }
    }
    Ok(command)
}

/// Words as a shell takes them.
fn quoted(words: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,@%+".contains(c);
    let word = |word: &String| {
        let is_plain = !word.is_empty() && word.chars().all(is_plain);
        if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn sizes(folder: &Path) -> Result<BTreeMap<String, u64>, Failure> {
    let size = |name: &str| {
        let path = folder.join(name);
        let about = fs::metadata(&path).map_err(|error| at(&path, &error))?;
        Ok((name.to_owned(), about.len()))
    };
    FILES.into_iter().map(size).collect()
}

/// All shards of a run, complete.
#[derive(Debug)]
pub(super) struct Shards {
    output: PathBuf,
    all: Vec<(Shard, AboutShard)>,
}

impl Shards {
    /// The shards of an output.
    ///
    /// # Errors
    /// With the commands that make those that are missing.
    pub(super) fn of(output: &Path) -> Result<Shards, Failure> {
        let folder = folder_of(output);
        let names = match fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&folder, &error)),
            names => names.unwrap_or_default(),
        };
        let shards = names.iter().filter_map(|one| Shard::of_name(one.file_name().to_str()?));
        let counts: BTreeSet<u32> = shards.map(|shard| shard.of).collect();
        let name = shown(&folder);
        let Some(of) = counts.first().copied() else {
            let output = shown(output);
            return Err(Failure::new(format!(
                "{name} has no shards: lookalike dedupe … -o {output} --shard 1/N makes the first"
            )));
        };
        if let Some(other) = counts.last().filter(|other| **other != of) {
            return Err(Failure::new(format!(
                "{name} has shards of {of} and of {other}: remove those that are not wanted"
            )));
        }
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for number in 1..=of {
            let shard = Shard { number, of };
            match AboutShard::read(&shard.place(output)) {
                Some(about) => all.push((shard, about)),
                None => missing.push(shard),
            }
        }
        let command = all.first().map(|(_, about)| quoted(&about.command));
        let problem = |shard: &Shard| {
            let is_begun = partial_of(&shard.place(output)).exists();
            let state = if is_begun { "is not complete" } else { "is missing" };
            let command = command.as_deref().unwrap_or("…");
            format!("shard {shard} {state}: lookalike dedupe --shard {shard} {command}")
        };
        refuse(missing.iter().map(problem).collect())?;
        Ok(Shards { output: output.to_owned(), all })
    }

    /// The words of the command that made the first one.
    pub(super) fn command(&self) -> &[String] {
        &self.all[0].1.command
    }

    /// Checks that all were made with the settings of a run, but for weights, and returns the file of those
    /// that they have learned.
    pub(super) fn begin(
        &self,
        arguments: &DedupeArguments,
        inputs: &Inputs,
        maker: &Maker,
    ) -> Result<PathBuf, Failure> {
        self.check(&without_weights(arguments, inputs, maker), inputs, maker.gives_texts)?;
        Ok(learned(arguments, inputs, maker))
    }

    /// Checks that all were made with these settings, and have the texts that are needed.
    pub(super) fn check(&self, settings: &Value, inputs: &Inputs, needs_texts: bool) -> Result<(), Failure> {
        let problem = |(shard, about): &(Shard, AboutShard)| {
            let without =
                || "has no texts, which --evidence, --review and --decontaminate need, of shards, too";
            let lacks = (needs_texts && !about.has_texts).then(|| without().to_owned());
            let what = about.difference(settings, inputs).or(lacks)?;
            let command = quoted(&about.command);
            Some(format!(
                "shard {shard} {what}; to make it again: lookalike dedupe --force --shard {shard} {command}"
            ))
        };
        refuse(self.all.iter().filter_map(problem).collect())
    }

    /// The prints of all.
    pub(super) fn prints(&self, sizes: Sizes) -> Result<Prints, Failure> {
        let paths: Vec<PathBuf> =
            self.all.iter().map(|(shard, _)| shard.place(&self.output).join(PRINTS)).collect();
        Prints::of_files(&paths, sizes)
    }

    /// Calls `each` with all records.
    pub(super) fn each(&self, mut each: impl FnMut(Told) -> Result<(), Failure>) -> Result<(), Failure> {
        for (shard, about) in &self.all {
            let path = shard.place(&self.output).join(TAPE);
            let mut records = 0;
            for told in Tape::told(&path).map_err(|error| at(&path, &error))? {
                each(told.map_err(|error| at(&path, &error))?)?;
                records += 1;
            }
            if records != about.records {
                return Err(Failure::new(format!(
                    "{}: {records} of {} records: make shard {shard} again with --force",
                    shown(&path),
                    about.records
                )));
            }
        }
        Ok(())
    }

    /// Adds the texts of all to others.
    pub(super) fn join_texts(&self, texts: &Texts, inputs: &[Input]) -> Result<(), Failure> {
        for (shard, _) in &self.all {
            let place = shard.place(&self.output);
            texts.join(&place.join(TEXTS), &place.join(BLOCKS), inputs)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_files_are_not_empty_and_about_equal() {
        assert_eq!(ends(&[10, 10, 10, 10], 2), [2, 4]);
        assert_eq!(ends(&[1, 1, 1, 97], 3), [2, 3, 4]);
        assert_eq!(ends(&[97, 1, 1, 1], 3), [1, 2, 4]);
        assert_eq!(ends(&[0, 0, 0], 3), [1, 2, 3]);
        let mut random = fastrand::Rng::with_seed(67);
        for of in 1..60 {
            let files: Vec<u64> = (0..random.usize(of..200)).map(|_| random.u64(..1_000)).collect();
            let (ends, all) = (ends(&files, of), files.iter().sum::<u64>());
            assert!(ends.len() == of && ends.last() == Some(&files.len()) && ends[0] > 0);
            assert!(ends.is_sorted_by(|a, b| a < b), "{files:?} {ends:?}");
            if files.len() > 10 * of {
                let most = (0..of).map(|group| {
                    files[group.checked_sub(1).map_or(0, |g| ends[g])..ends[group]].iter().sum::<u64>()
                });
                assert!(most.max() <= Some(all / of as u64 + 1_000), "{files:?} {ends:?}");
            }
        }
    }

    #[test]
    fn a_shard_is_counted_from_one() {
        let shard: Shard = "3/16".parse().unwrap();
        assert_eq!((shard, Shard::of_name("3-of-16.partial")), (Shard { number: 3, of: 16 }, Some(shard)));
        for wrong in ["0/3", "4/3", "3", "1/0", "a/b", "1/10001", "-1/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        assert_eq!(Shard::of_name("weights-00"), None);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["a.jsonl", "it's", "", "a b", "--k", "$x"].map(str::to_owned);
        assert_eq!(quoted(&words), r"a.jsonl 'it'\''s' '' 'a b' --k '$x'");
    }
}
