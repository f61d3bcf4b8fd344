//! What the program does as a child of itself, where its files are those of a form.

use std::path::PathBuf;
use std::process::Command;

use forebay_harness::Result;
use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::settings::Settings;

/// How SQLite keeps a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Journal {
    Delete,
    Wal,
    /// Without the memory that processes share.
    WalExclusive,
}

impl Journal {
    pub fn name(self) -> &'static str {
        match self {
            Journal::Delete => "delete",
            Journal::Wal => "wal",
            Journal::WalExclusive => "wal-exclusive",
        }
    }
}

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Uses a file at random, and prints how many operations were clean.
    Exercise {
        /// Where the file is made.
        directory: PathBuf,
        /// How many operations.
        operations: u64,
        /// Repeats the choices.
        seed: u64,
        /// Whether the file is mapped, too.
        with_mappings: bool,
    },
    /// Does what a socket tells it, in a directory.
    Work {
        /// Under which all paths are.
        directory: PathBuf,
        /// The socket of the process that tells.
        socket: PathBuf,
        /// Connections.
        threads: usize,
    },
    /// Writes blocks to a file until no more are taken; prints how many were, and the error's number.
    Fill {
        /// The file.
        path: PathBuf,
        /// At most so many.
        count: usize,
        /// Where it says that it pauses, and is told to go on.
        pause: Option<PathBuf>,
    },
    /// Makes transactions in a database until it is killed.
    Ledger {
        /// The database.
        path: PathBuf,
        /// How it is kept.
        journal: Journal,
    },
}

impl Task {
    pub(crate) fn program(&self, settings: &Settings, place: &Place) -> Result<Command> {
        let mut program = place.program(&settings.own);
        program
            .arg("torture-task")
            .arg(serde_json::to_string(self)?);
        Ok(program)
    }
}
