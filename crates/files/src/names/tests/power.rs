//! The machine's power, which fails the tree and the log's area at once.

use std::io;
use std::sync::{Arc, Mutex};

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

/// The log's area, whose power fails with the tree's.
pub(crate) struct PoweredArea {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) power: Arc<Power>,
}

impl LogArea for PoweredArea {
    fn len_bytes(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..out.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.power.step()?;
        self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn zero(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        // From the end, so that a header may stay before records that are gone.
        for start in [offset + len_bytes / 2, offset] {
            self.power.step()?;
            let len = (len_bytes / 2) as usize;
            self.bytes.lock().unwrap()[start as usize..][..len].fill(0);
        }
        Ok(())
    }
}
