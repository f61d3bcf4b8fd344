//! Names: the file moves, is linked, replaced, and removed while it is open.

use std::fs::File;
use std::io::Write;

use super::exercised::{Exercise, OPERATION_BYTES_MAX};
use forebay_harness::Result;

impl Exercise {
    pub(super) fn rename(&mut self) -> Result<bool> {
        let name = ["exercised", "renamed", "renamed-again"][self.rng.usize(..3)];
        let to = self.directory.join(name);
        std::fs::rename(&self.path, &to)?;
        self.path = to;
        Ok(true)
    }

    pub(super) fn link_and_unlink(&mut self) -> Result<bool> {
        let link = self.directory.join("linked");
        std::fs::hard_link(&self.path, &link)?;
        let found = std::fs::metadata(&link)?.len();
        self.expect_size("stat of the link", found)?;
        match self.rng.bool() {
            true => std::fs::remove_file(&link)?,
            false => {
                std::fs::remove_file(&self.path)?;
                self.path = link;
                self.rename()?;
            }
        }
        Ok(true)
    }

    /// As editors save: a new file, synced, takes the name.
    pub(super) fn replace(&mut self) -> Result<bool> {
        let len = self.rng.usize(..OPERATION_BYTES_MAX);
        let bytes = self.draw_bytes(len);
        let fresh = self.directory.join("fresh");
        let mut file = File::create(&fresh)?;
        file.write_all(&bytes)?;
        if self.rng.bool() {
            file.sync_all()?;
        }
        std::fs::rename(&fresh, &self.path)?;
        // Processes that have the old one open still see it whole.
        self.compare_all()?;
        self.contents = bytes;
        self.open_again()
    }

    pub(super) fn unlink_while_open(&mut self) -> Result<bool> {
        std::fs::remove_file(&self.path)?;
        self.compare_all()?;
        self.write_at()?;
        self.sync_data()?;
        self.compare_all()?;
        self.contents.clear();
        File::create(&self.path)?;
        self.open_again()
    }
}
