//! `lookalike keys`: creates, lists and revokes keys. It changes the file; a running server applies the
//! change within a second.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};

use super::Failure;
use super::client::collection_name;
use super::serve::ServeArguments;
use crate::server::key_file;
use lookalike_hash::CollectionName;
use lookalike_keys::{Key, KeyError, KeyFile, Role, Scope};

#[derive(Debug, Args)]
pub(super) struct KeysArguments {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Create a key and print it once. After the first key exists, every request needs one.
    Create(CreateArguments),
    /// List the keys: name, role, collections, rate, and time of creation.
    List(ServeArguments),
    /// Revoke a key. A running server refuses it within a second.
    Revoke(RevokeArguments),
}

#[derive(Debug, Args)]
struct CreateArguments {
    /// Name of the key
    #[arg(value_name = "NAME")]
    key: String,
    /// What the key allows; each role includes the ones before it
    #[arg(long, value_enum)]
    role: RoleArgument,
    /// Collection that the key gives access to; may be given several times. By default all
    #[arg(long = "collection", value_name = "NAME", value_parser = collection_name)]
    collections: Vec<CollectionName>,
    /// Units per second that the key may use: one for each request, or for each millisecond of a longer
    /// request, or for each document of a stream. By default unlimited
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: Option<u64>,
    #[command(flatten)]
    settings: ServeArguments,
}

#[derive(Debug, Args)]
struct RevokeArguments {
    /// Name of the key
    #[arg(value_name = "NAME")]
    key: String,
    #[command(flatten)]
    settings: ServeArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleArgument {
    /// Look up, fingerprint, read
    Read,
    /// Store and delete documents
    Write,
    /// Create and delete collections, take snapshots
    Admin,
}

impl From<RoleArgument> for Role {
    fn from(role: RoleArgument) -> Role {
        match role {
            RoleArgument::Read => Role::Read,
            RoleArgument::Write => Role::Write,
            RoleArgument::Admin => Role::Admin,
        }
    }
}

pub(super) fn run(arguments: KeysArguments) -> Result<(), Failure> {
    match arguments.command {
        KeysCommand::Create(arguments) => create(arguments),
        KeysCommand::List(settings) => list(&key_file(&settings.settings()?)),
        KeysCommand::Revoke(arguments) => {
            let file = key_file(&arguments.settings.settings()?);
            file.revoke(&arguments.key)?;
            eprintln!("revoked {}", arguments.key);
            Ok(())
        }
    }
}

fn create(arguments: CreateArguments) -> Result<(), Failure> {
    let file = key_file(&arguments.settings.settings()?);
    let is_first = file.read()?.is_none();
    let names: BTreeSet<CollectionName> = arguments.collections.into_iter().collect();
    let scope = if names.is_empty() { Scope::All } else { Scope::Named(names) };
    let made_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let random = [uuid::Uuid::new_v4().as_u128(), uuid::Uuid::new_v4().as_u128()];
    let (key, secret) =
        Key::new(arguments.key, arguments.role.into(), scope, arguments.rate, made_at, random);
    file.add(key)?;
    writeln!(std::io::stdout().lock(), "{secret}")?;
    eprintln!("keep it: {} holds only its hash", file.path().display());
    if is_first {
        eprintln!("this is the first key: every request needs a key from now on");
    }
    Ok(())
}

fn list(file: &KeyFile) -> Result<(), Failure> {
    let Some(keys) = file.read()? else {
        eprintln!("there is no {}: requests need no key", file.path().display());
        return Ok(());
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "name\trole\tcollections\trate\tcreated")?;
    for key in keys {
        let place = match &key.scope {
            Scope::All => "all collections".to_owned(),
            Scope::Named(names) => names.iter().map(CollectionName::as_str).collect::<Vec<_>>().join(","),
        };
        let rate = key.rate.map_or_else(|| "unlimited".to_owned(), |rate| format!("{rate} units/s"));
        writeln!(out, "{}\t{}\t{place}\t{rate}\t{}", key.name, key.role.name(), key.made_at)?;
    }
    Ok(())
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Failure {
        Failure::of(&error, 1)
    }
}
