//! The log: one line for each event worth knowing. Never the program's own output.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

/// Where lines go.
pub struct Log {
    path: Option<PathBuf>,
    /// What is said once only.
    said: Mutex<Vec<&'static str>>,
}

impl Log {
    pub fn new(path: Option<PathBuf>) -> Log {
        Log {
            path: path.filter(|path| !path.as_os_str().is_empty()),
            said: Mutex::new(Vec::new()),
        }
    }

    /// Adds a line.
    pub fn line(&self, message: &str) {
        let Some(path) = &self.path else {
            return;
        };
        let line = format!("forebay[{}]: {message}\n", std::process::id());
        // A log that cannot be written is no reason to disturb the program.
        let _ = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes()));
    }

    /// Adds a line the first time it is called with this topic.
    pub fn once(&self, topic: &'static str, message: &str) {
        // Another thread is writing a message; a second one at that moment may be dropped.
        let Ok(mut said) = self.said.try_lock() else {
            return;
        };
        if !said.contains(&topic) {
            said.push(topic);
            drop(said);
            self.line(message);
        }
    }
}
