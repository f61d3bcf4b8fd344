//! In place of the server where it was not compiled in: `start` fails and says so.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use super::{UblkError, UblkOptions};
use crate::block_device::BlockDevice;

/// There is none in this build.
#[derive(Debug)]
pub struct UblkServer(Infallible);

impl UblkServer {
    /// Says that this build has no ublk.
    ///
    /// # Errors
    /// Always.
    pub fn start(
        _device: Arc<dyn BlockDevice>,
        _options: &UblkOptions,
    ) -> Result<UblkServer, UblkError> {
        Err(UblkError::NotBuilt)
    }

    /// Its block device.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }

    /// The N of its `/dev/ublkbN`.
    pub fn number(&self) -> u32 {
        match self.0 {}
    }

    /// Whether it was left behind by an earlier process.
    pub fn was_taken_over(&self) -> bool {
        match self.0 {}
    }

    /// Whether the driver has released it.
    pub fn is_gone(&self) -> bool {
        match self.0 {}
    }

    /// Whether a process has it open.
    pub fn is_in_use(&self) -> bool {
        match self.0 {}
    }

    /// Removes it.
    ///
    /// # Errors
    /// The driver.
    pub fn remove(&self) -> Result<(), UblkError> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_device::MemoryDevice;

    #[test]
    fn it_says_how_to_get_it() {
        let options = UblkOptions {
            number: None,
            queues: 1,
            identity: 1,
        };
        let device = Arc::new(MemoryDevice::new(1 << 20, 4096));
        let error = UblkServer::start(device, &options).unwrap_err().to_string();
        assert!(error.contains("--features ublk"), "{error}");
    }
}
