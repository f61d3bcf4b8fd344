//! Loop devices of this machine, taken away when they are dropped.

use std::path::Path;
use std::process::Command;

use crate::Result;

/// Runs a program that has to succeed.
///
/// # Errors
/// It fails; with what it said.
pub fn must(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
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
