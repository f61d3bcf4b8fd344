//! Programs of the system, and loop devices, which are taken away when they are dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// A program of the system, also where only administrators look.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(usual);
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

/// Runs a short program of the system that has to succeed, to its end even after a signal; what it printed.
///
/// # Errors
/// It is not there, or fails; with what it said.
pub fn must(program: &str, arguments: &[&str]) -> Result<String> {
    let path = find_program(program).ok_or_else(|| format!("no {program} here"))?;
    let output = Command::new(path).args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {arguments:?}: {}: {said}", output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A loop device.
#[derive(Debug)]
pub struct LoopDevice(String);

impl LoopDevice {
    /// Over a file, past its page cache or not.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn over(file: &Path, is_direct: bool) -> Result<LoopDevice> {
        let direct = if is_direct { "on" } else { "off" };
        let direct = format!("--direct-io={direct}");
        let file = file.to_string_lossy();
        must("losetup", &["--find", "--show", &direct, &file]).map(LoopDevice)
    }

    /// The block device.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.0
    }

    /// Takes it away; once is enough.
    pub fn detach(&mut self) {
        let device = std::mem::take(&mut self.0);
        if !device.is_empty() {
            // What fails here is gone already.
            let _ = must("losetup", &["--detach", &device]);
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        self.detach();
    }
}
