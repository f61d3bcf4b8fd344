//! A pool at work: its device, its disks, what has joined and what is acknowledged.

mod unsynced;

use super::disk::{Disk, DiskState};
use super::fresh::{begin, row_of};
use super::oracle::{Oracle, place};
use super::rows::{Rows, path_of};
use super::script::{Change, Script, Step, VOLUMES, transaction};
use super::verify::{Left, Verifier, open_pool, read_all};
use crate::content::noise;
use forebay_log::shadow::{Fault, Image, ShadowDevice, ShadowState, WriteId};
use forebay_log::{
    Flight, Found, Log, LogError, Options, PAGE_BYTES, Reading, Recycling, Round, Ticket,
    VolumeRow, create,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A moment's crash is looked at in one of so many; one that leaves nothing in doubt in one of so many.
const MOMENT_ONE_IN: u8 = 3;
const SETTLED_ONE_IN: u8 = 12;

/// What a crash has left, and what it may be.
pub struct Crash {
    left: Left,
    oracle: Oracle,
}

/// The device at a moment at which it may crash, and the disks.
type Moment = (ShadowState, Vec<DiskState>);

/// A read that is not finished.
struct SlowRead {
    reading: Reading,
    place: usize,
    /// What the block was, as readers see it, since it began.
    seen: Vec<Arc<Vec<u8>>>,
}

/// Write-back or recycling under way, and how far it is.
enum Maintenance {
    None,
    RoundBegun(Round),
    RoundWritten(Round),
    Cleaning(Recycling),
    Carrying(Recycling),
    Released,
}

/// The pool.
pub struct World {
    device: Arc<ShadowDevice>,
    disks: Vec<Arc<Disk>>,
    log: Option<Log>,
    unit: usize,
    oracle: Oracle,
    flights: Vec<(Flight, WriteId)>,
    /// Of what is not durable, in the order in which they joined.
    tickets: VecDeque<Ticket>,
    /// So many of the oldest are of what is written.
    written: usize,
    slow: Option<SlowRead>,
    maintenance: Maintenance,
    moments: Arc<Mutex<Vec<Moment>>>,
    has_failed: bool,
    steps_failed: usize,
}

impl Crash {
    /// A pool that was just made, in front of disks that hold something.
    pub fn fresh(script: &Script, seed: u64) -> Result<Crash, String> {
        let pages = script.segment_pages * (script.segments + 1);
        let state = ShadowState::new(Image::zeroed(pages as usize), script.unit);
        let device = Arc::new(ShadowDevice::new(state));
        let options = Options {
            seed: Some(seed),
            segment_pages: Some(script.segment_pages),
            ..Options::default()
        };
        let log = create(device.clone(), options).map_err(|error| error.to_string())?;
        let (oracle, disks) = begin(log, seed)?;
        Ok(Crash {
            oracle,
            left: Left {
                device: device.state(),
                disks,
                is_killed: false,
                keeps_written: true,
            },
        })
    }
}

impl World {
    /// Opens what a crash has left.
    pub fn open(crash: Crash, script: &Script, seed: u64) -> Result<World, String> {
        let Crash { left, oracle } = crash;
        let keeps_written = left.keeps_written;
        let disks = left.open_disks();
        let device = Arc::new(ShadowDevice::new(left.device));
        let options = Options {
            depth: script.depth,
            seed: Some(seed),
            zeroed_at_once_blocks: script.zeroed_at_once,
            patches_max: Some(script.patches_max),
            // What hides behind memory, and what memory has wrong.
            keeps_recent: seed.is_multiple_of(2),
            ..Options::default()
        };
        let log = script.serve(open_pool(&device, &disks, options)?);
        let found = oracle.find(&read_all(&log, &disks)?, keeps_written)?;
        let rows = log.volumes();
        oracle.rows.check(&rows)?;
        let moments = Arc::new(Mutex::new(Vec::new()));
        let (noted, beside) = (moments.clone(), disks.clone());
        device.observe(Some(Box::new(move |state: &ShadowState| {
            let disks = beside.iter().map(|disk| disk.state()).collect();
            noted.lock().expect("alone").push((state.clone(), disks));
        })));
        Ok(World {
            device,
            disks,
            log: Some(log),
            unit: script.unit,
            oracle: Oracle::new(found, Rows::new(rows)).after(&oracle),
            flights: Vec::new(),
            tickets: VecDeque::new(),
            written: 0,
            slow: None,
            maintenance: Maintenance::None,
            moments,
            has_failed: false,
            steps_failed: 0,
        })
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("it is open")
    }

    /// Whether a write has failed, and some steps more have been tried.
    pub fn is_poisoned(&self) -> bool {
        self.steps_failed > 4
    }

    /// Does a step.
    pub fn act(&mut self, step: &Step, verifier: &mut Verifier<'_>) -> Result<(), String> {
        self.steps_failed += usize::from(self.has_failed);
        match step {
            Step::Join(changes) => self.join(changes, Log::stage, verifier)?,
            Step::JoinUnsynced(changes) => self.join(changes, Log::stage_unsynced, verifier)?,
            Step::CommitUnsynced(changes) => self.commit_unsynced(changes, verifier)?,
            Step::Sync => self.sync(verifier)?,
            Step::SyncFails(fault) => self.fail_sync(*fault, verifier)?,
            Step::Submit => self.submit(),
            Step::Complete(pick) => self.complete(*pick, verifier)?,
            Step::Fail(pick, fault) => self.fail(*pick, *fault, verifier)?,
            Step::Commit(changes) => self.commit(changes, verifier)?,
            Step::Read(volume, block) => self.read(*volume, *block)?,
            Step::ReadSlowly(volume, block) => self.read_slowly(*volume, *block)?,
            Step::Fill(volume, block) => self.fill(*volume, *block)?,
            Step::WriteBack(volume) => self.write_back(*volume)?,
            Step::Recycle => self.recycle()?,
            Step::Forget(volume, block, seed) => self.forget((*volume, *block, *seed), verifier)?,
            Step::CleanAhead => self.clean(Log::clean_ahead)?,
            Step::ZeroRest => self.clean(Log::zero_rest)?,
            Step::Swap(volume, block, seed) => self.swap((*volume, *block, *seed), verifier)?,
            Step::Grow(volume, bytes) => self.grow(*volume, *bytes, verifier)?,
            Step::WritePast(volume, block, seed) => self.write_past((*volume, *block, *seed)),
            Step::FailDisks(fails) => self.disks.iter().for_each(|disk| disk.set_fails(*fails)),
        }
        self.crash(verifier)?;
        self.acknowledge();
        Ok(())
    }

    fn disk_states(&self) -> Vec<DiskState> {
        self.disks.iter().map(|disk| disk.state()).collect()
    }

    /// Verifies some of what crashes at the moments since the last time could have left.
    fn crash(&mut self, verifier: &mut Verifier<'_>) -> Result<(), String> {
        let mut moments = std::mem::take(&mut *self.moments.lock().expect("alone"));
        let now = self.disk_states();
        let has_disks_pending = now.iter().any(DiskState::has_pending);
        moments.push((self.device.state(), now));
        for (moment, disks) in moments {
            let one_in = match moment.has_pending() || has_disks_pending {
                true => MOMENT_ONE_IN,
                false => SETTLED_ONE_IN,
            };
            if verifier.is_over || verifier.rng.u8(..one_in) > 0 {
                continue;
            }
            let is_killed = verifier.rng.u8(..3) == 0;
            let left = Left::of(&moment, &disks, is_killed, (&mut verifier.rng, self.unit));
            verifier.verify(&left, &self.oracle, (self.unit, 0))?;
        }
        Ok(())
    }

    fn submit(&mut self) {
        let Some(flight) = self.log().take_group() else {
            return;
        };
        let sealed = flight.write_seal(&*self.device);
        sealed.expect("nothing makes it fail");
        let id = self
            .device
            .submit(flight.page(), &flight.parts(), flight.is_durable());
        self.flights.push((flight, id));
    }

    fn take_flight(&mut self, pick: usize) -> Option<(Flight, WriteId)> {
        let count = self.flights.len();
        (count > 0).then(|| self.flights.remove(pick % count))
    }

    fn complete(&mut self, pick: usize, verifier: &mut Verifier<'_>) -> Result<(), String> {
        let Some((flight, id)) = self.take_flight(pick) else {
            return Ok(());
        };
        self.device.complete(id);
        self.crash(verifier)?;
        self.flush_behind(&flight, verifier)?;
        let finished = self.log().finish(&flight, Ok(()), Duration::ZERO);
        finished.map_err(|error| error.to_string())?;
        self.acknowledge();
        Ok(())
    }

    fn fail(
        &mut self,
        pick: usize,
        fault: Fault,
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        let Some((flight, id)) = self.take_flight(pick) else {
            return Ok(());
        };
        let error = self.device.complete_with(id, fault);
        self.crash(verifier)?;
        self.has_failed = true;
        let finished = self.log().finish(&flight, Err(error), Duration::ZERO);
        match finished {
            Err(LogError::Device { .. }) => Ok(()),
            _ => Err("a write has failed and nobody is told".into()),
        }
    }

    /// Everything that has joined goes to the device and comes back.
    fn drain(&mut self, verifier: &mut Verifier<'_>) -> Result<(), String> {
        loop {
            self.submit();
            if self.flights.is_empty() {
                return Ok(());
            }
            self.complete(0, verifier)?;
            self.crash(verifier)?;
        }
    }

    fn commit(&mut self, changes: &[Change], verifier: &mut Verifier<'_>) -> Result<(), String> {
        if !self.flights.is_empty() {
            return Ok(());
        }
        let before = self.oracle.clone();
        self.oracle.join(changes);
        match self.log().commit(transaction(changes)) {
            Ok(()) => {
                self.crash(verifier)?;
                // All that joined before is, too.
                self.acknowledge_first(self.tickets.len());
                self.oracle.acknowledge();
                Ok(())
            }
            Err(LogError::NoRoom { .. }) => {
                self.oracle = before;
                self.make_room(verifier)
            }
            Err(LogError::Poisoned { .. }) if self.has_failed => {
                self.oracle = before;
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// As a thread does that found no room.
    fn make_room(&mut self, verifier: &mut Verifier<'_>) -> Result<(), String> {
        self.end_turn();
        self.drain(verifier)?;
        if self.has_failed {
            return Ok(());
        }
        match self.log().recycle() {
            Ok(_) | Err(LogError::Backing { .. } | LogError::NoRoom { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn read(&mut self, volume: u32, block: u64) -> Result<(), String> {
        let mut bytes = vec![0; PAGE_BYTES];
        let read = self.log().read(volume, block, &mut bytes);
        read.map_err(|error| error.to_string())?;
        match *self.oracle.published()[place(volume, block)] == bytes {
            true => Ok(()),
            false => Err("a read sees something else than was acknowledged last".into()),
        }
    }

    fn read_slowly(&mut self, volume: u32, block: u64) -> Result<(), String> {
        if let Some(slow) = self.slow.take() {
            let mut bytes = vec![0; PAGE_BYTES];
            let several = std::slice::from_ref(&slow.reading);
            let read = self.log().finish_reads(several, &mut bytes).pop();
            let read = read.expect("an answer for each");
            let read = read.map_err(|error| format!("a slow read: {error}"))?;
            if read.is_some() && !slow.seen.iter().any(|seen| **seen == bytes) {
                return Err("a slow read sees what the block was at no time".into());
            }
        }
        let place = place(volume, block);
        self.slow = Some(SlowRead {
            reading: self.log().begin_read(volume, block),
            place,
            seen: vec![self.oracle.published()[place].clone()],
        });
        Ok(())
    }

    fn fill(&mut self, volume: u32, block: u64) -> Result<(), String> {
        let reading = self.log().begin_read(volume, block);
        if reading.found() != Found::Backing {
            return Ok(());
        }
        let mut bytes = vec![0; PAGE_BYTES];
        let read = self.log().finish_read(&reading, &mut bytes);
        read.map_err(|error| error.to_string())?;
        let version = reading.version();
        match self.log().stage_fill(volume, block, &bytes, version) {
            Ok(Some(ticket)) => self.note_join(ticket, &[]),
            Ok(None) | Err(LogError::NoRoom { .. } | LogError::Poisoned { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Others have a turn: what is under way ends, but a round that has nothing written and unsynced goes on after it.
    fn end_turn(&mut self) {
        if !matches!(self.maintenance, Maintenance::RoundBegun(_)) {
            self.maintenance = Maintenance::None;
        }
    }

    fn write_back(&mut self, volume: u32) -> Result<(), String> {
        self.maintenance = match std::mem::replace(&mut self.maintenance, Maintenance::None) {
            Maintenance::None => Maintenance::RoundBegun(self.log().begin_round(volume)),
            Maintenance::RoundBegun(mut round) => {
                match self.log().write_round(&mut round) {
                    Ok(()) => Maintenance::RoundWritten(round),
                    // What a failed flush left in doubt is brought to no disk.
                    Err(LogError::Poisoned { .. }) if self.has_failed => Maintenance::None,
                    Err(error) => return Err(error.to_string()),
                }
            }
            Maintenance::RoundWritten(round) => {
                match self.log().finish_round(round) {
                    Ok(()) | Err(LogError::Backing { .. }) => {}
                    Err(error) => return Err(error.to_string()),
                }
                Maintenance::None
            }
            other => other,
        };
        Ok(())
    }

    fn recycle(&mut self) -> Result<(), String> {
        self.maintenance = match std::mem::replace(&mut self.maintenance, Maintenance::None) {
            Maintenance::None => match self.log().begin_recycling() {
                Ok(Some(recycling)) => Maintenance::Cleaning(recycling),
                Ok(None) => Maintenance::None,
                Err(LogError::Poisoned { .. }) if self.has_failed => Maintenance::None,
                Err(error) => return Err(error.to_string()),
            },
            Maintenance::Cleaning(recycling)
                // Published first, as by the thread that recycles.
                if !self.has_failed && self.has_patch_staged(&recycling)? =>
            {
                Maintenance::Cleaning(recycling)
            }
            Maintenance::Cleaning(mut recycling) => {
                match self.log().clean_segment(&mut recycling) {
                    Ok(_) => Maintenance::Carrying(recycling),
                    Err(LogError::Poisoned { .. }) if self.has_failed => Maintenance::None,
                    Err(error) => return Err(error.to_string()),
                }
            }
            Maintenance::Carrying(recycling) => self.carry_or_release(recycling)?,
            // The next group says so as well.
            Maintenance::Released if self.tickets.len() > 1 => Maintenance::None,
            Maintenance::Released => {
                match self.log().stage_tail() {
                    Ok(ticket) => self.note_join(ticket, &[]),
                    Err(LogError::Poisoned { .. }) if self.has_failed => {}
                    Err(error) => return Err(error.to_string()),
                }
                Maintenance::None
            }
            round => round,
        };
        Ok(())
    }

    fn has_patch_staged(&self, recycling: &Recycling) -> Result<bool, String> {
        let is_staged = self.log().has_patch_staged(recycling);
        is_staged.map_err(|error| error.to_string())
    }

    fn carry_or_release(&mut self, mut recycling: Recycling) -> Result<Maintenance, String> {
        match self.log().carry(&mut recycling) {
            Ok(Some(ticket)) => {
                self.note_join(ticket, &[]);
                Ok(Maintenance::Carrying(recycling))
            }
            Ok(None) => {
                match self.log().release(&recycling) {
                    true => Ok(Maintenance::Released),
                    // What is staged over it has to be published first.
                    false => Ok(Maintenance::None),
                }
            }
            Err(LogError::NoRoom { .. }) => Ok(Maintenance::None),
            Err(LogError::Poisoned { .. }) if self.has_failed => Ok(Maintenance::None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Somebody else writes a block of a disk, of which the pool has nothing.
    fn others_write(&mut self, volume: u32, block: u64, seed: u64) {
        let bytes = Arc::new(noise(seed, PAGE_BYTES));
        self.disks[volume as usize - 1].change(block as usize, bytes.clone());
        // A read that began before may see either.
        self.slow = None;
        self.oracle.change(place(volume, block), &bytes);
    }

    /// As the file buffer does with what the pool does not have; it never discards that, and a range of zeroes may come back.
    fn write_past(&mut self, (volume, block, seed): (u32, u64, u64)) {
        if !self.oracle.was_zeroed(place(volume, block)) && !self.log().may_have(volume, block) {
            self.others_write(volume, block, seed);
        }
    }

    fn clean(&mut self, some: impl Fn(&Log) -> Result<bool, LogError>) -> Result<(), String> {
        self.end_turn();
        match some(self.log()) {
            Ok(_) | Err(LogError::Backing { .. }) => Ok(()),
            Err(LogError::Poisoned { .. }) if self.has_failed => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A row is written: a crash on the way leaves the old one or this one.
    fn write_row(&mut self, row: VolumeRow, verifier: &mut Verifier<'_>) -> Result<(), String> {
        let number = row.number;
        self.oracle.rows.begin(row.clone());
        let written = match row.is_attached {
            true => self.log().write_volume(&row),
            false => self.log().free_volume(&row),
        };
        written.map_err(|error| error.to_string())?;
        self.crash(verifier)?;
        self.oracle.rows.end(number);
        Ok(())
    }

    fn grow(
        &mut self,
        volume: u32,
        size_bytes: u64,
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        let row = self.oracle.rows.current(volume).clone();
        let row = VolumeRow {
            size_bytes,
            path: path_of(size_bytes),
            ..row
        };
        self.write_row(row, verifier)
    }

    /// A volume goes, somebody else writes one of its blocks, and the next volume of its number finds that.
    fn swap(
        &mut self,
        (volume, block, seed): (u32, u64, u64),
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        self.end_turn();
        self.drain(verifier)?;
        if self.has_failed || self.log().write_back(volume).is_err() {
            return Ok(());
        }
        match self.log().empty_volume(volume) {
            Ok(()) => {}
            Err(LogError::NoRoom { .. }) => return self.make_room(verifier),
            Err(error) => return Err(error.to_string()),
        }
        self.crash(verifier)?;
        let row = self.oracle.rows.current(volume).clone();
        let id = row.id;
        let freed = VolumeRow {
            is_attached: false,
            ..row
        };
        self.write_row(freed, verifier)?;
        self.others_write(volume, block, seed);
        self.write_row(row_of(volume, id + 128), verifier)?;
        let disk = self.disks[volume as usize - 1].clone();
        self.log().attach(volume, disk);
        Ok(())
    }

    /// As a pool does before it is closed: what can be is on the disks, and a record says so where there is room for one.
    fn write_points(&self) -> Result<(), String> {
        let log = self.log();
        for volume in 1..=VOLUMES {
            match log.write_back(volume) {
                Ok(()) | Err(LogError::Backing { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        match log.stage_points().and_then(|points| log.wait(&points)) {
            Ok(()) | Err(LogError::NoRoom { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The incarnation ends: closed in order, killed, or by a power cut.
    pub fn end(mut self, rng: &mut fastrand::Rng) -> Result<Crash, String> {
        let is_written = self.written == self.tickets.len();
        let is_idle = self.flights.is_empty() && is_written && !self.has_failed;
        if is_idle && rng.u8(..4) == 0 {
            if rng.bool() {
                self.write_points()?;
            }
            let log = self.log.take().expect("it is open");
            log.close().map_err(|error| error.to_string())?;
            self.acknowledge_first(self.written);
        }
        let disks = self.disk_states();
        let is_killed = rng.bool();
        let left = Left::of(&self.device.state(), &disks, is_killed, (rng, self.unit));
        Ok(Crash {
            left,
            oracle: self.oracle,
        })
    }
}
