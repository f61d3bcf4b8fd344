//! What every part needs to know.

use std::path::PathBuf;

use crate::place::Form;

/// Where things are and how much is done.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The command to test.
    pub forebay: PathBuf,
    /// This program.
    pub own: PathBuf,
    /// Under which the files are made.
    pub disk: PathBuf,
    /// Repeats the choices; what the machine does meanwhile is its own.
    pub seed: u64,
    /// Operations of the exerciser in each form.
    pub fsx_operations: u64,
    /// Rounds that end in a kill, in all.
    pub kill_rounds: u64,
    /// The same of databases, for each journal in each form.
    pub database_rounds: u64,
    /// What is tested; plain is for testing the test.
    pub forms: Vec<Form>,
    /// Where a round that failed leaves pool and files, as they were after the kill.
    pub keep: Option<PathBuf>,
    /// Where test programs are that are not ours.
    pub tools: Vec<PathBuf>,
}

impl Settings {
    /// One of those programs, if it is installed.
    pub fn tool(&self, name: &str) -> Option<PathBuf> {
        let mut places = self.tools.iter().map(|folder| folder.join(name));
        places.find(|path| path.is_file())
    }
}
