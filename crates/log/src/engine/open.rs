//! Opening: what a crash has left is found, made durable, sealed, and only then does a new incarnation begin.

use super::core::{Log, Options, State};
use super::load::{Loader, Loads};
use super::pages::{first_of, read_pages};
use super::turns::Turns;
use super::volume_table::VolumeTable;
use crate::device::{Device, copies};
use crate::error::{LogError, Result};
use crate::media::{
    DEPTH_MAX, INCARNATION_PAGE, IncarnationLine, SUPERBLOCK_PAGE, Salt, Superblock, VolumeRow,
};
use crate::mutants::{Mutant, mutated};
use crate::page::Pages;
use crate::state::Repairs;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};

/// A number from the system, or made of `seed`.
pub(super) fn draw(seed: Option<u64>, number: u64) -> std::io::Result<u64> {
    if let Some(seed) = seed {
        return Ok(Salt(seed).tag(number, 0));
    }
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// A number that tells a new member of a mirror from all others.
///
/// # Errors
/// The system has none.
pub fn draw_id() -> std::io::Result<u64> {
    draw(None, 0)
}

/// Opens the pool on a device. A crash on the way leaves what the next opening finds to be the same.
///
/// # Errors
/// There is no pool, it is damaged, or the device fails.
pub fn open(device: Arc<dyn Device>, options: Options) -> Result<Log> {
    if !(1..=DEPTH_MAX).contains(&options.depth) {
        return Err(LogError::Unsuitable {
            path: device.path().to_owned(),
            reason: format!(
                "1 to {DEPTH_MAX} groups may be under way, not {}",
                options.depth
            ),
        });
    }
    let superblock = superblock_of(&*device)?;
    refuse_lone_member(&*device, &superblock)?;
    let (uuid, geometry) = (superblock.uuid, superblock.geometry);
    let line = last_line(&*device, uuid)?;
    let loader = Loader {
        device: &*device,
        uuid,
        geometry,
        line,
    };
    let (loads, volumes) = loop {
        let loads = loader.find()?;
        // A row that is seen is made durable with the rest of what is, by the flush below.
        let volumes = VolumeTable::read(&*device, uuid, geometry)?;
        // A member that does not take its part is out, and the other one has all of this.
        if loader.equalise(&loads)? {
            break (loads, volumes);
        }
    };
    let mut state = State::replayed(geometry, &loads, &options);
    loader.read_patches(&mut state);
    let mut log = Log {
        device: device.clone(),
        uuid,
        is_test: superblock.is_test,
        has_inline: superblock.has_inline,
        geometry,
        incarnation: line,
        options,
        state: Mutex::new(state),
        backings: RwLock::new(BTreeMap::new()),
        flushing: Mutex::new(()),
        turns: Turns::default(),
        cleaned: AtomicU64::new(0),
        has_new_backing: AtomicBool::new(false),
        has_rest: AtomicBool::new(false),
        repairs: Repairs::default(),
        volumes: Mutex::new(volumes),
    };
    log.seal_last(loads)?;
    log.begin_incarnation()?;
    Ok(log)
}

/// Identity and volume table of a pool that may be in use: nothing is recovered.
///
/// # Errors
/// There is no pool, or its table is damaged.
pub fn look(device: &dyn Device) -> Result<(u128, Vec<VolumeRow>)> {
    let superblock = superblock_of(device)?;
    let (uuid, geometry) = (superblock.uuid, superblock.geometry);
    Ok((uuid, VolumeTable::read(device, uuid, geometry)?.rows()))
}

fn superblock_of(device: &dyn Device) -> Result<Superblock> {
    let mut why = None;
    let superblock = first_of(device, |copy| {
        let page = read_pages(copy, SUPERBLOCK_PAGE, 1)?;
        let superblock = Superblock::decode(&page, copy.pages());
        Ok(superblock.map_err(|found| why = Some(found)).ok())
    })?;
    superblock.ok_or_else(|| LogError::NoPool {
        path: device.path().to_owned(),
        found: why.unwrap_or_default(),
    })
}

/// A member of a mirror alone, taken for a whole pool, would go on without a roster that says so.
fn refuse_lone_member(device: &dyn Device, superblock: &Superblock) -> Result<()> {
    match superblock.is_mirrored == device.members().is_some() {
        true => Ok(()),
        false => Err(LogError::Unsuitable {
            path: device.path().to_owned(),
            reason: "it is a member of a mirror, or no member of one; open it as what it is".into(),
        }),
    }
}

/// The line of the last incarnation.
fn last_line(device: &dyn Device, uuid: u128) -> Result<IncarnationLine> {
    let mut last: Option<IncarnationLine> = None;
    for page in [INCARNATION_PAGE, INCARNATION_PAGE + 1] {
        let (mut failed, mut is_read) = (None, false);
        for copy in copies(device) {
            let line = match read_pages(copy, page, 1) {
                Ok(bytes) => IncarnationLine::decode(uuid, &bytes),
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            is_read = true;
            let is_later =
                |line: &IncarnationLine| last.is_none_or(|last| line.number > last.number);
            last = line.filter(is_later).or(last);
        }
        // An incarnation that was served has its line on every copy.
        if let Some(error) = failed.filter(|_| !is_read) {
            return Err(error);
        }
    }
    last.ok_or_else(|| LogError::Damaged {
        path: device.path().to_owned(),
        found: "neither of its incarnation lines holds".into(),
    })
}

impl Log {
    /// What was found is made durable, and then the newest segment gets the summary that it lacks.
    fn seal_last(&self, mut loads: Loads) -> Result<()> {
        let is_left_out = mutated(Mutant::SsdRecoveryWithoutFlush)
            || mutated(Mutant::SsdMirrorEqualisedUnsynced) && self.device.members().is_some();
        if !is_left_out {
            // After a kill, what was read may lie in the device's cache alone. A summary that lists it must not outlive it, so
            // this comes first. So may the roster, and what was made equal does.
            let flushed = self.device.flush();
            flushed.map_err(self.failed("flush it"))?;
        }
        let last = loads.segments.pop().filter(|last| !last.is_sealed);
        let Some(last) = last.filter(|_| !mutated(Mutant::SsdIncarnationWithoutSeal)) else {
            return Ok(());
        };
        let (page, summary) = self.summary(last.contents, &self.lock(), false);
        let written = self.device.write_durable(page, &[&summary]);
        written.map_err(self.failed("write a summary"))
    }

    /// From here on groups of earlier incarnations do not count: all that did are in summaries.
    fn begin_incarnation(&mut self) -> Result<()> {
        let number = self.incarnation.number + 1;
        let salt = match mutated(Mutant::SsdSaltOfOldLap) {
            true => Ok(1),
            false => draw(self.options.seed, number),
        };
        let line = IncarnationLine {
            number,
            salt: Salt(salt.map_err(self.failed("draw a secret for it"))?),
            first_segment: self.lock().next_segment,
            depth: self.options.depth,
        };
        let mut page = Pages::zeroed(1);
        line.encode(self.uuid, &mut page);
        // The other line stays: it is the last one until this is durable.
        let place = INCARNATION_PAGE + number % 2;
        let written = self.device.write_durable(place, &[&page]);
        written.map_err(self.failed("write its incarnation"))?;
        self.incarnation = line;
        Ok(())
    }

    /// Ends the pool's use: the next opening reads summaries alone.
    ///
    /// # Errors
    /// The device fails, or failed earlier. Everything acknowledged is safe all the same.
    ///
    /// # Panics
    /// A transaction that was staged is still waited for.
    pub fn close(self) -> Result<()> {
        // The summary lists what was only written, too.
        self.sync()?;
        let mut state = self.lock();
        if let Some(why) = &state.poisoned {
            return Err(self.poisoned(why));
        }
        assert!(
            state.queue.is_empty() && state.flights.is_empty(),
            "nobody commits while the log is closed"
        );
        let Some(head) = state.head.take() else {
            return Ok(());
        };
        let (page, summary) = self.summary(head.contents, &state, true);
        drop(state);
        let written = self.device.write_durable(page, &[&summary]);
        written.map_err(self.failed("write a summary"))
    }
}
