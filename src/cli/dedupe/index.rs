//! An index that was made earlier, for `--against`: the prints and names of documents, and the weights that
//! the prints were made with, in a folder.
//!
//! It guarantees that a damaged file is an error, and that prints are compared with no others than those of
//! the same profile and weights. *Absent*: texts.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::super::Failure;
use super::spool::{Names, Prints, Sizes};
use super::weights::Weights;
use crate::cli::at;
use lookalike_files::shown;
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::{Profile, makes_the_same};

/// The file that makes a folder an index.
const ABOUT: &str = "index.json";
/// The version of the files.
const VERSION: u32 = 1;
/// The files with the prints and names.
pub(super) const FILES: [&str; 3] = ["prints", "names", "names-ends"];
/// The file with the weights.
pub(super) const WEIGHTS: &str = "weights";

/// What [`ABOUT`] says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AboutIndex {
    /// The version of the files.
    lookalike_index: u32,
    pub(super) program: String,
    pub(super) profile: String,
    /// The digest of the weights, if the prints have any.
    pub(super) weights: Option<String>,
    pub(super) hash_bytes: usize,
    pub(super) signature_bytes: usize,
    /// The documents that are compared; other records have prints that say nothing.
    pub(super) documents: u64,
    /// The names of the files that were read.
    pub(super) files: Vec<String>,
    /// The digests of [`FILES`].
    digests: [String; FILES.len()],
}

#[derive(Debug)]
pub(super) struct Index {
    folder: PathBuf,
    pub(super) about: AboutIndex,
}

impl AboutIndex {
    /// That of the complete files in a folder.
    pub(super) fn of(
        folder: &Path,
        profile: &Profile,
        sizes: Sizes,
        weights: Option<&Frequencies>,
        documents: u64,
        files: Vec<String>,
    ) -> Result<AboutIndex, Failure> {
        Ok(AboutIndex {
            lookalike_index: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            profile: profile.id().to_string(),
            weights: weights.map(digest_of),
            hash_bytes: sizes.hash,
            signature_bytes: sizes.signature,
            documents,
            files,
            digests: digests(folder)?,
        })
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join(ABOUT);
        let text = serde_json::to_string_pretty(self).map_err(|error| Failure::of(&error, 1))?;
        fs::write(&path, text + "\n").map_err(|error| at(&path, &error))
    }
}

fn digest_of(table: &Frequencies) -> String {
    format!("{:016x}", table.digest())
}

fn digests(folder: &Path) -> Result<[String; FILES.len()], Failure> {
    let mut digests = FILES.map(str::to_owned);
    for digest in &mut digests {
        let path = folder.join(&*digest);
        *digest = File::open(&path).and_then(digest_of_file).map_err(|error| at(&path, &error))?;
    }
    Ok(digests)
}

fn digest_of_file(mut file: File) -> io::Result<String> {
    let (mut sum, mut bytes) = (Xxh3::new(), vec![0; 1 << 20]);
    loop {
        let count = file.read(&mut bytes)?;
        if count == 0 {
            return Ok(format!("{:032x}", sum.digest128()));
        }
        sum.update(&bytes[..count]);
    }
}

impl Index {
    /// Whether a folder is an index, or was meant to be one.
    pub(super) fn is_at(path: &Path) -> bool {
        path.join(ABOUT).is_file()
    }

    /// Opens an index.
    ///
    /// # Errors
    /// If a file is missing or damaged, or of another version.
    pub(super) fn open(folder: &Path) -> Result<Index, Failure> {
        let damaged = |what: &str| {
            let folder = shown(folder);
            Failure::new(format!("{folder}: the index is damaged, {what}: make it again with index build"))
        };
        let path = folder.join(ABOUT);
        let text = fs::read_to_string(&path).map_err(|error| at(&path, &error))?;
        let about: AboutIndex = serde_json::from_str(&text).map_err(|_| damaged(ABOUT))?;
        if about.lookalike_index != VERSION {
            return Err(Failure::new(format!(
                "{}: the index has version {}, and this program reads version {VERSION}: make it again with \
                 index build",
                shown(folder),
                about.lookalike_index
            )));
        }
        for ((name, found), expected) in FILES.iter().zip(digests(folder)?).zip(&about.digests) {
            if found != *expected {
                return Err(damaged(name));
            }
        }
        Ok(Index { folder: folder.to_owned(), about })
    }

    /// The weights that the prints were made with.
    pub(super) fn weights(&self) -> Weights {
        match self.about.weights {
            Some(_) => Weights::File(self.folder.join(WEIGHTS)),
            None => Weights::None,
        }
    }

    /// Checks that the prints can be compared with those of a run.
    ///
    /// # Errors
    /// If they are of another profile, or of other weights.
    pub(super) fn check(
        &self,
        profile: &Profile,
        sizes: Sizes,
        weights: Option<&Frequencies>,
    ) -> Result<(), Failure> {
        let (name, about) = (shown(&self.folder), &self.about);
        let own = profile.id().to_string();
        if !makes_the_same(&about.profile, &own) {
            let theirs = &about.profile;
            return Err(Failure::new(format!(
                "the index {name} has the profile {theirs}, not {own}; --profile sets it"
            )));
        }
        if sizes.sketch > 0 {
            return Err(Failure::new(format!(
                "the index {name} has no sketches, which --check needs: name the files of the index for \
                 --against, or leave --check out"
            )));
        }
        let own = weights.map(digest_of);
        if own != about.weights {
            let told = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "none".to_owned());
            let way = match self.weights() {
                Weights::File(path) => shown(&path),
                _ => "none".to_owned(),
            };
            return Err(Failure::new(format!(
                "the index {name} has other weights of features ({}) than this run ({}): --weights {way}, or \
                 leave it out",
                told(&about.weights),
                told(&own)
            )));
        }
        Ok(())
    }

    /// The prints and names, by the numbers of the records.
    pub(super) fn read(&self) -> Result<(Prints, Names), Failure> {
        let sizes = Sizes { hash: self.about.hash_bytes, signature: self.about.signature_bytes, sketch: 0 };
        Ok((Prints::of_file(&self.folder.join("prints"), sizes)?, Names::of_files(&self.folder)?))
    }

    /// The bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        let size = |name: &&str| fs::metadata(self.folder.join(name)).map_or(0, |about| about.len());
        FILES.iter().chain(&[WEIGHTS]).map(size).sum()
    }
}
