//! How a command fails: a message for a person and an exit code for a script.

use std::fmt;
use std::io;

use forebay_serve::{ClientError, RefusalKind};

/// Every exit code and what it says; `--help`, the man pages and `docs/using/operating.md` repeat it.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "done"),
    (1, "failed"),
    (2, "wrong arguments, or a wrong config file"),
    (3, "the pool or its data is damaged or foreign"),
    (
        4,
        "in use: another process owns the pool, or the disk is in use",
    ),
    (5, "no daemon serves the pool"),
    (
        6,
        "the daemon ended before its disks were out of use; nothing acknowledged is lost",
    ),
    (7, "called off with Ctrl-C; the daemon is as it was"),
    (
        8,
        "the disk or directory is stale, or the pool is: the newest data is elsewhere",
    ),
    (
        9,
        "a member of the mirrored pool is out, or its witness is not there",
    ),
];

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// Something failed on the way: exit code 1.
    Failed(String),
    /// The arguments or the config file make no sense: exit code 2, as clap's own.
    Arguments(String),
    /// The pool or its data is damaged, foreign or incomplete: exit code 3.
    Damaged(String),
    /// Another process owns the pool, or the disk is in use: exit code 4.
    InUse(String),
    /// No daemon serves the pool: exit code 5.
    NotServed(String),
    /// The daemon was made to end while its disks were in use: exit code 6.
    Forced(String),
    /// The person called it off: exit code 7.
    Cancelled(String),
    /// The newest data is in another pool, or the pool or the backing is an old copy: exit code 8.
    Stale(String),
    /// A member of the mirrored pool is out: exit code 9.
    Degraded(String),
}

impl Failure {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Arguments(_) => 2,
            Failure::Damaged(_) => 3,
            Failure::InUse(_) => 4,
            Failure::NotServed(_) => 5,
            Failure::Forced(_) => 6,
            Failure::Cancelled(_) => 7,
            Failure::Stale(_) => 8,
            Failure::Degraded(_) => 9,
        }
    }
}

impl Failure {
    /// What the durable file buffer or its mount says.
    pub fn of_files(error: io::Error) -> Failure {
        let error = match error.downcast::<forebay::Error>() {
            Ok(of_the_pool) => return of_the_pool.into(),
            Err(error) => error,
        };
        let message = error.to_string();
        match error.kind() {
            io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => Failure::InUse(message),
            io::ErrorKind::InvalidInput | io::ErrorKind::AlreadyExists => {
                Failure::Arguments(message)
            }
            io::ErrorKind::InvalidData => Failure::Damaged(message),
            _ => Failure::Failed(message),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Failed(message)
        | Failure::Arguments(message)
        | Failure::Damaged(message)
        | Failure::InUse(message)
        | Failure::NotServed(message)
        | Failure::Forced(message)
        | Failure::Cancelled(message)
        | Failure::Stale(message)
        | Failure::Degraded(message)) = self;
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
        use forebay::ErrorKind;
        let message = error.to_string();
        match error.kind() {
            ErrorKind::Media(error) if error.kind() == forebay_pmem::PmemErrorKind::Locked => {
                Failure::InUse(format!(
                    "{message}; forebay stat and forebay flush ask the daemon that owns the pool"
                ))
            }
            ErrorKind::Media(error)
                if matches!(error.kind(), forebay_pmem::PmemErrorKind::Foreign(_)) =>
            {
                Failure::Damaged(message)
            }
            ErrorKind::Refused { .. } | ErrorKind::Damaged { .. } | ErrorKind::Corrupt { .. } => {
                Failure::Damaged(message)
            }
            ErrorKind::InUse { .. } => Failure::InUse(message),
            ErrorKind::Cancelled { .. } => Failure::Cancelled(message),
            ErrorKind::Stale { .. } => Failure::Stale(message),
            ErrorKind::Options(_) => Failure::Arguments(message),
            _ => Failure::Failed(message),
        }
    }
}

impl From<forebay::BackingError> for Failure {
    fn from(error: forebay::BackingError) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Refused(refusal) => match refusal.kind {
                RefusalKind::InUse => Failure::InUse(message),
                RefusalKind::Cancelled => Failure::Cancelled(message),
                RefusalKind::Invalid => Failure::Arguments(message),
                RefusalKind::Stale => Failure::Stale(message),
                _ => Failure::Failed(message),
            },
            ClientError::Connection { .. } => Failure::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_documented_code() {
        let page = include_str!("../../../docs/using/operating.md");
        for (code, meaning) in EXIT_CODES {
            assert!(
                page.contains(&format!("| {code} | {meaning} |")),
                "docs/using/operating.md lacks the row of exit code {code}: {meaning}"
            );
        }
        let failures = [
            Failure::Failed,
            Failure::Arguments,
            Failure::Damaged,
            Failure::InUse,
            Failure::NotServed,
            Failure::Forced,
            Failure::Cancelled,
            Failure::Stale,
            Failure::Degraded,
        ];
        for (failure, (code, _)) in failures.iter().zip(&EXIT_CODES[1..]) {
            assert_eq!(failure(String::new()).exit_code(), *code);
        }
    }
}
