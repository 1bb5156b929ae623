//! Input that can be read only once, such as standard input: it is stored in the folder of the run,
//! compressed, so that every rule reads it as often as a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU8;

use zstd::stream::write::Encoder;

use super::super::Failure;
use super::inputs::Inputs;
use super::progress::check;
use crate::cli::at;
use lookalike_files::{Listing, Opens, Packing, Reading};

/// The bytes that are stored at a time.
const PART: usize = 1 << 20;
/// The level of zstd that takes least time.
const LEVEL: i32 = 1;

impl Inputs {
    /// Stores the files that can be read only once; `work` is the path of a working file by its name.
    pub(super) fn store_streams(
        &mut self,
        work: impl Fn(&str) -> PathBuf,
        stop: &AtomicU8,
    ) -> Result<(), Failure> {
        let streams = self.files.iter_mut().filter(|input| input.path.is_stream());
        for (number, input) in streams.enumerate() {
            let to = work(&format!("piped-{number}"));
            let mut from = input.path.open().map_err(|error| at(&input.path, &error))?;
            store(&mut from, &input.path, &to, stop)?;
            let listed = Listing::with_problems(&[to], &|_| true).files.pop();
            input.path = listed.expect("it was stored").path;
        }
        Ok(())
    }
}

/// Stores what `from` has. What is compressed already is not compressed again.
fn store(from: &mut dyn Read, named: &Path, to: &Path, stop: &AtomicU8) -> Result<(), Failure> {
    let mut from: Reading = Box::new(BufReader::with_capacity(PART, from));
    let packing = Packing::of_read(&mut from, Packing::named(named));
    let file = File::create(to).map_err(|error| at(to, &error))?;
    if packing == Packing::None {
        let mut encoder = Encoder::new(file, LEVEL).map_err(|error| at(to, &error))?;
        copy(&mut from, named, &mut encoder, to, stop)?;
        return encoder.finish().map(drop).map_err(|error| at(to, &error));
    }
    copy(&mut from, named, &mut &file, to, stop)
}

fn copy(
    from: &mut impl BufRead,
    named: &Path,
    to: &mut impl Write,
    path: &Path,
    stop: &AtomicU8,
) -> Result<(), Failure> {
    loop {
        check(stop)?;
        let part = from.fill_buf().map_err(|error| at(named, &error))?;
        let length = part.len();
        if length == 0 {
            return Ok(());
        }
        to.write_all(part).map_err(|error| at(path, &error))?;
        from.consume(length);
    }
}
