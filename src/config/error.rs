//! Errors of settings: sentences that name the key, the value and the place where it was written.
//!
//! Each error has one place in one layer, which is an [`Origin`].

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::value::Range;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No layer sets it.
    BuiltIn,
    /// The file.
    File {
        /// The path, as it was given.
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

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The key, such as `server.listen`.
    pub key: &'static str,
    /// The value as it was written, strings in quotes, without the user and password of a URL.
    pub written: String,
    /// Where it was written.
    pub origin: Origin,
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is {}", self.origin, self.key, self.written)
    }
}

/// Why there are no settings. The operator has to correct each of these; trying again does not help.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The given file does not exist, cannot be read, or is not UTF-8.
    #[error("the settings file {} cannot be read", path.display())]
    Unreadable {
        /// The path, as it was given.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not valid TOML.
    #[error("{origin}: this is not TOML: {what}; config/default.toml shows the form")]
    NotToml {
        /// The line where parsing stopped.
        origin: Origin,
        /// The reason.
        what: String,
    },
    /// A variable has our prefix and another form. In a Kubernetes pod such variables exist if the
    /// namespace has a service named `lookalike`: set `enableServiceLinks: false`, or rename the service.
    #[error(
        "{origin}: a variable names a section and a key in capitals, as LOOKALIKE_SERVER__LISTEN does; \
         the sections are {}",
        sections.join(", ")
    )]
    VariableForm {
        /// The variable.
        origin: Origin,
        /// The existing sections.
        sections: Vec<&'static str>,
    },
    /// The value of a variable is not UTF-8.
    #[error("{origin}: the value is not UTF-8; write it as UTF-8, or name a path that is")]
    NotUtf8 {
        /// The variable.
        origin: Origin,
    },
    /// The section does not exist.
    #[error("{origin}: there is no section {section:?}; the sections are {}", sections.join(", "))]
    UnknownSection {
        /// Where it is named.
        origin: Origin,
        /// The name.
        section: String,
        /// The existing sections.
        sections: Vec<&'static str>,
    },
    /// The file has a value in the place of a section.
    #[error("{origin}: {section} is a section and has no value; its keys are {}", keys.join(", "))]
    NotASection {
        /// Where the value is.
        origin: Origin,
        /// The section.
        section: &'static str,
        /// The keys of the section.
        keys: Vec<&'static str>,
    },
    /// The section exists, but the key does not.
    #[error("{origin}: section {section} has no key {key:?}; its keys are {}", keys.join(", "))]
    UnknownKey {
        /// Where it is named.
        origin: Origin,
        /// The section.
        section: &'static str,
        /// The name.
        key: String,
        /// The keys of the section.
        keys: Vec<&'static str>,
    },
    /// The value has another type than the key.
    #[error("{given}; expected {expected}")]
    WrongType {
        /// The key and its value.
        given: Given,
        /// The expected kind of value.
        expected: String,
    },
    /// The text is blank.
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
        /// The valid numbers.
        range: Range,
    },
    /// Two numbers are in range but contradict each other.
    #[error("{given}; it must not be less than {}, which is {} ({})", floor.key, floor.written, floor.origin)]
    BelowFloor {
        /// The key and its value.
        given: Given,
        /// The key that is its lower bound, and its value.
        floor: Box<Given>,
    },
}
