//! What the program does as a child of itself, where its files are those of a form.

use std::path::PathBuf;
use std::process::Command;

use forebay_harness::Result;
use serde::{Deserialize, Serialize};

use crate::database::{Journal, run_ledger};
use crate::place::Place;
use crate::settings::Settings;
use crate::{bad_days, exercise, kill};

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

impl std::str::FromStr for Task {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> serde_json::Result<Task> {
        serde_json::from_str(text)
    }
}

impl Task {
    /// Does it.
    ///
    /// # Errors
    /// A call fails, or something else than what was written is found.
    pub fn run(self) -> Result<()> {
        match self {
            Task::Exercise {
                directory,
                operations,
                seed,
                with_mappings,
            } => {
                let done = exercise::run(&directory, operations, seed, with_mappings)?;
                println!("{done}");
                Ok(())
            }
            Task::Work {
                directory,
                socket,
                threads,
            } => kill::worker::run(&directory, &socket, threads),
            Task::Fill { path, count, pause } => {
                bad_days::blocks::run(&path, count, pause.as_deref())
            }
            Task::Ledger { path, journal } => run_ledger(&path, journal),
        }
    }

    pub(crate) fn program(&self, settings: &Settings, place: &Place) -> Result<Command> {
        let mut program = place.program(&settings.own);
        program
            .arg("torture-task")
            .arg(serde_json::to_string(self)?);
        Ok(program)
    }
}
