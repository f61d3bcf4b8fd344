//! Files that vanish with the command that made them, also when it fails or a person calls it off.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_command::{Failure, output};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Names of files, whether they are there yet or not.
pub struct TemporaryFiles {
    paths: Arc<Vec<PathBuf>>,
    signals: Handle,
}

impl TemporaryFiles {
    /// Takes them into keeping; a signal that ends the process removes them from now on.
    ///
    /// # Errors
    /// Signals cannot be heard, or no thread can be had.
    pub fn new(paths: Vec<PathBuf>) -> Result<TemporaryFiles, Failure> {
        let paths = Arc::new(paths);
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let kept = TemporaryFiles {
            paths: Arc::clone(&paths),
            signals: signals.handle(),
        };
        let listener = std::thread::Builder::new().name("signals".into());
        listener.spawn(move || {
            if signals.forever().next().is_none() {
                return;
            }
            remove(&paths);
            let failure = Failure::Cancelled(String::from("called off; its files are removed"));
            let code = failure.exit_code();
            output::error(&failure.to_string());
            std::process::exit(code.into());
        })?;
        Ok(kept)
    }
}

impl Drop for TemporaryFiles {
    fn drop(&mut self) {
        self.signals.close();
        remove(&self.paths);
    }
}

fn remove(paths: &[PathBuf]) {
    for path in paths {
        let _ = std::fs::remove_file(path);
    }
}
