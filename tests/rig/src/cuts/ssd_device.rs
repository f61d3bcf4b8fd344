//! The disk of a pool on an SSD, as its log has it: a shadow device whose writes take their time. So commits of
//! several threads share a group, as they do on a disk, and the power fails in the midst of writes as well as between
//! them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_log::shadow::ShadowDevice;
use forebay_log::{Device, DeviceCounters};

/// What a durable write takes.
const WRITE_TIME: Duration = Duration::from_micros(500);

/// See the [module](self).
pub struct SsdDevice {
    shadow: Arc<ShadowDevice>,
    ignores_flushes: AtomicBool,
}

impl SsdDevice {
    /// Over `shadow`.
    pub fn new(shadow: Arc<ShadowDevice>) -> SsdDevice {
        SsdDevice {
            shadow,
            ignores_flushes: AtomicBool::new(false),
        }
    }

    /// From here on it lies: it says of writes that they are durable, and of flushes that they were done, and has
    /// everything in a cache that a power cut may take.
    pub fn ignore_flushes(&self) {
        self.ignores_flushes.store(true, Ordering::Release);
    }

    fn is_lying(&self) -> bool {
        self.ignores_flushes.load(Ordering::Acquire)
    }
}

impl Device for SsdDevice {
    fn path(&self) -> &Path {
        self.shadow.path()
    }

    fn pages(&self) -> u64 {
        self.shadow.pages()
    }

    fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        self.shadow.read(page, out)
    }

    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        let id = self.shadow.submit(page, parts, !self.is_lying());
        std::thread::sleep(WRITE_TIME);
        self.shadow.complete(id);
        Ok(())
    }

    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.shadow.write(page, parts)
    }

    fn flush(&self) -> io::Result<()> {
        match self.is_lying() {
            true => Ok(()),
            false => self.shadow.flush(),
        }
    }

    fn counters(&self) -> DeviceCounters {
        self.shadow.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_log::PAGE_BYTES;
    use forebay_log::shadow::{Image, ShadowState};

    fn device() -> (Arc<ShadowDevice>, SsdDevice) {
        let shadow = Arc::new(ShadowDevice::new(ShadowState::new(Image::zeroed(4), 4096)));
        (shadow.clone(), SsdDevice::new(shadow))
    }

    #[test]
    fn what_is_written_durably_is_undecided_only_while_it_is_under_way() {
        let (shadow, device) = device();
        device.write_durable(1, &[&[1; PAGE_BYTES]]).unwrap();
        assert!(!shadow.state().has_pending());
    }

    #[test]
    fn one_that_ignores_flushes_may_lose_everything_since() {
        let (shadow, device) = device();
        device.write_durable(0, &[&[1; PAGE_BYTES]]).unwrap();
        device.ignore_flushes();
        device.write_durable(1, &[&[2; 2 * PAGE_BYTES]]).unwrap();
        device.flush().unwrap();
        assert_eq!(shadow.state().pending_units(), 2);
        let mut bytes = [0; PAGE_BYTES];
        device.read(2, &mut bytes).unwrap();
        assert_eq!(bytes, [2; PAGE_BYTES]);
    }
}
