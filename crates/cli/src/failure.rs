//! How a command fails: a message for a person and an exit code for a script.

use std::fmt;
use std::io;

/// Why a command did not do what it was asked. Exit code 2 is clap's: the arguments make no sense.
#[derive(Debug)]
pub enum Failure {
    /// Something failed on the way: exit code 1.
    Failed(String),
    /// The pool or its data is damaged, foreign or incomplete: exit code 3.
    Damaged(String),
    /// Another process owns the pool: exit code 4.
    InUse(String),
    /// No daemon serves the pool: exit code 5.
    NotServed(String),
}

impl Failure {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Damaged(_) => 3,
            Failure::InUse(_) => 4,
            Failure::NotServed(_) => 5,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Failed(message)
        | Failure::Damaged(message)
        | Failure::InUse(message)
        | Failure::NotServed(message)) = self;
        formatter.write_str(message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<forebay::Error> for Failure {
    fn from(error: forebay::Error) -> Self {
        use forebay::Error;
        let message = error.to_string();
        match error {
            Error::Media(error) if error.kind() == forebay_pmem::PmemErrorKind::Locked => {
                Failure::InUse(format!(
                    "{message}; forebay stat and forebay flush ask the daemon that owns the pool"
                ))
            }
            Error::Refused { .. } | Error::Damaged { .. } | Error::Corrupt { .. } => {
                Failure::Damaged(message)
            }
            _ => Failure::Failed(message),
        }
    }
}

impl From<forebay::BackingError> for Failure {
    fn from(error: forebay::BackingError) -> Self {
        Failure::Failed(error.to_string())
    }
}
