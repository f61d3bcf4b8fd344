//! Reading: what the log has from the SSD, the rest from the backing, and both only if nothing has changed meanwhile.

use forebay_log::{Found, Log, LogError, PAGE_BYTES, Reading};

use super::volume::SsdVolume;
use crate::error::Result;

/// Blocks that one request to the backing brings.
const MISSING_RUN_BLOCKS_MAX: usize = 256;
/// Reads of several blocks at one moment, before other threads get a turn in between.
const ATTEMPTS: u32 = 64;

impl SsdVolume {
    pub(crate) fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.check_blocks(block, out.len())?;
        let (_entered, log) = self.enter()?;
        let count = out.len() / PAGE_BYTES;
        let readings = log.begin_reads(self.number(), block, count as u64);
        let mut at = 0;
        while at < count {
            let is_missing = |reading: &&Reading| reading.found() == Found::Backing;
            let run = readings[at..].iter().take_while(is_missing).count();
            let run = run.min(MISSING_RUN_BLOCKS_MAX);
            let blocks = run.max(1);
            let bytes = &mut out[at * PAGE_BYTES..][..blocks * PAGE_BYTES];
            match run {
                0 => self.read_begun(&log, &readings[at], bytes)?,
                _ => self.read_missing(&log, &readings[at..at + run], bytes)?,
            }
            at += blocks;
        }
        Ok(())
    }

    pub(crate) fn read_atomic(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.check_blocks(block, out.len())?;
        let (_entered, log) = self.enter()?;
        let count = (out.len() / PAGE_BYTES) as u64;
        for attempt in 1u32.. {
            // Both looks are under the log's lock, under which a group is published as a whole.
            let readings = log.begin_reads(self.number(), block, count);
            let mut is_read = true;
            for (reading, bytes) in readings.iter().zip(out.chunks_exact_mut(PAGE_BYTES)) {
                is_read &= self.read_once(&log, reading, bytes)?;
            }
            if is_read && log.are_current(&readings) {
                return Ok(());
            }
            if attempt.is_multiple_of(ATTEMPTS) {
                std::thread::yield_now();
            }
        }
        unreachable!("it returns before the counter wraps")
    }

    /// One block, by a reading that was begun, or by others after it.
    fn read_begun(&self, log: &Log, reading: &Reading, out: &mut [u8]) -> Result<()> {
        if self.read_once(log, reading, out)? {
            return Ok(());
        }
        self.read_again(log, reading.block(), out)
    }

    fn read_again(&self, log: &Log, block: u64, out: &mut [u8]) -> Result<()> {
        loop {
            let reading = log.begin_read(self.number(), block);
            if self.read_once(log, &reading, out)? {
                return Ok(());
            }
        }
    }

    /// Reads from where the block was; false if it has changed meanwhile.
    fn read_once(&self, log: &Log, reading: &Reading, out: &mut [u8]) -> Result<bool> {
        if reading.found() == Found::Backing {
            self.read_backing(reading.block(), out)?;
            let is_current = log.are_current(std::slice::from_ref(reading));
            if is_current {
                self.note_miss(reading, out);
            }
            return Ok(is_current);
        }
        match log.finish_read(reading, out) {
            Ok(found) => {
                self.tallies().mine().read_hits(u64::from(found.is_some()));
                Ok(found.is_some())
            }
            // Its copy is bad, or the device does not give it, and the backing has the same.
            Err(LogError::Corrupt { .. } | LogError::Device { .. }) if reading.is_clean() => {
                self.read_backing(reading.block(), out)?;
                let is_current = log.are_current(std::slice::from_ref(reading));
                self.tallies().mine().healed(u64::from(is_current));
                Ok(is_current)
            }
            Err(error) => Err(self.error(error)),
        }
    }

    /// Neighbours that were missing, by one request.
    fn read_missing(&self, log: &Log, readings: &[Reading], out: &mut [u8]) -> Result<()> {
        self.read_backing(readings[0].block(), out)?;
        for (reading, bytes) in readings.iter().zip(out.chunks_exact_mut(PAGE_BYTES)) {
            match log.are_current(std::slice::from_ref(reading)) {
                true => self.note_miss(reading, bytes),
                false => self.read_again(log, reading.block(), bytes)?,
            }
        }
        Ok(())
    }
}
