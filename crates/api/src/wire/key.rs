//! The key of a request on the wire.

use serde::Serialize;
use utoipa::ToSchema;

use lookalike_keys::{Key, Role, Scope};

/// What the key of a request may do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyOut {
    /// Whether the server requires keys. If not, every request may do everything.
    required: bool,
    /// The name of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// What it may do.
    role: RoleOut,
    /// The collections that the key is limited to; absent if there is no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    collections: Option<Vec<String>>,
}

/// What a key may do; each role includes the ones before it.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Role)]
pub(super) enum RoleOut {
    /// Look up, compare, fingerprint, read documents and statistics.
    Read,
    /// Store and delete documents.
    Write,
    /// Make, change, delete, back up and calibrate collections.
    Admin,
}

impl KeyOut {
    /// What this key may do, or every request without keys.
    pub fn new(key: Option<&Key>) -> KeyOut {
        let Some(key) = key else {
            return KeyOut { required: false, name: None, role: RoleOut::Admin, collections: None };
        };
        let role = match key.role {
            Role::Read => RoleOut::Read,
            Role::Write => RoleOut::Write,
            Role::Admin => RoleOut::Admin,
        };
        let collections = match &key.scope {
            Scope::All => None,
            Scope::Named(names) => Some(names.iter().map(ToString::to_string).collect()),
        };
        KeyOut { required: true, name: Some(key.name.clone()), role, collections }
    }
}
