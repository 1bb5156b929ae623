//! A shard of a run: the prints and texts of some of the files, which `merge` takes in place of a pass over
//! all of them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use super::super::super::signals::stop_on_signals;
use super::super::super::{Failure, printable, tell};
use super::super::against::Against;
use super::super::folder::Folder;
use super::super::inputs::Inputs;
use super::super::progress::bar;
use super::super::record::Maker;
use super::super::shards::{self, ABOUT, AboutShard, BLOCKS, FILES, Shard, Shards, TAPE, TEXTS};
use super::super::tape::Tape;
use super::super::{DedupeArguments, Keep, weights};
use super::{Run, unchanged};
use crate::cli::at;
use lookalike_dedupe::Radius;
use lookalike_files::shown;
use lookalike_wording::counted;

/// Makes a shard of these files, unless it is complete.
pub(in super::super) fn run(
    arguments: &mut DedupeArguments,
    shard: Shard,
    (inputs, part): (&Inputs, Range<usize>),
    against: &Against,
    mut maker: Maker,
    radius: Radius,
) -> Result<(), Failure> {
    let (place, stop) = (shard.place(&arguments.output), stop_on_signals());
    let above = shards::folder_of(&arguments.output);
    fs::create_dir(&above).or_else(|error| if above.is_dir() { Ok(()) } else { Err(at(&above, &error)) })?;
    let learned = shards::learned(arguments, inputs, &maker);
    let (table, note) = weights::choose(arguments, inputs, against, &maker, Some(&learned), &stop)?;
    against.indexes.iter().try_for_each(|index| index.check(maker.profile, maker.sizes, table.as_deref()))?;
    (maker.weights, maker.bench) = (table, None);
    let settings = shards::settings_of(arguments, inputs, &maker);
    if place.exists() {
        let about = AboutShard::read(&place);
        let made = about.map_or(Err("is damaged, or of another version".to_owned()), |about| {
            about.difference(&settings, inputs).map_or(Ok(()), Err)
        });
        match made {
            _ if arguments.force => remove(&place)?,
            Ok(()) => {
                tell(&format!("shard {shard} is complete"));
                return Ok(());
            }
            Err(what) => return Err(Failure::new(format!("shard {shard} {what}; --force makes it again"))),
        }
    }
    let folder = Folder::open(&place, &[])?;
    arguments.only_reads();
    let of_none = Against::default();
    let mut run = Run::new(arguments, inputs, &of_none, &maker, radius, &folder, stop)?;
    (run.kept, run.part) = (None, part.clone());
    run.tape = Some(Tape::create(&folder.work(TAPE))?);
    run.read(&folder)?;
    run.refuse_invalid()?;
    let mut lines = vec![counted(run.prints.len().into(), "record").to_string()];
    lines.extend(note.into_iter().chain(run.summary.unread.sentences()));
    let about = AboutShard::of(settings, &inputs.shared_states()[part], run.prints.len(), maker.gives_texts)?;
    run.complete(&folder)?;
    about.write(&folder.work("output"))?;
    folder.finish(&[])?;
    let text = format!("shard {shard} in {}: {}\n", shown(&place), lines.join("\n"));
    Ok(io::stdout().write_all(printable(&text).as_bytes())?)
}

/// Removes an earlier shard.
fn remove(place: &Path) -> Result<(), Failure> {
    FILES.iter().chain(&[ABOUT]).for_each(|name| _ = fs::remove_file(place.join(name)));
    fs::remove_dir(place).map_err(|error| at(place, &error))
}

impl DedupeArguments {
    /// Leaves out what only the run writes that decides.
    fn only_reads(&mut self) {
        (self.duplicates, self.report) = (None, None);
        (self.bench.contaminated, self.spans.spans_file) = (None, None);
        let about = &mut self.about;
        (about.evidence, about.review, about.clusters_file, about.keep_ids) = (None, None, None, None);
        if matches!(self.keep, Keep::Source(_) | Keep::Central) {
            self.keep = Keep::FIRST;
        }
    }
}

impl Run<'_> {
    /// Completes the files of a shard, and moves them into the output.
    fn complete(mut self, folder: &Folder) -> Result<(), Failure> {
        self.tape.take().map_or(Ok(()), Tape::finish)?;
        match self.texts.take() {
            Some(texts) => texts.save(&folder.work(BLOCKS))?,
            None => [TEXTS, BLOCKS].into_iter().try_for_each(|name| {
                let path = folder.work(name);
                File::create(&path).map(drop).map_err(|error| at(&path, &error))
            })?,
        }
        FILES.iter().try_for_each(|name| {
            let to = folder.work("output").join(name);
            fs::rename(folder.work(name), &to).map_err(|error| at(&to, &error))
        })
    }

    /// Takes all records from shards, in place of reading them.
    pub(super) fn recall(&mut self, shards: &Shards) -> Result<(), Failure> {
        let settings = shards::settings_of(self.arguments, self.inputs, self.maker);
        shards.check(&settings, self.inputs, self.maker.gives_texts)?;
        self.kept = None;
        self.read_against()?;
        self.prints = shards.prints(self.maker.sizes)?;
        let bytes = self.maker.sizes.record() as u64;
        let bar = bar("recall", u64::from(self.prints.len()) * bytes);
        let mut number = 0;
        shards.each(|told| {
            self.check_stop()?;
            let stored = self.prints.get(number)?;
            number += 1;
            bar.inc(bytes);
            self.tell(told, &stored, &bar)
        })?;
        bar.finish_and_clear();
        self.texts.as_ref().map_or(Ok(()), |texts| shards.join_texts(texts, &self.inputs.files))?;
        self.find_items()?;
        unchanged(&self.inputs.files)
    }
}
