//! The settings of the server: typed keys, each with a default, a unit and a range.
//!
//! There are four layers, and a later one overrides an earlier one: built-in default, file, environment,
//! flag. The variable of `server.listen` is `LOOKALIKE_SERVER__LISTEN`; every other key is formed the same
//! way.
//!
//! The module guarantees that settings which [`load`] returns are in range, and that an error names the
//! place where the wrong value was written. A value that a later layer overrides must still be well-formed:
//! otherwise a typing error would take effect only when the flag above it is removed. Ranges are checked
//! only after merging, because some depend on another key.
//!
//! The written values (`Layers`) and their meaning ([`Settings`]) are separate, and the table in `keys.rs`
//! connects them. A key is therefore named three times: there, in its struct, and in `config/default.toml`.
//! The tests compare the three.
//!
//! *Absent*: reading the environment (the caller supplies the variables), secrets, reloading while running,
//! and what only other modules can check: whether a profile exists, whether its width admits
//! `collection.k`, whether `log.level` is a directive.

mod error;
mod file;
mod keys;
mod layers;
mod redact;
mod settings;
mod value;

use std::ffi::OsString;
use std::path::Path;

pub use error::{ConfigError, Given, Origin};
pub use redact::redacted;
pub use settings::{
    Acknowledge, Collection, Data, Keys, Limits, Log, LogFormat, Memory, Pool, Profiles, Replicas, Server,
    Settings, SharedLog, Snapshots, Store, Tls, read_shared_log,
};
pub use value::{Range, Unit};

use layers::Layers;

/// Merges the built-in defaults, the `file` if one is named, the `variables` and the `flags`, and checks the
/// result. The file is the only input that it reads itself.
///
/// Variables that do not begin with `LOOKALIKE_` are ignored, and so is `LOOKALIKE_CONFIG`, which names the
/// file and is left to the caller. A flag is a key, such as `server.listen`, with its value as text.
///
/// ```
/// let variables = [("LOOKALIKE_LIMITS__BATCH_BYTES", "64 MiB"), ("LOOKALIKE_POOL__QUEUE", "8")];
/// let variables = variables.map(|(name, value)| (name.to_owned(), value.into()));
/// let flags = [("pool.queue", "16".to_owned())];
/// let settings = lookalike::config::load(None, variables.into_iter(), &flags)?;
/// assert_eq!((settings.limits.batch_bytes, settings.pool.queue), (64 << 20, 16));
/// # Ok::<(), lookalike::config::ConfigError>(())
/// ```
///
/// # Errors
/// [`ConfigError`] for the first error found: a file that cannot be read or is not TOML, a name that does not
/// exist, a value of the wrong type or out of range.
pub fn load(
    file: Option<&Path>,
    variables: impl Iterator<Item = (String, OsString)>,
    flags: &[(&'static str, String)],
) -> Result<Settings, ConfigError> {
    explain(file, variables, flags).map(|(settings, _)| settings)
}

/// The settings, and for each key its value as it was written and where. A key without a value and without
/// a default is left out.
///
/// # Errors
/// As [`load`].
pub fn explain(
    file: Option<&Path>,
    variables: impl Iterator<Item = (String, OsString)>,
    flags: &[(&'static str, String)],
) -> Result<(Settings, Vec<Given>), ConfigError> {
    let text = file.map(file::read).transpose()?;
    let layers = merge(file.zip(text.as_deref()), variables, flags)?;
    let given = layers.given();
    Ok((layers.into_settings(), given))
}

/// Merges and checks the layers; the file has been read already.
fn merge(
    document: Option<(&Path, &str)>,
    variables: impl Iterator<Item = (String, OsString)>,
    flags: &[(&'static str, String)],
) -> Result<Layers, ConfigError> {
    let mut layers = Layers::built_in();
    if let Some((path, text)) = document {
        layers.add(file::entries(path, text)?);
    }
    layers.add(layers::variable_entries(variables)?);
    layers.add(layers::flag_entries(flags)?);
    layers.check()?;
    Ok(layers)
}

#[cfg(test)]
mod tests;
