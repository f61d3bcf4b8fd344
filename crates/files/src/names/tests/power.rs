//! The machine's power, which fails the tree and the log's area at once.

use std::io;
use std::sync::{Arc, Mutex};

use crate::metadata::Durable;
use crate::names::log::LogArea;

/// Fails everything after so many steps.
#[derive(Default)]
pub(crate) struct Power(Mutex<Option<u64>>);

impl Power {
    pub(crate) fn last(&self, steps: Option<u64>) {
        *self.0.lock().unwrap() = steps;
    }

    pub(crate) fn is_off(&self) -> bool {
        *self.0.lock().unwrap() == Some(0)
    }

    pub(super) fn step(&self) -> io::Result<()> {
        match &mut *self.0.lock().unwrap() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                match *left {
                    0 => Err(io::Error::other("the power goes off")),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// The log's area, whose power fails with the tree's. Over a pool on an SSD it may lose the newest of what was not synced.
pub(crate) struct PoweredArea {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) power: Arc<Power>,
    /// Where something was written that is not durable, and what was there before, oldest first.
    unsynced: Mutex<Vec<(usize, Vec<u8>)>>,
}

impl PoweredArea {
    pub(crate) fn new(len: usize, power: Arc<Power>) -> PoweredArea {
        PoweredArea {
            bytes: Mutex::new(vec![0; len]),
            power,
            unsynced: Mutex::default(),
        }
    }

    /// Whether all that was written is durable.
    pub(super) fn is_synced(&self) -> bool {
        self.unsynced.lock().unwrap().is_empty()
    }

    /// The SSD loses its power: what was not synced is kept up to some write.
    pub(super) fn cut(&self, roll: u16) {
        let mut unsynced = self.unsynced.lock().unwrap();
        let kept = usize::from(roll) % (unsynced.len() + 1);
        for (at, before) in unsynced.drain(..).skip(kept).rev() {
            self.bytes.lock().unwrap()[at..][..before.len()].copy_from_slice(&before);
        }
    }

    fn put(&self, offset: u64, bytes: &[u8], durable: Durable) {
        let at = offset as usize;
        let mut area = self.bytes.lock().unwrap();
        let before = area[at..][..bytes.len()].to_vec();
        area[at..][..bytes.len()].copy_from_slice(bytes);
        let mut unsynced = self.unsynced.lock().unwrap();
        match durable {
            Durable::AtOnce => unsynced.clear(),
            Durable::AfterSync => unsynced.push((at, before)),
        }
    }
}

impl LogArea for PoweredArea {
    fn len_bytes(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..out.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8], durable: Durable) -> io::Result<()> {
        self.power.step()?;
        self.put(offset, bytes, durable);
        Ok(())
    }

    fn zero(&self, offset: u64, len_bytes: u64, durable: Durable) -> io::Result<()> {
        // From the end, so that a header may stay before records that are gone.
        for start in [offset + len_bytes / 2, offset] {
            self.power.step()?;
            self.put(start, &vec![0; (len_bytes / 2) as usize], durable);
        }
        Ok(())
    }
}
