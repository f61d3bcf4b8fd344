//! A disk that lies: it answers writes before it has done them.
//!
//! What a volatile cache without power-loss protection does. Power cuts of it have to lose what was
//! acknowledged, or the search for losses is blind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_serve::{BlockDevice, DeviceError};
use parking_lot::{Condvar, Mutex};

/// How long a write is put off.
const DELAY: Duration = Duration::from_millis(30);

/// See the [module](self).
pub struct EarlyDevice {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

struct Shared {
    inner: Arc<dyn BlockDevice>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// Writes are put off until this is over.
    is_held: bool,
    is_ending: bool,
}

impl EarlyDevice {
    /// Lies about `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>) -> EarlyDevice {
        let shared = Arc::new(Shared {
            inner,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let worker = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.work()
        });
        EarlyDevice {
            shared,
            worker: Some(worker),
        }
    }

    /// From here on nothing is written, or what waits is.
    pub fn hold(&self, is_held: bool) {
        self.shared.state.lock().is_held = is_held;
        self.shared.changed.notify_one();
    }

    fn inner(&self) -> &dyn BlockDevice {
        &*self.shared.inner
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            while (state.waiting.is_empty() || state.is_held) && !state.is_ending {
                self.changed.wait(&mut state);
            }
            if state.waiting.is_empty() {
                return;
            }
            drop(state);
            std::thread::sleep(DELAY);
            // Nothing reads or writes meanwhile. An error can no longer be reported.
            let mut state = self.state.lock();
            if !state.is_held || state.is_ending {
                let _ = self.do_what_waits(&mut state);
            }
        }
    }

    /// Does what was put off.
    fn do_what_waits(&self, state: &mut State) -> Result<(), DeviceError> {
        while let Some((offset, data)) = state.waiting.pop_front() {
            self.inner.write_at(offset, &data)?;
        }
        Ok(())
    }
}

impl State {
    /// Puts what waits over what was read at `offset`.
    fn cover(&self, offset: u64, buffer: &mut [u8]) {
        let end = offset + buffer.len() as u64;
        for (at, data) in &self.waiting {
            let (from, to) = (offset.max(*at), end.min(at + data.len() as u64));
            if from < to {
                let bytes = &data[(from - at) as usize..(to - at) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(bytes);
            }
        }
    }
}

impl BlockDevice for EarlyDevice {
    fn size_bytes(&self) -> u64 {
        self.inner().size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.inner().block_size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let state = self.shared.state.lock();
        self.inner().read_at(offset, buffer)?;
        state.cover(offset, buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_range(offset, data.len() as u64)?;
        let mut state = self.shared.state.lock();
        state.waiting.push_back((offset, data.to_vec()));
        self.shared.changed.notify_one();
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let mut state = self.shared.state.lock();
        self.shared.do_what_waits(&mut state)?;
        self.inner().write_zeroes(offset, length)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.write_zeroes(offset, length)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Drop for EarlyDevice {
    fn drop(&mut self) {
        self.shared.state.lock().is_ending = true;
        self.shared.changed.notify_one();
        if let Some(worker) = self.worker.take() {
            // A worker that panicked has said so.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_serve::MemoryDevice;

    fn device() -> (Arc<MemoryDevice>, EarlyDevice) {
        let inner = Arc::new(MemoryDevice::new(8192, 4096));
        (inner.clone(), EarlyDevice::new(inner))
    }

    #[test]
    fn writes_are_seen_at_once_and_done_later() {
        let (inner, early) = device();
        early.write_at(0, &[1; 512]).unwrap();
        early.write_at(256, &[2; 512]).unwrap();
        let mut seen = [0; 512];
        early.read_at(128, &mut seen).unwrap();
        assert_eq!((seen[0], seen[127], seen[128], seen[511]), (1, 1, 2, 2));
        drop(early);
        inner.read_at(128, &mut seen).unwrap();
        assert_eq!((seen[0], seen[127], seen[128], seen[511]), (1, 1, 2, 2));
    }

    #[test]
    fn held_writes_are_not_done() {
        let (inner, early) = device();
        early.hold(true);
        early.write_at(0, &[1; 512]).unwrap();
        std::thread::sleep(DELAY * 2);
        let mut seen = [7; 512];
        inner.read_at(0, &mut seen).unwrap();
        assert_eq!(seen, [0; 512]);
        early.hold(false);
        drop(early);
        inner.read_at(0, &mut seen).unwrap();
        assert_eq!(seen, [1; 512]);
    }
}
