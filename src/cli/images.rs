//! Images of files: their hashes for `import` and `dedupe`, and `lookalike fingerprint` with a profile of
//! images.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::Failure;
use lookalike_hash::{Hash, HashForm};
use lookalike_text::fingerprint::{Profile, Status};

/// What an image has.
pub(super) struct Hashed {
    pub(super) hash: Hash,
    /// How much there is to see, 0 to 100.
    pub(super) quality: u8,
    pub(super) status: Status,
    /// A small JPEG of it, if it is wanted.
    pub(super) thumbnail: Option<Vec<u8>>,
}

/// The hash of an image by a profile of images.
///
/// # Errors
/// Why the bytes are refused.
#[cfg(feature = "images")]
pub(super) fn hashed(profile: &Profile, image: &[u8], with_thumbnail: bool) -> Result<Hashed, String> {
    use lookalike_hash::Width;
    use lookalike_images::{Header, Pdq, phash_64};

    /// The most pixels of an image: it takes half a gigabyte.
    const PIXELS: u64 = 100_000_000;
    let raster =
        Header::read(image, PIXELS).and_then(Header::decode).map_err(|refusal| refusal.to_string())?;
    let pdq = Pdq::of(&raster);
    let hash = if profile.width() == Width::Bits256 { pdq.hash() } else { phash_64(&raster) };
    let status = if pdq.quality() < Pdq::GOOD { Status::Short } else { Status::Ok };
    let thumbnail = with_thumbnail.then(|| raster.thumbnail());
    Ok(Hashed { hash, quality: pdq.quality(), status, thumbnail })
}

/// Refuses every image.
#[cfg(not(feature = "images"))]
pub(super) fn hashed(_: &Profile, _: &[u8], _: bool) -> Result<Hashed, String> {
    Err("this build reads no images: build it with the feature images, or give hashes".to_owned())
}

/// Prints the hashes of images, in the order of their names within a folder. Files that are no images fail.
pub(super) fn run(
    profile: &Profile,
    files: &[PathBuf],
    form: HashForm,
    as_json: bool,
) -> Result<(), Failure> {
    let mut all = Vec::new();
    for file in files {
        walk(file, &mut all).map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    }
    let mut failed = 0;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let make = |file: &PathBuf| {
        let bytes = fs::read(file).map_err(|error| error.to_string())?;
        hashed(profile, &bytes, false)
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    in_order(&all, threads, make, |file, made| {
        let name = file.display().to_string();
        let Hashed { hash, quality, status, .. } = match made {
            Ok(made) => made,
            Err(error) => {
                failed += 1;
                eprintln!("lookalike: {name}: {error}");
                return Ok(());
            }
        };
        let (hash, is_short) = (form.write(hash), status == Status::Short);
        if as_json {
            let (bits, profile) = (profile.width().bits(), profile.id().to_string());
            let line = serde_json::json!({
                "file": name, "hash": hash, "bits": bits, "profile": profile, "quality": quality,
                "status": if is_short { "short" } else { "ok" },
            });
            return writeln!(out, "{line}");
        }
        if is_short {
            eprintln!("lookalike: {name}: short: quality {quality}; unlike images may have near hashes");
        }
        writeln!(out, "{hash}  {name}")
    })?;
    out.flush()?;
    if failed > 0 {
        let count = all.len();
        return Err(Failure::new(format!("{failed} of {count} files could not be read as images")));
    }
    Ok(())
}

/// Adds a file, or all files in a folder.
fn walk(path: &Path, all: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        all.push(path.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable();
    entries.iter().try_for_each(|entry| walk(entry, all))
}

/// Calls `each` with the results of `make` in the order of the items until it fails; so many threads make
/// them.
pub(super) fn in_order<I: Sync, T: Send, E>(
    items: &[I],
    threads: usize,
    make: impl Fn(&I) -> T + Sync,
    mut each: impl FnMut(&I, T) -> Result<(), E>,
) -> Result<(), E> {
    if threads == 1 {
        return items.iter().try_for_each(|item| each(item, make(item)));
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, made) = mpsc::channel();
        for _ in 0..threads {
            let (sender, next, make) = (sender.clone(), &next, &make);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    if sender.send((at, make(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = std::collections::BTreeMap::new();
        let mut due = 0;
        for (at, one) in made {
            waiting.insert(at, one);
            while let Some(one) = waiting.remove(&due) {
                each(&items[due], one)?;
                due += 1;
            }
        }
        Ok(())
    })
}
