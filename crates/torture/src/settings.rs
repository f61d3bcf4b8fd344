//! What every part needs to know.

use std::path::PathBuf;

use forebay_harness::PoolMedium;

use crate::form::Form;

#[derive(Clone, Debug)]
pub struct Settings {
    pub forebay: PathBuf,
    pub own: PathBuf,
    pub disk: PathBuf,
    pub medium: PoolMedium,
    /// Repeats the choices; what the machine does meanwhile is its own.
    pub seed: u64,
    pub fsx_operations: u64,
    /// Rounds that end in a kill, in all.
    pub kill_rounds: u64,
    /// The same of databases, for each journal in each form.
    pub database_rounds: u64,
    /// What is tested; plain is for testing the test.
    pub forms: Vec<Form>,
    /// Where a round that failed leaves pool and files, as they were after the kill.
    pub keep: Option<PathBuf>,
    pub tools: Vec<PathBuf>,
}

impl Settings {
    pub fn tool(&self, name: &str) -> Option<PathBuf> {
        let mut places = self.tools.iter().map(|folder| folder.join(name));
        places.find(|path| path.is_file())
    }
}
