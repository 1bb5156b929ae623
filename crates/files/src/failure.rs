//! Problems that are found before any record is read.

use lookalike_wording::counted;

/// Why files are not read, in words for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// One problem.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }

    /// Several problems that were found before any work.
    pub fn all(problems: &[String]) -> Failure {
        match problems {
            [one] => Failure::new(one.clone()),
            _ => Failure::new(format!(
                "{}, and nothing was done\n{}",
                counted(problems.len() as u64, "problem"),
                problems.join("\n")
            )),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::new(error.to_string())
    }
}
