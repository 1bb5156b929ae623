//! The file of users' profiles: a TOML table for each profile, with the key `like` for its base profile and
//! keys for the differences.
//!
//! Guarantees: an error names the file, and the line or the profile. Files that a definition names
//! (`user_dictionary`, `stop_words`, `idf`) are relative to the directory of the file. Not here: the keys
//! (`definition`), and the digest in the id of a profile (`fingerprint`).

mod definition;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use definition::{Definition, Misplaced};

use crate::features::{Idf, StopWords, WrongIdf};
use crate::fingerprint::{Contradiction, IdfChoice, Profile, Profiles};
use crate::{Dictionary, WrongWord};

/// The most bytes of the file, and of each file that a definition names.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The most profiles in a file.
const MAX_PROFILES: usize = 256;

/// The reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfilesError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The file is too large, is not TOML, or has a wrong key or value.
    #[error("{}: {detail}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The fault.
        detail: String,
    },
    /// A profile cannot be made from its definition.
    #[error("{}: profile {name}: {error}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// The profile.
        name: String,
        /// The fault.
        error: ProfileError,
    },
}

/// The reason why a profile cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The name is not allowed.
    #[error(
        "a profile cannot be called {0:?}: a name has 1 to 64 of a-z, 0-9 and -, and is not that of another \
         profile"
    )]
    Name(String),
    /// There is no built-in profile of the name in `like`.
    #[error("like: there is no built-in profile {0:?}; the built-in profiles are {1}")]
    Like(String, String),
    /// A key does not apply.
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
    /// The settings contradict each other.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    /// A file is not a valid dictionary.
    #[error("user_dictionary: {0}")]
    Dictionary(#[from] WrongWord),
    /// A file is not a valid idf table.
    #[error("idf: {0}")]
    Idf(#[from] WrongIdf),
}

/// The built-in profiles, and those of the file if there is one.
///
/// # Errors
/// [`ProfilesError`] for the first fault.
pub fn load(file: Option<&Path>) -> Result<Profiles, ProfilesError> {
    let Some(path) = file else { return Ok(Profiles::default()) };
    let form = |detail: String| ProfilesError::Form { path: path.to_owned(), detail };
    let text = read(path)?;
    let definitions: BTreeMap<String, Definition> =
        toml::from_str(&text).map_err(|error| form(in_words(&text, &error)))?;
    if definitions.len() > MAX_PROFILES {
        return Err(form(format!("{} profiles; at most {MAX_PROFILES} are allowed", definitions.len())));
    }
    let profiles = definitions.into_iter().map(|(name, definition)| {
        let files = Files::read(path, &definition)?;
        profile(&name, definition, files).map_err(|error| {
            let name = name.chars().take(80).collect();
            ProfilesError::Profile { path: path.to_owned(), name, error }
        })
    });
    Ok(Profiles::with(profiles.collect::<Result<_, _>>()?))
}

/// The line and the reason of an error in a TOML text.
fn in_words(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    format!(
        "line {line}: {}; each profile is a table [NAME] with the keys of docs/profiles.md",
        error.message()
    )
}

/// The contents of the files that a definition names.
#[derive(Debug, Default)]
struct Files {
    user_dictionary: Option<String>,
    stop_words: Option<String>,
    idf: Option<String>,
}

impl Files {
    fn read(profiles: &Path, definition: &Definition) -> Result<Files, ProfilesError> {
        let directory = profiles.parent().unwrap_or(Path::new(""));
        let contents = |name: Option<&str>| name.map(|name| read(&directory.join(name))).transpose();
        Ok(Files {
            user_dictionary: contents(definition.user_dictionary.as_deref())?,
            stop_words: contents(definition.stop_words_file())?,
            idf: contents(definition.idf_file())?,
        })
    }
}

fn profile(name: &str, mut definition: Definition, files: Files) -> Result<Profile, ProfileError> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_new = Profile::named(name).is_none();
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) || !is_new {
        return Err(ProfileError::Name(name.chars().take(80).collect()));
    }
    let base = match &definition.like {
        None => Profile::default_profile(),
        Some(like) => Profile::named(like)
            .ok_or_else(|| ProfileError::Like(like.clone(), Profiles::default().listing()))?,
    };
    let mut recipe = base.recipe().clone();
    let (version, summary) = (definition.version.unwrap_or(1), definition.summary.take());
    let stop_words = files.stop_words.as_deref().map(StopWords::parse);
    let idf = files.idf.as_deref().map(Idf::parse).transpose()?.map(IdfChoice::Own);
    definition.apply(&mut recipe, stop_words, idf)?;
    if let Some(lines) = &files.user_dictionary {
        recipe.dictionary = Some(Arc::new(Dictionary::with_words(lines, recipe.edition())?));
    }
    let contents = [("idf", files.idf), ("user_dictionary", files.user_dictionary)];
    Ok(Profile::of_user(name, version, summary.unwrap_or_default(), recipe, &contents)?)
}

fn read(path: &Path) -> Result<String, ProfilesError> {
    let wrong = |error| ProfilesError::Read { path: path.to_owned(), error };
    let bytes = fs::metadata(path).map_err(wrong)?.len();
    if bytes > MAX_FILE_BYTES {
        let detail = format!("the file has {bytes} bytes; at most {MAX_FILE_BYTES} are allowed");
        return Err(ProfilesError::Form { path: path.to_owned(), detail });
    }
    fs::read_to_string(path).map_err(wrong)
}

#[cfg(test)]
mod tests;
