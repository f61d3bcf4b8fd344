//! Which files are open, and which volumes nobody has.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Which volumes are in use, and which paths.
#[derive(Debug, Default)]
pub(super) struct Opened(pub(super) Mutex<Volumes>);

#[derive(Debug, Default)]
pub(super) struct Volumes {
    pub(super) unused: BTreeSet<u32>,
    pub(super) paths: BTreeSet<PathBuf>,
    /// What recovery kept of files that are not open.
    pub(super) kept: HashMap<PathBuf, u32>,
}

impl Opened {
    /// Looks at them, or changes them, alone.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Volumes) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A volume may be used again.
    pub(super) fn closed(&self, volume: u32, path: &Path) {
        self.with(|volumes| {
            volumes.unused.insert(volume);
            volumes.paths.remove(path);
        });
    }
}
