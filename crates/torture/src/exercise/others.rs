//! The file in other hands: mapped, or used by another program.

use std::io::Seek;
use std::process::{Command, Stdio};

use memmap2::MmapOptions;

use super::exercised::{Exercise, FILE_BYTES_MAX};
use forebay_harness::Result;

impl Exercise {
    pub(super) fn read_by_other(&mut self) -> Result<bool> {
        let found = Command::new("cat").arg(&self.path).output()?;
        self.expect_output(&found)
    }

    /// A child that inherits the descriptor.
    pub(super) fn read_by_child(&mut self) -> Result<bool> {
        let mut file = self.readable()?;
        file.rewind()?;
        let input = Stdio::from(file.try_clone()?);
        let found = Command::new("cat").stdin(input).output()?;
        self.expect_output(&found)
    }

    fn expect_output(&self, found: &std::process::Output) -> Result<bool> {
        if !found.status.success() {
            let said = String::from_utf8_lossy(&found.stderr);
            return Err(format!("{}: {said}", found.status).into());
        }
        self.expect_size("the other program", found.stdout.len() as u64)?;
        self.expect(0, &found.stdout)?;
        Ok(true)
    }

    pub(super) fn append_by_child(&mut self) -> Result<bool> {
        let line = b"appended by a child\n";
        if self.contents.len() + line.len() > FILE_BYTES_MAX {
            return Ok(true);
        }
        let mut file = self.writable()?;
        file.seek(std::io::SeekFrom::End(0))?;
        let output = Stdio::from(file.try_clone()?);
        let status = Command::new("echo")
            .arg("appended by a child")
            .stdout(output)
            .status()?;
        if !status.success() {
            return Err(format!("echo: {status}").into());
        }
        self.apply(self.contents.len(), line);
        Ok(true)
    }

    pub(super) fn read_mapped(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let len = len.min(self.contents.len().saturating_sub(offset));
        if len == 0 {
            return Ok(true);
        }
        let mut options = MmapOptions::new();
        options.offset(offset as u64).len(len);
        let file = self.readable()?;
        // SAFETY: nothing else changes the file's size or content while it is mapped here.
        #[allow(unsafe_code)]
        let map = unsafe { options.map(file)? };
        self.expect(offset, &map)?;
        Ok(true)
    }

    pub(super) fn write_mapped(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let len = len.min(self.contents.len().saturating_sub(offset));
        if len == 0 {
            return Ok(true);
        }
        let bytes = self.draw_bytes(len);
        let is_synced = self.rng.bool();
        let mut options = MmapOptions::new();
        options.offset(offset as u64).len(len);
        let file = self.writable()?;
        // SAFETY: nothing else uses the file or changes its size while it is mapped here.
        #[allow(unsafe_code)]
        let mut map = unsafe { options.map_mut(file)? };
        map.copy_from_slice(&bytes);
        if is_synced {
            map.flush()?;
        }
        drop(map);
        self.apply(offset, &bytes);
        Ok(true)
    }
}
