//! Reading: what the log has from the SSD, the rest from the backing, and both only if nothing has changed meanwhile.

use forebay_log::{Found, Log, LogError, PAGE_BYTES, Reading};

use super::volume::SsdVolume;
use crate::error::Result;

/// Blocks that one request to the backing brings, or one batch of the device.
const RUN_BLOCKS_MAX: usize = 256;
/// Reads of several blocks at one moment, before other threads get a turn in between.
const ATTEMPTS: u32 = 64;

fn is_missing(reading: &Reading) -> bool {
    reading.found() == Found::Backing
}

/// Blocks side by side that are read together: all missing, or none.
fn runs(readings: &[Reading]) -> impl Iterator<Item = &[Reading]> {
    let runs = readings.chunk_by(|a, b| is_missing(a) == is_missing(b));
    runs.flat_map(|run| run.chunks(RUN_BLOCKS_MAX))
}

impl SsdVolume {
    pub(crate) fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.check_blocks(block, out.len())?;
        let (_entered, log) = self.enter()?;
        let count = out.len() / PAGE_BYTES;
        let readings = log.begin_reads(self.number(), block, count as u64);
        let mut rest = out;
        for run in runs(&readings) {
            let (bytes, behind) = rest.split_at_mut(run.len() * PAGE_BYTES);
            rest = behind;
            match run {
                _ if is_missing(&run[0]) => self.read_missing(&log, run, bytes)?,
                [only] => self.read_begun(&log, only, bytes)?,
                several => self.read_several(&log, several, bytes)?,
            }
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
            if self.read_all_once(&log, &readings, out)? && log.are_current(&readings) {
                return Ok(());
            }
            if attempt.is_multiple_of(ATTEMPTS) {
                std::thread::yield_now();
            }
        }
        unreachable!("it returns before the counter wraps")
    }

    /// Reads from where the blocks were; false if one has changed meanwhile.
    fn read_all_once(&self, log: &Log, readings: &[Reading], out: &mut [u8]) -> Result<bool> {
        let (mut is_read, mut rest) = (true, out);
        for run in runs(readings) {
            let (bytes, behind) = rest.split_at_mut(run.len() * PAGE_BYTES);
            rest = behind;
            if run.len() > 1 && !is_missing(&run[0]) {
                let finished = log.finish_reads(run, bytes);
                let blocks = bytes.chunks_exact_mut(PAGE_BYTES);
                for ((reading, bytes), finished) in run.iter().zip(blocks).zip(finished) {
                    is_read &= self.settle(log, reading, (bytes, finished))?;
                }
                continue;
            }
            for (reading, bytes) in run.iter().zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
                is_read &= self.read_once(log, reading, bytes)?;
            }
        }
        Ok(is_read)
    }

    /// Blocks that the log has, by one batch of its device; those that have changed meanwhile once more, each by itself.
    fn read_several(&self, log: &Log, readings: &[Reading], out: &mut [u8]) -> Result<()> {
        let finished = log.finish_reads(readings, out);
        let blocks = out.chunks_exact_mut(PAGE_BYTES);
        for ((reading, bytes), finished) in readings.iter().zip(blocks).zip(finished) {
            if !self.settle(log, reading, (bytes, finished))? {
                self.read_again(log, reading.block(), bytes)?;
            }
        }
        Ok(())
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
        if is_missing(reading) {
            self.read_backing(reading.block(), out)?;
            let is_current = log.are_current(std::slice::from_ref(reading));
            if is_current {
                self.note_miss(reading, out);
            }
            return Ok(is_current);
        }
        let finished = log.finish_read(reading, out);
        self.settle(log, reading, (out, finished))
    }

    /// What a block of the log is to its reader; false if it has changed meanwhile.
    fn settle(
        &self,
        log: &Log,
        reading: &Reading,
        (out, finished): (&mut [u8], Result<Option<Found>, LogError>),
    ) -> Result<bool> {
        match finished {
            Ok(found) => {
                if log.has_repairs() {
                    self.shared().work.wake();
                }
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
