//! Why there are no settings, in sentences that name the key, the value and the place it came from.
//!
//! Each error is at one place in one layer; `Origin` is how all of them name it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::value::Range;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    BuiltIn,
    /// The file.
    File {
        /// The path, as it was named.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The environment variable of this name.
    Variable(String),
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str("built-in default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag => f.write_str("command-line flag"),
        }
    }
}

/// A key with the value that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The key, such as `server.listen`.
    pub key: &'static str,
    /// The value as it was written, strings in quotes, without the user and password of a URL.
    pub written: String,
    /// Where it was written.
    pub origin: Origin,
}

/// The text with `***` in place of the user and password that a URL has. A password may hold any character,
/// so that everything from `://` to the last `@` of a line goes.
///
/// ```
/// let told = lookalike::config::redacted("no collector at http://user:p@ss@localhost:4318/");
/// assert_eq!(told, "no collector at http://***@localhost:4318/");
/// ```
pub fn redacted(text: &str) -> String {
    let line = |line: &str| match line.split_once("://") {
        Some((before, rest)) if rest.contains('@') => {
            let after = rest.rsplit('@').next().unwrap_or_default();
            format!("{before}://***@{after}")
        }
        _ => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is {}", self.origin, self.key, self.written)
    }
}

/// Why there are no settings. All of it is for the operator to mend; trying again does not help.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file that was named is not there, or cannot be read, or is not UTF-8.
    #[error("the settings file {} cannot be read", path.display())]
    Unreadable {
        /// The path, as it was named.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file breaks the grammar of TOML.
    #[error("{origin}: this is not TOML")]
    NotToml {
        /// The line at which reading stopped.
        origin: Origin,
        /// What was expected there.
        source: Box<toml::de::Error>,
    },
    /// A variable begins like ours and has another form. In a Kubernetes pod such variables appear by themselves
    /// when a service of the namespace is called `lookalike`: set `enableServiceLinks: false`, or rename it.
    #[error(
        "{origin}: a variable names a section and a key in capitals, as LOOKALIKE_SERVER__LISTEN does; \
         the sections are {}",
        sections.join(", ")
    )]
    VariableForm {
        /// The variable.
        origin: Origin,
        /// The sections there are.
        sections: Vec<&'static str>,
    },
    /// There is no such section.
    #[error("{origin}: there is no section {section:?}; the sections are {}", sections.join(", "))]
    UnknownSection {
        /// Where it is named.
        origin: Origin,
        /// The name.
        section: String,
        /// The sections there are.
        sections: Vec<&'static str>,
    },
    /// A value stands where the file should have a section.
    #[error("{origin}: {section} is a section and has no value; its keys are {}", keys.join(", "))]
    NotASection {
        /// Where the value stands.
        origin: Origin,
        /// The section.
        section: &'static str,
        /// The keys that it has.
        keys: Vec<&'static str>,
    },
    /// The section is there, the key is not.
    #[error("{origin}: section {section} has no key {key:?}; its keys are {}", keys.join(", "))]
    UnknownKey {
        /// Where it is named.
        origin: Origin,
        /// The section.
        section: &'static str,
        /// The name.
        key: String,
        /// The keys that it has.
        keys: Vec<&'static str>,
    },
    /// The value is of another type than the key's.
    #[error("{given}; expected {expected}")]
    WrongType {
        /// The key and its value.
        given: Given,
        /// What it should have been.
        expected: String,
    },
    /// The text says nothing.
    #[error("{given}; it must not be empty")]
    Empty {
        /// The key and its value.
        given: Given,
    },
    /// The number is too small or too large.
    #[error("{given}; it must be {range}")]
    OutOfRange {
        /// The key and its value.
        given: Given,
        /// The numbers that would do.
        range: Range,
    },
    /// Two numbers that are in range do not go together.
    #[error("{given}; it must not be less than {}, which is {} ({})", floor.key, floor.written, floor.origin)]
    BelowFloor {
        /// The key and its value.
        given: Given,
        /// The key that it must not fall below, and its value.
        floor: Box<Given>,
    },
}
