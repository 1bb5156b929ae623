//! The table of keys: the name of each, the kind of its value, and the key that is its lower bound.
//!
//! Defaults are in `settings.rs`, so that each is written once. No range exceeds `u32::MAX` where the field
//! is a `usize`, so that the table also holds on 32-bit machines.

use super::error::{ConfigError, Origin};
use super::value::{HOSTS, Kind, ORIGINS, Range, SHARED_LOG, Unit};

/// The prefix of every variable.
const PREFIX: &str = "LOOKALIKE_";
/// Variables that are not settings: the one that names the settings file, which the caller reads, and those
/// of the commands that talk to a server.
const NOT_SETTINGS: [&str; 3] = ["LOOKALIKE_CONFIG", "LOOKALIKE_KEY", "LOOKALIKE_CACERT"];

/// One key of one section.
pub(super) struct Key {
    /// Section and name, as in `server.listen`.
    pub path: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// The path of a key of the same kind whose value is a lower bound for this one.
    pub floor: Option<&'static str>,
}

/// All keys, those of a section together, in the order of `config/default.toml`.
pub(super) static KEYS: [Key; 66] = [
    key("server.listen", Kind::Address),
    key("server.open", Kind::Switch),
    key("server.hosts", Kind::List(&HOSTS)),
    key("server.origins", Kind::List(&ORIGINS)),
    key("server.console", Kind::Switch),
    number("server.deletion_seconds", 1, 31_536_000, "seconds"),
    number("server.connections", 1, 1_000_000, "connections"),
    number("server.connections_per_address", 1, 1_000_000, "connections"),
    number("server.header_seconds", 1, 3_600, "seconds"),
    number("server.idle_seconds", 1, 86_400, "seconds"),
    number("server.body_seconds", 1, 3_600, "seconds"),
    size("server.bytes_per_second", 0, 1 << 30),
    number("server.stall_seconds", 1, 3_600, "seconds"),
    number("server.lame_duck_seconds", 0, 600, "seconds"),
    number("server.drain_seconds", 0, 3_600, "seconds"),
    key("tls.certificate", Kind::Text),
    key("tls.key", Kind::Text),
    key("keys.file", Kind::Text),
    key("data.dir", Kind::Text),
    size("limits.document_bytes", 1, 1 << 30),
    size("limits.page_bytes", 1, 1 << 30),
    size("limits.batch_bytes", 1, 1 << 30).not_below("limits.document_bytes"),
    size("limits.file_bytes", 1, 16 << 30),
    number("limits.image_pixels", 1, 1_000_000_000, "pixels"),
    size("limits.metadata_bytes", 0, 16 << 20),
    number("limits.default_matches", 1, 100_000, "matches"),
    number("limits.matches", 1, 100_000, "matches").not_below("limits.default_matches"),
    number("limits.batch_items", 1, 100_000, "items"),
    number("limits.batch_documents", 1, 100_000, "documents"),
    number("limits.query_ms", 1, 3_600_000, "milliseconds"),
    number("limits.write_ms", 1, 3_600_000, "milliseconds"),
    number("pool.permits", 0, 1_024, "tasks"),
    number("pool.queue", 0, 65_536, "callers"),
    number("pool.wait_ms", 0, 60_000, "milliseconds"),
    number("store.queue_operations", 1_024, 1 << 20, "operations"),
    size("store.queue_bytes", 1 << 10, 2 << 30),
    size("store.cache_bytes", 1 << 20, 1 << 40),
    size("store.journal_bytes", 1 << 16, 1 << 40),
    size("store.reserve_bytes", 0, 1 << 40),
    key("store.verify", Kind::Switch),
    size("memory.budget", 16 << 20, 64 << 40),
    size("memory.posting_cache", 0, 64 << 30),
    size("memory.requests", 1 << 20, 64 << 40),
    number("snapshots.every_changes", 1, 1_000_000_000_000, "changes"),
    number("snapshots.every_seconds", 1, 2_592_000, "seconds"),
    number("snapshots.keep", 2, 100, "snapshots"),
    key("profiles.file", Kind::Text),
    key("collection.profile", Kind::Text),
    number("collection.k", 0, 256, "bits"),
    key("collection.keep_text", Kind::Switch),
    number("collection.sketch_bytes", 0, 1_024, "bytes"),
    key("log.level", Kind::Text),
    key("log.format", Kind::OneOf(&["text", "json"])),
    number("log.slow_query_ms", 0, 3_600_000, "milliseconds"),
    key("traces.endpoint", Kind::Text),
    number("traces.percent", 0, 100, "percent"),
    key("shared_log.url", Kind::Formed(&SHARED_LOG)),
    key("shared_log.acknowledge", Kind::OneOf(&["stored", "local"])),
    size("shared_log.behind_bytes", 1 << 20, 1 << 40),
    size("shared_log.snapshot_bytes", 1 << 20, 1 << 40),
    number("shared_log.keep_days", 1, 3_650, "days"),
    key("replicas.server", Kind::Text),
    key("replicas.address", Kind::Text),
    key("replicas.peer_key_file", Kind::Text),
    key("replicas.peer_ca_file", Kind::Text),
    number("replicas.max_lag_ms", 100, 3_600_000, "milliseconds"),
];

const fn key(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, floor: None }
}

const fn number(path: &'static str, least: i64, most: i64, unit: &'static str) -> Key {
    key(path, Kind::Number(Range { least, most, unit: Unit::Each(unit) }))
}

const fn size(path: &'static str, least: i64, most: i64) -> Key {
    key(path, Kind::Size(Range { least, most, unit: Unit::Bytes }))
}

impl Key {
    const fn not_below(self, floor: &'static str) -> Key {
        Key { floor: Some(floor), ..self }
    }

    /// The part before the dot.
    pub(super) fn section(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(section, _)| section)
    }

    /// The part after the dot.
    pub(super) fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }
}

/// The key with these two names.
///
/// # Errors
/// [`ConfigError`] that lists the existing sections or keys.
pub(super) fn find(section: &str, name: &str, origin: &Origin) -> Result<&'static Key, ConfigError> {
    let section = find_section(section, origin)?;
    KEYS.iter().find(|key| key.section() == section && key.name() == name).ok_or_else(|| {
        let (origin, key) = (origin.clone(), name.to_owned());
        ConfigError::UnknownKey { origin, section, key, keys: names(section) }
    })
}

/// The section with this name.
///
/// # Errors
/// [`ConfigError::UnknownSection`] that lists the existing sections.
pub(super) fn find_section(name: &str, origin: &Origin) -> Result<&'static str, ConfigError> {
    sections().into_iter().find(|section| *section == name).ok_or_else(|| {
        let (origin, section) = (origin.clone(), name.to_owned());
        ConfigError::UnknownSection { origin, section, sections: sections() }
    })
}

/// The names of all sections, in order.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<_> = KEYS.iter().map(Key::section).collect();
    sections.dedup();
    sections
}

/// The names of a section's keys, in order.
pub(super) fn names(section: &str) -> Vec<&'static str> {
    KEYS.iter().filter(|key| key.section() == section).map(Key::name).collect()
}

/// Whether a variable must be a setting. Kubernetes gives every container variables such as
/// `LOOKALIKE_SERVICE_HOST` and `LOOKALIKE_PORT_8080_TCP` if the namespace has a service named `lookalike`:
/// those are ignored.
pub(super) fn concerns(variable: &str) -> bool {
    let of_kubernetes =
        |rest: &str| rest.starts_with("SERVICE_") || rest == "PORT" || rest.starts_with("PORT_");
    match variable.strip_prefix(PREFIX) {
        None => false,
        Some(rest) => !NOT_SETTINGS.contains(&variable) && (rest.contains("__") || !of_kubernetes(rest)),
    }
}

/// The section and key that a variable names, in lower case. `None` if its name has another form.
/// Lower-case letters are not accepted, because otherwise two variables could set one key.
pub(super) fn parts(variable: &str) -> Option<(String, String)> {
    let rest = variable.strip_prefix(PREFIX).filter(|rest| !rest.contains(char::is_lowercase))?;
    let (section, name) = rest.split_once("__")?;
    Some((section.to_ascii_lowercase(), name.to_ascii_lowercase()))
}
